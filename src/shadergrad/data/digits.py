"""The handwritten digits that the library includes. In: nothing. Out: NumPy arrays in a fixed split.

1,797 images of 8x8 pixels, 10 classes: the test half of UCI's "Optical Recognition of Handwritten Digits", which scikit-learn
has, too. Source: https://archive.ics.uci.edu/dataset/80; the licence, CC BY 4.0, is beside the file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

FILE = Path(__file__).parent / "files" / "digits.npz"
TRAINING = 1437  # the first images are for training, the others for tests
INK = 16  # of a pixel, at most


def load_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Train images, train labels, test images, test labels: a fixed, stratified 80/20 split.

    images: float32 [1437, 64] and [360, 64], pixels from 0 to 1. labels: int32 [1437] and [360], 0 to 9.

    >>> [array.shape for array in sg.data.load_digits()]
    [(1437, 64), (1437,), (360, 64), (360,)]
    """
    with np.load(FILE) as stored:
        images = (stored["images"] / INK).astype(np.float32)
        labels = stored["labels"].astype(np.int32)
    return images[:TRAINING], labels[:TRAINING], images[TRAINING:], labels[TRAINING:]
