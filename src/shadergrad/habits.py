"""The lines people type: names and methods of PyTorch that need no operation of their own.

Constructors by type (FloatTensor), defaults, random state, `x.type()`, `x.cuda()`, exchange with NumPy by DLPack. What cannot
be is refused with what to write instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .arguments import checked
from .dtypes import DType, bool_, default_dtype, float16, float32, float64, int32, int64, parse_dtype, uint8
from .errors import ArgumentError, DeviceError
from .graph.node import mode
from .runtime.device import standing_for
from .tensor import Tensor, as_tensor, base, default_generator, from_numpy, manual_seed, sizes_of, zeros

# -- constructors by type


def _constructor(name: str, kind: DType) -> Any:
    def make(*data: Any) -> Tensor:
        if all(isinstance(d, int) and not isinstance(d, bool) for d in data):
            return zeros(*sizes_of(data, name), dtype=kind, device="cpu")
        (values,) = data
        return Tensor(
            np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values), dtype=kind, device="cpu"
        )

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""A tensor of {kind.name} on the cpu device: {name}(values), or {name}(2, 3) of zeros by sizes.

>>> sg.{name}([1, 0]).dtype
shadergrad.{kind.name}
"""
    return checked(make, name)


FloatTensor = _constructor("FloatTensor", float32)
DoubleTensor = _constructor("DoubleTensor", float64)
HalfTensor = _constructor("HalfTensor", float16)
LongTensor = _constructor("LongTensor", int64)
IntTensor = _constructor("IntTensor", int32)
ByteTensor = _constructor("ByteTensor", uint8)
BoolTensor = _constructor("BoolTensor", bool_)
TYPES = {
    "FloatTensor": float32,
    "DoubleTensor": float64,
    "HalfTensor": float16,
    "LongTensor": int64,
    "IntTensor": int32,
    "ByteTensor": uint8,
    "BoolTensor": bool_,
}

# -- defaults


@checked
def set_default_dtype(d: Any) -> None:
    """The floating dtype of tensors of Python floats, of zeros, ones, rand and their like: float32 or float64.

    float64 is on the cpu device alone. Raises DTypeError for another dtype.

    >>> sg.set_default_dtype(sg.float32)
    """
    dtypes.set_default(parse_dtype(d))


@checked
def get_default_dtype() -> DType:
    """The floating dtype where none is said.

    >>> sg.get_default_dtype()
    shadergrad.float32
    """
    return default_dtype()


@checked
def set_default_tensor_type(t: Any) -> None:
    """The default dtype by the name of a constructor: FloatTensor or DoubleTensor.

    >>> sg.set_default_tensor_type("torch.FloatTensor")
    """
    dtypes.set_default(_kind(t))


def _kind(t: Any) -> DType:
    """The dtype of a constructor, or of its name."""
    name = t if isinstance(t, str) else getattr(t, "__name__", "")
    last = name.rpartition(".")[2]
    if ".cuda." in name:
        raise DeviceError(f"[type] {name} is of CUDA, which is not there. Hint: x.to('webgpu').")
    return TYPES[last] if last in TYPES else parse_dtype(t)


@checked
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors print: digits after the point, elements above which a tensor is shortened, how many remain at each edge,
    characters a line. profile: 'default', 'short' (2 digits, 1000 elements) or 'full' (no shortening). sci_mode: powers of
    ten always or never. Raises ArgumentError for another profile.

    >>> sg.set_printoptions(precision=2)
    >>> sg.tensor([1.23456])
    tensor([1.23])
    >>> sg.set_printoptions(profile="default")
    """
    profiles: dict[str, dict[str, Any]] = {
        "default": {"precision": 4, "threshold": 200},
        "short": {"precision": 2, "threshold": 1000, "edgeitems": 2},
        "full": {"precision": 4, "threshold": 1 << 62},
    }
    options = base.PRINTED
    if profile is not None:
        if profile not in profiles:
            raise ArgumentError(f"set_printoptions(): profile is 'default', 'short' or 'full', not {profile!r}.")
        options.clear()
        options.update(profiles[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "max_line_width": linewidth}
    options.update({k: int(min(v, 1 << 62)) for k, v in given.items() if v is not None})
    if sci_mode is not None:
        options.pop("formatter", None)
        options.pop("suppress_small", None)
        if sci_mode:
            options["formatter"] = {"float_kind": lambda v: f"{v:.{options['precision']}e}"}
        else:
            options["suppress_small"] = True


# -- random state


@checked
def get_rng_state() -> np.ndarray:
    """The state of the stream that all devices' random numbers come from: what set_rng_state takes.

    >>> state = sg.get_rng_state()
    >>> first = sg.rand(2)
    >>> sg.set_rng_state(state)
    >>> first.equal(sg.rand(2))
    True
    """
    return default_generator("cpu").get_state()


@checked
def set_rng_state(new_state: Any) -> None:
    """Go on from a state that get_rng_state gave.

    >>> sg.set_rng_state(sg.get_rng_state())
    """
    default_generator("cpu").set_state(np.asarray(new_state))


@checked
def initial_seed() -> int:
    """The seed of random numbers.

    >>> _ = sg.manual_seed(7)
    >>> sg.initial_seed()
    7
    """
    state = get_rng_state()
    return (int(state[0]) << 32) | int(state[1])


@checked
def seed() -> int:
    """Seed random numbers by chance, and give the seed.

    >>> sg.seed() == sg.initial_seed()
    True
    """
    drawn = int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    manual_seed(drawn)
    return drawn


# -- types


@checked
def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype of an operation of two tensors or numbers.

    >>> sg.result_type(sg.tensor([1]), 1.0)
    shadergrad.float32
    """
    described = [
        (t.dtype, 2 if t.ndim else 1) if isinstance(t, Tensor) else (dtypes.of_scalar(t), 0) for t in (tensor1, tensor2)
    ]
    return dtypes.promote_operands(described)


@checked
def promote_types(type1: Any, type2: Any) -> DType:
    """The least dtype that holds both.

    >>> sg.promote_types(sg.int32, sg.float32)
    shadergrad.float32
    """
    return dtypes.promote(parse_dtype(type1), parse_dtype(type2))


@checked
def can_cast(from_: Any, to: Any) -> bool:
    """Whether a cast keeps the kind of number: bools to all, integers to floats, but not back.

    >>> sg.can_cast(sg.int32, sg.float32), sg.can_cast(sg.float32, sg.int32)
    (True, False)
    """
    return parse_dtype(from_).category <= parse_dtype(to).category


@checked
def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not 0. Raises ShapeError for another number of them.

    >>> sg.is_nonzero(sg.tensor([2.0]))
    True
    """
    return bool(input)


@checked
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal.

    >>> sg.is_same_size(sg.ones(2), sg.zeros(2))
    True
    """
    return input.shape == other.shape


@checked
def typename(obj: object) -> str:
    """The type of an object with its module; of a tensor as `x.type()`.

    >>> sg.typename(sg.ones(2))
    'torch.FloatTensor'
    """
    return obj.type() if isinstance(obj, Tensor) else f"{type(obj).__module__}.{type(obj).__name__}"  # type: ignore[attr-defined]


@checked
def from_dlpack(ext_tensor: Any) -> Tensor:
    """A cpu tensor with a copy of the values of anything that speaks DLPack in host memory.

    >>> sg.from_dlpack(np.ones(2, np.float32))
    tensor([1., 1.])
    """
    if not hasattr(ext_tensor, "__dlpack__"):  # a capsule, as older programs pass
        ext_tensor = _Capsule(ext_tensor)
    return from_numpy(np.from_dlpack(ext_tensor).copy())


class _Capsule:
    """What a DLPack capsule of host memory is, to those that ask an object for one."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@checked
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of values of any kind, as as_tensor; a tensor of this dtype and device is given back unless copy.

    >>> sg.asarray([1.0, 2.0])
    tensor([1., 2.])
    """
    found = as_tensor(obj, dtype=dtype, device=device)
    found = found.clone() if copy and found is obj else found
    return found.detach().requires_grad_() if requires_grad else found


# -- harmless switches


@checked
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Nothing to do: all algorithms are deterministic.

    >>> sg.use_deterministic_algorithms(True)
    """


@checked
def are_deterministic_algorithms_enabled() -> bool:
    """True: all algorithms are deterministic.

    >>> sg.are_deterministic_algorithms_enabled()
    True
    """
    return True


@checked
def set_float32_matmul_precision(precision: str) -> None:
    """Nothing to do: products are of float32 ('highest') always. Raises ArgumentError for an unknown precision.

    >>> sg.set_float32_matmul_precision("high")
    """
    if precision not in ("highest", "high", "medium"):
        raise ArgumentError(f"set_float32_matmul_precision(): 'highest', 'high' or 'medium', not {precision!r}.")


@checked
def get_float32_matmul_precision() -> str:
    """'highest'.

    >>> sg.get_float32_matmul_precision()
    'highest'
    """
    return "highest"


@checked
def set_num_threads(int_: int) -> None:
    """Nothing to do: the cpu device's threads are NumPy's, which OMP_NUM_THREADS sets before the program starts.

    >>> sg.set_num_threads(4)
    """


@checked
def get_num_threads() -> int:
    """1: the cpu device has no threads of its own.

    >>> sg.get_num_threads()
    1
    """
    return 1


@checked
def set_num_interop_threads(int_: int) -> None:
    """Nothing to do, as set_num_threads.

    >>> sg.set_num_interop_threads(4)
    """


@checked
def get_num_interop_threads() -> int:
    """1: operations run one after the other.

    >>> sg.get_num_interop_threads()
    1
    """
    return 1


@checked
def is_inference_mode_enabled() -> bool:
    """Whether nothing is recorded for backward; inference_mode is no_grad here.

    >>> sg.is_inference_mode_enabled()
    False
    """
    return not mode.grad


# -- methods


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, as 'torch.FloatTensor'; or the tensor in another dtype, named so or by a dtype.

    >>> sg.ones(2).type(), sg.ones(2).type("torch.LongTensor").dtype
    ('torch.FloatTensor', shadergrad.int64)
    """
    if dtype is not None:
        return self.to(dtype=_kind(dtype))
    name = next((n for n, d in TYPES.items() if d is self.dtype), f"{self.dtype.name.capitalize()}Tensor")
    return f"torch.{name}"


NO_CUDA = "CUDA is not there: GPUs are reached by WebGPU. Hint: .to('webgpu')."


def _cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """There is no CUDA: raises DeviceError. GPUs are x.to('webgpu').

    >>> try:
    ...     sg.ones(2).cuda()
    ... except sg.DeviceError as error:
    ...     print(error)
    [cuda] CUDA is not there: GPUs are reached by WebGPU. Hint: .to('webgpu').
    """
    if standing_for("cuda"):  # under `shadergrad run --device`
        return self.to("cuda")
    raise DeviceError(f"[cuda] {NO_CUDA}")


def _half(self: Tensor) -> Tensor:
    """As float16, which is on the cpu device only: DTypeError elsewhere.

    >>> sg.ones(2).half().dtype
    shadergrad.float16
    """
    return self.to(dtype=float16)


def _bfloat16(self: Tensor) -> Tensor:
    """There is no bfloat16: raises DTypeError.

    >>> try:
    ...     sg.ones(2).bfloat16()
    ... except sg.DTypeError as error:
    ...     print(error)
    bfloat16 is not available: no shader has it, nor NumPy. Hint: float32, which is exact there.
    """
    return self.to(dtype=dtypes.bfloat16)


def _byte(self: Tensor) -> Tensor:
    """As uint8.

    >>> sg.ones(2).byte().dtype
    shadergrad.uint8
    """
    return self.to(dtype=uint8)


def _new(self: Tensor, *args: Any) -> Tensor:
    """A tensor of this dtype and device, of zeros by sizes, or of values: x.new(2, 3), x.new([1, 2]).

    >>> sg.ones(2).new(2, 3).shape
    shadergrad.Size([2, 3])
    """
    if args and not all(isinstance(a, int) for a in args):
        return Tensor(args[0], dtype=self.dtype, device=self.device)
    return self.new_zeros(*args) if args else self.new_zeros(0)


def _get_device(self: Tensor) -> int:
    """-1 on the cpu device, else the number of the adapter.

    >>> sg.ones(2).get_device()
    -1
    """
    return -1 if self.device.type == "cpu" else self.device.index


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: uploads need no pinned memory.

    >>> sg.ones(2).pin_memory()
    tensor([1., 1.])
    """
    return self


def _is_pinned(self: Tensor) -> bool:
    """False.

    >>> sg.ones(2).is_pinned()
    False
    """
    return False


def _share_memory_(self: Tensor) -> Tensor:
    """The tensor itself; other processes get a copy.

    >>> sg.ones(2).share_memory_()
    tensor([1., 1.])
    """
    return self


def _is_shared(self: Tensor) -> bool:
    """False: other processes get a copy.

    >>> sg.ones(2).is_shared()
    False
    """
    return False


def _map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """Put callable(element, its counterpart in tensor) into every element, one by one on the host. In place.

    >>> sg.ones(2).map_(sg.tensor([1.0, 2.0]), lambda a, b: a + b)
    tensor([2., 3.])
    """
    values = self.detach().numpy()
    others = np.broadcast_to(tensor.detach().numpy(), values.shape)
    found = [callable(a, b) for a, b in zip(values.ravel().tolist(), others.ravel().tolist(), strict=True)]
    return self.copy_(Tensor(np.array(found, values.dtype).reshape(values.shape), device=self.device))


def _apply_(self: Tensor, function: Any) -> Tensor:
    """Put function(element) into every element, one by one on the host. In place; gives the tensor.

    >>> sg.ones(2).apply_(lambda v: v + 1)
    tensor([2., 2.])
    """
    values = self.detach().numpy()
    changed = np.array([function(v) for v in values.ravel().tolist()], values.dtype).reshape(values.shape)
    return self.copy_(Tensor(changed, device=self.device))


def _dlpack(self: Tensor, **options: Any) -> Any:
    """A DLPack capsule of a copy of the values; of a tensor on the cpu device. Raises DeviceError elsewhere.

    >>> np.from_dlpack(sg.ones(2))
    array([1., 1.], dtype=float32)
    """
    if self.device != "cpu":
        raise DeviceError(f"[__dlpack__] the tensor is on {self.device}. Hint: .cpu() it.")
    return self.detach().numpy().__dlpack__(**options)


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    """(1, 0): the cpu."""
    return (1, 0)


METHODS: dict[str, Any] = {
    "type": _type,
    "cuda": _cuda,
    "half": _half,
    "bfloat16": _bfloat16,
    "byte": _byte,
    "new": _new,
    "get_device": _get_device,
    "pin_memory": _pin_memory,
    "is_pinned": _is_pinned,
    "share_memory_": _share_memory_,
    "is_shared": _is_shared,
    "apply_": _apply_,
    "map_": _map_,
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
}


def _is_cuda(self: Tensor) -> bool:
    """False: GPUs are reached by WebGPU.

    >>> sg.ones(2).is_cuda
    False
    """
    return False


def _is_sparse(self: Tensor) -> bool:
    """False: all tensors are dense.

    >>> sg.ones(2).is_sparse
    False
    """
    return False


def _layout(self: Tensor) -> str:
    """'strided', as sg.strided.

    >>> sg.ones(2).layout == sg.strided
    True
    """
    return strided


def _itemsize(self: Tensor) -> int:
    """Bytes of an element, as element_size().

    >>> sg.ones(2).itemsize
    4
    """
    return self.element_size()


def _nbytes(self: Tensor) -> int:
    """Bytes of all elements.

    >>> sg.ones(2).nbytes
    8
    """
    return self.element_size() * self.numel()


def _mH(self: Tensor) -> Tensor:
    """The matrices transposed, and conjugated where they are complex.

    >>> sg.ones(2, 3).mH.shape
    shadergrad.Size([3, 2])
    """
    return self.mT.conj()  # type: ignore[attr-defined]


def _H(self: Tensor) -> Tensor:
    """A matrix transposed, and conjugated where it is complex.

    >>> sg.ones(2, 3).H.shape
    shadergrad.Size([3, 2])
    """
    return _mH(self)


PROPERTIES: dict[str, Any] = {
    "is_cuda": _is_cuda,
    "is_mps": _is_cuda,
    "is_sparse": _is_sparse,
    "is_quantized": _is_sparse,
    "layout": _layout,
    "itemsize": _itemsize,
    "nbytes": _nbytes,
    "mH": _mH,
    "H": _H,
}

strided = "strided"
preserve_format, contiguous_format, channels_last = "preserve_format", "contiguous_format", "channels_last"
channels_last_3d = "channels_last_3d"
newaxis = None


def _install() -> None:
    for name, method in METHODS.items():
        if not name.startswith("_"):
            method.__name__ = method.__qualname__ = name
            method = checked(method, name, method=True)
        setattr(Tensor, name, method)
    for name, getter in PROPERTIES.items():
        if not name.startswith("is_m") and not name.startswith("is_q"):
            getter.__name__ = name
        setattr(Tensor, name, property(getter))


_install()
