"""PyTorch's private names, and names of its C++ core, that public packages use.

For each module of PyTorch a function returns the names and their values. Settings of TorchScript, cuDNN and torch.compile are accepted
and have no effect, because this library has none of the three.
"""

from __future__ import annotations

import collections.abc
import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import shadergrad
from shadergrad.compiled_module import CompiledModule
from shadergrad.nn import init, lazy
from shadergrad.nn.utils.parametrizations import norm_except

from ...errors import ArgumentError
from ...tensor import Tensor, default_generator
from . import hub


class _FakeQuantized(shadergrad.autograd.Function):
    """Quantization and its inverse. The gradient passes where the integer is between the limits, and is 0 elsewhere."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, scale: Any, zero_point: Any, low: int, high: int) -> Tensor:
        whole = (input * (1 / scale)).round() + zero_point
        ctx.save_for_backward((whole >= low) & (whole <= high))
        return ((whole.clamp(low, high) - zero_point) * scale).to(input.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (within,) = ctx.saved_tensors
        return grads[0] * within, None, None, None, None


def _limits(quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise ArgumentError(
            f"`quant_min` should be less than or equal to `quant_max`, but got {quant_min} and {quant_max}."
        )


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """The values after quantization to integers from quant_min to quant_max and back: (clamp(round(x / scale) + zero_point) - zero_point) * scale.

    Raises ArgumentError if quant_min exceeds quant_max.
    """
    _limits(quant_min, quant_max)
    return _FakeQuantized.apply(input, scale, zero_point, quant_min, quant_max)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """As fake_quantize_per_tensor_affine, with a scale and a zero point, both of shape (input.shape[axis],), for each index of `axis`.

    Raises ArgumentError for scales or zero points of another shape, and if quant_min exceeds quant_max.
    """
    _limits(quant_min, quant_max)
    count = input.shape[axis]
    if tuple(scale.shape) != (count,) or tuple(zero_point.shape) != (count,):
        raise ArgumentError(
            f"fake_quantize_per_channel_affine(): axis {axis} has {count} channels, but scale has shape {tuple(scale.shape)} "
            f"and zero_point {tuple(zero_point.shape)}."
        )
    shape = [1] * input.ndim
    shape[axis] = count
    return _FakeQuantized.apply(input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)


def norm_except_dim(v: Tensor, pow: float = 2, dim: int = 0) -> Tensor:
    """The norm over all axes but `dim`, each kept with size 1; with dim=-1 the norm of all elements, without axes.

    Raises IndexError for an axis that v does not have.
    """
    if dim == -1:
        return v.norm(pow)
    if not -v.ndim <= dim < v.ndim:
        raise IndexError(f"norm_except_dim(): there is no dim {dim} in a tensor of {v.ndim} axes.")
    if pow == 2:
        return norm_except(v, dim)
    return v.norm(pow, [k for k in range(v.ndim) if k != dim % v.ndim], keepdim=True)


def _shape_as_tensor(input: Tensor) -> Tensor:
    """The shape of a tensor, as int64 of shape (ndim,)."""
    return shadergrad.tensor(list(input.shape), dtype=shadergrad.int64)


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices. Sparse tensors do not exist here, so both are dense."""
    return input.mm(mat2)


def core_functions() -> dict[str, Any]:
    """Names of torch."""
    functions = (
        fake_quantize_per_tensor_affine,
        fake_quantize_per_channel_affine,
        norm_except_dim,
        _shape_as_tensor,
        spmm,
    )
    return {function.__name__: function for function in functions} | {"default_generator": default_generator("cpu")}


def _no(*args: Any, **kwargs: Any) -> bool:
    """Always False."""
    return False


def extension_module() -> dict[str, Any]:
    """Names of torch._C."""
    switches = """_jit_set_profiling_mode _jit_set_profiling_executor _jit_set_texpr_fuser_enabled _jit_set_nvfuser_enabled
        _jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu _jit_can_fuse_on_cpu _jit_can_fuse_on_gpu
        _jit_set_nvfuser_guard_mode _is_tracing _get_cudnn_enabled _debug_set_autodiff_subgraph_inlining"""
    return dict.fromkeys(switches.split(), _no) | {"_TensorBase": Tensor, "TensorBase": Tensor}


class _Reduction:
    """The reductions of losses as numbers, and from the older arguments size_average and reduce."""

    @staticmethod
    def get_enum(reduction: str) -> int:
        """0 for 'none', 1 for 'mean', 2 for 'sum'. Raises ValueError for other words."""
        if reduction not in ("none", "mean", "sum"):
            raise ValueError(f"{reduction} is not a valid value for reduction")
        return ("none", "mean", "sum").index(reduction)

    @staticmethod
    def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
        """The name of the reduction that size_average and reduce stand for."""
        means = "none" if reduce is False else "sum" if size_average is False else "mean"
        if emit_warning:
            warnings.warn(
                f"size_average and reduce args will be deprecated, please use reduction='{means}' instead.",
                stacklevel=2,
            )
        return means

    @staticmethod
    def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
        """The number of that reduction."""
        return _Reduction.get_enum(_Reduction.legacy_get_string(size_average, reduce, emit_warning))


def reductions() -> dict[str, Any]:
    """Names of torch.nn._reduction."""
    names = ("get_enum", "legacy_get_string", "legacy_get_enum")
    return {name: getattr(_Reduction, name) for name in names}


def initial_values() -> dict[str, Any]:
    """Names of torch.nn.init: the functions that fill a tensor without recording it for autograd, as all functions of that module do."""
    return {
        "_no_grad_uniform_": init.uniform_,
        "_no_grad_normal_": init.normal_,
        "_no_grad_trunc_normal_": init.trunc_normal_,
        "_no_grad_fill_": init.constant_,
        "_no_grad_zero_": init.zeros_,
    }


def lazy_parameters() -> dict[str, Any]:
    """Names of torch.nn.parameter."""
    names = ("UninitializedParameter", "UninitializedBuffer", "is_lazy")
    return {name: getattr(lazy, name) for name in names} | {"UninitializedTensorMixin": _Uninitialized}


class _OfUninitialized(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return lazy.is_lazy(instance)


class _Uninitialized(metaclass=_OfUninitialized):
    """The class of parameters and buffers that have no shape yet, for isinstance."""


def of_distributions() -> dict[str, Any]:
    """Names of torch.distributions.utils."""

    def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
        """Standard normal numbers of a shape."""
        return shadergrad.randn(*shape, dtype=dtype, device=device)

    return {"_standard_normal": _standard_normal}


def model_zoo() -> dict[str, Any]:
    """Names of torch.utils.model_zoo, an older name of torch.hub."""
    return {"load_url": hub.load_state_dict_from_url}


def compiled_modules() -> dict[str, Any]:
    """Names of torch._dynamo. Marks of sizes and calls are hints for its compiler."""

    def hint(*args: Any, **kwargs: Any) -> None:
        """Does nothing: sg.compile finds the sizes that vary."""

    names = "mark_dynamic maybe_mark_dynamic mark_static mark_static_address mark_unbacked"
    return {"OptimizedModule": CompiledModule} | dict.fromkeys(names.split(), hint)


def cudnn_switches() -> dict[str, Any]:
    """Names of torch.backends.cudnn that set several settings at once."""
    settings = shadergrad.backends.cudnn

    def set_flags(_enabled: Any = None, _benchmark: Any = None, *others: Any, **named: Any) -> tuple[Any, ...]:
        """Does nothing, because there is no cuDNN. Returns the present settings."""
        return settings.enabled, settings.benchmark, settings.deterministic, settings.allow_tf32

    @contextlib.contextmanager
    def flags(*switches: Any, **named: Any) -> Iterator[None]:
        """A context without effect, because there is no cuDNN."""
        yield

    return {"flags": flags, "set_flags": set_flags}


def collating() -> dict[str, Any]:
    """Names of torch.utils.data._utils.collate: batches by a table of functions, one for each type of sample."""

    def collate(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
        """A batch of samples, made by the function for their type, within dicts, named tuples, tuples and lists."""
        first = batch[0]
        table = collate_fn_map or {}
        for kind in [type(first), *(k for k in table if isinstance(first, k))]:
            if kind in table:
                return table[kind](batch, collate_fn_map=collate_fn_map)
        if isinstance(first, collections.abc.Mapping):
            return {key: collate([one[key] for one in batch], collate_fn_map=collate_fn_map) for key in first}
        if isinstance(first, collections.abc.Sequence) and not isinstance(first, str | bytes):
            if any(len(one) != len(first) for one in batch):
                raise RuntimeError("each element in list of batch should be of equal size")
            parts = [collate(part, collate_fn_map=collate_fn_map) for part in zip(*batch, strict=True)]
            if hasattr(first, "_fields"):
                return type(first)(*parts)
            return parts
        raise TypeError(default_collate_err_msg_format.format(type(first)))

    def by_default(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return shadergrad.data.default_collate(batch)

    def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return batch

    default_collate_err_msg_format = (
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
    )
    kinds: dict[str, Any] = {
        "collate_tensor_fn": Tensor,
        "collate_numpy_array_fn": np.ndarray,
        "collate_numpy_scalar_fn": (np.bool_, np.number, np.object_),
        "collate_float_fn": float,
        "collate_int_fn": int,
    }
    table = dict.fromkeys(kinds.values(), by_default) | {str: collate_str_fn, bytes: collate_str_fn}
    return dict.fromkeys(kinds, by_default) | {
        "collate": collate,
        "collate_str_fn": collate_str_fn,
        "default_collate_fn_map": table,
        "default_collate_err_msg_format": default_collate_err_msg_format,
        "np_str_obj_array_pattern": re.compile(r"[SaUO]"),
    }
