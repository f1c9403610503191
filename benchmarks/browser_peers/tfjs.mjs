// TensorFlow.js on its WebGPU backend, in its own layout, channels last. It has no attention, so no masked language model. See run.mjs.

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

export async function opened(address, name, given) {
  const tf = createRequire(import.meta.url)(fileURLToPath(address));
  await tf.setBackend("webgpu");
  await tf.ready();
  if (tf.getBackend() !== "webgpu") throw new Error(`TensorFlow.js took ${tf.getBackend()}`);
  const { weights, x, y, classes, lr } = given;
  const tensor = (key) => tf.tensor(weights.get(key).data, weights.get(key).shape);
  const setOf = (layer, ...tensors) => ({ layer, tensors });
  const made = []; // layers with their weights, which they take once they are applied
  const weighted = (layer, ...tensors) => (made.push(setOf(layer, ...tensors)), layer);
  /** fromImages: its inputs are [channels, side, side] laid flat, which lie as [side, side, channels] here. */
  const dense = (of, activation, fromImages) => {
    const [n_out, n_in] = weights.get(`${of}.weight`).shape;
    const matrix = fromImages
      ? tensor(`${of}.weight`).reshape([n_out, ...fromImages]).transpose([2, 3, 1, 0]).reshape([n_in, n_out])
      : tensor(`${of}.weight`).transpose();
    return weighted(tf.layers.dense({ units: n_out, activation }), matrix, tensor(`${of}.bias`));
  };
  const conv = (of, stride, extra = {}) => {
    const [filters, , ...kernelSize] = weights.get(`${of}.weight`).shape;
    const kernel = tensor(`${of}.weight`).transpose([2, 3, 1, 0]);
    const isPadded = kernelSize[0] === 3 && stride === 2; // "same" pads one side alone where a stride leaves the choice
    const padding = isPadded ? "valid" : "same";
    const layer = tf.layers.conv2d({ filters, kernelSize, strides: stride, padding, useBias: false, ...extra });
    weighted(layer, kernel, ...(extra.useBias ? [tensor(`${of}.bias`)] : []));
    return { apply: (x) => layer.apply(isPadded ? tf.layers.zeroPadding2d({ padding: 1 }).apply(x) : x) };
  };
  const norm = (of) => {
    const [c] = weights.get(`${of}.weight`).shape;
    const layer = tf.layers.batchNormalization({ epsilon: 1e-5, momentum: 0.9 });
    return weighted(layer, tensor(`${of}.weight`), tensor(`${of}.bias`), tf.zeros([c]), tf.ones([c]));
  };
  const models = {
    mlp: (x) => dense(4).apply(dense(2, "relu").apply(dense(0, "relu").apply(x))),
    cnn(x) {
      for (const of of [0, 2]) x = conv(of, 1, { useBias: true, activation: "relu" }).apply(x);
      x = tf.layers.flatten().apply(tf.layers.maxPooling2d({ poolSize: 2 }).apply(x));
      const side = given.x.shape[2] / 2;
      return dense(8).apply(dense(6, "relu", [weights.get("2.weight").shape[0], side, side]).apply(x));
    },
    resnet_16(x) {
      const relu = () => tf.layers.reLU();
      x = relu().apply(norm(1).apply(conv(0, 1).apply(x)));
      for (let k = 0; k < 8; k++) {
        const [of, stride] = [3 + k, k && k % 2 === 0 ? 2 : 1];
        const around = weights.has(`${of}.around.0.weight`) ? norm(`${of}.around.1`).apply(conv(`${of}.around.0`, stride).apply(x)) : x;
        const inner = relu().apply(norm(`${of}.bn1`).apply(conv(`${of}.conv1`, stride).apply(x)));
        x = relu().apply(tf.layers.add().apply([norm(`${of}.bn2`).apply(conv(`${of}.conv2`, 1).apply(inner)), around]));
      }
      return dense(13).apply(tf.layers.globalAveragePooling2d({}).apply(x));
    },
  };
  if (!models[name]) throw new Error(`TensorFlow.js has no layers for ${name}`);

  function task() {
    const [, ...rest] = x.shape.length === 4 ? [x.shape[0], x.shape[2], x.shape[3], x.shape[1]] : x.shape;
    const input = tf.input({ shape: rest });
    const model = tf.model({ inputs: input, outputs: models[name](input) });
    for (const { layer, tensors } of made) layer.setWeights(tensors);
    const raw = tf.tensor(x.data, x.shape);
    const inputs = x.shape.length === 4 ? raw.transpose([0, 2, 3, 1]) : raw;
    const targets = tf.oneHot(tf.tensor1d(y.data, "int32"), classes);
    const optimizer = tf.train.adam(lr, 0.9, 0.999, 1e-8);
    const lossOf = () => tf.losses.softmaxCrossEntropy(targets, model.apply(inputs, { training: true }));
    const step = () => optimizer.minimize(() => tf.tidy(lossOf), true);
    const read = async (loss) => {
      const [value] = await loss.data();
      loss.dispose();
      return value;
    };
    const whole = { submit: () => step().dispose(), loss: () => read(step()), way: () => whole };
    return whole;
  }
  return { version: tf.version.tfjs, task, ways: ["TF.js"] };
}
