"""Where results lie in memory, beside PyTorch's cpu: channels_last images, transposed matrices, parts of tensors; and gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("torch_device")
D = "webgpu"
LAST = torch.channels_last
DRAWN = torch.Generator().manual_seed(0)
W, GROUPED, UP = (torch.randn(*size, 3, 3, generator=DRAWN) for size in ((8, 4), (8, 2), (4, 8)))
C = torch.rand(4, generator=DRAWN) + 0.5
Case = Callable[[Tensor, Tensor], Tensor]

CASES: dict[str, Case] = {
    "conv2d": lambda x, y: F.conv2d(x, W.to(x.device), padding=1),
    "conv2d by groups": lambda x, y: F.conv2d(x, GROUPED.to(x.device), groups=2),
    "conv2d, of one channel": lambda x, y: F.conv2d(x, W[:1].to(x.device)),
    "conv2d of weights": lambda x, y: F.conv2d(x.contiguous(), W.to(x.device).to(memory_format=LAST)),
    "conv2d of rows": lambda x, y: F.conv2d(x.contiguous(), W.to(x.device)),
    "conv_transpose2d": lambda x, y: F.conv_transpose2d(x, UP.to(x.device)),
    "batch_norm": lambda x, y: F.batch_norm(x, C.to(x.device), C.to(x.device), training=True),
    "batch_norm of a mean": lambda x, y: F.batch_norm(
        x, C.to(x.device), C.to(x.device), C.to(x.device), C.to(x.device)
    ),
    "layer_norm": lambda x, y: F.layer_norm(x, (6, 6)),
    "relu": lambda x, y: F.relu(x),
    "gelu": lambda x, y: F.gelu(x),
    "silu": lambda x, y: F.silu(x),
    "sigmoid": lambda x, y: x.sigmoid(),
    "softmax": lambda x, y: x.softmax(1),
    "max_pool2d": lambda x, y: F.max_pool2d(x, 2),
    "max_pool2d's places": lambda x, y: F.max_pool2d(x, 2, return_indices=True)[1],
    "avg_pool2d": lambda x, y: F.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x, y: F.adaptive_avg_pool2d(x, 3),
    "add": lambda x, y: x + y,
    "add of rows": lambda x, y: x + y.contiguous(),
    "add to rows": lambda x, y: x.contiguous() + y,
    "add a bias": lambda x, y: C.to(x.device).view(1, 4, 1, 1) + x,
    "times a number": lambda x, y: 1 - x * 2,
    "fmod": lambda x, y: x.fmod(2),
    "gate": lambda x, y: y.mean((2, 3), keepdim=True) * x,
    "per pixel": lambda x, y: y[:, :1] * x,
    "compare": lambda x, y: x > y,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "clamp": lambda x, y: x.clamp(0, 1),
    "cat": lambda x, y: torch.cat([x, y], 1),
    "cat of both": lambda x, y: torch.cat([x.contiguous(), y], 1),
    "nearest": lambda x, y: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x, y: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "flip": lambda x, y: x.flip(2),
    "roll": lambda x, y: x.roll(1, 2),
    "pad": lambda x, y: F.pad(x, (1, 1, 1, 1)),
    "clone": lambda x, y: x.clone(),
    "clone by rows": lambda x, y: x.clone(memory_format=torch.contiguous_format),
    "clone, last": lambda x, y: x.contiguous().clone(memory_format=LAST),
    "contiguous": lambda x, y: x.contiguous(),
    "contiguous, last": lambda x, y: x.contiguous().contiguous(memory_format=LAST),
    "empty_like": lambda x, y: torch.empty_like(x).zero_(),
    "empty_like, last": lambda x, y: torch.empty_like(x.contiguous(), memory_format=LAST).zero_(),
    "to last": lambda x, y: x.contiguous().to(memory_format=LAST),
    "to int": lambda x, y: x.int(),
    "rand_like": lambda x, y: torch.rand_like(x) * 0,
    "in place": lambda x, y: x.clone().add_(1).relu_(),
    "a part": lambda x, y: x[:, 1:3] + 1,
    "one channel": lambda x, y: x[:, :1] * 2,
    "every second": lambda x, y: x[:, :, ::2] * 2,
    "expanded": lambda x, y: x[:1].expand(3, 4, 6, 6) * 1,
    "transposed": lambda x, y: x[0, 0].t() + x[0, 1].t(),
    "permuted": lambda x, y: x.permute(0, 2, 3, 1).exp(),
    "heads": lambda x, y: F.scaled_dot_product_attention(
        x.permute(0, 3, 2, 1), x.permute(0, 3, 2, 1), y.permute(0, 3, 2, 1)
    ),
    "sum": lambda x, y: x.sum(1, keepdim=True),
    "product": lambda x, y: x[0, 0].t() @ y[0, 0],
}


def form(x: Tensor) -> Any:
    return tuple(x.shape), x.stride(), x.dtype, x.is_contiguous(), x.dim() == 4 and x.is_contiguous(memory_format=LAST)


@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients_lie_as_on_pytorchs_cpu(case: str) -> None:
    first, second = (torch.randn(2, 4, 6, 6).to(memory_format=LAST) for _ in range(2))
    forms: list[list[Any]] = []
    values: list[list[Tensor]] = []
    seed: Tensor | None = None
    for place in ("cpu", D):
        x, y = (t.to(place, copy=True).requires_grad_() for t in (first, second))
        result = CASES[case](x, y)
        made = [result.detach()]
        if result.requires_grad:
            seed = torch.randn_like(made[0]) if seed is None else seed
            gradients = torch.autograd.grad(result, [x, y], seed.to(place), allow_unused=True)
            made += [g for g in gradients if g is not None]
        forms.append([form(t) for t in made])
        values.append([t.cpu() for t in made])
    assert forms[1] == forms[0]
    for a, b in zip(*values, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4)


def test_a_network_of_channels_last_stays_so_to_its_end_and_learns_alike() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 1)
    )
    x = torch.randn(2, 3, 8, 8)
    found = []
    for form_of in (torch.contiguous_format, LAST):
        twin: Any = copy.deepcopy(net).to(D)
        twin.to(memory_format=form_of)
        y = twin(x.to(D).to(memory_format=form_of))
        assert y.is_contiguous(memory_format=form_of)
        y.square().sum().backward()
        assert twin[0].weight.grad.is_contiguous(memory_format=form_of)
        found.append([y.detach().cpu(), *(p.grad.cpu() for p in twin.parameters())])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_the_answers_are_few_though_numbers_change() -> None:
    from shadergrad.torch import layouts

    x = torch.randn(3, 4, device=D).t()
    y = x * 0.5
    before = len(layouts._known)
    for k in range(5):
        y = x * (0.1 * k)
    assert y.stride() == (1, 4)
    assert len(layouts._known) == before
