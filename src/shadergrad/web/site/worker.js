// The worker: programs and their data live here, so that the page's own thread only draws. In: {id, call, args}. Out: {id, value},
// {id, error}, and {event} now and then while it trains.

import { Program, ShadergradError, readTensors } from "./runtime.js";

const REPORT_EVERY = 120; // milliseconds between two reports of a training
/** @type {Record<string, Program>} */
const programs = {};
/** Those that are not needed to begin. @type {Record<string, Promise<Program>>} */
const later = {};
/** @type {Map<string, {dtype: string, shape: number[], data: import("./runtime.js").Numbers}>} */
let data = new Map();
/** @type {ArrayBuffer} */
let initial;
let training = false;
let seed = 1;
/** @type {Record<string, any> | null} */
let fixed = null;

/** Mulberry32: numbers in [0, 1) from a counter. */
function random() {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}

/** @param {Record<string, any>} values */
const tell = (values) => postMessage(values);

/** @type {Record<string, (...args: any[]) => any>} */
const calls = {
  /** Loads the programs of a page: the step first, whose device and state the others share. */
  async load(/** @type {string} */ base, /** @type {{programs: string[], data: string | null}} */ page, options = {}) {
    const [file, given] = await Promise.all([
      fetch(new URL("state.safetensors", base)).then((answer) => answer.arrayBuffer()),
      page.data ? fetch(new URL(page.data, base)).then((answer) => answer.arrayBuffer()) : null,
    ]);
    initial = file;
    if (given) data = readTensors(given);
    const load = (/** @type {string} */ name) =>
      Program.load(new URL(`${name}.json`, base), {
        ...options,
        state: initial,
        share: programs.step,
        onlost: (loss) => tell({ event: "lost", ...loss }),
      });
    programs.step = await load("step");
    // the step begins; the others are compiled meanwhile
    for (const name of page.programs.slice(1)) later[name] = load(name).then((program) => (programs[name] = program));
    return calls.info();
  },

  info() {
    const step = programs.step;
    return {
      adapter: step.adapter,
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
  read: (/** @type {string} */ name) => programs.step.read(name),
  write: (/** @type {string} */ name, /** @type {any} */ value) => programs.step.write(name, value),
  data: (/** @type {string} */ name) => data.get(name),
  saveState: () => programs.step.saveState(),
  saveWeights: () => programs.step.saveWeights(),
  loadState: (/** @type {any} */ file) => programs.step.loadState(file),
  batch: () => batch(),

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
    seed = 1;
    order = [];
    fixed = null;
    await programs.step.loadState(initial);
    programs.step.steps = 0;
  },

  /** Trains until `pause`, or so many steps. */
  async train(steps = Infinity) {
    if (training) return;
    training = true;
    try {
      await loop(steps);
    } finally {
      training = false;
      tell({ event: "paused", steps: programs.step.steps });
    }
  },

  pause() {
    training = false;
  },

  /** For tests: as if the GPU had gone. */
  lose: () => programs.step.device.destroy(),
};

/** @type {number[]} */
let order = [];

/** The next batch: rows of the data in a random order, all of them before one comes again; noise where there are no data. */
function batch() {
  /** @type {Record<string, any>} */
  const inputs = {};
  const fed = programs.step.arguments.filter(({ name }) => data.has(name));
  const size = fed[0]?.shape[0] ?? 0;
  const rows = fed.length ? Math.min(...fed.map(({ name }) => /** @type {any} */ (data.get(name)).shape[0])) : 0;
  if (order.length < size) order = shuffled(rows);
  const chosen = order.splice(0, size);
  for (const { name, shape, dtype } of programs.step.arguments) {
    const count = shape.reduce((a, b) => a * b, 1);
    const given = data.get(name);
    if (!given) {
      fixed ??= {};
      fixed[name] ??= Float32Array.from({ length: count }, () => (dtype === "float32" ? gaussian() : Math.floor(2 * random())));
      inputs[name] = fixed[name];
      continue;
    }
    const width = count / shape[0];
    const part = new /** @type {any} */ (given.data.constructor)(count);
    chosen.forEach((row, k) => part.set(given.data.subarray(row * width, (row + 1) * width), k * width));
    inputs[name] = part;
  }
  return inputs;
}

const gaussian = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

/** @param {number} rows */
function shuffled(rows) {
  const all = Array.from({ length: rows }, (_, k) => k);
  for (let k = rows - 1; k > 0; k--) {
    const other = Math.floor(random() * (k + 1));
    [all[k], all[other]] = [all[other], all[k]];
  }
  return all;
}

/** @param {number} steps */
async function loop(steps) {
  const { step } = programs;
  /** @type {Record<string, number>[]} */
  let rows = [];
  let begun = performance.now();
  let reported = begun;
  const numbers = step.results.filter(({ shape }) => shape.reduce((a, b) => a * b, 1) <= 8).map(({ name }) => name);
  const report = () => {
    const now = performance.now();
    tell({ event: "progress", steps: step.steps, rows, perSecond: (1000 * rows.length) / (now - begun), gpuTime: step.gpuTime });
    rows = [];
    begun = reported = now;
  };
  /** @type {Promise<any>[]} */
  const underWay = [];
  for (let k = 0; k < steps && training; k++) {
    underWay.push(step.run(batch(), { results: numbers }).then((values) => rows.push(values)));
    if (underWay.length >= 4) await underWay.shift();
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
