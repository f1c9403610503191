"""What the user chose for a run. In: the values of a recipe's options, by name. Out: the same, checked."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import Any

from .errors import RecipeError, TrainingError

LARGEST_SEED = (1 << 64) - 1
HYPERPARAMETERS = ("batch_size", "lr", "seed")


class Settings:
    """The values of a recipe's options: `settings.lr`, and those that only this recipe has as `settings["width"]`.

    out: the folder to write. device: as the user said it, "auto" too. values: the others by their names in Python,
    among them either epochs or steps. Own options that were not given, and have no default, are None.
    override: whether a resumed run may have another learning rate. shared: names of those that a resumed run must have in common with the run it continues.
    Raises TrainingError that names the option whose value cannot be.
    """

    def __init__(
        self,
        *,
        out: Path,
        seed: int = 0,
        device: str = "auto",
        resume: bool = False,
        override: bool = False,
        shared: tuple[str, ...] = HYPERPARAMETERS,
        **values: Any,
    ) -> None:
        self.out, self.device, self.resume, self._shared = out, device, resume, shared
        self.override = override
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
                "Remedy: name it in the defaults or options of RECIPE."
            ) from None

    @property
    def batch_size(self) -> int:
        """Samples a step."""
        return self["batch_size"]

    @property
    def lr(self) -> float:
        """The learning rate."""
        return self["lr"]

    @property
    def seed(self) -> int:
        """Decides everything that is random."""
        return self["seed"]

    @property
    def epochs(self) -> int | None:
        """How often to go through the data, or None where steps are counted."""
        return self._values.get("epochs")

    @property
    def steps(self) -> int | None:
        """Optimizer steps in all, or None where epochs are counted."""
        return self._values.get("steps")

    def hyperparameters(self) -> dict[str, Any]:
        """What a resumed run must share with the run it continues (epochs and steps may grow, the device may change)."""
        found = {name: self._values[name] for name in self._shared if name in self._values}
        return {name: str(value) if isinstance(value, Path) else value for name, value in found.items()}

    def options(self) -> str:
        """The command-line options that ask for these settings."""
        first = ("epochs", "steps", "batch_size", "lr", "seed")
        own = [name for name in self._values if name not in first]
        values = {name: self._values[name] for name in first if name in self._values}
        values |= {"device": self.device, "out": self.out} | {name: self._values[name] for name in own}
        return command_options(values)


def flag(name: str) -> str:
    """The option on the command line with that name in Python."""
    return f"--{name.replace('_', '-')}"


def command_options(values: dict[str, Any]) -> str:
    """Words of a command line that give these values; those that are None are not given."""
    words = []
    for name, value in values.items():
        if isinstance(value, bool):
            words.append(flag(name) if value else flag(f"no_{name}"))
        elif value is not None:
            words.append(f"{flag(name)} {shlex.quote(str(value))}")
    return " ".join(words)
