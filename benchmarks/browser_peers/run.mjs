// A training step of one library in Node, on Chromium's WebGPU by npm's package `webgpu`.
// In: the file of a library here, dawn.node, the library's file or folder ("-" for an exported page), the folder of a case, its name, rounds, seconds of a round.
// Out: a line of JSON, {version, losses, ways: {name: [milliseconds of a step in each round]}, host: {name: milliseconds of a call from Python}}.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

// without the line of source, which in a library on one line is all of it
process.on("uncaughtException", (error) => process.stderr.write(`${error?.stack ?? error}\n`, () => process.exit(1)));
const [library, dawn, held, folder, name, rounds, seconds] = process.argv.slice(2);
const { create, globals } = createRequire(import.meta.url)(resolve(dawn));
Object.assign(globalThis, globals);
// libraries look at what browser it is
const navigator = { gpu: create([]), userAgent: "Chrome", platform: "Linux", hardwareConcurrency: 2 };
Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true });
globalThis.fetch = async (address) => new Response(await readFile(new URL(address)));
console.log = console.error; // what libraries say is no result

const WARM = 1000; // milliseconds after which a GPU has raised its clock
const LOSSES = 4; // steps whose losses are told
const MOST = 500; // steps of a round

const base = pathToFileURL(`${folder}/`);
const { readTensors } = await import(new URL("runtime.js", base).href);
const tensors = async (file) => readTensors(new Uint8Array(await readFile(new URL(file, base))).buffer);
const [weights, { x, y }] = [await tensors("weights.safetensors"), Object.fromEntries(await tensors("batch.safetensors"))];
const about = JSON.parse(await readFile(new URL("about.json", base)));
const { opened } = await import(`./${library}`);
const { version, task, ways } = await opened(held === "-" ? base : pathToFileURL(resolve(held)), name, { weights, x, y, ...about });

/** Milliseconds of a step, of so many that follow one another and whose last loss is read. */
async function timed(step, steps) {
  if (step.timed) return step.timed(steps); // Python's loop
  const begun = performance.now();
  for (let k = 1; k < steps; k++) await step.submit();
  await step.loss();
  return (performance.now() - begun) / steps;
}

async function measured(step) {
  const begun = performance.now();
  let one = await timed(step, 2);
  while (performance.now() - begun < WARM * Math.min(1, Number(seconds))) one = await timed(step, 5);
  const steps = Math.max(2, Math.min(MOST, Math.round((1000 * Number(seconds)) / one)));
  const found = [];
  for (let round = 0; round < Number(rounds); round++) found.push(await timed(step, steps));
  return found;
}

const step = await task();
const losses = [];
for (let k = 0; k < LOSSES; k++) losses.push(await step.loss());
const [found, host] = [{}, {}];
for (const way of ways) {
  const taken = await step.way(way);
  found[way] = await measured(taken);
  if (taken.host) host[way] = await taken.host();
}
process.stdout.write(`${JSON.stringify({ version, losses, ways: found, host })}\n`, () => process.exit(0)); // the device keeps Node waiting else
