"""PyTorch's own files (.pt, .pth, .bin): read, and written so that PyTorch reads them, without PyTorch.

Such a file is a pickle of objects whose tensors name their memory, and that memory: in a zip archive, or, before PyTorch 1.6, behind the
pickle. Formats: torch/serialization.py and torch/_utils.py of PyTorch 2.
"""

from .reading import OLD, is_pytorch_file, read_pytorch_file, safe_classes
from .writing import write_pytorch_file

__all__ = ["OLD", "is_pytorch_file", "read_pytorch_file", "safe_classes", "write_pytorch_file"]
