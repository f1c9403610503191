// -- numbers: dtypes, the arrays that hold them, and what callers give as such

import { ShadergradError } from "./errors.js";

/** @typedef {Float32Array | Int32Array | Uint32Array} Numbers */
/** @typedef {Numbers | ArrayLike<number> | number | boolean} Given */

const ARRAYS = { f32: Float32Array, i32: Int32Array, u32: Uint32Array };
/** How dtypes are stored on a GPU, and in files. @type {Record<string, ["f32" | "i32" | "u32", string, number]>} */
export const DTYPES = {
  float32: ["f32", "F32", 4],
  int32: ["i32", "I32", 4],
  uint32: ["u32", "U32", 4],
  int64: ["i32", "I64", 8],
  bool: ["u32", "BOOL", 1],
  uint8: ["u32", "U8", 1],
};

/** @param {number[]} shape */
export const sizeOf = (shape) => shape.reduce((a, b) => a * b, 1);
/** @param {string} dtype */
export const arrayOf = (dtype) => ARRAYS[DTYPES[dtype][0]];

/**
 * The numbers for a buffer, in the type that the GPU stores.
 * @param {string} what @param {{name: string, shape: number[], dtype: string}} spec @param {Given} given @returns {Numbers}
 */
export function converted(what, spec, given) {
  const kind = arrayOf(spec.dtype);
  const size = sizeOf(spec.shape);
  const list = typeof given === "number" || typeof given === "boolean" ? [Number(given)] : given;
  if (list?.length !== size)
    throw new ShadergradError(`[${what}] ${spec.name} takes ${size} numbers, of shape (${spec.shape}), not ${list?.length ?? given}.`);
  if (list instanceof kind) return /** @type {Numbers} */ (list);
  const made = kind.from(/** @type {ArrayLike<number>} */ (list));
  if (kind !== Float32Array)
    for (let k = 0; k < size; k++)
      if (made[k] !== list[k])
        throw new ShadergradError(`[${what}] ${spec.name} is ${spec.dtype}; element ${k} is ${list[k]}, which it cannot be.`);
  return made;
}
