"""oneDNN, as far as programs look for it."""


def is_available() -> bool:
    """False.

    >>> sg.backends.mkldnn.is_available()
    False
    """
    return False
