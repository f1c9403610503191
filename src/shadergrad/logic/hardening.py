"""A trained classifier of gates as one object without tensors. In: a Sequential. Out: a CircuitClassifier."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import shadergrad as sg

from ..nn import Dropout, Flatten, Identity, Module, Sequential
from ..nn.errors import ArgumentError
from .circuit import Circuit
from .circuit.classifier import CircuitClassifier
from .encoding import Thermometer
from .layers import GroupSum, LogicLayer, LogicNetwork, append_layers

_NOTHING = (Flatten, Identity, Dropout)  # change no bit of a hardened network


def harden(model: Module) -> CircuitClassifier:
    """Thermometer, gates and class counts of a trained Sequential as one object: `harden(model).predict(images)`.

    model: a Sequential of at most one Thermometer, then LogicNetworks and LogicLayers, then a GroupSum; Flatten, Identity and Dropout may
    stand between them. Of a network alone, `network.harden()` gives the Circuit. The classifier is that of `model.eval()`.
    Raises ArgumentError that names a module which is no part of a circuit, or the missing one.

    >>> network = sg.logic.LogicNetwork((6, 8, 4), seed=1)
    >>> model = sg.nn.Sequential(sg.logic.Thermometer(2, 3), network, sg.logic.GroupSum(2))
    >>> sg.logic.harden(model)
    CircuitClassifier(2 numbers of 3 bits, 12 gates, 2 classes)
    """
    thresholds: np.ndarray | None = None
    built: list[tuple[int, int, int]] = []
    inputs, wires, sums = 0, [], None
    for name, part in _parts(model):
        where = f"[harden] module {name}, {part._get_name()},"
        if sums is not None:
            raise ArgumentError(f"{where} comes after the GroupSum; that is the last module of a classifier.")
        if isinstance(part, Thermometer):
            if thresholds is not None or wires:
                raise ArgumentError(f"{where} does not come first; a classifier has one Thermometer, before its gates.")
            thresholds = part.thresholds.detach().numpy()
        elif isinstance(part, LogicLayer | LogicNetwork):
            layers = list(part.layers) if isinstance(part, LogicNetwork) else [part]
            if not wires:
                inputs = layers[0].n_in
                wires = list(range(inputs))
            if layers[0].n_in != len(wires):
                raise ArgumentError(f"{where} reads {layers[0].n_in} wires; the layer before has {len(wires)}.")
            wires = append_layers(built, inputs, wires, layers)
        elif isinstance(part, GroupSum):
            sums = part
        else:
            raise ArgumentError(
                f"{where} is no part of a circuit. Hint: a Sequential of a Thermometer, LogicNetworks or LogicLayers, and a GroupSum."
            )
    if not wires or sums is None:
        lacks = "a GroupSum at its end" if wires else "a LogicNetwork or LogicLayer"
        raise ArgumentError(
            f"[harden] the model lacks {lacks}. Hint: network.harden() gives the circuit of a network alone."
        )
    if thresholds is not None and thresholds.size != inputs:
        raise ArgumentError(f"[harden] the Thermometer gives {thresholds.size} bits; the first layer reads {inputs}.")
    tau = float(sums.tau.detach().item() if isinstance(sums.tau, sg.Tensor) else sums.tau)
    if not tau > 0:
        raise ArgumentError(f"[harden] the learned tau is {tau}; votes count for a class only if it is positive.")
    return CircuitClassifier(Circuit(inputs, built, wires), sums.k, thresholds, tau)


def _parts(model: Module) -> Iterator[tuple[str, Module]]:
    """The modules of nested Sequentials in order, with their names, without those that change nothing."""
    if not isinstance(model, Sequential):
        raise ArgumentError(
            f"[harden] a {type(model).__name__} is no Sequential. Hint: nn.Sequential(Thermometer(...), LogicNetwork(...), GroupSum(...)); "
            "a network and an automaton have a method harden()."
        )
    for number, part in enumerate(model):  # named_children would leave out a layer that comes twice
        name = str(number)
        if isinstance(part, Sequential):
            yield from ((f"{name}.{inner}", found) for inner, found in _parts(part))
        elif not isinstance(part, _NOTHING):
            yield name, part
