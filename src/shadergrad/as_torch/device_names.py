"""The device behind the name 'cuda' under `shadergrad run`. In: the name in the program. Out: a device of this process.

If a program chooses a device by name, only the tensors that it moves there are on it, as with CUDA. If it names no device, all its
tensors are made on the device.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ..distributed.cards import are_several, are_shared, cards, own_card, sharing
from ..distributed.launch import local_rank
from ..runtime.adapters import hardware_adapter_available
from ..runtime.device import get_device, restrict_to, stand_for
from ..tensor.placement import make_everything_on

CHOOSES = re.compile(r"\b(cuda|mps|accelerator)\b")


_given: list[str] = []  # one element: the name of the device, with ' default' if tensors are made there by default


def give_device(wish: str, script: Path | None, by_default: bool = False) -> None:
    """Make 'cuda' stand for the device named `wish`; 'auto' is a GPU if there is one, else the CPU. Raises DeviceError if it does not exist.

    by_default: whether tensors are made there by default. For a script that names no device they always are.
    """
    name = ("webgpu" if hardware_adapter_available() else "cpu") if wish == "auto" else wish
    together = name == "webgpu" and are_several()
    if together:
        name = own_card()
        if are_shared() and local_rank() == 0:
            print(f"shadergrad run: {sharing()}", file=sys.stderr)
    get_device(name)
    restrict_to(name)
    _given[:] = [name]
    if name == "cpu":
        return
    if together:
        stand_for("cuda", *cards(), current=local_rank())
    else:
        stand_for("cuda", name)
    if by_default or (script is not None and not CHOOSES.search(script.read_text(encoding="utf-8", errors="replace"))):
        make_everything_on(name)
        _given[:] = [f"{name} default"]


def given_device() -> str:
    """The device that `give_device` set last, for child processes."""
    return _given[-1] if _given else "cpu"
