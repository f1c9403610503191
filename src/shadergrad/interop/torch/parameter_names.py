"""PyTorch's names of parameters. In: our dotted names. Out: PyTorch's.

In our models, norms may be called gamma and beta; PyTorch's are always weight and bias. A perceptron `ff` with linear1 and linear2 is a
Sequential of Linear, activation, Dropout, Linear in PyTorch. All other names are the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import InteropError

LAST = {"gamma": "weight", "beta": "bias"}
WITHIN_FF = {"linear1": "0", "linear2": "3"}


def torch_name(name: str) -> str:
    """The name in PyTorch's convention.

    >>> sg.interop.torch.torch_name("layers.0.ff.linear2.weight"), sg.interop.torch.torch_name("norm.gamma")
    ('layers.0.ff.3.weight', 'norm.weight')
    """
    parts = name.split(".")
    parts[-1] = LAST.get(parts[-1], parts[-1])
    for k in range(1, len(parts)):
        if parts[k - 1] == "ff":
            parts[k] = WITHIN_FF.get(parts[k], parts[k])
    return ".".join(parts)


def torch_names(names: Iterable[str]) -> dict[str, str]:
    """PyTorch's name for each of our names. Raises InteropError if two of our names would become one."""
    found = {name: torch_name(name) for name in names}
    ours: dict[str, str] = {}
    for name, theirs in found.items():
        if theirs in ours:
            raise InteropError(
                f"[mirror] {ours[theirs]!r} and {name!r} are both {theirs!r} in PyTorch. Hint: rename one."
            )
        ours[theirs] = name
    return found
