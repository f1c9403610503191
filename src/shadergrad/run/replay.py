"""A call of a captured function: binds the values, runs the program, returns the results.

In: the arguments' tensors. Out: the function's result. Parameters and optimizer state are overwritten in place, so pending operations
that use their present values are computed first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from .. import cpython
from ..drive import execute, tracing
from ..graph import node as nodes
from ..graph.leaves import DETACHED, STORED
from ..graph.node import Node, grad_mode
from ..plan import Plan
from ..runtime import timing
from ..runtime.device import Program, Storage
from ..symbolic_sizes import plain
from ..system import interrupts
from ..tensor import Tensor
from ..tensor.generator import Draws
from ..tensor.paths import Path
from ..tensor.strides import overlaps
from .effects import Given, Outside
from .python_state import PlaceSlot, PythonState
from .trees import containers_in, exchange, leaves_of

NO_VALUE = object()  # in place of a storage, until a run gives one
STORAGE_HOLDERS = 2  # references to a gradient's storage: its node and `into`
FLAGS = {
    "version": "a hyperparameter of {} changed",
    "_training": "the training flag of {} changed",
    "_settings": "an attribute, a hook or a tensor of {} changed",
    "requires_grad": "requires_grad of {} changed",
    "_held_state": "the state of {} holds other tensors",
    "_step_hooks": "the hooks of {} changed",
}
NODE_HOLDERS = 1  # references to a gradient's node: its tensor
MINE = 1 + cpython.ASKING  # references to a tensor's node: the tensor's
IN_USE = 2 + cpython.ASKING  # references to its memory: the node's and that of the list of inputs


class GradSlot:
    """The .grad slot of a tensor, with its content at the time of a call."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def is_none(self) -> bool:
        return self.tensor._grad is None

    def holds(self, none: bool, same: Tensor | None, met: set[int]) -> bool:
        """Whether the slot is empty if it was empty; else whether it holds the required tensor, or any tensor but those `met`,
        by id, whose identity the function may compare.
        """
        found = self.tensor._grad
        return (found is None) is none and (id(found) not in met if same is None else found is same)

    @property
    def gradient(self) -> Tensor:
        assert self.tensor._grad is not None
        return self.tensor._grad

    @property
    def _node(self) -> Node:
        return self.gradient._node


Holder = Tensor | GradSlot | PlaceSlot


class KeptGradient:
    """A gradient that a compiled step stores in owner.grad, and whose memory the next run may overwrite.

    This is safe while only this object and owner.grad reference the tensor or its storage, which reference counts show.
    """

    __slots__ = ("output", "owner", "tensor")

    def __init__(self, owner: Tensor, tensor: Tensor, output: int) -> None:
        self.owner = owner
        self.tensor = tensor
        self.output = output

    def has_other_references(self) -> bool:
        ours = 2 if self.owner._grad is self.tensor else 1
        return (
            self.tensor._shared is not None
            or cpython.references(self.tensor) - cpython.ASKING > ours
            or cpython.references(self.tensor._current) - cpython.ASKING > NODE_HOLDERS
            or cpython.references(self.tensor._current.storage) - cpython.ASKING > STORAGE_HOLDERS
        )

    def renew(self) -> None:
        """Leave the tensor to those who reference it, and use a new one."""
        self.tensor = Tensor._of(_without_value(self.tensor._current))


class Fresh:
    """An output of the program that becomes a new tensor."""

    __slots__ = ("device", "dtype", "output", "primitive", "shape")

    def __init__(self, output: int, node: Node) -> None:
        self.output, self.shape, self.dtype, self.device = output, plain(node.shape), node.dtype, node.device
        self.primitive = DETACHED if node.requires_grad else STORED

    def tensor(self, outputs: list[Storage]) -> Tensor:
        return Tensor._first_of(nodes.leaf(outputs[self.output], self.shape, self.dtype, self.device, self.primitive))


class Mark:
    """Describes a tensor within a result: the source that it is a view of, and the path of the view.

    source: an output, the number of an argument, a gradient from before, or a tensor from outside. path: None
    if the tensor is the source itself. is_alias: a detached alias, which gets no history when the source does. leaf: the tensor's class, if
    it is a leaf that requires grad.
    """

    __slots__ = ("is_alias", "leaf", "path", "source")

    def __init__(
        self, source: Fresh | GradSlot | Tensor | int, path: Path | None, is_alias: bool, leaf: type[Tensor] | None
    ) -> None:
        self.source, self.path, self.is_alias, self.leaf = source, path, is_alias, leaf


@dataclass
class Replay:
    """A captured function, ready to run for arguments of one signature.

    plan: the program's, with notes of this capture.
    holders: for each program input, the tensor or gradient slot with its value; each call inserts the arguments.
    arguments: (input, argument) positions.
    written: (input, its holder): inputs whose memory the run overwrites with their next value.
    changed: (holder or number of an argument, output): tensors that get an output as their new value.
    rebound: tensors that get other memory in each run; tensors that share the old memory do not change.
    written_first: those of them whose old memory is changed too, so no other tensor may share it.
    rebound_arguments: the numbers of arguments that get other memory; no other tensor may share it.
    captured: the tensors that the function changes, or deep-copies together with an argument, and, if it changes an
    argument, all that it captured. An argument that shares memory with one of them must be captured itself.
    copies_arguments: whether it deep-copies several tensors, an argument among them.
    met: the tensors that the function found elsewhere, if it may have compared an argument's identity with theirs. An argument that is
    one of them must be captured itself.
    themselves: the numbers of arguments that are captured themselves, and so must be the same tensors in the next call.
    changes_arguments: the numbers of arguments that get another value, which other arguments may share.
    gradients: gradients that are not also inputs, and are referenced nowhere else, so that each run may overwrite the same memory.
    grads: the tensors, or numbers of arguments, whose .grad is set in another way. flags_left: those whose requires_grad is set.
    result: the function's result, its stores in Python places, the .grad of those tensors, and pairs of new tensors
    and their .grad, with marks for tensors.
    python: the Python state.
    draws: the random numbers that it draws. carried: copies from other devices, made before each run.
    flags: (owner, attribute, value) guards that can only change when tracing.changes does.
    slots: guards that may change at any time: gradients that must be None, or not None, or a certain tensor.
    into: the program's `into`, once a run has allocated the memory of gradients.
    uses_up: whether a backward pass in the run frees a history from outside, so that a second run has none.
    """

    program: Program
    plan: Plan
    holders: list[Holder | None]
    arguments: list[tuple[int, int]]
    written: list[tuple[int, Holder]]
    changed: list[tuple[Holder | int, int]]
    rebound: list[Tensor]
    written_first: list[Tensor]
    rebound_arguments: list[int]
    captured: list[Tensor]
    copies_arguments: bool
    met: list[Tensor]
    themselves: dict[int, Tensor]
    changes_arguments: list[int]
    gradients: list[KeptGradient]
    grads: list[Tensor | int]
    flags_left: list[tuple[Tensor | int, bool]]
    result: Any
    flags: list[tuple[Any, str, Any]]
    slots: list[tuple[GradSlot, bool, Tensor | None]]
    python: PythonState
    draws: Draws
    carried: list[Any]
    into: list[Storage | None] | None = None
    flags_seen: int = -1
    uses_up: bool = False

    def __post_init__(self) -> None:
        self._captured_ids = {id(t) for t in self.captured}  # valid ids: this object keeps the tensors alive
        self._met_ids = {id(t) for t in self.met}
        holders = (*self.holders, *(holder for holder, _ in self.changed))
        self._entering = list({id(h.tensor): h for h in holders if isinstance(h, GradSlot)}.values())
        self._known_ids = self._captured_ids | {id(h) for h in holders if isinstance(h, Tensor)}
        # Facts that no call changes are computed once, because the host's time limits how often a small step can be called.
        fixed = [(k, holder) for k, holder in self.written if isinstance(holder, Tensor)]
        self._fixed = fixed if len(fixed) == len(self.written) else None
        slots = any(isinstance(owner, int) for owner in (*self.grads, *(owner for owner, _ in self.flags_left)))
        self._is_one_a_place = (
            bool(self.changes_arguments) or slots or self.copies_arguments
        )  # different arguments must not share memory
        self._changes = bool(
            self.captured or self._is_one_a_place or self.rebound_arguments or self._entering or self.met
        )
        self._asks_python = not self.python.is_empty
        self._draws = not self.draws.is_empty
        self._holds_slots = any(isinstance(h, GradSlot | PlaceSlot) for h in self.holders)
        returned, *others = self.result
        self._alone: Fresh | None = None  # the common case: the result is one new tensor
        if (
            not any(others)
            and isinstance(returned, Mark)
            and returned.path is None
            and returned.leaf is None
            and isinstance(returned.source, Fresh)
        ):
            self._alone = returned.source
        self._gives_containers = bool(self.python.effects) or any(
            isinstance(v, Given) for _, v in leaves_of(self.result)
        )
        # after a run there is nothing to do but to return the result
        self._only_gives = self._alone is not None and not (
            self.gradients or self.written or self.changed or self.flags_left or self.python.effects
        )

    def holds(self, tensors: list[Tensor]) -> bool:
        """Whether all guards outside the arguments hold, and the same arguments share memory with captured tensors."""
        for k, t in self.themselves.items():
            if tensors[k] is not t:
                return False
        if self._changes:
            found = self.shared_memory(tensors)
            if found and found - self.themselves.keys():
                return False
        for t in self.written_first:
            if not t._share_no_more():
                return False
        if self.flags_seen != tracing.changes:
            if not all(getattr(owner, name) == value for owner, name, value in self.flags):
                return False
            self.flags_seen = tracing.changes
        for slot, none, same in self.slots:
            if not slot.holds(none, same, self._met_ids):
                return False
        if self._asks_python and not self.python.holds(self.captured, self._met_ids, tensors):
            return False
        return not self.uses_up and (not self._entering or self._gradients_are_alone())

    def _gradients_are_alone(self) -> bool:
        """Whether no gradient that a run finds in a slot is also read or changed elsewhere by the run."""
        found = [slot.tensor._grad for slot in self._entering]
        return len({id(g) for g in found}) == len(found) and all(
            g is not None and id(g) not in self._known_ids and (g._shared is None or g._share_no_more()) for g in found
        )

    def broken(self) -> str:
        """The failed guard, in words, or a statement that other tensors share memory."""
        if self.uses_up:
            return "a backward pass in it used up a history that was made outside"
        words = self.python.broken()
        if words:
            return words
        for owner, name, value in self.flags:
            if getattr(owner, name) != value:
                return FLAGS.get(name, "{} is not as it was").format(f"a {type(owner).__name__}")
        if any(slot.is_none != none for slot, none, _ in self.slots):
            return "a tensor has a gradient and had none, or has none and had one"
        if (
            not all(slot.holds(none, same, self._met_ids) for slot, none, same in self.slots)
            or not self._gradients_are_alone()
        ):
            return "a gradient that other places lead to is another tensor"
        return "arguments are other tensors, or share memory otherwise"

    def made(self) -> list[Tensor]:
        """The tensors that this object references and that the function may have made."""
        owned = [t for kept in self.gradients for t in (kept.owner, kept.tensor)]
        asked = [slot.tensor for slot, _, _ in self.slots]
        flagged = [owner for owner, _, _ in self.flags if isinstance(owner, Tensor)]
        given = [t for t in (*self.grads, *(t for t, _ in self.flags_left)) if isinstance(t, Tensor)]
        return [*owned, *given, *asked, *flagged, *(_tensor_of(h) for h in self.holders if h is not None)]

    def shared_memory(self, tensors: list[Tensor]) -> set[int]:
        """The numbers of arguments that share memory which the function changes and also reads through another tensor, or that are a tensor
        which it found elsewhere.
        """
        found: set[int] = set()
        gradients = [slot.tensor._grad for slot in self._entering]
        for k, t in enumerate(tensors):
            if id(t) in self._met_ids or (gradients and any(t is g for g in gradients)):
                found.add(k)
            elif t._shared is None:
                if id(t) in self._captured_ids:
                    found.add(k)
            elif any(c._shared is not None and c._shared.storage is t._shared.storage for c in self.captured):
                found.add(k)
        for k in self.changes_arguments:
            if tensors[k]._shared is not None and overlaps(tensors[k]._node.shape, tensors[k].stride()):
                found.add(k)  # with overlapping elements, a new value of all elements is ambiguous
        for k in self.rebound_arguments:
            if not tensors[k]._share_no_more():
                found.add(k)
        if self._is_one_a_place and len(tensors) > 1:
            cells = {id(t): t if t._shared is None else t._shared.storage for t in tensors}
            uses = Counter(map(id, cells.values()))
            found |= {k for k, t in enumerate(tensors) if uses[id(cells[id(t)])] > 1}
        return found

    def bind(self, tensors: list[Tensor]) -> list[Any]:
        """The holders, with these arguments inserted, and with the present random state."""
        if self._draws:
            self.draws.ready()
        for carried in self.carried:
            carried.ready()
        for position, argument in self.arguments:
            self.holders[position] = tensors[argument]
        return self.holders

    def storages(self, tensors: list[Tensor]) -> list[Storage]:
        """The values of the program's inputs; pending ones are computed first."""
        for tensor in self.rebound:
            if tensor._shared is not None:
                tensor._become(tensor._node)
        holders = self.bind(tensors)
        found: list[Storage]
        if self._holds_slots:
            found = [holder._node.storage for holder in holders]
        else:  # the same as _node, inlined because a step may have many parameters
            found = [(h._current if h._shared is None else h._node).storage for h in holders]
        if None in found:
            for holder in holders:
                execute.realize([holder._node])
            found = [holder._node.storage for holder in holders]
        references = cpython.references
        for position, tensor in self._overwritten():
            if tensor._shared is None and references(tensor._current) <= MINE and references(found[position]) <= IN_USE:
                continue  # the common case: nothing else references it
            if tensor._keep_memory_private():
                found[position] = tensor._node.storage
        return found

    def _overwritten(self) -> list[tuple[int, Tensor]]:
        """`written`, with the tensors that the holders hold now."""
        return [(k, _tensor_of(holder)) for k, holder in self.written] if self._fixed is None else self._fixed

    @interrupts.whole
    def run(self, inputs: list[Storage], tensors: list[Tensor], arguments: Any) -> Any:
        """Run as one submission. Afterwards tensors, .grad slots and containers hold what the function would have left there."""
        into = self._memory_for_gradients()
        if timing.listeners:
            with timing.noting(self.plan.notes):
                outputs = self.program.run(inputs, into)
        else:
            outputs = self.program.run(inputs, into)
        if self._draws:
            self.draws.made()
        if self._only_gives:
            assert self._alone is not None
            return self._alone.tensor(outputs)
        if self.into is None and self.gradients:
            self._keep_gradients(outputs)
        for position, tensor in self._overwritten():
            inputs[position].writes += 1
            if tensor._shared is not None:
                tensor._was_overwritten()
        for holder, k in self.changed:
            tensor = tensors[holder] if isinstance(holder, int) else _tensor_of(holder)
            _give(tensor, outputs[k])
        given = [value for value, _ in containers_in(arguments)] if self._gives_containers else []
        result, stored, gradients = self._handed_out(outputs, tensors, given)
        for kept in self.gradients:
            kept.owner._grad = kept.tensor
        for owner, gradient in zip(self.grads, gradients, strict=True):
            (tensors[owner] if isinstance(owner, int) else owner)._grad = gradient
        for owner, flag in self.flags_left:
            (tensors[owner] if isinstance(owner, int) else owner).requires_grad_(flag)
        if self.python.effects:
            self.python.do(stored, given)
        return result

    def let_go(self) -> None:
        """Release the memory of gradients, while another capture of the same function allocates its own."""
        self.into = None
        for kept in self.gradients:
            kept.renew()

    def _handed_out(self, outputs: list[Storage], tensors: list[Tensor], given: list[Any]) -> Any:
        """The result. A tensor that the function returned twice is one tensor, and tensors that shared memory share it. Call this before any
        slot is filled.
        """
        if self._alone is not None:
            return self._alone.tensor(outputs), (), ()
        made: dict[Any, Tensor] = {}

        def tensor(mark: Mark) -> Tensor:
            if mark not in made:
                source = mark.source
                if isinstance(source, Fresh):
                    if source not in made:
                        made[source] = source.tensor(outputs)
                    whole = made[source]
                elif isinstance(source, GradSlot):
                    whole = source.gradient
                else:
                    whole = tensors[source] if isinstance(source, int) else source
                found = whole if mark.path is None else whole._seen_along(mark.path, mark.is_alias)
                if mark.leaf is not None:
                    found = found.requires_grad_() if mark.leaf is Tensor else mark.leaf(found)
                made[mark] = found
            return made[mark]

        def handed_out(inner: Mark | Outside | Given) -> Any:
            if isinstance(inner, Mark):
                return tensor(inner)
            return inner.value if isinstance(inner, Outside) else given[inner.number]

        *handed, own = exchange(self.result, Mark | Outside | Given, handed_out, {})
        for owner, gradient in own:
            owner._grad = gradient
        return handed

    def _memory_for_gradients(self) -> list[Storage | None] | None:
        """`into` if the run may overwrite the gradients of the previous run; None: allocate fresh memory."""
        into = self.into
        if into is None:
            return None
        for kept in self.gradients:
            if kept.tensor._current.storage is not into[kept.output] or kept.has_other_references():
                break
        else:
            return into
        self.into = None  # the program keeps a gradient, or has given it another value
        for kept in self.gradients:
            kept.renew()
        return None

    def _keep_gradients(self, outputs: list[Storage]) -> None:
        again = {kept.output for kept in self.gradients}
        self.into = [storage if k in again else None for k, storage in enumerate(outputs)]
        for kept in self.gradients:
            _give(kept.tensor, outputs[kept.output])


def empty(tensor: Tensor) -> None:
    """Drop the pending computation of a tensor, because the next run gives it a value."""
    tensor._own(_without_value(tensor._node))


def _without_value(node: Node) -> Node:
    return nodes.leaf(NO_VALUE, plain(node.shape), node.dtype, node.device)


def _tensor_of(holder: Holder) -> Tensor:
    if isinstance(holder, PlaceSlot):
        return holder.tensor
    return holder.gradient if isinstance(holder, GradSlot) else holder


def _give(tensor: Tensor, storage: Storage) -> None:
    """Give a tensor, and all that share its memory, the value in `storage`."""
    node = tensor._node
    if node.storage is not storage:
        with grad_mode(False):
            tensor._assign(nodes.leaf(storage, node.shape, node.dtype, node.device), "fill_")  # no other write overlaps
