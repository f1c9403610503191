"""A trained classifier of gates as one object without tensors. In: a Sequential. Out: a CircuitClassifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import shadergrad as sg

from ..nn import Dropout, Flatten, Identity, Module, Sequential, Unflatten
from ..nn.errors import ArgumentError
from .circuit import Circuit
from .circuit.classifier import CircuitClassifier
from .circuit.gate_kinds import FALSE, OR
from .convolution import LogicConv2d, OrPool2d
from .encoding import Thermometer
from .layers import GroupSum, LogicLayer, LogicNetwork
from .lookup_tables import LookupLayer, as_gates

_NOTHING = (Identity, Dropout)  # change no bit of a hardened network
_KNOWN = "Thermometer, LogicConv2d, OrPool2d, LogicNetwork, LogicLayer, LookupLayer, Flatten and Unflatten, and a GroupSum at the end"


def harden(model: Module) -> CircuitClassifier:
    """Thermometer, gates and class counts of a trained Sequential as one object: `harden(model).predict(images)`.

    model: a Sequential of at most one Thermometer, then LogicNetworks, LogicLayers, LookupLayers, LogicConv2ds and OrPool2ds, then a GroupSum; Flatten,
    Unflatten, Identity and Dropout may come between them. A convolution gives its gates at every position. For a network alone,
    `network.harden()` gives the Circuit. The classifier is that of `model.eval()`.
    Raises ArgumentError, which names the module, if one cannot be part of a circuit, does not fit, or is missing.

    >>> network = sg.logic.LogicNetwork((6, 8, 4), seed=1)
    >>> model = sg.nn.Sequential(sg.logic.Thermometer(2, 3), network, sg.logic.GroupSum(2))
    >>> sg.logic.harden(model)
    CircuitClassifier(2 numbers of 3 bits, 12 gates, 2 classes)
    """
    builder = _Builder()
    thresholds: np.ndarray | None = None
    sums: GroupSum | None = None
    for name, part in _parts(model):
        where = f"[harden] module {name}, {part._get_name()},"
        if sums is not None:
            raise ArgumentError(f"{where} comes after the GroupSum; that is the last module of a classifier.")
        if isinstance(part, Thermometer):
            if thresholds is not None or builder.wires is not None:
                raise ArgumentError(f"{where} does not come first; a classifier has one Thermometer, before its gates.")
            thresholds = part.thresholds.detach().numpy()
            builder.begin_encoded(part)
        elif isinstance(part, GroupSum):
            sums = part
        else:
            builder.add(part, where)
    if not builder.parts or sums is None or builder.wires is None:
        lacks = "a GroupSum at its end" if builder.parts else "a LogicNetwork or LogicLayer"
        raise ArgumentError(
            f"[harden] the model lacks {lacks}. Hint: network.harden() gives the circuit of a network alone."
        )
    tau = float(sums.tau.detach().item() if isinstance(sums.tau, sg.Tensor) else sums.tau)
    if not tau > 0:
        raise ArgumentError(f"[harden] the learned tau is {tau}; votes count for a class only if it is positive.")
    circuit = Circuit(builder.inputs, np.concatenate(builder.parts), builder.wires.reshape(-1))
    return CircuitClassifier(circuit, sums.k, thresholds, tau)


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


class _Builder:
    """Gates so far, as arrays (n, 3) of kind, a and b, and the wires that the next module reads: (n,), or (channels, height, width)."""

    def __init__(self) -> None:
        self.inputs = self.count = 0
        self.parts: list[np.ndarray] = []
        self.wires: np.ndarray | None = None
        self._zero: int | None = None

    def begin(self, wires: np.ndarray) -> None:
        self.inputs = self.count = wires.size
        self.wires = wires

    def begin_encoded(self, thermometer: Thermometer) -> None:
        """Begin with the bits of a Thermometer: input i * bits + k of the circuit is bit k of number i."""
        wires = np.arange(thermometer.n * thermometer.bits)
        if thermometer.image is not None:
            channels, height, width = thermometer.image
            wires = wires.reshape(channels, height, width, thermometer.bits)
            wires = np.moveaxis(wires, -1, 1).reshape(channels * thermometer.bits, height, width)
        self.begin(wires)

    def add(self, part: Module, where: str) -> None:
        """Append the gates of a module. Raises ArgumentError whose text begins with `where`."""
        if isinstance(part, Flatten):
            self.wires = None if self.wires is None else self.wires.reshape(-1)
        elif isinstance(part, Unflatten):
            self._unflatten(tuple(part.unflattened_size), where)
        elif isinstance(part, LogicLayer | LogicNetwork):
            layers: list[Any] = list(part.layers) if isinstance(part, LogicNetwork) else [part]
            if self.wires is None:
                self.begin(np.arange(layers[0].n_in))
            wires = self._flat(where, layers[0].n_in)
            for layer in layers:
                wires = self._layer(layer, wires[None])[0]
            self.wires = wires
        elif isinstance(part, LookupLayer):
            if self.wires is None:
                self.begin(np.arange(part.n_in))
            gates, wires = as_gates(part.tables(), self._flat(where, part.n_in)[part.wires.numpy()], self.count)
            self._gates(gates)
            self.wires = wires
        elif isinstance(part, LogicConv2d):
            self._convolve(part, where)
        elif isinstance(part, OrPool2d):
            self._pool(part, where)
        else:
            raise ArgumentError(f"{where} is no part of a circuit. Hint: a Sequential of {_KNOWN}.")

    def _unflatten(self, shape: tuple[int, ...], where: str) -> None:
        if self.wires is None:
            self.begin(np.arange(int(np.prod(shape))))
        assert self.wires is not None
        if self.wires.size != np.prod(shape):
            raise ArgumentError(f"{where} gives {shape}; there are {self.wires.size} wires.")
        self.wires = self.wires.reshape(shape)

    def _flat(self, where: str, n_in: int) -> np.ndarray:
        assert self.wires is not None
        if self.wires.shape != (n_in,):
            hint = " Hint: nn.Flatten() before it." if self.wires.ndim > 1 else ""
            raise ArgumentError(f"{where} reads {n_in} wires; what comes before has {self.wires.shape}.{hint}")
        return self.wires

    def _image(self, where: str) -> np.ndarray:
        if self.wires is None or self.wires.ndim != 3:
            raise ArgumentError(
                f"{where} reads an image. Hint: a Thermometer with image=(channels, height, width), or nn.Unflatten(1, ...), before it."
            )
        return self.wires

    def _gates(self, gates: np.ndarray) -> np.ndarray:
        """Append gates (n, 3); returns their wires (n,)."""
        self.parts.append(gates)
        self.count += len(gates)
        return np.arange(self.count - len(gates), self.count)

    def _layer(self, layer: Any, wires: np.ndarray) -> np.ndarray:
        """Append a layer at each of p places: wires (p, n_in) to (p, n_out)."""
        a, b = layer.checked_wires()
        kinds = np.broadcast_to(layer.kinds(), (len(wires), layer.n_out))
        return self._gates(np.stack([kinds, wires[:, a], wires[:, b]], -1).reshape(-1, 3)).reshape(
            len(wires), layer.n_out
        )

    def _convolve(self, part: LogicConv2d, where: str) -> None:
        wires = self._image(where)
        if len(wires) != part.in_channels:
            raise ArgumentError(f"{where} reads {part.in_channels} channels; what comes before has {len(wires)}.")
        height, width = part.output_size(*wires.shape[1:])
        if part.padding:
            if self._zero is None:
                self._zero = int(self._gates(np.array([[FALSE, 0, 0]]))[0])
            own = part.padding
            wires = np.pad(wires, ((0, 0), (own, own), (own, own)), constant_values=self._zero)
        size, stride = part.kernel_size, part.stride
        windows = np.lib.stride_tricks.sliding_window_view(wires, (size, size), (1, 2))[:, ::stride, ::stride]
        values = windows.transpose(1, 2, 0, 3, 4).reshape(height * width, -1)
        for layer in part.layers:
            values = self._layer(layer, values)
        self.wires = values.reshape(height, width, part.out_channels).transpose(2, 0, 1)

    def _pool(self, part: OrPool2d, where: str) -> None:
        wires = self._image(where)
        sides = part.output_size(*wires.shape[1:])
        size = part.kernel_size
        windows = np.lib.stride_tricks.sliding_window_view(wires, (size, size), (1, 2))[
            :, :: part.stride, :: part.stride
        ]
        places = windows.reshape(-1, size * size)
        found = places[:, 0]
        for k in range(1, size * size):
            found = self._gates(np.stack([np.full(len(found), OR), found, places[:, k]], -1))
        self.wires = found.reshape(len(wires), *sides)
