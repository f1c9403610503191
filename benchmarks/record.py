"""Results as data: what a benchmark measured, on which machine, beside which peer, when and of which commit.

In: measurements of a program in this folder. Out: `benchmarks/results/NAME.json`, a file a benchmark and a line a record, from which
`scripts/results.py` writes pages. A folder holds the newest record of each (benchmark, case, quantity, machine).

    python benchmarks/step.py mlp --results benchmarks/results           # measures, and keeps it
    record.append(folder, record.read(brought))                          # records of another machine: the newer of each stays

The case `mlp, small` is a size to try a program with, which no page shows.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / "results"
# Units, and whether less of it is better; None: neither.
UNITS: dict[str, bool | None] = {
    "s": True,
    "ms": True,
    "us": True,
    "nats": True,
    "bytes": True,
    "dispatches": True,
    "TFLOP/s": False,
    "GB/s": False,
    "bytes/s": False,
    "gates/s": False,
    "steps/s": False,
    "pairs/s": False,
    "share": False,
    "times": False,
    "GFLOP": None,
}
DATE = re.compile(r"\d{4}-\d\d-\d\d")
BY_HAND = "entered by hand"
Folder = Annotated[Path | None, typer.Option("--results", help="a folder to keep what is measured in, as JSON")]


class RecordError(ValueError):
    """A file of results is not valid."""


@dataclass(frozen=True, order=True)
class Machine:
    """processor: its name and the cores that the process has. adapter: the GPU, or `cpu` for the cpu device."""

    processor: str
    adapter: str
    driver: str = ""


@dataclass(frozen=True)
class Record:
    """One figure. peers: figures of other libraries in the same unit, by name. versions: of the software in the measurement. how: rounds and
    the like. commit: of the tree, with `+` if files had changed, "" if unknown."""

    benchmark: str
    case: str
    quantity: str
    value: float
    unit: str
    machine: Machine
    date: str
    peers: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    commit: str = ""
    how: str = ""

    @property
    def key(self) -> tuple[str, str, str, Machine]:
        return self.benchmark, self.case, self.quantity, self.machine

    def times_as_good(self, peer: str) -> float:
        """Above 1: better than the peer. Of a time that is the peer's by ours, of a rate ours by the peer's."""
        other = self.peers[peer]
        return other / self.value if UNITS[self.unit] else self.value / other


@dataclass(frozen=True)
class Measured:
    """A benchmark's figure for a case, before machine and date are added."""

    case: str
    quantity: str
    value: float
    unit: str
    peers: dict[str, float] = field(default_factory=dict)
    how: str = ""

    def rounded(self) -> Measured:
        """To five digits, of which nobody measures more."""
        peers = {name: float(f"{value:.5g}") for name, value in self.peers.items()}
        return replace(
            self, value=self.value if isinstance(self.value, int) else float(f"{self.value:.5g}"), peers=peers
        )


def keep(folder: Path | None, benchmark: str, device: str, found: Iterable[Measured], adapter: str = "") -> None:
    """Add measurements of a device to a folder; without one nothing happens. adapter: where it is none of this process."""
    if folder is None:
        return
    machine = machine_of(device)
    machine = replace(machine, adapter=adapter, driver="") if adapter else machine
    about = {"machine": machine, "date": f"{datetime.now(UTC):%Y-%m-%d}", "versions": versions(), "commit": commit()}
    append(folder, [Record(benchmark, **asdict(m.rounded()), **about) for m in found])


def append(folder: Path, records: Iterable[Record]) -> None:
    """Put records into a folder's files; of equal keys the newer stays, of equal days the one that comes."""
    by_file: dict[str, list[Record]] = {}
    for record in records:
        check(asdict(record), record.benchmark)
        by_file.setdefault(record.benchmark, []).append(record)
    folder.mkdir(parents=True, exist_ok=True)
    for name, new in by_file.items():
        path = folder / f"{name}.json"
        merged = newest([*(read_file(path) if path.exists() else []), *new])
        unfinished = path.with_suffix(".json.new")
        unfinished.write_text(text_of(merged), encoding="utf-8")
        os.replace(unfinished, path)


def text_of(records: Iterable[Record]) -> str:
    """A JSON list with a line per record, in an order independent of insertion. Empty fields are left out."""
    rows = [asdict(r) for r in sorted(records, key=lambda r: r.key)]
    lines = [json.dumps({k: v for k, v in row.items() if v not in ("", {})}, ensure_ascii=False) for row in rows]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def read(folder: Path) -> list[Record]:
    """The newest of each (benchmark, case, quantity, machine) of a folder's files. Raises RecordError, which says what is wrong where."""
    if not folder.is_dir():
        raise RecordError(f"{folder} is no folder of results")
    return newest([record for path in sorted(folder.glob("*.json")) for record in read_file(path)])


def newest(records: Iterable[Record]) -> list[Record]:
    """Of equal keys the latest day's; of equal days the last."""
    kept: dict[Any, Record] = {}
    for record in records:
        if record.key not in kept or record.date >= kept[record.key].date:
            kept[record.key] = record
    return [kept[key] for key in sorted(kept)]


def read_file(path: Path) -> list[Record]:
    """All records of a file. Raises RecordError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise RecordError(f"{path} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    if not isinstance(found, list):
        raise RecordError(f"{path} holds no list of records")
    records = []
    for number, row in enumerate(found, 1):
        check(row, f"{path}, record {number}")
        if row["benchmark"] != path.stem:
            raise RecordError(
                f"{path}, record {number}: a record of `{row['benchmark']}` belongs in {row['benchmark']}.json"
            )
        records.append(Record(**{**row, "machine": Machine(**row["machine"])}))
    return records


TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("benchmark", "case", "quantity", "unit", "date", "commit", "how"), (str,)),
    **dict.fromkeys(("machine", "peers", "versions"), (dict,)),
    "value": (int, float),
}
OPTIONAL = {"peers", "versions", "commit", "how"}


def check(row: Any, where: str) -> None:
    """Raises RecordError, with the reason, if data is not a valid record."""
    if not isinstance(row, dict):
        raise RecordError(f"{where}: a record is an object with fields")
    check_names(where, row, TYPES, OPTIONAL)
    for name, value in row.items():
        if not isinstance(value, TYPES[name]) or isinstance(value, bool):
            raise RecordError(f"{where}: the field `{name}` is {value!r}, of the wrong kind")
    check_names(where, row["machine"], {f.name: str for f in fields(Machine)}, {"driver"}, "machine.")
    for name, value in {**row["machine"], **row.get("versions", {})}.items():
        if not isinstance(value, str):
            raise RecordError(f"{where}: `{name}` is {value!r}, which is no text")
    for name, value in {"value": row["value"], **row.get("peers", {})}.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < math.inf:
            raise RecordError(f"{where}: the figure of `{name}` is {value!r}, which is no finite number from 0 on")
    check_words(where, row)


def check_words(where: str, row: dict[str, Any]) -> None:
    for name in ("benchmark", "case", "quantity"):
        if not row[name]:
            raise RecordError(f"{where}: the field `{name}` is empty")
    if not re.fullmatch(r"\w+", row["benchmark"]):
        raise RecordError(f"{where}: the benchmark {row['benchmark']!r} is no name of a file")
    if row["unit"] not in UNITS:
        raise RecordError(f"{where}: the unit {row['unit']!r} is not known; there are {', '.join(UNITS)}")
    if not DATE.fullmatch(row["date"]):
        raise RecordError(f"{where}: the date {row['date']!r} is not written as 2026-01-31")


def check_names(where: str, row: dict[str, Any], known: Iterable[str], optional: set[str], within: str = "") -> None:
    known = [*known]
    for name in known:
        if name not in row and name not in optional:
            raise RecordError(f"{where}: the field `{within}{name}` is missing")
    for name in row:
        if name not in known:
            raise RecordError(f"{where}: the field `{within}{name}` is not known; there are {', '.join(known)}")


# -- this machine, and this tree


def machine_of(device: str) -> Machine:
    """The processor, and what a device of the library runs on."""
    from shadergrad.runtime.device import get_device

    info = getattr(get_device(device), "adapter", None)
    if info is None:
        return Machine(processor(), device)
    profile = ", portable profile" if info.profile == "portable" else ""
    through = " through Dawn" if info.implementation == "dawn" else ""
    return Machine(processor(), f"{info.name} ({info.backend}{through}){profile}", info.driver)


def processor() -> str:
    """The processor's name and the number of cores that the process may use."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.M)
        name = found[1] if found else name
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{' '.join(name.split())}, {cores} core{'s' if cores > 1 else ''}"


def versions() -> dict[str, str]:
    """Versions of Python, the library, and the other packages that the process has loaded."""
    found = {"python": platform.python_version()}
    for name in ("shadergrad", "numpy", "wgpu", "torch", "jax"):
        if name in sys.modules:
            try:
                found[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                found[name] = str(getattr(sys.modules[name], "__version__", "unknown"))
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = (
            f"{torch.__version__} on {torch.cuda.get_device_name() if torch.cuda.is_available() else 'cpu'}"
        )
    return found


def commit() -> str:
    """Of the tree that this file lies in; `+` behind it where a file of the package or of this folder was changed."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "src", "benchmarks/*.py")
        return git("rev-parse", "--short=9", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
