"""The bases of distributions: shapes, checks of parameters and values, draws, and how a batch is expanded."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

from ..autograd import grad
from ..drive.tracing import current
from ..errors import ArgumentError, ArgumentTypeError, ShapeError
from ..graph.node import grad_mode
from ..tensor import Size, Tensor
from . import constraints
from .utils import is_lazy, joined_shape, overridable, sum_rightmost


class Distribution:
    """Base: batch_shape, that of independent distributions; event_shape, that of one draw.

    A subclass defines `arg_constraints` and `support`, `rsample` (draws with gradients) or `sample`, `log_prob`, and as far as
    they are known `mean`, `mode`, `variance`, `entropy`, `cdf`, `icdf` and `enumerate_support`.
    validate_args: outside compiled steps, read parameters and values, and raise ArgumentError (a ValueError) for those that
    violate a constraint. Shapes are checked in compiled steps, too.

    >>> d = sg.distributions.Normal(sg.zeros(3), 1.0)
    >>> d.batch_shape, d.event_shape, d.sample((2,)).shape
    (shadergrad.Size([3]), shadergrad.Size([]), shadergrad.Size([2, 3]))
    """

    has_rsample: bool = False
    has_enumerate_support: bool = False
    _validate_args: bool = __debug__

    # For `expand`: parameters with the batch's axes, and how many axes each has behind them; distributions with the batch's
    # axes, and the sizes behind them; and attributes that stay. Names that an instance lacks are skipped.
    _batched: ClassVar[dict[str, int]]
    _batched_parts: ClassVar[dict[str, tuple[int, ...]]] = {}
    _unbatched: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set the default of validate_args. Raises ArgumentError for a value other than True and False."""
        if value not in (True, False):
            raise ArgumentError(f"set_default_validate_args() takes True or False, not {value!r}.")
        Distribution._validate_args = bool(value)

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        if current.trace is not None:
            return
        checked = []
        for name, constraint in wanted.items():
            lazy = name not in self.__dict__ and is_lazy(getattr(type(self), name, None))
            if not lazy and not constraints.is_dependent(constraint):
                value = getattr(self, name)
                checked.append((name, value, constraint, constraint.check(value)))
        if all_hold(*(valid for *_, valid in checked)):
            return
        for name, value, constraint, valid in checked:
            if not all_hold(valid):
                raise ArgumentError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} "
                    f"to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The distribution with its parameters expanded to another batch. Raises NotImplementedError where a class cannot."""
        owner = next((c for c in type(self).__mro__ if "_batched" in c.__dict__), None)
        if owner is None:
            raise NotImplementedError(f"{type(self).__name__} does not implement expand().")
        new = self._get_checked_instance(owner, _instance)
        shape = Size(batch_shape)
        for name, events in self._batched.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                new.__dict__[name] = value.expand(*shape, *value.shape[value.ndim - events :])
        for name, behind in self._batched_parts.items():
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name].expand(joined_shape(shape, behind))
        for name in self._unbatched:
            new.__dict__[name] = self.__dict__[name]
        return self._as_batch(new, shape)

    def _as_batch(self, new: Any, batch_shape: Size) -> Any:
        """An instance with this event shape and another batch shape; its parameters have been checked."""
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """A bare instance to expand into. Raises NotImplementedError where a subclass has an __init__ and no expand()."""
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also define a "
                "custom .expand() method."
            )
        return object.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw of one of them."""
        return self._event_shape

    @overridable
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """The constraint of each parameter, by its name."""
        raise NotImplementedError(f"{type(self).__name__} does not define arg_constraints.")

    @overridable
    def support(self) -> Any:
        """The constraint that holds for every draw."""
        raise NotImplementedError(f"{type(self).__name__} does not define its support.")

    @property
    def mean(self) -> Tensor:
        """The expectation: (*batch_shape, *event_shape)."""
        raise NotImplementedError(f"{type(self).__name__} does not implement mean.")

    @property
    def mode(self) -> Tensor:
        """The likeliest value: (*batch_shape, *event_shape)."""
        raise NotImplementedError(f"{type(self).__name__} does not implement mode.")

    @property
    def variance(self) -> Tensor:
        """The expectation of squared deviations: (*batch_shape, *event_shape)."""
        raise NotImplementedError(f"{type(self).__name__} does not implement variance.")

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws (*sample_shape, *batch_shape, *event_shape), without gradients."""
        with grad_mode(False):
            return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws with gradients of the parameters."""
        raise NotImplementedError(f"{type(self).__name__} does not implement rsample(): its draws have no gradients.")

    def sample_n(self, n: int) -> Tensor:
        """n draws. Deprecated: `sample((n,))`."""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at a value: (*, *batch_shape)."""
        raise NotImplementedError(f"{type(self).__name__} does not implement log_prob().")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of draws up to a value."""
        raise NotImplementedError(f"{type(self).__name__} does not implement cdf().")

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of cdf."""
        raise NotImplementedError(f"{type(self).__name__} does not implement icdf().")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values along a new first axis: (count, *batch_shape, *event_shape), with ones for the batch unless `expand`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement enumerate_support().")

    def entropy(self) -> Tensor:
        """The expectation of -log_prob: (*batch_shape)."""
        raise NotImplementedError(f"{type(self).__name__} does not implement entropy().")

    def perplexity(self) -> Tensor:
        """e to the power of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        """The shape of draws. Raises ArgumentTypeError for a sample_shape that is no sequence."""
        try:
            return joined_shape(sample_shape, self._batch_shape, self._event_shape)
        except TypeError:
            raise ArgumentTypeError(
                f"{type(self).__name__}: sample_shape must be a sequence of sizes, such as (3,), but it is {sample_shape!r}."
            ) from None

    def _validate_sample(self, value: Any) -> None:
        """Raises ArgumentError for a value that is no tensor, does not broadcast with the batch, or is outside the support."""
        if not isinstance(value, Tensor):
            raise ArgumentError("The value argument to log_prob must be a Tensor")
        shape, events = tuple(value.shape), tuple(self._event_shape)
        if shape[max(len(shape) - len(events), 0) :] != events:
            raise ShapeError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        wanted = joined_shape(self._batch_shape, self._event_shape)
        for i, j in zip(reversed(shape), reversed(wanted), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ShapeError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {wanted}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the distribution with "
                "`validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if current.trace is None and not all_hold(support.check(value)):
            raise ArgumentError(
                f"Expected value argument ({type(value).__name__} of shape {shape}) to be within the support ({support!r}) of "
                f"the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        names = [n for n in self.arg_constraints if n in self.__dict__]
        shown = (f"{n}: {v if v.numel() == 1 else v.size()}" for n in names for v in (self.__dict__[n],))
        return f"{type(self).__name__}({', '.join(shown)})"


def all_hold(*conditions: Tensor) -> bool:
    """Whether all conditions hold everywhere: one value is read."""
    if not conditions:
        return True
    whole = conditions[0].detach().all()
    for condition in conditions[1:]:
        whole = whole & condition.detach().all()
    return bool(whole.item())


class ExponentialFamily(Distribution):
    """Base of densities exp(<t(x), n> - F(n) + k(x)) with natural parameters n and the log normaliser F.

    A subclass defines `_natural_params`, `_log_normalizer(*params)` and `_mean_carrier_measure`, the expectation of k(x). The
    entropy and divergences of two distributions of one class follow from them by differentiation (Nielsen and Nock, 2010).

    >>> issubclass(sg.distributions.Normal, sg.distributions.ExponentialFamily)
    True
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__} does not define its natural parameters.")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define its log normalizer.")

    @overridable
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError(f"{type(self).__name__} does not define its mean carrier measure.")

    def entropy(self) -> Tensor:
        """The expectation of -log_prob: (*batch_shape)."""
        normalizer, slopes = self._differentiated()
        found = normalizer - self._mean_carrier_measure
        for parameter, slope in zip(self._natural_params, slopes, strict=True):
            found = found - sum_rightmost(parameter * slope, parameter.ndim - len(self._batch_shape))
        return found

    def _differentiated(self) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The log normaliser, and its gradient of the natural parameters: the expectation of the statistics.

        The parameters keep their history, so that both have gradients of the distribution's parameters.
        """
        given = self._natural_params
        with grad_mode(True):
            parameters = [p if p.requires_grad else p.detach().requires_grad_() for p in given]
            normalizer = self._log_normalizer(*parameters)
            slopes = grad(normalizer.sum(), parameters, create_graph=True)
        if any(p.requires_grad for p in given):
            return normalizer, tuple(slopes)
        return normalizer.detach(), tuple(slope.detach() for slope in slopes)
