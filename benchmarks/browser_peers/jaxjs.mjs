// jax-js (@jax-js/jax): a compiled function of value, gradient and Adam. See run.mjs.

const iterators = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())); // which Node 20 lacks
iterators.map ??= function* (f) {
  let k = 0;
  for (const value of this) yield f(value, k++);
};
iterators.filter ??= function* (f) {
  for (const value of this) if (f(value)) yield value;
};
iterators.toArray ??= function () {
  return [...this];
};

export async function opened(address, name, given) {
  const J = await import(address.href);
  const { numpy: np, jit, valueAndGrad, lax, nn, tree } = J;
  await J.init("webgpu");
  J.defaultDevice("webgpu");
  const { weights, x, y, heads, classes, lr } = given;
  const array = (data, shape) => np.array(Float32Array.from(data)).reshape(shape);

  /** By name; matrices of linear layers the other way round, what is added to images with their axes. */
  const held = {};
  for (const [key, { data, shape }] of weights) {
    if (/^(?!embedding|places).*weight$/.test(key) && shape.length === 2) {
      const [rows, columns] = shape;
      held[key] = array(Float32Array.from(data, (_, k) => data[(k % rows) * columns + Math.floor(k / rows)]), [columns, rows]);
    } else held[key] = array(data, isOfImages(key) ? [1, shape[0], 1, 1] : shape);
  }
  function isOfImages(key) {
    const [is, of] = [weights.get(key).shape.length === 1, key.replace("bias", "weight")];
    return is && (name === "resnet_16" ? key !== "13.bias" : name === "cnn" && weights.get(of).shape.length === 4);
  }
  const dense = (p, of, x) => np.matmul(x, p[`${of}.weight`]).add(p[`${of}.bias`]);
  function norm(p, of, x, axes) {
    const off = x.sub(np.mean(x.ref, axes, { keepdims: true }));
    const variance = np.mean(off.ref.mul(off.ref), axes, { keepdims: true });
    return off.mul(np.reciprocal(np.sqrt(variance.add(1e-5)))).mul(p[`${of}.weight`]).add(p[`${of}.bias`]);
  }
  const conv = (p, of, x, stride, pad) => lax.conv(x, p[`${of}.weight`], [stride, stride], [[pad, pad], [pad, pad]]); // prettier-ignore
  const images = [0, 2, 3];
  const models = {
    mlp: (p, x) => dense(p, 4, nn.relu(dense(p, 2, nn.relu(dense(p, 0, x))))),
    cnn(p, x) {
      for (const of of [0, 2]) x = nn.relu(conv(p, of, x, 1, 1).add(p[`${of}.bias`]));
      const [n, c, side] = [given.x.shape[0], weights.get("2.weight").shape[0], given.x.shape[2] / 2];
      x = np.max(x.reshape([n, c, side, 2, side, 2]), [3, 5]).reshape([n, c * side * side]);
      return dense(p, 8, nn.relu(dense(p, 6, x)));
    },
    resnet_16(p, x) {
      x = nn.relu(norm(p, 1, conv(p, 0, x, 1, 1), images));
      for (let k = 0; k < 8; k++) {
        const [of, stride] = [3 + k, k && k % 2 === 0 ? 2 : 1];
        const around = weights.has(`${of}.around.0.weight`) ? norm(p, `${of}.around.1`, conv(p, `${of}.around.0`, x.ref, stride, 0), images) : x.ref;
        const inner = nn.relu(norm(p, `${of}.bn1`, conv(p, `${of}.conv1`, x, stride, 1), images));
        x = nn.relu(norm(p, `${of}.bn2`, conv(p, `${of}.conv2`, inner, 1, 1), images).add(around));
      }
      return dense(p, 13, np.mean(x, [2, 3]));
    },
    mlm(p, x) {
      const [n, length, width] = [...given.x.shape, weights.get("places").shape[2]];
      let h = np.matmul(x, p["embedding.weight"]).add(p.places);
      for (let k = 0; weights.has(`layers.layers.${k}.norm1.weight`); k++) {
        const of = `layers.layers.${k}`;
        const all = norm(p, `${of}.norm1`, h.ref, -1);
        const projected = np.matmul(all, p[`${of}.self_attn.in_proj_weight`]).add(p[`${of}.self_attn.in_proj_bias`]);
        const parts = np.split(projected.reshape([n, length, 3, heads, width / heads]), 3, 2);
        const seen = nn.dotProductAttention(...parts.map((part) => part.reshape([n, length, heads, width / heads])));
        h = h.add(dense(p, `${of}.self_attn.out_proj`, seen.reshape([n, length, width])));
        const inner = nn.gelu(dense(p, `${of}.linear1`, norm(p, `${of}.norm2`, h.ref, -1)), { approximate: false });
        h = h.add(dense(p, `${of}.linear2`, inner));
      }
      h = nn.gelu(dense(p, "dense.0", norm(p, "layers.norm", h, -1)), { approximate: false });
      return dense(p, "dense.3", norm(p, "dense.2", h, -1));
    },
  };

  const asked = y.data.reduce((n, label) => n + Number(label >= 0), 0);
  const hot = (data, width) => {
    const all = new Float32Array(data.length * width);
    data.forEach((value, k) => value >= 0 && (all[k * width + value] = 1)); // -100: not asked
    return all;
  };
  const targets = array(hot(y.data, classes), [...y.shape, classes]);
  const isText = x.data instanceof Int32Array;
  const tokens = isText ? weights.get("embedding.weight").shape[0] : 0;
  const inputs = isText ? array(hot(x.data, tokens), [...x.shape, tokens]) : array(x.data, x.shape);
  const lossOf = (p, x, y) => nn.logSoftmax(models[name](p, x), -1).mul(y).sum().mul(-1 / asked);

  function task() {
    let [p, m, v] = [held, ...[0, 1].map(() => tree.map((a) => np.zeros(a.shape), held))];
    let t = np.array(0);
    const step = jit((p, m, v, t, x, y) => {
      const [loss, g] = valueAndGrad(lossOf)(tree.ref(p), x, y);
      t = t.add(1);
      const [c1, c2] = [0.9, 0.999].map((beta) => np.subtract(1, np.power(beta, t.ref)));
      m = tree.map((a, b) => a.mul(0.9).add(b.mul(0.1)), m, tree.ref(g));
      v = tree.map((a, b) => a.mul(0.999).add(b.ref.mul(b).mul(0.001)), v, g);
      const moved = (w, a, b) => w.sub(a.div(c1.ref).mul(lr).div(np.sqrt(b.div(c2.ref)).add(1e-8)));
      p = tree.map(moved, p, tree.ref(m), tree.ref(v));
      c1.dispose();
      c2.dispose();
      return [p, m, v, t, loss];
    });
    const taken = () => {
      let loss;
      [p, m, v, t, loss] = step(p, m, v, t, inputs.ref, targets.ref);
      return loss;
    };
    const whole = { submit: () => taken().dispose(), loss: async () => (await taken().data())[0], way: () => whole };
    return whole;
  }
  return { version: J.VERSION, task, ways: ["jax-js"] };
}
