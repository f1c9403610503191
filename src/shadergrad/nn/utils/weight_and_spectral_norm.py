"""weight_norm and spectral_norm as they were before parametrizations: the names in state dicts are those of old checkpoints."""

from __future__ import annotations

from typing import Any

from ...autograd import no_grad
from ...errors import ArgumentError
from ...tensor import Tensor
from ..module import Module
from ..parameter import Parameter
from .parametrizations import SpectralNorm, norm_except

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


class _OldWeightNorm:
    """Before each call: weight = weight_g weight_v / |weight_v|."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, dim

    def compute(self, module: Module) -> Tensor:
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except(v, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute(module))


class _OldSpectralNorm:
    """Before each call: weight = weight_orig / its largest singular value."""

    def __init__(self, name: str, norm: SpectralNorm) -> None:
        self.name, self.norm = name, norm

    def compute(self, module: Module) -> Tensor:
        self.norm.train(module.training)
        return self.norm(getattr(module, f"{self.name}_orig"))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute(module))


def _install(module: Module, rule: Any) -> None:
    rule.handle = module.register_forward_pre_hook(rule)
    module.__dict__.setdefault("_rules", {})[rule.name, type(rule)] = rule
    setattr(module, rule.name, rule.compute(module))


def _uninstall(module: Module, name: str, kind: type, what: str) -> Any:
    rule = module.__dict__.get("_rules", {}).pop((name, kind), None)
    if rule is None:
        raise ArgumentError(f"{what} of '{name}' not found in {module}")
    with no_grad():
        value = rule.compute(module).detach().clone()
    rule.handle.remove()
    delattr(module, name)
    return value


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """A parameter as its length times its direction; the parameters are <name>_g and <name>_v. Gives the module.

    parametrizations.weight_norm is the newer form.

    >>> sorted(sg.nn.utils.weight_norm(nn.Linear(3, 2)).state_dict())
    ['bias', 'weight_g', 'weight_v']
    """
    weight = getattr(module, name)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(norm_except(weight.detach(), dim)))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    _install(module, _OldWeightNorm(name, dim))
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make it a plain parameter again, with its present value. Raises ArgumentError where it is none.

    >>> sorted(sg.nn.utils.remove_weight_norm(sg.nn.utils.weight_norm(nn.Linear(3, 2))).state_dict())
    ['bias', 'weight']
    """
    value = _uninstall(module, name, _OldWeightNorm, "weight_norm")
    for suffix in ("_g", "_v"):
        delattr(module, name + suffix)
    module.register_parameter(name, Parameter(value))
    return module


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """A parameter divided by its largest singular value; the parameter is <name>_orig, buffers <name>_u and <name>_v.

    parametrizations.spectral_norm is the newer form.

    >>> sorted(sg.nn.utils.spectral_norm(nn.Linear(3, 2)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    weight = getattr(module, name)
    axis = (1 if getattr(module, "transposed", False) else 0) if dim is None else dim
    norm = SpectralNorm(weight, n_power_iterations, axis, eps)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    module.register_buffer(f"{name}_u", norm._u)
    module.register_buffer(f"{name}_v", norm._v)
    _install(module, _OldSpectralNorm(name, norm))
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make it a plain parameter again, with its present value. Raises ArgumentError where it is none.

    >>> sorted(sg.nn.utils.remove_spectral_norm(sg.nn.utils.spectral_norm(nn.Linear(3, 2))).state_dict())
    ['bias', 'weight']
    """
    value = _uninstall(module, name, _OldSpectralNorm, "spectral_norm")
    for suffix in ("_orig", "_u", "_v"):
        delattr(module, name + suffix)
    module.register_parameter(name, Parameter(value))
    return module
