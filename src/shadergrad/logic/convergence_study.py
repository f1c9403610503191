"""Statistics over seeds: how often and when training converges.

In: the outcome of each seed. Out: shares and quantiles, and the file that holds them. A training has converged if its hard loss
stays 0 from some step to the end.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CheckpointError
from ..system.atomic_files import replacing


@dataclass(frozen=True)
class Outcome:
    """One training. zero_from: the step from which the hard loss stayed 0, or None. soft, hard: the last losses."""

    seed: int
    steps: int
    zero_from: int | None
    soft: float
    hard: float
    active_gates: int
    minimized_gates: int
    seconds: float


@dataclass(frozen=True)
class Summary:
    """Statistics over seeds; earliest, median and latest are steps `zero_from` of converged trainings, None if there are none."""

    seeds: int
    converged: int
    earliest: int | None
    median: float | None
    latest: int | None


def summary(outcomes: Sequence[Outcome]) -> Summary:
    """The share of converged trainings, and the quantiles of their steps."""
    found = [o.zero_from for o in outcomes if o.zero_from is not None]
    if not found:
        return Summary(len(outcomes), 0, None, None, None)
    return Summary(len(outcomes), len(found), min(found), float(np.median(found)), max(found))


def write(path: Path, settings: dict[str, Any], outcomes: Sequence[Outcome]) -> None:
    """The settings that all seeds share, the outcomes and their summary as JSON, replacing the file atomically. Raises
    CheckpointError if the write fails.
    """
    document = {
        "settings": settings,
        "summary": asdict(summary(outcomes)),
        "outcomes": [asdict(o) for o in outcomes],
    }
    with replacing(path, CheckpointError) as file:
        file.write(f"{json.dumps(document, indent=2)}\n".encode())


def _number(value: Any) -> Any:
    if value is not None and not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return value


def read(path: Path, settings: dict[str, Any]) -> list[Outcome]:
    """The outcomes in a file; none without a file. Raises CheckpointError for a file of other settings."""
    if not path.exists():
        return []
    names = {f.name for f in fields(Outcome)}
    try:
        document = json.loads(path.read_bytes())
        before = dict(document["settings"])
        outcomes = [Outcome(**{name: _number(row[name]) for name in names}) for row in document["outcomes"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path} is no study's file, or is damaged: {error!r}. Hint: another --out.") from None
    differing = [
        f"{key} {before.get(key)} (now {value})" for key, value in settings.items() if before.get(key) != value
    ]
    if differing:
        raise CheckpointError(
            f"cannot go on with the study {path}: it has {', '.join(differing)}. Hint: the same values, or another --out."
        )
    return outcomes
