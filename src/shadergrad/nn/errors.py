"""Errors of modules and their functions. Each is also the built-in exception that PyTorch raises in the same place."""

from __future__ import annotations

from ..errors import ArgumentError as ArgumentError
from ..errors import ShadergradError


class ModuleError(ShadergradError, RuntimeError):
    """Invalid use of a module."""


class StateDictError(ModuleError):
    """A state dict that does not fit the module."""


class ModuleTypeError(ModuleError, TypeError):
    """A value of another type where a parameter, a buffer or a module is expected."""


class ModuleAttributeError(ModuleError, AttributeError):
    """A name that a module does not have."""


class ModuleKeyError(ModuleError, KeyError):
    """A name that a module cannot take."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would put quotes around


class ReductionError(ArgumentError):
    """A reduction other than mean, sum, none."""
