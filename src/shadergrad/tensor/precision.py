"""The dtypes in which operations compute: compositions of float16 and bfloat16 in float32, and operations under autocast by PyTorch's lists.

In: a function of tensors and its public name. Out: a function that casts floating arguments before the call, and results after it.
A composition of halves computes in float32 and rounds its result once, as PyTorch's kernels do; a single operation does so itself
(graph/build.py). Under autocast (amp.py) the name decides: matrix multiplications in the lower dtype, operations that lose precision in
float32, some in the widest dtype of their arguments. Within such a function autocast is off, because its internal operations differ
from PyTorch's. Lists: https://pytorch.org/docs/stable/amp.html#autocast-op-reference
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ..dtypes import DType, float32, float64, met, parse_dtype, promote_operands
from ..errors import ArgumentError
from ..graph.node import Node, mode
from .base import TensorBase

F = TypeVar("F", bound=Callable[..., Any])


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PRODUCTS = _names(
    """addbmm addmm baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear matmul mm
    multi_dot prelu scaled_dot_product_attention vecdot"""
)
LOSSES = _names(
    """cosine_embedding_loss hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
    multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
    binary_cross_entropy_with_logits cross_entropy"""
)
LOWER = {"cpu": PRODUCTS, "cuda": PRODUCTS | _names("addmv addr einsum mv")}
RECURRENT = {  # whole layers, whose states are in the lower dtype, too
    "cpu": _names("lstm"),
    "cuda": _names("gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell"),
}
SINGLE = {
    "cpu": LOSSES
    | _names(
        """adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy cdist cholesky_inverse cholesky_solve ctc_loss
        fractional_max_pool2d fractional_max_pool3d grid_sample inverse max_pool3d max_unpool2d max_unpool3d nanquantile pinverse polar
        prod quantile stft trace"""
    ),
    "cuda": LOSSES
    | _names(
        """acos asin cdist cosh cosine_similarity cumprod cumsum dist erfinv exp expm1 group_norm interpolate layer_norm log log10 log1p
        log2 log_softmax logsumexp norm pdist pow prod reciprocal renorm rms_norm rsqrt sinh softmax softplus sum tan upsample_bilinear
        upsample_nearest vector_norm matrix_norm"""
    ),
}
WIDEST = {
    "cpu": _names("cat index_copy stack"),
    "cuda": _names("addcdiv addcmul atan2 bilinear cross dot grid_sample index_put scatter_add tensordot vdot"),
}
REFUSED: dict[str, frozenset[str]] = {
    "cpu": frozenset(),
    "cuda": frozenset(["binary_cross_entropy"]),
}  # unsafe in halves, according to PyTorch

# compositions that round once, besides those of the lists above
COMPOSED = _names(
    """acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d addcdiv addcmul addmv addr asinh atanh avg_pool1d avg_pool2d
    avg_pool3d batch_norm_values bilinear celu corrcoef cosh cosine_similarity cov cumprod cumulative_trapezoid dist elu embedding_bag
    add_scaled float_power floor_divide fmod gaussian_nll_loss gelu glu grid_sample group_norm hardsigmoid hardswish hypot interpolate layer_norm lerp
    local_response_norm log_softmax logaddexp logaddexp2 logcumsumexp logit logsigmoid logsumexp lp_pool1d lp_pool2d lp_pool3d matrix_norm
    mean mish multilabel_soft_margin_loss mv nanmean nansum norm normalize pairwise_distance pdist pow reciprocal recurrent_step remainder renorm
    rms_norm selu silu sinc sinh softmax softmin softplus softsign special_function std std_mean tan tanhshrink tensordot trapezoid
    triplet_margin_with_distance_loss upsample_bilinear var var_mean vector_norm xlogy einsum inner outer cdist"""
)
EVERY = COMPOSED.union(*LOWER.values(), *SINGLE.values(), *WIDEST.values(), *REFUSED.values())
OPEN = _names("einsum inner tensordot")  # composed of multiplications in the lists, but not listed themselves
OF_THE_FIRST = _names(
    "layer_norm group_norm rms_norm batch_norm_values cosine_embedding_loss"
)  # the first argument may be of halves while the others are float32


class _Here(threading.local):
    """Autocast in this thread. kinds: by the kind of device, the lower dtype and the lists in use. lower: the dtypes that were set for device
    types. caches: whether contexts keep casts by default."""

    kinds: dict[str, tuple[DType, str]] | None = None
    casts: dict[Any, tuple[Node, TensorBase]] | None = None  # of parameters, until the outermost context ends
    lower: dict[str, DType] | None = None
    caches: bool = True


here = _Here()


def follows_policy(function: F, name: str) -> F:
    """The function, computed in the dtype that autocast's lists give for its name; the same function if they do not mention it."""
    if name not in EVERY:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if here.kinds:
            return _under_autocast(function, name, args, kwargs)
        if kwargs and getattr(kwargs.get("dtype"), "is_half", False):
            return _in_single(function, name, args, kwargs)
        if not met.halves:
            return function(*args, **kwargs)
        for value in args:
            if isinstance(value, TensorBase) and value.dtype.is_half:
                return _in_single(function, name, args, kwargs)
        if kwargs:
            for value in kwargs.values():
                if isinstance(value, TensorBase) and value.dtype.is_half:
                    return _in_single(function, name, args, kwargs)
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def policy(name: str) -> Callable[[F], F]:
    """`follows_policy` as a decorator."""
    return lambda function: follows_policy(function, name)


def as_now(function: F) -> F:
    """The function, which always runs under the autocast settings of this moment."""
    kinds = here.kinds

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        before, here.kinds = here.kinds, kinds
        try:
            return function(*args, **kwargs)
        finally:
            here.kinds = before

    return call  # type: ignore[return-value]


def _tensors(value: Any) -> list[TensorBase]:
    """The floating tensors among arguments, in order."""
    if isinstance(value, TensorBase):
        return [value] if value.dtype.is_floating_point else []
    if isinstance(value, list | tuple):
        return [t for item in value for t in _tensors(item)]
    return []


def _exchanged(value: Any, cast: Callable[[TensorBase], TensorBase]) -> Any:
    """Arguments with their floating tensors cast."""
    if isinstance(value, TensorBase):
        return cast(value) if value.dtype.is_floating_point else value
    if type(value) in (list, tuple) and _tensors(value):
        return type(value)(_exchanged(item, cast) for item in value)
    return value


def _called(function: Callable[..., Any], args: Any, kwargs: Any, cast: Callable[[TensorBase], TensorBase]) -> Any:
    return function(*[_exchanged(a, cast) for a in args], **{k: _exchanged(v, cast) for k, v in kwargs.items()})


def _in_single(function: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
    """A composition of halves: computed in float32, with floating results rounded once. A `dtype` argument also applies to the operands,
    which are rounded first.
    """
    asked = None if kwargs.get("dtype") is None else parse_dtype(kwargs["dtype"])
    if asked is not None and asked.is_half:
        args, kwargs = [_exchanged(a, lambda t: t.to(dtype=asked)) for a in args], {**kwargs, "dtype": float32}
    given = [(t.dtype, 2 if t.ndim else 1) for value in (*args, *kwargs.values()) for t in _tensors(value)]
    dtype = promote_operands(given[:1] if name in OF_THE_FIRST else given)
    before, here.kinds = here.kinds, None
    copies: list[tuple[TensorBase, TensorBase, Node]] = []  # of an operand, which a function with inplace=True writes

    def widened(t: TensorBase) -> TensorBase:
        if not t.dtype.is_half:
            return t
        copy = t.to(dtype=float32)
        copies.append((t, copy, copy._node))
        return copy

    try:
        result = _called(function, args, kwargs, widened)
    finally:
        here.kinds = before
    for operand, copy, node in copies:
        if copy is result and copy._node is not node:
            return operand._update_in_place(result.to(dtype=operand.dtype), "inplace")
    if asked is not None:
        return _rounded(result, asked) if asked.is_half else result
    return _rounded(result, dtype) if dtype.is_half and not any(isinstance(a, DType) for a in args) else result


def _rounded(result: Any, dtype: DType) -> Any:
    if isinstance(result, TensorBase):
        return result.to(dtype=dtype) if result.dtype is float32 else result
    if isinstance(result, tuple):
        parts = [_rounded(part, dtype) for part in result]
        return getattr(type(result), "_make", type(result))(parts)
    return result


def _under_autocast(function: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
    given = [t for value in (*args, *kwargs.values()) for t in _tensors(value)]
    kinds = here.kinds
    assert kinds is not None
    state = kinds.get(given[0].device.partition(":")[0]) if given else None
    if state is None:
        return _composed(function, name, args, kwargs, given)
    lower, lists = state
    if name in REFUSED[lists]:
        raise ArgumentError(
            f"{name}() is unsafe to autocast: its gradient in halves is often infinite. Hint: binary_cross_entropy_with_logits, of what the "
            "sigmoid was taken of, or this one within autocast(enabled=False) and of floats."
        )
    if name in LOWER[lists]:
        target = lower
    elif name in SINGLE[lists]:
        target = float32
    elif name in WIDEST[lists]:
        target = float32 if any(t.dtype is float32 for t in given) else lower
    else:
        return _composed(function, name, args, kwargs, given)
    args, kwargs = (
        [_exchanged(a, lambda t: cast_under_autocast(t, target)) for a in args],
        {k: _exchanged(v, lambda t: cast_under_autocast(t, target)) for k, v in kwargs.items()},
    )
    before, here.kinds = here.kinds, None
    try:
        return (
            _in_single(function, name, args, kwargs)
            if target.is_half and name not in WIDEST[lists]
            else function(*args, **kwargs)
        )
    finally:
        here.kinds = before


def _composed(function: Callable[..., Any], name: str, args: Any, kwargs: Any, given: list[TensorBase]) -> Any:
    """A function that no list of autocast names: computed without autocast."""
    if name in COMPOSED - OPEN and any(t.dtype.is_half for t in given):
        return _in_single(function, name, args, kwargs)
    if name in OPEN:
        return function(*args, **kwargs)
    before, here.kinds = here.kinds, None
    try:
        return function(*args, **kwargs)
    finally:
        here.kinds = before


def states_under_autocast(name: str, states: tuple[Any, ...]) -> tuple[Any, ...]:
    """The states of a recurrent layer, in the dtype in which autocast computes it."""
    kind = states[0]._node.device.partition(":")[0]
    lower, lists = (here.kinds or {}).get(kind, (float32, "cpu"))
    return tuple(cast_under_autocast(s, lower) for s in states) if name in RECURRENT[lists] else states


def cast_under_autocast(t: TensorBase, dtype: DType) -> TensorBase:
    """A floating tensor in the dtype of autocast; float64 stays. A parameter is cast once per context."""
    if t.dtype is dtype or t.dtype is float64 or not t.dtype.is_floating_point:
        return t
    casts = here.casts
    if casts is None or mode.heard or not (t.requires_grad and t.is_leaf):  # observed operations may lose their history
        return t.to(dtype=dtype)
    node = t._node
    key = id(node), dtype, mode.grad
    known = casts.get(key)
    if known is None or known[0] is not node:
        known = casts[key] = node, t.to(dtype=dtype)
    return known[1]
