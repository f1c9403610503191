"""The public interface for hand-written kernels: an operation with its own shader, used on tensors like any other.

An `Operation` defines its shape rule, its value in NumPy, its shader and its gradient. In: tensors. Out: a tensor that fuses
with adjacent views, is differentiable, and runs in compiled steps, on both devices. docs/extend.md builds one.
Such code needs this file and the public names of the library only; logic/ is written in this way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .autograd import GradcheckError, grad, gradcheck, is_grad_enabled
from .compile.calls import chooses
from .compile.wgsl.functions import functions_text, math_functions
from .drive.tracing import Trace, current
from .dtypes import DType, float64, parse_dtype
from .errors import AutogradError, CompileError, DeviceError, DTypeError, ShadergradError, ShapeError
from .graph import node as nodes
from .graph.node import topological
from .primitives.call import Call, CallKernel
from .primitives.random import threefry2x32
from .target import PORTABLE as PORTABLE_TARGET
from .target import Target
from .tensor import Generator, Tensor, check_storable, default_generator, resolve_device

if TYPE_CHECKING:
    from .graph.build import Builder
    from .graph.node import Node

__all__ = [
    "PORTABLE",
    "CheckError",
    "Javascript",
    "Limits",
    "Operation",
    "Shader",
    "Spec",
    "check",
    "random_key",
    "threefry2x32",
    "wgsl_functions",
]


class CheckError(ShadergradError, AssertionError):
    """The parts of an operation do not agree. Raised by `check`."""


@dataclass(frozen=True)
class Spec:
    """The description of a tensor before it is computed: its shape and dtype (a DType or its name).

    Raises ShapeError for a negative or fractional size, DTypeError for an unknown dtype.

    >>> sg.extend.Spec((2, 3), "float32").size
    6
    """

    shape: tuple[int, ...]
    dtype: DType

    if TYPE_CHECKING:  # the dtype may also be a name

        def __init__(self, shape: Sequence[int], dtype: DType | str) -> None: ...

    def __post_init__(self) -> None:
        shape = tuple(self.shape)
        if not all(isinstance(n, int | np.integer) and n >= 0 for n in shape):
            raise ShapeError(f"[Spec] the shape is {shape}; sizes are whole numbers from 0.")
        object.__setattr__(self, "shape", tuple(int(n) for n in shape))
        object.__setattr__(self, "dtype", parse_dtype(self.dtype))

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)


@dataclass(frozen=True)
class Limits:
    """The limits of a device for shaders. PORTABLE: the limits that every device supports.

    max_workgroup_invocations: threads per workgroup. max_workgroup_storage: bytes of a workgroup's variables.
    max_binding_bytes: bytes of one array that a shader accesses.

    >>> sg.extend.PORTABLE.max_workgroup_invocations, sg.extend.PORTABLE.max_workgroup_storage
    (256, 16384)
    """

    max_workgroup_invocations: int
    max_workgroup_storage: int
    max_binding_bytes: int


def _limits(target: Target) -> Limits:
    return Limits(target.max_workgroup_invocations, target.max_workgroup_storage, target.max_binding_bytes)


PORTABLE = _limits(PORTABLE_TARGET)


@dataclass(frozen=True)
class Shader:
    """The shader of an operation, in WGSL.

    body: the statements of its entry point. They access the inputs as read-only arrays with the names in `arguments`, the
    array `result`, `wg: i32` (the number of the workgroup) and `lid: u32` (the number of the thread in it). float32 is
    f32, int32 and int64 i32, uint32 u32. A bool is a u32 of 0 or 1, a uint8 a u32 below 256; a body that writes them must
    keep to these ranges. All elements are in row-major order.
    threads: the threads per workgroup. workgroups: their number, without a limit, because the grid is folded to the device's limits.
    preamble: the text before the entry point: constants, workgroup variables, functions.
    vectors: the arrays that are bound as array<vec4<...>>; their sizes must be multiples of four.
    flops: the floating-point operations of all workgroups together, for `explain()`.
    Raises CompileError for fewer than one thread or workgroup, and for an empty body.

    >>> body = "let t = wg * 64 + i32(lid);\\nif (t < 100) { result[t] = 2.0 * x[t]; }"
    >>> sg.extend.Shader(body, threads=64, workgroups=2).threads
    64
    """

    body: str
    threads: int
    workgroups: int
    preamble: str = ""
    vectors: frozenset[str] = frozenset()
    flops: int = 0

    def __post_init__(self) -> None:
        if self.threads < 1 or self.workgroups < 1:
            raise CompileError(
                f"[Shader] {self.workgroups} workgroups of {self.threads} threads; at least one of each is needed."
            )
        if not self.body.strip():
            raise CompileError("[Shader] the body is empty; it must write `result`.")


class Javascript(NamedTuple):
    """An operation in plain JavaScript.

    function: `(o, a, b) => { … }`, which writes the result into o; o and the inputs are typed arrays in row-major order, of 32-bit numbers,
    or of bytes for bools. preamble: the functions that it calls; operations that share functions must give the same text.

    >>> sg.extend.Javascript("(o, x) => { for (let k = 0; k < x.length; k++) o[k] = 3 * x[k]; }").preamble
    ''
    """

    function: str
    preamble: str = ""


class Operation:
    """An operation on tensors with a hand-written shader. Subclasses are frozen dataclasses of the operation's parameters.

    arguments: the names of its inputs in the shader, at least one. A subclass defines `infer`, `numpy`, and `shader` (one
    kernel) or `compose` (several); and `gradient` if it has one. Equal operations on equal inputs are computed once, so the
    result must depend on the parameters and the inputs only.

    Call an operation with as many tensors as it has arguments, all on one device; the result is on that device. Raises
    ShapeError for another number of tensors, DTypeError for anything but a tensor and for a result whose dtype the device
    lacks, DeviceError for several devices, AutogradError if a gradient would be lost because there is no `gradient`, and
    CompileError for a class that is not a frozen dataclass and for parameters that cannot be hashed.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Scaled(sg.extend.Operation):
    ...     factor: float
    ...     arguments = ("x",)
    ...
    ...     def infer(self, x):
    ...         return x
    ...
    ...     def numpy(self, x):
    ...         return x * x.dtype.type(self.factor)
    ...
    ...     def shader(self, limits, x):
    ...         body = f"let t = wg * 64 + i32(lid);\\nif (t < {x.size}) {{ result[t] = {self.factor} * x[t]; }}"
    ...         return sg.extend.Shader(body, threads=64, workgroups=-(-x.size // 64))
    ...
    ...     def gradient(self, g, result, x):
    ...         return (g * self.factor,)
    >>> Scaled(3.0)(sg.tensor([1.0, 2.0])).tolist()
    [3.0, 6.0]
    """

    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The operation's name in error messages, `explain()` and kernels: the class's name in lower case."""
        return type(self).__name__.lower()

    # *args: Any, **kwargs: Any, because type checkers then let a subclass name its inputs

    def infer(self, *args: Any, **kwargs: Any) -> Spec:
        """The shape and dtype of the result. inputs: a Spec each. Raises ShapeError or DTypeError for inputs that do not fit."""
        raise CompileError(f"[{self.name}] infer() is missing: it says of what shape and dtype the result is.")

    def numpy(self, *args: Any, **kwargs: Any) -> np.ndarray:
        """The value on the cpu device, with the shape and dtype of `infer`, in memory that is not overwritten later.

        The arrays are read-only. With float64 arrays it must compute in float64, so that `check` can differentiate it.
        """
        raise CompileError(f"[{self.name}] has no NumPy twin and does not run on the cpu device. Hint: define numpy().")

    def shader(self, *args: Any, **kwargs: Any) -> Shader:
        """The kernel for inputs of these shapes. Arguments: the device's Limits, and a Spec for each input."""
        raise CompileError(
            f"[{self.name}] has no shader and does not run on a GPU. Hint: define shader(), or compose() for several kernels."
        )

    def compose(self, *args: Any, **kwargs: Any) -> Tensor | None:
        """The result on a GPU as a composition of other operations, those of tensors and those with shaders; None for an operation with a shader.

        inputs: a tensor each. It runs when a graph is compiled, before anything is computed: it must not read values, change
        tensors, draw random numbers, or make tensors of data. All values that it needs are among its inputs.
        """
        return None

    def javascript(self, *args: Any, **kwargs: Any) -> Javascript | None:
        """The same operation in JavaScript, for web pages in browsers without a GPU; None if it needs a GPU there. inputs: a Spec each."""
        return None

    def gradient(self, *args: Any, **kwargs: Any) -> Any:
        """The gradients of all inputs, None for those without one; a single gradient needs no tuple.

        Arguments, all tensors: g, the gradient of the result, with its shape; the result; the inputs. It computes with tensors, so that
        it can be differentiated again. Only gradients of inputs with `requires_grad` are used.
        """
        raise NotImplementedError

    def __call__(self, *inputs: Tensor) -> Tensor:
        primitive = _primitive(self)
        if len(inputs) != len(self.arguments):
            raise ShapeError(
                f"[{self.name}] takes {len(self.arguments)} tensors ({', '.join(self.arguments)}), not {len(inputs)}."
            )
        for argument, x in zip(self.arguments, inputs, strict=True):
            if not isinstance(x, Tensor):
                raise DTypeError(
                    f"[{self.name}] {argument} is a {type(x).__name__}, not a tensor. Hint: sg.tensor(...)."
                )
        node = nodes.make(primitive, *(x._node for x in inputs))
        check_storable(node.dtype, node.device)
        lost = [a for a, x in zip(self.arguments, inputs, strict=True) if x.requires_grad]
        if lost and not primitive.differentiable and node.dtype.category == 2 and is_grad_enabled():
            raise AutogradError(
                f"[{self.name}] has no gradient, and {lost[0]} requires one. Hint: define gradient(), or hand in {lost[0]}.detach()."
            )
        return Tensor._of(node)


# -- an operation as a primitive of the graph


@dataclass(frozen=True, eq=False)
class OperationCall(Call):
    """An operation in the graph."""

    kind = "call"
    operation: Any

    @property
    def name(self) -> str:
        return self.operation.name

    @property
    def arguments(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.operation.arguments

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        return type(self.operation).gradient is not Operation.gradient

    def infer(self, *inputs: Node) -> tuple[tuple[int, ...], DType]:
        found = self.operation.infer(*map(_spec, inputs))
        if not isinstance(found, Spec):
            raise ShapeError(f"[{self.name}] infer() gives a {type(found).__name__}, not a Spec(shape, dtype).")
        return found.shape, found.dtype

    def numpy(self, *args: Any, **kwargs: Any) -> np.ndarray:
        value = np.asarray(self.operation.numpy(*map(_read_only, args)))
        wanted = self.operation.infer(*(Spec(a.shape, parse_dtype(a.dtype)) for a in args))
        if value.shape != wanted.shape or value.dtype != wanted.dtype.numpy:
            raise ShapeError(
                f"[{self.name}] numpy() gives {value.dtype} {value.shape}; infer() says {wanted.dtype.name} {wanted.shape}."
            )
        return value

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        inputs = node.inputs
        found = self.operation.gradient(Tensor._of(g), Tensor._of(node), *map(Tensor._of, inputs))
        found = list(found) if isinstance(found, tuple | list) else [found]
        if len(found) != len(inputs):
            raise AutogradError(
                f"[{self.name}] gradient() gives {len(found)} gradients for {len(inputs)} inputs. Hint: None where there is none."
            )
        return tuple(self._gradient(*pair) for pair in zip(self.arguments, found, inputs, strict=True))

    def _gradient(self, argument: str, found: Any, of: Node) -> Node | None:
        if found is None:
            return None
        if not isinstance(found, Tensor):
            raise AutogradError(
                f"[{self.name}] gradient() gives a {type(found).__name__} for {argument}, not a tensor."
            )
        given = found._node
        if (given.shape, given.dtype, given.device) != (of.shape, of.dtype, of.device):
            raise AutogradError(
                f"[{self.name}] gradient() gives {given.dtype.name} {given.shape} on {given.device} for {argument}, "
                f"which is {of.dtype.name} {of.shape} on {of.device}."
            )
        return given

    def kernel(self, options: Limits, *inputs: Node) -> CallKernel:
        made = self.operation.shader(options, *map(_spec, inputs))
        if made.threads > options.max_workgroup_invocations:
            raise CompileError(
                f"[{self.name}] the shader wants {made.threads} threads a workgroup; the device allows "
                f"{options.max_workgroup_invocations}. Hint: limits.max_workgroup_invocations."
            )
        sizes = {name: x.size for name, x in zip(self.arguments, inputs, strict=True)}
        sizes["result"] = math.prod(self.infer(*inputs)[0])
        for name in sorted(made.vectors):
            if sizes.get(name, 1) % 4:
                what = f"has {sizes[name]} elements, no multiple of four" if name in sizes else "is no array of it"
                raise CompileError(f"[{self.name}] {name!r} is to be bound as vectors, but {what}.")
        return CallKernel(made.body, made.threads, made.workgroups, made.preamble, made.vectors, made.flops)

    def expand(self, r: Builder, *inputs: Node) -> Node | None:
        if type(self.operation).compose is Operation.compose:
            return None
        with _composing(self.name):
            result = self.operation.compose(*map(Tensor._of, inputs))
        if result is None:
            return None
        if not isinstance(result, Tensor):
            raise CompileError(f"[{self.name}] compose() gives a {type(result).__name__}, not a tensor.")
        shape, dtype = self.infer(*inputs)
        if (result._node.shape, result.dtype) != (shape, dtype):
            raise CompileError(
                f"[{self.name}] compose() gives {result.dtype.name} {tuple(result.shape)}; infer() says {dtype.name} {shape}."
            )
        return self._rebuilt(r, result._node, inputs)

    def _rebuilt(self, r: Builder, root: Node, inputs: Sequence[Node]) -> Node:
        """A composition as the compiler's rules build it, on the given nodes."""
        new = {id(i): i for i in inputs}
        for node in topological([root], lambda n: () if id(n) in new else n.inputs):
            if id(node) in new:
                continue
            if node.storage is not None:
                raise CompileError(
                    f"[{self.name}] compose() uses a tensor that it was not given, {node!r}. Hint: make it an argument; "
                    "full, zeros and arange may be made inside."
                )
            new[id(node)] = r.make(node.primitive, *(new[id(i)] for i in node.inputs))
        return new[id(root)]


@chooses(OperationCall)
def _limits_for(p: OperationCall, target: Target, inputs: Sequence[Node]) -> Limits:
    """The device's limits, for a user's shader."""
    return _limits(target)


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written, because the array may also be another tensor's value."""
    view = array.view()
    view.flags.writeable = False
    return view


def _spec(node: Node) -> Spec:
    return Spec(node.shape, node.dtype)


def _primitive(operation: Operation) -> OperationCall:
    made = getattr(type(operation), "__dataclass_params__", None)
    if made is None or not (made.frozen and made.eq):  # it is a key of plans: immutable, and compared by value
        raise CompileError(
            f"[{operation.name}] is no frozen dataclass. Hint: @dataclass(frozen=True) before the class."
        )
    _check_names(type(operation).__name__, operation.arguments)
    try:
        return OperationCall(operation)
    except TypeError as error:
        raise CompileError(
            f"[{operation.name}] cannot be hashed: {error}. Hint: @dataclass(frozen=True), with numbers, texts and tuples in it."
        ) from error


OWN_NAMES = frozenset({"result", "wg", "lid", "wid", "main", "fault"})  # names in the text around a shader's body


@lru_cache(maxsize=1024)
def _check_names(operation: str, arguments: tuple[str, ...]) -> None:
    if not arguments:
        raise CompileError(f"[{operation}] `arguments` is empty; it names the inputs, at least one.")
    for name in arguments:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in OWN_NAMES or arguments.count(name) > 1:
            raise CompileError(
                f"[{operation}] the argument {name!r} cannot be: names are identifiers, each another, and none of "
                f"{', '.join(sorted(OWN_NAMES))}."
            )


class _Composition(Trace):
    """Active while compose() runs in the compiler, when tensors are descriptions only."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def on_read(self, what: str) -> None:
        raise CompileError(f"[{self.name}] compose() reads a value ({what}); nothing has been computed yet.")

    def on_assign(self, tensor: Tensor) -> None:
        raise CompileError(
            f"[{self.name}] compose() changes a tensor, or draws random numbers. Hint: hand in what is drawn; see random_key."
        )


@contextmanager
def _composing(name: str) -> Iterator[None]:
    before, current.trace = current.trace, _Composition(name)
    try:
        yield
    finally:
        current.trace = before


# -- what shaders are made of


def wgsl_functions(*names: str) -> str:
    """The text of the library's own WGSL functions, with all functions that they call, for the preamble of a shader.

    Raises CompileError for an unknown name; the message lists all names.

    >>> "fn sg_threefry(" in sg.extend.wgsl_functions("sg_threefry")
    True
    """
    known = math_functions()
    for name in names:
        if name not in known:
            raise CompileError(f"[wgsl_functions] there is no {name!r}; there are {', '.join(known)}.")
    return functions_text(set(names))


def random_key(device: Any = None, generator: Generator | None = None) -> Tensor:
    """Two new random words, uint32 (2,), on a device: the key with which a shader draws random numbers by `sg_threefry`.

    They come from the generator, by default the device's, so sg.manual_seed determines them, and a compiled step draws
    new ones in each run. threefry2x32(key, x0, x1) is the same in NumPy. Raises DeviceError for a generator of another device.

    >>> sg.extend.random_key("cpu").shape
    shadergrad.Size([2])
    """
    name = resolve_device(device)
    if generator is not None and generator.device != name:
        raise DeviceError(f"[random_key] the generator is on {generator.device}, the key is wanted on {name}.")
    return Tensor._of((generator or default_generator(name)).bits((2,)))


# -- whether it is right


def check(
    operation: Operation, *arrays: np.ndarray, device: str = "webgpu", rtol: float = 1e-5, atol: float = 1e-6
) -> None:
    """Checks that the parts of an operation agree for these inputs. Raises CheckError with the position where they do not.

    arrays: one for each argument, with dtypes that the operation supports. It compares
    - the value on `device` with `numpy`: |a - b| <= atol + rtol |b|, exactly if it is not floating,
    - the gradients on `device` with those on the cpu device, in the same way, for one random cotangent,
    - `gradient` with central differences of `numpy`, both in float64; use small inputs, because each element is varied.
    The last two if the operation has a gradient. With device="cpu" it uses no GPU. Raises DeviceError if there is no such device.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Doubled(sg.extend.Operation):
    ...     arguments = ("x",)
    ...
    ...     def infer(self, x):
    ...         return x
    ...
    ...     def numpy(self, x):
    ...         return x + x
    ...
    ...     def gradient(self, g, result, x):
    ...         return (3 * g,)
    >>> try:
    ...     sg.extend.check(Doubled(), np.ones(2, np.float32), device="cpu")
    ... except sg.extend.CheckError as error:
    ...     print(str(error).partition(":")[0])
    [doubled] gradient() is not the derivative of numpy()
    """
    given = [np.asarray(a) for a in arrays]
    differentiable = _primitive(operation).differentiable
    expected, slopes = _results(operation, given, "cpu", differentiable)
    if device != "cpu":
        found, found_slopes = _results(operation, given, device, differentiable)
        _compare(operation, "the value", device, found, expected, rtol, atol)
        for argument, a, b in zip(operation.arguments, found_slopes, slopes, strict=True):
            if a is not None and b is not None:
                _compare(operation, f"the gradient of {argument}", device, a, b, rtol, atol)
    if differentiable:
        precise = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in given]
        inputs = [Tensor(a, dtype=a.dtype, device="cpu", requires_grad=a.dtype.kind == "f") for a in precise]
        if operation(*inputs).dtype is not float64:
            raise CheckError(f"[{operation.name}] infer() gives no float64 for float64 inputs, which `check` needs.")
        try:
            gradcheck(operation, inputs)
        except GradcheckError as error:
            raise CheckError(f"[{operation.name}] gradient() is not the derivative of numpy(): {error}") from error


def _results(
    operation: Operation, arrays: Sequence[np.ndarray], device: str, differentiable: bool
) -> tuple[np.ndarray, list[np.ndarray | None]]:
    """The value, and for a random cotangent the gradients by argument."""
    inputs = [
        Tensor(a, dtype=a.dtype, device=device, requires_grad=differentiable and a.dtype.kind == "f") for a in arrays
    ]
    result = operation(*inputs)
    slopes: list[np.ndarray | None] = [None] * len(inputs)
    if result.requires_grad:
        cotangent = np.random.default_rng(0).standard_normal(tuple(result.shape))
        wanted = [k for k, x in enumerate(inputs) if x.requires_grad]
        found = grad(
            result,
            [inputs[k] for k in wanted],
            Tensor(cotangent, dtype=result.dtype, device=device),
            allow_unused=True,
        )
        for k, g in zip(wanted, found, strict=True):
            slopes[k] = None if g is None else g.detach().numpy()
    return result.detach().numpy(), slopes


def _compare(
    operation: Operation, what: str, device: str, found: np.ndarray, expected: np.ndarray, rtol: float, atol: float
) -> None:
    near = np.isclose(found, expected, rtol, atol, equal_nan=True) if found.dtype.kind == "f" else found == expected
    if near.all():
        return
    with np.errstate(invalid="ignore"):
        apart = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    worst = np.unravel_index(int(np.argmax(np.where(near, -1.0, np.nan_to_num(apart, nan=np.inf)))), apart.shape)
    raise CheckError(
        f"[{operation.name}] {what} on {device} is not that of the NumPy twin: {int((~near).sum())} of {near.size} elements "
        f"differ, most at {tuple(map(int, worst))}: {found[worst]} and {expected[worst]}."
    )
