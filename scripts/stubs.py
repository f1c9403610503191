"""Writes the types of what is made from tables: records.pyi, names.pyi and functions.pyi (`make stubs`).

    python scripts/stubs.py            write them
    python scripts/stubs.py --check    exit 1 where one is not what it would write

Methods made from records of elementwise operations, aliases, in-place forms and function forms exist at run time only;
a type checker and an editor see them through these files.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_overloads

import shadergrad as sg
from shadergrad import complex_numbers, functions
from shadergrad.fft import short_time
from shadergrad.linalg import top_level
from shadergrad.special import top_level as special
from shadergrad.tensor import names, records

PACKAGE = Path(sg.__file__).parent
HEAD = "# Written by scripts/stubs.py (`make stubs`) from the tables; not by hand.\n"
ROOMS = (
    "description", "base", "coercion", "hooks", "gradients", "comparison", "arithmetic", "elementwise", "numeric", "shape", "repetition", "addresses", "memory", "reduce", "norms", "subscript", "slices", "index", "joining", "scatter", "order", "products", "divide",
    "scans", "counts", "generator", "random",
)  # fmt: skip


class _Verbatim:
    """An annotation that prints as it was written."""

    def __init__(self, text: Any) -> None:
        self.text = "Any" if text is inspect.Parameter.empty else str(text)

    def __repr__(self) -> str:
        return self.text


def signature_of(method: Any) -> inspect.Signature:
    return inspect.signature(inspect.unwrap(method))


OUT = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Verbatim("Any"))


def bare(parameters: list[inspect.Parameter], out: bool) -> list[inspect.Parameter]:
    """Parameters whose annotations print as they were written; with `out`, one of that name more."""
    found = [p.replace(annotation=_Verbatim(p.annotation)) for p in parameters]
    if out:
        found.insert(len(found) - (bool(found) and found[-1].kind is inspect.Parameter.VAR_KEYWORD), OUT)
    return found


def declaration(
    name: str, method: Any, returns: str, first: str = "self", indent: str = "    ", out: bool = False
) -> str:
    """A method or function of the signature of `method`, by another name, with another first argument and result."""
    signature = signature_of(method)
    parameters = bare(list(signature.parameters.values())[1:], out)
    plain = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    arguments = plain[1:-1]
    inside = ", ".join(part for part in (first, arguments) if part)
    return f"{indent}def {name}({inside}) -> {returns}: ..."


def declarations(
    name: str, method: Any, own: str, first: str = "self", indent: str = "    ", out: bool = False
) -> Iterator[str]:
    """As `declaration`, one for each of its overloads where it has any; `own` for the tensor's type in the results."""
    plain = inspect.unwrap(method)
    # get_overloads looks up where a function was defined; methods of rooms are renamed to those of Tensor
    defined: Any = SimpleNamespace(__module__=plain.__globals__["__name__"], __qualname__=plain.__code__.co_qualname)
    forms = get_overloads(defined)
    for form in forms or [method]:
        if forms:
            yield f"{indent}@overload"
        yield declaration(name, form, result_of(form, own), first, indent, out)


def result_of(method: Any, own: str) -> str:
    """The annotated result, with `own` for the tensor's type."""
    if inspect.unwrap(method).__name__ in records.public_records():
        return own
    annotation = signature_of(method).return_annotation
    text = "Any" if annotation is inspect.Signature.empty else str(annotation).replace("'", "")
    return re.sub(r"\bSelf\b", own, text)


def classes_named(text: str) -> Iterator[str]:
    """Import lines for the classes that a stub's annotations name."""
    for room in ROOMS:
        found = sorted(
            set(
                re.findall(
                    r"\b(\w+Tensor|TensorBase|Number|Generator|GradFn|RemovableHandle|MinAndMax|ValuesAndIndices"
                    r"|MantissaAndExponent|Histogram)\b",
                    text,
                )
            )
        )
        defined = (PACKAGE / "tensor" / f"{room}.py").read_text()
        here = [c for c in found if re.search(rf"^(class {c}\b|{c} = )", defined, flags=re.M)]
        if here:
            yield f"from .tensor.{room} import {', '.join(here)}"


def records_stub() -> str:
    methods = "\n".join(f"    def {name}(self) -> Self: ..." for name in records.public_records())
    return (
        f"{HEAD}from typing import Self\n\nfrom ..primitives.elementwise import Elementwise\n"
        "from .gradients import GradientTensor\n\n"
        "def public_records() -> dict[str, type[Elementwise]]: ...\n\n"
        f"class RecordTensor(GradientTensor):\n{methods}\n"
    )


def names_stub() -> str:
    own = names.NamedTensor
    lines = [line for a, n in names.ALIASES.items() for line in declarations(a, getattr(own, n), "Self")]
    lines += [declaration(f"{n}_", getattr(own, n), "Self") for n in names.IN_PLACE]
    for n in top_level.METHODS:  # which stand above tensors
        returns = signature_of(getattr(top_level, n)).return_annotation
        lines.append(declaration(n, getattr(top_level, n), "Self" if returns == "Tensor" else "Any"))
    for n, method in {**special.METHODS, **complex_numbers.METHODS, **short_time.METHODS}.items():
        lines.append(declaration(n, method, "bool" if n == "is_complex" else "Self"))
    lines += [f"    @property\n    def {n}(self) -> Self: ..." for n in complex_numbers.PROPERTIES]
    lines = [line.replace(": Tensor", ": ElementwiseTensor") for line in lines]
    for operator in names.AUGMENTED:
        lines.append(f"    def __i{operator}__(self, other: ElementwiseTensor | Number) -> Self: ...")
    body = "\n".join(lines)
    imports = "\n".join(line.replace("from .tensor.", "from .") for line in classes_named(body + " RandomTensor"))
    return (
        f"{HEAD}from collections.abc import Sequence\nfrom typing import Any, Self, overload\n\n{imports}\n\n"
        "ALIASES: dict[str, str]\nAUGMENTED: dict[str, str]\nIN_PLACE: tuple[str, ...]\nFUNCTIONS: tuple[str, ...]\nIN_PLACE_FUNCTIONS: tuple[str, ...]\nWITHOUT_OUT: frozenset[str]\n\n"
        "def check_methods(cls: type[Any]) -> None: ...\n\n"
        f"class NamedTensor(RandomTensor):\n{body}\n"
    )


def functions_stub() -> str:
    made = [*names.FUNCTIONS, *names.IN_PLACE_FUNCTIONS]
    lines = [
        line
        for n in made
        for line in declarations(
            n,
            getattr(sg.Tensor, n),
            "Tensor",
            "input: Tensor | Number" if n in functions.NUMBER_FIRST else "input: Tensor",
            "",
            n in names.FUNCTIONS and n not in names.WITHOUT_OUT,
        )
    ]
    source = Path(functions.__file__).read_text()
    own = [
        str(m[0]).rstrip() + " ..."
        for m in re.finditer(r"^def ([a-z]\w*)\(.*?\) -> [^\n]*:\n", source, flags=re.M | re.S)
        if m[1] in functions.__all__
    ]
    for name in functions.MADE:  # the rooms that make tensors stand below Tensor and say Any
        signature = signature_of(getattr(functions, name))
        parameters = bare(list(signature.parameters.values()), name in functions.WITH_OUT)
        plain = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
        lines.append(f"def {name}{plain} -> Tensor: ...")
    made += functions.MADE
    imported = [n for n in functions.__all__ if n not in made and not any(f"def {n}(" in o for o in own)]
    lines += own
    from_rooms: dict[str, list[str]] = {}
    for name in imported:
        value = getattr(functions, name)
        if callable(value) and name not in ("concat", "concatenate"):
            module = value.__module__.removeprefix("shadergrad")
            module = ".nn.functional" if module.startswith(".nn.functional") else module
            from_rooms.setdefault(module, []).append(name)
    imports = [
        f"from {m} import {', '.join(f'{n} as {n}' for n in sorted(ns))}" for m, ns in sorted(from_rooms.items())
    ]
    body = "\n".join(lines)
    listed = "".join(f'    "{n}",\n' for n in functions.__all__)
    return (
        f"{HEAD}from collections.abc import Sequence\nfrom typing import Any, Literal, overload\n\nimport numpy as np\n\nfrom .dtypes import FloatLimits, IntegerLimits\n"
        + "\n".join([*imports, *classes_named(body), "from .tensor.public import Tensor"])
        + "\n\nMADE: tuple[str, ...]\nWITH_OUT: tuple[str, ...]\nNUMBER_FIRST: frozenset[str]\ne: float\ninf: float\nnan: float\npi: float\n"
        + f"concat = cat\nconcatenate = cat\n\n{body}\n\n__all__ = [\n{listed}]\n"
    )


def formatted(text: str) -> str:
    """As the linter and `make format` would leave it."""
    settings = str(PACKAGE.parents[1] / "pyproject.toml")
    for command in (["check", "--fix-only", "--quiet"], ["format"]):
        whole = [sys.executable, "-m", "ruff", *command, "--config", settings, "--stdin-filename", "stub.pyi", "-"]
        text = subprocess.run(whole, input=text, text=True, capture_output=True, check=True, cwd=PACKAGE).stdout
    return text


def stubs() -> dict[Path, str]:
    return {
        PACKAGE / "tensor" / "records.pyi": formatted(records_stub()),
        PACKAGE / "tensor" / "names.pyi": formatted(names_stub()),
        PACKAGE / "functions.pyi": formatted(functions_stub()),
    }


def main() -> int:
    stale = {path: text for path, text in stubs().items() if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        if "--check" in sys.argv:
            print(f"{path.name} is stale: run `make stubs`")
        else:
            path.write_text(text)
            print(f"wrote {path.name}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
