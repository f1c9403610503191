"""Callbacks of the training loop. In: the run and its rows of metrics. Out: files, or a request to stop.

A callback is any object with some of the methods of `Callback`. `run` is the loop itself: `run.position.epoch`,
`run.done` (steps), `run.trainable.model` and `.optimizer`; a callback sets `run.stop_wish` to a reason to stop the training.
"""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from ..checkpoint import save_checkpoint
from ..errors import CheckpointError
from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from ..system.atomic_files import replacing
from ..system.optional_packages import require
from ..utils.tensorboard import SummaryWriter
from .errors import TrainingError
from .plots import training_curve

Row = dict[str, float]


class Callback:
    """The base class of callbacks. Its methods do nothing.

    >>> class Shout(sg.train.Callback):
    ...     def on_epoch_end(self, run, row):
    ...         print("LOSS", round(row["loss"], 1))
    """

    everywhere: ClassVar[bool] = (
        False  # whether each of several processes that train together needs it, not the first alone
    )

    def on_fit_begin(self, run: Any) -> None:
        """Called before the first step."""

    def on_step_end(self, run: Any) -> None:
        """Called after each step. The device may still be running it: reading a value here makes every step wait."""

    def on_epoch_end(self, run: Any, row: Row) -> None:
        """Called after each epoch, with its row of metrics."""

    def on_fit_end(self, run: Any) -> None:
        """Called at the end, also after a stop or a failure."""


class Progress(Callback):
    """Shows a progress bar with losses, speed and time. `Trainer` adds one unless `progress=False`.

    console: a rich Console; None: the terminal, or the notebook.

    >>> sg.train.Progress().console.quiet
    False
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = Console() if console is None else console


def measured(row: Row, name: str, who: str) -> float:
    """The value `name` of a row of metrics. Raises a TrainingError that lists the available names."""
    if name not in row:
        raise TrainingError(f"[{who}] there is no measure {name!r}; an epoch has {', '.join(row)}.")
    return row[name]


class _Best:
    """Tells whether a measure is better than ever before: lower, or, for an accuracy, higher."""

    def __init__(self, monitor: str, mode: str, least: float, who: str) -> None:
        if mode not in ("auto", "min", "max"):
            raise TrainingError(f"[{who}] mode is {mode!r}; choose one of auto, min, max.")
        rises = mode == "max" or (mode == "auto" and "accuracy" in monitor)
        self._sign = -1.0 if rises else 1.0
        self._least = least
        self.value = math.nan

    def better(self, value: float) -> bool:
        if math.isnan(self.value) or self._sign * (self.value - value) > self._least:
            self.value = value
            return True
        return False


class Checkpoint(Callback):
    """Saves states in a folder: `last` after each epoch, `best` by a measure, `epoch-0010` every `every` epochs.

    Each is a checkpoint (see `shadergrad.checkpoint`), complete at any time, for Trainer.restore.
    best: a measure of the epochs, as "validation_loss"; None saves no best state.
    mode: "min", "max", or "auto": accuracies rise.
    Raises TrainingError for an unknown measure, every below 1, or another mode.

    >>> sg.train.Checkpoint("runs/mine", best="validation_accuracy", every=10).folder.name
    'mine'
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        best: str | None = "validation_loss",
        last: bool = True,
        every: int | None = None,
        mode: str = "auto",
    ) -> None:
        if every is not None and every < 1:
            raise TrainingError(f"[Checkpoint] every is {every}; it must be at least 1.")
        self.folder, self.best, self.last, self.every = Path(folder), best, last, every
        self._best = _Best(best or "", mode, 0.0, "Checkpoint")

    def on_epoch_end(self, run: Any, row: Row) -> None:
        names = ["last"] if self.last else []
        if self.best is not None and self._best.better(measured(row, self.best, "Checkpoint")):
            names.append("best")
        if self.every is not None and row["epoch"] % self.every == 0:
            names.append(f"epoch-{int(row['epoch']):04d}")
        if names:
            tensors, meta = run.checkpoint()
            for name in names:
                save_checkpoint(self.folder / name, tensors, meta)

    def on_fit_end(self, run: Any) -> None:
        """Beside them the measures and their curve, as a recipe's run has them."""
        history = getattr(run, "history", None)  # of a Trainer; a recipe's run writes its own
        if not history or not self.folder.is_dir():
            return
        with replacing(self.folder / "metrics.jsonl", CheckpointError) as file:
            file.write("".join(f"{json.dumps(row)}\n" for row in history).encode())
        training_curve(self.folder / "metrics.jsonl", self.folder / "curve.png", self.folder.name)


class EarlyStopping(Callback):
    """Stops the training when a measure has not improved by more than `min_delta` for `patience` epochs.

    mode: "min", "max", or "auto": accuracies rise, all other measures fall. Raises TrainingError for an unknown measure.

    >>> sg.train.EarlyStopping("validation_loss", patience=3).patience
    3
    """

    def __init__(
        self, monitor: str = "validation_loss", *, patience: int = 5, min_delta: float = 0.0, mode: str = "auto"
    ) -> None:
        if patience < 1:
            raise TrainingError(f"[EarlyStopping] patience is {patience}; it must be at least 1.")
        self.monitor, self.patience = monitor, patience
        self._best = _Best(monitor, mode, min_delta, "EarlyStopping")
        self._waited = 0

    def on_epoch_end(self, run: Any, row: Row) -> None:
        better = self._best.better(measured(row, self.monitor, "EarlyStopping"))
        self._waited = 0 if better else self._waited + 1
        if self._waited >= self.patience:
            run.stop_wish = (
                f"{self.monitor} has not become better than {self._best.value:.4g} for {self.patience} epochs"
            )


class Schedule(Callback):
    """Steps a scheduler of `sg.optim.lr_scheduler` after each epoch, or after each step (every="step").

    monitor: the measure for ReduceLROnPlateau, which steps once per epoch.

    >>> optimizer = sg.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
    >>> sg.train.Schedule(sg.optim.lr_scheduler.StepLR(optimizer, 10)).every
    'epoch'
    """

    everywhere = True  # all processes make the same step

    def __init__(self, scheduler: LRScheduler, every: str = "epoch", monitor: str = "validation_loss") -> None:
        if every not in ("epoch", "step"):
            raise TrainingError(f"[Schedule] every is {every!r}; choose one of epoch, step.")
        if every == "step" and isinstance(scheduler, ReduceLROnPlateau):
            raise TrainingError("[Schedule] ReduceLROnPlateau looks at a measure of an epoch: every='epoch'.")
        self.scheduler, self.every, self.monitor = scheduler, every, monitor

    def on_step_end(self, run: Any) -> None:
        if self.every == "step":
            self.scheduler.step()

    def on_epoch_end(self, run: Any, row: Row) -> None:
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(measured(row, self.monitor, "Schedule"))
        elif self.every == "epoch":
            self.scheduler.step()


class CSVLog(Callback):
    """Writes a table of all epochs to a file, complete after each epoch.

    >>> sg.train.CSVLog("runs/mine/history.csv").path.name
    'history.csv'
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._rows: list[Row] = []

    def on_epoch_end(self, run: Any, row: Row) -> None:
        self._rows.append(row)
        names = list(dict.fromkeys(name for row in self._rows for name in row))
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, names, lineterminator="\n")
        table.writeheader()
        table.writerows(self._rows)
        with replacing(self.path, CheckpointError) as file:
            file.write(text.getvalue().encode())


class TensorBoard(Callback):
    """Writes each measure of an epoch for TensorBoard, into a folder."""

    def __init__(self, folder: str | Path) -> None:
        self._writer = SummaryWriter(folder)

    def on_epoch_end(self, run: Any, row: Row) -> None:
        for name, value in row.items():
            if name != "epoch":
                self._writer.add_scalar(name, value, int(row["epoch"]))

    def on_fit_end(self, run: Any) -> None:
        self._writer.flush()


class WandB(Callback):
    """Logs each epoch to Weights & Biases. Needs wandb, else raises MissingPackageError.

    options: arguments of wandb.init, as project="digits". The W&B run ends with the fit; a later fit begins a new one.
    """

    def __init__(self, **options: Any) -> None:
        self._wandb = require("wandb", "tracking", "the callback WandB")
        self._options = options
        self._session: Any = None

    def on_fit_begin(self, run: Any) -> None:
        self._session = self._wandb.init(**self._options)

    def on_epoch_end(self, run: Any, row: Row) -> None:
        self._session.log(dict(row), step=int(row["epoch"]))

    def on_fit_end(self, run: Any) -> None:
        if self._session is not None:
            self._session.finish()
            self._session = None
