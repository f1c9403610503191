"""Builds the graph of a captured function, assigns its inputs and outputs to tensors, and makes the `Replay`."""

from __future__ import annotations

from ..drive import execute
from ..drive.tracing import Trace
from ..explanation import Origin
from ..graph import node as nodes
from ..graph.capture import Capture
from ..graph.node import Node
from ..graph.origin import named
from ..plan import Label, Plan
from ..target import Target
from ..tensor import Tensor
from ..tensor.storage import Leaf
from .naming import Names, distinct
from .observed import Observed
from .owners import shown_by, shows
from .python_state import PlaceSlot, PythonState
from .replay import GradSlot, Holder, KeptGradient, Replay, empty
from .trees import exchange


class Captured:
    """The graph of a captured function, and the tensors to which its inputs and outputs belong.

    holders: for each input, the tensor or gradient slot with its value, or the number of the argument that provides it.
    in_place: output → input whose value it replaces, and whose memory it may reuse.
    """

    def __init__(self, watch: Trace, stand_ins: dict[int, Tensor], seen: Observed, state: PythonState) -> None:
        """Call this when tensors have their values from before the capture."""
        self.watch, self.seen, self.state = watch, seen, state
        self._numbers = {id(t): k for k, t in stand_ins.items()}
        self._slots: dict[int, Holder] = {**seen.entering, **{id(slot.first): slot for slot in state.slots}}
        self._known: dict[int, tuple[int, Tensor]] = {}
        gradients = (*(g for _, g in seen.gradients), *(g for _, _, g in seen.own_gradients))
        self._new = {id(g) for g in gradients if g is not None and g._serial > watch.began}  # each run makes others
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
        """The tensor, or the number of the argument that replaces it in each call."""
        number = self._numbers.get(id(tensor))
        return tensor if number is None else number

    def _held(self, node: Node) -> tuple[int, Tensor]:
        """The identity of a captured value, and the tensor that holds it, so that later changes of it are seen."""
        if id(node) not in self._known:
            tensor = shown_by(node, self.watch.began)
            if tensor is None or id(tensor) in self._new or not shows(tensor, node):  # no tensor has it now: a constant
                tensor = Tensor._of(nodes.leaf(node.storage, node.shape, node.dtype, node.device))
                self._known[id(node)] = (id(node.storage), tensor)
            else:
                self._known[id(node)] = (id(tensor._cell()), tensor)
        return self._known[id(node)]

    # -- what the plan calls them

    def labels(self, names: Names, arguments: dict[int, str]) -> execute.Labels:
        """Roles and names of inputs and outputs. An output that replaces an input has the input's label."""
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
        """The compiled Replay. arguments: the names of the function's arguments, by number."""
        seen = self.seen
        labels = self.labels(names, arguments)
        if target is None:
            program, _ = execute.programs.get(self.graph, self.in_place, labels, names.function)
        else:
            program = execute.planned(self.graph, self.in_place, labels, target)
        for _, g in seen.gradients:  # else the next flush would compute them, in another plan
            if g is not None and g._serial > self.watch.began and (g._node.storage is None or g._shared is not None):
                empty(g)
        gradients = self._kept_gradients()
        kept = {id(gradient.owner) for gradient in gradients}
        slots = [(t, g) for t, g in seen.gradients if id(t) not in kept]
        held = [h for h in self.holders if isinstance(h, Tensor)]
        memory = [(h, "_exchanged" if h._share_no_more() else "_rebound") for h in held]
        memory += [(t, "_rebound") for t in self._read_views_of(held)]
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
            # a tensor that the function makes is another one in each call
            slots=[self._slot(t) for t, _ in self.watch.grad_reads.values() if t._serial <= self.watch.began],
            python=self.state,
            draws=seen.draws,
            carried=list(self.watch.carried.values()),
        )

    def _origins(self, names: Names) -> list[Origin]:
        """The origins of the graph's nodes, by position."""
        return named([node.origin for node in self.graph.order], self.watch.modules.values(), names.variables)

    def _leaves(self) -> list[Tensor]:
        """The leaves whose values are read, even if another tensor holds the memory, and those whose gradients are set or accumulated. The
        requires_grad of each may change later.
        """
        owners = [source.owner() for source in self.graph.sources if source.owner is not None]
        read = [owner.tensor() for owner in owners if isinstance(owner, Leaf)]
        slots = (t for t, _ in (*self.seen.gradients, *self.watch.grad_reads.values()))
        return [t for t in (*read, *slots, *self.watch.looked_at.values()) if t is not None]

    def _in_modules(self) -> list[Tensor]:
        """The tensors of the modules that the function accessed."""
        tables = (table for m in self.watch.modules.values() for table in (m._parameters, m._buffers))
        return [t for table in tables for t in table.values() if t is not None]

    def _read_views_of(self, held: list[Tensor]) -> list[Tensor]:
        """Tensors that were read and share memory with a holder. A run writes the memory through the holder only."""
        storages = {id(h._shared.storage) for h in held if h._shared is not None}
        looked_at = (t for t in self.watch.looked_at.values() if not any(t is h for h in held))
        return [t for t in looked_at if t._shared is not None and id(t._shared.storage) in storages]

    def _slot(self, owner: Tensor) -> tuple[GradSlot, bool, Tensor | None]:
        """The guard for a .grad slot that the function accessed: whether it was empty, and, if other places reference its tensor, the tensor
        that it must hold again.
        """
        gradient = owner._grad
        is_known = gradient is None or id(gradient) in self.seen.entering
        return GradSlot(owner), gradient is None, None if is_known else gradient

    def _kept_gradients(self) -> list[KeptGradient]:
        """The gradients whose previous value a run does not use, so that each run may overwrite the memory that the previous run wrote."""
        sources = (mark.source for mark in self.seen.marks.values())
        changed = map(self._holder, self.seen.assigned)
        used = {id(h.tensor) for h in (*self.holders, *sources, *changed) if isinstance(h, GradSlot)}
        return [
            KeptGradient(t, g, self.seen.place[id(g)])
            for t, g in self.seen.gradients
            if g is not None and id(g) in self.seen.alone and id(t) not in used | self._numbers.keys()
        ]

    def _is_in_place(self, plan: Plan, output: int) -> bool:
        """Whether an output overwrites the value that it replaces."""
        position = self.in_place.get(output)
        return position is not None and plan.buffers[plan.outputs[output]].aliases == plan.inputs[position]

    def _written(self, plan: Plan) -> list[tuple[int, Holder]]:
        """The inputs whose memory is overwritten, with their holders."""
        found = []
        for output, position in self.in_place.items():
            holder = self.holders[position]
            if not isinstance(holder, int) and self._is_in_place(plan, output):
                found.append((position, holder))
        return found

    def _changed(self, plan: Plan) -> list[tuple[Holder | int, int]]:
        """The tensors that get a new value in new memory, with the output."""
        place = self.seen.place
        apart = [t for t in self.seen.assigned if not self._is_in_place(plan, place[id(t)])]
        return [(self._holder(t), place[id(t)]) for t in apart]

    def _copied_with_arguments(self) -> list[Tensor]:
        """The tensors that the function deep-copied, if there are several with an argument among them: whether the copies share
        memory depends on the arguments of each call.
        """
        found = self._copied()
        return found if len(found) > 1 and any(id(t) in self._numbers for t in found) else []

    def _copied(self) -> list[Tensor]:
        """The tensors from outside that the function deep-copied, whether or not the copies still exist."""
        began, found = self.watch.began, dict[int, Tensor]()
        for t in self.watch.copied.values():
            storage = None if t._shared is None else t._shared.storage
            if storage is not None:  # None if sharing began in the capture, because that has been undone
                t = Tensor._all_of(storage) if storage._serial <= began else storage.tensor()
            if t is not None and t._serial <= began:
                found[id(t)] = t
        return list(found.values())

    def _captured(self) -> list[Tensor]:
        """The tensors with which an argument must not share memory unless it is captured itself: those that the function changes,
        and, if it changes an argument or its slots, all that it reads or stores.
        """
        holders = [self._holder(t) for t in self.seen.assigned]
        changed = [t for t, h in zip(self.seen.assigned, holders, strict=True) if not isinstance(h, int | GradSlot)]
        slots = (self._given(t) for t, _ in (*self.seen.gradients, *self.seen.flags))
        if any(isinstance(h, int) for h in (*holders, *slots)):
            left = (mark.source for mark in self.seen.marks.values())
            changed += [h for h in (*self.holders, *left) if isinstance(h, Tensor)]
            changed += [t for t in self._copied() if id(t) not in self._numbers]  # deepcopy raises if it has a history
        for pair in self.watch.grad_values:  # an argument may be this tensor, but not its own gradient
            given = [self._given(t) for t in pair]
            if any(isinstance(t, int) for t in given):
                changed += [t for t in given if isinstance(t, Tensor)]
        return changed
