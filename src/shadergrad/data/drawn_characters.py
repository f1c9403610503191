"""Pictures of single drawn characters. In: image files. Out: square arrays in the format of the digit data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..system.optional_packages import require
from .errors import DataError

FAINT = 0.1  # of full ink: less than that is paper
MARGIN = {8: 0, 28: 4}  # pixels around a digit: none in the small set, 4 in MNIST


def read_drawing(path: str | Path, side: int) -> np.ndarray:
    """The drawing in an image file, float32 [side, side]: ink 1 on paper 0, cropped and centred.

    side: 8 for the library's digits, 28 for MNIST. The rim of the image tells dark ink on light paper from light ink on dark
    paper. An image of side x side pixels stays in place. Raises DataError if there is no image, or nothing on it.
    """
    ink = _ink_on(path)
    if ink.shape == (side, side):
        return ink
    rows, columns = np.nonzero(ink > FAINT)
    if not len(rows):
        raise DataError(f"there is nothing drawn on {path}.")
    cut = ink[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    length = max(cut.shape)
    spare = [length - size for size in cut.shape]
    square = np.pad(cut, [(room // 2, room - room // 2) for room in spare])
    margin = MARGIN.get(side, 0)
    inner = (side - 2 * margin,) * 2
    images = require("PIL.Image", "plots", "reading an image")
    small = np.asarray(
        images.fromarray((255 * square).astype(np.uint8)).resize(inner, images.Resampling.BOX), np.float32
    )
    return np.pad(small / max(float(small.max()), 1.0), margin)


def drawings_on(path: str | Path) -> int:
    """The number of characters on an image, in a row or a column: parts of about equal height, with empty space between them.

    Strokes of one character may lie apart, as the bar of a 5 does: they are flat beside the rest.
    """
    ink = _ink_on(path) > FAINT
    return max(_tall_parts(ink), _tall_parts(ink, below=True))


def _tall_parts(ink: np.ndarray, below: bool = False) -> int:
    """Groups of columns, or rows, that paper parts, and that are at least half as high as the highest."""
    taken = np.flatnonzero(ink.any(axis=int(below)))
    if not len(taken):
        return 0
    heights = []
    for group in np.split(taken, np.flatnonzero(np.diff(taken) > 1) + 1):
        part = ink[group] if below else ink[:, group]
        rows = np.flatnonzero(part.any(axis=1))
        heights.append(rows[-1] - rows[0] + 1)
    return sum(height >= max(heights) / 2 for height in heights)


def _ink_on(path: str | Path) -> np.ndarray:
    """The ink of each pixel, float32 [height, width]."""
    images = require("PIL.Image", "plots", "reading an image")
    try:
        with images.open(path) as opened:
            picture = opened.convert("RGBA")
            paper = images.new("RGBA", picture.size, "white")
            pixels = np.asarray(images.alpha_composite(paper, picture).convert("L"), np.float32) / 255
    except OSError as error:  # which pillow's own error is too
        raise DataError(
            f"cannot read the image {path}: {error.strerror or 'it is no image that pillow knows'}."
        ) from None
    rim = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    return 1 - pixels if np.median(rim) > 0.5 else pixels
