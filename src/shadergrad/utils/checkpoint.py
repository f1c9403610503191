"""Activation checkpointing by PyTorch's names: the same values and gradients; nothing is computed twice, nothing is saved.

What a backward pass reads is kept as long as it may be asked for; a compiled step plans memory for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """function(*args): results and gradients are those of a checkpointed call; its memory is not given back.

    Options of PyTorch's that say how to compute again (preserve_rng_state, context_fn, determinism_check, debug) change
    nothing.

    >>> x = sg.ones(2, requires_grad=True)
    >>> sg.utils.checkpoint.checkpoint(lambda x: x * 2, x, use_reentrant=False).detach()
    tensor([2., 2.])
    """
    for option in ("preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"):
        kwargs.pop(option, None)
    return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **_: Any
) -> Any:
    """The functions, one after the other, as `checkpoint`.

    >>> sg.utils.checkpoint.checkpoint_sequential([lambda x: x + 1, lambda x: x * 2], 2, sg.ones(1))
    tensor([4.])
    """
    parts: Sequence[Callable[..., Any]] = list(functions)
    for part in parts:
        input = part(input)
    return input


__all__ = ["checkpoint", "checkpoint_sequential"]
