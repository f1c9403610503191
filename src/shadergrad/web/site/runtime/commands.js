// -- a plan on a device: buffers for its rows, and its dispatches with pipelines of its kernels

import { ShadergradError } from "./errors.js";
import { sizeOf } from "./numbers.js";
import { keyOf } from "./plan.js";

/** @typedef {import("./plan.js").Dispatch} Dispatch */
/** @typedef {import("./plan.js").Kernel} Kernel */
/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./session.js").Session} Session */
/** A dispatch: what, on which buffers, on how many workgroups. @typedef {[GPUComputePipeline, GPUBindGroup, number[]]} Command */
/** Bytes that a run copies at its end. @typedef {[from: GPUBuffer, to: GPUBuffer, bytes: number]} Copy */

const COMPUTE_STAGE = 4;
const CARRIED = ["parameter", "state", "counter"];

/** A buffer for each row of the table, and the copies of what a run changes to where the next run reads it. @param {Session} session @param {Plan} plan */
export function allocated(session, { buffers: rows, inputs, outputs, slots: sizes }) {
  const slots = sizes.map((bytes) => session.buffer(bytes));
  const carried = new Map(inputs.filter((row) => CARRIED.includes(rows[row].role)).map((row) => [keyOf(rows[row]), row]));
  /** @type {GPUBuffer[]} */
  const buffers = [];
  /** @type {Copy[]} */
  const copies = [];
  for (const row of inputs) {
    const held = session.held.get(keyOf(rows[row]));
    if (held) buffers[row] = held.buffer;
  }
  rows.forEach((spec, row) => {
    if (spec.aliases === null) buffers[row] ??= spec.slot === null ? session.buffer(spec.bound) : slots[spec.slot];
  });
  rows.forEach((spec, row) => {
    if (spec.aliases !== null) buffers[row] = buffers[spec.aliases];
  });
  for (const row of outputs) {
    const before = carried.get(keyOf(rows[row]));
    if (before !== undefined && buffers[before] !== buffers[row]) copies.push([buffers[row], buffers[before], 4 * sizeOf(rows[row].shape)]);
  }
  return { buffers, copies };
}

/**
 * Compiles the kernels of a plan, all at once.
 * @param {GPUDevice} device @param {Plan} plan @param {GPUBuffer[]} buffers of its rows
 * @param {(compiled: number, of: number) => void} [onkernel] @returns {Promise<Command[]>}
 */
export async function commandsOf(device, { buffers: rows, kernels, dispatches }, buffers, onkernel) {
  /** @type {Map<string, {group: GPUBindGroupLayout, pipeline: GPUPipelineLayout}>} */
  const layouts = new Map();
  /** Kernels that read and write alike share one. */
  const layoutOf = (/** @type {Kernel} */ { access }) => {
    let found = layouts.get(`${access}`);
    if (!found) {
      const entries = access.map((mode, binding) => ({
        binding,
        visibility: COMPUTE_STAGE,
        buffer: { type: /** @type {GPUBufferBindingType} */ (mode === "read" ? "read-only-storage" : "storage") },
      }));
      const group = device.createBindGroupLayout({ entries });
      layouts.set(`${access}`, (found = { group, pipeline: device.createPipelineLayout({ bindGroupLayouts: [group] }) }));
    }
    return found;
  };
  let count = 0;
  const pipelines = await Promise.all(
    kernels.map(async (kernel) => {
      const pipeline = await compiled(device, kernel, layoutOf(kernel).pipeline);
      onkernel?.(++count, kernels.length);
      return pipeline;
    }),
  );
  const entries = (/** @type {Dispatch} */ { buffers: bound, offsets }) =>
    bound.map((row, binding) => {
      const offset = offsets[binding] ?? 0;
      return { binding, resource: { buffer: buffers[row], offset, size: rows[row].bound - offset } };
    });
  return dispatches
    .filter((dispatch) => dispatch.grid.every((n) => n > 0))
    .map((dispatch) => {
      const layout = layoutOf(kernels[dispatch.kernel]).group;
      return [pipelines[dispatch.kernel], device.createBindGroup({ layout, entries: entries(dispatch) }), dispatch.grid];
    });
}

/** @param {GPUDevice} device @param {Kernel} kernel @param {GPUPipelineLayout} layout */
async function compiled(device, kernel, layout) {
  const module = device.createShaderModule({ code: kernel.source, label: kernel.name });
  try {
    return await device.createComputePipelineAsync({ layout, compute: { module, entryPoint: "main" } });
  } catch (error) {
    const info = await module.getCompilationInfo().catch(() => null);
    if (!info) throw error; // the device is lost: who compiles tries again on another
    const { messages } = info;
    const first = messages.find((message) => message.type === "error");
    const line = first ? `, line ${first.lineNum}: ${kernel.source.split("\n")[first.lineNum - 1]?.trim()}` : "";
    throw new ShadergradError(
      `[load] the kernel ${kernel.name} (${kernel.origin}) does not compile${line}\n${first?.message ?? /** @type {Error} */ (error).message}`,
    );
  }
}
