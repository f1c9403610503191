// The worker: programs and their data live here, so that the page's own thread only draws. In: {id, call, args}. Out: {id, value},
// {id, error}, and {event} now and then while it trains.

import { Batches } from "./batches.js";
import { NoGpuError, Program, ShadergradError, readTensors } from "./runtime.js";

const REPORT_EVERY = 120; // milliseconds between two reports of a training
const AHEAD = 100; // milliseconds of steps under way: what else the page asks of the GPU waits no longer
const MOST_UNDER_WAY = 32;
/** @type {Record<string, Program>} */
const programs = {};
/** Those that are not needed to begin. @type {Record<string, Promise<Program>>} */
const later = {};
/** @type {Map<string, {dtype: string, shape: number[], data: import("./runtime.js").Numbers}>} */
const data = new Map();
/** @type {ArrayBuffer} */
let initial;
let noGpu = ""; // why the programs run on the CPU, if they do
/** The training under way, or the last one. @type {{on: boolean, end: Promise<void>}} */
let training = { on: false, end: Promise.resolve() };
let finished = 0; // steps whose results are there
/** @type {Batches} */
let batches;
/** Of the other programs. @type {Record<string, Batches>} */
const samples = {};

/** @param {Record<string, any>} values */
const tell = (values) => postMessage(values);

/** @type {Record<string, (...args: any[]) => any>} */
const calls = {
  /** Loads the programs of a page: the step first, whose device and state the others share. */
  async load(/** @type {string} */ base, /** @type {{programs: string[], data: string | null, cpu?: string, settings: Record<string, any>}} */ page, options = {}) {
    const [file, given] = await Promise.all([
      fetch(new URL("state.safetensors", base)).then((answer) => answer.arrayBuffer()),
      page.data ? fetch(new URL(page.data, base)).then((answer) => answer.arrayBuffer()) : null,
    ]);
    initial = file;
    if (given) for (const [name, tensor] of readTensors(given)) data.set(name, tensor);
    let kind = Program;
    const load = (/** @type {string} */ name) =>
      kind.load(new URL(`${name}.json`, base), {
        ...options,
        state: initial,
        share: programs.step,
        onlost: (loss) => {
          finished = programs.step.steps;
          tell({ event: "lost", ...loss });
        },
        onkernel: name === "step" ? (compiled, of) => tell({ event: "kernel", compiled, of }) : undefined,
      });
    programs.step = await load("step").catch(async (error) => {
      if (!(error instanceof NoGpuError)) throw error;
      noGpu = error.message.replace(/^\[load\] /, "");
      if (page.cpu !== "") throw new ShadergradError(`${error.message} The page cannot train on the CPU either: ${page.cpu ?? "it was exported by an older version."}`);
      ({ CpuProgram: kind } = await import("./cpu.js"));
      return load("step");
    });
    batches = new Batches(programs.step.arguments, data, Boolean(page.settings.whole_batches));
    // the step begins; the others are compiled meanwhile
    for (const name of page.programs.slice(1)) later[name] = load(name).then((program) => (programs[name] = program));
    return calls.info();
  },

  info() {
    const step = programs.step;
    return {
      adapter: step.adapter,
      noGpu,
      dispatches: step.plan.dispatches.length,
      parameters: step.names.filter((spec) => spec.role === "parameter").reduce((n, s) => n + s.shape.reduce((a, b) => a * b, 1), 0),
      names: step.names.map(({ role, name, shape, dtype }) => ({ role, name, shape, dtype })),
      arguments: step.arguments,
      steps: step.steps,
    };
  },

  async run(/** @type {string} */ name, /** @type {any} */ inputs, /** @type {any} */ options) {
    return (programs[name] ?? (await later[name])).run(inputs, options);
  },
  /** A program's arguments and results. */
  async describe(/** @type {string} */ name) {
    const program = programs[name] ?? (await later[name]);
    return { arguments: program.arguments, results: program.results };
  },

  /** Runs a program on rows of the data; arguments without data are random. */
  async sample(/** @type {string} */ name) {
    const program = programs[name] ?? (await later[name]);
    samples[name] ??= new Batches(program.arguments, data, false);
    return program.run(samples[name].next());
  },
  read: (/** @type {string} */ name) => programs.step.read(name),
  readAll: (/** @type {string[]} */ names) => Promise.all(names.map((name) => programs.step.read(name))),
  write: (/** @type {string} */ name, /** @type {any} */ value) => programs.step.write(name, value),
  data: (/** @type {string} */ name) => data.get(name),
  saveState: () => programs.step.saveState(),
  saveWeights: () => programs.step.saveWeights(),
  async loadState(/** @type {any} */ file) {
    await training.end;
    await programs.step.loadState(file);
    return programs.step.steps;
  },

  /** Data for arguments, in place of those of the export. */
  feed(/** @type {ArrayBuffer} */ file) {
    const found = readTensors(file);
    for (const { name, shape, dtype } of programs.step.arguments) {
      const given = found.get(name);
      if (given && (given.dtype !== dtype || `${given.shape.slice(1)}` !== `${shape.slice(1)}` || given.shape[0] < shape[0]))
        throw new ShadergradError(`[feed] ${name} is ${given.dtype} (${given.shape}); the step takes batches of ${dtype} (${shape}).`);
    }
    const known = programs.step.arguments.filter(({ name }) => found.has(name)).map(({ name }) => name);
    if (!known.length)
      throw new ShadergradError(`[feed] the file has none of ${programs.step.arguments.map((a) => a.name).join(", ")}.`);
    for (const name of known) data.set(name, /** @type {any} */ (found.get(name)));
    return known;
  },

  /** Back to where the export began, and the same batches again. */
  async reset() {
    await training.end;
    batches.begin();
    await programs.step.loadState(initial);
  },

  /** Trains until `pause`, or so many steps; after a paused training has come to its end. */
  async train(steps = Infinity) {
    if (training.on) return;
    const before = training.end;
    /** @type {typeof training} */
    const own = { on: true, end: before };
    training = own; // from now on `pause` means this one
    const work = before
      .then(() => loop(steps, own))
      .finally(() => {
        own.on = false;
        tell({ event: "paused", steps: programs.step.steps });
      });
    own.end = work.catch(() => {}); // `work` tells who asked
    await work;
  },

  pause() {
    training.on = false;
  },

  /** For tests: as if the GPU had gone. */
  lose: () => programs.step.device.destroy(),
};

/** @param {number} steps @param {{on: boolean}} own */
async function loop(steps, own) {
  const { step } = programs;
  finished = step.steps;
  /** @type {Record<string, number>[]} */
  let rows = [];
  let begun = performance.now();
  let reported = begun;
  const numbers = step.results.filter(({ shape }) => shape.reduce((a, b) => a * b, 1) <= 8).map(({ name }) => name);
  const report = () => {
    const now = performance.now();
    tell({ event: "progress", steps: finished, rows, perSecond: (1000 * rows.length) / (now - begun), gpuTime: step.gpuTime });
    rows = [];
    begun = reported = now;
  };
  /** @type {Promise<any>[]} */
  const underWay = [];
  let most = 1; // steps under way
  for (let k = 0; k < steps && own.on; k++) {
    const done = step.run(batches.next(), { results: numbers }).then((values) => {
      rows.push(values);
      finished++;
      most = Math.max(1, Math.min(MOST_UNDER_WAY, Math.floor((AHEAD * rows.length) / (performance.now() - begun + 1))));
    });
    underWay.push(done);
    while (underWay.length >= most) await underWay.shift();
    if (performance.now() - reported > REPORT_EVERY) {
      report();
      await new Promise((resolve) => setTimeout(resolve)); // messages of the page come in here
    }
  }
  await Promise.all(underWay);
  report();
}

addEventListener("message", async (event) => {
  const { id, call, args } = event.data;
  try {
    tell({ id, value: await calls[call](...args) });
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    tell({ id, error: error instanceof ShadergradError ? message : `${message}. This is a fault of the page.` });
  }
});
