"""What logic/ imports: the public names, the door for kernels written by hand, and leaves that know no tensors."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import Any

import shadergrad as sg

ROOT = Path(__file__).parents[2]
LOGIC = ROOT / "src" / "shadergrad" / "logic"

LEAVES = {
    "shadergrad.dtypes",
    "shadergrad.errors",
    "shadergrad.nn.errors",
    "shadergrad.system.atomic_files",
    "shadergrad.system.browser",
    "shadergrad.system.leb128",
    "shadergrad.system.optional_packages",
    "shadergrad.system.special_functions",
}  # know no tensors
PUBLIC = LEAVES | {
    "shadergrad",
    "shadergrad.autograd",
    "shadergrad.extend",
    "shadergrad.nn",
    "shadergrad.nn.functional",
    "shadergrad.nn.utils",
    "shadergrad.onnx",
    "shadergrad.optim",
}


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(LOGIC.rglob("*.py"))}


def imports(path: Path, tree: ast.AST) -> Iterator[tuple[str, str | None, int]]:
    """(module, name or None, line) of every import, relative ones made absolute."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((module, alias.name, node.lineno) for alias in node.names)


def is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True


def test_logic_imports_public_names_only() -> None:
    wrong = []
    for path, tree in parsed().items():
        for module, name, line in imports(path, tree):
            if not module.startswith("shadergrad") or module.startswith("shadergrad.logic"):
                continue
            if name is not None and f"{module}.{name}" in PUBLIC:
                continue
            exported = getattr(importlib.import_module(module), "__all__", None)
            if module not in PUBLIC or (name or "").startswith("_") or (name and exported and name not in exported):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {module} {name or ''}")
    assert not wrong


def test_the_leaves_know_nothing_of_the_library() -> None:
    for name in LEAVES:
        path = ROOT / "src" / Path(*name.split(".")).with_suffix(".py")
        for module, _, line in imports(path, ast.parse(path.read_text(encoding="utf-8"))):
            assert not module.startswith("shadergrad") or module in LEAVES, f"{path.relative_to(ROOT)}:{line}"


def test_logic_reaches_no_inner_room_through_the_package() -> None:
    """sg.zeros is public, sg.graph.node is not."""
    wrong = []
    for path, tree in parsed().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute):
                continue
            names, value = [node.attr], node.value
            while isinstance(value, ast.Attribute):
                names, value = [value.attr, *names], value.value
            if not isinstance(value, ast.Name) or value.id != "sg":
                continue
            reached: Any = sg
            for name in names:
                if not isinstance(reached, ModuleType):
                    break
                reached = getattr(reached, name, None)
                if reached is None or (isinstance(reached, ModuleType) and reached.__name__ not in PUBLIC):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: sg.{'.'.join(names)}")
                    break
    assert not wrong


def test_logic_uses_its_own_private_names_only() -> None:
    own = {"_get_name"}  # of Module, as in PyTorch: what subclasses call
    used: list[tuple[str, str]] = []
    for path, tree in parsed().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr):
                if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self":
                    own.add(node.attr)
                used.append((f"{path.relative_to(ROOT)}:{node.lineno}", node.attr))
    assert not [place for place in used if place[1] not in own]


def test_logic_has_no_late_imports_and_no_circles() -> None:
    arrows: dict[str, set[str]] = {}
    for path, tree in parsed().items():
        late = [n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)]
        assert not [n.lineno for n in late if isinstance(n, ast.Import | ast.ImportFrom)], f"{path}: a late import"
        mine = module_of(path)
        for module, name, _ in imports(path, tree):
            if module.startswith("shadergrad.logic"):
                target = f"{module}.{name}" if is_module(f"{module}.{name}") else module
                arrows.setdefault(mine, set()).add(target)
    arrows = {a: {b for b in bs if b != a} for a, bs in arrows.items()}
    TopologicalSorter(arrows).prepare()
