// The worker: programs and their data live here, so that the page's own thread only draws. In: {id, call, args}. Out: {id, value},
// {id, error}, and {event} now and then while it trains.

import { Batches } from "./batches.js";
import { Place, isSoftware } from "./places.js";
import { NoGpuError, ShadergradError, readTensors } from "./runtime.js";

const REPORT_EVERY = 120; // milliseconds between two reports of a training
const AHEAD = 100; // milliseconds of steps under way: what else the page asks of the GPU waits no longer
const MOST_UNDER_WAY = 32;
const QUICK = 200; // milliseconds of a step: one that takes less on the CPU begins there, while the GPU's kernels compile
const WORK = 1e6; // what a CPU computes in a millisecond in plain JavaScript: products, or elements
const TRIAL = 250; // milliseconds in which a place's steps are timed
const HOPELESS = 2; // a place that is so many times slower is tried no further
const BESIDE = 3; // a step beside a training takes up to so many times as long
const LONG = 1000; // milliseconds: less may be a wait for the training's own steps
/** @type {Place} */ let gpu;
/** @type {Place} */ let cpu;
/** Where the training goes on. @type {Place} */ let here;
/** The place that may be faster, until that is known. @type {Place | null} */ let rival = null;
/** Whether the GPU's kernels compile beside the training, and how many are done. */
let [compiling, compiled] = [false, ""];
let beside = 0; // milliseconds of the GPU's step beside the training
/** The hand-over of the state under way. @type {Promise<any>} */ let moving = Promise.resolve();
/** @type {Map<string, {dtype: string, shape: number[], data: import("./runtime.js").Numbers}>} */
const data = new Map();
/** @type {ArrayBuffer} */
let initial;
let estimate = Infinity; // milliseconds of a step on the CPU
let noGpu = ""; // why the programs cannot run on the GPU
/** The training under way, or the last one. @type {{on: boolean, end: Promise<void>}} */
let training = { on: false, end: Promise.resolve() };
let finished = 0; // steps whose results are there
/** @type {Batches} */
let batches;
/** Of the other programs. @type {Record<string, Batches>} */
const samples = {};

/** What a visitor reads of an error: not the name of the call. @param {{message: string}} error */
const plain = ({ message }) => message.replace(/^\[\w+\] /, "");

/** @param {Record<string, any>} values */
const tell = (values) => postMessage(values);

/** @type {Record<string, (...args: any[]) => any>} */
const calls = {
  /**
   * Loads the programs of a page. Where the CPU can run them quickly, or the GPU is a software one, they begin on the CPU, and the
   * GPU is tried when its kernels are compiled. on: the place that the visitor wants, or "".
   */
  async load(/** @type {string} */ base, /** @type {{programs: string[], data: string | null, cpu?: string, work?: number, settings: Record<string, any>}} */ page, { on = "", ...options } = {}) {
    const [file, given] = await Promise.all([
      fetched("state.safetensors", base),
      page.data ? fetched(page.data, base) : null,
    ]);
    initial = file;
    if (given) for (const [name, tensor] of readTensors(given)) data.set(name, tensor);
    estimate = page.cpu === "" ? (page.work ?? Infinity) / WORK : Infinity;
    cpu = new Place("CPU", base, page.programs, { state: initial });
    gpu = new Place("GPU", base, page.programs, {
      ...options,
      state: initial,
      onlost: (loss) => {
        if (here !== gpu) return;
        finished = gpu.step.steps;
        tell({ event: "lost", ...loss });
      },
      onkernel: (done, of) => {
        compiled = `${done} of ${of}`;
        tell({ event: "kernel", compiled: done, of });
      },
    });
    const whole = Boolean(page.settings.whole_batches);
    if (page.cpu === "" && on !== "GPU" && (on === "CPU" || estimate < QUICK || (await isSoftware()))) {
      here = cpu;
      await cpu.open();
      if (!on) void prepare(whole);
    } else {
      here = gpu;
      await gpu.open().catch((error) => {
        if (!(error instanceof NoGpuError)) throw error;
        noGpu = plain(error);
        if (page.cpu !== "") throw new ShadergradError(`${error.message} The page cannot train on the CPU either: ${page.cpu ?? "it was exported by an older version."}`);
        here = cpu;
        return cpu.open();
      });
      if (here === gpu && !on && estimate < Infinity) rival = cpu;
    }
    here.more(); // the step begins; the others are compiled meanwhile
    batches = new Batches(here.step.arguments, data, whole);
    return calls.info();
  },

  info() {
    const { step } = here;
    return {
      place: here.name,
      adapter: gpu.step?.adapter ?? "",
      noGpu,
      language: /** @type {any} */ (cpu.step)?.language ?? "",
      plan: step.plan.name,
      refused: gpu.step?.refused.map(({ plan, reason }) => `${plan}: ${plain({ message: reason })}`).join(" ") ?? "",
      choice: !noGpu && estimate < Infinity,
      compiling: compiling ? compiled : null,
      paces: { GPU: gpu.pace, CPU: cpu.pace },
      dispatches: step.plan.dispatches.length,
      parameters: step.names.filter((spec) => spec.role === "parameter").reduce((n, s) => n + s.shape.reduce((a, b) => a * b, 1), 0),
      names: step.names.map(({ role, name, shape, dtype }) => ({ role, name, shape, dtype })),
      arguments: step.arguments,
      steps: step.steps,
    };
  },

  /** Goes on at a place, whichever is faster. */
  async choose(/** @type {"GPU" | "CPU"} */ name) {
    await training.end;
    const to = name === "GPU" ? gpu : cpu;
    await to.open();
    rival = null;
    if (to !== here) await move(to);
    return calls.info();
  },

  /** Runs a program with the weights after so many steps. */
  async run(/** @type {string} */ name, /** @type {any} */ inputs) {
    const program = await here.program(name);
    const { steps } = here.step;
    return { ...(await program.run(inputs)), steps };
  },
  /** A program's arguments and results. */
  async describe(/** @type {string} */ name) {
    const program = await here.program(name);
    return { arguments: program.arguments, results: program.results };
  },

  /** Runs a program on rows of the data, with the weights after so many steps; arguments without data are random. */
  async sample(/** @type {string} */ name) {
    const program = await here.program(name);
    samples[name] ??= new Batches(program.arguments, data, false);
    const { steps } = here.step;
    return { steps, values: await program.run(samples[name].next()) };
  },
  read: (/** @type {string} */ name) => here.step.read(name),
  readAll: (/** @type {string[]} */ names) => Promise.all(names.map((name) => here.step.read(name))),
  async write(/** @type {string} */ name, /** @type {any} */ value) {
    await moving; // else it would be left behind
    here.step.write(name, value);
  },
  data: (/** @type {string} */ name) => data.get(name),
  saveState: () => here.step.saveState(),
  saveWeights: () => here.step.saveWeights(),
  async loadState(/** @type {any} */ file) {
    await training.end;
    await here.step.loadState(file);
    return here.step.steps;
  },

  /** Data for arguments, in place of those of the export. */
  feed(/** @type {ArrayBuffer} */ file) {
    const found = readTensors(file);
    for (const { name, shape, dtype } of here.step.arguments) {
      const given = found.get(name);
      if (given && (given.dtype !== dtype || `${given.shape.slice(1)}` !== `${shape.slice(1)}` || given.shape[0] < shape[0]))
        throw new ShadergradError(`${name} is ${given.dtype} (${given.shape}); the step takes batches of ${dtype} (${shape}).`);
    }
    const known = here.step.arguments.filter(({ name }) => found.has(name)).map(({ name }) => name);
    if (!known.length)
      throw new ShadergradError(`the file has none of ${here.step.arguments.map((a) => a.name).join(", ")}.`);
    const sizes = here.step.arguments.map(({ name }) => [name, (found.get(name) ?? data.get(name))?.shape[0]]).filter(([, n]) => n);
    if (!batches.whole && new Set(sizes.map(([, n]) => n)).size > 1)
      throw new ShadergradError(`the numbers of samples differ: ${sizes.map(([name, n]) => `${name} has ${n}`).join(", ")}. Give them in one file.`);
    for (const name of known) data.set(name, /** @type {any} */ (found.get(name)));
    for (const each of [batches, ...Object.values(samples)]) each.order = []; // rows of the data before
    return known;
  },

  /** Back to where the export began, and the same batches again. */
  async reset() {
    await training.end;
    batches.begin();
    await here.step.loadState(initial);
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
        tell({ event: "paused", steps: here.step.steps });
      });
    own.end = work.catch(() => {}); // `work` tells who asked
    await work;
  },

  pause() {
    training.on = false;
  },

  /** For tests: as if the GPU had gone. */
  lose: () => here.step.device.destroy(),
};

/** A file of the page. @param {string} name @param {string} base */
async function fetched(name, base) {
  const answer = await fetch(new URL(name, base)).catch(() => null);
  if (!answer?.ok) throw new ShadergradError(`${name} cannot be loaded: ${answer ? `status ${answer.status}` : "no answer"}.`);
  return answer.arrayBuffer();
}

/** Compiles the GPU's kernels beside the training on the CPU, and runs two steps there, of whose state nothing is left. @param {boolean} whole */
async function prepare(whole) {
  compiling = true;
  try {
    await gpu.open();
    const trial = new Batches(gpu.step.arguments, data, whole);
    await gpu.step.run(trial.next());
    const begun = performance.now();
    await gpu.step.run(trial.next());
    beside = performance.now() - begun;
    if (here === cpu) rival = gpu;
  } catch (error) {
    noGpu = plain(/** @type {Error} */ (error));
  } finally {
    compiling = false;
    tellPlace();
  }
}

const tellPlace = () => tell({ event: "place", info: calls.info() });

/** Hands the state over, and goes on there. @param {Place} to */
function move(to) {
  moving = moving.then(async () => {
    await to.step.adopt(here.step);
    here = to;
    here.more();
    tellPlace();
  });
  return moving;
}

/** Whether another place is to be tried now. */
const due = () => rival === gpu || (rival === cpu && (here.pace ?? 0) > estimate);

/** @param {number} steps @param {{on: boolean}} own */
async function loop(steps, own) {
  await moving;
  finished = here.step.steps;
  for (let left = steps; left > 0 && own.on; ) {
    left -= await stretch(left, own, Infinity, due);
    if (due()) left -= await contest(left, own);
  }
}

/**
 * Trains some steps here and some at the other place, and goes on where a step takes less time. Returns how many it has trained.
 * @param {number} most @param {{on: boolean}} own
 */
async function contest(most, own) {
  const [home, other] = [here, /** @type {Place} */ (rival)];
  let trained = await stretch(most, own, TRIAL);
  const pace = home.pace ?? Infinity;
  if (other === gpu && beside > LONG && beside > BESIDE * HOPELESS * pace) gpu.pace = beside;
  else {
    await other.open();
    if (trained < most && own.on) {
      await move(other);
      const first = await stretch(most - trained, own, TRIAL); // compiles what is compiled late
      trained += first;
      if (trained < most && own.on && (other.pace ?? 0) < HOPELESS * pace) trained += await stretch(most - trained, own, TRIAL);
      if ((other.pace ?? Infinity) >= pace) await move(home);
    } else return trained; // another time
  }
  rival = null;
  tellPlace();
  return trained;
}

/**
 * Trains here for some time, and times the steps. Returns how many they were.
 * @param {number} most @param {{on: boolean}} own @param {number} time in milliseconds @param {() => boolean} [ends] asked before each step
 */
async function stretch(most, own, time, ends = () => false) {
  const place = here;
  const { step } = place;
  let count = 0;
  /** @type {Record<string, number>[]} */
  let rows = [];
  const start = performance.now();
  let begun = start;
  let reported = begun;
  const numbers = step.results.filter(({ shape }) => shape.reduce((a, b) => a * b, 1) <= 8).map(({ name }) => name);
  const report = () => {
    const now = performance.now();
    if (rows.length && time === Infinity) place.pace = (now - begun) / rows.length;
    tell({ event: "progress", steps: finished, rows, perSecond: (1000 * rows.length) / (now - begun), gpuTime: step.gpuTime });
    rows = [];
    begun = reported = now;
  };
  /** @type {Promise<any>[]} */
  const underWay = [];
  let underWayAtOnce = 1;
  while (count < most && own.on && !ends() && (!count || performance.now() - start < time)) {
    const done = step.run(batches.next(), { results: numbers }).then((values) => {
      rows.push(values);
      finished++;
      underWayAtOnce = Math.max(1, Math.min(MOST_UNDER_WAY, Math.floor((AHEAD * rows.length) / (performance.now() - begun + 1))));
    });
    count++;
    underWay.push(done);
    while (underWay.length >= underWayAtOnce) await underWay.shift();
    if (performance.now() - reported > REPORT_EVERY) {
      report();
      await new Promise((resolve) => setTimeout(resolve)); // messages of the page come in here
    }
  }
  await Promise.all(underWay);
  if (count) report();
  if (count && time < Infinity) place.pace = (performance.now() - start) / count;
  return count;
}

addEventListener("message", async (event) => {
  const { id, call, args } = event.data;
  try {
    tell({ id, value: await calls[call](...args) });
  } catch (error) {
    const message = plain(/** @type {Error} */ (error)).replace(/^(the|this|there) /, (word) => word[0].toUpperCase() + word.slice(1));
    tell({ id, error: error instanceof ShadergradError ? message : `${message}. This is a fault of the page.` });
  }
});
