"""Watching a function while it is captured: which tensors it changes, and that it reads no values.

Tensors, modules, optimizers and generators report here; run/capture.py collects. Nothing is recorded while no trace is
active.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import CompileError
from ..graph.origin import users_line

changes = 0  # counts up when a flag that a capture may depend on is set: requires_grad, training, hyperparameters
is_capturing = False  # any thread: what tensors that share memory look at before they ask for a trace of their own


def _origin(tensor: Any) -> int:
    """The number by which a tensor's memory is known, whoever shares it."""
    return tensor._serial if tensor._shared is None else tensor._shared.storage.origin


class Trace:
    """What happened to tensors since the trace began.

    before: what was changed, tensors, storages, bases of views and streams of random numbers, with the state that it had;
    seen: views that were derived anew from what was changed, with theirs; rebound: tensors whose memory is exchanged; written_first:
    those of them that were changed in the memory that they had.
    given_away: what had the memory that they took, tensors and what others shared; joined: of a tensor, by serial number, what
    shares its memory since. parted: by origin, memory that should be one and is two, with what is not to be there any more.
    grads: tensors whose .grad slot was set, with what it held before; hooks: those that another one was
    registered on, with the ids of those before, and these themselves;
    tables: those of modules that one was added to, with what they held.
    flags: tensors whose requires_grad was set.
    grad_reads, attributes: facts outside the arguments on which the function's course depends. looked_at: tensors that share
    memory and were read: each has a history of its own, whichever holds the value.
    modules, optimizers, generators: those that the function used, in order: they name what it captures.
    seeded: streams of random numbers, by id, whose seed it set.
    carried: what carries a value over from another device, before each run.
    began: tensors with a higher serial number were made since. layouts: the strides of arguments that do not lie row by row, by
    serial number.
    on_place: told of a place, container, key and how it is written, that steps replace the tensor of.
    is_portable: whether the step is for a runner without Python.
    copied: the tensors that deep copies were made of, by the numbers of their memory.
    made: what is pending, tensors and what they share, as long as anyone holds it.
    let_go: the nodes whose history a backward pass let go, with what made them, and of what.
    keeps_histories: whether what the function computes has a history outside, so that none may be lost.
    """

    def __init__(self, is_portable: bool = False) -> None:
        self.began = 0
        self.layouts: dict[int, tuple[int, ...]] = {}
        self.is_portable = is_portable
        self.on_place: Callable[[Any, Any, str], None] | None = None
        self.before: dict[int, tuple[Any, Any]] = {}
        self.seen: dict[int, tuple[Any, Any]] = {}
        self._held: Counter[int] = Counter()  # how often each thing is among those two and their states, by id
        self.rebound: dict[int, Any] = {}
        self.written_first: dict[int, Any] = {}
        self.given_away: list[weakref.ref[Any]] = []
        self.joined: dict[int, weakref.ref[Any]] = {}
        self.parted: dict[int, weakref.ref[Any] | None] = {}
        self.grads: dict[int, tuple[Any, Any | None]] = {}
        self.grad_values: list[tuple[Any, Any]] = []  # earlier gradients that were assigned to slots, with their owners
        self.hooks: dict[int, tuple[Any, tuple[int, ...], dict[int, Any], dict[int, Any]]] = {}
        self.tables: dict[int, tuple[dict[int, Any], dict[int, Any]]] = {}
        self.flags: dict[int, Any] = {}
        self.grad_reads: dict[int, tuple[Any, bool]] = {}
        self.looked_at: dict[int, Any] = {}
        self.attributes: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self.modules: dict[int, Any] = {}
        self.optimizers: dict[int, Any] = {}
        self.generators: dict[int, Any] = {}
        self.seeded: set[int] = set()
        self.carried: dict[int, Any] = {}
        self.made: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.let_go: list[tuple[Any, Any, Any]] = []
        self.copied: dict[int, Any] = {}
        self.keeps_histories = False

    def on_copy(self, tensor: Any) -> None:
        """A deep copy of a tensor is about to be made: it shares memory with other copies as the tensor does with others."""
        self.copied.setdefault(_origin(tensor), tensor)

    def on_pending(self, thing: Any) -> None:
        """A tensor, or what tensors share, whose value is pending."""
        self.made[thing._serial] = thing

    def on_assign(self, tensor: Any) -> None:
        """A tensor is about to take another value. Raises CompileError where that should be seen in other memory too."""
        if not self.parted:
            return
        origin = _origin(tensor)
        if origin in self.parted:
            other = self.parted[origin]
            if other is None or other() is not None:
                raise CompileError(
                    "a compiled step set the data of a tensor to what others share or what has a history, and then changed "
                    "one of them in place: the other would not change. Hint: set it to a clone(), or copy_ the values."
                )

    def on_change(self, thing: Any) -> None:
        """A tensor that shares nothing, a storage, a base or a stream is about to take another state."""
        if id(thing) not in self.before:
            self.before[id(thing)] = self.seen.get(id(thing)) or self._noted(thing)

    def on_look(self, tensor: Any) -> None:
        """A tensor that shares memory is read."""
        if tensor._serial <= self.began:
            self.looked_at[id(tensor)] = tensor

    def on_grad_read(self, tensor: Any) -> None:
        if id(tensor) not in self.grads:
            self.grad_reads.setdefault(id(tensor), (tensor, tensor._grad is None))

    def on_grad_write(self, tensor: Any, value: Any | None) -> None:
        self.grads.setdefault(id(tensor), (tensor, tensor._grad))
        if value is not None and max(tensor._serial, value._serial) <= self.began:
            self.grad_values.append((tensor, value))

    def on_flag(self, tensor: Any) -> None:
        """requires_grad of a tensor is about to be set, perhaps to its present value."""
        self.flags[id(tensor)] = tensor

    def on_hook(self, tensor: Any) -> None:
        """A hook is about to be registered on a tensor."""
        hooks = tensor._node.hooks
        self.hooks.setdefault(id(tensor), (tensor, tensor._hook_ids, dict(hooks.before), dict(hooks.after)))

    def on_table(self, table: dict[int, Any]) -> None:
        """A hook is about to be registered on a module."""
        self.tables.setdefault(id(table), (table, dict(table)))

    def on_attribute(self, owner: Any, name: str, value: Any) -> None:
        """The function's course depends on a Python attribute (a module's training flag)."""
        self.attributes.setdefault((id(owner), name), (owner, name, value))

    def off_attribute(self, owner: Any, name: str, key: str) -> None:
        """The course no longer depends on the pair of a key that is in the attribute, a tuple."""
        if (id(owner), name) in self.attributes:
            found: tuple[Any, ...] = self.attributes[id(owner), name][2]
            left = tuple(e for e in found if not (isinstance(e, tuple) and e[:1] == (key,)))
            self.attributes[id(owner), name] = (owner, name, left)

    def on_module(self, module: Any) -> None:
        """A module was called, or looked into."""
        self.modules.setdefault(id(module), module)

    def on_optimizer(self, optimizer: Any) -> None:
        """An optimizer made a step."""
        self.optimizers.setdefault(id(optimizer), optimizer)

    def on_generator(self, generator: Any) -> None:
        """Random numbers were drawn."""
        self.generators.setdefault(id(generator), generator)

    def on_seed(self, stream: Any) -> None:
        """A stream of random numbers was set to another place."""
        self.seeded.add(id(stream))

    def on_read(self, what: str) -> None:
        line = users_line()
        raise CompileError(
            f"{what} reads a value inside a compiled step{f' ({line})' if line else ''}, where nothing has been computed yet. "
            "Hint: return the tensor and read it after the step, or choose with sg.where instead of if."
        )

    def on_carried(self, carried: Any) -> None:
        """A value of another device is read: `carried.ready()` brings it over before each run."""
        self.carried[id(carried)] = carried

    def on_seen(self, view: Any) -> None:
        """A view is about to be derived anew."""
        if id(view) not in self.seen and id(view) not in self.before:
            self.seen[id(view)] = self._noted(view)

    def _noted(self, thing: Any) -> tuple[Any, Any]:
        state = thing._snapshot()
        self._held.update(map(id, (thing, *state)))
        return thing, state

    def references(self, base: Any) -> tuple[int, int]:
        """How many references this trace holds to a base of views, and to its storage."""
        return self._held[id(base)], self._held[id(base.storage)]

    def on_rebind(self, tensor: Any, value: Any) -> None:
        """A tensor that shares nothing is about to take the memory of another, which it is given the value of."""
        if id(tensor) in self.before and id(tensor) not in self.rebound:
            self.written_first[id(tensor)] = tensor
        self.rebound[id(tensor)] = tensor
        self.given_away.append(weakref.ref(value))
        if value._shared is not None:
            self.given_away.append(weakref.ref(value._shared.storage))
        self.parted.pop(tensor._serial, None)

    def on_joined(self, tensor: Any, value: Any) -> None:
        """`value` shares the memory of a tensor that was set to it."""
        self.joined[tensor._serial] = weakref.ref(value)

    def on_parted(self, tensor: Any, value: Any) -> None:
        """`value` keeps memory of its own, which a tensor that was set to it should share."""
        self.parted[_origin(value)] = None
        self.parted[tensor._serial] = weakref.ref(value if value._shared is None else value._shared.storage)

    def forget(self) -> None:
        """Hold no tensor any more."""
        for table in (
            self.before,
            self.grads,
            self.flags,
            self.hooks,
            self.tables,
            self.grad_reads,
            self.looked_at,
            self.attributes,
            self.seen,
            self._held,
            self.rebound,
            self.written_first,
            self.grad_values,
            self.copied,
        ):
            table.clear()

    def undo(self) -> None:
        """Restore the state before the trace, except hooks."""
        for thing, state in (*self.seen.values(), *self.before.values()):
            thing._restore(state)
        for tensor, grad in self.grads.values():
            tensor._grad = grad

    def undo_hooks(self) -> None:
        """Take out the hooks that were registered: the function failed."""
        for tensor, _, before, after in self.hooks.values():
            hooks = tensor._node.hooks
            if hooks is not None:
                self.tables.update({id(t): (t, was) for t, was in ((hooks.before, before), (hooks.after, after))})
        for table, was in self.tables.values():
            table.clear()  # the same table: handles take hooks out of it
            table.update(was)

    def keep_histories_before(self, made: list[Any]) -> None:
        """Forget of `let_go` the nodes that were made since the trace began."""
        ours = {id(node) for node in made}
        self.let_go = [noted for noted in self.let_go if id(noted[0]) not in ours]

    def undo_backward(self) -> None:
        """Give histories back that backward passes let go: the function is to run again."""
        for node, primitive, inputs in self.let_go:
            node.released, node.primitive, node.inputs = False, primitive, inputs
        self.let_go.clear()


class _Current(threading.local):
    trace: Trace | None = None


current = _Current()


@contextmanager
def unwatched() -> Iterator[None]:
    """A context for reads on which the capture does not depend."""
    before, current.trace = current.trace, None
    try:
        yield
    finally:
        current.trace = before
