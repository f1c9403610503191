"""The names that the rest of the library imports from the tensor package. base.py lists the files in order; public.py defines the class."""

from .axes import check_axes, check_axis, common_shape, sizes_of
from .backpropagation import (
    GradientEdge,
    after_backward,
    backward,
    cotangent,
    leaf_of,
    mark_as_siblings,
    note_flag,
    tensors_of,
)
from .base import TensorBase, names_device
from .coercion import Number, host_tensor, operands
from .comparison import where
from .creation import (
    arange,
    empty,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from .description import Size
from .generator import Generator, default_generator, manual_seed, random_bits
from .gradients import GradFn
from .handle import wrap
from .hooks import RemovableHandle
from .index import holds, select_along
from .joining import cat, meshgrid, stack
from .norms import vector_norm
from .pending import compute_all, flush, sync
from .placement import check_storable, device, get_default_device, resolve_device, set_default_device, standing_in
from .positions import in_range
from .products import einsum, tensordot
from .public import Tensor, as_tensor
from .random import rand, rand_like, randint, randn, randn_like, randperm
from .reduce import MinAndMax, ValuesAndIndices
from .results import joint, meet, result
from .selected import Selected as Selected
from .subscript import select_positions

__all__ = [
    "Generator",
    "GradFn",
    "GradientEdge",
    "MinAndMax",
    "Number",
    "RemovableHandle",
    "Size",
    "Tensor",
    "TensorBase",
    "ValuesAndIndices",
    "after_backward",
    "arange",
    "as_tensor",
    "backward",
    "cat",
    "check_axes",
    "check_axis",
    "check_storable",
    "common_shape",
    "compute_all",
    "cotangent",
    "default_generator",
    "device",
    "einsum",
    "empty",
    "eye",
    "flush",
    "from_numpy",
    "full",
    "full_like",
    "get_default_device",
    "holds",
    "host_tensor",
    "in_range",
    "joint",
    "leaf_of",
    "linspace",
    "manual_seed",
    "mark_as_siblings",
    "meet",
    "meshgrid",
    "names_device",
    "note_flag",
    "ones",
    "ones_like",
    "operands",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "random_bits",
    "randperm",
    "resolve_device",
    "result",
    "select_along",
    "select_positions",
    "set_default_device",
    "sizes_of",
    "stack",
    "sync",
    "tensor",
    "tensordot",
    "tensors_of",
    "vector_norm",
    "where",
    "wrap",
    "zeros",
    "zeros_like",
]
