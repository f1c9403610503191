// Runs an exported step in WebAssembly and as plain JavaScript. In: folder, steps whose losses are told, seconds, fewest and most steps.
// Out: JSON, {language: {losses, ms}}.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, losses, seconds, fewest, most] = process.argv.slice(2).map((x, k) => (k ? Number(x) : x));
const at = (name) => pathToFileURL(`${folder}/${name}`).href;
const bytes = (name) => new Uint8Array(readFileSync(`${folder}/${name}`)).buffer;
const { readTensors } = await import(at("runtime.js"));

const inputs = Object.fromEntries([...readTensors(bytes("inputs.safetensors"))].map(([name, { data }]) => [name, data]));
const found = {};
for (const language of ["WebAssembly", "plain JavaScript"]) {
  const state = readTensors(bytes("state.safetensors"));
  const isWasm = language === "WebAssembly";
  const { load } = await import(at(isWasm ? "step.wasm.js" : "step.cpu.js"));
  const step = isWasm ? load(state, new WebAssembly.Module(bytes("step.wasm")), [...state.keys()]) : load(state);
  const told = Array.from({ length: losses }, () => Object.values(step.run(inputs))[0]);
  const begun = performance.now();
  let count = 0;
  while (count < fewest || (performance.now() - begun < 1000 * seconds && count < most)) {
    step.run(inputs);
    count++;
  }
  found[language] = { losses: told, ms: (performance.now() - begun) / count };
}
console.log(JSON.stringify(found));
