"""PyTorch's names of kinds of memory, and the numbers in each."""

from __future__ import annotations

from typing import Any

import numpy as np

# NumPy lacks bfloat16: its 16 bits are the upper half of a float32
STORAGES: dict[str, str] = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "LongStorage": "int64", "IntStorage": "int32",
    "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool", "BFloat16Storage": "bfloat16",
    "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128", "UntypedStorage": "uint8",
}  # fmt: skip
STORAGE_OF = {name: kind for kind, name in STORAGES.items() if kind != "UntypedStorage"}
DTYPES = frozenset(STORAGES.values()) | {"uint16", "uint32", "uint64"}


def elements_of(name: str) -> np.dtype[Any]:
    """The NumPy dtype of the elements of a dtype of that name."""
    return np.dtype(np.uint16 if name == "bfloat16" else name)
