// Our library in Pyodide. See run.mjs.

import { inPython } from "./python.mjs";

export const opened = inPython("shadergrad");
