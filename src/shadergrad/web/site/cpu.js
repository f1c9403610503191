// A program on the CPU, for browsers that give the page no GPU: the plan's names and state, and its step as plain JavaScript, which
// lies beside it (step.json → step.cpu.js). It is used as a Program is.

import { Program, arrayOf, keyOf, shortName, sizeOf } from "./runtime.js";

/** @typedef {import("./runtime.js").Numbers} Numbers */
/** @typedef {import("./runtime.js").Spec} Spec */
/** @typedef {{run: (inputs: Record<string, Numbers>) => Record<string, any>}} Module */

/** What a device with its buffers is to programs; here a buffer is an array of words. */
class Memory {
  held = new Map();
  programs = new Set();
  adapter = "";
  reopening = null;
  error = null;
  writes = 0;
  closed = false;
  options = {};
  /** @type {any} */ device = null;

  /** The names and the state of every plan are those of the portable one. */
  async suitable() {
    return [null];
  }

  abandon() {}

  open() {
    const write = (/** @type {Uint32Array} */ buffer, /** @type {number} */ _, /** @type {Numbers} */ data) =>
      new Uint8Array(buffer.buffer).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    this.device = { limits: {}, queue: { writeBuffer: write }, destroy() {} };
    for (const held of this.held.values()) {
      held.buffer = this.buffer(held.spec.bound);
      write(held.buffer, 0, held.latest);
    }
  }

  /** @param {number} bytes */
  buffer(bytes) {
    return new Uint32Array(Math.max(1, Math.ceil(bytes / 4)));
  }

  /** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  async doing(work) {
    return work();
  }

  /** @param {[Uint32Array, Spec][]} wanted */
  async download(wanted) {
    return wanted.map(([buffer, spec]) => viewOf(buffer, spec).slice());
  }
}

/** The numbers in a buffer. @param {Uint32Array} buffer @param {Spec} spec @returns {Numbers} */
const viewOf = (buffer, spec) => new (arrayOf(spec.dtype))(/** @type {any} */ (buffer.buffer), 0, sizeOf(spec.shape));

export class CpuProgram extends Program {
  /** @type {Module} */ #module = /** @type {any} */ (null);
  /** The module, and what it begins with. @type {[{load: (state: Map<string, {data: Numbers}>) => Module}, Map<string, {data: Numbers}>]} */
  #source = /** @type {any} */ (null);
  /** Of the last run. @type {Record<string, any>} */ #left = {};

  /** @param {string | URL} url @param {import("./runtime.js").Options} [options] @returns {Promise<any>} */
  static async load(url, options = {}) {
    return super.load(url, { ...options, share: options.share ?? /** @type {any} */ ({ _session: new Memory() }) });
  }

  /** @param {any} tensors */
  async _enter(tensors) {
    const address = new URL(this._address);
    address.pathname = address.pathname.replace(/\.json$/, ".cpu.js");
    this.#source = [await import(address.href), tensors];
    await super._enter(tensors);
  }

  /** Nothing compiles: the module gets the arrays that all programs share. */
  async _resolve() {
    const [module, tensors] = this.#source;
    const state = new Map(tensors);
    for (const [key, held] of this._session.held) state.set(key, { data: viewOf(/** @type {any} */ (held.buffer), held.spec) });
    this.#module = module.load(state);
  }

  /** @param {[number, Numbers][]} values @param {[string, number][]} wanted */
  async _once(values, wanted) {
    let left;
    try {
      left = this.#module.run(Object.fromEntries(values.map(([row, data]) => [this.plan.buffers[row].name, data])));
    } catch (error) {
      const { fault } = /** @type {any} */ (error);
      throw fault ? this._fault(fault[0], fault[1], fault[2]) : error;
    }
    this.#left = left;
    this.steps++;
    return Object.fromEntries(wanted.map(([name]) => [name, left[name]]));
  }

  /** @param {string} name @returns {Promise<Numbers>} */
  async read(name) {
    const spec = this.plan.buffers[this._row("read", name)];
    const held = this._session.held.get(keyOf(spec));
    if (held) return viewOf(/** @type {any} */ (held.buffer), spec).slice();
    const value = this.#left[shortName(spec.name)];
    return typeof value === "number" ? arrayOf(spec.dtype).of(value) : (value?.slice() ?? new (arrayOf(spec.dtype))(sizeOf(spec.shape)));
  }
}
