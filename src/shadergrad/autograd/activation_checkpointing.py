"""Checkpointing: the intermediate values of a function are dropped, and recomputed in the backward pass.

The function runs twice. During the first run its operations stay off the tape, which keeps only its inputs: the arguments, and
other tensors that it reads and that require grad. In the backward pass it runs again on inputs behind a gate: a condition on
the incoming gradient that is always true. Without the gate a compiled step would reuse the values of the first run, and so keep
them.

Source: Chen et al., "Training deep nets with sublinear memory cost", 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from ..arguments import checked
from ..errors import AutogradError
from ..graph import autodiff, build
from ..graph.build import both, either, equal, inverted, where
from ..graph.node import Node, grad_mode, make, mode, nodes_of
from ..primitives.views import Slice
from ..run.trees import exchange, tensors_in
from ..runtime.device import get_device
from ..tensor import Tensor, cotangent, joint
from ..tensor.generator import Generator, State, watching_draws
from ..tensor.precision import as_now


@checked
def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), whose intermediate values the backward pass recomputes instead of keeping them.

    The gradients are those of a plain call, for arguments and for every parameter that the function reads. The function should
    return the same results when called again, and change no state: a batch norm updates its statistics twice, as in PyTorch.
    preserve_rng_state: the second run draws the same random numbers (dropout), also from generators. use_reentrant has no
    effect.

    Raises AutogradError in the backward pass if the second run reads or returns other tensors.

    >>> x = sg.tensor([0.0, 1.0], requires_grad=True)
    >>> y = sg.checkpoint(lambda x: x.exp().exp(), x)
    >>> y.sum().backward()
    >>> x.grad
    tensor([ 2.7183, 41.1936])
    """
    tensors = [t for _, t in tensors_in((args, kwargs))]
    if not mode.grad or _have_own_history(tensors):
        return function(*args, **kwargs)
    streams, function = Streams(), as_now(function)  # a second run, in the backward pass, casts as the first
    leaves = [t.detach().requires_grad_(t.requires_grad) for t in tensors]
    with nodes_of() as made, streams.watched() if preserve_rng_state else nullcontext():
        result = _call(function, args, kwargs, leaves)
    results = [t for _, t in tensors_in(result)]
    tracked = [t.requires_grad for t in results]
    read = _read(made, leaves)
    inputs = [t for t in tensors if t.requires_grad] + [Tensor._of(n) for n in read]
    for node in made:
        node.requires_grad = False
    if not any(tracked):
        return exchange(result, Tensor, lambda t: t.detach())
    originals = [Tensor._of(t._node) for t in tensors]  # the caller's may take other values

    def backward(grads: Sequence[Any]) -> list[Any]:
        return _again(function, (args, kwargs), originals, read, streams, grads, tracked, _gate(grads))

    values = [t.detach() for t, has_history in zip(results, tracked, strict=True) if has_history]
    wired = iter(joint(inputs, values, backward))
    flags = iter(tracked)
    return exchange(result, Tensor, lambda t: next(wired) if next(flags) else t.detach())


def _have_own_history(tensors: Iterable[Tensor]) -> bool:
    """Whether another library, which knows nothing of a second run, records the history of these tensors."""
    return any(get_device(name).has_own_history for name in {t._node.device for t in tensors})


def in_turn(function: Callable[..., Tensor], parts: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
    """function(*part) for each part, checkpointed, one part after another in both passes.

    The parts are independent, so a compiler could compute them side by side, with the memory of all. Here each waits for the
    previous one behind a gate. The function draws no random numbers.
    """
    if _have_own_history([t for part in parts for t in part]):
        return [function(*part) for part in parts]
    function = as_now(function)
    results: list[Tensor] = []
    reads: list[list[Node]] = []
    gate: Node | None = None
    for part in parts:
        with grad_mode(False):
            values = [_gated(t.detach(), gate) for t in part]
        leaves = [v.detach().requires_grad_(mode.grad and t.requires_grad) for v, t in zip(values, part, strict=True)]
        with nodes_of() as made:
            result = function(*leaves)
        reads.append(_read(made, leaves))
        for node in made:
            node.requires_grad = False
        results.append(result.detach())
        gate = _gate(results[-1:])
    originals = [[Tensor._of(t._node) for t in part] for part in parts]  # the caller's may take other values
    tracked = [[t for t in part if t.requires_grad] for part in originals]
    shared = list({id(n): n for read in reads for n in read}.values())
    inputs = [t for part in tracked for t in part] + [Tensor._of(n) for n in shared]
    if not mode.grad or not inputs:
        return results

    def backward(grads: Sequence[Any]) -> list[Any]:
        gate = _gate(grads)
        own: list[Any] = []
        sums: dict[int, Any] = {id(n): None for n in shared}
        for part, read, given, g in zip(originals, reads, tracked, grads, strict=True):
            if g is None:
                own += [None] * len(given)
                continue
            found = _again(function, (tuple(part), {}), part, read, Streams(), [g], [True], gate)
            own += found[: len(given)]
            for n, more in zip(read, found[len(given) :], strict=True):
                before = sums[id(n)]
                sums[id(n)] = more if before is None or more is None else before + more
            gate = _gate([*found[: len(given)], *sums.values()])
        return [*own, *sums.values()]

    return joint(inputs, results, backward)


def _call(function: Callable[..., Any], args: Any, kwargs: Any, tensors: Sequence[Tensor]) -> Any:
    """The function on other tensors than those in its arguments."""
    given = iter(tensors)
    args, kwargs = exchange((args, kwargs), Tensor, lambda _: next(given))
    return function(*args, **kwargs)


def _read(made: Sequence[Node], leaves: Sequence[Tensor]) -> list[Node]:
    """What a function read that requires grad, besides its arguments: parameters, and other recorded values. The last comes first, as
    gradients do, whose hooks are called in this order.
    """
    own = {id(n) for n in made} | {id(t._node) for t in leaves}
    found = {id(i): i for n in made if n.requires_grad for i in n.inputs if i.requires_grad and id(i) not in own}
    return list(found.values())[::-1]


def _again(
    function: Callable[..., Any],
    arguments: Any,
    originals: Sequence[Tensor],
    read: Sequence[Node],
    streams: Streams,
    grads: Sequence[Tensor | None],
    tracked: Sequence[bool],
    gate: Node | None,
) -> list[Tensor | None]:
    """The gradients of the arguments that require grad, and of what the function reads besides."""
    args, kwargs = arguments
    create_graph = mode.grad
    with grad_mode(True):
        given = [_gated(t, gate) for t in originals]
        with nodes_of() as made, streams.rewound(gate):
            result = _call(function, args, kwargs, given)
    results = [t for _, t in tensors_in(result)]
    if [t.requires_grad for t in results] != list(tracked):
        raise AutogradError(
            f"[checkpoint] the function gave {len(tracked)} tensors, {sum(tracked)} with a history, and in the backward pass "
            f"{len(results)}, {sum(t.requires_grad for t in results)} with one. Hint: it must do the same each time."
        )
    if {id(n) for n in _read(made, given)} != {id(n) for n in read}:
        raise AutogradError(
            "[checkpoint] the function read other tensors that require grad in the backward pass than in the forward pass, or "
            "one that was changed in place since. Hint: call backward() before the optimizer's step, and pass what differs as "
            "an argument."
        )
    outs = [t for t, has_history in zip(results, tracked, strict=True) if has_history]
    pairs = [(o, g) for o, g in zip(outs, grads, strict=True) if g is not None]
    targets = [t._node for t in given if t.requires_grad] + list(read)
    found = autodiff.backward(
        [o._node for o, _ in pairs],
        [cotangent(o, g) for o, g in pairs],
        retain_graph=True,
        create_graph=create_graph,
        targets=targets,
        through=False,
    )
    return [Tensor._of(found[id(t)][1]) if id(t) in found else None for t in targets]


def _gate(tensors: Iterable[Tensor | None]) -> Node | None:
    """A true scalar that depends on these tensors; None if they have no elements."""
    gate: Node | None = None
    for g in (t._node for t in tensors if t is not None):
        if g.size:
            one = make(Slice((0,) * g.ndim, (1,) * g.ndim, (1,) * g.ndim), g) if g.ndim else g
            same = equal(build.reshape(one, ()), build.reshape(one, ()))
            known = either(same, inverted(same))  # a NaN does not equal itself
            gate = known if gate is None else both(gate, known)
    return gate


def _gated(t: Tensor, gate: Node | None) -> Tensor:
    """The same value, available only after the gate."""
    node = t._node
    if gate is None or not node.size:
        return t
    return Tensor._of(where(build.broadcast(gate, node.shape), node, 0))


class Streams:
    """The generators that a function drew from, and their states, for the second run."""

    def __init__(self) -> None:
        self.drawn: list[tuple[Generator, State]] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The context of the first run."""
        with watching_draws() as found:
            yield
        self.drawn = list(found.values())

    @contextmanager
    def rewound(self, gate: Node | None) -> Iterator[None]:
        """The context of the second run: the generators have the same states as in the first."""
        now = [(g, g.state(), g.stream.at) for g, _ in self.drawn]
        for g, state in reversed(self.drawn):  # of those of one stream the first to draw says where it stood
            key, counter = (_gated(Tensor._of(n), gate)._node for n in (state.key, state.counter))
            g.set_back(State(key, counter, state.at))
            g.stream.at = state.at
        try:
            yield
        finally:
            for g, state, at in now:
                g.set_back(state)
                g.stream.at = at
