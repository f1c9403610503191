// The same step on the CPU, as plain JavaScript: the batches and the first weights are those of the GPU's side.

import { Batches } from "./batches.js";
import { readTensors } from "./runtime.js";

let running = false;

addEventListener("message", ({ data: message }) => {
  if (message.call === "pause") running = false;
  if (message.call === "train") train(message).catch((error) => postMessage({ error: error.message }));
});

/** @param {any} message */
async function train(message) {
  const { base, parts, whole } = message;
  const [step, state, data] = await Promise.all([
    import(new URL("step.cpu.js", base).href),
    ...["state.safetensors", message.data].map(async (name) => (name ? readTensors(await (await fetch(new URL(name, base))).arrayBuffer()) : new Map())),
  ]);
  const batches = new Batches(parts, data, whole);
  const program = step.load(state);
  running = true;
  let [begun, count] = [performance.now(), 0];
  /** @type {Record<string, number>[]} */
  let rows = [];
  for (let k = 0; k < message.steps && running; k++) {
    rows.push(program.run(batches.next()));
    count++;
    const now = performance.now();
    if (now - begun < 150 && k < message.steps - 1) continue;
    postMessage({ rows, steps: k + 1, perSecond: (1000 * count) / (now - begun) });
    rows = [];
    await new Promise((resolve) => setTimeout(resolve)); // a pause comes in here
    [begun, count] = [performance.now(), 0];
  }
  postMessage({ done: true });
}
