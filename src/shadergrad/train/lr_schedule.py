"""The learning rate over a run. In: the lengths of its rise and fall. Out: its factor at each step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import TrainingError
from .settings import Settings

LONGEST_WARM_UP = 100  # steps, where the user says nothing


@dataclass(frozen=True)
class WarmUpCosine:
    """A factor of the learning rate: from 0 to 1 in `warm_up` steps, then as a half cosine to `floor` at `steps`.

    Loshchilov and Hutter, 2017, without restarts. Used as the `schedule` of a Trainable. Raises TrainingError for a warm_up
    below 0, steps below 1, or a floor that is not from 0 to 1.

    >>> from shadergrad.train import WarmUpCosine
    >>> rate = WarmUpCosine(warm_up=2, steps=6)
    >>> [round(rate(k), 3) for k in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    """

    warm_up: int
    steps: int
    floor: float = 0.0

    def __post_init__(self) -> None:
        if self.warm_up < 0 or self.steps < 1:
            raise TrainingError(
                f"--warm-up is {self.warm_up} and --schedule-steps {self.steps}; they must be at least 0, and 1."
            )
        if not 0.0 <= self.floor <= 1.0:
            raise TrainingError(f"[WarmUpCosine] floor is {self.floor}; it must be from 0 to 1.")

    @classmethod
    def of(cls, settings: Settings, total: int) -> WarmUpCosine:
        """The schedule of a recipe with the options train.SCHEDULE, in a run of `total` steps."""
        warm_up, steps = settings["warm_up"], settings["schedule_steps"]
        steps = total if steps is None else steps
        return cls(min(LONGEST_WARM_UP, steps // 10) if warm_up is None else warm_up, steps)

    def __call__(self, step: int) -> float:
        """The factor of step 0, 1, 2 ..."""
        if step < self.warm_up:
            return (step + 1) / self.warm_up
        done = min((step - self.warm_up) / max(self.steps - self.warm_up, 1), 1.0)
        return self.floor + (1.0 - self.floor) * (1.0 + math.cos(math.pi * done)) / 2.0
