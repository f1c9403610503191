// -- adapters and devices: what they grant, and what a plan needs of them

import { NoGpuError } from "./errors.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./plan.js").Requires} Requires */
/** @typedef {"maxStorageBuffersPerShaderStage" | "maxComputeInvocationsPerWorkgroup" | "maxComputeWorkgroupStorageSize" | "maxStorageBufferBindingSize" | "maxBufferSize"} Limit */

/** What WebGPU calls the limits of a plan's target. @type {Record<string, Limit>} */
const LIMITS = {
  max_storage_buffers: "maxStorageBuffersPerShaderStage",
  max_workgroup_invocations: "maxComputeInvocationsPerWorkgroup",
  max_workgroup_storage: "maxComputeWorkgroupStorageSize",
};
// names of adapters that are programs on the CPU
const SOFTWARE = /swiftshader|llvmpipe|lavapipe|softpipe|basic render/i;
const PHONE = /android|iphone|mobile/i;

/** Whether an adapter is a program on the CPU. @param {any} adapter */
export function isSoftware({ info, isFallbackAdapter }) {
  return Boolean(isFallbackAdapter || info?.isFallbackAdapter || SOFTWARE.test(`${info?.vendor} ${info?.architecture} ${info?.description}`));
}

/** The bytes of a buffer that holds so many. @param {number} n */
export const roundUp = (n) => Math.ceil(Math.max(n, 4) / 16) * 16;

/**
 * Why a plan does not suit a device, or one that its adapter would give; "" where it does.
 * @param {Requires} requires @param {any} device @param {any} adapter
 */
export function unsuitable({ features, limits, subgroups, software, phones }, device, adapter) {
  const lacking = features.filter((name) => !device.features.has(name));
  if (lacking.length) return `it lacks ${lacking.join(", ")}`;
  for (const [name, need] of Object.entries(limits)) if (!(device.limits[name] >= need)) return `${name} is ${device.limits[name]}, the plan needs ${need}`;
  const { subgroupMinSize: least, subgroupMaxSize: most } = adapter.info ?? {};
  if (subgroups && !(least >= subgroups[0] && most <= subgroups[1]))
    return `its subgroups have ${least} to ${most} threads, the plan needs ${subgroups.join(" to ")}`;
  if (software !== isSoftware(adapter)) return software ? "it is no software adapter" : "it is a software adapter";
  return !phones && PHONE.test(globalThis.navigator?.userAgent ?? "") ? "it is a phone's" : "";
}

/** What a plan asks of a device beyond the least. @param {Plan} plan @returns {Record<string, number>} */
export function needsOf(plan) {
  /** @type {Record<string, number>} */
  const needs = {};
  for (const [ours, theirs] of Object.entries(LIMITS)) needs[theirs] = plan.target[ours];
  const bound = Math.max(0, ...plan.buffers.map((spec) => spec.bound));
  needs.maxStorageBufferBindingSize = Math.max(bound, 1 << 27);
  needs.maxBufferSize = Math.max(roundUp(Math.max(bound, ...plan.slots)), 1 << 28);
  return needs;
}

/** Refuses an adapter, or a device, that is too small. @param {GPUAdapter | GPUDevice} adapter @param {Record<string, number>} needs */
export function checkLimits(adapter, needs) {
  for (const [name, need] of Object.entries(needs)) {
    const has = adapter.limits[/** @type {Limit} */ (name)];
    if (has < need)
      throw new NoGpuError(
        `[load] this GPU is too small for the plan: ${name} is ${has}, the plan needs ${need} (${need - has} more). Hint: a smaller batch.`,
      );
  }
}

/** @param {string} name of a plan @param {string} why */
export function refuseUnsuitable(name, why) {
  if (why) throw new NoGpuError(`[load] the plan ${name} does not suit this GPU: ${why}.`);
}
