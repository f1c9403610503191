// -- what can go wrong

/** What can go wrong, in words that say what to do. */
export class ShadergradError extends Error {
  name = "ShadergradError";
}

/** @param {string} what was called @param {string} name of what there is not @param {Iterable<string>} known */
export const absent = (what, name, known) => new ShadergradError(`[${what}] there is no ${name}; there are: ${[...known].join(", ") || "none"}.`);

/** There is no GPU that could run the plan: no WebGPU, no adapter, or one that is too small. */
export class NoGpuError extends ShadergradError {}
