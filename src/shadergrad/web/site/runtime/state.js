// -- the state: from a file into the device's buffers, and back

import { ShadergradError } from "./errors.js";
import { converted } from "./numbers.js";
import { keyOf } from "./plan.js";
import { readTensors, writeTensors } from "./safetensors.js";

/** @typedef {import("./numbers.js").Numbers} Numbers */
/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./session.js").Held} Held */
/** @typedef {import("./session.js").Session} Session */

/**
 * Takes the parameters and the state of a program into the session, or finds them there.
 * @param {Session} session @param {Plan} plan @param {ReturnType<typeof readTensors>} tensors
 */
export function enter(session, { buffers: rows, inputs, outputs }, tensors) {
  const { device, held } = session;
  /** @type {Held[]} */
  const fresh = [];
  const changed = new Set(outputs.map((row) => keyOf(rows[row])));
  for (const row of inputs) {
    const spec = rows[row];
    if (spec.role === "argument") continue;
    const key = keyOf(spec);
    const known = held.get(key);
    if (known) known.changes ||= changed.has(key);
    else {
      const found = tensors.get(key);
      if (!found) throw new ShadergradError(`[load] the state has no ${key}.`);
      const latest = converted("load", spec, found.data);
      fresh.push({ key, spec, latest, changes: changed.has(key), buffer: /** @type {any} */ (null) });
    }
  }
  for (const h of fresh) {
    held.set(h.key, h);
    if (!device) continue; // it gets them when it is opened
    h.buffer = session.buffer(h.spec.bound);
    device.queue.writeBuffer(h.buffer, 0, /** @type {BufferSource} */ (h.latest));
  }
}

/** Values of one moment as a file. @param {Session} session @param {Held[]} held @param {(held: Held) => string} name @param {Record<string, string>} [metadata] */
export async function saved(session, held, name, metadata) {
  const values = await session.valuesOf(held);
  const tensors = held.map((h, k) => ({ name: name(h), dtype: h.spec.dtype, shape: h.spec.shape, data: values[k] }));
  return writeTensors(tensors, metadata);
}

/**
 * What a file has for a program: its whole state by keys; or, if all of them are there by their plain names, its weights alone.
 * @param {Session} session @param {string[]} weights their keys @param {ArrayBuffer} file @returns {{plain: boolean, found: [Held, Numbers][]}}
 */
export function matched(session, weights, file) {
  const tensors = readTensors(file);
  const plain = weights.length > 0 && weights.every((key) => tensors.has(key.slice(key.indexOf("/") + 1)));
  const wanted = plain ? weights : [...session.held.keys()];
  /** @type {[Held, Numbers][]} */
  const found = wanted.map((key) => {
    const held = /** @type {Held} */ (session.held.get(key));
    const name = plain ? held.spec.name : key;
    const tensor = tensors.get(name);
    const { dtype, shape } = held.spec;
    if (!tensor) throw new ShadergradError(`[loadState] the file has no ${name}: it is another model's, or another optimizer's.`);
    if (tensor.dtype !== dtype || `${tensor.shape}` !== `${shape}`)
      throw new ShadergradError(`[loadState] ${name} is ${tensor.dtype} (${tensor.shape}) in the file, and ${dtype} (${shape}) here.`);
    return [held, tensor.data];
  });
  return { plain, found };
}
