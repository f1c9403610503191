"""Values of the first attempt of a training, for later attempts by the same launcher. In: values by name. Out: those of the first attempt.

torchrun --max-restarts starts all processes again, with the same command line, when one has ended. Its store outlives them.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import Any

from .. import config
from .launch import number
from .library import c10d

SECONDS = timedelta(seconds=60)


def is_restarted() -> bool:
    """Whether the launcher has started these processes in the place of others."""
    return _has_store() and number("TORCHELASTIC_RESTART_COUNT", 0) > 0


def first_value(key: str, value: str) -> str:
    """The value that was first given under a name, by this attempt or an earlier one. Without a launcher that restarts it is this one."""
    return _store().compare_set(key, "", value).decode() if _has_store() else value


def _has_store() -> bool:
    return config.launched_with("TORCHELASTIC_USE_AGENT_STORE") == "True"


@cache
def _store() -> Any:
    classes = c10d().classes
    address, port = config.launched_with("MASTER_ADDR"), number("MASTER_PORT")
    store = classes.TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=SECONDS)
    return classes.PrefixStore("shadergrad/attempts", store)
