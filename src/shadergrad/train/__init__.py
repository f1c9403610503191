"""What a training stands on: recipes and their settings, runs, checkpoints, metrics, the console.

A recipe is one Python file that ends in `RECIPE = Recipe(...)`: those of the library are in shadergrad/recipes,
a user's own is anywhere: `shadergrad train path/to/mine.py`; examples/my_recipe.py is one to start from.
"""

from .backward import TrainingStep
from .errors import RecipeError, TrainingError
from .recipe import BACKWARD, SCHEDULE, Option, Recipe
from .schedule import WarmUpCosine
from .settings import Settings
from .trainable import Position, Stream, Trainable

__all__ = [
    "BACKWARD",
    "SCHEDULE",
    "Option",
    "Position",
    "Recipe",
    "RecipeError",
    "Settings",
    "Stream",
    "Trainable",
    "TrainingError",
    "TrainingStep",
    "WarmUpCosine",
]
