"""Distributions of counts. Formulas: Johnson, Kemp and Kotz, 2005, "Univariate discrete distributions"."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..drive.tracing import current
from ..errors import ArgumentError
from ..graph.node import grad_mode
from ..nn import functional as F
from ..tensor import Tensor, where, zeros_like
from . import constraints
from .counting_draws import binomial, poisson
from .discrete import ByCategorical, ByOdds, Categorical, enumerated
from .distribution import ExponentialFamily, all_hold
from .gamma_sampling import standard_gamma
from .utils import broadcast_all, broadcast_floats, open_uniform


class Poisson(ExponentialFamily):
    """The number of events at a rate >= 0.

    >>> sg.distributions.Poisson(2.0).log_prob(sg.tensor(0.0))
    tensor(-2.)
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _batched: ClassVar[dict[str, int]] = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_floats(rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with grad_mode(False):
            return poisson(self.rate.expand(*self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_floats(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()


class Geometric(ByOdds):
    """The number of failures before the first success of a probability above 0.

    >>> sg.distributions.Geometric(probs=0.25).mean
    tensor(3.)
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _batched: ClassVar[dict[str, int]] = {"probs": 0, "logits": 0}

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._param.shape, (), validate_args)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        given = self.__dict__.get("probs")
        if given is not None and current.trace is None and not all_hold(given > 0):
            raise ArgumentError(
                f"Expected parameter probs (Tensor of shape {tuple(given.shape)}) of distribution {self!r} to be positive but "
                f"found invalid values:\n{given}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        p = self.probs.detach()
        return (open_uniform(p, self._extended_shape(sample_shape)).log() / (-p).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_floats(value, self.probs)
        tried = where((probs == 1) & (value == 0), 0.0, probs)
        return value * (-tried).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Binomial(ByOdds):
    """How many of total_count trials succeed, each with the same probability.

    entropy and enumerate_support are of one total_count alone, which they read; else they raise NotImplementedError.

    >>> sg.distributions.Binomial(4, probs=0.5).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real,
    }  # fmt: skip
    has_enumerate_support = True
    _batched: ClassVar[dict[str, int]] = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (self.total_count,) = self._take(probs, logits, total_count)
        super().__init__(self._param.shape, (), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The constraint of every value."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with grad_mode(False):
            return binomial(self.total_count.expand(*shape), self.probs.expand(*shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        factorials = (value + 1).lgamma() + (n - value + 1).lgamma() - (n + 1).lgamma()
        return value * logits - factorials - n * (logits.clamp(min=0) + (-logits.abs()).exp().log1p())

    def entropy(self) -> Tensor:
        log_prob = self.log_prob(self._values("entropy", False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._values("enumerate_support", expand)

    def _values(self, what: str, expand: bool) -> Tensor:
        count = int(self.total_count.max().item())
        if int(self.total_count.min().item()) != count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{what}`.")
        return enumerated(1 + count, self._param, self.batch_shape, expand)


class NegativeBinomial(ByOdds):
    """How many trials succeed, each with the same probability below 1, before total_count failures; total_count > 0 is real.

    >>> sg.distributions.NegativeBinomial(3.0, probs=0.5).mean
    tensor(3.)
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer
    _batched: ClassVar[dict[str, int]] = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (self.total_count,) = self._take(probs, logits, total_count)
        super().__init__(self._param.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with grad_mode(False):  # Poisson variables of gamma-distributed rates
            return poisson(standard_gamma(self.total_count.detach().expand(*shape)) * self.logits.detach().exp())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        unnormalized = n * F.logsigmoid(-logits) + value * F.logsigmoid(logits)
        none = n + value == 0
        total = where(none, 1.0, n + value)
        return unnormalized - where(none, 0.0, (value + 1).lgamma() + where(none, 1.0, n).lgamma() - total.lgamma())


class Multinomial(ByCategorical):
    """How often each of k classes comes in total_count draws: counts (*, k). probs or logits (*, k) as of Categorical.

    Raises NotImplementedError for a total_count that is no int.

    >>> sg.distributions.Multinomial(4, probs=sg.tensor([1.0, 3.0])).mean
    tensor([1., 3.])
    """

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _batched: ClassVar[dict[str, int]] = {}
    _unbatched = ("total_count",)
    total_count: int

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count, self._categorical = total_count, Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """The constraint of every value."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.probs * self.total_count * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts (*sample_shape, *batch_shape, k) of total_count classes that are drawn."""
        with grad_mode(False):
            drawn = self._categorical.sample((self.total_count, *sample_shape))
            return F.one_hot(drawn, self.event_shape[0]).to(dtype=self._param.dtype).sum(0)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value.to(dtype=self._param.dtype))
        logits = where((value == 0) & (logits == -math.inf), 0.0, logits)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n, p = self.total_count, self.probs
        one = Binomial(n, probs=p, validate_args=False)
        counts = one.enumerate_support(expand=False)[1:]
        spread = (one.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return self._categorical.entropy() * n - math.lgamma(n + 1) + spread
