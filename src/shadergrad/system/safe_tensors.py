"""The safetensors package, or where there is none (it is compiled, and no browser has it) the same functions in Python."""

from __future__ import annotations

try:
    from safetensors import SafetensorError, safe_open
    from safetensors.numpy import load_file, save
except ImportError:
    from .safe_tensors_python import SafetensorError, load_file, safe_open, save

__all__ = ["SafetensorError", "load_file", "safe_open", "save"]
