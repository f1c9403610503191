"""State dicts: saving and loading the values of a module's parameters and buffers by dotted name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from ..tensor import RemovableHandle, Size, Tensor
from . import loading
from .errors import ModuleError, ModuleTypeError, StateDictError
from .hooks import LOAD, LOAD_PRE, SAVE, SAVE_PRE, HookTable, HookTables
from .module_tree import M, ModuleTree

EXTRA_STATE = "_extra_state"


class IncompatibleKeys(NamedTuple):
    """The result of load_state_dict: missing and unexpected keys."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class StateMethods(ModuleTree[M]):
    """The part of Module that saves and loads states."""

    _version = 1  # the version of the class's state format; _load_from_state_dict gets that of the file
    _hooks: HookTables

    # -- out

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Names to values of parameters and persistent buffers: an OrderedDict of tensors that require no gradients.

        Names are dotted, with prefix in front; the result of get_extra_state is "_extra_state". keep_vars: the parameters themselves.
        destination: a dict that is filled and returned. Keep values with copy.deepcopy, because compiled steps overwrite the memory of these
        tensors; other steps do not. Hooks run around each module's part. The three arguments may also be positional.
        Raises ModuleError if a hook of register_state_dict_post_hook returns a value.
        """
        given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
        destination, prefix = given.get("destination", destination), given.get("prefix", prefix)
        keep_vars = given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        self._guard()
        of_format = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = of_format
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        children = cast("dict[str, Any]", self._modules)
        for name, child in children.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        table = self._state_dict_hooks
        for number, hook in list(table.items()):
            changed = hook(self, destination, prefix, of_format)
            if number not in table.public:
                destination = destination if changed is None else changed
            elif changed is not None:
                raise ModuleError("state_dict post-hook must return None")
        return destination

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Put the module's own state, without its children's, into `destination`. Classes with another format override it."""
        for name, t in self._own_state().items():
            destination[prefix + name] = t if keep_vars else t.detach()
        if type(self).get_extra_state is not StateMethods.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _own_state(self) -> dict[str, Tensor]:
        """The parameters and persistent buffers that are not None."""
        found: dict[str, Tensor] = {name: p for name, p in self._parameters.items() if p is not None}
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                found[name] = buffer
        return found

    def get_extra_state(self) -> Any:
        """A class's state besides tensors: override this and set_extra_state."""
        raise ModuleError(
            "Reached a code path in Module.get_extra_state() that should never be called. Hint: override it in the class."
        )

    def set_extra_state(self, state: Any) -> None:
        """Called by load_state_dict with the result of get_extra_state."""
        raise ModuleError(
            "Reached a code path in Module.set_extra_state() that should never be called. Hint: override it in the class."
        )

    # -- in

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values in: tensors, PyTorch's tensors or arrays. Shapes must match, with strict the names too.

        assign: use the given tensors themselves. Returns (missing_keys, unexpected_keys), lists of names, as hooks left them.
        Raises StateDictError if the state does not fit, and changes nothing then; ModuleTypeError for anything but a mapping.
        """
        if not isinstance(state_dict, Mapping):
            raise ModuleTypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        keys = IncompatibleKeys([], [])
        problems: list[str] = []
        formats: Any = getattr(state_dict, "_metadata", None)
        values: Any = OrderedDict(state_dict)  # overridden methods and hooks may change it
        if formats is not None:
            values._metadata = formats
        with loading.Loading():
            _load(self, values, "", formats or {}, assign, keys, problems)
            if strict and keys.unexpected_keys:
                problems.insert(0, f"Unexpected key(s) in state_dict: {_quoted(keys.unexpected_keys)}. ")
            if strict and keys.missing_keys:
                problems.insert(0, f"Missing key(s) in state_dict: {_quoted(keys.missing_keys)}. ")
            if problems:
                raise StateDictError(
                    f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(problems)
                )
        return keys

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load the module's own state, without its children's, from `state_dict`. Classes with other formats override it.

        With `strict`, missing and unknown names are appended to the lists. Errors of values are appended to error_msgs.
        """
        table = self._load_state_dict_pre_hooks
        for number, hook in list(table.items()):
            loading.users_turn()
            module = (self,) if number in table.with_module else ()
            hook(*module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = self._own_state()
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in own.items():
            if prefix + name in state_dict:
                fitting = _fitting(prefix + name, tensor, state_dict[prefix + name], assign, error_msgs)
                if fitting is not None:
                    loading.take(self, name, tensor, fitting, assign)
        missing = [prefix + name for name in own if prefix + name not in state_dict]
        unknown = [
            key for key in state_dict if key.startswith(prefix) and not self._knows(key.removeprefix(prefix), own)
        ]
        extra = prefix + EXTRA_STATE
        if type(self).set_extra_state is not StateMethods.set_extra_state:
            if extra in state_dict:
                loading.users_turn()
                self.set_extra_state(state_dict[extra])
            else:
                missing.append(extra)
        elif extra in state_dict:
            unknown.insert(0, extra)
        if strict:
            missing_keys += missing
            unexpected_keys += unknown
        if type(self)._load_from_state_dict is not StateMethods._load_from_state_dict:  # which continues from here
            loading.users_turn()

    def _knows(self, name: str, own: Mapping[str, Tensor]) -> bool:
        """Whether a name of a state dict belongs to the module or to a child."""
        first, dot, _ = name.partition(".")
        return name == EXTRA_STATE or first in (self._modules if dot else own)

    # -- hooks

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(module, prefix, keep_vars) before state_dict() of the module, or of a module around it. handle.remove() removes it."""
        return self._state_dict_pre_hooks.add(hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata) after the module's part is in state_dict, which it may change in place.

        It must return None, else ModuleError. handle.remove() removes it.
        """
        table = self._state_dict_hooks
        return table.add(hook, False, table.public)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As register_state_dict_post_hook; the hook's result, unless None, replaces the dict."""
        return self._state_dict_hooks.add(hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs) before the module
        loads its part of state_dict, which the hook may change, for example to rename keys of old files. handle.remove() removes it."""
        return self._register_load_state_dict_pre_hook(hook, True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """As register_load_state_dict_pre_hook; the hook gets the module only with `with_module`."""
        table = self._load_state_dict_pre_hooks
        return table.add(hook, False, *([table.with_module] if with_module else []))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(module, incompatible_keys) after the module and its children were loaded.

        incompatible_keys: the lists (missing_keys, unexpected_keys) so far. The hook may change them, because a strict load checks them
        after all hooks. It must return None, else ModuleError. handle.remove() removes it.
        """
        return self._load_state_dict_post_hooks.add(hook)

    @property
    def _state_dict_pre_hooks(self) -> HookTable:
        return self._hooks.of_state[SAVE_PRE]

    @property
    def _state_dict_hooks(self) -> HookTable:
        return self._hooks.of_state[SAVE]

    @property
    def _load_state_dict_pre_hooks(self) -> HookTable:
        return self._hooks.of_state[LOAD_PRE]

    @property
    def _load_state_dict_post_hooks(self) -> HookTable:
        return self._hooks.of_state[LOAD]


def _load(
    module: Any,
    values: dict[str, Any],
    prefix: str,
    formats: Mapping[str, Any],
    assign: bool,
    keys: IncompatibleKeys,
    problems: list[str],
) -> None:
    """Load a module and all below. formats: the metadata of the file, by path."""
    of_format = dict(formats.get(prefix[:-1], {}))
    if assign:
        of_format["assign_to_params_buffers"] = True
    if type(module)._load_from_state_dict is not StateMethods._load_from_state_dict:
        loading.users_turn()
    module._load_from_state_dict(values, prefix, of_format, True, keys.missing_keys, keys.unexpected_keys, problems)
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            own = OrderedDict((k, v) for k, v in values.items() if k.startswith(below))
            _load(child, own, below, formats, assign, keys, problems)
    for hook in list(module._load_state_dict_post_hooks.values()):
        loading.users_turn()
        if hook(module, keys) is not None:
            raise ModuleError(
                "Hooks registered with register_load_state_dict_post_hook are not expected to return new values. Hint: change "
                "incompatible_keys in place."
            )


def _fitting(name: str, tensor: Tensor, value: Any, assign: bool, problems: list[str]) -> Any:
    """A value as the array or tensor to load into `tensor`; None if it does not fit, and then the reason is appended to `problems`."""
    if not hasattr(value, "shape"):
        problems.append(
            f'While copying the parameter named "{name}", expected shadergrad.Tensor or Tensor-like object from '
            f"checkpoint but received {type(value)}"
        )
        return None
    if hasattr(tensor, "materialize"):  # of a lazy module
        tensor.materialize(value.shape)  # type: ignore[attr-defined]
    array = value if isinstance(value, Tensor) and assign else loading.as_host_array(value)
    if tensor.ndim == 0 and tuple(array.shape) == (1,):
        array = array.reshape(())
    if tuple(array.shape) != tuple(tensor.shape):
        problems.append(
            f"size mismatch for {name}: copying a param with shape {Size(array.shape)} from checkpoint, "
            f"the shape in current model is {tensor.shape}."
        )
        return None
    if not isinstance(array, Tensor) and array.dtype.kind not in "biufc":
        problems.append(f'While copying the parameter named "{name}": an array of {array.dtype} is no tensor.')
        return None
    return array


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
