"""Weights of few bits: `quantize` and the layers that it puts in the place of nn.Linear and nn.Embedding."""

from .convert import quantize
from .layers import QuantizedEmbedding, QuantizedLinear

__all__ = ["QuantizedEmbedding", "QuantizedLinear", "quantize"]
