"""Whole models of a field, written on the public names alone.

coevolution/: which residues of two proteins touch, read from the sequences of both. gpt/: language models of GPT-2's shape.
"""

from . import coevolution, gpt

__all__ = ["coevolution", "gpt"]
