"""Draws of gamma variables, with gradients of their shape (Marsaglia and Tsang, 2000; Figurnov et al., 2018)."""

from __future__ import annotations

from ..graph.node import grad_mode, make
from ..primitives.special import GammaDraw
from ..tensor import Tensor, full_like, rand, randn, where

ROUNDS = 12  # of rejection: one is refused with a probability below 0.05, all of them below 1e-15
TINY = 1.2e-38


def standard_gamma(alpha: Tensor) -> Tensor:
    """Draws of gamma variables of shape alpha and scale 1, with gradients of alpha."""
    with grad_mode(False):
        a = alpha.detach()
        drawn = _drawn(a)
    if not alpha.requires_grad:
        return drawn
    return Tensor._of(make(GammaDraw(), alpha._node, drawn._node))


def _drawn(a: Tensor) -> Tensor:
    small = a < 1
    d = where(small, a + 1.0, a) - 1.0 / 3.0
    c = (d * 9.0).rsqrt()
    shape, options = tuple(a.shape), {"dtype": a.dtype, "device": a.device}
    found, missing = d, full_like(a, 1.0) > 0
    for _ in range(ROUNDS):
        x, u = randn(*shape, **options), rand(*shape, **options)
        v = (x * c + 1.0) ** 3
        good = v > 0
        v = where(good, v, 1.0)
        accepted = good & ((u + TINY).log() < x.square() * 0.5 + d - d * v + d * v.log())
        found = where(missing & accepted, d * v, found)
        missing = missing & ~accepted
    boost = ((rand(*shape, **options) + TINY).log() / a).exp()
    return where(small, found * boost, found).clamp(min=TINY)
