"""The state of a step as a safetensors file: every parameter, optimizer state, random counter and constant by its role and name.

In: a compiled step with example arguments. Out: a file for `Program.loadState` of a page; and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import shadergrad as sg
from shadergrad.checkpoint import STATE_FORMAT
from shadergrad.system.safe_tensors import SafetensorError, load_file, save

from .errors import WebError

Key = tuple[str, str]  # role, name
METADATA = {"format": STATE_FORMAT}


def save_state(step: sg.CompiledStep, path: str | Path, *args: Any, **kwargs: Any) -> None:
    """Write the state of a step for a page, or for `load_state`: parameters, optimizer state, random state.

    args, kwargs: example arguments of the step; nothing runs. Raises CompileError for a step that cannot be exported.

    >>> import tempfile
    >>> w = sg.zeros(2)
    >>> step = sg.compile(lambda x: w.add_(x).sum())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sg.web.save_state(step, f"{folder}/state.safetensors", sg.ones(2))
    ...     _ = step(sg.ones(2))
    ...     sg.web.load_state(step, f"{folder}/state.safetensors", sg.ones(2))
    >>> w
    tensor([0., 0.])
    """
    Path(path).write_bytes(state_bytes(step.portable(*args, **kwargs).state()))


def load_state(step: sg.CompiledStep, path: str | Path, *args: Any, **kwargs: Any) -> None:
    """Load a state from a page or from `save_state` into the step's tensors, learning rates and random state.

    args, kwargs: example arguments of the step. Raises WebError for an invalid file, CheckpointError for the state of another
    step; then nothing has changed. `save_state` has an example.
    """
    step.portable(*args, **kwargs).restore(read_state(path))


def state_bytes(state: Mapping[Key, np.ndarray]) -> bytes:
    """The file, as bytes; equal states give equal bytes."""
    return save({f"{role}/{name}": np.asarray(a, order="C") for (role, name), a in state.items()}, METADATA)


def read_state(path: str | Path) -> dict[Key, np.ndarray]:
    """The arrays of a state file, by role and name."""
    try:
        arrays = load_file(path)
    except SafetensorError as error:
        raise WebError(f"{path} is no safetensors file, or is damaged: {error}.") from None
    except OSError as error:
        raise WebError(f"cannot read {path}: {error.strerror or error}.") from None
    found = {}
    for key, array in arrays.items():
        role, slash, name = key.partition("/")
        if not slash:
            raise WebError(
                f"{path} has {key!r}, and no state of a step: its entries are named role/name. "
                "Hint: weights alone are read by sg.interop.load_state_dict(model, path)."
            )
        found[role, name] = array
    return found
