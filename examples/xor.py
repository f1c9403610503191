"""XOR, the smallest problem that needs a hidden layer: a network 2-8-1 learns it in 200 full-batch steps.

Run: python examples/xor.py [webgpu|cpu]
"""

import sys
import time

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn

device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
sg.manual_seed(0)

# The truth table: all four inputs, and what XOR makes of them.
x = sg.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], device=device)
y = sg.tensor([[0.0], [1.0], [1.0], [0.0]], device=device)

model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
optimizer = sg.optim.AdamW(model.parameters(), lr=0.05)


# Compiled on the first call: forward, backward and update become one short list of kernels.
@sg.compile
def step(x: Tensor, y: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


loss = step(x, y)
first = loss.item()

# A step does not wait for the device; the loss is read once, at the end.
started = time.perf_counter()
for _ in range(199):
    loss = step(x, y)
last = loss.item()
print(f"{device}: loss {first:.3f} -> {last:.6f}, 199 steps in {time.perf_counter() - started:.3f} s")

with sg.no_grad():
    outputs = model(x).numpy()
for (a, b), output in zip(x.numpy(), outputs[:, 0], strict=True):
    print(f"{a:.0f} xor {b:.0f} = {output:.3f}")
assert last < 0.01, "it did not learn XOR"
