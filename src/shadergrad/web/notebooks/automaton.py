# %% [markdown]
# # An automaton to paint on
#
# A cell sees its neighbours and decides by a network of logic gates alone. The gates learn a rule that turns noise into a checkerboard. Then
# they are hardened to a circuit, which runs on a board that you can damage.

# %%
import json

import numpy as np
from IPython.display import HTML, display

import shadergrad as sg

device = "webgpu" if sg.devices.adapters() else "cpu"
sg.manual_seed(0)
model = sg.logic.LogicCA(4, 4, (9, 8, 4, 2), (64, 32, 16, 8, 4), border="periodic").to(device)
optimizer = sg.optim.AdamW(model.parameters(), lr=0.06)
side, life = 8, 8
target = sg.tensor(np.indices((side, side)).sum(0) % 2, dtype=sg.float32, device=device)
draw = np.random.default_rng(0)


@sg.compile
def step(start):
    optimizer.zero_grad()
    loss = ((model.rollout(start, life)[..., 0] - target) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss


# %%
steps = 400
for k in range(steps):
    loss = step(sg.tensor(draw.random((2, side, side, 4)) < 0.5, dtype=sg.float32, device=device))
    if k % 10 == 0:
        sg.web.plot(loss=loss.item())

# %% [markdown]
# The likeliest gate of each place: a circuit. Paint on the board with the mouse or a finger, and see whether it heals.

# %%
circuit = json.loads(sg.logic.circuit.to_json(model.harden()))
print(len(circuit["circuit"]["gates"]), "gates")

# %%
BOARD = """<canvas id="ID" width="32" height="32" style="width: 20rem; image-rendering: pixelated; touch-action: none; border: 1px solid"></canvas>
<script>{
const {circuit: {inputs, gates, outputs}} = CIRCUIT, n = 32, channels = outputs.length;
const OF = TABLE;  // the four bits of each kind of gate: its value for inputs 00, 01, 10, 11
const at = Object.fromEntries([...inputs, ...gates.map((gate) => gate[0])].map((name, k) => [name, k]));
const wires = gates.map(([, kind, a, b]) => [OF[kind], at[a] ?? 0, at[b] ?? 0]), last = outputs.map((found) => at[found[1]]);
let board = Uint8Array.from({length: n * n * channels}, () => Math.random() < 0.5), values = new Uint8Array(inputs.length + gates.length);
const canvas = document.getElementById("ID"), context = canvas.getContext("2d"), image = context.createImageData(n, n);
const paint = (event) => {
  const box = canvas.getBoundingClientRect();
  const [x, y] = [n * (event.clientX - box.left) / box.width, n * (event.clientY - box.top) / box.height].map(Math.floor);
  for (let v = y - 1; v < y + 3; v++) for (let u = x - 1; u < x + 3; u++) for (let c = 0; c < channels; c++)
    if (u >= 0 && v >= 0 && u < n && v < n) board[(v * n + u) * channels + c] = 0;
};
canvas.onpointerdown = paint;
canvas.onpointermove = (event) => event.buttons && paint(event);
const step = () => {
  const next = new Uint8Array(board.length);
  for (let y = 0; y < n; y++) for (let x = 0; x < n; x++) {
    let k = 0;
    for (let v = -1; v < 2; v++) for (let u = -1; u < 2; u++) for (let c = 0; c < channels; c++)
      values[k++] = board[(((y + v + n) % n) * n + ((x + u + n) % n)) * channels + c];
    for (const [bits, a, b] of wires) values[k++] = (bits >> (2 * values[a] + values[b])) & 1;
    last.forEach((wire, c) => (next[(y * n + x) * channels + c] = values[wire]));
  }
  board = next;
  for (let k = 0; k < n * n; k++) image.data.set(board[k * channels] ? [230, 237, 244, 255] : [16, 22, 29, 255], 4 * k);
  context.putImageData(image, 0, 0);
  if (document.contains(canvas)) setTimeout(step, 100);
};
step();
}</script>"""
kinds = {
    name: int(sum(int(bit) << k for k, bit in enumerate(row)))
    for name, row in zip(sg.logic.gates.NAMES, sg.logic.gates.TABLES, strict=True)
}
page = (
    BOARD.replace("CIRCUIT", json.dumps(circuit))
    .replace("TABLE", json.dumps(kinds))
    .replace("ID", f"board-{draw.integers(1 << 30)}")
)
display(HTML(page))
