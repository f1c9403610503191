"""A training loop: Trainer(model, optimizer, loss, data).fit(epochs). In: these objects. Out: a history.

The loop is that of the recipes (see `training_run`). A step is one submission. The loop reads losses a few times a second, prepares
batches ahead, and Ctrl-C stops after a complete step. Callbacks add special behaviour; a plain loop is the alternative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import shadergrad as sg
from shadergrad import Tensor, nn
from shadergrad.optim import Optimizer

from ..checkpoint import load_checkpoint
from ..data.loader import DataLoader
from .backward_engines import TrainingStep
from .callbacks import Callback, Progress, Row
from .checkpoints import put_back
from .data_parallel import DataParallel, is_first, join_launched, share_of_batch
from .errors import TrainingError
from .plots import curve_figure
from .settings import Settings
from .trainable import Trainable
from .training_run import Run

Measure = Callable[[Tensor, Tensor], Any]


def accuracy(prediction: Tensor, target: Tensor) -> float:
    """The fraction of correct classes: logits (n, classes, ...) and labels (n, ...).

    >>> sg.train.accuracy(sg.tensor([[0.0, 1.0], [1.0, 0.0]]), sg.tensor([1, 1]))
    0.5
    """
    return float((prediction.argmax(1).numpy() == target.numpy()).mean())


MEASURES: dict[str, Measure] = {"accuracy": accuracy}


class History(Sequence[Row]):
    """The rows of metrics of a training, one per epoch: history["loss"] is a column, history[-1] the last row.

    >>> history = sg.train.History([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}])
    >>> history["loss"], history[-1]["epoch"], history.best("loss")["epoch"]
    ([0.5, 0.25], 2, 2)
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self.rows[key]
        if self.rows and not any(key in row for row in self.rows):
            raise TrainingError(f"[History] there is no column {key!r}; there are {', '.join(self.rows[-1])}.")
        return [row.get(key, math.nan) for row in self.rows]

    def best(self, name: str) -> Row:
        """The row with the lowest value or, for an accuracy, the highest. Raises TrainingError if there is none."""
        rows = [row for row in self.rows if name in row]
        if not rows:
            raise TrainingError(f"[History] no epoch has measured {name!r}.")
        return (max if "accuracy" in name else min)(rows, key=lambda row: row[name])

    def plot(self, path: str | Path | None = None, title: str = "training") -> Any:
        """The curves of losses and accuracies as a matplotlib figure, which notebooks show. path: also writes it there, as the ending
        says. Raises TrainingError without losses."""
        figure = curve_figure(self.rows, title)
        if figure is None:
            raise TrainingError("[History] there are no losses to draw yet.")
        if path is not None:
            figure.savefig(path)
        return figure

    def __repr__(self) -> str:
        last = " ".join(f"{name} {value:.4g}" for name, value in self.rows[-1].items()) if self.rows else "empty"
        return f"History({len(self)} epochs; {last})"


class Trainer:
    """Trains a model for some epochs. Forward pass, backward pass and update are compiled into one submission.

    model: its parameters are those of the optimizer, on one device.
    loss: a function of prediction and target, such as F.cross_entropy; the last part of a batch is the target, and the model
    takes the parts before it.
    data: arrays with equal first axes, a Dataset, or a DataLoader, which keeps its own batches and order.
    validation: data of the same kinds, evaluated after each epoch without gradients, in evaluation mode: "validation_loss" and
    the measures.
    measures: "accuracy", or functions of prediction and target by name, averaged with the sizes of batches as weights.
    callbacks: called in order; see `Callback`.
    batch_size: that of arrays and datasets. Arrays are split into complete batches, in an order determined by `seed` and the
    epoch.
    progress: whether to show a bar.
    distributed: whether all processes of the process group train together, each on its share of every batch. A Dataset is divided by a
    DistributedSampler. A DataLoader gives a process its own batches: it needs a DistributedSampler, whose epoch is set here, or a data set of its
    own, and as many batches as those of the others. Metrics are means; callbacks and the bar are those of the first process, but for callbacks that are to run `everywhere`.
    backward, accumulate, finish, threads: see `TrainingStep`.
    Raises TrainingError for other data, or if they fill no batch; with distributed also for a batch_size that the processes cannot share evenly, and for
    unequal numbers of batches.

    >>> x = np.random.default_rng(0).standard_normal((64, 2)).astype(np.float32)
    >>> y = (x[:, 0] > x[:, 1]).astype(np.int32)
    >>> model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> optimizer = sg.optim.AdamW(model.parameters(), lr=0.05)
    >>> trainer = sg.train.Trainer(model, optimizer, F.cross_entropy, (x, y), validation=(x, y),
    ...                            measures="accuracy", batch_size=16, progress=False)
    >>> history = trainer.fit(20)
    >>> history[-1]["validation_accuracy"] > 0.9
    True
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        loss: Measure,
        data: Any,
        *,
        validation: Any = None,
        measures: str | Mapping[str, Measure] | None = None,
        callbacks: Sequence[Callback] = (),
        batch_size: int = 32,
        seed: int = 0,
        progress: bool = True,
        distributed: bool = False,
        **step_options: Any,
    ) -> None:
        if distributed:
            join_launched()
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.callbacks = list(callbacks)
        self.history = History()
        self._device = str(next(model.parameters()).device)
        self._settings: dict[str, Any] = {"batch_size": batch_size, "seed": seed}
        self._measures = _named(measures)
        self._validation = None if validation is None else self._loader(validation, batch_size, shuffled=False)
        arrays = _arrays(data)
        step = TrainingStep(model, optimizer, lambda *batch: loss(model(*batch[:-1]), batch[-1]), **step_options)
        self.trainable = Trainable(
            model,
            optimizer,
            self._loader(data, batch_size, shares=distributed) if arrays is None else arrays,
            step,
            self.validate,
        )
        shown = [callback.console for callback in self.callbacks if isinstance(callback, Progress)]
        self._console = shown[0] if shown else Console(quiet=not progress or not is_first())
        self._parallel: DataParallel | None = None
        if distributed:
            self._parallel = DataParallel(self.trainable, self._settings_for(1))
        self._run: _Fit | None = None

    def fit(self, epochs: int) -> History:
        """Train for `epochs` more epochs. Returns the history of all.

        Raises TrainingError if a loss is no longer finite, and KeyboardInterrupt after the step during which Ctrl-C came. The
        callbacks have ended by then, and `history` has the epochs before.
        """
        if epochs < 1:
            raise TrainingError(f"[Trainer] epochs is {epochs}; it must be at least 1.")
        so_far = 0 if self._run is None else self._run.position.epoch
        settings = self._settings_for(so_far + epochs)
        if self._run is None:
            self._run = self._fit(settings)
        self._run.begin(settings)
        self.model.train()
        if not self._run.train(self._console):
            raise KeyboardInterrupt
        return self.history

    def _settings_for(self, epochs: int) -> Settings:
        return Settings(out=Path(), epochs=epochs, device=self._device, **self._settings)

    def _fit(self, settings: Settings) -> _Fit:
        return _Fit("Trainer", settings, self.trainable, self._device, self.callbacks, self.history, self._parallel)

    def validate(self) -> Row:
        """The present loss and measures on the validation data; empty without such data."""
        if self._validation is None:
            return {}
        totals: dict[str, float] = {}
        count = 0
        functions = {"loss": self.loss, **self._measures}
        training = self.model.training
        self.model.eval()
        try:
            with sg.no_grad():
                for batch in self._validation:
                    parts = [p if isinstance(p, Tensor) else sg.tensor(p) for p in batch]
                    parts = [p.to(self._device) for p in parts]
                    prediction = self.model(*parts[:-1])
                    size = len(parts[-1])
                    for name, function in functions.items():
                        totals[name] = totals.get(name, 0.0) + size * float(function(prediction, parts[-1]))
                    count += size
        finally:
            self.model.train(training)
        if not count:
            raise TrainingError("[Trainer] the validation data are empty.")
        return {f"validation_{name}": total / count for name, total in totals.items()}

    def predict(self, data: Any, batch_size: int | None = None) -> Any:
        """The model's outputs, in evaluation mode, without gradients, batch by batch; a tensor on its device.

        data: an array or a tensor, a tuple of them for a model of several inputs, or a DataLoader over inputs alone. batch_size: by
        default that of the training.
        """
        if isinstance(data, np.ndarray | Tensor):
            data = (data,)
        if not isinstance(data, DataLoader):
            if not isinstance(data, tuple | list) or not all(isinstance(x, np.ndarray | Tensor) for x in data):
                raise TrainingError(f"[Trainer] predict takes arrays or tensors, not a {type(data).__name__}.")
            arrays = tuple(x.detach().numpy() if isinstance(x, Tensor) else x for x in data)
            size = batch_size or self._settings["batch_size"]
            data = DataLoader(sg.data.TensorDataset(*arrays), size, device=self._device)
        training = self.model.training
        self.model.eval()
        found = []
        try:
            with sg.no_grad():
                for batch in data:
                    parts = batch if isinstance(batch, tuple | list) else (batch,)
                    given = [p if isinstance(p, Tensor) else sg.tensor(p) for p in parts]
                    found.append(self.model(*(p.to(self._device) for p in given)))
        finally:
            self.model.train(training)
        if not found:
            raise TrainingError("[Trainer] there is nothing to predict: the data are empty.")
        return sg.cat(found)

    def __repr__(self) -> str:
        """What is trained, how, and how far."""
        done = 0 if self._run is None else self._run.position.epoch
        parts = [type(self.model).__name__, type(self.optimizer).__name__, f"batch_size={self._settings['batch_size']}"]
        return f"Trainer({', '.join(parts)}, {done} epochs trained on {self._device})"

    def restore(self, folder: str | Path) -> Trainer:
        """Restore model, optimizer, random numbers and position from a checkpoint, to continue from its epoch.

        folder: written by the callback Checkpoint, as "runs/mine/best". Raises CheckpointError if it does not fit.
        """
        arrays, meta = load_checkpoint(folder)
        settings = Settings(out=Path(folder), epochs=1, device=self._device, **self._settings)
        if self._run is None:
            self._run = self._fit(settings)
        self._run.position = put_back("Trainer", settings, self.trainable, self._device, arrays, meta)
        if self._parallel is not None:
            self._parallel.seed_apart()
        self.history.rows[:] = [row for row in self.history.rows if row["epoch"] <= self._run.position.epoch]
        return self

    def _loader(self, data: Any, batch_size: int, shuffled: bool = True, shares: bool = False) -> DataLoader:
        """Batches from any kind of data. shares: of a data set, whether each process takes its share of every batch."""
        if isinstance(data, DataLoader):
            return data
        arrays = _arrays(data)
        dataset = data if arrays is None else sg.data.TensorDataset(*arrays)
        if not hasattr(dataset, "__getitem__") and not isinstance(dataset, sg.data.IterableDataset):
            raise TrainingError(
                f"[Trainer] data is a {type(data).__name__}; give arrays, a Dataset, or a DataLoader over either."
            )
        stream = isinstance(dataset, sg.data.IterableDataset)
        if shares and not stream:
            sampler = sg.utils.data.DistributedSampler(dataset, seed=self._settings["seed"])
            return DataLoader(dataset, share_of_batch(batch_size), sampler=sampler, device=self._device)
        return DataLoader(dataset, batch_size, shuffle=None if stream else shuffled, device=self._device)


class _Fit(Run):
    """The loop of the recipes without a folder: it keeps a history, and callbacks write files."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        trainable: Trainable,
        device: str,
        callbacks: Sequence[Callback],
        history: History,
        parallel: DataParallel | None = None,
    ) -> None:
        super().__init__(name, settings, trainable, device, callbacks, parallel)
        self.history = history

    def begin(self, settings: Settings) -> None:
        """Prepare to continue up to the epochs of these settings."""
        self.settings = settings
        self.steps = (settings.epochs or 0) * self.epoch_steps
        self.stop_wish = None

    def open_metrics(self) -> Any:
        return _Memory(self.history, self.position.seconds)

    def save(self, beside: str = "") -> Path:
        """Does nothing, because a callback saves."""
        return self.settings.out / beside


class _Memory:
    """Metrics in memory."""

    def __init__(self, history: History, seconds: float) -> None:
        self._history, self.seconds = history, seconds

    def begin(self) -> None:
        """Does nothing, because no rows have to be removed."""

    def add(self, *rows: Row) -> None:
        self._history.rows.extend(rows)


def _named(measures: str | Mapping[str, Measure] | None) -> dict[str, Measure]:
    if measures is None:
        return {}
    if isinstance(measures, str):
        if measures not in MEASURES:
            raise TrainingError(f"[Trainer] measures is {measures!r}; by name there is {', '.join(MEASURES)}.")
        return {measures: MEASURES[measures]}
    return dict(measures)


def _arrays(data: Any) -> tuple[np.ndarray, ...] | None:
    """The data as arrays, if they are arrays or tensors."""
    if not isinstance(data, tuple | list) or not data or not all(isinstance(x, np.ndarray | Tensor) for x in data):
        return None
    if len(data) < 2:
        raise TrainingError(
            "[Trainer] data needs inputs and targets: a pair of arrays, or (x, x) for what gives x back."
        )
    return tuple(x.detach().numpy() if isinstance(x, Tensor) else x for x in data)
