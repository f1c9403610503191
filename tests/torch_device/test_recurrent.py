"""Recurrent networks on the device: whole layers as one operator, beside PyTorch's cpu."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn: Any = torch.nn

OPTIONS: dict[str, dict[str, Any]] = {
    "one layer": {},
    "both directions": {"bidirectional": True},
    "two layers, both directions": {"num_layers": 2, "bidirectional": True},
    "batch first, no bias": {"batch_first": True, "bias": False},
    "dropout": {"num_layers": 2, "dropout": 0.5},
}
CASES = [(kind, what, options) for kind in ("LSTM", "GRU", "RNN") for what, options in OPTIONS.items()]
CASES += [
    ("RNN", "relu", {"nonlinearity": "relu"}),
    ("LSTM", "projected", {"proj_size": 3}),
    ("LSTM", "projected, both directions", {"proj_size": 3, "bidirectional": True}),
    ("LSTM", "projected, no bias", {"proj_size": 3, "bias": False, "num_layers": 2}),
]
# On webgpu each form is run each time by one kind of layer and for two steps, since nothing but the loops of the cells differs between
# kinds; the others are slow: their loops are written out in kernels that take a software adapter up to 30 s to compile.
EACH_TIME_ON_WEBGPU = {
    ("LSTM", "one layer", True),
    ("GRU", "one layer", False),
    ("GRU", "batch first, no bias", True),
    ("GRU", "dropout", False),
    ("RNN", "both directions", True),
    ("RNN", "relu", False),
    ("LSTM", "projected", True),
}


def cases_on_devices() -> list[Any]:
    found = []
    for device, (kind, what, options), has_states in itertools.product(("cpu", "webgpu"), CASES, (False, True)):
        is_short = device == "webgpu" and (kind, what, has_states) in EACH_TIME_ON_WEBGPU
        is_slow = device == "webgpu" and not is_short
        if is_slow and what in ("both directions", "projected"):
            continue  # which the slow ones of two layers are, too
        found.append(
            pytest.param(
                device,
                kind,
                options,
                has_states,
                2 if is_short else 3,
                marks=[pytest.mark.slow] if is_slow else [],
                id=f"{device}-{kind}, {what}-{'states' if has_states else 'zeros'}",
            )
        )
    return found


def results(layer: Any, x: Any, states: Any, place: str) -> list[Any]:
    """Outputs, states and all gradients, as PyTorch's cpu has them."""
    layer = copy.deepcopy(layer).to(place).eval()
    given = [t.to(place).detach().requires_grad_() for t in (x, *states)]
    hx: Any = None if not states else tuple(given[1:]) if len(states) == 2 else given[1]
    y, last = layer(given[0], hx)
    ends = last if isinstance(last, tuple) else (last,)
    loss = (y * y).sum() + sum((k + 2) * s.pow(3).sum() for k, s in enumerate(ends))
    loss.backward()
    gradients = [t.grad for t in given] + [p.grad for p in layer.parameters()]
    return [t.detach().cpu() for t in (y, *ends, *gradients)]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(("device", "kind", "options", "has_states", "steps"), cases_on_devices(), indirect=["device"])
def test_values_and_gradients(
    kind: str, options: dict[str, Any], has_states: bool, steps: int, torch_device: Any
) -> None:
    torch.manual_seed(0)
    layer = getattr(nn, kind)(4, 5, **options)
    x = torch.randn(3, 2, 4)
    batch = 3 if options.get("batch_first") else 2
    if not options.get("batch_first"):
        x = x[:steps]
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    sizes = [options.get("proj_size", 5), 5][: 2 if kind == "LSTM" else 1]
    states = [torch.randn(count, batch, size) for size in sizes] if has_states else []
    found, expected = (results(layer, x, states, place) for place in ("webgpu", "cpu"))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_gradients_of_gradients_need_the_operations(torch_device: Any) -> None:
    """As on CUDA, with PyTorch's own words and remedy."""
    torch.manual_seed(0)
    layer = nn.LSTM(3, 4)
    x = torch.randn(2, 1, 3)

    def slope(place: str) -> Any:
        own, at = copy.deepcopy(layer).to(place), x.to(place).requires_grad_()
        (g,) = torch.autograd.grad(own(at)[0].sum(), at, create_graph=True)
        (twice,) = torch.autograd.grad((g * g).sum(), at)
        return twice.cpu()

    with pytest.raises(RuntimeError, match="Double backwards is not supported for CuDNN RNNs"):
        slope("webgpu")
    with torch.backends.cudnn.flags(enabled=False):
        torch.testing.assert_close(slope("webgpu"), slope("cpu"), rtol=1e-4, atol=1e-6)


def test_dropout_between_layers_draws_anew(torch_device: Any) -> None:
    layer = nn.GRU(4, 5, 2, dropout=0.5).to("webgpu")
    x = torch.ones(3, 2, 4, device="webgpu")
    first, second = layer(x)[0], layer(x)[0]
    assert (first != second).any()
    assert torch.equal(layer.eval()(x)[0], layer(x)[0])


def test_a_training_loop_is_recognised_and_runs_as_one_program(
    torch_device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shadergrad.torch import sequences

    met: list[Any] = []
    other = sequences._other
    monkeypatch.setattr(sequences, "_other", lambda op, *rest: (met.append(op), other(op, *rest))[1])
    sequences.tree.forget()
    model = nn.LSTM(4, 5).to("webgpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(3, 2, 4, device="webgpu")
    for _ in range(8):
        met.clear()
        optimizer.zero_grad()
        model(x)[0].sum().backward()
        optimizer.step()
    assert not [op for op in met if "rnn" in str(op)]


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_gradients_of_each_sample_by_transforms(torch_device: Any) -> None:
    torch.manual_seed(0)
    layer = nn.GRU(3, 4)
    samples = torch.randn(5, 2, 1, 3)

    def found(place: str) -> Any:
        own = copy.deepcopy(layer).to(place)
        parameters = {name: p.detach() for name, p in own.named_parameters()}

        def loss(parameters: Any, x: Any) -> Any:
            return torch.func.functional_call(own, parameters, (x,))[0].pow(2).sum()

        slope, at = torch.func.grad(loss), samples.to(place)
        if place == "webgpu":
            return torch.func.vmap(slope, in_dims=(None, 0))(parameters, at)
        one_by_one = [slope(parameters, x) for x in at]  # PyTorch's cpu has no rule
        return {name: torch.stack([g[name] for g in one_by_one]) for name in parameters}

    ours, theirs = found("webgpu"), found("cpu")
    for name, g in theirs.items():
        torch.testing.assert_close(ours[name].cpu(), g, rtol=1e-4, atol=1e-6)
