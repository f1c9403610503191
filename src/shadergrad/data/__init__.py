"""Data: sets of samples, batches of them on a device, and known data sets.

Samples are NumPy arrays on the host until a DataLoader uploads their batch. docs/data.md shows how they work together.
"""

from ..system.suggestions import suggesting as _suggesting
from . import transforms
from .collate import default_collate, default_convert
from .dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from .digits import load_digits
from .errors import DataError, DownloadError, LoaderTimeoutError
from .image_datasets import CIFAR10, MNIST, FashionMNIST
from .image_folder import ImageFolder
from .loader import DataLoader
from .sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .text import CharDataset, Vocabulary
from .workers import get_worker_info

__all__ = [
    "CIFAR10",
    "MNIST",
    "BatchSampler",
    "ChainDataset",
    "CharDataset",
    "ConcatDataset",
    "DataError",
    "DataLoader",
    "Dataset",
    "DownloadError",
    "FashionMNIST",
    "ImageFolder",
    "IterableDataset",
    "LoaderTimeoutError",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "Vocabulary",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "load_digits",
    "random_split",
    "transforms",
]

globals()["__getattr__"] = _suggesting(__name__)  # hidden from type checkers, which would accept any name
