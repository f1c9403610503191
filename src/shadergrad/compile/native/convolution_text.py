"""Shared parts of the convolutions' LLVM IR: how a function begins and ends, and the vector operations that it declares."""

from __future__ import annotations

from collections.abc import Sequence

from .function_text import function_text
from .panel_product import VECTOR
from .registers import LANES

INDICES = f"<{LANES} x i32>"
MASK = f"<{LANES} x i1>"
POINTERS = f"<{LANES} x ptr>"
TRUE = f"<{', '.join(['i1 true'] * LANES)}>"


def function_of(lines: Sequence[str]) -> str:
    """The function `kernel`. Its body starts after the label `entry`."""
    vector, pointers = f"v{LANES}f32", f"v{LANES}p0"
    declared = [
        f"declare {VECTOR} @llvm.fma.{vector}({VECTOR}, {VECTOR}, {VECTOR})",
        f"declare {VECTOR} @llvm.masked.load.{vector}.p0(ptr, i32, {MASK}, {VECTOR})",
        f"declare void @llvm.masked.store.{vector}.p0({VECTOR}, ptr, i32, {MASK})",
        f"declare {VECTOR} @llvm.masked.gather.{vector}.{pointers}({POINTERS}, i32, {MASK}, {VECTOR})",
        f"declare void @llvm.masked.scatter.{vector}.{pointers}({VECTOR}, {POINTERS}, i32, {MASK})",
        f"declare {VECTOR} @llvm.experimental.vector.compress.{vector}({VECTOR}, {MASK}, {VECTOR})",
        *(f"declare i64 @llvm.{name}.i64(i64, i64)" for name in ("smax", "smin", "umin")),
    ]
    return function_text(lines, declared)


def described(buffers: Sequence[str], words: Sequence[str]) -> list[str]:
    """Load the addresses of the buffers, and the words of the description, which is one of the buffers."""
    lines = []
    for k, name in enumerate(buffers):
        lines += [f"%{name}.entry = getelementptr ptr, ptr %buffers, i64 {k}", f"%{name} = load ptr, ptr %{name}.entry"]
    for k, name in enumerate(words):
        lines += [f"%{name}.word = getelementptr i64, ptr %words, i64 {k}", f"%{name} = load i64, ptr %{name}.word"]
    return lines


def again(name: str, step: str, end: str, begin: str, behind: str) -> list[str]:
    """The end of a loop over %name."""
    return [
        f"%{name}.next = add i64 %{name}, {step}",
        f"%{name}.more = icmp slt i64 %{name}.next, {end}",
        f"br i1 %{name}.more, label %{begin}, label %{behind}",
    ]
