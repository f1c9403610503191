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
    """Which of `names` was perhaps meant: another library's word for it, the same letters, a longer or shorter form, or nearly the same."""
    # of several with the same letters the one that does not write in place, and begins as written
    public = [other for other in names if not other.startswith("_")]
    public.sort(key=lambda other: (other.endswith("_"), other[:1].isupper() != name[:1].isupper(), other))
    there: dict[str, str] = {}
    for other in public:
        there.setdefault(_letters(other), other)
    if ELSEWHERE.get(name) in there.values():
        return ELSEWHERE[name]
    written = _letters(name)
    if written in there:
        return there[written]
    longer = [other for other in there if len(written) >= 3 and other.startswith(written)]
    shorter = [other for other in there if len(other) >= max(5, len(written) / 2) and written.startswith(other)]
    forms = sorted(longer, key=len) + sorted(shorter, key=len, reverse=True)
    swapped = [other for other in there if sorted(other) == sorted(written)]
    near = swapped or forms or get_close_matches(written, there, 1, cutoff=0.75)
    return there[near[0]] if near else None


def _letters(name: str) -> str:
    return name.lower().replace("_", "")


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
