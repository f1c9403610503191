"""Whole trainings, from data to checkpoint: `shadergrad train NAME`.

Each file here is a recipe that ends in `RECIPE = Recipe(...)`, and is called as its file; there is no other list. What the
recipes of logic networks share is in the folder `logic`.
"""

from __future__ import annotations

from ..train import Recipe
from ..train.recipe_files import packaged_recipe, recipe_names


def names() -> list[str]:
    """The names of all recipes, sorted."""
    return recipe_names(__path__)


def load(name: str) -> Recipe:
    """The recipe of that name. Raises RecipeError where its file cannot be used."""
    return packaged_recipe(__name__, name)
