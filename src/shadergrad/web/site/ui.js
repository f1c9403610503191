// What pages share: the worker, elements, a chart, the training panel. In: page.json. Out: elements for <main>.

/** @typedef {{steps: number, rows: Record<string, number>[], perSecond: number, gpuTime: number | null}} Progress */
/** @typedef {{page: string, title: string, text: string, programs: string[], data: string | null, settings: Record<string, any>}} Page */
/** @typedef {{name: string, shape: number[], dtype: string}} Part */
/**
 * noGpu: why the step cannot run on the GPU. language: what runs it on the CPU. choice: whether it can run on the CPU, too. compiling: how many kernels the GPU has
 * compiled beside a training on the CPU. paces: milliseconds of a step.
 * @typedef {{place: "GPU" | "CPU", adapter: string, noGpu: string, language: string, plan: string, refused: string, choice: boolean, compiling: string | null, paces: {GPU: number | null, CPU: number | null}, dispatches: number, parameters: number, names: (Part & {role: string})[], arguments: Part[], steps: number}} Info
 */

const MOST_POINTS = 4000;
const GPU_TIME = "GPU time a step";
const BUSY = "GPU busy";
const CPU_TIME = "CPU time a step";
const DISPATCHES = "dispatches a step";
const HIDDEN = "Paused, because the page was out of sight. Start goes on.";
const FIRST_STEP = "The first step is under way. It takes seconds on a slow GPU, and up to a minute on a software adapter or a CPU.";

/** The worker, as functions. */
export class Remote {
  /** @type {Map<number, {resolve: (value: any) => void, reject: (error: Error) => void}>} */ waiting = new Map();
  /** @type {Map<string, ((values: any) => void)[]>} */ listeners = new Map();
  count = 0;
  /** @type {Error | null} */ broken = null;

  constructor() {
    this.worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    this.worker.addEventListener("message", ({ data }) => {
      if (data.event) for (const listener of this.listeners.get(data.event) ?? []) listener(data);
      const waiting = this.waiting.get(data.id);
      if (!waiting) return;
      this.waiting.delete(data.id);
      if (data.error === undefined) waiting.resolve(data.value);
      else waiting.reject(new Error(data.error));
    });
    // it tells of what goes wrong in a call itself: here its script, or a module of it, is missing
    this.worker.addEventListener("error", ({ message }) => {
      this.broken = new Error(message || "worker.js, or a file that it imports, cannot be loaded. Reload, or export again.");
      for (const { reject } of this.waiting.values()) reject(this.broken);
      this.waiting.clear();
    });
  }

  /** @param {string} call @param {...any} args @returns {Promise<any>} */
  call(call, ...args) {
    const id = ++this.count;
    if (this.broken) return Promise.reject(this.broken);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, call, args });
    });
  }

  /** @param {string} event @param {(values: any) => void} listener */
  on(event, listener) {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener]);
  }
}

/**
 * An element: h("button", {class: "main", onclick}, "Start").
 * @param {string} tag @param {Record<string, any>} [attributes] @param {...(Node | string)} children @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** @param {string} text @param {boolean} [isError] */
export function say(text, isError = false) {
  const status = /** @type {HTMLElement} */ (document.getElementById("status"));
  status.textContent = text;
  status.classList.toggle("error", isError);
}

/** Takes a message back, unless another one has followed. @param {string} text */
function unsay(text) {
  if (document.getElementById("status")?.textContent === text) say("");
}

/** Runs what a button asked for; what goes wrong is said. @param {() => any} work */
export async function trying(work) {
  try {
    return await work();
  } catch (error) {
    say(/** @type {Error} */ (error).message, true);
  }
}

// -- the state in the address

/** @param {string} name @param {string} otherwise */
export const wish = (name, otherwise) => new URLSearchParams(location.hash.slice(1)).get(name) ?? otherwise;

/** @param {Record<string, any>} values those that are null are left out */
export function remember(values) {
  const all = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of Object.entries(values)) value === null ? all.delete(name) : all.set(name, `${value}`);
  history.replaceState(null, "", `${all}` ? `#${all}` : location.pathname + location.search);
}

/** @param {Uint8Array<ArrayBuffer>} bytes @param {string} name */
export function download(bytes, name) {
  const link = h("a", { href: URL.createObjectURL(new Blob([bytes])), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A number in at most so many significant digits: 20.1, 0.0034, 1.2e-9, 2,580. @param {number} value @param {number} [digits] */
export function short(value, digits = 3) {
  if (!Number.isFinite(value)) return `${value}`;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(digits - 1).replace(/\.?0+e/, "e");
  return value.toLocaleString("en", { maximumSignificantDigits: Math.max(digits, Math.ceil(Math.log10(size + 1))) });
}

/** @param {string} name */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Fits a canvas to its place on the screen. @param {HTMLCanvasElement} canvas @param {number} height in CSS pixels */
export function fitted(canvas, height) {
  const scale = devicePixelRatio || 1;
  const width = Math.max(1, Math.round(canvas.clientWidth * scale));
  if (canvas.width !== width || canvas.height !== Math.round(height * scale)) {
    canvas.width = width;
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return { context, width: width / scale, height };
}

/** @type {Record<string, [number, number]>} */
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const KEY_STEP = 1 / 24; // of a canvas

/**
 * Strokes on a canvas by mouse, by finger, and by the arrow keys, which draw as they go; with shift they only go.
 * @param {HTMLCanvasElement} canvas @param {(places: [number, number][]) => void} draw takes places, from 0 to 1
 */
export function strokes(canvas, draw) {
  /** @type {[number, number]} */
  let place = [0.5, 0.5];
  const at = (/** @type {number} */ x, /** @type {number} */ y) => {
    place = [Math.min(0.999, Math.max(0, x)), Math.min(0.999, Math.max(0, y))];
    return place;
  };
  const follow = (/** @type {PointerEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    const all = event.getCoalescedEvents?.() ?? [];
    draw((all.length ? all : [event]).map(({ clientX: x, clientY: y }) => at((x - box.left) / box.width, (y - box.top) / box.height)));
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    follow(event);
  });
  canvas.addEventListener("pointermove", (event) => event.buttons && follow(event));
  canvas.addEventListener("keydown", (event) => {
    const way = ARROWS[event.key];
    if (!way) return;
    event.preventDefault();
    const there = at(place[0] + way[0] * KEY_STEP, place[1] + way[1] * KEY_STEP);
    if (!event.shiftKey) draw([there]);
  });
}

const COLOURS = ["--first", "--second", "--third", "--soft"];
const FAR = 8; // times as large as the first curve, or as small: beside it one of both would be a line at the bottom

/** @typedef {{points: [number, number][], colour: string, unit: string, label: string, entry: HTMLElement}} Curve */

/** The least and the most of curves, with 0. @param {Curve[]} curves @returns {[number, number]} */
const rangeOf = (curves) =>
  curves.flatMap(({ points }) => points).reduce(([least, most], [, y]) => [Math.min(least, y), Math.max(most, y)], [0, 0]);

/**
 * Curves over steps. Those whose `unit` is "%" have a colour of their own, and a scale from 0 to 100 on the right; where there are none, curves
 * of other sizes than the first have a scale there.
 */
export class Chart {
  /** @type {Map<string, Curve>} */ curves = new Map();
  pending = false;

  /** @param {string} label @param {boolean} [overlaid] curves that hide each other: the first is drawn broad @param {string} [axis] what is counted */
  constructor(label, overlaid = false, axis = "step") {
    this.overlaid = overlaid;
    this.axis = axis;
    this.canvas = h("canvas", { role: "img", "aria-label": label });
    this.legend = h("div", { class: "legend" });
    this.element = h("div", {}, this.canvas, this.legend);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** @param {string} name @param {number} step @param {number} value @param {string} [unit] */
  add(name, step, value, unit = "") {
    if (!Number.isFinite(value)) return;
    let curve = this.curves.get(name);
    if (!curve) {
      const before = [...this.curves.values()].filter((other) => other.unit === unit).length;
      const [colour, label] = [unit ? "--good" : COLOURS[before % COLOURS.length], unit ? `${name} (${unit})` : name];
      curve = { points: [], colour, unit, label, entry: h("span", { style: `--colour: var(${colour})` }, label) };
      this.curves.set(name, curve);
      this.legend.append(curve.entry);
    }
    curve.points.push([step, value]);
    if (curve.points.length > MOST_POINTS) curve.points = curve.points.filter((_, k) => k % 2);
    this.draw();
  }

  clear() {
    this.curves.clear();
    this.legend.replaceChildren();
    this.draw();
  }

  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.paint();
    });
  }

  /** The curves that have the scale on the right, and what it shows at its bottom and at its top. @returns {[Set<Curve>, number, number]} */
  beside() {
    const [first, ...others] = this.curves.values();
    const percent = [...this.curves.values()].filter(({ unit }) => unit === "%");
    if (percent.length || !others.length || this.overlaid) return [new Set(percent), 0, 100];
    const sizeOf = (/** @type {Curve} */ curve) => Math.max(...rangeOf([curve]).map(Math.abs));
    const far = others.filter((other) => {
      const apart = Math.abs(Math.log(sizeOf(other) / sizeOf(first)));
      return apart > Math.log(FAR) && apart < Infinity; // zeros are of no size
    });
    const [least, most] = rangeOf(far);
    return [new Set(far), least, least + 1.05 * (most - least)];
  }

  paint() {
    const { context: c, width, height } = fitted(this.canvas, 190);
    const [beside, low, high] = this.beside();
    const [left, right, top, bottom] = [50, beside.size ? (high === 100 ? 34 : 50) : 8, 8, 20];
    for (const curve of this.curves.values()) {
      const text = beside.has(curve) && !curve.unit ? `${curve.label} (right scale)` : curve.label;
      if (curve.entry.textContent !== text) curve.entry.textContent = text;
    }
    c.clearRect(0, 0, width, height);
    c.font = "11px system-ui, sans-serif";
    const main = [...this.curves.values()].filter((curve) => !beside.has(curve));
    const ends = [...this.curves.values()].map((curve) => curve.points.at(-1)?.[0] ?? 0);
    if (!ends.length) {
      c.fillStyle = colour("--soft");
      c.textAlign = "center";
      c.fillText("The curves begin with the first step.", width / 2, height / 2);
      return;
    }
    const last = Math.max(10, ...ends);
    const [least, most] = rangeOf(main);
    const span = 1.05 * (most - least) || 1;
    const x = (/** @type {number} */ step) => left + ((width - left - right) * step) / last;
    const y = (/** @type {number} */ part) => height - bottom - (height - top - bottom) * part;
    c.strokeStyle = colour("--line");
    c.fillStyle = colour("--soft");
    c.lineWidth = 1;
    for (const part of [0, 0.5, 1]) {
      c.beginPath();
      c.moveTo(left, y(part));
      c.lineTo(width - right, y(part));
      c.stroke();
      c.textAlign = "right";
      if (main.length) c.fillText(short(least + span * part, 2), left - 5, y(part) + 4);
      if (right > 8) {
        c.textAlign = "left";
        c.fillText(short(low + (high - low) * part, 2), width - right + 5, y(part) + 4);
      }
    }
    c.textAlign = "left";
    c.fillText(`${this.axis} 0`, left, height - 5);
    c.textAlign = "right";
    c.fillText(`${this.axis} ${last.toLocaleString("en")}`, width - right, height - 5);
    c.lineWidth = 1.8;
    c.lineJoin = "round";
    for (const curve of this.curves.values()) {
      if (this.overlaid) c.lineWidth = curve.colour === "--first" ? 6 : 1.8;
      c.strokeStyle = c.fillStyle = colour(curve.colour);
      c.beginPath();
      const places = curve.points.map(([step, value]) => [x(step), y(beside.has(curve) ? (value - low) / (high - low) : (value - least) / span)]);
      for (const [u, v] of places) c.lineTo(u, v);
      const crowd = Math.floor((3 * places.length) / width);
      if (crowd > 2) {
        // points that lie so close would fill an area: their means stand out
        c.globalAlpha = 0.3;
        c.stroke();
        c.globalAlpha = 1;
        c.beginPath();
        for (let k = 0; k < places.length; k += crowd) {
          const some = places.slice(k, k + crowd);
          c.lineTo(some[0][0], some.reduce((sum, [, v]) => sum + v, 0) / some.length);
        }
      }
      c.stroke();
      // few points are told from the lines between them, and one would not be seen at all
      if (places.length < 16)
        for (const [u, v] of places) {
          c.beginPath();
          c.arc(u, v, 3, 0, 2 * Math.PI);
          c.fill();
        }
    }
  }
}

/** Where a step runs, and why, in a sentence. @param {Info} info */
function whereabouts({ place, adapter, noGpu, language, refused, choice, compiling, paces }) {
  const cpu = `The step runs on the CPU, in ${language}`;
  if (noGpu) return `${cpu}: ${noGpu}`;
  if (compiling !== null) {
    const [compiled, of] = compiling.split(" of ");
    return compiled && compiled === of ? `${cpu}, while the GPU's first steps are timed.` : `${cpu}, while the GPU's kernels compile${compiling ? `: ${compiling}` : ""}.`;
  }
  const both = paces.GPU !== null && paces.CPU !== null;
  if (place === "CPU") return both ? `${cpu}: ${short(Number(paces.CPU), 2)} ms a step there, ${short(Number(paces.GPU), 2)} ms on the GPU (${adapter}).` : `${cpu}.`;
  const told = both
    ? `The step runs on the GPU: ${short(Number(paces.GPU), 2)} ms a step there, ${short(Number(paces.CPU), 2)} ms on the CPU.`
    : choice
      ? "The step runs on the GPU."
      : "";
  return refused ? `${told} The GPU refused a faster plan (${refused.trim()}).`.trim() : told;
}

/** The panel that every page has: curves, start, pause, step, reset, the learning rate, figures, files. */
export class Training {
  running = false;
  steps = 0;
  /** The training begun last. */ latest = {};
  /** Until what shows the weights shows those of the last step. @type {Promise<any>} */ settling = Promise.resolve();
  diverged = false;
  /** The curve of the loss. */ label = "loss";
  /** Until a training's first step. @type {number | undefined} */ patience;

  /** @param {Remote} remote @param {Page} page @param {Info} info */
  constructor(remote, page, info) {
    this.remote = remote;
    this.page = page;
    this.info = info;
    this.most = page.settings.steps ?? 3000;
    /** Which result is the loss; if none is called so, the first number. @type {string | undefined} */
    this.main = page.settings.loss;
    this.chart = new Chart("loss over steps");
    this.speed = page.settings.batch ? "samples a second" : "steps a second";
    /** @type {Record<string, HTMLElement>} */
    this.figures = {};
    this.start = h("button", { class: "main", onclick: () => this.toggle() }, "Start");
    this.element = h(
      "section",
      { class: "wide" },
      h("h2", {}, "Training"),
      (this.note = h("p", { class: "note" }, (this.where = h("span", { role: "status" })), (this.other = h("button", { onclick: () => trying(() => this.choose()) })))),
      this.chart.element,
      h("div", { class: "row" }, this.start, this.button("One step", () => this.step()), this.button("Reset", () => this.reset()), ...this.rate()),
      this.table({
        steps: "0",
        loss: "–",
        [this.speed]: "–",
        [GPU_TIME]: "–",
        [BUSY]: "–",
        [DISPATCHES]: `${info.dispatches}`,
        [CPU_TIME]: "–",
        parameters: info.parameters.toLocaleString("en"),
        "runs on": "–",
      }),
      this.files(),
    );
    this.place(info);
    remote.on("place", ({ info: now }) => this.place(now));
    remote.on("kernel", ({ compiled, of }) => this.info.compiling !== null && this.place({ ...this.info, compiling: `${compiled} of ${of}` }));
    remote.on("progress", (progress) => this.show(progress));
    remote.on("paused", () => this.paused());
    remote.on("lost", ({ reason, stepsLost }) => say(`The GPU was lost (${reason}) and opened again; ${stepsLost} steps are trained anew.`));
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden || !this.running) return;
      this.toggle();
      say(HIDDEN);
    });
  }

  /** Says where the step runs, and why. @param {Info} info */
  place(info) {
    this.info = info;
    const { figures } = this;
    const { paces } = info;
    const onGpu = info.place === "GPU";
    this.where.textContent = whereabouts(info);
    this.other.textContent = `Run it on the ${onGpu ? "CPU" : "GPU"}`;
    this.other.hidden = !info.choice;
    this.note.hidden = !this.where.textContent && !info.choice;
    for (const name of [GPU_TIME, BUSY, DISPATCHES]) figures[name].parentElement?.toggleAttribute("hidden", !onGpu);
    figures[CPU_TIME].parentElement?.toggleAttribute("hidden", !onGpu || paces.CPU === null);
    if (paces.CPU !== null) figures[CPU_TIME].textContent = `${short(paces.CPU)} ms`;
    figures["runs on"].textContent = onGpu ? `GPU: ${info.adapter || "unnamed"}${info.plan === "portable" ? "" : `, plan ${info.plan}`}` : "CPU: one thread";
  }

  /** The step goes on at the other place. */
  async choose() {
    const again = this.running;
    if (again) this.pause();
    const on = this.info.place === "GPU" ? "CPU" : "GPU";
    say(`The step moves to the ${on} …`);
    try {
      this.place(await this.remote.call("choose", on));
      remember({ on });
      say("");
    } finally {
      if (again) this.toggle();
    }
  }

  /** Begins by itself, unless the address says otherwise, or the visitor asks for little motion. */
  begin() {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (!this.running && wish("run", calm ? "0" : "1") === "1") this.toggle();
  }

  /** @param {string} text @param {() => any} work */
  button(text, work) {
    return h("button", { onclick: () => trying(work) }, text);
  }

  /** @param {Record<string, string>} values */
  table(values) {
    const list = h("dl");
    for (const [name, value] of Object.entries(values)) {
      this.figures[name] = h("dd", {}, value);
      list.append(h("div", {}, h("dt", {}, name), this.figures[name]));
    }
    return list;
  }

  /** A slider where the step has a learning rate. */
  rate() {
    if (!this.info.names.some(({ role, name }) => role === "state" && name === "lr")) return [];
    const shown = h("output", {});
    const slider = h("input", { type: "range", min: "-5", max: "0", step: "0.05" });
    const set = async (/** @type {number} */ rate) => {
      shown.textContent = short(rate, 2);
      await this.remote.call("write", "lr", rate);
    };
    slider.addEventListener("input", () => {
      const rate = 10 ** Number(slider.value);
      remember({ lr: rate.toPrecision(3) });
      trying(() => set(rate));
    });
    this.readRate = async () => {
      const [rate] = await this.remote.call("read", "lr");
      slider.value = `${Math.log10(rate)}`;
      shown.textContent = short(rate, 2);
    };
    const wished = Number(wish("lr", ""));
    trying(async () => {
      if (wished > 0) await set(wished);
      await this.readRate?.();
    });
    return [h("label", { class: "slider" }, "learning rate", slider, shown)];
  }

  files() {
    const { remote } = this;
    const open = h("input", { type: "file", accept: ".safetensors" });
    open.addEventListener("change", () =>
      trying(async () => {
        const [file] = open.files;
        if (!file) return;
        const again = this.running;
        if (again) this.pause();
        open.value = ""; // the same file may be chosen again
        let steps = 0;
        try {
          steps = await remote.call("loadState", await file.arrayBuffer());
          await this.readRate?.();
          this.blank(steps);
        } finally {
          if (again) this.toggle(); // after an error with the weights as they were
        }
        say(`Goes on from ${file.name}${steps ? `, step ${steps.toLocaleString("en")}` : ""}.`);
      }),
    );
    return h(
      "div",
      { class: "row" },
      this.button("Download weights", async () => download(await remote.call("saveWeights"), "weights.safetensors")),
      this.button("Download state", async () => download(await remote.call("saveState"), "state.safetensors")),
      h("label", { class: "button" }, "Continue from a file", open),
    );
  }

  toggle() {
    if (this.running) return this.pause();
    this.running = true;
    const own = (this.latest = {}); // the end of a training tells nothing about one that follows
    this.start.textContent = "Pause";
    remember({ run: null });
    say("");
    this.patience = setTimeout(() => say(FIRST_STEP), 3000);
    return trying(async () => {
      const goal = this.steps < this.most ? this.most : this.steps + this.most;
      await this.remote.call("train", goal - this.steps);
      const { steps: done, ...info } = await this.remote.call("info");
      this.place({ ...info, steps: done }); // its steps may take less time than when the places were compared
      await this.settling;
      if (done >= goal && this.latest === own && !this.diverged) say(`Finished after ${done.toLocaleString("en")} steps: ${this.result()}. Start goes on.`);
    }).finally(() => this.latest === own && this.paused());
  }

  /** The steps under way come to their end first: the button says so. */
  pause() {
    this.running = false;
    remember({ run: "0" });
    this.start.textContent = "Pausing …";
    this.start.disabled = true;
    return this.remote.call("pause");
  }

  paused() {
    this.begun();
    this.running = false;
    this.start.textContent = "Start";
    this.start.disabled = false;
    this.settling = trying(() => this.settled());
  }

  /** The first step is done, or will not come. */
  begun() {
    clearTimeout(this.patience);
    unsay(FIRST_STEP);
  }

  /** What has been reached, for the end of a training. */
  result() {
    return `${this.label} ${this.figures.loss.textContent}`;
  }

  async step() {
    if (this.running) this.pause();
    await this.remote.call("train", 1);
  }

  async reset() {
    const again = this.running;
    if (again) this.pause();
    await this.remote.call("reset");
    await this.readRate?.();
    remember({ lr: null });
    say("");
    this.blank(0);
    if (again) this.toggle();
  }

  /** Other weights: curves and figures begin anew. @param {number} steps that they have been trained */
  blank(steps) {
    this.steps = steps;
    this.chart.clear();
    this.diverged = false;
    for (const name of ["loss", this.speed, GPU_TIME, BUSY]) if (this.figures[name]) this.figures[name].textContent = "–";
    this.figures.steps.textContent = steps.toLocaleString("en");
    this.changed();
  }

  /** What else shows the weights is told here when they are others. */
  changed() {}

  /** And here when they stay as they are: it shows those of the last step. @returns {any} */
  settled() {}

  /** @param {Progress} progress */
  show({ steps, rows, perSecond, gpuTime }) {
    const { figures, page } = this;
    this.steps = steps;
    if (rows.length) this.begun();
    rows.forEach((row, k) => this.add(steps - rows.length + k + 1, row));
    figures.steps.textContent = steps.toLocaleString("en");
    if (rows.length) {
      figures[this.speed].textContent = short(perSecond * (page.settings.batch ?? 1));
    }
    if (gpuTime !== null) {
      figures[GPU_TIME].textContent = `${short(gpuTime)} ms`;
      if (rows.length) figures[BUSY].textContent = `${Math.min(100, (gpuTime * perSecond) / 10).toFixed(0)} %`;
    }
    this.changed();
  }

  /** @param {number} step @param {Record<string, number | ArrayLike<number>>} row */
  add(step, row) {
    const numbers = Object.entries(row).filter(([, value]) => typeof value === "number");
    this.main ??= (numbers.find(([name]) => name === "loss") ?? numbers[0])?.[0];
    for (const [name, value] of /** @type {[string, number][]} */ (numbers)) {
      // a single result has no name, and those of a tuple have numbers
      const own = name === "result" ? "loss" : /^\d+$/.test(name) ? `result ${name}` : name;
      this.chart.add(own, step, value);
      if (name !== this.main) continue;
      this.label = own;
      const { loss } = this.figures;
      loss.textContent = short(value, 4);
      if (loss.previousElementSibling) loss.previousElementSibling.textContent = own;
      if (Number.isFinite(value) || this.diverged) continue;
      this.diverged = true;
      say(`The ${own} is ${value} at step ${step.toLocaleString("en")}: training has diverged. Reset, and set a smaller learning rate.`, true);
    }
  }
}
