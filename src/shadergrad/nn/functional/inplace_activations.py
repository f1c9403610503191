"""In-place activations, under PyTorch's names."""

from __future__ import annotations

from ...tensor import Tensor
from .activations import celu, elu, hardtanh, leaky_relu, relu, rrelu, selu
from .activations import threshold as threshold_of

__all__ = ["celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_"]


def relu_(input: Tensor) -> Tensor:
    """`relu`, in place; returns the tensor. Raises AutogradError for a leaf that requires gradients.

    >>> F.relu_(sg.tensor([-2.0, 3.0]))
    tensor([0., 3.])
    """
    return relu(input, True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu`, in place; returns the tensor. Raises AutogradError for a leaf that requires gradients.

    >>> F.leaky_relu_(sg.tensor([-4.0, 2.0]), 0.25)
    tensor([-1.,  2.])
    """
    return leaky_relu(input, negative_slope, True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu`, in place; returns the tensor. Raises AutogradError for a leaf that requires gradients.

    >>> F.elu_(sg.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """
    return elu(input, alpha, True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu`, in place; returns the tensor. Raises AutogradError for a leaf that requires gradients.

    >>> F.celu_(sg.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """
    return celu(input, alpha, True)


def selu_(input: Tensor) -> Tensor:
    """`selu`, in place; returns the tensor. Raises AutogradError for a leaf that requires gradients.

    >>> F.selu_(sg.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return selu(input, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh`, in place; returns the tensor. Raises AutogradError for a leaf that requires gradients.

    >>> F.hardtanh_(sg.tensor([-4.0, 0.5]))
    tensor([-1. ,  0.5])
    """
    return hardtanh(input, min_val, max_val, True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold`, in place; returns the tensor. Raises AutogradError for a leaf that requires gradients.

    >>> F.threshold_(sg.tensor([-4.0, 2.0]), 0.0, 9.0)
    tensor([9., 2.])
    """
    return threshold_of(input, threshold, value, True)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`rrelu`, in place; returns the tensor. Raises AutogradError for a leaf that requires gradients.

    >>> F.rrelu_(sg.tensor([-4.0, 2.0]), 0.25, 0.75)
    tensor([-2.,  2.])
    """
    return rrelu(input, lower, upper, training, True)
