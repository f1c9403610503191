"""Constraints on parameters and values, as torch.distributions.constraints.

A constraint has `check(value)`, bools of the shape of a value without its last `event_dim` axes, and `is_discrete`. Bounds are
numbers or tensors. Names in lower case are constraints (`positive`, `simplex`) or classes that take bounds (`interval`, `cat`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ArgumentError, ShapeError
from ..linalg import eigvalsh
from ..tensor import Tensor, full
from ..tensor import cat as joined
from ..tensor import stack as stacked
from .small_matrices import is_positive_definite
from .utils import epsilon

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval", "is_dependent",
    "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot",
    "positive", "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square",
    "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """Base of constraints. event_dim: how many of the last axes make one value; is_discrete: whether values are countable.

    >>> sg.distributions.constraints.positive.check(sg.tensor([-1.0, 1.0]))
    tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each event of a value satisfies the constraint: bools (*sample_shape, *batch_shape)."""
        raise NotImplementedError(f"{type(self).__name__} does not implement check().")

    def __repr__(self) -> str:
        return f"{type(self).__name__.removeprefix('_')}()"


class _Dependent(Constraint):
    """The constraint of a value that depends on other values, known on an instance alone."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """The same with attributes that are known: dependent(is_discrete=True, event_dim=1)."""
        discrete = self._is_discrete if is_discrete is NotImplemented else is_discrete
        return _Dependent(is_discrete=discrete, event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, value: Tensor) -> Tensor:
        raise ArgumentError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint is known on an instance alone.

    >>> sg.distributions.constraints.is_dependent(sg.distributions.Uniform.support)
    True
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of instances that is a dependent constraint on the class. Decorates with or without arguments."""

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Any]) -> Any:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def _require_constraints(what: str, values: Sequence[Any]) -> None:
    for value in values:
        if not isinstance(value, Constraint):
            raise ArgumentError(f"{what} takes constraints, not {type(value).__name__}.")


def _all_of_last(result: Tensor, dim: int) -> Tensor:
    return result.reshape(*result.shape[: result.ndim - dim], -1).all(-1) if dim else result


class _IndependentConstraint(Constraint):
    """A constraint of every element along the last reinterpreted_batch_ndims axes of the batch, which are of the event."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        _require_constraints("independent()", [base_constraint])
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise ArgumentError(
                f"reinterpreted_batch_ndims must be a whole number of at least 0, not {reinterpreted_batch_ndims!r}."
            )
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        if result.ndim < self.reinterpreted_batch_ndims:
            raise ShapeError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        return _all_of_last(result, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The constraint of a mixture's values: that of its components, for all of them.

    >>> C = sg.distributions.constraints
    >>> C.MixtureSameFamilyConstraint(C.positive).check(sg.tensor([1.0, -1.0]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        _require_constraints("MixtureSameFamilyConstraint()", [base_constraint])
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        if value.ndim < self.event_dim:
            raise ShapeError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        kept = value.ndim - self.event_dim
        return result.reshape(*result.shape[:kept], -1).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Bounded(Constraint):
    """Base of constraints with bounds, which they print."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={bound}" for name, bound in vars(self).items())
        return f"{type(self).__name__.removeprefix('_')}({shown})"


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors of zeros and a one."""

    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


def _whole(value: Tensor) -> Any:
    return value % 1 == 0 if value.is_floating_point() else value == value


class _IntegerInterval(_Bounded):
    """Whole numbers from lower_bound to upper_bound."""

    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return _whole(value) & (value >= self.lower_bound) & (value <= self.upper_bound)


class _IntegerLessThan(_Bounded):
    """Whole numbers up to upper_bound."""

    is_discrete = True

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return _whole(value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Bounded):
    """Whole numbers from lower_bound."""

    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return _whole(value) & (value >= self.lower_bound)


class _Real(Constraint):
    """Numbers and infinities, not NaN."""

    def check(self, value: Tensor) -> Tensor:
        return ~value.isnan()


class _GreaterThan(_Bounded):
    """Above lower_bound."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(_Bounded):
    """At least lower_bound."""

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _LessThan(_Bounded):
    """Below upper_bound."""

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Bounded):
    """From lower_bound to upper_bound."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounded):
    """From lower_bound to below upper_bound."""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _Simplex(Constraint):
    """Vectors of numbers from 0 that add up to 1, within 1e-6 and a few roundings."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6 + 8 * epsilon(value))


class _Multinomial(_Bounded):
    """Vectors of numbers from 0 whose sum is at most upper_bound."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)

    def __repr__(self) -> str:
        return "Multinomial()"


class _LowerTriangular(Constraint):
    """Matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return _all_of_last(value.tril() == value, 2)


class _LowerCholesky(Constraint):
    """Matrices with zeros above a positive diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return _all_of_last(value.tril() == value, 2) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Matrices with zeros above a positive diagonal, and rows of length 1."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        tolerance = epsilon(value) * value.shape[-1] * 10
        lengths = value.detach().square().sum(-1).sqrt()
        return _LowerCholesky().check(value) & ((lengths - 1.0).abs() <= tolerance).all(-1)


class _Square(Constraint):
    """Matrices with as many rows as columns."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return full(tuple(value.shape[:-2]), value.shape[-2] == value.shape[-1], dtype="bool", device=value.device)


class _Symmetric(_Square):
    """Matrices that equal their transpose."""

    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return _all_of_last(value.isclose(value.mT, atol=1e-6), 2)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without a negative eigenvalue."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1] or not bool(symmetric.all().item()):
            return symmetric
        return (eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices with positive eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1] or not bool(symmetric.all().item()):
            return symmetric
        return is_positive_definite(value)


class _Cat(Constraint):
    """Constraints of consecutive parts of an axis, of these lengths, as `cat` joins them."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        _require_constraints("cat()", self.cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ArgumentError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return joined(checks, self.dim)


class _Stack(Constraint):
    """Constraints of the positions along an axis, as `stack` joins them."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        _require_constraints("stack()", self.cseq)

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        parts = zip(self.cseq, value.unbind(self.dim), strict=False)
        return stacked([constraint.check(part) for constraint, part in parts], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
