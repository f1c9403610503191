"""Layer and group normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tensor import Tensor, ones, zeros
from . import functional as F
from . import init
from .arguments import sizes, whole
from .errors import ArgumentError
from .module import Module
from .parameter import Parameter

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _Affine(Module):
    """Base: weight starts as ones, bias as zeros, both of one shape, or None."""

    weight: Parameter | None
    bias: Parameter | None

    def _make_affine(self, shape: Sequence[int], weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, wanted, make in (("weight", weight, ones), ("bias", bias, zeros)):
            self.register_parameter(name, Parameter(make(*shape, device=device, dtype=dtype)) if wanted else None)

    def reset_parameters(self) -> None:
        """Set weight to ones and bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Affine):
    """The trailing axes, of normalized_shape, to mean 0 and variance 1, then times weight plus bias (Ba et al., 2016).

    (x - mean) / sqrt(var + eps) * weight + bias; the shape stays. weight and bias, of normalized_shape, start as ones
    and zeros; there is none without elementwise_affine. Raises ShapeError if the trailing axes are others.

    >>> nn.LayerNorm(2)(sg.tensor([[1.0, 3.0], [20.0, 10.0]])).detach()
    tensor([[-1.,  1.],
            [ 1., -1.]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = sizes(type(self).__name__, "normalized_shape", normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make_affine(self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """The trailing axes, of normalized_shape, to mean square 1, then times weight (Zhang and Sennrich, 2019).

    x / sqrt(mean(x^2) + eps) * weight; the shape stays. weight, of normalized_shape, starts as ones; there is none
    without elementwise_affine. eps: by default that of the input's dtype. Raises ShapeError if the trailing axes are
    others.

    >>> nn.RMSNorm(2)(sg.tensor([[3.0, 3.0], [0.0, 2.0]])).detach()
    tensor([[1.    , 1.    ],
            [0.    , 1.4142]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = sizes(type(self).__name__, "normalized_shape", normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter("weight", None)
        if elementwise_affine:
            self.weight = Parameter(ones(*self.normalized_shape, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set weight to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Groups of channels of every sample, (N, C, ...), to mean 0 and variance 1 (Wu and He, 2018).

    (x - mean) / sqrt(var + eps) * weight + bias; the shape stays. weight and bias (C,) start as ones and zeros; there
    is none without affine. Raises ArgumentError if num_groups does not divide num_channels, ShapeError for an input
    of other channels.

    >>> nn.GroupNorm(1, 2)(sg.tensor([[1.0, 3.0], [20.0, 10.0]])).detach()
    tensor([[-1.,  1.],
            [ 1., -1.]])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if whole("GroupNorm", "num_channels", num_channels, 0) % whole("GroupNorm", "num_groups", num_groups, 1):
            raise ArgumentError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_affine((num_channels,), affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """x / (k + alpha mean(x^2))^beta, the mean over `size` neighbouring channels (Krizhevsky et al., 2012).

    (N, C, ...), with zeros beyond the first and last channel; the shape stays. Raises ShapeError for fewer than 3 axes.

    >>> nn.LocalResponseNorm(2, alpha=6.0, beta=1.0)(sg.ones(1, 2, 1))
    tensor([[[0.25  ],
             [0.1429]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
