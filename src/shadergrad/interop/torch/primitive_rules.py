"""The primitives in PyTorch. In: a primitive and torch.Tensors. Out: a torch.Tensor with PyTorch's own history.

For primitives without a rule here device.py uses the NumPy value and the vjp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...dtypes import DType

Rule = Callable[..., Tensor]
DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        "bool",
        "uint8",
        "int8",
        "uint16",
        "int16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "bfloat16",
        "float16",
        "float32",
        "float64",
    )
}

RULES: dict[str, Rule] = {}  # by the name of the primitive's class; takes the primitive, then its operands
FLOATING: dict[str, Rule] = {}  # rules for floating operands only


def _elementwise(table: dict[str, Rule], **functions: Callable[..., Any]) -> None:
    def rule(function: Callable[..., Any]) -> Rule:
        return lambda _, *operands: function(*operands)

    table.update({name: rule(function) for name, function in functions.items()})


_elementwise(
    RULES,
    Alias=lambda x: x,
    Detach=torch.detach,
    Add=torch.add,
    Sub=torch.sub,
    Mul=torch.mul,
    Maximum=torch.maximum,
    Minimum=torch.minimum,
    Neg=torch.neg,
    Abs=torch.abs,
    Sign=torch.sign,
    Relu=torch.relu,
    Less=torch.lt,
    LessEqual=torch.le,
    Greater=torch.gt,
    GreaterEqual=torch.ge,
    Equal=torch.eq,
    NotEqual=torch.ne,
    And=torch.bitwise_and,
    Or=torch.bitwise_or,
    Xor=torch.bitwise_xor,
    Not=torch.bitwise_not,
    Where=torch.where,
    Dot=torch.bmm,
)
_elementwise(
    FLOATING,
    Div=torch.div,
    Pow=torch.pow,
    Exp=torch.exp,
    Exp2=torch.exp2,
    Expm1=torch.expm1,
    Log=torch.log,
    Log2=torch.log2,
    Log10=torch.log10,
    Log1p=torch.log1p,
    Sqrt=torch.sqrt,
    Rsqrt=torch.rsqrt,
    Sin=torch.sin,
    Cos=torch.cos,
    Asin=torch.asin,
    Acos=torch.acos,
    Tanh=torch.tanh,
    Sigmoid=torch.sigmoid,
    Erf=torch.erf,
    Erfinv=torch.erfinv,
    Floor=torch.floor,
    Round=torch.round,
    Trunc=torch.trunc,
    Atan2=torch.atan2,
    IsNan=torch.isnan,
    IsFinite=torch.isfinite,
)


def _rule(function: Rule) -> Rule:
    """Registers a function as the rule of the primitive that it is named after."""
    RULES[function.__name__.rpartition("_")[2]] = function
    return function


def rule_of(name: str, operands: tuple[Tensor, ...]) -> Rule | None:
    """The rule of a primitive for these operands, if there is one."""
    if any(x.dtype is torch.uint32 for x in operands):  # PyTorch has few operations on uint32
        return None
    found = RULES.get(name)
    if found is None and operands and operands[0].is_floating_point():
        found = FLOATING.get(name)
    return found


@_rule
def _Variable(_: Any, x: Tensor) -> Tensor:
    return x.detach().requires_grad_()


class _Succeeding(torch.autograd.Function):
    """The value of the first operand; the gradient goes to the second."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, history: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, grads[0]


@_rule
def _Overwritten(p: Any, value: Tensor, history: Tensor) -> Tensor:
    return _Succeeding.apply(value, history) if p.goes_on else value.detach()


@_rule
def _Cast(p: Any, x: Tensor) -> Tensor:
    return x.to(torch_dtype(p.dtype))


@_rule
def _Constant(p: Any) -> Tensor:
    return torch.tensor(p.value, dtype=torch_dtype(p.dtype))


@_rule
def _Iota(p: Any) -> Tensor:
    return torch.arange(p.size, dtype=torch.int32)


# -- views


@_rule
def _Reshape(p: Any, x: Tensor) -> Tensor:
    return x.reshape(p.shape)


@_rule
def _Permute(p: Any, x: Tensor) -> Tensor:
    return x.permute(p.axes)


@_rule
def _Expand(p: Any, x: Tensor) -> Tensor:
    return x.expand(p.shape)


def _slices(starts: Any, sizes: Any, steps: Any) -> tuple[slice, ...]:
    return tuple(
        slice(a, a + max(n - 1, 0) * s + 1 if n else a, s) for a, n, s in zip(starts, sizes, steps, strict=True)
    )


@_rule
def _Slice(p: Any, x: Tensor) -> Tensor:
    return x[_slices(p.starts, p.sizes, p.steps)]


@_rule
def _Flip(p: Any, x: Tensor) -> Tensor:
    return x.flip(p.axes)


@_rule
def _Pad(p: Any, x: Tensor) -> Tensor:
    borders = zip(x.shape, p.low, p.high, p.interior, strict=True)
    result = x.new_full([a + n + b + max(n - 1, 0) * k for n, a, b, k in borders], p.value)
    result[_slices(p.low, x.shape, [k + 1 for k in p.interior])] = x
    return result


@_rule
def _Cat(p: Any, *parts: Tensor) -> Tensor:
    return torch.cat(parts, p.axis)


@_rule
def _Window(p: Any, x: Tensor) -> Tensor:
    for axis, size, step, dilation in zip(p.axes, p.sizes, p.steps, p.dilations, strict=True):
        x = x.unfold(axis, (size - 1) * dilation + 1, step)[..., ::dilation]
    return x


# -- over axes


@_rule
def _ReduceSum(p: Any, x: Tensor) -> Tensor:
    return x.sum(p.axes, keepdim=True, dtype=x.dtype) if p.axes else x


@_rule
def _ReduceMax(p: Any, x: Tensor) -> Tensor:
    return x.amax(p.axes, keepdim=True) if p.axes else x


@_rule
def _ReduceMin(p: Any, x: Tensor) -> Tensor:
    return x.amin(p.axes, keepdim=True) if p.axes else x


@_rule
def _ReduceProd(p: Any, x: Tensor) -> Tensor:
    for axis in p.axes:
        x = x.prod(axis, keepdim=True, dtype=x.dtype)
    return x


@_rule
def _Gather(p: Any, x: Tensor, positions: Tensor) -> Tensor:
    shared = all(s == 0 or n == 1 for a, (n, s) in enumerate(_layout(positions)) if a != p.axis)
    if shared and positions.numel():  # the same positions everywhere: whole slices are copied
        line = positions[tuple(slice(None) if a == p.axis else 0 for a in range(positions.ndim))]
        return x.index_select(p.axis, line.long())
    return x.gather(p.axis, positions.long())


def _layout(x: Tensor) -> Any:
    return zip(x.shape, x.stride(), strict=True)


@_rule
def _ScatterAdd(p: Any, positions: Tensor, source: Tensor) -> Tensor:
    shape = [p.size if a == p.axis else n for a, n in enumerate(source.shape)]
    return source.new_zeros(shape).scatter_add(p.axis, positions.long(), source)


@_rule
def _Conv(p: Any, x: Tensor, w: Tensor) -> Tensor:
    groups, batch, channels, *size = x.shape
    _, out, _, *window = w.shape
    function = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)[len(size) - 1]
    wide = _moved(p, x.transpose(0, 1).reshape(batch, groups * channels, *size))
    result = function(
        wide, w.reshape(groups * out, channels, *window), stride=p.steps, dilation=p.dilations, groups=groups
    )
    return result.reshape(batch, groups, out, *result.shape[2:]).transpose(0, 1)


def _moved(p: Any, x: Tensor) -> Tensor:
    """x (batch, channels, *size), dilated and padded with zeros as a Conv does, or with elements at the borders removed."""
    if any(s > 1 for s in p.spread):
        sizes = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], p.spread, strict=True)]
        apart = x.new_zeros((*x.shape[:2], *sizes))
        apart[(..., *(slice(None, None, s) for s in p.spread))] = x
        x = apart
    if not any((*p.low, *p.high)):
        return x
    borders = zip(reversed(p.low), reversed(p.high), strict=True)  # PyTorch begins with the last axis
    return torch.nn.functional.pad(x, [n for pair in borders for n in pair])


def torch_dtype(dtype: DType) -> torch.dtype:
    """The same dtype in PyTorch."""
    return DTYPES[dtype.name]


__all__ = ["DTYPES", "rule_of", "torch_dtype"]
