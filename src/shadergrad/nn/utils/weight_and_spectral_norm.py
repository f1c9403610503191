"""The older weight_norm and spectral_norm, with the state-dict names of old checkpoints."""

from __future__ import annotations

from typing import Any

from ...autograd import no_grad
from ...errors import ArgumentError
from ...tensor import Tensor, randn
from ..functional import normalize
from ..module import Module
from ..parameter import Parameter
from .parametrizations import norm_except

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


class _OldWeightNorm:
    """Before each call: weight = weight_g weight_v / |weight_v|."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, dim
        self.handles: list[Any] = []

    def compute(self, module: Module) -> Tensor:
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except(v, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute(module))


class _OldSpectralNorm:
    """Before each call: weight = weight_orig / its largest singular value, which a power iteration follows in the module's buffers."""

    def __init__(self, name: str, n_power_iterations: int, eps: float, dim: int) -> None:
        self.name, self.n_power_iterations, self.eps, self.dim = name, n_power_iterations, eps, dim
        self.handles: list[Any] = []

    def matrix(self, weight: Tensor) -> Tensor:
        """A row for each output."""
        return (weight if self.dim == 0 else weight.movedim(self.dim, 0)).flatten(1)

    def unit(self, x: Tensor) -> Tensor:
        return normalize(x, dim=0, eps=self.eps)

    def compute(self, module: Module, iterates: bool = False) -> Tensor:
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.matrix(weight)
        if iterates:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(self.unit(matrix.mT @ u))
                    u.copy_(self.unit(matrix @ v))
        u, v = u.detach().clone(), v.detach().clone()
        return weight / (u @ (matrix @ v))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute(module, module.training))

    def read_old(
        self, state: dict[str, Any], prefix: str, metadata: Any, strict: bool, missing: list[str], *_: Any
    ) -> None:
        """Files before PyTorch 1.0 hold the divided weight instead of v. This recomputes v: u = W v / |W v|, u W v = sigma."""
        key = prefix + self.name
        if f"{key}_v" in state or not all(key + part in state for part in ("", "_orig", "_u")):
            return
        weight, u = state[f"{key}_orig"], state[f"{key}_u"]
        sigma = (weight / state.pop(key)).mean()
        matrix = self.matrix(weight)
        v = matrix.pinverse() @ u
        state[f"{key}_v"] = v * (sigma / (u @ (matrix @ v)))


def _install(module: Module, rule: Any) -> None:
    rule.handles.append(module.register_forward_pre_hook(rule))
    module.__dict__.setdefault("_rules", {})[rule.name, type(rule)] = rule
    setattr(module, rule.name, rule.compute(module))  # its value before the first call


def _uninstall(module: Module, name: str, kind: type, what: str) -> Any:
    rule = module.__dict__.get("_rules", {}).pop((name, kind), None)
    if rule is None:
        raise ArgumentError(f"{what} of '{name}' not found in {module}")
    with no_grad():
        value = rule.compute(module).detach().clone()
    for handle in rule.handles:
        handle.remove()
    delattr(module, name)
    return value


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Reparametrizes a parameter as length times direction; the parameters are <name>_g and <name>_v. Returns the module.

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
    """Make it a plain parameter again, with its present value. Raises ArgumentError if it is none.

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

    In training, each call updates the singular value by n_power_iterations steps of a power iteration.
    parametrizations.spectral_norm is the newer form.

    >>> sorted(sg.nn.utils.spectral_norm(nn.Linear(3, 2)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    weight = getattr(module, name)
    axis = (1 if getattr(module, "transposed", False) else 0) if dim is None else dim
    rule = _OldSpectralNorm(name, n_power_iterations, eps, axis)
    rows, columns = rule.matrix(weight).shape
    options: dict[str, Any] = {"dtype": weight.dtype, "device": weight.device}
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    module.register_buffer(f"{name}_u", rule.unit(randn(rows, **options)))
    module.register_buffer(f"{name}_v", rule.unit(randn(columns, **options)))
    _install(module, rule)
    setattr(module, name, getattr(module, name).detach())  # without history, so that the module can be copied
    rule.handles.append(module._register_load_state_dict_pre_hook(rule.read_old))
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make it a plain parameter again, with its present value. Raises ArgumentError if it is none.

    >>> sorted(sg.nn.utils.remove_spectral_norm(sg.nn.utils.spectral_norm(nn.Linear(3, 2))).state_dict())
    ['bias', 'weight']
    """
    value = _uninstall(module, name, _OldSpectralNorm, "spectral_norm")
    for suffix in ("_orig", "_u", "_v"):
        delattr(module, name + suffix)
    module.register_parameter(name, Parameter(value))
    return module
