"""What every tensor is, without any operation: a node, its value, and how it takes another value in place.

The methods of tensors lie in rooms, each a class that extends the one before it, so that a method knows those below and no
other:

    base -> gradients -> records -> elementwise -> numeric -> shape -> reduce -> index -> scatter -> order -> products ->
    divide -> scans -> counts -> random -> names -> handle

Results are always of the class that handle.py defines, Tensor.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Self, overload

import numpy as np

from .. import cpython, html_repr, symbolic_sizes
from ..arguments import Checkable, refuse, type_name
from ..drive import execute, tracing
from ..drive.tracing import current
from ..dtypes import DType, bool_, complex64, default_dtype, float32, int32, of_scalar, parse_dtype, promote_operands
from ..errors import (
    ArgumentTypeError,
    AutogradError,
    CompileError,
    DeviceError,
    DTypeError,
    IndexRangeError,
    ShapeError,
)
from ..graph import build
from ..graph import node as nodes
from ..graph.build import cast
from ..graph.leaves import Alias, Variable
from ..graph.node import Node, grad_mode, make, mode
from ..graph.primitive import Primitive
from ..primitives.views import Reshape
from ..runtime.device import get_device
from ..symbolic_sizes import Varying
from . import pending
from .elsewhere import computed_on, constant_on
from .placement import check_storable, device, named_device, resolve_device
from .storage import (
    Base,
    Leaf,
    Path,
    Storage,
    between,
    follow,
    joined,
    lies_row_by_row,
    new_version,
    overlaps,
    renamed,
    row_major,
    strides,
    succeeding,
    without_history,
)
from .transfer import moved

Number = bool | int | float | complex
LARGEST = 1 << 60  # elements, 8 bytes each: what a 64-bit number of bytes counts


class RaggedError(ShapeError, ArgumentTypeError):
    """Nested sequences that are no array."""


class FlagError(AutogradError, ArgumentTypeError):
    """Something else where True or False is expected."""


class Size(tuple[int, ...]):
    """A shape: a tuple of sizes. numel() gives the number of elements.

    >>> sg.zeros(2, 3).shape
    shadergrad.Size([2, 3])
    >>> sg.Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of this shape.

        >>> sg.Size([2, 3]).numel()
        6
        """
        return math.prod(self)

    def __repr__(self) -> str:
        return f"shadergrad.Size({list(self)})"


class TensorBase(Checkable):
    """A handle on a value: a node of its own, or what a path of views shows of a base that it shares (storage.py)."""

    __slots__ = (
        "__weakref__",
        "_current",
        "_grad",
        "_leaf",
        "_path",
        "_rebound",
        "_seen",
        "_serial",
        "_shared",
        "_siblings",
    )
    __array_priority__ = (
        1000  # so that NumPy leaves array + tensor to the tensor, which refuses it, and 2.0 * tensor too
    )
    __hash__ = object.__hash__  # == is elementwise; a tensor is itself

    _class: ClassVar[type[Any]]  # that of results: TensorBase, which says so where it is defined

    _current: Node  # the value; where it is shared, as of version _seen
    _shared: Base | None  # whose part this is
    _path: Path  # the views through which it is seen
    _seen: int
    _leaf: Leaf | None  # of one that is, or was, shared
    _rebound: int  # how often its memory was exchanged for another's: what a compiled step looks at
    _grad: Any  # the gradient, a tensor or None
    _serial: int
    _siblings: list[weakref.ref[Any]] | None  # what came from the same backward pass

    @property
    def _node(self) -> Node:
        """The present value."""
        shared = self._shared
        if shared is None:
            return self._current
        if tracing.is_capturing and current.trace is not None:
            current.trace.on_look(self)
        if self._seen != shared.storage.version or (self._path and self._current.released):
            if current.trace is not None:
                current.trace.on_seen(self)
            seen = (
                shared.storage.version
            )  # before the value, which another thread may write: then it is looked at again
            whole = shared.current()
            with grad_mode(True):
                node = self._current = follow(self._path, whole)
            if node.owner is None:
                node.owner = weakref.ref(self)
            self._seen = seen
        return self._current

    def _holds(self, node: Node) -> bool:
        """Whether a node is the value, as of the version that was seen last."""
        return self._current is node

    def _adopt(self, node: Node, alone: bool = True) -> None:
        """Be a tensor of a node; where the node shall be this tensor's alone and is another's, of one of the same value."""
        self._serial = pending.next_serial()
        self._grad = None
        self._siblings = None
        self._leaf = None
        self._rebound = 0
        if alone:
            self._own(node)
        else:
            self._hold(node)

    def _own(self, node: Node) -> None:
        """Hold a node alone; whatever was shared goes on without this tensor."""
        owner = node.owner
        if owner is not None and owner() is not self:
            if owner() is not None:
                node = renamed(node)
            node.owner = weakref.ref(self)
        elif owner is None:
            node.owner = weakref.ref(self)
        self._hold(node)

    def _hold(self, node: Node) -> None:
        self._current = node
        self._shared = None
        self._path = ()
        self._seen = 0
        if node.storage is None:
            pending.note(self)

    # -- sharing

    def _share(self) -> Base:
        """What this tensor and its views and aliases are parts of."""
        shared = self._shared
        if shared is None:
            node = self._current
            shared = self._shared = Base(Storage(self), (), node, self)
            self._path = ()
            self._seen = shared.version
            if node.owner is None or node.owner() is self or node.owner() is None:
                shared.own(node)
                self._leaf = shared.leaf
        return shared

    def _seen_through(self, shared: Base, path: Path, node: Node, seen: int | None = None) -> Self:
        """A tensor that sees a base through a path, where it is `node` now, or was in the storage's version `seen`."""
        result = object.__new__(TensorBase._class)
        result._serial = pending.next_serial()
        result._grad = None
        result._siblings = None
        result._leaf = None
        result._rebound = 0
        result._current = node
        result._shared = shared
        result._path = path
        result._seen = shared.storage.version if seen is None else seen
        if node.owner is None:
            node.owner = weakref.ref(result)
        pending.bound()
        return result

    def _view(self, show: Callable[[Node], Node]) -> Self:
        """A view of this tensor: `show` makes its value of this tensor's, by views alone."""
        shared = self._share()
        seen = shared.storage.version  # before the value, which another thread may write: then it is looked at again
        mine = self._node
        node = show(mine)
        if node is mine and isinstance(mine.primitive, Variable):
            node = make(Reshape(mine.shape), mine)  # of a leaf the whole of it is a result
        path = (*self._path, *between(mine, node)) if node is not mine else self._path
        if mine.requires_grad and not (node.requires_grad and mode.grad):
            return self._alias(path, without_history(node), ambiguous=True)
        if not mine.requires_grad and (shorter := joined(path)) is not path:
            path, node = shorter, follow(shorter, shared.current())
        return self._seen_through(shared, path, node, seen)

    def _seen_along(self, path: Path, is_alias: bool) -> Self:
        """A view through a path, without history. is_alias: also where this tensor gets one later."""
        node = self._node
        with grad_mode(False):
            seen = follow(path, without_history(node))
        if is_alias or node.requires_grad:
            return self._alias((*self._path, *path), seen)
        return self._seen_through(self._share(), (*self._path, *path), seen)

    def _alias(self, path: Path, node: Node, ambiguous: bool = False) -> Self:
        """A tensor with a history of its own, and that a new one, which shares what `path` shows of this one's base."""
        shared = self._share()
        base = Base(shared.storage, (*shared.path, *path), node, self, ambiguous)
        node = base.node = self._apart(base, node)
        result = self._seen_through(base, (), node)
        base.tensor = weakref.ref(result)
        return result

    def _apart(self, base: Base, node: Node) -> Node:
        """`node`, the value of an alias of this tensor, as that of the alias's own base: it stays someone's when this tensor is
        gone. In a capture it stays this tensor's, which was there before."""
        if node.requires_grad or current.trace is not None:
            return node
        if node is self._current:
            if not base.path:  # the storage's, which both of them hold
                return node
            node = renamed(node)
        base.own(node)
        return node

    def _alias_of(self, other: TensorBase) -> None:
        """Be, from the beginning, a tensor that shares what `other` sees, without its history."""
        self._serial = pending.next_serial()
        self._grad = None
        self._siblings = None
        self._leaf = None
        self._rebound = 0
        self._join(other, without_history(other._node))

    def _move_to(self, other: TensorBase) -> None:
        """Share from now on what `other` sees, as its detach() does, with the value that it has."""
        alias = other.detach()
        self._restore(alias._snapshot())
        assert self._shared is not None
        self._shared.tensor = weakref.ref(self)
        self._leaf = None

    def _become(self, node: Node) -> None:
        """Another value in memory of its own; a leaf stays one. What was shared goes on without this tensor."""
        before = self._node
        if isinstance(before.primitive, Variable):
            node = nodes.variable(without_history(node), self, before.hooks)
        self._own(node)

    def _cell(self) -> Any:
        """What holds the value: the storage where the tensor shows all of it, else the tensor."""
        shared = self._shared
        return self if shared is None or shared.path or self._path else shared.storage

    def _keep_memory_private(self) -> bool:
        """Before the memory of the value is overwritten: see to it that no one else has it. The others keep it, this
        tensor, which shows all of what it shares, goes on with a copy. Whether that was needed.

        References tell: to the node of the value, and to its memory. One too many costs a copy, and nothing else.
        """
        self._share_no_more()
        shared = self._shared
        node = self._node
        if shared is not None:
            shared.node = shared.storage.node = node
        # it is the tensor's and the variable's, and what is shared has it twice; the memory is the node's and that of the list of inputs
        ours = (2 if shared is None else 4) + cpython.ASKING
        if cpython.references(self._current) <= ours and cpython.references(node.storage) <= 2 + cpython.ASKING:
            return False
        copy = build.elementwise("Or", node, False) if self.dtype is bool_ else build.elementwise("Mul", node, 1)
        execute.realize([copy])
        with grad_mode(False):
            made = succeeding(node, nodes.leaf(copy.storage, node.shape, node.dtype, node.device), self)
        if made.storage is None:
            made.materialize(copy.storage)
        self._current = made
        if shared is None:
            made.owner = weakref.ref(self)
        else:
            shared.own(made)
            self._leaf = shared.leaf
            shared.node = shared.storage.node = made
        return True

    def _share_no_more(self) -> bool:
        """Be alone again, where all that shared the value is gone. Whether the tensor shares nothing."""
        shared = self._shared
        if shared is None:
            return True
        if self._path:
            return False
        notes = (0, 0) if current.trace is None else current.trace.references(shared)
        others = cpython.references(self._shared) - notes[0] - 2 - cpython.ASKING  # the tensor has it, and the variable
        if others > 0 or cpython.references(shared.storage) - notes[1] > 1 + cpython.ASKING:
            return False
        if current.trace is not None:
            current.trace.on_seen(self)
        node = self._current = shared.current()
        self._shared = None
        value = nodes.resolve(node)
        value.owner = node.owner = weakref.ref(self)  # of a leaf, its earlier nodes know `_leaf`
        if value.storage is None:
            pending.succeed(self, shared.storage)
        return True

    @property
    def _exchanged(self) -> int:
        """How often the memory was exchanged, 0 for what is alone with it: to that it makes no difference."""
        return 0 if not self._rebound or self._share_no_more() else self._rebound

    def _was_overwritten(self) -> None:
        """The memory of the value holds another one now: who shares it derives what it sees anew."""
        shared = self._shared
        if shared is not None:
            self._seen = shared.version = shared.storage.version = new_version()

    @staticmethod
    def _all_of(storage: Storage) -> Any:
        """A tensor that shows all of a storage: the one that it knows, if that still does."""
        first = storage.tensor()
        if first is not None and first._cell() is storage:
            return first
        result = object.__new__(TensorBase._class)
        base = Base(storage, (), storage.value(), result)
        result._serial, result._grad, result._siblings, result._leaf = storage.origin, None, None, None
        result._rebound = 0
        result._current, result._shared, result._path, result._seen = base.node, base, (), storage.version
        return result

    def _join(self, other: TensorBase, node: Node) -> Base:
        """See henceforth what `other` sees, with a history of one's own; `node` is the value now. The new base."""
        shared = other._share()
        base = self._shared = Base(shared.storage, (*shared.path, *other._path), node, self)
        base.leaf = self._leaf
        self._path = ()
        self._current = base.node = other._apart(base, node)
        self._seen = base.version
        if not base.path and not (current.trace is not None and base.storage.origin <= current.trace.began):
            base.storage.tensor = weakref.ref(self)  # in a capture what was there before stays the one that it is
        return base

    def _snapshot(self) -> tuple[Any, ...]:
        return self._current, self._shared, self._path, self._seen

    def _restore(self, state: tuple[Any, ...]) -> None:
        self._current, self._shared, self._path, self._seen = state
        node = self._current
        owner = None if node.owner is None else node.owner()
        if self._shared is None and not isinstance(owner, TensorBase):  # what it was shared through meanwhile
            node.owner = weakref.ref(self)

    @staticmethod
    def _of(node: Node) -> Any:
        """A tensor around a node, even if that is another tensor's: for the library's own use, not for a result."""
        result = object.__new__(TensorBase._class)
        owner = node.owner
        result._adopt(node, owner is None or owner() is None)
        return result

    @staticmethod
    def _first_of(node: Node) -> Any:
        """As _of, of a node that has a value and was made for this tensor: each call of a compiled step makes some."""
        result = object.__new__(TensorBase._class)
        result._serial = pending.next_serial()
        result._current, result._shared, result._path, result._seen = node, None, (), 0
        result._grad = result._siblings = result._leaf = None
        result._rebound = 0
        node.owner = weakref.ref(result)
        return result

    @property
    def shape(self) -> Size:
        """The sizes of the axes; () for a number.

        >>> sg.zeros(2, 3).shape
        shadergrad.Size([2, 3])
        """
        return Size(self._node.shape)

    @property
    def dtype(self) -> DType:
        """The type of the elements, such as sg.float32.

        >>> sg.tensor([1, 2]).dtype
        shadergrad.int32
        """
        return self._node.dtype

    @property
    def device(self) -> device:
        """Where the tensor lives: a name such as 'cpu' or 'webgpu'.

        >>> sg.zeros(2).device
        'cpu'
        """
        return named_device(self._node.device)

    @property
    def ndim(self) -> int:
        """The number of axes.

        >>> sg.zeros(2, 3).ndim
        2
        """
        return len(self._node.shape)

    @property
    def requires_grad(self) -> bool:
        """Whether operations on the tensor are recorded for backward(). May be set, as by requires_grad_.

        >>> w = sg.ones(2, requires_grad=True)
        >>> w.requires_grad, (w * 2).requires_grad, w.detach().requires_grad
        (True, True, False)
        """
        return self._node.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise FlagError(f"requires_grad must be a bool, not {type_name(value)}.")
        if not self.is_leaf:
            raise AutogradError("you can only change requires_grad flags of leaf variables. Use detach() instead.")
        self.requires_grad_(value)

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is no result of recorded operations: backward() puts gradients into leaves that require
        one.

        >>> w = sg.ones(2, requires_grad=True)
        >>> w.is_leaf, (w * 2).is_leaf
        (True, False)
        """
        node = self._node
        return not node.requires_grad or isinstance(node.primitive, Variable)

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Size | int:
        """The shape, or the size of axis `dim`. Raises IndexRangeError for an axis that there is not.

        >>> sg.zeros(2, 3).size()
        shadergrad.Size([2, 3])
        >>> sg.zeros(2, 3).size(-1)
        3
        """
        if dim is None:
            return self.shape
        if not self.ndim:
            raise IndexRangeError(f"[size] dim {dim} was asked for, but the tensor has no dimensions")
        return self._node.shape[check_axis(dim, self.ndim, "size")]

    def dim(self) -> int:
        """The number of axes, as ndim.

        >>> sg.zeros(2, 3).dim()
        2
        """
        return self.ndim

    def ndimension(self) -> int:
        """The number of axes, as ndim.

        >>> sg.zeros(2, 3).ndimension()
        2
        """
        return self.ndim

    def numel(self) -> int:
        """The number of elements.

        >>> sg.zeros(2, 3).numel()
        6
        """
        return self._node.size

    def nelement(self) -> int:
        """The number of elements, as numel.

        >>> sg.zeros(2, 3).nelement()
        6
        """
        return self._node.size

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating one.

        >>> sg.tensor([1.0]).is_floating_point(), sg.tensor([1]).is_floating_point()
        (True, False)
        """
        return self.dtype.is_floating_point

    def is_signed(self) -> bool:
        """Whether the dtype holds negative numbers.

        >>> sg.tensor([1]).is_signed(), sg.tensor([True]).is_signed()
        (True, False)
        """
        return self.dtype.is_signed

    def element_size(self) -> int:
        """Bytes of an element on the host; on a GPU every element takes 4.

        >>> sg.zeros(2).element_size()
        4
        """
        return self.dtype.itemsize

    def __len__(self) -> int:
        if not self._node.shape:
            raise ArgumentTypeError("len() of a 0-d tensor")
        return self._node.shape[0]

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The values as a fresh NumPy array (PyTorch: shared memory); waits for the device.

        Raises AutogradError for a tensor that requires grad, unless force: detach() it first. CompileError within a
        compiled step.

        >>> sg.tensor([1.0, 2.0]).numpy()
        array([1., 2.], dtype=float32)
        """
        if self.requires_grad and not force:
            raise AutogradError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return self._read("numpy()")

    def _read(self, what: str) -> np.ndarray:
        if current.trace is not None:
            current.trace.on_read(what)
        try:
            node = self._node
            if node.storage is None:
                pending.compute(node, self._read_together())
            return execute.download(node)
        except Exception:
            pending.leave_out(self)
            raise

    def _read_together(self) -> list[Node]:
        """What is computed in the plan that computes this value: what came from the same backward pass, and whatever was
        changed in place, whose history would grow with each change that no one asks for."""
        alive = [] if self._siblings is None else [t._node for r in self._siblings if (t := r()) is not None]
        device = self._node.device
        return [n for n in (*alive, *pending.take_changed(device)) if n.device == device and n.storage is None]

    def item(self) -> Any:
        """The value of a tensor with one element, as a Python number; waits for the device.

        Raises ShapeError for another number of elements, CompileError within a compiled step.

        >>> sg.tensor([2.5]).item()
        2.5
        """
        if self._node.size != 1:
            raise ShapeError(
                f"[item] a Tensor with {self._node.size} elements (shape {tuple(self.shape)}) cannot be converted to Scalar"
            )
        return self._read("item()").reshape(()).item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; waits for the device. A number, where there are no axes.

        >>> sg.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        return self._read("tolist()").tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __format__(self, spec: str) -> str:
        """A tensor without axes as its number; others take no format but the empty one, as in PyTorch."""
        return format(self.item(), spec) if spec and not self.ndim else object.__format__(self, spec)

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.item(), digits) if not self.ndim else wrap(self._node).round(decimals=digits or 0)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """The value, its device and whether it is a leaf that requires grad: what pickle keeps. Sharing is not kept."""
        leaf = self.requires_grad and self.is_leaf
        return _rebuilt, (type(self), self._read("pickling"), self.dtype, str(self._node.device), leaf)

    def __bool__(self) -> bool:
        if self._node.size != 1:
            raise ShapeError(
                "Boolean value of Tensor with more than one value is ambiguous. Hint: use .any() or .all()."
            )
        return bool(self._read("bool()").reshape(()).item())

    def __index__(self) -> int:
        if self.dtype.category >= 2 or self._node.size != 1:
            raise ArgumentTypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __repr__(self) -> str:
        if current.trace is not None:
            return f"tensor(<captured {self._node!r}>)"
        parts = [np.array2string(self._read("repr()"), separator=", ", prefix="tensor(", **PRINTED)]
        if self.device != "cpu":
            parts.append(f"device='{self.device}'")
        if self.dtype not in (float32, int32, bool_, complex64):
            parts.append(f"dtype={self.dtype!r}")
        if self.requires_grad:
            function = None if self.is_leaf else getattr(self, "grad_fn", None)
            parts.append("requires_grad=True" if function is None else f"grad_fn=<{function.name()}>")
        return f"tensor({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """In notebooks: what print shows, and what the tensor is."""
        kind = f"{self.dtype.name} {tuple(self.shape)} on {self.device}"
        return html_repr.text(repr(self), kind + (", requires grad" if self.requires_grad else ""))

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether backward() shall collect a gradient here. In place; gives the tensor.

        Raises AutogradError for integers and bools, and for False on a computed tensor: detach() it.

        >>> sg.tensor([1.0, 2.0]).requires_grad_()
        tensor([1., 2.], requires_grad=True)
        """
        if current.trace is not None:
            current.trace.on_flag(self)
        node = self._node
        if requires_grad == node.requires_grad:
            return self
        if not requires_grad and not self.is_leaf:
            raise AutogradError("you can only change requires_grad flags of leaf variables. Use detach() instead.")
        if requires_grad and self.dtype.category < 2:
            raise AutogradError("only Tensors of floating point and complex dtype can require gradients")
        self._rebase(nodes.variable(node, self) if requires_grad else without_history(node), alone=True)
        return self

    def _rebase(self, node: Node, alone: bool = False) -> None:
        """Begin a history: the same value, and as much shared as before. alone: that of its views goes on as it was."""
        tracing.changes += 1
        if current.trace is not None:
            current.trace.on_change(self)
        shared = self._shared
        if shared is None:
            node.owner = weakref.ref(self)
            self._own(node)
            return
        if alone or shared.tensor() is not self:
            first = shared.storage.tensor
            shared = self._join(self, node)
            if first() is not None:  # it still shows all of the storage
                shared.storage.tensor = first
        else:  # and so of its views
            shared.node = self._current = node
            self._seen = shared.version = shared.storage.version = new_version()
        shared.own(node)
        self._leaf = shared.leaf

    def detach(self) -> Self:
        """The same value and memory, outside the tape: an alias that requires no gradient. Changing one in place
        changes the other.

        >>> w = sg.ones(2, requires_grad=True)
        >>> d = w.detach()
        >>> d.add_(1)
        tensor([2., 2.])
        >>> w
        tensor([2., 2.], requires_grad=True)
        """
        return self._alias(self._path, without_history(self._node))

    def detach_(self) -> Self:
        """detach, in place: the tensor becomes a leaf without history. Raises AutogradError for a view.

        >>> y = sg.ones(2, requires_grad=True) * 2
        >>> y.detach_()
        tensor([2., 2.])
        """
        if self._shared is not None and self._shared.tensor() is not self:
            raise AutogradError("Can't detach views in-place. Use detach() instead.")
        if current.trace is not None:
            current.trace.on_flag(self)
        if self.requires_grad:
            self._rebase(without_history(self._node), alone=True)
        return self

    def _assign(self, node: Node, what: str = "write") -> None:
        """Take another value, in place, and so whatever shares it; a leaf that requires grad stays one.

        Raises ShapeError, under the name `what`, where elements share a place: of which only fill_ says one value.
        """
        self._check_memory(what)
        if current.trace is not None:
            current.trace.on_assign(self)
        shared = self._shared
        if shared is None:
            if current.trace is not None:
                current.trace.on_change(self)
            before = self._current
            self._own(succeeding(before, node, self))
            if self._current.requires_grad != before.requires_grad:
                tracing.changes += 1
            if self._current.storage is None:
                pending.changed(self)
            return
        shared.write(self._path, node)
        if self._path and not node.requires_grad and not shared.node.requires_grad:
            if current.trace is not None:
                current.trace.on_seen(self)
            self._current = renamed(node)  # no need to cut out what was put in
            self._current.owner = weakref.ref(self)
            self._seen = shared.storage.version
        if (self._path or shared.path) and node.storage is None:
            pending.written(self)

    def _is_part_again(self) -> bool:
        """Show, of a storage that is computed, the part that the paths lead to, and not what was written there. Whether it is."""
        shared = self._shared
        if shared is None or shared.node.requires_grad:
            return True
        if shared.storage.node.storage is None:
            return False
        if shared.path and shared.node.storage is None:
            shared.version = 0
        if self._current.storage is None:
            self._seen = 0
        return True

    def _update_in_place(self, value: TensorBase | Node, what: str) -> Self:
        """The result of an in-place operation; refuses what PyTorch refuses."""
        node = value if isinstance(value, Node) else value._node
        self._check_writable(what)
        if node.shape != self._node.shape:
            raise ShapeError(
                f"[{what}] output with shape {list(self.shape)} doesn't match the broadcast shape {list(node.shape)}"
            )
        if node.dtype is not self.dtype:
            if node.dtype.category > self.dtype.category:
                raise DTypeError(
                    f"[{what}] result type {node.dtype.name} can't be cast to the desired output type {self.dtype.name}"
                )
            node = cast(node, self.dtype)
        if node.device != self._node.device:
            raise DeviceError(f"[{what}] the value is on {node.device}, the tensor on {self.device}.")
        self._assign(node, what)
        return self

    def _check_writable(self, what: str) -> None:
        """Raises AutogradError where a write has no place on the tape."""
        shared = self._shared
        whole = self._current if shared is None else shared.current()
        if mode.grad:
            if isinstance(whole.primitive, Variable):
                leaf = "a leaf Variable" if not self._path else "a view of a leaf Variable"
                raise AutogradError(
                    f"{leaf} that requires grad is being used in an in-place operation ({what}). Hint: do it under sg.no_grad()."
                )
            if shared is not None and shared.ambiguous:
                raise AutogradError(
                    f"A view was created in no_grad mode and is being modified inplace with grad mode enabled ({what}). "
                    "Hint: make the view outside no_grad, or write to it within."
                )

    def _check_memory(self, what: str) -> None:
        shared = self._shared
        if shared is None or not (shared.path or self._path) or what == "fill_":
            return
        if overlaps(self._node.shape, self._strides()[0]):
            raise ShapeError(
                f"[{what}] unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )

    def write_(self, array: np.ndarray) -> Self:
        """Overwrite the value with a host array of the same shape, ordered after all work submitted so far.

        The array is cast to the tensor's dtype. Not in PyTorch. Raises ShapeError for another shape.

        >>> x = sg.zeros(2)
        >>> x.write_(np.array([1.0, 2.0]))
        tensor([1., 2.])
        """
        if array.dtype.kind not in "biuf":
            raise DTypeError(f"write_(): cannot write an array of {array.dtype}: give one of numbers or bools.")
        array = np.asarray(array, self.dtype.numpy, order="C")
        if array.shape != self._node.shape:
            raise ShapeError(f"[write_] the array is {array.shape}, the tensor {tuple(self.shape)}.")
        with grad_mode(False):
            self._assign(execute.upload(array, self.dtype, self._node.device), "write_")
        return self

    def to(
        self, *args: Any, device: Any = None, dtype: Any = None, copy: bool = False, non_blocking: bool = False
    ) -> Self:
        """On another device and/or with another dtype: to('webgpu'), to(sg.float64), to('cpu', sg.int32), to(other).

        Gives the tensor itself where nothing changes and `copy` is not set. Gradients go back the way that the value came,
        also to another device. non_blocking changes nothing. Raises DeviceError for an unknown device, DTypeError for an
        unknown dtype or one that the device has not, CompileError for another device within a compiled step.

        >>> sg.tensor([1.7, -1.7]).to(sg.int32)
        tensor([ 1, -1])
        """
        for arg in args:
            if isinstance(arg, TensorBase):
                device, dtype = arg.device, arg.dtype
            elif arg is None or isinstance(arg, bool):
                continue
            elif isinstance(arg, str) and not is_dtype_name(arg):
                if device is not None:
                    raise ArgumentTypeError(f"to() got two devices: {str(device)!r} and {str(arg)!r}.")
                device = arg
            else:
                if dtype is not None:
                    raise ArgumentTypeError(f"to() got two dtypes: {dtype!r} and {arg!r}.")
                dtype = arg
        result = self
        target = self._node.device if device is None else resolve_device(device)
        wanted = self.dtype if dtype is None else parse_dtype(dtype)
        check_storable(wanted, target)
        if self.dtype.is_complex and wanted.category < 3:
            raise DTypeError(
                f"[to] {self.dtype.name} to {wanted.name} would drop the imaginary part. Hint: .real or .abs()."
            )
        if wanted is not self.dtype and get_device(self._node.device).target.language == "numpy":
            result = wrap(cast(result._node, wanted))
        if target != self._node.device:
            get_device(target)
            elsewhere = computed_on if current.trace is None else constant_on
            node = elsewhere(target, result._node)
            if node is None and current.trace is not None:
                raise CompileError(
                    f"[to] a compiled step works on one device, this one moves a {tuple(self.shape)} tensor from {self.device} to "
                    f"{target}. Hint: move arguments, and what the step reads, before it, results after it; make new tensors "
                    "and draw random numbers where they are wanted, device=..."
                )
            result = wrap(moved(result._node, result._read("to()"), target) if node is None else node)
        if wanted is not result.dtype:
            result = wrap(cast(result._node, wanted))
        return result.clone() if copy and result is self else result

    def cpu(self) -> Self:
        """The tensor on the cpu device; itself if it is there.

        >>> sg.ones(2).cpu()
        tensor([1., 1.])
        """
        return self.to("cpu")

    def type_as(self, other: TensorBase) -> Self:
        """The tensor with the dtype of `other`.

        >>> sg.tensor([1, 2]).type_as(sg.ones(1))
        tensor([1., 2.])
        """
        return self.to(dtype=other.dtype)

    def clone(self) -> Self:
        """A copy that the tape runs through: its gradient goes on to self.

        >>> x = sg.tensor([1.0, 2.0])
        >>> y = x.clone()
        >>> y.add_(1)
        tensor([2., 3.])
        >>> x
        tensor([1., 2.])
        """
        word, neutral = ("Or", False) if self.dtype is bool_ else ("Mul", 1)
        return wrap(build.elementwise(word, self._node, neutral))

    def contiguous(self) -> Self:
        """The tensor itself where its elements lie row by row in what it shares, else a copy.

        >>> sg.tensor([[1, 2], [3, 4]]).t().contiguous()
        tensor([[1, 3],
                [2, 4]])
        """
        return self if self._is_row_major() else self._copied()

    def _is_row_major(self) -> bool:
        """Whether the elements lie row by row in what is shared."""
        return lies_row_by_row(self._node.shape, self._strides()[0])

    def _copied(self) -> Self:
        """The value in memory of its own, as clone(), but at no cost: no computation is recorded."""
        return wrap(make(Alias(), self._node))

    def _is_the_same_view(self, other: TensorBase) -> bool:
        """Whether both see the same elements of the same base."""
        return self._shared is not None and self._shared is other._shared and self._path == other._path

    def _is_the_same_memory(self, other: TensorBase) -> bool:
        """Whether both see the same elements of the same storage, in the same order."""
        mine, its = self._shared, other._shared
        if mine is None or its is None:
            return self is other
        return mine.storage is its.storage and (*mine.path, *self._path) == (*its.path, *other._path)

    def _strides(self) -> tuple[tuple[int, ...], int]:
        """Elements from one to the next along every axis, and before the first, in what is shared."""
        shared = self._shared
        if shared is None:
            return self._lies(self._serial, self._node.shape), 0
        whole = shared.storage.node.shape
        found = strides((*shared.path, *self._path), whole, self._lies(shared.storage.origin, whole))
        return (row_major(self._node.shape), 0) if found is None else found

    @staticmethod
    def _lies(origin: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The strides of what tensors share: row by row, but for arguments of a compiled step that lie otherwise."""
        given = None if current.trace is None else current.trace.layouts.get(origin)
        return row_major(shape) if given is None else given


PRINTED: dict[str, Any] = {"precision": 4, "threshold": 200}  # how tensors print: arguments of np.array2string


def _rebuilt(cls: type[Any], array: np.ndarray, dtype: DType, device: str, requires_grad: bool) -> Any:
    """A tensor that was pickled."""
    result = object.__new__(cls)
    result._adopt(node_of(array, dtype, device))
    if requires_grad:
        result.requires_grad_()
    return result


def wrap(node: Node) -> Any:
    """A tensor around a node."""
    result = object.__new__(TensorBase._class)
    result._adopt(node)
    pending.bound()
    return result


def binary(primitive: Primitive, a: TensorBase | Number, b: TensorBase | Number) -> Any:
    return wrap(make(primitive, *operands(a, b)))


OPERANDS = (TensorBase, bool, int, float, complex, np.number, np.bool_)  # what stands beside a tensor at an operator


def unsupported(symbol: str, a: Any, b: Any) -> ArgumentTypeError:
    """The error of an operator between things that it does not take."""
    names = " and ".join(f"'{type(v).__name__ if isinstance(v, TensorBase) else type_name(v)}'" for v in (a, b))
    hint = " Hint: sg.tensor(...) makes a Tensor." if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else ""
    return ArgumentTypeError(f"unsupported operand type(s) for {symbol}: {names}.{hint}")


def not_ours(symbol: str, a: TensorBase, b: Any) -> Any:
    """What an operator gives that does not know its right side: classes of users may; of others nothing can come."""
    if type(b).__module__ in ("builtins", "numpy", "torch"):
        raise unsupported(symbol, a, b)
    return NotImplemented


def floating(x: TensorBase) -> Node:
    """The node of x, as float32 where it is of integers or bools."""
    node = x._node
    return node if node.dtype.category >= 2 else cast(node, default_dtype())


def check_axis(dim: int, ndim: int, what: str) -> int:
    """A non-negative axis; raises IndexRangeError outside [-ndim, ndim - 1]."""
    if type(dim) is not int:
        dim = _whole(what, "dim", dim, "int")
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        raise IndexRangeError(
            f"[{what}] Dimension out of range (expected to be in range of [{-max(ndim, 1)}, {max(ndim, 1) - 1}], but got {dim})"
        )
    return dim % max(ndim, 1)


def check_axes(dim: int | Sequence[int] | None, ndim: int, what: str) -> tuple[int, ...]:
    """Sorted axes; None or () means all."""
    if dim is None:
        return tuple(range(ndim))
    if type(dim) is int:
        given: Sequence[int] = (dim,)
    else:
        given = dim if isinstance(dim, list | tuple) else (_whole(what, "dim", dim, "int or tuple of ints"),)
    axes = [check_axis(d, ndim, what) for d in given] or list(range(ndim))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"[{what}] a dim appears twice in {dim}.")
    return tuple(sorted(axes)) if ndim else ()


def _whole(what: str, name: str, value: Any, wanted: str) -> int:
    """A whole number that is not a plain int; bools are none."""
    if not isinstance(value, bool | np.bool_):
        try:
            return operator.index(value)
        except TypeError:
            pass
    return refuse(what, name, value, wanted)


def sizes_of(args: tuple[Any, ...], what: str, name: str = "size") -> tuple[int, ...]:
    """Sizes given as arguments or as one sequence, which the argument `name` of `what` is."""
    if len(args) == 1 and isinstance(args[0], list | tuple | np.ndarray):
        args = tuple(args[0])
    return tuple(a if type(a) in (int, Varying) else _whole(what, name, a, "tuple of ints") for a in args)


def check_sizes(shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """A shape of which there can be a tensor."""
    if min(shape, default=0) < 0:
        raise ShapeError(f"{what}(): negative size in {shape}.")
    if math.prod(n for n in shape if n) >= LARGEST:
        raise ShapeError(f"{what}(): Storage size calculation overflowed with sizes={list(shape)}.")
    return shape


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """What shapes broadcast to."""
    found = _common_shape(*shapes)
    return symbolic_sizes.restored(found, shapes) if symbolic_sizes.follows else found


@lru_cache(4096)
def _common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(f"The shapes of the operands do not broadcast: {', '.join(map(str, shapes))}.") from None


def operands(*values: TensorBase | Number, common: bool = True) -> list[Node]:
    """The nodes of operands, broadcast to one shape and, if `common`, promoted to one dtype.

    Zero-dimensional cpu tensors and Python numbers follow the device of the others, as in PyTorch.
    """
    if len(values) == 2 and isinstance(values[0], TensorBase) and isinstance(values[1], TensorBase):
        a, b = values[0]._node, values[1]._node
        if a.dtype is b.dtype and a.device == b.device and not a.dtype.is_complex:  # most often
            if a.shape == b.shape:
                return [a, b]
            shape = common_shape(a.shape, b.shape)
            return [build.broadcast(a, shape), build.broadcast(b, shape)]
    tensors = [v for v in values if isinstance(v, TensorBase)]
    lead = next((t for t in tensors if t.ndim), tensors[0])
    described: list[tuple[DType, int]] = []
    for v in values:
        described.append((v.dtype, 2 if v.ndim else 1) if isinstance(v, TensorBase) else (of_scalar(v), 0))
    dtype = promote_operands(described) if common else None
    if dtype is not None and dtype.is_complex:
        check_storable(dtype, lead._node.device)
    result: list[Node] = []
    for v, (own, _) in zip(values, described, strict=True):
        if isinstance(v, TensorBase):
            if v.ndim == 0 and v.device != lead.device and v.device == "cpu" and not v.requires_grad:
                v = v.to(lead.device)
            node = v._node
        else:
            node = build.constant(
                v, dtype if dtype is not None and dtype.category >= own.category else own, lead._node.device
            )
        if dtype is not None and node.dtype is not dtype:
            node = cast(node, dtype)
        result.append(node)
    shape = common_shape(*(n.shape for n in result))
    return [build.broadcast(n, shape) for n in result]


def _host_array(data: Any, dtype: Any) -> tuple[np.ndarray, DType]:
    """A host array and the dtype it shall have."""
    if isinstance(data, np.ndarray | np.generic):
        if data.dtype.kind not in "biufc":
            raise DTypeError(f"cannot make a tensor of an array of {data.dtype}: give one of numbers or bools.")
        found = parse_dtype(data.dtype) if dtype is None else parse_dtype(dtype)
        array = np.asarray(data)
    else:
        try:
            array = np.array(_plain(data))
        except ValueError:
            raise RaggedError(
                "expected numbers or sequences of equal lengths, but got sequences that differ."
            ) from None
        if array.dtype.kind not in "biufc":
            raise DTypeError(f"cannot make a tensor of {_culprit(data)}: give numbers, or sequences of them.")
        if dtype is not None:
            found = parse_dtype(dtype)
        elif array.size == 0:
            found = default_dtype()
        else:
            found = of_scalar(array.reshape(-1)[0].item())
    if array.dtype.kind == "c" and not found.is_complex:
        raise DTypeError(f"complex numbers are no {found.name}. Hint: take .real or .imag, or dtype=sg.complex64.")
    if found.category == 1 and array.size and array.dtype.kind in "iuf":
        info = np.iinfo(found.numpy)
        if not (array.min() >= info.min and array.max() <= info.max):  # nor is NaN an integer
            raise DTypeError(
                f"a value does not fit {found.name}: the range is {array.min()} to {array.max()}. Hint: int64 holds larger numbers."
            )
    return array.astype(found.numpy, copy=False), found  # the device makes its copy


def _culprit(data: Any) -> str:
    """The type, in nested lists, of what is no number, or the whole number that no dtype holds."""
    if isinstance(data, list | tuple) and data:
        return next(filter(None, map(_culprit, data)), "")
    if isinstance(data, int):
        return f"{data}, which no dtype holds" if not -(1 << 63) <= data < 1 << 64 else ""
    return "" if isinstance(data, float | complex | np.number | np.bool_ | TensorBase) else type_name(data)


def _plain(data: Any) -> Any:
    """Nested lists with tensors inside as numbers."""
    if isinstance(data, TensorBase):
        return data.numpy()
    if isinstance(data, list | tuple):
        return [_plain(d) for d in data]
    return data


def is_dtype_name(text: str) -> bool:
    try:
        parse_dtype(text)
    except DTypeError:
        return False
    return True


def node_of(data: Any, dtype: Any = None, device: Any = None) -> Node:
    """The node of a new tensor: of a number, nested lists, a NumPy array, or another tensor's value."""
    if isinstance(data, TensorBase):
        with grad_mode(False):
            return without_history(data.to(device=device, dtype=dtype)._node)
    return execute.upload(*_host_array(data, dtype), resolve_device(device))


def host_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """A tensor with the values of a number, nested lists or a NumPy array."""
    return wrap(node_of(data, dtype, device))
