"""How likely a score is a contact, measured. In: a predictor, and families with known contacts that it has not seen. Out: probabilities.

The logits of a family grow with its depth, because those of its members add up: what a logit is worth depends on Neff. At each of a few
depths a line maps logits to log-odds (Platt, 1999), beyond the log-odds of any pair of columns in chains of that length. Its
centre, the logit that says nothing, grows with Neff as sums over members do; its slope follows log Neff, because members resemble each other. The precision of the best L pairs at each depth, the depth curve, comes from the same predictions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ...data import DataError
from ...system.atomic_files import replacing
from .families import Family, FamilyError, effective_depth
from .metrics import bootstrap_interval, precision_at

DEPTHS = (8, 32, 100, 300)
FEWEST = 2  # families at a depth
BINS = 10
RIDGE = 1e-6  # of the fit, in units of the logits' spread
LEAST = 1e-12  # probabilities whose logarithm is taken

Predict = Callable[[Family], np.ndarray]
Reliability = list[tuple[float, float, int]]


@dataclass(frozen=True)
class Calibration:
    """Lines from logits to log-odds at several depths, and the precision there. Lists of equal length, sorted by neff.

    neff: mean effective depths. slope, centre: of the lines, which are slope * (logit - centre). precision, low, high: the mean share of contacts among the best L pairs of
    columns, and its 95 % interval over families. contacts: those of a family as a share of the shorter chain. families: how many were
    measured. source: what they are. error: the mean distance of probability and observed share in families outside the fit.

    >>> found = sg.models.coevolution.Calibration([10.0, 1000.0], [1.0, 0.5], [0.0, 0.0], [0.2, 0.9], [0.1, 0.8], [0.3, 1.0], 1.0, 8, "x", 0.01)
    >>> round(float(found.probabilities(np.zeros((2, 4)), 100.0)[0, 0]), 6)  # one of four columns is the partner
    0.25
    >>> round(found.precision_of(100.0), 2)
    0.55
    """

    neff: list[float]
    slope: list[float]
    centre: list[float]
    precision: list[float]
    low: list[float]
    high: list[float]
    contacts: float
    families: int
    source: str
    error: float
    checkpoint: str = ""

    def probabilities(self, logits: np.ndarray, neff: float) -> np.ndarray:
        """Of a contact, (length_a, length_b), for the logits of a family with that Neff; NaN stays."""
        nearest = min(max(neff, self.neff[0]), self.neff[-1])
        slope = float(np.interp(np.log(nearest), np.log(self.neff), self.slope))
        centre = float(np.interp(nearest, self.neff, self.centre)) * neff / nearest
        return _sigmoid(slope * (logits - centre) + prior_odds(logits.shape, self.contacts))

    def precision_of(self, neff: float) -> float:
        """The mean precision of the best L pairs at that Neff; outside of the measured depths that of the nearest."""
        return float(np.interp(np.log(max(neff, 1.0)), np.log(self.neff), self.precision))

    def enough(self, precision: float) -> float | None:
        """The smallest measured Neff with at least that precision, or None."""
        return next((n for n, p in zip(self.neff, self.precision, strict=True) if p >= precision), None)

    def save(self, path: str | Path) -> None:
        """As JSON. Raises DataError if it cannot be written."""
        with replacing(path, DataError) as file:
            file.write((json.dumps(asdict(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, path: str | Path) -> Calibration:
        """Raises DataError for a file that is no calibration."""
        try:
            found = cls(**json.loads(Path(path).read_bytes()))
            columns = [
                np.asarray(getattr(found, name), np.float64) for name in ("neff", "slope", "centre", "precision")
            ]
            if {c.shape for c in columns} != {columns[0].shape} or columns[0].ndim != 1 or not columns[0].size:
                raise ValueError("its lists are not equally long")
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}.") from None
        except (TypeError, ValueError) as error:
            raise DataError(f"{path} is no calibration: {error}. Hint: shadergrad calibrate writes one.") from None
        return found


def prior_odds(shape: tuple[int, ...], contacts: float) -> float:
    """The log-odds of any pair of columns: contacts x the shorter chain, among all pairs.

    >>> from shadergrad.models.coevolution.calibration import prior_odds
    >>> round(float(np.exp(prior_odds((10, 21), 1.0))), 3)
    0.05
    """
    share = min(max(contacts / max(shape), LEAST), 1 - LEAST)
    return float(np.log(share / (1 - share)))


def calibrate(
    predict: Predict,
    families: Sequence[Family],
    depths: Sequence[int] = DEPTHS,
    source: str = "",
    seed: int = 0,
    told: Callable[[str], object] = lambda line: None,
) -> tuple[Calibration, list[Reliability]]:
    """The calibration of a predictor (a family to logits), and for each depth (mean probability, share of contacts, pairs of columns) in bins.

    families: with contacts, outside the training. A depth takes that many rows of each family, the query and others at random; families with
    fewer are left out. The bins come from two halves of the families: each half is judged by lines fitted to the other.
    told: called with a line for each depth.
    Raises FamilyError if contacts are unknown, or fewer than two families are deep enough for any depth.

    >>> physics = sg.models.coevolution.Physics(lengths=(6, 6))
    >>> families = sg.models.coevolution.sample_families(4, 20, physics=physics)
    >>> found, bins = sg.models.coevolution.calibrate(sg.models.coevolution.dca.mean_field, families, [10, 20])
    >>> found.neff, len(bins)
    ([10.0, 20.0], 2)
    """
    unknown = [family.name for family in families if family.contacts is None or not family.contacts.any()]
    if unknown or not families:
        raise FamilyError(
            f"[calibrate] the contacts of {unknown[0] if unknown else 'no family'} are not known. Hint: --contacts FILE."
        )
    contacts = float(np.mean([f.contacts.sum() / min(f.shape) for f in families]))  # type: ignore[union-attr]
    rng = np.random.default_rng(seed)
    rows: list[tuple[float, ...]] = []
    bins: list[Reliability] = []
    for depth in sorted(set(depths)):
        deep = [_thinned(family, depth, rng) for family in families if family.depth >= depth]
        if len(deep) < FEWEST:
            told(f"{depth} pairs: only {len(deep)} of {len(families)} families are as deep, left out")
            continue
        neff = float(np.mean([effective_depth(family)[0] for family in deep]))
        scored = [(predict(family), family) for family in deep]
        precisions = [precision_at(s, f.contacts, min(f.shape)) for s, f in scored]  # type: ignore[arg-type]
        halves = [_samples(scored[k::2], contacts) for k in (0, 1)]
        judged = [
            np.concatenate(both) for both in zip(*(_judged(halves[1 - k], halves[k]) for k in (0, 1)), strict=True)
        ]
        bins.append(reliability(*judged))
        whole = tuple(np.concatenate(both) for both in zip(*halves, strict=True))
        rows.append((neff, *_line(*whole), float(np.mean(precisions)), *bootstrap_interval(precisions)))
        told(
            f"{depth} pairs, Neff {neff:.1f}: {len(deep)} families, {100 * rows[-1][3]:.0f} % of the best L pairs touch"
        )
    if not rows:
        raise FamilyError(
            f"[calibrate] no depth of {list(depths)} has {FEWEST} families. Hint: smaller --depths, or deeper families."
        )
    columns = [[round(value, 6) for value in column] for column in zip(*sorted(rows), strict=True)]
    neff, slope, centre, precision, low, high = columns
    error = round(float(np.mean([expected_error(each) for each in bins])), 6)
    found = Calibration(neff, slope, centre, precision, low, high, round(contacts, 6), len(families), source, error)
    return found, bins


def reliability(probabilities: np.ndarray, contacts: np.ndarray) -> Reliability:
    """(mean probability, share of contacts, number) in bins of equal width; those without pairs left out.

    >>> sg.models.coevolution.reliability(np.array([0.02, 0.04, 0.95]), np.array([False, False, True]))
    [(0.03, 0.0, 2), (0.95, 1.0, 1)]
    """
    place = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    found = [place == k for k in range(BINS)]
    return [
        (float(probabilities[own].mean()), float(contacts[own].mean()), int(own.sum())) for own in found if own.any()
    ]


def expected_error(bins: Reliability) -> float:
    """The mean distance of probability and share, by the number of pairs (expected calibration error; Naeini et al., 2015)."""
    total = sum(count for *_, count in bins)
    return sum(abs(mean - share) * count for mean, share, count in bins) / total


def _thinned(family: Family, depth: int, rng: np.random.Generator) -> Family:
    """The query, and other rows at random."""
    others = 1 + rng.permutation(family.depth - 1)[: depth - 1]
    rows = np.concatenate([[0], np.sort(others)]).astype(int)
    return Family(family.name, family.a[rows], family.b[rows], family.contacts, (), family.aligned)


def _samples(scored: list[tuple[np.ndarray, Family]], contacts: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits, contacts (0 or 1) and prior log-odds of all pairs of columns with a score."""
    kept = [(s[np.isfinite(s)], f.contacts[np.isfinite(s)], prior_odds(s.shape, contacts)) for s, f in scored]  # type: ignore[index]
    logits, truth = (np.concatenate([each[k] for each in kept]).astype(np.float64) for k in (0, 1))
    return logits, truth, np.concatenate([np.full(len(s), odds) for s, _, odds in kept])


def _judged(fitted: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    slope, centre = _line(*fitted)
    return _sigmoid(slope * (other[0] - centre) + other[2]), other[1]


def _line(logits: np.ndarray, truth: np.ndarray, odds: np.ndarray) -> tuple[float, float]:
    """Slope (at least 0) and centre of the most likely log-odds slope * (logit - centre) + odds, by Newton's method."""
    centre, spread = logits.mean(), max(logits.std(), LEAST)
    inputs = np.stack([(logits - centre) / spread, np.ones(len(logits))], 1)
    theta = np.zeros(2)
    for _ in range(100):
        p = _sigmoid(inputs @ theta + odds)
        slope = inputs.T @ (p - truth) + RIDGE * theta
        curve = (inputs * (p * (1 - p))[:, None]).T @ inputs + RIDGE * np.eye(2)
        move = np.linalg.solve(curve, slope)
        theta -= move * min(1.0, 2.0 / max(np.abs(move).max(), LEAST))  # steps that stay where the curve is known
        if np.abs(move).max() < 1e-9:
            break
    if theta[0] < LEAST:
        return 0.0, 0.0  # a predictor that is worse than none says nothing: the prior remains
    return float(theta[0] / spread), float(centre - theta[1] * spread / theta[0])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-np.clip(x, -500, 500)))
