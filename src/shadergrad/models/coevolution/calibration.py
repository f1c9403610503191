"""Calibration: the measured probability that a score is a contact. In: a predictor, and families with known contacts that it has not seen.
Out: probabilities.

The logits of a family grow with its depth, because the logits of its members add up. So the meaning of a logit depends on Neff. Scores are
therefore standardized: their distance from the median of their map, in units of its spread. At each of a few depths a curve maps them to
log-odds, relative to the prior log-odds of a pair of columns in chains of that length: a line (Platt, 1999) with a bend at the median, below
which scores are less informative. Between depths its coefficients are interpolated over the root of Neff, with which the height of contacts
above the rest grows. The depth curve, the precision of the best L pairs at each depth, comes from the same predictions.
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
RIDGE = np.array([1e-3, 1.0, 1e-3])  # of slope, bend and shift: only much evidence gives a bend
LEAST = 1e-12  # the smallest probability whose logarithm is taken

Predict = Callable[[Family], np.ndarray]
Reliability = list[tuple[float, float, int]]


@dataclass(frozen=True)
class Calibration:
    """Curves from scores to log-odds at several depths, and the precision there. Lists of equal length, sorted by neff.

    neff: mean effective depths. slope, bend, shift: the log-odds of a score z spreads above the median are slope z + bend log(1 + exp(z)) +
    shift. precision, low, high: the mean share of contacts among the best L pairs of
    columns, and its 95 % interval over families. contacts: the number of a family's contacts as a share of the shorter chain. families: how
    many were measured. source: their description. error: the mean distance of probability and observed share in families outside the fit.

    >>> two = [1.0, 1.0]
    >>> found = sg.models.coevolution.Calibration([10.0, 1000.0], two, [0.0, 0.0], [0.0, 0.0], [0.2, 0.9], two, two, 1.0, 8, "x", 0.01)
    >>> round(float(found.probabilities(np.zeros((2, 4)), 100.0)[0, 0]), 6)  # one of four columns is the partner
    0.25
    >>> round(found.precision_of(100.0), 2)
    0.55
    """

    neff: list[float]
    slope: list[float]
    bend: list[float]
    shift: list[float]
    precision: list[float]
    low: list[float]
    high: list[float]
    contacts: float
    families: int
    source: str
    error: float
    checkpoint: str = ""

    def probabilities(self, logits: np.ndarray, neff: float) -> np.ndarray:
        """The probabilities of contacts, (length_a, length_b), for the logits of a family with that Neff; NaN stays NaN."""
        place, known = np.sqrt(neff), np.sqrt(self.neff)
        curve = [np.interp(place, known, values) for values in (self.slope, self.bend, self.shift)]
        scored = np.isfinite(logits)
        found = np.full(logits.shape, np.nan)
        odds = _features(standardized(logits)[scored]) @ np.array(curve) + prior_odds(logits.shape, self.contacts)
        found[scored] = _sigmoid(odds)
        return found

    def precision_of(self, neff: float) -> float:
        """The mean precision of the best L pairs at that Neff; outside of the measured depths that of the nearest."""
        return float(np.interp(np.log(max(neff, 1.0)), np.log(self.neff), self.precision))

    def enough(self, precision: float) -> float | None:
        """The smallest measured Neff with at least that precision, or None."""
        return next((n for n, p in zip(self.neff, self.precision, strict=True) if p >= precision), None)

    def save(self, path: str | Path) -> None:
        """Write it as JSON. Raises DataError if it cannot be written."""
        with replacing(path, DataError) as file:
            file.write((json.dumps(asdict(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, path: str | Path) -> Calibration:
        """Read a saved one. Raises DataError for a file that is no calibration."""
        try:
            found = cls(**json.loads(Path(path).read_bytes()))
            columns = [
                np.asarray(getattr(found, name), np.float64) for name in ("neff", "slope", "bend", "shift", "precision")
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


def standardized(scores: np.ndarray) -> np.ndarray:
    """The distance of each score of a map from the median, in spreads. A spread holds a third of the scores on either side; NaN stays.

    >>> from shadergrad.models.coevolution.calibration import standardized
    >>> standardized(np.arange(101.0))[[50, 84]].round(2)
    array([0., 1.])
    """
    low, middle, high = np.quantile(scores[np.isfinite(scores)], [0.16, 0.5, 0.84])
    return (scores - middle) * (2 / (high - low) if high > low else 0.0)


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
    fewer are left out. The bins come from two halves of the families: each half is judged by curves fitted to the other.
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
        rows.append((neff, *_curve(*whole), float(np.mean(precisions)), *bootstrap_interval(precisions)))
        told(
            f"{depth} pairs, Neff {neff:.1f}: {len(deep)} families, {100 * np.mean(precisions):.0f} % of the best L pairs touch"
        )
    if not rows:
        raise FamilyError(
            f"[calibrate] no depth of {list(depths)} has {FEWEST} families. Hint: smaller --depths, or deeper families."
        )
    columns = [[round(value, 6) for value in column] for column in zip(*sorted(rows), strict=True)]
    neff, slope, bend, shift, precision, low, high = columns
    error = round(float(np.mean([expected_error(each) for each in bins])), 6)
    found = Calibration(
        neff, slope, bend, shift, precision, low, high, round(contacts, 6), len(families), source, error
    )
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
    """Standardized scores, contacts (0 or 1) and prior log-odds of all pairs of columns with a score."""
    kept = []
    for scores, family in scored:
        assert family.contacts is not None
        known = np.isfinite(scores)
        kept.append((standardized(scores)[known], family.contacts[known], prior_odds(scores.shape, contacts)))
    logits, truth = (np.concatenate([each[k] for each in kept]).astype(np.float64) for k in (0, 1))
    return logits, truth, np.concatenate([np.full(len(s), odds) for s, _, odds in kept])


def _judged(fitted: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    return _sigmoid(_features(other[0]) @ np.array(_curve(*fitted)) + other[2]), other[1]


def _features(scores: np.ndarray) -> np.ndarray:
    return np.stack([scores, np.logaddexp(0.0, scores), np.ones_like(scores)], -1)


def _curve(scores: np.ndarray, truth: np.ndarray, odds: np.ndarray) -> tuple[float, float, float]:
    """Slope, bend and shift of the most likely log-odds that do not fall with the score, by Newton's method."""
    inputs = _features(scores)
    best, least = np.zeros(3), np.inf  # for a predictor worse than none the prior remains
    for used in ([0, 1, 2], [1, 2], [0, 2]):
        theta = np.zeros(3)
        theta[used] = _fitted(inputs[:, used], truth, odds, RIDGE[used])
        p = np.clip(_sigmoid(inputs @ theta + odds), LEAST, 1 - LEAST)
        loss = -(truth * np.log(p) + (1 - truth) * np.log(1 - p)).sum()
        if theta[0] >= 0 and theta[0] + theta[1] >= 0 and loss < least:
            best, least = theta, loss
    return float(best[0]), float(best[1]), float(best[2])


def _fitted(inputs: np.ndarray, truth: np.ndarray, odds: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    theta = np.zeros(inputs.shape[1])
    for _ in range(200):
        p = _sigmoid(inputs @ theta + odds)
        rise = inputs.T @ (p - truth) + ridge * theta
        curvature = (inputs * (p * (1 - p))[:, None]).T @ inputs + np.diag(ridge)
        move = np.linalg.solve(curvature, rise)
        theta -= move * min(1.0, 2.0 / max(np.abs(move).max(), LEAST))  # no farther than the curvature holds
        if np.abs(move).max() < 1e-9:
            break
    return theta


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-np.clip(x, -500, 500)))
