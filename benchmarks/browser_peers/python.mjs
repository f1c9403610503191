// Python in Pyodide, in which a library trains. In: the library's name in Python. Out: what run.mjs asks of a library.

import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const HERE = new URL(".", import.meta.url);

/** @param {string} library */
export const inPython = (library) =>
  async function opened(address, name, given) {
    const held = new URL(`${address}/`);
    const folder = fileURLToPath(held);
    const { loadPyodide, version } = await import(new URL("pyodide.mjs", held).href);
    globalThis.fetch = undefined; // Pyodide reads files in Node
    const python = await loadPyodide({ indexURL: folder, packageCacheDir: folder, stdout: () => {}, stderr: () => {} });
    await python.loadPackage(["numpy"], { messageCallback: () => {} });
    const extractDir = python.runPython("import site; site.getsitepackages()[0]");
    for (const wheel of readdirSync(new URL("wheels/", held)))
      python.unpackArchive(Uint8Array.from(readFileSync(new URL(`wheels/${wheel}`, held))), "wheel", { extractDir });
    for (const file of ["../workloads.py", "python_step.py"])
      python.FS.writeFile(`${extractDir}/${file.split("/").at(-1)}`, readFileSync(new URL(file, HERE)));
    const batch = [given.x, given.y].map(({ data, shape }) => ({ data, shape }));
    python.globals.set("given", { name, library, batch, lr: given.lr, small: given.small, weights: Object.fromEntries(given.weights) });
    await python.runPythonAsync("from python_step import Step\nstep = Step(given.to_py())");
    const step = {
      loss: () => python.runPythonAsync("step.loss()"),
      timed: (steps) => python.runPythonAsync(`step.timed(${steps})`),
      host: () => python.runPythonAsync("step.host()"),
      way: async (way) => (await python.runPythonAsync(`step.take(${JSON.stringify(way)})`), step),
    };
    const ways = python.runPython("step.ways").toJs();
    return { version: `${python.runPython("step.version")}, Pyodide ${version}`, task: () => step, ways };
  };
