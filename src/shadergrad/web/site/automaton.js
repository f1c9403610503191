// The page of automata: the picture as the network of this moment grows it, and the hardened circuit on a board to damage.

import { Training, colour, download, fitted, h, remember, strokes, trying, wish } from "./ui.js";

const FRAME = 60; // milliseconds between two steps of the growing picture
const HOLD = 12; // frames that its end is shown
const SIZES = [64, 128, 256, 512];

/** @param {import("./ui.js").Remote} remote @param {import("./ui.js").Page} page @param {import("./ui.js").Info} info @param {HTMLElement} main */
export async function start(remote, page, info, main) {
  const training = new Training(remote, page, info);
  const growth = new Growth(remote, page);
  const circuit = new Circuit(remote, page);
  await Promise.all([growth.load(), circuit.load()]);
  main.replaceChildren(growth.element, training.element, circuit.gates, circuit.element);
  training.element.classList.replace("wide", "rest");
  growth.run();
  training.begin();
}

/** @param {HTMLCanvasElement} canvas @param {number} height @param {number} width @param {(at: number, colour: number) => number} value */
function paint(canvas, height, width, value) {
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(width, height);
  for (let at = 0; at < height * width; at++) for (let c = 0; c < 4; c++) image.data[4 * at + c] = c === 3 ? 255 : value(at, c);
  context.putImageData(image, 0, 0);
}

/** The picture that the automaton makes with the weights of this moment, step by step, again and again. */
class Growth {
  /** @param {import("./ui.js").Remote} remote @param {import("./ui.js").Page} page */
  constructor(remote, page) {
    this.remote = remote;
    this.settings = page.settings;
    const { height, width } = this.settings;
    this.canvas = h("canvas", { class: "pixels", role: "img", "aria-label": "the automaton's picture", style: `aspect-ratio: ${width} / ${height}` });
    this.target = h("canvas", { class: "pixels", role: "img", "aria-label": "the target", style: "max-width: 5rem" });
    this.caption = h("p", { class: "legend" }, "");
    const hard = h("input", { type: "checkbox" });
    hard.checked = wish("gates", "soft") === "hard";
    hard.addEventListener("change", () => remember({ gates: hard.checked ? "hard" : null }));
    this.hard = hard;
    this.element = h(
      "section",
      {},
      h("h2", {}, "What it grows now"),
      this.canvas,
      this.caption,
      h("div", { class: "row" }, h("label", {}, hard, " hard gates: the likeliest of each")),
      h("div", { class: "row" }, h("span", { class: "legend" }, "target"), this.target),
    );
  }

  async load() {
    this.first = (await this.remote.call("data", "first")).data;
    const { height, width, shown } = this.settings;
    const target = (await this.remote.call("data", "picture")).data;
    paint(this.target, height, width, (at, c) => 24 + 211 * target[shown * at + (shown === 3 ? c : 0)]);
  }

  async run() {
    const { height, width, shown, channels, steps_of_cell: steps } = this.settings;
    for (let step = 0, state = this.first; ; step++) {
      if (step > steps + HOLD) [step, state] = [0, this.first];
      if (step > 0 && step <= steps) state = (await this.remote.call("run", this.hard.checked ? "hard" : "soft", { state })).result;
      paint(this.canvas, height, width, (at, c) => 24 + 211 * state[channels * at + (shown === 3 ? c : 0)]);
      this.caption.textContent = `step ${Math.min(step, steps)} of ${steps}, from the same start each time`;
      await new Promise((resolve) => setTimeout(resolve, FRAME));
      while (document.hidden) await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

/** The circuit of the likeliest gates on a large board, and what it is made of. */
class Circuit {
  /** @param {import("./ui.js").Remote} remote @param {import("./ui.js").Page} page */
  constructor(remote, page) {
    this.remote = remote;
    this.settings = page.settings;
    this.worker = new Worker(new URL("circuit-worker.js", import.meta.url), { type: "module" });
    this.worker.addEventListener("message", ({ data }) => this.told(data));
    // a board without cells would be a large black square
    this.canvas = h("canvas", { hidden: true, class: "pixels pad", tabindex: "0", role: "img", "aria-label": "The board. Draw on it, with the arrow keys too, to damage it.", style: "max-width: 36rem" });
    this.caption = h("p", { class: "legend", role: "status" }, "Harden the automaton, then draw on the board and watch it heal.");
    this.size = h("select", { "aria-label": "cells" }, ...SIZES.map((n) => h("option", { value: n }, `${n} x ${n} cells`)));
    this.size.value = wish("cells", "64");
    this.mode = h("select", { "aria-label": "brush" }, ...[["erase", "erase"], ["paint", "set"], ["noise", "noise"]].map(([value, text]) => h("option", { value }, text)));
    this.start = h("button", { onclick: () => this.toggle(), disabled: true }, "Run");
    this.saves = [["JSON", "json"], ["C", "c"], ["Verilog", "v"]].map(([text, ending]) =>
      h("button", { onclick: () => this.worker.postMessage({ call: "file", ending }), disabled: true, "aria-label": `Download the circuit as ${text}` }, text),
    );
    this.again = h("button", { onclick: () => this.restart(), disabled: true }, "Start again");
    this.size.addEventListener("change", () => {
      remember({ cells: this.size.value });
      if (!this.start.disabled) this.restart();
    });
    this.element = h(
      "section",
      { class: "rest" },
      h("h2", {}, "Hardened: a circuit of bits"),
      this.canvas,
      this.caption,
      h("div", { class: "row" }, h("button", { class: "main", onclick: () => trying(() => this.harden()) }, "Harden"), this.start, this.again),
      h("div", { class: "row" }, this.size, h("label", {}, "brush ", this.mode)),
      h("div", { class: "row" }, "Download the circuit as", ...this.saves),
    );
    this.histogram = h("canvas", { role: "img", "aria-label": "how many gates of each kind", height: 1 });
    this.gates = h("section", {}, h("h2", {}, "Its gates"), this.histogram, (this.counts = h("p", { class: "legend" }, "Harden the automaton to see them.")));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.shown && this.draw(this.shown));
    strokes(this.canvas, (places) => {
      const { width } = this.canvas;
      const radius = Math.max(1, Math.round(width / 24));
      for (const [u, v] of this.start.disabled ? [] : places)
        this.worker.postMessage({ call: "paint", x: Math.floor(u * width), y: Math.floor(v * width), radius, mode: this.mode.value });
    });
  }

  async load() {
    const gates = (await this.remote.call("data", "gates")).data;
    const outputs = (await this.remote.call("data", "outputs")).data;
    const column = (/** @type {number} */ k) => gates.filter((/** @type {number} */ _, /** @type {number} */ at) => at % 3 === k);
    const { channels, border, fire_rate: fireRate, begins: start, shown, templates } = this.settings;
    const cell = { channels, inputs: 9 * channels, a: column(0), b: column(1), of: column(2), outputs, border, fireRate };
    this.worker.postMessage({ call: "cell", cell, start, shown, templates });
  }

  get side() {
    return Number(this.size.value);
  }

  async harden() {
    this.caption.textContent = "Hardening, when the training step under way is done …";
    /** @type {[{steps: number}, Float32Array[]]} */
    const [{ steps }, parts] = await Promise.all([this.remote.call("info"), this.remote.call("readAll", this.settings.logits)]);
    const logits = new Float32Array(parts.reduce((n, part) => n + part.length, 0));
    parts.reduce((at, part) => (logits.set(part, at), at + part.length), 0);
    this.hardened = steps;
    this.worker.postMessage({ call: "harden", logits, height: this.side, width: this.side });
    for (const button of [this.start, this.again, ...this.saves]) button.disabled = false;
    if (!this.running) this.toggle();
  }

  /** @type {any} */ shown = null;
  /** Steps of training before the circuit was made. */ hardened = 0;
  running = false;
  toggle() {
    this.running = !this.running;
    this.start.textContent = this.running ? "Pause" : "Run";
    this.worker.postMessage({ call: "run", on: this.running });
  }

  restart() {
    this.worker.postMessage({ call: "restart", height: this.side, width: this.side });
  }

  /** @param {any} message */
  told(message) {
    if (message.pixels) {
      const { pixels, height, width, steps, frames } = message;
      if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
      this.canvas.hidden = false;
      this.canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
      const hint = this.shown?.gates === 0 ? " The circuit has no gates: every output is constant or an input. Train longer, then harden again." : "";
      this.caption.textContent = `step ${steps.toLocaleString("en")}, ${frames} a second.${hint}`;
    }
    if (message.histogram) this.draw(message);
    if (message.file) download(new TextEncoder().encode(message.text), message.file);
  }

  /** @param {{histogram: {name: string, count: number}[], gates: number, all: number}} message */
  draw(message) {
    this.shown = message;
    const { histogram, gates, all } = message;
    const kinds = histogram.filter(({ count }) => count);
    const { context: c, width, height } = fitted(this.histogram, 22 * Math.max(1, kinds.length));
    const most = Math.max(1, ...kinds.map(({ count }) => count));
    c.clearRect(0, 0, width, height);
    c.font = "12px system-ui, sans-serif";
    kinds.forEach(({ name, count }, k) => {
      c.fillStyle = colour("--soft");
      c.fillText(name, 0, 22 * k + 16);
      c.fillStyle = colour("--first");
      c.fillRect(100, 22 * k + 5, ((width - 150) * count) / most, 14);
      c.fillStyle = colour("--ink");
      c.fillText(`${count}`, 106 + ((width - 150) * count) / most, 22 * k + 16);
    });
    const after = `${this.hardened.toLocaleString("en")} ${this.hardened === 1 ? "step" : "steps"}`;
    this.counts.textContent = `Hardened after ${after} of training: ${gates.toLocaleString("en")} gates of ${all.toLocaleString("en")}. The others pass a bit on, or nothing reads them.`;
  }
}
