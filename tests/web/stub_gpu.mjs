// runtime.js in Node over a WebGPU that computes nothing: what it asks of adapters, which files it fetches, which plan it takes.
// In: the folder of an export, and a list of scenarios as JSON. Out: what became of each.
import { readFile } from "node:fs/promises";

const [folder, scenarios] = [process.argv[2], JSON.parse(process.argv[3])];
const base = new URL(`file://${folder}/`);
const { Program } = await import(new URL("runtime.js", base));
const DEFAULT = { maxStorageBuffersPerShaderStage: 8, maxComputeInvocationsPerWorkgroup: 256, maxComputeWorkgroupStorageSize: 16384 };
const SIZES = { maxStorageBufferBindingSize: 2 ** 27, maxBufferSize: 2 ** 28, maxComputeWorkgroupSizeX: 256 };
let fetched, asked, devices, given;

globalThis.fetch = async (address) => {
  const path = `${address}`.slice(base.href.length);
  fetched.push(path);
  const text = await readFile(new URL(address)).catch(() => null);
  if (text === null || given.missing === path) return { ok: false, status: 404 };
  const document = path.endsWith(".json") ? JSON.parse(text) : null;
  for (const [file, keys, value] of given.edits ?? []) {
    if (file !== path && !(file === "plan" && path.startsWith("plans/"))) continue;
    const last = keys.at(-1);
    const at = keys.slice(0, -1).reduce((x, key) => x[key], document);
    value === null ? delete at[last] : (at[last] = value);
  }
  return { ok: true, json: async () => document, arrayBuffer: async () => new Uint8Array(text).buffer };
};

class Device extends EventTarget {
  constructor({ requiredLimits, requiredFeatures }) {
    super();
    this.limits = { ...DEFAULT, ...SIZES, ...requiredLimits };
    this.features = new Set(requiredFeatures);
    this.lost = new Promise((resolve) => (this.destroy = (reason = "destroyed") => resolve({ reason, message: reason })));
    this.queue = { writeBuffer() {}, submit() {} };
    devices.push(this);
  }
  createBuffer = ({ size }) => ({ size });
  createShaderModule = ({ code }) => ({ code, getCompilationInfo: async () => ({ messages: [] }) });
  createComputePipelineAsync = async ({ compute }) => {
    if (given.uncompiled && compute.module.code.includes(given.uncompiled)) throw new Error("too long");
    return {};
  };
  createBindGroupLayout = () => ({});
  createPipelineLayout = () => ({});
  createBindGroup = ({ entries }) => {
    for (const { resource } of entries) if (resource.offset + resource.size > resource.buffer.size) throw new Error("a binding is too long");
    return {};
  };
}

const adapterOf = ({ features = [], limits = {}, info = {}, refuses = false }) => ({
  features: new Set(features),
  limits: { ...DEFAULT, ...SIZES, ...limits },
  info,
  async requestDevice(wanted) {
    asked.push(wanted);
    const { requiredLimits, requiredFeatures } = wanted;
    if (requiredFeatures.some((name) => !this.features.has(name))) throw new TypeError("a feature is not there");
    for (const [name, need] of Object.entries(requiredLimits)) if (!(need <= this.limits[name])) throw new Error(`${name} is not granted`);
    if (refuses && requiredLimits.maxStorageBuffersPerShaderStage > 8) throw new Error("out of memory");
    return new Device(wanted);
  },
});

const found = [];
for (given of scenarios) {
  [fetched, asked, devices] = [[], [], []];
  const warned = [];
  console.warn = (text) => warned.push(text);
  let adapter = adapterOf(given.adapter ?? {});
  Object.defineProperty(globalThis, "navigator", { value: { userAgent: given.agent ?? "", gpu: { requestAdapter: async () => adapter } }, configurable: true });
  const outcome = { warned, fetched };
  try {
    const step = await Program.load(new URL("step.json", base), { plan: given.plan });
    outcome.plan = step.plan.name;
    if (given.program) outcome.shared = (await Program.load(new URL(given.program, base), { share: step })).plan.name;
    if (given.later) {
      adapter = adapterOf(given.later);
      devices.at(-1).destroy("another GPU");
      await new Promise((resolve) => setTimeout(resolve));
      await step._session.reopening;
      outcome.later = step.plan.name;
    }
    outcome.refused = step.refused;
  } catch (error) {
    outcome.error = `${error.name}: ${error.message}`;
  }
  outcome.asked = asked.map(({ requiredLimits, requiredFeatures }) => [requiredLimits.maxStorageBuffersPerShaderStage, requiredLimits.maxComputeWorkgroupStorageSize, requiredFeatures]);
  found.push(outcome);
}
console.log(JSON.stringify(found));
