"""What the tests of processes share: the wheel of the tree, installed once a session."""

from __future__ import annotations

import fcntl
import os

import pytest

from wheels import Installed, install


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel, built and installed by pip, by one worker for all."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    environment = Installed(base / "installed")
    with (base / "installed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / "installed.done").exists():
            install(environment, base / "wheel")
            (base / "installed.done").touch()
    return environment
