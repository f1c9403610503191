"""Tensor, FloatTensor and their like, numbers as first operands, and limits of dtypes, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg

Call = Callable[[Any], Any]
NAMES = (
    "FloatTensor",
    "DoubleTensor",
    "LongTensor",
    "IntTensor",
    "ShortTensor",
    "CharTensor",
    "ByteTensor",
    "BoolTensor",
)

MADE: dict[str, Call] = {
    "of ints": lambda t: t.Tensor([1, 2]),
    "of bools": lambda t: t.Tensor([True, False]),
    "of int64 of NumPy": lambda t: t.Tensor(np.array([1, 2])),
    "of float64 of NumPy": lambda t: t.Tensor(np.array([1.5, 2.0])),
    "of a list of tensors": lambda t: t.Tensor([t.tensor(1), t.tensor(2)]),
    "of a tensor": lambda t: t.Tensor(t.tensor([1.5])),
    "of a tensor of ints": lambda t: t.Tensor(t.tensor([1]).long()),
    "LongTensor of ints": lambda t: t.LongTensor(t.tensor([1]).long()),
    "of a size": lambda t: t.Tensor(5).fill_(0),
    "of sizes": lambda t: t.Tensor(2, 3).fill_(0),
    "of a Size": lambda t: t.Tensor(t.Size([2, 3])).fill_(0),
    "of nothing": lambda t: t.Tensor(),
    **{f"{n} of ints": lambda t, n=n: getattr(t, n)([1, 0]) for n in NAMES},
    **{f"{n} of nothing": lambda t, n=n: getattr(t, n)() for n in NAMES},
    **{f"{n} of sizes": lambda t, n=n: getattr(t, n)(2, 0) for n in NAMES},
    "new of ints": lambda t: t.ones(2).new([1, 2]),
    "new of a size": lambda t: t.ones(2).new(3).fill_(0),
    "char": lambda t: t.tensor([200.0, -3.7]).char(),
    "short": lambda t: t.tensor([70000, -3]).short(),
}


@pytest.mark.parametrize("name", MADE)
def test_constructors_make_pytorchs_shapes_and_dtypes(name: str) -> None:
    found, expected = MADE[name](sg), MADE[name](torch)
    assert (found.dtype.name, tuple(found.shape)) == (str(expected.dtype).partition(".")[2], tuple(expected.shape))
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("call", [lambda t: t.Tensor(2.5), lambda t: t.Tensor(True), lambda t: t.LongTensor(t.ones(1))])
def test_constructors_refuse_what_is_neither_values_nor_sizes(call: Call) -> None:
    with pytest.raises(TypeError):
        call(torch)
    with pytest.raises(TypeError, match="Hint"):
        call(sg)


def test_types_of_tensors_say_whether_one_is_of_them() -> None:
    for t in (sg, torch):
        found = [
            isinstance(t.ones(1), t.FloatTensor),
            isinstance(t.ones(1).long(), t.FloatTensor),
            isinstance(1, t.LongTensor),
        ]
        assert found == [True, False, False]
        assert t.LongTensor | None  # in annotations


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_limits_of_integers_are_pytorchs(name: str) -> None:
    found, expected = sg.iinfo(getattr(sg, name)), torch.iinfo(getattr(torch, name))
    assert (found.bits, found.min, found.max, found.dtype) == (
        expected.bits,
        expected.min,
        expected.max,
        expected.dtype,
    )


FLOATS = [
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "complex64",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]


@pytest.mark.parametrize("name", FLOATS)
def test_limits_of_floats_are_pytorchs(name: str) -> None:
    found, expected = sg.finfo(getattr(sg, name)), torch.finfo(getattr(torch, name))
    for limit in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
        assert getattr(found, limit) == getattr(expected, limit), limit


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_a_dtype_that_is_a_name_has_tensors_without_elements(name: str) -> None:
    x = sg.empty(0, dtype=getattr(sg, name))
    expected = torch.empty(0, dtype=getattr(torch, name))
    assert (x.dtype.name, x.element_size(), x.shape) == (name, expected.element_size(), (0,))
    with pytest.raises(sg.DTypeError, match=f"{name} is not available"):
        sg.zeros(2, dtype=getattr(sg, name))


NUMBERS = (
    "add",
    "sub",
    "mul",
    "div",
    "true_divide",
    "floor_divide",
    "remainder",
    "pow",
    "float_power",
    "xlogy",
    "subtract",
)
WHOLE = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")


@pytest.mark.parametrize("kind", ["float32", "int32", "uint8", "float64"])
@pytest.mark.parametrize("name", [*NUMBERS, *WHOLE])
def test_functions_take_a_number_first(name: str, kind: str) -> None:
    values = np.array([1, 2, 3], kind)
    for number in (2, 2.5):
        try:
            expected = getattr(torch, name)(number, torch.from_numpy(values))
        except (RuntimeError, TypeError):
            continue
        found = getattr(sg, name)(number, sg.tensor(values))
        assert found.dtype.name == str(expected.dtype).partition(".")[2]
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-6)


def test_sums_of_two_numbers_are_tensors() -> None:
    for name in ("add", "sub", "mul", "div", "floor_divide"):
        assert getattr(sg, name)(7, 2).item() == getattr(torch, name)(7, 2).item()


BEYOND: dict[str, Call] = {
    "x + 300": lambda x: x + 300,
    "300 - x": lambda x: 300 - x,
    "x * 300": lambda x: x * 300,
    "x / 300": lambda x: x / 300,
    "x // 300": lambda x: x // 300,
    "x % 300": lambda x: x % 300,
    "x == 300": lambda x: x == 300,
    "x < 300": lambda x: x < 300,
    "x > -1": lambda x: x > -1,
    "x & 300": lambda x: x & 300,
    "x | -1": lambda x: x | -1,
    "add_": lambda x: x.clone().add_(300),
    "fill_(-1)": lambda x: x.clone().fill_(-1),
}


@pytest.mark.parametrize("kind", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("name", BEYOND)
def test_numbers_beyond_the_range_of_an_integer_wrap_in_arithmetic(name: str, kind: str) -> None:
    values = np.array([1, 100, 44], kind)
    found, expected = BEYOND[name](sg.tensor(values)), BEYOND[name](torch.from_numpy(values))
    assert found.dtype.name == str(expected.dtype).partition(".")[2]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-6)


@pytest.mark.parametrize("call", [lambda t, x: x.fill_(300), lambda t, x: x.clamp(0, 300), lambda t, x: x.pow(300)])
def test_numbers_beyond_the_range_are_refused_where_they_are_values(call: Callable[[Any, Any], Any]) -> None:
    for t in (sg, torch):
        with pytest.raises(RuntimeError, match="without overflow"):
            call(t, t.zeros(2, dtype=t.uint8))


# -- too many axes: NumPy's iterators take 32

MANY = [1] * 33
TOO_MANY: dict[str, Call] = {
    "zeros": lambda t: t.zeros(MANY),
    "far more": lambda t: t.randn(MANY * 2),
    "from NumPy": lambda t: t.from_numpy(np.zeros(MANY)),
    "view": lambda t: t.ones(1).view(MANY),
    "expand": lambda t: t.ones(1).expand(MANY),
    "unsqueeze": lambda t: t.ones(MANY[1:]).unsqueeze(0),
    "None in brackets": lambda t: t.ones(1)[(None,) * 32],
    "stack": lambda t: t.stack([t.ones(MANY[1:])] * 2),
    "tensordot": lambda t: t.tensordot(t.ones(MANY[:20]), t.ones(MANY[:20]), 0),
    "one_hot": lambda t: t.nn.functional.one_hot(t.zeros(MANY[1:], dtype=t.int64)),
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_more_than_32_axes_are_refused(name: str) -> None:
    assert TOO_MANY[name](torch).ndim > 32
    with pytest.raises(sg.ShapeError, match=r"a tensor has at most 32 axes, and this one would have \d\d\."):
        TOO_MANY[name](sg)


def test_lists_that_are_nested_too_deep_are_refused() -> None:
    nested: Any = 1.0
    for _ in range(70):
        nested = [nested]
    with pytest.raises(sg.ShapeError, match="a tensor has at most 32 axes, and these sequences are nested deeper"):
        sg.tensor(nested)


def test_32_axes_are_as_good_as_two() -> None:
    shape = [1] * 28 + [2, 3, 1, 2]
    gradients = []
    for t in (sg, torch):
        x = t.arange(12.0).reshape(shape).requires_grad_()
        ((x.permute(*reversed(range(32))) * x.sum(-3)).softmax(-4) @ t.ones(2, 1)).square().sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_allclose(gradients[0], gradients[1], 1e-5, 1e-5)
