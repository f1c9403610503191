// The page: reads page.json, loads the programs in a worker, and hands over to the script that page.json names.

import { Remote, h, say, wish } from "./ui.js";

async function main() {
  const base = new URL(".", location.href).href;
  const answer = await fetch(new URL("page.json", base));
  if (!answer.ok) throw new Error(`page.json cannot be loaded: status ${answer.status}.`);
  const page = await answer.json();
  document.title = page.title;
  /** @type {HTMLElement} */ (document.getElementById("title")).textContent = page.title;
  /** @type {HTMLElement} */ (document.getElementById("text")).textContent = page.text;
  for (const [href, text] of Object.entries(page.settings.links ?? {}))
    document.querySelector("header")?.append(h("p", {}, h("a", { href }, /** @type {string} */ (text))));
  const remote = new Remote();
  let loading = true;
  remote.on("kernel", ({ compiled, of }) => loading && say(`Compiling for this GPU: ${compiled} of ${of} kernels …`));
  const [{ start }, info] = await Promise.all([
    import(new URL(`${page.page}.js`, import.meta.url).href),
    remote.call("load", base, page, { timestamps: true, on: page.page === "compare" ? "GPU" : wish("on", ""), plan: wish("plan", "") || undefined }),
  ]);
  loading = false;
  say("");
  await start(remote, page, info, document.getElementById("main"));
  document.body.dataset.ready = "";
}

main().catch((error) => {
  document.body.dataset.ready = "";
  say(error.message, true);
});
