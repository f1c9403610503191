"""What can go wrong with a training, as exceptions."""

from __future__ import annotations

from ..errors import ShadergradError


class TrainingError(ShadergradError, ValueError):
    """A training that cannot start as asked, or cannot go on."""


class RecipeError(ShadergradError, ValueError):
    """A recipe that cannot be found or read, or does not keep its part."""
