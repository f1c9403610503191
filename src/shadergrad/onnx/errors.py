"""The error of exports to ONNX."""

from ..errors import ShadergradError


class OnnxError(ShadergradError, RuntimeError):
    """A model, or arguments, that cannot be written as ONNX. PyTorch raises a RuntimeError in the same place."""
