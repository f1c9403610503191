"""The frame of a kernel in LLVM IR: `void kernel(ptr buffers, i64 begin, i64 end)`. In: its lines and declarations. Out: the text of a module."""

from __future__ import annotations

from collections.abc import Iterable


def function_text(lines: Iterable[str], declared: Iterable[str]) -> str:
    """The function `kernel`: these lines, labels among them, after the label `entry`; and the functions that it declares."""
    return "\n".join(
        [
            'define void @kernel(ptr noalias %buffers, i64 %begin, i64 %end) nounwind "prefer-vector-width"="512" {',
            "entry:",
            *(line if line.endswith(":") else "  " + line for line in lines),
            "}",
            *declared,
            "",
        ]
    )
