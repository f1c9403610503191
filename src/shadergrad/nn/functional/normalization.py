"""Normalisation over a batch, a layer, groups of channels or single images.

Mean and variance of rows take two passes (the variance of centred values), which the compiler fuses into one kernel. Those
of a batch, whose elements are not contiguous, take one pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...dtypes import FloatLimits
from ...errors import ShapeError
from ...graph.node import grad_mode, make
from ...primitives.batch_norm import BatchNorm, moments
from ...tensor import Tensor
from ...tensor.composed import composed
from ...tensor.handle import wrap
from ...tensor.precision import policy
from ..errors import ArgumentError
from .device_overrides import overridable

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm"]


def _normalized(x: Tensor, axes: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(var + eps), mean, var, the last two with their axes kept."""
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    var = (centred * centred).mean(axes, keepdim=True)
    return centred * (var + eps).rsqrt(), mean, var


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int]) -> Tensor:
    """x * weight + bias, both of `shape`. The nodes of the bias are made first, so that the weight gets its gradient first; hooks in PyTorch
    observe this order.
    """
    shift = None if bias is None else bias.reshape(*shape).expand(x.shape)
    if weight is not None:
        x = x * weight.reshape(*shape)
    return x if shift is None else x + shift


def _check_values(size: Sequence[int]) -> None:
    if size[0] * math.prod(size[2:]) == 1:
        raise ArgumentError(f"Expected more than 1 value per channel when training, got input size {list(size)}")


def _moved(running: Tensor, value: Tensor, momentum: float | Tensor) -> Tensor:
    """(1 - momentum) running + momentum value."""
    value = value.reshape(*running.shape).to(dtype=running.dtype)
    return running * (1.0 - momentum) + value * momentum


def _track(running: Tensor | None, value: Tensor, momentum: float | Tensor) -> None:
    """running = (1 - momentum) running + momentum value, in place."""
    if running is not None:
        with grad_mode(False):
            running.copy_(_moved(running, value.detach(), momentum))


@policy("batch_norm_values")
@composed
def _normalized_batch(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float | Tensor,
    eps: float,
) -> tuple[Tensor, ...]:
    """The input normalised by its own mean and variance, times weight plus bias; the next running mean and variance, if there are
    running ones."""
    axes, shape = (0, *range(2, x.ndim)), (1, x.shape[1], *(1,) * (x.ndim - 2))
    with grad_mode(False):
        mean, var = map(wrap, moments(x._node, axes))
        value = _affine((x - mean) * (var + eps).rsqrt(), weight, bias, shape)
        count = x.numel() // x.shape[1]
        unbiased = var * (count / max(count - 1, 1))
        pairs = [(running_mean, mean), (running_var, unbiased)]
        tracked = [_moved(running, new, momentum) for running, new in pairs if running is not None]
    affine = [t._node for t in (weight, bias) if t is not None]
    history = BatchNorm(eps, weight is not None, bias is not None)
    return wrap(make(history, value._node, x._node, mean._node, var._node, *affine)), *tracked


@policy("batch_norm_values")
def _by_running(
    x: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """The input normalised by the running statistics."""
    shape = (1, x.shape[1], *(1,) * (x.ndim - 2))
    scale = (running_var + eps).rsqrt().reshape(*shape)
    return _affine((x - running_mean.reshape(*shape)) * scale, weight, bias, shape)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Every channel, axis 1, to mean 0 and variance 1 over all other axes (Ioffe and Szegedy, 2015).

        (x - mean) / sqrt(var + eps) * weight + bias        all of these (C,)

    training: uses mean and variance of this input, and updates the running ones in place: (1 - momentum) running +
    momentum new, with the unbiased variance. Otherwise the running ones are used.
    ShapeError if the number of channels differs; ArgumentError for a single value a channel in training, no running
    statistics outside it, or an eps below 0 (in training, at 0).

    >>> F.batch_norm(sg.tensor([[1.0], [3.0]]), None, None, training=True, eps=1e-12)
    tensor([[-1.],
            [ 1.]])
    >>> F.batch_norm(sg.tensor([[1.0], [3.0]]), sg.tensor([1.0]), sg.tensor([4.0]), eps=0.0)
    tensor([[0.],
            [1.]])
    """
    if input.ndim == 1 and not input.numel():
        return input * 1.0 if weight is None else input * weight + (0.0 if bias is None else bias)
    channels = input.shape[1] if input.ndim > 1 else 0
    named = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    for name, tensor in named.items():
        if tensor is not None and tensor.numel() != channels:
            raise ShapeError(f"{name} should contain {channels} elements not {tensor.numel()}")
    if eps < 0.0 or (training and eps <= 0.0):
        need = "positive during training" if training else "non-negative"
        raise ArgumentError(f"batch_norm eps must be {need}, but got {eps}")
    if (running_mean is None) != (running_var is None):
        raise ArgumentError("batch_norm(): Expected running_mean and running_var to be defined together, or neither")
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError("batch_norm(): Expected running_mean and running_var to be defined when training=False")
        return _by_running(input, running_mean, running_var, weight, bias, eps)
    _check_values(input.shape)
    if not input.numel():  # nothing to learn from
        return _affine(input * 1.0, weight, bias, (1, channels, *(1,) * (input.ndim - 2)))
    result, *tracked = _normalized_batch(input, running_mean, running_var, weight, bias, momentum, eps)
    with grad_mode(False):
        for running, value in zip((running_mean, running_var), tracked, strict=False):
            assert running is not None
            running.copy_(value)
    return result


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Every channel of every sample, (N, C, ...), to mean 0 and variance 1 (Ulyanov et al., 2016).

    weight, bias and running statistics (C,): as for batch_norm. use_input_stats=False uses the running ones.
    ArgumentError for a single value a channel.

    >>> F.instance_norm(sg.tensor([[[1.0, 3.0], [10.0, 30.0]]]), eps=1e-12)
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    shape = (1, input.shape[1], *(1,) * (input.ndim - 2))
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = math.prod(input.shape[2:])
    if count == 1:
        raise ArgumentError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    result, mean, var = _normalized(input, tuple(range(2, input.ndim)), eps)
    _track(running_mean, mean.mean(0), momentum)
    _track(running_var, var.mean(0) * (count / max(count - 1, 1)), momentum)
    return _affine(result, weight, bias, shape)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Groups of channels of every sample, (N, C, ...), to mean 0 and variance 1 (Wu and He, 2018).

    weight and bias: (C,). ShapeError if num_groups does not divide the channels, or there are fewer than 2 axes.

    >>> F.group_norm(sg.tensor([[1.0, 3.0, 10.0, 30.0]]), 2, eps=1e-12)
    tensor([[-1.,  1., -1.,  1.]])
    """
    if input.ndim < 2:
        raise ShapeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    n, channels = input.shape[:2]
    if num_groups <= 0 or channels % num_groups:
        raise ShapeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    _check_values([n * channels // num_groups, num_groups, *input.shape[2:]])
    if not input.numel():
        return _affine(input * 1.0, weight, bias, (1, channels, *(1,) * (input.ndim - 2)))
    result, _, _ = _normalized(input.reshape(n, num_groups, -1), (2,), eps)
    return _affine(result.reshape(input.shape), weight, bias, (1, channels, *(1,) * (input.ndim - 2)))


def _trailing(input: Tensor, normalized_shape: Sequence[int], star: str, **tensors: Tensor | None) -> tuple[int, ...]:
    """The trailing axes that are normalised, after checks."""
    wanted = list(normalized_shape)
    if not wanted:
        raise ShapeError(f"Expected normalized_shape to be at least 1-dimensional, but got normalized_shape={wanted}")
    if list(input.shape[input.ndim - len(wanted) :]) != wanted or len(wanted) > input.ndim:
        raise ShapeError(
            f"Given normalized_shape={wanted}, expected input with shape [*{star}{', '.join(map(str, wanted))}], but got "
            f"input of size{list(input.shape)}"
        )
    for name, tensor in tensors.items():
        if tensor is not None and list(tensor.shape) != wanted:
            raise ShapeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(tensor.shape)} "
                f"and normalized_shape = {wanted}"
            )
    return tuple(range(input.ndim - len(wanted), input.ndim))


@overridable
@composed
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """The trailing axes, of normalized_shape, to mean 0 and variance 1 (Ba et al., 2016).

    weight and bias: of normalized_shape. ShapeError if the input does not end in it, or they differ from it.

    >>> F.layer_norm(sg.tensor([[1.0, 3.0], [10.0, 30.0]]), (2,), bias=sg.tensor([5.0, 0.0]), eps=1e-12)
    tensor([[4., 1.],
            [4., 1.]])
    """
    axes = _trailing(input, normalized_shape, ", ", weight=weight, bias=bias)
    result, _, _ = _normalized(input, axes, eps)
    return _affine(result, weight, bias, normalized_shape)


@composed
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over the trailing axes, of normalized_shape (Zhang and Sennrich, 2019).

    weight: of normalized_shape. eps: by default the difference of 1 and the next number of the dtype. Errors: as for
    layer_norm.

    >>> F.rms_norm(sg.tensor([1.0, 7.0]), (2,))
    tensor([0.2, 1.4])
    """
    axes = _trailing(input, normalized_shape, "", weight=weight)
    small = float(FloatLimits.of(input.dtype).eps) if eps is None else eps
    result = input * ((input * input).mean(axes, keepdim=True) + small).rsqrt()
    return _affine(result, weight, None, normalized_shape)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha mean(x^2))^beta, the mean over `size` neighbouring channels, axis 1 (Krizhevsky et al., 2012).

    ShapeError for fewer than 3 axes.

    >>> F.local_response_norm(sg.ones(1, 2, 1), 2, alpha=6.0, k=1.0, beta=1.0)
    tensor([[[0.25  ],
             [0.1429]]])
    """
    if input.ndim < 3:
        raise ShapeError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if not input.numel():
        return input
    square = (input * input).pad([0, 0] * (input.ndim - 2) + [size // 2, (size - 1) // 2])
    total = square.unfold(1, size, 1).sum(-1)
    mean = total.div(size, rounding_mode=None if input.is_floating_point() else "trunc")
    return input / (mean * alpha + k) ** beta
