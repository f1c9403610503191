// A hardened automaton: the likeliest gate of each, without those that nothing reads, on boards of bits, 32 cells a word.

import { evaluator } from "./circuit-wasm.js";

/**
 * @typedef {object} Structure of a cell: gate k reads wires a[k] and b[k]; wires are the bits of the 3x3 patch (neighbour *
 * channels + channel), then the gates. of[k]: which row of the logits is its.
 * @property {number} channels @property {number} inputs @property {Int32Array} a @property {Int32Array} b
 * @property {Int32Array} of @property {Int32Array} outputs @property {"zeros" | "periodic"} border @property {number} fireRate
 */

const NAMES = "FALSE,AND,A AND NOT B,A,NOT A AND B,B,XOR,OR,NOR,XNOR,NOT B,A OR NOT B,NOT A,NOT A OR B,NAND,TRUE".split(",");
const CHUNK = 512; // words of each wire, in whole rows, that are computed together: they should stay in the cache
const [ZERO, ONE] = [-1, -2];

/** The kinds of all gates: where the logits are largest. @param {Structure} cell @param {Float32Array} logits (rows, 16) */
export function harden(cell, logits) {
  return Uint8Array.from(cell.of, (row) => {
    let best = 0;
    for (let kind = 1; kind < 16; kind++) if (logits[16 * row + kind] > logits[16 * row + best]) best = kind;
    return best;
  });
}

/** What `sg.logic.circuit.from_json` reads in Python, and exports as C, Verilog and more. @param {Structure} cell @param {Uint8Array} kinds */
export function toJSON(cell, kinds) {
  const name = (/** @type {number} */ wire) => (wire < cell.inputs ? `x${wire}` : `g${wire - cell.inputs}`);
  return JSON.stringify({
    format: "shadergrad.cell",
    version: 1,
    channels: cell.channels,
    border: cell.border,
    fire_rate: cell.fireRate,
    circuit: {
      format: "shadergrad.circuit",
      version: 1,
      inputs: Array.from({ length: cell.inputs }, (_, k) => name(k)),
      gates: Array.from(kinds, (kind, k) => [`g${k}`, NAMES[kind], name(cell.a[k]), name(cell.b[k])]),
      outputs: Array.from(cell.outputs, (wire, k) => [`y${k}`, name(wire)]),
    },
  });
}

/**
 * The gates that matter: constants and pass-throughs folded, what no output reads left out.
 * @param {Structure} cell @param {Uint8Array} kinds
 * @returns {{gates: {wire: number, kind: number, a: number, b: number}[], outputs: number[]}} wires as in the structure, ZERO or ONE
 */
export function minimized(cell, kinds) {
  const { inputs } = cell;
  /** @type {number[]} */
  const stands = Array.from({ length: inputs }, (_, k) => k); // which wire, or constant, each wire is
  /** @type {Map<number, {wire: number, kind: number, a: number, b: number}>} */
  const made = new Map();
  kinds.forEach((kind, k) => {
    const [a, b] = [stands[cell.a[k]], stands[cell.b[k]]];
    // a truth table is four bits, f(00) f(01) f(10) f(11), the first the highest; what is known of inputs narrows it
    const bit = (/** @type {number} */ x, /** @type {number} */ y) => (kind >> (3 - 2 * x - y)) & 1;
    const table = [0, 1, 2, 3].map((at) => {
      const x = a === ZERO ? 0 : a === ONE ? 1 : at >> 1;
      return bit(x, a === b && a >= 0 ? x : b === ZERO ? 0 : b === ONE ? 1 : at & 1);
    });
    const own = table.reduce((word, value) => 2 * word + value, 0);
    if (own === 0) stands.push(ZERO);
    else if (own === 15) stands.push(ONE);
    else if (own === 3) stands.push(a);
    else if (own === 5) stands.push(b);
    else {
      made.set(inputs + k, { wire: inputs + k, kind: own, a: own === 10 ? b : a, b: own === 12 ? a : b });
      stands.push(inputs + k);
    }
  });
  const outputs = Array.from(cell.outputs, (wire) => stands[wire]);
  const read = new Set();
  const open = [...outputs];
  while (open.length) {
    const wire = /** @type {number} */ (open.pop());
    const gate = made.get(wire);
    if (wire < 0 || read.has(wire)) continue;
    read.add(wire);
    if (gate) open.push(gate.a, gate.b);
  }
  return { gates: [...made.values()].filter(({ wire }) => read.has(wire)), outputs };
}

/** A board of cells whose rule is a circuit. */
export class Board {
  /** @param {Structure} cell @param {ReturnType<typeof minimized>} rule @param {number} height @param {number} width */
  constructor(cell, rule, height, width) {
    this.cell = cell;
    this.rule = rule;
    this.height = height;
    this.width = width;
    this.across = Math.ceil(width / 32);
    this.rows = Math.max(1, Math.floor(CHUNK / this.across));
    /** The neighbours' bits that matter. */
    const read = [...new Set([...rule.gates.flatMap(({ a, b }) => [a, b]), ...rule.outputs])].filter((wire) => wire >= 0 && wire < cell.inputs);
    this.state = this.planes();
    this.next = this.planes();
    // in memory: a vector for each gate, then the bits that are read, then the results, the lines of a cache apart
    const words = Math.ceil((this.rows * this.across) / 4) * 4;
    const first = Math.ceil(rule.gates.length / 4) * 64;
    const place = (/** @type {number} */ k) => first + k * (4 * words + 64);
    const end = place(read.length + rule.outputs.length);
    const memory = new WebAssembly.Memory({ initial: Math.ceil(end / 65536) });
    const part = (/** @type {number} */ k) => new Uint32Array(memory.buffer, place(k), words);
    /** @type {Map<number, Uint32Array>} */
    this.seenBits = new Map(read.map((wire, k) => [wire, part(k)]));
    this.results = rule.outputs.map((_, k) => part(read.length + k));
    const inputs = new Map(read.map((wire, k) => [wire, place(k)]));
    const results = this.results.map(({ byteOffset }) => byteOffset);
    this.evaluate = evaluator(rule.gates, rule.outputs, inputs, results, memory);
    this.last = width % 32 ? (1 << width % 32) - 1 : -1; // the bits of a row's last word that are cells
  }

  planes() {
    return Array.from({ length: this.cell.channels }, () => new Uint32Array(this.height * this.across));
  }

  /** @param {number} y @param {number} x @param {number} channel @param {boolean} value */
  set(y, x, channel, value) {
    const at = y * this.across + (x >> 5);
    if (value) this.state[channel][at] |= 1 << (x & 31);
    else this.state[channel][at] &= ~(1 << (x & 31));
  }

  /** @param {number} y @param {number} x @param {number} channel */
  get(y, x, channel) {
    return (this.state[channel][y * this.across + (x >> 5)] >>> (x & 31)) & 1;
  }

  /** All cells one step on. */
  step() {
    for (let row = 0; row < this.height; row += this.rows) this.part(row, Math.min(this.rows, this.height - row));
    if (this.cell.fireRate < 1) this.keepSome();
    [this.state, this.next] = [this.next, this.state];
  }

  /** Some rows. @param {number} first @param {number} rows */
  part(first, rows) {
    const { channels } = this.cell;
    const [start, count] = [first * this.across, rows * this.across];
    for (const [wire, bits] of this.seenBits) {
      const place = Math.floor(wire / channels);
      this.seen(Math.floor(place / 3) - 1, (place % 3) - 1, this.state[wire % channels], bits, first, rows);
    }
    this.evaluate(4 * count);
    this.results.forEach((words, channel) => {
      const into = this.next[channel];
      into.set(words.subarray(0, count), start);
      if (this.last !== -1) for (let k = start + this.across - 1; k < start + count; k += this.across) into[k] &= this.last;
    });
  }

  /**
   * The bits of the cells dy rows below and dx columns to the right, for each cell of some rows.
   * @param {number} dy @param {number} dx @param {Uint32Array} plane @param {Uint32Array} into @param {number} first @param {number} rows
   */
  seen(dy, dx, plane, into, first, rows) {
    const { across, height, width } = this;
    const wraps = this.cell.border === "periodic";
    const end = (width - 1) & 31;
    for (let row = 0; row < rows; row++) {
      const at = row * across;
      const y = wraps ? (first + row + dy + height) % height : first + row + dy;
      if (y < 0 || y >= height) {
        into.fill(0, at, at + across);
        continue;
      }
      const from = y * across;
      if (dx === 0) for (let k = 0; k < across; k++) into[at + k] = plane[from + k];
      else if (dx < 0) {
        into[at] = (plane[from] << 1) | (wraps ? (plane[from + across - 1] >>> end) & 1 : 0);
        for (let k = 1; k < across; k++) into[at + k] = (plane[from + k] << 1) | (plane[from + k - 1] >>> 31);
      } else {
        for (let k = 0; k < across - 1; k++) into[at + k] = (plane[from + k] >>> 1) | (plane[from + k + 1] << 31);
        into[at + across - 1] = (plane[from + across - 1] >>> 1) | (wraps ? (plane[from] & 1) << end : 0);
      }
    }
  }

  /** Of an asynchronous automaton: cells that do not change in this step. */
  keepSome() {
    const part = Math.round(256 * this.cell.fireRate);
    for (let k = 0; k < this.height * this.across; k++) {
      let fires = 0; // each bit is 1 with probability part / 256
      for (let bit = 0; bit < 8; bit++) {
        const noise = (Math.random() * 4294967296) | 0;
        fires = (part >> bit) & 1 ? fires | noise : fires & noise;
      }
      for (let c = 0; c < this.cell.channels; c++) this.next[c][k] = (this.next[c][k] & fires) | (this.state[c][k] & ~fires);
    }
  }
}

export { NAMES, ONE, ZERO };
