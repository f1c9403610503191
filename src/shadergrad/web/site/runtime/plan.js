// -- plans: what an exporter wrote, the names in it, and the files of plans for better adapters

import { ShadergradError, absent } from "./errors.js";

/** @typedef {{role: string, name: string, shape: number[], dtype: string, aliases: number | null, slot: number | null, bound: number}} Spec */
/** @typedef {{name: string, access: string[], source: string, origin: string, digest?: string}} Kernel */
/** @typedef {{kernel: number, buffers: number[], grid: number[], offsets: number[]}} Dispatch */
/** `name` is the one that it has in its manifest, or "portable". @typedef {{name: string, target: Record<string, any>, buffers: Spec[], kernels: Kernel[], dispatches: Dispatch[], inputs: number[], outputs: number[], slots: number[]}} Plan */
/**
 * What a plan asks of a device beyond WebGPU's least: features, limits by WebGPU's names, the least and the largest size of subgroups,
 * and whether it is for software adapters, or for GPUs, and for phones.
 * @typedef {{features: string[], limits: Record<string, number>, subgroups?: [number, number], software: boolean, phones: boolean}} Requires
 */
/** A plan in files of its own: plan, and kernels that it shares. @typedef {{name: string, plan: string, kernels: string[], requires: Requires}} Manifest */
/** `plans` are those for devices that grant more than `plan` needs, the best first; `digests` name the kernels of `plan`. @typedef {{format: number, plan: Plan, plans?: Manifest[], digests?: string[], faults: string[], state: string | null, weights: string[]}} Exported */

export const FORMAT = 1;

/** @param {Spec} spec */
export const keyOf = (spec) => `${spec.role}/${spec.name}`;
/** The name of a result as its step's author calls it: `result['loss']` is loss. @param {string} name */
export const shortName = (name) => /^result\[(?:'([^'\]]*)'|(\d+))\]$/.exec(name)?.slice(1).find((x) => x !== undefined) ?? name;

/** Names, shapes and dtypes of rows. @param {Plan} plan @param {Map<string, number>} rows by name */
export const described = ({ buffers }, rows) => [...rows].map(([name, row]) => ({ name, shape: buffers[row].shape, dtype: buffers[row].dtype }));

/** The one row of that name among what a program reads and writes. @param {Plan} plan @param {string} what @param {string} name */
export function rowOf({ buffers: rows, inputs, outputs }, what, name) {
  const known = [...inputs, ...outputs].filter((row) => rows[row].role !== "argument");
  const found = known.filter((row) => [rows[row].name, keyOf(rows[row]), shortName(rows[row].name)].includes(name));
  const keys = new Set(found.map((row) => keyOf(rows[row])));
  if (keys.size === 1) return found[0];
  if (!keys.size) throw absent(what, name, [...new Set(known.map((row) => rows[row].name))].slice(0, 20));
  throw new ShadergradError(`[${what}] ${name} may be ${[...keys].join(", ")}.`);
}

/** @param {URL} address */
export async function fetched(address) {
  const answer = await fetch(address).catch(() => null);
  if (!answer?.ok) throw new ShadergradError(`[load] ${address} cannot be loaded: ${answer ? `status ${answer.status}` : "no answer"}.`);
  return answer;
}

/** Refuses what is no list of manifests. @param {any} manifests @param {URL} address @returns {Manifest[]} */
export function checked(manifests, address) {
  const texts = (/** @type {any} */ list) => Array.isArray(list) && list.every((x) => typeof x === "string");
  const numbers = (/** @type {any} */ map) => map && Object.values(map).every(Number.isInteger);
  const isOne = (/** @type {any} */ { name, plan, kernels, requires: r } = {}) =>
    texts([name, plan]) && texts(kernels) && texts(r?.features) && numbers(r.limits) && typeof r.software === "boolean" && typeof r.phones === "boolean" &&
    (r.subgroups === undefined || (r.subgroups?.length === 2 && numbers(r.subgroups)));
  if (!Array.isArray(manifests) || !manifests.every((m) => m && isOne(m))) throw new ShadergradError(`[load] ${address} has a manifest that is none.`);
  return manifests;
}

/** What goes into a plan and comes out, which is the same for all plans of a program. @param {Plan} plan */
const interfaceOf = ({ buffers, inputs, outputs }) =>
  [inputs, outputs].map((rows) => rows.map((row) => [keyOf(buffers[row]), buffers[row].dtype, buffers[row].shape].join()).join(";")).join("|");

/** The plan of a manifest. @param {Manifest} manifest @param {Exported} exported @param {URL} address @returns {Promise<Plan>} */
export async function planOf({ name, plan: file, kernels: shared }, exported, address) {
  const files = await Promise.all([file, ...shared].map(async (path) => (await fetched(new URL(path, address))).json().catch(() => null)));
  const own = (exported.digests ?? []).map((digest, k) => [digest, exported.plan.kernels[k]?.source]);
  const sources = Object.assign({}, ...files.map((x) => x?.sources), Object.fromEntries(own));
  try {
    const { plan } = files[0];
    const kernels = plan.kernels.map((/** @type {Kernel} */ kernel) => ({ ...kernel, source: sources[kernel.digest ?? ""] }));
    const whole = files.every((x) => x.format === FORMAT) && kernels.every((/** @type {Kernel} */ { source }) => typeof source === "string");
    if (whole && interfaceOf(plan) === interfaceOf(exported.plan)) return { ...plan, kernels, name };
  } catch {} // it is told below
  throw new ShadergradError(`[load] ${file} is not the plan ${name} of ${address}. Hint: export again, and reload.`);
}
