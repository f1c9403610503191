"""The terminal of a run: a progress bar, and Ctrl-C as a request to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.table import Column
from rich.text import Text

from ..system.browser import IN_BROWSER

NARROW, WIDE = 64, 104  # columns of a terminal: below which a bar takes two lines, and from which it shows the speed


class _Text(ProgressColumn):
    """A text that a function makes for a task; never wrapped."""

    def __init__(self, text: Callable[[Task], str]) -> None:
        self._text = text
        super().__init__(Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        return Text(self._text(task))


def _field(name: str) -> _Text:
    return _Text(lambda task: task.fields[name])


def _speed(task: Task) -> str:
    if not task.speed:
        return ""
    speed = f"{task.speed:,.0f}" if task.speed >= 100 else f"{task.speed:,.1f}"
    return f"{speed} {task.fields['unit']}/s"


def _elapsed(task: Task) -> str:
    return _clock(task.elapsed or 0)


def _times(task: Task) -> str:
    """The elapsed time, and the remaining time if it is known."""
    left = "" if task.time_remaining is None else f", {_clock(task.time_remaining)} left"
    return f"{_elapsed(task)}{left}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


class _TwoLines(Progress):
    """A bar, and below it the texts that do not fit beside it."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        for task in self.tasks:
            told = (task.fields[name].rstrip() for name in ("losses", "accuracy", "device"))
            yield Text("  ".join(filter(None, told)), no_wrap=True, overflow="ellipsis")


class Bar:
    """`with Bar(...) as bar`: the progress of a run, its losses and accuracy, times, device and speed.

    In a narrow terminal it takes two lines and does not wrap. The bar keeps its width.
    """

    def __init__(self, console: Console, unit: str, total: int, done: int, device: str = "") -> None:
        """unit: the counted unit, as "samples"; total: that of the whole run; done: the number that earlier runs trained."""
        width = console.width
        bar = BarColumn(8 if width < NARROW else width // 8)
        if width < NARROW:
            self._progress: Progress = _TwoLines(
                _field("position"), bar, _Text(_elapsed), console=console, auto_refresh=not IN_BROWSER
            )
        else:
            speed = [_Text(_speed)] if width >= WIDE else []
            columns = [_field("position"), bar, _field("losses"), _field("accuracy"), _Text(_times), *speed]
            self._progress = Progress(*columns, _field("device"), console=console, auto_refresh=not IN_BROWSER)
        texts: dict[str, Any] = {"position": "", "losses": "", "accuracy": "", "device": device}
        self._task = self._progress.add_task("", total=total, completed=done, unit=unit, **texts)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, done: int, position: str, losses: dict[str, float], accuracy: float | None = None) -> None:
        text = " ".join(f"{name} {value:<8.4g}" for name, value in losses.items())
        told = "" if accuracy is None else f"{100 * accuracy:.1f} %"
        self._progress.update(self._task, completed=done, position=position, losses=text, accuracy=told)
        if IN_BROWSER:  # no thread draws the bar there
            self._progress.refresh()

    def add(self, row: dict[str, float]) -> None:
        """Takes the row of metrics of a finished epoch and ignores it, because a terminal draws no curve."""


class StopWish:
    """`with StopWish() as stop`: true after Ctrl-C or SIGTERM; a second one interrupts at once."""

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
