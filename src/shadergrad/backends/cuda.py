"""CUDA's switches, which may be set and change nothing."""

from types import SimpleNamespace

matmul = SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=False)


def is_built() -> bool:
    """False.

    >>> sg.backends.cuda.is_built()
    False
    """
    return False
