// The page that compares: the same step from the same weights on the same batches, on this GPU and on this CPU.

import { Chart, h, say, short, trying, wish } from "./ui.js";

/** @param {import("./ui.js").Remote} remote @param {import("./ui.js").Page} page @param {import("./ui.js").Info} info @param {HTMLElement} main */
export async function start(remote, page, info, main) {
  const chart = new Chart("loss on the GPU and on the CPU", true);
  const steps = page.settings.steps ?? 300;
  /** @type {Record<string, {losses: number[], panel: Side}>} */
  const sides = {
    GPU: { losses: [], panel: new Side("On this GPU", info.adapter || "WebGPU", info.noGpu ? "the browser gives the page none" : `${info.dispatches} dispatches a step`) },
    CPU: { losses: [], panel: new Side("On this CPU", "one thread", "plain JavaScript on typed arrays, a loop a node") },
  };
  const verdict = h("p", { class: "answer", role: "status" }, "–");
  const again = h("button", { class: "main", onclick: () => trying(run) }, "Run");
  /** @type {Worker | null} */ let worker = null;

  /** @param {string} name @param {{rows: Record<string, number>[], perSecond: number}} progress */
  const show = (name, { rows, perSecond }) => {
    const { losses, panel } = sides[name];
    for (const row of rows) {
      losses.push(Object.values(row)[0]);
      chart.add(name, losses.length, losses[losses.length - 1]);
    }
    if (rows.length) panel.show(losses.length, losses[losses.length - 1], perSecond);
  };

  /** When both are done: a browser compiles JavaScript while it runs, so its first steps say nothing of the others. */
  const judge = () => {
    const [a, b] = [sides.GPU, sides.CPU];
    const common = Math.min(a.losses.length, b.losses.length);
    let most = 0;
    for (let k = 0; k < common; k++) most = Math.max(most, Math.abs(a.losses[k] - b.losses[k]));
    const ratio = a.panel.speed / b.panel.speed;
    if (info.noGpu) verdict.textContent = `There is no GPU to compare with: ${info.noGpu}`;
    if (common && Number.isFinite(ratio))
      verdict.textContent =
        (ratio >= 1 ? `The GPU is ${short(ratio, 2)} times as fast.` : `The CPU is ${short(1 / ratio, 2)} times as fast.`) +
        ` Their losses differ by ${short(most, 1)} at most over ${common} steps.`;
  };
  remote.on("progress", (progress) => show("GPU", progress));

  /** One after the other, so that neither slows the other. */
  async function run() {
    again.disabled = true;
    try {
      await train();
      judge();
      say("");
    } finally {
      again.disabled = false;
      again.textContent = "Run again";
    }
  }

  async function train() {
    worker?.terminate();
    chart.clear();
    verdict.textContent = "–";
    for (const side of Object.values(sides)) {
      side.losses.length = 0;
      side.panel.clear();
    }
    if (!info.noGpu) {
      await remote.call("reset");
      say("The GPU trains …");
      await remote.call("train", steps);
    }
    say("The CPU trains …");
    worker = new Worker(new URL("cpu-worker.js", import.meta.url), { type: "module" });
    await new Promise((resolve, reject) => {
      const cpu = /** @type {Worker} */ (worker);
      cpu.onerror = (event) => reject(new Error(event.message));
      cpu.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : data.done ? resolve(null) : show("CPU", data));
      const base = new URL(".", location.href).href;
      cpu.postMessage({ call: "train", base, parts: info.arguments, whole: Boolean(page.settings.whole_batches), steps, data: page.data });
    });
  }

  main.classList.add("halves");
  main.replaceChildren(
    h("section", { class: "wide" }, h("h2", {}, "Loss"), chart.element, verdict, h("div", { class: "row" }, again)),
    sides.GPU.panel.element,
    sides.CPU.panel.element,
  );
  if (wish("run", "1") === "1") trying(run);
}

/** What is said of one of the two. */
class Side {
  speed = NaN;

  /** @param {string} title @param {string} name @param {string} how */
  constructor(title, name, how) {
    this.figures = ["steps", "loss", "steps a second", "milliseconds a step"].map((text) => ({ text, shown: h("dd", {}, "–") }));
    this.element = h(
      "section",
      {},
      h("h2", {}, title),
      h("p", { class: "legend" }, `${name}: ${how}`),
      h("dl", {}, ...this.figures.map(({ text, shown }) => h("div", {}, h("dt", {}, text), shown))),
    );
  }

  clear() {
    this.speed = NaN;
    for (const { shown } of this.figures) shown.textContent = "–";
  }

  /** @param {number} steps @param {number} loss @param {number} perSecond */
  show(steps, loss, perSecond) {
    if (steps > 20 || !Number.isFinite(this.speed)) this.speed = Number.isFinite(this.speed) ? 0.7 * this.speed + 0.3 * perSecond : perSecond;
    const texts = [steps.toLocaleString("en"), short(loss, 4), short(this.speed), short(1000 / this.speed)];
    this.figures.forEach(({ shown }, k) => (shown.textContent = texts[k]));
  }
}
