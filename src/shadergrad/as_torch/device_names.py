"""Which device a program's 'cuda' is. In: the device asked for. Out: a name that stands for it, in this process.

A program that chooses a device by its name gets it under that name, and what it leaves on the CPU stays there, as with
CUDA. In one that names none, tensors are made on the device.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..runtime.adapters import hardware_adapter_available
from ..runtime.device import get_device, stand_for
from ..tensor import set_default_device

CHOOSES = re.compile(r"\b(cuda|mps|accelerator)\b")


def give_device(wish: str, script: Path | None) -> None:
    """Let 'cuda' be the device of that name, or a GPU if there is one ('auto'). Raises DeviceError for one that is not."""
    name = ("webgpu" if hardware_adapter_available() else "cpu") if wish == "auto" else wish
    get_device(name)
    if name == "cpu":
        return
    stand_for("cuda", name)
    if script is not None and not CHOOSES.search(script.read_text(encoding="utf-8", errors="replace")):
        set_default_device(name)
