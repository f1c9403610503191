"""The command behind scripts/programs.py: which programs, in which modes, and how what came of them is printed."""

from __future__ import annotations

import argparse
import time
from collections import Counter

from . import cases as _cases  # noqa: F401  it fills the table, and so does the next
from . import cases_left as _left  # noqa: F401
from .case import CASES, run_case
from .compare import MODES
from .features import ALL, CASES_TO_COME, CORE, TO_COME
from .features import allowed as working
from .generate import generate
from .language import WAYS
from .net import Failure, Tally, Task, chunks, run_many

SHOWN = 3  # programs of each kind of failure


def numbers(text: str) -> range:
    """`7` or `0:2000`."""
    start, _, stop = text.partition(":")
    return range(int(start), int(stop)) if stop else range(int(start), int(start) + 1)


def choose(text: str) -> frozenset[str] | None:
    """The features that are allowed: now (None: by mode), all, core, or names with commas on the ground of core."""
    known = {"now": None, "all": ALL, "core": CORE}
    if text in known:
        return known[text]
    names = frozenset(name.strip() for name in text.split(","))
    if names - ALL:
        raise SystemExit(f"no features: {', '.join(sorted(names - ALL))}. There are: {', '.join(sorted(ALL))}")
    return CORE | names


def print_counts(tally: Tally, modes: list[str], seconds: float) -> None:
    """A table of outcomes."""
    outcomes = ["same", "allowed", "refusal", "different"]
    print(f"{tally.programs} programs in {seconds:.1f} s")
    print(f"{'':18}" + "".join(f"{o:>12}" for o in outcomes))
    for mode in modes:
        print(f"{mode:18}" + "".join(f"{tally.outcomes[mode, o]:>12}" for o in outcomes))
    for (mode, message), count in tally.refusals.most_common():
        print(f"  refused {count:4} x {mode}: {message}")


def print_failures(failures: list[Failure], shown: int) -> None:
    """Every kind of failure, with its smallest programs."""
    kinds: dict[str, list[Failure]] = {}
    for failure in failures:
        kinds.setdefault(failure.kind, []).append(failure)
    for kind, alike in sorted(kinds.items(), key=lambda item: -len(item[1])):
        print(f"\n== {len(alike)} x {kind}")
        features = Counter(f for failure in alike for f in failure.features - CORE)
        print(f"   features: {', '.join(f'{f} {n}' for f, n in features.most_common(12))}")
        for failure in sorted(alike, key=lambda f: len(f.program.source()))[:shown]:
            print(failure)


def by_feature(seeds: range, modes: list[str], ground: frozenset[str], chosen: argparse.Namespace) -> int:
    """A line a feature: programs that show it on the ground of those that pass, and how many are as in PyTorch."""
    names = sorted(ALL - CORE) if chosen.only is None else [n.strip() for n in chosen.only.split(",")]
    print(f"{'feature':46}" + "".join(f"{m:>20}" for m in modes) + "    (as PyTorch + refused / run)")
    is_bad = False
    tasks = [Task(tuple(seeds), ground, name) for name in names]
    for task, tally in run_many(tasks, modes, jobs=chosen.jobs):
        cells = []
        for mode in modes:
            good, refused, bad = (tally.outcomes[mode, o] for o in ("same", "refusal", "different"))
            good += tally.outcomes[mode, "allowed"]
            cells.append(f"{good}{f'+{refused}' if refused else ''}/{good + refused + bad}")
            is_bad |= bad > 0
        mark = f"    to come {TO_COME[name]}" if (name := task.wanted or "") in TO_COME else ""
        print(f"{task.wanted:46}" + "".join(f"{c:>20}" for c in cells) + mark, flush=True)
    return int(is_bad)


def cases(modes: list[str]) -> int:
    """A line a program written by hand."""
    is_bad = False
    for case in CASES.values():
        for mode in modes:
            if MODES[mode][0] not in WAYS or case.uses_step:
                verdict = run_case(case, mode)
                is_bad |= verdict.difference is not None
                mark = f"to come {CASES_TO_COME[case.name]}" if case.name in CASES_TO_COME else ""
                print(f"{case.name:60}{mode:18}{verdict.outcome:12}{mark:20}{verdict.message[:100]}")
                if verdict.difference:
                    print(f"  {verdict.difference}")
    return int(is_bad)


def main(description: str, arguments: list[str] | None = None) -> int:
    """What the command does; the exit status."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=numbers, default=range(200), metavar="A:B")
    parser.add_argument("--modes", default="eager-cpu,compiled-cpu", help="with commas, or all")
    parser.add_argument(
        "--features", default="now", help="now (what make test allows), all, core, or names with commas"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--shrink", action="store_true", help="drop statements while a program still fails")
    parser.add_argument("--show", action="store_true", help="print every program, whether it fails or not")
    parser.add_argument("--shown", type=int, default=SHOWN, help="programs of each kind of failure")
    parser.add_argument("--by-feature", action="store_true", help="a line a feature")
    parser.add_argument("--only", help="with --by-feature: these features, with commas")
    parser.add_argument("--cases", action="store_true", help="the programs written by hand")
    chosen = parser.parse_args(arguments)
    modes = list(MODES) if chosen.modes == "all" else chosen.modes.split(",")
    if set(modes) - set(MODES):
        raise SystemExit(f"no modes: {', '.join(set(modes) - set(MODES))}. There are: {', '.join(MODES)}")
    if chosen.cases:
        return cases(modes)
    if chosen.by_feature:
        return by_feature(chosen.seeds, modes, choose(chosen.features) or CORE, chosen)
    allowed = choose(chosen.features)
    if chosen.show:
        for seed in chosen.seeds:
            for mode in modes:
                print(f"--- {mode}")
                print(generate(seed, working(mode) if allowed is None else allowed).source(), end="\n\n")
    began = time.perf_counter()
    tally = Tally()
    for _, part in run_many(chunks(chosen.seeds, allowed), modes, is_shrinking=chosen.shrink, jobs=chosen.jobs):
        tally.add(part)
    print_failures(tally.failures, chosen.shown)
    print()
    print_counts(tally, modes, time.perf_counter() - began)
    return int(bool(tally.failures))
