"""PyTorch's own unit tests against this library: python scripts/pytorch_tests.py --tests FOLDER [FILE ...]

FOLDER is the folder `test` of PyTorch's sources, which no wheel holds and which is not part of this repository. Debian's
source package has it: `apt-get source --download-only pytorch`, with a deb-src line. Each file runs in a process of its own,
in which this library stands under PyTorch's names as in `shadergrad run`, and its device-generic tests run on cpu.

The same tests run with the installed PyTorch, whose release may be newer than the tests: those that it fails, too, are outdated.
Where a value is wrong, PyTorch runs the test with the random numbers that this library draws: those that it then fails, too, are drawn.

Out: a table of files; every failure that docs/pytorch.md does not list by its reason, and every listed one that passes.
The exit code is 1 where there are such. `--list` prints all failures, `--write FILE` keeps the outcomes as JSON.
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import unittest
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "pytorch.md"
FILES = (
    "test_indexing.py", "test_view_ops.py", "test_shape_ops.py", "test_sort_and_select.py",
    "test_type_promotion.py", "test_type_info.py", "test_numpy_interop.py", "test_comparison_utils.py", "test_complex.py",
    "test_stateless.py", "test_optim.py", "nn/test_dropout.py", "nn/test_embedding.py",
    "nn/test_packed_sequence.py", "nn/test_pooling.py", "autograd/test_functional.py", "autograd/test_complex.py",
)  # fmt: skip
FAILED = ("wrong", "asserted", "raised")
LIMIT = (
    20  # seconds of processor time that a test may take; with PyTorch, whose threads count together, SLACK times that
)
SLACK = 6
MEMORY = 6 << 30  # bytes of addresses that a file's process may take: what asks for more fails alone


class TooLong(Exception):
    """A test that took longer than LIMIT."""


# -- one file, in a process of its own


def run_file(tests: Path, name: str, only: str, reference: bool, drawn: bool = False) -> list[dict[str, str]]:
    """The outcome of each test of a file: its id, passed, skipped, wrong or raised, and why."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if not reference:
        from shadergrad.as_torch import install

        install()
    import pytorch_helpers

    pytorch_helpers.install()
    if drawn:
        pytorch_helpers.draw_as_here()
    path = tests / name
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True), module.__dict__)
    except Exception as error:
        return [{"test": f"{name}", "outcome": "raised", "why": f"the file: {type(error).__name__}: {error}"}]
    found = []
    for case in list(vars(module).values()):
        if isinstance(case, type) and issubclass(case, unittest.TestCase) and case.__module__ == path.stem:
            for test in unittest.TestLoader().getTestCaseNames(case):
                if callable(getattr(case, test, None)) and fnmatch.fnmatch(test, only):
                    found.append(run_test(case, test, pytorch_helpers, LIMIT * (SLACK if reference else 1)))
    return found


def run_test(case: type[unittest.TestCase], name: str, helpers: Any, limit: int) -> dict[str, str]:
    """The outcome of one test, which may take `limit` seconds."""

    def stop(*_: Any) -> None:
        raise TooLong(f"over {limit} s")

    result = unittest.TestResult()
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    words = len(helpers.other_words)
    errors: list[BaseException] = []
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            test = case(name)
            result.addError = lambda _, problem: errors.append(problem[1])  # type: ignore[method-assign,assignment]
            result.addFailure = result.addError  # type: ignore[method-assign]
            result.addSubTest = lambda _, __, problem: errors.append(problem[1]) if problem else None  # type: ignore[method-assign,assignment]
            test.run(result)
    except BaseException as error:
        errors.append(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    found = {"test": f"{case.__name__}.{name}", "outcome": "passed", "why": ""}
    if errors:
        error = errors[0]
        found["outcome"] = (
            "wrong"
            if isinstance(error, helpers.WrongValue)
            else "asserted"
            if isinstance(error, AssertionError)
            else "raised"
        )
        found["why"] = f"{type(error).__name__}: {error}"[:700]
        found["where"] = place(error, case.__module__)
    elif result.skipped:
        found["outcome"], found["why"] = "skipped", result.skipped[0][1]
    elif len(helpers.other_words) > words:
        found["why"] = f"in other words: {helpers.other_words[-1]}"
    return found


def place(error: BaseException, stem: str) -> str:
    """The line of the test file that led to the error."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(f"{stem}.py"):
            line = trace.tb_lineno
        trace = trace.tb_next
    return str(line)


# -- all files


def run_in_process(
    tests: Path, name: str, only: str, reference: bool = False, drawn: bool = False
) -> list[dict[str, str]]:
    """run_file in a process of its own."""
    command = [sys.executable, __file__, "--tests", str(tests), "--one", name, "--only", only]
    command += (["--reference"] if reference else []) + (["--drawn"] if drawn else [])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "scripts")))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tests)
    if done.returncode:
        return [{"test": name, "outcome": "raised", "why": f"the process: {done.returncode} {done.stderr[-500:]}"}]
    return json.loads(done.stdout.splitlines()[-1])


def settled(
    tests: Path, name: str, ours: list[dict[str, str]], reference: list[dict[str, str]]
) -> list[dict[str, str]]:
    """Our outcomes, where those that PyTorch fails, too, are outdated or drawn."""
    old = {f["test"] for f in reference if f["outcome"] in FAILED}
    found = []
    for f in ours:
        outcome = "outdated" if f["test"] in old and f["outcome"] in FAILED else f["outcome"]
        if outcome == "wrong":
            again = run_in_process(tests, name, f["test"].partition(".")[2], True, True)
            if any(a["test"] == f["test"] and a["outcome"] == "wrong" for a in again):
                outcome = "drawn"
        found.append(f | {"outcome": outcome})
    return found


def expected() -> list[tuple[str, str, str]]:
    """The failures that docs/pytorch.md lists: the reason, the file, and a pattern of names."""
    if not PAGE.exists():
        return []
    found, reason, file = [], "", ""
    fenced = False
    for line in PAGE.read_text(encoding="utf-8").partition("## Expected failures")[2].splitlines():
        if line.startswith("### "):
            reason = line[4:]
        elif line.startswith("```"):
            fenced = not fenced
        elif fenced and re.match(r"\S+[.]py$", line):
            file = line
        elif fenced and line.strip():
            found += [(reason, file, pattern) for pattern in line.split()]
    return found


def report(outcomes: dict[str, list[dict[str, str]]], show: bool) -> int:
    """Print the table and what differs from the page; the exit code."""
    page = expected()
    kinds = ("passed", "skipped", "outdated", "drawn", *FAILED)
    print(f"{'file':34}" + "".join(f"{k:>10}" for k in kinds))
    total: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    surprises = []
    used = set()
    for file, found in outcomes.items():
        counts = Counter(f["outcome"] for f in found)
        total += counts
        print(f"{file:34}" + "".join(f"{counts[k]:>10}" for k in kinds))
        for f in found:
            matching = [entry for entry in page if entry[1] == file and fnmatch.fnmatchcase(f["test"], entry[2])]
            if f["outcome"] in (*FAILED, "outdated"):
                used.update(matching)
            if f["outcome"] in FAILED:
                reasons[matching[0][0] if matching else "no reason"] += 1
                if not matching:
                    surprises.append(f"fails: {file} {f['test']}: {f['why']}")
                if show:
                    print(f"    {f['outcome']:9} {f['test']}:{f.get('where', '')} {f['why'][:160]!r}")
    print(f"{'all':34}" + "".join(f"{total[k]:>10}" for k in kinds))
    words = sum(f["why"].startswith("in other words") for found in outcomes.values() for f in found)
    print(f"\n{words} of those that passed met an error of PyTorch's type in other words.")
    for reason, count in reasons.most_common():
        print(f"{count:5}  {reason}")
    surprises += [
        f"passes, though listed: {file} {pattern}"
        for _, file, pattern in page
        if file in outcomes and (_, file, pattern) not in used
    ]
    print("\n".join(s[:300] for s in surprises))
    return 1 if surprises else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", nargs="*", help="files below the folder; without any, those that docs/pytorch.md speaks of"
    )
    parser.add_argument("--tests", type=Path, required=True, help="the folder `test` of PyTorch's sources")
    parser.add_argument("--only", default="*", help="a pattern of the tests' names")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print all failures")
    parser.add_argument("--write", type=Path, help="keep the outcomes as JSON")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--reference", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--drawn", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    tests = given.tests.resolve()
    if not (tests / FILES[0]).exists():
        parser.error(f"{tests} has no {FILES[0]}: it is not PyTorch's folder `test`.")
    if given.one:
        print(json.dumps(run_file(tests, given.one, given.only, given.reference, given.drawn)))
        return 0
    start = time.monotonic()
    files = given.files or FILES
    with ThreadPoolExecutor(given.jobs) as pool:
        found = list(pool.map(lambda name: run_in_process(tests, name, given.only), files))
        theirs = list(pool.map(lambda name: run_in_process(tests, name, given.only, True), files))
    outcomes = {str(name): settled(tests, name, *both) for name, *both in zip(files, found, theirs, strict=True)}
    if given.write:
        given.write.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
    code = report(outcomes, given.list)
    print(f"{time.monotonic() - start:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
