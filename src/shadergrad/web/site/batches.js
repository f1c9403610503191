// Batches of a step: rows of the data in a random order, all of them before one comes again; or noise. The same in every run.

/** @typedef {import("./runtime.js").Numbers} Numbers */
/** @typedef {{name: string, shape: number[], dtype: string}} Part */
/** @typedef {Map<string, {dtype: string, shape: number[], data: Numbers}>} Data */

export class Batches {
  seed = 1;
  drawn = 0;
  /** @type {number[]} */ order = [];
  /** @type {Record<string, Numbers>} */ noise = {};

  /** @param {Part[]} parts the arguments of the step @param {Data} data @param {boolean} whole data are whole batches, one behind the other */
  constructor(parts, data, whole) {
    this.parts = parts;
    this.data = data;
    this.whole = whole;
  }

  /** From the first batch on. */
  begin() {
    [this.seed, this.drawn, this.order, this.noise] = [1, 0, [], {}];
  }

  /** Mulberry32: numbers in [0, 1) from a counter. */
  random() {
    this.seed = (this.seed + 0x6d2b79f5) | 0;
    let t = Math.imul(this.seed ^ (this.seed >>> 15), 1 | this.seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  /** @param {string} dtype */
  sample(dtype) {
    if (dtype !== "float32") return Math.floor(2 * this.random());
    return Math.sqrt(-2 * Math.log(1 - this.random())) * Math.cos(2 * Math.PI * this.random());
  }

  /** The next batch, by the names of the arguments. @returns {Record<string, Numbers>} */
  next() {
    const rows = this.whole ? [] : this.rows();
    const number = this.drawn++;
    return Object.fromEntries(
      this.parts.map(({ name, shape, dtype }) => {
        const count = shape.reduce((a, b) => a * b, 1);
        const given = this.data.get(name);
        if (!given) return [name, (this.noise[name] ??= Float32Array.from({ length: count }, () => this.sample(dtype)))];
        if (this.whole) {
          const at = number % Math.floor(given.data.length / count);
          return [name, given.data.subarray(at * count, (at + 1) * count)];
        }
        const width = count / shape[0];
        const part = new /** @type {any} */ (given.data.constructor)(count);
        rows.forEach((row, k) => part.set(given.data.subarray(row * width, (row + 1) * width), k * width));
        return [name, part];
      }),
    );
  }

  rows() {
    const fed = this.parts.filter(({ name }) => this.data.has(name));
    if (!fed.length) return [];
    const size = fed[0].shape[0];
    if (this.order.length < size) this.order = this.shuffled(Math.min(...fed.map(({ name }) => this.data.get(name)?.shape[0] ?? 0)));
    return this.order.splice(0, size);
  }

  /** @param {number} count */
  shuffled(count) {
    const all = Array.from({ length: count }, (_, k) => k);
    for (let k = count - 1; k > 0; k--) {
      const other = Math.floor(this.random() * (k + 1));
      [all[k], all[other]] = [all[other], all[k]];
    }
    return all;
  }
}
