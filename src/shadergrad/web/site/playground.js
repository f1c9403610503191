// The playground: an editor, a Python in a worker, what it prints, and its curves. python.json names Pyodide and the wheels.

import { Chart, h, short } from "./ui.js";

const byId = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const run = /** @type {HTMLButtonElement} */ (byId("run"));
const stop = /** @type {HTMLButtonElement} */ (byId("stop"));
const editor = /** @type {HTMLTextAreaElement} */ (byId("program"));
const example = /** @type {HTMLSelectElement} */ (byId("example"));
const [status, output] = ["status", "output"].map(byId);
const chart = new Chart("Curves", false, "point");
const MOST_LINES = 2000;

/** Points of each curve, by name. @type {Map<string, number>} */
const counts = new Map();
/** What the legend says of it. @type {Map<string, HTMLElement>} */
const entries = new Map();
/** @type {Worker | null} */
let worker = null;
/** @type {import("./python-worker.js").Shelf & {examples: Record<string, string>}} */
let shelf;
let started = 0; // when the program began
let tabLeaves = false;

/** A text, packed into what an address may hold, and back. */
async function packed(/** @type {string} */ text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
async function unpacked(/** @type {string} */ text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
}

function show(/** @type {string} */ text, wrong = false) {
  const line = document.createElement("span");
  line.textContent = `${text}\n`;
  if (wrong) line.className = "wrong";
  output.append(line);
  while (output.childNodes.length > MOST_LINES) output.firstChild?.remove();
  output.scrollTop = output.scrollHeight;
}

/** Adds a point to each curve; the legend tells its last value. @param {Record<string, number | null>} values */
function plot(values) {
  for (const name of Object.keys(values)) {
    const points = (counts.get(name) ?? 0) + 1;
    counts.set(name, points);
    chart.add(name, points, values[name] ?? NaN);
  }
  const [beside] = chart.beside();
  for (const [name, value] of Object.entries(values)) {
    const curve = chart.curves.get(name);
    const points = counts.get(name) ?? 0;
    const scale = curve && beside.has(curve) ? " (right scale)" : "";
    const text = `${name}${scale} ${value === null ? "not finite" : short(value, 4)} after ${points.toLocaleString("en")} ${points === 1 ? "point" : "points"}`;
    const entry = entries.get(name) ?? h("span");
    entries.set(name, entry);
    entry.textContent = text;
    entry.style.setProperty("--colour", `var(${curve?.colour ?? "--soft"})`);
  }
  const isShown = [...entries.values()].every((entry) => entry.isConnected); // the chart has put a name there of its own
  if (!isShown || chart.legend.childElementCount !== entries.size) chart.legend.replaceChildren(...entries.values());
  if (!chart.element.hidden) return;
  chart.element.hidden = false;
  reveal();
}

function begin() {
  run.disabled = true;
  stop.disabled = true;
  worker = new Worker(new URL("python-worker.js", import.meta.url), { type: "module" });
  worker.onerror = (event) => fail(event.message || "the worker could not be loaded");
  worker.onmessage = ({ data }) => {
    if (data.said !== undefined) say(data.said);
    if (data.ready) {
      const waits = data.ready.jspi ? "" : " This browser cannot suspend Python: read values by await x.item_async().";
      const gpu = "gpu" in navigator ? "" : " It has no WebGPU: use the cpu device.";
      say(`Ready.${waits}${gpu}`);
      run.disabled = false;
      document.body.dataset.ready = "";
    }
    if (data.failed !== undefined) fail(data.failed);
    if (data.out !== undefined) show(data.out);
    if (data.error !== undefined) show(data.error, true);
    if (data.plot !== undefined) plot(data.plot);
    if (data.done !== undefined) {
      if (data.done) show(data.done.trimEnd(), true);
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      say(data.done ? "The program failed; its last line says why." : `Finished in ${seconds} s.`, Boolean(data.done));
      run.disabled = false;
      stop.disabled = true;
    }
  };
  worker.postMessage({ load: { pyodide: shelf.pyodide, wheels: shelf.wheels, packages: shelf.packages } });
}

/** @param {string} text @param {boolean} [wrong] */
function say(text, wrong = false) {
  status.textContent = text;
  status.classList.toggle("error", wrong);
}

function fail(/** @type {string} */ why) {
  say(`Python could not be loaded: ${why}`, true);
  run.disabled = true;
}

/** On a phone the result lies below the program. */
function reveal() {
  if (status.getBoundingClientRect().top > innerHeight / 2) status.parentElement?.scrollIntoView();
}

function runProgram() {
  if (run.disabled || !worker) return;
  output.replaceChildren();
  chart.element.hidden = true;
  chart.clear();
  counts.clear();
  entries.clear();
  run.disabled = true;
  stop.disabled = false;
  started = performance.now();
  say("Running …");
  reveal();
  worker.postMessage({ run: editor.value });
}

run.onclick = runProgram;
stop.onclick = () => {
  worker?.terminate();
  show("Stopped.", true);
  begin();
};
byId("share").onclick = async () => {
  location.hash = `program=${await packed(editor.value)}`;
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link with this program is on the clipboard.");
  } catch {
    say("The address of this page now holds the program.");
  }
};
example.onchange = () => {
  if (shelf.examples[example.value] !== undefined) editor.value = shelf.examples[example.value];
};
editor.onkeydown = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    runProgram();
  } else if (event.key === "Tab" && !event.shiftKey && !tabLeaves) {
    event.preventDefault();
    editor.setRangeText("    ", editor.selectionStart, editor.selectionEnd, "end");
  }
  tabLeaves = event.key === "Escape";
};

chart.element.id = "chart";
chart.element.hidden = true;
output.before(chart.element);

/** Takes the program of the address; without one, what the editor holds stays. */
async function open() {
  const shared = new URLSearchParams(location.hash.slice(1)).get("program");
  try {
    if (shared) editor.value = await unpacked(shared);
  } catch {
    show("The program in the address is damaged.", true);
  }
}

const answer = await fetch(new URL("python.json", import.meta.url)).catch(() => null);
if (answer?.ok) {
  shelf = await answer.json();
  for (const name of Object.keys(shelf.examples)) example.append(new Option(name, name));
  editor.value = Object.values(shelf.examples)[0];
  await open();
  addEventListener("hashchange", open); // another link, followed in the same tab
  begin();
} else fail(`python.json cannot be loaded: ${answer ? `status ${answer.status}` : "no answer"}.`);
