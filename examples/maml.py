"""A network learns to learn: after one step on ten points of a sine it has never seen, it knows the whole sine.

Finn, Abbeel and Levine, Model-agnostic meta-learning, 2017 (arXiv:1703.03400): the loss after a step is differentiated through the step.
Run: shadergrad run examples/maml.py [--compile], or python examples/maml.py with PyTorch.
"""

import math
import sys
from collections.abc import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

TASKS, SHOTS, WIDTH, INNER_LR, STEPS = 8, 10, 40, 0.01, 1500


def build(device: str) -> nn.Module:
    return nn.Sequential(nn.Linear(1, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)).to(
        device
    )


def sines(tasks: int) -> tuple[Tensor, Tensor]:
    """Of so many sines of some height and phase SHOTS points to learn from and as many to be tested on: x, y
    (tasks, 2 * SHOTS, 1)."""
    amplitude, phase = 0.1 + 4.9 * torch.rand(tasks, 1, 1), math.pi * torch.rand(tasks, 1, 1)
    x = 10 * torch.rand(tasks, 2 * SHOTS, 1) - 5
    return x, amplitude * torch.sin(x - phase)


def adapted(model: nn.Module, x: Tensor, y: Tensor, create_graph: bool = True) -> dict[str, Tensor]:
    """The parameters after a step on a task."""
    params: dict[str, Tensor] = dict(model.named_parameters())
    loss = F.mse_loss(functional_call(model, params, (x,)), y)
    grads = torch.autograd.grad(loss, list(params.values()), create_graph=create_graph)
    return {name: p - INNER_LR * g for (name, p), g in zip(params.items(), grads)}


def training(model: nn.Module, device: str, compiled: bool = False) -> Iterator[Tensor]:
    """The loss after the inner step, of each outer step, without end."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        losses = []
        for k in range(TASKS):
            fast = adapted(model, x[k, :SHOTS], y[k, :SHOTS])
            losses.append(F.mse_loss(functional_call(model, fast, (x[k, SHOTS:],)), y[k, SHOTS:]))
        loss = torch.stack(losses).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = torch.compile(step)
    while True:
        x, y = sines(TASKS)
        yield step(x.to(device), y.to(device))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(device)
    for k, loss in zip(range(STEPS), training(model, device, "--compile" in sys.argv)):
        if k % 250 == 0 or k == STEPS - 1:
            print(f"step {k:4}  loss after a step {loss.item():.3f}")
    before, after = [], []
    for x, y in zip(*(t.to(device) for t in sines(100))):
        fast = adapted(model, x[:SHOTS], y[:SHOTS], create_graph=False)
        with torch.no_grad():
            before.append(F.mse_loss(model(x[SHOTS:]), y[SHOTS:]).item())
            after.append(F.mse_loss(functional_call(model, fast, (x[SHOTS:],)), y[SHOTS:]).item())
    print(f"100 new sines: {sum(before) / 100:.2f} before, {sum(after) / 100:.2f} after one step on {SHOTS} points")
