"""Two processes collect the same tests: no name and no data depends on the time, the process or the machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import slow_tests
from slow_tests import is_in_share

ROOT = Path(__file__).parents[2]

PROBE = '''
"""A plugin that writes each test's name with a digest of its data, as another process on another machine would."""

import dataclasses, datetime, hashlib, os, platform, socket, tempfile, time

import numpy as np
import pytest

later = float(os.environ["PROBE_LATER"])
if later:
    now = time.time
    time.time = lambda: now() + later
    time.time_ns = lambda: int(time.time() * 1e9)
    os.cpu_count = lambda: 61
    os.getpid = lambda: 7
    platform.node = socket.gethostname = lambda: "elsewhere"


def described(value, seen=()):
    """What of a value says what a test does: its elements, its fields, and what a function closes over."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, range, slice, np.generic, np.dtype)):
        return repr(value)
    if isinstance(value, np.ndarray):
        return repr((value.dtype.str, value.shape, value.tolist()))
    if any(value is other for other in seen):
        return "itself"
    seen = (*seen, value)
    if isinstance(value, (list, tuple)):
        return [described(v, seen) for v in value]
    if isinstance(value, dict):
        return [(described(k, seen), described(v, seen)) for k, v in value.items()]
    if isinstance(value, (set, frozenset)):
        return sorted(str(described(v, seen)) for v in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [getattr(value, f.name) for f in dataclasses.fields(value)]
        return [type(value).__qualname__, *(described(v, seen) for v in fields)]
    if hasattr(value, "__code__"):
        cells = [c.cell_contents for c in value.__closure__ or ()]
        return [value.__qualname__, *(described(v, seen) for v in (*(value.__defaults__ or ()), *cells))]
    if type(value).__name__ == "Tensor":
        return [repr(value.dtype), repr(value.tolist())]
    return getattr(value, "__qualname__", type(value).__qualname__)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    with open(os.environ["PROBE_FILE"], "w", encoding="utf-8") as file:
        for item in session.items:
            data = described(getattr(getattr(item, "callspec", None), "params", {}))
            file.write(f"{item.nodeid} {hashlib.sha256(repr(data).encode()).hexdigest()[:16]}\\n")
'''


def collected(folder: Path, name: str, later: int) -> tuple[subprocess.Popen[str], Path]:
    """A process that collects the whole suite, and the file that it will write."""
    file = folder / name
    variables = {
        "PROBE_LATER": str(later),
        "PROBE_FILE": str(file),
        "PYTHONHASHSEED": str(later + 1),
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
        "TMPDIR": str(folder / f"{name} temporary"),
        "TZ": f"XYZ{later % 24}",
    }
    (folder / f"{name} temporary").mkdir()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "-p",
        "no:cacheprovider",
        "-p",
        "probe",
        "-m",
        "",
    ]
    return subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ), file


@pytest.mark.slow
def test_names_and_data_of_tests_are_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    runs = [collected(tmp_path, "now", later=0), collected(tmp_path, "then", later=10_000_019)]
    said = [process.communicate()[0] for process, _ in runs]
    for (process, _), text in zip(runs, said, strict=True):
        assert process.returncode == 0, text[-2000:]
    now, then = (file.read_text(encoding="utf-8").splitlines() for _, file in runs)
    assert len(now) > 1000
    differ = [f"{a}\n    {b}" for a, b in zip(now, then, strict=False) if a != b]
    assert not differ, f"{len(differ)} tests are others in another process, the first: {differ[0]}"
    assert len(now) == len(then)


def test_each_name_in_a_table_of_slow_tests_is_that_of_a_test() -> None:
    """One that was renamed would run each time again, and nobody would know why that takes so long."""
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r'^    "(test_\w+)"', (ROOT / "tests" / "slow_tests.py").read_text(), re.M)
    assert named
    assert [name for name in named if f"def {name}(" not in tests] == []


def test_no_two_files_have_the_same_module_name() -> None:
    """pytest imports those of folders that are no packages by their names alone, and collects only the first."""
    files = [f for f in (ROOT / "tests").rglob("test_*.py") if not (f.parent / "__init__.py").exists()]
    twice = Counter(f.name for f in files)
    assert not [str(f.relative_to(ROOT)) for f in files if twice[f.name] > 1]


def test_every_test_is_in_one_share() -> None:
    """Of the shares of which continuous integration takes one."""
    tests = [f"tests/null/test_{k}.py::test_{k}" for k in range(1000)]
    shares = [[t for t in tests if is_in_share(t, f"{k}/6")] for k in range(6)]
    assert sorted(t for share in shares for t in share) == sorted(tests)
    assert all(100 < len(share) < 250 for share in shares)
    for none in ("2/2", "1", "a/3", "-1/3"):
        with pytest.raises(pytest.UsageError, match=f"--share {none} names none"):
            is_in_share(tests[0], none)


def test_of_many_alike_a_part_runs_each_time_and_all_that_a_fault_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_tests, "THINNED", {"test_a": 3})
    monkeypatch.setattr(slow_tests, "THINNED_ON_WEBGPU", {"test_a": 5})
    monkeypatch.setattr(slow_tests, "THINNED_BY_OPERATION", {"test_b": 4})
    monkeypatch.setattr(slow_tests, "SLOW_ON_WEBGPU", {"test_c"})
    monkeypatch.setattr(slow_tests, "NAMED_BY_FAULTS", ("test_a[4",))

    def quick(name: str, on_webgpu: bool, size: int = 12, operation: str = "") -> list[int]:
        family = ("tests/test_x.py", name, on_webgpu, operation)
        return [k for k in range(size) if not slow_tests.is_slow(f"{name}[{k}]", family, k, size)]

    assert quick("test_a", on_webgpu=False) == [0, 3, 4, 6, 9]
    assert quick("test_a", on_webgpu=True) == [0, 4, 5, 10]
    assert quick("test_c", on_webgpu=True) == []
    assert quick("test_c", on_webgpu=False) == list(range(12))
    firsts = [
        quick("test_b", True, operation=name) for name in ("exp", "log", "sin", "add", "mul", "sum", "cat", "pow")
    ]
    assert {len(places) for places in firsts} == {3}
    assert len({tuple(places) for places in firsts}) > 1
    assert all(len(quick("test_b", True, 2, name)) == 1 for name in ("exp", "log", "sin", "add"))


@pytest.mark.slow
def test_a_share_is_asked_for_by_an_option() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", __file__, "--share"]
    runs = [
        subprocess.Popen([*command, share], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for share in ("0/2", "1/2", "2/2")
    ]
    *shares, refused = (process.communicate()[0] for process in runs)
    found = Counter(name for text in shares for name in re.findall(r"::(test_\w+)", text))
    assert found == Counter(re.findall(r"^def (test_\w+)", Path(__file__).read_text(), re.M))
    assert "--share 2/2 names none" in refused
