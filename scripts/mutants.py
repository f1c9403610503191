"""Plants the faults of `faults/`, one at a time, and asks whether the tests named for each catch it.

    python scripts/mutants.py                     plant all; exit 1 where fewer than 95 % are caught
    python scripts/mutants.py --only NAME ...     those only, by the beginning of their names
    python scripts/mutants.py --jobs 4            so many at a time (2)
    python scripts/mutants.py --mend              plant nothing; find the definitions that were moved or renamed, and
                                                  rewrite the tables; exit 1 where some are not found

Every fault is planted in a scratch copy of the tree, never in the tree itself. First all named tests run without any
fault, for a test that fails anyway catches nothing. A fault is caught where a test fails, or does not end in time. What
no longer applies (it is not found exactly once, or no test has its name) is an error: mend the table.

To pytest this file is a plugin as well: `-p mutants --begins-with ID` runs the tests whose ids begin so.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))  # as a script it finds its neighbour anyway, as a plugin it does not

from faults import FAULTS  # noqa: E402
from planting import SOURCE, Fault, NotPlanted, mend, plant, trouble  # noqa: E402

NEEDED = 0.95  # of the faults must be caught
LIMIT = 300  # seconds for the tests of one fault; alone they take some
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "runs", "node_modules")
CAUGHT, SURVIVED, MOVED, NO_TEST = "caught", "SURVIVED", "NO LONGER APPLIES", "NO SUCH TEST"

# -- pytest's side


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--begins-with", action="append", default=[], metavar="ID", help="only tests whose ids begin so")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave out all tests but those asked for. Raises UsageError where one of the beginnings is that of no test."""
    import pytest  # as a script this file needs none

    beginnings = config.getoption("--begins-with")
    unknown = [b for b in beginnings if not any(begins_with(item.nodeid, b) for item in items)]
    if unknown:
        raise pytest.UsageError(f"no test begins with {', '.join(unknown)}")
    if beginnings:
        items[:] = [item for item in items if any(begins_with(item.nodeid, b) for b in beginnings)]


def pytest_collectstart(collector: Any) -> None:
    """A failure is all that is asked for: hypothesis need not look for a smaller one. (conftest.py has chosen by now.)"""
    from hypothesis import Phase, settings  # as a script this file needs none

    if collector.config.getoption("--begins-with") and Phase.shrink in settings().phases:
        phases = [p for p in settings().phases if p not in (Phase.shrink, Phase.explain)]
        settings.register_profile("first failure", settings(), phases=phases)
        settings.load_profile("first failure")


def begins_with(test: str, beginning: str) -> bool:
    """Whether a test is, or belongs to, the function or class of that name, or has an id that begins so."""
    whole = test == beginning or test.startswith((f"{beginning}[", f"{beginning}::"))
    return whole or ("[" in beginning and test.startswith(beginning))


def arguments_for(tests: Iterable[str]) -> list[str]:
    """What pytest must be told to run those tests, whose ids are those of the table."""
    ids = [f"tests/{test}" for test in dict.fromkeys(tests)]
    places = dict.fromkeys(test.split("[", 1)[0] for test in ids)
    return ["-p", "mutants", *(f"--begins-with={test}" for test in ids), "-m", "", *places]


# -- planting


class Copy:
    """A scratch copy of the tree, in which one fault at a time is planted and tested."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=LEFT_OUT)
        self._planted = 0

    def test(self, fault: Fault, seconds: float) -> str:
        """What becomes of a fault."""
        file = self.folder / SOURCE / fault.file
        if not file.is_file():
            return MOVED
        original, status = file.read_bytes(), file.stat()
        try:
            text = plant(original.decode(), fault)
        except NotPlanted:
            return MOVED
        self._planted += 1
        try:
            file.write_text(text)
            # Python takes compiled code for valid by size and whole seconds
            os.utime(file, (status.st_atime, status.st_mtime + self._planted))
            code, _ = self.pytest(["-x", *arguments_for(fault.tests)], seconds)
        finally:
            file.write_bytes(original)
            os.utime(file, (status.st_atime, status.st_mtime))
        return {0: SURVIVED, 4: NO_TEST, 5: NO_TEST}.get(code, CAUGHT)

    def pytest(self, arguments: Sequence[str], seconds: float) -> tuple[int, str]:
        """The exit code and the report of a run in this copy; 1 where it does not end in time."""
        paths = [str(self.folder / part) for part in ("src", "scripts")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "SHADERGRAD_REQUIRE_WEBGPU": "1",  # a test that is skipped catches nothing
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", *arguments]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that what a test started ends with it
        ) as process:
            try:
                report, _ = process.communicate(timeout=seconds)
                return process.returncode, report
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return 1, f"not done after {seconds:.0f} s\n{process.communicate()[0]}"
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise


def chosen(beginnings: Sequence[str]) -> list[Fault]:
    """The faults whose names begin with one of these words; all where there are none."""
    found = [f for f in FAULTS if not beginnings or f.name.startswith(tuple(beginnings))]
    if not found:
        sys.exit(f"no fault begins with {', '.join(beginnings)}")
    return found


def run(faults: Sequence[Fault], jobs: int, seconds: float) -> dict[str, str]:
    """What becomes of each fault, by its name. Exits where the tests fail without any."""
    width = max(len(f.name) for f in faults)
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        first = Copy(Path(folder) / "0")
        started = time.perf_counter()
        tests = [test for f in faults if trouble(f, ROOT) is None for test in f.tests]
        code, report = first.pytest(arguments_for(tests), 60 + seconds * len(faults)) if tests else (0, "")
        if code == 4 and (unknown := re.search(r"ERROR: .*", report)):
            sys.exit(unknown[0])
        if code:
            sys.exit(f"{report}\nThese tests fail without any fault: mend them first.")
        print(f"{'no fault':{width}}  tests pass  {time.perf_counter() - started:6.1f} s", flush=True)
        for copy in (first, *(Copy(Path(folder) / str(k + 1)) for k in range(min(jobs, len(faults)) - 1))):
            copies.put(copy)

        def test(fault: Fault) -> tuple[str, float]:
            copy, began = copies.get(), time.perf_counter()
            try:
                return copy.test(fault, seconds), time.perf_counter() - began
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(jobs) as pool:
            under_way = {pool.submit(test, f): f for f in faults}
            for done in as_completed(under_way):
                fault = under_way[done]
                found[fault.name], took = done.result()
                print(f"{fault.name:{width}}  {found[fault.name]:10}  {took:6.1f} s", flush=True)
    return found


def mend_all() -> int:
    """Mends the tables, prints what became of each fault that did not fit; 1 where some could not be mended."""
    said = mend(FAULTS)
    print(*said, sep="\n", end="\n" if said else "")
    lost = sum(line.startswith("NOT") for line in said)
    print(f"{len(FAULTS) - len(said)} of {len(FAULTS)} faults fit, {len(said) - lost} are mended, {lost} are not")
    return 1 if lost else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="plant those whose names begin so")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"seconds for the tests of one fault ({LIMIT})")
    parser.add_argument("--list", action="store_true", help="print the table and plant nothing")
    parser.add_argument("--mend", action="store_true", help="anchor anew what was moved, and plant nothing")
    options = parser.parse_args(arguments)
    if options.mend:
        return mend_all()
    faults = chosen(options.only)
    if options.list:
        print(*(f"{f.name}: {f.file}: {f.within}, {', '.join(f.tests)}" for f in faults), sep="\n")
        return 0
    found = run(faults, max(1, options.jobs), options.limit)
    caught = sum(result == CAUGHT for result in found.values())
    print(f"\n{caught} of {len(faults)} faults are caught, {100 * caught / len(faults):.1f} %")
    for fault in faults:
        if found[fault.name] != CAUGHT:
            print(f"{found[fault.name]}: {fault.name} ({fault.file}: {fault.within}), by {', '.join(fault.tests)}")
            if why := trouble(fault):
                print(f"    {why}")
    stale = any(result in (MOVED, NO_TEST) for result in found.values())
    return 1 if stale or caught < NEEDED * len(faults) else 0


if __name__ == "__main__":
    sys.exit(main())
