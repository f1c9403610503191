"""Apple's Metal, as far as programs look for it: WebGPU reaches those GPUs, `x.to("webgpu")`."""

from __future__ import annotations


def is_available() -> bool:
    """False.

    >>> sg.mps.is_available()
    False
    """
    return False


def device_count() -> int:
    """0.

    >>> sg.mps.device_count()
    0
    """
    return 0


def empty_cache() -> None:
    """Nothing.

    >>> sg.mps.empty_cache()
    """


def manual_seed(seed: int) -> None:
    """Nothing: sg.manual_seed seeds all devices.

    >>> sg.mps.manual_seed(0)
    """
