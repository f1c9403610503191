"""Apple's Metal, as far as programs look for it: WebGPU reaches those GPUs."""


def is_available() -> bool:
    """False.

    >>> sg.backends.mps.is_available()
    False
    """
    return False


def is_built() -> bool:
    """False.

    >>> sg.backends.mps.is_built()
    False
    """
    return False
