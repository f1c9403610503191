"""cuDNN's switches, which may be set and change nothing."""

enabled = False
benchmark = False
deterministic = True
allow_tf32 = False


def is_available() -> bool:
    """False.

    >>> sg.backends.cudnn.is_available()
    False
    """
    return False


def version() -> None:
    """None.

    >>> sg.backends.cudnn.version()
    """
