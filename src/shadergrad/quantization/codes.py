"""Numbers as codes of 8 or 4 bits. In: a weight and a `Scheme`. Out: `Codes`, words with scales and offsets; and from them the weight again.

Groups of neighbours along the last axis have a scale each. Symmetric: number = (code - 2 ** (bits - 1)) * scale, where the scale takes the
largest absolute value of a group to the largest code. Asymmetric: number = code * scale + offset, where code 0 is the group's least number and the
last code its largest. Codes are rounded to nearest, with the scales as they are stored. A word holds 32 / bits codes from its lowest bits on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..arguments import refuse, whole
from ..drive import execute
from ..dtypes import DType, float32, int32
from ..errors import ArgumentError, DTypeError, ShapeError
from ..graph.build import cast
from ..graph.node import grad_mode, make
from ..primitives.quantized import WORD, Dequantize
from ..tensor import Tensor, arange, empty, wrap

BITS = (8, 4)


@dataclass(frozen=True)
class Scheme:
    """How weights are stored. group_size: numbers that share a scale; None: whole rows.

    Raises ArgumentError for other bits than 8 and 4, and for a group_size that is no multiple of the codes in a word.
    """

    bits: int = 8
    group_size: int | None = 64
    symmetric: bool = True

    def __post_init__(self) -> None:
        if whole("quantize", "bits", self.bits) not in BITS:
            raise ArgumentError(f"[quantize] bits is {self.bits}: weights are stored in 8 or 4 bits.")
        if self.group_size is not None and whole("quantize", "group_size", self.group_size, 1) % self.codes:
            raise ArgumentError(
                f"[quantize] group_size is {self.group_size}, which is no multiple of {self.codes}, the codes of {self.bits} bits in a word."
            )
        if not isinstance(self.symmetric, bool):
            refuse("quantize", "symmetric", self.symmetric, "a bool")

    @property
    def codes(self) -> int:
        """Codes of a word."""
        return WORD // self.bits

    def group(self, columns: int, what: str) -> int:
        """Numbers of a group in rows of so many. Raises ShapeError, which names `what`, where groups or words do not divide a row."""
        if columns and self.group_size is None and columns % self.codes == 0:
            return columns
        if columns and self.group_size is not None and columns % self.group_size == 0:
            return self.group_size
        fitting = [n for n in range(self.codes, columns + 1, self.codes) if columns % n == 0]
        below = [n for n in fitting if n <= (self.group_size or columns)]
        hint = f"group_size={max(below or fitting)}" if fitting else "leave it out (where=...)"
        why = (
            f"group_size={self.group_size} does not divide"
            if self.group_size
            else f"words of {self.codes} codes do not fill"
        )
        raise ShapeError(f"[quantize] {why} the {columns} columns of {what}. Hint: {hint}.")

    def shapes(self, rows: int, columns: int, what: str) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of the words, and of the scales of a weight (rows, columns)."""
        return (rows, columns // self.codes), (rows, columns // self.group(columns, what))


class Codes(NamedTuple):
    """words (rows, columns * bits / 32) of int32; scales and, unless symmetric, offsets (rows, groups) in the weight's dtype."""

    packed: Tensor
    scales: Tensor
    offsets: Tensor | None

    @classmethod
    def empty(cls, scheme: Scheme, rows: int, columns: int, what: str, device: Any, dtype: Any) -> Codes:
        """Of a weight whose numbers are not there yet."""
        words, scales = scheme.shapes(rows, columns, what)
        offsets = None if scheme.symmetric else empty(*scales, device=device, dtype=dtype)
        return cls(empty(*words, device=device, dtype=int32), empty(*scales, device=device, dtype=dtype), offsets)


def check_weight(weight: Tensor, scheme: Scheme, what: str) -> int:
    """The numbers of a group of a weight. Raises ShapeError where groups do not divide the columns, DTypeError for a weight that is not floating."""
    if weight.dtype.category != 2:
        raise DTypeError(f"[quantize] {what} is {weight.dtype.name}: only floating weights are quantised.")
    return scheme.group(weight.shape[1], what)


def quantized(weight: Tensor, scheme: Scheme, what: str) -> Codes:
    """The codes of a weight (rows, columns), computed, on its device. `what` names it in errors.

    Raises as `check_weight`, and ArgumentError for a weight with NaN or infinities.
    """
    group = check_weight(weight, scheme, what)
    rows, columns = weight.shape
    dtype, highest = weight.dtype, (1 << scheme.bits) - 1
    with grad_mode(False):
        x = weight.detach().to(dtype=float32).reshape(rows, columns // group, group)
        if scheme.symmetric:
            largest, zero = (highest - 1) // 2, (highest + 1) // 2
            scales, offsets = (x.abs().amax(-1) / largest).to(dtype=dtype), None
            codes = (x / _nonzero(scales)).round().clamp(-largest, largest) + zero
        else:
            least = x.amin(-1)
            scales, offsets = ((x.amax(-1) - least) / highest).to(dtype=dtype), least.to(dtype=dtype)
            codes = ((x - offsets.to(dtype=float32).unsqueeze(-1)) / _nonzero(scales)).round().clamp(0, highest)
        if not bool(scales.isfinite().all()):
            raise ArgumentError(
                f"[quantize] {what} holds NaN or infinities, or numbers whose scale {dtype.name} does not hold."
            )
        parts = codes.to(dtype=int32).reshape(rows, columns // scheme.codes, scheme.codes)
        shifts = arange(0, WORD, scheme.bits, dtype=int32, device=weight.device)
        packed = (parts << shifts).sum(-1, dtype=int32)
        execute.realize(
            [x._node for x in (packed, scales, offsets) if x is not None]
        )  # pending nodes would hold the floats
    return Codes(packed, scales, offsets)


def _nonzero(scales: Tensor) -> Tensor:
    """Scales to divide by, (rows, groups, 1): 1 for a group of zeros."""
    return scales.to(dtype=float32).masked_fill(scales == 0, 1.0).unsqueeze(-1)


def numbers(codes: Codes, bits: int, rows: Callable[[Tensor], Tensor] = lambda x: x) -> Tensor:
    """The values of codes, in the dtype of the scales. They are pending: each operation that reads them computes them. rows: takes some of
    the rows of each tensor."""
    given: Iterable[Tensor] = (x for x in codes if x is not None)
    words, *others = (rows(x)._node for x in given)
    dtype: DType = codes.scales.dtype
    return wrap(cast(make(Dequantize(bits), words, *(cast(x, float32) for x in others)), dtype))
