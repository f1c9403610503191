"""A recipe as a page: `shadergrad export NAME site/`. In: a recipe and its settings. Out: a folder that trains in a browser."""

from __future__ import annotations

import inspect
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import shadergrad as sg
from shadergrad import web

from .errors import RecipeError
from .recipe import Recipe
from .settings import Settings
from .trainable import Stream, Trainable

MOST_BATCHES = 64  # of a stream, which a page goes through again and again


def export_recipe(name: str, recipe: Recipe, folder: Path, **values: Any) -> None:
    """Write the page of a recipe with random weights from the seed. values: of its options, replacing their defaults.

    Raises RecipeError for a recipe of several trainings, and the errors of `web.export`.
    """
    if recipe.build is None:
        raise RecipeError(f"{name} is more than one training, which no page shows.")
    chosen = {
        option.name: option.default for option in recipe.all_options(name) if option.name not in ("out", "resume")
    }
    chosen |= {key: value for key, value in values.items() if value is not None}
    settings = Settings(**{**chosen, "out": folder, "device": "cpu"})
    sg.manual_seed(settings.seed)
    trainable = recipe.build(settings, "cpu")
    if trainable.page is not None:
        trainable.page(folder)
        return
    batches, first, left_out = _batches(trainable, settings.batch_size)
    names = _argument_names(trainable, len(batches))
    web.export(
        named_losses(trainable, names),
        folder,
        *map(sg.tensor, first),
        title=name,
        text=f"{recipe.help} {left_out}".rstrip(),
        data=dict(zip(names, batches, strict=True)),
        settings={
            "loss": trainable.losses[0],
            "batch": settings.batch_size,
            "whole_batches": isinstance(trainable.data, Stream),
        },
    )


def named_losses(trainable: Trainable, names: list[str]) -> sg.CompiledStep:
    """The step of a recipe with results by the names of its losses and arguments called `names`."""

    def step(*batch: sg.Tensor) -> dict[str, sg.Tensor]:
        found = trainable.step(*batch).reshape(len(trainable.losses))
        return {name: found[k] for k, name in enumerate(trainable.losses)}

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    step.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return sg.compile(step)


def _batches(trainable: Trainable, size: int) -> tuple[list[np.ndarray], list[np.ndarray], str]:
    """The data (the first batches of a stream), the first batch, and what of the data is left out, in words.

    A page's step has one shape. Of a stream whose batches differ in theirs, those of the commonest shape are taken.
    """
    if not isinstance(trainable.data, Stream):
        return list(trainable.data), [array[:size] for array in trainable.data], ""
    drawn = list(islice(trainable.data.batches(0), MOST_BATCHES))
    shapes = [tuple(part.shape for part in batch) for batch in drawn]
    (shape, count), *others = Counter(shapes).most_common()
    taken = [batch for batch, own in zip(drawn, shapes, strict=True) if own == shape]
    told = f"The page takes batches of shape {shape[0]} alone: {count} of the first {len(drawn)}." if others else ""
    return [np.concatenate(parts) for parts in zip(*taken, strict=True)], list(taken[0]), told


def _argument_names(trainable: Trainable, count: int) -> list[str]:
    parameters = inspect.signature(trainable.step).parameters.values()
    named = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    return [*named[:count], *(f"input{k}" for k in range(len(named), count))]
