"""What the programs share: equal weights and inputs under both libraries, a few steps of training, and a report in JSON.

A program is run twice, as `python start.py program.py` with PyTorch and as `shadergrad run start.py program.py`. Nothing here asks which it is.
"""

import json
import sys
import traceback

import numpy as np
import torch


def numbers(*shape, seed=0, scale=1.0):
    """Normal numbers, the same in both."""
    return torch.tensor((np.random.default_rng(seed).standard_normal(shape) * scale).astype("float32"))


def whole(*shape, below, seed=0):
    """Whole numbers from 0 to below - 1, the same in both."""
    return torch.tensor(np.random.default_rng(seed).integers(0, below, shape).astype("int64"))


def fill(model, seed=0):
    """Give a model weights that are the same in both: matrices of the size that keeps a signal, scales near 1, small biases."""
    draw = np.random.default_rng(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            drawn = draw.standard_normal(tuple(p.shape)).astype("float32")
            if p.ndim > 1:
                drawn = drawn * np.float32((p.numel() / p.shape[0]) ** -0.5)
            else:
                drawn = drawn * np.float32(0.05) + np.float32(name.endswith("weight"))
            p.copy_(torch.tensor(drawn))
    return model


def train(model, loss_of, steps=3, lr=1e-2, optimizer=None):
    """The losses of a few steps."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for _ in range(steps):
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def report(**cases):
    """Run the cases that the command line names, or all, and print what each gave: numbers, or the error."""
    found = {}
    for name, case in cases.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        torch.manual_seed(0)
        try:
            found[name] = [float(x) for x in case()]
        except Exception:
            found[name] = traceback.format_exc()
    print("REPORT " + json.dumps(found))
