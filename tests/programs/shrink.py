"""Makes a failing program small: drops statements, then arguments' neighbours, while it still fails in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .compare import Verdict, run, under_torch
from .language import Program, Step


def shrink(program: Program, mode: str, *, attempts: int = 400) -> tuple[Program, Verdict]:
    """The smallest program found that differs by the same kind, and how it differs."""
    verdict = run(program, mode)
    assert verdict.difference is not None
    kind = verdict.difference.kind
    progress = True
    while progress and attempts > 0:
        progress = False
        for smaller in variants(program):
            attempts -= 1
            found = still_fails(smaller, mode, kind)
            if found is not None:
                program, verdict, progress = smaller, found, True
                break
            if attempts <= 0:
                break
    return program, verdict


def still_fails(program: Program, mode: str, kind: str) -> Verdict | None:
    """The verdict, if it differs in that way, and every name that the program uses is there."""
    try:
        moments = under_torch(program)
    except RuntimeError:  # a view that PyTorch does not let anyone ask
        return None
    if any(isinstance(m.error, NameError | AttributeError | SyntaxError) for m in moments):
        return None
    verdict = run(program, mode, moments)
    return verdict if verdict.difference is not None and verdict.difference.kind == kind else None


def variants(program: Program) -> Iterator[Program]:
    """Smaller programs: the end first, for what comes after the difference is not needed."""
    schedule, setup, step = program.schedule, program.setup, program.step
    for size in (8, 4, 2, 1):
        for at in range(len(schedule) - size, -1, -1):
            yield replace(program, schedule=schedule[:at] + schedule[at + size :])
        for at in range(len(setup) - size, -1, -1):
            yield replace(program, setup=setup[:at] + setup[at + size :])
        if step is not None:
            for at in range(len(step.body) - size, -1, -1):
                yield replace(program, step=replace(step, body=step.body[:at] + step.body[at + size :]))
    if step is not None:
        yield from simpler_steps(program, step)
    if not step and all(s.look for s in setup):
        for at, statement in enumerate(setup[:-1]):  # what was pending then need not be read
            yield replace(program, setup=(*setup[:at], replace(statement, look=False), *setup[at + 1 :]))


def simpler_steps(program: Program, step: Step) -> Iterator[Program]:
    """The same with a step that gives nothing."""
    if step.returns != "None":
        yield replace(program, step=replace(step, returns="None"))
