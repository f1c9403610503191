"""sg.save and sg.load: nested containers of tensors and plain values, in a .safetensors file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .checkpoint import load_tensors, pack, save_tensors, unpack
from .tensor import Tensor


def save(obj: Any, path: str | Path) -> None:
    """Write a state dict, or any nesting of dicts, lists and plain values with tensors inside. Atomic: a file that was
    there before is either still whole or replaced."""
    arrays, structure = pack(obj)
    save_tensors(path, arrays, {"structure": structure})


def load(path: str | Path, device: Any = None) -> Any:
    """What `save` wrote, with tensors on `device` (default: the default device). Raises CheckpointError on other files."""
    arrays, meta = load_tensors(path)
    tensors = {name: Tensor(array, dtype=array.dtype, device=device) for name, array in arrays.items()}
    return unpack(tensors, meta["structure"]) if "structure" in meta else tensors
