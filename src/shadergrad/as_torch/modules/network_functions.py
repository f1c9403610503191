"""torch.layer_norm and similar functions of PyTorch's core, which torch.nn.functional calls, with the core's order of arguments.

The reduction of a loss is a number: 1 is 'mean', 2 is 'sum', any other number, as in PyTorch, is 'none'.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import shadergrad
import shadergrad.nn.functional as F

from ...dtypes import parse_dtype
from ...errors import ArgumentError
from ...tensor import Tensor, arange, tensor

_REDUCTIONS = {1: "mean", 2: "sum"}
_GRID_MODES = ("bilinear", "nearest", "bicubic")
_GRID_PADDINGS = ("zeros", "border", "reflection")


def _reduction(given: int | str) -> str:
    """The name of a reduction."""
    return given if isinstance(given, str) else _REDUCTIONS.get(given, "none")


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """F.layer_norm."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """F.group_norm."""
    return F.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """F.batch_norm."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """F.instance_norm."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """F.embedding, the weight first; -1 is no padding_idx."""
    padding = None if padding_idx == -1 else padding_idx
    return F.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """F.dropout."""
    return F.dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """F.dropout, in place."""
    return F.dropout(input, p, train, inplace=True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """F.alpha_dropout."""
    return F.alpha_dropout(input, p, train)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """F.feature_alpha_dropout."""
    return F.feature_alpha_dropout(input, p, train)


def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """F.threshold."""
    return F.threshold(input, threshold, value)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """F.threshold, in place."""
    return F.threshold(input, threshold, value, inplace=True)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """F.hardshrink."""
    return F.hardshrink(input, lambd)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """F.channel_shuffle."""
    return F.channel_shuffle(input, groups)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int | str = 0,
) -> Tensor:
    """F.binary_cross_entropy_with_logits."""
    return F.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight=pos_weight, reduction=_reduction(reduction)
    )


def kl_div(input: Tensor, target: Tensor, reduction: int | str = 0, *, log_target: bool = False) -> Tensor:
    """F.kl_div."""
    with warnings.catch_warnings():  # the warning says that its mean is over elements
        warnings.simplefilter("ignore")
        return F.kl_div(input, target, reduction=_reduction(reduction), log_target=log_target)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int | str = 0) -> Tensor:
    """F.hinge_embedding_loss."""
    return F.hinge_embedding_loss(input, target, margin=margin, reduction=_reduction(reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int | str = 0
) -> Tensor:
    """F.cosine_embedding_loss."""
    return F.cosine_embedding_loss(input1, input2, target, margin=margin, reduction=_reduction(reduction))


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int | str = 0
) -> Tensor:
    """F.margin_ranking_loss."""
    return F.margin_ranking_loss(input1, input2, target, margin=margin, reduction=_reduction(reduction))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int | str = 0,
) -> Tensor:
    """F.triplet_margin_loss."""
    return F.triplet_margin_loss(
        anchor, positive, negative, margin=margin, p=p, eps=eps, swap=swap, reduction=_reduction(reduction)
    )


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int | str
) -> Tensor:
    """F.poisson_nll_loss."""
    return F.poisson_nll_loss(input, target, log_input=log_input, full=full, eps=eps, reduction=_reduction(reduction))


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int | str = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """F.ctc_loss."""
    return F.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank=blank,
        reduction=_reduction(reduction),
        zero_infinity=zero_infinity,
    )


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """F.grid_sample, whose modes are numbers: bilinear, nearest, bicubic; zeros, border, reflection. ArgumentError for another."""
    if not (0 <= interpolation_mode < len(_GRID_MODES) and 0 <= padding_mode < len(_GRID_PADDINGS)):
        raise ArgumentError(
            f"grid_sampler(): there is no interpolation_mode {interpolation_mode} with padding_mode {padding_mode}. Hint: each is 0, 1 or 2."
        )
    return F.grid_sample(input, grid, _GRID_MODES[interpolation_mode], _GRID_PADDINGS[padding_mode], align_corners)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """F.affine_grid."""
    return F.affine_grid(theta, list(size), align_corners)


def row_stack(tensors: Sequence[Tensor]) -> Tensor:
    """torch.vstack."""
    return shadergrad.vstack(tensors)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """A row of powers for every element of a vector (n,): (n, N), from the highest power on unless increasing. N: n by default."""
    powers = arange(x.shape[0] if N is None else N, device=x.device)
    return x.unsqueeze(-1) ** (powers if increasing else powers.flip(0))


def range(start: float = 0, end: float | None = None, step: float = 1, **options: Any) -> Tensor:
    """Numbers from start to end, both included, in the default dtype; range(n) begins at 0. PyTorch deprecated it for arange."""
    warnings.warn("torch.range is deprecated. Hint: torch.arange, which leaves the end out.", UserWarning, stacklevel=2)
    first, last = (0, start) if end is None else (start, end)
    if step == 0 or (last - first) / step < 0:
        raise ArgumentError(
            f"range(): upper bound and lower bound inconsistent with step sign: {first}, {last}, {step}."
        )
    count = int(np.floor((last - first) / step)) + 1
    dtype = parse_dtype(options.pop("dtype", None) or shadergrad.get_default_dtype())
    return tensor(np.asarray(first + np.arange(count) * step, np.float64), dtype=dtype, **options)


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Whole numbers drawn with the rates in `input`, of its shape and dtype. ArgumentError for a generator."""
    if generator is not None:
        raise ArgumentError("poisson(): draws come from the default generator. Hint: torch.manual_seed.")
    return shadergrad.distributions.Poisson(input, validate_args=False).sample().to(dtype=input.dtype)


def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate, as a copy; a real tensor is returned as it is."""
    return input.conj().clone() if input.dtype.is_complex else input


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """The numbers in the bytes of an object, as a vector. A copy: PyTorch shares the memory."""
    array = np.frombuffer(buffer, parse_dtype(dtype).numpy, count, offset)
    return tensor(array, dtype=dtype, requires_grad=requires_grad)


def _method(name: str) -> Callable[..., Any]:
    """A method of tensors as a function."""

    def called(input: Tensor, *args: Any, **options: Any) -> Any:
        return getattr(input, name)(*args, **options)

    called.__name__ = called.__qualname__ = name
    called.__doc__ = f"input.{name}(...)"
    return called


def _nothing(name: str, answer: Any = None) -> Callable[..., Any]:
    """A setting of PyTorch's core that there is not here, or a question about it."""

    def called(*args: Any, **options: Any) -> Any:
        return answer

    called.__name__ = called.__qualname__ = name
    called.__doc__ = f"Nothing changes. {'' if answer is None else answer}"
    return called


_METHODS = (
    "as_strided_",
    "get_device",
    "i0_",
    "is_conj",
    "is_inference",
    "is_neg",
    "resize_as_",
    "resolve_conj",
    "resolve_neg",
)
_SETTINGS = {
    "init_num_threads": None,
    "is_distributed": False,
    "prepare_multiprocessing_environment": None,
    "set_deterministic_debug_mode": None,
    "set_flush_denormal": False,
    "set_warn_always": None,
}


def max_pool1d_with_indices(input: Tensor, kernel_size: Any, *options: Any, **named: Any) -> Any:
    """The pair (maxima, their positions) of F.max_pool1d; options: stride, padding, dilation and ceil_mode."""
    return F.max_pool1d(input, kernel_size, *options, **named, return_indices=True)


def network_functions() -> dict[str, Any]:
    """All functions by name."""
    own = {
        name: value
        for name, value in globals().items()
        if not name.startswith("_") and getattr(value, "__module__", None) == __name__ and name != "network_functions"
    }
    methods = {name: _method(name) for name in _METHODS if hasattr(Tensor, name)}
    elsewhere = {
        "AcceleratorError": shadergrad.DeviceError,
        "Event": shadergrad.cuda.Event,
        "GradScaler": shadergrad.amp.GradScaler,
        "Stream": shadergrad.cuda.Stream,
        "to_dlpack": shadergrad.utils.dlpack.to_dlpack,
    }
    return own | methods | elsewhere | {name: _nothing(name, answer) for name, answer in _SETTINGS.items()}
