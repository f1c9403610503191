// The page of the digits: accuracy on the test images, a pad to draw on, the first layer's weights as they form.

import { Training, colour, h, strokes, trying } from "./ui.js";

const GRID = 32; // the data were drawn on 32 x 32, and counted in blocks of 4 x 4
const CLASSES = 10;

/** @param {import("./ui.js").Remote} remote @param {import("./ui.js").Page} page @param {import("./ui.js").Info} info @param {HTMLElement} main */
export async function start(remote, page, info, main) {
  const training = new Training(remote, page, info);
  const [images, labels] = await Promise.all([remote.call("data", "test_images"), remote.call("data", "test_labels")]);
  const pad = new Pad(remote, labels.data);
  const weights = new Weights(remote, page.settings.weights);
  training.figures["test accuracy"] = h("dd", {}, "–");
  training.element.querySelector("dl").prepend(h("div", {}, h("dt", {}, "test accuracy"), training.figures["test accuracy"]));

  training.result = () => `${training.figures["test accuracy"].textContent} of the test images are right`;
  const accuracy = async () => {
    const { result, steps } = await remote.call("run", "predict", { images: images.data });
    let right = 0;
    labels.data.forEach((/** @type {number} */ label, /** @type {number} */ k) => {
      if (label === best(result.subarray(CLASSES * k, CLASSES * (k + 1)))) right++;
    });
    const percent = (100 * right) / labels.data.length;
    training.figures["test accuracy"].textContent = `${percent.toFixed(1)} %`;
    training.chart.add("test accuracy", steps, percent, "%");
  };
  /** @type {Promise<any> | null} */ let looking = null;
  let next = 0; // a training without a look for as long as the last one took, and for 400 ms at most
  const look = () => {
    const begun = performance.now();
    return (looking ??= Promise.all([accuracy(), weights.draw(), pad.classify()]).finally(() => {
      looking = null;
      next = performance.now() + Math.min(400, performance.now() - begun);
    }));
  };
  training.changed = () => {
    if (!looking && !(training.running && performance.now() < next)) trying(look);
  };
  training.settled = async () => {
    await looking?.catch(() => {}); // of weights before the last ones
    await look();
  };
  main.replaceChildren(training.element, pad.element, weights.element);
  pad.show(images.data.subarray(0, 64), labels.data[0]);
  // the first look is of step 0, unless its kernels take long to compile
  await Promise.race([trying(look), new Promise((resolve) => setTimeout(resolve, 300))]);
  training.begin();
}

/** @param {Float32Array} values */
const best = (values) => values.reduce((found, value, k) => (value > values[found] ? k : found), 0);

/** A square to draw on, and what the network of this moment sees in it. */
class Pad {
  cells = new Float32Array(64);
  /** @type {Uint8Array | null} */ ink = null;

  /** Of a test image. @type {number | null} */ label = null;

  /** @param {import("./ui.js").Remote} remote @param {ArrayLike<number>} labels of the test images */
  constructor(remote, labels) {
    this.remote = remote;
    this.labels = labels;
    this.canvas = h("canvas", {
      class: "pad pixels",
      width: GRID,
      height: GRID,
      tabindex: "0",
      role: "img",
      "aria-label": "A pad to draw a digit on, with the mouse, a finger or the arrow keys",
    });
    this.answer = h("p", { class: "answer", role: "status" }, "–");
    this.bars = h("div", { class: "bars" });
    this.parts = Array.from({ length: CLASSES }, (_, digit) => {
      const bar = h("i", { style: "width: 0" });
      const box = h("div", {}, bar);
      const percent = h("span", {}, "");
      this.bars.append(h("span", {}, `${digit}`), box, percent);
      return { bar, box, percent };
    });
    this.element = h(
      "section",
      { class: "try" },
      h("h2", {}, "Draw a digit"),
      this.canvas,
      h(
        "div",
        { class: "row" },
        h("button", { onclick: () => this.clear() }, "Clear"),
        h("button", { onclick: () => this.another() }, "A test image"),
      ),
      this.answer,
      this.bars,
    );
    strokes(this.canvas, (places) => this.stroke(places));
  }

  clear() {
    this.ink = new Uint8Array(GRID * GRID);
    this.update();
  }

  async another() {
    const images = await this.remote.call("data", "test_images");
    const row = Math.floor(Math.random() * images.shape[0]);
    this.show(images.data.subarray(64 * row, 64 * row + 64), this.labels[row]);
  }

  /** @param {Float32Array} cells an image of the data @param {number} label */
  show(cells, label) {
    this.ink = null;
    this.label = label;
    this.cells = cells.slice();
    this.paint();
    this.classify();
  }

  /** @param {[number, number][]} places */
  stroke(places) {
    this.ink ??= new Uint8Array(GRID * GRID);
    for (const [u, v] of places)
      for (let y = 0; y < GRID; y++)
        for (let x = 0; x < GRID; x++) if ((x + 0.5 - GRID * u) ** 2 + (y + 0.5 - GRID * v) ** 2 < 5.5) this.ink[y * GRID + x] = 1;
    this.update();
  }

  /** From the strokes to 8 x 8 counts, the drawing moved and scaled to fill the square as those of the data do. */
  update() {
    const ink = /** @type {Uint8Array} */ (this.ink);
    this.label = null;
    let [left, right, top, bottom] = [GRID, -1, GRID, -1];
    ink.forEach((on, k) => {
      if (!on) return;
      const [x, y] = [k % GRID, Math.floor(k / GRID)];
      [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
    });
    this.cells = new Float32Array(64);
    const size = Math.max(bottom - top + 1, (right - left + 1) * 1.25);
    if (right >= 0)
      for (let y = 0; y < GRID; y++)
        for (let x = 0; x < GRID; x++) {
          const from = [(left + right + 1) / 2 + ((x + 0.5) / GRID - 0.5) * size, (top + bottom + 1) / 2 + ((y + 0.5) / GRID - 0.5) * size];
          const [u, v] = from.map(Math.floor);
          if (u >= 0 && v >= 0 && u < GRID && v < GRID && ink[v * GRID + u]) this.cells[Math.floor(y / 4) * 8 + Math.floor(x / 4)] += 1 / 16;
        }
    this.paint();
    this.classify();
  }

  paint() {
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(GRID, GRID);
    for (let k = 0; k < GRID * GRID; k++) {
      const seen = this.cells[Math.floor(k / GRID / 4) * 8 + Math.floor((k % GRID) / 4)];
      const value = this.ink ? Math.max(60 * seen, 255 * this.ink[k]) : 255 * seen;
      image.data.set([value * 0.75, value * 0.9, value, 255], 4 * k);
    }
    context.putImageData(image, 0, 0);
  }

  async classify() {
    const { result } = await this.remote.call("run", "classify", { images: this.cells });
    const most = Math.max(...result);
    const parts = Array.from(/** @type {Float32Array} */ (result), (value) => Math.exp(value - most));
    const total = parts.reduce((a, b) => a + b, 0);
    const winner = best(result);
    const blank = this.cells.every((value) => value === 0);
    const guess = `This is a ${winner}: ${((100 * parts[winner]) / total).toFixed(0)} % sure.`;
    const truth = this.label === null ? "" : ` The label says ${this.label}.`;
    this.answer.textContent = blank ? "Draw with the mouse, a finger or the arrow keys." : guess + truth;
    this.parts.forEach(({ bar, box, percent }, k) => {
      const part = blank ? 0 : (100 * parts[k]) / total;
      bar.style.width = `${part}%`;
      box.classList.toggle("best", k === winner && !blank);
      percent.textContent = `${part.toFixed(0)} %`;
    });
  }
}

/** The weights of the first layer as pictures: one colour for positive ones, the other for negative ones. */
class Weights {
  /** @param {import("./ui.js").Remote} remote @param {{name: string, side: number, across: number}} settings */
  constructor(remote, settings) {
    this.remote = remote;
    this.settings = settings;
    this.canvas = h("canvas", { class: "pixels", role: "img", "aria-label": "the weights of the first layer" });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.element = h("section", { class: "rest" }, h("h2", {}, "The first layer's weights"), this.canvas, h("p", { class: "legend" }, "A square is what one unit looks for: blue counts for it, orange against it."));
  }

  async draw() {
    const { name, side, across } = this.settings;
    const values = await this.remote.call("read", name);
    const units = values.length / side ** 2;
    const down = Math.ceil(units / across);
    const step = side + 1;
    this.canvas.width = across * step - 1;
    this.canvas.height = down * step - 1;
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(this.canvas.width, this.canvas.height);
    const scale = values.reduce((/** @type {number} */ m, /** @type {number} */ v) => Math.max(m, Math.abs(v)), 1e-9);
    const [first, second, back] = ["--first", "--second", "--panel"].map((key) => rgb(colour(key)));
    for (let unit = 0; unit < units; unit++)
      for (let k = 0; k < side ** 2; k++) {
        const value = Math.max(-1, Math.min(1, (1.5 * values[unit * side ** 2 + k]) / scale));
        const full = value > 0 ? first : second;
        const x = (unit % across) * step + (k % side);
        const y = Math.floor(unit / across) * step + Math.floor(k / side);
        const mixed = full.map((part, c) => back[c] + (part - back[c]) * Math.abs(value));
        image.data.set([...mixed, 255], 4 * (y * this.canvas.width + x));
      }
    context.putImageData(image, 0, 0);
  }
}

/** @param {string} text #rrggbb @returns {number[]} */
const rgb = (text) => [1, 3, 5].map((k) => parseInt(text.slice(k, k + 2), 16));
