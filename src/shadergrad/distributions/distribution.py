"""The base of distributions: shapes, samples, and densities of batches of parameters."""

from __future__ import annotations

from typing import Any

from ..drive.tracing import current
from ..errors import ArgumentError, ShapeError
from ..graph.node import grad_mode
from ..tensor import Size, Tensor, common_shape, full_like, host_tensor


def broadcast_all(*values: Any) -> list[Any]:
    """Tensors and numbers as floating tensors of one shape and dtype; numbers follow the first tensor."""
    tensors = [v for v in values if isinstance(v, Tensor)]
    if not tensors:
        return [host_tensor(float(v)) for v in values]
    lead = tensors[0] if tensors[0].is_floating_point() else tensors[0].float()
    found = [v if isinstance(v, Tensor) else full_like(lead, float(v)) for v in values]
    found = [v if v.is_floating_point() else v.to(dtype=lead.dtype) for v in found]
    shape = common_shape(*(tuple(v.shape) for v in found))
    return [v.expand(*shape) for v in found]


class Distribution:
    """Base: batch_shape, that of independent distributions; event_shape, that of one draw.

    A subclass defines `rsample` (draws with gradients) or `sample`, `log_prob`, and optionally `mean`, `variance`, `entropy`,
    `cdf`, `icdf`.
    validate_args: outside compiled steps, read parameters and values, and raise ArgumentError for those out of range.

    >>> d = sg.distributions.Normal(sg.zeros(3), 1.0)
    >>> d.batch_shape, d.event_shape, d.sample((2,)).shape
    (shadergrad.Size([3]), shadergrad.Size([]), shadergrad.Size([2, 3]))
    """

    has_rsample = False
    _validate = True

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        self._checks = self._validate if validate_args is None else validate_args

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set the default of validate_args."""
        Distribution._validate = value

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw of one of them."""
        return self._event_shape

    def _require(self, name: str, value: Tensor, holds: Any, wanted: str) -> None:
        """Raises ArgumentError if a condition, of bools, does not hold everywhere."""
        if self._checks and current.trace is None and value.numel() and not bool(holds.detach().all().item()):
            raise ArgumentError(
                f"Expected parameter {name} (Tensor of shape {tuple(value.shape)}) of distribution {type(self).__name__} to be "
                f"{wanted}, but found invalid values."
            )

    def _require_value(self, value: Tensor, holds: Any, wanted: str) -> None:
        if self._checks and current.trace is None and value.numel() and not bool(holds.detach().all().item()):
            raise ArgumentError(
                f"Expected value argument of {type(self).__name__} to be {wanted}, but found invalid values."
            )

    def _shape(self, sample_shape: Any) -> tuple[int, ...]:
        given = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        return (*given, *self._batch_shape, *self._event_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws (*sample_shape, *batch_shape, *event_shape), without gradients."""
        with grad_mode(False):
            return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws with gradients of the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample().")

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at a value: (*, *batch_shape)."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob().")

    def entropy(self) -> Tensor:
        """The expectation of -log_prob."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy().")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of draws up to a value."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf().")

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of cdf."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf().")

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        raise NotImplementedError(f"{type(self).__name__} has no mean.")

    @property
    def variance(self) -> Tensor:
        """The expectation of squared deviations."""
        raise NotImplementedError(f"{type(self).__name__} has no variance.")

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def perplexity(self) -> Tensor:
        """e to the power of the entropy."""
        return self.entropy().exp()

    def expand(self, batch_shape: Any) -> Any:
        """The distribution with its parameters expanded to another batch."""
        made = object.__new__(type(self))
        shape = tuple(batch_shape)
        made.__dict__.update(self.__dict__)
        for name, events in self._parameters().items():
            value = getattr(self, name)
            made.__dict__[name] = value.expand(*shape, *value.shape[value.ndim - events :])
        made._batch_shape = Size(shape)
        return made

    def _parameters(self) -> dict[str, int]:
        """The names of what has the batch's axes, and how many further axes it has."""
        raise NotImplementedError(f"{type(self).__name__} has no expand().")

    def __repr__(self) -> str:
        try:
            names = list(self._parameters())
        except NotImplementedError:
            names = []
        shown = (
            f"{n}: {getattr(self, n).item() if getattr(self, n).numel() == 1 else getattr(self, n).size()}"
            for n in names
        )
        return f"{type(self).__name__}({', '.join(shown)})"


def check_event(what: str, value: Tensor, event_shape: tuple[int, ...]) -> None:
    """Raises ShapeError if the last axes of a value are not those of an event."""
    if tuple(value.shape[value.ndim - len(event_shape) :]) != tuple(event_shape):
        raise ShapeError(
            f"The right-most size of value must match event_shape: {tuple(value.shape)} vs {tuple(event_shape)} ({what})."
        )
