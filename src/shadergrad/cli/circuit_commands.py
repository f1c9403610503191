"""`shadergrad logic show | simplify | run | export FILE`: circuits in JSON. In: a file. Out: text, or another file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..errors import ShadergradError

File = Annotated[Path, typer.Argument(help="A circuit in JSON, such as circuit.json of a run.")]
Out = Annotated[Path | None, typer.Option(help="The file to write.", show_default="printed")]


class CircuitInputError(ShadergradError, ValueError):
    """Invalid input bits, or an unknown format."""


def read(path: Path) -> tuple[Any, Any]:
    """The automaton in a file, or None, and its circuit, whose inputs are named by neighbour and channel: W.0."""
    from ..logic.circuit import CellCircuit, Circuit, CircuitClassifier, load  # here, as help needs nothing of it

    found = load(path)
    if isinstance(found, Circuit):
        return None, found
    if isinstance(found, CircuitClassifier):
        return None, found.circuit
    assert isinstance(found, CellCircuit)
    return replace(found, circuit=found.named), found.named


def show(file: File) -> None:
    """Show a circuit: inputs, outputs, gates by kind, and each gate with the names of its inputs."""
    from ..logic.circuit import count_gates, histogram  # as above
    from ..logic.circuit.circuit import input_names, output_names  # as above
    from ..logic.circuit.gate_kinds import NAMES  # as above

    cell, circuit = read(file)
    inputs, outputs = input_names(circuit), output_names(circuit)
    wires = inputs + [f"g{k}" for k in range(len(circuit))]
    counts = count_gates(circuit)
    lines = [f"{circuit.inputs} inputs: {' '.join(inputs)}", f"{len(outputs)} outputs: {' '.join(outputs)}"]
    if cell is not None:
        lines.append(
            f"a cell of {cell.channels} channels, border {cell.border}, fires with probability {cell.fire_rate:g}"
        )
    lines.append(f"{counts.all} gates, {counts.reachable} reachable, {counts.minimized} when simplified")
    lines.append(", ".join(f"{count} {name}" for name, count in histogram(circuit).items() if count))
    lines += [f"g{k} = {NAMES[kind]}({wires[a]}, {wires[b]})" for k, (kind, a, b) in enumerate(circuit.gates())]
    lines += [f"{name} = {wires[wire]}" for name, wire in zip(outputs, circuit.outputs.tolist(), strict=True)]
    _print("\n".join(lines))


def simplify(file: File, out: Out = None) -> None:
    """Minimize a circuit, and prove that the result computes the same function if its decision diagrams are small enough."""
    from ..logic.circuit import Circuit, equivalent, load, minimize, save, to_json  # as above

    found = load(file)
    _, circuit = read(file)
    small = minimize(circuit)
    same = equivalent(circuit, small)
    if same.counterexample is not None:
        raise CircuitInputError(f"[simplify] the result differs for {same.counterexample}: a bug of shadergrad.")
    told = f"{len(circuit)} gates, {len(small)} simplified; {same}"
    result = minimize(found) if isinstance(found, Circuit) else found.minimized()
    if out is None:
        _print(to_json(result))
        Console(stderr=True, highlight=False).out(told, highlight=False)
    else:
        save(result, out)
        _print(f"{told}; in {out}")


def run(
    file: File,
    bits: Annotated[
        list[str],
        typer.Argument(help="The bits of all inputs, as 0110, or the names of the inputs that are 1, as W.0."),
    ],
) -> None:
    """Evaluate the outputs for some inputs."""
    import numpy as np  # as above

    from ..logic.circuit.circuit import input_names, output_names  # as above

    _, circuit = read(file)
    names = input_names(circuit)
    if len(bits) == 1 and set(bits[0]) <= {"0", "1"} and bits[0] not in names:
        if len(bits[0]) != circuit.inputs:
            raise CircuitInputError(f"[run] {bits[0]} has {len(bits[0])} bits; there are {circuit.inputs} inputs.")
        given = np.array([bit == "1" for bit in bits[0]])
    else:
        unknown = [word for word in bits if word not in names]
        if unknown:
            raise CircuitInputError(f"[run] there is no input {unknown[0]!r}; there are {' '.join(names)}.")
        given = np.array([name in bits for name in names])
    values = circuit.evaluate(given).astype(int).tolist()
    _print("\n".join(f"{name} = {value}" for name, value in zip(output_names(circuit), values, strict=True)))


def export(
    file: File,
    form: Annotated[
        str,
        typer.Argument(
            help="c, verilog, wgsl, javascript (of a classifier), dot, svg, blif or aiger.", metavar="FORMAT"
        ),
    ],
    out: Out = None,
    name: Annotated[str, typer.Option(help="Name of the function, module or model.")] = "circuit",
    height: Annotated[int, typer.Option(help="Height of an automaton's grid, in Verilog and WGSL.")] = 32,
    width: Annotated[int, typer.Option(help="Width of an automaton's grid, in Verilog and WGSL.")] = 32,
) -> None:
    """Write a circuit or an automaton in another language."""
    from ..logic import circuit as c  # as above

    found = c.load(file)
    cell, circuit = read(file)
    writers: dict[str, Callable[[], str]] = {
        "c": lambda: c.to_c(circuit, name) if cell is None else c.cell_to_c(cell, name),
        "verilog": lambda: (
            c.classifier_to_verilog(found, name)
            if isinstance(found, c.CircuitClassifier)
            else c.to_verilog(circuit, name)
            if cell is None
            else c.cell_to_verilog(cell, height, width, name)
        ),
        "wgsl": lambda: c.to_wgsl(circuit, name) if cell is None else c.cell_to_wgsl(cell, height, width),
        "javascript": lambda: c.classifier_to_javascript(_classifier(found)),
        "dot": lambda: c.to_dot(circuit),
        "svg": lambda: c.to_svg(circuit),
        "blif": lambda: c.to_blif(circuit, name),
        "aiger": lambda: c.to_aiger(circuit),
    }
    if form not in writers:
        raise CircuitInputError(f"[export] there is no format {form!r}; choose one of {', '.join(writers)}.")
    text = writers[form]()
    if out is None:
        _print(text)
    else:
        out.write_text(text, encoding="utf-8")
        alone = isinstance(found, c.CircuitClassifier) and form not in ("verilog", "javascript")
        _print(f"in {out}: {len(circuit)} gates" + ", without the classifier's thresholds and counts" * alone)


def _classifier(found: Any) -> Any:
    """What `javascript` is written of. Raises CircuitInputError for another file."""
    from ..logic.circuit import CircuitClassifier  # as above

    if not isinstance(found, CircuitClassifier):
        raise CircuitInputError(
            "[export] javascript is the format of classifiers, with thresholds and counts; this file has none.\n"
            "  Hint: classifier.json of a training, or sg.logic.circuit.to_wasm(circuit) in Python."
        )
    return found


COMMANDS: dict[str, Callable[..., None]] = {"show": show, "simplify": simplify, "run": run, "export": export}


def circuit_command(name: str) -> Any:
    """The command of that name."""
    one = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    one.command(name)(COMMANDS[name])
    return typer.main.get_command(one)


def _print(text: str) -> None:
    Console(highlight=False, soft_wrap=True).out(text.rstrip("\n"), highlight=False)
