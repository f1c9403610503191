"""vmap: a function over a batch, called for each element. The compiler fuses the calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from ..arguments import checked
from ..autograd.activation_checkpointing import Streams
from ..errors import ArgumentError, AutogradError
from ..tensor import Tensor, stack
from .trees import leaves_of, mapped


@checked
def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func` over a batch: called for each element along the axes in_dims, results stacked along out_dims.

    in_dims: an axis, or one for each argument, or nested as the arguments are; None for what all share. Keyword arguments are
    shared. out_dims: an axis, one for each part of a tuple, None for a result that is the same for all and stays as it is. The
    function is called as often as the batch is long (PyTorch: once), so it may look at values and shapes as one element has
    them, and long batches take long to record. randomness: 'different', every call draws for itself; 'same', all draw the
    same; 'error', a call that draws raises AutogradError. chunk_size changes nothing. Raises ArgumentError for no batch axis, for
    one that a tensor has not, for batches of different sizes, and for results that are no tensors.

    >>> sg.func.vmap(lambda a, b: (a * b).sum())(sg.ones(2, 3), sg.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise ArgumentError(f"vmap(): randomness must be 'error', 'different' or 'same', but got {randomness!r}.")

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        axes = in_dims if isinstance(in_dims, list | tuple) else (in_dims,) * len(args)
        if len(axes) != len(args):
            raise ArgumentError(f"vmap(): in_dims has {len(axes)} entries for {len(args)} arguments.")
        taken = [(x, d) for a, axis in zip(args, axes, strict=True) for x, d in _with_axes(a, axis) if d is not None]
        for x, d in taken:
            if not -x.ndim <= d < x.ndim:
                raise ArgumentError(f"vmap(): in_dims has the axis {d} for a tensor of shape {tuple(x.shape)}.")
        sizes = {x.shape[d] for x, d in taken}
        if len(sizes) != 1:
            raise ArgumentError(
                f"vmap(): Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)}."
            )
        streams = Streams()
        results = []
        for k in range(sizes.pop()):
            parts = [iter(_with_axes(a, d)) for a, d in zip(args, axes, strict=True)]
            one = [mapped(lambda _, p=p, k=k: _part(*next(p), k), a) for a, p in zip(args, parts, strict=True)]
            again = streams.rewound(None) if randomness == "same" else nullcontext()
            with again if k else streams.watched():
                results.append(func(*one, **kwargs))
            if not k and streams.drawn and randomness == "error":
                raise AutogradError(
                    "vmap(): the function draws random numbers. Hint: randomness='different' or randomness='same'."
                )
        if not results:
            raise ArgumentError("vmap(): the batch is empty.")
        return _stacked(results, out_dims)

    return batched


def _with_axes(tree: Any, axes: Any) -> list[tuple[Tensor, int | None]]:
    """The tensors of a tree in order, each with its axis; axes: one for all, or nested as the tree is."""
    if axes is None or isinstance(axes, int):
        return [(leaf, axes) for leaf in leaves_of(tree)]
    if isinstance(tree, Mapping) and isinstance(axes, Mapping) and tree.keys() == axes.keys():
        return [found for key, value in tree.items() for found in _with_axes(value, axes[key])]
    if isinstance(tree, list | tuple) and isinstance(axes, list | tuple) and len(tree) == len(axes):
        return [found for value, axis in zip(tree, axes, strict=True) for found in _with_axes(value, axis)]
    raise ArgumentError(f"vmap(): in_dims {axes!r} is not built as its argument, a {type(tree).__name__}.")


def _part(x: Tensor, axis: int | None, k: int) -> Tensor:
    return x if axis is None else x.select(axis, k)


def _stacked(results: list[Any], out_dims: Any) -> Any:
    first = results[0]
    if isinstance(first, Tensor):
        axis = out_dims[0] if isinstance(out_dims, list | tuple) and len(out_dims) == 1 else out_dims
        if axis is not None and not isinstance(axis, int):
            raise ArgumentError(f"vmap(): out_dims {out_dims!r} is for several results, the function gives one.")
        return first if axis is None else stack(results, axis)
    if isinstance(first, tuple) and isinstance(out_dims, tuple):
        if len(out_dims) != len(first):
            raise ArgumentError(f"vmap(): out_dims has {len(out_dims)} entries for {len(first)} results.")
        return tuple(_stacked([r[k] for r in results], d) for k, d in enumerate(out_dims))
    if isinstance(first, list | tuple):
        return type(first)(_stacked([r[k] for r in results], out_dims) for k in range(len(first)))
    if isinstance(first, Mapping):
        return {k: _stacked([r[k] for r in results], out_dims) for k in first}
    raise ArgumentError(f"vmap(): the function gives a {type(first).__name__}, not tensors.")
