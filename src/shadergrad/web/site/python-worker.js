// Python in a worker: Pyodide, with the wheels of a shelf. What a program prints and plots goes to the page as it comes.
//
// In: {load: {pyodide, wheels, packages}}, then {run: text} one after another. Out: {said} while it loads, {ready: {jspi, version}} or
// {failed}; of a program {out}, {error} for lines, {plot: {name: number}}, and {done: "" or the traceback}.

import "./python-gpu.js"; // shadergrad/runtime/page.js

let python = null;

async function load({ pyodide, wheels, packages }) {
  const folder = new URL(pyodide.endsWith("/") ? pyodide : `${pyodide}/`, self.location.href).href;
  const jspi = "Suspending" in WebAssembly;
  postMessage({ said: "Loading Python" });
  const fetched = Promise.all(wheels.map(async (wheel) => {
    const answer = await fetch(new URL(wheel, self.location.href));
    if (!answer.ok) throw new Error(`${wheel} is not there (${answer.status})`);
    return answer.arrayBuffer();
  }));
  fetched.catch(() => {}); // it is awaited below
  const { loadPyodide, version } = await import(`${folder}pyodide.mjs`);
  const say = (kind) => (text) => postMessage({ [kind]: text });
  const made = await loadPyodide({ indexURL: folder, packages, stdout: say("out"), stderr: say("error") });
  postMessage({ said: "Unpacking shadergrad" });
  const extractDir = made.runPython("import site; site.getsitepackages()[0]");
  for (const wheel of await fetched) made.unpackArchive(wheel, "wheel", { extractDir });
  postMessage({ said: "Importing shadergrad" });
  await made.runPythonAsync("import shadergrad");
  python = made;
  return { jspi, version };
}

async function run(text) {
  const globals = python.toPy({ __name__: "__main__" });
  try {
    await python.loadPackagesFromImports(text, { messageCallback: (said) => said.startsWith("Loading") && postMessage({ said }) });
    await python.runPythonAsync(text, { globals, filename: "program.py" });
    return "";
  } catch (error) {
    return String(error.message ?? error);
  } finally {
    globals.destroy();
  }
}

self.onmessage = async ({ data }) => {
  if (data.load) {
    try {
      postMessage({ ready: await load(data.load) });
    } catch (error) {
      postMessage({ failed: String(error?.message ?? error) });
    }
  } else {
    postMessage({ done: await run(data.run) });
  }
};
