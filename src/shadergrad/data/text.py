"""Text by character. In: a text. Out: windows of the text as numbers, and the numbers of the next characters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from .dataset import Dataset
from .errors import DataError


class Vocabulary:
    """The characters of a text, numbered in the order of their code points. Raises DataError for an empty text.

    >>> vocabulary = sg.data.Vocabulary("banana")
    >>> vocabulary.characters, vocabulary.encode("ban").tolist(), vocabulary.decode([1, 0])
    ('abn', [1, 0, 2], 'ba')
    """

    def __init__(self, characters: Iterable[str]) -> None:
        self.characters = "".join(sorted(set(characters)))
        if not self.characters:
            raise DataError("[Vocabulary] the text is empty: there is no character to number.")
        self._points = np.array([ord(c) for c in self.characters], np.uint32)

    def __len__(self) -> int:
        return len(self.characters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.characters == other.characters

    def __hash__(self) -> int:
        return hash(self.characters)

    def encode(self, text: str) -> np.ndarray:
        """The numbers of the characters, int32 [len(text)]. Raises a DataError that names unknown characters."""
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        numbers = np.searchsorted(self._points, points).clip(max=len(self) - 1)
        unknown = self._points[numbers] != points
        if unknown.any():
            names = ", ".join(repr(chr(p)) for p in np.unique(points[unknown])[:10])
            raise DataError(f"[Vocabulary] the text has characters that are not in the vocabulary: {names}.")
        return numbers.astype(np.int32)

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of character numbers."""
        return "".join(self.characters[int(n)] for n in numbers)


class CharDataset(Dataset[tuple[np.ndarray, np.ndarray]]):
    """Every window of a text. Sample i is (characters i ... i + context - 1, the same shifted by one), int32 [context].

    The last number of the second array is the character after the window.
    vocabulary: that of another text, such as the training text; by default that of `text`.
    Raises DataError if the text is not longer than the context, or has characters outside the vocabulary.

    >>> dataset = sg.data.CharDataset("abcab", context=3)
    >>> len(dataset), dataset[1][0].tolist(), dataset[1][1].tolist()
    (2, [1, 2, 0], [2, 0, 1])
    """

    def __init__(self, text: str, context: int, vocabulary: Vocabulary | None = None) -> None:
        if context < 1:
            raise DataError(f"[CharDataset] context is {context}; it must be at least 1.")
        if len(text) <= context:
            raise DataError(f"[CharDataset] a text of {len(text)} characters has no window of {context} and one more.")
        self.vocabulary = vocabulary or Vocabulary(text)
        self.context = context
        self.ids = self.vocabulary.encode(text)
        self._windows = np.lib.stride_tricks.sliding_window_view(self.ids, context + 1)

    @classmethod
    def from_file(cls, path: str | Path, context: int, vocabulary: Vocabulary | None = None) -> CharDataset:
        """The windows of a text file in UTF-8."""
        return cls(read_text(path), context, vocabulary)

    def __len__(self) -> int:
        return len(self._windows)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        window = self._windows[index]
        return window[:-1].copy(), window[1:].copy()

    def batch_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        if type(self).__getitem__ is not CharDataset.__getitem__:
            return None
        return self.windows(rows)

    def windows(self, rows: np.ndarray | slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """The samples of many rows, int32 [rows, context] twice; for a slice, views without copies."""
        windows = self._windows[rows]
        return windows[:, :-1], windows[:, 1:]


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, line ends as \\n. Raises DataError if it is missing or not UTF-8."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file in UTF-8: {error}.") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}.") from None
