"""Weights of 8 and 4 bits: what codes hold, products that read them, layers, files, memory, and fine-tuning beside them."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from helpers import assert_close
from shadergrad import nn
from shadergrad.errors import ArgumentError
from shadergrad.quantization import QuantizedEmbedding, QuantizedLinear
from shadergrad.quantization.codes import Scheme, numbers, quantized

rng = np.random.default_rng(0)
SCHEMES = [(bits, symmetric) for bits in (8, 4) for symmetric in (True, False)]


def drawn(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def weight_of(layer: Any) -> np.ndarray:
    """What its codes stand for, by NumPy."""
    return copy.deepcopy(layer).to("cpu").weight.numpy()


def by_numpy(weight: np.ndarray, bits: int, group: int, symmetric: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words, the numbers that they stand for, and the step between neighbouring numbers."""
    x = weight.reshape(len(weight), -1, group)
    highest = 2**bits - 1
    least = x.min(-1, keepdims=True)
    step = (
        np.abs(x).max(-1, keepdims=True) / np.float32(highest // 2)
        if symmetric
        else (x.max(-1, keepdims=True) - least) / np.float32(highest)
    )
    divisor = np.where(step == 0, np.float32(1), step)
    codes = np.rint(x / divisor) + 2 ** (bits - 1) if symmetric else np.rint((x - least) / divisor)
    found = (codes - 2 ** (bits - 1)) * step if symmetric else codes * step + least
    shifts = np.arange(0, 32, bits, dtype=np.uint64)
    words = (
        (codes.astype(np.uint64).reshape(len(weight), -1, len(shifts)) << shifts)
        .sum(-1)
        .astype(np.uint32)
        .view(np.int32)
    )
    return words, found.astype(np.float32).reshape(weight.shape), np.broadcast_to(step, x.shape).reshape(weight.shape)


@pytest.mark.parametrize(("bits", "symmetric"), SCHEMES)
def test_codes_are_those_of_numpy_and_numbers_lie_within_half_a_step(device: str, bits: int, symmetric: bool) -> None:
    weight = drawn(24, 96)
    weight[3] = 0  # groups of zeros
    weight[4, :32] = 0.25  # and of one number
    words, wanted, step = by_numpy(weight, bits, 32, symmetric)
    codes = quantized(sg.tensor(weight, device=device), Scheme(bits, 32, symmetric), "weight")
    found = numbers(codes, bits).numpy()
    same = (
        codes.packed.numpy() == words
    )  # a quotient that lies between two codes may be rounded to either: GPUs divide in other ways
    assert same.mean() > 0.97
    assert_close(found[same.repeat(32 // bits, 1)], wanted[same.repeat(32 // bits, 1)], 1e-6, 1e-6)
    assert (np.abs(found - weight) <= step * 0.5001 + 1e-6).all()
    assert (found[3] == 0).all()


@pytest.mark.parametrize(("bits", "symmetric"), SCHEMES)
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_products_read_codes_and_their_gradients_go_to_the_input(
    device: str, bits: int, symmetric: bool, rows: int
) -> None:
    layer = sg.quantize(nn.Linear(96, 40).to(device), bits, 32, symmetric)
    weight = weight_of(layer)
    assert layer.bias is not None
    x = sg.tensor(drawn(2, rows, 96), device=device, requires_grad=True)
    wanted = x.detach().numpy() @ weight.T + layer.bias.detach().numpy()

    def step() -> tuple[sg.Tensor, sg.Tensor]:
        y = layer(x)
        return y, sg.autograd.grad((y * y).sum(), x)[0]

    for run in (step, sg.compile(step)):
        y, g = run()
        assert_close(y.detach().numpy(), wanted, 1e-4, 1e-4)
        assert_close(g.numpy(), 2 * wanted @ weight, 1e-3, 1e-3)


def test_transposed_batched_and_elementwise_readers_get_the_same_numbers(device: str) -> None:
    layer = sg.quantize(nn.Linear(64, 48).to(device), 4, 16, False)
    weight, x = weight_of(layer), drawn(5, 7, 48)
    given = sg.tensor(x, device=device)
    assert_close((given @ layer.weight).numpy(), x @ weight, 1e-4, 1e-4)
    assert_close((layer.weight.T @ given[0].T).numpy(), weight.T @ x[0].T, 1e-4, 1e-4)
    assert_close((layer.weight * 2 + 1)[3:9, ::3].numpy(), (weight * 2 + 1)[3:9, ::3], 1e-6, 1e-6)
    assert_close(layer.weight.softmax(-1).sum(0).numpy(), sg.tensor(weight).softmax(-1).sum(0).numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("bits", [8, 4])
def test_scales_and_offsets_have_gradients(device: str, bits: int) -> None:
    codes = quantized(sg.tensor(drawn(6, 32), device=device), Scheme(bits, 16, False), "weight")
    codes.scales.requires_grad_()
    assert codes.offsets is not None
    codes.offsets.requires_grad_()
    g = drawn(6, 32)
    (numbers(codes, bits) * sg.tensor(g, device=device)).sum().backward()
    parts = (codes.packed.numpy().view(np.uint32)[..., None] >> np.arange(0, 32, bits, dtype=np.uint32)) & (2**bits - 1)
    by_group = (g * parts.reshape(6, 32)).reshape(6, 2, 16).sum(-1)
    assert codes.scales.grad is not None
    assert codes.offsets.grad is not None
    assert_close(codes.scales.grad.numpy(), by_group, 1e-4, 1e-3)
    assert_close(codes.offsets.grad.numpy(), g.reshape(6, 2, 16).sum(-1), 1e-4, 1e-4)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("dtype", [sg.float16, sg.bfloat16])
def test_halves_and_autocast_multiply_in_halves(device: str, bits: int, dtype: Any) -> None:
    layer = sg.quantize(nn.Linear(64, 32).to(device), bits, 32)
    x = sg.tensor(drawn(9, 64), device=device)
    wanted = layer(x).detach().numpy()
    with sg.autocast("webgpu" if device != "cpu" else "cpu", dtype=dtype):
        found = layer(x)
    lower = copy.deepcopy(layer).to(dtype)
    assert lower.scales.dtype is lower.weight.dtype is found.dtype is dtype
    assert lower.packed.dtype is sg.int32
    for y in (found, lower(x.to(dtype))):
        assert_close(y.detach().float().numpy(), wanted, 0, 0.05 if dtype is sg.bfloat16 else 0.01)


def test_embeddings_give_rows_of_the_weight_they_share_with_a_layer(device: str) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(30, 64, padding_idx=0)
            self.head = nn.Linear(64, 30, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens: sg.Tensor) -> sg.Tensor:
            return self.head(self.embedding(tokens)) + F.linear(self.embedding(tokens), self.embedding.weight)

    model = sg.quantize(Tied().to(device), 4, 32, False)
    assert isinstance(model.embedding, QuantizedEmbedding)
    assert isinstance(model.head, QuantizedLinear)
    assert model.embedding.packed is model.head.packed
    tokens = rng.integers(0, 30, (3, 5))
    weight = weight_of(model.head)
    given = sg.tensor(tokens, device=device)
    assert_close(model.embedding(given).numpy(), weight[tokens], 1e-6, 1e-6)
    assert (model.embedding(given * 0).numpy() == 0).all()
    assert_close(model(given).numpy(), 2 * weight[tokens] @ weight.T, 1e-4, 1e-4)
    with pytest.raises(IndexError):
        model.embedding(given + 30).numpy()


class Adapted(nn.Module):
    """A frozen layer with low-rank adapters beside it."""

    def __init__(self, base: nn.Module, n: int) -> None:
        super().__init__()
        self.base = base
        self.down, self.up = nn.Parameter(sg.randn(4, n) * 0.05), nn.Parameter(sg.zeros(n, 4))

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        return self.base(x) + F.linear(F.linear(x, self.down), self.up)


def adapted(device: str, n: int, depth: int) -> tuple[nn.Module, Any]:
    """Quantised layers with adapters, and a training step that gives the loss."""
    sg.manual_seed(0)
    model = nn.Sequential(*(Adapted(nn.Linear(n, n), n) for _ in range(depth)))
    sg.quantize(model, bits=4).to(device)
    for name, p in model.named_parameters():
        p.requires_grad_("base" not in name)
    optimizer = sg.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=3.0)
    x, target = sg.tensor(drawn(8, n), device=device), sg.tensor(drawn(8, n) * 0.1, device=device)

    def step() -> sg.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return model, step


@pytest.mark.parametrize("compiled", [False, True])
def test_adapters_learn_beside_a_weight_that_stays(device: str, compiled: bool) -> None:
    model, step = adapted(device, 64, 2)
    before = {name: x.numpy().copy() for name, x in model.named_buffers()}
    run = sg.compile(step) if compiled else step
    losses = [run().item() for _ in range(20)]
    assert losses[-1] < 0.8 * losses[0]
    assert all((x.numpy() == before[name]).all() for name, x in model.named_buffers())


@pytest.mark.parametrize("mode", ["compiled", "uncompiled", "read before backward"])
def test_no_weight_lies_in_memory_as_floats(device: str, mode: str) -> None:
    n, depth = (512, 6) if device == "cpu" else (256, 3)
    _, step = adapted(device, n, depth)
    run = sg.compile(step) if mode == "compiled" else step
    for _ in range(3):
        run().item()
    gc.collect()
    sg.sync()
    if device == "cpu":
        tracemalloc.start()
        run().item()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 4 * n * n * depth / 2  # one weight at a time, and its codes on their way
        return
    before = sg.devices.memory_stats(device).in_use
    sg.devices.reset_peak_memory_stats(device)
    run().item()
    assert sg.devices.memory_stats(device).peak - before < 4 * n * n
    if mode == "compiled":
        buffers = run.plan.buffers
        assert max(b.size for b in buffers if b.dtype is not sg.int32) < n * n
        packed = {row for row, b in enumerate(buffers) if b.dtype is sg.int32 and b.size == n * n // 8}
        assert len(packed) == depth
        assert sum(not packed.isdisjoint(d.buffers) for d in run.plan.dispatches) == 2 * depth - 1


def test_files_and_state_dicts_hold_codes_and_floats_are_quantised_on_the_way_in(device: str, tmp_path: Any) -> None:
    def made() -> nn.Module:
        return nn.Sequential(nn.Embedding(20, 64), nn.Linear(64, 32)).to(device)

    floats = made()
    model = sg.quantize(copy.deepcopy(floats), 4, 32, False)
    tokens = sg.tensor([[1, 2, 3]], device=device)
    wanted = model(tokens).detach().numpy()
    assert list(model.state_dict()) == [
        "0.packed",
        "0.scales",
        "0.offsets",
        "1.bias",
        "1.packed",
        "1.scales",
        "1.offsets",
    ]
    for name in ("a.safetensors", "a.pt"):
        sg.save(model.state_dict(), tmp_path / name)
        other = sg.quantize(made(), 4, 32, False)
        other.load_state_dict(sg.load(tmp_path / name))
        assert (other(tokens).detach().numpy() == wanted).all()
    other = sg.quantize(made(), 4, 32, False)
    other.load_state_dict(floats.state_dict())
    assert (other(tokens).detach().numpy() == wanted).all()
    with pytest.raises(RuntimeError):
        sg.quantize(made(), 8, 32, False).load_state_dict(model.state_dict())


def test_what_cannot_be_is_refused_in_words_and_before_anything_changes() -> None:
    model = nn.Sequential(nn.Linear(64, 8), nn.Linear(100, 8))
    with pytest.raises(
        sg.ShapeError, match=r"group_size=64 does not divide the 100 columns of 1.weight. Hint: group_size=20"
    ):
        sg.quantize(model)
    assert type(model[0]) is nn.Linear
    with pytest.raises(ArgumentError, match="8 or 4 bits"):
        sg.quantize(model, bits=3)
    with pytest.raises(ArgumentError, match="no multiple of 8"):
        sg.quantize(model, bits=4, group_size=12)
    with pytest.raises(ArgumentError, match="to quantise"):
        sg.quantize(nn.ReLU())
    with pytest.raises(sg.ArgumentTypeError, match="model"):
        sg.quantize(sg.ones(2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="max_norm"):
        sg.quantize(nn.Embedding(4, 64, max_norm=1.0))
    with pytest.raises(TypeError, match="parametrized"):
        sg.quantize(nn.utils.parametrizations.weight_norm(nn.Linear(64, 4)))
    broken = nn.Linear(64, 2)
    with sg.no_grad():
        broken.weight[0, 0] = float("nan")
    with pytest.raises(ArgumentError, match="NaN"):
        sg.quantize(broken)
    layer = sg.quantize(nn.Linear(64, 2))
    with pytest.raises(sg.AutogradError, match="not trained"):
        layer.weight.requires_grad_()
    with pytest.raises(sg.AutogradError, match="would be lost"):
        layer.weight.mul_(2)
    with pytest.raises(sg.AutogradError, match="would be lost"):
        nn.init.zeros_(layer.weight)
    with pytest.raises(AttributeError, match="cannot be assigned"):
        layer.weight = nn.Parameter(sg.ones(2, 64))
    with pytest.raises(RuntimeError, match="not drawn anew"):
        layer.reset_parameters()
    assert layer.weight.clone().mul_(0).sum().item() == 0


def test_sizes_may_change_and_models_go_through_pickle(device: str) -> None:
    model = sg.quantize(nn.Sequential(nn.Embedding(20, 64), nn.Linear(64, 32)).to(device), 4, 32, False)
    weights = [weight_of(layer) for layer in model]
    bias = model[1].bias.detach().numpy()
    step = sg.compile(model)
    for other in (step, pickle.loads(pickle.dumps(model))):
        for length in (3, 5, 7, 9):
            tokens = rng.integers(0, 20, (2, length))
            found = other(sg.tensor(tokens, device=device)).detach().numpy()
            assert_close(found, weights[0][tokens] @ weights[1].T + bias, 1e-4, 1e-4)


def test_layers_of_transformers_run_with_quantised_projections() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
    x = sg.tensor(drawn(2, 5, 64))
    wanted = layer(x).detach().numpy()
    sg.quantize(layer, 8, 32)
    assert isinstance(layer.self_attn.out_proj, QuantizedLinear)
    assert_close(layer(x).detach().numpy(), wanted, 0.02, 0.05)


@pytest.mark.parametrize("dtype", [sg.float32, sg.float16])
def test_no_write_through_a_view_or_a_name_is_lost_without_a_word(dtype: Any) -> None:
    layer = sg.quantize(nn.Linear(64, 4)).to(dtype=dtype)
    before = layer.weight.clone()

    def put(key: Any) -> None:
        layer.weight[key] = 0

    writes: list[Any] = [
        lambda: put(0), lambda: put((0, 1)), lambda: layer.weight[1].zero_(), lambda: layer.weight.T.mul_(2), lambda: layer.weight.view(-1).add_(1),
        lambda: layer.weight.detach()[1:].fill_(3), lambda: setattr(layer.weight, "data", before * 0),
    ]  # fmt: skip
    for write in writes:
        with pytest.raises(sg.AutogradError, match="packed integers"):
            write()
    with pytest.raises(TypeError, match="`weight` is computed by QuantizedLinear"):
        sg.func.functional_call(layer, {"weight": before * 0}, (sg.ones(1, 64, dtype=dtype),))
    assert (layer.weight == before).all().item()
    own = layer.weight[0].clone()  # writable, as the hint says
    assert own.zero_().sum().item() == 0


@pytest.mark.parametrize("strict", [True, False])
def test_codes_that_stand_for_other_numbers_are_not_loaded(strict: bool) -> None:
    layer, steps = (sg.quantize(nn.Linear(64, 4), symmetric=s) for s in (True, False))
    codes = layer.state_dict()
    others: dict[str, tuple[Any, dict[str, Any]]] = {
        "all together": (layer, steps.state_dict()),
        "takes packed, scales, offsets": (steps, codes),
        "takes packed, scales, all": (layer, {key: x for key, x in codes.items() if key != "scales"}),
        "packed codes are int32": (layer, {key: x.float() for key, x in codes.items()}),
        r"size mismatch for weight: .*\[4, 63\].*\(4, 64\)": (layer, nn.Linear(63, 4).state_dict()),
    }
    for message, (into, state) in others.items():
        with pytest.raises(RuntimeError, match=message):
            copy.deepcopy(into).load_state_dict(state, strict=strict)
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"weight"'):
        layer.load_state_dict({**codes, "weight": sg.zeros(4, 64)})


class Scaled(nn.Linear):
    def forward(self, input: sg.Tensor) -> sg.Tensor:
        return super().forward(input) * 2


@pytest.mark.parametrize(
    ("make", "where", "message"),
    [
        (lambda: sg.quantize(nn.Linear(64, 4)), None, "already"),
        (lambda: nn.Linear(64, 4), lambda name, module: False, "left out every layer"),
        (lambda: nn.Sequential(Scaled(64, 4)), None, "Scaled computes by a forward of its own"),
        (lambda: nn.LazyLinear(4), None, "call a lazy module once"),
    ],
)
def test_the_reason_is_said_where_nothing_can_be_quantised(make: Any, where: Any, message: str) -> None:
    with pytest.raises((ArgumentError, TypeError), match=message):
        sg.quantize(make(), where=where)


class Conv1D(nn.Module):
    """As in transformers: a linear layer whose weight is (in, out)."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf, self.nx = nf, nx
        self.weight, self.bias = nn.Parameter(sg.randn(nx, nf)), nn.Parameter(sg.randn(nf))

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        return x @ self.weight + self.bias


@pytest.mark.parametrize("sizes", [(64, 64), (32, 64)])
def test_a_layer_whose_weight_lies_the_other_way_is_quantised_too(sizes: tuple[int, int]) -> None:
    layer, x = Conv1D(*sizes), sg.tensor(drawn(5, sizes[1]))
    wanted, state = layer(x).detach().numpy(), layer.state_dict()
    quantised = sg.quantize(nn.Sequential(layer), 8, 32)
    assert isinstance(quantised[0], QuantizedLinear)
    assert quantised[0].weight.shape == (sizes[1], sizes[0])
    assert_close(quantised(x).detach().numpy(), wanted, 0.02, 0.2)
    again = sg.quantize(nn.Sequential(Conv1D(*sizes)), 8, 32)
    again.load_state_dict({f"0.{name}": value for name, value in state.items()})
    assert (again(x).detach().numpy() == quantised(x).detach().numpy()).all()


def test_hooks_modes_and_attributes_of_a_layer_stay() -> None:
    model = nn.Sequential(nn.Linear(64, 8)).eval()
    seen: list[Any] = []
    model[0].register_forward_hook(lambda module, x, y: seen.append(type(module)))
    model[0].note = "kept"
    sg.quantize(model, where=lambda name, module: name == "0")
    model(sg.ones(1, 64))
    assert seen == [QuantizedLinear]
    assert not model[0].training
    assert model[0].note == "kept"
    assert "bits=8, group_size=64, symmetric=True" in repr(model)
