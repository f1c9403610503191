"""TensorBoard, as far as programs name it: there is no writer here."""

from __future__ import annotations

from typing import Any

from ..errors import ShadergradError


class MissingWriterError(ShadergradError, ImportError):
    """There is no SummaryWriter."""


class SummaryWriter:
    """There is none: raises MissingWriterError, an ImportError, as PyTorch's does where tensorboard is not installed.

    >>> try:
    ...     sg.utils.tensorboard.SummaryWriter()
    ... except ImportError as error:
    ...     print(error)
    TensorBoard's files are not written here. Hint: sg.recipes write metrics.jsonl; tensorboardX takes NumPy values.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise MissingWriterError(
            "TensorBoard's files are not written here. Hint: sg.recipes write metrics.jsonl; tensorboardX takes NumPy values."
        )


__all__ = ["SummaryWriter"]
