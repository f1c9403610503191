"""Capturing: run a function once on pending tensors, and make of what it did something to replay.

In: a function and its arguments. Out: a Replay. Nothing is computed while the function runs, but every tensor that it
changes is seen (tracing.py). What it returns and what it changed become the outputs of one plan, in which parameters and
optimizer state are overwritten in place; afterwards every tensor is what it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from .. import cpython
from ..drive import execute, tracing
from ..drive.tracing import Trace, current, unwatched
from ..dtypes import DType, default_dtype, int32, set_default
from ..errors import CompileError
from ..explanation import Origin
from ..graph import build
from ..graph import node as nodes
from ..graph.capture import Capture
from ..graph.leaves import Variable
from ..graph.node import Node, resolve, topological
from ..graph.origin import Origins, named
from ..plan import Label, Plan
from ..symbolic_sizes import following
from ..system.gc_pause import collector_waits
from ..target import Target
from ..tensor import Tensor, flush
from ..tensor.generator import Draws
from ..tensor.paths import Path
from ..tensor.storage import Base, Leaf
from ..tensor.storage import Storage as SharedStorage
from ..tensor.strides import overlaps
from .effects import effects_of, in_outside
from .guards import state_of
from .leaks import refuse_kept
from .naming import Names, distinct, name_arguments
from .python_state import PlaceSlot, PythonState
from .replay import Fresh, GradSlot, Holder, KeptGradient, Mark, Replay, empty
from .sizes import FIXED, Sizes
from .trees import containers_in, exchange, has_gradient, layout_of, leaves_of, tensors_in
from .watcher import Watcher


def _shown_by(node: Node, began: int) -> Tensor | None:
    """The tensor whose value a captured node is, if there is one.

    Sharing that began in the capture has been undone: then it is the tensor that was shared first.
    """
    owner = None if node.owner is None else node.owner()
    tensor = None
    if isinstance(owner, Leaf):
        tensor = owner.tensor()
        owner = None if owner.storage is None else owner.storage()
    if isinstance(owner, SharedStorage):
        return Tensor._all_of(owner) if owner._serial <= began else owner.tensor()
    if tensor is None:
        tensor = owner.tensor() if isinstance(owner, Base) else owner
    return tensor


def _shows(tensor: Tensor, node: Node) -> bool:
    """Whether a node is the value of a tensor: that of a view also where its history was used up, which it follows anew."""
    shared = tensor._shared
    if shared is not None and tensor._seen == shared.storage.version and resolve(tensor._current) is resolve(node):
        return True
    return resolve(tensor._node).storage is node.storage


def newest() -> int:
    """The serial number of the newest tensor."""
    return Tensor._of(build.constant(0, int32, "cpu"))._serial


def read_with_history(ends: Sequence[Node], made: Sequence[Node], known: Sequence[Tensor], began: int) -> list[Tensor]:
    """The tensors of before, but for the `known` ones, that nodes depend on with gradients; what these were made of is not looked at.
    made: what was recorded since; began: since then tensors have higher serial numbers.

    Raises CompileError where the value that was read is no tensor's any more.
    """
    ours = {id(n) for n in made}
    over = {id(t) for t in known}
    stops = {id(t._node) for t in known}
    found: dict[int, Tensor] = {}

    def before(node: Node) -> list[Node]:
        if id(node) in stops:
            return []
        if id(node) in ours:
            return [i for i in node.inputs if i.requires_grad]
        tensor = _shown_by(node, began)
        if tensor is None or not _shows(tensor, node):
            raise CompileError(
                "a compiled module read a tensor that was made outside of it with gradients recorded, and changed it: the gradient "
                "of what it was has no place to go. Hint: give it to the module as an argument."
            )
        if tensor._serial <= began and id(tensor) not in over:
            found.setdefault(id(tensor), tensor)
        return []

    topological(ends, before)
    return list(found.values())


@collector_waits()  # what it calls would run within the function, and is no part of it
def capture(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    tensors: list[Tensor],
    target: Target | None = None,
    sizes: Sizes = FIXED,
) -> tuple[Replay, Trace]:
    """Capture a call, and what was noted meanwhile. tensors: those in the arguments, in order. target: what to compile to,
    for another runner; by default for the tensors' device, which runs it. sizes: which of their sizes vary.

    Raises CompileError where the function cannot be captured, and whatever it raises itself; then nothing has changed.
    """
    cpython.require()
    flush(views=True)  # every tensor that exists is an input of the capture, never a constant of it
    for t in tensors:
        execute.realize([t._node])
    themselves = frozenset(k for k, t in enumerate(tensors) if t.requires_grad or has_gradient(t))
    try:
        found, watch = _capture(function, args, kwargs, tensors, themselves, target, sizes)
    except CompileError:
        raise
    except Exception:
        uses = Counter(id(t._cell()) for t in tensors)
        twice = {k for k, t in enumerate(tensors) if uses[id(t._cell())] > 1}
        if twice <= themselves:
            raise
        themselves |= twice  # perhaps it fails because two tensors stood in for one
        found, watch = _capture(function, args, kwargs, tensors, themselves, target, sizes)
    more = (found.shared_memory(tensors) | found.python.met_anew(tensors)) - themselves
    if more:
        watch.undo_backward()
        found, watch = _capture(function, args, kwargs, tensors, themselves | more, target, sizes)
    if target is not None:
        watch.undo_backward()
    try:
        refuse_kept(watch, found.made())
    except CompileError:
        watch.undo_backward()
        raise
    found.uses_up = bool(watch.let_go)
    return found, watch


def _capture(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    tensors: list[Tensor],
    themselves: frozenset[int],
    target: Target | None,
    sizes: Sizes,
) -> tuple[Replay, Trace]:
    """themselves: the arguments, by number, that the function gets as they are; of the others it gets the values. One that is
    given twice is one tensor there, too."""
    watch = Trace(is_portable=target is not None)
    instead = {id(tensors[k]): tensors[k] for k in themselves}
    stand_ins: dict[int, Tensor] = {}
    for k, t in enumerate(tensors):
        if id(t) not in instead:
            instead[id(t)] = stand_ins[k] = _stand_in(t, sizes.shape_of(k, t))
    given = [instead[id(t)] for t in tensors]  # a container that is given twice is one there, too
    watch.layouts = {s._serial: layout for k, s in stand_ins.items() if (layout := layout_of(tensors[k])) is not None}
    args, kwargs = exchange((args, kwargs), Tensor, lambda t: instead[id(t)], {})
    containers = list(containers_in((args, kwargs)))
    marks = [dict(t.__dict__) for t in given]
    watch.began = newest()
    python = Watcher(function, (args, kwargs), watch)
    ambient = _ambient()
    current.trace = watch
    tracing.is_capturing = True
    nodes.mode.let_go = watch.let_go
    try:
        with following(sizes.family):
            with nodes.origins_of(Origins()), nodes.nodes_of() as made:
                result = python.run(function, args, kwargs)
            _refuse_ambient(ambient)
            watch.keep_histories_before(made)
            del made
            effects, result = effects_of(python.snapshot, containers, result)
            python.snapshot.undo()
            state = state_of(python, effects, result, [tensors[k] for k in themselves])
            _refuse_marks(marks, given, result, state.values(), watch.began)
            seen = Observed(watch, result, stand_ins, state, given, in_outside(result, containers))
            captured = Captured(watch, stand_ins, seen, state)
            arguments = name_arguments(function, args, kwargs)
            of_arguments = {k: arguments.get(id(s), "") for k, s in stand_ins.items()}
            with unwatched():
                names = Names(watch, function)
            replay = captured.replay(names, of_arguments, target)
            state.forget()
            replay.themselves = {k: tensors[k] for k in themselves}
            return replay, watch
    except BaseException:
        if _ambient() != ambient:
            _set_ambient(*ambient)
        watch.undo()
        watch.undo_hooks()
        watch.undo_backward()
        current.trace = None
        python.snapshot.undo()
        raise
    finally:
        current.trace = None
        tracing.is_capturing = False
        nodes.mode.let_go = None


def _ambient() -> tuple[bool, DType]:
    """What functions may set for all that comes after them."""
    return nodes.mode.grad, default_dtype()


def _set_ambient(grad: bool, dtype: DType) -> None:
    nodes.mode.grad = grad
    set_default(dtype)


def _refuse_ambient(before: tuple[Any, ...]) -> None:
    names = ("whether gradients are recorded", "the default dtype")
    changed = [name for name, was, now in zip(names, before, _ambient(), strict=True) if was != now]
    if changed:
        raise CompileError(
            f"a compiled step set {' and '.join(changed)}, and left it so; later calls would not. Hint: set it outside, or use "
            "a with block, as in `with sg.no_grad():`."
        )


OF_BUFFERS = {"persistent"}  # which nn.Buffer sets itself


def _refuse_marks(before: list[dict[str, Any]], given: list[Tensor], result: Any, left: Any, began: int) -> None:
    """Raises CompileError where the function set attributes of a program's own on an argument, or on a tensor that it made and that
    outlives it: a later call would make it without them."""
    changed = {n for was, t in zip(before, given, strict=True) for n in was.keys() ^ t.__dict__.keys()}
    changed |= {
        n for was, t in zip(before, given, strict=True) for n in was if n in t.__dict__ and t.__dict__[n] is not was[n]
    }
    arguments = set(map(id, given))
    for _, t in tensors_in((result, left)):
        if id(t) not in arguments and t._serial > began:
            changed |= t.__dict__.keys() - OF_BUFFERS
    if changed:
        names = ", ".join(sorted(changed))
        raise CompileError(
            f"a compiled step sets attributes ({names}) of tensors that later calls make anew. Hint: return the values, or set them outside."
        )


def _stand_in(t: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor with the value of an argument and the attributes that the program set on it. shape: its own, of which sizes may vary."""
    node = t._node
    made = Tensor._of(nodes.leaf(node.storage, shape, node.dtype, node.device))
    made.__dict__.update(t.__dict__)
    return made


class Observed:
    """What a function did, read off before its doings are undone; after that they are.

    assigned: tensors of the outside that it gave another value; before: the nodes that they had, by id. flags: those whose
    requires_grad it set, with what it is now.
    gradients: (tensor, what it left in its .grad) for each slot of the outside in which there was something else. own_gradients:
    the same for the tensors that it made and that outlive it.
    entering: the gradients that were there before, by id, that no place but their slot leads to.
    outputs: the tensors whose values a run must give, each once; place: where they are among them, by id.
    draws: the random numbers that it drew.
    left: what it returned, and what it left in places of Python; marks: what its tensors, and gradients, are; alone: the
    gradients that it made, by id, which are in one slot and nowhere else. paths: where tensors are in the result, by id.
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
        """given: the tensors among the arguments. shown: those in containers of before that the function returned."""
        self._began = watch.began
        candidates = _touched(watch)
        self.gradients = [  # one that is put back was taken from its slot; what was there, and came from elsewhere, is set anew
            (t, t._grad)
            for t, before in watch.grads.values()
            if t._serial <= watch.began and (t._grad is not before or before is None or id(t) not in watch.grad_reads)
        ]
        _refuse_hidden_tensors(result, "result")
        for effect in state.fresh:
            _refuse_hidden_tensors(effect.value, effect.path)
        stored = [found for e in state.fresh for found in tensors_in(e.value, e.path)]
        returned = [*tensors_in(result, "result"), *stored]
        gradients = [g for _, g in self.gradients if g is not None]
        self.own_gradients = _own_gradients([*returned, *((".grad", g) for g in gradients)], watch.began)
        returned += [(f"{path}.grad", g) for path, _, g in self.own_gradients]
        handed = [*(t for _, t in returned), *gradients]
        _refuse_given_away(watch, handed)
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
        _refuse_hooks(watch, stand_ins)
        if watch.keeps_histories:
            _refuse_lost_histories([*stored, *(("a tensor of the outside", t) for t in self.assigned)], values)
        self.before = {id(t): resolve(t._node) for t in self.assigned}
        wanted = [*computed, *self.assigned, *made]
        self.outputs = list({id(t): t for t in wanted or handed or shown}.values())
        self.nodes = [values[id(t)] for t in self.outputs]
        self._check()
        self.place = {id(t): k for k, t in enumerate(self.outputs)}
        self.paths = {
            id(whole): path for path, t in reversed(returned) if not isinstance(whole := views[id(t)][0], int)
        }
        others = {*self.leaves, *(id(t) for _, t, _ in self.own_gradients)}  # which each run makes anew
        uses = Counter(id(views[id(t)][0]) for t in handed)
        self.alone = {
            id(g)
            for g in gradients
            if g._serial > watch.began and views[id(g)][0] is g and uses[id(g)] == 1 and id(g) not in others
        }
        self.entering = _entering(watch, {*state.tensors, *map(id, given)})
        self.marks = self._marks(views)
        self.left = (result, state.values())

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
        """What each returned tensor is a view of, by id: an argument by number, a tensor of the outside, or one that was
        made; through which path, None where it is that itself; and whether it has a history of its own."""
        alike: dict[int, set[int]] = {}
        for t in returned:
            if t._shared is not None:
                alike.setdefault(id(t._shared.storage), set()).add(id(t))
        found: dict[int, tuple[Tensor | int, Path | None, bool]] = {}
        wholes: dict[int, Tensor] = {}  # of each memory one: any may stand for the first tensor, if that is gone
        for t in returned:
            shared = t._shared
            whole, path, is_alias = t, None, False
            is_made = id(t) not in arguments and t._serial > watch.began
            if is_made and shared is not None and self._is_seen(t, shared.storage, alike, watch):
                first = (
                    shared.tensor()
                )  # with whose history t goes on, where others that share the memory have their own
                if first is not None and first._serial <= watch.began and first._shared is shared and not first._path:
                    whole, path = first, t._path
                else:
                    whole = wholes.setdefault(id(shared.storage), Tensor._all_of(shared.storage))
                    path = None if whole is t else (*shared.path, *t._path)
                    is_alias = whole._shared is not shared
            found[id(t)] = (arguments.get(id(whole), whole), path, is_alias)
        return found

    def _is_seen(self, t: Tensor, storage: SharedStorage, alike: dict[int, set[int]], watch: Trace) -> bool:
        """Whether the memory shows elsewhere, too, or twice in one tensor."""
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
    """The gradients that were there before the function ran, by id, that no place but one slot leads to: whatever is in the
    slot stands for them in later calls. elsewhere: ids of tensors to which something else leads."""
    owners = {id(t): t for t, _ in (*watch.grads.values(), *watch.grad_reads.values()) if t._grad is not None}
    held = Counter(id(t._grad) for t in owners.values())
    alone = (t for t in owners.values() if held[id(t._grad)] == 1 and id(t._grad) not in elsewhere)
    return {id(t._grad): GradSlot(t) for t in alone if t._grad is not None and t._grad._share_no_more()}


def _own_gradients(handed: list[tuple[str, Tensor]], began: int) -> list[tuple[str, Tensor, Tensor]]:
    """What is in .grad of the tensors that a function made and hands out, and of these in turn: path and tensor, gradient."""
    found: dict[int, tuple[str, Tensor, Tensor]] = {}
    left = list(reversed(handed))
    while left:
        path, t = left.pop()
        if t._serial > began and t._grad is not None and id(t) not in found:
            found[id(t)] = (path, t, t._grad)
            left.append((f"{path}.grad", t._grad))
    return list(found.values())


def _touched(watch: Trace) -> list[Tensor]:
    """Tensors of the outside that show what may have another value now, each once."""
    found: dict[int, Tensor] = {}
    for thing, _ in list(watch.before.values()):
        if isinstance(thing, Tensor) and thing._serial <= watch.began:
            found[id(thing)] = thing
        elif isinstance(thing, SharedStorage) and thing.origin <= watch.began:
            tensor = Tensor._all_of(thing)
            found[id(tensor)] = tensor
    return list(found.values())


def _is_changed(t: Tensor, value: Node) -> bool:
    """Whether a tensor, now as before the function ran, had another value at its end."""
    before = t._node
    if resolve(value) is resolve(before):
        return False
    return not _is_flagged(before, value) or value.storage is None or value.storage is not before.storage


def _is_flagged(before: Node, value: Node) -> bool:
    """Whether requires_grad of a leaf was set. What has got a history is none: no value keeps it when the step is over."""
    return before.requires_grad != value.requires_grad and isinstance(
        (value if value.requires_grad else before).primitive, Variable
    )


def _refuse_hooks(watch: Trace, stand_ins: dict[int, Tensor]) -> None:
    """A hook that a function leaves on a tensor would be there once, and not once more after every call."""
    own = {id(t) for t in stand_ins.values()}
    left = (t for t, ids, *_ in watch.hooks.values() if id(t) not in own and t._hook_ids != ids)
    is_left = any(t._serial <= watch.began for t in left)
    if is_left or any(list(table) != list(was) for table, was in watch.tables.values()):
        raise CompileError(
            "a compiled step registered a hook, or removed one, and left it so: later calls would not. Hint: do it "
            "outside, or remove the hook before the step ends."
        )


def _refuse_lost_histories(left: list[tuple[str, Tensor]], values: dict[int, Node]) -> None:
    """A tensor that a function stores, or changes, would have its value after a replay, and no history."""
    for path, t in left:
        node = values[id(t)]
        if node.requires_grad and not isinstance(node.primitive, Variable):
            raise CompileError(
                f"a compiled module left a value with a history in {path}, where it would have none. Hint: return it, store its "
                "detach(), or compile the function that calls the module and backward()."
            )


def _refuse_given_away(watch: Trace, returned: list[Tensor]) -> None:
    """A tensor whose memory another one took, `p.data = t`, would have memory of its own after a replay."""
    cells = {id(cell) for r in watch.given_away if (cell := r()) is not None}
    if any(id(t) in cells or (t._shared is not None and id(t._shared.storage) in cells) for t in returned):
        raise CompileError(
            "a compiled step set the data of a tensor to another that it returns or stores, and the two would not share "
            "memory. Hint: return a clone()."
        )


def _refuse_hidden_tensors(result: Any, where: str) -> None:
    """A tensor in an object of another kind would keep the value of the first call for ever."""
    for path, leaf in leaves_of(result, where):
        within = leaf if isinstance(leaf, set | frozenset) else getattr(leaf, "__dict__", {}).values()
        if not isinstance(leaf, Tensor) and any(isinstance(v, Tensor) and v._node.storage is None for v in within):
            raise CompileError(
                f"{path} is a {type(leaf).__name__} that holds a tensor of this call, and a compiled step could not give it "
                "another one in the next. Hint: return tensors in tuples, lists, dicts, named tuples or dataclasses."
            )


class Captured:
    """The graph of what a function did, and whose values its inputs and outputs are.

    holders: for each input, what holds its value, or the number of the argument that does.
    in_place: output → input whose value it replaces, and whose memory it may take over.
    """

    def __init__(self, watch: Trace, stand_ins: dict[int, Tensor], seen: Observed, state: PythonState) -> None:
        """Tensors must be as they were before the capture."""
        self.watch, self.seen, self.state = watch, seen, state
        self._numbers = {id(t): k for k, t in stand_ins.items()}
        self._slots: dict[int, Holder] = {**seen.entering, **{id(slot.first): slot for slot in state.slots}}
        self._known: dict[int, tuple[int, Tensor]] = {}
        gradients = (*(g for _, g in seen.gradients), *(g for _, _, g in seen.own_gradients))
        self._new = {id(g) for g in gradients if g is not None and g._serial > watch.began}  # each run has others
        read_before = [n for n in seen.before.values() if n.storage is not None]
        self.graph = Capture(
            seen.nodes,
            first=[*(s._node for s in stand_ins.values()), *read_before],
            identity=lambda n: self._held(n)[0],
        )
        self.holders: list[Holder | int] = [self._holder(self._held(source)[1]) for source in self.graph.sources]
        self.in_place: dict[int, int] = {}
        for k, t in enumerate(seen.outputs):
            position = self.graph.position_of_source(seen.before[id(t)]) if id(t) in seen.before else None
            if position is None or isinstance(self.holders[position], int):
                continue
            if self._held(seen.before[id(t)])[1]._cell() is t._cell():
                self.in_place[k] = position

    def _holder(self, tensor: Tensor) -> Holder | int:
        number = self._numbers.get(id(tensor))
        return self._slots.get(id(tensor), tensor) if number is None else number

    def _given(self, tensor: Tensor) -> Tensor | int:
        """The tensor, or as which argument each call gives another one."""
        number = self._numbers.get(id(tensor))
        return tensor if number is None else number

    def _held(self, node: Node) -> tuple[int, Tensor]:
        """What tells a captured value from others, and the tensor that holds it, so that a later change of it is seen."""
        if id(node) not in self._known:
            tensor = _shown_by(node, self.watch.began)
            if tensor is None or id(tensor) in self._new or not _shows(tensor, node):  # no one's any more: a constant
                tensor = Tensor._of(nodes.leaf(node.storage, node.shape, node.dtype, node.device))
                self._known[id(node)] = (id(node.storage), tensor)
            else:
                self._known[id(node)] = (id(tensor._cell()), tensor)
        return self._known[id(node)]

    # -- what the plan calls them

    def labels(self, names: Names, arguments: dict[int, str]) -> execute.Labels:
        """Roles and names of inputs and outputs. A new value is labelled as the input that it replaces."""
        inputs = distinct(self._label_of_input(holder, names, arguments) for holder in self.holders)
        slots = {id(g): t for t, g in self.seen.gradients}
        fresh = [k for k in range(len(self.seen.outputs)) if k not in self.in_place]
        own = distinct(self._label_of_output(self.seen.outputs[k], names, slots) for k in fresh)
        outputs = dict(zip(fresh, own, strict=True)) | {k: inputs[i] for k, i in self.in_place.items()}
        return tuple(inputs), tuple(outputs[k] for k in range(len(outputs)))

    def _label_of_input(self, holder: Holder | int, names: Names, arguments: dict[int, str]) -> Label:
        if isinstance(holder, int):
            return Label("argument", arguments[holder])
        if isinstance(holder, GradSlot):
            return names.of_gradient(holder.tensor)
        if isinstance(holder, PlaceSlot):
            return Label("state", holder.path)
        return names.of(holder, changes=id(holder) in self.seen.before)

    def _label_of_output(self, t: Tensor, names: Names, slots: dict[int, Tensor]) -> Label:
        if id(t) in self.seen.paths:
            return Label("result", self.seen.paths[id(t)])
        return names.of_gradient(slots[id(t)]) if id(t) in slots else names.of(t, changes=True)

    # -- what a call needs

    def replay(self, names: Names, arguments: dict[int, str], target: Target | None) -> Replay:
        """Compiled. arguments: the names of the function's arguments, by number."""
        seen = self.seen
        labels = self.labels(names, arguments)
        if target is None:
            program, _ = execute.programs.get(self.graph, self.in_place, labels, names.function)
        else:
            program = execute.planned(self.graph, self.in_place, labels, target)
        for _, g in seen.gradients:  # the next flush would compute them, in a plan of its own
            if g is not None and g._serial > self.watch.began and (g._node.storage is None or g._shared is not None):
                empty(g)
        gradients = self._kept_gradients()
        kept = {id(gradient.owner) for gradient in gradients}
        slots = [(t, g) for t, g in seen.gradients if id(t) not in kept]
        held = [h for h in self.holders if isinstance(h, Tensor)]
        memory = [(h, "_exchanged" if h._share_no_more() else "_rebound") for h in held]
        memory += [(t, "_rebound") for t in self._seen_elsewhere(held)]
        grads = [(t, "requires_grad") for t in {id(t): t for t in (*held, *self._leaves())}.values()]
        flags = [(t, name, getattr(t, name)) for t, name in (*grads, *memory)]
        changed = self._changed(program.plan)
        copied = self._copied_with_arguments()
        return Replay(
            program=program,
            plan=program.plan.located(self._origins(names)),
            holders=[None if isinstance(h, int) else h for h in self.holders],
            arguments=[(k, h) for k, h in enumerate(self.holders) if isinstance(h, int)],
            written=self._written(program.plan),
            changed=changed,
            captured=[*self._captured(), *(t for t in copied if id(t) not in self._numbers)],
            copies_arguments=bool(copied),
            met=[*self.state.met(), *self._in_modules(), *held] if self.state.asks_which else [],
            themselves={},
            rebound=[t for t in self.watch.rebound.values() if t._serial <= self.watch.began],
            written_first=[t for t in self.watch.written_first.values() if t._serial <= self.watch.began],
            rebound_arguments=[self._numbers[k] for k in self.watch.rebound if k in self._numbers],
            changes_arguments=[holder for holder, _ in changed if isinstance(holder, int)],
            gradients=gradients,
            grads=[self._given(t) for t, _ in slots],
            flags_left=[(self._given(t), flag) for t, flag in seen.flags],
            result=exchange(
                (*seen.left, [g for _, g in slots], [pair for _, *pair in seen.own_gradients]),
                Tensor,
                lambda t: seen.marks[id(t)],
                {},
            ),
            flags=[*self.watch.attributes.values(), *flags],
            # one that the function made itself is another one in each call
            slots=[self._slot(t) for t, _ in self.watch.grad_reads.values() if t._serial <= self.watch.began],
            python=self.state,
            draws=seen.draws,
            carried=list(self.watch.carried.values()),
        )

    def _origins(self, names: Names) -> list[Origin]:
        """Where the nodes of the graph were recorded, by place."""
        return named([node.origin for node in self.graph.order], self.watch.modules.values(), names.variables)

    def _leaves(self) -> list[Tensor]:
        """Those whose values are read, whatever tensor holds the memory, and those whose gradients are set or added to. Each of
        them may become one that requires grad, or one that does not."""
        owners = [source.owner() for source in self.graph.sources if source.owner is not None]
        read = [owner.tensor() for owner in owners if isinstance(owner, Leaf)]
        slots = (t for t, _ in (*self.seen.gradients, *self.watch.grad_reads.values()))
        return [t for t in (*read, *slots, *self.watch.looked_at.values()) if t is not None]

    def _in_modules(self) -> list[Tensor]:
        """The tensors of the modules that the function looked into."""
        tables = (table for m in self.watch.modules.values() for table in (m._parameters, m._buffers))
        return [t for table in tables for t in table.values() if t is not None]

    def _seen_elsewhere(self, held: list[Tensor]) -> list[Tensor]:
        """Tensors that were read, and whose memory a holder stands for: a run writes it through that one, whoever else has it."""
        storages = {id(h._shared.storage) for h in held if h._shared is not None}
        looked_at = (t for t in self.watch.looked_at.values() if not any(t is h for h in held))
        return [t for t in looked_at if t._shared is not None and id(t._shared.storage) in storages]

    def _slot(self, owner: Tensor) -> tuple[GradSlot, bool, Tensor | None]:
        """What was in a slot that the function looked into: whether nothing; what it must be again, where other places lead
        there too."""
        gradient = owner._grad
        is_known = gradient is None or id(gradient) in self.seen.entering
        return GradSlot(owner), gradient is None, None if is_known else gradient

    def _kept_gradients(self) -> list[KeptGradient]:
        """Those whose slot holds nothing that a run uses, so that each may write them where the run before did."""
        sources = (mark.source for mark in self.seen.marks.values())
        changed = map(self._holder, self.seen.assigned)
        used = {id(h.tensor) for h in (*self.holders, *sources, *changed) if isinstance(h, GradSlot)}
        return [
            KeptGradient(t, g, self.seen.place[id(g)])
            for t, g in self.seen.gradients
            if g is not None and id(g) in self.seen.alone and id(t) not in used | self._numbers.keys()
        ]

    def _is_in_place(self, plan: Plan, output: int) -> bool:
        """Whether an output is written over the value that it follows."""
        position = self.in_place.get(output)
        return position is not None and plan.buffers[plan.outputs[output]].aliases == plan.inputs[position]

    def _written(self, plan: Plan) -> list[tuple[int, Holder]]:
        """The inputs over whose values the new ones are written, and their holders."""
        found = []
        for output, position in self.in_place.items():
            holder = self.holders[position]
            if not isinstance(holder, int) and self._is_in_place(plan, output):
                found.append((position, holder))
        return found

    def _changed(self, plan: Plan) -> list[tuple[Holder | int, int]]:
        """What takes a new value that is not written over the old one, with the output."""
        place = self.seen.place
        apart = [t for t in self.seen.assigned if not self._is_in_place(plan, place[id(t)])]
        return [(self._holder(t), place[id(t)]) for t in apart]

    def _copied_with_arguments(self) -> list[Tensor]:
        """Those that the function made deep copies of, if there are several with an argument among them: whether the copies share
        memory is up to those."""
        found = self._copied()
        return found if len(found) > 1 and any(id(t) in self._numbers for t in found) else []

    def _copied(self) -> list[Tensor]:
        """The tensors from outside that the function made deep copies of, whether or not anything is left of these."""
        began, found = self.watch.began, dict[int, Tensor]()
        for t in self.watch.copied.values():
            storage = None if t._shared is None else t._shared.storage
            if storage is not None:  # sharing that began in the capture has been undone
                t = Tensor._all_of(storage) if storage._serial <= began else storage.tensor()
            if t is not None and t._serial <= began:
                found[id(t)] = t
        return list(found.values())

    def _captured(self) -> list[Tensor]:
        """What an argument must not share memory with, unless it is captured itself: the tensors that the function changes,
        and, where it changes an argument or its slots, all that it reads, or leaves anywhere."""
        holders = [self._holder(t) for t in self.seen.assigned]
        changed = [t for t, h in zip(self.seen.assigned, holders, strict=True) if not isinstance(h, int | GradSlot)]
        slots = (self._given(t) for t, _ in (*self.seen.gradients, *self.seen.flags))
        if any(isinstance(h, int) for h in (*holders, *slots)):
            left = (mark.source for mark in self.seen.marks.values())
            changed += [h for h in (*self.holders, *left) if isinstance(h, Tensor)]
            changed += [t for t in self._copied() if id(t) not in self._numbers]  # copying one with a history raises
        for pair in self.watch.grad_values:  # an argument may be the captured one: none is its own gradient
            given = [self._given(t) for t in pair]
            if any(isinstance(t, int) for t in given):
                changed += [t for t in given if isinstance(t, Tensor)]
        return changed
