"""Losses of the two phases, as sums and weights, so that parts of a batch add up to the whole.

A loss is sum / weight: `total(outputs, labels)` over `weight(labels)`. With the weight of the whole batch, the losses and
gradients of its parts add up to those of the batch, however unevenly labels are spread over them.
"""

from __future__ import annotations

from dataclasses import dataclass

import shadergrad as sg
import shadergrad.nn.functional as F

IGNORED = -100  # the label of a token without loss
UNKNOWN = -1.0  # the label of a pair of columns that may be a contact or not


@dataclass(frozen=True)
class MaskedTokens:
    """Cross-entropy over masked positions. Outputs: logits (n, t, classes). Labels: int (n, t), IGNORED elsewhere.

    >>> loss, labels = sg.models.coevolution.MaskedTokens(), sg.tensor([[1, -100]])
    >>> loss.total(sg.zeros(1, 2, 25), labels), loss.weight(labels)
    (tensor(3.2189), tensor(1.))
    """

    def total(self, outputs: sg.Tensor, labels: sg.Tensor) -> sg.Tensor:
        """The sum over masked positions, ()."""
        flat = outputs.reshape(-1, outputs.shape[-1])
        return F.cross_entropy(flat, labels.reshape(-1), ignore_index=IGNORED, reduction="sum")

    def weight(self, labels: sg.Tensor) -> sg.Tensor:
        """The number of masked positions, (); at least 1."""
        return (labels != IGNORED).to(sg.float32).sum().clamp(min=1.0)


@dataclass(frozen=True)
class Contacts:
    """Binary cross-entropy of pairs of columns. Outputs: logits (n, a, b). Labels (n, a, b): 1, 0, or UNKNOWN.

    positive: the weight of a contact; a column pair without contact weighs 1. The ratio of the two classes balances them, so
    that logits become log-likelihood ratios.

    >>> loss, labels = sg.models.coevolution.Contacts(3.0), sg.tensor([[[1.0, 0.0, -1.0]]])
    >>> loss.total(sg.zeros(1, 1, 3), labels), loss.weight(labels)
    (tensor(2.7726), tensor(4.))
    """

    positive: float = 1.0

    def total(self, outputs: sg.Tensor, labels: sg.Tensor) -> sg.Tensor:
        """The weighted sum over known pairs, ()."""
        target = labels.clamp(min=0.0)
        return F.binary_cross_entropy_with_logits(outputs, target, self._weights(labels), reduction="sum")

    def weight(self, labels: sg.Tensor) -> sg.Tensor:
        """The sum of the weights of known pairs, (); at least 1."""
        return self._weights(labels).sum().clamp(min=1.0)

    def _weights(self, labels: sg.Tensor) -> sg.Tensor:
        return (labels > 0.5).to(labels.dtype) * (self.positive - 1.0) + (labels > -0.5).to(labels.dtype)
