// The exported step of a page. See run.mjs.

export async function opened(base, name, { x, y }) {
  const { Program } = await import(new URL("runtime.js", base).href);
  const program = await Program.load(new URL("step.json", base));
  const stepOf = (inputs) => {
    const run = () => program.run(inputs);
    return { submit: () => void run(), loss: async () => Object.values(await run())[0], way: (name) => ways[name] };
  };
  const inputs = { x: x.data, y: y.data };
  const ways = { page: stepOf(inputs), "page, its batch uploaded once": stepOf(program.batch(inputs)) }; // a page uploads another one in each step
  return { version: `plan ${program.plan.name}`, task: () => ways.page, ways: Object.keys(ways) };
}
