"""Circuits as drawings in SVG: inputs to the left, outputs to the right, a column for each depth. In: tables. Out: text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .export_names import line
from .gate_kinds import NAMES, reads_a, reads_b

COLUMN, ROW, BOX, HEIGHT, MARGIN = 130, 30, 88, 20, 12
SWEEPS = 4  # over the columns, in which each box moves to the middle of the boxes that it is wired to
FILLS = {"input": "#e8eef7", "gate": "#ffffff", "output": "#fdf1dc"}
STYLE = 'font-family="Helvetica,Arial,sans-serif" font-size="10"'
# an operand that the gate inverts gets a dot where its wire ends, as in drawings of circuits
_DRAWN = {2: ("AND", "B"), 4: ("AND", "A"), 11: ("OR", "B"), 13: ("OR", "A"), 10: ("NOT", ""), 12: ("NOT", "")}


def drawn(kind: int) -> tuple[str, str]:
    """The name of a gate's box, and which operand it inverts: "A", "B" or none."""
    return _DRAWN.get(kind, (NAMES[kind], ""))


def draw(
    inputs: Sequence[str], gates: Sequence[tuple[int, int, int]], outputs: Sequence[str], wires: Sequence[int]
) -> str:
    """The gates (kind, a, b) on which an output depends. inputs, outputs: names; wires: one an output."""
    reads = [[]] * len(inputs) + [
        [w for w, read in ((a, reads_a(kind)), (b, reads_b(kind))) if read] for kind, a, b in gates
    ]
    live = set(wires)
    for wire in reversed(range(len(reads))):
        if wire in live:
            live.update(reads[wire])
    labels: dict[int, str] = {}
    fills: dict[int, str] = {}
    depth: dict[int, int] = {}
    drawn_wires: list[tuple[int, int, bool]] = []  # from, to, inverted
    for wire in sorted(live):
        if wire < len(inputs):
            labels[wire], fills[wire], depth[wire] = inputs[wire], "input", 0
            continue
        label, inverted = drawn(gates[wire - len(inputs)][0])
        labels[wire], fills[wire] = label, "gate"
        depth[wire] = 1 + max((depth[w] for w in reads[wire]), default=0)
        drawn_wires += [(w, wire, column == inverted) for w, column in zip(reads[wire], "AB", strict=False)]
    last = 1 + max(depth.values())
    for k, (name, wire) in enumerate(zip(outputs, wires, strict=True)):
        box = len(reads) + k
        labels[box], fills[box], depth[box] = name, "output", last
        drawn_wires.append((wire, box, False))
    places = _places(depth, drawn_wires)
    width = last * COLUMN + BOX + 2 * MARGIN
    height = int(max(y for _, y in places.values())) + HEIGHT + MARGIN
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {STYLE}>']
    lines += [_wire(places[a], places[b], inverted) for a, b, inverted in drawn_wires]
    lines += [_box(*places[box], label, FILLS[fills[box]]) for box, label in labels.items()]
    return "\n".join([*lines, "</svg>", ""])


def _places(depth: dict[int, int], wires: list[tuple[int, int, bool]]) -> dict[int, tuple[int, float]]:
    """The positions of the boxes: a column for each depth, in an order in which wires cross seldom."""
    columns: list[list[int]] = [[] for _ in range(1 + max(depth.values(), default=0))]
    for box, column in depth.items():
        columns[column].append(box)
    tallest = max(map(len, columns))
    others: dict[int, list[int]] = {box: [] for box in depth}
    for a, b, _ in wires:
        others[a].append(b)
        others[b].append(a)
    y = {box: float(k) for column in columns for k, box in enumerate(column)}
    for sweep in range(SWEEPS):
        for column in columns if sweep % 2 else columns[::-1]:
            wanted = {box: sum(y[o] for o in others[box]) / max(1, len(others[box])) for box in column}
            column.sort(key=wanted.__getitem__)
            above = (tallest - len(column)) / 2
            y.update({box: above + k for k, box in enumerate(column)})
    return {box: (MARGIN + COLUMN * column, MARGIN + ROW * y[box]) for box, column in depth.items()}


def _wire(start: tuple[int, float], end: tuple[int, float], inverted: bool) -> str:
    x, y, u, v = start[0] + BOX, start[1] + HEIGHT / 2, end[0], end[1] + HEIGHT / 2
    u -= 6 if inverted else 0
    bend = (u - x) / 2
    path = f'<path d="M{x} {y:g} C{x + bend:g} {y:g} {u - bend:g} {v:g} {u} {v:g}" fill="none" stroke="#8a94a6"/>'
    dot = f'<circle cx="{u + 3}" cy="{v:g}" r="3" fill="#fff" stroke="#44506a"/>' if inverted else ""
    return path + dot


def _box(x: int, y: float, label: str, fill: str) -> str:
    return (
        f'<rect x="{x}" y="{y:g}" width="{BOX}" height="{HEIGHT}" rx="4" fill="{fill}" stroke="#44506a"/>'
        f'<text x="{x + BOX // 2}" y="{y + 14:g}" text-anchor="middle" fill="#1b2536">{escape(line(label))}</text>'
    )
