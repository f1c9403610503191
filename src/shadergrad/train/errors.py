"""The exceptions of trainings and recipes."""

from __future__ import annotations

from ..errors import ShadergradError


class TrainingError(ShadergradError, ValueError):
    """A training that cannot start with its settings, or cannot continue."""


class RecipeError(ShadergradError, ValueError):
    """A recipe that cannot be found or read, or is invalid."""
