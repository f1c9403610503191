"""PyTorch's attributes of tensors, and functions beside them, that need no operation of their own.

One file a subject. Importing this room installs the methods and properties on Tensor.
"""

from __future__ import annotations

from . import device_memory, python_callbacks, versions  # install methods
from .dlpack import asarray, from_dlpack
from .global_settings import (
    are_deterministic_algorithms_enabled,
    get_float32_matmul_precision,
    get_num_interop_threads,
    get_num_threads,
    set_float32_matmul_precision,
    set_num_interop_threads,
    set_num_threads,
    use_deterministic_algorithms,
)
from .memory_layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    is_nonzero,
    is_same_size,
    newaxis,
    preserve_format,
    strided,
)
from .printing import set_printoptions
from .tensor_types import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    get_default_dtype,
    set_default_dtype,
    set_default_tensor_type,
    typename,
)
from .type_promotion import can_cast, promote_types, result_type

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "are_deterministic_algorithms_enabled",
    "asarray",
    "can_cast",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "device_memory",
    "from_dlpack",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "is_nonzero",
    "is_same_size",
    "newaxis",
    "preserve_format",
    "promote_types",
    "python_callbacks",
    "result_type",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_float32_matmul_precision",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "strided",
    "typename",
    "use_deterministic_algorithms",
]
