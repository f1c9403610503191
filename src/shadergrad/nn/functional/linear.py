"""Linear and bilinear maps, embedding lookup, channel shuffles."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...dtypes import int32
from ...errors import DTypeError, IndexRangeError, ShapeError
from ...graph import build
from ...graph.node import grad_mode
from ...plan import IN_EMBEDDING, IN_ONE_HOT
from ...tensor import Tensor, arange, check_axis, in_range, select_positions, vector_norm, where, wrap
from ...tensor.composed import composed
from ...tensor.products import product_of
from ..arguments import whole
from ..errors import ArgumentError
from .device_overrides import overridable

__all__ = ["bilinear", "channel_shuffle", "embedding", "linear", "one_hot", "unflatten"]


@overridable
@composed
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input (..., n_in) @ weight (n_out, n_in) transposed + bias (n_out,): (..., n_out).

    A weight (n_in,) gives (...), with a bias (). ShapeError if the last axis of the input is not n_in.

    >>> F.linear(sg.tensor([1.0, 2.0]), sg.tensor([[1.0, 1.0], [3.0, -1.0]]), sg.tensor([10.0, 0.0]))
    tensor([13.,  1.])
    """
    x, w = input._node, weight._node
    if w.ndim == 1 and x.ndim and x.shape[-1] == w.shape[0] and (bias is None or not bias.ndim):
        result = input @ weight
        return result if bias is None else result + bias
    if w.ndim != 2:
        raise ShapeError(f"[linear] weight must be (n_out, n_in), but got weight of size {tuple(weight.shape)}.")
    if x.ndim == 0 or x.shape[-1] != w.shape[-1]:
        raise ShapeError(
            f"[linear] cannot contract: input is {tuple(input.shape)}, weight is {tuple(weight.shape)} (n_out, n_in). "
            f"Hint: Linear({weight.shape[-1]}, {weight.shape[0]}) takes {weight.shape[-1]} features, the input has {input.shape[-1] if input.ndim else 'none'}."
        )
    result = wrap(product_of(x, build.transpose(w)))  # a transposed tensor would be slow to create
    return result if bias is None else result + bias


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """out[..., k] = input1 (..., n1) @ weight[k] (n_out, n1, n2) @ input2 (..., n2) + bias[k]: (..., n_out).

    ShapeError if the last axes are not n1 and n2, or the other axes of the inputs differ.

    >>> F.bilinear(sg.tensor([[1.0, 2.0]]), sg.tensor([[3.0]]), sg.tensor([[[1.0], [1.0]]]))
    tensor([[9.]])
    """
    n_out, n1, n2 = weight.shape
    for number, (x, n) in enumerate(((input1, n1), (input2, n2)), 1):
        if x.shape[-1] != n:
            raise ShapeError(
                f"bilinear(): input{number} size does not match weight size: got {x.shape[-1]} but expected {n}"
            )
    if input1.shape[:-1] != input2.shape[:-1]:
        raise ShapeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and {list(input2.shape)}"
        )
    left = input1.reshape(-1, n1) @ weight.permute(1, 0, 2).reshape(n1, n_out * n2)
    right = input2.reshape(-1, 1, n2)
    result = (left.reshape(-1, n_out, n2) * right).sum(-1).reshape(*input1.shape[:-1], n_out)
    return result if bias is None else result + bias


@overridable
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight (n, d) at the positions `input` (...), integers: (..., d).

    padding_idx: this row gets no gradient. max_norm: looked-up rows with a larger norm are scaled down, in place.
    scale_grad_by_freq: gradients are divided by the number of look-ups of a row. The gradient is dense: sparse is ignored.

    DTypeError for positions that are no integers, IndexRangeError for a padding_idx that is no row.
    A position outside [0, n) raises IndexRangeError: at once on cpu, at the next read on webgpu.

    >>> F.embedding(sg.tensor([2, 0]), sg.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]))
    tensor([[4., 5.],
            [0., 1.]])
    """
    if not input.dtype.is_position:
        raise DTypeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{input.dtype.name} instead (while checking arguments for embedding)"
        )
    if weight.ndim != 2:
        raise ShapeError(f"[embedding] 'weight' must be 2-D, but got weight of size {list(weight.shape)}")
    rows = weight.shape[0]
    padding_idx = padding_row(padding_idx, rows)
    if max_norm is not None:
        with grad_mode(False):
            length = vector_norm(weight, norm_type, 1, keepdim=True)
            too_long = (length > max_norm) & (_counts(input, rows).unsqueeze(1) > 0)
            weight.copy_(where(too_long, weight * (max_norm / (length + 1e-7)), weight))
    input = in_range(input, rows, IN_EMBEDDING)
    result = select_positions(weight, 0, input)
    if scale_grad_by_freq:
        often = select_positions(_counts(input, rows), 0, input).unsqueeze(-1).to(dtype=result.dtype)
        result = result.detach() + (result - result.detach()) / often
    if padding_idx is not None:
        result = where((input == padding_idx).unsqueeze(-1), result.detach(), result)
    return result


class PaddingError(IndexRangeError, AssertionError, RuntimeError):
    """A padding index outside the table. PyTorch raises AssertionError from embeddings, RuntimeError from bags."""


def padding_row(padding_idx: int | None, rows: int) -> int | None:
    """A padding index counted from the start."""
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise PaddingError(f"Padding_idx must be within num_embeddings, {rows}, but got padding_idx={padding_idx}")
    return None if padding_idx is None else padding_idx % rows


def _counts(index: Tensor, size: int) -> Tensor:
    """How often each position below `size` occurs."""
    flat = index.detach().reshape(-1)
    ones = (flat == flat).to(dtype=int32)
    return (
        (ones[:1] * 0).expand(size).scatter_add(0, flat, ones)
        if flat.numel()
        else arange(size, device=index.device) * 0
    )


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Class numbers (...) as (..., num_classes) of 0 and 1, in the dtype of the numbers.

    Without num_classes the values are read, to find the largest. A class outside [0, num_classes) raises IndexRangeError:
    at once on cpu, at the next read on webgpu. DTypeError for numbers that are no integers, ArgumentError for num_classes below 1.

    >>> F.one_hot(sg.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if not tensor.dtype.is_position:
        raise DTypeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        if tensor.numel() == 0:
            raise ShapeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(tensor.max().item()) + 1
    elif num_classes < 1:
        raise ArgumentError(f"num_classes should be positive, but got num_classes={num_classes}")
    tensor = in_range(tensor, num_classes, IN_ONE_HOT)
    return (tensor.unsqueeze(-1) == arange(num_classes, dtype=tensor.dtype, device=tensor.device)).to(
        dtype=tensor.dtype
    )


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """The axis `dim` as several of `sizes`, of which one may be -1.

    ShapeError if they do not multiply up to its size.

    >>> F.unflatten(sg.zeros(2, 6), 1, (3, -1)).shape
    shadergrad.Size([2, 3, 2])
    """
    axis = check_axis(dim, input.ndim, "unflatten")
    sizes, size = list(sizes), input.shape[axis]
    known = math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) == 1 and known and size % known == 0:
        sizes[sizes.index(-1)] = size // known
    if -1 in sizes or math.prod(sizes) != size:
        raise ShapeError(
            f"unflatten: Provided sizes {sizes} don't multiply up to the size of dim {dim} ({size}) in the input tensor"
        )
    return input.reshape(*input.shape[:axis], *sizes, *input.shape[axis + 1 :])


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """(N, C, ...) with the channels of `groups` equal groups interleaved (Zhang et al., 2017).

    ShapeError if groups do not divide the channels.

    >>> F.channel_shuffle(sg.arange(4).reshape(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    groups = whole("channel_shuffle", "groups", groups, 1)
    if input.ndim < 3 or input.shape[1] % groups:
        raise ShapeError(
            f"Number of channels, axis 1, must be divisible by groups, but got input of size {list(input.shape)} and {groups=}."
        )
    n, channels, *rest = input.shape
    return input.reshape(n, groups, channels // groups, *rest).transpose(1, 2).reshape(n, channels, *rest)
