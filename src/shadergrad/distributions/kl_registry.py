"""Which function computes the divergence of two distributions, by their classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..errors import ArgumentTypeError, ShadergradError
from ..tensor import Tensor
from .distribution import Distribution

Rule = Callable[[Any, Any], Tensor]


class NoDivergenceError(ShadergradError, NotImplementedError):
    """There is no formula for the divergence of two distributions. Raised by kl_divergence."""


KL_REGISTRY: dict[tuple[type, type], Rule] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """A decorator for the rule of two classes and their subclasses: a function of distributions p and q.

    Raises ArgumentTypeError for anything but a class. Classes that do not derive from `Distribution`, such as a library's own bases, work, too.

    >>> class Fair(sg.distributions.Bernoulli):
    ...     pass
    >>> @sg.distributions.register_kl(Fair, Fair)
    ... def _(p, q):
    ...     return sg.zeros(())
    >>> sg.distributions.kl_divergence(Fair(0.5), Fair(0.5))
    tensor(0.)
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise ArgumentTypeError(f"Expected {name} to be a class of distributions but got {kind!r}")

    def add(rule: Rule) -> Rule:
        KL_REGISTRY[type_p, type_q] = rule
        return rule

    return add


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Kullback and Leibler's divergence, the expectation of log p - log q under p: (*batch_shape).

    The rule is that of the nearest classes; a RuntimeWarning says where p's and q's order of classes disagree. Raises
    NoDivergenceError (a NotImplementedError) if there is no formula.

    >>> D = sg.distributions
    >>> D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(1.0, 1.0))
    tensor(0.5)
    """
    matches = [(a, b) for a, b in KL_REGISTRY if isinstance(p, a) and isinstance(q, b)]
    if not matches:
        raise NoDivergenceError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}. Hint: the mean of "
            "p.log_prob(x) - q.log_prob(x) over draws x of p, or register_kl."
        )

    def distances(pair: tuple[type, type]) -> tuple[int, int]:
        return type(p).__mro__.index(pair[0]), type(q).__mro__.index(pair[1])

    by_p = min(matches, key=distances)
    by_q = min(matches, key=lambda pair: distances(pair)[::-1])
    if KL_REGISTRY[by_p] is not KL_REGISTRY[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type(p).__name__}, {type(q).__name__}). Please "
            f"register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=2,
        )
    return KL_REGISTRY[by_p](p, q)
