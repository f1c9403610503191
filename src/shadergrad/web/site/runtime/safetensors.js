// -- safetensors: 8 bytes of length, a JSON header of names, dtypes, shapes and places, then the bytes

import { ShadergradError } from "./errors.js";
import { DTYPES, arrayOf, sizeOf } from "./numbers.js";

/** @typedef {import("./numbers.js").Numbers} Numbers */

/** What a file has, and where its numbers begin. @param {ArrayBuffer} file @returns {[Record<string, any>, number]} */
function headerOf(file) {
  try {
    const length = Number(new DataView(file).getBigUint64(0, true));
    return [JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length))), 8 + length];
  } catch {
    throw new ShadergradError("[readTensors] this is no safetensors file, or it is damaged.");
  }
}

/**
 * The tensors of a safetensors file, by name, as a GPU stores them.
 * @param {ArrayBuffer} file @returns {Map<string, {dtype: string, shape: number[], data: Numbers}>}
 */
export function readTensors(file) {
  const [header, start] = headerOf(file);
  const found = new Map();
  for (const [name, { dtype, shape, data_offsets: place }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const ours = Object.keys(DTYPES).find((d) => DTYPES[d][1] === dtype);
    const size = sizeOf(shape ?? []);
    if (!ours || place[1] - place[0] !== size * DTYPES[ours][2] || start + place[1] > file.byteLength)
      throw new ShadergradError(`[readTensors] ${name} is ${dtype} of shape (${shape}), which cannot be read, or is cut off.`);
    const bytes = file.slice(start + place[0], start + place[1]);
    /** @type {Numbers} */
    let data;
    if (dtype === "I64") {
      const wide = new BigInt64Array(bytes);
      data = Int32Array.from(wide, Number);
      if (wide.some((value) => BigInt.asIntN(32, value) !== value))
        throw new ShadergradError(`[readTensors] ${name} has int64 numbers beyond the 32 bits that a GPU stores.`);
    } else if (DTYPES[ours][2] === 1) data = Uint32Array.from(new Uint8Array(bytes));
    else data = new (arrayOf(ours))(bytes);
    found.set(name, { dtype: ours, shape, data });
  }
  return found;
}

/** The texts that a safetensors file holds beside its tensors. @param {ArrayBuffer} file @returns {Record<string, string>} */
export const metadataOf = (file) => headerOf(file)[0].__metadata__ ?? {};

/**
 * A safetensors file.
 * @param {Iterable<{name: string, dtype: string, shape: number[], data: Numbers}>} tensors
 * @param {Record<string, string>} [metadata] @returns {Uint8Array<ArrayBuffer>}
 */
export function writeTensors(tensors, metadata) {
  /** @type {Record<string, object>} */
  const header = metadata ? { __metadata__: metadata } : {};
  const parts = [];
  let end = 0;
  // the format wants no gaps, and readers like numbers aligned: the widest first
  for (const t of [...tensors].sort((a, b) => DTYPES[b.dtype][2] - DTYPES[a.dtype][2])) {
    const [, dtype, width] = DTYPES[t.dtype];
    const wide = width === 8 ? BigInt64Array.from(t.data, BigInt) : width === 1 ? Uint8Array.from(t.data) : t.data;
    const bytes = new Uint8Array(wide.buffer, wide.byteOffset, wide.byteLength);
    header[t.name] = { dtype, shape: t.shape, data_offsets: [end, (end += bytes.length)] };
    parts.push(bytes);
  }
  const head = new TextEncoder().encode(JSON.stringify(header));
  let at = 8 + 8 * Math.ceil(head.length / 8);
  const file = new Uint8Array(at + end).fill(32, 8, at); // spaces behind the header
  new DataView(file.buffer).setBigUint64(0, BigInt(at - 8), true);
  file.set(head, 8);
  for (const bytes of parts) {
    file.set(bytes, at);
    at += bytes.length;
  }
  return file;
}
