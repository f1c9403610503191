import { NoGpuError, Program } from "shadergrad-runtime";
import { CpuProgram } from "shadergrad-runtime/cpu";

const BATCH = 64;

/** Points of the square, and whether both coordinates have one sign. */
function batch() {
  const x = Float32Array.from({ length: 2 * BATCH }, () => 2 * Math.random() - 1);
  const y = Int32Array.from({ length: BATCH }, (_, k) => (x[2 * k] * x[2 * k + 1] > 0 ? 1 : 0));
  return { x, y };
}

/** The step on the GPU; on the CPU where the browser has none. */
async function load(url, options) {
  try {
    return await Program.load(url, options);
  } catch (error) {
    if (!(error instanceof NoGpuError)) throw error;
    return CpuProgram.load(url, options);
  }
}

const shown = document.querySelector("output");
try {
  const program = await load("step/step.json", {
    onkernel: (compiled, of) => (shown.textContent = `compiling kernel ${compiled} of ${of}`),
  });
  for (let step = 1; step <= 300; step++) {
    const { loss } = await program.run(batch());
    shown.textContent = `step ${step}: loss ${loss.toFixed(4)}`;
  }
  shown.dataset.finished = program instanceof CpuProgram ? "cpu" : "gpu";
} catch (error) {
  shown.textContent = error.message;
}
