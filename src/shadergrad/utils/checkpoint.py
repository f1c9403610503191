"""Activation checkpointing by PyTorch's names: less is kept for the backward pass, which computes it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arguments import whole
from ..autograd import activation_checkpointing
from ..errors import ArgumentError


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Any = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), whose intermediate values the backward pass computes again: as `sg.checkpoint`.

    determinism_check, debug and early_stop are PyTorch's, and change nothing: a second run with other results always raises an error.
    Raises ArgumentError for context_fn.

    >>> x = sg.ones(2, requires_grad=True)
    >>> sg.utils.checkpoint.checkpoint(lambda x: x * 2, x, use_reentrant=False).detach()
    tensor([2., 2.])
    """
    if context_fn is not None:
        raise ArgumentError("[checkpoint] context_fn is not there. Hint: enter the context inside the function.")
    return activation_checkpointing.checkpoint(
        function, *args, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state, **kwargs
    )


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True
) -> Any:
    """The functions, one after the other, in so many segments; all but the last as `checkpoint`.

    functions: a Sequential, or a list of modules or functions, each of one argument. Raises ArgumentError for fewer
    functions than segments, or no segment.

    >>> sg.utils.checkpoint.checkpoint_sequential([lambda x: x + 1, lambda x: x * 2], 2, sg.ones(1))
    tensor([4.])
    """
    parts: Sequence[Callable[..., Any]] = list(functions)
    segments = whole("checkpoint_sequential", "segments", segments)
    if not 1 <= segments <= len(parts):
        raise ArgumentError(f"[checkpoint_sequential] {segments} segments of {len(parts)} functions.")
    size = len(parts) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(_chained(parts[start : start + size]), input, preserve_rng_state=preserve_rng_state)
    return _chained(parts[size * (segments - 1) :])(input)


def _chained(parts: Sequence[Callable[..., Any]]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for part in parts:
            x = part(x)
        return x

    return run


__all__ = ["checkpoint", "checkpoint_sequential"]
