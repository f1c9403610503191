"""`shadergrad train RECIPE --nproc N`: runs the command in several processes, started by PyTorch's launcher.

In: the words of a command. Out: an exit code. The launcher's environment variables connect the processes. A process that fails writes its
error into the file $TORCHELASTIC_ERROR_FILE; this module prints one line for each. Ctrl-C goes to all processes, which stop after the same step.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from .. import config
from ..system.optional_packages import require

NPROC = "--nproc"
FAILED = 1
INTERRUPTED = 130  # what shells use for a process that SIGINT ended
API = "torch.distributed.launcher.api"
HOME = "127.0.0.1"


def is_launched() -> bool:
    """Whether this process is one of several."""
    return config.launched_with("RANK") != ""


def is_launched_here() -> bool:
    """Whether `launch` has started this process."""
    return is_launched() and NPROC in sys.argv


def launch(words: Sequence[str], count: int, restarts: int) -> int:
    """Run `shadergrad WORDS` in `count` processes of this machine, and all of them again, `restarts` times at most, when one has failed.

    Raises MissingPackageError without PyTorch.
    """
    api = require(API, "distributed", f"{NPROC} {count}")
    errors = require("torch.distributed.elastic.multiprocessing.errors", "distributed", NPROC)
    signals = require("torch.distributed.elastic.multiprocessing.api", "distributed", NPROC)
    if not restarts:  # else the launcher tells of each
        logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
        for name in list(logging.Logger.manager.loggerDict):
            if name.startswith("torch.distributed.elastic"):
                logging.getLogger(name).setLevel(logging.CRITICAL)
    settings = api.LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=f"shadergrad-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint=f"{HOME}:0",
        local_addr=HOME,
        max_restarts=restarts,
    )
    threads = max(1, (os.cpu_count() or 1) // count)
    try:
        with config.provisional("OMP_NUM_THREADS", str(threads)):
            api.elastic_launch(settings, sys.executable)("-m", "shadergrad", *words)
    except signals.SignalException as error:
        return INTERRUPTED if error.sigval == signal.SIGINT else 128 + int(error.sigval)
    except errors.ChildFailedError as error:
        return _print_failures(error.failures)
    return 0


def record(why: str) -> None:
    """Leave the reason of this process's end where the launcher finds it."""
    handler = require("torch.distributed.elastic.multiprocessing.errors", "distributed", NPROC).get_error_handler()
    handler.record_exception(RuntimeError(why))


def _print_failures(failures: dict[int, Any]) -> int:
    """The exit code, after a line for each process that failed; those that say the same together."""
    codes = {failure.exitcode for failure in failures.values()}
    if codes == {INTERRUPTED}:
        return INTERRUPTED
    own = {
        rank: failure for rank, failure in failures.items() if failure.exitcode != -signal.SIGTERM
    }  # not by the launcher
    failures = own or failures
    codes = {failure.exitcode for failure in failures.values()}
    reasons: dict[str, list[int]] = {}
    for rank, failure in sorted(failures.items()):
        reasons.setdefault(_reason(failure), []).append(rank)
    console = Console(stderr=True, highlight=False)
    for reason, ranks in reasons.items():
        who = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
        console.print(f"[bold red]error:[/] {who}: {escape(reason)}", soft_wrap=True)
    return max(codes) if min(codes) > 0 else FAILED


def _reason(failure: Any) -> str:
    if failure.exitcode < 0:
        return f"ended by {signal.Signals(-failure.exitcode).name}"
    if not os.path.exists(failure.error_file):
        return f"ended with exit code {failure.exitcode}, as said above"
    return failure.message["message"].partition(": ")[2]
