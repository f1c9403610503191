"""Helpers of distributions: broadcast parameters, probabilities and logits, lazy attributes, triangular matrices as vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final

from ..dtypes import FloatLimits, default_dtype
from ..errors import ArgumentError, ShapeError
from ..graph.node import grad_mode
from ..tensor import Size, Tensor, arange, cat, common_shape, full_like, rand, tensor, zeros

__all__ = [
    "broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip

euler_constant: Final[float] = 0.57721566490153286060
HALF_LOG_2PI: Final[float] = 0.5 * math.log(2 * math.pi)


def is_number(value: Any) -> bool:
    """Whether a parameter is a Python number."""
    return isinstance(value, int | float)


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors and numbers as tensors of one shape. Numbers take the dtype and the device of the first tensor.

    Raises ArgumentError for other values.

    >>> sg.distributions.utils.broadcast_all(sg.zeros(2), 1.0)
    (tensor([0., 0.]), tensor([1., 1.]))
    """
    if not all(isinstance(v, Tensor) or is_number(v) for v in values):
        raise ArgumentError("Input arguments must all be instances of Number or shadergrad.Tensor.")
    tensors = [v for v in values if isinstance(v, Tensor)]
    if not tensors:
        return tuple(tensor(float(v), dtype=default_dtype()) for v in values)
    found = [v if isinstance(v, Tensor) else full_like(tensors[0], v) for v in values]
    shape = common_shape(*(tuple(v.shape) for v in found))
    return tuple(v if tuple(v.shape) == shape else v.expand(*shape) for v in found)


def broadcast_floats(*values: Any) -> tuple[Any, ...]:
    """`broadcast_all` for parameters: integers become floating."""
    tensors = [v for v in values if isinstance(v, Tensor)]
    kind = next((v.dtype for v in tensors if v.is_floating_point()), default_dtype())
    return broadcast_all(
        *(v.to(dtype=kind) if isinstance(v, Tensor) and not v.is_floating_point() else v for v in values)
    )


def sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` axes."""
    return value.sum(tuple(range(-dim, 0))) if dim else value


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities from log odds (is_binary), or from unnormalised log probabilities along the last axis.

    >>> sg.distributions.utils.logits_to_probs(sg.zeros(2))
    tensor([0.5, 0.5])
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamped to [eps, 1 - eps], eps that of the dtype, so that logarithms are finite.

    >>> sg.distributions.utils.clamp_probs(sg.tensor([0.5]))
    tensor([0.5])
    """
    eps = epsilon(probs)
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log odds of probabilities (is_binary), or their logarithms.

    >>> sg.distributions.utils.probs_to_logits(sg.tensor([0.5]), is_binary=True)
    tensor([0.])
    """
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def epsilon(x: Tensor) -> float:
    """The distance from 1 to the next number of the dtype."""
    return float(FloatLimits.of(x.dtype).eps)


def tiny(x: Tensor) -> float:
    """The smallest normal number of the dtype."""
    return float(FloatLimits.of(x.dtype).tiny)


def open_uniform(like: Tensor, shape: Any) -> Tensor:
    """Uniform on (0, 1), of the dtype and on the device of `like`: `rand` has 23 bits, and half a step is added."""
    return rand(*shape, dtype=like.dtype, device=like.device) * (1 - 2.0**-23) + 2.0**-24


# A property that subclasses may override by a plain attribute: type checkers see Any
overridable: Callable[[Callable[[Any], Any]], Any] = property


class _LazyProperty:
    """A method as an attribute that is computed at its first use, with gradients, and kept.

    >>> class Twice:
    ...     @sg.distributions.utils.lazy_property
    ...     def value(self):
    ...         return 2
    >>> Twice().value
    2
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return self
        with grad_mode(True):
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


lazy_property: Callable[[Callable[[Any], Any]], Any] = _LazyProperty


def is_lazy(value: Any) -> bool:
    """Whether an attribute of a class is a lazy property."""
    return isinstance(value, _LazyProperty)


def _below(n: int, diag: int, device: Any) -> Any:
    """The flat positions of the elements on and below a diagonal of an n x n matrix."""
    kept = [i * n + j for i in range(n) for j in range(n) if j < i + diag + 1]
    return tensor(kept, dtype="int32", device=device) if kept else zeros(0, dtype="int32", device=device)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of matrices (*, n, n) on and below a diagonal, row by row: (*, m). Raises ArgumentError for no such diagonal.

    >>> sg.distributions.utils.tril_matrix_to_vec(sg.tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ArgumentError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat.reshape(*mat.shape[:-2], n * n).index_select(-1, _below(n, diag, mat.device))


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The inverse of `tril_matrix_to_vec`, with zeros above the diagonal. Raises ShapeError where the length fits no matrix.

    >>> sg.distributions.utils.vec_to_tril_matrix(sg.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    m = vec.shape[-1]
    n = round((-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * m + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2)
    count = sum(1 for i in range(n) for j in range(n) if j < i + diag + 1)
    if count != m:
        raise ShapeError(
            f"The size of last dimension is {m} which cannot be expressed as the lower triangular part of a square D x D matrix."
        )
    place = [0] * (n * n)
    k = 0
    for i in range(n):
        for j in range(n):
            if j < i + diag + 1:
                k += 1
                place[i * n + j] = k
    padded = vec.new_zeros(*vec.shape[:-1], 1)
    return (
        cat([padded, vec], -1)
        .index_select(-1, tensor(place, dtype="int32", device=vec.device))
        .reshape(*vec.shape[:-1], n, n)
    )


def joined_shape(*parts: Any) -> Size:
    """Shapes one behind the other."""
    return Size(n for part in parts for n in part)


def positions(n: int, like: Tensor) -> Tensor:
    """0 to n - 1, of the dtype and on the device of `like`."""
    return arange(n, device=like.device).to(dtype=like.dtype)
