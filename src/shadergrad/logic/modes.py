"""The mode of a module of gates: the one switch between values in [0, 1] and bits.

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


class Moded(Module):
    """A module with a mode of its own, checked whenever it is set."""

    modes: tuple[str, ...] = MODES
    _mode: str

    @property
    def mode(self) -> str:
        """How the module computes in train(); in eval() every mode is "hard"."""
        return self._mode

    @mode.setter
    def mode(self, value: str) -> None:
        self._mode = checked_mode(self._get_name(), value, self.modes)

    @property
    def hard(self) -> bool:
        """Whether the module computes bits now. To change it, set `mode`, or call eval() and train()."""
        return self._mode == "hard" or not self.training

    @hard.setter
    def hard(self, value: Any) -> None:
        raise refused_hard(self._get_name())


class ModedStack(Module):
    """A module whose `layers` have modes: one switch for all of them."""

    layers: ModuleList

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
