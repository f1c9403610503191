"""Known sets of small pictures: MNIST, FashionMNIST, CIFAR-10. In: a folder, or a mirror. Out: images and labels.

Each names the same mirrors and checksums as PyTorch and TensorFlow.

LeCun, Bottou, Bengio, Haffner: "Gradient-based learning applied to document recognition", 1998. Xiao, Rasul, Vollgraf:
"Fashion-MNIST", arXiv 1708.07747. Krizhevsky: "Learning multiple layers of features from tiny images", 2009.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .dataset import Dataset
from .dataset_formats import RECORD, read_bytes, read_cifar, read_idx, read_tar
from .errors import DataError
from .known_files import KnownFile, data_folder


class ImageArrays(Dataset[tuple[Any, Any]]):
    """Pictures in memory. Sample i is (float32 [channels, height, width] from 0 to 1, label).

    images: uint8 [n, channels, height, width]. labels: int32 [n].
    transform, target_transform: functions of an image and of a label.
    """

    classes: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        transform: Callable[[np.ndarray], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
    ) -> None:
        if len(images) != len(labels):
            raise DataError(
                f"{type(self).__name__} has {len(images)} images and {len(labels)} labels: files of different sets?"
            )
        self.images = images
        self.labels = labels.astype(np.int32)
        self.transform = transform
        self.target_transform = target_transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, label = _scaled(self.images[index]), int(self.labels[index])
        return (
            image if self.transform is None else self.transform(image),
            label if self.target_transform is None else self.target_transform(label),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} images {list(self.images.shape[1:])})"

    def batch_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        plain = type(self).__getitem__ is ImageArrays.__getitem__
        if not plain or self.transform is not None or self.target_transform is not None:
            return None
        return _scaled(self.images[rows]), self.labels[rows]


def _scaled(pixels: np.ndarray) -> np.ndarray:
    return pixels.astype(np.float32) / np.float32(255)


class MNIST(ImageArrays):
    """Handwritten digits: 60,000 and 10,000 images of 1 x 28 x 28 (LeCun et al., 1998).

    Sample i is (float32 [1, 28, 28] from 0 to 1, label), or the results of transform and target_transform.
    root: the folder that holds mnist/ with the four files, plain or .gz; default SHADERGRAD_DATA_DIR.
    download: fetch missing files from `mirror`, default SHADERGRAD_DATA_MIRROR, else the set's own `mirrors`.
    Raises DownloadError if files are missing, DataError if one is damaged.

    >>> sg.data.MNIST("no/such/folder")
    Traceback (most recent call last):
        ...
    shadergrad.data.errors.DownloadError: there is no ...train-images-idx3-ubyte.gz. Hint: download=True ...
    """

    folder: ClassVar[str] = "mnist"
    mirrors: ClassVar[tuple[str, ...]] = (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        "http://yann.lecun.com/exdb/mnist",
    )
    classes: ClassVar[tuple[str, ...]] = tuple("0123456789")
    files: ClassVar[dict[str, KnownFile]] = {
        "train-images-idx3-ubyte.gz": KnownFile("md5:f68b3c2dcbeaaa9fbdd348bbdeb94873", 9912422),
        "train-labels-idx1-ubyte.gz": KnownFile("md5:d53e105ee54ea40749a09fcbcd1e9432", 28881),
        "t10k-images-idx3-ubyte.gz": KnownFile("md5:9fb629c4189551a2d022fa330f9573f3", 1648877),
        "t10k-labels-idx1-ubyte.gz": KnownFile("md5:ec29112dd5afa0611ce80d1b7f02629c", 4542),
    }

    def __init__(
        self,
        root: str | Path | None = None,
        train: bool = True,
        transform: Callable[[np.ndarray], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        download: bool = False,
        *,
        mirror: str | None = None,
    ) -> None:
        folder = data_folder(root, self.folder)
        part, count = ("train", 60_000) if train else ("t10k", 10_000)

        from .download import find_or_fetch  # imported here, because urllib and rich load slowly

        def find(name: str) -> Path:
            options: dict[str, Any] = {"download": download, "mirror": mirror, "official": self.mirrors}
            return find_or_fetch(folder, name, self.files[name], **options)

        images = read_idx(find(f"{part}-images-idx3-ubyte.gz"), (count, 28, 28))
        labels = read_idx(find(f"{part}-labels-idx1-ubyte.gz"), (count,))
        if images.dtype != np.uint8 or labels.dtype != np.uint8:
            raise DataError(f"{folder} holds {images.dtype} images and {labels.dtype} labels; both must be uint8.")
        if labels.size and labels.max() > 9:
            raise DataError(f"{folder} holds a label {labels.max()}; labels go from 0 to 9.")
        super().__init__(images[:, None], labels, transform, target_transform)


class FashionMNIST(MNIST):
    """Pictures of clothes in the form of MNIST, in the folder fashion-mnist/ (Xiao et al., 2017).

    Arguments, samples and errors as for MNIST.

    >>> sg.data.FashionMNIST.classes[9]
    'Ankle boot'
    """

    folder: ClassVar[str] = "fashion-mnist"
    mirrors: ClassVar[tuple[str, ...]] = (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
    )
    classes: ClassVar[tuple[str, ...]] = (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    )
    files: ClassVar[dict[str, KnownFile]] = {
        "train-images-idx3-ubyte.gz": KnownFile("md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880),
        "train-labels-idx1-ubyte.gz": KnownFile("md5:25c81989df183df01b3e8a0aad5dffbe", 29515),
        "t10k-images-idx3-ubyte.gz": KnownFile("md5:bef4ecab320f06d8554ea6380940ec79", 4422102),
        "t10k-labels-idx1-ubyte.gz": KnownFile("md5:bb300cfdad3c16e7a12a480ee83cd310", 5148),
    }


class CIFAR10(ImageArrays):
    """Photographs: 50,000 and 10,000 images of 3 x 32 x 32 (Krizhevsky, 2009).

    Sample i is (float32 [3, 32, 32] from 0 to 1, label), or the results of transform and target_transform.
    root: the folder that holds cifar-10/ with cifar-10-binary.tar.gz, or with its cifar-10-batches-bin/ unpacked. Other
    arguments, and errors, as for MNIST.

    >>> sg.data.CIFAR10.classes[6]
    'frog'
    """

    classes: ClassVar[tuple[str, ...]] = (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    )
    mirrors: ClassVar[tuple[str, ...]] = (
        "https://www.cs.toronto.edu/~kriz",
        "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10",
    )
    archive: ClassVar[str] = "cifar-10-binary.tar.gz"
    known: ClassVar[KnownFile] = KnownFile("md5:c32a1d4ab5d03f1284b67883e8d87530", 170052171)
    batch_bytes: ClassVar[int] = 10_000 * RECORD  # of each of its six files

    def __init__(
        self,
        root: str | Path | None = None,
        train: bool = True,
        transform: Callable[[np.ndarray], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        download: bool = False,
        *,
        mirror: str | None = None,
    ) -> None:
        folder = data_folder(root, "cifar-10")
        files = [f"data_batch_{k}.bin" for k in range(1, 6)] if train else ["test_batch.bin"]
        members = [f"cifar-10-batches-bin/{name}" for name in files]
        if all((folder / member).is_file() for member in members):
            contents = [read_bytes(folder / member, self.batch_bytes) for member in members]
        else:
            options: dict[str, Any] = {"download": download, "mirror": mirror, "official": self.mirrors}
            from .download import find_or_fetch  # as above

            path = find_or_fetch(folder, self.archive, self.known, **options)
            # beyond the six files: names of the classes, a web page, and tar's headers
            contents = read_tar(path, members, self.batch_bytes, 6 * self.batch_bytes + (1 << 20))
        batches = [read_cifar(data, f"{folder / member}") for data, member in zip(contents, members, strict=True)]
        images, labels = (np.concatenate(part) for part in zip(*batches, strict=True))
        super().__init__(images, labels, transform, target_transform)
