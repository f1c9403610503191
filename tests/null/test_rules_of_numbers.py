"""Dtypes of addcmul, lerp and their like, factors alpha, memory formats, as_strided: beside PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg

Call = Callable[[Any, Any, Any], Any]

CALLS: dict[str, Call] = {  # over a library, integers and floats; a call that PyTorch refuses is refused
    "addcmul(i, i, i)": lambda t, i, x: t.addcmul(i, i, i),
    "addcmul(i, i, i, value=2)": lambda t, i, x: t.addcmul(i, i, i, value=2),
    "addcmul(i, i, i, value=2.5)": lambda t, i, x: t.addcmul(i, i, i, value=2.5),
    "addcmul(i, x, x)": lambda t, i, x: t.addcmul(i, x, x),
    "addcmul(x, i, i, value=0.5)": lambda t, i, x: t.addcmul(x, i, i, value=0.5),
    "addcdiv(i, i, i)": lambda t, i, x: t.addcdiv(i, i, i),
    "addcdiv(x, i, i)": lambda t, i, x: t.addcdiv(x, i, i),
    "addcdiv(i, x, i)": lambda t, i, x: t.addcdiv(i, x, i),
    "lerp(i, i, 0.5)": lambda t, i, x: t.lerp(i, i, 0.5),
    "lerp(x, i, 0.5)": lambda t, i, x: t.lerp(x, i, 0.5),
    "lerp(x, double, 0.5)": lambda t, i, x: t.lerp(x, x.double(), 0.5),
    "lerp(x, x, double)": lambda t, i, x: t.lerp(x, x, x.double()),
    "lerp(x, x, x)": lambda t, i, x: t.lerp(x, x + 1, x),
    "add(i, i, alpha=1.5)": lambda t, i, x: t.add(i, i, alpha=1.5),
    "add(i, 1, alpha=1.5)": lambda t, i, x: t.add(i, 1, alpha=1.5),
    "add(i, i, alpha=True)": lambda t, i, x: t.add(i, i, alpha=True),
    "add(i, x, alpha=1.5)": lambda t, i, x: t.add(i, x, alpha=1.5),
    "add(bools, alpha=True)": lambda t, i, x: t.add(i > 3, i > 3, alpha=True),
    "sub(i, i, alpha=1.5)": lambda t, i, x: t.sub(i, i, alpha=1.5),
    "rsub(i, i, alpha=1.5)": lambda t, i, x: t.rsub(i, i, alpha=1.5),
    "mean(i)": lambda t, i, x: t.mean(i),
    "flip()": lambda t, i, x: x.flip(),
    "is_nonzero": lambda t, i, x: t.tensor(x[:1].is_nonzero()),
    "neg_": lambda t, i, x: t.neg_(x.clone()),
    "clamp_": lambda t, i, x: t.clamp_(x.clone(), 0.5, 1.5),
    "xlogy_": lambda t, i, x: t.xlogy_(x.clone(), x),
    "randint(high=, size=)": lambda t, i, x: t.randint(high=1, size=(2,)).int(),
    "gather, sparse_grad": lambda t, i, x: x.gather(0, (i - 3).long(), sparse_grad=True),
    "clamp, a number of float64": lambda t, i, x: t.clamp(i, t.tensor(0.5, dtype=t.float64), x),
    "clamp, bools": lambda t, i, x: t.clamp(i > 3, t.tensor(0.5, dtype=t.float64), x),
    "clamp, above float64": lambda t, i, x: t.clamp(i, x, t.tensor(0.5, dtype=t.float64)),
    "neg, out of float64": lambda t, i, x: t.neg(x, out=t.empty(0, dtype=t.float64)),
    "floor, out of float64": lambda t, i, x: t.floor(x, out=t.empty(0, dtype=t.float64)),
    "sin, out of float32": lambda t, i, x: t.sin(i, out=t.empty(0)),
    "nonzero, out of float32": lambda t, i, x: t.nonzero(x, out=t.empty(0)),
    "take_along_dim by bools": lambda t, i, x: t.take_along_dim(x, i > 3, 0),
    "padding of an embedding": lambda t, i, x: t.nn.functional.embedding_bag(
        (i - 3).long(), x.reshape(2, 1), t.tensor([0]), padding_idx=-6
    ),
    "weights of bags": lambda t, i, x: t.nn.functional.embedding_bag(
        (i - 3).long(), x.reshape(2, 1), t.tensor([0]), per_sample_weights=x.double(), mode="sum"
    ),
    "adaptive maxima and places": lambda t, i, x: t.nn.AdaptiveMaxPool1d(1, return_indices=True)(x.reshape(1, 1, 2))[0],
    "resolve_conj": lambda t, i, x: x.resolve_conj(),
    "dot, mixed": lambda t, i, x: t.dot(x, i),
    "mv, mixed": lambda t, i, x: t.mv(x.reshape(1, -1), x.double()),
    "inner, mixed": lambda t, i, x: t.inner(x, i),
    "einsum, mixed": lambda t, i, x: t.einsum("i,i->", x, i),
    "tensordot, mixed": lambda t, i, x: t.tensordot(x, i, 1),
    "mm of vectors": lambda t, i, x: t.mm(x, x),
    "matmul of a number": lambda t, i, x: t.matmul(t.tensor(2.0), x),
    "inner of a number": lambda t, i, x: t.inner(t.tensor(2.0), x),
    "dot of lengths": lambda t, i, x: t.dot(x, x[:1]),
}


@pytest.mark.parametrize("name", CALLS)
def test_dtypes_of_results_and_refusals_are_pytorchs(name: str) -> None:
    call = CALLS[name]
    i, x = np.array([3, 4], np.int32), np.array([1.0, 2.0], np.float32)
    try:
        expected = call(torch, torch.from_numpy(i), torch.from_numpy(x))
    except (RuntimeError, TypeError) as error:
        with pytest.raises(TypeError if isinstance(error, TypeError) else RuntimeError):
            call(sg, sg.tensor(i), sg.tensor(x))
        return
    found = call(sg, sg.tensor(i), sg.tensor(x))
    assert found.dtype.name == str(expected.dtype).partition(".")[2]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-6)


STRIDED = {
    "a window": ((3, 2), (1, 1), None),
    "a matrix transposed": ((3, 2), (1, 3), None),
    "repeats": ((4, 3), (0, 1), 2),
    "every second": ((3,), (2,), 1),
    "overlapping, three axes": ((2, 3, 2), (4, 1, 2), None),
    "a number": ((), (), 5),
    "one element": ((1, 1), (7, 9), 4),
    "nothing": ((0, 2), (1, 1), 0),
    "all": ((3, 4), (4, 1), 0),
    "backwards in axes": ((4, 3), (1, 4), 0),
}


@pytest.mark.parametrize("name", STRIDED)
def test_as_strided_is_a_view_of_the_memory(name: str) -> None:
    size, stride, offset = STRIDED[name]
    results = []
    for t in (sg, torch):
        x = t.arange(12.0)
        base = x[0:] if name != "all" else x.reshape(3, 4).t()
        view = t.as_strided(base, size, stride, offset)
        shape, values = tuple(view.shape), view.tolist()
        if "repeats" not in name and "overlapping" not in name and "window" not in name:
            view.mul_(10)
        y = t.arange(12.0, requires_grad=True)
        (y.as_strided(size, stride, offset) * 2).sum().backward()
        gradient = None if y.grad is None else y.grad.tolist()
        results.append((shape, values, x.tolist(), gradient or [0.0] * 12))
    assert results[0] == results[1]


def test_as_strided_beyond_the_memory_is_refused() -> None:
    for t in (sg, torch):
        with pytest.raises(RuntimeError, match="storage"):
            t.arange(6.0).as_strided((3, 3), (3, 1))


def test_memory_formats_are_accepted_and_seen_in_the_strides() -> None:
    for t in (sg, torch):
        x = t.zeros(2, 3, 4, 5)
        y = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        found = [v.is_contiguous(memory_format=t.channels_last) for v in (x, y, x[0])]
        assert found == [False, True, False]
        assert t.nn.Conv2d(3, 4, 1).to(memory_format=t.channels_last) is not None
        for call in (x.to, x.contiguous, x.clone, partial(t.empty_like, x), partial(t.zeros_like, x)):
            assert tuple(call(memory_format=t.channels_last).shape) == (2, 3, 4, 5)


def test_a_gradient_may_be_deleted() -> None:
    for t in (sg, torch):
        w = t.ones(2, requires_grad=True)
        w.sum().backward()
        del w.grad
        assert w.grad is None


@pytest.mark.parametrize("call", [
    lambda t: t.arange(5)[t.tensor([1, 7])],
    lambda t: t.arange(5)[t.tensor([-6])],
    lambda t: t.arange(6).reshape(2, 3)[:, [0, 3]],
    lambda t: t.zeros(5).__setitem__(t.tensor([5]), 1.0),
])  # fmt: skip
def test_positions_that_are_known_raise_at_the_call(call: Callable[[Any], Any]) -> None:
    for t in (sg, torch):
        with pytest.raises(IndexError, match=r"out of (bounds|range) for"):
            call(t)


@pytest.mark.parametrize("name", ["rand", "randn"])
def test_complex_random_numbers_have_pytorchs_spread(name: str) -> None:
    sg.manual_seed(0)
    torch.manual_seed(0)
    for kind in ("complex64", "complex128"):
        found = getattr(sg, name)(4000, dtype=getattr(sg, kind)).numpy()
        expected = getattr(torch, name)(4000, dtype=getattr(torch, kind)).numpy()
        assert found.dtype == expected.dtype
        for part in (np.real, np.imag):
            assert abs(part(found).std() - part(expected).std()) < 0.03
            assert abs(part(found).mean() - part(expected).mean()) < 0.05


def test_masks_of_bytes_warn_as_pytorchs() -> None:
    for t in (sg, torch):
        with pytest.warns(UserWarning, match="is now deprecated, please use a dtype"):
            assert t.arange(3)[t.tensor([1, 0, 1], dtype=t.uint8)].tolist() == [0, 2]


def test_an_element_cannot_be_deleted() -> None:
    for t in (sg, torch):
        with pytest.raises(TypeError, match="does not support deleting items"):
            del t.arange(3)[0]


COMPLEX_RULES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("Adam", {"weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", {}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.1}),
    ("Adadelta", {"weight_decay": 1.0}),
    ("RMSprop", {"centered": True, "momentum": 0.1}),
    ("RAdam", {}),
    ("Adamax", {}),
    ("Rprop", {"maximize": True}),
    ("LBFGS", {"lr": 0.1, "max_iter": 4}),
]


@pytest.mark.parametrize("shape", [(2, 3), ()])
@pytest.mark.parametrize(("name", "options"), COMPLEX_RULES, ids=[name for name, _ in COMPLEX_RULES])
def test_a_complex_parameter_is_optimised_as_pytorch_does(
    name: str, options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    """As pairs of real numbers: the square of a complex gradient is not that of its parts. The state is complex, and goes on when loaded."""
    rng = np.random.default_rng(0)
    start, factors = (rng.standard_normal((*n, 2)).view(np.complex128).reshape(n) for n in (shape, (4, *shape)))
    results, dtypes = [], []
    for t in (sg, torch):
        w: Any = t.tensor(start, requires_grad=True)
        optimizer: Any = getattr(t.optim, name)([w], **options)
        for k, factor in enumerate(factors):

            def closure(t: Any = t, w: Any = w, factor: Any = factor) -> Any:
                w.grad = None
                loss = ((w * t.tensor(factor)).real + (w * w.conj()).real / 2).sum()
                loss.backward()
                return loss

            optimizer.step(closure)
            if k == 1:
                saved = copy.deepcopy(optimizer.state_dict())
                optimizer = getattr(t.optim, name)([w], **options)
                optimizer.load_state_dict(saved)
        results.append(w.detach().numpy())
        state = optimizer.state[w].items()
        dtypes.append({k: v.dtype.is_complex for k, v in state if hasattr(v, "dtype") and tuple(v.shape) == shape})
    np.testing.assert_allclose(*results, rtol=1e-9)
    assert dtypes[0] == dtypes[1]


@pytest.mark.parametrize("name", ["Muon", "Adafactor"])
def test_rules_for_whole_matrices_refuse_complex_parameters(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} does not support complex parameters"):
        getattr(sg.optim, name)([sg.ones(2, 2, dtype=sg.complex64).requires_grad_()])


@pytest.mark.parametrize("value", [1 + 2j, 3, 2.5, True])
@pytest.mark.parametrize("is_tensor", [False, True])
def test_full_has_the_dtype_of_its_number(value: complex, is_tensor: bool) -> None:
    results = []
    for t in (sg, torch):
        made = t.full((2,), t.tensor(value) if is_tensor else value)
        results.append((str(made.dtype).rpartition(".")[2], made.tolist()))
    (kind, ours), (its_kind, theirs) = results
    assert kind == ("int32" if its_kind == "int64" else its_kind)
    assert ours == theirs
    with pytest.raises(sg.DTypeError, match="complex numbers are no float32"):
        sg.full_like(sg.ones(2), 1j)
