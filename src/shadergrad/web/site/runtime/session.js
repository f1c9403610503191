// -- the device, and what programs share on it

import { checkLimits, needsOf, refuseUnsuitable, roundUp, unsuitable } from "./adapter.js";
import { NoGpuError, ShadergradError, absent } from "./errors.js";
import { arrayOf, sizeOf } from "./numbers.js";

/** @typedef {import("./numbers.js").Numbers} Numbers */
/** @typedef {import("./plan.js").Spec} Spec */
/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./plan.js").Manifest} Manifest */
/** @typedef {import("./plan.js").Requires} Requires */
/** @typedef {{reason: string, stepsLost: number}} Loss */
/** @typedef {{key: string, spec: Spec, buffer: GPUBuffer, latest: Numbers | null, changes: boolean}} Held */
/** A program, as its device knows it. @typedef {{plan: Plan, steps: number, _requires: Requires | null, _kept: number, _resolve: () => Promise<void>, _refuse: (error: Error) => void, _goBack: () => number}} Resident */
/**
 * @typedef {object} DeviceOptions
 * @property {string} [plan] run the plan of this name ("portable" is always there), whatever else the GPU allows, or fail; by default the
 *   best that it allows
 * @property {number} [inFlight] steps that may be under way at once (32)
 * @property {number} [keepEvery] milliseconds after which the state is copied to the host, to go on from when the GPU is lost
 * @property {boolean} [timestamps] measure the GPU's time of each step where the browser allows it: `gpuTime`
 * @property {(loss: Loss) => void} [onlost] told when the device was lost and opened again
 */

// WebGPU's flags: the names that browsers have for them are unknown to type checkers
export const USE = { MAP_READ: 1, COPY_SRC: 4, COPY_DST: 8, STORAGE: 0x80, QUERY_RESOLVE: 0x200 };
export const MAP_READ_MODE = 1;

/** A device with the parameters and the state of its programs, which outlive it: when it is lost, another one gets them. */
export class Session {
  /** @type {Map<string, Held>} */ held = new Map();
  /** @type {Set<Resident>} */ programs = new Set();
  /** @type {Promise<void> | null} */ reopening = null;
  /** @type {GPUDevice} */ device;
  /** @type {string} */ adapter = "";
  /** @type {string | null} */ error = null;
  writes = 0;
  closed = false;
  copying = false;
  copied = performance.now();
  /** What the device is asked for. @type {Record<string, number>} */ needs = {};
  /** @type {string[]} */ features = [];
  /** @type {any} */ found = null;

  /** @param {DeviceOptions} options */
  constructor(options) {
    this.options = options;
    this.device = /** @type {any} */ (null);
  }

  /** The browser's adapter; each gives one device. @returns {Promise<GPUAdapter>} */
  async request() {
    const gpu = globalThis.navigator?.gpu;
    if (!gpu)
      throw new NoGpuError(
        "[load] this browser offers no WebGPU here. Chrome and Edge 113, Safari 26 and Firefox 141 do, on https or localhost.",
      );
    const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) throw new NoGpuError("[load] WebGPU is there, but the browser gives no GPU. chrome://gpu says why.");
    this.found = adapter;
    this.adapter = adapter.info?.description || [adapter.info?.vendor, adapter.info?.architecture].filter(Boolean).join(" ");
    return adapter;
  }

  /**
   * Of a program's plans those that suit, the best first, and at last null: the portable one. A device that is open is asked, not its adapter.
   * @param {Manifest[]} manifests @returns {Promise<(Manifest | null)[]>}
   */
  async suitable(manifests) {
    const wished = this.options.plan;
    const known = manifests.find(({ name }) => name === wished);
    await this.reopening;
    if (wished === "portable" || (wished ? !known && this.device : !manifests.length)) return [null];
    if (wished && !known)
      throw absent("load", `plan ${wished}`, [...manifests.map((m) => m.name), "portable"]);
    const adapter = this.found ?? (await this.request());
    const why = (/** @type {Manifest} */ { requires }) => unsuitable(requires, this.device ?? adapter, adapter);
    if (known) refuseUnsuitable(known.name, why(known));
    return known ? [known] : [...manifests.filter((m) => !why(m)), null];
  }

  /** Opens a device, at first and after a loss. */
  async open() {
    const adapter = await this.request();
    for (const { plan, _requires: requires } of this.programs) if (requires) refuseUnsuitable(plan.name, unsuitable(requires, adapter, adapter));
    checkLimits(adapter, this.needs);
    const timing = this.options.timestamps && adapter.features.has("timestamp-query");
    this.device = await adapter.requestDevice({
      requiredLimits: this.needs,
      requiredFeatures: /** @type {GPUFeatureName[]} */ ([...this.features, ...(timing ? ["timestamp-query"] : [])]),
    });
    const device = this.device;
    device.addEventListener("uncapturederror", (event) => {
      if (this.device === device) this.error ??= /** @type {GPUUncapturedErrorEvent} */ (event).error.message;
    });
    device.lost.then((info) => {
      if (this.closed || this.device !== device) return;
      this.reopening = this.reopen(info.message || info.reason);
      this.reopening.catch(() => {}); // told to whoever runs a step
    });
    for (const held of this.held.values()) {
      held.buffer = this.buffer(held.spec.bound);
      if (held.latest) device.queue.writeBuffer(held.buffer, 0, held.latest);
    }
  }

  /** Gives a device back that does not run a plan. */
  abandon() {
    const { device } = this;
    [this.device, this.error] = [/** @type {any} */ (null), null];
    device?.destroy();
  }

  /** On another device, which may be another GPU's: then the portable plans go on, if the others do not run there. @param {string} reason */
  async reopen(reason) {
    const again = async () => {
      await this.open();
      for (const program of this.programs) await program._resolve();
    };
    await again().catch(async (error) => {
      const special = [...this.programs].filter((program) => program.plan.name !== "portable");
      if (!special.length || this.options.plan) throw error;
      this.abandon();
      [this.needs, this.features] = [{}, []];
      for (const program of special) program._refuse(error);
      for (const { plan } of this.programs)
        for (const [name, need] of Object.entries(needsOf(plan))) this.needs[name] = Math.max(this.needs[name] ?? 0, need);
      await again();
    });
    let stepsLost = 0;
    for (const program of this.programs) stepsLost += program._goBack();
    this.error = null;
    this.reopening = null;
    this.options.onlost?.({ reason, stepsLost });
  }

  /** @param {number} size @param {number} [usage] */
  buffer(size, usage = USE.STORAGE | USE.COPY_SRC | USE.COPY_DST) {
    return this.device.createBuffer({ size: roundUp(size), usage });
  }

  /**
   * Does something on the device; again on another one when it is lost meanwhile.
   * @template T @param {() => Promise<T>} work @returns {Promise<T>}
   */
  async doing(work) {
    for (;;) {
      if (this.reopening) await this.reopening; // without a promise in each step
      if (this.closed) throw new ShadergradError("[run] the program was destroyed.");
      const device = this.device;
      try {
        return await work();
      } catch (error) {
        if (error instanceof ShadergradError) throw error;
        const later = new Promise((resolve) => setTimeout(resolve, 1000, "no loss"));
        if ((await Promise.race([device.lost, later])) === "no loss") throw error;
      }
    }
  }

  /** Reads buffers at one moment. @param {[GPUBuffer, Spec][]} wanted @returns {Promise<Numbers[]>} */
  async download(wanted) {
    const sizes = wanted.map(([, spec]) => 4 * sizeOf(spec.shape));
    const total = sizes.reduce((a, b) => a + b, 0);
    const staging = this.buffer(total, USE.MAP_READ | USE.COPY_DST);
    const encoder = this.device.createCommandEncoder();
    let at = 0;
    wanted.forEach(([buffer], k) => {
      if (sizes[k]) encoder.copyBufferToBuffer(buffer, 0, staging, at, sizes[k]);
      at += sizes[k];
    });
    this.device.queue.submit([encoder.finish()]);
    await staging.mapAsync(MAP_READ_MODE);
    const bytes = staging.getMappedRange().slice(0);
    staging.destroy();
    at = 0;
    return wanted.map(([, spec], k) => new (arrayOf(spec.dtype))(bytes, (at += sizes[k]) - sizes[k], sizes[k] / 4));
  }

  /** The values of one moment. @param {Held[]} held */
  valuesOf(held) {
    return this.doing(() => this.download(held.map((h) => [h.buffer, h.spec])));
  }

  /** Whether it is time for `keep`. */
  get due() {
    return !this.copying && performance.now() - this.copied >= (this.options.keepEvery ?? 2000);
  }

  /** Copies what steps change to the host, now and then, so that a lost device costs little. */
  async keep() {
    this.copying = true;
    const changing = [...this.held.values()].filter((held) => held.changes);
    const { writes, device } = this;
    const marks = [...this.programs].map((program) => /** @type {[Resident, number]} */ ([program, program.steps]));
    try {
      const values = await this.download(changing.map((held) => [held.buffer, held.spec]));
      if (writes === this.writes && device === this.device) {
        changing.forEach((held, k) => (held.latest = values[k]));
        for (const [program, steps] of marks) program._kept = steps;
      }
      this.copied = performance.now();
    } catch {
      // the device is lost: who runs a step finds out
    } finally {
      this.copying = false;
    }
  }
}
