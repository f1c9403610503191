"""The tensor: the user's handle on a node. PyTorch's names, argument order, defaults, broadcasting and dtype rules.

A tensor computes nothing until its value is needed: numpy(), item(), tolist(), print, sync(), or an optimizer step.
Differences from PyTorch are in docs/differences.md.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from .dtypes import DType, bool_, float32, int32, int64, of_scalar, parse_dtype, promote_operands
from .errors import AutogradError, DeviceError, DTypeError, ShapeError
from .graph import autodiff
from .graph import node as nodes
from .graph.leaves import Detach, Variable
from .graph.node import Node, grad_mode, make, mode
from .primitives.elementwise import Cast
from .run import execute, tracing
from .run.tracing import current
from .runtime.device import canonical_name, get_device
from .tensor_composed import IN_PLACE as COMPOSED_IN_PLACE
from .tensor_composed import ComposedMethods
from .tensor_grad import GradMethods
from .tensor_linalg import ProductMethods
from .tensor_math import MathMethods
from .tensor_move import MoveMethods
from .tensor_order import OrderMethods
from .tensor_shape import ShapeMethods

Scalar = bool | int | float
PENDING_LIMIT = 20_000  # nodes recorded before everything alive is computed

_live: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()  # pending ones, by serial number
_serial = 0
_flushed_at = 0


class Size(tuple):
    """A shape; numel() gives the number of elements."""

    __slots__ = ()

    def numel(self) -> int:
        return int(np.prod(self, dtype=np.int64))

    def __repr__(self) -> str:
        return f"shadergrad.Size({list(self)})"


class device(str):
    """A device name such as 'cpu', 'webgpu' or 'webgpu:1', with `type` and `index`."""

    @property
    def type(self) -> str:
        return self.partition(":")[0]

    @property
    def index(self) -> int:
        return int(self.partition(":")[2] or 0)


class _Defaults:
    device: str = "cpu"


def set_default_device(name: str) -> None:
    """Where tensors are made that name no device. Initially 'cpu'."""
    get_device(name)
    _Defaults.device = canonical_name(name)


def get_default_device() -> device:
    """Where tensors are made that name no device."""
    return device(_Defaults.device)


def resolve_device(name: object | None) -> str:
    return _Defaults.device if name is None else canonical_name(name)


def check_storable(dtype: DType, device_name: str) -> None:
    """Raises DTypeError where the device has no such element type."""
    if dtype.wgsl is None and get_device(device_name).target.language == "wgsl":
        raise DTypeError(
            f"{dtype.name} is not available on {device_name}. Hint: use float32 or int32 there, or the cpu device."
        )


class Tensor(MathMethods, ComposedMethods, OrderMethods, ShapeMethods, MoveMethods, ProductMethods, GradMethods):
    """An array on a device, with automatic differentiation.

    data: a number, nested lists, a NumPy array, or a Tensor (copied). Python floats give float32, ints int32; NumPy
    arrays keep their dtype, but int64 becomes int32 (see docs/differences.md).
    """

    __slots__ = ("__weakref__", "_grad", "_node", "_serial", "_siblings")
    __hash__ = object.__hash__  # type: ignore[assignment]  # == is elementwise; a tensor is itself

    _node: Node
    _grad: Tensor | None
    _siblings: list[weakref.ref[Tensor]] | None  # what came from the same backward pass

    def __init__(self, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> None:
        if isinstance(data, Tensor):
            node = data.detach()._node
            if device is not None or dtype is not None:
                moved = data.detach().to(device=device, dtype=dtype)
                node = moved._node
        else:
            node = execute.upload(*_host_array(data, dtype), resolve_device(device))
        self._adopt(node)
        if requires_grad:
            self.requires_grad_()

    def _adopt(self, node: Node) -> None:
        global _serial
        _serial += 1
        self._serial = _serial
        self._grad = None
        self._siblings = None
        self._hold(node, share=True)

    def _hold(self, node: Node, *, share: bool = False) -> None:
        """Be the tensor of a node (share: unless another is already)."""
        self._node = node
        if not share or node.owner is None or node.owner() is None:
            node.owner = weakref.ref(self)
        if node.storage is None:
            _live[self._serial] = self

    @classmethod
    def _of(cls, node: Node) -> Tensor:
        """A tensor around a node."""
        result = object.__new__(Tensor)
        result._adopt(node)
        if nodes.nodes_made - _flushed_at > PENDING_LIMIT and current.trace is None:
            flush()
        return result

    # -- what it is

    @property
    def shape(self) -> Size:
        return Size(self._node.shape)

    @property
    def dtype(self) -> DType:
        return self._node.dtype

    @property
    def device(self) -> device:
        return device(self._node.device)

    @property
    def ndim(self) -> int:
        return len(self._node.shape)

    @property
    def requires_grad(self) -> bool:
        return self._node.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def is_leaf(self) -> bool:
        return not self._node.requires_grad or isinstance(self._node.primitive, Variable)

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by backward(), for leaves, and for what retain_grad() was called on."""
        if current.trace is not None:
            current.trace.on_grad_read(self)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if value.shape != self.shape:
                raise ShapeError(
                    f"[grad] assigned a gradient of shape {tuple(value.shape)} to a tensor of shape {tuple(self.shape)}."
                )
            if value.device != self.device:
                raise DeviceError(f"[grad] assigned a gradient on {value.device} to a tensor on {self.device}.")
        if current.trace is not None:
            current.trace.on_grad_write(self)
        self._grad = value

    @property
    def data(self) -> Tensor:
        """The value without history."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        self._assign(value.detach()._node)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self._node.shape[dim]

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        return self._node.size

    def nelement(self) -> int:
        return self._node.size

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def element_size(self) -> int:
        return self.dtype.itemsize

    def __len__(self) -> int:
        if not self._node.shape:
            raise TypeError("len() of a 0-d tensor")
        return self._node.shape[0]

    # -- values

    def numpy(self) -> np.ndarray:
        """The values as a fresh NumPy array; waits for the device. A tensor that requires grad must be detached first."""
        if self.requires_grad:
            raise AutogradError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return self._read("numpy()")

    def _read(self, what: str) -> np.ndarray:
        if current.trace is not None:
            current.trace.on_read(what)
        try:
            if self._siblings is not None and self._node.storage is None:
                alive = [t._node for r in self._siblings if (t := r()) is not None and t.device == self.device]
                execute.realize(alive)
            return execute.download(self._node)
        except Exception:
            _forget(self._node)
            raise

    def item(self) -> Any:
        """The value of a tensor with one element, as a Python number."""
        if self._node.size != 1:
            raise ShapeError(
                f"[item] a Tensor with {self._node.size} elements (shape {tuple(self.shape)}) cannot be converted to Scalar"
            )
        return self._read("item()").reshape(()).item()

    def tolist(self) -> Any:
        return self._read("tolist()").tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        if self._node.size != 1:
            raise ShapeError(
                "Boolean value of Tensor with more than one value is ambiguous. Hint: use .any() or .all()."
            )
        return bool(self._read("bool()").reshape(()).item())

    def __index__(self) -> int:
        if self.dtype.category == 2:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __repr__(self) -> str:
        if current.trace is not None:
            return f"tensor(<captured {self._node!r}>)"
        text = np.array2string(self._read("repr()"), precision=4, separator=", ", threshold=200, prefix="tensor(")
        parts = [text]
        if self.device != "cpu":
            parts.append(f"device='{self.device}'")
        if self.dtype not in (float32, int32, bool_):
            parts.append(f"dtype={self.dtype!r}")
        if self.requires_grad:
            parts.append("requires_grad=True")
        return f"tensor({', '.join(parts)})"

    def __iter__(self):
        if not self._node.shape:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self._node.shape[0]))

    # -- autograd

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Whether backward() shall collect a gradient here. In place."""
        if requires_grad == self._node.requires_grad:
            return self
        if not requires_grad:
            if not self.is_leaf:
                raise AutogradError("you can only change requires_grad flags of leaf variables. Use detach() instead.")
            self._hold(make(Detach(), self._node))
            tracing.changes += 1
            return self
        if self.dtype.category != 2:
            raise AutogradError("only Tensors of floating point dtype can require gradients")
        self._hold(nodes.variable(self._node, self))
        tracing.changes += 1
        return self

    def detach(self) -> Tensor:
        """The same value, outside the tape."""
        if not self._node.requires_grad:
            return Tensor._of(self._node)
        if self._node.storage is not None:
            return Tensor._of(nodes.leaf(self._node.storage, self._node.shape, self._node.dtype, self._node.device))
        with grad_mode(False):
            return Tensor._of(make(Detach(), self._node))

    def detach_(self) -> Tensor:
        self._hold(self.detach()._node)
        return self

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add d(self)/d(leaf) to .grad of every leaf that requires it, or of `inputs` only, which may be computed ones.

        gradient: the cotangent, of the shape of self; may be left out where self has one element.
        """
        backward([self], None if gradient is None else [gradient], retain_graph, create_graph, inputs)

    def _assign(self, node: Node) -> None:
        """Take another value, in place; a leaf that requires grad stays one."""
        if current.trace is not None:
            current.trace.on_assign(self)
        if isinstance(self._node.primitive, Variable):
            node = nodes.variable(node, self)
        self._hold(node)

    def _update_in_place(self, value: Tensor, what: str) -> Tensor:
        """The result of an in-place operation; refuses what PyTorch refuses."""
        if self.requires_grad and self.is_leaf and mode.grad:
            raise AutogradError(
                f"a leaf Variable that requires grad is being used in an in-place operation ({what}). Hint: do it under sg.no_grad()."
            )
        node = value._node
        if node.shape != self._node.shape:
            raise ShapeError(
                f"[{what}] output with shape {list(self.shape)} doesn't match the broadcast shape {list(node.shape)}"
            )
        if node.dtype is not self.dtype:
            if node.dtype.category > self.dtype.category:
                raise DTypeError(
                    f"[{what}] result type {node.dtype.name} can't be cast to the desired output type {self.dtype.name}"
                )
            node = make(Cast(self.dtype), node)
        if node.device != self._node.device:
            raise DeviceError(f"[{what}] the value is on {node.device}, the tensor on {self.device}.")
        self._assign(node)
        return self

    # -- conversions

    def to(
        self, *args: Any, device: Any = None, dtype: Any = None, copy: bool = False, non_blocking: bool = False
    ) -> Tensor:
        """On another device and/or with another dtype: to('webgpu'), to(sg.float64), to(other)."""
        for arg in args:
            if isinstance(arg, Tensor):
                device, dtype = arg.device, arg.dtype
            elif isinstance(arg, DType):
                dtype = arg
            elif isinstance(arg, str) and not _is_dtype_name(arg):
                device = arg
            elif isinstance(arg, bool):
                continue
            else:
                dtype = arg
        result = self
        target = self._node.device if device is None else canonical_name(device)
        wanted = self.dtype if dtype is None else parse_dtype(dtype)
        check_storable(wanted, target)
        if wanted is not self.dtype and get_device(self._node.device).target.language == "numpy":
            result = Tensor._of(make(Cast(wanted), result._node))
        if target != self._node.device:
            if result.requires_grad and mode.grad and not result.is_leaf:
                raise AutogradError(
                    "[to] moving a computed tensor that requires grad between devices is not recorded. Hint: detach() it first."
                )
            get_device(target)
            node = execute.upload(result._read("to()"), result.dtype, target)
            result = Tensor._of(node)
            if self.requires_grad and self.is_leaf:
                result.requires_grad_()
        if wanted is not result.dtype:
            result = Tensor._of(make(Cast(wanted), result._node))
        return result.clone() if copy and result is self else result

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def float(self) -> Tensor:
        return self.to(dtype=float32)

    def double(self) -> Tensor:
        return self.to(dtype="float64")

    def int(self) -> Tensor:
        return self.to(dtype=int32)

    def long(self) -> Tensor:
        """int64 on the cpu device, int32 elsewhere."""
        return self.to(dtype=int64 if get_device(self._node.device).target.language == "numpy" else int32)

    def bool(self) -> Tensor:
        return self.to(dtype=bool_)

    def type_as(self, other: Tensor) -> Tensor:
        return self.to(dtype=other.dtype)

    def clone(self) -> Tensor:
        """A copy that the tape runs through."""
        return self * 1 if self.dtype is not bool_ else self | False

    def contiguous(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A leaf of its own with the same value, as copy.deepcopy of a module needs."""
        if not self.is_leaf:
            raise AutogradError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
            )
        result = memo[id(self)] = object.__new__(type(self))
        result._adopt(self.detach().clone()._node)
        result.requires_grad_(self.requires_grad)
        result._grad = None if self._grad is None else self._grad.__deepcopy__(memo)
        return result

    # -- in place

    def copy_(self, source: Tensor) -> Tensor:
        if not isinstance(source, Tensor):
            source = Tensor(source, device=self.device)
        return self._update_in_place(source.to(self.device, self.dtype).expand(self.shape), "copy_")

    def fill_(self, value: Scalar) -> Tensor:
        return self._update_in_place(Tensor._of(nodes.like(self._node, value)), "fill_")

    def zero_(self) -> Tensor:
        return self.fill_(0)

    def add_(self, other: Tensor | Scalar, *, alpha: Scalar = 1) -> Tensor:
        return self._update_in_place(self.add(other, alpha=alpha), "add_")

    def sub_(self, other: Tensor | Scalar, *, alpha: Scalar = 1) -> Tensor:
        return self._update_in_place(self.sub(other, alpha=alpha), "sub_")

    def mul_(self, other: Tensor | Scalar) -> Tensor:
        return self._update_in_place(self * other, "mul_")

    def div_(self, other: Tensor | Scalar, *, rounding_mode: str | None = None) -> Tensor:
        return self._update_in_place(self.div(other, rounding_mode=rounding_mode), "div_")

    __iadd__ = add_
    __isub__ = sub_
    __imul__ = mul_
    __itruediv__ = div_

    def write_(self, array: np.ndarray) -> Tensor:
        """Overwrite the value with a host array of the same shape, ordered after all work submitted so far."""
        array = np.asarray(array, self.dtype.numpy, order="C")
        if array.shape != self._node.shape:
            raise ShapeError(f"[write_] the array is {array.shape}, the tensor {tuple(self.shape)}.")
        with grad_mode(False):
            self._assign(execute.upload(array, self.dtype, self._node.device))
        return self


IN_PLACE = [
    "abs",
    "acos",
    "addcdiv",
    "addcmul",
    "asin",
    "atan",
    "atan2",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "clamp",
    "cos",
    "cosh",
    "cumprod",
    "cumsum",
    "erf",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fmod",
    "frac",
    "index_add",
    "lerp",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "masked_fill",
    "maximum",
    "minimum",
    "neg",
    "pow",
    "reciprocal",
    "relu",
    "remainder",
    "round",
    "rsqrt",
    "scatter_add",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "softmax",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "tril",
    "triu",
    "trunc",
]


def _in_place_form(name: str) -> Any:
    method = getattr(Tensor, name)

    def form(self: Tensor, *args: Any, **options: Any) -> Tensor:
        return self._update_in_place(method(self, *args, **options), f"{name}_")

    form.__name__ = f"{name}_"
    form.__doc__ = f"`{name}`, in place."
    return form


for _name in (*IN_PLACE, *COMPOSED_IN_PLACE):
    setattr(Tensor, f"{_name}_", _in_place_form(_name))


def _is_dtype_name(text: str) -> bool:
    try:
        parse_dtype(text)
    except DTypeError:
        return False
    return True


def _host_array(data: Any, dtype: Any) -> tuple[np.ndarray, DType]:
    """A host array and the dtype it shall have."""
    if isinstance(data, np.ndarray | np.generic):
        found = parse_dtype(data.dtype) if dtype is None else parse_dtype(dtype)
        if dtype is None and found is int64:
            found = int32
        array = np.asarray(data)
    else:
        try:
            array = np.array(_plain(data))
        except ValueError as error:
            raise ShapeError(f"expected numbers or sequences of equal lengths: {error}") from None
        if array.dtype == object:
            raise ShapeError("expected numbers or sequences of equal lengths")
        if dtype is not None:
            found = parse_dtype(dtype)
        elif array.size == 0:
            found = float32
        else:
            found = of_scalar(array.reshape(-1)[0].item())
    if found.category == 1 and array.size and array.dtype.kind in "iu":
        info = np.iinfo(found.numpy)
        if array.min() < info.min or array.max() > info.max:
            raise DTypeError(
                f"a value does not fit {found.name}: the range is {array.min()} to {array.max()}. Hint: int64 lives on the cpu device."
            )
    return array.astype(found.numpy), found


def _plain(data: Any) -> Any:
    """Nested lists with tensors inside as numbers."""
    if isinstance(data, Tensor):
        return data.numpy()
    if isinstance(data, list | tuple):
        return [_plain(d) for d in data]
    return data


def _cotangent(output: Tensor, gradient: Tensor | None) -> Node:
    if not output.requires_grad:
        raise AutogradError("element 0 of tensors does not require grad and does not have a grad_fn")
    if gradient is None:
        if output._node.size != 1:
            raise AutogradError("grad can be implicitly created only for scalar outputs")
        return nodes.like(output._node, 1)
    if gradient.shape != output.shape:
        raise ShapeError(
            f"Mismatch in shape: grad_output[0] has a shape of {list(gradient.shape)} and output[0] has a shape of {list(output.shape)}."
        )
    if gradient.dtype is not output.dtype:
        raise DTypeError(f"[backward] the gradient is {gradient.dtype.name}, the output {output.dtype.name}.")
    return gradient._node


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Tensor.backward of several tensors at once: tensor, or a sequence of them, each with its cotangent or None."""
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    given = [grad_tensors] * len(roots) if not isinstance(grad_tensors, list | tuple) else list(grad_tensors)
    if len(given) != len(roots):
        raise AutogradError(f"[backward] got {len(roots)} tensors and {len(given)} gradients.")
    targets = None if inputs is None else [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if targets is not None:
        if not targets:
            raise AutogradError("`inputs` argument to `backward()` cannot be empty.")
        if not all(t.requires_grad for t in targets):
            raise AutogradError("[backward] one of `inputs` does not require grad.")
    found = autodiff.backward(
        [t._node for t in roots],
        [_cotangent(t, g) for t, g in zip(roots, given, strict=True)],
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        targets=None if targets is None else [t._node for t in targets],
    )
    owners = {id(t._node): t for t in targets or ()}
    with grad_mode(create_graph):
        for node, grad in found.values():
            owner = owners.get(id(node))
            if owner is None and node.owner is not None:
                owner = node.owner()
            if owner is not None:
                _accumulate(owner, Tensor._of(grad))
                owners[id(node)] = owner
    together([t._grad for t in owners.values()])


def together(tensors: Iterable[Tensor | None]) -> None:
    """Tensors that came from one backward pass: reading one computes all that are alive, in one plan, rather than the
    whole pass again for each."""
    group = [t for t in tensors if t is not None]
    references = [weakref.ref(t) for t in group]
    for t in group:
        t._siblings = references


def _accumulate(owner: Tensor, grad: Tensor) -> None:
    if current.trace is not None and owner._serial <= current.trace.began:
        current.trace.on_attribute(owner, "_hook_ids", owner._hook_ids)
    if not owner.retains_grad:  # then .grad has it already
        before = owner.grad
        owner.grad = grad if before is None else before + grad
    if owner._hook_ids:
        for hook in list(owner._node.hooks.after.values()):
            hook(owner)


def operands(*values: Tensor | Scalar, common: bool = True) -> list[Node]:
    """The nodes of operands, broadcast to one shape and, if `common`, promoted to one dtype.

    Zero-dimensional cpu tensors and Python numbers follow the device of the others, as in PyTorch.
    """
    tensors = [v for v in values if isinstance(v, Tensor)]
    lead = next((t for t in tensors if t.ndim), tensors[0])
    described: list[tuple[DType, int]] = []
    for v in values:
        described.append((v.dtype, 2 if v.ndim else 1) if isinstance(v, Tensor) else (of_scalar(v), 0))
    dtype = promote_operands(described) if common else None
    result: list[Node] = []
    for v, (own, _) in zip(values, described, strict=True):
        if isinstance(v, Tensor):
            if v.ndim == 0 and v.device != lead.device and v.device == "cpu" and not v.requires_grad:
                v = v.to(lead.device)
            node = v._node
        else:
            node = nodes.constant(
                v, dtype if dtype is not None and dtype.category >= own.category else own, lead._node.device
            )
        if dtype is not None and node.dtype is not dtype:
            node = make(Cast(dtype), node)
        result.append(node)
    try:
        shape = np.broadcast_shapes(*(n.shape for n in result))
    except ValueError:
        raise ShapeError(
            f"The shapes of the operands do not broadcast: {', '.join(str(n.shape) for n in result)}."
        ) from None
    return [nodes.broadcast(n, shape) for n in result]


def flush(device_name: str | None = None, *, views: bool = False) -> None:
    """Start computing every live tensor that is pending; views, which cost nothing, only if asked. Does not wait."""
    global _flushed_at
    if current.trace is not None:
        return
    by_device: dict[str, list[Node]] = {}
    for serial, tensor in sorted(_live.items()):
        node = tensor._node
        if node.storage is not None:
            del _live[serial]
        elif (views or nodes.resolve(node).primitive.kind not in ("view", "source")) and device_name in (
            None,
            node.device,
        ):
            by_device.setdefault(node.device, []).append(node)
    _flushed_at = nodes.nodes_made
    for pending in by_device.values():
        try:
            execute.realize(pending)
        except Exception:
            _realize_each(pending)
            raise


def _realize_each(pending: list[Node]) -> None:
    """Compute what can be computed of nodes that failed together, and forget the rest: a failure is reported once,
    not again by every later, unrelated flush."""
    for node in pending:
        try:
            execute.realize([node])
        except Exception:
            _forget(node)


def _forget(node: Node) -> None:
    for serial, tensor in list(_live.items()):
        if tensor._node is node:
            del _live[serial]


def sync(device_name: str | None = None) -> None:
    """Compute everything pending and wait until the device, or every device, is done."""
    flush(None if device_name is None else canonical_name(device_name))
    execute.synchronize(device_name)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` itself if it is a tensor of that dtype and device, else a new one."""
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype) if device is not None or dtype is not None else data
    return Tensor(data, dtype=dtype, device=device)
