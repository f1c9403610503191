"""The nearest valid name for a mistyped one. In: the name, and the valid names. Out: the nearest, and words for an error message."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

# other libraries' names, and ours
ELSEWHERE = {
    "Dense": "Linear",
    "Convolution2D": "Conv2d",
    "BatchNorm": "BatchNorm1d",
    "BatchNormalization": "BatchNorm1d",
    "LayerNormalization": "LayerNorm",
    "MaxPooling2D": "MaxPool2d",
    "AveragePooling2D": "AvgPool2d",
    "MultiHeadAttention": "MultiheadAttention",
    "learning_rate": "lr",
    "rate": "lr",
    "decay": "weight_decay",
}


def meant(name: str, names: Iterable[str]) -> str | None:
    """Which of `names` was perhaps meant: another library's word for it, the same letters, or nearly the same."""
    there = {other.lower().replace("_", ""): other for other in names if not other.startswith("_")}
    if ELSEWHERE.get(name) in there.values():
        return ELSEWHERE[name]
    near = get_close_matches(name.lower().replace("_", ""), there, 1, cutoff=0.75)
    return there[near[0]] if near else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of an error message: the nearest valid name, if there is one."""
    found = meant(name, names)
    return f" Did you mean {found}?" if found else ""


def suggesting(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module, which raises AttributeError with the nearest valid name."""

    def missing(name: str) -> Any:
        text = f"module {module!r} has no attribute {name!r}"
        if not name.startswith("_"):
            loaded = sys.modules[module]
            text += did_you_mean(name, getattr(loaded, "__all__", vars(loaded))).replace(" Did", ". Did", 1)
        raise AttributeError(text, name=name, obj=None)  # without obj: Python's traceback would say it again

    return missing
