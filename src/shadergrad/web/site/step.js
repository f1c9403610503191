// The page of any step: its inputs by name, from a file or at random, and the curves of what it returns.

import { Training, h, say, short, trying } from "./ui.js";

const SHOWN = 10; // values of a result

/** @param {import("./ui.js").Remote} remote @param {import("./ui.js").Page} page @param {import("./ui.js").Info} info @param {HTMLElement} main */
export async function start(remote, page, info, main) {
  const training = new Training(remote, page, info);
  const others = page.programs.slice(1).map((name) => program(remote, name));
  const parameters = state(info);
  // beside the inputs, as one of three, or below all others
  if (others.length !== 1) parameters.classList.add(others.length ? "wide" : "rest");
  main.replaceChildren(training.element, await inputs(remote, info), ...others, parameters);
  training.begin();
}

/** @param {import("./ui.js").Remote} remote @param {import("./ui.js").Info} info */
async function inputs(remote, info) {
  const rows = [];
  /** @type {Record<string, HTMLElement>} */
  const sources = {};
  for (const { name, shape, dtype } of info.arguments) {
    const data = await remote.call("data", name);
    sources[name] = h("td", { class: "values" }, data ? `${data.shape[0].toLocaleString("en")} samples` : "random, the same at each step");
    rows.push(h("tr", {}, h("td", {}, h("code", {}, name)), h("td", {}, `${dtype} (${shape.join(", ")})`), sources[name]));
  }
  const open = h("input", { type: "file", accept: ".safetensors" });
  open.addEventListener("change", () =>
    trying(async () => {
      const [file] = open.files;
      if (!file) return;
      for (const name of await remote.call("feed", await file.arrayBuffer())) sources[name].textContent = file.name;
      say(`Trains with ${file.name}.`);
    }),
  );
  return h(
    "section",
    {},
    h("h2", {}, "Inputs"),
    rows.length
      ? h("div", { class: "scroll" }, h("table", {}, h("tr", {}, h("th", {}, "name"), h("th", {}, "a batch"), h("th", {}, "from")), ...rows))
      : h("p", {}, "The step takes none: its data are constants."),
    rows.length ? h("div", { class: "row" }, h("label", { class: "button" }, "Data from a safetensors file", open)) : "",
  );
}

/** One of the other exported functions, with the weights of this moment. @param {import("./ui.js").Remote} remote @param {string} name */
function program(remote, name) {
  const table = h("table");
  const run = async () => {
    const [{ arguments: parts, results }, { values, steps }] = await Promise.all([remote.call("describe", name), remote.call("sample", name)]);
    const fed = await Promise.all(parts.map(async (/** @type {{name: string}} */ { name: part }) => ((await remote.call("data", part)) ? `rows of ${part}` : `random ${part}`)));
    caption.textContent = `On ${fed.length ? fed.join(", ") : "its constants"}, with the weights after ${steps.toLocaleString("en")} ${steps === 1 ? "step" : "steps"}.`;
    const head = h("tr", {}, h("th", {}, "result"), h("th", {}, "shape"), h("th", {}, "values"));
    const rows = results.map((/** @type {{name: string, shape: number[]}} */ { name: result, shape }) => {
      const all = values[result];
      const first = typeof all === "number" ? short(all, 4) : Array.from(all.slice(0, SHOWN), (x) => short(Number(x), 3)).join(", ");
      return h("tr", {}, h("td", {}, h("code", {}, result)), h("td", {}, `(${shape.join(", ")})`), h("td", { class: "values" }, all.length > SHOWN ? `${first}, …` : first));
    });
    table.replaceChildren(head, ...rows);
  };
  const caption = h("p", { class: "legend" }, "Runs on rows of the data, or on random numbers.");
  return h(
    "section",
    {},
    h("h2", {}, h("code", {}, name)),
    caption,
    h("div", { class: "row" }, h("button", { onclick: () => trying(run) }, "Run")),
    h("div", { class: "scroll" }, table),
  );
}

/** @param {import("./ui.js").Info} info */
function state(info) {
  const seen = new Set();
  const rows = info.names
    .filter(({ role, name }) => role === "parameter" && !seen.has(name) && seen.add(name))
    .map(({ name, shape }) => h("tr", {}, h("td", {}, h("code", {}, name)), h("td", {}, `(${shape.join(", ")})`)));
  return h("section", {}, h("h2", {}, "Parameters"), h("div", { class: "scroll" }, h("table", {}, ...rows)));
}
