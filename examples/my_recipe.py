"""A recipe to start from: a network that finds out which of two moons a point belongs to. Copy it, and change what you like.

Run: shadergrad train examples/my_recipe.py --epochs 10, and to go on, the same with --resume. Its folder is runs/my-recipe.
"""

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.train import Option, Recipe, Trainable


def moons(count, rng):
    """Points [count, 2] on two half circles, and which of them each is on [count]."""
    which, angle = rng.integers(0, 2, count), rng.uniform(0, np.pi, count)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1) * (1 - 2 * which[:, None]) + which[:, None] * [1, 0.5]
    return (points + 0.1 * rng.standard_normal((count, 2))).astype(np.float32), which.astype(np.int32)


def build(settings, device):  # weights are random from --seed
    rng = np.random.default_rng(0)
    train, (test_points, test_which) = moons(1024, rng), moons(256, rng)
    width = settings["width"]
    model = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 2)).to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=settings.lr)

    def step(points, which):  # the parts of a batch, on the device; compiled as a whole on its first call
        optimizer.zero_grad()
        loss = F.cross_entropy(model(points), which)
        loss.backward()
        optimizer.step()
        return loss

    def evaluate():  # after each epoch, for metrics.jsonl
        with sg.no_grad():
            logits = model(sg.tensor(test_points, device=device)).numpy()
        return {"test_accuracy": float((logits.argmax(axis=1) == test_which).mean())}

    return Trainable(model, optimizer, train, step, evaluate)


RECIPE = Recipe(
    "Two moons: 1,024 points, an MLP 2-WIDTH-2, AdamW.",  # what --help says
    build,
    defaults={"epochs": 20, "batch_size": 32, "lr": 1e-2},  # or steps=1000 in place of epochs
    options=(Option("width", int, "Hidden units.", 32),),
)
