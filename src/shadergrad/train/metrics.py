"""metrics.jsonl: a JSON object per line, for an epoch or a step. In: rows. Out: the file, without abandoned rows."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from ..system.atomic_files import replacing


class Metrics:
    """Keeps rows whose `counter` is at most `keep` and removes later ones, written after the checkpoint that a run resumes from."""

    def __init__(self, path: Path, keep: int, counter: str = "epoch") -> None:
        self.path = path
        self._keep = keep
        self._counter = counter
        self._begun = False

    def begin(self) -> None:
        """Remove rows that do not belong to this run. Called when the run has a row of its own."""
        if self._begun:
            return
        self._begun = True
        with replacing(self.path, CheckpointError) as file:
            file.write("".join(json.dumps(row) + "\n" for row in self._remaining_rows()).encode())

    @property
    def seconds(self) -> float:
        """The time of the run so far, from the rows that stay; 0 without rows."""
        rows = self._remaining_rows()
        seconds = rows[-1].get("seconds") if rows else None
        return float(seconds) if isinstance(seconds, int | float) else 0.0

    def _remaining_rows(self) -> list[dict[str, Any]]:
        return [row for row in read_rows(self.path) if self._count(row) <= self._keep]

    def _count(self, row: dict[str, Any]) -> float:
        count = row.get(self._counter)
        return count if isinstance(count, int | float) else math.inf

    def add(self, *rows: dict[str, Any]) -> None:
        self.begin()
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The complete rows of a metrics file; none without a file. It skips a truncated last line.

    Raises CheckpointError if another line is not a JSON object, because the rows after it would be lost.
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
            raise CheckpointError(f"{path} is damaged: line {number} is no JSON object. Hint: mend or move the file.")
        rows.append(row)
    return rows
