"""The training loop of the automata, which are counted in optimizer steps. In: an experiment and its settings. Out: a
trained automaton, the losses of every step, and a folder with `checkpoint.safetensors`, `checkpoint.json` and
`metrics.jsonl` (soft and hard loss of each tenth step, before its update).

The device keeps the losses of the latest steps; they are read a few times a second, so no step waits. Batches are drawn
and uploaded while earlier ones are trained.
"""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import shadergrad as sg
from shadergrad import Tensor

from ..checkpoint import Arrays, load_checkpoint, save_checkpoint
from ..logic.experiments import EXPERIMENTS, Training
from ..runtime.device import get_device
from .console import StepBar, StopWish
from .logic_batches import Batches, Keys
from .loop import METRICS, choose_device, make_folder
from .metrics import Metrics
from .state import check_finite, check_same_run, lacking, pack_training, unpack_training
from .task import TrainingError

SHOW_EVERY = 0.25  # seconds between two readings of the losses
SAVE_EVERY = 30.0  # seconds between two checkpoints
RECORD_EVERY = 10  # steps between two lines of metrics
KEPT = 2048  # steps whose losses the device keeps


@dataclass(frozen=True)
class StepSettings:
    """What the user chose, checked: raises TrainingError that names the option. `out` is the folder to write."""

    name: str
    steps: int
    batch_size: int
    seed: int
    out: Path
    device: str = "auto"
    resume: bool = False

    def __post_init__(self) -> None:
        for option, value in (("--steps", self.steps), ("--batch-size", self.batch_size)):
            if value < 1:
                raise TrainingError(f"{option} is {value}; it must be at least 1.")
        if not 0 <= self.seed < 1 << 64:
            raise TrainingError(f"--seed is {self.seed}; it must be from 0 to 2**64 - 1.")

    def hyperparameters(self) -> dict[str, Any]:
        """What a resumed run must share with the run it continues (steps may grow, the device may change)."""
        return {"batch_size": self.batch_size, "seed": self.seed}

    def options(self) -> str:
        """The command-line options that ask for these settings."""
        return (
            f"--steps {self.steps} --batch-size {self.batch_size} --seed {self.seed} --device {self.device} "
            f"--out {shlex.quote(str(self.out))}"
        )


class Run:
    """The training of an automaton under way. `losses` (steps done, 2): soft and hard, of every step before its update.

    seconds: spent on training, by this run and those that it goes on from.
    """

    def __init__(self, settings: StepSettings, device: str) -> None:
        self.settings, self.device = settings, device
        experiment = replace(EXPERIMENTS[settings.name], batch=settings.batch_size)
        self.training = training = Training(experiment, settings.seed, device)
        self.keys = Keys(training.data_key, training.mask_key)
        self.losses = np.zeros((0, 2), np.float32)
        self.seconds = 0.0

        @sg.compile
        def step(latest: Tensor, *batch: Tensor) -> Tensor:
            start, target, *masks = batch
            losses = sg.stack(training.update(start, target, masks[0] if masks else None))
            return sg.cat([latest[1:], losses.reshape(1, 2)])

        self.step = step

    @property
    def done(self) -> int:
        """Steps trained."""
        return len(self.losses)

    @property
    def hardware(self) -> str:
        """What it is trained on."""
        return get_device(self.device).describe()

    def go(self, console: Console) -> bool:
        """Train until all steps are done (True) or the user wants to stop (False); the checkpoint is then written."""
        settings = self.settings
        left = settings.steps - self.done
        if left <= 0:
            console.out(f"nothing left to train: --steps is {settings.steps}", highlight=False)
            return True
        metrics = Metrics(settings.out / METRICS, keep=self.done - 1, counter="step")
        batches = Batches(self.training.settings, self.keys, left, self.device)
        latest = sg.zeros(KEPT, 2, device=self.device)
        unread, begun, saved = 0, time.perf_counter() - self.seconds, time.perf_counter()
        shown = saved
        with StopWish() as stop, StepBar(console, settings.steps, self.done) as bar:
            for batch in batches:
                latest = self.step(latest, *batch)
                unread += 1
                now, ending = time.perf_counter(), bool(stop) or self.done + unread == settings.steps
                if ending or unread == KEPT or now - shown > SHOW_EVERY:
                    self.read(latest, unread, metrics)
                    bar.show(self.done, *self.losses[-1].tolist())
                    unread, shown = 0, time.perf_counter()
                    self.keys, self.seconds = batches.keys, shown - begun
                    if ending or now - saved > SAVE_EVERY:
                        self.save()
                        saved = time.perf_counter()
                if ending:
                    break
        return self.done >= settings.steps

    def read(self, latest: Tensor, count: int, metrics: Metrics) -> None:
        """Wait for the steps so far, and record the losses of the last `count`. Raises TrainingError if one is not finite."""
        new = latest.numpy()[-count:]
        if not np.isfinite(new).all():
            step = self.done + int(np.argmin(np.isfinite(new).all(1)))
            raise TrainingError(
                f"the loss became {new[step - self.done].tolist()} in step {step}. Nothing was saved since."
            )
        first = self.done
        self.losses = np.concatenate([self.losses, new])
        steps = range(first + -first % RECORD_EVERY, self.done, RECORD_EVERY)
        metrics.add(*({"step": k, "soft": float(self.losses[k, 0]), "hard": float(self.losses[k, 1])} for k in steps))

    def save(self) -> Path:
        """Write the checkpoint."""
        tensors, structures = pack_training(self.training.model, self.training.optimizer)
        check_finite(tensors, f"step {self.done}", f"What {self.settings.out} held before is unchanged.")
        tensors |= {"losses": self.losses, "keys/data": self.keys.data, "keys/masks": self.keys.masks}
        return save_checkpoint(self.settings.out, tensors, self._meta() | structures)

    def _meta(self) -> dict[str, Any]:
        return {
            "recipe": self.settings.name,
            "position": {"step": self.done, "seconds": round(self.seconds, 3)},
            "hyperparameters": self.settings.hyperparameters(),
        }

    def restore(self) -> None:
        """Go on from the checkpoint. Raises CheckpointError when it is none, damaged, or of another run."""
        arrays, meta = load_checkpoint(self.settings.out)
        try:
            check_same_run(self.settings.name, self.settings.out, self.settings.hyperparameters(), meta)
            own = {name: arrays.pop(name) for name in ("losses", "keys/data", "keys/masks")}
            self._restore(arrays, own, meta)
        except KeyError as error:
            raise lacking(self.settings.out, error) from None

    def _restore(self, arrays: Arrays, own: Arrays, meta: dict[str, Any]) -> None:
        unpack_training(self.training.model, self.training.optimizer, arrays, meta, self.device)
        self.losses, self.keys = own["losses"], Keys(own["keys/data"], own["keys/masks"])
        self.seconds = float(meta["position"]["seconds"])


def train(settings: StepSettings, console: Console) -> tuple[Run, bool]:
    """Train from the start, or from the checkpoint; returns the run, and whether it came to its end (Ctrl-C: False).

    Raises TrainingError, CheckpointError or DeviceError; the checkpoint of an earlier run is then as it was.
    """
    device = choose_device(settings.device, console)
    sg.manual_seed(settings.seed % (1 << 32))
    run = Run(settings, device)
    if settings.resume:
        run.restore()
        console.out(f"resuming {settings.out} after step {run.done}", highlight=False)
    make_folder(settings.out)
    return run, run.go(console)
