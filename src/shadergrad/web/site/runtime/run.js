// -- one run: what it writes, encodes, submits, and leaves for the host

import { arrayOf, sizeOf } from "./numbers.js";
import { USE } from "./session.js";

/** @typedef {import("./numbers.js").Numbers} Numbers */
/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./session.js").Session} Session */
/** A plan on a device, with what measures its time, and the batch of its last run. @typedef {{buffers: GPUBuffer[], copies: import("./commands.js").Copy[], commands: import("./commands.js").Command[], clock: ReturnType<typeof clockOf>, batch?: Batch | null}} Ready */
/** Where a result lies in what the host reads. @typedef {{name: string, shape: number[], dtype: string, start: number, length: number}} Place */

/** Inputs for runs, which upload them once while no others come between. `Program.batch` makes them. */
export class Batch {
  /** @param {Record<string, Numbers>} inputs */
  constructor(inputs) {
    this._inputs = inputs;
  }
}

/** What measures the GPU's time of a run, where the device has timestamps. @param {Session} session */
export function clockOf(session) {
  const { device } = session;
  return device.features.has("timestamp-query")
    ? { query: device.createQuerySet({ type: "timestamp", count: 2 }), buffer: session.buffer(16, USE.QUERY_RESOLVE | USE.COPY_SRC) }
    : null;
}

/**
 * Submits a run. The host reads its report of indices out of range (16 bytes), its two timestamps (16 bytes), then the results.
 * @param {Session} session @param {Plan} plan @param {Ready} ready @param {import("./readback.js").Readback} readback
 * @param {number} faulting the row of the report, or -1 @param {[number, Numbers][]} values @param {[string, number][]} wanted
 * @param {Batch | null} batch that has the values
 */
export function submitted(session, { buffers: rows }, ready, readback, faulting, values, wanted, batch) {
  const { device } = session;
  const { buffers, copies, commands, clock } = ready;
  const sizes = wanted.map(([, row]) => 4 * sizeOf(rows[row].shape));
  const staging = readback.room(session, sizes.reduce((a, b) => a + b, 32));
  const [into, begin] = [staging.buffer, staging.used];
  // those of a batch may be there from the run before: a plan writes nothing where its arguments lie (tests/null/test_plan.py)
  if (!batch || ready.batch !== batch) for (const [row, data] of values) device.queue.writeBuffer(buffers[row], 0, /** @type {BufferSource} */ (data));
  ready.batch = batch;
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass(
    clock ? { timestampWrites: { querySet: clock.query, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 } } : {},
  );
  let last;
  for (const [pipeline, group, [x, y, z]] of commands) {
    if (pipeline !== last) pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(x, y, z);
    last = pipeline;
  }
  pass.end();
  for (const [from, to, bytes] of copies) encoder.copyBufferToBuffer(from, 0, to, 0, bytes);
  if (faulting >= 0) encoder.copyBufferToBuffer(buffers[faulting], 0, into, begin, 16);
  if (clock) {
    encoder.resolveQuerySet(clock.query, 0, 2, clock.buffer, 0);
    encoder.copyBufferToBuffer(clock.buffer, 0, into, begin + 16, 16);
  }
  staging.used += 32;
  const places = wanted.map(([name, row], k) => {
    const start = staging.used;
    if (sizes[k]) encoder.copyBufferToBuffer(buffers[row], 0, into, start, sizes[k]);
    staging.used += sizes[k];
    return { ...rows[row], name, start, length: sizes[k] / 4 };
  });
  staging.used = Math.ceil(staging.used / 8) * 8;
  device.queue.submit([encoder.finish()]);
  return { staging, begin, places };
}

/** Milliseconds between a run's timestamps. @param {ArrayBuffer} bytes @param {number} begin */
export function gpuTimeIn(bytes, begin) {
  const [started, ended] = new BigUint64Array(bytes, begin + 16, 2);
  return Number(ended - started) / 1e6;
}

/** Results by name: typed arrays, and numbers where a result is one. @param {ArrayBuffer} bytes @param {Place[]} places @returns {Record<string, any>} */
export const valuesIn = (bytes, places) =>
  Object.fromEntries(
    places.map(({ name, shape, dtype, start, length }) => {
      const data = new (arrayOf(dtype))(bytes.slice(start, start + 4 * length));
      return [name, shape.length ? data : data[0]];
    }),
  );
