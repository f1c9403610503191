"""Image transforms. In: a pillow image, an array or a tensor. Out: the transformed image.

An image is float32 [channels, height, width], as data sets give it; a pillow image is converted first. The names are torchvision's.
Random transforms draw from the default generator, so `sg.manual_seed` determines them, in a loader's workers too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..system.optional_packages import require
from ..tensor import Tensor, default_generator
from .errors import DataError


def _array(image: Any, who: str) -> np.ndarray:
    """An image as an array [channels, height, width]; integers from 0 to 255 become floats from 0 to 1 if it is a picture."""
    if isinstance(image, Tensor):
        image = image.detach().numpy()
    elif not isinstance(
        image, np.ndarray
    ):  # a picture of pillow: [height, width] or [height, width, channels] of bytes
        pixels = np.asarray(image)
        if pixels.dtype == np.bool_:  # black and white
            pixels = pixels.astype(np.uint8) * np.uint8(255)
        if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
            mode = getattr(image, "mode", None)
            what = type(image).__name__ if mode is None else f"picture of mode {mode}"
            raise DataError(f"[{who}] cannot take a {what}. Hint: give a picture of bytes, an array or a tensor.")
        pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        image = np.ascontiguousarray(pixels, np.float32) / np.float32(255)
    if image.ndim != 3:
        raise ShapeError(
            f"[{who}] an image has the axes (channels, height, width); this one has the shape {image.shape}."
        )
    if image.dtype == np.uint8 and image.shape[2] in (3, 4) and image.shape[0] > 4:  # as pillow and OpenCV give arrays
        raise ShapeError(
            f"[{who}] an image has the axes (channels, height, width); {image.shape} seems to have the channels last. "
            "Hint: image.transpose(2, 0, 1)."
        )
    return image


def _like(image: Any, array: np.ndarray) -> Any:
    """An array in the form of the input: a tensor on its device, else an array."""
    array = np.ascontiguousarray(array)
    return Tensor(array, device=image.device) if isinstance(image, Tensor) else array


def checked_size(size: int | Sequence[int], who: str) -> tuple[int, int]:
    """The (height, width) of a size, which may be one number for both. Raises DataError unless there are two, and positive."""
    both = (size, size) if isinstance(size, int) else tuple(size) * (2 if len(size) == 1 else 1)
    if len(both) != 2 or min(both) < 1:
        raise DataError(f"[{who}] size is {size}; it must be a positive number, or two: (height, width).")
    return both


def _drawn(count: int) -> list[float]:
    """Numbers of [0, 1), on the host."""
    high, _ = default_generator("cpu").host_words(count)
    return (high / 2.0**32).tolist()


class Compose:
    """Transforms applied one after the other.

    >>> flip = sg.data.transforms.Compose([sg.data.transforms.ToTensor(), sg.data.transforms.RandomHorizontalFlip(1.0)])
    >>> flip(np.arange(3, dtype=np.float32).reshape(1, 1, 3))
    tensor([[[2., 1., 0.]]])
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image

    def __repr__(self) -> str:
        return f"Compose([{', '.join(map(repr, self.transforms))}])"


class ToTensor:
    """A tensor [channels, height, width] on the cpu device; pictures and bytes become floats from 0 to 1.

    >>> sg.data.transforms.ToTensor()(np.full((1, 1, 2), 255, np.uint8))
    tensor([[[1., 1.]]])
    """

    def __call__(self, image: Any) -> Tensor:
        if isinstance(image, Tensor):
            return image
        array = _array(image, "ToTensor")
        if array.dtype == np.uint8:
            array = array.astype(np.float32) / np.float32(255)
        return Tensor(np.ascontiguousarray(array), device="cpu")

    def __repr__(self) -> str:
        return "ToTensor()"


class Resize:
    """Scale to (height, width); an int is the new length of the shorter side. Pixels are averaged when the image shrinks.

    >>> sg.data.transforms.Resize(2)(np.ones((3, 4, 6), np.float32)).shape
    (3, 2, 3)
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = size
        checked_size(size, "Resize")

    def __call__(self, image: Any) -> Any:
        array = _array(image, "Resize")
        _, height, width = array.shape
        if isinstance(self.size, int) or len(self.size) == 1:
            shorter = self.size if isinstance(self.size, int) else self.size[0]
            size = (shorter, shorter * width // height) if height <= width else (shorter * height // width, shorter)
        else:
            size = checked_size(self.size, "Resize")
        pillow = require("PIL.Image", "plots", "scaling an image")
        planes = [pillow.fromarray(np.asarray(plane, np.float32)) for plane in array]
        scaled = np.stack([np.asarray(plane.resize(size[::-1], pillow.Resampling.BILINEAR)) for plane in planes])
        if array.dtype.kind in "iu":
            scaled = scaled.round()
        return _like(image, scaled.astype(array.dtype))

    def __repr__(self) -> str:
        return f"Resize({self.size})"


class CenterCrop:
    """The central part, of (height, width) or a square; padded with black if the image is smaller.

    >>> sg.data.transforms.CenterCrop(1)(np.float32([[[1, 2, 3]]]))
    array([[[2.]]], dtype=float32)
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = checked_size(size, type(self).__name__)

    def _places(self, spare: tuple[int, int]) -> tuple[int, int]:
        return round(spare[0] / 2), round(spare[1] / 2)

    def _enlarged(self, array: np.ndarray) -> np.ndarray:
        spare = [max(0, wanted - there) for wanted, there in zip(self.size, array.shape[1:], strict=True)]
        return np.pad(array, [(0, 0), *((room // 2, room - room // 2) for room in spare)]) if any(spare) else array

    def __call__(self, image: Any) -> Any:
        array = self._enlarged(_array(image, type(self).__name__))
        height, width = self.size
        top, left = self._places((array.shape[1] - height, array.shape[2] - width))
        return _like(image, array[:, top : top + height, left : left + width])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size})"


class RandomCrop(CenterCrop):
    """A random part of (height, width), or a square. padding: black pixels added around the image first.

    Raises ShapeError for an image that is smaller even so.

    >>> sg.data.transforms.RandomCrop(2)(np.ones((3, 5, 5), np.float32)).shape
    (3, 2, 2)
    """

    def __init__(self, size: int | Sequence[int], padding: int = 0) -> None:
        super().__init__(size)
        self.padding = padding

    def _places(self, spare: tuple[int, int]) -> tuple[int, int]:
        down, right = _drawn(2)
        return int(down * (spare[0] + 1)), int(right * (spare[1] + 1))

    def _enlarged(self, array: np.ndarray) -> np.ndarray:
        around = (self.padding, self.padding)
        padded = np.pad(array, [(0, 0), around, around]) if self.padding else array
        if padded.shape[1] < self.size[0] or padded.shape[2] < self.size[1]:
            raise ShapeError(
                f"[RandomCrop] {self.size} does not fit into {padded.shape[1:]}. Hint: padding=, or Resize first."
            )
        return padded


class RandomHorizontalFlip:
    """Flip left and right with probability p.

    >>> sg.data.transforms.RandomHorizontalFlip(p=1.0)(np.float32([[[1, 2]]]))
    array([[[2., 1.]]], dtype=float32)
    """

    axis = 2

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise DataError(f"[{type(self).__name__}] p is {p}; it must lie between 0 and 1.")
        self.p = p

    def __call__(self, image: Any) -> Any:
        array = _array(image, type(self).__name__)
        return _like(image, np.flip(array, self.axis) if _drawn(1)[0] < self.p else array)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomVerticalFlip(RandomHorizontalFlip):
    """Flip top and bottom with probability p.

    >>> sg.data.transforms.RandomVerticalFlip(p=1.0)(np.float32([[[1], [2]]])).ravel()
    array([2., 1.], dtype=float32)
    """

    axis = 1


class Normalize:
    """(image - mean) / std, with a number per channel.

    >>> sg.data.transforms.Normalize([0.5], [0.25])(np.float32([[[0.5, 1.0]]]))
    array([[[0., 2.]]], dtype=float32)
    """

    def __init__(self, mean: Sequence[float] | float, std: Sequence[float] | float) -> None:
        self.mean, self.std = mean, std
        if not np.all(np.asarray(std)):
            raise DataError("[Normalize] std has a zero, and divides.")

    def __call__(self, image: Any) -> Any:
        array = _array(image, "Normalize")
        mean, std = (np.reshape(np.asarray(v, np.float32), (-1, 1, 1)) for v in (self.mean, self.std))
        if len(mean) not in (1, len(array)) or len(std) not in (1, len(array)):
            raise ShapeError(f"[Normalize] {len(mean)} means and {len(std)} deviations for {len(array)} channels.")
        return _like(image, (array.astype(np.float32) - mean) / std)

    def __repr__(self) -> str:
        return f"Normalize(mean={self.mean}, std={self.std})"


__all__ = [
    "CenterCrop",
    "Compose",
    "Normalize",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
    "Resize",
    "ToTensor",
]
