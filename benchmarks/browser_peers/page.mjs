// The exported step of a page. See run.mjs.

export async function opened(base, name, { x, y }) {
  const { Program } = await import(new URL("runtime.js", base).href);
  const program = await Program.load(new URL("step.json", base));
  const run = () => program.run({ x: x.data, y: y.data }); // uploads both, as a page does
  const step = { submit: () => void run(), loss: async () => Object.values(await run())[0], way: () => step };
  return { version: `plan ${program.plan.name}`, task: () => step, ways: ["page"] };
}
