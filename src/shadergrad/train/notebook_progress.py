"""The progress of a run in a notebook: a bar, and below it the curve. In: reports of the loop. Out: two updated displays."""

from __future__ import annotations

import io
import time
from html import escape
from typing import Any, Self

from ..system.optional_packages import require
from .plots import curve_figure

DRAW_EVERY = 1.0  # seconds between two drawings of the curve
DPI = 80


class NotebookBar:
    """The notebook's counterpart of `Bar`. It redraws the curve after each epoch and at the end. It needs no widgets."""

    def __init__(self, unit: str, total: int, done: int, device: str) -> None:
        self._ipython = require("IPython.display", "notebook", "a bar in a notebook")
        self._unit, self._total, self._begun, self._device = unit, total, done, device
        self._rows: list[dict[str, float]] = []
        self._bar: Any = None
        self._picture: Any = None
        self._drawn_at = 0.0

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        self._bar = self._ipython.display(self._html(self._begun, "", {}, None), display_id=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()

    def show(self, done: int, position: str, losses: dict[str, float], accuracy: float | None = None) -> None:
        self._bar.update(self._html(done, position, losses, accuracy))

    def add(self, row: dict[str, float]) -> None:
        """Takes the row of metrics of a finished epoch."""
        self._rows.append(row)
        if time.perf_counter() - self._drawn_at > DRAW_EVERY:
            self._draw()

    def _html(self, done: int, position: str, losses: dict[str, float], accuracy: float | None) -> Any:
        seconds = time.perf_counter() - self._started
        texts = [position, *(f"{name} {value:.4g}" for name, value in losses.items())]
        if accuracy is not None:
            texts.append(f"{100 * accuracy:.1f} %")
        if done > self._begun:
            left = seconds * (self._total - done) / (done - self._begun)
            texts.append(f"{seconds:.0f} s, {left:.0f} s left")
            texts.append(f"{(done - self._begun) / max(seconds, 1e-9):,.0f} {self._unit}/s")
        told = escape(" · ".join([*filter(None, texts), self._device]))
        return self._ipython.HTML(f'<progress value="{done}" max="{self._total}"></progress> <code>{told}</code>')

    def _draw(self) -> None:
        figure = curve_figure(self._rows, "")
        if figure is None:
            return
        png = io.BytesIO()
        figure.savefig(png, dpi=DPI)
        image = self._ipython.Image(png.getvalue())
        if self._picture is None:
            self._picture = self._ipython.display(image, display_id=True)
        else:
            self._picture.update(image)
        self._drawn_at = time.perf_counter()
