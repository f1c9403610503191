"""WebAssembly: a circuit as a module of 128-bit operations, written byte by byte; a classifier as a JavaScript module that holds it.

A vector holds the bits of a wire in 128 assignments. Gates are straight-line code between fixed addresses of the memory, some hundred to a
function, because engines compile large functions slowly. Source: the WebAssembly Core Specification 2.0, chapter 5 (binary format).
"""

from __future__ import annotations

import base64
import itertools
import json

import numpy as np

from ...system.leb128 import leb, sized
from .circuit import Circuit
from .classifier import CircuitClassifier
from .counting import counted
from .errors import CircuitError, check_kind
from .export_statements import template
from .gate_kinds import A_AND_NOT_B, AND, FALSE, NOT_A, NOT_A_AND_B, OR, TRUE, XOR
from .level_schedule import schedule

BYTES = 16  # of a vector
PAGE = 1 << 16
MOST_PAGES = 1 << 15  # 2 GiB, so that addresses are positive numbers of 32 bits
IN_FUNCTION = 500  # gates
_TYPES, _FUNCTIONS, _MEMORIES, _EXPORTS, _CODE = 1, 3, 5, 7, 10  # sections
_VECTOR = b"\xfd"  # before vector instructions
_ZERO, _CALL, _END = b"\x41\x00", b"\x10", b"\x0b"  # i32.const 0, call, end
_LOAD, _STORE, _CONSTANT = (_VECTOR + code for code in (b"\x00\x04", b"\x0b\x04", b"\x0c"))  # aligned to 2^4 bytes
_NOT, _AND, _ANDNOT, _OR, _XOR = (_VECTOR + bytes([code]) for code in range(0x4D, 0x52))
# of each kind that level_schedule.py leaves: whether its operands are exchanged, and the instruction
_BINARY = {
    AND: (False, _AND),
    A_AND_NOT_B: (False, _ANDNOT),
    NOT_A_AND_B: (True, _ANDNOT),
    XOR: (False, _XOR),
    OR: (False, _OR),
}


def to_wasm(circuit: Circuit) -> bytes:
    """A WebAssembly module (with fixed-width SIMD) that evaluates 128 assignments at a time.

    It exports `memory` and `run()`. Input k is stored in the 16 bytes from 16 k on, output k in the 16 bytes from 16 (inputs + k) on: bit l of
    byte j is assignment 8 j + l. `run` leaves the inputs as they are. Raises CircuitError for a circuit that takes more than 2 GiB.

    >>> module = sg.logic.circuit.to_wasm(sg.logic.circuit.Circuit(2, [(6, 0, 1)], [2]))
    >>> module[:8]
    b'\\x00asm\\x01\\x00\\x00\\x00'
    """
    check_kind(circuit, Circuit, "to_wasm")
    tables = schedule(circuit)
    slots = circuit.inputs + len(circuit.outputs)  # the first slot that gates use
    pages = -(-(slots + tables.slots) * BYTES // PAGE)
    if pages > MOST_PAGES:
        raise CircuitError(
            f"[to_wasm] the circuit takes {pages * PAGE} bytes; a module has at most {MOST_PAGES * PAGE}."
        )
    statements = [_copy(k, slots + slot) for k, slot in enumerate(tables.inputs.tolist()) if slot >= 0]
    rows = iter((tables.gates.astype(np.int64) + slots).tolist())
    for kind, count in tables.runs.tolist():
        statements += [_gate(kind, *row) for row in itertools.islice(rows, count)]
    statements += [_copy(slots + slot, circuit.inputs + k) for k, slot in enumerate(tables.outputs.tolist())]
    parts = [b"".join(statements[k : k + IN_FUNCTION]) for k in range(0, len(statements), IN_FUNCTION)]
    parts.append(b"".join(_CALL + leb(k) for k in range(len(parts))))  # run
    bodies = [sized(b"\x00" + part + _END) for part in parts]  # no locals
    exports = [_name("memory") + b"\x02\x00", _name("run") + b"\x00" + leb(len(parts) - 1)]
    sections = (
        (_TYPES, [b"\x60\x00\x00"]),  # of no arguments and no results
        (_FUNCTIONS, [b"\x00"] * len(parts)),
        (_MEMORIES, [b"\x00" + leb(pages)]),
        (_EXPORTS, exports),
        (_CODE, bodies),
    )
    return b"\x00asm\x01\x00\x00\x00" + b"".join(
        bytes([number]) + sized(leb(len(items)) + b"".join(items)) for number, items in sections
    )


def classifier_to_javascript(classifier: CircuitClassifier) -> str:
    """A JavaScript module, for Node and browsers, that holds a classifier as WebAssembly and needs no other file.

    It exports `predict(images)`, an Int32Array of classes, `votes(images)`, an Int32Array of counts, `classes` a row, and the numbers `numbers`,
    `classes`, `group` and `tau`. images: an array of numbers, `numbers` an image, or an array of such arrays. Numbers are compared with the thresholds in
    float32, as `predict` in Python does; without thresholds they are bits, and others than 0 and 1 are refused.
    Raises CircuitError as `to_wasm` does.

    >>> circuit = sg.logic.circuit.Circuit(2, [(1, 0, 1), (14, 0, 1)], [2, 3])
    >>> text = sg.logic.circuit.classifier_to_javascript(sg.logic.circuit.CircuitClassifier(circuit, 2))
    >>> [line.split("(")[0] for line in text.splitlines() if line.startswith("export function")]
    ['export function predict', 'export function votes']
    """
    check_kind(classifier, CircuitClassifier, "classifier_to_javascript")
    limits = None if classifier.thresholds is None else classifier.thresholds.tolist()
    told = {
        "numbers": classifier.numbers,
        "classes": classifier.classes,
        "group": classifier.group,
        "tau": classifier.tau,
        "digits": max(1, (classifier.classes - 1).bit_length()),
        "planes": max(1, classifier.group.bit_length()),
        "thresholds": None if limits is None else [[_number(t) for t in row] for row in limits],
    }
    module = base64.b64encode(to_wasm(counted(classifier))).decode("ascii")
    text = template("classifier.mjs")
    for name, value in told.items():
        text = text.replace(f"const {name} = 1;", f"const {name} = {json.dumps(value)};")
    return f"// {len(classifier.circuit)} gates. Made by shadergrad.\n" + text.replace('"MODULE"', f'"{module}"')


def _number(value: float) -> float | str:
    """A threshold as JSON; infinities and NaN, which JSON lacks, are words that JavaScript reads as numbers."""
    return value if np.isfinite(value) else {np.inf: "Infinity", -np.inf: "-Infinity"}.get(value, "NaN")


def _name(text: str) -> bytes:
    return sized(text.encode("ascii"))


def _load(slot: int) -> bytes:
    return _ZERO + _LOAD + leb(BYTES * slot)


def _copy(source: int, target: int) -> bytes:
    return _ZERO + _load(source) + _STORE + leb(BYTES * target)


def _gate(kind: int, a: int, b: int, out: int) -> bytes:
    if kind in (FALSE, TRUE):
        value = _CONSTANT + (b"\xff" if kind == TRUE else b"\x00") * BYTES
    elif kind == NOT_A:
        value = _load(a) + _NOT
    else:
        exchanged, code = _BINARY[kind]
        value = _load(b if exchanged else a) + _load(a if exchanged else b) + code
    return _ZERO + value + _STORE + leb(BYTES * out)
