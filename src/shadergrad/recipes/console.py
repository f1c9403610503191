"""The loop's face: a progress bar, and Ctrl-C as a wish to stop instead of a crash."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} samples/s" if task.speed else "")


class _StepSpeed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.1f} steps/s" if task.speed else "")


class Bar:
    """`with Bar(...) as bar`: epochs, loss, samples a second and time left, while samples are trained."""

    def __init__(self, console: Console, epochs: int, samples: int, done: int) -> None:
        """samples: those of all epochs together; done: how many of them an earlier run has trained."""
        self._progress = Progress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]}"),
            _Speed(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
        )
        self._task = self._progress.add_task("", total=samples, completed=done, epoch=0, epochs=epochs, loss="-")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, samples: int, epoch: int, loss: float) -> None:
        self._progress.update(self._task, advance=samples, epoch=epoch, loss=f"{loss:.4f}")


class StepBar:
    """`with StepBar(...) as bar`: steps, soft and hard loss, steps a second and time left, while an automaton is trained."""

    def __init__(self, console: Console, steps: int, done: int) -> None:
        """done: how many of the steps an earlier run has trained."""
        self._progress = Progress(
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("soft {task.fields[soft]} hard {task.fields[hard]}"),
            _StepSpeed(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
        )
        self._task = self._progress.add_task("", total=steps, completed=done, soft="-", hard="-")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, done: int, soft: float, hard: float) -> None:
        self._progress.update(self._task, completed=done, soft=f"{soft:.3f}", hard=f"{hard:.0f}")


class StopWish:
    """`with StopWish() as stop`: true once Ctrl-C was pressed or SIGTERM came; a second one interrupts at once."""

    def __init__(self) -> None:
        self._wished = False

    def __bool__(self) -> bool:
        return self._wished

    def __enter__(self) -> Self:
        # Python delivers signals to the main thread only; elsewhere there is nothing to take over
        if threading.current_thread() is threading.main_thread():
            self._previous = {n: signal.signal(n, self._on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._previous.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._wished:
            raise KeyboardInterrupt
        self._wished = True
