"""A recipe: a whole training in one file, with its options for the command line.

In: a function that builds the Trainable, the defaults of shared options, and the recipe's own options. Out: a run, given their
values. The command line turns a recipe into a command; no other code needs to know it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich.console import Console

from ..config import ENGINES
from .data_parallel import is_first, join_launched
from .errors import RecipeError
from .prediction import Prediction
from .settings import HYPERPARAMETERS, Settings, flag
from .training_run import Build, train

KINDS = (str, int, float, bool, Path)


@dataclass(frozen=True)
class Option:
    """An option of a recipe: `--name` on the command line, settings["name"] in the recipe.

    name: as in Python, batch_size for --batch-size.
    kind: str, int, float, bool or Path.
    default: None if the option may be omitted.
    shown: the default in the help, if it differs from the value.
    may_change: whether a resumed run may have another value than the run it continues.
    positional: a required argument without --name.
    Raises RecipeError for an invalid option.
    """

    name: str
    kind: type
    help: str
    default: Any = None
    shown: str | None = None
    may_change: bool = False
    positional: bool = False

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise RecipeError(f"[Option] {self.name!r} is no name in Python; batch_size becomes --batch-size.")
        if self.kind not in KINDS:
            names = ", ".join(kind.__name__ for kind in KINDS)
            raise RecipeError(f"[Option] --{self.name} is of kind {self.kind!r}; an option is one of {names}.")
        fits = (int, float) if self.kind is float else (str, Path) if self.kind is Path else self.kind
        is_number = self.kind in (int, float)
        if self.default is not None and (
            not isinstance(self.default, fits) or (is_number and isinstance(self.default, bool))
        ):
            raise RecipeError(f"[Option] --{self.name} is a {self.kind.__name__}; its default is {self.default!r}.")


DEVICE = Option("device", str, "webgpu, cpu, webgpu:N for the N-th adapter, or auto: a GPU if there is one.", "auto")
BACKWARD = (
    Option(
        "backward",
        str,
        f"How the backward pass runs: {', '.join(ENGINES)}.",
        shown="SHADERGRAD_BACKWARD, else shaders",
        may_change=True,
    ),
    Option("threads", int, "PyTorch's threads, for --backward torch.", shown="cores - 2, at least 1", may_change=True),
)  # of recipes whose step is TrainingStep.of(settings, ...)
SCHEDULE = (
    Option("warm_up", int, "Steps while the learning rate rises.", shown="a tenth of all, at most 100"),
    Option(
        "schedule_steps",
        int,
        "Steps until the learning rate has fallen to 0, as a cosine.",
        shown="all",
        may_change=True,
    ),
)  # of recipes whose schedule is WarmUpCosine.of(settings, steps)
RESUME = Option("resume", bool, "Continue from the checkpoint in --out.", False)
OVERWRITE = Option("overwrite", bool, "Replace the run that is in --out.", False)
OVERRIDE = Option("override", bool, "With --resume: continue with another --lr, which metrics.jsonl records.", False)
PROCESSES = Option("nproc", int, "Processes of this machine that train together, one a GPU.", 1)
RESTARTS = Option(
    "max_restarts", int, "With --nproc: how often to go on from the checkpoint when a process has ended.", 0
)
OUT_HELP = "The folder for checkpoint, metrics.jsonl and pictures."
COMMON: dict[str, tuple[type, str]] = {
    "epochs": (int, "How often to go through the training data."),
    "steps": (int, "Optimizer steps."),
    "batch_size": (int, "Samples a step."),
    "lr": (float, "The optimizer's learning rate."),
    "seed": (int, "Decides the first weights, the order of samples, and all else that is random."),
}
RESERVED = ("device", "out", "resume", "overwrite", "override", "nproc", "max_restarts", *COMMON)


@dataclass(frozen=True)
class Recipe:
    """A training for the command line. help: a line or two on its data and model.

    build: builds the Trainable from the settings, on the device with the given name; weights are random from the seed.
    defaults: the defaults of shared options: batch_size, either epochs or steps, lr if the recipe has one, and seed unless it
    is 0. options: the recipe's own options. Every recipe also has --device, --out, --resume and --overwrite.
    train: replaces build in commands of more than one run. It gets the command's words, the console and the values of
    `options`, and returns whether it reached its end. It has no defaults.
    predict: how to rebuild the trained model and what it predicts, for `shadergrad predict` and recipes.load.
    then: maps the settings of a finished run to further commands, which are printed.
    Raises RecipeError for an invalid recipe.
    """

    help: str
    build: Build | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[Option, ...] = ()
    train: Callable[..., bool] | None = None
    predict: Prediction | None = None
    then: Callable[[Settings], Iterable[str]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.help, str) or not self.help.strip():
            raise RecipeError("[Recipe] help is empty; say in a line what is trained.")
        if callable(self.build) == callable(self.train):
            raise RecipeError("[Recipe] a recipe has either build, a function, or train.")
        self._check_options()
        if self.train is not None:
            if self.defaults:
                raise RecipeError("[Recipe] defaults are those of build; with train, give options.")
            return
        for name in self.defaults:
            if name not in COMMON:
                near = get_close_matches(name, COMMON, 1)
                hint = f"Did you mean {near[0]}?" if near else "Options of the recipe alone belong into options."
                raise RecipeError(f"[Recipe] defaults has {name!r}; it may have {', '.join(COMMON)}. {hint}")
        if "batch_size" not in self.defaults or ("epochs" in self.defaults) == ("steps" in self.defaults):
            raise RecipeError("[Recipe] defaults needs batch_size, and either epochs or steps.")
        self.all_options("")  # checks the kinds of the defaults

    def _check_options(self) -> None:
        for option in self.options:
            if not isinstance(option, Option):
                raise RecipeError(f"[Recipe] options holds {option!r}, which is no Option.")
        names = [option.name for option in self.options]
        taken = {name for name in names if names.count(name) > 1 or (self.build is not None and name in RESERVED)}
        if taken:
            raise RecipeError(f"[Recipe] options has {sorted(taken)[0]!r}, which is there already.")

    def all_options(self, name: str) -> list[Option]:
        """Every option of the recipe on the command line. name: the name of the recipe there."""
        if self.train is not None:
            return list(self.options)
        defaults = {"seed": 0, **self.defaults}
        common = [Option(key, kind, text, defaults[key]) for key, (kind, text) in COMMON.items() if key in defaults]
        also = [OVERRIDE] if "lr" in defaults else []
        out = Option("out", Path, OUT_HELP, Path("runs", name))
        return [DEVICE, *common, out, RESUME, OVERWRITE, *also, *self.options]

    def run(self, name: str, command: str, console: Console, values: Mapping[str, Any]) -> bool:
        """Train with the values of all options. Returns whether it reached its end (Ctrl-C: False).

        name: the recipe's name in the checkpoint. command: the words of the command line before the options.
        """
        if self.train is not None:
            return self.train(command, console, **values)
        assert self.build is not None
        join_launched()
        shared = HYPERPARAMETERS + tuple(option.name for option in self.options if not option.may_change)
        settings = Settings(shared=shared, **values)
        settings.defaults = {option.name: option.default for option in self.all_options(_name_in(command))}
        finished = train(name, self.build, settings, console, command)
        if finished and is_first():
            for line in self._next(name, command, settings):
                console.out(line, highlight=False)
        return finished

    def _next(self, name: str, command: str, settings: Settings) -> list[str]:
        """The commands to suggest after a finished run."""
        counter = "epochs" if settings.epochs is not None else "steps"
        same = re.sub(rf"{flag(counter)} \d+ ?", "", settings.options(short=True))
        options = f"{flag(counter)} {2 * settings[counter]} {same}".rstrip()
        out = shlex.quote(str(settings.out))
        commands = list(self.then(settings)) if self.then is not None else []
        if self.predict is not None and self.predict.answer is not None:
            what = "IMAGE..." if self.predict.takes == "images" else "--prompt TEXT"
            commands.insert(0, f"{command.replace(' train ', ' predict ', 1)} {out} {what}")
        lines = [f"next: {words}" for words in commands]
        if self.predict is not None:
            file = f", recipe={shlex.split(command)[-1]!r}" if name.endswith(".py") else ""
            lines.append(
                f"{'      or' if lines else 'next:'} in Python: model = sg.recipes.load({str(settings.out)!r}{file})"
            )
        return [*lines, f"next: {command} --resume {options}"]


def _name_in(command: str) -> str:
    """The name of a recipe's command, given its words: that of `train path/my_recipe.py` is my-recipe."""
    word = shlex.split(command)[-1]
    return Path(word).stem.replace("_", "-") if word.endswith(".py") else word
