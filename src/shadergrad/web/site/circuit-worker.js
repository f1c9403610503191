// The hardened automaton at work: a board that steps by itself, sixty times a second at most, and posts its pictures.

import { toC, toVerilog } from "./circuit-text.js";
import { Board, NAMES, harden, minimized, toJSON } from "./circuit.js";

/** @type {import("./circuit.js").Structure} */ let cell;
/** @type {Uint8Array} */ let kinds;
/** @type {ReturnType<typeof minimized>} */ let rule;
/** @type {Board} */ let board;
let start = "zeros";
/** @type {{c: string, v: string}} */ let templates;
let shown = 1;
let running = false;
let steps = 0;
/** @type {number[]} */ let times = [];

function begin(/** @type {number} */ height, /** @type {number} */ width) {
  board = new Board(cell, rule, height, width);
  steps = 0;
  for (let c = 0; c < cell.channels; c++) {
    if (start === "noise") for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) board.set(y, x, c, Math.random() < 0.5);
    if (start === "seed") board.set(Math.floor(height / 2), Math.floor(width / 2), c, true);
  }
  show();
}

function show() {
  const { height, width } = board;
  const pixels = new Uint32Array(height * width); // a byte a colour, red the lowest
  for (let y = 0, at = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      pixels[at++] =
        shown === 3
          ? 0xff181818 + 0xd3 * board.get(y, x, 0) + 0xd300 * board.get(y, x, 1) + 0xd30000 * board.get(y, x, 2)
          : 0xff181818 + 0xd3d3d3 * board.get(y, x, 0);
  const now = performance.now();
  times = [...times.filter((time) => now - time < 1000), now];
  postMessage({ pixels: new Uint8ClampedArray(pixels.buffer), height, width, steps, frames: times.length }, { transfer: [pixels.buffer] });
}

function tick() {
  if (!running) return;
  const begun = performance.now();
  board.step();
  steps++;
  show();
  setTimeout(tick, Math.max(0, 16 - (performance.now() - begun)));
}

/** @type {Record<string, (message: any) => void>} */
const calls = {
  cell(message) {
    ({ cell, start, shown, templates } = message);
  },
  harden({ logits, height, width }) {
    const before = board;
    kinds = harden(cell, logits);
    rule = minimized(cell, kinds);
    const histogram = NAMES.map((name, kind) => ({ name, count: rule.gates.reduce((n, gate) => n + Number(gate.kind === kind), 0) }));
    postMessage({ histogram, gates: rule.gates.length, all: kinds.length });
    if (before && before.height === height && before.width === width) {
      board = new Board(cell, rule, height, width);
      board.state = before.state;
    } else begin(height, width);
  },
  restart({ height, width }) {
    begin(height, width);
  },
  paint({ x, y, radius, mode }) {
    for (let v = Math.max(0, y - radius); v <= Math.min(board.height - 1, y + radius); v++)
      for (let u = Math.max(0, x - radius); u <= Math.min(board.width - 1, x + radius); u++)
        for (let c = 0; c < cell.channels; c++) board.set(v, u, c, mode === "noise" ? Math.random() < 0.5 : mode === "paint");
    if (!running) show();
  },
  run({ on }) {
    if (on === running) return;
    running = on;
    tick();
  },
  step() {
    board.step();
    steps++;
    show();
  },
  file({ ending }) {
    const { height, width } = board;
    /** @type {Record<string, () => string>} */
    const texts = {
      json: () => toJSON(cell, kinds),
      c: () => toC(cell, rule, templates.c),
      v: () => toVerilog(cell, rule, templates.v, height, width),
    };
    postMessage({ file: `cell.${ending}`, text: texts[ending]() });
  },
};

addEventListener("message", ({ data }) => calls[data.call](data));
