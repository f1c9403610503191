"""A family's contact map. In: a trained predictor and an alignment. Out: logits (length_a, length_b).

A logit of one pair is a log-likelihood ratio, and those of a family's members add up, each with its sequence weight. A
background is subtracted: the sum for the same chains paired with chains of other members, which holds the signal of each chain
alone. More members estimate the background better and increase its weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import shadergrad as sg

from .batches import pair_tokens
from .families import Family, FamilyError, sequence_weights
from .model import ContactPredictor
from .vocabulary import PAD

BACKGROUND_PASSES = 2000  # mismatched pairs that a background averages, at most
BACKGROUND_DEPTH = 40.0  # effective members at which the background counts half
FEW = 2e9  # comparisons of residues: half a second's work for the host


def is_small(family: Family) -> bool:
    """Whether the host weighs a family's sequences sooner than a device would."""
    return family.depth**2 * sum(family.shape) < FEW


def family_weights(family: Family, device: str) -> np.ndarray:
    """sequence_weights of a family's pairs (n,), on the device if they are many and it is a GPU.

    >>> from shadergrad.models.coevolution.family_logits import family_weights
    >>> family_weights(sg.models.coevolution.Family("x", np.zeros((2, 1), np.uint8), np.zeros((2, 1), np.uint8)), "cpu")
    array([0.5, 0.5])
    """
    return sequence_weights(family.joined(), device=None if is_small(family) or device == "cpu" else device)


class FamilyPredictor:
    """Contact maps of families by a ContactPredictor, whose forward pass is compiled once for each shape.

    shape: the padded lengths of the chains, to limit the number of shapes; by default the family's own. batch_size: pairs per batch.

    >>> physics = sg.models.coevolution.Physics(lengths=(6, 6))
    >>> family = sg.models.coevolution.sample_family("one", np.random.default_rng(0), physics, depth=3)
    >>> transformer = sg.models.coevolution.CoevolutionTransformer(d_model=8, n_layers=1, n_heads=2, d_ff=16)
    >>> predictor = sg.models.coevolution.FamilyPredictor(sg.models.coevolution.ContactPredictor(transformer))
    >>> predictor(family).shape
    (6, 6)
    """

    def __init__(self, model: ContactPredictor, device: str = "cpu", batch_size: int = 64) -> None:
        self.model, self.device, self.batch_size = model, device, batch_size

        def added(tokens: sg.Tensor, weights: sg.Tensor, length_a: int) -> sg.Tensor:
            with sg.no_grad():
                return (model(tokens, length_a) * weights.reshape(-1, 1, 1)).sum(0)

        self._added: Any = sg.compile(added)

    def __call__(
        self,
        family: Family,
        shape: tuple[int, int] | None = None,
        background: bool = True,
        weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """Logits, float64; NaN where no member has residues in both columns. background: whether it is subtracted. weights (n,): the
        members', by default those of sequence_weights.

        Raises FamilyError if the family is not aligned and has more than one pair.
        """
        if not family.aligned and family.depth > 1:
            raise FamilyError(
                f"[FamilyPredictor] {family.name} is not aligned, so its {family.depth} pairs cannot be combined. "
                "Hint: align them, or predict one pair."
            )
        training = self.model.training
        self.model.eval()
        try:
            found = self._combined(family, shape or family.shape, background, weights)
        finally:
            self.model.train(training)
        a, b = (np.any(chain < PAD, axis=0) for chain in (family.a, family.b))
        return np.where(np.logical_and.outer(a, b), found[: family.shape[0], : family.shape[1]], np.nan)

    def _combined(
        self, family: Family, shape: tuple[int, int], background: bool, weights: np.ndarray | None
    ) -> np.ndarray:
        weights = family_weights(family, self.device) if weights is None else weights
        rows = np.arange(family.depth)
        paired = self._sum(family, shape, rows, rows, weights)
        if not background or family.depth < 2:
            return paired
        shifts = min(family.depth - 1, -(-BACKGROUND_PASSES // family.depth))
        # steps of one size through the circle of members: no pair is drawn twice
        steps = 1 + np.arange(shifts) * (family.depth - 1) // shifts
        others = ((rows + step) % family.depth for step in steps)
        total = np.zeros(shape)
        for other in others:
            given = np.sqrt(weights * weights[other])
            total += self._sum(family, shape, rows, other, given * (weights.sum() / given.sum()))
        share = weights.sum() / (weights.sum() + BACKGROUND_DEPTH)
        return paired - share * total / shifts

    def _sum(
        self, family: Family, shape: tuple[int, int], rows: np.ndarray, others: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """The weighted sum of logits of chains a of `rows` with chains b of `others`."""
        total = np.zeros(shape)
        for part in _parts(len(rows), self.batch_size):
            tokens = pair_tokens(family.a[rows[part]], family.b[others[part]], *shape)
            given = weights[part].astype(np.float32)
            missing = self.batch_size - len(tokens)
            if missing and len(rows) > self.batch_size:  # the last batch takes the shape of the others
                tokens, given = np.concatenate([tokens, tokens[:1].repeat(missing, 0)]), np.pad(given, (0, missing))
            arrays = sg.tensor(tokens, device=self.device), sg.tensor(given, device=self.device)
            total += self._added(*arrays, shape[0]).numpy()
        return total


def _parts(count: int, size: int) -> Iterator[slice]:
    return (slice(k, min(k + size, count)) for k in range(0, count, size))
