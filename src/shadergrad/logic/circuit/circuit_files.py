"""Circuits and cells as JSON.

    {"format": "shadergrad.circuit", "version": 1,
     "inputs": ["x0", "x1"],
     "gates": [["g0", "XOR", "x0", "x1"], ["g1", "AND", "x0", "x1"]],
     "outputs": [["y0", "g0"], ["y1", "g1"]]}

A gate is its name, its kind (a name of `gate_kinds.NAMES`, or the number), and the wires that it reads. Gates may come in any order.
A cell has a circuit under "circuit", and "channels", "border" and "fire_rate"; a classifier "classes", "tau" and "thresholds".
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np

from ...system.atomic_files import replacing
from .cell import CellCircuit
from .circuit import Circuit
from .classifier import CircuitClassifier
from .errors import CircuitError
from .gate_kinds import KIND_OF, NAMES

CIRCUIT_FORMAT, CELL_FORMAT, CLASSIFIER_FORMAT = "shadergrad.circuit", "shadergrad.cell", "shadergrad.classifier"
VERSION = 1

MOST_NAMES = 12  # to print of a cycle

_CIRCUIT_FIELDS = ("inputs", "gates", "outputs")
_CELL_FIELDS = ("circuit", "channels", "border", "fire_rate")
_CLASSIFIER_FIELDS = ("circuit", "classes", "tau", "thresholds")

Saved = Circuit | CellCircuit | CircuitClassifier


# -- writing


def to_json(circuit: Saved) -> str:
    """A circuit, a cell or a classifier as text, a gate a line; the same circuit always gives the same text.

    >>> print(sg.logic.circuit.to_json(sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2])))
    {
      "format": "shadergrad.circuit",
      "version": 1,
      "inputs": ["x0", "x1"],
      "gates": [
        ["g0", "XOR", "x0", "x1"]
      ],
      "outputs": [
        ["y0", "g0"]
      ]
    }
    """
    if isinstance(circuit, CircuitClassifier):
        return _text(_classifier_document(circuit)) + "\n"
    return _text(_cell_document(circuit) if isinstance(circuit, CellCircuit) else _circuit_document(circuit)) + "\n"


def save(circuit: Saved, path: str | Path) -> None:
    """Writes `to_json` to a file, atomically. Raises CircuitError if the write fails.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sg.logic.circuit.save(sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2]), f"{folder}/xor.json")
    ...     text = pathlib.Path(folder, "xor.json").read_text()
    >>> "XOR" in text
    True
    """
    with replacing(path, CircuitError) as file:
        file.write(to_json(circuit).encode())


def _circuit_document(circuit: Circuit) -> dict[str, Any]:
    inputs = circuit.input_names or _default_names("x", circuit.inputs)
    outputs = circuit.output_names or _default_names("y", len(circuit.outputs))
    prefix = "g"
    while any(name.startswith(prefix) and name[len(prefix) :].isdigit() for name in inputs):
        prefix += "_"
    wires = [*inputs, *_default_names(prefix, len(circuit))]
    gates = [
        [wires[circuit.inputs + k], NAMES[kind], wires[a], wires[b]] for k, (kind, a, b) in enumerate(circuit.gates())
    ]
    results = [[name, wires[wire]] for name, wire in zip(outputs, circuit.outputs.tolist(), strict=True)]
    head = {"format": CIRCUIT_FORMAT, "version": VERSION}
    return {**head, "inputs": list(inputs), "gates": gates, "outputs": results}


def _cell_document(cell: CellCircuit) -> dict[str, Any]:
    head = {"format": CELL_FORMAT, "version": VERSION, "channels": cell.channels, "border": cell.border}
    return {**head, "fire_rate": cell.fire_rate, "circuit": _circuit_document(cell.circuit)}


def _classifier_document(classifier: CircuitClassifier) -> dict[str, Any]:
    limits = None if classifier.thresholds is None else classifier.thresholds.tolist()
    head = {"format": CLASSIFIER_FORMAT, "version": VERSION, "classes": classifier.classes, "tau": classifier.tau}
    return {**head, "thresholds": limits, "circuit": _circuit_document(classifier.circuit)}


def _default_names(letter: str, count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{i}" for i in range(count))


def _text(value: Any, depth: int = 0) -> str:
    """JSON with a line for each field, and for each item of a list of lists."""
    blanks = " " * (2 * depth + 2)
    if isinstance(value, dict):
        lines = [f"{json.dumps(key)}: {_text(item, depth + 1)}" for key, item in value.items()]
        return _bracketed("{", lines, "}", blanks)
    if isinstance(value, list) and value and isinstance(value[0], list):
        return _bracketed("[", [json.dumps(item) for item in value], "]", blanks)
    return json.dumps(value)


def _bracketed(left: str, lines: list[str], right: str, blanks: str) -> str:
    inner = ",\n".join(blanks + line for line in lines)
    return f"{left}\n{inner}\n{blanks[2:]}{right}"


# -- reading


def from_json(text: str | bytes) -> Saved:
    """A circuit, a cell or a classifier from text. Gates are sorted if a gate is listed before its operands.

    Raises CircuitError for text that is no JSON or another format or version, unknown kinds and wires, names used
    twice, a cycle (named in the message), and a cell whose channels do not fit its circuit.

    >>> circuit = sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2])
    >>> sg.logic.circuit.from_json(sg.logic.circuit.to_json(circuit)) == circuit
    True
    """
    try:
        document = json.loads(text)
    except (TypeError, ValueError) as error:
        raise CircuitError(f"[from_json] the text is no JSON: {error}.") from error
    except RecursionError:
        raise CircuitError("[from_json] the text is no circuit: it is nested too deeply.") from None
    if not isinstance(document, dict) or document.get("format") not in (CIRCUIT_FORMAT, CELL_FORMAT, CLASSIFIER_FORMAT):
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise CircuitError(
            f"[from_json] the format is {found!r}; it is {CIRCUIT_FORMAT!r}, {CELL_FORMAT!r} or {CLASSIFIER_FORMAT!r}."
        )
    if document["format"] == CLASSIFIER_FORMAT:
        return _read_classifier(document)
    return _read_cell(document) if document["format"] == CELL_FORMAT else _read_circuit(document)


def load(path: str | Path) -> Saved:
    """`from_json` of a file. Raises a CircuitError that names the file, also if it is unreadable.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sg.logic.circuit.save(sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2]), f"{folder}/xor.json")
    ...     circuit = sg.logic.circuit.load(f"{folder}/xor.json")
    >>> circuit
    Circuit(2 inputs, 1 gates, 1 outputs)
    """
    try:
        return from_json(Path(path).read_bytes())
    except CircuitError as error:
        raise CircuitError(f"{path}: {error}") from error
    except OSError as error:
        raise CircuitError(f"cannot read {path}: {error.strerror or error}.") from None


def _read_cell(document: Mapping[str, Any]) -> CellCircuit:
    _check_fields(document, _CELL_FIELDS)
    rate = document["fire_rate"]
    if not isinstance(document["circuit"], dict) or type(rate) not in (int, float):
        raise CircuitError("[from_json] a cell needs an object as circuit and a number as fire_rate.")
    if not 0 < rate <= 1:
        raise CircuitError(f"[from_json] fire_rate is {_brief(rate)}; it lies above 0 and is at most 1.")
    cell = CellCircuit(_read_circuit(document["circuit"]), document["border"], float(rate))
    if cell.channels != document["channels"]:
        raise CircuitError(
            f"[from_json] the cell says {document['channels']!r} channels; its circuit has {cell.channels}."
        )
    return cell


def _read_classifier(document: Mapping[str, Any]) -> CircuitClassifier:
    _check_fields(document, _CLASSIFIER_FIELDS)
    classes, tau, limits = (document[name] for name in ("classes", "tau", "thresholds"))
    if not isinstance(document["circuit"], dict) or type(classes) is not int or type(tau) not in (int, float):
        raise CircuitError("[from_json] a classifier needs an object as circuit, and numbers as classes and tau.")
    try:
        thresholds = None if limits is None else np.array(limits, np.float32)
    except (TypeError, ValueError):
        raise CircuitError(f"[from_json] thresholds are {_brief(limits)}; a row of numbers for each number.") from None
    return CircuitClassifier(_read_circuit(document["circuit"]), classes, thresholds, float(tau))


def _read_circuit(document: Mapping[str, Any]) -> Circuit:
    _check_fields(document, _CIRCUIT_FIELDS)
    inputs = _rows(document["inputs"], "inputs", 1)
    gates = _rows(document["gates"], "gates", 4)
    outputs = _rows(document["outputs"], "outputs", 2)
    input_names = [name for (name,) in inputs]
    by_name = {row[0]: row for row in gates}
    if len({*input_names, *by_name}) != len(inputs) + len(gates):
        raise CircuitError(
            f"[from_json] the wire {_first_repeated([*input_names, *(row[0] for row in gates)])!r} is defined twice."
        )
    _check_wires(set(input_names) | set(by_name), gates, outputs)
    order = _sorted_gates(set(input_names), gates)
    wires = {name: i for i, name in enumerate([*input_names, *order])}
    rows = [(_kind(by_name[g]), wires[by_name[g][2]], wires[by_name[g][3]]) for g in order]
    output_names = [name for name, _ in outputs]
    return Circuit(
        len(inputs),
        rows,
        [wires[wire] for _, wire in outputs],
        None if input_names == list(_default_names("x", len(inputs))) else input_names,
        None if output_names == list(_default_names("y", len(outputs))) else output_names,
    )


def _check_fields(document: Mapping[str, Any], fields: tuple[str, ...]) -> None:
    if document.get("version") != VERSION:
        raise CircuitError(
            f"[from_json] the version is {document.get('version')!r}; this library reads version {VERSION}."
        )
    missing = [field for field in fields if field not in document]
    if missing:
        raise CircuitError(f"[from_json] {document.get('format')} lacks {', '.join(map(repr, missing))}.")


def _rows(value: Any, what: str, length: int) -> list[list[Any]]:
    """A list of rows of `length` entries, all of them texts except kinds; an input is a row of one entry."""
    rows = [[row] if length == 1 else row for row in value] if isinstance(value, list) else [None]
    for k, row in enumerate(rows):
        texts = [entry for i, entry in enumerate(row) if (i, length) != (1, 4)] if isinstance(row, list) else [None]
        if not isinstance(row, list) or len(row) != length or not all(isinstance(t, str) and t for t in texts):
            shape = {1: "a name", 2: "[name, wire]", 4: "[name, kind, wire, wire]"}[length]
            raise CircuitError(f"[from_json] {what} is a list of {shape}; entry {k} is {_brief(row)}.")
    return rows


def _first_repeated(names: list[str]) -> str:
    return next(name for name, count in Counter(names).items() if count > 1)


def _check_wires(known: set[str], gates: list[list[Any]], outputs: list[list[Any]]) -> None:
    for what, rows, columns in (("gate", gates, (2, 3)), ("output", outputs, (1,))):
        for row in rows:
            for column in columns:
                if row[column] not in known:
                    raise CircuitError(
                        f"[from_json] {what} {row[0]!r} reads {row[column]!r}, which is neither an input nor a gate."
                    )


def _kind(row: list[Any]) -> int:
    kind = KIND_OF.get(row[1]) if isinstance(row[1], str) else row[1]
    if type(kind) is not int or not 0 <= kind < 16:
        raise CircuitError(
            f"[from_json] gate {row[0]!r} is of kind {row[1]!r}; kinds are 0 to 15, or {', '.join(NAMES)}."
        )
    return kind


def _sorted_gates(inputs: set[str], gates: list[list[Any]]) -> list[str]:
    """Names of the gates in the order of the file if that is topological, else sorted."""
    known = set(inputs)
    for name, _, a, b in gates:
        if a not in known or b not in known:
            break
        known.add(name)
    else:
        return [row[0] for row in gates]
    sorter = TopologicalSorter({name: [w for w in (a, b) if w not in inputs] for name, _, a, b in gates})
    try:
        return list(sorter.static_order())
    except CycleError as error:
        names = error.args[1]
        shown = names if len(names) <= MOST_NAMES else [*names[: MOST_NAMES - 2], "...", *names[-2:]]
        raise CircuitError(f"[from_json] the gates {' -> '.join(shown)} form a cycle; a circuit has none.") from error


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
