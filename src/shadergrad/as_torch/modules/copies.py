"""torch.view_copy and similar functions: this library's views, as copies, under PyTorch's names. Also the unsafe splits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shadergrad

from ...arguments import written
from ...tensor import Tensor


def _slice(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return input[(slice(None),) * (dim % max(input.ndim, 1)) + (slice(start, end, step),)]


def _expand(input: Any, size: Any, *, implicit: bool = False) -> Any:
    return input.expand(*size)


def _method(name: str) -> Callable[..., Any]:
    return lambda input, *args, **options: getattr(input, name)(*args, **options)


_VIEWS: dict[str, Callable[..., Any]] = {
    "alias": lambda input: input,
    "detach": lambda input: input.detach(),
    "view_as_complex": lambda input: shadergrad.view_as_complex(input),
    "view_as_real": lambda input: shadergrad.view_as_real(input),
    "expand": _expand,
    "slice": _slice,
} | {
    name: _method(name)
    for name in (
        "as_strided", "diagonal", "narrow", "permute", "select", "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind",
        "unfold", "unsqueeze", "view",
    )
}  # fmt: skip


def _copy_of(name: str) -> Callable[..., Any]:
    show = _VIEWS[name]

    def copied(input: Tensor, *args: Any, out: Any = None, **options: Any) -> Any:
        found: Any = show(input, *args, **options)
        made = tuple(part.clone() for part in found) if isinstance(found, tuple) else found.clone()
        return written(copied.__name__, out, made)

    copied.__name__ = copied.__qualname__ = f"{name}_copy"
    copied.__doc__ = (
        f"What `{name}` shows, in memory of its own; with its history. out: a tensor, or several, to write to."
    )
    return copied


def copies() -> dict[str, Any]:
    """All functions by name."""
    unsafe = {f"unsafe_{name}": _method(name) for name in ("split", "chunk", "split_with_sizes")}
    return {f"{name}_copy": _copy_of(name) for name in _VIEWS} | unsafe
