"""Runs many programs in many modes, on several processes, and counts what comes of them."""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_context

from .compare import MODES, Difference, Verdict, run, under_torch
from .features import COMPANIONS, CORE, allowed
from .generate import Builder, generate
from .language import WAYS, Program
from .shrink import shrink


@dataclass(frozen=True)
class Failure:
    """A program that is not what PyTorch says."""

    seed: int
    mode: str
    difference: Difference
    program: Program
    features: frozenset[str]

    @property
    def kind(self) -> str:
        """What failures that look alike have in common."""
        d = self.difference
        path = re.sub(r"\d+", "N", d.path)
        if d.kind == "property":
            return f"property {path.rpartition('.')[2] or path}: {summary(d.expected)} -> {summary(d.found)}"
        if d.kind == "value":
            return "value" + (" of .grad" if ".grad" in path else "")
        return f"{d.kind}: {summary(d.expected)} -> {summary(d.found)}"

    def __str__(self) -> str:
        how = MODES[self.mode][0]
        return (
            f"--- seed {self.seed}, {self.mode}, features: {', '.join(sorted(self.features - CORE)) or 'core'}\n"
            f"{self.program.source(how=how)}\n{self.difference}"
        )


def summary(value: object) -> str:
    """A value or a message without its numbers and names."""
    return re.sub(
        r"\d+", "N", re.sub(r"'[^']*'|\([^)]*\)|\[[^\]]*\]", "…", str(value).splitlines()[0] if str(value) else "")
    )[:90]


@dataclass
class Tally:
    """Counts by mode, and the failures."""

    programs: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)  # by mode and outcome
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)  # by mode and message
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take in what another process counted."""
        self.programs += other.programs
        self.outcomes += other.outcomes
        self.refusals += other.refusals
        self.failures += other.failures


def try_program(program: Program, mode: str) -> Verdict:
    """The verdict; a crash of the comparison itself is a difference too."""
    try:
        return run(program, mode, under_torch(program))
    except Exception:
        words = traceback.format_exc(limit=-3)
        return Verdict("different", Difference("crash", -1, "", "", "runs", words))


@dataclass(frozen=True)
class Task:
    """Seeds of programs, in a part of the language; only programs that show `wanted`, if anything."""

    seeds: tuple[int, ...]
    allowed: frozenset[str] | None  # None: what works in each mode
    wanted: str | None = None


def run_task(task: Task, modes: Sequence[str], is_shrinking: bool = False) -> Tally:
    """The programs of a task in every mode."""
    tally = Tally()
    for seed in task.seeds:
        tally.programs += 1
        for mode in modes:
            ground = allowed(mode) if task.allowed is None else task.allowed
            program = generate(seed, ground) if task.wanted is None else focused(seed, task.wanted, ground)
            if program is None or (MODES[mode][0] in WAYS and program.step is None):
                continue
            verdict = try_program(program, mode)
            if is_by_design(program, verdict, mode):
                verdict = Verdict("allowed")
            tally.outcomes[mode, verdict.outcome] += 1
            if verdict.outcome == "refusal":
                tally.refusals[mode, summary(verdict.message)] += 1
            if verdict.difference is not None:
                tally.failures.append(failure_of(program, mode, verdict, is_shrinking))
    return tally


def is_by_design(program: Program, verdict: Verdict, mode: str) -> bool:
    """Whether a difference is one of those that the library means (docs/from-pytorch.md)."""
    if verdict.difference is None:
        return False
    kind, path, shown = verdict.difference.kind, verdict.difference.path, program.features
    # results of a compiled step lie row by row, also those that PyTorch shows within something larger, which it copies
    is_result = MODES[mode][0] in WAYS and kind == "value" and path.startswith("r")
    return is_result and bool(shown & {"through flatten", "through reshape"})


def failure_of(program: Program, mode: str, verdict: Verdict, is_shrinking: bool) -> Failure:
    """A failure, made small if that is wanted."""
    if is_shrinking and verdict.difference is not None and verdict.difference.where >= 0:
        program, verdict = shrink(program, mode)
    assert verdict.difference is not None
    return Failure(program.seed, mode, verdict.difference, program, program.features)


@lru_cache(maxsize=200)  # several modes ask for the same in a row
def focused(seed: int, wanted: str, ground: frozenset[str], attempts: int = 40) -> Program | None:
    """A program that shows a feature, on a ground of others; None where none came up."""
    ground = ground | COMPANIONS.get(wanted, frozenset()) | {wanted, wanted.removeprefix("shared ")}
    for attempt in range(attempts):
        number = seed * attempts + attempt
        program = Builder(number, ground, wanted).build()
        if wanted in program.features:
            return Program(program.setup, program.schedule, program.step, number)
    return None


def run_many(
    tasks: Iterable[Task], modes: Sequence[str], *, is_shrinking: bool = False, jobs: int = 1
) -> Iterator[tuple[Task, Tally]]:
    """Tallies of tasks, in their order."""
    if jobs <= 1:
        yield from ((task, run_task(task, modes, is_shrinking)) for task in tasks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [(task, pool.submit(run_task, task, modes, is_shrinking)) for task in tasks]
        for task, future in waiting:
            yield task, future.result()


def chunks(seeds: Sequence[int], allowed: frozenset[str] | None, size: int = 50) -> list[Task]:
    """Tasks for all programs of some seeds."""
    return [Task(tuple(seeds[i : i + size]), allowed) for i in range(0, len(seeds), size)]
