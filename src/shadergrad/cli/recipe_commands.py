"""Commands made from recipes. In: a word on the command line, a recipe's name or a file. Out: a command with its options."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from .. import recipes
from ..config import launched_with
from ..train import Option, Recipe
from ..train.errors import TrainingError
from ..train.recipe import OVERRIDE, OVERWRITE, PROCESSES, RESTARTS, RESUME
from ..train.recipe_files import is_path, recipe_file, unknown_recipe
from ..train.settings import command_options, flag
from .circuit_commands import COMMANDS, circuit_command
from .launching import NPROC, is_launched, launch

INTERRUPTED = 130  # what shells use for a process that SIGINT ended


class RecipeGroup(TyperGroup):
    """The commands of the files in recipes/, and of a user's recipe file given by its path."""

    prefix = ""  # of the recipes that belong here, left out in their commands

    def list_commands(self, ctx: Any) -> list[str]:
        return [name.removeprefix(self.prefix) for name in recipes.names() if name.startswith(self.prefix)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command. Reads only that recipe's file. Raises RecipeError if there is none."""
        known = self.list_commands(ctx)
        words = f"{ctx.command_path} {shlex.quote(cmd_name)}"
        if cmd_name in known:
            name = self.prefix + cmd_name
            return command(recipes.find(name), cmd_name, name, words)
        if is_path(cmd_name) and not self.prefix:
            path = Path(cmd_name).expanduser()
            return command(recipe_file(path), path.stem.replace("_", "-"), path.name, words)
        if cmd_name.startswith("-"):
            return None  # an option where a recipe should be: typer says so
        raise unknown_recipe(cmd_name, known)


class LogicGroup(RecipeGroup):
    """The commands for logic networks other than trainings, and for circuits."""

    prefix = "logic-"

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return circuit_command(cmd_name) if cmd_name in COMMANDS else super().get_command(ctx, cmd_name)


def command(recipe: Recipe, name: str, identity: str, words: str) -> Any:
    """The command `name` of a recipe. identity: its name in checkpoints. words: the words before the options."""

    def train(**values: Any) -> None:
        count, restarts = values.pop(PROCESSES.name, 1), values.pop(RESTARTS.name, 0)
        _check(count, restarts)
        if count > 1:
            values[PROCESSES.name] = count
            if not is_launched():
                raise typer.Exit(launch([*shlex.split(words)[1:], *_words(values)], count, restarts))
        if not recipe.run(identity, words, Console(), values):
            raise typer.Exit(INTERRUPTED)

    # typer reads options from a function's signature: here is one
    together = [] if recipe.build is None else [PROCESSES, RESTARTS]
    options = sorted([*recipe.all_options(name), *together], key=lambda option: not option.positional)
    parameters = [_parameter(option) for option in options]
    train.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    train.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    one = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    one.command(name, help=recipe.help)(train)
    return typer.main.get_command(one)


def _check(count: int, restarts: int) -> None:
    """Raises TrainingError for numbers that make no sense."""
    if count < 1 or restarts < 0:
        raise TrainingError(
            f"{NPROC} is {count}, --max-restarts {restarts}: at least 1 process, and no negative number of restarts."
        )
    if restarts and count == 1:
        raise TrainingError(f"--max-restarts starts the processes of {NPROC} again: give {NPROC} 2 or more.")
    started = launched_with("LOCAL_WORLD_SIZE") or launched_with("WORLD_SIZE")
    if count > 1 and is_launched() and started != str(count):
        raise TrainingError(
            f"{NPROC} is {count}, and a launcher has started {started} processes already. Hint: leave out {NPROC}."
        )


def _words(values: Mapping[str, Any]) -> list[str]:
    """The options of a command with these values."""
    wishes = {option.name for option in (RESUME, OVERWRITE, OVERRIDE)}  # without a --no-resume
    told = command_options({name: value for name, value in values.items() if name not in wishes})
    return [*shlex.split(told), *(flag(name) for name in sorted(wishes) if values.get(name))]


def _parameter(option: Option) -> inspect.Parameter:
    if option.positional:
        kind: Any = Annotated[option.kind, typer.Argument(help=option.help)]
        return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
    shown = True if option.shown is None else option.shown
    is_wish = option in (RESUME, OVERWRITE, OVERRIDE)
    names = [flag(option.name)] if is_wish else []  # without a --no-resume
    told = typer.Option(*names, help=option.help, show_default=shown)
    kind = option.kind | None if option.default is None else option.kind
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=Annotated[kind, told]
    )
