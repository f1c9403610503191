"""Batch and instance normalisation, with running statistics.

running_mean, running_var and num_batches_tracked are buffers, changed in place by every forward pass in training, so
that a compiled step keeps them on the device.
"""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

from ..distributed import get_world_size
from ..distributed.channels import sum_channel
from ..drive import execute
from ..drive.tracing import current
from ..dtypes import float32, int32
from ..graph.node import grad_mode
from ..primitives.exchange import exchanged
from ..tensor import Tensor, cat, full, ones, zeros
from . import functional as F
from .arguments import takes_tensors, whole
from .errors import ArgumentError
from .normalization import _Affine

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "SyncBatchNorm",
]

_layers = (
    itertools.count()
)  # numbers the layers that exchange values, in the order of their creation, which is the same in all processes


class _Tracking(_Affine):
    """Base: weight, bias and running statistics of num_features channels."""

    ranks: ClassVar[tuple[int, ...]] = ()  # permitted numbers of axes of the input
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    _version = 2  # version 2 added num_batches_tracked

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = whole(type(self).__name__, "num_features", num_features, 0)
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._make_affine((num_features,), affine, affine and bias, device, dtype)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("num_batches_tracked", zeros(device=device, dtype=int32) if tracked else None)

    def reset_running_stats(self) -> None:
        """Set running_mean to 0, running_var to 1 and num_batches_tracked to 0."""
        for buffer, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if buffer is not None:
                buffer.fill_(value)

    def reset_parameters(self) -> None:
        """Set weight to ones, bias to zeros, and the running statistics to their initial values."""
        self.reset_running_stats()
        super().reset_parameters()

    def _load_from_state_dict(  # type: ignore[override]
        self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, *others: Any
    ) -> None:
        """A state without a version may lack num_batches_tracked, which then stays."""
        key = f"{prefix}num_batches_tracked"
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats and key not in state_dict:
            state_dict[key] = zeros((), dtype=int32) if self.num_batches_tracked is None else self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            expected = " or ".join(f"{n}D" for n in self.ranks)
            raise ArgumentError(f"expected {expected} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Tracking):
    @takes_tensors
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        training, tracked = self.training, self.num_batches_tracked
        momentum: float | Tensor = 0.0 if self.momentum is None else self.momentum
        if training and tracked is not None:
            with grad_mode(False):
                tracked.add_(1)
                if self.momentum is None:  # the mean over all batches
                    momentum = 1.0 / tracked.to(dtype=input.dtype)
        uses_batch = training or self.running_mean is None
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, uses_batch, momentum, self.eps
        )


class BatchNorm1d(_BatchNorm):
    """Normalizes every channel of (N, C) or (N, C, L) to mean 0 and variance 1 over the batch, then applies weight and bias.

    (x - mean) / sqrt(var + eps) * weight + bias (Ioffe and Szegedy, 2015); the shape stays. weight and bias (C,) start
    as ones and zeros.

    Training uses the batch's statistics, and moves the buffers running_mean and running_var (C,) towards them by
    `momentum`; with momentum None they are the mean over all batches. The unbiased variance is tracked. eval() uses the
    running statistics, unless track_running_stats is False. num_batches_tracked is int32, not int64.
    Raises ArgumentError for another number of axes and, in training, for a single value per channel; ShapeError for an
    input with another number of channels.

    >>> layer = nn.BatchNorm1d(1)
    >>> layer(sg.tensor([[1.0], [3.0]])).detach()
    tensor([[-1.],
            [ 1.]])
    >>> layer.running_mean, layer.running_var  # 0.9 * 0 + 0.1 * 2, 0.9 * 1 + 0.1 * 2
    (tensor([0.2]), tensor([1.1]))
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalizes every channel of (N, C, H, W) to mean 0 and variance 1 over the batch, then applies weight and bias.

    Otherwise as BatchNorm1d.

    >>> layer = nn.BatchNorm2d(3)
    >>> layer(sg.ones(2, 3, 4, 4)).shape, layer.num_batches_tracked
    (shadergrad.Size([2, 3, 4, 4]), tensor(1))
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalizes every channel of (N, C, D, H, W) to mean 0 and variance 1 over the batch, then applies weight and bias.

    Otherwise as BatchNorm1d.

    >>> nn.BatchNorm3d(3)(sg.ones(2, 3, 4, 4, 4)).shape
    shadergrad.Size([2, 3, 4, 4, 4])
    """

    ranks = (5,)


class _InstanceNorm(_Tracking):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _load_from_state_dict(  # type: ignore[override]
        self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, *others: Any
    ) -> None:
        """A state without a version may hold statistics that are not tracked any more: they are refused with the reason."""
        names = [name for name in ("running_mean", "running_var") if prefix + name in state_dict]
        if local_metadata.get("version") is None and not self.track_running_stats and names:
            for name in names:
                del state_dict[prefix + name]
            problems = others[3]
            problems.append(
                f"Unexpected running stats buffer(s) {' and '.join(names)} for {type(self).__name__} with "
                "track_running_stats=False. Hint: take them out of state_dict, or track_running_stats=True."
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    @takes_tensors
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = input.ndim == self.ranks[0]
        channel_axis = input.ndim - self.ranks[0]
        if self.affine and input.shape[channel_axis] != self.num_features:
            raise ArgumentError(
                f"expected input's size at dim={channel_axis} to match num_features ({self.num_features}), but got: "
                f"{input.shape[channel_axis]}."
            )
        result = F.instance_norm(
            input.unsqueeze(0) if unbatched else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result.squeeze(0) if unbatched else result


class InstanceNorm1d(_InstanceNorm):
    """Normalizes every channel of every sample, (N, C, L) or (C, L), to mean 0 and variance 1 (Ulyanov et al., 2016).

    The shape stays. affine: then applies weight and bias (C,), which start as ones and zeros. track_running_stats: as in
    BatchNorm1d; both are off by default. Raises ArgumentError for another number of axes, for a single element per
    channel, and, with affine, for another number of channels.

    >>> nn.InstanceNorm1d(1)(sg.tensor([[1.0, 3.0]]))
    tensor([[-1.,  1.]])
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalizes every channel of every sample, (N, C, H, W) or (C, H, W), to mean 0 and variance 1; otherwise as InstanceNorm1d.

    >>> nn.InstanceNorm2d(1)(sg.tensor([[[1.0, 3.0], [3.0, 1.0]]]))
    tensor([[[-1.,  1.],
             [ 1., -1.]]])
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalizes every channel of every sample, (N, C, D, H, W) or (C, D, H, W), to mean 0 and variance 1; otherwise as InstanceNorm1d.

    >>> nn.InstanceNorm3d(3, affine=True)(sg.ones(2, 3, 4, 4, 4)).shape
    shadergrad.Size([2, 3, 4, 4, 4])
    """

    ranks = (4, 5)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of two or more axes, whose training statistics are those of the batches of all processes.

    process_group: by default all processes; without a group it is a BatchNorm. The two sums are exchanged one after the other, so that the
    variance is as exact as that of one batch. Raises ArgumentError for fewer than two axes.

    >>> layer = nn.SyncBatchNorm(1)
    >>> layer(sg.tensor([[1.0], [3.0]])).detach()
    tensor([[-1.],
            [ 1.]])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group
        self._number = next(_layers)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ArgumentError(f"expected at least 2D input (got {input.ndim}D input)")

    @takes_tensors
    def forward(self, input: Tensor) -> Tensor:
        uses_batch = self.training or self.running_mean is None
        if not uses_batch or get_world_size(self.process_group) <= 1:
            return super().forward(input)
        self._check_input_dim(input)
        axes = [k for k in range(input.ndim) if k != 1]
        shape = [1, -1, *([1] * (input.ndim - 2))]
        counted = full((1,), float(input.numel() // input.shape[1]), device=input.device)
        x = input.to(float32) if input.dtype.is_half else input  # 16 bits hold neither the count nor the sum of squares
        sums = self._of_all(cat([x.sum(axes), counted.to(dtype=x.dtype)]), 0)
        count = sums[-1]
        mean = sums[:-1] / count
        centred = x - mean.reshape(shape)
        var = self._of_all((centred * centred).sum(axes), 1) / count
        if self.training and self.running_mean is not None:
            self._track(mean, var, count)
        result = centred * (var + self.eps).rsqrt().reshape(shape)
        if self.weight is not None:
            result = result * self.weight.reshape(shape)
        if self.bias is not None:
            result = result + self.bias.reshape(shape)
        return result.to(input.dtype)

    def _of_all(self, value: Tensor, which: int) -> Tensor:
        """The sum over all processes; outside compiled steps immediately, in program order."""
        node = exchanged(value._node, sum_channel(self.process_group), 2 * self._number + which)
        if current.trace is None:
            execute.realize([node])
        return Tensor._of(node)

    def _track(self, mean: Tensor, var: Tensor, count: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        with grad_mode(False):
            self.num_batches_tracked.add_(1)
            momentum: Any = self.momentum
            if momentum is None:
                momentum = 1.0 / self.num_batches_tracked.to(dtype=mean.dtype)
            unbiased = var * (count / (count - 1.0))
            self.running_mean.copy_(self.running_mean * (1.0 - momentum) + mean * momentum)
            self.running_var.copy_(self.running_var * (1.0 - momentum) + unbiased * momentum)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """The module, with a SyncBatchNorm of the same parameters and buffers in place of each BatchNorm."""
        converted = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            converted.training = module.training
            for table in ("_parameters", "_buffers"):
                getattr(converted, table).update(getattr(module, table))
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
