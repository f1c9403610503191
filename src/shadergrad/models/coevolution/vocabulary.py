"""Residues as numbers. In: text of one-letter codes. Out: arrays of tokens; and back.

20 amino acids in the order of their letters, X for any other, and the special tokens of a transformer. A gap of an alignment is
PAD, which the model ignores, so a row with gaps means the same as its sequence without them.
"""

from __future__ import annotations

import numpy as np

from ...errors import ShadergradError

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
X, MASK, PAD, CLS, SEP = 20, 21, 22, 23, 24
VOCABULARY = 25
GAPS = "-."
UNUSUAL = "XBZJUO"  # ambiguous, selenocysteine, pyrrolysine: all are X

_TOKENS = np.full(256, 255, np.uint8)
for _number, _letter in enumerate(AMINO_ACIDS):
    _TOKENS[ord(_letter)] = _number
for _letter in UNUSUAL:
    _TOKENS[ord(_letter)] = X
for _letter in GAPS:
    _TOKENS[ord(_letter)] = PAD
_LETTERS = np.array([*AMINO_ACIDS, "X", "?", "-", "?", "?"])


class ResidueError(ShadergradError, ValueError):
    """A letter that is not a residue."""


def encode(sequence: str) -> np.ndarray:
    """Tokens, uint8 (length,), of one-letter codes; gaps (- and .) are PAD. Lower-case letters count as upper-case. Raises
    ResidueError for other letters.

    >>> sg.models.coevolution.encode("AC-Y")
    array([ 0,  1, 22, 19], dtype=uint8)
    """
    letters = np.frombuffer(sequence.upper().encode("ascii", "replace"), np.uint8)
    tokens = _TOKENS[letters]
    if (tokens == 255).any():
        at = int(np.argmax(tokens == 255))
        raise ResidueError(f"[encode] {sequence[at]!r} at position {at + 1} is no residue.")
    return tokens


def decode(tokens: np.ndarray) -> str:
    """The letters of tokens (length,); PAD is -, MASK, CLS and SEP are ?.

    >>> sg.models.coevolution.decode(np.array([0, 22, 20]))
    'A-X'
    """
    return "".join(_LETTERS[np.asarray(tokens)])
