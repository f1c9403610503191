"""The mode of a module of gates: the one switch between values in [0, 1] and bits. And the numbers beside it, set like it at any time.

In train() `mode` says how a module computes. In eval() every mode computes bits, those of the hardened circuit. To see soft values
of a trained network, leave it in train() under no_grad().
"""

from __future__ import annotations

from typing import Any

from ..nn import Module, ModuleList
from ..nn.errors import ArgumentError

MODES = ("soft", "hard", "straight-through", "gumbel", "gumbel-hard")


def checked_mode(what: str, mode: Any, modes: tuple[str, ...]) -> str:
    """The mode, if it is one of `modes`. Raises ArgumentError."""
    if mode not in modes:
        raise ArgumentError(f"[{what}] there is no mode {mode!r}; choose of {', '.join(modes)}.")
    return mode


def checked_positive(what: str, name: str, value: float) -> float:
    """The number, if it is positive. Raises ArgumentError."""
    if not value > 0:
        raise ArgumentError(f"[{what}] the {name} is {value}; it must be positive.")
    return float(value)


class Moded(Module):
    """A module with a mode and a temperature of its own, checked whenever they are set."""

    modes: tuple[str, ...] = MODES
    _mode: str
    _temperature: float

    @property
    def mode(self) -> str:
        """How the module computes in train(); in eval() every mode is "hard"."""
        return self._mode

    @mode.setter
    def mode(self, value: str) -> None:
        self._mode = checked_mode(self._get_name(), value, self.modes)

    @property
    def temperature(self) -> float:
        """What the noisy logits, or the distances from a threshold, are divided by."""
        return self._temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        self._temperature = checked_positive(self._get_name(), "temperature", value)

    @property
    def hard(self) -> bool:
        """Whether the module computes bits now. To change it, set `mode`, or call eval() and train()."""
        return self._mode == "hard" or not self.training

    @hard.setter
    def hard(self, value: Any) -> None:
        raise refused_hard(self._get_name())


class ModedGates(Moded):
    """A layer of gates, which also has a factor of the gradient that it passes on to its input."""

    _grad_factor: float

    @property
    def grad_factor(self) -> float:
        """What the gradient of the input is multiplied by."""
        return self._grad_factor

    @grad_factor.setter
    def grad_factor(self, value: float) -> None:
        self._grad_factor = checked_positive(self._get_name(), "grad_factor", value)


class ModedStack(Module):
    """A module whose `layers` have modes: one switch for all of them."""

    layers: ModuleList

    @property
    def temperature(self) -> float | tuple[float, ...]:
        """The temperature of all layers; where they differ, that of each. Setting it sets that of every layer."""
        return self._common("temperature")

    @temperature.setter
    def temperature(self, value: float) -> None:
        for layer in self.layers:
            layer.temperature = value

    @property
    def grad_factor(self) -> float | tuple[float, ...]:
        """The grad_factor of all layers; where they differ, that of each. Setting it sets that of every layer."""
        return self._common("grad_factor")

    @grad_factor.setter
    def grad_factor(self, value: float) -> None:
        for layer in self.layers:
            layer.grad_factor = value

    def _common(self, name: str) -> Any:
        found = tuple(getattr(layer, name) for layer in self.layers)
        return found[0] if len(set(found)) == 1 else found

    @property
    def mode(self) -> str:
        """The mode of all layers; where they differ, their modes, separated by commas. Setting it sets that of every layer."""
        return ", ".join(dict.fromkeys(layer.mode for layer in self.layers))

    @mode.setter
    def mode(self, value: str) -> None:
        for layer in self.layers:
            layer.mode = checked_mode(self._get_name(), value, layer.modes)

    @property
    def hard(self) -> bool:
        """Whether all layers compute bits now. To change it, set `mode`, or call eval() and train()."""
        return all(layer.hard for layer in self.layers)

    @hard.setter
    def hard(self, value: Any) -> None:
        raise refused_hard(self._get_name())


def refused_hard(what: str) -> ArgumentError:
    """The error of a program that sets `hard`."""
    return ArgumentError(f"[{what}] hard cannot be set. Hint: .mode = 'hard', or .eval(), which hardens every mode.")
