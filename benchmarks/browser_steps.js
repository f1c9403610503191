// Trains an exported page's step and says how fast, in a browser or in Node. In: the address of its folder, and a plan's name or "". Out: figures.

/** @param {string} base @param {string} [plan] @returns {Promise<any>} the programs, their data, and how long it took until the first step's loss was there */
export async function opened(base, plan) {
  const { Program, readTensors } = await import(new URL("runtime.js", base).href);
  const { Batches } = await import(new URL("batches.js", base).href);
  const get = (/** @type {string} */ name) => fetch(new URL(name, base));
  const begun = performance.now();
  const [page, file] = await Promise.all([get("page.json").then((a) => a.json()), get("data.safetensors").then((a) => a.arrayBuffer())]);
  const program = await Program.load(new URL("step.json", base), { plan: plan || undefined });
  const data = readTensors(file);
  const batches = new Batches(program.arguments, data, Boolean(page.settings.whole_batches));
  const loss = Object.values(await program.run(batches.next()))[0];
  const first = performance.now() - begun;
  const predict = page.programs.includes("predict") ? await Program.load(new URL("predict.json", base), { share: program }) : null;
  return { program, predict, data, batches, first, losses: [loss], adapter: program.adapter, plan: program.plan.name };
}

/** @param {any} open @param {number} steps @returns {Promise<number>} milliseconds that they took */
export async function trained(open, steps) {
  const begun = performance.now();
  const rows = await Promise.all(Array.from({ length: steps }, () => open.program.run(open.batches.next())));
  const took = performance.now() - begun;
  open.losses.push(...rows.map((row) => Object.values(row)[0]));
  return took;
}

/** @param {any} open @returns {Promise<number | null>} the share of the test images that are classified right */
export async function accuracy(open) {
  if (!open.predict) return null;
  const [images, labels] = ["test_images", "test_labels"].map((name) => open.data.get(name).data);
  const logits = (await open.predict.run({ images })).result;
  const classes = logits.length / labels.length;
  const best = (/** @type {number} */ k) => {
    const row = Array.from(logits.subarray(classes * k, classes * (k + 1)));
    return row.indexOf(Math.max(...row));
  };
  return labels.reduce((/** @type {number} */ n, /** @type {number} */ label, /** @type {number} */ k) => n + Number(best(k) === label), 0) / labels.length;
}
