/**
 * Runs plans that shadergrad exported: a training step, or any other compiled function, on the visitor's GPU.
 *
 *     const program = await Program.load("step.json");
 *     const { result } = await program.run({ x, y });
 *
 * In: a plan as JSON (buffers with roles and names, WGSL kernels, dispatches in order) and its state as safetensors. Out: the
 * same numbers as in Python. Works on pages and in workers, needs nothing else.
 */

/** @typedef {Float32Array | Int32Array | Uint32Array} Numbers */
/** @typedef {Numbers | ArrayLike<number> | number | boolean} Given */
/** @typedef {{role: string, name: string, shape: number[], dtype: string, aliases: number | null, slot: number | null, bound: number}} Spec */
/** @typedef {{name: string, access: string[], source: string, origin: string, digest?: string}} Kernel */
/** @typedef {{kernel: number, buffers: number[], grid: number[], offsets: number[]}} Dispatch */
/** `name` is the one that it has in its manifest, or "portable". @typedef {{name: string, target: Record<string, any>, buffers: Spec[], kernels: Kernel[], dispatches: Dispatch[], inputs: number[], outputs: number[], slots: number[]}} Plan */
/**
 * What a plan asks of a device beyond WebGPU's least: features, limits by WebGPU's names, the least and the largest size of subgroups,
 * and whether it is for software adapters, or for GPUs, and for phones.
 * @typedef {{features: string[], limits: Record<string, number>, subgroups?: [number, number], software: boolean, phones: boolean}} Requires
 */
/** A plan in files of its own: plan, and kernels that it shares. @typedef {{name: string, plan: string, kernels: string[], requires: Requires}} Manifest */
/** `plans` are those for devices that grant more than `plan` needs, the best first; `digests` name the kernels of `plan`. @typedef {{format: number, plan: Plan, plans?: Manifest[], digests?: string[], faults: string[], state: string | null, weights: string[]}} Exported */
/** @typedef {{reason: string, stepsLost: number}} Loss */
/**
 * @typedef {object} Options
 * @property {string | ArrayBuffer | null} [state] the state to begin with: an address or a file; by default the exported one
 * @property {Program} [share] another program on whose device, and with whose parameters and state, this one works
 * @property {string} [plan] run the plan of this name ("portable" is always there), whatever else the GPU allows, or fail; by default the
 *   best that it allows
 * @property {number} [inFlight] steps that may be under way at once (32)
 * @property {number} [keepEvery] milliseconds after which the state is copied to the host, to go on from when the GPU is lost
 * @property {boolean} [timestamps] measure the GPU's time of each step where the browser allows it: `gpuTime`
 * @property {(loss: Loss) => void} [onlost] told when the device was lost and opened again
 * @property {(compiled: number, of: number) => void} [onkernel] told when a kernel is compiled, and how many there are
 */
/** Results of some steps, one behind the other, that the host reads at once. @typedef {{device: GPUDevice, buffer: GPUBuffer, used: number, bytes: Promise<ArrayBuffer> | null}} Staging */
/** @typedef {{key: string, spec: Spec, buffer: GPUBuffer, latest: Numbers | null, changes: boolean}} Held */

/** @typedef {"maxStorageBuffersPerShaderStage" | "maxComputeInvocationsPerWorkgroup" | "maxComputeWorkgroupStorageSize" | "maxStorageBufferBindingSize" | "maxBufferSize"} Limit */

export const FORMAT = 1;
const ARRAYS = { f32: Float32Array, i32: Int32Array, u32: Uint32Array };
/** How dtypes are stored on a GPU, and in files. @type {Record<string, ["f32" | "i32" | "u32", string, number]>} */
const DTYPES = {
  float32: ["f32", "F32", 4],
  int32: ["i32", "I32", 4],
  uint32: ["u32", "U32", 4],
  int64: ["i32", "I64", 8],
  bool: ["u32", "BOOL", 1],
  uint8: ["u32", "U8", 1],
};
// WebGPU's flags: the names that browsers have for them are unknown to type checkers
const USE = { MAP_READ: 1, COPY_SRC: 4, COPY_DST: 8, STORAGE: 0x80, QUERY_RESOLVE: 0x200 };
const MAP_READ_MODE = 1;
const COMPUTE_STAGE = 4;
const CARRIED = ["parameter", "state", "counter"];
const MOST_STAGING = 1 << 20; // bytes of results that are read at once, if one step has no more
/** What WebGPU calls the limits of a plan's target. @type {Record<string, Limit>} */
const LIMITS = {
  max_storage_buffers: "maxStorageBuffersPerShaderStage",
  max_workgroup_invocations: "maxComputeInvocationsPerWorkgroup",
  max_workgroup_storage: "maxComputeWorkgroupStorageSize",
};

/** What can go wrong, in words that say what to do. */
export class ShadergradError extends Error {
  name = "ShadergradError";
}

// names of adapters that are programs on the CPU
const SOFTWARE = /swiftshader|llvmpipe|lavapipe|softpipe|basic render/i;
const PHONE = /android|iphone|mobile/i;

/** There is no GPU that could run the plan: no WebGPU, no adapter, or one that is too small. */
export class NoGpuError extends ShadergradError {}

/** Whether an adapter is a program on the CPU. @param {any} adapter */
export function isSoftware({ info, isFallbackAdapter }) {
  return Boolean(isFallbackAdapter || info?.isFallbackAdapter || SOFTWARE.test(`${info?.vendor} ${info?.architecture} ${info?.description}`));
}

/** @param {Spec} spec */
export const keyOf = (spec) => `${spec.role}/${spec.name}`;
/** @param {number[]} shape */
export const sizeOf = (shape) => shape.reduce((a, b) => a * b, 1);
/** @param {number} n */
const roundUp = (n) => Math.ceil(Math.max(n, 4) / 16) * 16;
/** The name of a result as its step's author calls it: `result['loss']` is loss. @param {string} name */
export const shortName = (name) => /^result\[(?:'([^'\]]*)'|(\d+))\]$/.exec(name)?.slice(1).find((x) => x !== undefined) ?? name;
/** @param {string} dtype */
export const arrayOf = (dtype) => ARRAYS[DTYPES[dtype][0]];

/**
 * The numbers for a buffer, in the type that the GPU stores.
 * @param {string} what @param {Spec} spec @param {Given} given @returns {Numbers}
 */
function converted(what, spec, given) {
  const kind = arrayOf(spec.dtype);
  const size = sizeOf(spec.shape);
  const list = typeof given === "number" || typeof given === "boolean" ? [Number(given)] : given;
  if (list?.length !== size)
    throw new ShadergradError(`[${what}] ${spec.name} takes ${size} numbers, of shape (${spec.shape}), not ${list?.length ?? given}.`);
  if (list instanceof kind) return /** @type {Numbers} */ (list);
  const made = kind.from(/** @type {ArrayLike<number>} */ (list));
  if (kind !== Float32Array)
    for (let k = 0; k < size; k++)
      if (made[k] !== list[k])
        throw new ShadergradError(`[${what}] ${spec.name} is ${spec.dtype}; element ${k} is ${list[k]}, which it cannot be.`);
  return made;
}

// -- safetensors: 8 bytes of length, a JSON header of names, dtypes, shapes and places, then the bytes

/**
 * The tensors of a safetensors file, by name, as a GPU stores them.
 * @param {ArrayBuffer} file @returns {Map<string, {dtype: string, shape: number[], data: Numbers}>}
 */
export function readTensors(file) {
  const view = new DataView(file);
  let header;
  let start = 8;
  try {
    start += Number(view.getBigUint64(0, true));
    header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, start - 8)));
  } catch {
    throw new ShadergradError("[readTensors] this is no safetensors file, or it is damaged.");
  }
  const found = new Map();
  for (const [name, { dtype, shape, data_offsets: place }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const ours = Object.keys(DTYPES).find((d) => DTYPES[d][1] === dtype);
    const size = sizeOf(shape ?? []);
    if (!ours || place[1] - place[0] !== size * DTYPES[ours][2] || start + place[1] > file.byteLength)
      throw new ShadergradError(`[readTensors] ${name} is ${dtype} of shape (${shape}), which cannot be read, or is cut off.`);
    const bytes = file.slice(start + place[0], start + place[1]);
    /** @type {Numbers} */
    let data;
    if (dtype === "I64") {
      const wide = new BigInt64Array(bytes);
      data = Int32Array.from(wide, Number);
      if (wide.some((value) => BigInt.asIntN(32, value) !== value))
        throw new ShadergradError(`[readTensors] ${name} has int64 numbers beyond the 32 bits that a GPU stores.`);
    } else if (DTYPES[ours][2] === 1) data = Uint32Array.from(new Uint8Array(bytes));
    else data = new (arrayOf(ours))(bytes);
    found.set(name, { dtype: ours, shape, data });
  }
  return found;
}

/** The texts that a safetensors file holds beside its tensors. @param {ArrayBuffer} file @returns {Record<string, string>} */
function metadataOf(file) {
  const length = Number(new DataView(file).getBigUint64(0, true));
  return JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length))).__metadata__ ?? {};
}

/**
 * A safetensors file.
 * @param {Iterable<{name: string, dtype: string, shape: number[], data: Numbers}>} tensors
 * @param {Record<string, string>} [metadata] @returns {Uint8Array<ArrayBuffer>}
 */
export function writeTensors(tensors, metadata) {
  /** @type {Record<string, object>} */
  const header = metadata ? { __metadata__: metadata } : {};
  const parts = [];
  let end = 0;
  // the format wants no gaps, and readers like numbers aligned: the widest first
  for (const t of [...tensors].sort((a, b) => DTYPES[b.dtype][2] - DTYPES[a.dtype][2])) {
    const [, dtype, width] = DTYPES[t.dtype];
    const wide = width === 8 ? BigInt64Array.from(t.data, BigInt) : width === 1 ? Uint8Array.from(t.data) : t.data;
    const bytes = new Uint8Array(wide.buffer, wide.byteOffset, wide.byteLength);
    header[t.name] = { dtype, shape: t.shape, data_offsets: [end, (end += bytes.length)] };
    parts.push(bytes);
  }
  const text = JSON.stringify(header);
  const head = new TextEncoder().encode(text + " ".repeat((8 - (new TextEncoder().encode(text).length % 8)) % 8));
  const file = new Uint8Array(8 + head.length + end);
  new DataView(file.buffer).setBigUint64(0, BigInt(head.length), true);
  file.set(head, 8);
  let at = 8 + head.length;
  for (const bytes of parts) {
    file.set(bytes, at);
    at += bytes.length;
  }
  return file;
}

// -- the device, and what programs share on it

/** A device with the parameters and the state of its programs, which outlive it: when it is lost, another one gets them. */
class Session {
  /** @type {Map<string, Held>} */ held = new Map();
  /** @type {Set<Program>} */ programs = new Set();
  /** @type {Promise<void> | null} */ reopening = null;
  /** @type {GPUDevice} */ device;
  /** @type {string} */ adapter = "";
  /** @type {string | null} */ error = null;
  writes = 0;
  closed = false;
  copying = false;
  copied = performance.now();
  /** What the device is asked for. @type {Record<string, number>} */ needs = {};
  /** @type {string[]} */ features = [];
  /** @type {any} */ found = null;

  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    this.device = /** @type {any} */ (null);
  }

  /** The browser's adapter; each gives one device. @returns {Promise<GPUAdapter>} */
  async request() {
    const gpu = globalThis.navigator?.gpu;
    if (!gpu)
      throw new NoGpuError(
        "[load] this browser offers no WebGPU here. Chrome and Edge 113, Safari 26 and Firefox 141 do, on https or localhost.",
      );
    const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) throw new NoGpuError("[load] WebGPU is there, but the browser gives no GPU. chrome://gpu says why.");
    this.found = adapter;
    this.adapter = adapter.info?.description || [adapter.info?.vendor, adapter.info?.architecture].filter(Boolean).join(" ");
    return adapter;
  }

  /**
   * Of a program's plans those that suit, the best first, and at last null: the portable one. A device that is open is asked, not its adapter.
   * @param {Manifest[]} manifests @returns {Promise<(Manifest | null)[]>}
   */
  async suitable(manifests) {
    const wished = this.options.plan;
    const known = manifests.find(({ name }) => name === wished);
    await this.reopening;
    if (wished === "portable" || (wished ? !known && this.device : !manifests.length)) return [null];
    if (wished && !known)
      throw new ShadergradError(`[load] there is no plan ${wished}; there are: ${[...manifests.map((m) => m.name), "portable"].join(", ")}.`);
    const adapter = this.found ?? (await this.request());
    const why = (/** @type {Manifest} */ { requires }) => unsuitable(requires, this.device ?? adapter, adapter);
    if (known && why(known)) throw new NoGpuError(`[load] the plan ${wished} does not suit this GPU: ${why(known)}.`);
    return known ? [known] : [...manifests.filter((m) => !why(m)), null];
  }

  /** Opens a device, at first and after a loss. */
  async open() {
    const adapter = await this.request();
    for (const { plan, _requires: requires } of this.programs) {
      const why = requires && unsuitable(requires, adapter, adapter);
      if (why) throw new NoGpuError(`[load] the plan ${plan.name} does not suit this GPU: ${why}.`);
    }
    for (const [name, need] of Object.entries(this.needs)) checkLimit(adapter, name, need);
    const timing = this.options.timestamps && adapter.features.has("timestamp-query");
    this.device = await adapter.requestDevice({
      requiredLimits: this.needs,
      requiredFeatures: /** @type {GPUFeatureName[]} */ ([...this.features, ...(timing ? ["timestamp-query"] : [])]),
    });
    const device = this.device;
    device.addEventListener("uncapturederror", (event) => {
      if (this.device === device) this.error ??= /** @type {GPUUncapturedErrorEvent} */ (event).error.message;
    });
    device.lost.then((info) => {
      if (this.closed || this.device !== device) return;
      this.reopening = this.reopen(info.message || info.reason);
      this.reopening.catch(() => {}); // told to whoever runs a step
    });
    for (const held of this.held.values()) {
      held.buffer = this.buffer(held.spec.bound);
      if (held.latest) device.queue.writeBuffer(held.buffer, 0, held.latest);
    }
  }

  /** Gives a device back that does not run a plan. */
  abandon() {
    const { device } = this;
    [this.device, this.error] = [/** @type {any} */ (null), null];
    device?.destroy();
  }

  /** On another device, which may be another GPU's: then the portable plans go on, if the others do not run there. @param {string} reason */
  async reopen(reason) {
    const again = async () => {
      await this.open();
      for (const program of this.programs) await program._resolve();
    };
    await again().catch(async (error) => {
      const special = [...this.programs].filter((program) => program.plan.name !== "portable");
      if (!special.length || this.options.plan) throw error;
      this.abandon();
      [this.needs, this.features] = [{}, []];
      for (const program of special) program._refuse(error);
      for (const { plan } of this.programs)
        for (const [name, need] of Object.entries(needsOf(plan))) this.needs[name] = Math.max(this.needs[name] ?? 0, need);
      await again();
    });
    let stepsLost = 0;
    for (const program of this.programs) stepsLost += program._goBack();
    this.error = null;
    this.reopening = null;
    this.options.onlost?.({ reason, stepsLost });
  }

  /** @param {number} size @param {number} [usage] */
  buffer(size, usage = USE.STORAGE | USE.COPY_SRC | USE.COPY_DST) {
    return this.device.createBuffer({ size: roundUp(size), usage });
  }

  /**
   * Does something on the device; again on another one when it is lost meanwhile.
   * @template T @param {() => Promise<T>} work @returns {Promise<T>}
   */
  async doing(work) {
    for (;;) {
      await this.reopening;
      if (this.closed) throw new ShadergradError("[run] the program was destroyed.");
      const device = this.device;
      try {
        return await work();
      } catch (error) {
        if (error instanceof ShadergradError) throw error;
        const later = new Promise((resolve) => setTimeout(resolve, 1000, "no loss"));
        if ((await Promise.race([device.lost, later])) === "no loss") throw error;
      }
    }
  }

  /** Reads buffers at one moment. @param {[GPUBuffer, Spec][]} wanted @returns {Promise<Numbers[]>} */
  async download(wanted) {
    const sizes = wanted.map(([, spec]) => 4 * sizeOf(spec.shape));
    const total = sizes.reduce((a, b) => a + b, 0);
    const staging = this.buffer(total, USE.MAP_READ | USE.COPY_DST);
    const encoder = this.device.createCommandEncoder();
    let at = 0;
    wanted.forEach(([buffer], k) => {
      if (sizes[k]) encoder.copyBufferToBuffer(buffer, 0, staging, at, sizes[k]);
      at += sizes[k];
    });
    this.device.queue.submit([encoder.finish()]);
    await staging.mapAsync(MAP_READ_MODE);
    const bytes = staging.getMappedRange().slice(0);
    staging.destroy();
    at = 0;
    return wanted.map(([, spec], k) => new (arrayOf(spec.dtype))(bytes, (at += sizes[k]) - sizes[k], sizes[k] / 4));
  }

  /** Copies what steps change to the host, now and then, so that a lost device costs little. */
  async keep() {
    const every = this.options.keepEvery ?? 2000;
    if (this.copying || performance.now() - this.copied < every) return;
    this.copying = true;
    const changing = [...this.held.values()].filter((held) => held.changes);
    const { writes, device } = this;
    const marks = [...this.programs].map((program) => /** @type {[Program, number]} */ ([program, program.steps]));
    try {
      const values = await this.download(changing.map((held) => [held.buffer, held.spec]));
      if (writes === this.writes && device === this.device) {
        changing.forEach((held, k) => (held.latest = values[k]));
        for (const [program, steps] of marks) program._kept = steps;
      }
      this.copied = performance.now();
    } catch {
      // the device is lost: who runs a step finds out
    } finally {
      this.copying = false;
    }
  }
}

/**
 * Why a plan does not suit a device, or one that its adapter would give; "" where it does.
 * @param {Requires} requires @param {any} device @param {any} adapter
 */
function unsuitable({ features, limits, subgroups, software, phones }, device, adapter) {
  const lacking = features.filter((name) => !device.features.has(name));
  if (lacking.length) return `it lacks ${lacking.join(", ")}`;
  for (const [name, need] of Object.entries(limits)) if (!(device.limits[name] >= need)) return `${name} is ${device.limits[name]}, the plan needs ${need}`;
  const { subgroupMinSize: least, subgroupMaxSize: most } = adapter.info ?? {};
  if (subgroups && !(least >= subgroups[0] && most <= subgroups[1]))
    return `its subgroups have ${least} to ${most} threads, the plan needs ${subgroups.join(" to ")}`;
  if (software !== isSoftware(adapter)) return software ? "it is no software adapter" : "it is a software adapter";
  return !phones && PHONE.test(globalThis.navigator?.userAgent ?? "") ? "it is a phone's" : "";
}

/** Refuses what is no list of manifests. @param {any} manifests @param {URL} address @returns {Manifest[]} */
function checked(manifests, address) {
  const texts = (/** @type {any} */ list) => Array.isArray(list) && list.every((x) => typeof x === "string");
  const numbers = (/** @type {any} */ map) => map && Object.values(map).every(Number.isInteger);
  const isOne = (/** @type {any} */ { name, plan, kernels, requires: r } = {}) =>
    texts([name, plan]) && texts(kernels) && texts(r?.features) && numbers(r.limits) && typeof r.software === "boolean" && typeof r.phones === "boolean" &&
    (r.subgroups === undefined || (r.subgroups?.length === 2 && numbers(r.subgroups)));
  if (!Array.isArray(manifests) || !manifests.every((m) => m && isOne(m))) throw new ShadergradError(`[load] ${address} has a manifest that is none.`);
  return manifests;
}

/** What goes into a plan and comes out, which is the same for all plans of a program. @param {Plan} plan */
const interfaceOf = ({ buffers, inputs, outputs }) =>
  [inputs, outputs].map((rows) => rows.map((row) => [keyOf(buffers[row]), buffers[row].dtype, buffers[row].shape].join()).join(";")).join("|");

/** The plan of a manifest. @param {Manifest} manifest @param {Exported} exported @param {URL} address @returns {Promise<Plan>} */
async function planOf({ name, plan: file, kernels: shared }, exported, address) {
  const files = await Promise.all([file, ...shared].map(async (path) => (await fetched(new URL(path, address))).json().catch(() => null)));
  const own = (exported.digests ?? []).map((digest, k) => [digest, exported.plan.kernels[k]?.source]);
  const sources = Object.assign({}, ...files.map((x) => x?.sources), Object.fromEntries(own));
  try {
    const { plan } = files[0];
    const kernels = plan.kernels.map((/** @type {Kernel} */ kernel) => ({ ...kernel, source: sources[kernel.digest ?? ""] }));
    const whole = files.every((x) => x.format === FORMAT) && kernels.every((/** @type {Kernel} */ { source }) => typeof source === "string");
    if (whole && interfaceOf(plan) === interfaceOf(exported.plan)) return { ...plan, kernels, name };
  } catch {} // it is told below
  throw new ShadergradError(`[load] ${file} is not the plan ${name} of ${address}. Hint: export again, and reload.`);
}

/** What a plan asks of a device beyond the least. @param {Plan} plan @returns {Record<string, number>} */
function needsOf(plan) {
  /** @type {Record<string, number>} */
  const needs = {};
  for (const [ours, theirs] of Object.entries(LIMITS)) needs[theirs] = plan.target[ours];
  const bound = Math.max(0, ...plan.buffers.map((spec) => spec.bound));
  needs.maxStorageBufferBindingSize = Math.max(bound, 1 << 27);
  needs.maxBufferSize = Math.max(roundUp(Math.max(bound, ...plan.slots)), 1 << 28);
  return needs;
}

/** @param {GPUAdapter} adapter @param {string} name @param {number} need */
function checkLimit(adapter, name, need) {
  const has = adapter.limits[/** @type {Limit} */ (name)];
  if (has < need)
    throw new NoGpuError(
      `[load] this GPU is too small for the plan: ${name} is ${has}, the plan needs ${need} (${need - has} more). Hint: a smaller batch.`,
    );
}

// -- programs

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
  /** @type {GPUBuffer[]} */ #buffers = [];
  /** @type {[GPUComputePipeline, GPUBindGroup, number[]][]} */ #commands = [];
  /** @type {[GPUBuffer, GPUBuffer, number][]} */ #copies = [];
  /** @type {Staging | null} */ #filling = null;
  /** @type {Staging[]} */ #free = [];
  /** @type {Promise<any>} */ #reading = Promise.resolve();
  /** @type {((value: unknown) => void)[]} */ #waiting = [];
  /** @type {{query: GPUQuerySet, buffer: GPUBuffer} | null} */ #clock = null;
  #underWay = 0;
  /** @type {Record<number, string>} */ #keys = {};

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
    this.#keys = Object.fromEntries(plan.inputs.filter((row) => rows[row].role !== "argument").map((row) => [row, keyOf(rows[row])]));
    this._arguments = new Map(this.plan.inputs.filter((row) => rows[row].role === "argument").map((row) => [rows[row].name, row]));
    this._results = new Map(
      this.plan.outputs.filter((row) => rows[row].role === "result").map((row) => [shortName(rows[row].name), row]),
    );
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
    return [...this._arguments].map(([name, row]) => ({ name, shape: this.plan.buffers[row].shape, dtype: this.plan.buffers[row].dtype }));
  }

  /** Names, shapes and dtypes of the results that `run` gives. */
  get results() {
    return [...this._results].map(([name, row]) => ({ name, shape: this.plan.buffers[row].shape, dtype: this.plan.buffers[row].dtype }));
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
   * @param {Record<string, Given>} [inputs] by name; they may not change until the promise is kept
   * @param {{results?: string[]}} [options] which results to read, by default all
   * @returns {Promise<Record<string, any>>} results by name: typed arrays, and numbers where a result is one
   */
  async run(inputs = {}, options = {}) {
    for (const name of Object.keys(inputs))
      if (!this._arguments.has(name))
        throw new ShadergradError(`[run] there is no argument ${name}; there are: ${[...this._arguments.keys()].join(", ") || "none"}.`);
    const values = [...this._arguments].map(([name, row]) => {
      if (inputs[name] === undefined) throw new ShadergradError(`[run] the argument ${name} is missing.`);
      return /** @type {[number, Numbers]} */ ([row, converted("run", this.plan.buffers[row], inputs[name])]);
    });
    const wanted = (options.results ?? [...this._results.keys()]).map((name) => this.#result(name));
    // a place among the steps under way, in the order of asking
    if (++this.#underWay > (this._session.options.inFlight ?? 32)) await new Promise((resolve) => this.#waiting.push(resolve));
    try {
      return await this._session.doing(() => this._once(values, wanted));
    } finally {
      this.#underWay--;
      this.#waiting.shift()?.(null);
    }
  }

  /** @param {string} name @returns {[string, number]} */
  #result(name) {
    const row = this._results.get(name);
    if (row === undefined) throw new ShadergradError(`[run] there is no result ${name}; there are: ${[...this._results.keys()].join(", ")}.`);
    return [name, row];
  }

  /** Where the results of the next step have room. @param {number} bytes @returns {Staging} */
  #room(bytes) {
    const { device } = this;
    const all = Math.max(bytes, MOST_STAGING);
    /** @param {Staging | null | undefined} staging */
    const serves = (staging) => staging?.device === device && staging.used + bytes <= staging.buffer.size;
    if (!serves(this.#filling)) {
      this.#free = this.#free.filter(serves);
      const buffer = () => this._session.buffer(all, USE.MAP_READ | USE.COPY_DST);
      this.#filling = this.#free.pop() ?? { device, buffer: buffer(), used: 0, bytes: null };
    }
    return /** @type {Staging} */ (this.#filling);
  }

  /** Reads what steps left, as soon as those before are read: what is submitted meanwhile comes along. @param {Staging} staging */
  #read(staging) {
    return (staging.bytes ??= this.#reading = this.#reading
      .catch(() => {})
      .then(async () => {
        if (this.#filling === staging) this.#filling = null;
        await staging.buffer.mapAsync(MAP_READ_MODE, 0, staging.used);
        const bytes = staging.buffer.getMappedRange(0, staging.used).slice(0);
        staging.buffer.unmap();
        this.#free.push(Object.assign(staging, { used: 0, bytes: null }));
        return bytes;
      }));
  }

  /** @param {[number, Numbers][]} values @param {[string, number][]} wanted @returns {Promise<Record<string, any>>} */
  async _once(values, wanted) {
    const { device } = this._session;
    if (this._session.error) throw new ShadergradError(`[run] the GPU reports an error: ${this._session.error}`);
    const sizes = wanted.map(([, row]) => 4 * sizeOf(this.plan.buffers[row].shape));
    const staging = this.#room(sizes.reduce((a, b) => a + b, 32));
    const [into, begin] = [staging.buffer, staging.used];
    for (const [row, data] of values) device.queue.writeBuffer(this.#buffers[row], 0, /** @type {BufferSource} */ (data));
    const encoder = device.createCommandEncoder();
    const clock = this.#clock;
    const pass = encoder.beginComputePass(
      clock ? { timestampWrites: { querySet: clock.query, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 } } : {},
    );
    this.#encode(pass);
    pass.end();
    for (const [from, to, bytes] of this.#copies) encoder.copyBufferToBuffer(from, 0, to, 0, bytes);
    if (this._faulting >= 0) encoder.copyBufferToBuffer(this.#buffers[this._faulting], 0, into, begin, 16);
    if (clock) {
      encoder.resolveQuerySet(clock.query, 0, 2, clock.buffer, 0);
      encoder.copyBufferToBuffer(clock.buffer, 0, into, begin + 16, 16);
    }
    staging.used += 32;
    const places = wanted.map(([name, row], k) => {
      const start = staging.used;
      if (sizes[k]) encoder.copyBufferToBuffer(this.#buffers[row], 0, into, start, sizes[k]);
      staging.used += sizes[k];
      return { name, spec: this.plan.buffers[row], start, length: sizes[k] / 4 };
    });
    staging.used = Math.ceil(staging.used / 8) * 8;
    device.queue.submit([encoder.finish()]);
    this.steps++;
    void this._session.keep();
    const bytes = await this.#read(staging);
    if (this._faulting >= 0) this.#raise(new Int32Array(bytes, begin, 4));
    if (clock) {
      const [started, ended] = new BigUint64Array(bytes, begin + 16, 2);
      this.gpuTime = Number(ended - started) / 1e6;
    }
    return Object.fromEntries(
      places.map(({ name, spec, start, length }) => {
        const data = new (arrayOf(spec.dtype))(bytes.slice(start, start + 4 * length));
        return [name, spec.shape.length ? data : data[0]];
      }),
    );
  }

  /** @param {GPUComputePassEncoder} pass */
  #encode(pass) {
    let last;
    for (const [pipeline, group, [x, y, z]] of this.#commands) {
      if (pipeline !== last) pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(x, y, z);
      last = pipeline;
    }
  }

  /** What a kernel reported of an index out of range. @param {Int32Array} report */
  #raise(report) {
    const [flag, index, size, which] = report;
    if (!flag) return;
    this.device.queue.writeBuffer(this.#buffers[this._faulting], 0, new Int32Array(4));
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
    return (await this._session.doing(() => this._session.download([[this.#buffers[row], this.plan.buffers[row]]])))[0];
  }

  /** Gives a parameter or state, the learning rate for one, another value before the next run. @param {string} name @param {Given} value */
  write(name, value) {
    const row = this._row("write", name);
    const spec = this.plan.buffers[row];
    const held = this._session.held.get(this.#keys[row]);
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
    const rows = this.plan.buffers;
    const known = [...this.plan.inputs, ...this.plan.outputs].filter((row) => rows[row].role !== "argument");
    const found = known.filter((row) => [rows[row].name, keyOf(rows[row]), shortName(rows[row].name)].includes(name));
    const keys = new Set(found.map((row) => keyOf(rows[row])));
    if (keys.size === 1) return found[0];
    const choice = keys.size ? [...keys] : [...new Set(known.map((row) => rows[row].name))].slice(0, 20);
    throw new ShadergradError(`[${what}] ${keys.size ? `${name} may be` : `there is no ${name}; there are:`} ${choice.join(", ")}.`);
  }

  // -- the state as a file

  /**
   * Everything that training goes on from, as a safetensors file that Python loads (`sg.web.load_state`), as does `loadState`.
   * @returns {Promise<Uint8Array<ArrayBuffer>>}
   */
  async saveState() {
    const held = [...this._session.held.values()].filter(({ key }) => !key.startsWith("argument/"));
    return this.#save(held, ({ key }) => key, { format: "shadergrad.state", steps: `${this.steps}` });
  }

  /** The parameters and buffers of the model alone, by their names: for `load_state_dict` in Python. @returns {Promise<Uint8Array<ArrayBuffer>>} */
  async saveWeights() {
    const wanted = new Set(this._exported.weights);
    return this.#save([...this._session.held.values()].filter((held) => wanted.has(held.key)), (held) => held.spec.name);
  }

  /** @param {Held[]} held @param {(held: Held) => string} name @param {Record<string, string>} [metadata] */
  async #save(held, name, metadata) {
    const values = await this._session.doing(() => this._session.download(held.map((h) => [h.buffer, h.spec])));
    const tensors = held.map((h, k) => ({ name: name(h), dtype: h.spec.dtype, shape: h.spec.shape, data: values[k] }));
    return writeTensors(tensors, metadata);
  }

  /**
   * Goes on from a state that `saveState` or Python wrote, at its step (0 where it names none); or takes weights alone, by the
   * names that they have in Python.
   * @param {ArrayBuffer | Uint8Array | Blob} file
   */
  async loadState(file) {
    const bytes = file instanceof Blob ? await file.arrayBuffer() : file instanceof Uint8Array ? file.slice().buffer : file;
    const tensors = readTensors(bytes);
    const weights = this._exported.weights;
    const plain = weights.length > 0 && weights.every((key) => tensors.has(key.slice(key.indexOf("/") + 1)));
    const wanted = plain ? weights : [...this._session.held.keys()];
    /** @type {[Held, Numbers][]} */
    const found = wanted.map((key) => {
      const held = /** @type {Held} */ (this._session.held.get(key));
      const name = plain ? held.spec.name : key;
      const tensor = tensors.get(name);
      const { dtype, shape } = held.spec;
      if (!tensor) throw new ShadergradError(`[loadState] the file has no ${name}: it is another model's, or another optimizer's.`);
      if (tensor.dtype !== dtype || `${tensor.shape}` !== `${shape}`)
        throw new ShadergradError(`[loadState] ${name} is ${tensor.dtype} (${tensor.shape}) in the file, and ${dtype} (${shape}) here.`);
      return [held, tensor.data];
    });
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
    const values = await other._session.doing(() => other._session.download(held.map((h) => [h.buffer, h.spec])));
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

  /** Takes its parameters and state into the session, or finds them there. @param {ReturnType<typeof readTensors>} tensors */
  async _enter(tensors) {
    const { held } = this._session;
    const rows = this.plan.buffers;
    /** @type {Held[]} */
    const fresh = [];
    const changed = new Set(this.plan.outputs.map((row) => keyOf(rows[row])));
    await this._session.reopening;
    this.#check();
    for (const row of this.plan.inputs) {
      const spec = rows[row];
      if (spec.role === "argument") continue;
      const known = held.get(keyOf(spec));
      if (known) known.changes ||= changed.has(keyOf(spec));
      else {
        const found = tensors.get(keyOf(spec));
        if (!found) throw new ShadergradError(`[load] the state has no ${keyOf(spec)}.`);
        const latest = converted("load", spec, found.data);
        fresh.push({ key: keyOf(spec), spec, latest, changes: changed.has(keyOf(spec)), buffer: /** @type {any} */ (null) });
      }
    }
    for (const h of fresh) {
      held.set(h.key, h);
      if (!this._session.device) continue; // it gets them when it is opened
      h.buffer = this._session.buffer(h.spec.bound);
      this.device.queue.writeBuffer(h.buffer, 0, /** @type {BufferSource} */ (h.latest));
    }
  }

  /** Whether the open device is large enough. */
  #check() {
    if (this.device) for (const [name, need] of Object.entries(needsOf(this.plan))) checkLimit(/** @type {any} */ (this.device), name, need);
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
    const { device } = this._session;
    this.#allocate();
    /** @type {Map<string, {group: GPUBindGroupLayout, pipeline: GPUPipelineLayout}>} */
    const layouts = new Map();
    for (const { access } of this.plan.kernels) {
      if (layouts.has(`${access}`)) continue;
      const group = device.createBindGroupLayout({
        entries: access.map((mode, binding) => ({
          binding,
          visibility: COMPUTE_STAGE,
          buffer: { type: mode === "read" ? "read-only-storage" : "storage" },
        })),
      });
      layouts.set(`${access}`, { group, pipeline: device.createPipelineLayout({ bindGroupLayouts: [group] }) });
    }
    const { kernels } = this.plan;
    let count = 0;
    const pipelines = await Promise.all(
      kernels.map(async (kernel) => {
        const pipeline = await compiled(device, kernel, /** @type {any} */ (layouts.get(`${kernel.access}`)).pipeline);
        onkernel?.(++count, kernels.length);
        return pipeline;
      }),
    );
    this.#commands = this.plan.dispatches
      .filter((dispatch) => dispatch.grid.every((n) => n > 0))
      .map((dispatch) => {
        const layout = /** @type {any} */ (layouts.get(`${this.plan.kernels[dispatch.kernel].access}`)).group;
        return [pipelines[dispatch.kernel], device.createBindGroup({ layout, entries: this.#entries(dispatch) }), dispatch.grid];
      });
    this.#clock = device.features.has("timestamp-query")
      ? {
          query: device.createQuerySet({ type: "timestamp", count: 2 }),
          buffer: this._session.buffer(16, USE.QUERY_RESOLVE | USE.COPY_SRC),
        }
      : null;
  }

  /** @param {Dispatch} dispatch @returns {GPUBindGroupEntry[]} */
  #entries(dispatch) {
    return dispatch.buffers.map((row, binding) => {
      const offset = dispatch.offsets[binding] ?? 0;
      return { binding, resource: { buffer: this.#buffers[row], offset, size: this.plan.buffers[row].bound - offset } };
    });
  }

  /** A buffer for each row of the table. */
  #allocate() {
    const session = this._session;
    const rows = this.plan.buffers;
    const slots = this.plan.slots.map((bytes) => session.buffer(bytes));
    const carried = new Map(this.plan.inputs.filter((row) => CARRIED.includes(rows[row].role)).map((row) => [keyOf(rows[row]), row]));
    this.#copies = [];
    this.#buffers = [];
    rows.forEach((spec, row) => {
      const held = session.held.get(this.#keys[row]);
      if (held) this.#buffers[row] = held.buffer;
      else if (spec.aliases === null) this.#buffers[row] = spec.slot === null ? session.buffer(spec.bound) : slots[spec.slot];
    });
    rows.forEach((spec, row) => {
      if (spec.aliases !== null) this.#buffers[row] = this.#buffers[spec.aliases];
    });
    for (const row of this.plan.outputs) {
      const before = carried.get(keyOf(rows[row]));
      if (before !== undefined && this.#buffers[before] !== this.#buffers[row])
        this.#copies.push([this.#buffers[row], this.#buffers[before], 4 * sizeOf(rows[row].shape)]);
    }
  }
}

/** @param {URL} address */
async function fetched(address) {
  const answer = await fetch(address).catch(() => null);
  if (!answer?.ok) throw new ShadergradError(`[load] ${address} cannot be loaded: ${answer ? `status ${answer.status}` : "no answer"}.`);
  return answer;
}

/** @param {GPUDevice} device @param {Kernel} kernel @param {GPUPipelineLayout} layout */
async function compiled(device, kernel, layout) {
  const module = device.createShaderModule({ code: kernel.source, label: kernel.name });
  try {
    return await device.createComputePipelineAsync({ layout, compute: { module, entryPoint: "main" } });
  } catch (error) {
    const info = await module.getCompilationInfo().catch(() => null);
    if (!info) throw error; // the device is lost: who compiles tries again on another
    const { messages } = info;
    const first = messages.find((message) => message.type === "error");
    const line = first ? `, line ${first.lineNum}: ${kernel.source.split("\n")[first.lineNum - 1]?.trim()}` : "";
    throw new ShadergradError(
      `[load] the kernel ${kernel.name} (${kernel.origin}) does not compile${line}\n${first?.message ?? /** @type {Error} */ (error).message}`,
    );
  }
}
