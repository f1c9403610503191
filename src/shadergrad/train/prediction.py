"""Predictions of a trained recipe. In: the folder of a run. Out: its model, and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import shadergrad as sg
from shadergrad import Tensor, nn

from ..checkpoint import TENSORS_FILE, Arrays, load_checkpoint, unpack
from ..data.drawn_characters import read_drawing
from ..errors import CheckpointError
from .best_checkpoint import BEST

Shared = Mapping[str, Any]


@dataclass(frozen=True)
class Prediction:
    """Rebuilds the model of a recipe and predicts with it. network: builds the untrained model from the checkpoint's shared values.

    answer: returns lines for people. It takes the model and the checkpoint's shared values. If takes is "images", it also takes
    paths of image files and the output folder; if "text", the text to continue, the number of characters, the temperature and
    the seed. None: the command line has no prediction; Python can still load the model.
    """

    network: Callable[[Shared], nn.Module]
    answer: Callable[..., Iterable[str]] | None = None
    takes: str = "images"


def read_run(folder: Path) -> tuple[Arrays, dict[str, Any]]:
    """The best checkpoint of a run by its test loss, else the last one. Raises CheckpointError if there is none."""
    last = load_checkpoint(folder)
    if not (folder / BEST / TENSORS_FILE).is_file():
        return last
    best = load_checkpoint(folder / BEST)
    # one that a run before has left is no state of this one
    same = all(best[1].get(key) == last[1].get(key) for key in ("recipe", "hyperparameters"))
    return best if same and best[1]["position"]["epoch"] <= last[1]["position"]["epoch"] else last


def build_model(folder: Path, prediction: Prediction, device: str) -> tuple[nn.Module, dict[str, Any]]:
    """The model of a run in evaluation mode on a device, and the checkpoint's shared values."""
    arrays, meta = read_run(folder)
    try:
        shared = meta["hyperparameters"]
        model = prediction.network(shared)
        model.load_state_dict(unpack({name: sg.tensor(array) for name, array in arrays.items()}, meta["model"]))
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{folder} was written by another version of its recipe: it lacks {error}.") from None
    return model.to(device).eval(), shared


def classify_images(
    side: int, see: Callable[[nn.Module, np.ndarray, Shared], np.ndarray]
) -> Callable[..., Iterable[str]]:
    """The answer of a classifier of drawings: the most likely class of each, and the second.

    side: that of the images. see: maps model, images [n, side * side] and the checkpoint's shared values to probabilities [n,
    classes].
    """

    def answer(model: nn.Module, shared: Shared, paths: list[Path], _: Path) -> Iterable[str]:
        images = np.stack([read_drawing(path, side).ravel() for path in paths])
        for path, odds in zip(paths, see(model, images, shared), strict=True):
            first, second = np.argsort(-odds, kind="stable")[:2]
            yield f"{path}: {first} ({100 * odds[first]:.1f} %), else {second} ({100 * odds[second]:.1f} %)"

    return answer


def probabilities(model: nn.Module, images: np.ndarray, _: Shared) -> np.ndarray:
    """The probabilities of a model that maps images [n, pixels] to logits."""
    with sg.no_grad():
        logits: Tensor = model(sg.tensor(images, device=next(model.parameters()).device))
        return logits.softmax(1).numpy()
