"""Batches of pairs. In: families. Out: tokens of few different shapes, masked for phase 1, with contacts for phase 2.

A step is compiled for each shape, so families share a few buckets. A bucket pads both chains to the longest of its families.
PAD may occur between the chains, `CLS a PAD SEP b SEP PAD`, so that a has the same columns in every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .families import Family, FamilyError
from .losses import IGNORED, UNKNOWN
from .vocabulary import CLS, MASK, PAD, SEP, X

PHASES = ("mlm", "contacts")
MASKED, RANDOM, KEPT = 0.15, 0.1, 0.1  # of the residues; of those masked (Devlin et al., 2019)


def pair_tokens(a: np.ndarray, b: np.ndarray, length_a: int | None = None, length_b: int | None = None) -> np.ndarray:
    """`CLS a SEP b SEP`, int32 (n, length_a + length_b + 3), of a (n, at most length_a) and b; PAD after each.

    Raises FamilyError if a chain is longer than its length.

    >>> sg.models.coevolution.pair_tokens(np.array([[0, 1]]), np.array([[2]]), length_b=2)
    array([[23,  0,  1, 24,  2, 22, 24]], dtype=int32)
    """
    sizes = [x.shape[1] if size is None else size for x, size in ((a, length_a), (b, length_b))]
    if a.shape[1] > sizes[0] or b.shape[1] > sizes[1]:
        raise FamilyError(f"[pair_tokens] chains of {a.shape[1]} and {b.shape[1]} do not fit into {sizes}.")
    tokens = np.full((len(a), sum(sizes) + 3), PAD, np.int32)
    tokens[:, 0], tokens[:, sizes[0] + 1], tokens[:, -1] = CLS, SEP, SEP
    tokens[:, 1 : 1 + a.shape[1]] = a
    tokens[:, sizes[0] + 2 : sizes[0] + 2 + b.shape[1]] = b
    return tokens


@dataclass(frozen=True)
class Bucket:
    """Families, by number, whose chains are padded to `shape`.

    >>> sg.models.coevolution.Bucket((32, 40), members=(0, 3)).shape
    (32, 40)
    """

    shape: tuple[int, int]
    members: tuple[int, ...]


def buckets(families: Sequence[Family], most: int = 4) -> list[Bucket]:
    """At most `most` shapes for all families: sorted by length, cut where the least padding results.

    >>> families = [sg.models.coevolution.Family("", np.zeros((1, n), int), np.zeros((1, 5), int)) for n in (4, 9, 8)]
    >>> sg.models.coevolution.buckets(families, most=2)
    [Bucket(shape=(4, 5), members=(0,)), Bucket(shape=(9, 5), members=(2, 1))]
    """
    if most < 1 or not families:
        raise FamilyError(f"[buckets] {len(families)} families into {most} buckets.")
    shapes = np.array([family.shape for family in families])
    groups = [np.lexsort((shapes[:, 0], shapes.sum(1)))]
    while len(groups) < most:
        saved = [_saved(shapes[group]) for group in groups]
        best = max(range(len(groups)), key=lambda k: saved[k].max(initial=0))
        if saved[best].max(initial=0) == 0:
            break
        groups[best : best + 1] = np.split(groups[best], [saved[best].argmax() + 1])
    return [Bucket((int(a), int(b)), tuple(map(int, group))) for group in groups for a, b in [shapes[group].max(0)]]


def _saved(shapes: np.ndarray) -> np.ndarray:
    """Tokens of padding that a cut saves, after the first, the second ... of the families with shapes (n, 2)."""
    n, before = len(shapes), np.arange(1, len(shapes))
    first = np.maximum.accumulate(shapes)[:-1].sum(1)
    rest = np.maximum.accumulate(shapes[::-1])[::-1][1:].sum(1)
    return n * shapes.max(0).sum() - before * first - (n - before) * rest


def mask_tokens(tokens: np.ndarray, rng: np.random.Generator, share: float = MASKED) -> tuple[np.ndarray, np.ndarray]:
    """(masked tokens, labels), both int32 (n, t). Labels are the original tokens at `share` of the residues, else IGNORED.

    Of the chosen ones 80 % become MASK, 10 % a random residue, 10 % stay (Devlin et al., 2019). X is never chosen, because it
    is unknown.

    >>> tokens = sg.models.coevolution.pair_tokens(np.zeros((1, 3)), np.ones((1, 3)))
    >>> masked, labels = sg.models.coevolution.mask_tokens(tokens, np.random.default_rng(0), share=1.0)
    >>> labels.tolist()
    [[-100, 0, 0, 0, -100, 1, 1, 1, -100]]
    """
    chosen = (tokens < X) & (rng.random(tokens.shape) < share)
    kind = rng.random(tokens.shape)
    random = rng.integers(0, X, tokens.shape, dtype=np.int32)
    replaced = np.where(kind < RANDOM, random, np.where(kind < RANDOM + KEPT, tokens, MASK))
    return np.where(chosen, replaced, tokens).astype(np.int32), np.where(chosen, tokens, IGNORED).astype(np.int32)


def contact_labels(family: Family, rows: int, shape: tuple[int, int]) -> np.ndarray:
    """The contacts of a family for `rows` of its pairs, padded to a bucket's shape with UNKNOWN: float32 (rows, *shape).

    Raises FamilyError if they are not known.

    >>> rows = np.zeros((1, 2), np.uint8)
    >>> family = sg.models.coevolution.Family("", rows, rows, contacts=np.eye(2, dtype=bool))
    >>> sg.models.coevolution.contact_labels(family, 1, (2, 3)).tolist()
    [[[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]]]
    """
    if family.contacts is None:
        raise FamilyError(f"[contact_labels] the contacts of {family.name} are not known. Hint: --contacts FILE.")
    labels = np.full((rows, *shape), UNKNOWN, np.float32)
    labels[:, : family.shape[0], : family.shape[1]] = family.contacts
    return labels


class Batches:
    """An endless sequence of random batches. Each comes from one bucket, from larger ones more often. The seed determines them.

    phase "mlm": (tokens with masks, labels), int32 (batch_size, t); "contacts": (tokens, contacts), the second float32
    (batch_size, length_a, length_b). most: buckets. Raises FamilyError for another phase, or if contacts are unknown.

    >>> rows = np.zeros((2, 3), np.uint8)
    >>> batches = sg.models.coevolution.Batches([sg.models.coevolution.Family("", rows, rows)], "mlm", batch_size=4)
    >>> [part.shape for part in batches.at(step=0)]
    [(4, 9), (4, 9)]
    """

    def __init__(self, families: Sequence[Family], phase: str, batch_size: int, seed: int = 0, most: int = 4) -> None:
        if phase not in PHASES:
            raise FamilyError(f"[Batches] there is no phase {phase!r}; it is one of {', '.join(PHASES)}.")
        unknown = [family.name for family in families if family.contacts is None]
        if phase == "contacts" and unknown:
            raise FamilyError(f"[Batches] the contacts of {unknown[0]} are not known. Hint: --contacts FILE.")
        self.families, self.phase, self.batch_size, self.seed = families, phase, batch_size, seed
        self.buckets = buckets(families, most)
        depths = [sum(min(families[k].depth, 1000) for k in bucket.members) for bucket in self.buckets]
        self._shares = np.array(depths) / sum(depths)

    def at(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """The batch of a step."""
        rng = np.random.default_rng((self.seed, step))
        bucket = self.buckets[rng.choice(len(self.buckets), p=self._shares)]
        chosen = [self.families[bucket.members[k]] for k in rng.integers(0, len(bucket.members), self.batch_size)]
        rows = [int(rng.integers(family.depth)) for family in chosen]
        length_a = bucket.shape[0]
        empty_a, empty_b = (np.full((self.batch_size, n), PAD) for n in bucket.shape)
        tokens = pair_tokens(empty_a, empty_b)
        for k, (family, row) in enumerate(zip(chosen, rows, strict=True)):
            tokens[k, 1 : 1 + family.shape[0]] = family.a[row]
            tokens[k, 2 + length_a : 2 + length_a + family.shape[1]] = family.b[row]
        if self.phase == "mlm":
            return mask_tokens(tokens, rng)
        return tokens, np.concatenate([contact_labels(family, 1, bucket.shape) for family in chosen])

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        step = 0
        while True:
            yield self.at(step)
            step += 1
