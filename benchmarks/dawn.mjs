// Chromium's WebGPU in Node, by npm's package `webgpu`. In: dawn.node, the folder of a page, steps, rounds, a plan's name or "". Out: a line of JSON.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { accuracy, opened, trained } from "./browser_steps.js";

const [library, folder, steps, rounds, plan] = process.argv.slice(2);
const { create, globals } = createRequire(import.meta.url)(library);
Object.assign(globalThis, globals);
Object.defineProperty(globalThis, "navigator", { value: { gpu: create([]) }, configurable: true });
globalThis.fetch = async (address) => new Response(await readFile(new URL(address)));

const open = await opened(pathToFileURL(`${folder}/`).href, plan);
const took = [];
let known = null;
for (let round = 0; round < Number(rounds); round++) {
  took.push(await trained(open, Number(steps)));
  known ??= await accuracy(open);
}
const losses = [open.losses[0], open.losses.at(-1)];
const found = JSON.stringify({ first: open.first, took, losses, accuracy: known, adapter: open.adapter, plan: open.plan });
process.stdout.write(`${found}\n`, () => process.exit(0)); // the device keeps Node waiting else
