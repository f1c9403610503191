"""Which dtype an operation of two dtypes has, and which casts keep the kind of number."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..arguments import checked
from ..dtypes import DType, parse_dtype
from ..tensor import Tensor


@checked
def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype of an operation of two tensors or numbers.

    >>> sg.result_type(sg.tensor([1]), 1.0)
    shadergrad.float32
    """
    described = [
        (t.dtype, 2 if t.ndim else 1) if isinstance(t, Tensor) else (dtypes.of_scalar(t), 0) for t in (tensor1, tensor2)
    ]
    return dtypes.promote_operands(described)


@checked
def promote_types(type1: Any, type2: Any) -> DType:
    """The least dtype that holds both.

    >>> sg.promote_types(sg.int32, sg.float32)
    shadergrad.float32
    """
    return dtypes.promote(parse_dtype(type1), parse_dtype(type2))


@checked
def can_cast(from_: Any, to: Any) -> bool:
    """Whether a cast keeps the kind of number: bools to all, integers to floats, but not back.

    >>> sg.can_cast(sg.int32, sg.float32), sg.can_cast(sg.float32, sg.int32)
    (True, False)
    """
    return parse_dtype(from_).category <= parse_dtype(to).category
