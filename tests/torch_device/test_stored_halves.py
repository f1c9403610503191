"""float16 and bfloat16 on PyTorch's device: in 16 bits of memory, beside PyTorch's cpu; torch.autocast by PyTorch's own lists; GradScaler."""

from __future__ import annotations

import copy
import io
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import shadergrad as sg

pytestmark = pytest.mark.usefixtures("torch_device")
D = "webgpu"
HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def numbers(*shape: int, seed: int = 0) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def apart(a: Any, b: Any) -> float:
    """The largest difference, in steps of the dtype at the largest number."""
    assert a.dtype is b.dtype
    a, b, step = a.detach().cpu().double(), b.detach().cpu().double(), torch.finfo(a.dtype).eps
    return float((a - b).abs().max() / (step * max(1.0, float(b.abs().max()))))


@pytest.mark.parametrize("name", HALVES)
def test_halves_are_stored_as_they_are_without_a_warning(name: str, device: str) -> None:
    from shadergrad.torch.storage import cell_of  # registers the device

    dtype = HALVES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = numbers(1001).to(D, dtype)
        made = [x, x.float().to(dtype), torch.ones(3, dtype=dtype, device=D), torch.rand(3, dtype=dtype, device=D)]
    for y in made:
        assert y.dtype is dtype
        assert cell_of(y).value.dtype is getattr(sg, name)
    if device == "webgpu":
        cell_of(x).value.tolist()
        assert cell_of(x).value._node.storage.nbytes == 2004
    assert torch.equal(x.cpu(), numbers(1001).to(dtype))
    assert numbers(3).to(D).half().dtype is torch.float16
    assert numbers(3).to(D).bfloat16().dtype is torch.bfloat16
    assert nn.Linear(2, 2).to(D).half().float().bfloat16().weight.dtype is torch.bfloat16


@pytest.mark.parametrize("name", HALVES)
def test_parts_of_halves_are_written_at_odd_places(name: str) -> None:
    ours, theirs = (numbers(5, 7).to(place, HALVES[name]) for place in (D, "cpu"))
    for x in (ours, theirs):
        x[1:4, 2:5] = 3
        x.view(-1)[3:16].mul_(2)
        x.t()[2].add_(0.1)
        x[::2, 1::3].copy_(x[::2, ::3][:, :2].clone())
        x[:, [1, 3]] = x[:, [0, 2]]
        x.diagonal().fill_(0.3)
        x[x > 2] = -1
        x.as_strided((3, 3), (8, 2), 1).neg_()
        x[3].index_add_(0, torch.tensor([1, 1, 5], device=x.device), torch.ones(3, device=x.device, dtype=x.dtype))
        x[4].masked_fill_(x[4] < 0, -math.inf)
    assert torch.equal(ours.cpu(), theirs)


def test_bits_of_halves_are_seen_where_the_device_can(device: str) -> None:
    x = numbers(6).to(torch.bfloat16)
    if device == "cpu":
        assert torch.equal(x.to(D).view(torch.int16).cpu(), x.view(torch.int16))
        assert torch.equal(x.view(torch.int16).to(D).view(torch.bfloat16).cpu(), x)
    else:
        with pytest.raises(TypeError, match="int16"):
            x.to(D).view(torch.int16).cpu()


@pytest.mark.parametrize("name", HALVES)
def test_layers_of_halves_compute_as_pytorchs(name: str) -> None:
    """Values and gradients within a few roundings of PyTorch's cpu."""
    dtype = HALVES[name]
    layers: list[tuple[nn.Module, Any]] = [
        (nn.Linear(8, 4), numbers(3, 8)), (nn.LayerNorm(8), numbers(3, 8)), (nn.BatchNorm1d(8), numbers(5, 8)), (nn.GroupNorm(2, 4), numbers(3, 4, 5)),
        (nn.Conv2d(2, 3, 3), numbers(2, 2, 6, 6)), (nn.GELU(), numbers(3, 8)), (nn.Softmax(1), numbers(3, 8)), (nn.LogSoftmax(1), numbers(3, 8)),
        (nn.RMSNorm(8), numbers(3, 8)), (nn.LSTM(8, 4), numbers(3, 2, 8)), (nn.GRU(8, 4), numbers(3, 2, 8)), (nn.AvgPool2d(2), numbers(1, 2, 6, 6)),
        (nn.MultiheadAttention(8, 2, batch_first=True), numbers(2, 3, 8)), (nn.TransformerEncoderLayer(8, 2, 16, 0.0), numbers(3, 2, 8)),
        (nn.MaxPool2d(2), numbers(1, 2, 6, 6)), (nn.Upsample(scale_factor=2, mode="bilinear"), numbers(1, 2, 3, 3)), (nn.PReLU(), numbers(3, 8)),
    ]  # fmt: skip
    for layer, data in layers:
        results = []
        layer = layer.to(dtype)
        for place in ("cpu", D):
            twin = copy.deepcopy(layer).to(place)
            x = data.to(place, dtype).requires_grad_()
            y = twin(x, x, x) if isinstance(twin, nn.MultiheadAttention) else twin(x)
            y = y[0] if isinstance(y, tuple) else y
            (y * numbers(*y.shape, seed=3).to(place, dtype)).sum().backward()
            results.append(
                [y, x.grad, *[p.grad for p in twin.parameters()], *[b for b in twin.buffers() if b.is_floating_point()]]
            )
        for wanted, found in zip(*results, strict=True):
            assert apart(found, wanted) < 12, (type(layer).__name__, apart(found, wanted))


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("fused", [False, True])
def test_optimizers_step_halves(name: str, fused: bool) -> None:
    for make in (
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1, fused=fused),
        lambda p: torch.optim.AdamW(p, 0.1, eps=1e-4, fused=fused),
        lambda p: torch.optim.Adagrad(p, 0.1, eps=1e-4, fused=fused),
    ):
        results = []
        for place in ("cpu", D):
            w = numbers(9).to(place, HALVES[name]).requires_grad_()
            optimizer = make([w])
            for k in range(3):
                optimizer.zero_grad()
                (w * numbers(9, seed=k).to(place, HALVES[name])).sum().backward()
                optimizer.step()
            results.append(w)
        assert apart(results[1], results[0]) < 4


@pytest.mark.parametrize("name", HALVES)
def test_files_and_copies_of_halves(name: str, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    x = numbers(7).to(HALVES[name])
    d = x.to(D)
    file = io.BytesIO()
    torch.save({"x": d, "part": d[1:4]}, file)
    file.seek(0)
    there = torch.load(file, map_location=D)
    file.seek(0)
    safetensors.save_file({"x": d}, tmp_path / "x.safetensors")
    found = [
        there["x"], torch.load(file, map_location="cpu")["x"], pickle.loads(pickle.dumps(d)), copy.deepcopy(d), d.clone(), d.to(D, copy=True),
        safetensors.load_file(tmp_path / "x.safetensors")["x"], safetensors.load_file(tmp_path / "x.safetensors", device=D)["x"],
        torch.from_dlpack(d.__dlpack__(dl_device=(1, 0))), sg.interop.from_torch(d), torch.tensor(d.tolist(), dtype=d.dtype),
    ]  # fmt: skip
    there["x"][1] = 5
    assert there["part"][0].item() == 5
    x_changed = x.clone()
    x_changed[1] = 5
    y: Any
    for k, y in enumerate(found):
        y = torch.tensor(y.tolist(), dtype=x.dtype) if isinstance(y, sg.Tensor) and y.dtype is getattr(sg, name) else y
        assert y.dtype is x.dtype
        assert torch.equal(y.cpu(), x if k else x_changed)


@pytest.mark.filterwarnings(
    "ignore:torch.chain_matmul is deprecated",
    "ignore:Using torch.cross without",
    "ignore:torch.float64 is computed as float32",
)
def test_autocast_gives_the_dtypes_of_pytorchs_own_lists() -> None:
    from torch.testing._internal.autocast_test_lists import AutocastTestLists

    lists = AutocastTestLists(D)
    wrong = []
    private: Any = torch._C
    rooms = {"linalg": private._linalg, "nn": private._nn, "torch": torch}

    def check(kind: str, wanted: Any, cases: Any) -> None:
        for case in cases:
            name, args, options = case[0], case[1], next((c for c in case[2:] if isinstance(c, dict)), {})
            if name in ("_convolution", "cudnn_convolution", "cudnn_convolution_transpose") or isinstance(args, str):
                continue  # the private ones, and those of CUDA alone
            room = args[0] if kind == "methods" else rooms[kind]
            function = getattr(room, name, None) or getattr(torch, name)
            with torch.autocast(D, dtype=torch.bfloat16):
                found = function(*(args[1:] if kind == "methods" and not isinstance(args, str) else args), **options)
            for y in found if isinstance(found, tuple) else (found,):
                if y.dtype is not (wanted or case[-1]):
                    wrong.append((name, y.dtype))

    lower, whole = torch.bfloat16, torch.float32
    for kind, wanted, cases in (
        ("torch", lower, lists.torch_fp16), ("torch", whole, lists.torch_fp32), ("torch", whole, lists.torch_need_autocast_promote),
        ("nn", lower, lists.nn_fp16), ("nn", whole, lists.nn_fp32), ("linalg", lower, lists.linalg_fp16),
    ):  # fmt: skip
        check(kind, wanted, cases)
    assert not wrong
    with torch.autocast(D), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(torch.rand(3, device=D), torch.rand(3, device=D))
    with torch.autocast(D):
        x = torch.ones(2, 2, device=D, dtype=torch.float64)
        assert (x @ x).dtype is torch.float64


def test_autocast_nests_and_ends() -> None:
    a = torch.ones(3, 3, device=D)
    w = torch.ones(3, 3, device=D, requires_grad=True)
    with torch.autocast(D, dtype=torch.bfloat16):
        assert (a @ a).dtype is torch.bfloat16
        with torch.autocast(D, enabled=False):
            assert (a @ a).dtype is torch.float32
        with torch.autocast(D, dtype=torch.float16):
            assert (a @ a).dtype is torch.float16
        y = torch.nn.functional.linear(a, w)
        assert F.cross_entropy(y, torch.tensor([0, 1, 2], device=D)).dtype is torch.float32
    with pytest.raises(ValueError, match="here"), torch.autocast(D):
        raise ValueError("here")
    assert (a @ a).dtype is torch.float32
    y.float().sum().backward()
    assert w.grad is not None
    assert w.grad.dtype is torch.float32


@pytest.mark.filterwarnings("ignore:torch.float64 is computed as float32")  # GradScaler divides by the scale in float64
def test_training_under_autocast_with_a_scaler_follows_float32() -> None:
    """In float16: a loss beyond it skips the step and halves the scale; the others bring the loss to that of float32."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    x, y = numbers(12, 1, 6, 6), torch.arange(12) % 3
    ends = []
    for lower in (None, torch.float16):
        twin: Any = copy.deepcopy(model).to(D)
        optimizer = torch.optim.SGD(twin.parameters(), 0.05)
        scaler = torch.amp.GradScaler(D, init_scale=2.0**16, growth_interval=100, enabled=lower is not None)
        for k in range(12):
            optimizer.zero_grad()
            with torch.autocast(D, dtype=lower or torch.float16, enabled=lower is not None):
                out = twin(x.to(D))
                assert out.dtype is (lower or torch.float32)
                loss = F.cross_entropy(out, y.to(D))
            before = twin[4].weight.detach().clone()
            scaler.scale(loss * (1e38 if k == 3 and lower else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
            if k == 3 and lower:
                assert torch.equal(before, twin[4].weight.detach())
                assert scaler.get_scale() == 2.0**15
                optimizer.zero_grad()
                F.cross_entropy(twin(x.to(D)), y.to(D)).backward()
                optimizer.step()
        ends.append(F.cross_entropy(twin(x.to(D)), y.to(D)).item())
    assert abs(ends[1] - ends[0]) < 0.03 * ends[0], ends


@pytest.mark.parametrize("name", HALVES)
def test_a_compiled_graph_of_halves(name: str) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)).to(HALVES[name])
    x, y = numbers(5, 8).to(HALVES[name]), torch.arange(5) % 3
    results = []
    for place in ("cpu", D):
        twin = copy.deepcopy(model).to(place)
        run = torch.compile(twin, backend="shadergrad") if place == D else twin
        loss = F.cross_entropy(run(x.to(place)), y.to(place))
        loss.backward()
        results.append([loss, *[p.grad for p in twin.parameters()]])
    for wanted, found in zip(*results, strict=True):
        assert apart(found, wanted) < 8
