"""Writes src/shadergrad/as_torch/pytorch_names.txt: which names PyTorch has, by module, read from an installed PyTorch.

    python scripts/pytorch_names.py

`shadergrad run` tells by it a name that is not here yet, which a program may import and pass on, from one that is misspelt.
"""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from shadergrad.as_torch import pytorch_names

# Tools of PyTorch's own, whose modules are listed without their names
INNER = [
    "testing._internal",
    "onnx",
    "ao",
    "distributed.checkpoint",
    "distributed.elastic",
    "distributed.pipelining",
    "distributed.rpc",
    "distributed.fsdp",
    "distributed.tensor",
    "distributed.nn",
    "distributed.algorithms",
    "package",
    "fx.experimental",
    "fx.passes",
    "export",
    "utils.cpp_extension",
    "utils.hipify",
    "utils.benchmark",
    "utils.viz",
    "utils.model_dump",
    "utils.bottleneck",
    "quantization",
    "masked",
    "contrib",
]


def is_inner(name: str) -> bool:
    """Whether only the module's name is listed: one of the tools, or a private file."""
    return any(name == i or name.startswith(f"{i}.") for i in INNER) or any(p.startswith("_") for p in name.split("."))


def modules() -> dict[str, Path]:
    """Every module of PyTorch's by its name without "torch"."""
    root = Path(torch.__file__).parent
    found = {}
    for path in sorted(root.rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        found["" if name == "__init__" else name] = path
    return found


def of_module(name: str, path: Path | None) -> set[str]:
    """The names that a module has: what it defines or imports from PyTorch; for one that is not loaded, what its text says."""
    module = sys.modules.get(f"torch.{name}" if name else "torch")
    if module is None:
        return {n for n in _written(ast.parse(Path(path).read_text())) if not n.startswith("_")} if path else set()
    return {k for k, v in vars(module).items() if not k.startswith("_") and _is_theirs(k, v)}


def _is_theirs(name: str, value: Any) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__.split(".")[0] == "torch"
    origin = str(getattr(value, "__module__", ""))
    # typing's own names are imported everywhere; an alias that is made of them is theirs
    return (
        origin.split(".")[0] not in sys.stdlib_module_names or getattr(sys.modules.get(origin), name, None) is not value
    )


def _written(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.ImportFrom) and (node.module or "torch").split(".")[0] == "torch":
            found |= {a.asname or a.name for a in node.names}
        elif isinstance(node, ast.If | ast.Try):
            found |= _written(node)
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    paths = modules()
    for name in paths:
        if name and not is_inner(name):
            try:
                importlib.import_module(f"torch.{name}")
            except Exception as error:
                print(f"torch.{name}: {type(error).__name__}, read from its text", file=sys.stderr)
    loaded = {n.partition(".")[2] for n in sys.modules if n.split(".")[0] == "torch"}
    lines = []
    for name in sorted({*paths, *loaded}):
        names: set[str] = set() if is_inner(name) else of_module(name, paths.get(name))
        if is_inner(name) and name.startswith(("testing._internal", "_inductor.", "_vendor", "_numpy")):
            continue
        lines.append(f"{name}: {' '.join(sorted(names))}".rstrip())
    pytorch_names.FILE.write_text(f"{torch.__version__.split('+')[0]}\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
