"""Helpers for training loops, as torch.nn.utils: gradient clipping, and parameters as one vector.

Nothing here waits for the device, unless `error_if_nonfinite` requires it; all of it works inside a compiled step.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from ...autograd import no_grad
from ...drive.tracing import current
from ...errors import CompileError, ShadergradError
from ...tensor import Tensor, cat, where, zeros
from ..arguments import check_tensor, refuse

__all__ = [
    "NonFiniteError",
    "VectorError",
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
]


class NonFiniteError(ShadergradError, RuntimeError):
    """Gradients that are infinite or NaN."""


class VectorError(ShadergradError, TypeError):
    """A value that is not a vector, or parameters that cannot be joined to one."""


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients, in place, so that together they have a norm of at most max_norm (Pascanu et al., 2013).

    Returns the norm before the scaling, (). The norm is that of all gradients as one vector: 2, 1, any p, or math.inf for the
    largest entry. It stays on the device, and nothing waits for it. error_if_nonfinite: raise NonFiniteError instead of scaling
    by inf or NaN; that reads the norm, so it raises CompileError inside a compiled step. foreach: no
    effect.

    >>> p = nn.Parameter(sg.zeros(2))
    >>> p.grad = sg.tensor([3.0, 4.0])
    >>> nn.utils.clip_grad_norm_([p], max_norm=1.0), p.grad
    (tensor(5.), tensor([0.6, 0.8]))
    """
    if isinstance(parameters, Iterator):
        parameters = list(parameters)
        if not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    gradients = _gradients("clip_grad_norm_", parameters)
    with no_grad():
        norm = _norm(gradients, float(norm_type))
        if error_if_nonfinite:
            _refuse_nonfinite("clip_grad_norm_", norm, float(norm_type), "gradients from `parameters`")
        _scale(gradients, float(max_norm), norm)
    return norm


def clip_grad_norm(parameters: Tensor | Iterable[Tensor], max_norm: float, *args: Any, **kwargs: Any) -> Tensor:
    """The older name of clip_grad_norm_, which it calls; gives a FutureWarning, as PyTorch does.

    >>> import warnings
    >>> p = nn.Parameter(sg.zeros(2))
    >>> p.grad = sg.tensor([3.0, 4.0])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     nn.utils.clip_grad_norm([p], 1.0)
    tensor(5.)
    """
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, *args, **kwargs)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors as one vector, (). Arguments and errors: as for clip_grad_norm_.

    >>> nn.utils.get_total_norm([sg.tensor([3.0]), sg.tensor([4.0])])
    tensor(5.)
    """
    found = (
        [tensors] if isinstance(tensors, Tensor) else [check_tensor("get_total_norm", "tensors", t) for t in tensors]
    )
    with no_grad():
        norm = _norm(found, float(norm_type))
        if error_if_nonfinite:
            _refuse_nonfinite("get_total_norm", norm, float(norm_type), "gradients")
    return norm


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients, in place, by max_norm / total_norm where that is below 1. foreach: without effect.

    >>> p = nn.Parameter(sg.zeros(2))
    >>> p.grad = sg.tensor([3.0, 4.0])
    >>> nn.utils.clip_grads_with_norm_([p], 1.0, sg.tensor(5.0))
    >>> p.grad
    tensor([0.6, 0.8])
    """
    with no_grad():
        _scale(_gradients("clip_grads_with_norm_", parameters), float(max_norm), total_norm)


def _scale(gradients: list[Tensor], most: float, norm: Tensor) -> None:
    factor = most / (norm + 1e-6)
    factor = where(factor > 1.0, 1.0, factor)  # NaN stays NaN
    for g in gradients:
        g.mul_(factor.to(g.device, g.dtype))


def _refuse_nonfinite(what: str, norm: Tensor, order: float, of: str) -> None:
    if current.trace is not None:
        raise CompileError(
            f"{what}(error_if_nonfinite=True) reads the norm, which a compiled step cannot do. "
            "Hint: return the norm from the step and look at it there."
        )
    if not math.isfinite(norm.item()):
        raise NonFiniteError(
            f"The total norm of order {order} for {of} is non-finite, so it cannot be clipped. To disable this error and "
            "scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Limit every entry of the gradients, in place, to [-clip_value, clip_value]. foreach: without effect.

    >>> p = nn.Parameter(sg.zeros(2))
    >>> p.grad = sg.tensor([3.0, -0.5])
    >>> nn.utils.clip_grad_value_([p], 1.0)
    >>> p.grad
    tensor([ 1. , -0.5])
    """
    with no_grad():
        for g in _gradients("clip_grad_value_", parameters):
            g.copy_(g.clamp(-float(clip_value), float(clip_value)))


def _gradients(what: str, parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if not isinstance(parameters, Iterable):
        refuse(what, "parameters", parameters, "an iterable of Tensors")
    found = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    gradients = [check_tensor(what, "parameters", p).grad for p in found]
    return [g for g in gradients if g is not None]


def _norm(tensors: list[Tensor], p: float) -> Tensor:
    """The p-norm of tensors as one vector, on the device of the first."""
    if not tensors:
        return zeros()
    tensors = [t.abs() if t.dtype.is_complex else t for t in tensors]
    first = tensors[0]
    parts = [_part(t, p).to(first.device, first.dtype) for t in tensors]
    join = Tensor.add if not math.isinf(p) else Tensor.maximum if p > 0 else Tensor.minimum
    total = functools.reduce(join, parts)
    if math.isinf(p) or p in (0.0, 1.0):
        return total
    return total.sqrt() if p == 2.0 else total.pow(1.0 / p)


def _part(x: Tensor, p: float) -> Tensor:
    """The term of a tensor in a p-norm, before the root."""
    if math.isinf(p):
        return x.abs().amax() if p > 0 else x.abs().amin()
    if p == 0.0:  # for p = 0, PyTorch counts the tensors that are not 0
        return (x != 0).any().to(dtype=x.dtype)
    if p == 1.0:
        return x.abs().sum()
    return (x * x).sum() if p == 2.0 else x.abs().pow(p).sum()


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, concatenated to a vector. Raises VectorError if they are on different devices.

    >>> nn.utils.parameters_to_vector([sg.ones(2, 1), sg.zeros(2)])
    tensor([1., 1., 0., 0.])
    """
    return cat([p.reshape(-1) for p in _on_one_device(parameters)])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set the parameters to the values in a vector, in the order of parameters_to_vector, in place.

    Raises VectorError for anything but a tensor, and for parameters on different devices.

    >>> p, q = nn.Parameter(sg.zeros(2)), nn.Parameter(sg.zeros(1))
    >>> nn.utils.vector_to_parameters(sg.tensor([1.0, 2.0, 3.0]), [p, q])
    >>> p.data, q.data
    (tensor([1., 2.]), tensor([3.]))
    """
    if not isinstance(vec, Tensor):
        raise VectorError(f"expected shadergrad.Tensor, but got: {type(vec).__name__}")
    offset = 0
    for p in _on_one_device(parameters):
        p.data = vec[offset : offset + p.numel()].reshape(p.shape)
        offset += p.numel()


def _on_one_device(parameters: Iterable[Tensor]) -> list[Tensor]:
    found: list[Any] = list(parameters)
    if len({p.device for p in found}) > 1:
        raise VectorError("Found two parameters on different devices, this is currently not supported.")
    return found
