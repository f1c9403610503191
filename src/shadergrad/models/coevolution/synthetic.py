"""Families with planted contacts, drawn from a Potts model, for tests with a known truth.

In: a random generator and sizes. Out: families. Each family has its own fields (the preferences of each position). All families
share one residue-pair potential, because physics is the same everywhere. Residues within a chain touch, too: i and i + 3, i and
i + 4, as in a helix, with the same potential. P(x) ~ exp(sum_i h_i(x_i) + sum_(i, j) J(x_i, x_j)) over touching (i, j); Gibbs
sampling, at equilibrium or along a tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .families import Family
from .vocabulary import AMINO_ACIDS

STATES = len(AMINO_ACIDS)
HELIX = (3, 4)  # distances along the chain of residues that touch
MOST_PARTNERS = 3  # of a residue in the other chain
BURN_IN = 20  # sweeps
TINY = np.float32(1e-30)  # an exponential in float32 may be 0


@dataclass(frozen=True)
class Physics:
    """The common parameters of synthetic families. coupling: the potential's standard deviation; fields: that of a family's fields.

    contacts: the number of planted contacts as a share of the shorter chain. lengths: the shortest and the longest chain. seed:
    that of the potential.

    >>> table = sg.models.coevolution.Physics(coupling=0.5).potential()
    >>> table.shape, round(float(table.std()), 3), bool(np.allclose(table, table.T))
    ((20, 20), 0.5, True)
    """

    coupling: float = 0.37
    fields: float = 0.7
    contacts: float = 1.25
    lengths: tuple[int, int] = (26, 30)
    seed: int = 0

    def potential(self) -> np.ndarray:
        """The energy of each pair of touching residues, (20, 20): symmetric, rows of mean 0, of standard deviation `coupling`."""
        table = np.random.default_rng(self.seed).standard_normal((STATES, STATES))
        table = table + table.T
        table = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
        return table * (self.coupling / table.std())


def plant_contacts(rng: np.random.Generator, length_a: int, length_b: int, count: int) -> np.ndarray:
    """A contact map (length_a, length_b) with `count` contacts in strips along diagonals, as where strands or helices meet.

    >>> contacts = sg.models.coevolution.plant_contacts(np.random.default_rng(0), 20, 25, 12)
    >>> contacts.shape, int(contacts.sum())
    ((20, 25), 12)
    """
    contacts = np.zeros((length_a, length_b), bool)
    while contacts.sum() < count:
        i, j, step = rng.integers(length_a), rng.integers(length_b), rng.choice([-1, 1])
        for k in range(rng.integers(2, 6)):
            at = i + k, j + step * k
            inside = at[0] < length_a and 0 <= at[1] < length_b
            if not inside or contacts.sum() == count:
                break
            if max(contacts[at[0]].sum(), contacts[:, at[1]].sum()) < MOST_PARTNERS:
                contacts[at] = True
    return contacts


def sample_family(
    name: str, rng: np.random.Generator, physics: Physics, depth: int, mutations: float | None = None
) -> Family:
    """A family of `depth` pairs with planted contacts.

    mutations: None draws pairs independently; a number draws them along a binary tree. In each generation this share of the
    residues is redrawn, so relatives resemble each other without contacts.

    >>> physics = sg.models.coevolution.Physics(lengths=(10, 12))
    >>> family = sg.models.coevolution.sample_family("one", np.random.default_rng(0), physics, depth=5)
    >>> family.a.shape[0], int(family.contacts.sum()) >= 12
    (5, True)
    """
    low, high = physics.lengths
    length_a, length_b = (int(n) for n in rng.integers(low, high + 1, 2))
    contacts = plant_contacts(rng, length_a, length_b, round(physics.contacts * min(length_a, length_b)))
    sampler = Sampler(rng, physics, contacts)
    rows = sampler.independent(depth) if mutations is None else sampler.along_a_tree(depth, mutations)
    names = tuple(f"{name}_{k}" for k in range(depth))
    return Family(name, rows[:, :length_a], rows[:, length_a:], contacts, names)


class Sampler:
    """Gibbs sampling of one family's Potts model: all residues of a colour at once, because none of them touch."""

    def __init__(self, rng: np.random.Generator, physics: Physics, contacts: np.ndarray) -> None:
        length_a, length_b = contacts.shape
        self.rng, self.length = rng, length_a + length_b
        self.fields = (physics.fields * rng.standard_normal((self.length, STATES))).astype(np.float32)
        # the last row, zeros, is for a missing partner
        self.potential = np.zeros((STATES + 1, STATES), np.float32)
        self.potential[:STATES] = physics.potential()
        touching = np.zeros((self.length, self.length), bool)
        touching[:length_a, length_a:] = contacts
        for start, length in ((0, length_a), (length_a, length_b)):
            for k in HELIX:
                at = np.arange(start, start + length - k)
                touching[at, at + k] = True
        self._groups = [self._group(sites, touching | touching.T) for sites in _colours(touching | touching.T)]

    def _group(self, sites: np.ndarray, touching: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sites of a colour, and the partners of each; the number of sites means none."""
        partners = np.full((len(sites), max(int(touching[sites].sum(1).max()), 1)), self.length)
        for row, site in enumerate(sites):
            found = np.flatnonzero(touching[site])
            partners[row, : len(found)] = found
        return sites, partners

    def independent(self, depth: int) -> np.ndarray:
        """Rows (depth, length) at equilibrium, uint8."""
        rows = self._start(depth)
        for _ in range(BURN_IN):
            self.sweep(rows, 1.0)
        return rows[:, :-1].astype(np.uint8)

    def along_a_tree(self, depth: int, mutations: float) -> np.ndarray:
        """Rows (depth, length), the leaves of a binary tree whose root is at equilibrium, uint8."""
        rows = self._start(1)
        for _ in range(BURN_IN):
            self.sweep(rows, 1.0)
        while len(rows) < depth:
            rows = rows.repeat(2, axis=0)
            self.sweep(rows, mutations)
        return rows[self.rng.permutation(len(rows))[:depth], :-1].astype(np.uint8)

    def _start(self, depth: int) -> np.ndarray:
        rows = self.rng.integers(0, STATES, (depth, self.length + 1))
        rows[:, -1] = STATES  # the missing partner's state
        return rows

    def sweep(self, rows: np.ndarray, share: float) -> None:
        """Redraw a share of the residues in place, given all others."""
        for sites, partners in self._groups:
            logits = self.fields[sites] + self.potential[rows[:, partners]].sum(2)
            noise = np.log(self.rng.standard_exponential(logits.shape, np.float32) + TINY)
            drawn = (logits - noise).argmax(2)  # Gumbel's way to draw from a softmax
            if share < 1.0:
                drawn = np.where(self.rng.random(drawn.shape) < share, drawn, rows[:, sites])
            rows[:, sites] = drawn


def _colours(touching: np.ndarray) -> list[np.ndarray]:
    """Sites in groups none of whose members touch, greedily."""
    colour = np.full(len(touching), -1)
    for site in range(len(touching)):
        taken = set(colour[touching[site]])
        colour[site] = next(c for c in range(len(touching)) if c not in taken)
    return [np.flatnonzero(colour == c) for c in range(colour.max() + 1)]


def sample_families(
    count: int, depth: int, seed: int = 0, physics: Physics | None = None, mutations: float | None = None
) -> list[Family]:
    """Families with one potential; the k-th does not depend on their number. See `sample_family`.

    >>> physics = sg.models.coevolution.Physics(lengths=(10, 12))
    >>> [f.name for f in sg.models.coevolution.sample_families(2, 3, seed=5, physics=physics)]
    ['synthetic-5-0', 'synthetic-5-1']
    """
    physics = physics or Physics()
    return [
        sample_family(f"synthetic-{seed}-{k}", np.random.default_rng((seed, k)), physics, depth, mutations)
        for k in range(count)
    ]
