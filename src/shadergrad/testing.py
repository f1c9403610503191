"""Comparing values, as torch.testing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .arguments import checked
from .dtypes import parse_dtype
from .errors import ArgumentError
from .tensor import Tensor, rand, sizes_of, tensor, where

# by dtype: relative and absolute, as PyTorch's
TOLERANCES = {
    "bfloat16": (1.6e-2, 1e-5),
    "float16": (1e-3, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
OLD_TOLERANCES = {"float16": (1e-3, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}  # of assert_allclose


@checked
def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """Raises AssertionError unless |actual - expected| <= atol + rtol |expected| everywhere.

    Tensors, numbers, arrays, and sequences and mappings of these. rtol and atol: both or neither; by dtype if left out, 0 for
    integers and bools. Shapes must be equal, dtypes and devices too unless said otherwise. msg: a text, or a function of the
    text of the error.

    >>> sg.testing.assert_close(sg.tensor([1.0]), sg.tensor([1.0000001]))
    >>> try:
    ...     sg.testing.assert_close(sg.tensor([1.0]), sg.tensor([2.0]))
    ... except AssertionError as error:
    ...     print(str(error).splitlines()[0])
    Tensor-likes are not close!
    """
    if (rtol is None) != (atol is None):
        raise ArgumentError(f"rtol and atol must both be specified or both be unspecified, but got {rtol=}, {atol=}.")
    problem = _problem(actual, expected, rtol, atol, equal_nan, check_device, check_dtype, "")
    if problem is None:
        return
    raise AssertionError(msg(problem) if callable(msg) else problem if msg is None else msg)


@checked
def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The older form of assert_close, which PyTorch deprecated: numbers and lists are converted to tensors, dtypes may differ, NaN is equal to
    NaN, and tolerances are larger where none is given.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     sg.testing.assert_allclose([1.0, 2.0], sg.tensor([1.0, 2.0001]))
    """
    warnings.warn(
        "torch.testing.assert_allclose() is deprecated since 1.12. Hint: assert_close(), with check_dtype=False and equal_nan=True.",
        FutureWarning,
        stacklevel=3,
    )
    x = actual if isinstance(actual, Tensor) else tensor(actual)
    y = expected if isinstance(expected, Tensor) else tensor(expected, dtype=x.dtype)
    if rtol is None and atol is None:
        rtol, atol = (
            max(pair) for pair in zip(*(OLD_TOLERANCES.get(v.dtype.name, (0.0, 0.0)) for v in (x, y)), strict=True)
        )
    assert_close(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def _problem(a: Any, b: Any, *options: Any) -> str | None:
    """What is wrong, or None. The last of the options says where in containers a and b are."""
    where = options[-1]
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if set(a) != set(b):
            return f"The keys of the mappings do not match{where}: {sorted(map(str, a))} and {sorted(map(str, b))}."
        pairs = [(a[k], b[k], k) for k in a]
    elif _is_sequence(a) and _is_sequence(b):
        if len(a) != len(b):
            return f"The length of the sequences mismatch{where}: {len(a)} != {len(b)}"
        pairs = [(x, y, k) for k, (x, y) in enumerate(zip(a, b, strict=True))]
    else:
        return _difference(a, b, *options)
    found = (_problem(x, y, *options[:-1], f"{where}[{k!r}]") for x, y, k in pairs)
    return next((p for p in found if p is not None), None)


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _dtype_name(value: Any) -> str:
    """The name of a value's dtype: bfloat16 too, of which NumPy knows nothing."""
    return value.dtype.name if isinstance(value, Tensor) else np.asarray(value).dtype.name


def _difference(
    a: Any, b: Any, rtol: float | None, atol: float | None, equal_nan: bool, device: bool, dtype: bool, where: str
) -> str | None:
    if a is None or b is None or isinstance(a, str) or isinstance(b, str):
        return None if a == b else f"{a!r} != {b!r}{where}"
    x, y = (v.detach().numpy() if isinstance(v, Tensor) else np.asarray(v) for v in (a, b))
    if isinstance(a, Tensor) != isinstance(b, Tensor) and not (x.ndim == y.ndim == 0):
        return f"The types do not match{where}: {type(a).__name__} and {type(b).__name__}."
    if x.shape != y.shape:
        return f"The values for attribute 'shape' do not match{where}: {x.shape} != {y.shape}."
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if device and a.device != b.device:
            return f"The values for attribute 'device' do not match{where}: {a.device} != {b.device}."
        if dtype and a.dtype is not b.dtype:
            return f"The values for attribute 'dtype' do not match{where}: {a.dtype!r} != {b.dtype!r}."
    relative, absolute = rtol, atol
    if relative is None or absolute is None:
        kinds = [TOLERANCES.get(_dtype_name(v), (0.0, 0.0)) for v in (a, b)]
        relative, absolute = (max(pair) for pair in zip(*kinds, strict=True))
    near = (
        np.isclose(x, y, relative, absolute, equal_nan)
        if x.dtype.kind in "fc" or y.dtype.kind in "fc"
        else _exact(x, y, relative, absolute)
    )
    if near.all():
        return None
    what = "Scalars" if x.ndim == 0 else "Tensor-likes"
    equal = relative == absolute == 0
    with np.errstate(invalid="ignore"):
        apart = np.where(near, 0.0, np.abs(np.subtract(x, y, dtype=np.result_type(x, y, np.float64))))
    worst = np.unravel_index(int(np.nanargmax(np.nan_to_num(apart, nan=np.inf))), apart.shape) if x.ndim else ()
    return (
        f"{what} are not {'equal' if equal else 'close'}!{where}\n\n"
        f"Mismatched elements: {int((~near).sum())} / {x.size} ({100 * (~near).mean():.1f}%)\n"
        f"Greatest absolute difference: {apart[worst]} at index {tuple(map(int, worst))} (up to {absolute} allowed)\n"
        f"There: {x[worst]} and {y[worst]}; relative differences up to {relative} are allowed."
    )


def _exact(x: np.ndarray, y: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    if rtol == atol == 0:
        return np.asarray(x == y)
    return np.abs(x.astype(np.float64) - y.astype(np.float64)) <= atol + rtol * np.abs(y.astype(np.float64))


@checked
def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: str | None = None,
) -> Tensor:
    """A tensor of random numbers from low to high: -9 to 9 of floats and integers if not said otherwise, 0 and 1 of bools.
    noncontiguous: every second element of a longer tensor. exclude_zero: 1 in place of 0. memory_format changes nothing.

    >>> sg.testing.make_tensor((2, 3), dtype=sg.float32, device="cpu").shape
    shadergrad.Size([2, 3])
    """
    kind = parse_dtype(dtype)
    lowest, highest = (
        (0, 2) if kind.category == 0 else (0 if not kind.is_signed else -9, 10 if kind.category == 1 else 9)
    )
    a, b = lowest if low is None else low, highest if high is None else high
    sizes = sizes_of(shape, "make_tensor")
    longer = noncontiguous and math.prod(sizes) > 1
    drawn = rand(*sizes[:-1], sizes[-1] * 2, device=device) if longer else rand(*sizes, device=device)
    drawn = drawn * (b - a) + a
    found = (drawn.floor() if kind.category < 2 else drawn).to(dtype=kind)
    found = where(found == 0, 1, found).to(dtype=kind) if exclude_zero else found
    found = found[..., ::2].detach() if longer else found
    return found.requires_grad_() if requires_grad else found


__all__ = ["assert_allclose", "assert_close", "make_tensor"]
