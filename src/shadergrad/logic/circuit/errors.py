"""The exception of circuits, and a check of the class of an argument."""

from __future__ import annotations

from typing import Any

from ...errors import ShadergradError

WAYS = {
    "Circuit": "network.harden() gives one of a LogicNetwork; .circuit is that of an automaton or a classifier.",
    "CellCircuit": "model.harden() gives one of a LogicCA; CellCircuit(circuit) is one, if the circuit has 9 inputs an output.",
    "CircuitClassifier": "sg.logic.harden(model) gives one of a Sequential with a GroupSum at its end.",
}


class CircuitError(ShadergradError, ValueError):
    """An invalid circuit, or one that does not fit its use."""


def check_kind(value: Any, kind: type, what: str) -> None:
    """Raises CircuitError, with a hint how to get one, for anything but a `kind` (Circuit, CellCircuit or CircuitClassifier)."""
    if not isinstance(value, kind):
        raise CircuitError(
            f"[{what}] {type(value).__name__} is given, and {kind.__name__} needed.\n  Hint: {WAYS[kind.__name__]}"
        )
