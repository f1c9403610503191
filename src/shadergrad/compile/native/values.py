"""Values and statements of a kernel in LLVM IR. In: operations on values. Out: lines of text, sorted by their loop.

A value has a level: 0 if it is constant within a call, 1 within a row (or a block of columns), 2 within a segment of it, 3 within an element.
A statement has the highest level of its operands, so loop-invariant statements come before the loop. A value is wide if it differs between the
elements of a vector: then it is a vector of `lanes`. Other values are scalars, broadcast in an operation with a wide one. No operation may be
reordered or contracted: there are no fast-math flags.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from ...dtypes import DType, bool_

LEVELS = 4
FLOATS = ("float", "double")


class Value(str):
    """The name of a value, or a literal. kind: its LLVM type as a scalar. constant: whether it is a literal."""

    kind: str
    level: int
    wide: bool
    constant: bool

    def __new__(cls, text: str, kind: str, level: int = 0, wide: bool = False, constant: bool = False) -> Value:
        made = super().__new__(cls, text)
        made.kind, made.level, made.wide, made.constant = kind, level, wide, constant
        return made


def kind_of(dtype: DType) -> str:
    """The type of a value of a dtype in registers."""
    if dtype is bool_:
        return "i1"
    if dtype.category == 2:
        return {4: "float", 8: "double"}[dtype.itemsize]
    return f"i{dtype.bits}"


def stored_kind(dtype: DType) -> str:
    """The type of an element of a dtype in memory."""
    return "i8" if dtype is bool_ else kind_of(dtype)


def literal(value: Any, kind: str) -> Value:
    """A number as a constant of a kind."""
    if kind in FLOATS:
        number = float(np.float32(value)) if kind == "float" else float(value)
        if math.isnan(number):
            number = math.nan
        text = f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    elif kind == "i1":
        text = "true" if value else "false"
    else:
        bits = int(kind[1:])
        text = str((int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))
    return Value(text, kind, constant=True)


class Statements:
    """Statements by level, and the methods with which rules write them. lanes: the elements of a wide value."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.lines: list[list[str]] = [[] for _ in range(LEVELS)]
        self.memo: list[dict[str, Value]] = [{} for _ in range(LEVELS)]
        self.declared: set[str] = set()
        self._names = 0

    def fresh(self) -> str:
        self._names += 1
        return f"%v{self._names}"

    def type_of(self, kind: str, wide: bool) -> str:
        return f"<{self.lanes} x {kind}>" if wide and self.lanes > 1 else kind

    def statement(self, text: str, kind: str, level: int, wide: bool) -> Value:
        """The value of an instruction. An equal instruction at the same level is written once."""
        for memo in self.memo[: level + 1]:
            if text in memo:
                return memo[text]
        value = Value(self.fresh(), kind, level, wide)
        self.lines[level].append(f"{value} = {text}")
        self.memo[level][text] = value
        return value

    def text(self, value: Value, wide: bool) -> str:
        """The text of a value as an operand; wide: broadcast to a vector if it is a scalar."""
        if not wide or value.wide or self.lanes == 1:
            return value
        if value.constant:
            return f"splat ({value.kind} {value})"
        whole = self.type_of(value.kind, True)
        first = self.statement(
            f"insertelement {whole} poison, {value.kind} {value}, i32 0", value.kind, value.level, True
        )
        return self.statement(
            f"shufflevector {whole} {first}, {whole} poison, <{self.lanes} x i32> zeroinitializer",
            value.kind,
            value.level,
            True,
        )

    @staticmethod
    def place(*values: Value) -> tuple[int, bool]:
        """The level of an operation on values, and whether it is wide."""
        return max(v.level for v in values), any(v.wide for v in values)

    # -- instructions

    def op(self, name: str, *values: Value) -> Value:
        """An arithmetic instruction on operands of one kind, which gives that kind."""
        level, wide = self.place(*values)
        operands = ", ".join(self.text(v, wide) for v in values)
        kind = values[0].kind
        return self.statement(f"{name} {self.type_of(kind, wide)} {operands}", kind, level, wide)

    def compare(self, how: str, a: Value, b: Value) -> Value:
        """`how` as in LLVM: "fcmp olt", "icmp eq"."""
        level, wide = self.place(a, b)
        text = f"{how} {self.type_of(a.kind, wide)} {self.text(a, wide)}, {self.text(b, wide)}"
        return self.statement(text, "i1", level, wide)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        if condition.constant:
            return a if condition == "true" else b
        level, wide = self.place(condition, a, b)
        whole = self.type_of(a.kind, wide)
        text = f"select {self.type_of('i1', wide)} {self.text(condition, wide)}, {whole} {self.text(a, wide)}, {whole} {self.text(b, wide)}"
        return self.statement(text, a.kind, level, wide)

    def convert(self, how: str, value: Value, kind: str) -> Value:
        """`how` as in LLVM: "fpext", "sitofp", "zext", "bitcast"."""
        level, wide = self.place(value)
        text = f"{how} {self.type_of(value.kind, wide)} {self.text(value, wide)} to {self.type_of(kind, wide)}"
        return self.statement(text, kind, level, wide)

    def call(self, name: str, *values: Value) -> Value:
        """An LLVM intrinsic on operands of one kind, which gives that kind: call("fabs", x)."""
        level, wide = self.place(*values)
        kind = values[0].kind
        whole = self.type_of(kind, wide)
        short = {"float": "f32", "double": "f64"}.get(kind, kind)
        suffix = f"v{self.lanes}{short}" if wide and self.lanes > 1 else short
        self.declared.add(f"declare {whole} @llvm.{name}.{suffix}({', '.join([whole] * len(values))})")
        operands = ", ".join(f"{whole} {self.text(v, wide)}" for v in values)
        return self.statement(f"call {whole} @llvm.{name}.{suffix}({operands})", kind, level, wide)

    # -- for rules

    def number(self, value: Any, like: Value) -> Value:
        """A constant of the kind of another value."""
        return literal(value, like.kind)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.call("fma", a, b, c)

    def polynomial(self, x: Value, coefficients: list[float]) -> Value:
        """By Horner's scheme, the coefficient of the highest power first."""
        result = self.number(coefficients[0], x)
        for c in coefficients[1:]:
            result = self.fma(result, x, self.number(c, x))
        return result
