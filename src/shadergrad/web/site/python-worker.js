// Python in a worker: Pyodide, with the wheels of a shelf. What a program prints and plots goes to the page as it comes.
//
// In: {load: {pyodide, wheels, packages}}, then {run: text} one after another. Out: {said} while it loads, {ready: {jspi, version}} or
// {failed}; of a program {out}, {error} for lines, {plot: {name: number}}, and {done: "" or the traceback}.

/** @typedef {{pyodide: string, wheels: string[], packages: string[]}} Shelf */

/** Pyodide. @type {any} */
let python = null;

/** @param {Record<string, any>} values */
const tell = (values) => postMessage(values);
/** @param {any} error */
const textOf = (error) => String(error?.message ?? error);
/** A traceback without the frames that are Pyodide's. @param {string} text */
const trimmed = (text) => text.replace(/ {2}File "[^"]*_pyodide\/_base\.py"[\s\S]*?(?= {2}File "program\.py")/, "");

Object.assign(globalThis, { shadergradPlot: (/** @type {string} */ values) => tell({ plot: JSON.parse(values) }) });

/** @param {string} wheel */
async function fetched(wheel) {
  const answer = await fetch(new URL(wheel, self.location.href));
  if (!answer.ok) throw new Error(`${wheel} is not there (${answer.status})`);
  return answer.arrayBuffer();
}

/** @param {Shelf} shelf */
async function load({ pyodide, wheels, packages }) {
  const folder = new URL(pyodide.endsWith("/") ? pyodide : `${pyodide}/`, self.location.href).href;
  tell({ said: "Loading Python …" });
  const archives = Promise.all(wheels.map(fetched));
  archives.catch(() => {}); // it is awaited below
  await import(new URL("python-gpu.js", self.location.href).href); // shadergrad/runtime/page.js
  const { loadPyodide, version } = await import(`${folder}pyodide.mjs`);
  const stdout = (/** @type {string} */ out) => tell({ out }), stderr = (/** @type {string} */ error) => tell({ error });
  const made = await loadPyodide({ indexURL: folder, packages, stdout, stderr });
  tell({ said: "Importing shadergrad …" });
  const extractDir = made.runPython("import site; site.getsitepackages()[0]");
  for (const archive of await archives) made.unpackArchive(archive, "wheel", { extractDir });
  await made.runPythonAsync("import shadergrad");
  python = made;
  return { jspi: "Suspending" in WebAssembly, version };
}

/** @param {string} text */
async function run(text) {
  const globals = python.toPy({ __name__: "__main__" });
  const messageCallback = (/** @type {string} */ said) => said.startsWith("Loading") && tell({ said: `${said} …` });
  try {
    await python.loadPackagesFromImports(text, { messageCallback });
    await python.runPythonAsync(text, { globals, filename: "program.py" });
    return "";
  } catch (error) {
    return trimmed(textOf(error));
  } finally {
    globals.destroy();
  }
}

self.onmessage = async (/** @type {MessageEvent} */ { data }) => {
  if (!data.load) return tell({ done: await run(data.run) });
  try {
    tell({ ready: await load(data.load) });
  } catch (error) {
    tell({ failed: textOf(error) });
  }
};

export {};
