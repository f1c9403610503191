"""The best state of a run, saved beside its last one. In: rows of metrics. Out: a checkpoint in the folder `best`."""

from __future__ import annotations

import math
from typing import Any

from .callbacks import Callback, Row
from .metrics import read_rows

BEST = "best"
MEASURES = ("test_loss", "validation_loss")


class KeepBest(Callback):
    """Saves the state with the lowest test loss, for recipes that count epochs. Earlier runs that this one continues count, too."""

    def __init__(self, metrics: str) -> None:
        self._metrics = metrics
        self._lowest = math.inf

    def on_fit_begin(self, run: Any) -> None:
        rows = read_rows(run.settings.out / self._metrics) if run.done else []
        known = [_loss(row) for row in rows if _number(row.get("epoch")) <= run.position.epoch]
        self._lowest = min(known, default=math.inf)

    def on_epoch_end(self, run: Any, row: Row) -> None:
        if "epoch" in row and _loss(row) < self._lowest:
            self._lowest = _loss(row)
            run.save(BEST)


def _loss(row: Row) -> float:
    """The test or validation loss; infinite if there is none."""
    return _number(next((row[name] for name in MEASURES if name in row), None))


def _number(value: Any) -> float:
    """A value of a row in a file as a number; infinite if it is not a number."""
    return value if isinstance(value, int | float) else math.inf
