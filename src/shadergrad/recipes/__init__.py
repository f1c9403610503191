"""Whole trainings, from data to checkpoint: `shadergrad train NAME`.

Each file here is a recipe that ends in `RECIPE = Recipe(...)`, and is called as its file; there is no other list. What the
recipes of logic networks share is in the folder `logic`.
"""

from __future__ import annotations

from pathlib import Path

from shadergrad import nn

from ..errors import CheckpointError
from ..train import Recipe
from ..train.prediction import Prediction, build_model, read_run
from ..train.recipe_files import packaged_recipe, recipe_file, recipe_names


def names() -> list[str]:
    """The names of all recipes, sorted."""
    return recipe_names(__path__)


def find(name: str) -> Recipe:
    """The recipe of that name. Raises RecipeError if its file is unusable.

    >>> sg.recipes.find("digits").defaults["epochs"]
    40
    """
    return packaged_recipe(__name__, name)


def load(folder: str | Path, device: str = "cpu", recipe: str | Path | None = None) -> nn.Module:
    """The trained model in the folder of a run, in evaluation mode: the best by its test loss, else the last.

    recipe: of a run by a file of one's own, that file. Raises CheckpointError where there is no checkpoint, or its recipe
    does not say how its model is built.

    >>> sg.recipes.load("no/such/run")
    Traceback (most recent call last):
        ...
    shadergrad.errors.CheckpointError: there is no checkpoint no/such/run/checkpoint.safetensors. ...
    """
    folder = Path(folder).expanduser()
    return build_model(folder, prediction_of(folder, recipe), device)[0]


def prediction_of(folder: Path, file: str | Path | None = None) -> Prediction:
    """The prediction of a run's recipe: how to build its model and ask it. Raises CheckpointError if the recipe has none."""
    name = str(read_run(folder)[1].get("recipe"))
    if file is not None and Path(file).name != name:
        raise CheckpointError(f"{folder} is a run of {name}, not of {file}.")
    if file is None and name.endswith(".py"):
        raise CheckpointError(f"{folder} is a run of your {name}. Hint: say where that lies: recipe='path/to/{name}'")
    if file is not None:
        found = recipe_file(Path(file).expanduser()).predict
    else:
        found = find(name).predict if name in names() else None
    if found is None:
        raise CheckpointError(
            f"{folder} is a run of {name}, which does not say how its model is built again. Hint: build the model as the "
            "recipe does, and give load_state_dict what shadergrad.checkpoint reads."
        )
    return found
