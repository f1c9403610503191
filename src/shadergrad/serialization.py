"""sg.save and sg.load: nested containers of tensors and plain values, in a .safetensors file."""

from __future__ import annotations

import io
import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .arguments import checked
from .checkpoint import load_tensors, pack, save_tensors, unpack
from .errors import ArgumentTypeError, CheckpointError, DTypeError
from .pytorch_files import OLD, is_pytorch_file, read_pytorch_file
from .system.atomic_files import replacing
from .tensor import Tensor

PICKLED = b"shadergrad pickle 1\n"  # what a file begins with that holds more than data

# Where classes and functions are now that pickled files of earlier versions name: all of a module, or single ones.
RENAMED_MODULES = {
    "shadergrad.autograd.modes": "shadergrad.autograd.grad_mode",
    "shadergrad.compiled": "shadergrad.compiled_module",
    "shadergrad.data.folder": "shadergrad.data.image_folder",
    "shadergrad.data.images": "shadergrad.data.image_datasets",
    "shadergrad.distributions.composed": "shadergrad.distributions.derived",
    "shadergrad.distributions.gammas": "shadergrad.distributions.gamma_family",
    "shadergrad.fft.frames": "shadergrad.fft.short_time",
    "shadergrad.fft.helpers": "shadergrad.fft.frequencies",
    "shadergrad.linalg.older": "shadergrad.linalg.top_level",
    "shadergrad.nn.bags": "shadergrad.nn.embedding_bags",
    "shadergrad.nn.packed": "shadergrad.nn.packed_sequence",
    "shadergrad.nn.state": "shadergrad.nn.state_dicts",
    "shadergrad.nn.utils.norms": "shadergrad.nn.utils.weight_and_spectral_norm",
    "shadergrad.signal.older": "shadergrad.signal.top_level",
    "shadergrad.special.older": "shadergrad.special.top_level",
    "shadergrad.train.best": "shadergrad.train.best_checkpoint",
    "shadergrad.train.schedule": "shadergrad.train.lr_schedule",
}
MOVED_CLASSES = {
    ("shadergrad.tensor.handle", "Tensor"): "shadergrad.tensor.public",
    ("shadergrad.tensor.base", "Size"): "shadergrad.tensor.description",
    ("shadergrad.plan", "Target"): "shadergrad.target",
    ("shadergrad.tensor.gradients", "RemovableHandle"): "shadergrad.tensor.hooks",
}


@checked
def save(obj: Any, path: Any) -> None:
    """Write a state dict, or any nesting of dicts, lists and plain values with tensors inside, with a checksum.

    path: of a file, or a binary file object, such as io.BytesIO(). The file is a safetensors file. Other objects, such as a whole
    module or optimizer, are pickled; `load` reads them only with weights_only=False. Atomic: a file that was there before is either still whole or
    replaced. Equal values give equal bytes. Raises CheckpointError for other values, among them NaN and infinity
    outside tensors, and where the disk does not take it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sg.save({"weight": sg.ones(2), "epoch": 3}, f"{folder}/model.safetensors")
    ...     sg.load(f"{folder}/model.safetensors")
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    if not (isinstance(path, str | Path) or hasattr(path, "write")):
        raise ArgumentTypeError(f"save(): argument 'path' must be str or Path or a file, not {type(path).__name__}.")
    file: Any = path
    if _has_objects(obj):
        data = PICKLED + _pickled(obj)
        if hasattr(path, "write"):
            file.write(data)
            return
        with replacing(Path(path), CheckpointError) as opened:
            opened.write(data)
        return
    arrays, structure = pack(obj)
    if not hasattr(path, "write"):
        save_tensors(path, arrays, {"structure": structure})
        return
    with tempfile.TemporaryDirectory() as folder:
        save_tensors(Path(folder) / "file", arrays, {"structure": structure})
        file.write((Path(folder) / "file").read_bytes())


def _has_objects(obj: Any) -> bool:
    """Whether there are modules, optimizers or other objects of classes, that tensors and plain data are not."""
    if isinstance(obj, Mapping):
        return any(map(_has_objects, obj.values()))
    if type(obj) in (list, tuple):
        return any(map(_has_objects, obj))
    return not isinstance(obj, Tensor) and hasattr(obj, "state_dict")


def _pickled(obj: Any) -> bytes:
    try:
        return pickle.dumps(obj)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise CheckpointError(f"cannot save this: {error}. Hint: save its state_dict().") from None


@checked
def load(
    path: Any,
    map_location: Any = None,
    *,
    device: Any = None,
    weights_only: bool = True,
    mmap: bool | None = None,
    encoding: str = "utf-8",
) -> Any:
    """What `save` wrote, or PyTorch's torch.save, from a path or a binary file object, with tensors on `device`, also called map_location.

    Files of PyTorch's (.pt, .pth, .bin) are read without it. The state that an exported page saved, or `sg.web.save_state`, is a dict by
    role/name. encoding: of texts in such files of PyTorch's that Python 2 wrote. mmap is a hint, and changes nothing: tensors get memory of their own.
    map_location: a device, a function (then the cpu device), or a dict of devices to devices (the one that it names). Without
    one, tensors go to the default device. weights_only=False: also files that were pickled, which run code as they are read: of
    people whom you trust. Raises CheckpointError for other files, and for one that is damaged by as little as a bit.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sg.save([sg.ones(2), "text"], f"{folder}/list.safetensors")
    ...     sg.load(f"{folder}/list.safetensors")
    [tensor([1., 1.]), 'text']
    """
    if map_location is not None:
        device = _located(map_location)
    if hasattr(path, "read"):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "file").write_bytes(path.read())
            return load(Path(folder) / "file", device=device, weights_only=weights_only, encoding=encoding)
    if not isinstance(path, str | Path):
        raise ArgumentTypeError(f"load(): argument 'path' must be str or Path or a file, not {type(path).__name__}.")
    beginning = _beginning(path)
    if is_pytorch_file(beginning):
        return _of_pytorch(path, device, weights_only, encoding)
    if beginning.startswith(PICKLED):
        if not weights_only:
            return _unpickled(Path(path), device)
        raise CheckpointError(
            f"cannot load {path}: it holds objects, and reading it runs their code. Hint: weights_only=False, if you trust it."
        )
    arrays, meta = load_tensors(path, states=True)
    try:
        tensors = {name: Tensor(array, dtype=array.dtype, device=device) for name, array in arrays.items()}
        return unpack(tensors, meta["structure"]) if "structure" in meta else tensors
    except (CheckpointError, DTypeError) as error:
        raise CheckpointError(f"cannot load {path}: {error}") from None


def _beginning(path: str | Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(max(len(PICKLED), len(OLD)))
    except OSError:
        return b""  # load_tensors raises the error


def _of_pytorch(path: str | Path, device: Any, weights_only: bool, encoding: str) -> Any:
    try:
        with open(path, "rb") as file:
            return read_pytorch_file(file, device, weights_only, encoding)
    except (CheckpointError, DTypeError, OSError) as error:
        raise CheckpointError(f"cannot load {path}: {error}") from None


class _Unpickler(pickle.Unpickler):
    """Also reads pickled files of earlier versions, which name classes where they were."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        now = RENAMED_MODULES.get(module_name, module_name)
        return super().find_class(MOVED_CLASSES.get((module_name, global_name), now), global_name)


def _unpickled(path: Path, device: Any) -> Any:
    file = io.BytesIO(path.read_bytes()[len(PICKLED) :])
    try:
        found = _Unpickler(file).load()
    except Exception as error:
        raise CheckpointError(f"cannot load {path}: {type(error).__name__}: {error}.") from None
    return found if device is None else _moved(found, device)


def _moved(obj: Any, device: Any) -> Any:
    """With its tensors and modules on a device."""
    if isinstance(obj, Mapping):
        return {k: _moved(v, device) for k, v in obj.items()}
    if type(obj) in (list, tuple):
        return type(obj)(_moved(v, device) for v in obj)
    return obj.to(device) if isinstance(obj, Tensor) or hasattr(obj, "named_modules") else obj


def _located(map_location: Any) -> Any:
    """The device that a map_location means."""
    if callable(map_location) and not isinstance(map_location, str):
        return "cpu"
    if isinstance(map_location, Mapping):
        targets = set(map_location.values())
        if len(targets) != 1:
            raise CheckpointError(f"cannot load to {map_location}: tensors go to one device. Hint: map_location='cpu'.")
        return targets.pop()
    return map_location
