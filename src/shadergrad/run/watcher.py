"""Looks up the values that a function reads while it is captured.

Every chain of names, attributes and items that the user's code loads (reads.py) is looked up just before it is executed, in places
(places.py) that existed before the capture (snapshot.py). Only chains are followed: values that C functions return
(getattr, vars) are not seen.
"""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable
from types import CellType, CodeType, FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from ..cpython import InstructionTrace, codes_within, functions_with, variable
from ..drive.tracing import Trace, current
from ..tensor import Tensor
from .attributes import attributes_of, in_tables, is_network, is_opaque
from .places import MISSING, elements, held, is_plain
from .reads import CALL, STORE, TARGET, VALUE, WHICH, Read, written
from .snapshot import Snapshot
from .trees import leaves_of
from .users_code import is_users, is_users_class, known_of, passed

NOT_READ = {list: {"append", "extend", "clear"}, deque: {"append", "extend", "clear"}, dict: {"clear", "update"}, set: {"add", "clear", "update"}}  # fmt: skip


class Watcher:
    """Follows a function while it runs, and records its reads.

    snapshot: where they are recorded. asks_which: whether the function may have compared identities of tensors. replaced: places
    whose tensors steps replace, though this one may not.
    """

    def __init__(self, function: Callable[..., Any], arguments: Any, trace: Trace) -> None:
        self.trace = trace
        self.snapshot = Snapshot()
        self.asks_which = False
        self.replaced: set[tuple[int, Any]] = set()
        self._inner: dict[int, tuple[CodeType, FrameType]] = {}  # nested code objects, with the frame of the outer one
        self._returned: tuple[FrameType | None, Any] = (None, None)  # the frame that called, and the returned value
        self._waiting: tuple[FrameType, Any, int, str] | None = None  # a chain that continues after a property has run
        trace.on_place = self._on_place
        self._arguments: set[int] = set()  # the tensors among them
        for _, leaf in leaves_of(arguments):
            if isinstance(leaf, Tensor):
                self._arguments.add(id(leaf))
            else:
                self.snapshot.know(leaf)
        self.snapshot.know(function)

    def _on_place(self, container: Any, key: Any, path: str) -> None:
        self.replaced.add((id(container), key))
        self.snapshot.at(container, key, path)

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run the function under observation and return its result; tracing debuggers and coverage tools continue to work."""
        try:
            trace = InstructionTrace(self._reads_in, self._look_up, self._on_return, passed)
            result = trace.run(function, args, kwargs)
            for kind in {type(module): None for module in self.trace.modules.values()}:
                self._of_class(kind, "forward", f"{kind.__name__}.forward")  # the library looks it up
            return result
        finally:
            self._inner.clear()
            self._returned, self._waiting = (None, None), None

    def _reads_in(self, frame: FrameType) -> dict[int, tuple[Read, ...]] | None:
        """The chains in the code of a frame that starts to run; none where the library works for itself, as when a device imports its compiler."""
        if current.trace is None:
            return None
        code = frame.f_code
        known = known_of(code, frame.f_globals)
        self.asks_which |= known.asks_which
        if known.reads is not None:
            self._inner.update({id(within): (code, frame) for within in codes_within(code)})
        return known.reads

    def _look_up(self, frame: FrameType, reads: tuple[Read, ...]) -> None:
        for read in reads:
            self._look(frame, read)

    def _look(self, frame: FrameType, read: Read) -> None:
        """Look up a chain just before the code does."""
        name = path = read.name
        if read.root == "local":
            value = variable(frame, name, MISSING)
        elif read.root == "result":
            around, value = self._returned
            value, path = (value, "(...)") if around is frame else (MISSING, "")
        elif read.root == "global":
            if held(frame.f_globals, name) is MISSING and read.use > TARGET and hasattr(builtins, name):
                return
            value = self.snapshot.at(
                frame.f_globals, name, path, read.use > TARGET or bool(read.steps), is_namespace=True
            )
        else:
            cell = self._cell(frame, frame.f_code, name)
            if cell is None:
                return
            value = self.snapshot.at(cell, "", path, read.use > TARGET or bool(read.steps))
        self._follow(frame, value, read.steps, read.use, path)

    def _follow(self, frame: FrameType, value: Any, steps: Any, use: int, path: str) -> None:
        for k, (kind, key) in enumerate(steps):
            is_tensor = self._is_tensor_of_before(value)
            if not (is_tensor or self.snapshot.is_known(value)):
                return
            kind, computed, _ = kind.partition(" at")
            if computed:
                key = self._key(frame, key)
            if is_tensor:
                if kind != "attribute" or not isinstance(key, str) or hasattr(type(value), key):
                    return
                path += written((kind, key))
                value = self.snapshot.at(value.__dict__, key, path)
                continue
            if kind == "attribute":
                if not isinstance(key, str):
                    return
                if self._is_property(value, key):  # its code is watched while it runs; then the chain continues
                    self._waiting = frame, steps[k + 1 :], use, path + written((kind, key))
                    return
                value = self._attribute(value, key, path)
            else:
                value = self._item(value, key, path)
            path += written((kind, key))
        if use == WHICH and (isinstance(value, tuple) or is_plain(value)):
            self.snapshot.asked[id(value)] = value
        if self.snapshot.is_known(value):
            self._end(value, use, path)
        elif use == STORE and self._is_tensor_of_before(value):
            self.snapshot.open(value.__dict__, path)

    def _is_tensor_of_before(self, value: Any) -> bool:
        """Whether a tensor may have custom attributes from before the capture; those of arguments are part of the signature."""
        return isinstance(value, Tensor) and value._serial <= self.trace.began and id(value) not in self._arguments

    def _on_return(self, caller: FrameType | None, value: Any) -> None:
        """Called when user code returns a value to its caller."""
        self._returned = caller, value
        if self._waiting is not None and self._waiting[0] is caller:
            waiting, self._waiting = self._waiting, None
            self._follow(waiting[0], value, *waiting[1:])

    def _is_property(self, owner: Any, name: str) -> bool:
        found = next((vars(c)[name] for c in type(owner).__mro__ if name in vars(c)), None)
        return isinstance(found, property)

    def _key(self, frame: FrameType, read: Read) -> Any:
        """The value of a variable that is an index; the variable is also looked up as a separate chain."""
        if read.root == "local" and not read.steps:
            return variable(frame, read.name, MISSING)
        if read.root == "global" and not read.steps:
            return held(frame.f_globals, read.name)
        value: Any = variable(frame, read.name, MISSING) if read.root != "global" else held(frame.f_globals, read.name)
        for kind, key in read.steps:
            own = attributes_of(value) if kind == "attribute" else value
            value = held(own, key) if isinstance(own, dict | list) and kind != "item at" else MISSING
        return value

    def _attribute(self, owner: Any, name: str, path: str) -> Any:
        """The attribute of a known object, without running any code."""
        path = f"{path}.{name}"
        if isinstance(owner, ModuleType):
            is_own = is_users(getattr(owner, "__file__", None) or "<frozen>")
            return self.snapshot.at(owner.__dict__, name, path, is_namespace=True) if is_own else MISSING
        if isinstance(owner, list | deque | dict | set) and hasattr(type(owner), name):
            kind = next(k for k in NOT_READ if isinstance(owner, k))
            if name == "__len__":
                self.snapshot.lengths.setdefault(id(owner), path.rpartition(".")[0])
            is_read = name not in NOT_READ[kind] and name != "__len__"
            self._end(owner, VALUE if is_read else CALL, path.rpartition(".")[0])
            return MISSING
        if isinstance(owner, type):
            return self._of_class(owner, name, path)
        if isinstance(owner, tuple) and name in getattr(owner, "_fields", ()):
            return getattr(owner, name)
        if isinstance(type(owner).__getattribute__, FunctionType):
            return MISSING
        own = attributes_of(owner)
        if name in ("__class__", "__dict__") and own is not None:
            self.snapshot.know(own)
            return type(owner) if name == "__class__" else own
        found = next((vars(c)[name] for c in type(owner).__mro__ if name in vars(c)), MISSING)
        if isinstance(found, MemberDescriptorType):
            return self.snapshot.at(self.snapshot.slots(owner), name, path)
        if hasattr(type(found), "__set__") or own is None:  # a property's code is watched while it runs
            return MISSING
        if name in own or found is not MISSING:
            value = self.snapshot.at(own, name, path, is_namespace=is_opaque(owner))
            return self._of_class(type(owner), name, path) if value is MISSING else value
        value = in_tables(owner, name)
        if value is MISSING:
            self.snapshot.at(own, name, path, is_namespace=is_opaque(owner))
        return value

    def _of_class(self, kind: type, name: str, path: str) -> Any:
        for c in kind.__mro__:
            if not is_users_class(c):
                return MISSING
            found = self.snapshot.at(self.snapshot.of_class(c), name, path)
            if found is not MISSING:
                return found
        return MISSING

    def _item(self, owner: Any, key: Any, path: str) -> Any:
        if isinstance(owner, tuple):
            return owner[key] if isinstance(key, int) and -len(owner) <= key < len(owner) else MISSING
        if isinstance(owner, dict) and type(owner).__getitem__ in (dict.__getitem__,):
            try:
                self.snapshot.open(owner, path)
                return self.snapshot.at(owner, key, f"{path}[{key!r}]")
            except TypeError:
                return MISSING
        if isinstance(owner, list | deque):
            if isinstance(key, int):
                self.snapshot.open(owner, path)
                if key < 0:  # from the end, which may be at another position in the next call
                    self.snapshot.lengths.setdefault(id(owner), path)
                return self.snapshot.at(owner, key + len(owner) if key < 0 else key, f"{path}[{key!r}]")
            self._end(owner, VALUE, path)
        elif is_network(owner) and isinstance(key, int):
            below = list(owner.__dict__["_modules"].values())
            return below[key] if -len(below) <= key < len(below) else MISSING
        return MISSING

    def _end(self, value: Any, use: int, path: str) -> None:
        """Record the end of a chain: the container that may be changed there, and whether all of it is read."""
        if isinstance(value, list | dict | set | deque):
            self.snapshot.open(value, path)
            if use == VALUE:
                self.snapshot.whole.setdefault(id(value), path)
            if use > STORE:
                for element in elements(self.snapshot.before[id(value)][1]):
                    self.snapshot.meet(element)
        elif isinstance(value, type):
            if use == STORE and is_users_class(value):
                self.snapshot.open(self.snapshot.of_class(value), path)
        elif not isinstance(value, ModuleType | FunctionType | tuple) and not is_opaque(value):
            own = attributes_of(value)
            if own is not None:
                self.snapshot.open(own, path)
            if any(isinstance(m, MemberDescriptorType) for c in type(value).__mro__[:-1] for m in vars(c).values()):
                self.snapshot.open(self.snapshot.slots(value), path)

    def _cell(self, frame: FrameType, code: CodeType, name: str) -> CellType | None:
        """The closure variable, if it existed before the capture."""
        if name == "__class__":
            return None
        functions = self.snapshot.functions.get(id(code))
        if functions is None:
            around = self._inner.get(id(code))
            if around is not None:  # made while capturing: the variable belongs to an enclosing function
                outer, outer_frame = around
                return self._cell(outer_frame, outer, name) if name in outer.co_freevars else None
            functions = functions_with(code)
            self.snapshot.functions[id(code)] = functions
        for function in functions:
            cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))
            if len(functions) == 1 or all(held(c, "") is variable(frame, n, MISSING) for n, c in cells.items()):
                return cells.get(name)
        return None
