// The page of any step: its inputs by name, from a file or at random, and the curves of what it returns.

import { Training, h, say, trying } from "./ui.js";

/** @param {import("./ui.js").Remote} remote @param {import("./ui.js").Page} page @param {import("./ui.js").Info} info @param {HTMLElement} main */
export async function start(remote, page, info, main) {
  const training = new Training(remote, page, info);
  main.replaceChildren(training.element, await inputs(remote, info), state(info));
  training.begin();
}

/** @param {import("./ui.js").Remote} remote @param {import("./ui.js").Info} info */
async function inputs(remote, info) {
  const rows = [];
  /** @type {Record<string, HTMLElement>} */
  const sources = {};
  for (const { name, shape, dtype } of info.arguments) {
    const data = await remote.call("data", name);
    sources[name] = h("td", {}, data ? `${data.shape[0].toLocaleString("en")} samples` : "random, the same at each step");
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

/** @param {import("./ui.js").Info} info */
function state(info) {
  const seen = new Set();
  const rows = info.names
    .filter(({ role, name }) => role === "parameter" && !seen.has(name) && seen.add(name))
    .map(({ name, shape }) => h("tr", {}, h("td", {}, h("code", {}, name)), h("td", {}, `(${shape.join(", ")})`)));
  return h("section", {}, h("h2", {}, "Parameters"), h("div", { class: "scroll" }, h("table", {}, ...rows)));
}
