"""Packed sequences, parametrized parameters and the norms of weights, as PyTorch's."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import as_array
from shadergrad import nn
from shadergrad.drive import execute
from shadergrad.drive.execute import programs
from shadergrad.nn.utils import parametrize
from shadergrad.nn.utils import rnn as ours

theirs = torch.nn.utils.rnn
LENGTHS = [2, 5, 3, 5]


def batch() -> np.ndarray:
    x = np.random.default_rng(0).standard_normal((5, 4, 3)).astype(np.float32)
    for k, n in enumerate(LENGTHS):
        x[n:, k] = 0
    return x


def assert_same(a: Any, b: Any) -> None:
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        if y is None:
            assert x is None
        elif isinstance(y, tuple):
            assert_same(x, y)
        else:
            np.testing.assert_allclose(as_array(x), as_array(y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batch_first", [True, False])
def test_packing_and_padding_are_pytorchs(batch_first: bool, device: str) -> None:
    x = batch().swapaxes(0, 1).copy() if batch_first else batch()
    mine = ours.pack_padded_sequence(sg.tensor(x, device=device), LENGTHS, batch_first, enforce_sorted=False)
    its = theirs.pack_padded_sequence(torch.tensor(x), torch.tensor(LENGTHS), batch_first, enforce_sorted=False)
    assert_same(mine[:2], its[:2])
    for options in ({}, {"batch_first": True}, {"padding_value": 7.0, "total_length": 8}):
        assert_same(ours.pad_packed_sequence(mine, **options), theirs.pad_packed_sequence(its, **options))
    parts = [x[0, :2], x[1, :5]] if batch_first else [x[:2, 0], x[:5, 1]]
    for side in ("left", "right"):
        a = ours.pad_sequence([sg.tensor(p) for p in parts], batch_first, 1.5, side)
        assert_same([a], [theirs.pad_sequence([torch.tensor(p) for p in parts], batch_first, 1.5, side)])
    assert_same(ours.unpack_sequence(mine), theirs.unpack_sequence(its))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_modules_read_packed_sequences(kind: str, bidirectional: bool, batch_first: bool) -> None:
    options = {"num_layers": 2, "bidirectional": bidirectional, "batch_first": batch_first}
    its, mine = getattr(torch.nn, kind)(3, 4, **options), getattr(nn, kind)(3, 4, **options)
    mine.load_state_dict({k: v.numpy() for k, v in its.state_dict().items()})
    x, y = sg.tensor(batch(), requires_grad=True), torch.tensor(batch(), requires_grad=True)
    first = np.random.default_rng(1).standard_normal((4 if bidirectional else 2, 4, 4)).astype(np.float32)
    for given in (False, True):
        states = [sg.tensor(first)] * 2 if kind == "LSTM" else [sg.tensor(first)]
        other = [torch.tensor(first)] * 2 if kind == "LSTM" else [torch.tensor(first)]
        hx = (tuple(states) if kind == "LSTM" else states[0]) if given else None
        hy = (tuple(other) if kind == "LSTM" else other[0]) if given else None
        a, last = mine(ours.pack_padded_sequence(x, LENGTHS, enforce_sorted=False), hx)
        b, final = its(theirs.pack_padded_sequence(y, torch.tensor(LENGTHS), enforce_sorted=False), hy)
        assert_same([a.data, last], [b.data, final])
    (a.data * a.data).sum().backward()
    (b.data * b.data).sum().backward()
    assert_same([x.grad, mine.weight_hh_l0.grad], [y.grad, its.weight_hh_l0.grad])


def test_a_packed_sequence_is_a_tuple_of_what_was_packed_then(device: str) -> None:
    x = sg.tensor(batch(), device=device)
    mine = ours.pack_padded_sequence(x, [5, 3, 2, 1])
    x[:] = 0.0
    its = theirs.pack_padded_sequence(torch.tensor(batch()), torch.tensor([5, 3, 2, 1]))
    data, sizes, *orders = mine
    assert orders == [None, None]
    for found in (mine.data, mine[0], data, copy.deepcopy(mine).data, pickle.loads(pickle.dumps(mine)).data):
        assert_same([found, sizes], [its.data, its.batch_sizes])
    assert repr(mine).startswith("PackedSequence(data=tensor(")


def test_packed_data_are_what_they_were_packed_as(device: str) -> None:
    """Gradients are recorded as where the sequences were packed, and what is written to the data is what modules read."""
    x = sg.tensor(batch(), device=device, requires_grad=True)
    packed = ours.pack_padded_sequence(x, [5, 3, 2, 1])
    with sg.no_grad():
        assert packed.data.requires_grad
        without = ours.pack_padded_sequence(x, [5, 3, 2, 1])
    assert not without.data.requires_grad
    assert not ours.pad_packed_sequence(without)[0].requires_grad
    packed.data.sum().backward()
    assert x.grad is not None
    mine, its = without, theirs.pack_padded_sequence(torch.tensor(batch()), torch.tensor([5, 3, 2, 1]))
    for p in (mine, its):
        p.data.add_(1.0)
    assert_same([ours.pad_packed_sequence(mine)[0]], [theirs.pad_packed_sequence(its)[0]])
    assert_same([mine._replace(data=mine.data * 2).data, (mine + (1,))[0]], [its.data * 2, its.data])


def test_hooks_see_packed_sequences() -> None:
    seen: list[Any] = []
    module = nn.GRU(3, 4)
    module.register_forward_hook(lambda _, given, result: seen.append((given[0], result[0])))
    packed = ours.pack_padded_sequence(sg.tensor(batch()), LENGTHS, enforce_sorted=False)
    result, _ = module(packed)
    assert seen == [(packed, result)]


def test_projected_states_of_packed_sequences_are_pytorchs() -> None:
    options = {"proj_size": 2, "bidirectional": True}
    its, mine = torch.nn.LSTM(3, 4, **options), nn.LSTM(3, 4, **options)
    mine.load_state_dict({k: v.numpy() for k, v in its.state_dict().items()})
    a, last = mine(ours.pack_padded_sequence(sg.tensor(batch()), LENGTHS, enforce_sorted=False))
    b, final = its(theirs.pack_padded_sequence(torch.tensor(batch()), torch.tensor(LENGTHS), enforce_sorted=False))
    assert_same([a.data, last], [b.data, final])


def test_what_fills_up_packed_sequences_is_not_read() -> None:
    x = batch()
    x[np.arange(5)[:, None] >= np.array(LENGTHS)] = np.nan
    filled, module = sg.tensor(x, requires_grad=True), nn.LSTM(3, 4)
    output, (h, c) = module(ours.pack_padded_sequence(filled, LENGTHS, enforce_sorted=False))
    (output.data.sum() + h.sum() + c.sum()).backward()
    for value in (output.data, h, c, filled.grad, module.weight_hh_l0.grad):
        assert np.isfinite(as_array(value)).all()


def test_other_lengths_are_no_other_program(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "LONG", 1 << 30)  # whatever is new is compiled
    module = nn.GRU(3, 4, bidirectional=True).to(device)
    x = sg.tensor(batch(), device=device)
    counts = []
    for lengths in (*[LENGTHS] * 5, [1, 2, 5, 1], [4, 5, 5, 4]):  # a backward pass is recognised after some repetitions
        packed = ours.pack_padded_sequence(x, lengths, enforce_sorted=False)
        output, _ = ours.pad_packed_sequence(module(packed)[0])
        (output * output).sum().backward()
        assert module.weight_hh_l0.grad is not None
        module.weight_hh_l0.grad.tolist()
        module.zero_grad()
        counts.append(programs.compiled)
    assert counts[-3] == counts[-2] == counts[-1]


@pytest.mark.parametrize(
    "call",
    [
        lambda t, r: r.pack_padded_sequence(t.ones(3, 2), t.tensor([1, 2])),
        lambda t, r: r.pack_padded_sequence(t.ones(3, 2), t.tensor([2])),
        lambda t, r: r.pack_padded_sequence(t.ones(3, 2), t.tensor([2, 0])),
        lambda t, r: r.pad_sequence([t.ones(2)], padding_side="top"),
        lambda t, r: r.pad_packed_sequence(r.pack_sequence([t.ones(3)]), total_length=2),
    ],
)
def test_what_pytorch_refuses_is_refused(call: Any) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        call(torch, theirs)
    with pytest.raises(sg.ShadergradError):
        call(sg, ours)


class Symmetric(nn.Module):
    def forward(self, x: sg.Tensor) -> sg.Tensor:
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x: sg.Tensor) -> sg.Tensor:
        return x.triu()


def test_a_parametrized_weight_trains_and_is_made_plain_again(device: str) -> None:
    layer: Any = nn.Linear(3, 3).to(device)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert parametrize.is_parametrized(layer, "weight")
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    optimizer = sg.optim.SGD(layer.parameters(), lr=0.1)
    before = layer.weight.detach().clone()
    layer(sg.ones(2, 3, device=device)).square().sum().backward()
    optimizer.step()
    assert not layer.weight.detach().equal(before)
    assert layer.weight.detach().equal(layer.weight.detach().mT)
    layer.weight = sg.eye(3, device=device) * 2
    assert layer.weight.tolist() == (np.eye(3) * 2).tolist()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(sg.ShadergradError):
        parametrize.remove_parametrizations(layer, "weight")
    with pytest.raises(sg.ShadergradError):
        parametrize.register_parametrization(layer, "none", Symmetric())


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize("old", [True, False])
def test_weight_norm_is_pytorchs(dim: int | None, old: bool) -> None:
    def normed(t: Any) -> Any:
        layer = t.nn.Conv1d(3, 4, 2, dtype=t.float64)  # drawn at random: float32 would round by luck
        return (
            t.nn.utils.weight_norm(layer, dim=dim) if old else t.nn.utils.parametrizations.weight_norm(layer, dim=dim)
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's older form says that it is
        its = normed(torch)
    mine = normed(sg)
    assert {k: tuple(v.shape) for k, v in mine.state_dict().items()} == {
        k: tuple(v.shape) for k, v in its.state_dict().items()
    }
    state = {k: (v * 1.5).numpy() for k, v in its.state_dict().items()}
    mine.load_state_dict(state)
    its.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    x = np.random.default_rng(0).standard_normal((2, 3, 5))
    a, b = mine(sg.tensor(x)), its(torch.tensor(x))
    assert_same([a], [b])
    a.square().sum().backward()
    b.square().sum().backward()
    assert_same([p.grad for p in mine.parameters()], [p.grad for p in its.parameters()])


@pytest.mark.parametrize("old", [True, False])
def test_spectral_norm_makes_the_largest_singular_value_1(old: bool, device: str) -> None:
    layer = nn.Linear(5, 4).to(device)
    maker = nn.utils.spectral_norm if old else nn.utils.parametrizations.spectral_norm
    maker(layer)
    optimizer = sg.optim.SGD(layer.parameters(), lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        layer(sg.ones(2, 5, device=device)).square().sum().backward()
        optimizer.step()
    layer(sg.ones(2, 5, device=device))
    found = np.linalg.svd(layer.weight.detach().numpy(), compute_uv=False)
    assert abs(found[0] - 1) < 0.02
    names = {"bias", "weight_orig", "weight_u", "weight_v"}
    if old:
        assert set(layer.state_dict()) == names


def test_what_is_no_batch_of_sequences_is_refused() -> None:
    for lib in (sg, torch):
        with pytest.raises(RuntimeError, match="Expected iterable for input sequences"):
            lib.nn.utils.rnn.pad_sequence(5)
        with pytest.raises(RuntimeError, match="empty tensor"):
            lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(0, 0), [])


def _reassigned(module: Any) -> Any:
    module.load_state_dict({name: x.clone() for name, x in module.state_dict().items()}, assign=True)
    return module


CHANGED: dict[str, Callable[[Any], Any]] = {
    "as it was": lambda m: m,
    "in double precision": lambda m: m.double(),
    "copied": copy.deepcopy,
    "with tensors assigned": _reassigned,
}


@pytest.mark.parametrize("change", CHANGED)
def test_spectral_norm_follows_as_pytorch_does(change: str) -> None:
    found = []
    for lib in (sg, torch):
        layer = lib.nn.Linear(3, 4)
        with lib.no_grad():
            layer.weight.copy_(lib.arange(12.0).reshape(4, 3).sin())
            layer.bias.zero_()
            layer = lib.nn.utils.spectral_norm(layer)
            for buffer in layer.buffers():
                buffer.copy_(lib.arange(1.0, len(buffer) + 1) / 3)
        layer = CHANGED[change](layer)
        x = lib.ones(1, 3, dtype=layer.weight_orig.dtype)
        found.append([layer(x), layer(x), layer.eval()(x), layer.weight_u, layer.weight_v])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-5, 1e-6)


@pytest.mark.slow
def test_spectral_norm_reads_files_of_its_first_version() -> None:
    layer = sg.nn.utils.spectral_norm(sg.nn.Linear(3, 4))
    for _ in range(3):
        layer(sg.ones(1, 3))
    expected = layer.eval()(sg.ones(1, 3))
    state = dict(layer.state_dict())
    v = state.pop("weight_v")
    state["weight"] = layer.weight.detach()
    made = sg.nn.utils.spectral_norm(sg.nn.Linear(3, 4)).eval()
    made.load_state_dict(state)
    np.testing.assert_allclose(made(sg.ones(1, 3)).detach().numpy(), expected.detach().numpy(), 1e-5, 1e-6)
    np.testing.assert_allclose(made.weight_v.numpy(), v.numpy(), 1e-4, 1e-5)
