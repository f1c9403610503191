"""A chart of curves below a notebook's cell, redrawn while the cell runs. In: numbers by name. Out: IPython's display objects."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

WIDTH, HEIGHT, EDGE = 480, 180, 6
COLOURS = ("#0b6bcb", "#c2410c", "#15803d", "#7c3aed")
EVERY = 0.1  # seconds between two drawings
MOST_POINTS = 400


class Chart:
    """The curves of one execution of a cell."""

    def __init__(self, cell: int, display: Any) -> None:
        self.cell = cell
        self.curves: dict[str, list[float]] = {}
        self._display = display
        self._handle: Any = None
        self._drawn = -EVERY

    def add(self, numbers: dict[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in numbers.items():
            self.curves.setdefault(name, []).append(value)
        if time.monotonic() - self._drawn >= EVERY:
            self.draw()

    def draw(self, *_: Any) -> None:
        """Show all points."""
        self._drawn = time.monotonic()
        shown = {
            "text/html": drawn(self.curves),
            "text/plain": ", ".join(f"{n} {v[-1]:.4g}" for n, v in self.curves.items()),
        }
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def drawn(curves: dict[str, list[float]]) -> str:
    """The curves as SVG, with their last values."""
    finite = [value for curve in curves.values() for value in curve if abs(value) < float("inf")]
    low, high = min([0.0, *finite]), max(finite, default=1.0)
    span = high - low or 1.0
    lines, names = [], []
    for k, (name, curve) in enumerate(curves.items()):
        colour, stride = COLOURS[k % len(COLOURS)], -(-len(curve) // MOST_POINTS)
        places = [
            f"{EDGE + (WIDTH - 2 * EDGE) * at / max(1, len(curve) - 1):.1f},{HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (value - low) / span:.1f}"
            for at, value in enumerate(curve)
            if (at % stride == 0 or at == len(curve) - 1) and abs(value) < float("inf")
        ]
        lines.append(f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        names.append(f'<span style="color:{colour}">{escape(name)} {curve[-1]:.4g}</span> after {len(curve)} points')
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" style="max-width:100%" role="img" aria-label="curves"'
    return f"<svg {box}>{''.join(lines)}</svg><div>{', '.join(names)}</div>"


_latest: list[Chart] = []


def add_in_cell(numbers: dict[str, float]) -> bool:
    """Draw in the output of the running cell; False outside of notebooks."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return False
    cell = shell.execution_count
    if not _latest or _latest[0].cell != cell:
        _latest[:] = [Chart(cell, module.display.display)]  # type: ignore[union-attr]
        chart = _latest[0]

        def last(*_: Any) -> None:
            chart.draw()
            shell.events.unregister("post_run_cell", last)

        shell.events.register("post_run_cell", last)
    _latest[0].add(numbers)
    return True
