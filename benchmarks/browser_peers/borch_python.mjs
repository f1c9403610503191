// borch's binding for Pyodide, over its TypeScript runtime, which it would load from a blob: Node has no such imports. See run.mjs.

import { inPython } from "./python.mjs";

export async function opened(held, name, given) {
  globalThis.borch = await import(new URL("borch.mjs", held).href);
  await globalThis.borch.init();
  return inPython("borch_webgpu")(held, name, given);
}
