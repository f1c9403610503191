"""The house keeps its layout: rooms in order, no circles, one place for each outside thing. Read from the imports."""

from __future__ import annotations

import ast
import importlib.util
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import shadergrad

ROOT = Path(shadergrad.__file__).parent

# From the ground up. A file imports from its own room and from those before it.
ROOMS = [
    "version",
    "errors",
    "cpython",
    "symbolic_sizes",
    "old_forms",
    "arguments",
    "dtypes",
    "config",
    "system",
    "html_repr",
    "explanation",
    "target",
    "plan",
    "graph",
    "primitives",
    "compile",
    "runtime",
    "drive",
    "tensor",
    "run",
    "devices",
    "profiling",
    "autograd",
    "host_operations",
    "linalg",
    "special",
    "complex_numbers",
    "fft",
    "signal",
    "checkpoint",
    "pytorch_files",
    "serialization",
    "distributed",
    "data",
    "nn",
    "quantization",
    "compiled_module",
    "optim",
    "tensor_attributes",
    # PyTorch's public module paths. They are files of the root because type checkers resolve no redirect in sys.modules.
    "random",
    "grad_scaler",
    "amp",
    "autocast_state",
    "cuda",
    "backends",
    "mps",
    "accelerator",
    "testing",
    "utils",
    "jit",
    "compiler",
    "func",
    # the rest of the library
    "distributions",
    "interop",
    "functions",
    "onnx",
    "shadergrad",
    "torch",
    "as_torch",
    "extend",
    "logic",
    "models",
    "web",
    "train",
    "recipes",
    "cli",
    "__main__",
]


@dataclass(frozen=True)
class Import:
    """One import: of `names` from module `target`, in `source`."""

    source: str
    target: str
    names: tuple[str, ...]
    line: int
    late: bool  # within a function
    typing: bool  # for type checkers only


def files() -> dict[str, Path]:
    """Every module by its name within the package: "graph.node"."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__") if name != "__init__" else "shadergrad"] = path
    return found


FILES = files()


@dataclass(frozen=True)
class Found:
    """An import, and where it stands."""

    node: ast.Import | ast.ImportFrom
    late: bool  # within a function
    typing: bool  # under `if TYPE_CHECKING`


@cache
def text(module: str) -> str:
    return FILES[module].read_text()


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(text(module))


@cache
def nodes(module: str) -> list[ast.AST]:
    """All nodes of a module's syntax tree."""
    return list(ast.walk(tree(module)))


@cache
def syntax(module: str) -> list[Found]:
    """The imports of a module, which are statements: no expression is looked into."""
    found: list[Found] = []

    def walk(node: ast.AST, late: bool, typing: bool) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(Found(node, late, typing))
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        typing = typing or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            for child in getattr(node, part, ()):
                walk(child, late, typing)

    walk(tree(module), False, False)
    return found


@cache
def imports(module: str) -> list[Import]:
    """What a module imports of this package."""
    return list(_imports(module))


def _imports(module: str) -> Iterator[Import]:
    is_package = FILES[module].name == "__init__.py"
    package = "shadergrad" if module == "shadergrad" else f"shadergrad.{module}"
    package = package if is_package else package.rpartition(".")[0]
    for found in syntax(module):
        node = found.node
        if not isinstance(node, ast.ImportFrom):
            continue
        base = (
            importlib.util.resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module
        )
        assert base is not None
        if base.split(".")[0] != "shadergrad":
            continue
        base = base.removeprefix("shadergrad").removeprefix(".")
        for alias in node.names:
            inner = f"{base}.{alias.name}" if base else alias.name
            target = inner if inner in FILES else (base or "shadergrad")
            names = () if inner in FILES else (alias.name,)
            yield Import(module, target, names, node.lineno, found.late, found.typing)


@cache
def all_imports() -> list[Import]:
    return [found for module in FILES for found in imports(module)]


def room(module: str) -> str:
    """The room of a module: the longest name in ROOMS that it begins with."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in ROOMS:
            return ".".join(parts[:length])
    pytest.fail(f"{module} is in no room: name its room in ROOMS, after those that it imports from")


def test_a_file_imports_only_from_its_room_and_those_below() -> None:
    levels = {module: ROOMS.index(room(module)) for module in FILES}
    upwards = [
        f"{found.source}:{found.line} imports {found.target}"
        for found in all_imports()
        if levels[found.target] > levels[found.source]
        # what is imported when it is first asked for, declared for type checkers
        and not (found.source == "shadergrad" and found.typing)
    ]
    assert not upwards, f"what is imported lies above: {'; '.join(upwards)}"


def test_layers_and_optimizers_know_no_runtime() -> None:
    """They are written in tensors: devices are reached by the rooms between."""
    known = [f"{i.source}:{i.line} imports {i.target}" for i in all_imports() if room(i.source) in {"nn", "optim"}]
    assert known, "there are no imports to look at"
    assert not [line for line in known if line.partition(" imports ")[2].startswith("runtime")]


def test_there_is_no_circle_of_imports() -> None:
    after = {module: {i.target for i in imports(module) if i.target != module} for module in FILES}
    after["shadergrad"] = {i.target for i in imports("shadergrad") if not i.typing}
    for module, targets in after.items():
        targets.discard(module.rpartition(".")[0])  # a file of a package may name the package's own door
    state: dict[str, int] = {}

    def visit(module: str, path: tuple[str, ...]) -> None:
        state[module] = 1
        for target in after[module]:
            circle = [*path[path.index(target) :], target] if target in path else []
            assert not circle, f"a circle of imports: {' -> '.join(circle)}"
            if target not in state:
                visit(target, (*path, target))
        state[module] = 2

    for module in FILES:
        if module not in state:
            visit(module, (module,))


@cache
def comments(module: str) -> set[int]:
    """The lines that hold a comment."""
    tokens = tokenize.generate_tokens(io.StringIO(text(module)).readline)
    return {t.start[0] for t in tokens if t.type == tokenize.COMMENT}


def test_an_import_within_a_function_has_its_reason_beside_it() -> None:
    for module in FILES:
        for node in (f.node for f in syntax(module) if f.late):
            assert {node.lineno, node.lineno - 1} & comments(module), (
                f"{module}:{node.lineno} imports late, and does not say why"
            )


@cache
def packages(module: str) -> set[str]:
    """What a module imports of other packages."""
    found: set[str] = set()
    for node in (f.node for f in syntax(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif node.level == 0:
            found.add((node.module or "").split(".")[0])
    return found


def reads_environment(module: str) -> bool:
    if not re.search("environ|getenv", text(module)):
        return False
    names = (ast.unparse(node) for node in nodes(module) if isinstance(node, ast.Attribute | ast.alias))
    return not {"os.environ", "os.getenv", "environ", "getenv"}.isdisjoint(names)


def test_one_file_imports_llvmlite() -> None:
    assert {m for m in FILES if "llvmlite.binding" in text(m)} == {"runtime.llvm"}


def test_one_file_imports_wgpu() -> None:
    assert {m for m in FILES if "wgpu" in packages(m)} == {"runtime.wgpu"}


def test_one_file_imports_dawn() -> None:
    assert {m for m in FILES if "wgpudawn.backends" in text(m)} == {"runtime.dawn"}


def test_one_file_imports_pyodide() -> None:
    assert {m for m in FILES if packages(m) & {"js", "pyodide"}} == {"runtime.page"}


def test_one_file_reads_the_environment() -> None:
    assert {m for m in FILES if "os" in packages(m) and reads_environment(m)} == {"config"}


def names_in(module: str) -> set[str]:
    """Every name, attribute and imported name of a module."""
    found = {n.id for n in nodes(module) if isinstance(n, ast.Name)}
    found |= {n.attr for n in nodes(module) if isinstance(n, ast.Attribute)}
    return found | {a.name for n in nodes(module) if isinstance(n, ast.ImportFrom) for a in n.names}


def test_emitters_obey_a_choice_and_know_no_target() -> None:
    """Fuse, choose, emit: what differs between devices is decided before a text is written."""
    emitters = [m for m in FILES if m.startswith("compile.wgsl")] + ["compile.kernel", "primitives.attention_shader"]
    assert len(emitters) > 10
    for module in emitters:
        assert not {"Target", "target", "traits"} & names_in(module), f"{module} asks the target: let choose.py decide"


def test_primitives_know_no_target() -> None:
    """A primitive says what is computed, and writes the shader that it is asked for: compile/ chooses."""
    known = [
        f"{i.source}:{i.line}" for i in all_imports() if i.source.startswith("primitives") and i.target == "target"
    ]
    assert not known, f"{known} import the target: choose in compile/calls.py, or expand in a rule"


VENDORS = re.compile(r"nvidia|amd\b|radeon|intel\b|apple|llvmpipe|swiftshader|lavapipe|\bwarp\b", re.IGNORECASE)


def test_no_vendor_is_named_where_kernels_are_made() -> None:
    """A device is a row of target.ROWS; one module turns the names of adapters into a row. Comments may tell of browsers' SwiftShader."""
    for module in FILES:
        if module.startswith(("compile", "primitives", "graph", "tensor", "nn", "optim")) and VENDORS.search(
            text(module)
        ):
            strings = {n.value for n in nodes(module) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
            docs = {
                ast.get_docstring(n, clean=False)
                for n in nodes(module)
                if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)
            }
            assert not any(VENDORS.search(string) for string in strings - docs), f"{module} compares a vendor's name"
        if module.startswith(("compile", "primitives")):
            assert not re.search("llvmpipe|nvidia", text(module), re.IGNORECASE), f"{module} names a driver"
    for room in ("compile", "primitives"):
        for path in (p for ending in ("*.md", "*.wgsl") for p in (ROOT / room).rglob(ending)):
            assert not re.search("llvmpipe|nvidia", path.read_text(), re.IGNORECASE), f"{path.name} names a driver"


LEANING = {
    "getrefcount",
    "get_referrers",
    "get_referents",
    "get_objects",
    "settrace",
    "setprofile",
    "monitoring",
    "_getframe",
}
LEANING |= {
    "f_lasti",
    "f_back",
    "f_locals",
    "f_trace",
    "f_trace_opcodes",
    "co_code",
    "co_consts",
    "co_positions",
    "__flags__",
}


def leans_on_cpython(module: str) -> bool:
    """Whether a module looks into the interpreter: references, frames, instructions, who holds what."""
    is_named = any(name in text(module) for name in LEANING)  # which is faster than a walk through every module
    return (is_named and bool(names_in(module) & LEANING)) or bool(packages(module) & {"dis", "opcode"})


def test_one_file_leans_on_cpython() -> None:
    assert {m for m in FILES if leans_on_cpython(m)} == {"cpython"}


def test_two_files_ask_the_garbage_collector() -> None:
    assert {m for m in FILES if "gc" in packages(m)} == {"cpython", "system.gc_pause"}


def test_no_private_name_is_taken_across_rooms() -> None:
    for found in all_imports():
        if room(found.source) != room(found.target):
            private = [n for n in found.names if n.startswith("_") and not n.startswith("__")]
            assert not private, f"{found.source}:{found.line} takes {private} from {found.target}"


@pytest.mark.parametrize("package", ["compile", "compile/native", "drive", "run", "runtime", "tensor"])
def test_a_readme_names_the_files_of_its_package(package: str) -> None:
    """Files that it names exist; those of the package are all named, but for tensors' operations, which base.py lists."""
    folder = ROOT / package
    named = set(re.findall(r"`([\w/]+\.py)`", (folder / "README.md").read_text()))
    tests = {path.name for path in Path(__file__).parents[1].rglob("test_*.py")}
    there = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    roots = (folder, ROOT, Path(__file__).parents[2])
    strange = [n for n in named if not any((r / n).exists() for r in roots) and n.rpartition("/")[2] not in tests]
    assert not strange
    if package == "tensor":
        listed = set(re.findall(r"\w+", ast.get_docstring(tree("tensor.base")) or ""))
        named |= {name for name in there if name.removesuffix(".py") in listed}
    assert there <= named


def test_the_test_itself_sees_circles_late_imports_and_rooms() -> None:
    """What the tests above rest on finds something where there is something."""
    assert any(i.target == "graph.node" and i.source == "graph.build" for i in all_imports())
    assert room("compile.wgsl.matmul.loop") == "compile"
    assert len(all_imports()) > 500
    assert "graph" in ROOMS[: ROOMS.index("primitives")]
