"""scikit-learn's handwritten digits. In: nothing. Out: NumPy arrays, split once and for all.

1,797 images of 8x8 pixels, 10 classes: the test half of UCI's "Optical Recognition of Handwritten Digits".
Source: https://archive.ics.uci.edu/dataset/80
"""

from __future__ import annotations

import numpy as np

from ..extras import require


def load_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Train images, train labels, test images, test labels: a stratified 80/20 split that is always the same.

    images: float32 [1437, 64] and [360, 64], pixels from 0 to 1. labels: int32 [1437] and [360], 0 to 9.
    MissingPackageError, with the pip command, where scikit-learn is not installed.

    >>> [array.shape for array in sg.data.load_digits()]
    [(1437, 64), (1437,), (360, 64), (360,)]
    """
    datasets = require("sklearn.datasets", "datasets", "the digits data set")
    selection = require("sklearn.model_selection", "datasets", "the digits data set")
    digits = datasets.load_digits()
    images = (digits.data / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    train_images, test_images, train_labels, test_labels = selection.train_test_split(
        images, labels, test_size=0.2, random_state=0, stratify=labels
    )
    return train_images, train_labels, test_images, test_labels
