"""Weight normalisation, spectral normalisation and orthogonal matrices, as torch.nn.utils.parametrizations."""

from __future__ import annotations

import functools
from typing import Any

from ...autograd import no_grad
from ...tensor import Tensor, randn
from ..module import Module
from .orthogonal import orthogonal
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def norm_except(v: Tensor, dim: int | None) -> Tensor:
    """The norms of slices along `dim`, of shape 1 elsewhere; of all where dim is None or -1."""
    if dim is None or dim == -1:
        return v.norm()
    return v.norm(2, [a for a in range(v.ndim) if a != dim % v.ndim], keepdim=True) if v.ndim > 1 else v.abs()


class _WeightNorm(Module):
    """g v / |v| (Salimans and Kingma, 2016)."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Reparametrizes a parameter as length times direction, g v / |v| (Salimans and Kingma, 2016); returns the module.

    dim: each slice along it has its own length; None: one length for all. The parameters are parametrizations.<name>.original0 and
    original1; files of nn.utils.weight_norm, with <name>_g and <name>_v, load, too.

    >>> layer = sg.nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape
    shadergrad.Size([2, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(functools.partial(_from_older_form, name))
    return module


def _from_older_form(name: str, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
    """Rename <name>_g and <name>_v, of files of nn.utils.weight_norm."""
    older = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
    if all(key in state_dict for key in older):
        for k, key in enumerate(older):
            state_dict[f"{prefix}parametrizations.{name}.original{k}"] = state_dict.pop(key)


class SpectralNorm(Module):
    """A tensor by its largest singular value, which a power iteration follows (Miyato et al., 2018)."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        self.dim, self.eps, self.n_power_iterations = dim, eps, n_power_iterations
        with no_grad():
            matrix = self._matrix(weight.detach())
            rows, columns = matrix.shape
            options: dict[str, Any] = {"dtype": weight.dtype, "device": weight.device}
            self.register_buffer("_u", self._unit(randn(rows, **options)))
            self.register_buffer("_v", self._unit(randn(columns, **options)))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        x = weight if self.dim == 0 else weight.movedim(self.dim, 0)
        return x.flatten(1) if x.ndim > 1 else x.reshape(1, -1)

    def _unit(self, x: Tensor) -> Tensor:
        return x / x.norm().clamp(min=self.eps)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        for _ in range(times):
            u = self._unit(matrix @ self._v)
            v = self._unit(matrix.mT @ u)
            self._u.copy_(u)
            self._v.copy_(v)

    def forward(self, weight: Tensor) -> Tensor:
        """weight / sigma; in training the iteration goes on."""
        matrix = self._matrix(weight)
        if self.training:
            with no_grad():
                self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.detach().clone(), self._v.detach().clone()
        return weight / (u @ (matrix @ v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """A parameter divided by its largest singular value (Miyato et al., 2018); returns the module.

    In training, each read updates the value by n_power_iterations steps of a power iteration. dim: the axis of outputs, 1 of
    transposed convolutions, else 0.

    >>> layer = sg.nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2))
    >>> layer.weight.shape
    shadergrad.Size([2, 3])
    """
    axis = (1 if getattr(module, "transposed", False) else 0) if dim is None else dim
    return register_parametrization(module, name, SpectralNorm(getattr(module, name), n_power_iterations, axis, eps))
