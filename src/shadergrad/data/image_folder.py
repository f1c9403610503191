"""A folder of pictures with a folder per class: root/cat/1.png, root/dog/2.jpg. In: the folder. Out: images and labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..system.optional_packages import require
from .dataset import Dataset
from .errors import DataError
from .transforms import checked_size

EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


class ImageFolder(Dataset[tuple[Any, Any]]):
    """Pictures in the folders of their classes.

    Sample i is (float32 [channels, height, width] from 0 to 1, class number), or the results of the transforms.
    size: (height, width), or a number for both, to scale each picture to; None leaves them as they are.
    mode: "RGB" (3 channels) or "L" (1).
    classes: the names of the folders in alphabetical order;
    samples: (path, class number) of each picture.
    Raises DataError if there are no classes, a class has no picture, or a file is not a picture; MissingPackageError without
    pillow.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for name in ("cat", "dog"):
    ...         pathlib.Path(root, name).mkdir()
    ...         _ = pathlib.Path(root, name, "1.pgm").write_text("P2 3 1 255 0 255 255")
    ...     pictures = sg.data.ImageFolder(root, mode="L")
    ...     image, label = pictures[1]
    >>> image.tolist(), label, pictures.classes
    ([[[0.0, 1.0, 1.0]]], 1, ['cat', 'dog'])
    """

    def __init__(
        self,
        root: str | Path,
        transform: Callable[[np.ndarray], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        *,
        size: tuple[int, int] | int | None = None,
        mode: str = "RGB",
    ) -> None:
        self._pillow = require("PIL.Image", "plots", "a folder of images")
        if mode not in ("RGB", "L"):
            raise DataError(f"[ImageFolder] mode is {mode!r}; it must be 'RGB' or 'L'.")
        self.root = Path(root)
        self.transform = transform
        self.target_transform = target_transform
        self.size = None if size is None else checked_size(size, "ImageFolder")
        self.mode = mode
        folders = (
            sorted(f for f in self.root.iterdir() if f.is_dir() and f.name[0] != ".") if self.root.is_dir() else []
        )
        if not folders:
            raise DataError(f"[ImageFolder] {self.root} has no folders. Hint: put the pictures of each class into one.")
        self.classes = [folder.name for folder in folders]
        self.class_to_idx = {name: k for k, name in enumerate(self.classes)}
        self.samples: list[tuple[Path, int]] = []
        for k, folder in enumerate(folders):
            found = sorted(p for p in folder.rglob("*") if p.suffix.lower() in EXTENSIONS)
            if not found:
                raise DataError(f"[ImageFolder] {folder} has no pictures ({', '.join(EXTENSIONS)}).")
            self.samples += [(path, k) for path in found]
        self.targets = [k for _, k in self.samples]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, label = self.samples[index]
        image = self.load(path)
        return (
            image if self.transform is None else self.transform(image),
            label if self.target_transform is None else self.target_transform(label),
        )

    def path_of(self, index: int) -> Path:
        """The file of a sample."""
        return self.samples[index][0]

    def __repr__(self) -> str:
        scaled = "" if self.size is None else f", size={self.size}"
        return f"{type(self).__name__}({len(self)} pictures of {len(self.classes)} classes in {self.root}{scaled})"

    def load(self, path: Path) -> np.ndarray:
        """The picture in a file, float32 [channels, height, width] from 0 to 1."""
        try:
            with self._pillow.open(path) as picture:
                if picture.mode[0] in "IF":  # 16 and 32 bits a pixel: pillow would cut them off at 255
                    raise DataError(
                        f"[ImageFolder] {path} has pixels of mode {picture.mode}. Hint: save it with 8 bits."
                    )
                converted = picture.convert(self.mode)
                if self.size is not None:
                    converted = converted.resize(self.size[::-1])
                pixels = np.asarray(converted, np.float32) / np.float32(255)
        except DataError:
            raise
        except Exception as error:  # the decoders of pillow raise many types of errors
            raise DataError(f"[ImageFolder] {path} is no whole picture: {error}.") from None
        return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))
