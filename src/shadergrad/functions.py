"""The function forms: sg.exp(x) is x.exp(); functions of several tensors; constants. Exported by name from the package.

Which methods are functions too stands in tensor/names.py; their types are written by `make stubs` (functions.pyi).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import Any

from .arguments import checked, refuse, signature_with
from .dtypes import DType, FloatLimits, IntegerLimits, default_dtype, parse_dtype
from .errors import DTypeError, ShapeError
from .nn.functional import (  # noqa: F401
    adaptive_avg_pool1d,
    avg_pool1d,
    bilinear,
    celu,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cosine_similarity,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    pairwise_distance,
    pdist,
    pixel_shuffle,
    pixel_unshuffle,
    rms_norm,
    rrelu,
    selu,
)
from .nn.functional import adaptive_max_pool1d as _adaptive_max_pool1d
from .tensor import (  # noqa: F401
    Tensor,
    arange,
    assembly,
    cat,
    common_shape,
    einsum,
    empty,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    sizes_of,
    stack,
    tensor,
    tensordot,
    zeros,
    zeros_like,
)
from .tensor import where as _where
from .tensor.assembly import (  # noqa: F401
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    cartesian_prod,
    cdist,
    column_stack,
    combinations,
    dstack,
    gradient,
    histogramdd,
    isin,
    tril_indices,
    triu_indices,
    unravel_index,
)
from .tensor.coercion import host_tensor
from .tensor.creation import logspace, scalar_tensor  # noqa: F401
from .tensor.names import ALIASES, FUNCTIONS, IN_PLACE_FUNCTIONS, WITHOUT_OUT
from .tensor.operators import REFLECTED
from .tensor.random import normal, randint_like  # noqa: F401

# what makes tensors, and what the rooms, which stand below Tensor, cannot say the type of
MADE = (
    "arange", "empty", "eye", "from_numpy", "full", "full_like", "linspace", "logspace", "normal", "ones", "ones_like",
    "rand", "rand_like", "randint", "randint_like", "scalar_tensor", "randn", "randn_like", "randperm", "tensor", "zeros", "zeros_like",
)  # fmt: skip

# functions that are no methods and take `out=`
WITH_OUT = (
    "arange",
    "cat",
    "column_stack",
    "dstack",
    "logspace",
    "normal",
    "concat",
    "concatenate",
    "empty",
    "eye",
    "full",
    "hstack",
    "isin",
    "linspace",
    "ones",
    "rand",
    "randint",
    "randn",
    "randperm",
    "stack",
    "tensordot",
    "vstack",
    "zeros",
)


# whose first argument may be a number beside a tensor, and for some beside another number, as in PyTorch
NUMBER_FIRST = frozenset((
    "add", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bucketize", "div", "divide",
    "float_power", "floor_divide", "mul", "multiply", "pow", "remainder", "sub", "subtract", "true_divide", "xlogy",
))  # fmt: skip


def _number_first(name: str, method: Any) -> Any:
    """The method, for a number too: the operator of a number and a tensor where there is one, which promotes as that does."""
    plain = ALIASES.get(name, name)
    reflected = REFLECTED.get(plain)
    if plain in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        reflected = lambda a, b: method(b, a)  # noqa: E731

    @functools.wraps(method)
    def form(self: Any, *args: Any, **options: Any) -> Any:
        if not isinstance(self, Tensor):
            if len(args) == 1 and not options and isinstance(args[0], Tensor) and reflected is not None:
                return reflected(self, args[0])
            beside = next((v for v in (*args, *options.values()) if isinstance(v, Tensor)), None)
            if beside is None and plain not in ("add", "sub", "mul", "div", "floor_divide"):
                refuse(name, "input", self, "Tensor")
            self = host_tensor(self, device=None if beside is None else beside.device)
        return method(self, *args, **options)

    return form


def _function_form(name: str) -> Any:
    """The function whose first argument is the tensor."""
    method = getattr(Tensor, name).unchecked
    first = "Tensor"
    if name in NUMBER_FIRST:
        method, first = _number_first(name, method), "Tensor | Number"
    signature = signature_with(method, "input", first)
    form = checked(method, name, signature, out=name in FUNCTIONS and name not in WITHOUT_OUT)
    form.__module__, form.__signature__ = "shadergrad", signature
    return form


globals().update({name: _function_form(name) for name in (*FUNCTIONS, *IN_PLACE_FUNCTIONS)})


@checked
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu`, in place: the tensor takes the result and is returned. Raises AutogradError for a leaf that requires
    grad.

    >>> x = sg.tensor([-1.0, 1.0])
    >>> sg.celu_(x)
    tensor([-0.6321,  1.    ])
    >>> x
    tensor([-0.6321,  1.    ])
    """
    return celu(input, alpha, inplace=True)


@checked
def selu_(input: Tensor) -> Tensor:
    """`selu`, in place: the tensor takes the result and is returned. Raises AutogradError for a leaf that requires
    grad.

    >>> x = sg.tensor([0.0, 1.0])
    >>> sg.selu_(x)
    tensor([0.    , 1.0507])
    >>> x
    tensor([0.    , 1.0507])
    """
    return selu(input, inplace=True)


@checked
def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`rrelu`, in place: the tensor takes the result and is returned. Raises AutogradError for a leaf that requires
    grad.

    >>> x = sg.tensor([-1.0, 1.0])
    >>> sg.rrelu_(x, lower=0.25, upper=0.75)
    tensor([-0.5,  1. ])
    >>> x
    tensor([-0.5,  1. ])
    """
    return rrelu(input, lower, upper, training, inplace=True)


@checked
def is_tensor(obj: object) -> bool:
    """Whether it is a Tensor.

    >>> sg.is_tensor(sg.zeros(2)), sg.is_tensor([0.0, 0.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


@checked
def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape that tensors of these shapes broadcast to. Raises ShapeError where they do not.

    >>> sg.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return common_shape(*(sizes_of((s,), "broadcast_shapes", "shapes") for s in shapes))


@checked
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to the one shape that they broadcast to; dtypes stay. Raises ShapeError where they do not.

    >>> a, b = sg.broadcast_tensors(sg.tensor([1, 2]), sg.tensor([[3], [4]]))
    >>> a
    tensor([[1, 2],
            [1, 2]])
    >>> b
    tensor([[3, 3],
            [4, 4]])
    """
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t.expand(*shape) for t in tensors)


@checked
def empty_like(x: Tensor, **options: Any) -> Tensor:
    """Zeros of the shape, dtype and device of x, where options name no other dtype or device.

    >>> sg.empty_like(sg.tensor([1, 2]))
    tensor([0, 0])
    """
    return x.new_empty(*x.shape, **options)


@checked
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """The last axes padded with `value`: (before, after) pairs from the last axis backwards; negative amounts cut.

    >>> sg.constant_pad_nd(sg.tensor([1, 2]), (1, 1))
    tensor([0, 1, 2, 0])
    """
    return input.pad(pad, value)


@checked
def fill(input: Tensor, value: float) -> Tensor:
    """A tensor like `input` with a number, or a tensor of shape (), in every element.

    >>> sg.fill(sg.zeros(2), 3)
    tensor([3., 3.])
    """
    return input.clone().fill_(value)


@checked
def repeat_interleave(
    input: Tensor, repeats: int | Tensor | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """input.repeat_interleave(repeats, dim). Of one tensor alone: every position as often as its element says, int32.

    Raises ShapeError for negative or too few repeats, DTypeError for repeats that are no integers.

    >>> sg.repeat_interleave(sg.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    >>> sg.repeat_interleave(sg.tensor([1, 0, 2]))
    tensor([0, 2, 2])
    """
    if repeats is None:
        repeats, input = input, arange(input.numel(), device=input.device)
    return input.repeat_interleave(repeats, dim, output_size=output_size)


@checked
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """One beside the other: along axis 1, or axis 0 of vectors; tensors of shape () count as vectors of one element.

    Raises ShapeError for no tensors, and where the other axes differ.

    >>> sg.hstack([sg.tensor([[1], [2]]), sg.tensor([[3], [4]])])
    tensor([[1, 3],
            [2, 4]])
    """
    if not tensors:
        raise ShapeError("hstack expects a non-empty TensorList")
    parts = [x.reshape(1) if x.ndim == 0 else x for x in tensors]
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


@checked
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """One below the other: along axis 0; vectors are rows. Raises ShapeError for no tensors, and where the other axes
    differ.

    >>> sg.vstack([sg.tensor([1, 2]), sg.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    if not tensors:
        raise ShapeError("vstack expects a non-empty TensorList")
    return cat([x.reshape(1, -1) if x.ndim < 2 else x for x in tensors], 0)


@checked
def finfo(type: Any = None) -> FloatLimits:
    """The limits of a floating dtype, or of the parts of a complex one, the default dtype if none is named: bits, eps, max,
    min, tiny, smallest_normal, resolution, dtype. bfloat16 and the float8 dtypes have them too. Raises DTypeError for
    another dtype.

    >>> sg.finfo(sg.float32).max
    3.4028234663852886e+38
    >>> sg.finfo(sg.bfloat16).eps
    0.0078125
    """
    kind = default_dtype() if type is None else type if isinstance(type, DType) else parse_dtype(type)
    if kind.category < 2:
        raise DTypeError(f"finfo() requires a floating point dtype, not {kind.name}. Hint: use iinfo.")
    return FloatLimits.of(kind.real)


@checked
def iinfo(type: Any) -> IntegerLimits:
    """The limits of an integer dtype: max, min, bits, dtype. Raises DTypeError for another dtype.

    >>> sg.iinfo(sg.int32).max
    2147483647
    """
    kind = type if isinstance(type, DType) else parse_dtype(type)
    if kind.category != 1:
        raise DTypeError(f"iinfo() requires an integer dtype, not {kind.name}. Hint: use finfo.")
    return IntegerLimits.of(kind)


concat, concatenate = (checked(inspect.unwrap(cat), name) for name in ("concat", "concatenate"))
globals().update({name: checked(inspect.unwrap(globals()[name]), name, out=True) for name in WITH_OUT})


def where(condition: Tensor, input: Any = None, other: Any = None) -> Tensor:
    """`input` where the condition holds, else `other`; the three broadcast, dtypes of both are promoted. With the condition
    alone the positions where it holds, a tuple of a tensor an axis, as `condition.nonzero(as_tuple=True)`.

    Raises DTypeError for a condition that is not bool, ShapeError where the shapes do not broadcast, ArgumentTypeError where
    one of both is missing.

    >>> sg.where(sg.tensor([True, False]), sg.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    >>> sg.where(sg.tensor([0.0, 2.0, 3.0]))
    (tensor([1, 2]),)
    """
    if input is None and other is None:
        found: Any = condition.nonzero(as_tuple=True)  # typed as what all other calls give
        return found
    if input is None or other is None:
        refuse("where", "input" if input is None else "other", None, "Tensor or Number")
    return _where(condition, input, other)


@checked
def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int]) -> tuple[Tensor, Tensor]:
    """The largest of output_size windows that cover the last axis of (batch, c, length) or (c, length), and where each was found.

    As in PyTorch the places, int32, always come with the values here; nn.functional's function of this name gives them where
    asked. Errors: as for nn.functional.adaptive_max_pool1d.

    >>> sg.adaptive_max_pool1d(sg.tensor([[1.0, 2.0, 3.0]]), 2)
    (tensor([[2., 3.]]), tensor([[1, 2]]))
    """
    return _adaptive_max_pool1d(input, output_size, True)


where = checked(where, out=True)  # here and not at its definition: internal calls have valid arguments

__all__ = sorted(  # pyright: ignore[reportUnsupportedDunderAll]  # type checkers read functions.pyi
    {
        *FUNCTIONS,
        *IN_PLACE_FUNCTIONS,
        *MADE,
        *assembly.__all__,
        "adaptive_avg_pool1d",
        "adaptive_max_pool1d",
        "avg_pool1d",
        "bilinear",
        "celu",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "cosine_similarity",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
        "constant_pad_nd",
        "pairwise_distance",
        "pdist",
        "pixel_shuffle",
        "pixel_unshuffle",
        "rms_norm",
        "rrelu",
        "selu",
        "broadcast_shapes",
        "broadcast_tensors",
        "cat",
        "celu_",
        "concat",
        "concatenate",
        "e",
        "einsum",
        "empty_like",
        "fill",
        "finfo",
        "hstack",
        "iinfo",
        "inf",
        "is_tensor",
        "meshgrid",
        "nan",
        "pi",
        "repeat_interleave",
        "rrelu_",
        "selu_",
        "stack",
        "tensordot",
        "vstack",
        "where",
    }
)
