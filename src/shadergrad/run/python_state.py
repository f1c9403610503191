"""Python state of a compiled step: what its function reads and changes outside of tensors.

While a function is captured, every chain of names, attributes and items that the user's code loads (reads.py) is looked
up just before it runs, in places that existed before the capture (places.py). What lay there becomes a guard: a call for
which it is something else captures anew. What the function left in places becomes an effect: each run does it again,
with the tensors of that run. A tensor that a place held before and that the function puts another one into is an input
of the step, read from there at each call.

Only the user's code is followed, not the library, the standard library and NumPy, and only what chains lead to: a value
that a function of C hands out (getattr, vars) is not seen. A tensor that ends up anywhere else is refused.
"""

from __future__ import annotations

import builtins
import os
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import (
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from ..cpython import (
    InstructionTrace,
    codes_within,
    collect_cycles,
    functions_with,
    holders_of,
    is_made_by_class_statement,
    variable,
)
from ..errors import CompileError
from ..graph.node import Node
from ..symbolic_sizes import Varying
from ..tensor import Tensor
from . import tracing
from .places import (
    MISSING,
    Slots,
    appended,
    contents,
    differences,
    elements,
    held,
    is_plain,
    keys_of,
    put,
    refill,
    same,
    same_contents,
    shown,
)
from .reads import CALL, STORE, TARGET, VALUE, Read, asks_which, reads_of, written
from .tracing import Trace
from .trees import exchange, leaves_of, tensors_in

LARGEST_WATCHED = (
    100_000  # items of a dict that are all looked at for changes; of what has more, those that the code names
)
NOT_READ = {list: {"append", "extend", "clear"}, deque: {"append", "extend", "clear"}, dict: {"clear", "update"}, set: {"add", "clear", "update"}}  # fmt: skip
PASSED = frozenset({"_unguarded"})  # of modules: not the user's

_ROOT = str(Path(__file__).parents[1])
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_BESIDE = Path(np.__file__).parents[1]
_OURS = tuple(f"{_BESIDE / name}{os.sep}" for name in ("numpy", "scipy", "wgpu", "cffi", "pycparser"))
MOST_CODES = 4096


class _Code(NamedTuple):
    """What is known of code: the chains of the user's, None where there are none; whether it may ask which object one is."""

    code: CodeType
    reads: dict[int, tuple[Read, ...]] | None
    asks_which: bool


_seen: dict[int, _Code] = {}


def is_users(filename: str) -> bool:
    """Whether a file is none of the library, what it calls itself, or the standard library."""
    if filename.startswith((_ROOT, "<frozen", *_OURS)):
        return False
    return not filename.startswith(_STANDARD) or "site-packages" in filename or "dist-packages" in filename


def _is_generated(code: CodeType, names: dict[str, Any]) -> bool:
    """Whether code without a file, such as the __init__ of a dataclass, is that of a module that is not the user's."""
    name = str(names.get("__name__", ""))
    file = getattr(sys.modules.get(name), "__file__", None)
    return code.co_filename == "<string>" and (
        name.startswith("namedtuple_") or (file is not None and not is_users(file))
    )


def _seen_in(code: CodeType, names: dict[str, Any]) -> _Code:
    """What is known of code."""
    known = _seen.get(id(code))
    if known is None:
        if len(_seen) >= MOST_CODES:
            _seen.clear()
        is_seen = is_users(code.co_filename) and not _is_generated(code, names)
        is_seen = is_seen and code.co_name != "<module>"  # an import: what it leaves in the new module stays there
        reads = (reads_of(code) or None) if is_seen else None
        known = _seen[id(code)] = _Code(code, reads, is_seen and asks_which(code))
    return known


def _attributes(value: Any) -> dict[str, Any] | None:
    """The dict of an object's attributes."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def _is_module(value: Any) -> bool:
    """Whether something is a network's module, whose own guard sees to its tables."""
    own = _attributes(value)
    return own is not None and "_parameters" in own and "_modules" in own


def _in_tables(owner: Any, name: str) -> Any:
    """The parameter, buffer or module of a network's module that has a name; MISSING where there is none."""
    own = _attributes(owner) if _is_module(owner) else None
    tables = () if own is None else (own["_parameters"], own["_buffers"], own["_modules"])
    return next((table[name] for table in tables if name in table), MISSING)


def _is_opaque(value: Any) -> bool:
    """Whether an object is the library's own, whose attributes are not for users to set."""
    return type(value).__module__.startswith("shadergrad.") and not _is_module(value)


def _is_users_class(kind: type) -> bool:
    """Whether a class is none of the library, the standard library or NumPy."""
    return is_made_by_class_statement(kind) and is_users(
        getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    )


class Watcher:
    """Looks up what a function reads while it runs, and finds what it changed.

    known: objects that existed before the capture, by id. before: what containers held when they were first met, by id;
    of namespaces only what was asked for. reads: places that the function's course depends on, with how they are
    written; whole: containers that it looked at as a whole; lengths: of which it asked how many elements they have.
    asks_which: whether it may have asked which tensor one is.
    """

    def __init__(self, function: Callable[..., Any], arguments: Any, trace: Trace) -> None:
        self.trace = trace
        self.known: dict[int, Any] = {}
        self.before: dict[int, tuple[Any, dict[Any, Any] | Any, str]] = {}
        self.partial: set[int] = set()
        self.reads: dict[tuple[int, Any], tuple[Any, Any, str]] = {}
        self.whole: dict[int, str] = {}
        self.lengths: dict[int, str] = {}
        self.asks_which = False
        self._alone: dict[int, Tensor] = {}  # tensors that shared no memory when they were first met
        self._functions: dict[int, list[FunctionType]] = {}
        self._inner: dict[int, tuple[CodeType, FrameType]] = {}  # codes within those that ran, with the frame around
        self._returned: tuple[FrameType | None, Any] = (None, None)  # the frame that called, and what it got
        self._waiting: tuple[FrameType, Any, int, str] | None = None  # a chain that goes on when a property has run
        self._replaced: set[tuple[int, Any]] = set()  # places whose tensors steps replace, though this one may not
        trace.on_place = self._on_place
        for _, leaf in leaves_of(arguments):
            if not isinstance(leaf, Tensor):
                self._know(leaf)
        self._know(function)

    def _on_place(self, container: Any, key: Any, path: str) -> None:
        self._replaced.add((id(container), key))
        self._at(container, key, path)

    # -- watching

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The function's result, watched; a debugger or a coverage tool that traces goes on."""
        try:
            return InstructionTrace(self._reads_in, self._look_up, self._on_return).run(function, args, kwargs)
        finally:
            self._inner.clear()
            self._returned, self._waiting = (None, None), None

    def _reads_in(self, frame: FrameType) -> dict[int, tuple[Read, ...]] | None:
        """The chains in the code of a frame that begins."""
        code = frame.f_code
        known = _seen.get(id(code)) or _seen_in(code, frame.f_globals)
        self.asks_which |= known.asks_which
        if known.reads is not None:
            self._inner.update({id(within): (code, frame) for within in codes_within(code)})
        return known.reads

    def _look_up(self, frame: FrameType, reads: tuple[Read, ...]) -> None:
        for read in reads:
            self._look(frame, read)

    def _look(self, frame: FrameType, read: Read) -> None:
        """Look up a chain before the code does."""
        name = path = read.name
        if read.root == "local":
            value = variable(frame, name, MISSING)
        elif read.root == "result":
            around, value = self._returned
            value, path = (value, "(...)") if around is frame else (MISSING, "")
        elif read.root == "global":
            if held(frame.f_globals, name) is MISSING and read.use > TARGET and hasattr(builtins, name):
                return
            value = self._at(frame.f_globals, name, path, read.use > TARGET or bool(read.steps), is_namespace=True)
        else:
            cell = self._cell(frame, frame.f_code, name)
            if cell is None:
                return
            value = self._at(cell, "", path, read.use > TARGET or bool(read.steps))
        self._follow(frame, value, read.steps, read.use, path)

    def _follow(self, frame: FrameType, value: Any, steps: Any, use: int, path: str) -> None:
        for k, (kind, key) in enumerate(steps):
            if not self._is_known(value):
                return
            kind, computed, _ = kind.partition(" at")
            if computed:
                key = self._key(frame, key)
            if kind == "attribute":
                if not isinstance(key, str):
                    return
                if self._is_property(value, key):  # its code is watched as it runs; then the chain goes on
                    self._waiting = frame, steps[k + 1 :], use, path + written((kind, key))
                    return
                value = self._attribute(value, key, path)
            else:
                value = self._item(value, key, path)
            path += written((kind, key))
        if self._is_known(value):
            self._end(value, use, path)

    def _on_return(self, frame: FrameType, value: Any) -> None:
        """The user's code gave something to what called it."""
        self._returned = frame.f_back, value
        if self._waiting is not None and self._waiting[0] is frame.f_back:
            waiting, self._waiting = self._waiting, None
            self._follow(waiting[0], value, *waiting[1:])

    def _is_property(self, owner: Any, name: str) -> bool:
        found = next((vars(c)[name] for c in type(owner).__mro__ if name in vars(c)), None)
        return isinstance(found, property)

    def _key(self, frame: FrameType, read: Read) -> Any:
        """What a variable that is an index holds; it is looked up as a chain of its own as well."""
        if read.root == "local" and not read.steps:
            return variable(frame, read.name, MISSING)
        if read.root == "global" and not read.steps:
            return held(frame.f_globals, read.name)
        value: Any = variable(frame, read.name, MISSING) if read.root != "global" else held(frame.f_globals, read.name)
        for kind, key in read.steps:
            own = _attributes(value) if kind == "attribute" else value
            value = held(own, key) if isinstance(own, dict | list) and kind != "item at" else MISSING
        return value

    def _is_known(self, value: Any) -> bool:
        """Whether an object existed before the capture, and may hold state."""
        if value is MISSING or is_plain(value) or isinstance(value, Tensor):
            return False
        return id(value) in self.known or isinstance(value, ModuleType | type) or _is_module(value)

    def _meet(self, value: Any) -> None:
        """What lay in a place before the capture."""
        self._alone.update({id(t): t for t in _tensors_of(value) if t._shared is None})
        self._know(value)

    def _know(self, value: Any) -> None:
        """An object that existed before the capture, and what of it existed too."""
        if is_plain(value) or isinstance(value, Tensor) or id(value) in self.known:
            return
        self.known[id(value)] = value
        if isinstance(value, FunctionType):
            self._functions.setdefault(id(value.__code__), []).append(value)
            for default in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
                self._know(default)
            if value.__closure__ and not is_users(value.__code__.co_filename):  # a wrapper of the library's
                for cell in value.__closure__:
                    self._know(held(cell, ""))
        elif isinstance(value, MethodType):
            self._know(value.__self__)
            self._know(value.__func__)
        elif isinstance(value, partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._know(part)
        elif isinstance(value, tuple):
            for element in value:
                self._know(element)

    def _open(self, container: Any, path: str, *, is_namespace: bool = False) -> Any:
        """What a container held when it was first met."""
        if id(container) not in self.before:
            is_namespace = is_namespace or (isinstance(container, dict) and len(container) > LARGEST_WATCHED)
            if is_namespace:
                self.partial.add(id(container))
            self.before[id(container)] = (container, {} if is_namespace else contents(container), path)
        return self.before[id(container)][1]

    def _at(self, container: Any, key: Any, path: str, is_read: bool = True, *, is_namespace: bool = False) -> Any:
        """What lies in a place; noted, if it is what lay there before."""
        before = self._open(container, path.rpartition(".")[0], is_namespace=is_namespace)
        now = held(container, key)
        if isinstance(before, dict):
            old = before.setdefault(key, now) if id(container) in self.partial else before.get(key, MISSING)
        else:
            old = before[key] if -len(before) <= key < len(before) else MISSING
        if now is old:
            if is_read:
                self.reads.setdefault((id(container), key), (container, key, path))
            self._meet(now)
        return now

    def _attribute(self, owner: Any, name: str, path: str) -> Any:
        """The attribute of a known object, without running any code."""
        path = f"{path}.{name}"
        if isinstance(owner, ModuleType):
            is_own = is_users(getattr(owner, "__file__", None) or "<frozen>")
            return self._at(owner.__dict__, name, path, is_namespace=True) if is_own else MISSING
        if isinstance(owner, list | deque | dict | set) and hasattr(type(owner), name):
            kind = next(k for k in NOT_READ if isinstance(owner, k))
            if name == "__len__":
                self.lengths.setdefault(id(owner), path.rpartition(".")[0])
            is_read = name not in NOT_READ[kind] and name != "__len__"
            self._end(owner, VALUE if is_read else CALL, path.rpartition(".")[0])
            return MISSING
        if isinstance(owner, type):
            return self._of_class(owner, name, path)
        if isinstance(owner, tuple) and name in getattr(owner, "_fields", ()):
            return getattr(owner, name)
        if isinstance(type(owner).__getattribute__, FunctionType):
            return MISSING
        own = _attributes(owner)
        if name == "__dict__" and own is not None:
            self._know(own)
            return own
        found = next((vars(c)[name] for c in type(owner).__mro__ if name in vars(c)), MISSING)
        if isinstance(found, MemberDescriptorType):
            return self._at(self._slots(owner), name, path)
        if hasattr(type(found), "__set__") or own is None:  # a property's code is watched as it runs
            return MISSING
        if name in own or found is not MISSING:
            value = self._at(own, name, path, is_namespace=_is_opaque(owner))
            return self._of_class(type(owner), name, path) if value is MISSING else value
        value = _in_tables(owner, name)
        if value is MISSING:
            self._at(own, name, path, is_namespace=_is_opaque(owner))
        return value

    def _slots(self, owner: Any) -> Slots:
        """The one Slots of an object."""
        slots = self.known.get(-id(owner))
        if slots is None:
            slots = self.known[-id(owner)] = Slots(owner)
        return slots

    def _of_class(self, kind: type, name: str, path: str) -> Any:
        for c in kind.__mro__:
            if not _is_users_class(c):
                return MISSING
            found = self._at(vars(c), name, path, is_namespace=True)
            if found is not MISSING:
                return found
        return MISSING

    def _item(self, owner: Any, key: Any, path: str) -> Any:
        if isinstance(owner, tuple):
            return owner[key] if isinstance(key, int) and -len(owner) <= key < len(owner) else MISSING
        if isinstance(owner, dict) and type(owner).__getitem__ in (dict.__getitem__,):
            try:
                self._open(owner, path)
                return self._at(owner, key, f"{path}[{key!r}]")
            except TypeError:
                return MISSING
        if isinstance(owner, list | deque):
            if isinstance(key, int):
                self._open(owner, path)
                if key < 0:  # from the end, which may lie elsewhere in the next call
                    self.lengths.setdefault(id(owner), path)
                return self._at(owner, key + len(owner) if key < 0 else key, f"{path}[{key!r}]")
            self._end(owner, VALUE, path)
        elif _is_module(owner) and isinstance(key, int):
            below = list(owner.__dict__["_modules"].values())
            return below[key] if -len(below) <= key < len(below) else MISSING
        return MISSING

    def _end(self, value: Any, use: int, path: str) -> None:
        """Where a chain ends: what may be changed there, and whether the whole of it is read."""
        if isinstance(value, list | dict | set | deque):
            self._open(value, path)
            if use == VALUE:
                self.whole.setdefault(id(value), path)
            if use > STORE:
                for element in elements(self.before[id(value)][1]):
                    self._meet(element)
        elif not isinstance(value, type | ModuleType | FunctionType | tuple) and not _is_opaque(value):
            own = _attributes(value)
            if own is not None:
                self._open(own, path)
            if any(isinstance(m, MemberDescriptorType) for c in type(value).__mro__[:-1] for m in vars(c).values()):
                self._open(self._slots(value), path)

    def _cell(self, frame: FrameType, code: CodeType, name: str) -> CellType | None:
        """The variable of a function around, if it existed before the capture."""
        if name == "__class__":
            return None
        functions = self._functions.get(id(code))
        if functions is None:
            around = self._inner.get(id(code))
            if around is not None:  # made while capturing: the variable is the outer function's, or one around that
                outer, outer_frame = around
                return self._cell(outer_frame, outer, name) if name in outer.co_freevars else None
            functions = functions_with(code)
            self._functions[id(code)] = functions
        for function in functions:
            cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))
            if len(functions) == 1 or all(held(c, "") is variable(frame, n, MISSING) for n, c in cells.items()):
                return cells.get(name)
        return None

    # -- what came of it

    def undo(self) -> None:
        """Put back what places held before the function ran."""
        for container, before, _ in self.before.values():
            if isinstance(before, dict):
                for key, _ in list(self._differences(container, before)):
                    put(container, key, before.get(key, MISSING))
                if type(container) is dict and id(container) not in self.partial and list(container) != list(before):
                    refilled = {k: container[k] for k in before}
                    container.clear()
                    container.update(refilled)
            elif not _unchanged(container, before):
                refill(container, before)

    def _differences(self, container: Any, before: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
        if isinstance(container, MappingProxyType):
            return
        if id(container) in self.partial:
            found = ((k, held(container, k)) for k in before)
            yield from ((k, v) for k, v in found if v is not before[k])
        else:
            passed = PASSED if isinstance(container, dict) and "_parameters" in container else ()
            yield from ((k, v) for k, v in differences(container, before) if k not in passed)

    def effects(self) -> list[Effect]:
        """What the function left in places, before that is undone."""
        for kind in {type(module): None for module in self.trace.modules.values()}:
            self._of_class(kind, "forward", f"{kind.__name__}.forward")  # which the library looks up
        found: list[Effect] = []
        for container, before, path in self.before.values():
            if isinstance(before, dict):
                for key, new in self._differences(container, before):
                    found.append(Effect(container, key, new, self._name(container, key, path), False))
            elif isinstance(container, list) and len(container) == len(before):
                for k, new in enumerate(container):
                    if new is not before[k]:
                        found.append(Effect(container, k, new, f"{path}[{k}]", False))
            elif not _unchanged(container, before):
                found.append(self._refilled(container, before, path))
        for effect in found:
            effect.value = value = exchange(effect.value, Varying, int)
            effect.is_fresh = not (is_plain(value) or value is MISSING or id(value) in self.known)
            if effect.is_fresh:
                effect.value = self._with_known_kept(value)
        return found

    def _refilled(self, container: Any, before: Any, path: str) -> Effect:
        """The effect on a list, a deque or a set that has other elements."""
        if isinstance(container, list | deque):
            added = appended(before, list(container), getattr(container, "maxlen", None))
            if added is not None:
                return Effect(container, MISSING, added, path, True)
        self.whole.setdefault(id(container), path)  # what comes of it depends on all that was in it
        for element in before:
            self._know(element)
        return Effect(container, MISSING, contents(container), path, False)

    def _with_known_kept(self, value: Any) -> Any:
        """A container that the function made, in which those that existed before are not to be copied."""
        if id(value) in self.known:
            return _Same(value)
        if type(value) in (list, tuple):
            return type(value)(map(self._with_known_kept, value))
        if type(value) is dict:
            return {k: self._with_known_kept(v) for k, v in value.items()}
        return value

    def _name(self, container: Any, key: Any, path: str) -> str:
        if isinstance(container, CellType) or id(container) in self.partial:
            known = self.reads.get((id(container), key))
            return known[2] if known else f"{path}.{key}" if path else str(key)
        is_item = isinstance(container, dict) and any(c is container for c in self.known.values())
        return f"{path}[{key!r}]" if is_item else f"{path}.{key}"

    def state(self, effects: list[Effect], result: Any, given: list[Tensor]) -> PythonState:
        """Guards and effects of the step. After undo. given: the arguments that the function had as they are."""
        state = PythonState(effects, self.asks_which)
        state.keys = [
            k for _, items, _ in self.before.values() if isinstance(items, dict) for k in items if isinstance(k, Tensor)
        ]
        state.asks_which |= bool(state.keys)  # which are found by what they are
        for container_id, path in self.whole.items():
            container, before, _ = self.before[container_id]
            own = [e for e in effects if e.container is container]
            if own and all(e.key is not MISSING for e in own) and keys_of(container) == keys_of(before):
                state.lengths.append((container, keys_of(before), path))  # element by element: some may be read anew
                for key in before if isinstance(before, dict) else range(len(before)):
                    self.reads.setdefault((container_id, key), (container, key, f"{path}[{key!r}]"))
            else:
                state.whole.append((container, before, path))
        for container_id, path in self.lengths.items():
            container, before, _ = self.before[container_id]
            state.lengths.append((container, keys_of(before), path))
        tensors: dict[int, int] = {}  # how many places hold each
        for container, key, _ in self.reads.values():
            for t in _tensors_of(held(container, key)):
                tensors[id(t)] = tensors.get(id(t), 0) + 1
        state.tensors = frozenset(tensors)
        kept = [t for _, t in tensors_in((result, [e.value for e in effects if e.value is not MISSING]))]
        stays = {id(t) for t in kept} | {id(t._shared.storage) for t in kept if t._shared is not None}
        stays |= set(map(id, given))
        rewritten = {(id(e.container), e.key): e for e in effects if e.key is not MISSING}
        for (container_id, key), (container, _, path) in self.reads.items():
            value = held(container, key)
            effect = rewritten.get((container_id, key))
            is_replaced = effect is not None or (container_id, key) in self._replaced
            inside = _tensors_of(value) if is_replaced else []
            is_state = bool(inside) and (effect is None or any(True for _ in tensors_in(effect.value)))
            if is_state and all(tensors[id(t)] == 1 and self._may_be_read_anew(t, stays) for t in inside):
                state.slots += [PlaceSlot(container, key, k, t, path) for k, t in enumerate(inside)]
                state.shapes.append((container, key, _form(value)))
            elif not self._is_guarded_by_its_module(container, key, value):
                state.places.append((container, key, value, path))
        state.settle()
        return state

    def _may_be_read_anew(self, t: Tensor, stays: set[int]) -> bool:
        """Whether the place of a tensor can be read at each call instead of the tensor. stays: the ids of tensors, and of
        what they share, that the function hands out or keeps elsewhere."""
        node, ids = t._node, {id(t), id(t._cell())}
        if id(t) not in self._alone or t.requires_grad or node.storage is None or node.owner is None:
            return False
        if id(t) in self.trace.grad_reads or id(t) in self.trace.grads:
            return False  # the slot is that of one tensor
        owner = node.owner()
        is_its_own = owner is t or (owner is not None and t._cell() is owner and owner.tensor() is t)
        return is_its_own and not ids & (stays | self.trace.before.keys())

    def _is_guarded_by_its_module(self, container: Any, key: Any, value: Any) -> bool:
        if not (isinstance(container, dict) and "_parameters" in container and "_modules" in container):
            return False
        is_seen = any(
            name == "_settings" and owner.__dict__ is container for owner, name, _ in self.trace.attributes.values()
        )
        is_simple = value is None or isinstance(value, bool | int | float | str)
        return is_seen and is_simple and key not in container.get("_unguarded", ())


def _unchanged(container: Any, before: Any) -> bool:
    if isinstance(container, set):
        return container == before
    return len(container) == len(before) and all(a is b for a, b in zip(container, before, strict=True))


def _tensors_of(value: Any) -> list[Tensor]:
    """A tensor, or those in a tuple: what is replaced as a whole."""
    return [t for _, t in tensors_in(value)] if isinstance(value, Tensor | tuple) else []


def _form(value: Any) -> Any:
    """What another value must agree in to take the place of one with tensors."""
    return exchange(value, Tensor, lambda t: (t._node.shape, t._node.dtype, t._node.device))


class _Same:
    """A container of the outside within one that is made anew."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Effect:
    """What a run leaves in a place: a value, nothing (MISSING), or at the end of a list what is added to it.

    is_fresh: the value is another one at each call, made by exchanging its tensors.
    """

    def __init__(self, container: Any, key: Any, value: Any, path: str, adds: bool) -> None:
        self.container, self.key, self.value, self.path, self.adds = container, key, value, path, adds
        self.is_fresh = False

    def do(self, value: Any) -> None:
        if self.adds:
            self.container.extend(value)
        elif self.key is MISSING:
            refill(self.container, value)
        else:
            put(self.container, self.key, value)


class PlaceSlot:
    """A tensor in a place, whichever is there now. number: among the tensors in it."""

    def __init__(self, container: Any, key: Any, number: int, tensor: Tensor, path: str) -> None:
        self.container, self.key, self.number, self.path = container, key, number, path
        self.first: Tensor | None = tensor  # until the capture is over

    @property
    def tensor(self) -> Tensor:
        value = held(self.container, self.key)
        return value if isinstance(value, Tensor) else [t for _, t in tensors_in(value)][self.number]

    @property
    def _node(self) -> Node:
        return self.tensor._node


class PythonState:
    """What a captured function read and leaves behind, besides tensors.

    places: (container, key, value, how it is written); whole: (container, its items, how it is written), lengths:
    (container, its keys or their number, how it is written): must be the same for the capture to hold. slots, shapes: tensors that are read at each call, and what they must agree in.
    effects: what each run does; which of them get values anew: `fresh`. tensors: ids of those that it found in places, while the
    capture lasts. asks_which: whether it may have asked which tensor one is. keys: tensors that are keys of dicts which it met.
    """

    def __init__(self, effects: list[Effect], asks_which: bool) -> None:
        self.asks_which = asks_which
        self.keys: list[Tensor] = []
        self.places: list[tuple[Any, Any, Any, str]] = []
        self.whole: list[tuple[Any, Any, str]] = []
        self.lengths: list[tuple[Any, Any, str]] = []
        self.slots: list[PlaceSlot] = []
        self.shapes: list[tuple[Any, Any, Any]] = []
        self.tensors: frozenset[int] = frozenset()
        self.effects = effects
        self.fresh = [e for e in effects if e.is_fresh]
        self._dicts: list[tuple[Any, Any, Any]] = []
        self._cells: list[tuple[CellType, Any]] = []
        self._others: list[tuple[Any, Any, Any]] = []
        self._wakes = any(
            "_parameters" in e.container and e.key == "_training" for e in effects if isinstance(e.container, dict)
        )

    def settle(self) -> None:
        """Sort the guards by how they are looked up."""
        for container, key, value, _ in self.places:
            if isinstance(container, dict | MappingProxyType) and type(container).get in (
                dict.get,
                MappingProxyType.get,
            ):
                self._dicts.append((container.get, key, value))
            elif isinstance(container, CellType) and value is not MISSING:
                self._cells.append((container, value))
            else:
                self._others.append((container, key, value))

    def forget(self) -> None:
        """Let go of the tensors of the capture."""
        for effect in self.fresh:
            effect.value = None
        for slot in self.slots:
            slot.first = None

    def met(self) -> list[Tensor]:
        """The tensors that it found in places which must stay as they are, and as keys."""
        whole = (v for _, items, _ in self.whole for v in (items.values() if isinstance(items, dict) else items))
        found = [t for v in (*(value for _, _, value, _ in self.places), *whole) for t in _tensors_of(v)]
        return [*found, *self.keys]

    def met_anew(self, tensors: list[Tensor]) -> set[int]:
        """Which of some tensors, by number, are in places that are read at each call, where the function may ask."""
        if not (self.asks_which and self.slots):
            return set()
        found = {id(slot.tensor) for slot in self.slots}
        return {k for k, t in enumerate(tensors) if id(t) in found}

    @property
    def is_empty(self) -> bool:
        """Whether the function found nothing of Python that could be otherwise."""
        return not (self.places or self.whole or self.lengths or self.slots)

    def holds(self, changed: list[Tensor], arguments: list[Tensor]) -> bool:
        """Whether Python is as the function found it. changed: tensors that it changes."""
        for get, key, value in self._dicts:
            found = get(key, MISSING)
            if found is not value and not same(found, value):
                return False
        for cell, value in self._cells:
            try:
                found = cell.cell_contents
            except ValueError:
                return False
            if found is not value and not same(found, value):
                return False
        for container, key, value in self._others:
            if not same(held(container, key), value):
                return False
        for container, items, _ in self.whole:
            if not same_contents(container, items):
                return False
        for container, keys, _ in self.lengths:
            if keys_of(container) != keys:
                return False
        return not self.slots or (self._slots_hold(changed) and not self.met_anew(arguments))

    def _slots_hold(self, changed: list[Tensor]) -> bool:
        for container, key, form in self.shapes:
            if _form(held(container, key)) != form:
                return False
        found = [slot.tensor for slot in self.slots]
        if len({id(t) for t in found}) < len(found):
            return False
        return not any(t._shared is not None or t.requires_grad or any(t is c for c in changed) for t in found)

    def broken(self) -> str:
        """What is not as the function found it, in words; "" where all is."""
        own = {(id(e.container), e.key) for e in self.effects}
        for container, key, value, path in self.places:
            found = held(container, key)
            if not same(found, value):
                words = f"{path} went from {shown(value)} to {shown(found)}"
                is_own = (id(container), key) in own
                return (
                    f"{words} (the step changes it itself: keep it in a tensor, or outside the step)"
                    if is_own
                    else words
                )
        for container, items, path in self.whole:
            if not same_contents(container, items):
                same_size = len(container) == len(items)
                return (
                    f"{path} has other elements"
                    if same_size
                    else f"{path} went from {len(items)} to {len(container)} elements"
                )
        for container, keys, path in self.lengths:
            if keys_of(container) != keys:
                return f"{path} has other keys, or another number of elements"
        for container, key, form in self.shapes:
            if _form(held(container, key)) != form:
                slot = next(s for s in self.slots if s.container is container and s.key == key)
                return f"the tensor in {slot.path} has another shape, dtype or device"
        return ""

    def values(self) -> list[Any]:
        """What places get anew at each run, with tensors of the capture."""
        return [e.value for e in self.fresh]

    def do(self, values: list[Any]) -> None:
        """Leave in places what the function left there. values: of `fresh`."""
        new = iter(values)
        for effect in self.effects:
            effect.do(exchange(next(new), _Same, lambda s: s.value) if effect.is_fresh else effect.value)
        if self._wakes:
            tracing.changes += 1


def refuse_kept(watch: Trace, ours: list[Any]) -> None:
    """Raise CompileError where something that is no place still holds a tensor of a capture that is over.

    ours: those that the step itself keeps.
    """
    watch.forget()
    ours = [*ours, *(t._grad for t in ours if t._grad is not None)]
    ids = {id(t) for t in ours} | {id(t._shared.storage) for t in ours if t._shared is not None}
    if not _kept(watch, ids):
        return
    collect_cycles()
    kept = _kept(watch, ids)
    if not kept:
        return
    where = holders_of(kept[0], kept)
    what = f"a tensor of shape {tuple(kept[0]._node.shape)} that the function made"
    raise CompileError(
        f"{what} is kept after it by {' and '.join(sorted(where)) or 'something'} that a compiled step cannot follow: it would "
        "stay that of the first call. Hint: return the tensor, or store it in an attribute, a list or a dict."
    )


def _kept(watch: Trace, ours: set[int]) -> list[Any]:
    return [t for t in watch.made.values() if id(t) not in ours and t._node.storage is None]
