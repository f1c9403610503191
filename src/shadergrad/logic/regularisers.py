"""Loss terms that make the choice of gates certain, so that hardening changes less. In: a module with layers of gates. Out: a scalar."""

from __future__ import annotations

import shadergrad as sg

from ..nn import Module
from ..nn.errors import ArgumentError
from ..nn.functional import binary_cross_entropy_with_logits, log_softmax
from .layers import GateLayer
from .learned_wires import LearnedWires
from .lookup_tables import LookupLayer


def gate_entropy(module: Module) -> sg.Tensor:
    """The mean entropy of the module's gates and tables, in nats: 0 if all choices are certain. Add it to the loss, times a weight that grows.

    The entropy of a softmax is that of the choice among sixteen gates; of a table, the sum over its entries, each a choice of two.
    Raises ArgumentError for a module without layers of gates.

    >>> layer = sg.logic.LogicLayer(4, 3, parametrisation="light", strength=1e-6)  # all four entries undecided: 4 ln 2
    >>> round(sg.logic.gate_entropy(layer).item(), 4)
    2.7726
    """
    return _mean("gate_entropy", [_of_gates(m) for m in module.modules() if isinstance(m, GateLayer | LookupLayer)])


def wire_entropy(module: Module) -> sg.Tensor:
    """The mean entropy of the choices of learned wires, in nats. Raises ArgumentError for a module without them.

    >>> layer = sg.logic.LogicLayer(4, 3, "learned", candidates=1)  # nothing to choose
    >>> abs(sg.logic.wire_entropy(layer).item())
    0.0
    """
    return _mean("wire_entropy", [_of_choice(m.choices) for m in module.modules() if isinstance(m, LearnedWires)])


def _of_gates(layer: GateLayer | LookupLayer) -> sg.Tensor:
    if isinstance(layer, GateLayer) and layer.parametrisation == "softmax":
        return _of_choice(layer.logits)
    entries = layer.entries()
    return binary_cross_entropy_with_logits(entries, entries.sigmoid(), reduction="none").sum(-1)


def _of_choice(logits: sg.Tensor) -> sg.Tensor:
    logarithms = log_softmax(logits, -1)
    return -(logarithms.exp() * logarithms).sum(-1)


def _mean(what: str, found: list[sg.Tensor]) -> sg.Tensor:
    if not found:
        kind = "learned wires" if what == "wire_entropy" else "layers of gates"
        raise ArgumentError(f"[{what}] the module has no {kind}.")
    return sg.cat([each.reshape(-1) for each in found]).mean()
