"""The objective of both phases. In: a model, a loss, families. Out: the minimised loss, and parameter groups for an optimizer.

shadergrad.train.TrainingStep runs the steps, with any of its engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import shadergrad as sg

from ... import nn
from .batches import PHASES
from .families import FamilyError
from .losses import Contacts, MaskedTokens
from .model import CoevolutionTransformer, ContactPredictor, MaskedLanguageModel


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups for AdamW: matrices, which decay, and vectors (biases, norms), which do not.

    >>> groups = sg.models.coevolution.decay_groups(nn.Linear(2, 3), 0.1)
    >>> [(len(group["params"]), group["weight_decay"]) for group in groups]
    [(1, 0.1), (1, 0.0)]
    """
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def model_for(phase: str, transformer: CoevolutionTransformer) -> MaskedLanguageModel | ContactPredictor:
    """The transformer with the head of a phase, "mlm" or "contacts". Raises FamilyError for another.

    >>> transformer = sg.models.coevolution.CoevolutionTransformer(d_model=8, n_layers=1, n_heads=2, d_ff=16)
    >>> type(sg.models.coevolution.model_for("contacts", transformer)).__name__
    'ContactPredictor'
    """
    if phase not in PHASES:
        raise FamilyError(f"there is no phase {phase!r}; it is one of {', '.join(PHASES)}.")
    return MaskedLanguageModel(transformer) if phase == "mlm" else ContactPredictor(transformer)


@dataclass(frozen=True)
class Objective:
    """The loss of a model for batches of tokens and labels: total(tokens, labels) / weight(tokens, labels).

    With the weight of the whole batch, the totals of its parts add up to its loss, however labels are spread over them.

    >>> from shadergrad.models import coevolution as co
    >>> from shadergrad.train import TrainingStep
    >>> model = co.MaskedLanguageModel(co.CoevolutionTransformer(d_model=8, n_layers=1, n_heads=2, d_ff=16))
    >>> objective = co.Objective(model, co.MaskedTokens())
    >>> optimizer = sg.optim.AdamW(co.decay_groups(model, 0.01))
    >>> step = TrainingStep(model, optimizer, objective.total, weight=objective.weight)
    >>> step(np.array([[23, 21, 24, 21, 24]]), np.array([[-100, 3, -100, 4, -100]])).shape
    shadergrad.Size([])
    """

    model: MaskedLanguageModel | ContactPredictor
    loss: MaskedTokens | Contacts

    def total(self, tokens: sg.Tensor, labels: sg.Tensor) -> sg.Tensor:
        """The sum over the labels, ()."""
        return self.loss.total(self.model(*inputs_of(self.model, tokens, labels)), labels)

    def weight(self, tokens: sg.Tensor, labels: sg.Tensor) -> sg.Tensor:
        """The divisor of the sum, ()."""
        return self.loss.weight(labels)


def inputs_of(model: nn.Module, tokens: sg.Tensor, labels: sg.Tensor) -> tuple[Any, ...]:
    """The arguments of a model of either phase for the tokens and labels of a batch.

    >>> len(sg.models.coevolution.inputs_of(nn.Linear(1, 1), sg.zeros(1, 5), sg.zeros(1, 5)))
    1
    """
    return (tokens, labels.shape[1]) if isinstance(model, ContactPredictor) else (tokens,)


def contact_balance(families: list[Any]) -> float:
    """The number of column pairs without contact per contact: the weight of a contact that balances the classes.

    >>> rows = np.zeros((1, 4), np.uint8)
    >>> family = sg.models.coevolution.Family("", rows, rows, contacts=np.eye(4, dtype=bool))
    >>> sg.models.coevolution.contact_balance([family])
    3.0
    """
    known = [family.contacts for family in families if family.contacts is not None]
    positive = sum(int(contacts.sum()) for contacts in known)
    if not positive:
        raise FamilyError("[contact_balance] there is no contact in any family.")
    return (sum(contacts.size for contacts in known) - positive) / positive
