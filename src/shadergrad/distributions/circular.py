"""The von Mises distribution of angles (Best and Fisher, 1979)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..graph.node import grad_mode
from ..special import i0e, i1e
from ..tensor import Tensor, where
from . import constraints
from .distribution import Distribution
from .utils import broadcast_floats, open_uniform

ROUNDS = 24  # of rejection: one is refused with a probability below 0.35, all of them below 1e-10


class VonMises(Distribution):
    """Angles from -pi to pi about loc: density of e ** (concentration cos(x - loc)), concentration > 0. Draws have no gradients.

    >>> sg.distributions.VonMises(0.0, 1.0).log_prob(sg.tensor(0.0))
    tensor(-1.0738)
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    _batched: ClassVar[dict[str, int]] = {"loc": 0, "concentration": 0}

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_floats(loc, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1(concentration) / I0(concentration)."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        half = (value - self.loc) * 0.5
        return k * half.sin().square() * -2 - math.log(2 * math.pi) - i0e(k).log()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws (*sample_shape, *batch_shape): angles of a wrapped Cauchy distribution, some of which are rejected."""
        with grad_mode(False):
            k = self.concentration.detach().expand(*self._extended_shape(sample_shape))
            root = (k.square() * 4 + 1).sqrt()
            tau_root = (root + 1).sqrt()
            ratio = tau_root * 2 / ((root + 1) * (tau_root + math.sqrt(2)))  # rho / k, without cancellation
            rho = k * ratio
            rest = where(k > 1, (tau_root * math.sqrt(2) - 1 - 1 / (root + k * 2)) / (k * 2), 1 - rho)  # 1 - rho
            height = (rest * (rho + 1)).square() / (ratio * 2)
            found, missing = k * 0, None
            for _ in range(ROUNDS):
                half = open_uniform(k, tuple(k.shape)) * (math.pi / 2)
                u, side = open_uniform(k, tuple(k.shape)), open_uniform(k, tuple(k.shape))
                c = height / (rest.square() + rho * half.cos().square() * 4)
                good = (c * (2 - c) > u) | ((c / u).log() + 1 - c >= 0)
                angle = (half.tan() * rest / (rho + 1)).atan() * 2 * (side - 0.5).sign()
                found = where(good if missing is None else good & missing, angle, found)
                missing = ~good if missing is None else missing & ~good
            return (found + math.pi + self.loc.detach()) % (2 * math.pi) - math.pi
