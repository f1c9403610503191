"""sg.save and sg.load: nested containers of tensors and plain values, in a .safetensors file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .arguments import checked
from .checkpoint import load_tensors, pack, save_tensors, unpack
from .errors import CheckpointError, DTypeError
from .tensor import Tensor


@checked
def save(obj: Any, path: str | Path) -> None:
    """Write a state dict, or any nesting of dicts, lists and plain values with tensors inside, with a checksum.

    The file is a safetensors file (PyTorch: pickle). Atomic: a file that was there before is either still whole or
    replaced. Equal values give equal bytes. Raises CheckpointError for other values, among them NaN and infinity
    outside tensors, and where the disk does not take it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sg.save({"weight": sg.ones(2), "epoch": 3}, f"{folder}/model.safetensors")
    ...     sg.load(f"{folder}/model.safetensors")
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    arrays, structure = pack(obj)
    save_tensors(path, arrays, {"structure": structure})


@checked
def load(path: str | Path, device: Any = None) -> Any:
    """What `save` wrote, with tensors on `device` (default: the default device).

    Raises CheckpointError for other files, and for one that is damaged by as little as a bit.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sg.save([sg.ones(2), "text"], f"{folder}/list.safetensors")
    ...     sg.load(f"{folder}/list.safetensors")
    [tensor([1., 1.]), 'text']
    """
    arrays, meta = load_tensors(path)
    try:
        tensors = {name: Tensor(array, dtype=array.dtype, device=device) for name, array in arrays.items()}
        return unpack(tensors, meta["structure"]) if "structure" in meta else tensors
    except (CheckpointError, DTypeError) as error:
        raise CheckpointError(f"cannot load {path}: {error}") from None
