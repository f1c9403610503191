"""Checkpointing: what a function computes on the way is forgotten, and computed again in the backward pass.

The function runs twice. The first time it is watched: what was recorded is set aside from the tape, and only the function's
inputs are kept, its arguments and whatever else it read that requires grad. In the backward pass it runs once more on the
arguments, behind a gate: a condition on the gradient that has just come in, always true. Without it a compiled step would
find that it has all of these values already, and keep them.

Source: Chen et al., "Training deep nets with sublinear memory cost", 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..arguments import checked
from ..errors import AutogradError
from ..graph import autodiff, build
from ..graph.build import both, either, equal, inverted, where
from ..graph.node import Node, grad_mode, make, mode, nodes_of
from ..primitives.views import Slice
from ..run.trees import exchange, tensors_in
from ..tensor import Tensor, cotangent, joint
from ..tensor.generator import Generator, State, default_generator, default_stream


@checked
def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), whose intermediate values are not kept for the backward pass: it computes them again.

    Gradients are those of a plain call, of arguments and of every parameter that the function reads. It should give the
    same results when it is called again, and change nothing: a batch norm takes its statistics twice, as in PyTorch.
    preserve_rng_state: random numbers (dropout) are the same the second time. use_reentrant means nothing: there is one way.

    Raises AutogradError, in the backward pass, where the second call differs in what it read or gave.

    >>> x = sg.tensor([0.0, 1.0], requires_grad=True)
    >>> y = sg.checkpoint(lambda x: x.exp().exp(), x)
    >>> y.sum().backward()
    >>> x.grad
    tensor([ 2.7183, 41.1936])
    """
    if not mode.grad:
        return function(*args, **kwargs)
    tensors = [t for _, t in tensors_in((args, kwargs))]
    streams = Streams({t.device for t in tensors} if preserve_rng_state else ())
    leaves = [t.detach().requires_grad_(t.requires_grad) for t in tensors]
    with nodes_of() as made:
        result = _call(function, args, kwargs, leaves)
    streams.look()
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
        return _again(function, (args, kwargs), originals, read, streams, grads, tracked)

    values = [t.detach() for t, has_history in zip(results, tracked, strict=True) if has_history]
    wired = iter(joint(inputs, values, backward))
    flags = iter(tracked)
    return exchange(result, Tensor, lambda t: next(wired) if next(flags) else t.detach())


def _call(function: Callable[..., Any], args: Any, kwargs: Any, tensors: Sequence[Tensor]) -> Any:
    """The function on other tensors than those in its arguments."""
    given = iter(tensors)
    args, kwargs = exchange((args, kwargs), Tensor, lambda _: next(given))
    return function(*args, **kwargs)


def _read(made: Sequence[Node], leaves: Sequence[Tensor]) -> list[Node]:
    """What a function read that requires grad, besides its arguments: parameters, and other recorded values."""
    own = {id(n) for n in made} | {id(t._node) for t in leaves}
    return list(
        {id(i): i for n in made if n.requires_grad for i in n.inputs if i.requires_grad and id(i) not in own}.values()
    )


def _again(
    function: Callable[..., Any],
    arguments: Any,
    originals: Sequence[Tensor],
    read: Sequence[Node],
    streams: Streams,
    grads: Sequence[Tensor | None],
    tracked: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of the arguments that require grad, and of what the function reads besides."""
    args, kwargs = arguments
    create_graph = mode.grad
    gate = _gate([g._node for g in grads if g is not None])
    with grad_mode(True):
        given = [_behind(t, gate) for t in originals]
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


def _gate(grads: Sequence[Node]) -> Node | None:
    """A bool without axes, true, that is known when these are; None where they have no elements."""
    gate: Node | None = None
    for g in grads:
        if g.size:
            one = make(Slice((0,) * g.ndim, (1,) * g.ndim, (1,) * g.ndim), g) if g.ndim else g
            same = equal(build.reshape(one, ()), build.reshape(one, ()))
            known = either(same, inverted(same))  # a NaN does not equal itself
            gate = known if gate is None else both(gate, known)
    return gate


def _behind(t: Tensor, gate: Node | None) -> Tensor:
    """The same value, to be had when the gate is known."""
    node = t._node
    if gate is None or not node.size:
        return t
    return Tensor._of(where(build.broadcast(gate, node.shape), node, 0))


class Streams:
    """Where the default generators of devices stood, and which of them a function drew from."""

    def __init__(self, devices: Iterable[str]) -> None:
        generators = [default_generator(name) for name in devices]
        for g in generators:
            g.catch_up()
        self._began = default_stream.at
        self._before = [(g, g.state()) for g in generators]
        self.drawn: list[tuple[Generator, State]] = []

    def look(self) -> None:
        """After the function: those that stand elsewhere now were drawn from."""
        self.drawn = [(g, state) for g, state in self._before if g.state().at != state.at]

    @contextmanager
    def rewound(self, gate: Node | None) -> Iterator[None]:
        """Those that were drawn from stand again where they stood then."""
        now, at = [(g, g.state()) for g, _ in self.drawn], default_stream.at
        default_stream.at = self._began
        for g, state in self.drawn:
            key, counter = (_behind(Tensor._of(n), gate)._node for n in (state.key, state.counter))
            g.set_back(State(key, counter, state.at))
        try:
            yield
        finally:
            for g, state in now:
                g.set_back(state)
            default_stream.at = at
