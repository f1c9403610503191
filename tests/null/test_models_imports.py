"""What models/ imports: public names of the library, the door for kernels, and leaves; a stranger could have written it."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import shadergrad as sg

ROOT = Path(sg.__file__).parent
FILES = sorted((ROOT / "models").rglob("*.py"))
LEAVES = {"shadergrad.errors", "shadergrad.system.atomic_files", "shadergrad.system.optional_packages"}
PUBLIC = {
    "shadergrad",
    "shadergrad.data",
    "shadergrad.extend",
    "shadergrad.interop",
    "shadergrad.nn",
    "shadergrad.nn.functional",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_models_import_public_names_only(path: Path) -> None:
    parts = ("shadergrad", *path.relative_to(ROOT).with_suffix("").parts)
    package = parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not [a.name for a in node.names if a.name.startswith("shadergrad.") and a.name not in PUBLIC]
        if not isinstance(node, ast.ImportFrom):
            continue
        base = package[: len(package) - node.level + 1] if node.level else ()
        module = ".".join([*base, *([node.module] if node.module else [])])
        if not module.startswith("shadergrad") or module.startswith("shadergrad.models"):
            continue
        assert module in PUBLIC | LEAVES, f"{path}:{node.lineno} imports from {module}"
        exported = getattr(importlib.import_module(module), "__all__", None)
        for alias in node.names:
            assert module in LEAVES or alias.name in (exported or ()), f"{path}:{node.lineno} takes {alias.name}"
