"""The settings of a run. In: the values of a recipe's options, by name. Out: the same, checked."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import Any

from .errors import RecipeError, TrainingError

LARGEST_SEED = (1 << 64) - 1
HYPERPARAMETERS = ("batch_size", "lr", "seed")


class Settings:
    """The values of a recipe's options: shared ones as `settings.lr`, the recipe's own as `settings["width"]`.

    out: the folder to write.
    device: the user's text, also "auto".
    values: the other options by their names in Python, among them either epochs or steps. An own option without value and
    default is None.
    override: whether a resumed run may have another learning rate. overwrite: whether the run may replace one that is in `out`.
    shared: the names of options that a resumed run must have in common with the run it continues.
    Raises a TrainingError that names the invalid option.
    """

    def __init__(
        self,
        *,
        out: Path,
        seed: int = 0,
        device: str = "auto",
        resume: bool = False,
        override: bool = False,
        overwrite: bool = False,
        shared: tuple[str, ...] = HYPERPARAMETERS,
        **values: Any,
    ) -> None:
        self.out, self.device, self.resume, self._shared = out, device, resume, shared
        self.override, self.overwrite = override, overwrite
        self.defaults: dict[str, Any] = {}  # of options, which need not be repeated on a command line
        if overwrite and resume:
            raise TrainingError("--resume continues the run in --out, and --overwrite replaces it: give one of them.")
        if override and not resume:
            raise TrainingError("--override changes a run that is resumed: give --resume too.")
        self._values = {"seed": seed} | values
        for name in ("epochs", "steps", "batch_size"):
            if values.get(name, 1) < 1:
                raise TrainingError(f"{flag(name)} is {values[name]}; it must be at least 1.")
        if not (math.isfinite(lr := values.get("lr", 1.0)) and lr > 0):
            raise TrainingError(f"--lr is {lr}; it must be a positive number.")
        if not 0 <= seed <= LARGEST_SEED:
            raise TrainingError(f"--seed is {seed}; it must not be negative, and at most 2**64 - 1.")

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise RecipeError(
                f"the recipe asks for its option {name!r}, and has {', '.join(self._values)}. "
                "Hint: name it in the defaults or options of RECIPE."
            ) from None

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an option, or `default` if the recipe has none of that name."""
        return self._values.get(name, default)

    @property
    def batch_size(self) -> int:
        """Samples per step."""
        return self["batch_size"]

    @property
    def lr(self) -> float:
        """The learning rate."""
        return self["lr"]

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        return self["seed"]

    @property
    def epochs(self) -> int | None:
        """The number of passes through the data; None if the run counts steps."""
        return self._values.get("epochs")

    @property
    def steps(self) -> int | None:
        """The total number of optimizer steps; None if the run counts epochs."""
        return self._values.get("steps")

    def hyperparameters(self) -> dict[str, Any]:
        """The values that a resumed run must share with the run it continues (epochs and steps may grow, the device may change)."""
        found = {name: self._values[name] for name in self._shared if name in self._values}
        return {name: str(value) if isinstance(value, Path) else value for name, value in found.items()}

    def options(self, short: bool = False) -> str:
        """The command-line options for these settings. short: without those that have their default."""
        first = ("epochs", "steps", "batch_size", "lr", "seed")
        own = [name for name in self._values if name not in first]
        values = {name: self._values[name] for name in first if name in self._values}
        values |= {"device": self.device, "out": self.out} | {name: self._values[name] for name in own}
        if short:
            values = {k: v for k, v in values.items() if k not in self.defaults or v != self.defaults[k]}
        return command_options(values)


def flag(name: str) -> str:
    """The command-line option of a name in Python."""
    return f"--{name.replace('_', '-')}"


def command_options(values: dict[str, Any]) -> str:
    """The words of a command line for these values, without those that are None."""
    words = []
    for name, value in values.items():
        if isinstance(value, bool):
            words.append(flag(name) if value else flag(f"no_{name}"))
        elif value is not None:
            words.append(f"{flag(name)} {shlex.quote(str(value))}")
    return " ".join(words)
