"""Traces a function during its capture: which tensors it changes, and which state it reads.

Tensors, modules, optimizers and generators report their changes here, and run/capture.py evaluates them. Nothing is recorded while no trace is active.
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

changes = 0  # incremented when a flag on which a capture may depend is set: requires_grad, training, hyperparameters
is_capturing = False  # in any thread: tensors that share memory test it before they look for their own thread's trace


def _origin(tensor: Any) -> int:
    """The number of a tensor's memory, equal for all tensors that share it."""
    return tensor._serial if tensor._shared is None else tensor._shared.storage.origin


class Trace:
    """The record of what happened to tensors since the trace began.

    before: the changed objects (tensors, storages, bases of views, streams of random numbers), with their former state.
    seen: views that were derived again from a changed base, with their former state.
    rebound: tensors that took other memory. written_first: those of them that were changed in their former memory.
    given_away: the former holders of the memory that they took. joined: by a tensor's serial number, a tensor that shares its memory since then.
    parted: by origin, memory that should be shared but has two copies, with the tensor that must not exist after the capture.
    grads: tensors whose .grad slot was set, with its former value.
    hooks: tensors on which a hook was registered, with the ids of the former hooks, and the hooks themselves.
    tables: tables of modules to which a hook was added, with their former contents.
    flags: tensors whose requires_grad was set.
    grad_reads, attributes: state outside the arguments on which the function's control flow depends.
    looked_at: tensors that share memory and were read; each has its own history, whichever of them holds the value.
    modules, optimizers, generators: those that the function used, in order. They give names to the captured tensors.
    seeded: the ids of the streams of random numbers whose seed it set.
    carried: objects that copy a value from another device before each run.
    began: tensors with a higher serial number were made during the trace.
    layouts: by serial number, the strides of arguments that are not in row-major order.
    on_place: called for each place whose tensor steps replace, with its container, key and source text.
    is_portable: whether the step is for a runner without Python.
    copied: by origin, the tensors of which deep copies were made.
    made: the pending objects that are alive: tensors, and the objects that tensors share.
    let_go: the nodes whose history a backward pass freed, with their primitive and inputs.
    keeps_histories: whether a history outside of the function contains its results, so that none may be freed.
    """

    def __init__(self, is_portable: bool = False) -> None:
        self.began = 0
        self.layouts: dict[int, tuple[int, ...]] = {}
        self.is_portable = is_portable
        self.on_place: Callable[[Any, Any, str], None] | None = None
        self.before: dict[int, tuple[Any, Any]] = {}
        self.seen: dict[int, tuple[Any, Any]] = {}
        self._held: Counter[int] = Counter()  # by id, how often an object occurs in those two and their states
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
        """Called before a deep copy of a tensor: copies share memory with each other as their originals do."""
        self.copied.setdefault(_origin(tensor), tensor)

    def on_pending(self, thing: Any) -> None:
        """Called for a tensor, or an object that tensors share, whose value is pending."""
        self.made[thing._serial] = thing

    def on_assign(self, tensor: Any) -> None:
        """Called before a tensor takes another value. Raises CompileError if the change would have to appear in other memory, too."""
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
        """Called before a tensor without shared memory, a storage, a base or a stream changes its state."""
        if id(thing) not in self.before:
            self.before[id(thing)] = self.seen.get(id(thing)) or self._noted(thing)

    def on_look(self, tensor: Any) -> None:
        """Called when a tensor that shares memory is read."""
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
        """Called before requires_grad of a tensor is set, perhaps to its present value."""
        self.flags[id(tensor)] = tensor

    def on_hook(self, tensor: Any) -> None:
        """Called before a hook is registered on a tensor."""
        hooks = tensor._node.hooks
        self.hooks.setdefault(id(tensor), (tensor, tensor._hook_ids, dict(hooks.before), dict(hooks.after)))

    def on_table(self, table: dict[int, Any]) -> None:
        """Called before a hook is registered on a module."""
        self.tables.setdefault(id(table), (table, dict(table)))

    def on_attribute(self, owner: Any, name: str, value: Any) -> None:
        """Called when the function's control flow depends on a Python attribute (a module's training flag)."""
        self.attributes.setdefault((id(owner), name), (owner, name, value))

    def off_attribute(self, owner: Any, name: str, key: str) -> None:
        """Called when the control flow no longer depends on the pair with this key in the attribute, which is a tuple of pairs."""
        if (id(owner), name) in self.attributes:
            found: tuple[Any, ...] = self.attributes[id(owner), name][2]
            left = tuple(e for e in found if not (isinstance(e, tuple) and e[:1] == (key,)))
            self.attributes[id(owner), name] = (owner, name, left)

    def on_module(self, module: Any) -> None:
        """Called when a module was called, or its attributes were read."""
        self.modules.setdefault(id(module), module)

    def on_optimizer(self, optimizer: Any) -> None:
        """Called after an optimizer's step."""
        self.optimizers.setdefault(id(optimizer), optimizer)

    def on_generator(self, generator: Any) -> None:
        """Called after random numbers were drawn."""
        self.generators.setdefault(id(generator), generator)

    def on_seed(self, stream: Any) -> None:
        """Called after the position of a stream of random numbers was set."""
        self.seeded.add(id(stream))

    def on_read(self, what: str) -> None:
        line = users_line()
        raise CompileError(
            f"{what} reads a value inside a compiled step{f' ({line})' if line else ''}, where nothing has been computed yet. "
            "Hint: return the tensor and read it after the step, or choose with sg.where instead of if."
        )

    def on_carried(self, carried: Any) -> None:
        """Called when a value of another device is read: `carried.ready()` copies it before each run."""
        self.carried[id(carried)] = carried

    def on_seen(self, view: Any) -> None:
        """Called before a view is derived again from its base."""
        if id(view) not in self.seen and id(view) not in self.before:
            self.seen[id(view)] = self._noted(view)

    def _noted(self, thing: Any) -> tuple[Any, Any]:
        state = thing._snapshot()
        self._held.update(map(id, (thing, *state)))
        return thing, state

    def references(self, base: Any) -> tuple[int, int]:
        """The number of references that this trace holds to a base of views, and to its storage."""
        return self._held[id(base)], self._held[id(base.storage)]

    def on_rebind(self, tensor: Any, value: Any) -> None:
        """Called before a tensor without shared memory takes the value and the memory of another tensor."""
        if id(tensor) in self.before and id(tensor) not in self.rebound:
            self.written_first[id(tensor)] = tensor
        self.rebound[id(tensor)] = tensor
        self.given_away.append(weakref.ref(value))
        if value._shared is not None:
            self.given_away.append(weakref.ref(value._shared.storage))
        self.parted.pop(tensor._serial, None)

    def on_joined(self, tensor: Any, value: Any) -> None:
        """Called when a tensor was set to `value` and now shares memory with it."""
        self.joined[tensor._serial] = weakref.ref(value)

    def on_parted(self, tensor: Any, value: Any) -> None:
        """Called when a tensor was set to `value`, which keeps separate memory although the two should share it."""
        self.parted[_origin(value)] = None
        self.parted[tensor._serial] = weakref.ref(value if value._shared is None else value._shared.storage)

    def forget(self) -> None:
        """Drop all references to tensors."""
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
        """Remove the hooks that a failed function registered."""
        for tensor, _, before, after in self.hooks.values():
            hooks = tensor._node.hooks
            if hooks is not None:
                self.tables.update({id(t): (t, was) for t, was in ((hooks.before, before), (hooks.after, after))})
        for table, was in self.tables.values():
            table.clear()  # the same dict, because handles remove hooks from it
            table.update(was)

    def keep_histories_before(self, made: list[Any]) -> None:
        """Drop from `let_go` the nodes that were made during the trace."""
        ours = {id(node) for node in made}
        self.let_go = [noted for noted in self.let_go if id(noted[0]) not in ours]

    def undo_backward(self) -> None:
        """Restore the histories that backward passes freed, before the function runs again."""
        for node, primitive, inputs in self.let_go:
            node.released, node.primitive, node.inputs = False, primitive, inputs
        self.let_go.clear()


class _Current(threading.local):
    trace: Trace | None = None


current = _Current()


@contextmanager
def unwatched() -> Iterator[None]:
    """A context in which reads are not recorded."""
    before, current.trace = current.trace, None
    try:
        yield
    finally:
        current.trace = before
