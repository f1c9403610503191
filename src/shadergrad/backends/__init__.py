"""PyTorch's switches of backends. This library has none of those backends: it stores the switches, and they have no effect."""

from . import cuda, cudnn, mkldnn, mps

__all__ = ["cuda", "cudnn", "mkldnn", "mps"]
