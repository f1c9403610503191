"""Reads the rank of this process and the addresses of the others from the environment variables of torchrun, Slurm and mpirun."""

from __future__ import annotations

from .. import config
from .errors import NoGroupError


def local_rank() -> int:
    """The number of this process among those of its machine: LOCAL_RANK as torchrun sets it, else 0.

    >>> sg.distributed.local_rank()
    0
    """
    return number("LOCAL_RANK", 0)


def number(name: str, default: int | None = None) -> int:
    """A number in an environment variable. Raises NoGroupError if it is missing or no number."""
    text = config.launched_with(name)
    if not text and default is not None:
        return default
    if not text.isdigit():
        raise NoGroupError(
            f"[init_process_group] the environment variable {name} "
            + (f"is {text!r}, not a number." if text else "is not set.")
            + " Hint: start the program with torchrun --nproc-per-node N, or give rank= and world_size=, with init_method "
            "tcp://HOST:PORT or file:///PATH."
        )
    return int(text)
