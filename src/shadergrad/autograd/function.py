"""Operations with a custom backward step.

    class Exp(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return grad * y

    y = Exp.apply(x)

forward is not recorded; its results share one backward step (tensor/results.py). backward uses tensors, so with create_graph it
is recorded and can be differentiated again. Both run during the capture of a compiled step, and the compiler fuses their
operations like any others. Reference: https://pytorch.org/docs/stable/notes/extending.html
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import AutogradError, DeviceError, DTypeError, ShapeError
from ..graph import build
from ..graph.composition import is_kind
from ..graph.leaves import Stored, Variable
from ..graph.node import Node, grad_mode, mode
from ..tensor import Tensor, joint, meet, result
from .saving import Packed, hooks, packed


class FunctionCtx:
    """The context that forward leaves for backward. It takes any further attributes.

    needs_input_grad: for each argument of apply, whether it is a tensor that requires grad.

    >>> class Square(sg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> sg.autograd.functional.jacobian(Square.apply, sg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._saved: list[tuple[Tensor | None, int | None]] = []  # (a tensor, or the position of a result)
        self._packed: list[Packed | None] = []  # by hooks, in the same order
        self._non_differentiable: list[Tensor] = []
        self._dirty: list[Tensor] = []
        self._materialize = True
        self._meeting: Node | None = None  # set while backward runs

    if TYPE_CHECKING:  # other attributes are the user's

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward, with their present values. Arguments and results keep their history for second
        derivatives; other tensors are constants."""
        for k, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise DTypeError(
                    f"save_for_backward can only save variables, but argument {k} is of type {type(t).__name__}"
                )
        # A tensor of ours: the user's may take another value later.
        self._saved = [(None if t is None else Tensor._of(t._node), None) for t in tensors]
        self._packed = [None if t is None else packed(t) for t in tensors] if hooks.stack else []

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The arguments of save_for_backward: tensors and None."""
        if self._packed:
            return tuple(None if p is None else p.unpacked() for p in self._packed)
        return tuple(self._restored(t, k) for t, k in self._saved)

    def _restored(self, tensor: Tensor | None, position: int | None) -> Tensor | None:
        # A result holds the meeting, which holds this context: to have the result here would be a cycle, so it is made
        # anew from the meeting that backward is at.
        if tensor is None or position is None or self._meeting is None:
            return tensor
        return Tensor._of(result(tensor, self._meeting, position))

    def mark_non_differentiable(self, *results: Tensor) -> None:
        """These results require no gradient; backward gets zeros for them."""
        self._non_differentiable += results

    def mark_dirty(self, *arguments: Tensor) -> None:
        """These arguments were changed in place and are results too."""
        self._dirty += arguments

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True, the default) or None for results without a gradient."""
        self._materialize = value


class Function:
    """An operation defined by static methods forward and backward. Call `apply`; never create an instance.

    forward(ctx, *args) returns a tensor, or a tuple of tensors and other values. Alternatively forward(*args) with
    setup_context(ctx, inputs, output). Tensors in lists or dicts of the arguments are constants. backward(ctx, *grads) gets the
    gradient of each result, and returns one for each argument: a tensor, or None. There is no jvp and no vmap.

    >>> class Doubled(sg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return 2 * g
    >>> Doubled.apply(sg.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The results, from a context (without setup_context) and the arguments of apply. A subclass defines it."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Called after a forward without ctx, to keep values for backward."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        """The gradients of the arguments, from the context and the gradients of the results. A subclass defines it."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward "
            "mode AD."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward, and record backward as its gradient.

        Raises AutogradError, DTypeError, ShapeError or DeviceError in the backward pass, if backward does not return one
        gradient for each argument, with the argument's shape (or one that broadcasts to it) and device.
        """
        separate = cls.setup_context is not Function.setup_context
        if kwargs:
            if not separate:
                raise TypeError(f"{cls.__name__}.apply takes keyword arguments only together with setup_context.")
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        recorded = mode.grad and any(ctx.needs_input_grad)
        step = _BackwardStep(cls, ctx, args)
        with grad_mode(False):
            output = cls.forward(*args) if separate else cls.forward(ctx, *args)
            if separate:
                cls.setup_context(ctx, args, output)
        results = list(output) if isinstance(output, tuple | list) else [output]
        wired = step.wire(results) if recorded else [_plain(r, args, ctx) for r in results]
        if not isinstance(output, tuple | list):
            return wired[0]
        return type(output)(*wired) if hasattr(output, "_fields") else type(output)(wired)


def _is_among(x: Any, values: Sequence[Any]) -> bool:
    return any(x is v for v in values)  # not `in`: == of tensors is elementwise


def _plain(value: Any, args: Sequence[Any], ctx: FunctionCtx) -> Any:
    """A result outside the tape; an argument that is returned becomes a tensor of its own."""
    if not isinstance(value, Tensor) or _is_among(value, ctx._dirty):
        return value
    return value.detach() if value.requires_grad or _is_among(value, args) else value


class _BackwardStep:
    """The backward step of one call of apply: a Meeting calls it with the gradients of the results."""

    def __init__(self, function: type[Function], ctx: FunctionCtx, args: Sequence[Any]) -> None:
        self.function = function
        self.ctx = ctx
        self.name = function.__name__
        self.args = args
        self.inputs = [a._node for a, needs in zip(args, ctx.needs_input_grad, strict=True) if needs]
        # Of what shape, dtype and device gradients are, None for anything but a tensor. Values are let go.
        self.arguments = [_kind_of(a) for a in args]
        self.results: list[Node | None] = []

    def wire(self, results: list[Any]) -> list[Any]:
        """The results, with history."""
        for a, node in zip(self.args, self.arguments, strict=True):
            if node is not None and isinstance(node.primitive, Variable) and _is_among(a, self.ctx._dirty):
                raise AutogradError(
                    f"a leaf Variable that requires grad is being used in an in-place operation ({self.name})."
                )
        meeting = meet([Tensor._of(n) for n in self.inputs], self)
        self.results = [_kind_of(r) for r in results]
        wired = [self._result(r, meeting, k) if isinstance(r, Tensor) else r for k, r in enumerate(results)]
        self.inputs, self.args = [], ()
        return wired

    def _result(self, r: Tensor, meeting: Node, k: int) -> Tensor:
        ctx, value = self.ctx, r.detach()
        if value.dtype.category < 2 or _is_among(r, ctx._non_differentiable):
            return value
        is_dirty = _is_among(r, ctx._dirty)
        if is_dirty or not _is_among(r, self.args):
            ctx._saved = [(t, k if p is None and t is not None and t._node is r._node else p) for t, p in ctx._saved]
        made = result(value, meeting, k)
        if not is_dirty:
            return Tensor._of(made)
        r._assign(made)
        return r

    def __call__(self, grads: dict[int, Tensor], meeting: Node) -> list[Node | None]:
        """The gradients of the arguments that require grad, from those of the results."""
        ctx = self.ctx
        given: list[Tensor | None] = []
        for k, r in enumerate(self.results):
            g = grads.get(k)
            if g is None and r is not None and ctx._materialize:
                g = Tensor._of(build.like(r, 0))
            given.append(g)
        ctx._meeting = meeting
        try:
            found = self.function.backward(ctx, *given)
        finally:
            ctx._meeting = None
        return self._checked(list(found) if isinstance(found, tuple | list) else [found])

    def _checked(self, found: list[Any]) -> list[Node | None]:
        wanted = len(self.arguments)
        while len(found) > wanted and found[-1] is None:
            found.pop()
        if len(found) != wanted:
            raise AutogradError(
                f"function {self.name}Backward returned an incorrect number of gradients (expected {wanted}, got {len(found)})"
            )
        gradients = [self._gradient(k, g, a) for k, (g, a) in enumerate(zip(found, self.arguments, strict=True))]
        return [g for g, needs in zip(gradients, self.ctx.needs_input_grad, strict=True) if needs]

    def _gradient(self, k: int, g: Any, argument: Node | None) -> Node | None:
        """The gradient of argument k, with its shape and dtype."""
        if g is None:
            return None
        if not isinstance(g, Tensor):
            raise DTypeError(f"function {self.name}Backward: expected Variable or None (got {type(g).__name__})")
        if argument is None:
            raise AutogradError(
                f"function {self.name}Backward returned a gradient different than None at position {k + 1}, but the "
                "corresponding forward input was not a Variable"
            )
        if not self.ctx.needs_input_grad[k]:
            return None
        invalid = f"Function {self.name}Backward returned an invalid gradient at index {k} -"
        if g._node.device != argument.device:
            raise DeviceError(f"{invalid} expected device {argument.device} but got {g.device}")
        fitting = _summed_to(g, argument.shape)
        if fitting is None:
            raise ShapeError(f"{invalid} got {list(g.shape)} but expected shape compatible with {list(argument.shape)}")
        return fitting.to(dtype=argument.dtype)._node


def _kind_of(value: Any) -> Node | None:
    """A node with the shape, dtype and device of a tensor, that keeps nothing alive."""
    if not isinstance(value, Tensor):
        return None
    node = value._node
    primitive = node.primitive if is_kind(node, Variable) else Stored()
    return Node(primitive, (), node.shape, node.dtype, node.device)


def _summed_to(g: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    """The gradient of what was broadcast from `shape` to the shape of g; None if it was not."""
    extra = g.ndim - len(shape)
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, g.shape[extra:], strict=True)):
        return None
    axes = [a for a in range(g.ndim) if a < extra or (shape[a - extra] == 1 and g.shape[a] != 1)]
    return (g.sum(axes, keepdim=True) if axes else g).reshape(shape)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for a backward that cannot be differentiated: an attempt raises AutogradError.

    >>> class Doubled(sg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...
    ...     @staticmethod
    ...     @sg.autograd.once_differentiable
    ...     def backward(ctx, g):
    ...         return 2 * g
    >>> x = sg.ones(1, requires_grad=True)
    >>> sg.autograd.grad(Doubled.apply(x), x)
    (tensor([2.]),)
    """

    @functools.wraps(backward)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        with grad_mode(False):
            found = backward(ctx, *grads)
        behind = [g for g in grads if isinstance(g, Tensor) and g.requires_grad]
        if not mode.grad or not behind:
            return found
        results = list(found) if isinstance(found, tuple | list) else [found]
        places = [k for k, r in enumerate(results) if isinstance(r, Tensor)]
        for k, r in zip(places, joint(behind, [results[k].detach() for k in places], _refuse), strict=True):
            results[k] = r
        return tuple(results)

    return wrapped


def _refuse(_: Any) -> Any:
    raise AutogradError("trying to differentiate twice a function that was marked with @once_differentiable")
