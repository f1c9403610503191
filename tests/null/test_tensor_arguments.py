"""Calls of tensors' own methods and makers that make no sense: refused in one line, where PyTorch refuses them.

Every call runs against both libraries, and so do those at the border, which both take, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg

Call = Callable[[Any], Any]


def leaf(t: Any) -> Any:
    return t.tensor([1.0, 2.0], requires_grad=True)


def put(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


# name: the call, and what the message must say of it
BAD: dict[str, tuple[Call, str]] = {
    "zeros of a fraction": (lambda t: t.zeros(2.5), "zeros(): argument 'size' must be tuple of ints, not float."),
    "zeros of a text": (lambda t: t.zeros("a"), "zeros(): argument 'size' must be tuple of ints, not str."),
    "zeros of None": (lambda t: t.zeros(None), "zeros(): argument 'size' must be tuple of ints, not None."),
    "zeros beyond every memory": (lambda t: t.zeros(1 << 62, 8), "zeros(): Storage size calculation overflowed with sizes=[4611686018427387904, 8]."),
    "full of a fractional size": (lambda t: t.full((2.5,), 3), "full(): argument 'size' must be tuple of ints, not float."),
    "full of a text": (lambda t: t.full((2,), "a"), "full(): argument 'fill_value' must be Number, not str."),
    "full of None": (lambda t: t.full((2,), None), "full(): argument 'fill_value' must be Number, not None."),
    "zeros_like of a list": (lambda t: t.zeros_like([1, 2]), "must be Tensor, not list"),
    "rand of a fraction": (lambda t: t.rand(2.5), "rand(): argument 'size' must be tuple of ints, not float."),
    "rand with a number for a generator": (lambda t: t.rand(3, generator=5), "'generator' must be Generator, not int"),
    "reshape to fractions": (lambda t: t.zeros(2, 3).reshape(3.0, 2), "reshape(): argument 'shape' must be tuple of ints, not float."),
    "tensor of a text": (lambda t: t.tensor("a"), "cannot make a tensor of str: give numbers, or sequences of them."),
    "tensor of NaN as an integer": (lambda t: t.tensor(float("nan"), dtype=t.int32), "does not fit int32"),
    "tensor of a large number as an integer": (lambda t: t.tensor(1e20, dtype=t.int32), "does not fit int32"),
    "from_numpy of a list": (lambda t: t.from_numpy([1, 2]), "from_numpy(): argument 'array' must be numpy.ndarray, not list."),
    "arange of a text": (lambda t: t.arange("a"), "arange(): argument 'start' must be float, not str."),
    "arange to NaN": (lambda t: t.arange(float("nan")), "nan"),
    "arange to infinity": (lambda t: t.arange(float("inf")), "inf"),
    "arange away from its end": (lambda t: t.arange(0, 5, -1), "inconsistent with step sign: 0 to 5 by -1"),
    "arange below its start": (lambda t: t.arange(5, 1), "inconsistent with step sign: 5 to 1 by 1"),
    "arange of integers that require grad": (lambda t: t.arange(3, requires_grad=True), "floating point"),
    "linspace of fewer than no steps": (lambda t: t.linspace(0, 1, -1), "must be non-negative, but it is -1"),
    "linspace of a fraction": (lambda t: t.linspace(0, 1, 2.5), "'steps' must be int, not float"),
    "eye of a negative size": (lambda t: t.eye(-1), "got -1"),
    "eye of a fraction": (lambda t: t.eye(2.5), "'n' must be int, not float"),
    "randint to a fraction": (lambda t: t.randint(0, 2.5, (3,)), "randint(): argument 'high' must be int or tuple of ints, not float."),
    "randperm of a negative number": (lambda t: t.randperm(-1), "it is -1"),
    "randperm of a fraction": (lambda t: t.randperm(2.5), "'n' must be int, not float"),
    "bernoulli_ with a probability above 1": (lambda t: t.zeros(2).bernoulli_(2.0), "p=2.0"),
    "uniform_ on no range": (lambda t: t.zeros(2).uniform_(2, 1), "from=2 > to=1"),
    "normal_ of a negative deviation": (lambda t: t.zeros(2).normal_(0, -1), "std -1"),
    "multinomial of no samples": (lambda t: t.multinomial(t.ones(2), 0), "it is 0"),
    "multinomial of three axes": (lambda t: t.multinomial(t.ones(2, 2, 2), 1), "(2, 2, 2)"),
    "multinomial of a number": (lambda t: t.multinomial(t.tensor(1.0), 1), "()"),
    "fill_ with a text": (lambda t: t.zeros(2).fill_("a"), "'value' must be Number or Tensor, not str"),
    "fill_ with a vector": (lambda t: t.zeros(2).fill_(t.ones(1)), "tensor with 1 dimensions"),
    "size of an axis that there is not": (lambda t: t.zeros(2, 3).size(2), "[size]"),
    "size of an axis of a number": (lambda t: t.tensor(1).size(0), "no dimensions"),
    "len of a number": (lambda t: len(t.tensor(1)), "len() of a 0-d tensor"),
    "iteration over a number": (lambda t: list(t.tensor(1)), "iteration over a 0-d tensor"),
    "sum over a text": (lambda t: t.ones(2, 2).sum("a"), "sum(): argument 'dim' must be int or tuple of ints, not str."),
    "sum over a fraction": (lambda t: t.ones(2, 2).sum(1.5), "sum(): argument 'dim' must be int or tuple of ints, not float."),
    "sum over a bool": (lambda t: t.ones(2, 2).sum(True), "sum(): argument 'dim' must be int or tuple of ints, not bool."),
    "equal to a number": (lambda t: t.ones(1).equal(1.0), "equal(): argument 'other' must be Tensor, not float"),
    "allclose to a number": (lambda t: t.ones(1).allclose(1.0), "'other' must be Tensor, not float"),
    "narrow beyond the end": (lambda t: t.arange(6).narrow(0, 4, 3), "start (4) + length (3) exceeds dimension size (6)"),
    "narrow of a negative length": (lambda t: t.arange(6).narrow(0, 1, -1), "length (-1)"),
    "narrow outside the axis": (lambda t: t.arange(6).narrow(0, 7, 0), "[-6, 6], but got 7"),
    "narrow at a fraction": (lambda t: t.arange(6).narrow(0, 1.5, 2), "'start' must be int or Tensor, not float"),
    "unbind of a number": (lambda t: t.tensor(1).unbind(), "0-dim tensor"),
    "split into negative sizes": (lambda t: t.arange(5).split([-1, 6]), "[-1, 6]"),
    "split into fractions": (lambda t: t.arange(5).split(2.0), "split(): argument 'split_size' must be int or tuple of ints, not float."),
    "chunk into none": (lambda t: t.arange(5).chunk(0), "greater than 0, got: 0"),
    "chunk into fewer than none": (lambda t: t.arange(5).chunk(-1), "greater than 0, got: -1"),
    "index_select with a list": (lambda t: t.arange(5).index_select(0, [1]), "'index' must be Tensor, not list"),
    "scatter_add of integers": (lambda t: t.zeros(3).scatter_add(0, t.tensor([0]), t.tensor([1])), "self.dtype to be equal to src.dtype"),
    "scatter_add of fractions to integers": (lambda t: t.tensor([0]).scatter_add(0, t.tensor([0]), t.tensor([1.5])), "self.dtype to be equal"),
    "scatter_add of a number": (lambda t: t.zeros(3).scatter_add(0, t.tensor([0]), 1.0), "'src' must be Tensor, not float"),
    "index_add of a smaller source": (lambda t: t.zeros(3, 2).index_add(0, t.tensor([0]), t.ones(1, 1)), "must be (1, 2), not (1, 1)"),
    "index_add at a matrix of positions": (lambda t: t.zeros(3).index_add(0, t.tensor([[0]]), t.ones(1)), "the index is a vector, not of shape (1, 1)"),
    "index_add of integers": (lambda t: t.zeros(3).index_add(0, t.tensor([0]), t.tensor([1])), "dtype"),
    "masked_select with integers": (lambda t: t.arange(4).masked_select(t.tensor([1, 0, 1, 0])), "expected BoolTensor for mask, not int32"),
    "masked_select with another shape": (lambda t: t.arange(4).masked_select(t.tensor([True, False])), "(4,) and (2,) do not broadcast"),
    "masked_scatter of integers": (lambda t: t.zeros(2).masked_scatter(t.tensor([True, False]), t.tensor([1])), "float32 and int32"),
    "take_along_dim of another rank": (lambda t: t.ones(2, 3).take_along_dim(t.tensor([1]), 1), "2 and 1"),
    "diff of a negative order": (lambda t: t.arange(4).diff(-1), "non-negative but got -1"),
    "an index of text": (lambda t: t.arange(6)["a"], "valid indices (got str)"),
    "a fractional index": (lambda t: t.arange(6)[1.5], "valid indices (got float)"),
    "a mask of another size": (lambda t: t.arange(6)[t.tensor([True])], "the shape of the mask [1] at index 0 does not match the shape of the indexed tensor [6]"),
    "a mask of another size, second": (lambda t: t.ones(2, 3)[:, t.tensor([True, False])], "the shape of the mask [2] at index 1 does not match the shape of the indexed tensor [2,"),
    "a mask of another size, last": (lambda t: t.ones(2, 3)[..., t.tensor([True, False])], "the shape of the mask [2] at index 1 does not match the shape of the indexed tensor [2,"),
    "assignment at a text": (lambda t: put(t.zeros(3), "a", 1.0), "valid indices (got str)"),
    "assignment at a mask of another size": (lambda t: put(t.zeros(3), t.tensor([True]), 5.0), "The shape of the mask [1] at index 0 does not match"),
    "topk of a fraction": (lambda t: t.arange(3).topk(1.5), "'k' must be int, not float"),
    "quantile of a list": (lambda t: t.ones(3).quantile([0.5]), "quantile(): argument 'q' must be float or Tensor, not list."),
    "a matrix product with a number": (lambda t: t.ones(2, 3) @ 2, "unsupported operand type(s) for @: 'Tensor' and 'int'."),
    "mm with a list": (lambda t: t.ones(2, 3).mm([1]), "mm(): argument 'mat2' must be Tensor, not list"),
    "addmm of more axes": (lambda t: t.addmm(t.ones(3, 2, 2), t.ones(2, 3), t.ones(3, 2)), "(3, 2, 2) does not broadcast to the product's shape, (2, 2)"),
    "addmv of a matrix": (lambda t: t.addmv(t.ones(2), t.ones(2, 3), t.ones(3, 1)), "(3, 1)"),
    "addmv of a batch": (lambda t: t.addmv(t.ones(2), t.ones(2, 2, 3), t.ones(3)), "(2, 2, 3)"),
    "tensordot over fewer than no axes": (lambda t: t.tensordot(t.ones(2, 3), t.ones(3, 2), -1), "dims is -1"),
    "tensordot over more axes than there are": (lambda t: t.tensordot(t.ones(2, 3), t.ones(3, 2), 3), "dims is 3"),
    "backward with a number": (lambda t: (leaf(t) * 2).backward(2.0), "'gradient' must be Tensor, not float"),
    "a gradient that is a number": (lambda t: setattr(leaf(t), "grad", 5), "assigned grad expected to be a Tensor or None but got int."),
    "a gradient of another dtype": (lambda t: setattr(leaf(t), "grad", t.zeros(2, dtype=t.int32)), "a gradient of int32 to a tensor of float32"),
    "data that is a number": (lambda t: setattr(leaf(t), "data", 5), "data has to be a Tensor, not int."),
    "backward of a number": (lambda t: t.autograd.backward(5), "backward(): argument 'tensors' must be Tensor or tuple of Tensors, not int."),
    "grad of a number": (lambda t: t.autograd.grad(5, leaf(t)), "grad(): argument 'outputs' must be Tensor or tuple of Tensors, not int."),
    "grad by a number": (lambda t: t.autograd.grad(leaf(t).sum(), 5), "grad(): argument 'inputs' must be Tensor or tuple of Tensors, not int."),
    "grad with a number": (lambda t: t.autograd.grad(leaf(t) * 2, leaf(t), 1.0), "gradients can be either Tensors or None, but got float."),
    "jacobian at a number": (lambda t: t.autograd.functional.jacobian(lambda x: x, 5.0), "jacobian(): argument 'inputs' must be Tensor"),
    "jacobian of a function to numbers": (lambda t: t.autograd.functional.jacobian(lambda x: 5.0, t.ones(2)), "must give a Tensor or a tuple of Tensors, not 5.0"),
    "set_grad_enabled with a text": (lambda t: t.set_grad_enabled("a"), "'enabled' must be bool, not str"),
}  # fmt: skip

# AttributeErrors and the like, which nobody means to catch; ours is of the kind that PyTorch has for wrong arguments
CAUGHT = (ValueError, TypeError, RuntimeError, IndexError, Exception)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_call_is_refused_as_pytorch_refuses_it(name: str) -> None:
    call, says = BAD[name]
    with pytest.raises(Exception) as theirs:
        call(torch)
    with pytest.raises(sg.ShadergradError) as ours:
        call(sg)
    assert says in str(ours.value)
    assert "\n" not in str(ours.value)
    expected = next(k for k in type(theirs.value).__mro__ if k in CAUGHT)
    assert isinstance(ours.value, expected), f"PyTorch raises {type(theirs.value).__name__}: {theirs.value}"


# ours alone: PyTorch takes these, or raises another kind of error
def test_numbers_that_are_not_real_are_no_tensor() -> None:
    with pytest.raises(sg.DTypeError, match="complex numbers are no float32"):
        sg.tensor(1 + 2j, dtype=sg.float32)
    with pytest.raises(sg.DTypeError, match="cannot make a tensor of str"):
        sg.tensor(["a", "b"])


def test_a_range_that_int64_does_not_hold_is_refused() -> None:
    with pytest.raises(sg.DTypeError, match="from 0 to 9223372036854775809 do not fit int64"):
        sg.randint(0, 2**63 + 1, (2,))


@pytest.mark.filterwarnings("ignore:indexing with dtype")
def test_a_bool_as_an_index_adds_an_axis_of_one_element_or_none() -> None:
    x, y = sg.arange(6).reshape(2, 3), torch.arange(6).reshape(2, 3)
    flags, theirs = sg.tensor([True, False]), torch.tensor([True, False])
    for name, key in KEYS_WITH_BOOLS.items():
        found, expected = x[key(sg, flags)], y[key(torch, theirs)]
        assert (tuple(found.shape), found.tolist()) == (tuple(expected.shape), expected.tolist()), name
        if name.startswith("bytes"):  # which PyTorch does not assign to
            continue
        written, wanted = x.clone(), y.clone()
        written[key(sg, flags)] = 9
        wanted[key(torch, theirs)] = 9
        assert written.tolist() == wanted.tolist(), name


KEYS_WITH_BOOLS: dict[str, Any] = {
    "True": lambda t, m: True,
    "False": lambda t, m: False,
    "a tensor": lambda t, m: t.tensor(True),
    "a tensor, false": lambda t, m: t.tensor(False),
    "with an int": lambda t, m: (True, 1),
    "after an int": lambda t, m: (1, True),
    "with a slice": lambda t, m: (slice(None), True),
    "with None": lambda t, m: (None, True),
    "with dots": lambda t, m: (..., True),
    "with a mask": lambda t, m: (True, m),
    "with positions": lambda t, m: (True, t.tensor([1, 0])),
    "two": lambda t, m: (True, True),
    "bytes": lambda t, m: m.to(t.uint8),
    "bytes with a slice": lambda t, m: (m.to(t.uint8), slice(1, None)),
}


def test_a_generator_of_another_device_is_refused() -> None:
    with pytest.raises(sg.DeviceError, match="the generator is on cpu, the numbers are wanted on webgpu"):
        sg.rand(2, device="webgpu", generator=sg.Generator("cpu"))


# name: a call that both take
GOOD: dict[str, Call] = {
    "var of unbiased only": lambda t: t.tensor([[1.0, 2.0], [3.0, 7.0]]).var(False),
    "std_mean of unbiased only": lambda t: t.std_mean(t.tensor([1.0, 2.0, 4.0]), False),
    "narrow from the end": lambda t: t.arange(6).narrow(0, -2, 2),
    "narrow of nothing at the end": lambda t: t.arange(6).narrow(0, 6, 0),
    "index_fill at a number from the end": lambda t: t.zeros(3).index_fill(0, t.tensor(-1), 5.0),
    "take_along_dim broadcasts the index": lambda t: t.arange(6).reshape(2, 3).take_along_dim(t.tensor([[2, 0]]), 1),
    "take_along_dim broadcasts self": lambda t: t.arange(3).reshape(1, 3).take_along_dim(t.tensor([[2], [0]]), -1),
    "take_along_dim along the first axis": lambda t: t.arange(6).reshape(2, 3).take_along_dim(t.tensor([[1]]), 0),
    "nonzero of a number": lambda t: t.tensor(3).nonzero(),
    "nonzero of zero": lambda t: t.tensor(0).nonzero(),
    "nonzero of a number as a tuple": lambda t: t.tensor(3).nonzero(as_tuple=True),
    "gather of a number": lambda t: t.tensor(3).gather(0, t.tensor(0)),
    "gather at one position of a number": lambda t: t.tensor(3).gather(0, t.tensor([0])),
    "gather of nothing": lambda t: t.zeros(0, 3).gather(1, t.zeros(0, 1, dtype=t.int64)),
    "max over an axis of nothing": lambda t: t.zeros(0, 3).max(1),
    "kthvalue of a number": lambda t: t.tensor(3).kthvalue(1),
    "median of a number along an axis": lambda t: t.tensor(3.0).median(0),
    "fill_ with a tensor": lambda t: t.zeros(2).fill_(t.tensor(3)),
    "fill_ with a NumPy number": lambda t: t.zeros(2).fill_(np.float32(3)),
    "bools assigned at positions": lambda t: put(t.zeros(3, dtype=t.bool), t.tensor([0, 2]), True),
    "a mask in the second place": lambda t: t.arange(6).reshape(2, 3)[:, t.tensor([True, False, True])],
    "a mask of two axes": lambda t: t.arange(4).reshape(2, 2)[t.tensor([[True, False], [True, True]])],
    "a mask behind a new axis": lambda t: t.arange(2)[None, t.tensor([True, False])],
    "arange by name": lambda t: t.arange(end=3),
    "arange of a tensor": lambda t: t.arange(t.tensor(3)),
    "arange that requires grad": lambda t: t.arange(3.0, requires_grad=True),
    "linspace that requires grad": lambda t: t.linspace(0, 1, 3, requires_grad=True),
    "eye that requires grad": lambda t: t.eye(2, requires_grad=True),
    "randint below one bound": lambda t: t.randint(1, (2,)),
    "a sum over NumPy's integer": lambda t: t.ones(2, 3).sum(np.int64(1)),
    "sizes of NumPy's integers": lambda t: t.zeros(np.int64(2), np.int32(3)),
    "mm by name": lambda t: t.mm(t.ones(2, 3), mat2=t.ones(3, 1)),
    "bmm by name": lambda t: t.bmm(t.ones(1, 2, 3), mat2=t.ones(1, 3, 1)),
    "dot by name": lambda t: t.dot(t.ones(3), tensor=t.ones(3)),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_call_at_the_border_gives_what_pytorch_gives(name: str) -> None:
    theirs, ours = GOOD[name](torch), GOOD[name](sg)
    pairs = [(theirs, ours)] if isinstance(theirs, torch.Tensor) else list(zip(theirs, ours, strict=True))
    for a, b in pairs:
        assert b.requires_grad == a.requires_grad
        assert b.is_floating_point() == a.is_floating_point()
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-6)


def test_numpy_by_force_leaves_the_tape_out() -> None:
    x = leaf(sg)
    np.testing.assert_array_equal((x * 2).numpy(force=True), [2.0, 4.0])
    with pytest.raises(sg.AutogradError, match="requires grad"):
        x.numpy()


def test_arrays_are_written_as_what_the_tensor_holds_or_refused() -> None:
    values = np.array([1 + 2j, 3.0], np.complex64)
    assert sg.zeros(2, dtype=sg.complex64).write_(values).tolist() == [1 + 2j, 3 + 0j]
    assert sg.zeros(2, dtype=sg.complex64).write_(np.array([1, 2])).tolist() == [1 + 0j, 2 + 0j]
    with pytest.raises(sg.ShadergradError, match="cannot write an array of complex64"):
        sg.zeros(2).write_(values)
