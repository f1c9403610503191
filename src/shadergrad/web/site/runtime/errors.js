// -- what can go wrong

/** What can go wrong, in words that say what to do. */
export class ShadergradError extends Error {
  name = "ShadergradError";
}

/** There is no GPU that could run the plan: no WebGPU, no adapter, or one that is too small. */
export class NoGpuError extends ShadergradError {}
