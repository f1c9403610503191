// A classifier of logic gates as WebAssembly, 128 images at a time; export_wasm.py writes sizes, thresholds and the module behind the dashes.
// ----
// import { predict } from "./classifier.mjs";  predict(pixels) gives an Int32Array of classes, one for every `numbers` pixels.
const numbers = 1;
const classes = 1;
const group = 1;
const tau = 1;
const digits = 1;
const planes = 1;
const thresholds = 1;
const LANES = 128;

const bytes = Uint8Array.from(atob("MODULE"), (c) => c.charCodeAt(0));
const { instance } = await WebAssembly.instantiate(bytes);
const words = new Uint32Array(instance.exports.memory.buffer); // four a vector
const bits = thresholds === null ? 1 : thresholds[0].length;
const inputs = numbers * bits;
const limits = thresholds === null ? null : Float64Array.from(thresholds.flat(), Number);

function rowsOf(images) {
    if (images == null || typeof images.length !== "number")
        throw new TypeError("images are an array of numbers, or an array of such arrays.");
    let flat = images;
    if (images.length && typeof images[0] === "object") {
        const wrong = Array.prototype.findIndex.call(images, (image) => image.length !== numbers);
        if (wrong >= 0) throw new RangeError(`image ${wrong} has ${images[wrong].length} numbers, not ${numbers}.`);
        flat = new Float32Array(images.length * numbers);
        Array.prototype.forEach.call(images, (image, k) => flat.set(image, k * numbers));
    }
    if (flat.length % numbers)
        throw new RangeError(`${flat.length} numbers do not part into images of ${numbers}.`);
    return flat;
}

/* Runs the circuit on images from `first` on, at most 128 of them. */
function run(flat, first, count) {
    words.fill(0, 0, 4 * inputs);
    for (let l = 0; l < count; l++) {
        const word = l >> 5;
        const bit = 1 << (l & 31);
        let at = (first + l) * numbers;
        let slot = word;
        for (let i = 0; i < numbers; i++, at++) {
            const value = Math.fround(flat[at]);
            if (limits === null) {
                if (value !== 0 && value !== 1)
                    throw new RangeError(`image ${first + l} holds ${flat[at]}; this classifier has no thresholds and takes bits.`);
                if (value) words[slot] |= bit;
                slot += 4;
                continue;
            }
            for (let k = 0; k < bits; k++, slot += 4) if (value > limits[i * bits + k]) words[slot] |= bit;
        }
    }
    instance.exports.run();
}

/* The number in `size` outputs from `output` on, of lane l. */
function number(output, size, l) {
    let found = 0;
    let at = 4 * (inputs + output) + (l >> 5);
    for (let k = 0; k < size; k++, at += 4) found |= ((words[at] >>> (l & 31)) & 1) << k;
    return found;
}

function blocks(images, width, read) {
    const flat = rowsOf(images);
    const rows = flat.length / numbers;
    const found = new Int32Array(rows * width);
    for (let first = 0; first < rows; first += LANES) {
        const count = Math.min(LANES, rows - first);
        run(flat, first, count);
        for (let l = 0; l < count; l++) read(found, (first + l) * width, l);
    }
    return found;
}

/** The class with the most votes of each image, the first of equals. */
export function predict(images) {
    return blocks(images, 1, (found, at, l) => {
        found[at] = number(0, digits, l);
    });
}

/** The counts of votes, `classes` an image, one image after the other. */
export function votes(images) {
    return blocks(images, classes, (found, at, l) => {
        for (let c = 0; c < classes; c++) found[at + c] = number(digits + c * planes, planes, l);
    });
}

export { numbers, classes, group, tau };
