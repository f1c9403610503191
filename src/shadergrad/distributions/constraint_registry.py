"""Maps from constraints to transforms of unconstrained numbers: `biject_to` (invertible) and `transform_to`.

Optimizers work on unconstrained parameters through `transform_to`; Hamiltonian Monte Carlo needs the densities of `biject_to`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ArgumentTypeError
from . import constraints as c
from . import transforms as t
from .utils import is_number

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A function of constraints that gives transforms; `register` adds a class of constraints.

    >>> scale = sg.distributions.transform_to(sg.distributions.Normal.arg_constraints["scale"])
    >>> scale(sg.zeros(2))
    tensor([1., 1.])
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Give a class of constraints (or that of one constraint) its factory of transforms; without `factory`, a decorator.

        Raises ArgumentTypeError for anything but a constraint.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, c.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, c.Constraint):
            raise ArgumentTypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: c.Constraint) -> Any:
        """The transform to a constraint. Raises NotImplementedError where none is registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    def add(factory: Callable[[Any], Any]) -> Callable[[Any], Any]:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return add


@_both(c.real)
def _real(constraint: Any) -> t.Transform:
    return t.identity_transform


@_both(c.positive, c.nonnegative)
def _above(constraint: Any) -> t.Transform:
    if is_number(constraint.lower_bound) and constraint.lower_bound == 0:
        return t.ExpTransform()
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.lower_bound, 1)])


@_both(c.less_than)
def _below(constraint: Any) -> t.Transform:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.upper_bound, -1)])


@_both(c.interval, c.half_open_interval)
def _interval(constraint: Any) -> t.Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if is_number(low) and low == 0 and is_number(high) and high == 1:
        return t.SigmoidTransform()
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(low, high - low)])


biject_to.register(c.simplex, lambda constraint: t.StickBreakingTransform())
transform_to.register(c.simplex, lambda constraint: t.SoftmaxTransform())
transform_to.register(c.lower_cholesky, lambda constraint: t.LowerCholeskyTransform())
transform_to.register(c.positive_definite, lambda constraint: t.PositiveDefiniteTransform())
transform_to.register(c.positive_semidefinite, lambda constraint: t.PositiveDefiniteTransform())
_both(c.corr_cholesky)(lambda constraint: t.CorrCholeskyTransform())


def _of_parts(registry: ConstraintRegistry) -> None:
    """Constraints that hold other constraints: their transforms come from the same registry."""

    @registry.register(c.independent)
    def _(constraint: Any) -> t.Transform:
        return t.IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims)

    @registry.register(c.cat)
    def _(constraint: Any) -> t.Transform:
        return t.CatTransform([registry(part) for part in constraint.cseq], constraint.dim, constraint.lengths)

    @registry.register(c.stack)
    def _(constraint: Any) -> t.Transform:
        return t.StackTransform([registry(part) for part in constraint.cseq], constraint.dim)


_of_parts(biject_to)
_of_parts(transform_to)
