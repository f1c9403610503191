// The playground: an editor, a Python in a worker, what it prints, and its curves. python.json names Pyodide and the wheels.

const byId = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const run = /** @type {HTMLButtonElement} */ (byId("run"));
const stop = /** @type {HTMLButtonElement} */ (byId("stop"));
const editor = /** @type {HTMLTextAreaElement} */ (byId("program"));
const example = /** @type {HTMLSelectElement} */ (byId("example"));
const [status, output, chart, legend] = ["status", "output", "chart", "legend"].map(byId);
const COLOURS = ["var(--first)", "var(--second)", "var(--good)", "var(--soft)"];
const MOST_LINES = 2000;

/** The curves of a run, by name. @type {Map<string, number[]>} */
const curves = new Map();
/** @type {Worker | null} */
let worker = null;
/** @type {import("./python-worker.js").Shelf & {examples: Record<string, string>}} */
let shelf;
let started = 0; // when the program began
let tabLeaves = false;
let drawing = false;

/** A text, packed into what an address may hold, and back. */
async function packed(/** @type {string} */ text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
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

/** Draws at most once a frame. */
function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    const values = [...curves.values()].flat().filter(Number.isFinite);
    if (!values.length) return;
    const low = Math.min(0, ...values), high = Math.max(...values), span = high - low || 1;
    chart.replaceChildren(...[...curves.values()].map((curve, k) => {
      const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
      const stride = Math.max(1, Math.floor(curve.length / 400));
      const points = curve.flatMap((y, x) => (x % stride && x < curve.length - 1) || !Number.isFinite(y) ? []
        : [`${(400 * x) / Math.max(1, curve.length - 1)},${155 - (150 * (y - low)) / span}`]);
      line.setAttribute("points", points.join(" "));
      line.style.stroke = COLOURS[k % COLOURS.length];
      return line;
    }));
    chart.removeAttribute("hidden");
    legend.replaceChildren(...[...curves].map(([name, curve], k) => {
      const entry = document.createElement("span");
      entry.style.color = COLOURS[k % COLOURS.length];
      entry.textContent = `${name} ${curve[curve.length - 1].toPrecision(4)} after ${curve.length} points\u2003`;
      return entry;
    }));
  });
}

function begin() {
  run.disabled = true;
  stop.disabled = true;
  worker = new Worker(new URL("python-worker.js", import.meta.url), { type: "module" });
  worker.onerror = (event) => fail(event.message || "the worker could not be loaded");
  worker.onmessage = ({ data }) => {
    if (data.said !== undefined) status.textContent = data.said;
    if (data.ready) {
      const waits = data.ready.jspi ? "" : " This browser cannot suspend Python: read values by await x.item_async().";
      const gpu = "gpu" in navigator ? "" : " It has no WebGPU: use the cpu device.";
      status.textContent = `Ready.${waits}${gpu}`;
      run.disabled = false;
      document.body.dataset.ready = "";
    }
    if (data.failed !== undefined) fail(data.failed);
    if (data.out !== undefined) show(data.out);
    if (data.error !== undefined) show(data.error, true);
    if (data.plot !== undefined) {
      for (const [name, value] of Object.entries(data.plot)) {
        if (!curves.has(name)) curves.set(name, []);
        curves.get(name)?.push(Number(value));
      }
      draw();
    }
    if (data.done !== undefined) {
      if (data.done) show(data.done.trimEnd(), true);
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      status.textContent = data.done ? "The program failed; its last line says why." : `Finished in ${seconds} s.`;
      run.disabled = false;
      stop.disabled = true;
    }
  };
  worker.postMessage({ load: { pyodide: shelf.pyodide, wheels: shelf.wheels, packages: shelf.packages } });
}

function fail(/** @type {string} */ why) {
  status.textContent = `Python could not be loaded: ${why}`;
  run.disabled = true;
}

function runProgram() {
  if (run.disabled || !worker) return;
  output.replaceChildren();
  chart.replaceChildren();
  chart.setAttribute("hidden", "");
  legend.replaceChildren();
  curves.clear();
  run.disabled = true;
  stop.disabled = false;
  started = performance.now();
  status.textContent = "Running …";
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
    status.textContent = "The link with this program is on the clipboard.";
  } catch {
    status.textContent = "The address of this page now holds the program.";
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

shelf = await (await fetch(new URL("python.json", import.meta.url))).json();
for (const name of Object.keys(shelf.examples)) example.append(new Option(name, name));
const shared = new URLSearchParams(location.hash.slice(1)).get("program");
try {
  editor.value = shared ? await unpacked(shared) : Object.values(shelf.examples)[0];
} catch {
  status.textContent = "The program in the address is damaged.";
  editor.value = Object.values(shelf.examples)[0];
}
begin();
