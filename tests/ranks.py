"""Several processes of one program: what torchrun does, without it."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"


@dataclass
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str


def free_port() -> int:
    """A port that nothing listens on, below those that a system lends to connections: one of those could be lent to another test's
    connection before the program listens on it."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as s, suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def start(source: str, count: int, *command: str, **environment: str) -> list[subprocess.Popen[str]]:
    """Processes that run `source`, with RANK, WORLD_SIZE and where they meet in the environment. command: by default Python's."""
    port = str(free_port())
    program = [*(command or (sys.executable, "-c")), textwrap.dedent(source)]
    started = []
    for rank in range(count):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_PORT": port}
        env = {
            **os.environ,
            "PYTHONPATH": str(SRC),
            "MASTER_ADDR": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            "PYTHONFAULTHANDLER": "1",
            **own,
            **environment,
        }
        started.append(
            subprocess.Popen(
                program, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=SRC.parent
            )
        )
    return started


def finish(started: list[subprocess.Popen[str]], timeout: float = 240.0) -> list[Ended]:
    """What became of them. Those that have not ended in time are killed, and the test fails, with the place where each of them waits."""
    found = []
    try:
        for process in started:
            out, err = process.communicate(timeout=timeout)
            found.append(Ended(process.returncode, out, err))
    except subprocess.TimeoutExpired:
        raise AssertionError(_said_by_all(started, found, timeout)) from None
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
    return found


def _said_by_all(started: list[subprocess.Popen[str]], ended: list[Ended], timeout: float) -> str:
    """What the processes printed, of which some have not ended: they say where they are."""
    for process in started[len(ended) :]:
        if process.poll() is None:
            process.send_signal(signal.SIGABRT)  # faulthandler prints the stacks of all threads
    for process in started[len(ended) :]:
        try:
            out, err = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        ended = [*ended, Ended(process.returncode, out, err)]
    parts = (f"rank {k} ended with {e.code}:\n{e.out[-500:]}{e.err[-3000:]}" for k, e in enumerate(ended))
    return "\n".join([f"not all ended within {timeout:.0f} s", *parts])


def assert_ranks_pass(source: str, count: int, *command: str, **environment: str) -> list[str]:
    """Run a program in several processes, all of which must end well. Gives what each printed."""
    ended = finish(start(source, count, *command, **environment))
    for rank, e in enumerate(ended):
        assert e.code == 0, f"rank {rank} ended with {e.code}:\n{e.err[-3000:]}"
    return [e.out for e in ended]
