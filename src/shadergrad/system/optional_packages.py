"""Packages that only some features need. In: a module's name. Out: the module, or an error with the pip command."""

from __future__ import annotations

import importlib
from types import ModuleType

from ..errors import ShadergradError


class MissingPackageError(ShadergradError, ImportError):
    """A package of one of the extras is not installed."""


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """The imported `module`. Raises MissingPackageError, which names the extra that installs it and its purpose."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f'{purpose} needs {error.name}, which is not installed. Hint: pip install "shadergrad[{extra}]"'
        ) from None
