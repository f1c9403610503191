// A program on the CPU, for browsers that give the page no GPU: the plan's names and state, and its step in WebAssembly, or as plain
// JavaScript, which lie beside it (step.json → step.wasm and step.wasm.js, step.cpu.js). It is used as a Program is.

import { Program, arrayOf, keyOf, shortName, sizeOf } from "./runtime.js";

/** @typedef {import("./runtime.js").Numbers} Numbers */
/** @typedef {import("./runtime.js").Spec} Spec */
/** @typedef {{run: (inputs: Record<string, Numbers>) => Record<string, any>, home?: (key: string) => Numbers}} Module */
/** @typedef {Map<string, {data: Numbers}>} State */
/** @typedef {{load: (state: State, code?: WebAssembly.Module, adopted?: string[]) => Module, code?: WebAssembly.Module}} Source */

/** What a device with its buffers is to programs; here a buffer is an array of words. */
class Memory {
  held = new Map();
  /** Keys of the state that a program's module holds. */ settled = new Set();
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
      new Uint8Array(buffer.buffer, buffer.byteOffset).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
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

  /** @param {any[]} held */
  valuesOf(held) {
    return this.download(held.map(({ buffer, spec }) => [buffer, spec]));
  }
}

/** The numbers in a buffer. @param {Uint32Array} buffer @param {Spec} spec @returns {Numbers} */
const viewOf = (buffer, spec) => new (arrayOf(spec.dtype))(/** @type {any} */ (buffer.buffer), buffer.byteOffset, sizeOf(spec.shape));

/** The module in WebAssembly where there is one and the browser has vectors; else in plain JavaScript. @param {URL} address @param {boolean} wasm @returns {Promise<Source>} */
async function sourceAt(address, wasm) {
  const beside = (/** @type {string} */ end) => Object.assign(new URL(address.href), { pathname: address.pathname.replace(/\.json$/, end) });
  try {
    const code = wasm && (await (await fetch(beside(".wasm"))).arrayBuffer());
    if (code && WebAssembly.validate(code)) return { ...(await import(beside(".wasm.js").href)), code: await WebAssembly.compile(code) };
  } catch (error) {
    console.warn(`The step runs as plain JavaScript: ${error}`);
  }
  return import(beside(".cpu.js").href);
}

export class CpuProgram extends Program {
  /** @type {Module} */ #module = /** @type {any} */ (null);
  /** The module, and what it begins with. @type {[Source, State]} */
  #source = /** @type {any} */ (null);
  /** Of the last run. @type {Record<string, any>} */ #left = {};

  /** @param {string | URL} url @param {import("./runtime.js").Options} [options] @returns {Promise<any>} */
  static async load(url, options = {}) {
    return super.load(url, { ...options, share: options.share ?? /** @type {any} */ ({ _session: new Memory() }) });
  }

  /** @param {any} tensors */
  async _enter(tensors) {
    this.#source = [await sourceAt(new URL(this._address), Boolean(/** @type {any} */ (this._exported).wasm)), tensors];
    await super._enter(tensors);
  }

  /** What runs the step. */
  get language() {
    return this.#source[0].code ? "WebAssembly" : "plain JavaScript";
  }

  /** Nothing compiles: the module gets the arrays that all programs share. Those that no program has yet move into its memory. */
  async _resolve() {
    const [{ load, code }, tensors] = this.#source;
    const { held, settled } = /** @type {Memory} */ (/** @type {any} */ (this._session));
    const state = new Map(tensors);
    for (const [key, { buffer, spec }] of held) state.set(key, { data: viewOf(/** @type {any} */ (buffer), spec) });
    // of bool a module has bytes, and programs share words: those are copied
    const adopted = [...state.keys()].filter((key) => !settled.has(key) && held.get(key)?.spec.dtype !== "bool");
    const module = (this.#module = load(state, code, adopted));
    for (const key of held.keys()) settled.add(key);
    for (const key of module.home ? adopted : []) {
      const [array, shared] = [module.home?.(key), held.get(key)];
      if (array && shared) shared.buffer = new Uint32Array(array.buffer, array.byteOffset, Math.ceil(array.byteLength / 4));
    }
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
