"""The size of a circuit, by each of the usual counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .circuit import Circuit
from .errors import check_kind
from .gate_kinds import NAMES, A, B
from .gate_order import live_wires
from .minimize import minimize


@dataclass(frozen=True)
class GateCounts:
    """`all` gates; the `active` ones, of kinds other than A and B, as the literature on logic automata counts them;
    those `reachable` from the outputs, the active ones among these, and those of the `minimized` circuit.

    >>> circuit = sg.logic.circuit.Circuit(2, [(6, 0, 1), (1, 0, 1)], [2])
    >>> sg.logic.circuit.count_gates(circuit).reachable
    1
    """

    all: int
    active: int
    reachable: int
    reachable_active: int
    minimized: int


def count_gates(circuit: Circuit) -> GateCounts:
    """The size of a circuit by each count.

    >>> sg.logic.circuit.count_gates(sg.logic.circuit.Circuit(2, [(6, 0, 1), (3, 2, 2), (1, 0, 1)], [3]))
    GateCounts(all=3, active=2, reachable=2, reachable_active=1, minimized=1)
    """
    check_kind(circuit, Circuit, "count_gates")
    active = (circuit.kinds != A) & (circuit.kinds != B)
    reachable = live_wires(circuit)[circuit.inputs :]
    return GateCounts(
        all=len(circuit),
        active=int(active.sum()),
        reachable=int(reachable.sum()),
        reachable_active=int((active & reachable).sum()),
        minimized=len(minimize(circuit)),
    )


def histogram(circuit: Circuit) -> dict[str, int]:
    """The number of gates of each of the sixteen kinds, by name, in the order of their numbers.

    >>> counts = sg.logic.circuit.histogram(sg.logic.circuit.Circuit(2, [(6, 0, 1), (1, 0, 1)], [2, 3]))
    >>> {name: count for name, count in counts.items() if count}
    {'AND': 1, 'XOR': 1}
    """
    check_kind(circuit, Circuit, "histogram")
    return dict(zip(NAMES, np.bincount(circuit.kinds, minlength=16).tolist(), strict=True))
