// borch's TypeScript runtime, as the wheel `pyborch` of PyPI holds it. See run.mjs.
// Two ways: a step recorded once and replayed (its `compiled`), and each step anew.

export async function opened(address, name, given) {
  const B = await import(address.href);
  await B.init();
  const { nn } = B;

  class Block extends nn.Module {
    constructor(weights, of, stride) {
      super();
      const [n_out, n_in] = weights.get(`${of}.conv1.weight`).shape;
      this.inner = new nn.Sequential([
        new nn.Conv2d(n_in, n_out, 3, stride, 1, 1, 1, false),
        new nn.BatchNormND(n_out),
        new nn.ReLU(),
        new nn.Conv2d(n_out, n_out, 3, 1, 1, 1, 1, false),
        new nn.BatchNormND(n_out),
      ]);
      this.around = weights.has(`${of}.around.0.weight`)
        ? new nn.Sequential([new nn.Conv2d(n_in, n_out, 1, stride, 0, 1, 1, false), new nn.BatchNormND(n_out)])
        : null;
    }
    forward(x) {
      return this.inner.call(x).add(this.around ? this.around.call(x) : x).relu();
    }
  }

  class Encoder extends nn.Module {
    constructor(weights, heads) {
      super();
      const [, sequence, width] = weights.get("places").shape;
      const [tokens] = weights.get("embedding.weight").shape;
      let depth = 0;
      while (weights.has(`layers.layers.${depth}.norm1.weight`)) depth++;
      this.places = new nn.Parameter(B.Tensor.zeros([1, sequence, width]));
      this.embedding = new nn.Embedding(tokens, width);
      const layer = new nn.TransformerEncoderLayer(width, heads, 4 * width, 0, "gelu", 1e-5, true, true);
      this.layers = new nn.TransformerEncoder(layer, depth, new nn.LayerNorm(width));
      this.dense = new nn.Sequential([new nn.Linear(width, width), new nn.GELU(), new nn.LayerNorm(width), new nn.Linear(width, tokens)]);
    }
    ownParameters() {
      return { places: this.places };
    }
    forward(x) {
      return this.dense.call(this.layers.call(this.embedding.call(x).add(this.places)));
    }
  }

  const linear = (weights, of) => new nn.Linear(...weights.get(`${of}.weight`).shape.toReversed());
  const models = {
    mlp: ({ weights }) => new nn.Sequential([linear(weights, 0), new nn.ReLU(), linear(weights, 2), new nn.ReLU(), linear(weights, 4)]),
    cnn: ({ weights }) => {
      const conv = (of) => new nn.Conv2d(...weights.get(`${of}.weight`).shape.slice(0, 2).toReversed(), 3, 1, 1);
      return new nn.Sequential([
        ...[conv(0), new nn.ReLU(), conv(2), new nn.ReLU(), new nn.MaxPool2d(2), new nn.Flatten()],
        ...[linear(weights, 6), new nn.ReLU(), linear(weights, 8)],
      ]);
    },
    resnet_16: ({ weights }) => {
      const width = weights.get("0.weight").shape[0];
      const blocks = Array.from({ length: 8 }, (_, k) => new Block(weights, 3 + k, k && k % 2 === 0 ? 2 : 1));
      return new nn.Sequential([
        ...[new nn.Conv2d(3, width, 3, 1, 1, 1, 1, false), new nn.BatchNormND(width), new nn.ReLU(), ...blocks],
        ...[new nn.AdaptiveAvgPool2d(1), new nn.Flatten(), linear(weights, 13)],
      ]);
    },
    mlm: ({ weights, heads }) => new Encoder(weights, heads),
  };
  // of blocks, whose convolutions lie in a Sequential here, that a normalization and its ReLU become one
  const named = (/** @type {string} */ own) =>
    own.replace(/inner\.([0134])\./, (_, k) => `${{ 0: "conv1", 1: "bn1", 3: "conv2", 4: "bn2" }[k]}.`);

  function task() {
    const model = models[name](given);
    const own = model.namedParameters();
    const names = Object.keys(own).map(named);
    if ([...given.weights.keys()].sort().join() !== names.toSorted().join()) throw new Error(`other parameters: ${names}`);
    for (const [k, parameter] of Object.values(own).entries()) {
      const { data, shape } = given.weights.get(names[k]);
      if (shape.join() !== parameter.shape.join()) throw new Error(`${names[k]} is ${parameter.shape}`);
      B.noGrad(() => parameter.copyFrom(B.Tensor.from(data, shape)));
    }
    const optimizer = new B.optim.Adam(model.parameters(), given.lr);
    const criterion = new nn.CrossEntropyLoss();
    const x = B.keepAlive(B.Tensor.from(given.x.data, given.x.shape, given.x.data instanceof Int32Array ? { dtype: "int64" } : {}));
    const y = B.keepAlive(B.Tensor.from(given.y.data, [given.y.data.length], { dtype: "int64" }));
    const step = (x, y) => {
      optimizer.zeroGrad();
      const logits = model.call(x);
      const loss = criterion.call(logits.reshape([y.shape[0], given.classes]), y);
      loss.backward();
      optimizer.step();
      return loss;
    };
    const checked = (loss) => {
      const { count, first } = B.device().faults;
      if (count) throw new Error(`WebGPU refused ${count} times: ${first}`); // borch goes on, with wrong numbers
      return loss;
    };
    const anew = {
      submit: () => B.scope(async () => void step(x, y)),
      loss: async () => checked(await B.scope(async () => await step(x, y).item())),
    };
    const replayed = async () => {
      // The second call measures kernels, whose choice serves the next recording: as on the second visit to a page.
      const tuning = B.compiled(step);
      await tuning.call(x, y);
      await tuning.call(x, y);
      await tuning.settle();
      tuning.dispose();
      const recorded = B.compiled(step);
      await recorded.call(x, y);
      return {
        submit: () => recorded.call(x, y),
        loss: async () => checked(await (await recorded.call(x, y)).item()),
      };
    };
    return { ...anew, way: (way) => (way === "borch" ? replayed() : anew) };
  }
  return { version: B.VERSION, task, ways: ["borch, each step anew", "borch"] };
}
