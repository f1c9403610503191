"""Makes a program from a number.

The builder runs what it writes under PyTorch as it goes: so it knows the shape of everything, which names share memory,
and whether values stay small and exact. A statement whose values would not, or whose features are not allowed, is
not taken. Everything is drawn from random.Random(seed); nothing else decides.
"""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import statements
from .as_here import AsHere, SavedLeaves
from .language import HIDDEN, Program, Statement, Step, code, execute, namespace, parts
from .views import VIEW_MAKERS, view

LARGEST = 2.0**11  # of the values; with a finest part of 2^-6, sums of a few products of two are exact in float32
FINEST = 2.0**6

REFUSALS = {  # what PyTorch says, and the feature
    "a view of a leaf Variable": "refused leaf view write",
    "a leaf Variable that requires grad": "refused leaf write",
    "second time": "refused second backward",
    "modified by an inplace": "saved value changed",
    "single memory location": "refused overlapping write",
    "multiple views": "refused write to one of several views",
    "no_grad mode": "refused write to view made in no_grad",
    "does not require grad": "refused backward",
    "leaf variables": "refused flag",
    "detach": "refused detach_",
    "view size is not compatible": "refused view",
}


class Overlaps(TorchDispatchMode):
    """Notes writes whose result PyTorch leaves open: to elements that share an address, or that are also read elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **(kwargs or {}))
        if is_mutable(func) and args and isinstance(args[0], torch.Tensor):
            self.found |= self.is_open(args[0], [a for a in args[1:] if isinstance(a, torch.Tensor)])
        return given

    def is_open(self, written: torch.Tensor, others: list[torch.Tensor]) -> bool:
        """Whether the order of the elements decides what comes out."""
        at = addresses(written)
        if len(set(at)) < len(at):
            return True
        shared = [o for o in others if o.untyped_storage().data_ptr() == written.untyped_storage().data_ptr()]
        return any(set(at) & set(there) and there != at for there in map(addresses, shared))


@cache
def is_mutable(operation: Any) -> bool:
    """Whether an operation of PyTorch writes to its first argument."""
    return operation._schema.is_mutable


def addresses(tensor: torch.Tensor) -> list[int]:
    """Where the elements lie, in their order."""
    found = [int(tensor.storage_offset())]
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        found = [at + i * stride for at in found for i in range(size)]
    return found


@dataclass
class Call:
    """A tensor parameter of the step, or a Python value, and how it is passed."""

    kind: str  # tensor, number, flag, offset, nothing
    text: str  # the first argument
    shape: tuple[int, ...] = ()
    view: str = ""  # the kind of view that the argument is, if it is one


class Builder:
    """Grows a program statement by statement, beside PyTorch's names and values."""

    def __init__(self, seed: int, allowed: frozenset[str], wanted: str | None = None) -> None:
        self.rng = random.Random(seed)
        self.allowed = allowed
        self.wanted = wanted
        self.setup: list[Statement] = []
        self.body: list[Statement] = []
        self.schedule: list[Statement] = []
        self.into = self.setup
        self.step: Step | None = None
        self.calls: list[Call] = []
        self.cell: str | None = None
        self.states: list[statements.PythonState] = []
        self.state_results: list[str] = []  # in the step: what depends on Python state
        self.kinds: dict[str, tuple[str, ...]] = {}  # of every name: the views that led to it
        self.attached: set[str] = set()  # results of steps that have a history: never an operand
        self.space: dict[str, Any] = {}
        self.local: dict[str, Any] | None = None  # while a step's body is written
        self.count = 0
        self.look = self.rng.choice([1.0, 0.3, 0.0])  # how often all values are read
        own = random.Random(f"sizes of {seed}")  # so that programs without them are what they were
        self.sizes = own if "sizes" in allowed and (wanted == "sizes" or own.random() < 0.2) else None
        self.overlaps = Overlaps()
        self.saved = SavedLeaves()
        self.walked: dict[int, Any] = {}  # the nodes of graphs that a backward pass went through
        self.walked_again = False
        self.rebuild()

    # -- what is there, under PyTorch

    def rebuild(self) -> None:
        """Run again what was taken so far."""
        self.walked = {}
        self.space = namespace(torch, lambda function: function)
        with AsHere():
            for statement in self.setup:
                execute(statement.text, self.space)
            if self.step is not None:
                execute(self.step.source(), self.space)
            elif self.local is not None:
                self.bind()
            for statement in self.schedule:
                execute(statement.text, self.space)

    def bind(self) -> None:
        """The names within the step, in its first call."""
        self.local = {f"x{i}": eval(call.text, self.space) for i, call in enumerate(self.calls)}
        if self.cell is not None:
            self.local["cell"] = eval(self.cell, self.space)
        for statement in self.body:
            execute(statement.text, self.space, self.local)

    def scope(self) -> dict[str, Any]:
        """The names in scope."""
        return self.space if self.local is None else {**self.space, **self.local}

    def read(self, text: str) -> Any:
        """The value of an expression that changes nothing."""
        return eval(text, self.space, self.local)

    def floats(self, where: Callable[[torch.Tensor], bool] = lambda t: True) -> list[str]:
        """The names of float tensors in scope."""
        return [
            n
            for n, t in self.scope().items()
            if isinstance(t, torch.Tensor) and t.dtype == torch.float32 and n not in self.attached | HIDDEN and where(t)
        ]

    def pick(self, where: Callable[[torch.Tensor], bool] = lambda t: True) -> str | None:
        """One of them; in a step its arguments and locals more often than not."""
        names = self.floats(where)
        if self.local is not None and self.rng.random() < 0.6:
            names = [n for n in names if n in self.local] or names
        return self.rng.choice(names) if names else None

    def view(self, x: str) -> tuple[str, str] | None:
        """A view of an expression, by kind; of the wanted kind more often than not."""
        kind = (self.wanted or "").removeprefix("through ").removeprefix("shared ")
        tensor = self.read(x)
        maker = dict(VIEW_MAKERS).get(kind)
        if maker is not None and self.rng.random() < 0.6:
            text = maker(self.rng, x, tensor)
            found = None if text is None else (kind, text)
        else:
            found = view(self.rng, x, tensor)
        if found is None or found[0] in {"detach", "data", "no-op"}:
            return found
        seen = self.read(found[1])
        if seen.shape == tensor.shape and seen.data_ptr() == tensor.data_ptr() and addresses(seen) == addresses(tensor):
            return "all of it", found[1]  # x[:], x.view_as(x), a slice from end to end: another tensor, nothing else
        return found

    def pick_shared(self) -> str | None:
        """One whose memory another name holds too."""
        at = Counter(t.untyped_storage().data_ptr() for t in {id(t): t for t in self.tensors().values()}.values())
        return self.pick(lambda t: at[t.untyped_storage().data_ptr()] > 1)

    def name(self, prefix: str) -> str:
        """A new name."""
        self.count += 1
        return f"{prefix}{self.count}"

    def tensors(self) -> dict[str, torch.Tensor]:
        """All tensors that a name leads to, gradients among them."""
        found: dict[str, torch.Tensor] = {}
        waiting = [(name, value) for name, value in self.scope().items() if name not in HIDDEN]
        for path, value in waiting:  # grows meanwhile
            if isinstance(value, torch.Tensor):
                found[path] = value
                if value.is_leaf and value.grad is not None:
                    found[f"{path}.grad"] = value.grad
            else:
                waiting += [(path + more, element) for more, element in parts(value)]
        return found

    # -- taking statements

    def take(self, candidate: statements.Candidate | None, *, is_call: bool = False) -> bool:
        """Add a statement if it is allowed and its values stay small. Whether it was taken."""
        if candidate is None or not candidate.features <= self.allowed:
            return False
        before = self.tensors()
        values = {n: t.detach().clone() for n, t in before.items()}
        history = {n: t.grad_fn for n, t in before.items() if n.partition(".")[0] not in (self.local or {})}
        outer = [self.space.get(n) for n in code(candidate.text).co_names] if self.local is not None else []
        entering = any(isinstance(t, torch.Tensor) and t.grad_fn is not None for t in outer)
        leaves = {n: t for n, t in before.items() if t.is_leaf and t.requires_grad}
        used = self.leaves_behind(before)
        versions = {n: t._version for n, t in before.items()}
        gradients = {n: t for n, t in before.items() if n.endswith(".grad")}
        self.walked_again = self.overlaps.found = self.saved.changed = False
        with self.overlaps, self.saved, AsHere():
            error = execute(candidate.text, self.space, self.local)
        seen = {"second backward"} if self.walked_again else set[str]()
        seen |= set(candidate.features) | ({"history enters step"} if entering else set())
        if error is None:
            try:
                after = self.tensors()
                histories = {n: t.grad_fn for n, t in after.items()}
            except RuntimeError:  # a view made in no_grad of what was changed since: PyTorch does not even say is_leaf
                self.rebuild()
                return False
            seen |= self.shared_writes(before, after, values, versions)
            if any(
                id(t) in used and not (t.requires_grad and t._version == versions[n] and torch.equal(t, values[n]))
                for n, t in leaves.items()
            ):
                seen.add("leaf changed after use")
            if any(
                id(t) in used and t._version == versions[n] and not torch.equal(t, values[n]) for n, t in leaves.items()
            ):
                seen.add(
                    "leaf changed through data after use"
                )  # PyTorch takes the new value, silently: docs/from-pytorch.md
            if (is_call or self.local is not None) and any(
                made is not history.get(n)
                for n, made in histories.items()
                if n in history or (n.endswith(".grad") and n.partition(".")[0] not in (self.local or {}))
            ):
                seen.add("history leaves step")
            if self.step is not None and not is_call:
                seen |= self.between_calls(before, after, values, gradients)
        elif candidate.may_fail and self.local is None and not seen & {"refused shapes", "refused view"}:
            seen.add(next((f for text, f in REFUSALS.items() if text in str(error)), "refused otherwise"))
        if (
            self.overlaps.found
            or self.saved.changed
            or (error is None and self.has_expanded_gradient(candidate.defines))
            or (error is not None and not (candidate.may_fail and self.local is None))
            or not (seen <= self.allowed and self.small())
        ):
            self.rebuild()
            return False
        kinds = self.kinds_of(candidate) if error is None else {}
        look = self.rng.random() < self.look
        results = tuple(n for n in candidate.defines if n in self.attached)
        self.into.append(Statement(candidate.text, frozenset(seen), look, results))
        self.kinds.update(kinds)
        return True

    def has_expanded_gradient(self, defines: tuple[str, ...]) -> bool:
        """Whether PyTorch gives a gradient in memory of one number, expanded: a write to one of its elements is one to all."""
        gradients = [t for n, t in self.tensors().items() if n.endswith(".grad") or (n in defines and n[0] == "d")]
        return any(len(set(at := addresses(t))) < len(at) for t in gradients)

    def kinds_of(self, candidate: statements.Candidate) -> dict[str, tuple[str, ...]]:
        """Of the names that a candidate defines: the views that led there, if it is a view."""
        found = {}
        for name in candidate.defines:
            tensor = self.scope().get(name)
            if not isinstance(tensor, torch.Tensor):
                found[name] = candidate.kinds
            else:
                at = tensor.untyped_storage().data_ptr()
                shares = any(
                    t is not tensor and t.untyped_storage().data_ptr() == at
                    for n, t in self.tensors().items()
                    if n != name
                )
                found[name] = candidate.kinds if shares else ()
        return found

    def shared_writes(
        self,
        before: dict[str, torch.Tensor],
        after: dict[str, torch.Tensor],
        values: dict[str, torch.Tensor],
        versions: dict[str, int],
    ) -> set[str]:
        """The kinds of views through which a change shows elsewhere: names that hold one memory and changed together."""
        groups: dict[int, set[str]] = {}
        for path, tensor in before.items():
            is_changed = tensor._version != versions[path] or not torch.equal(values[path], tensor.detach())
            if after.get(path) is tensor and is_changed:  # a write of the same values counts: another call has others
                groups.setdefault(tensor.untyped_storage().data_ptr(), set()).add(path)
        seen: set[str] = set()
        for group in groups.values():
            if len({id(before[p]) for p in group}) > 1:
                names = {re.split(r"[.\[]", p)[0] for p in group if not p.endswith(".grad")}
                seen |= {f"shared {kind}" for name in names for kind in self.kinds.get(name, ())}
        return seen

    def leaves_behind(self, tensors: dict[str, torch.Tensor]) -> set[int]:
        """The leaves that gradients of named tensors would go to."""
        waiting = [t.grad_fn for t in tensors.values() if t.grad_fn is not None]
        nodes, found = set[int](), set[int]()
        while waiting:
            node = waiting.pop()
            if id(node) not in nodes:
                nodes.add(id(node))
                if type(node).__name__ == "AccumulateGrad":
                    found.add(id(node.variable))  # type: ignore[attr-defined]
                waiting += [n for n, _ in node.next_functions if n is not None]
        return found

    def between_calls(
        self,
        before: dict[str, torch.Tensor],
        after: dict[str, torch.Tensor],
        values: dict[str, torch.Tensor],
        gradients: dict[str, torch.Tensor],
    ) -> set[str]:
        """What a statement changes of what the step uses."""
        assert self.step is not None
        seen: set[str] = set()
        now = {n: t for n, t in after.items() if n.endswith(".grad")}
        if now.keys() != gradients.keys() or any(
            now[n] is not t or not torch.equal(values[n], t) for n, t in gradients.items()
        ):
            seen.add("gradient changed between calls")
        captured = self.step.captured()
        for name, tensor in before.items():
            if name.partition(".")[0] in captured and not torch.equal(values[name], tensor.detach()):
                seen.add("capture written between calls")
        return seen

    def small(self) -> bool:
        """Whether all values can be read, are small, exact and finite."""
        try:
            tensors = self.tensors()
        except RuntimeError:  # an error within a step left a view that PyTorch does not let anyone ask
            return False
        for tensor in tensors.values():
            if tensor.dtype == torch.float32 and tensor.numel():
                scaled = tensor.detach() * FINEST
                if not bool((scaled.abs() <= LARGEST * FINEST).all()) or not torch.equal(scaled, scaled.round()):
                    return False
        return True

    # -- the whole

    def draw(self, makers: list[tuple[int, Callable[[Builder], Any]]], count: int) -> None:
        """Take `count` statements drawn by weight, or fewer where too many are refused."""
        weights = [w for w, _ in makers]
        for _ in range(count * 6):
            if count == 0:
                return
            (_, maker), *_ = self.rng.choices(makers, weights)
            if self.wanted in statements.FOCUS and self.rng.random() < 0.4:
                maker = statements.FOCUS[self.wanted]
            count -= self.take(maker(self))

    def build(self) -> Program:
        """The program."""
        with warnings.catch_warnings(), self.watching_backward():
            warnings.simplefilter("ignore")  # else a program would depend on what the process does with warnings
            return self._build()

    @contextmanager
    def watching_backward(self) -> Iterator[None]:
        """Note which backward passes go through a graph again."""
        backward, grad = torch.Tensor.backward, torch.autograd.grad

        def noted_backward(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> None:
            self.walk([tensor])
            backward(tensor, *args, **kwargs)

        def noted_grad(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            self.walk([outputs] if isinstance(outputs, torch.Tensor) else outputs)
            return grad(outputs, *args, **kwargs)

        with (
            mock.patch.object(torch.Tensor, "backward", noted_backward),
            mock.patch.object(torch.autograd, "grad", noted_grad),
        ):
            yield

    def walk(self, outputs: Sequence[torch.Tensor]) -> None:
        """Note the nodes behind tensors, but for the leaves', and whether one was noted before."""
        waiting = [t.grad_fn for t in outputs if t.grad_fn is not None]
        found: dict[int, Any] = {}
        while waiting:
            node = waiting.pop()
            if id(node) not in found and type(node).__name__ != "AccumulateGrad":
                found[id(node)] = node
                waiting += [n for n, _ in node.next_functions if n is not None]
        self.walked_again |= bool(found.keys() & self.walked.keys())
        self.walked.update(found)

    def _build(self) -> Program:
        rng = self.rng
        has_step = rng.random() < 0.65 and "step" in self.allowed
        for _ in range(2):
            self.take(statements.new_tensor(self))
        self.take(statements.new_leaf(self))
        self.draw(statements.SETUP, rng.randrange(1, 5))
        if not has_step:
            self.draw(statements.SCHEDULE, rng.randrange(4, 12))
            return Program((), looked_at_the_end(self.setup))
        self.write_step()
        for _ in range(rng.randrange(3, 9)):
            if rng.random() < 0.5:
                self.take(statements.call(self), is_call=True)
            else:
                self.draw(statements.SCHEDULE + statements.between(self), 1)
        self.take(statements.call(self), is_call=True)
        return Program(tuple(self.setup), looked_at_the_end(self.schedule), self.step)

    def write_step(self) -> None:
        """The step and its first call."""
        rng = self.rng
        for state in statements.python_states(self):
            if state.setup is not None:
                self.take(statements.Candidate(state.setup, frozenset({state.feature})))
            else:
                self.cell = state.first
            self.states.append(state)
        self.calls = [c for c in statements.parameters(self) if c is not None]
        self.local = {}
        self.bind()
        self.into = self.body
        makers = statements.BODY + statements.reads(self)
        self.draw(makers, rng.randrange(1, 5))
        for state in self.states:
            self.take(statements.state_in_body(self, state))
        if rng.random() < 0.6:
            for candidate in statements.training(self):
                self.take(candidate(self))
        self.draw(makers, rng.randrange(0, 3))
        returned = statements.returned(self)
        self.local = None
        self.step = Step(tuple(f"x{i}" for i in range(len(self.calls))), tuple(self.body), returned, self.cell)
        self.into = self.schedule
        self.rebuild()
        self.take(statements.call(self, is_first=True), is_call=True)


def looked_at_the_end(statements: list[Statement]) -> tuple[Statement, ...]:
    """The statements, all values read after the last."""
    return (*statements[:-1], *(replace(s, look=True) for s in statements[-1:]))


@lru_cache(maxsize=200)  # several modes ask for the same in a row
def generate(seed: int, allowed: frozenset[str]) -> Program:
    """The program of a number, in the part of the language that is allowed."""
    program = Builder(seed, allowed).build()
    return Program(program.setup, program.schedule, program.step, seed)
