"""Models of a field, whole: from its files to its pictures.

coevolution/: which residues of two proteins touch, read from the sequences of both.
"""

from . import coevolution

__all__ = ["coevolution"]
