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
from shadergrad import nn
from shadergrad.optim import Optimizer

from ..checkpoint import TENSORS_FILE, Arrays, load_checkpoint, pack, save_checkpoint, unpack
from ..tensor import default_generator
from ..errors import CheckpointError, ShadergradError
from ..runtime.device import canonical_name
from .task import Position, Settings, Task, TrainingError


def save_run(recipe: str, settings: Settings, task: Task, position: Position, device: str) -> Path:
    """Write the checkpoint of a run to settings.out and return its file.

    Raises TrainingError, and leaves the checkpoint before as it was, when the model is no longer finite.
    """
    tensors, structures = pack_training(task.model, task.optimizer)
    tensors |= {name: generator.get_state() for name, generator in _generators(device).items()}
    check_finite(tensors, str(position), remedy(settings))
    meta = {
        "recipe": recipe,
        "position": asdict(position),
        "hyperparameters": settings.hyperparameters() | task.identity,
        **structures,
    }
    return save_checkpoint(settings.out, tensors, meta)


def check_finite(tensors: Arrays, position: str, hint: str) -> None:
    """Raises TrainingError where a tensor has left the finite numbers."""
    for name, array in tensors.items():
        if not np.isfinite(array).all():
            raise TrainingError(f"{name} is not finite after {position}. {hint}")


def pack_training(model: nn.Module, optimizer: Optimizer) -> tuple[Arrays, dict[str, Any]]:
    """All tensors of both, and the structures to put them back."""
    of_model, model_structure = pack(model.state_dict(), "model")
    of_optimizer, optimizer_structure = pack(optimizer.state_dict(), "optimizer")
    return of_model | of_optimizer, {"model": model_structure, "optimizer": optimizer_structure}


def unpack_training(model: nn.Module, optimizer: Optimizer, arrays: Arrays, meta: dict[str, Any], device: str) -> None:
    """Put back what `pack_training` took. Raises KeyError where something is missing."""
    tensors = {name: sg.tensor(array, device=device) for name, array in arrays.items()}
    model.load_state_dict(unpack(tensors, meta["model"]))
    optimizer.load_state_dict(unpack(tensors, meta["optimizer"]))


def restore_run(recipe: str, settings: Settings, task: Task, device: str) -> Position:
    """Put the checkpoint in settings.out into the task; returns where the run stands.

    Raises CheckpointError when there is none, it is damaged, or it belongs to another recipe or other hyperparameters.
    """
    arrays, meta = load_checkpoint(settings.out)
    try:
        check_same_run(recipe, settings.out, settings.hyperparameters() | task.identity, meta)
        position = Position(**meta["position"])
        unpack_training(task.model, task.optimizer, arrays, meta, device)
        for name, generator in _generators(device).items():
            generator.set_state(arrays[name])
    except ShadergradError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:  # of a description of another shape
        raise lacking(settings.out, error) from None
    return position


def lacking(out: Path, error: Exception) -> CheckpointError:
    """The error for a checkpoint that has not got what a training's has."""
    reason = f"it lacks {error}" if isinstance(error, KeyError) else error
    return CheckpointError(f"{out / TENSORS_FILE} is no training's checkpoint: {reason}.")


def remedy(settings: Settings) -> str:
    """What to do when a run has left the finite numbers, and what is safe."""
    path = settings.out / TENSORS_FILE
    kept = f"The checkpoint {path} is unchanged." if path.exists() else "Nothing was saved."
    return f"Remedy: a smaller --lr (it is {settings.lr}). {kept}"


def _generators(device: str) -> dict[str, sg.Generator]:
    """The generators that a training draws from. On the cpu both are one; a run that moves there goes on as its device's."""
    return {"random/host": default_generator("cpu"), "random/device": default_generator(canonical_name(device))}


def check_same_run(recipe: str, out: Path, hyperparameters: dict[str, Any], meta: dict[str, Any]) -> None:
    """Raises CheckpointError, or KeyError, where a description is not that of a run of this recipe and with these values."""
    before = {"recipe": meta["recipe"], **meta["hyperparameters"]}
    now = {"recipe": recipe, **hyperparameters}
    differing = [f"{key} {before.get(key)} (now {value})" for key, value in now.items() if before.get(key) != value]
    if differing:
        raise CheckpointError(
            f"cannot resume {out}: that run had {', '.join(differing)}. Remedy: pass the same values, or another --out."
        )
