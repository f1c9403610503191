"""Collects a function's changes of tensors before they are undone: values, gradients, flags, views, random numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..drive.tracing import Trace
from ..errors import CompileError
from ..graph.leaves import Variable
from ..graph.node import Node, resolve
from ..tensor import Tensor
from ..tensor.generator import Draws
from ..tensor.paths import Path
from ..tensor.storage import Storage as SharedStorage
from ..tensor.strides import overlaps
from .python_state import PythonState
from .refusals import refuse_given_away, refuse_hidden_tensors, refuse_hooks, refuse_lost_histories
from .replay import Fresh, GradSlot, Mark
from .trees import tensors_in


class Observed:
    """The actions of a captured function, collected before they are undone; afterwards they are undone.

    assigned: tensors from outside that got another value; before: the nodes that they had, by id. flags: those whose
    requires_grad was set, with the present value.
    gradients: (tensor, the new content of its .grad) for each slot from outside whose content changed. own_gradients:
    the same for tensors that the function made and that outlive it.
    entering: the gradients that existed before, by id, to which only their slot refers.
    outputs: the tensors whose values a run must compute, each once; place: their positions among them, by id.
    draws: the random numbers that were drawn.
    left: the result, and the stores in Python places; marks: descriptions of their tensors and gradients; alone: the
    gradients that the function made, by id, to which only one slot refers. paths: positions of tensors in the result, by id.
    """

    def __init__(
        self,
        watch: Trace,
        result: Any,
        stand_ins: dict[int, Tensor],
        state: PythonState,
        given: list[Tensor],
        shown: list[Tensor],
    ) -> None:
        """given: the tensors among the arguments. shown: those in containers that existed before and that the function returned."""
        self._began = watch.began
        candidates = _touched(watch)
        self.gradients = [  # a gradient taken from its slot and put back does not count; one from elsewhere is set again
            (t, t._grad)
            for t, before in watch.grads.values()
            if t._serial <= watch.began and (t._grad is not before or before is None or id(t) not in watch.grad_reads)
        ]
        refuse_hidden_tensors(result, "result")
        for effect in state.fresh:
            refuse_hidden_tensors(effect.value, effect.path)
        stored = [found for e in state.fresh for found in tensors_in(e.value, e.path)]
        returned = [*tensors_in(result, "result"), *stored]
        gradients = [g for _, g in self.gradients if g is not None]
        self.own_gradients = _own_gradients([*returned, *((".grad", g) for g in gradients)], watch.began)
        returned += [(f"{path}.grad", g) for path, _, g in self.own_gradients]
        handed = [*(t for _, t in returned), *gradients]
        refuse_given_away(watch, handed)
        views = self._views(watch, handed, {id(t): k for k, t in stand_ins.items()})
        self.draws = Draws(watch)
        computed, made = (
            [w for t in tensors if isinstance(w := views[id(t)][0], Tensor) and w._serial > watch.began]
            for tensors in ([t for _, t in returned], gradients)
        )
        values = {id(t): t._node for t in (*computed, *candidates, *made, *handed, *shown)}
        flagged = [t for t in watch.flags.values() if t._serial <= watch.began and t.is_leaf]
        self.flags = [(t, t.requires_grad) for t in flagged]
        self.leaves = {id(t): type(t) for t in handed if t.requires_grad and t.is_leaf and t._serial > watch.began}
        watch.undo()
        self.assigned = [t for t in candidates if _is_changed(t, values[id(t)])]
        refuse_hooks(watch, stand_ins)
        if watch.keeps_histories:
            refuse_lost_histories([*stored, *(("a tensor of the outside", t) for t in self.assigned)], values)
        self.before = {id(t): resolve(t._node) for t in self.assigned}
        wanted = [*computed, *self.assigned, *made]
        self.outputs = list({id(t): t for t in wanted or handed or shown}.values())
        self.nodes = [values[id(t)] for t in self.outputs]
        self._check()
        self.place = {id(t): k for k, t in enumerate(self.outputs)}
        self.paths = {
            id(whole): path for path, t in reversed(returned) if not isinstance(whole := views[id(t)][0], int)
        }
        self.alone = self._alone(gradients, handed, views)
        self.entering = _entering(watch, {*state.tensors, *map(id, given)})
        self.marks = self._marks(views)
        self.left = (result, state.values())

    def _alone(
        self, gradients: list[Tensor], handed: list[Tensor], views: dict[int, tuple[Tensor | int, Path | None, bool]]
    ) -> set[int]:
        """The gradients that the function made, by id, to which only one slot refers."""
        others = {*self.leaves, *(id(t) for _, t, _ in self.own_gradients)}  # each run makes new ones
        uses = Counter(id(views[id(t)][0]) for t in handed)
        return {
            id(g)
            for g in gradients
            if g._serial > self._began and views[id(g)][0] is g and uses[id(g)] == 1 and id(g) not in others
        }

    def _check(self) -> None:
        devices = {node.device for node in self.nodes}
        if len(devices) > 1:
            raise CompileError(
                f"a compiled step works on one device, this one makes tensors on {' and '.join(sorted(devices))}."
            )
        if not devices:
            raise CompileError("the function returned no tensor and changed none: there is nothing to compile.")

    def _views(
        self, watch: Trace, returned: list[Tensor], arguments: dict[int, int]
    ) -> dict[int, tuple[Tensor | int, Path | None, bool]]:
        """For each returned tensor, by id: the tensor that it is a view of (an argument by number, a tensor from outside, or a new one),
        the path of the view, None if it is that tensor itself, and whether it has its own history.
        """
        alike: dict[int, set[int]] = {}
        for t in returned:
            if t._shared is not None:
                alike.setdefault(id(t._shared.storage), set()).add(id(t))
        found: dict[int, tuple[Tensor | int, Path | None, bool]] = {}
        wholes: dict[int, Tensor] = {}  # a tensor for each memory: any can replace the first one, if that is gone
        for t in returned:
            shared = t._shared
            whole, path, is_alias = t, None, False
            is_made = id(t) not in arguments and t._serial > watch.began
            if is_made and shared is not None and self._is_seen(t, shared.storage, alike, watch):
                first = (
                    shared.tensor()
                )  # the tensor whose history t continues; others that share the memory have their own
                if first is not None and first._serial <= watch.began and first._shared is shared and not first._path:
                    whole, path = first, t._path
                else:
                    whole = wholes.setdefault(id(shared.storage), Tensor._all_of(shared.storage))
                    path = None if whole is t else (*shared.path, *t._path)
                    is_alias = whole._shared is not shared
            found[id(t)] = (arguments.get(id(whole), whole), path, is_alias)
        return found

    def _is_seen(self, t: Tensor, storage: SharedStorage, alike: dict[int, set[int]], watch: Trace) -> bool:
        """Whether the memory is shared with another tensor, or the tensor shows an element of it twice."""
        return storage.origin <= watch.began or len(alike[id(storage)]) > 1 or overlaps(t._node.shape, t._strides()[0])

    def _marks(self, views: dict[int, tuple[Tensor | int, Path | None, bool]]) -> dict[int, Mark]:
        fresh: dict[int, Fresh] = {}
        marks = {}
        for key, (whole, path, is_alias) in views.items():
            source: Fresh | GradSlot | Tensor | int = self.entering.get(id(whole), whole)
            if isinstance(whole, Tensor) and id(whole) in self.place and whole._serial > self._began:
                source = fresh.setdefault(id(whole), Fresh(self.place[id(whole)], whole._node))
            marks[key] = Mark(source, path, is_alias, self.leaves.get(key))
        return marks


def _entering(watch: Trace, elsewhere: set[int]) -> dict[int, GradSlot]:
    """The gradients that existed before the function ran, by id, to which only one slot refers: later calls use the present
    content of the slot instead. elsewhere: ids of tensors with other references.
    """
    owners = {id(t): t for t, _ in (*watch.grads.values(), *watch.grad_reads.values()) if t._grad is not None}
    held = Counter(id(t._grad) for t in owners.values())
    alone = (t for t in owners.values() if held[id(t._grad)] == 1 and id(t._grad) not in elsewhere)
    return {id(t._grad): GradSlot(t) for t in alone if t._grad is not None and t._grad._share_no_more()}


def _own_gradients(handed: list[tuple[str, Tensor]], began: int) -> list[tuple[str, Tensor, Tensor]]:
    """The gradients of tensors that a function made and returns or stores, and their gradients in turn: (path and tensor, gradient)."""
    found: dict[int, tuple[str, Tensor, Tensor]] = {}
    left = list(reversed(handed))
    while left:
        path, t = left.pop()
        if t._serial > began and t._grad is not None and id(t) not in found:
            found[id(t)] = (path, t, t._grad)
            left.append((f"{path}.grad", t._grad))
    return list(found.values())


def _touched(watch: Trace) -> list[Tensor]:
    """Tensors from outside that show memory whose value may have changed, each once."""
    found: dict[int, Tensor] = {}
    for thing, _ in list(watch.before.values()):
        if isinstance(thing, Tensor) and thing._serial <= watch.began:
            found[id(thing)] = thing
        elif isinstance(thing, SharedStorage) and thing.origin <= watch.began:
            tensor = Tensor._all_of(thing)
            found[id(tensor)] = tensor
    return list(found.values())


def _is_changed(t: Tensor, value: Node) -> bool:
    """Whether the function changed the value of a tensor, which now has its old value again."""
    before = t._node
    if resolve(value) is resolve(before):
        return False
    return not _is_flagged(before, value) or value.storage is None or value.storage is not before.storage


def _is_flagged(before: Node, value: Node) -> bool:
    """Whether requires_grad of a leaf was set. A tensor that got a history does not count, because no value keeps a history after the step."""
    return before.requires_grad != value.requires_grad and isinstance(
        (value if value.requires_grad else before).primitive, Variable
    )
