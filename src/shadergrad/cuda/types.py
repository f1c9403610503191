"""Tensors by the names of their types on the GPU that 'cuda' means: torch.cuda.FloatTensor and its like."""

from __future__ import annotations

from ..tensor_attributes.tensor_types import TYPES, tensor_type

BFloat16Tensor = tensor_type("BFloat16Tensor", TYPES["BFloat16Tensor"], "cuda")
BoolTensor = tensor_type("BoolTensor", TYPES["BoolTensor"], "cuda")
ByteTensor = tensor_type("ByteTensor", TYPES["ByteTensor"], "cuda")
CharTensor = tensor_type("CharTensor", TYPES["CharTensor"], "cuda")
DoubleTensor = tensor_type("DoubleTensor", TYPES["DoubleTensor"], "cuda")
FloatTensor = tensor_type("FloatTensor", TYPES["FloatTensor"], "cuda")
HalfTensor = tensor_type("HalfTensor", TYPES["HalfTensor"], "cuda")
IntTensor = tensor_type("IntTensor", TYPES["IntTensor"], "cuda")
LongTensor = tensor_type("LongTensor", TYPES["LongTensor"], "cuda")
ShortTensor = tensor_type("ShortTensor", TYPES["ShortTensor"], "cuda")
