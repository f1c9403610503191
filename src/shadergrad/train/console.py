"""A run's face: a progress bar, and Ctrl-C as a wish to stop instead of a crash."""

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
        if not task.speed:
            return Text("")
        speed = f"{task.speed:,.0f}" if task.speed >= 100 else f"{task.speed:,.1f}"
        return Text(f"{speed} {task.fields['unit']}/s")


class Bar:
    """`with Bar(...) as bar`: how far a run is, its losses, its speed and the time left."""

    def __init__(self, console: Console, unit: str, total: int, done: int) -> None:
        """unit: what is counted, as "samples"; total: of the whole run; done: how many of them an earlier run trained."""
        self._progress = Progress(
            TextColumn("{task.fields[position]}"),
            BarColumn(),
            TextColumn("{task.fields[losses]}"),
            _Speed(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
        )
        self._task = self._progress.add_task("", total=total, completed=done, position="", losses="", unit=unit)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, done: int, position: str, losses: dict[str, float]) -> None:
        text = " ".join(f"{name} {value:.4g}" for name, value in losses.items())
        self._progress.update(self._task, completed=done, position=position, losses=text)


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
