"""Data sets and loaders by PyTorch's name of the place; shadergrad.data is the same but for DistributedSampler."""

from ...data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)
from ...system.suggestions import suggesting as _suggesting
from . import distributed
from .distributed import DistributedSampler


class IterDataPipe(IterableDataset):
    """A stream, by the name that it has in torchdata's pipes: to derive from, or to ask isinstance for.

    >>> issubclass(sg.utils.data.IterDataPipe, sg.data.IterableDataset)
    True
    """


class MapDataPipe(Dataset):
    """A data set by index, by the name that it has in torchdata's pipes.

    >>> issubclass(sg.utils.data.MapDataPipe, sg.data.Dataset)
    True
    """


__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "distributed",
    "get_worker_info",
    "random_split",
]

globals()["__getattr__"] = _suggesting(__name__)  # unseen by type checkers, which would take any name for one of these
