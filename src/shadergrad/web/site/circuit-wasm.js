// A circuit as WebAssembly: 128 cells at once, gate after gate. In: gates, and where in memory the bits of their inputs lie. Out: a
// function that evaluates all of them.

/** @typedef {{wire: number, kind: number, a: number, b: number}} Gate a wire below zero is a constant */

const ZERO = -1;
const VECTOR = 16; // bytes
const [LOAD, STORE, CONST, NOT, AND, AND_NOT, OR, XOR] = [0x00, 0x0b, 0x0c, 0x4d, 0x4e, 0x4f, 0x50, 0x51].map((code) => [0xfd, code]);
const [BYTES_DONE, BYTES] = [1, 0]; // local variables
const get = (/** @type {number} */ variable) => [0x20, variable];

/** By kind: whether b comes first, and the operations. @type {Record<number, [boolean, number[][]]>} */
const KINDS = {
  1: [false, [AND]],
  2: [false, [AND_NOT]],
  4: [true, [AND_NOT]],
  6: [false, [XOR]],
  7: [false, [OR]],
  8: [false, [OR, NOT]],
  9: [false, [XOR, NOT]],
  11: [true, [AND_NOT, NOT]], // not (b and not a)
  13: [false, [AND_NOT, NOT]],
  14: [false, [AND, NOT]],
};

/** @param {number} n @returns {number[]} as WebAssembly writes numbers that are not negative */
const leb = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...leb(n >>> 7)]);
/** @param {number[][]} parts */
const list = (parts) => [...leb(parts.length), ...parts.flat()];
/** @param {number} id @param {number[]} content */
const section = (id, content) => [id, ...leb(content.length), ...content];
const text = (/** @type {string} */ name) => list(Array.from(name, (letter) => [letter.charCodeAt(0)]));

/**
 * What evaluates the gates for so many bytes of every input. The values of gates lie at the beginning of the memory, one vector
 * each, which the next vector of cells overwrites.
 * @param {Gate[]} gates @param {number[]} outputs their wires @param {Map<number, number>} inputs where each begins, in bytes
 * @param {number[]} results where those of the outputs begin @param {WebAssembly.Memory} memory
 * @returns {(bytes: number) => void}
 */
export function evaluator(gates, outputs, inputs, results, memory) {
  const places = new Map(gates.map(({ wire }, k) => [wire, VECTOR * k]));
  const at = (/** @type {number} */ place) => [0, ...leb(place)]; // no alignment that an engine could count on
  const value = (/** @type {number} */ wire) => {
    if (wire < 0) return [...CONST, ...new Array(VECTOR).fill(wire === ZERO ? 0 : 255)];
    const place = places.get(wire);
    if (place !== undefined) return [0x41, 0, ...LOAD, ...at(place)];
    return [...get(BYTES_DONE), ...LOAD, ...at(/** @type {number} */ (inputs.get(wire)))];
  };
  /** @type {number[]} */
  const body = [1, 1, 0x7f, 0x03, 0x40]; // one more variable, an i32; a loop
  const add = (/** @type {number[]} */ codes) => {
    for (const code of codes) body.push(code);
  };
  gates.forEach(({ kind, a, b }, k) => {
    add([0x41, 0]);
    if (kind === 10 || kind === 12) add([...value(a), ...NOT]);
    else {
      const [swapped, operations] = KINDS[kind];
      add([...value(swapped ? b : a), ...value(swapped ? a : b), ...operations.flat()]);
    }
    add([...STORE, ...at(VECTOR * k)]);
  });
  outputs.forEach((wire, k) => add([...get(BYTES_DONE), ...value(wire), ...STORE, ...at(results[k])]));
  add([...get(BYTES_DONE), 0x41, VECTOR, 0x6a, 0x22, BYTES_DONE, ...get(BYTES), 0x49, 0x0d, 0, 0x0b, 0x0b]); // again while there are more
  const head = [
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, list([[0x60, 1, 0x7f, 0]])),
    ...section(2, list([[...text("own"), ...text("memory"), 2, 0, 1]])),
    ...section(3, list([[0]])),
    ...section(7, list([[...text("run"), 0, 0]])),
  ];
  const size = leb(body.length);
  const code = [10, ...leb(1 + size.length + body.length), 1, ...size];
  const module = new WebAssembly.Module(Uint8Array.from([...head, ...code].concat(body)));
  return /** @type {any} */ (new WebAssembly.Instance(module, { own: { memory } }).exports.run);
}
