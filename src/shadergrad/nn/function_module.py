"""The base of modules that apply one function of functional/: `class ReLU(_InPlace, function=F.relu)`."""

from __future__ import annotations

from typing import Any, ClassVar

from .module import Module


class _Applied(Module):
    """Base: `forward` calls `type(self).function`; `rank` is the number of axes, if it is not the same for all subclasses."""

    function: ClassVar[Any] = None
    rank: ClassVar[int]

    def __init_subclass__(cls, function: Any = None, rank: int | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if function is not None:
            cls.function = function
        if rank is not None:
            cls.rank = rank
