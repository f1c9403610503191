"""The bar of a run in real terminals of several widths: a line at a time, and no line too long."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

fcntl = pytest.importorskip("fcntl")
pty = pytest.importorskip("pty")
termios = pytest.importorskip("termios")


def in_terminal(width: int, *words: str) -> str:
    """What a command writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = [sys.executable, "-m", "shadergrad", *words]
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env={**kept, "TERM": "xterm"})
    os.close(theirs)
    written = b""
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:  # how Linux says that the other end is closed
            break
        if not chunk:
            break
        written += chunk
    os.close(ours)
    assert child.wait() == 0, written.decode()
    return written.decode()


@pytest.mark.parametrize(
    ("width", "shown"),
    [(40, ["epoch 3/3", "loss"]), (80, ["loss", " %", "cpu"]), (120, ["loss", " %", "cpu", "samples/s"])],
)
def test_a_bar_fits_its_terminal(width: int, shown: list[str], tmp_path: Path) -> None:
    text = in_terminal(width, "train", "xor", "--device", "cpu", "--epochs", "3", "--out", str(tmp_path))
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    bars = [line for line in re.split(r"[\r\n]+", plain) if "epoch " in line and "━" in line]
    assert bars
    assert all(len(line) <= width for line in bars)
    assert all(word in bars[-1] for word in shown)
    assert "…" not in bars[-1]
    assert "0:0" in bars[-1] or width == 40
    widths = {line.count("━") + line.count("╸") + line.count("╺") for line in bars}
    assert len(widths) == 1
