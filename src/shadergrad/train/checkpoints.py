"""A run's checkpoint. In: a Trainable and its position. Out: files, from which both are restored.

Tensors `model/...`, `optimizer/...`, `random/stream` (the seed and the number of draws) and `losses` (those of the current
epoch). The description holds the recipe, the hyperparameters, the position, and the structure of the optimizer's state. See
`shadergrad.checkpoint` for the files.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import shadergrad as sg

from ..checkpoint import TENSORS_FILE, Arrays, pack, unpack
from ..errors import CheckpointError, ShadergradError
from ..tensor import default_generator
from .errors import TrainingError
from .settings import Settings
from .trainable import Position, Trainable

STREAM = "random/stream"


def describe(
    recipe: str, settings: Settings, trainable: Trainable, position: Position, where: str
) -> tuple[Arrays, dict[str, Any]]:
    """The tensors and the description of a checkpoint; `where` says in words how far the run has come.

    Raises TrainingError if the model is no longer finite.
    """
    of_model, model_structure = pack(trainable.model.state_dict(), "model")
    of_optimizer, optimizer_structure = pack(trainable.optimizer.state_dict(), "optimizer")
    tensors = of_model | of_optimizer | {STREAM: default_generator("cpu").get_state()}
    for name, array in tensors.items():
        if not np.isfinite(array).all():
            raise TrainingError(f"{name} is not finite after {where}. {hint(settings)}")
    if position.step:
        tensors["losses"] = position.losses
    meta = {
        "recipe": recipe,
        "position": {"epoch": position.epoch, "step": position.step},
        "hyperparameters": settings.hyperparameters()
        | {name: value for name, value in trainable.identity.items() if value is not None},
        "model": model_structure,
        "optimizer": optimizer_structure,
    }
    return tensors, meta


def put_back(
    recipe: str, settings: Settings, trainable: Trainable, device: str, arrays: Arrays, meta: dict[str, Any]
) -> Position:
    """Restore `trainable` from a checkpoint in memory, that of settings.out. Returns the position of the run.

    Raises CheckpointError if it is damaged, or belongs to another recipe or other hyperparameters.
    """
    path = settings.out / TENSORS_FILE
    try:
        _check_same_run(recipe, settings, trainable, meta)
        epoch, step = int(meta["position"]["epoch"]), int(meta["position"]["step"])
        losses = arrays.pop("losses") if step else np.zeros((0, len(trainable.losses)), np.float32)
        if losses.shape != (step, len(trainable.losses)):
            raise CheckpointError(f"{path} is damaged: losses {losses.shape} after {step} steps. Hint: take a backup.")
        _unpack(trainable, arrays, meta, device)
    except ShadergradError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:  # of a description of another shape
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(f"{path} is no training's checkpoint: {reason}.") from None
    return Position(losses, epoch)


def hint(settings: Settings) -> str:
    """The advice for a run whose values are no longer finite."""
    path = settings.out / TENSORS_FILE
    kept = f"The checkpoint {path} is unchanged." if path.exists() else "Nothing was saved."
    lr = settings.hyperparameters().get("lr")
    return kept if lr is None else f"Hint: a smaller --lr (it is {lr}). {kept}"


def _unpack(trainable: Trainable, arrays: Arrays, meta: dict[str, Any], device: str) -> None:
    """Restore the state from `describe`. Raises KeyError if something is missing."""
    state = arrays[STREAM]
    tensors = {name: sg.tensor(array, device=device) for name, array in arrays.items()}
    trainable.model.load_state_dict(unpack(tensors, meta["model"]))
    trainable.optimizer.load_state_dict(unpack(tensors, meta["optimizer"]))
    default_generator("cpu").set_state(state)


def override(settings: Settings, trainable: Trainable, meta: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Give a resumed run the learning rate of `settings` if --override allows it. Returns the old and the new rate."""
    if not settings.override:
        return {}
    before = meta["hyperparameters"].get("lr")
    now = settings.hyperparameters().get("lr")
    if before is None or now is None or before == now:
        return {}
    for group in trainable.optimizer.param_groups:
        group["lr"] = now if group["lr"] == before else group["lr"] * (now / before)
    return {"lr": (before, now)}


def _shared(settings: Settings, trainable: Trainable) -> dict[str, Any]:
    return settings.hyperparameters() | trainable.identity


def _check_same_run(recipe: str, settings: Settings, trainable: Trainable, meta: dict[str, Any]) -> None:
    """Raises CheckpointError or KeyError if a description belongs to another recipe or other values."""
    before = {"recipe": meta["recipe"], **meta["hyperparameters"]}
    now = {"recipe": recipe, **_shared(settings, trainable)}
    if settings.override:
        before["lr"] = now.get("lr")
    differing = [f"{key} {before.get(key)} (now {value})" for key, value in now.items() if before.get(key) != value]
    if differing:
        lr_only = len(differing) == 1 and differing[0].startswith("lr ")
        raise CheckpointError(
            f"cannot resume {settings.out}: that run had {', '.join(differing)}. "
            f"Hint: pass the same values, or another --out{', or --override for another --lr' if lr_only else ''}."
        )
