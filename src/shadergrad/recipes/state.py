"""A run's state in its checkpoint. In: task and position. Out: files, and the same task and position again.

Tensors `model/...`, `optimizer/...` and `random/...` (key and counter of the generators on the host and on the device);
the description holds the recipe, the hyperparameters, the position, and the structure of the optimizer's state. See
`shadergrad.checkpoint` for the files.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import shadergrad as sg

from ..checkpoint import TENSORS_FILE, load_checkpoint, pack, save_checkpoint, unpack
from ..creation import default_generator
from ..errors import CheckpointError
from ..runtime.device import canonical_name
from .task import Position, Settings, Task, TrainingError


def save_run(recipe: str, settings: Settings, task: Task, position: Position, device: str) -> Path:
    """Write the checkpoint of a run to settings.out and return its file.

    Raises TrainingError, and leaves the checkpoint before as it was, when the model is no longer finite.
    """
    model, model_structure = pack(task.model.state_dict(), "model")
    optimizer, optimizer_structure = pack(task.optimizer.state_dict(), "optimizer")
    generators = {name: generator.get_state() for name, generator in _generators(device).items()}
    tensors = model | optimizer | generators
    for name, array in tensors.items():
        if not np.isfinite(array).all():
            raise TrainingError(f"{name} is not finite after {position}. {remedy(settings)}")
    meta = {
        "recipe": recipe,
        "position": asdict(position),
        "hyperparameters": settings.hyperparameters() | task.identity,
        "model": model_structure,
        "optimizer": optimizer_structure,
    }
    return save_checkpoint(settings.out, tensors, meta)


def restore_run(recipe: str, settings: Settings, task: Task, device: str) -> Position:
    """Put the checkpoint in settings.out into the task; returns where the run stands.

    Raises CheckpointError when there is none, it is damaged, or it belongs to another recipe or other hyperparameters.
    """
    arrays, meta = load_checkpoint(settings.out)
    try:
        _check_same_run(recipe, settings.out, settings.hyperparameters() | task.identity, meta)
        position = Position(**meta["position"])
        tensors = {name: sg.tensor(array, device=device) for name, array in arrays.items()}
        task.model.load_state_dict(unpack(tensors, meta["model"]))
        task.optimizer.load_state_dict(unpack(tensors, meta["optimizer"]))
        for name, generator in _generators(device).items():
            generator.set_state(arrays[name])
    except KeyError as error:
        raise CheckpointError(f"{settings.out / TENSORS_FILE} is no training's checkpoint: it lacks {error}.") from None
    return position


def remedy(settings: Settings) -> str:
    """What to do when a run has left the finite numbers, and what is safe."""
    path = settings.out / TENSORS_FILE
    kept = f"The checkpoint {path} is unchanged." if path.exists() else "Nothing was saved."
    return f"Remedy: a smaller --lr (it is {settings.lr}). {kept}"


def _generators(device: str) -> dict[str, sg.Generator]:
    """The generators that a training draws from. On the cpu both are one; a run that moves there goes on as its device's."""
    return {"random/host": default_generator("cpu"), "random/device": default_generator(canonical_name(device))}


def _check_same_run(recipe: str, out: Path, hyperparameters: dict[str, Any], meta: dict[str, Any]) -> None:
    before = {"recipe": meta["recipe"], **meta["hyperparameters"]}
    now = {"recipe": recipe, **hyperparameters}
    differing = [f"{key} {before.get(key)} (now {value})" for key, value in now.items() if before.get(key) != value]
    if differing:
        raise CheckpointError(
            f"cannot resume {out}: that run had {', '.join(differing)}. Remedy: pass the same values, or another --out."
        )
