"""WGSL that all kernels use: literals, narrow integers, and the functions of math.wgsl, halves.wgsl and loads.wgsl."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from ...dtypes import DType, bool_
from ...errors import CompileError
from ...graph.floats import float_text
from ...symbolic_sizes import Varying

HIDDEN_ZERO = "hidden_zero"  # a 0 that no compiler knows, because it comes from the number of the workgroup along z


def hidden_zero_declared() -> str:
    return f"var<private> {HIDDEN_ZERO}: u32;\n"


def hidden_zero_set() -> str:
    """The statement with which an entry point begins."""
    return f"{HIDDEN_ZERO} = wid.z;"


def literal(value: float, dtype: DType, functions: set[str]) -> str:
    """A number as a WGSL literal of `dtype`."""
    if dtype is bool_:
        return "true" if value else "false"
    if dtype.category == 1:
        low, high = dtype.stored_range
        if not low <= value <= high:
            raise dtype.refused(int(value), "constant")
        if isinstance(value, Varying):
            return f"u32({value})" if dtype.wgsl == "u32" else f"i32({value})"
        if dtype.wgsl == "u32":
            return f"{int(value)}u"
        return f"i32({int(value)})" if value < 0 else f"{int(value)}"
    assert dtype.wgsl == "f32", dtype
    if dtype.is_half:
        value = dtype.holding(value).item()
    text, from_bits = float_text(value, "sg_bits")
    if from_bits:
        functions.add("sg_bits")
    return text


def narrowed(text: str, dtype: DType, vector: bool = False) -> str:
    """A computed value in the range of its dtype: integers of 8 or 16 bits, which shaders store in 32, wrap. Every
    place that computes values calls this: elementwise operations, reductions, matrix multiplications, scattered sums.
    tests/device/test_integers.py
    """
    return dtype.narrowed(text, vector)


@lru_cache(maxsize=1)
def wide_loads() -> str:
    """The functions that read buffers of 64-bit elements."""
    return _without_comments("loads.wgsl").replace("\n\n", "\n").lstrip("\n")


def _without_comments(file: str) -> str:
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return re.sub(r"^//.*\n", "", text, flags=re.M)


@lru_cache(maxsize=2)
def math_functions(converts_halves: bool = False) -> dict[str, str]:
    """The functions of math.wgsl, by name, in file order. converts_halves: with those of halves.wgsl instead of its own."""
    return _functions("math.wgsl") | (_functions("halves.wgsl") if converts_halves else {})


def _functions(file: str) -> dict[str, str]:
    found = re.findall(r"^(fn (sg_\w+)\(.*?^\}\n)", _without_comments(file), flags=re.M | re.S)
    return {name: body for body, name in found}


def functions_text(names: set[str], converts_halves: bool = False) -> str:
    """The source of the named functions and all that they call; `_v4` forms that are not written there apply the scalar function to each
    component.
    """
    library = math_functions(converts_halves)
    needed: set[str] = set()

    def add(name: str) -> None:
        if name not in library:
            raise CompileError(missing(name))
        if name not in needed:
            needed.add(name)
            for called in re.findall(r"sg_\w+", library[name]):
                add(called)

    for name in names:
        add(name if name in library else name.removesuffix("_v4"))
    text = "".join(body for name, body in library.items() if name in needed)
    for name in sorted(n for n in names if n.endswith("_v4") and n not in library):
        text += _vector_form(library[name.removesuffix("_v4")], name)
    return text


def missing(function: str) -> str:
    return f"there is no WGSL function {function}(). Hint: write it in compile/wgsl/math.wgsl."


def _vector_form(body: str, name: str) -> str:
    match = re.match(r"fn (sg_\w+)\((.*?)\) -> (\w+)", body)
    assert match is not None
    scalar, parameters, result = match.groups()
    names = [p.split(":")[0].strip() for p in parameters.split(",")]
    types = [p.split(":")[1].strip() for p in parameters.split(",")]
    calls = ", ".join(f"{scalar}({', '.join(f'{n}.{c}' for n in names)})" for c in "xyzw")
    declared = ", ".join(f"{n}: vec4<{t}>" for n, t in zip(names, types, strict=True))
    return f"fn {name}({declared}) -> vec4<{result}> {{\n  return vec4<{result}>({calls});\n}}\n"
