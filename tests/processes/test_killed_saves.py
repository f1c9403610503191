"""A process that dies at any moment of a save leaves a whole checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from shadergrad.checkpoint import load_checkpoint, save_checkpoint

KILLED_SAVE = """
    import os, resource, signal, sys
    import numpy as np
    from shadergrad.checkpoint import save_checkpoint

    moment, folder = sys.argv[1:]

    if moment == "writing":
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # what the system sends who writes byte 4001
    else:
        calls = iter(range(int(moment)))

        def mortal(function):
            def call(*args):
                if next(calls, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args)
            return call

        os.fsync, os.replace = mortal(os.fsync), mortal(os.replace)

    save_checkpoint(folder, {"matrix": np.full(1000, 2.0)}, {"epoch": 2})
"""


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("moment", "epoch"),
    # after so many of: flush, rename, flush the folder; and the same for the description
    [("writing", 1), ("0", 1), ("1", 1), ("2", 2), ("3", 2), ("4", 2), ("5", 2)],
)
def test_a_kill_at_any_moment_of_a_save_leaves_a_whole_checkpoint(tmp_path: Path, moment: str, epoch: int) -> None:
    save_checkpoint(tmp_path, {"matrix": np.full(1000, 1.0)}, {"epoch": 1})
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED_SAVE), moment, str(tmp_path)], check=False)
    assert child.returncode == -(signal.SIGXFSZ if moment == "writing" else signal.SIGKILL)
    arrays, meta = load_checkpoint(tmp_path)
    assert meta == {"epoch": epoch}
    np.testing.assert_array_equal(arrays["matrix"], np.full(1000, float(epoch)), strict=True)
    save_checkpoint(tmp_path, {"matrix": np.full(1000, 3.0)}, {"epoch": 3})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.json", "checkpoint.safetensors"]
