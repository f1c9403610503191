"""Models of PyTorch trained on the device by PyTorch's own autograd and optimizers, beside PyTorch's cpu: ten losses, weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

STEPS = 10


class LastOfSequence(nn.Module):
    """A recurrent network and a layer over its last output."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.recurrent = kind(8, 16, 2, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.recurrent(x)[0][:, -1])


class TiedLanguageModel(nn.Module):
    """Embedding, causal attention, and the embedding again as the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.embedding.weight
        nn.init.normal_(self.head.weight, std=0.1)

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return self.head(self.block(self.embedding(x), src_mask=mask, is_causal=True)).transpose(1, 2)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.GroupNorm(4, 16),
        nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


def images() -> list[Tensor]:
    return [torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,))]


def classified() -> list[Tensor]:
    return [torch.randn(32, 64), torch.randint(0, 10, (32,))]


def sequences() -> list[Tensor]:
    return [torch.randn(4, 6, 8), torch.randint(0, 3, (4,))]


def text() -> list[Tensor]:
    tokens = torch.randint(0, 50, (4, 13))
    return [tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()]


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, 1e-2)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, 0.1, momentum=0.9, nesterov=True)


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], list[Tensor]], Callable[[Any], Any]]] = {
    "mlp": (mlp, classified, adamw),
    "mlp, one tensor at a time": (mlp, classified, lambda p: torch.optim.AdamW(p, 1e-2, foreach=False)),
    "mlp, fused": (mlp, classified, lambda p: torch.optim.AdamW(p, 1e-2, fused=True)),
    "mlp, momentum": (mlp, classified, momentum),
    "mlp, fused momentum": (mlp, classified, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, fused=True)),
    "mlp, fused amsgrad": (mlp, classified, lambda p: torch.optim.Adam(p, 1e-2, amsgrad=True, fused=True)),
    "mlp, fused adagrad": (
        mlp,
        classified,
        lambda p: torch.optim.Adagrad(p, 1e-2, lr_decay=0.01, weight_decay=0.01, fused=True),
    ),
    "convolutions": (convolutional, images, momentum),
    "lstm": (lambda: LastOfSequence(nn.LSTM), sequences, adamw),
    "gru": (lambda: LastOfSequence(nn.GRU), sequences, adamw),
    "tied language model": (TiedLanguageModel, text, lambda p: torch.optim.SGD(p, 0.1)),
}


def trained(model: nn.Module, data: list[Tensor], make_optimizer: Callable[[Any], Any]) -> list[float]:
    optimizer = make_optimizer(model.parameters())
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data[0]), data[1])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("case", CASES)
def test_a_model_trains_as_on_pytorchs_cpu(case: str, torch_device: Any) -> None:
    make, draw, optimizer = CASES[case]
    model, data = make(), draw()
    twin = copy.deepcopy(model)
    model = model.to("webgpu")
    ours = trained(model, [d.to("webgpu") for d in data], optimizer)
    theirs = trained(twin, data, optimizer)
    assert ours == pytest.approx(theirs, abs=2e-5)
    assert ours[-1] < ours[0]
    for (name, a), b in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        assert a.device.type == "webgpu"
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")
