/**
 * Runs plans that shadergrad exported: a training step, or any other compiled function, on the visitor's GPU.
 *
 *     const program = await Program.load("step.json");
 *     const { result } = await program.run({ x, y });
 *
 * In: a plan as JSON (buffers with roles and names, WGSL kernels, dispatches in order) and its state as safetensors. Out: the
 * same numbers as in Python. Works on pages and in workers, needs nothing else.
 */

// The rooms of runtime/, each of which imports only from those above it here. Exports and the npm package join them into one file
// (../join.py), so that a page asks for one file, and who embeds it copies one.
export { NoGpuError, ShadergradError } from "./runtime/errors.js";
export { arrayOf, sizeOf } from "./runtime/numbers.js";
export { readTensors, writeTensors } from "./runtime/safetensors.js";
export { FORMAT, keyOf, shortName } from "./runtime/plan.js";
export { isSoftware } from "./runtime/adapter.js";
export {} from "./runtime/session.js";
export {} from "./runtime/commands.js";
export {} from "./runtime/readback.js";
export { Batch } from "./runtime/run.js";
export {} from "./runtime/state.js";
export { Program } from "./runtime/program.js";

/** @typedef {import("./runtime/numbers.js").Numbers} Numbers */
/** @typedef {import("./runtime/plan.js").Spec} Spec */
/** @typedef {import("./runtime/program.js").Options} Options */
