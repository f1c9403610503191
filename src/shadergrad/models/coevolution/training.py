"""The step of either phase. In: a model, an optimizer, batches. Out: a loss, and a model a little better.

What is computed (a model's forward), what is asked of it (a loss of its outputs) and how gradients come about (`Backward`)
are apart, so that another engine can take the place of `backward_here`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import shadergrad as sg

from ... import nn
from .batches import PHASES
from .families import FamilyError
from .losses import Contacts, MaskedTokens
from .model import CoevolutionTransformer, ContactPredictor, MaskedLanguageModel

Loss = MaskedTokens | Contacts
Backward = Callable[[nn.Module, tuple[Any, ...], Callable[[Any], sg.Tensor]], sg.Tensor]


@dataclass(frozen=True)
class WarmUpCosine:
    """A factor of the learning rate: from 0 to 1 in `warm_up` steps, then as a half cosine to `floor` at `steps`.

    >>> rate = sg.models.coevolution.WarmUpCosine(warm_up=2, steps=6)
    >>> [round(rate(k), 3) for k in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    """

    warm_up: int
    steps: int
    floor: float = 0.0

    def __call__(self, step: int) -> float:
        """The factor of step 0, 1, 2 ..."""
        if step < self.warm_up:
            return (step + 1) / self.warm_up
        done = min((step - self.warm_up) / max(self.steps - self.warm_up, 1), 1.0)
        return self.floor + (1.0 - self.floor) * (1.0 + math.cos(math.pi * done)) / 2.0


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
    """The transformer with the head of a phase, "mlm" or "contacts". FamilyError for another.

    >>> transformer = sg.models.coevolution.CoevolutionTransformer(d_model=8, n_layers=1, n_heads=2, d_ff=16)
    >>> type(sg.models.coevolution.model_for("contacts", transformer)).__name__
    'ContactPredictor'
    """
    if phase not in PHASES:
        raise FamilyError(f"there is no phase {phase!r}; it is one of {', '.join(PHASES)}.")
    return MaskedLanguageModel(transformer) if phase == "mlm" else ContactPredictor(transformer)


def backward_here(model: nn.Module, inputs: tuple[Any, ...], loss: Callable[[Any], sg.Tensor]) -> sg.Tensor:
    """Add the gradients of loss(model(*inputs)) to those of the parameters, on the model's device; gives the loss, ().

    >>> layer = nn.Linear(2, 1)
    >>> _ = sg.models.coevolution.backward_here(layer, (sg.ones(3, 2),), lambda outputs: outputs.sum())
    >>> layer.bias.grad
    tensor([3.])
    """
    value = loss(model(*inputs))
    value.backward()
    return value.detach()


def training_step(
    model: MaskedLanguageModel | ContactPredictor,
    optimizer: sg.optim.Optimizer,
    loss: Loss,
    accumulate: int = 1,
    clip: float | None = 1.0,
    backward: Backward = backward_here,
) -> Callable[[sg.Tensor, sg.Tensor], sg.Tensor]:
    """A function of a batch, tokens and labels, that makes one update and gives the loss before it, ().

    accumulate: in how many parts of equal size the batch is passed through; their gradients add up to those of the
    whole. clip: the largest norm of all gradients together. FamilyError where parts do not divide a batch.

    >>> transformer = sg.models.coevolution.CoevolutionTransformer(d_model=8, n_layers=1, n_heads=2, d_ff=16)
    >>> model = sg.models.coevolution.MaskedLanguageModel(transformer)
    >>> optimizer = sg.optim.AdamW(model.parameters())
    >>> step = sg.models.coevolution.training_step(model, optimizer, sg.models.coevolution.MaskedTokens())
    >>> step(sg.tensor([[23, 21, 24, 21, 24]]), sg.tensor([[-100, 3, -100, 4, -100]])).shape
    shadergrad.Size([])
    """
    parameters = list(model.parameters())

    def step(tokens: sg.Tensor, labels: sg.Tensor) -> sg.Tensor:
        size, rest = divmod(tokens.shape[0], accumulate)
        if rest:
            raise FamilyError(f"[training_step] a batch of {tokens.shape[0]} pairs has no {accumulate} equal parts.")
        optimizer.zero_grad()
        weight = loss.weight(labels)
        total = sg.zeros((), device=str(tokens.device))
        for k in range(accumulate):
            part = slice(k * size, (k + 1) * size)
            total = total + backward(model, inputs_of(model, tokens[part], labels), share(labels[part], weight))
        if clip is not None:
            nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()
        return total

    def share(labels: sg.Tensor, weight: sg.Tensor) -> Callable[[sg.Tensor], sg.Tensor]:
        return lambda outputs: loss.total(outputs, labels) / weight

    return step


def inputs_of(model: nn.Module, tokens: sg.Tensor, labels: sg.Tensor) -> tuple[Any, ...]:
    """What a model of either phase is called with, for a batch."""
    return (tokens, labels.shape[1]) if isinstance(model, ContactPredictor) else (tokens,)


def contact_balance(families: list[Any]) -> float:
    """Column pairs without a contact for each one with: the weight of a contact that balances the classes.

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
