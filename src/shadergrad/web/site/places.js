// Where the programs of a page run: on the GPU, or on the CPU. In: the page's programs. Out: programs by name, and
// how long a step takes. Each place has parameters and state of its own; a program adopts those of another place.

import { Program, isSoftware as isProgram } from "./runtime.js";

/** @typedef {import("./runtime.js").Options} Options */

export class Place {
  /** @type {Record<string, Program>} */ programs = {};
  /** Those that are not needed to begin. @type {Record<string, Promise<Program>>} */ later = {};
  /** Milliseconds of a step; null until one has been timed. @type {number | null} */ pace = null;
  /** @type {Promise<Program> | null} */ #opening = null;

  /** @param {"GPU" | "CPU"} name @param {string} base @param {string[]} names of the programs, the step first @param {Options} options */
  constructor(name, base, names, options) {
    this.name = name;
    this.base = base;
    this.names = names;
    this.options = options;
  }

  get step() {
    return this.programs.step;
  }

  /** Loads the step, whose device and state the others share. */
  open() {
    this.#opening ??= this.#load("step").then((program) => (this.programs.step = program));
    return this.#opening;
  }

  /** Loads the others, while the step runs. */
  more() {
    for (const name of this.names.slice(1)) this.later[name] ??= this.#load(name).then((program) => (this.programs[name] = program));
  }

  /** @param {string} name */
  async program(name) {
    return this.programs[name] ?? (await this.later[name]);
  }

  /** @param {string} name @returns {Promise<Program>} */
  async #load(name) {
    const kind = this.name === "GPU" ? Program : (await import("./cpu.js")).CpuProgram;
    const options = { ...this.options, share: this.step };
    if (name !== "step") delete options.onkernel;
    return kind.load(new URL(`${name}.json`, this.base), options);
  }
}

/** Whether the browser's GPU is a program on the CPU. */
export async function isSoftware() {
  const adapter = await globalThis.navigator?.gpu?.requestAdapter({ powerPreference: "high-performance" }).catch(() => null);
  return Boolean(adapter && isProgram(adapter));
}
