// -- programs: a plan on a device, to run, to read from, to write to

import { checkLimits, needsOf } from "./adapter.js";
import { allocated, commandsOf } from "./commands.js";
import { ShadergradError, absent } from "./errors.js";
import { converted } from "./numbers.js";
import { FORMAT, checked, described, fetched, keyOf, planOf, rowOf, shortName } from "./plan.js";
import { Readback } from "./readback.js";
import { Batch, clockOf, gpuTimeIn, submitted, valuesIn } from "./run.js";
import { metadataOf, readTensors } from "./safetensors.js";
import { Session } from "./session.js";
import { enter, matched, saved } from "./state.js";

/** @typedef {import("./numbers.js").Numbers} Numbers */
/** @typedef {import("./numbers.js").Given} Given */
/** @typedef {import("./plan.js").Exported} Exported */
/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./plan.js").Requires} Requires */
/** @typedef {import("./session.js").DeviceOptions} DeviceOptions */
/** @typedef {import("./session.js").Held} Held */
/**
 * @typedef {object} LoadOptions
 * @property {string | ArrayBuffer | null} [state] the state to begin with: an address or a file; by default the exported one
 * @property {Program} [share] another program on whose device, and with whose parameters and state, this one works
 * @property {(compiled: number, of: number) => void} [onkernel] told when a kernel is compiled, and how many there are
 */
/** @typedef {DeviceOptions & LoadOptions} Options */

/** A plan on a device. */
export class Program {
  /** Steps run since it was loaded. */
  steps = 0;
  /** Milliseconds that the GPU took for the step that came back last; null where the browser does not say. @type {number | null} */
  gpuTime = null;
  /** Plans that the GPU was to run and refused, and why; `plan` is the one that runs. @type {{plan: string, reason: string}[]} */
  refused = [];
  /** The plan that runs. @type {Plan} */
  plan = /** @type {any} */ (null);
  /** The arguments of a run, by name. @type {Map<string, number>} */ _arguments = new Map();
  /** The results of a run, by name. @type {Map<string, number>} */ _results = new Map();
  _faulting = -1;
  /** @type {Requires | null} */ _requires = null;
  _kept = 0;
  /** @type {URL} */ _address = /** @type {any} */ (null);
  /** @type {import("./run.js").Ready} */ #ready = /** @type {any} */ (null);
  #readback = new Readback();
  /** @type {((value: unknown) => void)[]} */ #waiting = [];
  #underWay = 0;

  /** @param {Exported} exported @param {Session} session */
  constructor(exported, session) {
    this._exported = exported;
    this._session = session;
    this._take({ ...exported.plan, name: "portable" });
  }

  /** Runs this plan from now on. @param {Plan} plan @param {Requires | null} [requires] */
  _take(plan, requires = null) {
    this.plan = plan;
    this._requires = requires;
    const rows = plan.buffers;
    const named = (/** @type {number[]} */ list, /** @type {string} */ role) => list.filter((row) => rows[row].role === role);
    this._arguments = new Map(named(plan.inputs, "argument").map((row) => [rows[row].name, row]));
    this._results = new Map(named(plan.outputs, "result").map((row) => [shortName(rows[row].name), row]));
    this._faulting = rows.findIndex((spec) => spec.role === "fault");
  }

  /**
   * Loads a plan, its state, and compiles its kernels.
   * @param {string | URL} url of the plan @param {Options} [options] @returns {Promise<Program>}
   */
  static async load(url, options = {}) {
    const address = new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href);
    const exported = /** @type {Exported} */ (await (await fetched(address)).json().catch(() => null));
    if (exported?.format !== FORMAT)
      throw new ShadergradError(`[load] ${address} is no plan of format ${FORMAT}. Hint: export it again with the same version as runtime.js.`);
    const beside = options.state === undefined ? exported.state : options.state;
    const file = typeof beside === "string" ? await (await fetched(new URL(beside, address))).arrayBuffer() : beside;
    const session = options.share?._session ?? new Session(options);
    const program = new this(exported, session);
    program._address = address;
    const manifests = checked(exported.plans ?? [], address);
    await program._enter(file ? readTensors(file) : new Map());
    for (const manifest of await session.suitable(manifests)) {
      if (manifest) program._take(await planOf(manifest, exported, address), manifest.requires);
      if (!session.device) [session.needs, session.features] = [{ ...needsOf(program.plan), ...manifest?.requires.limits }, manifest?.requires.features ?? []];
      try {
        await program._begin(options.onkernel);
        break;
      } catch (error) {
        if (!manifest || session.options.plan) throw error;
        if (!options.share) session.abandon();
        program._refuse(/** @type {Error} */ (error));
      }
    }
    return program;
  }

  /** Goes on with the portable plan, and says so. @param {Error} error of the device */
  _refuse(error) {
    const plan = this.plan.name;
    this.refused.push({ plan, reason: error.message });
    console.warn(`[load] the GPU refuses the plan ${plan}, and another is tried: ${error.message}`);
    this._take({ ...this._exported.plan, name: "portable" });
  }

  /** Names, shapes and dtypes of the arguments that `run` takes. */
  get arguments() {
    return described(this.plan, this._arguments);
  }

  /** Names, shapes and dtypes of the results that `run` gives. */
  get results() {
    return described(this.plan, this._results);
  }

  /** The GPU, as the browser calls it. */
  get adapter() {
    return this._session.adapter;
  }

  /** The device; another one after a loss. */
  get device() {
    return this._session.device;
  }

  /**
   * One run: a training step, for one. Several may be called without waiting; they run in order, a few at a time.
   * @param {Record<string, Given> | Batch} [inputs] by name; they may not change until the promise is kept
   * @param {{results?: string[]}} [options] which results to read, by default all
   * @returns {Promise<Record<string, any>>} results by name: typed arrays, and numbers where a result is one
   */
  async run(inputs = {}, options = {}) {
    const batch = inputs instanceof Batch ? inputs : null;
    const values = this.#converted("run", batch?._inputs ?? inputs);
    const wanted = (options.results ?? [...this._results.keys()]).map((name) => this.#result(name));
    // a place among the steps under way, in the order of asking
    if (++this.#underWay > (this._session.options.inFlight ?? 32)) await new Promise((resolve) => this.#waiting.push(resolve));
    try {
      return await this._session.doing(() => this._once(values, wanted, batch));
    } finally {
      this.#underWay--;
      this.#waiting.shift()?.(null);
    }
  }

  /**
   * Inputs for several runs. Later changes of the arrays do not reach it.
   * @param {Record<string, Given>} inputs by name
   */
  batch(inputs) {
    return new Batch(Object.fromEntries(this.#converted("batch", inputs).map(([row, data]) => [this.plan.buffers[row].name, data.slice()])));
  }

  /** The numbers for each argument's row. @param {string} what @param {any} inputs @returns {[number, Numbers][]} */
  #converted(what, inputs) {
    for (const name of Object.keys(inputs))
      if (!this._arguments.has(name)) throw absent(what, `argument ${name}`, this._arguments.keys());
    return [...this._arguments].map(([name, row]) => {
      if (inputs[name] === undefined) throw new ShadergradError(`[${what}] the argument ${name} is missing.`);
      return [row, converted(what, this.plan.buffers[row], inputs[name])];
    });
  }

  /** @param {string} name @returns {[string, number]} */
  #result(name) {
    const row = this._results.get(name);
    if (row === undefined) throw absent("run", `result ${name}`, this._results.keys());
    return [name, row];
  }

  /** @param {[number, Numbers][]} values @param {[string, number][]} wanted @param {Batch | null} batch that has the values @returns {Promise<Record<string, any>>} */
  async _once(values, wanted, batch) {
    const session = this._session;
    if (session.error) throw new ShadergradError(`[run] the GPU reports an error: ${session.error}`);
    // after a loss it is another one
    const ready = this.#ready;
    const { staging, begin, places } = submitted(session, this.plan, ready, this.#readback, this._faulting, values, wanted, batch);
    this.steps++;
    if (session.due) void session.keep();
    const bytes = await this.#readback.read(staging);
    if (this._faulting >= 0) this.#raise(new Int32Array(bytes, begin, 4));
    if (ready.clock) this.gpuTime = gpuTimeIn(bytes, begin);
    return valuesIn(bytes, places);
  }

  /** What a kernel reported of an index out of range. @param {Int32Array} report */
  #raise(report) {
    const [flag, index, size, which] = report;
    if (!flag) return;
    this.device.queue.writeBuffer(this.#ready.buffers[this._faulting], 0, new Int32Array(4));
    throw this._fault(which, index, size);
  }

  /** @param {number} which @param {number} index @param {number} size */
  _fault(which, index, size) {
    const text = this._exported.faults[which] ?? "an index {index} is out of range for {size}.";
    return new ShadergradError(text.replaceAll("{index}", `${index}`).replaceAll("{size}", `${size}`).replaceAll("{last}", `${size - 1}`));
  }

  // -- values by name

  /** The value of a parameter, of state, or of what the last run left, by its name. @param {string} name @returns {Promise<Numbers>} */
  async read(name) {
    const row = this._row("read", name);
    return (await this._session.doing(() => this._session.download([[this.#ready.buffers[row], this.plan.buffers[row]]])))[0];
  }

  /** Gives a parameter or state, the learning rate for one, another value before the next run. @param {string} name @param {Given} value */
  write(name, value) {
    const row = this._row("write", name);
    const spec = this.plan.buffers[row];
    const held = this._session.held.get(keyOf(spec));
    if (!held) throw new ShadergradError(`[write] ${name} is ${spec.role}, which each run overwrites.`);
    this.#put(held, converted("write", spec, value).slice());
  }

  /** @param {Held} held @param {Numbers} data */
  #put(held, data) {
    held.latest = data;
    this._session.writes++;
    this.device.queue.writeBuffer(held.buffer, 0, /** @type {BufferSource} */ (data));
  }

  /** Names that `read` takes, with their roles. @returns {{role: string, name: string, shape: number[], dtype: string}[]} */
  get names() {
    return [...new Set([...this.plan.inputs, ...this.plan.outputs])].map((row) => this.plan.buffers[row]);
  }

  /** @param {string} what @param {string} name */
  _row(what, name) {
    return rowOf(this.plan, what, name);
  }

  // -- the state as a file

  /**
   * Everything that training goes on from, as a safetensors file that Python loads (`sg.web.load_state`), as does `loadState`.
   * @returns {Promise<Uint8Array<ArrayBuffer>>}
   */
  async saveState() {
    return saved(this._session, [...this._session.held.values()], ({ key }) => key, { format: "shadergrad.state", steps: `${this.steps}` });
  }

  /** The parameters and buffers of the model alone, by their names: for `load_state_dict` in Python. @returns {Promise<Uint8Array<ArrayBuffer>>} */
  async saveWeights() {
    const weights = [...this._session.held.values()].filter(({ key }) => this._exported.weights.includes(key));
    return saved(this._session, weights, ({ spec }) => spec.name);
  }

  /**
   * Goes on from a state that `saveState` or Python wrote, at its step (0 where it names none); or takes weights alone, by the
   * names that they have in Python.
   * @param {ArrayBuffer | Uint8Array | Blob} file
   */
  async loadState(file) {
    const bytes = await new Blob([/** @type {BlobPart} */ (file)]).arrayBuffer();
    const { plain, found } = matched(this._session, this._exported.weights, bytes);
    await this._session.reopening;
    for (const [held, data] of found) this.#put(held, data);
    if (!plain) this.steps = Number(metadataOf(bytes).steps ?? 0);
    this._kept = this.steps;
  }

  /**
   * Takes the parameters and the state of the same program elsewhere, on the CPU for one, and goes on at its step.
   * @param {Program} other
   */
  async adopt(other) {
    const mine = this._session.held;
    const held = [...other._session.held.values()].filter(({ key }) => mine.has(key));
    const values = await other._session.valuesOf(held);
    await this._session.reopening;
    held.forEach(({ key }, k) => this.#put(/** @type {Held} */ (mine.get(key)), values[k]));
    this.steps = this._kept = other.steps;
  }

  /** Frees the device, for all programs that share it. */
  destroy() {
    this._session.closed = true;
    this._session.device.destroy();
  }

  // -- building

  /** @param {ReturnType<typeof readTensors>} tensors */
  async _enter(tensors) {
    await this._session.reopening;
    this.#check();
    enter(this._session, this.plan, tensors);
  }

  /** Whether the open device is large enough. */
  #check() {
    if (this.device) checkLimits(this.device, needsOf(this.plan));
  }

  /** Gets its kernels onto the session's device. @param {Options["onkernel"]} onkernel */
  async _begin(onkernel) {
    const { programs } = this._session;
    programs.add(this); // a device lost meanwhile is opened again for it, too
    try {
      if (this._session.device) this.#check();
      else await this._session.open();
      await this._session.doing(() => this._resolve(onkernel));
    } catch (error) {
      programs.delete(this);
      throw error;
    }
  }

  /** After a loss: back to the last state that the host has. Returns how many steps that costs. */
  _goBack() {
    const lost = this.steps - this._kept;
    this.steps = this._kept;
    return lost;
  }

  /** Buffers, pipelines and bind groups on the present device. @param {Options["onkernel"]} [onkernel] */
  async _resolve(onkernel) {
    const session = this._session;
    const { buffers, copies } = allocated(session, this.plan);
    this.#ready = { buffers, copies, clock: clockOf(session), commands: await commandsOf(session.device, this.plan, buffers, onkernel) };
  }
}
