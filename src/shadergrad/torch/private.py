"""PyTorch's private names: a self-test of all that this package uses, which names those that another release lacks.

In: nothing. Out: functions with public names that wrap the private ones.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import _C
from torch.autograd import forward_ad

from ..errors import ShadergradError

TESTED = ("2.13", "2.12", "2.14")  # the releases that the tests ran on, the suite's own first
KEY = "PrivateUse1"
AUTOCAST_KEY = "AutocastPrivateUse1"
AUTOGRAD_KEY = "AutogradPrivateUse1"
# optimizers whose functions over lists are replaced
OVER_LISTS = ("adam", "sgd", "adagrad", "rmsprop", "adamax", "adadelta")


class TorchVersionError(ShadergradError, RuntimeError):
    """The installed PyTorch lacks a private name that the device needs."""


def _setup(name: str, module: Any) -> None:
    from torch.utils import backend_registration  # late: its private function is looked for by check()

    class Guard(_C._acc.DeviceGuard):  # type: ignore[attr-defined,name-defined]
        """PyTorch's own class, whose one method PyTorch calls several times per operator: no Python runs in it here."""

        type_ = itertools.repeat(_C._autograd.DeviceType.PrivateUse1).__next__  # type: ignore[attr-defined]

    backend_registration._setup_privateuseone_for_python_backend(name, backend_module=module, device_guard=Guard())


def _decompositions() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import decomposition_table  # late: slow, and private

    return dict(decomposition_table)


def _examine() -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "torch._C._acc.create_empty_tensor", lambda: _C._acc.create_empty_tensor  # type: ignore[attr-defined]
    yield "torch._C._acc.DeviceGuard", lambda: _C._acc.DeviceGuard  # type: ignore[attr-defined]
    yield "torch._C.DispatchKeySet", lambda: _C.DispatchKeySet(_C.DispatchKey.Meta)
    yield "torch._C.DispatchKey.AutocastPrivateUse1", lambda: getattr(_C.DispatchKey, AUTOCAST_KEY)
    yield "torch._C._get_overrideable_sdp_enabled", lambda: _C._get_overrideable_sdp_enabled
    yield "torch._C._ExcludeDispatchKeyGuard", lambda: _C._ExcludeDispatchKeyGuard
    yield "torch._C._dynamo.guards.TensorGuards", lambda: _C._dynamo.guards.TensorGuards  # type: ignore[attr-defined]
    yield "torch._C._functorch.peek_interpreter_stack", lambda: _C._functorch.peek_interpreter_stack  # type: ignore[attr-defined]
    yield "torch._C._len_torch_dispatch_stack", lambda: _C._len_torch_dispatch_stack
    yield "torch.autograd.forward_ad._current_level", lambda: forward_ad._current_level
    yield "torch.library.get_kernel", lambda: torch.library.get_kernel("aten::linear", AUTOGRAD_KEY).call_boxed
    yield "torch._C._set_meta_in_tls_dispatch_include", lambda: _C._set_meta_in_tls_dispatch_include
    yield "torch._C._dispatch_get_all_op_names", lambda: _C._dispatch_get_all_op_names
    yield "torch._C._dispatch_has_kernel_for_dispatch_key", lambda: _C._dispatch_has_kernel_for_dispatch_key
    yield "OpOverload.redispatch", lambda: torch.ops.aten.as_strided.default.redispatch
    yield "OpOverload._handle", lambda: torch.ops.aten.as_strided.default._handle.redispatch_boxed
    yield "OpOverload._op_dk", lambda: torch.ops.aten.as_strided.default._op_dk
    yield "OpOverload._schema", lambda: torch.ops.aten.as_strided.default._schema.arguments
    yield "torch._decomp.decomposition_table", _decompositions
    yield "torch._tensor_str._tensor_str", lambda: torch._tensor_str._tensor_str  # type: ignore[attr-defined]
    yield "torch.storage._StorageBase", lambda: (torch.storage._StorageBase.__deepcopy__, torch.storage._StorageBase.to)
    yield "torch.Tensor._reduce_ex_internal", lambda: torch.Tensor._reduce_ex_internal
    yield "torch.storage._load_from_bytes", lambda: torch.storage._load_from_bytes
    yield (
        "torch.UntypedStorage._write_file",
        lambda: (torch.UntypedStorage._write_file, torch.UntypedStorage._set_from_file),
    )
    yield "torch.UntypedStorage._cdata", lambda: torch.UntypedStorage._cdata
    yield "torch.utils._pytree.tree_map", lambda: importlib.import_module("torch.utils._pytree").tree_map
    yield "torch._ops.HigherOrderOperator", lambda: importlib.import_module("torch._ops").HigherOrderOperator
    yield "torch._utils._rebuild_parameter", lambda: importlib.import_module("torch._utils")._rebuild_parameter
    yield (
        "torch._utils._rebuild_device_tensor_from_cpu_tensor",
        lambda: importlib.import_module("torch._utils")._rebuild_device_tensor_from_cpu_tensor,
    )
    yield (
        "torch.utils.backend_registration._setup_privateuseone_for_python_backend",
        lambda: importlib.import_module("torch.utils.backend_registration")._setup_privateuseone_for_python_backend,
    )

    yield "torch._foreach_add_", lambda: torch._foreach_add_  # type: ignore[attr-defined]
    for name in OVER_LISTS:
        yield f"torch.optim.{name}._multi_tensor_{name}", functools.partial(_function_over_lists, name)


def _function_over_lists(name: str) -> Callable[..., None]:
    return getattr(importlib.import_module(f"torch.optim.{name}"), f"_multi_tensor_{name}")


def missing() -> list[str]:
    """The private names that the installed PyTorch lacks."""
    found = []
    for name, look in _examine():
        try:
            look()
        except (AttributeError, ImportError):
            found.append(name)
    return found


def check() -> None:
    """Raises TorchVersionError if the installed PyTorch lacks a private name that the device needs."""
    if lacking := missing():
        raise _lacks(lacking[0])


def _lacks(name: str) -> TorchVersionError:
    return TorchVersionError(
        f"[shadergrad.torch] PyTorch {torch.__version__} has no {name}. The device is tested with PyTorch "
        f'{", ".join(TESTED)}. Hint: pip install "torch=={TESTED[0]}.*"'
    )


check()

META = _C.DispatchKeySet(_C.DispatchKey.Meta)
AUTOCAST = _C.DispatchKeySet(getattr(_C.DispatchKey, AUTOCAST_KEY))
new_tensor = _C._acc.create_empty_tensor  # type: ignore[attr-defined]  # of a shape and a dtype, on the device, with no memory of its own
_as_strided = torch.ops.aten.as_strided.default
_as_strided_on_meta: Callable[..., torch.Tensor] = functools.partial(_as_strided._handle.redispatch_boxed, META)


def sized_on_meta(name: str) -> Callable[..., torch.Tensor]:
    """PyTorch's Meta kernel of an operator that changes only sizes, strides and offsets, and touches no memory; no Python runs in it."""
    return functools.partial(overload(name)._handle.redispatch_boxed, META)


# Meta has precedence over all devices where a thread includes its key, and PyTorch's methods take their arguments in less time than operators called with a key.


def as_strided(x: torch.Tensor, size: Any, stride: Any, offset: int | None = None) -> torch.Tensor:
    """PyTorch's Meta kernel of as_strided, as a kernel of the device: below autograd."""
    with_meta(True)
    try:
        return _method.as_strided(x, size, stride, offset)
    finally:
        with_meta(False)


def viewed(x: torch.Tensor, size: Any) -> torch.Tensor:
    """The same of view."""
    with_meta(True)
    try:
        return _method.view(x, size)
    finally:
        with_meta(False)


def on_meta(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of PyTorch's Meta kernel of an operator: it computes sizes, strides and offsets, and touches no memory."""
    return op.redispatch(META, *args, **kwargs)


def one_by_one(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of PyTorch's own kernel of an operator over lists, which calls an operator for each tensor."""
    return op._op_dk(_C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)


def strided_view(x: torch.Tensor, shape: Any, stride: Any, offset: int) -> torch.Tensor:
    """A tensor of other sizes over the same storage."""
    return _as_strided_on_meta(x, shape, stride, offset)


with_meta = _C._set_meta_in_tls_dispatch_include
_method = _C.TensorBase
set_: Callable[..., torch.Tensor] = _method.set_  # while the thread includes the key Meta


def lay(x: torch.Tensor, storage: Any, offset: int, shape: Any, stride: Any) -> torch.Tensor:
    """`x` itself, now laid over a storage, which grows to the number of bytes that this needs. For a tensor without a gradient."""
    with_meta(True)
    try:
        return set_(x, storage, offset, shape, stride)
    finally:
        with_meta(False)


def guard_of(tensors: Sequence[torch.Tensor]) -> Any:
    """An object whose check(*tensors) compares classes, dispatch keys, dtypes, sizes, strides and requires_grad of tensors with these in
    one call; it refuses a tensor that occurs twice. PyTorch's compiler guards its graphs by it.
    """
    sizes, strides = [[*x.shape] for x in tensors], [[*x.stride()] for x in tensors]
    return _C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)  # type: ignore[attr-defined]


def by_operations(op: Any, *args: Any) -> Any:
    """PyTorch's own composition of an operator, in C++. (The one in Python, `decompose`, omits the dropout between recurrent layers.)"""
    return op._op_dk(_C.DispatchKey.CompositeImplicitAutograd, *args)


def kernel_or_composition(name: str, applies: Callable[..., bool]) -> Callable[..., Any]:
    """One of PyTorch's compositions for autograd's key: the device's kernel with PyTorch's formula of its gradient if applies(*args); else, and where modes,
    transforms or forward derivatives look at the composition's operators, the composition. The device's kernel must be registered before.
    """
    op, with_gradient = overload(name), torch.library.get_kernel(full_name(name), AUTOGRAD_KEY).call_boxed
    keys = _C.DispatchKeySet(getattr(_C.DispatchKey, AUTOGRAD_KEY)) | _C.DispatchKeySet(_C.DispatchKey.PrivateUse1)

    def run(*args: Any) -> Any:
        if not applies(*args) or has_modes() or forward_ad._current_level >= 0:
            return by_operations(op, *args)
        return with_gradient(keys, *args)

    return run


def overrideable_attention_is_enabled() -> bool:
    """Whether torch.nn.attention.sdpa_kernel permits a device's own attention."""
    return _C._get_overrideable_sdp_enabled()


def without_autocast() -> AbstractContextManager[Any]:
    return _C._ExcludeDispatchKeyGuard(AUTOCAST)


def is_under_transforms() -> bool:
    """Whether a transform of torch.func runs, whose tensors are wrappers that end with it."""
    return _C._functorch.peek_interpreter_stack() is not None  # type: ignore[attr-defined]


def has_modes() -> bool:
    """Whether PyTorch's dispatcher does more than to call kernels: a TorchDispatchMode watches it, or a transform of torch.func runs."""
    return _C._len_torch_dispatch_stack() > 0 or is_under_transforms()


def operator_names() -> list[str]:
    """The names of all operators of the namespace aten: "add.Tensor"."""
    return [n[6:] for n in _C._dispatch_get_all_op_names() if n.startswith("aten::")]


def full_name(name: str) -> str:
    """The name with its library: "aten::add.Tensor"."""
    return name if "::" in name else f"aten::{name}"


def has_kernel(name: str, key: str) -> bool:
    """Whether an operator has a kernel for a dispatch key."""
    return _C._dispatch_has_kernel_for_dispatch_key(full_name(name), key)


def overload(name: str) -> Any:
    """The operator of a name, "add.Tensor"; None if there is none."""
    base, _, rest = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return None if packet is None else getattr(packet, rest or "default", None)


def name_of(op: Any) -> str:
    """The name as "add.Tensor"; without a dot if the overload has no name, and "vision::nms" for another library than aten."""
    base = op._schema.name.removeprefix("aten::")
    return f"{base}.{op._schema.overload_name}" if op._schema.overload_name else base


def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's own decompositions, in Python, by operator."""
    return _decompositions()


def register(name: str, module: Any) -> None:
    """Give PyTorch's private device a name, and `module` as torch.<name>."""
    _setup(name, module)


def aot_autograd(compiler: Callable[..., Any]) -> Callable[..., Any]:
    """A backend of torch.compile, which calls `compiler` with a graph of the forward pass, and with one of the backward pass. New values of
    arguments are copied into them at the end of a graph; PyTorch would call an operator for each after it.
    """
    from torch._dynamo.backends.common import aot_autograd as made  # late: slow, and only torch.compile needs it

    return made(fw_compiler=compiler, bw_compiler=compiler, keep_inference_input_mutations=True)


def skip_when_tracing(package: str) -> None:
    """Keep PyTorch's compiler from following calls into a package: after a graph break it would compile the kernels one by one."""
    from torch._dynamo import trace_rules  # late: slow, and only torch.compile needs it

    if not trace_rules.check_file(__file__).skipped:
        trace_rules.add(package)


add_to_each: Callable[..., None] = torch._foreach_add_  # type: ignore[attr-defined]
_of_torch: dict[Callable[..., None], Callable[..., None]] = {}  # by their replacements


def replace_function_over_lists(name: str, make: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Replace the function with which an optimizer updates lists of tensors (`foreach`) by the result of `make(it)`."""
    of_torch = _function_over_lists(name)
    made = make(of_torch)
    _of_torch[made] = of_torch
    setattr(importlib.import_module(f"torch.optim.{name}"), of_torch.__name__, made)


def trace_functions_over_lists() -> None:
    """Let PyTorch's compiler follow PyTorch's own functions in place of those that replaced them."""
    for made, of_torch in _of_torch.items():
        torch.compiler.substitute_in_graph(made)(of_torch)


def before_optimizers(prepare: Callable[[torch.optim.Optimizer], None]) -> None:
    """Call `prepare` with each optimizer that PyTorch's compiler finds, before it decides where the optimizer counts its steps.
    Raises TorchVersionError if the installed PyTorch decides elsewhere.
    """
    from torch._dynamo.variables.optimizer import OptimizerVariable  # late: the same

    if not hasattr(OptimizerVariable, "_set_capturable"):
        raise _lacks("torch._dynamo.variables.optimizer.OptimizerVariable._set_capturable")
    of_torch = OptimizerVariable._set_capturable

    def set_capturable(self: Any, tx: Any) -> None:
        prepare(self.value)
        of_torch(self, tx)

    OptimizerVariable._set_capturable = set_capturable  # type: ignore[method-assign]
