"""Switches of PyTorch's backends: there are none of these here; what programs set is kept and without effect."""

from . import cuda, cudnn, mkldnn, mps

__all__ = ["cuda", "cudnn", "mkldnn", "mps"]
