"""Whose a file or folder is. In: what the system says of it. Out: why nobody should trust it, if so."""

from __future__ import annotations

import os
import stat


def why_not_private(status: os.stat_result) -> str | None:
    """Why others may have written a file or folder: it is another user's, or others may write it. None where neither is so.

    Windows has no such bits; there the folders of a user are that user's.
    """
    if not hasattr(os, "getuid"):
        return None
    if status.st_uid != os.getuid():
        return f"belongs to user {status.st_uid}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "may be written by others"
    return None
