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
from ..data.digits import load_digits
from ..data.drawn_characters import drawings_on, read_drawing
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


SURE = 2.0  # times as likely as the second class is the first where an answer is sure
KNOWN_SIDE = 8
FAR = 2.45  # between images of 8x8 pixels: digits, drawn or printed, are nearer to one of the training set, letters are farther
SAME = 0.05  # a test image that was saved as a picture, and read again


@dataclass(frozen=True)
class Known:
    """The training images of a classifier of drawings, to detect drawings that it cannot know: images of 8x8 pixels, [n, 64], and test images
    with their labels, which are recognised.
    """

    images: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray

    def remark(self, path: Path) -> str:
        """A remark on a drawing beside its class, if there is one."""
        if (count := drawings_on(path)) > 1:
            return f"; not sure: {count} characters seem to be on the picture, and the network sees one"
        small = read_drawing(path, KNOWN_SIDE).ravel()
        if np.linalg.norm(self.images - small, axis=1).min() > FAR:
            return "; not sure: it is unlike all that the network learned from"
        apart = np.linalg.norm(self.test_images - small, axis=1)
        return (
            f"; test image {apart.argmin()}, its label is {self.test_labels[apart.argmin()]}"
            if apart.min() < SAME
            else ""
        )


def known_digits() -> Known:
    """For classifiers of handwritten digits, of any size."""
    images, _, test_images, test_labels = load_digits()
    return Known(images, test_images, test_labels)


def classify_images(
    side: int,
    see: Callable[[nn.Module, np.ndarray, Shared], np.ndarray],
    known: Callable[[], Known] | None = None,
    sure: float = SURE,
) -> Callable[..., Iterable[str]]:
    """The answer of a classifier of drawings: the most likely class of each, and the second; and where it is not sure, that.

    side: that of the images. see: maps model, images [n, side * side] and the checkpoint's shared values to probabilities [n,
    classes]. known: what drawings are compared with; `known_digits` for digits. sure: how many times as likely as the second
    the first class is where the answer is sure.
    """

    def answer(model: nn.Module, shared: Shared, paths: list[Path], _: Path) -> Iterable[str]:
        images = np.stack([read_drawing(path, side).ravel() for path in paths])
        compared = None if known is None else known()
        for path, odds in zip(paths, see(model, images, shared), strict=True):
            first, second = np.argsort(-odds, kind="stable")[:2]
            remark = "" if compared is None else compared.remark(path)
            if not remark.startswith("; not sure") and odds[first] < sure * odds[second]:
                remark = f"; not sure{remark}"
            yield f"{path}: {first} ({100 * odds[first]:.1f} %), else {second} ({100 * odds[second]:.1f} %){remark}"

    return answer


def probabilities(model: nn.Module, images: np.ndarray, _: Shared) -> np.ndarray:
    """The probabilities of a model that maps images [n, pixels] to logits."""
    with sg.no_grad():
        logits: Tensor = model(sg.tensor(images, device=next(model.parameters()).device))
        return logits.softmax(1).numpy()
