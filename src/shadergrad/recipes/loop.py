"""The training loop that all recipes share. In: a recipe and its settings. Out: a trained model and a folder of files.

The folder holds `checkpoint.safetensors` and `checkpoint.json` (see `state`), `metrics.jsonl` (a line an epoch),
`curve.png` and what the recipe draws. Batches are made and uploaded while earlier ones are trained (see `batches`).
Losses are summed on the device and read a few times a second: no step waits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console

import shadergrad as sg
from shadergrad import Tensor

from ..checkpoint import DESCRIPTION_FILE, TENSORS_FILE
from ..plots import training_curve
from ..runtime.adapters import auto_device_reason, hardware_adapter_available
from ..runtime.device import get_device
from .batches import loader, steps_in_epoch
from .console import Bar, StopWish
from .metrics import Metrics
from .state import remedy, restore_run, save_run
from .task import Position, Settings, Task, TrainingError

METRICS = "metrics.jsonl"
CURVE = "curve.png"
SHOW_EVERY = 0.2  # seconds between two readings of the loss within an epoch


def train(recipe: str, build: Callable[[Settings, str], Task], settings: Settings, console: Console) -> bool:
    """Train from the start, or from the checkpoint; returns whether the run came to its end (Ctrl-C: False).

    build: makes the task on a device of the given name. Raises TrainingError, CheckpointError or DeviceError; the
    checkpoint of an earlier run, or of the epoch before, is then as it was.
    """
    device = choose_device(settings.device, console)
    sg.manual_seed(settings.seed)
    run = Run(recipe, settings, build(settings, device), device)
    if settings.resume:
        run.position = restore_run(recipe, settings, run.task, device)
        console.out(f"resuming {settings.out} after {run.position}", highlight=False)
    make_folder(settings.out)
    finished = run.go(console)
    run.report(console)
    if not finished:
        command = f"shadergrad train {recipe} --resume {settings.options()}"
        console.out(f"stopped by Ctrl-C after {run.position}. To go on: {command}", highlight=False)
    return finished


def choose_device(wish: str, console: Console) -> str:
    """The name of the device to train on, after printing which hardware it is and why it was taken."""
    if wish == "auto":
        name, line = ("webgpu" if hardware_adapter_available() else "cpu"), auto_device_reason()
    else:
        name, line = wish, f"{get_device(wish).describe()}, as asked"
    console.out(f"device {wish}: {line}", highlight=False)
    return name


def make_folder(out: Path) -> None:
    """Make the folder of the run, before anything is trained for it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainingError(f"--out is {out}, which cannot be a folder: {error.strerror}.") from None


class Run:
    """One training under way; `position` says how far it is."""

    def __init__(self, recipe: str, settings: Settings, task: Task, device: str) -> None:
        self.recipe = recipe
        self.settings = settings
        self.task = task
        self.device = device
        self.position = Position()
        self.steps = steps_in_epoch(task, settings)

        @sg.compile
        def step(loss_sum: Tensor, *batch: Tensor) -> Tensor:
            return loss_sum + task.step(*batch)

        # summing on the device leaves one number to read, however many steps ago the last reading was
        self.step = step

    def go(self, console: Console) -> bool:
        """Train until all epochs are done (True) or the user wants to stop (False); a checkpoint after each epoch."""
        settings, size = self.settings, self.settings.batch_size
        if self.position.epoch >= settings.epochs:
            console.out(f"nothing left to train: --epochs is {settings.epochs}", highlight=False)
            return True
        metrics = Metrics(settings.out / METRICS, keep=self.position.epoch)
        before = (self.position.epoch * self.steps + self.position.step) * size
        with StopWish() as stop, Bar(console, settings.epochs, settings.epochs * self.steps * size, before) as bar:
            while self.position.epoch < settings.epochs:
                speed = self.train_epoch(bar, stop)
                row = self.finish_epoch(speed) if self.position.step == self.steps else None
                metrics.begin()
                if row:
                    metrics.add(row)
                save_run(self.recipe, settings, self.task, self.position, self.device)
                if stop:
                    break
        return self.position.epoch >= settings.epochs

    def train_epoch(self, bar: Bar, stop: StopWish) -> float:
        """Train what is left of the epoch, or until the user wants to stop; returns samples a second."""
        started = shown = time.perf_counter()
        position, first = self.position, self.position.step
        loss_sum = sg.tensor(np.float32(position.loss_sum), device=self.device)
        unread = 0
        for batch in loader(self.task, self.settings, position, self.device):
            loss_sum = self.step(loss_sum, *batch)
            position.step += 1
            unread += 1
            stopping = bool(stop)
            if stopping or position.step == self.steps or time.perf_counter() - shown > SHOW_EVERY:
                position.loss_sum = self.read(loss_sum)
                bar.advance(unread * self.settings.batch_size, position.epoch + 1, position.loss_sum / position.step)
                shown, unread = time.perf_counter(), 0
            if stopping:
                break
        else:
            if position.step != self.steps:
                raise TrainingError(f"an epoch has {self.steps} steps, and the data ended after {position.step}.")
        return (position.step - first) * self.settings.batch_size / (time.perf_counter() - started)

    def read(self, loss_sum: Tensor) -> float:
        """Wait for the steps so far. Raises TrainingError where one of their losses was not finite."""
        value = loss_sum.item()
        if not math.isfinite(value):
            where = f"epoch {self.position.epoch + 1}, by step {self.position.step} of {self.steps}"
            raise TrainingError(f"the loss became {value} in {where}. {remedy(self.settings)}")
        return value

    def finish_epoch(self, speed: float) -> dict[str, float]:
        """Evaluate, move on to the next epoch, and return the line of metrics of this one."""
        measures = self.task.evaluate()
        for name, value in measures.items():
            if not math.isfinite(value):
                raise TrainingError(f"{name} is {value} after epoch {self.position.epoch + 1}. {remedy(self.settings)}")
        loss = self.position.loss_sum / self.steps
        self.position = Position(self.position.epoch + 1)
        step = self.position.epoch * self.steps
        return {
            "epoch": self.position.epoch,
            "step": step,
            "loss": loss,
            **measures,
            "samples_per_second": round(speed),
        }

    def report(self, console: Console) -> None:
        """Draw the curve; say how good the model is now, what the recipe has to show, and where everything is."""
        out = self.settings.out
        if (out / METRICS).exists():
            complaint = training_curve(out / METRICS, out / CURVE)
            if complaint:
                console.out(complaint, highlight=False)
        accuracy = self.task.evaluate().get("test_accuracy")
        if accuracy is not None:
            console.out(f"test accuracy {100 * accuracy:.2f} % after {self.position}", highlight=False)
        for line in self.task.show(out):
            console.out(line, highlight=False)
        pictures = sorted(path.name for path in out.glob("*.png"))
        written = [name for name in (TENSORS_FILE, DESCRIPTION_FILE, METRICS) if (out / name).exists()] + pictures
        console.out(f"in {out}: {', '.join(written)}", highlight=False)
