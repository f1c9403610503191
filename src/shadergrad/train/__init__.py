"""The parts of a training: recipes and their settings, runs, checkpoints, metrics, the console.

A recipe is a Python file that ends in `RECIPE = Recipe(...)`. The library's are in shadergrad/recipes. A user's may be
anywhere: `shadergrad train path/to/mine.py`. examples/my_recipe.py is a template.
"""

from .backward_engines import TrainingStep
from .callbacks import Callback, Checkpoint, CSVLog, EarlyStopping, Progress, Schedule, TensorBoard, WandB
from .errors import RecipeError, TrainingError
from .lr_schedule import WarmUpCosine
from .prediction import Prediction, classify_images, probabilities
from .recipe import BACKWARD, SCHEDULE, Option, Recipe
from .settings import Settings
from .trainable import Position, Stream, Trainable
from .trainer import History, Trainer, accuracy

__all__ = [
    "BACKWARD",
    "SCHEDULE",
    "CSVLog",
    "Callback",
    "Checkpoint",
    "EarlyStopping",
    "History",
    "Option",
    "Position",
    "Prediction",
    "Progress",
    "Recipe",
    "RecipeError",
    "Schedule",
    "Settings",
    "Stream",
    "TensorBoard",
    "Trainable",
    "Trainer",
    "TrainingError",
    "TrainingStep",
    "WandB",
    "WarmUpCosine",
    "accuracy",
    "classify_images",
    "probabilities",
]
