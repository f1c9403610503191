// The hardened automaton at work: a board that steps by itself, sixty times a second at most, and posts its pictures.

import { Board, NAMES, harden, minimized, toJSON } from "./circuit.js";

/** @type {import("./circuit.js").Structure} */ let cell;
/** @type {Uint8Array} */ let kinds;
/** @type {ReturnType<typeof minimized>} */ let rule;
/** @type {Board} */ let board;
let start = "zeros";
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
  const pixels = new Uint8ClampedArray(4 * height * width);
  for (let y = 0, at = 0; y < height; y++)
    for (let x = 0; x < width; x++, at += 4)
      for (let c = 0; c < 3; c++) pixels[at + c] = board.get(y, x, shown === 3 ? c : 0) ? 235 : 24;
  for (let at = 3; at < pixels.length; at += 4) pixels[at] = 255;
  const now = performance.now();
  times = [...times.filter((time) => now - time < 1000), now];
  postMessage({ pixels, height, width, steps, frames: times.length }, { transfer: [pixels.buffer] });
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
    ({ cell, start, shown } = message);
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
  json() {
    postMessage({ json: toJSON(cell, kinds) });
  },
};

addEventListener("message", ({ data }) => calls[data.call](data));
