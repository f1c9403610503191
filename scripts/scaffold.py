"""Begins an operation, a module or an optimizer: all that its recipe in CONTRIBUTING.md asks for, as an example that works.

    python scripts/scaffold.py op entr                  a record in primitives/elementwise.py (make op NAME=entr)
    python scripts/scaffold.py composed wave            a method in tensor/elementwise.py (make composed NAME=wave)
    python scripts/scaffold.py composed spread --room reduce
    python scripts/scaffold.py module Scale             a file in nn/ (make module NAME=Scale)
    python scripts/scaffold.py optimizer Signum         a file in optim/ (make optimizer NAME=Signum)

Each writes the definition with its docstring, its public name, a case that tests walk, a planted fault, the stubs and the
golden digests. What it writes computes something simple, and its tests pass. A sentence in the docstring begins with
SCAFFOLD; a test asks for what to fill in until no such word is left. Names that are bad or taken are refused before anything
is written.
"""

from __future__ import annotations

import argparse
import ast
import keyword
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "shadergrad"
ROOMS = ("elementwise", "shape", "reduce", "index", "order", "products")  # of composed operations

RECORD = """NewName = record(
    "NewName", "SCAFFOLD: say what this is. The square.", in_same_dtype(np.square), "{a} * {a}", lambda x, y: x * 2.0,
    categories=FLOATS, domain=(-3.0, 3.0), public=True, example=("[1.0, -3.0]", "[1., 9.]"),
)
"""

METHOD = '''
    def new_name(self) -> Self:
        """SCAFFOLD: say what this is. The product with itself. Shape and dtype stay.

        >>> sg.tensor([1.0, -3.0]).new_name()
        tensor([1., 9.])
        """
        return self * self
'''

MODULE = '''"""NewName."""

from __future__ import annotations

from ..tensor import Tensor, ones
from .module import Module
from .parameter import Parameter

__all__ = ["NewName"]


class NewName(Module):
    """SCAFFOLD: say what this is, with shapes and errors. A weight for each of n features: (..., n) to (..., n).

    >>> nn.NewName(2)(sg.tensor([3.0, 4.0]))
    tensor([3., 4.], grad_fn=<MulBackward>)
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features
        self.weight = Parameter(ones(features))

    def forward(self, input: Tensor) -> Tensor:
        return input * self.weight

    def extra_repr(self) -> str:
        return f"{self.features}"
'''

MODULE_CASE = '''

class TorchNewName(torch.nn.Module):
    """The reference of NewName."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features
        self.weight = torch.nn.Parameter(torch.ones(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight

    def extra_repr(self) -> str:
        return f"{self.features}"

    def _get_name(self) -> str:
        return "NewName"


case("NewName", lambda nn: TorchNewName(4) if nn is torch.nn else nn.NewName(4), floats(3, 4))
'''

OPTIMIZER = '''"""NewName."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ..tensor import Tensor
from .optimizer import Implementation, Optimizer, ParamGroup


class NewName(Optimizer):
    """SCAFFOLD: say what this is, with its source. Steps along a running sum of the gradients.

        total = decay * total + gradient
        p -= lr * total

    Errors: as for Optimizer.

    >>> w = sg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = sg.optim.NewName([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.5, -1. ], requires_grad=True)
    """

    slots = ("total",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        decay: float = 0.9,
        *,
        maximize: bool = False,
        **implementation: Unpack[Implementation],
    ) -> None:
        super().__init__(params, {"lr": lr, "decay": decay, "maximize": maximize}, implementation)

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        total = state["total"] * group["decay"] + gradient
        p.copy_(p - total * group.rate(p))
        state["total"].copy_(total)
'''

REFERENCE = '''class TorchNewName(torch.optim.Optimizer):
    """The reference of NewName."""

    def __init__(self, params: Any, lr: float = 1e-3, decay: float = 0.9, maximize: bool = False) -> None:
        super().__init__(params, {"lr": lr, "decay": decay, "maximize": maximize})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                total = self.state[p].setdefault("total", torch.zeros_like(p))
                total.mul_(group["decay"]).add_(-p.grad if group["maximize"] else p.grad)
                p.sub_(total, alpha=group["lr"])


'''


class Refused(Exception):
    """The name is invalid or taken. Nothing was written; the message gives the reason."""


# -- names


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def check_function(name: str, words: str = "words joined by _, such as soft_sign") -> None:
    """Raises Refused if the name cannot be a new method of tensors."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise Refused(f"{name!r} is no name of an operation: lower case, {words}")
    import shadergrad as sg
    from shadergrad.graph.primitive import REGISTRY

    if hasattr(sg.Tensor, name):
        raise Refused(f"tensors have a method {name} already")
    if camel(name) in REGISTRY:
        raise Refused(f"there is a primitive {camel(name)} already")


def check_class(name: str, room: str) -> None:
    """Raises Refused if the name cannot be a new class of sg.nn or sg.optim."""
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name) or keyword.iskeyword(name):
        raise Refused(f"{name!r} is no name of a class: words that begin in upper case, such as SoftSign")
    import shadergrad as sg

    if hasattr(getattr(sg, room), name):
        raise Refused(f"sg.{room} has {name} already")
    if (SOURCE / room / f"{snake(name)}.py").exists():
        raise Refused(f"src/shadergrad/{room}/{snake(name)}.py is there already")


# -- editing


def behind_last(text: str, what: Callable[[ast.stmt], bool], added: str) -> str:
    """A text with lines added behind the last statement at the left margin that is so."""
    line = [node.end_lineno or 0 for node in ast.parse(text).body if what(node)][-1]
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:line], added, *lines[line:]])


def calls(name: str) -> Callable[[ast.stmt], bool]:
    """Whether a statement calls, or assigns what is given by, a function of that name."""

    def is_call(node: ast.stmt) -> bool:
        value = node.value if isinstance(node, ast.Expr | ast.Assign) else None
        return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == name

    return is_call


def named(name: str) -> Callable[[ast.stmt], bool]:
    """Whether a statement defines a class of that name, or assigns to it."""

    def is_it(node: ast.stmt) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        return getattr(node, "name", None) == name or any(getattr(t, "id", None) == name for t in targets)

    return is_it


def before_end(text: str, name: str, added: str) -> str:
    """A text with lines added before the bracket that ends what is assigned to a name."""
    line = next(node.end_lineno or 0 for node in ast.parse(text).body if named(name)(node))
    lines = text.splitlines(keepends=True)
    return "".join([*lines[: line - 1], added, *lines[line - 1 :]])


def fault(name: str, file: str, within: str, find: str, put: str, group: str, test: str) -> Callable[[str], str]:
    """What adds a row to a table of faults. group: the name in faults/tests.py of how the test's id begins."""

    def add(text: str) -> str:
        row = (
            f'    fault("{name}", "{file}", "{within}",\n          "{find}", "{put}",\n          {group} + "{test}"),\n'
        )
        if not re.search(rf"^from .tests import .*\b{group}\b", text, re.MULTILINE):
            text = text.replace("from .tests import ", f"from .tests import {group}, ", 1)
        return before_end(text, "FAULTS", row)

    return add


def public(name: str) -> Callable[[str], str]:
    """What adds a class, in a file of its own, to the names of an `__init__.py`."""

    def add(text: str) -> str:
        text = behind_last(
            text, lambda n: isinstance(n, ast.ImportFrom), f"from .{snake(name)} import {name} as {name}\n"
        )
        return before_end(text, "__all__", f'    "{name}",\n')

    return add


Changes = dict[str, Callable[[str], str]]  # what becomes of each file's text; "" for a new one


def op(name: str) -> tuple[Changes, list[str]]:
    """Begins an elementwise primitive."""
    words = "one word, such as entr (its record is Entr)"
    if "_" in name:
        raise Refused(f"{name!r} is no name of an elementwise operation: lower case, {words}")
    check_function(name, words)
    title = camel(name)
    line = f'unary("{name}", lambda x: x.{name}(), domain_of("{title}"), torch=lambda x: x * x)\n'
    changes = {
        "src/shadergrad/primitives/elementwise.py": lambda t: behind_last(
            t, calls("record"), RECORD.replace("NewName", title)
        ),
        "tests/cases.py": lambda t: behind_last(t, calls("unary"), line),
        "scripts/faults/primitives.py": fault(
            f"vjp-{name}", "primitives/elementwise.py", title, "x * 2.0", "x * 3.0", "GRADIENT", f"{name} of "
        ),
    }
    return changes, [
        f"write what it computes: NumPy value, WGSL, dy/dx and domain of {title}, and PyTorch's function in tests/cases.py",
        "a function that WGSL lacks goes into compile/wgsl/math.wgsl, and into ACCURACY of tests/device/test_records.py",
        FAULT.format("primitives"),
        f"python scripts/golden.py --only {name} --write",
        *ENDS[0:1],
        f'pytest tests/golden tests/device/test_ops.py tests/device/test_records.py tests/null -k "golden or {name} or scaffold or fault"',
    ]


def composed(name: str, room: str) -> tuple[Changes, list[str]]:
    """Begins a composed method."""
    check_function(name)
    if room not in ROOMS:
        raise Refused(f"{room!r} is no room of composed operations: {', '.join(ROOMS)}")
    kind = f"{camel(room.removesuffix('s'))}Tensor"
    line = f'case("{name}", "(3, 5)", lambda x: x.{name}(), floats(3, 5), torch=lambda x: x * x)\n'
    changes = {
        f"src/shadergrad/tensor/{room}.py": lambda t: _with_self(
            behind_last(t, named(kind), METHOD.replace("new_name", name))
        ),
        "tests/cases.py": lambda t: behind_last(t, calls("case"), line),
        "scripts/faults/tensor.py": fault(
            f"tensor-{name.replace('_', '-')}",
            f"tensor/{room}.py",
            f"{kind}.{name}",
            "self * self",
            "self + self",
            "VALUE",
            f"{name} of ",  # of each of its cases
        ),
    }
    return changes, [
        f"write what it computes in {kind}.{name}, and PyTorch's equivalent in tests/cases.py",
        FAULT.format("tensor"),
        f"python scripts/golden.py --only {name} --write",
        *ENDS[0:1],
        f'pytest tests/golden tests/device/test_ops.py tests/null -k "golden or {name} or scaffold or fault"',
    ]


def _with_self(text: str) -> str:
    return text if re.search(r"^from typing import .*\bSelf\b", text, re.MULTILINE) else (
        text.replace("from typing import ", "from typing import Self, ", 1)
    )  # fmt: skip


def module(name: str) -> tuple[Changes, list[str]]:
    """Begins a module in a file of its own."""
    check_class(name, "nn")
    file = f"nn/{snake(name)}.py"
    changes = {
        f"src/shadergrad/{file}": lambda _: MODULE.replace("NewName", name),
        "src/shadergrad/nn/__init__.py": lambda t: behind_last(
            t, lambda n: isinstance(n, ast.ImportFrom), f"from .{snake(name)} import *\n"
        ),
        "tests/module_cases.py": lambda t: (
            (
                t
                if "\nimport torch\n" in t
                else t.replace("import numpy as np\n", "import numpy as np\nimport torch\n", 1)
            )
            + MODULE_CASE.replace("NewName", name)
        ),
        "scripts/faults/nn.py": fault(
            f"nn-{snake(name).replace('_', '-')}",
            file,
            f"{name}.forward",
            "input * self.weight",
            "input + self.weight",
            "MODULE",
            f"{name}]",
        ),
    }
    return changes, [
        f"write what it computes in src/shadergrad/{file}; what is in another's family may move into that file",
        f'if PyTorch has it, its case is case("{name}", lambda nn: nn.{name}(...), ...), without a reference',
        FAULT.format("nn"),
        *ENDS[0:1],
        f'pytest tests/device/test_modules.py tests/null -k "{name} or public or scaffold or fault"',
    ]


def optimizer(name: str) -> tuple[Changes, list[str]]:
    """Begins an optimizer in a file of its own."""
    check_class(name, "optim")
    file = f"optim/{snake(name)}.py"
    rules = f'    "{name}": ("{name}", {{"lr": 0.02}}),\n    "{name}, maximize": ("{name}", {{"lr": 1e-3, "maximize": True}}),\n'

    def cases(text: str) -> str:
        text = before_end(text, "RULES", rules)
        text = behind_last(
            text, lambda n: isinstance(n, ast.ClassDef), "\n\n" + REFERENCE.rstrip().replace("NewName", name) + "\n"
        )
        return text.replace("REFERENCES = {", f'REFERENCES = {{"{name}": Torch{name}, ', 1)

    changes = {
        f"src/shadergrad/{file}": lambda _: OPTIMIZER.replace("NewName", name),
        "src/shadergrad/optim/__init__.py": public(name),
        "tests/optimizer_cases.py": cases,
        "scripts/faults/optim.py": fault(
            f"optim-{snake(name).replace('_', '-')}",
            file,
            f"{name}.update",
            "p - total * group.rate(p)",
            "p - gradient * group.rate(p)",
            "OPTIMIZER",
            f"{name}]",
        ),
    }
    return changes, [
        f"write its state (slots, scalars) and its formula in src/shadergrad/{file}",
        f"if PyTorch has it, remove Torch{name} from tests/optimizer_cases.py; a rule for each option goes there",
        "otherwise its state has the names of scalars, then those of slots, in that order",
        FAULT.format("optim"),
        f'pytest tests/device/test_optimizers.py tests/null -k "{name} or public or scaffold or fault"',
    ]


FAULT = "change find and put of its fault, the last row of scripts/faults/{}.py, with the formula"
ENDS = ("python scripts/conformance.py --new             # its line in docs/conformance.md, when it is done",)
KINDS: dict[str, Callable[..., tuple[Changes, list[str]]]] = {
    "op": op, "composed": composed, "module": module, "optimizer": optimizer,
}  # fmt: skip


def begin(kind: str, name: str, **options: str) -> list[str]:
    """Writes all files and returns the next steps. Raises Refused."""
    changes, following = KINDS[kind](name, **options)
    written = {}
    for file, change in changes.items():  # all of them, before the first is written
        path = ROOT / file
        try:
            written[path] = change(path.read_text() if path.exists() else "")
        except (IndexError, StopIteration):
            raise Refused(
                f"scripts/scaffold.py does not find where to write in {file}: its layout has changed"
            ) from None
    for path, text in written.items():
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    files = [str(path) for path in written]
    run("-m", "ruff", "check", "--fix-only", "--quiet", *files)
    run("-m", "ruff", "format", "--quiet", *files)
    if kind in ("op", "composed"):
        run("scripts/stubs.py")
        run("scripts/golden.py", "--only", name, "--write")
    first = next(path for path in written if "SCAFFOLD" in path.read_text())
    line = first.read_text().split("SCAFFOLD")[0].count("\n") + 1
    return [f"replace the sentence with SCAFFOLD, {first.relative_to(ROOT)}:{line}", *following]


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--room", help=f"of a composed operation: {', '.join(ROOMS)} (elementwise)")
    chosen = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT / "src"))
    try:
        if not chosen.name:
            raise Refused(f"name it: make {chosen.kind} NAME=...")
        if chosen.room and chosen.kind != "composed":
            raise Refused(f"--room is for composed operations, not for {chosen.kind}")
        options = {"room": chosen.room or "elementwise"} if chosen.kind == "composed" else {}
        following = begin(chosen.kind, chosen.name, **options)
    except Refused as error:
        print(f"nothing is written: {error}", file=sys.stderr)
        return 1
    print("It works as it is. Now", *(f"{k}. {what}" for k, what in enumerate(following, 1)), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
