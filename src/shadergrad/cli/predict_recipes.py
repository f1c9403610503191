"""`shadergrad predict RECIPE RUN ...` for recipes with a prediction. In: a run's folder, and images or a text. Out: lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from ..checkpoint import TENSORS_FILE
from ..errors import CheckpointError
from ..train.errors import RecipeError
from ..train.recipe_files import is_path, recipe_file

IMAGES = {
    "digits": "Which digits are drawn on images: dark on light or light on dark, one each.",
    "digits-cnn": "The same, by the network with convolutions.",
    "digits-logic": "The same, by the circuit of gates.",
    "mnist": "The same, by the network that learned MNIST.",
    "mnist-logic": "The same, by the gates that learned MNIST.",
    "mnist-logic-conv": "The same, by the convolutions of gates that learned MNIST.",
    "autoencoder": "What comes back of drawn digits: a picture, and how far off it is.",
}

Run = Annotated[Path, typer.Argument(help="The folder of a run: --out of `train`.")]
Device = Annotated[str, typer.Option(help="webgpu, cpu, webgpu:N, or auto: a GPU if there is one.")]


def add_predictions(app: typer.Typer) -> None:
    """Put the commands of the recipes into the group `predict`."""
    for name, text in IMAGES.items():
        app.command(name, help=text)(_of_images(name))
    app.command("char-lm", help="Continue a text, a character at a time.")(_of_text("char-lm"))


class PredictGroup(TyperGroup):
    """The commands of the library's recipes, and of a user's recipe file given by its path.

    The folder of a run replaces the recipe's name: `predict runs/digits x.png` is `predict digits runs/digits x.png`.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word means. Raises RecipeError for a run that no command can ask."""
        if args and (Path(args[0]) / TENSORS_FILE).is_file():
            args = [self._recipe_of(ctx, args[0]), *args]
        return super().resolve_command(ctx, args)

    def _recipe_of(self, ctx: Any, folder: str) -> str:
        from ..train.prediction import read_run  # here, as help needs nothing of it

        recipe = str(read_run(Path(folder))[1].get("recipe"))
        if recipe.endswith(".py"):
            raise RecipeError(f"{folder} is a run of your {recipe}. Hint: shadergrad predict path/to/{recipe} {folder}")
        if recipe not in self.list_commands(ctx):
            raise RecipeError(
                f"{folder} is a run of {recipe}, which no command asks. Hint: in Python, sg.recipes.load({folder!r})"
            )
        return recipe

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command. Raises RecipeError for a file without a recipe, or a recipe without a prediction."""
        known = super().get_command(ctx, cmd_name)
        if known is not None or not is_path(cmd_name):
            return known
        prediction = recipe_file(Path(cmd_name).expanduser()).predict
        if prediction is None or prediction.answer is None:
            raise RecipeError(f"{cmd_name} does not say what its model can be asked. Hint: predict=Prediction(...)")
        one = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        made = _of_images(cmd_name) if prediction.takes == "images" else _of_text(cmd_name)
        one.command(cmd_name, help="Predict with the model of your recipe.")(made)
        return typer.main.get_command(one)


def _of_images(name: str) -> Callable[..., None]:
    def predict(
        run: Run,
        images: Annotated[list[Path], typer.Argument(help="Image files.")],
        out: Annotated[Path, typer.Option(help="The folder for pictures, if there are any.")] = Path(),
        device: Device = "cpu",
    ) -> None:
        model, shared, prediction = _load(name, run, device)
        _print(prediction.answer(model, shared, images, out))

    return predict


def _of_text(name: str) -> Callable[..., None]:
    def predict(
        run: Run,
        prompt: Annotated[str, typer.Option(help="The text to continue.")] = "",
        characters: Annotated[int, typer.Option(help="Number of characters to write.")] = 320,
        temperature: Annotated[float, typer.Option(help="Below 1, likely characters come more often.")] = 0.6,
        seed: Annotated[int, typer.Option(help="The seed of the random draws.")] = 0,
        device: Device = "cpu",
    ) -> None:
        model, shared, prediction = _load(name, run, device)
        _print(prediction.answer(model, shared, prompt, characters, temperature, seed))

    return predict


def _load(name: str, run: Path, device: str) -> tuple[Any, Any, Any]:
    from .. import recipes  # here, as help needs nothing of it
    from ..train.prediction import build_model, read_run  # as above
    from ..train.training_run import choose_device  # as above

    recipe, own = read_run(run)[1].get("recipe"), is_path(name)
    if recipe != (Path(name).name if own else name):
        raise CheckpointError(f"{run} is a run of {recipe}, not of {name}. Hint: shadergrad predict {recipe} {run}")
    prediction = recipes.prediction_of(run, name if own else None)
    chosen = choose_device(device, Console(stderr=True, quiet=device == "cpu"))
    return *build_model(run, prediction, chosen), prediction


def _print(lines: Any) -> None:
    console = Console(highlight=False)
    for line in lines:
        console.out(line, highlight=False)
