"""The statements of a kernel's body in nested scopes: a loop-invariant statement is computed before the loop.

A statement is placed in the outermost scope in which all its operands are known; equal statements are computed once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...graph.index import Index


@dataclass
class Scope:
    """Statements at one level of nesting, and the names that they define."""

    lines: list[str] = field(default_factory=list)
    memo: dict[object, str] = field(default_factory=dict)


def both(conditions: Sequence[str]) -> str:
    """The conjunction of conditions, without `&&`, which branches: some compilers take minutes for a kernel with hundreds of branches."""
    return " & ".join(f"({c})" for c in conditions) if len(conditions) > 1 else conditions[0]


class Statements:
    """Scopes, and the names that are defined in them.

    depth: for each name, the scope in which it is known. vectors: the names of vec4 values.
    """

    def __init__(self) -> None:
        self.vectors: set[str] = set()
        self.scopes = [Scope()]
        self.depth: dict[str, int] = {}
        self._names = 0

    def new_name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def line(self, text: str, depth: int | None = None) -> None:
        """Append a statement to the innermost scope, or the scope of that depth."""
        self.scopes[-1 if depth is None else depth].lines.append(text)

    def open(self, *variables: str) -> None:
        """Enter a nested scope in which `variables` are known."""
        self.scopes.append(Scope())
        for v in variables:
            self.depth[v] = len(self.scopes) - 1

    def close(self) -> list[str]:
        """Leave the scope; returns its statements."""
        return self.scopes.pop().lines

    def define(self, text: str, depth: int, vector: bool = False, prefix: str = "v") -> str:
        """The name of a value; the same text at the same place is computed once."""
        for scope in self.scopes[: depth + 1]:
            found = scope.memo.get(text)
            if found is not None:
                return found
        name = self.new_name(prefix)
        self.line(f"let {name} = {text};", depth)
        self.scopes[depth].memo[text] = name
        self.depth[name] = depth
        if vector:
            self.vectors.add(name)
        return name

    def depth_of(self, index: Index | Iterable[Index]) -> int:
        parts = [index] if isinstance(index, Index) else index
        return max((self.depth.get(v, 0) for i in parts for v in i.variables()), default=0)

    def depth_of_values(self, *values: str) -> int:
        return max((self.depth[v] if v in self.depth else self.depth_in(v) for v in values), default=0)

    def depth_in(self, text: str) -> int:
        return max((self.depth[w] for w in re.findall(r"[A-Za-z_]\w*", text) if w in self.depth), default=0)
