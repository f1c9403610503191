"""The base of networks: a tree of modules with parameters and buffers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .. import html_repr
from ..drive.tracing import current
from ..dtypes import bfloat16
from ..errors import CompileError, DeviceError
from ..graph.node import mode
from ..tensor import Tensor
from ..tensor.placement import has_stand_in
from . import placement
from .errors import ModuleAttributeError, ModuleError, ModuleKeyError, ModuleTypeError
from .hooks import HookMethods, HookTables, everywhere, note_change, registered
from .parameter import Buffer, Parameter
from .state_dicts import StateMethods

__all__ = ["Module"]

M = TypeVar("M", bound="Module")


class Module(HookMethods, StateMethods["Module"]):
    """Assign parameters and modules as attributes; write `forward`; call the module.

    A compiled step depends on the parts of a module that it used: tensors, submodules, hooks, plain attributes
    (numbers, strings, tuples) and the training flag. A change of one of these causes a recompilation. An attribute that
    forward sets is set at each call; one that it reads and changes, such as a count of calls, causes a recompilation at each call.
    Raises ModuleAttributeError for parameters and modules set before super().__init__(), ModuleTypeError for something
    else in the place of a parameter, a buffer or a module.

    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = nn.Parameter(sg.tensor(2.0))
    ...
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> Scale()(sg.tensor([1.0, 2.0])).detach()
    tensor([2., 4.])
    >>> Scale().state_dict()
    OrderedDict([('factor', tensor(2.))])
    """

    training: bool
    _replaced: set[str]  # buffers that compiled steps replace by other tensors

    def __init__(self) -> None:
        own = self.__dict__
        own["_parameters"] = OrderedDict()
        own["_buffers"] = OrderedDict()
        own["_non_persistent_buffers_set"] = set()
        own["_modules"] = OrderedDict()
        own["_hooks"] = HookTables()
        own["_replaced"] = set()
        own["_training"] = True

    # -- attributes

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_parameters" not in own:
            _refuse_before_init(value)
            object.__setattr__(self, name, value)
            return
        note_change()
        if name == "training":
            if current.trace is not None:
                current.trace.on_attribute(self, "_training", self._training)
            own["_training"] = value
        elif isinstance(value, Parameter):
            self._forget(name, self._buffers, self._modules)
            self.register_parameter(name, value)
        elif name in self._parameters:
            _leave_out(self._parameters, name, value, "parameter", "nn.Parameter")
        elif isinstance(value, Module):
            self._forget(name, self._buffers, self._parameters)
            self._modules[name] = registered("module", self, name, value)
        elif name in self._modules:
            _leave_out(self._modules, name, value, "child module", "nn.Module")
        elif isinstance(value, Buffer):
            self.register_buffer(name, value, value.persistent)
        elif name in self._buffers:
            self._set_buffer(name, value)
        else:
            if current.trace is not None:  # a change by the step itself does not recompile it
                own.setdefault("_unguarded", set()).add(name)
            object.__setattr__(self, name, value)

    def _forget(self, name: str, *tables: dict[str, Any]) -> None:
        for table in (self.__dict__, *tables):
            table.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise ModuleTypeError(
                f"cannot assign '{type(value).__name__}' as buffer '{name}' (shadergrad.Tensor or None expected)"
            )
        old = self._buffers[name]
        if current.trace is None:
            self._buffers[name] = value
        elif not current.trace.is_portable:
            self._note_buffer(name)
            self._replaced.add(name)
            self._buffers[name] = value
            current.trace.off_attribute(self, "_settings", name)
        elif old is None or value is None or (old.shape, old.dtype) != (value.shape, value.dtype):
            raise CompileError(f"a compiled step cannot give buffer '{name}' another shape or dtype.")
        else:  # another runner has no Python, so the buffer must stay the same object
            old._assign(value.detach()._node)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_parameters" in own:
            for table in (own["_parameters"], own["_buffers"], own["_modules"]):
                if name in table:
                    self._guard()
                    return table[name]
            if name == "training":
                if current.trace is not None:
                    current.trace.on_attribute(self, "_training", self._training)
                return self._training
        raise ModuleAttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        note_change()
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules, "training"}
        return sorted(n for n in names if not n[0].isdigit())

    def _guard(self) -> None:
        """Report to a capture that it depends on this module."""
        if current.trace is None:
            return
        for name in self._replaced & self._buffers.keys():
            self._note_buffer(name)
        if (id(self), "_settings") not in current.trace.attributes:
            current.trace.on_attribute(self, "_settings", self._settings)
            current.trace.on_module(self)

    def _note_buffer(self, name: str) -> None:
        """Report to a capture a buffer that steps replace: each call looks up its present value."""
        if current.trace is not None and current.trace.on_place is not None:
            current.trace.on_place(self._buffers, name, f"{type(self).__name__}.{name}")

    @property
    def _settings(self) -> tuple[Any, ...]:
        """The properties of this module on which a compiled step may depend, except the training flag."""
        passed = {"_training", "_replaced", *self.__dict__.get("_unguarded", ())}
        plain = tuple((k, v) for k, v in self.__dict__.items() if k not in passed and _is_plain(v))
        tables = (self._parameters, self._buffers, self._modules)
        forward = id(self.__dict__.get("forward"))
        held = ((k, id(v)) for table in tables for k, v in table.items() if k not in self._replaced)
        return (*plain, *held, self._hooks.ids(), everywhere.ids(), forward)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a parameter by name, as assigning the attribute does.

        None reserves the name. Raises ModuleTypeError for anything but a Parameter, ModuleError for
        one that is not a leaf, ModuleKeyError for a name that is empty, has a dot, or is taken by another attribute.
        """
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise ModuleTypeError(
                    f"cannot assign '{type(param).__name__}' object to parameter '{name}' (nn.Parameter or None required)"
                )
            if not param.is_leaf:
                raise ModuleError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                    f"express '{name}' as a function of another Tensor, compute the value in the forward() method."
                )
        self._parameters[name] = None if param is None else registered("parameter", self, name, param)
        note_change()

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a tensor that is state but not trained; in the state_dict if persistent. Change it in place.

        It moves with `to`. Raises ModuleTypeError for anything but a tensor, ModuleKeyError for a name as in
        register_parameter.
        """
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise ModuleTypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (shadergrad Tensor or None required)"
            )
        self._buffers[name] = registered("buffer", self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)
        note_change()

    def add_module(self, name: str, module: Module | None) -> None:
        """Register a child by name, as assigning the attribute does.

        None reserves the name. Raises ModuleTypeError for anything but a Module, ModuleKeyError for a
        name as in register_parameter.
        """
        if not isinstance(module, Module) and module is not None:
            raise ModuleTypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = registered("module", self, name, module)  # None: a module left out, as in PyTorch
        note_change()

    register_module = add_module

    def _check_name(self, what: str, name: Any, table: Mapping[str, Any]) -> None:
        if "_parameters" not in self.__dict__:
            raise ModuleAttributeError(
                f"cannot assign {what} before Module.__init__() call. Hint: call super().__init__() first."
            )
        if not isinstance(name, str):
            raise ModuleTypeError(f"{what} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise ModuleKeyError(f'{what} name can\'t contain "."' + (f", got: {name}" if what == "module" else ""))
        if name == "":
            raise ModuleKeyError(f'{what} name can\'t be empty string ""')
        if name not in table and hasattr(self, name):
            raise ModuleKeyError(f"attribute '{name}' already exists")

    # -- the call

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module: subclasses define it; users call the module, which also runs the hooks."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._guard()
        origins = mode.origins
        before = None if origins is None else origins.enter(self)
        try:
            if self._hooks or everywhere:
                return self._hooks.call(self, args, kwargs)
            return self.forward(*args, **kwargs)
        finally:
            if origins is not None and before is not None:
                origins.here = before

    # -- modes

    def train(self: M, mode: bool = True) -> M:
        """Set `training` of this module and all below, and return it: it enables dropout and batch statistics.

        Raises ModuleError for a mode that is not a bool.
        """
        if not isinstance(mode, bool):
            raise ModuleError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: M) -> M:
        """Set `training` of this module and all below to False, and return it: the same as train(False)."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Set requires_grad of all parameters, and return the module."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or with set_to_none=False to zeros, in place."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                if p.grad.requires_grad:
                    p.grad.detach_()
                p.grad.zero_()

    # -- devices and dtypes

    def to(
        self: M,
        *args: Any,
        device: Any = None,
        dtype: Any = None,
        non_blocking: bool = False,
        memory_format: str | None = None,
    ) -> M:
        """Move all parameters and buffers, in place: to('webgpu'), to(sg.float64), to(tensor).

        A dtype is for the floating ones. Returns the module. Parameters stay the same objects, and their gradients
        move with them. memory_format is a hint that changes nothing: the compiler chooses the memory layout.
        Raises ModuleTypeError for a dtype that is not floating, DTypeError for one that the device does not have.
        """
        placement.move(self, args, device, dtype, Module._apply)
        note_change()
        return self

    def _apply(self: M, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> M:
        """Replace all parameters, gradients and buffers by fn of them. Programs override it to move further tensors with `to`."""
        for child in self.children() if recurse else ():
            child._apply(fn)
        for tensor in (*self._parameters.values(), *self._buffers.values()):
            if tensor is not None:
                placement.change(tensor, fn)
        placement.note_moves(self)
        return self

    def cpu(self: M) -> M:
        """Move to the cpu device, in place: the same as to('cpu')."""
        return self.to("cpu")

    def double(self: M) -> M:
        """Make floating parameters and buffers float64, in place; only the cpu device has it."""
        return self.to(dtype="float64")

    def float(self: M) -> M:
        """Make floating parameters and buffers float32, in place."""
        return self.to(dtype="float32")

    def half(self: M) -> M:
        """Make floating parameters and buffers float16, in place."""
        return self.to(dtype="float16")

    def type(self: M, dst_type: Any) -> M:
        """Make floating parameters and buffers of another dtype, in place."""
        return self.to(dtype=dst_type)

    def bfloat16(self: M) -> M:
        """Make floating parameters and buffers bfloat16, in place."""
        return self.to(dtype=bfloat16)

    def cuda(self: M, device: Any = None) -> M:
        """Raises DeviceError, because there is no CUDA: use to('webgpu'). Under `shadergrad run` it moves to the chosen device."""
        if has_stand_in("cuda"):
            return self.to("cuda")
        raise DeviceError("[cuda] CUDA is not there: GPUs are reached by WebGPU. Hint: .to('webgpu').")

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """As to(device): the values are copied, too."""
        return self.to(device)

    def share_memory(self: M) -> M:
        """The module itself; other processes get a copy."""
        return self

    # -- printing

    def extra_repr(self) -> str:
        """The text that print shows for the module besides its children; "" by default."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [f"({name}): " + repr(child).replace("\n", "\n  ") for name, child in self._modules.items()]
        lines = (extra.split("\n") if extra else []) + children
        if not lines:
            return f"{self._get_name()}()"
        if not children and len(lines) == 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def _repr_html_(self) -> str:
        """In notebooks: a table with a row per module and its number of parameters."""
        parameters = list(self.parameters())
        rows = []
        for name, module in self.named_modules():
            inner = "  " * (name.count(".") + 1) if name else ""
            called = f"({name.rpartition('.')[2]}) " if name else ""
            kind = module._get_name() if module._modules else repr(module)
            own = sum(p.numel() for p in module.parameters(recurse=False))
            rows.append((f"{inner}{called}{kind}", f"{own:,}" if own else ""))
        where = ", ".join(dict.fromkeys(str(p.device) for p in parameters))
        trained = sum(p.numel() for p in parameters if p.requires_grad)
        total = sum(p.numel() for p in parameters)
        told = f"{total:,} parameters" + (f" on {where}" if where else "")
        return html_repr.table(
            ("module", "parameters"), rows, 1, told + ("" if trained == total else f", {trained:,} trained")
        )


def _is_plain(value: Any) -> bool:
    """Whether two values compare to one truth."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _refuse_before_init(value: Any) -> None:
    what = "parameters" if isinstance(value, Parameter) else "module" if isinstance(value, Module) else ""
    if what:
        raise ModuleAttributeError(
            f"cannot assign {what} before Module.__init__() call. Hint: call super().__init__() first."
        )


def _leave_out(table: dict[str, Any], name: str, value: Any, what: str, wanted: str) -> None:
    """Set a parameter or module to None. As in PyTorch, other values raise an error."""
    if value is not None:
        raise ModuleTypeError(f"cannot assign '{type(value).__name__}' as {what} '{name}' ({wanted} or None expected)")
    table[name] = None


_changed = note_change  # modules that version 0.1 pickled refer to it
