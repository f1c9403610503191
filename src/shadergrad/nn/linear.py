"""Linear maps."""

from __future__ import annotations

import math
from typing import Any

from ..tensor import Tensor, empty
from . import functional as F
from . import init
from .arguments import whole
from .module import Module
from .parameter import Parameter

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """The input, unchanged; any arguments of the constructor are taken and ignored.

    >>> nn.Identity(54, anything=True)(sg.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """x @ weight.T + bias; x (..., in_features) gives (..., out_features).

    weight (out_features, in_features) and bias (out_features,) start uniform on +-1/sqrt(in_features), as in PyTorch.
    Raises ArgumentError for negative sizes, ShapeError for an input of other features.

    >>> layer = nn.Linear(3, 2)
    >>> layer(sg.ones(4, 3)).shape
    shadergrad.Size([4, 2])
    >>> layer.weight.shape, layer.bias.shape
    (shadergrad.Size([2, 3]), shadergrad.Size([2]))
    """

    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = whole("Linear", "in_features", in_features, 0)
        self.out_features = whole("Linear", "out_features", out_features, 0)
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = 1.0 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """x1 @ weight[k] @ x2 + bias[k] for every output k.

    x1 (..., in1_features) and x2 (..., in2_features) give (..., out_features).
    weight (out_features, in1_features, in2_features) and bias (out_features,) start uniform on +-1/sqrt(in1_features).
    Raises ShapeError for inputs of other features, or of different leading axes.

    >>> nn.Bilinear(3, 4, 2)(sg.ones(5, 3), sg.ones(5, 4)).shape
    shadergrad.Size([5, 2])
    """

    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features = whole("Bilinear", "in1_features", in1_features, 1)
        self.in2_features = whole("Bilinear", "in2_features", in2_features, 0)
        self.out_features = whole("Bilinear", "out_features", out_features, 0)
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = 1.0 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
