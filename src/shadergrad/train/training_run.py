"""A run: one training by a recipe, from the start or from its checkpoint. Out: a trained model and a folder of files.

The folder holds `checkpoint.safetensors` and `checkpoint.json` (see `checkpoints`), `metrics.jsonl`, `curve.png` and what
the recipe writes. If the run counts epochs, each epoch is measured, saved and written as a line of metrics; if it counts
steps, each tenth is a line. Batches are made and uploaded while earlier ones are trained (see `epochs`). The device keeps the
losses of the latest steps, which are read a few times a second: no step waits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import shadergrad as sg
from shadergrad import Tensor

from ..checkpoint import TENSORS_FILE, load_checkpoint, save_checkpoint
from ..data.loader import DataLoader
from ..distributed.attempts import first_value, is_restarted
from ..distributed.cards import own_card, sharing
from ..runtime.adapters import auto_device_reason, hardware_adapter_available
from ..runtime.device import get_device
from .backward_engines import TrainingStep
from .best_checkpoint import KeepBest
from .callbacks import Callback
from .checkpoints import describe, hint, override, put_back
from .console_progress import Bar, StopWish
from .data_parallel import DataParallel, NoMetrics, computed_by_first, from_first, is_first
from .epochs import loader, steps_in_epoch
from .errors import RecipeError, TrainingError
from .metrics import Metrics, read_rows
from .notebook_progress import NotebookBar
from .plots import training_curve
from .settings import Settings
from .trainable import Position, Stream, Trainable

METRICS = "metrics.jsonl"
CURVE = "curve.png"
SHOW_EVERY = 0.2  # seconds between two readings of the losses
SAVE_EVERY = 30.0  # seconds between two checkpoints within an epoch
RECORD_EVERY = 10  # steps between two lines of metrics, where steps are counted
KEPT = 2048  # steps whose losses the device keeps

Build = Callable[[Settings, str], Trainable]


def train(recipe: str, build: Build, settings: Settings, console: Console, command: str) -> bool:
    """Train from the start, or from the checkpoint, and report; returns whether the run completed (Ctrl-C: False).

    recipe: the name in the checkpoint. build: builds the Trainable on a device of the given name.
    command: the words of the command line before the options, shown when the user stops the run.
    Raises TrainingError, RecipeError, CheckpointError or DeviceError; the checkpoint of an earlier run, or the latest of
    this one, is then unchanged.
    """
    console = console if is_first() else Console(quiet=True)
    run = begin(recipe, build, settings, console)
    finished = run.train(console)
    if not is_first():
        return finished
    run.report(console)
    if not finished:
        words = f"{command} --resume {settings.options()}"
        console.out(f"stopped after {run.where}. To go on: {words}", highlight=False)
    return finished


def begin(recipe: str, build: Build, settings: Settings, console: Console) -> Run:
    """A run ready to train: its device chosen, its model built and, if requested, restored, its folder made."""
    _go_on(settings)
    _keep_what_is_there(settings)
    device = choose_device(settings.device, console)
    sg.manual_seed(settings.seed)
    built = build(settings, device)
    trainable = getattr(built, "trainable", built)  # of a Trainer
    callbacks = getattr(built, "callbacks", ())
    if not isinstance(trainable, Trainable):
        raise RecipeError(f"build of {recipe} returned {_kind(trainable)}; it must return a Trainable or a Trainer.")
    parallel = DataParallel(trainable, settings) if sg.distributed.get_world_size() > 1 else None
    run = Run(recipe, settings, trainable, device, (KeepBest(METRICS), *callbacks), parallel)
    if settings.resume:
        loaded = computed_by_first(lambda: load_checkpoint(settings.out))
        run.position = put_back(recipe, settings, trainable, device, *loaded)
        if parallel is not None:
            parallel.seed_apart()
        run.changed = override(settings, trainable, loaded[1])
        told = "".join(f", {name} {old:g} now {new:g}" for name, (old, new) in run.changed.items())
        console.out(f"resuming {settings.out} after {run.where}{told}", highlight=False)
    if is_first():
        make_folder(settings.out)
    return run


def _go_on(settings: Settings) -> None:
    """Resume if a launcher has restarted this run, and it has saved something since the first start."""
    saved = False
    if is_first():
        now = _stamp(settings.out / TENSORS_FILE)
        saved = first_value(f"checkpoint {settings.out.resolve()}", now) != now
    if from_first(is_restarted() and saved):
        settings.resume, settings.overwrite = True, False


def _stamp(path: Path) -> str:
    """Identifies a file, as opposed to another in its place."""
    if not path.exists():
        return "none"
    found = path.stat()
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def _keep_what_is_there(settings: Settings) -> None:
    """Raises TrainingError if the run would replace another without --overwrite."""
    if settings.resume or settings.overwrite:
        return
    if (settings.out / TENSORS_FILE).exists():
        raise TrainingError(
            f"{settings.out} holds a run. Hint: --resume continues it, --overwrite replaces it, another --out keeps it."
        )


def choose_device(wish: str, console: Console) -> str:
    """The name of the device to train on; prints the hardware and the reason for the choice."""
    if wish == "auto":
        name, line = ("webgpu" if hardware_adapter_available() else "cpu"), auto_device_reason()
    else:
        name, line = wish, f"{get_device(wish).describe()}, as asked"
    if name == "webgpu" and sg.distributed.get_world_size() > 1:
        name, line = own_card(), "; ".join(filter(None, [line, sharing()]))
    console.out(f"device {wish}: {line}", highlight=False)
    return name


def make_folder(out: Path) -> None:
    """Make the folder of the run, before anything is trained for it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainingError(f"--out is {out}, which cannot be a folder: {error.strerror}.") from None


class Run:
    """A training run; `position` is its position, `steps` the total number of steps."""

    def __init__(
        self,
        recipe: str,
        settings: Settings,
        trainable: Trainable,
        device: str,
        callbacks: Sequence[Callback] = (),
        parallel: DataParallel | None = None,
    ) -> None:
        self.recipe = recipe
        self.parallel = parallel
        self.callbacks = callbacks = tuple(
            c for c in callbacks if parallel is None or parallel.rank == 0 or getattr(c, "everywhere", False)
        )
        self._each_step = [c for c in callbacks if type(c).on_step_end is not Callback.on_step_end]
        self.stop_wish: str | None = None
        self.accuracy: float | None = None  # after the latest epoch, where it is measured
        self._shown: tuple[int, str, dict[str, float]] = (0, "", {})  # by the bar, but for the accuracy
        self.changed: dict[str, tuple[float, float]] = {}  # changed by --override: the old and the new value
        self.settings = settings
        self.trainable = trainable
        self.device = device
        self.epoch_steps = steps_in_epoch(trainable, settings)
        self.steps = (settings.epochs or 0) * self.epoch_steps if settings.steps is None else settings.steps
        self.position = self._at_epoch(0)
        self._rates = [group["lr"] for group in trainable.optimizer.param_groups]  # before a checkpoint's are read

        step = trainable.step
        apart = isinstance(step, TrainingStep) and step.backward != "shaders"
        self.batch_device = "cpu" if apart else device  # such a step wants its batches on the host too

        # kept on the device, losses wait for their reading, however many steps ago the last one was
        def append(latest: Tensor, losses: Any) -> Tensor:
            return sg.cat([latest[1:], self._checked(losses)])

        if apart:
            appended = sg.compile(append)
            self.step = lambda latest, *batch: appended(latest, step(*batch))
        else:
            self.step = sg.compile(lambda latest, *batch: append(latest, self._stepped(batch)))

    def _stepped(self, batch: Sequence[Any]) -> Any:
        if self.parallel is None:
            return self.trainable.step(*batch)
        self.parallel.begin_step()
        return self.parallel.mean(self.trainable.step(*self.parallel.batch(batch)))

    def __repr__(self) -> str:
        """The recipe, the position and the folder."""
        return f"Run({self.recipe}, {self.done} of {self.steps} steps on {self.device}, in {self.settings.out})"

    @property
    def done(self) -> int:
        """The steps trained, by this run and those that it continues."""
        return self.position.epoch * self.epoch_steps + self.position.step

    @property
    def where(self) -> str:
        """The position of the run, in words."""
        if self._counts_steps:
            return f"step {self.done}"
        step = self.position.step
        return f"epoch {self.position.epoch}" + (f" and {step} steps" if step else "")

    @property
    def _writes(self) -> bool:
        """Whether this process writes files: only rank 0 does."""
        return self.parallel is None or self.parallel.rank == 0

    @property
    def _counts_steps(self) -> bool:
        return self.settings.steps is not None

    def train(self, console: Console) -> bool:
        """Train until all is done (True) or the user stops the run (False); then the checkpoint is written."""
        metrics = self.open_metrics()
        self.position.seconds = metrics.seconds
        if self.done >= self.steps:
            asked = f"--steps is {self.steps}" if self._counts_steps else f"--epochs is {self.settings.epochs}"
            console.out(f"nothing left to train: {asked}", highlight=False)
            return True
        size = 1 if self._counts_steps else self.settings.batch_size
        with (
            self._ending_callbacks(),
            StopWish() as stop,
            self._bar(console, self.steps * size, self.done * size) as bar,
        ):
            stopping, begun_at = False, self.done - 1 if self._counts_steps else self.position.epoch
            for callback in self.callbacks:
                callback.on_fit_begin(self)
            while self.done < self.steps and not stopping and self.stop_wish is None:
                stopping, speed = self.train_epoch(bar, stop, metrics)
                row = (
                    self._measure(speed) if self.position.step == self.epoch_steps or self.done == self.steps else None
                )
                metrics.begin()
                self._record_changes(metrics, begun_at)
                if row:
                    metrics.add(row)
                self.save()
                if row:
                    bar.add(row)
                    self._epoch_ended(row if self.parallel is None else self.parallel.firsts(row))
                    bar.show(*self._shown, self.accuracy)
                    if self.parallel is not None:
                        self.stop_wish = self.parallel.firsts(self.stop_wish)
        if self.stop_wish is not None:
            console.out(f"stopped after {self.where}: {self.stop_wish}", highlight=False)
        return self.done >= self.steps or self.stop_wish is not None

    def _bar(self, console: Console, total: int, done: int) -> Bar | NotebookBar:
        unit = "steps" if self._counts_steps else self.trainable.unit
        if console.is_jupyter and not console.quiet:
            return NotebookBar(unit, total, done, self.device)
        return Bar(console, unit, total, done, self.device)

    def _record_changes(self, metrics: Metrics, begun_at: int) -> None:
        """Adds a line of metrics that records changed settings and their first step."""
        if self.changed:
            counter = "step" if self._counts_steps else "epoch"
            changes = {name: list(values) for name, values in self.changed.items()}
            metrics.add({counter: begun_at, "override": changes, "seconds": metrics.seconds})
            self.changed = {}

    def _epoch_ended(self, row: dict[str, float]) -> None:
        self.accuracy = row.get("test_accuracy", row.get("validation_accuracy"))
        for callback in self.callbacks:
            callback.on_epoch_end(self, row)

    @contextmanager
    def _ending_callbacks(self) -> Iterator[None]:
        try:
            yield
        finally:
            for callback in self.callbacks:
                callback.on_fit_end(self)

    def open_metrics(self) -> Any:
        """Opens the metrics file; rows of the run that this one continues stay."""
        if not self._writes:
            return NoMetrics(self.position.seconds)
        kept = self.done - 1 if self._counts_steps else self.position.epoch
        return Metrics(self.settings.out / METRICS, kept, "step" if self._counts_steps else "epoch")

    def train_epoch(self, bar: Bar | NotebookBar, stop: StopWish, metrics: Metrics) -> tuple[bool, float]:
        """Train the rest of the epoch and of the run, or until the user stops it; returns whether it was stopped, and samples per second."""
        started = shown = saved = time.perf_counter()
        before = started - self.position.seconds
        first = self.position.step
        last = min(self.epoch_steps, first + self.steps - self.done)
        latest = sg.zeros(KEPT, len(self.trainable.losses), device=self.device)
        unread, samples, stopping = 0, 0, False
        for batch in loader(self.trainable, self.settings, self.position, last, self.batch_device):
            self._set_rates(self.done + unread)
            latest = self.step(latest, *batch)
            unread += 1
            samples += self._samples_in(batch)
            for callback in self._each_step:
                callback.on_step_end(self)
            stopping = bool(stop) if self.parallel is None else self.parallel.stops(bool(stop))
            ending = stopping or self.position.step + unread == last
            if not (ending or unread == KEPT or time.perf_counter() - shown > SHOW_EVERY):
                continue
            self._read(latest, unread)
            shown = time.perf_counter()
            self.position.seconds = shown - before
            if self._counts_steps:
                metrics.add(*self._rows(unread))
            self._show(bar)
            unread = 0
            if ending:
                break
            if shown - saved > SAVE_EVERY:
                metrics.begin()
                self.save()
                saved = time.perf_counter()
        reached = self.position.step + unread
        if reached < last and not stopping:
            raise RecipeError(f"an epoch has {last} steps, and the data ended after {reached}.")
        return stopping, samples / (shown - started)

    def _samples_in(self, batch: Sequence[Any]) -> int:
        """The samples of a step, in all processes."""
        if not isinstance(self.trainable.data, DataLoader):
            return self.settings.batch_size
        own = batch[-1].shape[0] if batch[-1].ndim else 1
        return own * (1 if self.parallel is None else self.parallel.size)

    def _set_rates(self, step: int) -> None:
        """Set the learning rates of a step from the schedule, if there is one."""
        if self.trainable.schedule is None:
            return
        factor = self.trainable.schedule(step)
        for rate, group in zip(self._rates, self.trainable.optimizer.param_groups, strict=True):
            group["lr"] = rate * factor

    def save(self, beside: str = "") -> Path:
        """Write the checkpoint, or one beside it. Raises TrainingError if the model is no longer finite."""
        if not self._writes:
            return self.settings.out / beside
        return save_checkpoint(self.settings.out / beside, *self.checkpoint())

    def checkpoint(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state for resuming, as arrays and a description. Raises TrainingError as `save` does."""
        return describe(self.recipe, self.settings, self.trainable, self.position, self.where)

    def report(self, console: Console) -> None:
        """Draw the curve; print the measures of the model, the recipe's own lines, and the locations of the files."""
        out = self.settings.out
        if "loss" in self.trainable.losses and (out / METRICS).exists():
            complaint = training_curve(out / METRICS, out / CURVE, self.recipe, self.trainable.loss_name)
            if complaint:
                console.out(complaint, highlight=False)
        accuracy = self.trainable.evaluate().get("test_accuracy")
        if accuracy is not None:
            console.out(f"test accuracy {100 * accuracy:.2f} % after {self.where}", highlight=False)
        for name in ("test_loss", "validation_loss"):
            measured = [row for row in read_rows(out / METRICS) if name in row and "epoch" in row]
            if measured:
                best = min(measured, key=lambda row: row[name])
                told = f"{name.replace('_', ' ')} {measured[-1][name]:.4g} after epoch {measured[-1]['epoch']}"
                console.out(f"{told}, the lowest {best[name]:.4g} after epoch {best['epoch']}", highlight=False)
        for line in self.trainable.show(self.position):
            console.out(line, highlight=False)
        written = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
        console.out(f"in {out}: {', '.join(written)}", highlight=False)

    def _checked(self, losses: Any) -> Tensor:
        """The result of a step, as a row (1, losses)."""
        names = self.trainable.losses
        if not isinstance(losses, Tensor) or losses.shape not in ((len(names),), () if len(names) == 1 else None):
            wanted = "the loss, a scalar tensor" if len(names) == 1 else f"a tensor of {len(names)}: {', '.join(names)}"
            raise RecipeError(f"step of {self.recipe} returned {_kind(losses)}; it must return {wanted}.")
        return losses.detach().reshape(1, len(names)).to(sg.float32)

    def _read(self, latest: Tensor, count: int) -> None:
        """Wait for the steps so far, and store the losses of the last `count`. Raises TrainingError if one is not finite."""
        new = latest.numpy()[-count:]
        finite = np.isfinite(new).all(axis=1)
        if not finite.all():
            bad = int(np.argmin(finite))
            loss = new[bad].tolist() if new.shape[1] > 1 else float(new[bad, 0])
            step = self.position.step + bad
            where = f"step {self.done + bad}"
            if not self._counts_steps:
                where = f"epoch {self.position.epoch + 1}, step {step + 1} of {self.epoch_steps}"
            raise TrainingError(f"the loss became {loss} in {where}. {hint(self.settings)}")
        self.position.losses = np.concatenate([self.position.losses, new])

    def _rows(self, count: int) -> list[dict[str, float]]:
        """Lines of metrics for each tenth of the last `count` steps, from step 0 on: losses before its update."""
        start = self.position.step - count
        offset = self.done - self.position.step
        return [
            {"step": offset + k, **self._named(self.position.losses[k]), "seconds": round(self.position.seconds, 3)}
            for k in range(start, self.position.step)
            if (offset + k) % RECORD_EVERY == 0
        ]

    def _measure(self, speed: float) -> dict[str, float] | None:
        """Evaluate at the end of an epoch, or of the run; returns the line of metrics, if any. Advances to the next epoch."""
        ended = self.position
        counted = self._counts_steps
        measures = self.trainable.evaluate() if not counted or self.done == self.steps else {}
        for name, value in measures.items():
            if not math.isfinite(value):
                where = self.where if counted else f"epoch {ended.epoch + 1}"
                raise TrainingError(f"{name} is {value} after {where}. {hint(self.settings)}")
        done = self.done
        if not self._endless and ended.step == self.epoch_steps:
            self.position = self._at_epoch(ended.epoch + 1, ended.seconds)
        seconds = round(ended.seconds, 3)
        if counted:
            return {"step": done, **measures, "seconds": seconds} if measures else None
        losses = self._named(ended.losses.mean(axis=0, dtype=np.float64))
        row = {"epoch": ended.epoch + 1, "step": done, **losses, **measures}
        return row | {"samples_per_second": round(speed), "seconds": seconds}

    def _show(self, bar: Bar | NotebookBar) -> None:
        losses = self.position.losses
        if self._counts_steps:
            self._shown = self.done, f"step {self.done}/{self.steps}", self._named(losses[-1])
        else:
            where = f"epoch {self.position.epoch + 1}/{self.settings.epochs}"
            mean = self._named(losses.mean(axis=0, dtype=np.float64))
            self._shown = self.done * self.settings.batch_size, where, mean
        bar.show(*self._shown, self.accuracy)

    def _named(self, losses: np.ndarray) -> dict[str, float]:
        return dict(zip(self.trainable.losses, losses.tolist(), strict=True))

    @property
    def _endless(self) -> bool:
        data = self.trainable.data
        return isinstance(data, Stream) and data.steps is None

    def _at_epoch(self, epoch: int, seconds: float = 0.0) -> Position:
        return Position(np.zeros((0, len(self.trainable.losses)), np.float32), epoch, seconds)


def _kind(value: Any) -> str:
    """A value's type for an error message, without its contents."""
    if value is None:
        return "None"
    return f"a tensor {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
