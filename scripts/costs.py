"""How much of a processor each test takes: a plugin of pytest that writes it down, and a command that prints the dearest.

    XDG_CACHE_HOME=$(mktemp -d) python -m pytest -n 2 -p costs --costs build/costs.jsonl
    python scripts/costs.py build/costs.jsonl --by family --most 40

A line of the file is a test's id and its seconds: user and system time of all threads of the process, the software adapter's compiler
among them, and of the processes that it started, a browser among them. Seconds of the clock depend on what else the machine does; these hardly do.
A kernel is compiled by the first test that needs it, so that seconds depend on the order, and with an old shader cache are few.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

# -- pytest's side


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--costs", metavar="FILE", help="append each test's seconds of a processor to this file")


def seconds() -> float:
    """Of a processor, taken by this process and by those that it started, ended ones and those that run, such as a browser (Linux)."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used) + ticks_below(os.getpid()) / os.sysconf("SC_CLK_TCK")


def ticks_below(process: int) -> int:
    """Clock ticks of a processor that the running descendants of a process and their ended children took; 0 without Linux's /proc."""
    total = 0
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # a thread or a process that has just ended
            for child in listed.read_text(encoding="ascii").split():
                after_the_name = Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                total += sum(map(int, after_the_name[11:15])) + ticks_below(int(child))
    return total


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: Any, nextitem: Any) -> Generator[None, Any, Any]:
    """Around a test with its fixtures: what it took, as a line of the file."""
    before = seconds()
    done = yield
    if name := item.config.getoption("--costs"):
        took = max(0.0, seconds() - before)  # the last test ends the browser, whose seconds are gone then
        line = json.dumps([item.nodeid, round(took, 4)]) + "\n"
        descriptor = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())  # whole, beside those of other workers
        finally:
            os.close(descriptor)
    return done


# -- the command

GROUPS = {
    "test": lambda test: test,
    "family": lambda test: test.split("[", 1)[0],
    "file": lambda test: test.split("::", 1)[0],
    "folder": lambda test: test.split("::", 1)[0].rsplit("/", 1)[0],
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the groups that took longest."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--by", choices=list(GROUPS), default="family")
    parser.add_argument("--most", type=int, default=40, help="how many groups (40)")
    options = parser.parse_args(arguments)
    found: defaultdict[str, list[float]] = defaultdict(list)
    for file in options.files:
        for line in file.read_text(encoding="utf-8").splitlines():
            test, took = json.loads(line)
            found[GROUPS[options.by](test)].append(took)
    print(f"{sum(map(len, found.values()))} tests, {sum(map(sum, found.values())):.0f} s of a processor")
    print("   total  tests   mean  longest")
    for group, took in sorted(found.items(), key=lambda pair: -sum(pair[1]))[: options.most]:
        print(f"{sum(took):8.1f} {len(took):6} {sum(took) / len(took):6.3f} {max(took):8.3f}  {group}")


if __name__ == "__main__":
    main()
