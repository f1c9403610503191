"""Lazy modules, which infer the size of their input at the first call: their parameters have no shape until then."""

from __future__ import annotations

from typing import Any, ClassVar

from ..errors import ShapeError
from ..tensor import Tensor, empty, zeros
from . import batchnorm, conv, linear
from .functional.sliding_windows import Ints
from .module import Module
from .parameter import Buffer, Parameter

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear", "UninitializedBuffer", "UninitializedParameter",
]  # fmt: skip


class UninitializedParameter(Parameter):
    """A parameter without a shape until `materialize`. Pass it to an optimizer after that.

    >>> p = nn.UninitializedParameter()
    >>> p.materialize((2,))
    >>> p.shape
    shadergrad.Size([2])
    """

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(empty(0, device=device, dtype=dtype), requires_grad)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the parameter that shape and zeros; dtype and device stay unless given."""
        made = zeros(*shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = Parameter  # type: ignore[assignment]
        self._become(made._node)

    def __repr__(self) -> str:
        return "<UninitializedParameter>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        result = memo[id(self)] = UninitializedParameter(self.requires_grad, self.device, self.dtype)
        return result


class UninitializedBuffer(Buffer):
    """A buffer without a shape until `materialize`.

    >>> b = nn.UninitializedBuffer()
    >>> b.materialize((2,))
    >>> b.shape
    shadergrad.Size([2])
    """

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> None:
        super().__init__(empty(0, device=device, dtype=dtype), persistent=persistent)
        if requires_grad:
            self.requires_grad_()

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the buffer that shape and zeros; dtype and device stay unless given."""
        made = zeros(*shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = Buffer  # type: ignore[assignment]
        self._become(made._node)

    def __repr__(self) -> str:
        return "<UninitializedBuffer>"


def is_lazy(tensor: Any) -> bool:
    """Whether a tensor has no shape yet."""
    return isinstance(tensor, UninitializedParameter | UninitializedBuffer)


class _Lazy(Module):
    """Base: the first call materializes parameters and buffers without a shape, and changes the module's class to `becomes`."""

    becomes: ClassVar[type[Module]]
    _told: ClassVar[tuple[str, str]] = "", ""  # inferred arguments, and arguments of an example

    def __init_subclass__(cls, becomes: type[Module] | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if becomes is not None:
            cls.becomes = becomes
            if cls.__module__ == __name__:  # a user's class keeps its own docstring
                cls.__doc__ = cls.__doc__ or cls._docstring(becomes.__name__)

    @classmethod
    def _docstring(cls, eager: str) -> str:
        learns, arguments = cls._told
        rank = int(eager[-2])  # Conv1d, Conv2d, Conv3d
        shape = ", ".join(["1", "3"] + ["5"] * rank)
        return f"""A{"n" if eager[0] == "I" else ""} {eager} whose {learns} is the number of channels of its first input.

>>> layer = nn.{cls.__name__}({arguments})
>>> _ = layer(sg.ones({shape}))
>>> layer.{learns}, type(layer).__name__
(3, {eager!r})
"""

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        return any(is_lazy(t) for t in [*self._parameters.values(), *self._buffers.values()])

    def initialize_parameters(self, input: Tensor) -> None:
        """Materialize parameters and buffers without a shape, from an input."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.initialize_parameters(*args, **kwargs)
        self.__class__ = self.becomes  # type: ignore[assignment]
        return self(*args, **kwargs)


def _unshaped(module: Module, *names: str) -> None:
    """Replace the existing parameters and buffers of these names by ones without a shape."""
    for name in names:
        parameter, buffer = module._parameters.get(name), module._buffers.get(name)
        if parameter is not None:
            module._parameters[name] = UninitializedParameter(True, parameter.device, parameter.dtype)
        elif buffer is not None:
            module._buffers[name] = UninitializedBuffer(False, buffer.device, buffer.dtype)


class LazyLinear(_Lazy, linear.Linear, becomes=linear.Linear):
    """A Linear whose in_features is the size of the last axis of its first input.

    >>> layer = nn.LazyLinear(2)
    >>> layer(sg.ones(4, 3)).shape, layer
    (shadergrad.Size([4, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, bias, device, dtype)
        self.out_features = out_features
        _unshaped(self, "weight", "bias")

    def initialize_parameters(self, input: Tensor) -> None:
        """Give shapes to weight and bias, and draw them."""
        self.in_features = input.shape[-1]
        if _shaped((self.weight, (self.out_features, self.in_features)), (self.bias, (self.out_features,))):
            self.reset_parameters()


def _shaped(*tensors: tuple[Any, tuple[int, ...]]) -> bool:
    """Give each tensor the shape beside it. Returns whether any had no shape; a state dict may have given them one."""
    wanting = [(tensor, shape) for tensor, shape in tensors if is_lazy(tensor)]
    for tensor, shape in wanting:
        tensor.materialize(shape)
    return bool(wanting)


class _LazyConv(_Lazy, conv._ConvNd):
    _told = "in_channels", "4, 2"

    def __init__(
        self,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Any = 0,
        *args: Any,
        **options: Any,
    ) -> None:
        wanted = out_channels
        groups = _argument(type(self).becomes, "groups", args, options)
        super().__init__(groups, groups, kernel_size, stride, padding, *args, **options)  # type: ignore[call-arg]
        if wanted % groups:
            raise ShapeError(
                f"{type(self).__name__}(): out_channels must be divisible by groups, but got {wanted}, {groups}."
            )
        self.in_channels, self.out_channels = 0, wanted
        _unshaped(self, "weight", "bias")

    def initialize_parameters(self, input: Tensor, *args: Any) -> None:
        """Give shapes to weight and bias, and draw them."""
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise ShapeError(
                f"Expected {self.rank + 1}D (unbatched) or {self.rank + 2}D (batched) input to {type(self).__name__}, but got "
                f"input of size: {list(input.shape)}"
            )
        self.in_channels = input.shape[-self.rank - 1]
        first, second = (
            (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        )
        shape = (first, second // self.groups, *self.kernel_size)
        if _shaped((self.weight, shape), (self.bias, (self.out_channels,))):
            self.reset_parameters()


def _argument(cls: type, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> int:
    """The value of an argument of a constructor, among those that follow `padding`."""
    if name in options:
        return options[name]
    names = ["output_padding", "groups"] if issubclass(cls, conv._TransposedConv) else ["dilation", "groups"]
    place = names.index(name)
    return args[place] if len(args) > place else 1


class _LazyNorm(_Lazy, batchnorm._Tracking):
    _told = "num_features", ""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(0, *args, **options)
        _unshaped(self, "weight", "bias", "running_mean", "running_var")

    def initialize_parameters(self, input: Tensor) -> None:
        """Give parameters and statistics their shapes and initial values."""
        self._check_input_dim(input)
        batched = input.ndim == max(self.ranks) or self.ranks == (2, 3)
        self.num_features = input.shape[1 if batched else 0]
        tensors = (self.weight, self.bias, self.running_mean, self.running_var)
        if _shaped(*((tensor, (self.num_features,)) for tensor in tensors)):
            self.reset_parameters()


# fmt: off
class LazyConv1d(_LazyConv, conv.Conv1d, becomes=conv.Conv1d): ...  # type: ignore[misc]
class LazyConv2d(_LazyConv, conv.Conv2d, becomes=conv.Conv2d): ...  # type: ignore[misc]
class LazyConv3d(_LazyConv, conv.Conv3d, becomes=conv.Conv3d): ...  # type: ignore[misc]
class LazyConvTranspose1d(_LazyConv, conv.ConvTranspose1d, becomes=conv.ConvTranspose1d): ...  # type: ignore[misc]
class LazyConvTranspose2d(_LazyConv, conv.ConvTranspose2d, becomes=conv.ConvTranspose2d): ...  # type: ignore[misc]
class LazyConvTranspose3d(_LazyConv, conv.ConvTranspose3d, becomes=conv.ConvTranspose3d): ...  # type: ignore[misc]
class LazyBatchNorm1d(_LazyNorm, batchnorm.BatchNorm1d, becomes=batchnorm.BatchNorm1d): ...  # type: ignore[misc]
class LazyBatchNorm2d(_LazyNorm, batchnorm.BatchNorm2d, becomes=batchnorm.BatchNorm2d): ...  # type: ignore[misc]
class LazyBatchNorm3d(_LazyNorm, batchnorm.BatchNorm3d, becomes=batchnorm.BatchNorm3d): ...  # type: ignore[misc]
class LazyInstanceNorm1d(_LazyNorm, batchnorm.InstanceNorm1d, becomes=batchnorm.InstanceNorm1d): ...  # type: ignore[misc]
class LazyInstanceNorm2d(_LazyNorm, batchnorm.InstanceNorm2d, becomes=batchnorm.InstanceNorm2d): ...  # type: ignore[misc]
class LazyInstanceNorm3d(_LazyNorm, batchnorm.InstanceNorm3d, becomes=batchnorm.InstanceNorm3d): ...  # type: ignore[misc]
# fmt: on
