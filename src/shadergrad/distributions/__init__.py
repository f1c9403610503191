"""Probability distributions, as torch.distributions: draws with gradients, log densities, entropies, divergences.

Draws come from the generator of the parameters' device, so sg.manual_seed seeds them, and a compiled step draws new numbers in
each call. Unless validate_args is False, the values of parameters are checked.
"""

from .continuous import Exponential, Laplace, Normal, Uniform
from .derived import Independent, LogNormal, TransformedDistribution
from .discrete import Bernoulli, Categorical, OneHotCategorical
from .distribution import Distribution
from .gamma_family import Beta, Dirichlet, Gamma
from .kl import NoDivergenceError, kl_divergence, register_kl
from .multivariate import MultivariateNormal
from .transforms import AffineTransform, ComposeTransform, ExpTransform, SigmoidTransform, TanhTransform, Transform

__all__ = [
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Categorical",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "Gamma",
    "Independent",
    "Laplace",
    "LogNormal",
    "MultivariateNormal",
    "NoDivergenceError",
    "Normal",
    "OneHotCategorical",
    "SigmoidTransform",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "kl_divergence",
    "register_kl",
]
