"""The errors of process groups, by PyTorch's names."""

from __future__ import annotations

from ..errors import ShadergradError


class DistError(ShadergradError, RuntimeError):
    """A collective operation that failed in some process, or a call without a process group. Raised at the call, or by wait()."""


class DistBackendError(DistError):
    """The backend failed: another process has ended, a connection broke, or the time limit has passed."""


class DistNetworkError(DistError):
    """The processes could not find each other."""


class DistStoreError(DistError):
    """The store through which processes find each other failed."""


class NoGroupError(DistError, ValueError):
    """A call that needs a process group, before init_process_group. Raised at the call."""
