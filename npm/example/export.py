"""Writes a training step to public/step: a small network that learns where two coordinates have one sign."""

from pathlib import Path

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn

model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = sg.optim.AdamW(model.parameters(), lr=1e-2)


@sg.compile
def step(x: sg.Tensor, y: sg.Tensor) -> dict[str, sg.Tensor]:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return {"loss": loss.detach()}


sg.manual_seed(0)
sg.web.export(step, Path(__file__).parent / "public" / "step", sg.zeros(64, 2), sg.zeros(64, dtype="int32"))
