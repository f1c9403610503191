"""The user's line that made a call, for warnings: outside this package and outside PyTorch."""

from __future__ import annotations

import os

import torch

from ..cpython import first_outwards, frame_of_caller

_OWN = tuple(os.path.dirname(path) + os.sep for path in (os.path.dirname(os.path.abspath(__file__)), torch.__file__))


def users_line() -> str:
    """The line as "train.py:12"; "" if there is none."""
    frame = first_outwards(frame_of_caller(), lambda path: not path.startswith(_OWN))
    return "" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
