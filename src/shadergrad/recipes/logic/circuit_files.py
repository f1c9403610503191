"""Writes a hardened network in every format. In: a circuit, or the cell of an automaton. Out: files."""

from __future__ import annotations

from pathlib import Path

from shadergrad.logic.circuit import (
    CellCircuit,
    Circuit,
    cell_to_c,
    cell_to_verilog,
    cell_to_wgsl,
    save,
    to_c,
    to_dot,
    to_verilog,
    to_wgsl,
)

HARDENED, SIMPLIFIED = "hardened.json", "circuit.json"


def write_cell(
    folder: Path, hardened: CellCircuit, simplified: CellCircuit, name: str, height: int, width: int
) -> None:
    """Writes hardened.json with all gates, and circuit.json, .c, .v, .wgsl, .dot with the minimized circuit.

    height, width: of the grid in Verilog and WGSL.
    """
    save(hardened, folder / HARDENED)
    save(simplified, folder / SIMPLIFIED)
    _write(
        folder,
        c=cell_to_c(simplified, name),
        v=cell_to_verilog(simplified, height, width, name),
        wgsl=cell_to_wgsl(simplified, height, width),
        dot=to_dot(simplified.named),
    )


def write_circuit(folder: Path, hardened: Circuit, simplified: Circuit, name: str) -> None:
    """The same for a circuit that is not a cell."""
    save(hardened, folder / HARDENED)
    save(simplified, folder / SIMPLIFIED)
    _write(
        folder,
        c=to_c(simplified, name),
        v=to_verilog(simplified, name),
        wgsl=to_wgsl(simplified, name),
        dot=to_dot(simplified),
    )


def _write(folder: Path, **texts: str) -> None:
    for ending, text in texts.items():
        (folder / f"circuit.{ending}").write_text(text, encoding="utf-8")
