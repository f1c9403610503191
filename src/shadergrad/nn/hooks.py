"""Hooks: functions that a module calls around its forward and backward pass, and around its state dicts.

A hook gets pending tensors; it may read, keep or replace them.
In a compiled step a hook runs once, during capture; its operations become part of the step.
"""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from ..drive import tracing
from ..drive.tracing import current
from ..tensor import RemovableHandle
from .backward_hooks import Watch
from .errors import ModuleError

FORWARD_PRE, FORWARD, BACKWARD_PRE, BACKWARD = CALLED = ("forward pre", "forward", "backward pre", "backward")
SAVE_PRE, SAVE, LOAD_PRE, LOAD = OF_STATE = ("save pre", "save", "load pre", "load")
REGISTERED = ("parameter", "buffer", "module")

_numbers = itertools.count()


def note_change() -> None:
    """Note a change on which a compiled step may depend."""
    if current.trace is None:
        tracing.changes += 1


class HookTable(OrderedDict[int, Callable[..., Any]]):
    """Hooks by number, in the order in which they run. PyTorch's programs use it: `module._forward_hooks.clear()`.

    with_kwargs, always, with_module, public: the numbers of hooks that take keyword arguments, run even if forward raised, take the
    module first, and were registered by the public name.
    """

    def __init__(self, *entries: Any) -> None:
        super().__init__(*entries)
        self.with_kwargs: set[int] = set()
        self.always: set[int] = set()
        self.with_module: set[int] = set()
        self.public: set[int] = set()

    def add(self, hook: Callable[..., Any], prepend: bool = False, *kinds: set[int]) -> RemovableHandle:
        """Register a hook, the first to run with `prepend`. kinds: those of the sets above that it belongs to."""
        if current.trace is not None:
            current.trace.on_table(self)
        number = next(_numbers)
        for kind in kinds:
            kind.add(number)
        self[number] = hook
        if prepend:
            self.move_to_end(number, last=False)
        return RemovableHandle(self, number, note_change)

    def __setitem__(self, number: int, hook: Callable[..., Any]) -> None:
        note_change()
        super().__setitem__(number, hook)

    def __delitem__(self, number: int) -> None:
        note_change()
        super().__delitem__(number)

    def clear(self) -> None:
        """Remove all hooks."""
        note_change()
        super().clear()


class HookTables:
    """The hooks of a module by kind."""

    def __init__(self) -> None:
        self.tables = {kind: HookTable() for kind in CALLED}  # of a call
        self.of_state = {kind: HookTable() for kind in OF_STATE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()
        for kind, table in state["tables"].items():
            self.tables[kind] = table if isinstance(table, HookTable) else _of_version_0_1(table)
        self.of_state.update(state.get("of_state", {}))

    def ids(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(t) for t in self.tables.values())

    def __bool__(self) -> bool:
        return any(self.tables.values())

    def run_by(self, kind: str) -> Iterator[tuple[HookTable, int, Callable[..., Any]]]:
        """The hooks of a kind in the order in which they run: those of all modules first. Each with its table and number."""
        for table in (everywhere.tables[kind], self.tables[kind]):
            for number, hook in list(table.items()):
                yield table, number, hook

    # -- the call

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """module.forward with all hooks around it."""
        called: set[int] = set()
        result: Any = None
        try:
            args, kwargs = self._before(module, args, kwargs)
            watch = None
            before_backward = [hook for _, _, hook in self.run_by(BACKWARD_PRE)]
            backward = [hook for _, _, hook in self.run_by(BACKWARD)]
            if before_backward or backward:
                watch = Watch(module, before_backward, backward)
                args = watch.inputs(args)
            result = module.forward(*args, **kwargs)
            for table, number, hook in self.run_by(FORWARD):
                called.add(number)
                changed = _call_after(hook, number in table.with_kwargs, module, args, kwargs, result)
                result = result if changed is None else changed
            return result if watch is None else watch.outputs(result)
        except Exception:
            for table, number, hook in self.run_by(FORWARD):
                if number in table.always and number not in called:
                    try:
                        changed = _call_after(hook, number in table.with_kwargs, module, args, kwargs, result)
                        result = result if changed is None else changed
                    except Exception as error:
                        warnings.warn(
                            f"a forward hook with always_call=True raised {type(error).__name__}: {error}. It was silenced, "
                            "because forward raised before.",
                            stacklevel=3,
                        )
            raise

    def _before(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        for table, number, hook in self.run_by(FORWARD_PRE):
            if number in table.with_kwargs:
                changed = hook(module, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise ModuleError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                        )
                    args, kwargs = changed
            else:
                changed = hook(module, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs


def _call_after(hook: Any, with_kwargs: bool, module: Any, args: Any, kwargs: Any, result: Any) -> Any:
    return hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)


def _of_version_0_1(entries: dict[int, tuple[Callable[..., Any], bool, bool]]) -> HookTable:
    """A table of a module that was pickled: each hook with whether it takes keyword arguments, and is always called."""
    made = HookTable()
    for hook, with_kwargs, always in entries.values():
        made.add(hook, False, *([made.with_kwargs] if with_kwargs else []), *([made.always] if always else []))
    return made


everywhere = HookTables()  # hooks of all modules
registrations = {kind: HookTable() for kind in REGISTERED}  # hooks of the registration of anything


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """The registered value: `value`, or its replacement by hooks."""
    for hook in list(registrations[kind].values()):
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value


class HookMethods:
    """The part of Module that registers hooks."""

    _hooks: HookTables

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes that a pickle gives, also of a module that PyTorch pickled, with its hooks in tables of its own.

        Raises ModuleError if such a module has hooks.
        """
        if "_forward_hooks" in state and "_hooks" not in state:
            tables = {k: v for k, v in state.items() if k.endswith("_hooks") or "_hooks_" in k}
            if any(tables.values()):
                kinds = ", ".join(k.strip("_") for k, v in tables.items() if v)
                raise ModuleError(
                    f"{type(self).__name__} was pickled with hooks ({kinds}). Hint: save it without, or its state_dict()."
                )
            passed = {*tables, "training", "_is_full_backward_hook"}
            state = {k: v for k, v in state.items() if k not in passed} | {
                "_hooks": HookTables(),
                "_replaced": set(),
                "_training": state["training"],
            }
        self.__dict__.update(state)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """hook(module, args) before forward; its result, unless None, replaces args.

        with_kwargs: hook(module, args, kwargs), which returns None or (args, kwargs), else ModuleError. prepend: before
        the existing hooks. In a compiled step hooks run once, during capture. handle.remove() removes it.
        """
        table = self._hooks.tables[FORWARD_PRE]
        return table.add(hook, prepend, *([table.with_kwargs] if with_kwargs else []))

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """hook(module, args, output) after forward; its result, unless None, replaces the output.

        with_kwargs: hook(module, args, kwargs, output). always_call: also where forward raised, with output None.
        prepend: before the existing hooks. In a compiled step hooks run once, during capture. handle.remove() removes it.
        """
        table = self._hooks.tables[FORWARD]
        kinds = [kind for kind, wanted in ((table.with_kwargs, with_kwargs), (table.always, always_call)) if wanted]
        return table.add(hook, prepend, *kinds)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_input, grad_output) after the backward pass of the module.

        Both are tuples: gradients of the positional arguments and of the output tensors, None where there is none.
        A tuple that it returns replaces grad_input. It runs while backward() records, so the gradients are
        pending; reading one (print, item()) computes it. In a compiled step it runs once, when the step is
        captured, and must not read. prepend: before the existing hooks. handle.remove() removes it.
        """
        return self._hooks.tables[BACKWARD].add(hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_output) before the backward pass of the module; its result, unless None, replaces grad_output.

        grad_output is a tuple; pending as in register_full_backward_hook. handle.remove() removes it.
        """
        return self._hooks.tables[BACKWARD_PRE].add(hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As register_full_backward_hook, with a FutureWarning: grad_input are the gradients of the module's arguments.

        PyTorch has deprecated this name; there, grad_input are the gradients of the module's last operation.
        """
        warnings.warn(
            "register_backward_hook is register_full_backward_hook here: grad_input are the gradients of the module's arguments, "
            "not those of its last operation. Hint: use the newer name.",
            FutureWarning,
            stacklevel=2,
        )
        return self._hooks.tables[BACKWARD].add(hook)

    @property
    def _forward_pre_hooks(self) -> HookTable:
        return self._hooks.tables[FORWARD_PRE]

    @property
    def _forward_hooks(self) -> HookTable:
        return self._hooks.tables[FORWARD]

    @property
    def _backward_pre_hooks(self) -> HookTable:
        return self._hooks.tables[BACKWARD_PRE]

    @property
    def _backward_hooks(self) -> HookTable:
        return self._hooks.tables[BACKWARD]
