"""The names that PyTorch has, by module: a list that scripts/pytorch_names.py reads from an installed PyTorch.

In: "torch.fx" and "Tracer". Out: whether PyTorch has it. The list has no names of
private modules and of PyTorch's own tools: there, and for private names in all modules, the answer is always yes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".txt")


@cache
def _by_module() -> dict[str, frozenset[str]]:
    _, *lines = FILE.read_text(encoding="utf-8").splitlines()
    parts = (line.partition(":") for line in lines)
    return {f"torch.{name}" if name else "torch": frozenset(names.split()) for name, _, names in parts}


def has_module(name: str) -> bool:
    """Whether PyTorch has a module of this whole name."""
    return name in _by_module()


def has_name(module: str, name: str) -> bool:
    """Whether PyTorch's module has the name, or may have it: the names of some modules, and private ones, are not listed."""
    names = _by_module().get(module, frozenset())
    return not names or name in names or name.startswith("_") or has_module(f"{module}.{name}")
