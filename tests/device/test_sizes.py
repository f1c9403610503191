"""A size of an argument that changes from call to call is a number of the plan, not of its kernels' text."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from helpers import grad_of
from shadergrad import nn
from shadergrad.nn import functional as F
from shadergrad.runtime.device import get_device
from shadergrad.tensor.description import Size

Data = Callable[[int, np.random.Generator], tuple[np.ndarray, ...]]
Case = Callable[[str], tuple[Callable[..., Any], Data]]
SIZES = (6, 5, 17, 6, 32, 3, 11)  # a second one, a power of two, one seen before


def floats(*shape: int) -> Data:
    """One array of these sizes, the batch in place of a 0."""
    return lambda n, rng: (rng.standard_normal([s or n for s in shape]).astype(np.float32),)


def trained(model: nn.Module, loss: Callable[..., sg.Tensor], **options: Any) -> Callable[..., sg.Tensor]:
    optimizer = sg.optim.AdamW(model.parameters(), lr=0.01, **options)

    def step(*batch: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        value = loss(*batch)
        value.backward()
        optimizer.step()
        return value

    return step


def mlp(device: str) -> tuple[Callable[..., Any], Data]:
    layers = (nn.Linear(6, 16), nn.ReLU(), nn.LayerNorm(16), nn.Dropout(0.25), nn.Linear(16, 5))
    model = nn.Sequential(*layers).to(device)
    step = trained(model, lambda x, y: F.cross_entropy(model(x), y))
    return step, lambda n, rng: (*floats(0, 6)(n, rng), rng.integers(0, 5, n))


def convolutions(device: str) -> tuple[Callable[..., Any], Data]:
    layers = (
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2),
    )
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(24, 3)).to(device)
    step = trained(model, lambda x, y: F.cross_entropy(model(x), y))
    return step, lambda n, rng: (*floats(0, 1, 10, 10)(n, rng), rng.integers(0, 3, n))


def lstm(device: str) -> tuple[Callable[..., Any], Data]:
    model = nn.LSTM(4, 8).to(device)
    return trained(model, lambda x: model(x)[0].square().mean()), floats(3, 0, 4)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 16), nn.Parameter(sg.randn(64, 16) * 0.1)
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 11)

    def forward(self, t: sg.Tensor) -> sg.Tensor:
        n, length = t.shape
        x = self.tokens(t) + self.places[:length]
        q, k, v = self.qkv(self.norm(x)).view(n, length, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(x + mixed.transpose(1, 2).reshape(n, length, 16))


def transformer(device: str) -> Callable[..., Any]:
    model = Block().to(device)
    return trained(model, lambda t: F.cross_entropy(model(t[:, :-1]).reshape(-1, 11), t[:, 1:].reshape(-1)))


def transformer_batch(device: str) -> tuple[Callable[..., Any], Data]:
    return transformer(device), lambda n, rng: (rng.integers(0, 11, (n, 7)),)


def transformer_length(device: str) -> tuple[Callable[..., Any], Data]:
    return transformer(device), lambda n, rng: (rng.integers(0, 11, (2, n + 1)),)


def operations(device: str) -> tuple[Callable[..., Any], Data]:
    def step(x: sg.Tensor, y: sg.Tensor) -> Any:
        n = x.shape[0]
        places = sg.arange(n, device=device)
        normed = (x.mean(0), x.softmax(0), x.logsumexp(0), x / n, F.mse_loss(x, y), x.max(0).values)
        moved = (x[places.flip(0)], x[1:] - x[:-1], sg.cat([x, y]), x.sort(0).values, x.view(2 * n, 2).sum(1), x[-1])
        made = (places * n, sg.rand(n, 3, device=device), sg.eye(n, device=device), F.one_hot(places % 3, 3))
        return *normed, *moved, *made, x.cumsum(0), x.tril(), x.T @ y, x @ y.T, x.prod(0), F.dropout(x, 0.5)

    return step, lambda n, rng: (*floats(0, 4)(n, rng), *floats(0, 4)(n, rng))


QUICK: list[Case] = [mlp, operations]
SLOW: list[Case] = [convolutions, lstm, transformer_batch, transformer_length]


def results(
    case: Case, device: str, sizes: Sequence[int], wrap: Callable[[Any], Any] = lambda f: f
) -> tuple[list[list[np.ndarray]], list[int]]:
    """What the calls give for batches of these sizes, and how many kernels each compiles."""
    sg.manual_seed(3)
    step, data = case(device)
    sg.manual_seed(4)  # weights were drawn on the host
    step, rng = wrap(step), np.random.default_rng(5)
    found, kernels = [], []
    for n in sizes:
        batch = [sg.tensor(a, device=device) for a in data(n, rng)]
        before = pipelines(device)
        given = step(*batch)
        kernels.append(pipelines(device) - before)
        found.append([t.detach().numpy() for t in (given if isinstance(given, tuple) else (given,))])
    return found, kernels


@pytest.fixture(autouse=True)
def no_kernels(request: pytest.FixtureRequest) -> None:
    """No kernel is compiled yet: what other tests left would not be counted, or go when there are too many."""
    name = next((request.getfixturevalue(f) for f in ("device", "webgpu") if f in request.fixturenames), "cpu")
    if name != "cpu":
        gpu: Any = get_device(name)
        for program in list(gpu._programs):
            program.unload()
        gpu._pipelines.clear()


def pipelines(device: str) -> int:
    return 0 if device == "cpu" else get_device(device).statistics().pipelines  # type: ignore[attr-defined]


def assert_alike(found: list[list[np.ndarray]], expected: list[list[np.ndarray]]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "case", [*QUICK, *(pytest.param(c, marks=pytest.mark.slow) for c in SLOW)], ids=lambda c: c.__name__
)
def test_a_step_is_right_at_every_size_and_compiles_for_the_first_two(case: Case, device: str) -> None:
    found, kernels = results(case, device, SIZES, sg.compile)
    expected, _ = results(case, "cpu", SIZES)
    assert_alike(found, expected)
    assert not any(kernels[2:]), f"kernels compiled by each call: {kernels}"
    assert device == "cpu" or kernels[0]


def test_transposed_arguments_compile_for_the_first_two_sizes(device: str) -> None:
    step, kernels = sg.compile(lambda x: x.reshape(-1) + x.softmax(1).sum()), []
    for n in SIZES:
        array = np.random.default_rng(n).standard_normal((5, n)).astype(np.float32)
        x = sg.tensor(array, device=device).t()
        powers = np.exp(x.numpy())  # read: what shows it is compiled for each size
        before = pipelines(device)
        found = step(x)
        kernels.append(pipelines(device) - before)
        expected = array.T.reshape(-1) + (powers / powers.sum(1, keepdims=True)).sum()
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4)
    assert not any(kernels[2:]), f"kernels compiled by each call: {kernels}"


@pytest.mark.parametrize("sizes", [(1, 3, 2, 1, 4, 0, 3), (0, 2, 1, 3)])
def test_sizes_0_and_1_are_right_among_others(sizes: tuple[int, ...], device: str) -> None:
    def ends(device: str) -> tuple[Callable[..., Any], Data]:
        weight = sg.ones(4, 3, device=device)
        return lambda x: ((x @ weight).sum(0), x * 2, x.cumsum(0), x.mean(), x.softmax(1)), floats(0, 4)

    found, _ = results(ends, device, sizes, sg.compile)
    expected, _ = results(ends, "cpu", sizes)
    assert_alike(found, expected)


def test_the_rest_of_a_batch_goes_through_a_product_at_every_size(device: str) -> None:
    """Its size is made of a varying one and of a plain number that is larger than the varying one was first."""
    weight = np.random.default_rng(0).standard_normal((3, 2)).astype(np.float32)
    right = sg.tensor(weight, device=device)
    step = sg.compile(lambda x: x.chunk(2, 0)[1] @ right)
    for n in (3, 6, 7, 6, 12, 2):
        x = np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32)
        np.testing.assert_allclose(step(sg.tensor(x, device=device)).numpy(), x[(n + 1) // 2 :] @ weight, atol=1e-5)


@pytest.mark.parametrize("how", ["marked", "dynamic"])
def test_what_was_said_to_vary_compiles_for_the_first_size_alone(how: str, webgpu: str) -> None:
    step = sg.compile(lambda x: (x.softmax(0) * 1.375).sum(1), dynamic=True if how == "dynamic" else None)
    kernels = []
    for n in (7, 5, 9):
        x = sg.tensor(np.ones((n, 3), np.float32), device=webgpu)
        if how == "marked":
            sg.mark_dynamic(x, 0)
        np.testing.assert_allclose(step(x).numpy(), np.full(n, 3 * 1.375 / n), rtol=1e-5)
        kernels.append(pipelines(webgpu))
    assert kernels[1:] == kernels[:1] * 2
    assert step.captures == 3


def test_dynamic_false_compiles_each_size(webgpu: str) -> None:
    step = sg.compile(lambda x: (x.softmax(0) * 1.625).sum(1), dynamic=False)
    kernels = []
    for n in (7, 5, 9):
        step(sg.rand(n, 3, device=webgpu)).numpy()
        kernels.append(pipelines(webgpu))
    assert kernels[0] < kernels[1] < kernels[2]


def test_a_mark_names_an_axis_that_there_is() -> None:
    with pytest.raises(sg.IndexRangeError, match=r"\[mark_dynamic\] Dimension out of range"):
        sg.mark_dynamic(sg.ones(2, 3), 2)
    with pytest.raises(sg.IndexRangeError, match="no axis whose size could vary"):
        sg.mark_dynamic(sg.tensor(1.0), 0)
    with pytest.raises(sg.ArgumentTypeError):
        sg.mark_dynamic(sg.ones(2), "batch")  # type: ignore[arg-type]


def test_python_gets_plain_sizes(device: str) -> None:
    """What is left of a capture is as without it: sizes in results, in shapes, and in what the function stored."""
    kept: dict[str, Any] = {}

    def step(x: sg.Tensor) -> Any:
        kept["n"], kept["shape"] = x.shape[0], tuple(x.shape)
        return x.repeat(2, 1), x.shape[0] * 3, [x.shape]

    compiled = sg.compile(step)
    for n in (4, 5, 6):
        y, thrice, (shape,) = compiled(sg.ones(n, 2, device=device))
        assert (thrice, shape, kept["n"], kept["shape"]) == (3 * n, (n, 2), n, (n, 2))
        numbers = (*y.shape, thrice, *shape, kept["n"], *kept["shape"])
        assert {type(k) for k in numbers} == {int}
        assert isinstance(shape, Size)
        assert pickle.loads(pickle.dumps(copy.deepcopy(kept))) == kept


def test_a_compiled_module_takes_other_sizes(device: str) -> None:
    sg.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).to(device)
    compiled = sg.compile(model)
    for n in (4, 3, 6, 2):
        x = sg.rand(n, 3, device=device)
        model.zero_grad()
        model(x).square().mean().backward()
        expected = [grad_of(p).numpy() for p in model.parameters()]
        model.zero_grad()
        compiled(x).square().mean().backward()
        for p, grad in zip(model.parameters(), expected, strict=True):
            np.testing.assert_allclose(grad_of(p).numpy(), grad, rtol=1e-4, atol=1e-6)


def test_captures_of_other_sizes_keep_no_gradients(webgpu: str) -> None:
    """Only the capture that ran last has memory for gradients that are left in .grad."""
    weight = sg.ones(256, 256, device=webgpu, requires_grad=True)

    @sg.compile(dynamic=True)
    def step(x: sg.Tensor) -> sg.Tensor:
        weight.grad = None
        loss = (x @ weight).sum()
        loss.backward()
        return loss

    used = []
    for n in (2, 3, 4, 5, 6, 7):
        step(sg.ones(n, 256, device=webgpu)).item()
        assert weight.grad is not None
        assert weight.grad[0, 0].item() == n
        used.append(get_device(webgpu).statistics().bytes_in_use)  # type: ignore[attr-defined]
    assert used[-1] - used[1] < weight.numel() * 4


def test_many_sizes_that_were_said_to_come_warn_no_one(device: str) -> None:
    step = sg.compile(lambda x: x + 1, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 12):
            step(sg.ones(n, device=device))
    step = sg.compile(lambda x: x + 1)
    for n in range(1, 8):
        step(sg.ones(n, 5, device=device))
    with pytest.warns(UserWarning, match=r"argument 'x' went from \(7, 5\) to \(8, 5\)"):
        step(sg.ones(8, 5, device=device))


@pytest.mark.slow
def test_a_program_that_runs_uncompiled_over_many_sizes_shares_kernels(
    webgpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels of later sizes are those of earlier ones, with other numbers bound; each value is as on the cpu device."""
    monkeypatch.setattr("shadergrad.runtime.families.MANY_PLANS", 2)
    rng = np.random.default_rng(7)
    compiled = []
    for n in range(161, 161 + 4 * 14, 4):
        arrays = [rng.standard_normal((2, 2, n, 8), dtype=np.float32) for _ in range(3)]
        found = []
        for device in (webgpu, "cpu"):
            q, k, v = (sg.tensor(a, device=device, requires_grad=True) for a in arrays)
            F.scaled_dot_product_attention(q, k, v, is_causal=True).square().mean().backward()
            found.append([grad_of(t) for t in (q, k, v)])
        assert_alike(found[:1], found[1:])
        compiled.append(pipelines(webgpu))
    of_one = compiled[1] - compiled[0]
    assert compiled[-1] - compiled[0] <= 13 * of_one * 2 / 3, "one by one they would need 13 times as many as one"
