"""metrics.jsonl: a JSON object a line, of an epoch or step each. In: rows. Out: the file, without abandoned rows."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from ..system.atomic_files import replacing


class Metrics:
    """Rows whose `counter` is at most `keep` stay, later ones (written after the checkpoint that a run resumes from) go."""

    def __init__(self, path: Path, keep: int, counter: str = "epoch") -> None:
        self.path = path
        self._keep = keep
        self._counter = counter
        self._begun = False

    def begin(self) -> None:
        """Drop what does not belong to this run. Not before the run has got something of its own to keep."""
        if self._begun:
            return
        self._begun = True
        with replacing(self.path, CheckpointError) as file:
            file.write("".join(json.dumps(row) + "\n" for row in self._kept()).encode())

    @property
    def seconds(self) -> float:
        """What the rows that stay say of the time that the run has taken so far; 0 where there are none."""
        rows = self._kept()
        seconds = rows[-1].get("seconds") if rows else None
        return float(seconds) if isinstance(seconds, int | float) else 0.0

    def _kept(self) -> list[dict[str, Any]]:
        return [row for row in read_rows(self.path) if self._count(row) <= self._keep]

    def _count(self, row: dict[str, Any]) -> float:
        count = row.get(self._counter)
        return count if isinstance(count, int | float) else math.inf

    def add(self, *rows: dict[str, Any]) -> None:
        self.begin()
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The whole rows of a metrics file; none where there is no file. A last line cut short is left out.

    Raises CheckpointError where another line is no JSON object: what comes after it would be lost.
    """
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = []
    lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            if number == len(lines):
                break
            row = None
        if not isinstance(row, dict):
            raise CheckpointError(f"{path} is damaged: line {number} is no JSON object. Remedy: mend or move the file.")
        rows.append(row)
    return rows
