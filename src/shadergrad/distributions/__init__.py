"""Probability distributions, as torch.distributions: draws that gradients go through, log densities, entropies, divergences.

Draws come from the generator of the parameters' device, so that sg.manual_seed governs them, and a compiled step draws anew at
each run. Constraints of parameters are checked by values, where validate_args is not False.
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
