"""The WGSL of a step of a packed board: a thread computes some words of several adjacent rows.

In: an automaton and the size of a board. Out: the body and the preamble of a kernel. Rows are padded to vectors of four words,
so that a thread can take 128 cells at a time. A thread reads a row once for the three output rows that it affects, and shifts
it to the east and west once; the cache supplies the words of neighbouring threads. Every gate is at most one instruction on the
words of a row: the source contains the circuit once per output row.
"""

from __future__ import annotations

from dataclasses import dataclass

from .cell import CellCircuit
from .export_statements import Syntax, gate_statements
from .gate_order import live_inputs
from .neighbourhood import neighbour
from .word_mapping import map_circuit

BITS = 32  # of a word
VECTOR = 4  # words; rows are padded to a multiple
THREADS = 64
MOST_ROWS = 8
MOST_TEXT = 512  # gates that the text has in all, unless the circuit is larger
ENOUGH_THREADS = 1 << 17  # rather these than more rows a thread: they keep a large GPU's cores at work
MOST_LIVE = 160  # words that a thread should hold at a time


def row_vectors(width: int) -> int:
    """Vectors of four words in a row of a board."""
    return -(-width // (VECTOR * BITS))


@dataclass(frozen=True)
class Blocking:
    """lanes: words that a thread has of a row, 1 or 4; rows: how many rows."""

    lanes: int
    rows: int


def blocking(cell: CellCircuit, height: int, width: int) -> Blocking:
    """The part of a board for a thread: as much as its registers hold, unless too few threads remain."""
    mapped = map_circuit(cell.circuit)
    live = len(live_inputs(cell.circuit)) + mapped.registers - mapped.inputs
    lanes = VECTOR if VECTOR * live <= MOST_LIVE else 1
    threads = height * row_vectors(width) * VECTOR // lanes
    rows = 1
    while (
        2 * rows <= min(MOST_ROWS, height)
        and threads // (2 * rows) >= ENOUGH_THREADS
        and 2 * rows * max(len(cell.circuit), 1) <= MOST_TEXT
    ):
        rows *= 2
    return Blocking(lanes, rows)


class BoardWriter:
    """Writes the kernel. `masked`: whether an array `fire` selects the cells that take their new bits."""

    def __init__(self, cell: CellCircuit, height: int, width: int, masked: bool, share: Blocking) -> None:
        self.cell, self.height, self.width, self.masked = cell, height, width, masked
        self.lanes, self.rows = share.lanes, share.rows
        self.type = "u32" if share.lanes == 1 else f"vec{share.lanes}<u32>"
        self.row = row_vectors(width) * VECTOR // share.lanes  # elements in a row
        self.last = (width - 1) // (BITS * share.lanes)  # the element with the last column
        self.inputs = live_inputs(cell.circuit)
        self.reads = {i: neighbour(i, cell.channels) for i in self.inputs}

    @property
    def threads(self) -> int:
        return self.row * -(-self.height // self.rows)

    @property
    def preamble(self) -> str:
        """Functions that shift the words of a row by a column: `row` is the index of the row's first element, k the element, `word` its bits."""
        return f"""fn west(row: i32, k: i32, word: {self.type}) -> {self.type} {{
  let at = select(row + k - 1, row + {self.last}, k == 0);
  let edge = select({self._last_word("state[at]")} >> 31u, {self._wrapped_west()}, k == 0);
  return (word << {self.type}(1u)) | {self._from_west()};
}}
fn east(row: i32, k: i32, word: {self.type}) -> {self.type} {{
  let first = {self._first_word(f"state[select(row + k + 1, row, k >= {self.last})]")};
  let edge = select(first << 31u, 0u, k >= {self.last});
  return (word >> {self.type}(1u)) | {self._from_east()}{self._wrapped_east()};
}}
"""

    def _first_word(self, element: str) -> str:
        return element if self.lanes == 1 else f"{element}.x"

    def _last_word(self, element: str) -> str:
        return element if self.lanes == 1 else f"{element}.w"

    def _from_west(self) -> str:
        """The bits that move in from the words to the west."""
        return "edge" if self.lanes == 1 else f"{self.type}(edge, word.xyz >> vec3<u32>(31u))"

    def _from_east(self) -> str:
        return "edge" if self.lanes == 1 else f"{self.type}(word.yzw << vec3<u32>(31u), edge)"

    @property
    def _last_bit(self) -> tuple[int, int]:
        """The location of the last column in the last element: the word and its bit."""
        word, bit = divmod(self.width - 1, BITS)
        return word % self.lanes, bit

    def _wrapped_west(self) -> str:
        """The western neighbour of the first column: on a torus the last column, else 0."""
        if not self.cell.periodic:
            return "0u"
        word, bit = self._last_bit
        last = "state[at]" if self.lanes == 1 else f"state[at].{'xyzw'[word]}"
        return f"{last} >> {bit}u"  # bits past the width are 0

    def _wrapped_east(self) -> str:
        """The eastern neighbour of the last column: on a torus the first column, else the 0 past the width."""
        if not self.cell.periodic:
            return ""
        word, bit = self._last_bit
        wrapped = f"select(0u, (first & 1u) << {bit}u, k == {self.last})"
        if self.lanes == 1:
            return f" | {wrapped}"
        parts = ["0u"] * self.lanes
        parts[word] = wrapped
        return f" | {self.type}({', '.join(parts)})"

    @property
    def body(self) -> str:
        plane = self.height * self.row
        lines = [
            f"let t = wg * {THREADS} + i32(lid);",
            f"let k = t % {self.row};",
            f"let y = (t / {self.row}) * {self.rows};",
            f"if (y < {self.height}) {{",
        ]
        lines += self._inside()
        syntax = Syntax("let {wire} = {value};", f"{self.type}()", f"~{self.type}()")
        gates = gate_statements(self.cell.circuit, syntax)
        known: set[str] = set()
        for r in range(self.rows):
            for dy, dx, channel in self.reads.values():
                lines += self._read(channel, r + dy, dx, known)
            if self.masked:
                for channel in range(self.cell.channels):
                    lines += self._read(channel, r, 0, known)
            lines.append("{" if self._surely_inside(r) else f"if (y + {r} < {self.height}) {{")
            lines += [f"let x{i} = {_name(channel, r + dy, dx)};" for i, (dy, dx, channel) in self.reads.items()]
            lines += gates
            lines.append(f"let at = (y + {r}) * {self.row} + k;")
            if self.masked:
                lines.append("let fires = fire[at];")
            for channel, wire in enumerate(self.cell.circuit.outputs.tolist()):
                lines.append(f"result[{channel * plane} + at] = {self._kept(self._new(channel, r, wire))};")
            lines.append("}")
        return "\n".join([*lines, "}"])

    def _new(self, channel: int, r: int, wire: int) -> str:
        """The output for cells that fire, the old bits for the others."""
        inputs = self.cell.circuit.inputs
        bits = f"x{wire}" if wire < inputs else f"g{wire - inputs}"
        if not self.masked:
            return bits
        old = _name(channel, r, 0)
        return f"({old} ^ (({old} ^ {bits}) & fires))"

    def _inside(self) -> list[str]:
        """`inside`: the bits of this element that are cells; no statement if all bits of every element are."""
        if self.width % (BITS * self.lanes) == 0 and self.last == self.row - 1:
            return []
        word, bit = self._last_bit
        full, part = "0xffffffffu", f"{(2 << bit) - 1:#x}u"
        words = [full] * word + [part] + ["0u"] * (self.lanes - word - 1)
        last = words[0] if self.lanes == 1 else f"{self.type}({', '.join(words)})"
        beyond = f"select({last}, {self.type}(), k > {self.last})"
        return [f"let inside = select(~{self.type}(), {beyond}, k >= {self.last});"]

    def _kept(self, bits: str) -> str:
        return f"{bits} & inside" if self._inside() else bits

    def _surely_inside(self, r: int) -> bool:
        return r >= 0 and (r == 0 or (r < self.rows and self.height % self.rows == 0))

    def _read(self, channel: int, r: int, dx: int, known: set[str]) -> list[str]:
        """Statements that name the word of row y + r, and its neighbours by column offset, unless they are known."""
        name, word, row = _name(channel, r, dx), _name(channel, r, 0), f"row{_suffix(channel, r)}"
        lines = []
        if word not in known:
            known.add(word)
            lines.append(f"let {row} = {channel * self.height * self.row} + {self._row(r)} * {self.row};")
            lines.append(f"let {word} = {self._unless_outside(r, f'state[{row} + k]')};")
        if name not in known:
            known.add(name)
            shifted = f"{'west' if dx < 0 else 'east'}({row}, k, {word})"
            lines.append(f"let {name} = {self._unless_outside(r, shifted)};")
        return lines

    def _row(self, r: int) -> str:
        """The number of row y + r, wrapped or clamped to the board."""
        if self._surely_inside(r):
            return f"(y + {r})"
        if self.cell.periodic:
            return f"((y + {r + self.height}) % {self.height})"
        return f"clamp(y + {r}, 0, {self.height - 1})"

    def _unless_outside(self, r: int, value: str) -> str:
        if self._surely_inside(r) or self.cell.periodic:
            return value
        outside = "y == 0" if r < 0 else f"y + {r} >= {self.height}"
        return f"select({value}, {self.type}(), {outside})"


def _suffix(channel: int, r: int) -> str:
    return f"{channel}_{r + 1}"


def _name(channel: int, r: int, dx: int) -> str:
    """The name of the word of row y + r of a channel, or of its cells' western or eastern neighbours."""
    return {-1: "w", 0: "c", 1: "e"}[dx] + _suffix(channel, r)
