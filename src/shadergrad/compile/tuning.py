"""Measured tiles: the fastest tile and split-K for each shape of matrix multiplication on an adapter.

In: a table that `shadergrad tune` wrote for this adapter and driver, else one that ships with the library for similar adapters.
Out: choices, under the table's digest, which is part of the Target: another table leads to another plan. A file that is damaged, or of
another adapter, is ignored with a warning, and tiles.py estimates the tiles.
"""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any

from ..config import config
from ..errors import ShadergradError
from ..system.atomic_files import replacing
from .choices import Beside, Cut, Shape, Table, Tile
from .tiles import register

FORMAT = 1
NOWHERE = (
    "[tune] SHADERGRAD_CACHE is off: there is no place to keep what is measured. Hint: name a folder, or --no-keep."
)
SHIPPED = Path(__file__).parent / "tables"


class TuningError(ShadergradError, ValueError):
    """A shape that cannot be measured, or a table that cannot be written."""


def to_entries(table: Table) -> list[dict[str, Any]]:
    """The table as plain data."""
    return [
        {
            "shape": list(key.shape if isinstance(key, Beside) else key),
            **({"beside": list(key.other)} if isinstance(key, Beside) else {}),
            "tile": list(astuple(found.tile)),
            "parts": found.parts,
        }
        for key, found in sorted(table.items(), key=_order)
    ]


def _order(entry: tuple[Shape | Beside, Cut]) -> tuple[tuple[int, ...], ...]:
    key, _ = entry
    return (key.shape, key.other) if isinstance(key, Beside) else (key,)


def _numbers(value: Any, count: int) -> list[int]:
    if not (isinstance(value, list) and len(value) == count and all(type(n) is int and n > 0 for n in value)):
        raise ValueError(f"{value!r} is not {count} positive numbers")
    return value


def from_entries(entries: Any) -> Table:
    """The table from plain data; raises ValueError if the data are invalid."""
    found: dict[Shape | Beside, Cut] = {}
    for entry in entries:
        tile = Tile(*_numbers(entry["tile"], 7))
        (parts,) = _numbers([entry["parts"]], 1)
        odd = tile.slices.bit_count() > 1 or tile.bk % tile.slices  # sums of slices are added pairwise
        if odd or tile.bm % tile.tm or tile.bn % tile.tn or tile.tm % 4 or tile.tn % 4:
            raise ValueError(f"{entry['tile']} is no tile")
        shape = Shape(*_numbers(entry["shape"], 4))
        key = Beside(shape, Shape(*_numbers(entry["beside"], 4))) if "beside" in entry else shape
        found[key] = Cut(tile, parts)
    return found


def path_for(adapter: str, driver: str) -> Path | None:
    """The file of an adapter's table; None if SHADERGRAD_CACHE is off."""
    folder = config.cache_folder("tiles")
    name = re.sub(r"[^a-z0-9.]+", "-", f"{adapter} {driver}".lower()).strip("-")
    return None if folder is None else folder / f"{name}.json"


def save(table: Table, adapter: str, driver: str) -> Path:
    """Write the table of an adapter and its driver; returns the path. Raises TuningError if the disk refuses it, or
    SHADERGRAD_CACHE is off.
    """
    path = path_for(adapter, driver)
    if path is None:
        raise TuningError(NOWHERE)
    head = json.dumps({"format": FORMAT, "adapter": adapter, "driver": driver})
    products = ",\n ".join(json.dumps(entry) for entry in to_entries(table))
    with replacing(path, TuningError) as file:
        file.write(f'{head[:-1]}, "products": [\n {products}\n]}}\n'.encode())
    return path


def load(path: Path | None, adapter: str | None = None, driver: str | None = None) -> Table:
    """The table in a file, empty if there is none. A damaged file, or one of another adapter or driver, is ignored with
    a warning.
    """
    if path is None:
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise ValueError(f"its format is {data['format']}, not {FORMAT}")
        of = data.get("adapter"), data.get("driver")
        if adapter is not None and of != (adapter, driver):
            raise ValueError(f"it is of {of[0]} with driver {of[1]}, not of {adapter} with driver {driver}")
        return from_entries(data["products"])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        warnings.warn(
            f"[tiles] {path} is left out: {reason}. Products are cut by estimate.\n"
            "  Hint: delete it, or run `shadergrad tune`, which writes it anew.",
            stacklevel=2,
        )
        return {}


@cache
def digest_for(adapter: str, driver: str, table: str) -> str:
    """The digest of the table for an adapter: of its own measurements, else of the table of that name that ships with the library, else ""."""
    own, shipped = load(path_for(adapter, driver), adapter, driver), _shipped(table)
    return register({**shipped, **own}) if own or shipped else ""


def _shipped(table: str) -> Table:
    return load(SHIPPED / f"{table}.json") if table else {}
