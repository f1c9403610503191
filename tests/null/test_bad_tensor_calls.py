"""Calls on tensors that make no sense: PyTorch refuses them, and so do we, in one line that names the function and argument.

A row is the source of a call, of which `l` is the library, and what our message says. It runs against both libraries; our
error is a ShadergradError, and of the builtin kind that PyTorch raises.
"""

from __future__ import annotations

import inspect
import math
import operator
import re
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from public_names import public_names, tensor_methods

BAD: dict[str, str] = {
    "x.add(np.ones(2))": "add(): argument 'other' must be Tensor or Number, not numpy.ndarray.",
    "np.ones(2)+x": "unsupported operand type(s) for +: 'numpy.ndarray' and 'Tensor'.",
    "x+None": "unsupported operand type(s) for +: 'Tensor' and 'None'.",
    "x+\"a\"": "unsupported operand type(s) for +: 'Tensor' and 'str'.",
    "x%\"a\"": "unsupported operand type(s) for %: 'Tensor' and 'str'.",
    "x*\"a\"": "unsupported operand type(s) for *: 'Tensor' and 'str'.",
    "\"a\"-x": "unsupported operand type(s) for -: 'str' and 'Tensor'.",
    "None*x": "unsupported operand type(s) for *: 'None' and 'Tensor'.",
    "x<None": "unsupported operand type(s) for <: 'Tensor' and 'None'.",
    "x<\"a\"": "unsupported operand type(s) for <: 'Tensor' and 'str'.",
    "l.zeros(True)": "zeros(): argument 'size' must be tuple of ints, not bool.",
    "l.zeros(2.5)": "zeros(): argument 'size' must be tuple of ints, not float.",
    "l.zeros(\"a\")": "zeros(): argument 'size' must be tuple of ints, not str.",
    "l.zeros((2,2.5))": "zeros(): argument 'size' must be tuple of ints, not float.",
    "l.zeros(-1)": "zeros(): negative size in (-1,).",
    "l.zeros([True])": "zeros(): argument 'size' must be tuple of ints, not bool.",
    "x.sum(True)": "sum(): argument 'dim' must be int or tuple of ints, not bool.",
    "x.sum(0,1)": "sum(): argument 'keepdim' must be bool, not int.",
    "x.sum(0.0)": "sum(): argument 'dim' must be int or tuple of ints, not float.",
    "x.topk(True)": "topk(): argument 'k' must be int, not bool.",
    "x.softmax(0.0)": "softmax(): argument 'dim' must be int, not float.",
    "x.reshape(True,4)": "reshape(): argument 'shape' must be tuple of ints, not bool.",
    "x[1.5]": "only integers, slices (':'), ellipsis ('...'), None and tensors of integers or bools are valid",
    "x[\"a\"]": "only integers, slices (':'), ellipsis ('...'), None and tensors of integers or bools are valid",
    "x[None,5,5,5]": "too many indices for tensor of dimension 2: 3.",
    "x[[0,9]]": "[gather] index 9 is out of range for an axis of size 2.",
    "x[l.tensor(0.5)]": "tensors used as indices must be of integers or bools, not float32.",
    "x[object()]": "only integers, slices (':'), ellipsis ('...'), None and tensors of integers or bools are valid",
    "x[0,0,0]": "too many indices for tensor of dimension 2: 3.",
    "!x[0]=\"a\"": "cannot make a tensor of str: give numbers, or sequences of them.",
    "!x[0]=None": "cannot make a tensor of None: give numbers, or sequences of them.",
    "!x[5]=1": "index 5 is out of bounds for dimension 0 with size 2",
    "!x[\"a\"]=1": "only integers, slices (':'), ellipsis ('...'), None and tensors of integers or bools are valid",
    "!x[0]=[1,2,3]": "[expand] the expanded size (2) must match the existing size (3) at dimension 0: (3,) to (2,).",
    "!x[:]=l.ones(3,3)": "[expand] the expanded size (2) must match the existing size (3) at dimension 0: (3, 3) to (2, 2).",
    "l.zeros(1<<62,8)": "zeros(): Storage size calculation overflowed with sizes=[4611686018427387904, 8].",
    "l.full((2,),\"a\")": "full(): argument 'fill_value' must be Number, not str.",
    "l.full((2,),None)": "full(): argument 'fill_value' must be Number, not None.",
    "l.tensor(\"abc\")": "cannot make a tensor of str: give numbers, or sequences of them.",
    "l.tensor([1,[2]])": "expected numbers or sequences of equal lengths, but got sequences that differ.",
    "l.tensor({})": "cannot make a tensor of dict: give numbers, or sequences of them.",
    "l.tensor(None)": "cannot make a tensor of None: give numbers, or sequences of them.",
    "l.tensor([None])": "cannot make a tensor of None: give numbers, or sequences of them.",
    "l.tensor(object())": "cannot make a tensor of object: give numbers, or sequences of them.",
    "l.tensor([1,\"a\"])": "cannot make a tensor of str: give numbers, or sequences of them.",
    "l.tensor(1<<70)": "cannot make a tensor of 1180591620717411303424, which no dtype holds: give numbers, or sequences of",
    "l.tensor(3)[0]": "too many indices for tensor of dimension 0: 1.",
    "len(s)": "len() of a 0-d tensor",
    "int(x)": "[item] a Tensor with 4 elements (shape (2, 2)) cannot be converted to Scalar",
    "x.item()": "[item] a Tensor with 4 elements (shape (2, 2)) cannot be converted to Scalar",
    "s.__index__()": "only integer tensors of a single element can be converted to an index",
    "float(x)": "[item] a Tensor with 4 elements (shape (2, 2)) cannot be converted to Scalar",
    "bool(x)": "Boolean value of Tensor with more than one value is ambiguous.",
    "list(s)": "iteration over a 0-d tensor",
    "\"a\" in x": "__contains__(): argument 'element' must be Tensor or Number, not str.",
    "x.to(\"nonsense\")": "unknown device 'nonsense'. Known: cpu, webgpu (or webgpu:N for the N-th adapter).",
    "x.to(object())": "unknown dtype",
    "x.to(3)": "unknown dtype 3. Known: bool, uint8, int8, uint16, int16, int32, uint32, int64, uint64, bfloat16, float16, float32, float64, complex64, complex128.",
    "x.to(\"cpu\",\"cpu\")": "to() got two devices: 'cpu' and 'cpu'.",
    "x.to(\"float99\")": "unknown device 'float99'. Known: cpu, webgpu (or webgpu:N for the N-th adapter).",
    "x.to(dtype=\"a\")": "unknown dtype 'a'. Known: bool, uint8, int8, uint16, int16, int32, uint32, int64, uint64, bfloat16, float16, float32, float64, complex64, complex128.",
    "x.to(device=3)": "device(): argument 'device' must be str, not int.",
    "l.ones(2,dtype=\"a\")": "unknown dtype 'a'. Known: bool, uint8, int8, uint16, int16, int32, uint32, int64, uint64, bfloat16, float16, float32, float64, complex64, complex128.",
    "l.ones(2,dtype=3)": "unknown dtype 3. Known: bool, uint8, int8, uint16, int16, int32, uint32, int64, uint64, bfloat16, float16, float32, float64, complex64, complex128.",
    "l.ones(2,device=\"a\")": "unknown device 'a'. Known: cpu, webgpu (or webgpu:N for the N-th adapter).",
    "l.ones(2,device=object())": "device(): argument 'device' must be str, not object.",
    "l.ones(2,requires_grad=\"a\")": "ones(): argument 'requires_grad' must be bool, not str.",
    "x.requires_grad_(\"a\")": "requires_grad_(): argument 'requires_grad' must be bool, not str.",
    "!x.requires_grad=\"a\"": "requires_grad must be a bool, not str.",
    "!x.requires_grad=1": "requires_grad must be a bool, not int.",
    "!x.grad=3": "assigned grad expected to be a Tensor or None but got int.",
    "!x.grad=v": "[grad] assigned a gradient of shape (2,) to a tensor of shape (2, 2).",
    "!x.data=3": "data has to be a Tensor, not int.",
    "!x.data=np.ones(3)": "data has to be a Tensor, not numpy.ndarray.",
    "g.numpy()": "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    "x.backward(\"a\")": "backward(): argument 'gradient' must be Tensor, not str.",
    "g.sum().backward(\"a\")": "backward(): argument 'gradient' must be Tensor, not str.",
    "g.sum().backward(retain_graph=\"a\")": "backward(): argument 'retain_graph' must be bool, not str.",
    "g.sum().backward(foo=1)": "backward(): got an unexpected keyword argument 'foo'",
    "g.sum().backward(inputs=3)": "backward(): argument 'inputs' must be Tensor or tuple of Tensors, not int.",
    "g.sum().backward(inputs=[3])": "backward(): argument 'inputs' must be Tensor or tuple of Tensors, but element 0 is int.",
    "l.autograd.grad(3,g)": "grad(): argument 'outputs' must be Tensor or tuple of Tensors, not int.",
    "l.autograd.grad(g.sum(),3)": "grad(): argument 'inputs' must be Tensor or tuple of Tensors, not int.",
    "l.autograd.grad(g.sum(),[3])": "grad(): argument 'inputs' must be Tensor or tuple of Tensors, but element 0 is int.",
    "l.autograd.grad(g.sum(),g,\"a\")": "gradients can be either Tensors or None, but got str.",
    "l.autograd.grad(g,g)": "grad can be implicitly created only for scalar outputs",
    "l.autograd.grad(g.sum(),x)": "One of the differentiated Tensors does not require grad",
    "l.autograd.backward(3)": "backward(): argument 'tensors' must be Tensor or tuple of Tensors, not int.",
    "x.register_hook(3)": "register_hook(): argument 'hook' must be a function, not int.",
    "x[1.5:]": "slice indices must be integers or None, not slice(1.5, None, None).",
    "x[::0]": "step must be greater than zero, not 0.",
    "x[::-1]": "step must be greater than zero, not -1.",
    "x[\"a\":]": "slice indices must be integers or None, not slice('a', None, None).",
    "x[[\"a\"]]": "only integers, slices (':'), ellipsis ('...'), None and tensors of integers or bools are valid",
    "x[[0,1],[0,1,1]]": "shape mismatch: indexing tensors could not be broadcast together with shapes [[2], [3]]",
    "x[l.tensor([True,False,True])]": "the shape of the mask [3] at index 0 does not match the shape of the indexed tensor [2, 2] at index",
    "!x[1.5]=1": "only integers, slices (':'), ellipsis ('...'), None and tensors of integers or bools are valid",
    "x.softmax()": "softmax(): missing a required argument: 'dim'",
    "x.softmax(\"a\")": "softmax(): argument 'dim' must be int, not str.",
    "x.softmax(5)": "[softmax] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.sum(\"a\")": "sum(): argument 'dim' must be int or tuple of ints, not str.",
    "x.sum(5)": "[sum] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.sum((0,0))": "[sum] a dim appears twice in (0, 0).",
    "x.sum(dtype=\"a\")": "unknown dtype 'a'. Known: bool, uint8, int8, uint16, int16, int32, uint32, int64, uint64, bfloat16, float16, float32, float64, complex64, complex128.",
    "x.sum(foo=1)": "sum(): got an unexpected keyword argument 'foo'",
    "x.reshape(\"a\")": "reshape(): argument 'shape' must be tuple of ints, not str.",
    "x.reshape(2.5)": "reshape(): argument 'shape' must be tuple of ints, not float.",
    "x.reshape(3)": "[reshape] shape (3,) is invalid for input of size 4 (shape (2, 2)).",
    "x.reshape(-1,-1)": "[reshape] only one dimension can be inferred",
    "x.reshape(-2,2)": "[reshape] invalid shape dimension -2",
    "x.reshape()": "[reshape] shape () is invalid for input of size 4 (shape (2, 2)).",
    "x.view(\"a\")": "view(): argument 'shape' must be tuple of ints, not str.",
    "x@3": "unsupported operand type(s) for @: 'Tensor' and 'int'.",
    "3@x": "unsupported operand type(s) for @: 'int' and 'Tensor'.",
    "x@v[:1]": "[matmul] cannot contract: a is (2, 2), b is (1,); a's last axis (2) != b's only (1).",
    "x.matmul(3)": "matmul(): argument 'other' must be Tensor, not int.",
    "l.arange(\"a\")": "arange(): argument 'start' must be float, not str.",
    "l.arange(0,5,0)": "[arange] step must be nonzero and all finite, but it is 0 to 5 by 0",
    "l.arange(0,5,-1)": "[arange] upper bound and lower bound inconsistent with step sign: 0 to 5 by -1",
    "l.arange(math.nan)": "[arange] step must be nonzero and all finite, but it is 0 to nan by 1",
    "l.arange(5,0)": "[arange] upper bound and lower bound inconsistent with step sign: 5 to 0 by 1",
    "l.linspace(0,1,-1)": "[linspace] number of steps must be non-negative, but it is -1",
    "l.linspace(0,1,2.5)": "linspace(): argument 'steps' must be int, not float.",
    "l.linspace(\"a\",1,2)": "linspace(): argument 'start' must be float, not str.",
    "l.eye(-1)": "[eye] sizes must be greater or equal to 0, got -1 and -1",
    "l.eye(2,-1)": "[eye] sizes must be greater or equal to 0, got 2 and -1",
    "l.eye(2.5)": "eye(): argument 'n' must be int, not float.",
    "l.rand(-1)": "rand(): negative size in (-1,).",
    "l.randn(\"a\")": "randn(): argument 'size' must be tuple of ints, not str.",
    "l.randint(5,2,(3,))": "random_ expects 'from' to be less than 'to', but got from=5 >= to=2",
    "l.randint(\"a\",2,(3,))": "randint(): argument 'low' must be int, not str.",
    "l.randint(0,2,3.5)": "randint(): argument 'size' must be tuple of ints, not float.",
    "l.randint(0,2,(-1,))": "randint(): negative size in (-1,).",
    "l.randperm(-1)": "[randperm] n must be non-negative, but it is -1",
    "l.randperm(2.5)": "randperm(): argument 'n' must be int, not float.",
    "l.manual_seed(\"a\")": "manual_seed(): argument 'seed' must be int, not str.",
    "l.cat(3)": "cat(): argument 'tensors' must be tuple of Tensors, not int.",
    "l.cat([x,3])": "cat(): argument 'tensors' must be tuple of Tensors, but element 1 is int.",
    "l.cat([])": "cat expects a non-empty TensorList",
    "l.cat(x)": "cat(): argument 'tensors' must be tuple of Tensors, not shadergrad.Tensor.",
    "l.cat([x,l.ones(3,3)])": "[cat] sizes must match except along axis 0: (2, 2), (3, 3).",
    "l.cat([x,l.ones(2,3)],5)": "[cat] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "l.cat([x,l.ones(2,2,2)])": "[cat] sizes must match except along axis 0: (2, 2), (2, 2, 2).",
    "l.cat([x,x],\"a\")": "cat(): argument 'dim' must be int, not str.",
    "l.cat([x,s])": "zero-dimensional tensor (at position 1) cannot be concatenated.",
    "l.stack([x,None])": "stack(): argument 'tensors' must be tuple of Tensors, but element 1 is None.",
    "l.stack([])": "stack expects a non-empty TensorList",
    "l.stack([x,v])": "stack expects each tensor to be equal size, but got [2, 2] at entry 0 and [2] at another",
    "l.stack([x,x],5)": "[stack] Dimension out of range (expected to be in range of [-3, 2], but got 5)",
    "l.hstack(3)": "hstack(): argument 'tensors' must be tuple of Tensors, not int.",
    "l.hstack([])": "hstack expects a non-empty TensorList",
    "l.vstack([])": "vstack expects a non-empty TensorList",
    "l.vstack([x,3])": "vstack(): argument 'tensors' must be tuple of Tensors, but element 1 is int.",
    "l.einsum(\"ij,jk\",x)": "[einsum] 'ij,jk' names 2 operands, got 1.",
    "l.einsum(3,x)": "einsum(): argument 'equation' must be str, not int.",
    "l.einsum(\"ij\",3)": "einsum(): argument 'operands' must be Tensor or tuple of Tensors, not int.",
    "l.einsum(\"i1\",x)": "[einsum] 'i1': 'i1' does not fit an operand of shape (2, 2).",
    "l.einsum(\"ij->ik\",x)": "[einsum] 'ij->ik': the output repeats a label, or names one that no operand has.",
    "l.einsum(\"ijk\",x)": "[einsum] 'ijk': 'ijk' does not fit an operand of shape (2, 2).",
    "l.einsum(\"ij,jk\",x,l.ones(3,2))": "[einsum] 'ij,jk': 'j' has sizes 2 and 3.",
    "l.einsum(\"ij\")": "[einsum] 'ij' names 1 operands, got 0.",
    "l.einsum(\"ij->ii\",x)": "[einsum] 'ij->ii': the output repeats a label, or names one that no operand has.",
    "l.where(x,1,2)": "where expected condition to be a boolean tensor, but got a tensor with dtype float32",
    "l.where(x>0,\"a\",2)": "where(): argument 'input' must be Tensor or Number, not str.",
    "l.where(3,1,2)": "where(): argument 'condition' must be Tensor, not int.",
    "l.where(x>0,1)": "where(): argument 'other' must be Tensor or Number, not None.",
    "l.where(l.tensor([True]*3),x,x)": "[where] the condition (3,) does not broadcast with (2, 2).",
    "l.meshgrid(3)": "meshgrid(): argument 'tensors' must be Tensor or tuple of Tensors, not int.",
    "l.meshgrid(v,indexing=\"a\")": "[meshgrid] indexing must be one of \"xy\" or \"ij\", but received: a",
    "l.meshgrid()": "meshgrid expects a non-empty TensorList",
    "l.tensordot(x,x,5)": "[tensordot] dims is 5; the tensors have 2 and 2 dimensions.",
    "l.tensordot(x,3)": "tensordot(): argument 'b' must be Tensor, not int.",
    "l.tensordot(x,x,\"a\")": "tensordot(): argument 'dims' must be int or tuple of tuples of ints, not str.",
    "l.tensordot(x,x,[[0],[5]])": "[tensordot] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "l.broadcast_tensors(x,3)": "broadcast_tensors(): argument 'tensors' must be Tensor, not int.",
    "l.broadcast_tensors(x,l.ones(3))": "The shapes of the operands do not broadcast: (2, 2), (3,).",
    "l.broadcast_shapes((2,),(3,))": "The shapes of the operands do not broadcast: (2,), (3,).",
    "l.broadcast_shapes(\"a\")": "broadcast_shapes(): argument 'shapes' must be int or tuple of ints, not str.",
    "l.finfo(\"a\")": "unknown dtype 'a'. Known: bool, uint8, int8, uint16, int16, int32, uint32, int64, uint64, bfloat16, float16, float32, float64, complex64, complex128.",
    "l.finfo(l.int32)": "finfo() requires a floating point dtype, not int32.",
    "l.iinfo(l.float32)": "iinfo() requires an integer dtype, not float32.",
    "l.is_tensor()": "is_tensor(): missing a required argument: 'obj'",
    "l.zeros_like(3)": "zeros_like(): argument 'x' must be Tensor, not int.",
    "l.zeros_like(x,foo=1)": "zeros_like(): got an unexpected keyword argument 'foo'",
    "l.full_like(x,\"a\")": "full_like(): argument 'fill_value' must be Number, not str.",
    "l.rand_like(i)": "[rand] random numbers are floating, not int32.",
    "l.from_numpy(3)": "from_numpy(): argument 'array' must be numpy.ndarray, not int.",
    "l.from_numpy([1.])": "from_numpy(): argument 'array' must be numpy.ndarray, not list.",
    "l.from_numpy(np.array([\"a\"]))": "cannot make a tensor of an array of <U1: give one of numbers or bools.",
    "l.as_tensor(\"a\")": "cannot make a tensor of str: give numbers, or sequences of them.",
    "l.set_default_device(3.5)": "set_default_device(): argument 'name' must be str, not float",
    "l.device(\"nonsense\")": "unknown device 'nonsense'. Known: cpu, webgpu (or webgpu:N for the N-th adapter).",
    "l.device(None)": "device(): argument 'device' must be str, not None.",
    "l.manual_seed(None)": "manual_seed(): argument 'seed' must be int, not None.",
    "l.set_grad_enabled(\"a\")": "set_grad_enabled(): argument 'enabled' must be bool, not str.",
    "l.Generator(\"nonsense\")": "unknown device 'nonsense'. Known: cpu, webgpu (or webgpu:N for the N-th adapter).",
    "l.Generator(\"cpu\").manual_seed(\"a\")": "manual_seed(): argument 'seed' must be int, not str.",
    "l.load(3)": "load(): argument 'path' must be str or Path or a file, not int.",
    "l.load(\"/nonexistent\")": "there is no checkpoint /nonexistent. Check the path, or train from the start.",
    "l.save(3)": "save(): missing a required argument: 'path'",
    "l.compile(3)": "compile(): argument 'model' must be a function or a module, not int.",
    "x.expand(\"a\")": "expand(): argument 'size' must be tuple of ints, not str.",
    "x.expand(3,3)": "[expand] the expanded size (3) must match the existing size (2) at dimension 0: (2, 2) to (3, 3).",
    "x.expand(2)": "[expand] the number of sizes provided (1) must be greater or equal to the number of dimensions (2)",
    "x.expand(-1,-1,2)": "[expand] -1 is not allowed in a leading, non-existing dimension",
    "x.expand(-2,2)": "[expand] the expanded size (-2) must match the existing size (2) at dimension 0: (2, 2) to (-2, 2).",
    "x.broadcast_to(3)": "broadcast_to(): argument 'shape' must be tuple of ints, not int.",
    "x.permute(0,0)": "[permute] axes (0, 0) do not name each axis of shape (2, 2) once.",
    "x.permute(0)": "[permute] 1 dims for a tensor of 2.",
    "x.permute(0,5)": "[permute] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.permute(\"a\",\"b\")": "permute(): argument 'dims' must be tuple of ints, not str.",
    "x.transpose(0,5)": "[transpose] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.transpose(\"a\",0)": "transpose(): argument 'dim0' must be int, not str.",
    "x.transpose(0)": "transpose(): missing a required argument: 'dim1'",
    "x.movedim(0,5)": "[movedim] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.movedim((0,1),(0,))": "movedim: source (0, 1) and destination (0,) must name as many axes, each once.",
    "x.movedim((0,0),(0,1))": "movedim: source (0, 0) and destination (0, 1) must name as many axes, each once.",
    "x.movedim(\"a\",0)": "movedim(): argument 'source' must be int or tuple of ints, not str.",
    "x.flatten(5)": "[flatten] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.flatten(1,0)": "flatten() has invalid args: start_dim cannot come after end_dim",
    "x.flatten(\"a\")": "flatten(): argument 'start_dim' must be int, not str.",
    "x.unflatten(0,(3,))": "unflatten: Provided sizes [3] don't multiply up to the size of dim 0 (2) in the input tensor",
    "x.unflatten(0,(-1,-1))": "unflatten: Provided sizes [-1, -1] don't multiply up to the size of dim 0 (2) in the input tensor",
    "x.unflatten(0,3)": "unflatten(): argument 'sizes' must be tuple of ints, not int.",
    "x.unflatten(0,())": "unflatten: Provided sizes [] don't multiply up to the size of dim 0 (2) in the input tensor",
    "x.squeeze(5)": "[squeeze] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.squeeze(\"a\")": "squeeze(): argument 'dim' must be int or tuple of ints, not str.",
    "x.unsqueeze(5)": "[unsqueeze] Dimension out of range (expected to be in range of [-3, 2], but got 5)",
    "x.unsqueeze(\"a\")": "unsqueeze(): argument 'dim' must be int, not str.",
    "x.unsqueeze(None)": "unsqueeze(): argument 'dim' must be int, not None.",
    "l.ones(2,2,2).t()": "t() expects a tensor with <= 2 dimensions, but self is 3D",
    "x.flip(5)": "[flip] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.flip(\"a\")": "flip(): argument 'dims' must be tuple of ints, not str.",
    "x.flip(0,0)": "[flip] a dim appears twice in (0, 0).",
    "v.fliplr()": "fliplr(): input must be >= 2-d, but its shape is (2,).",
    "s.flipud()": "[flipud] a tensor of shape () has no axis.",
    "x.repeat(2)": "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
    "x.repeat(-1,2)": "[repeat] invalid shape dimension -2",
    "x.repeat(\"a\")": "repeat(): argument 'repeats' must be tuple of ints, not str.",
    "x.tile(\"a\")": "tile(): argument 'dims' must be tuple of ints, not str.",
    "x.tile(-1)": "[repeat] invalid shape dimension -2",
    "x.repeat_interleave(\"a\")": "repeat_interleave(): argument 'repeats' must be int or Tensor, not str.",
    "x.repeat_interleave(-1)": "repeats must be non-negative, but got -1",
    "x.repeat_interleave(2,5)": "[repeat_interleave] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.repeat_interleave(None)": "repeat_interleave(): argument 'repeats' must be int or Tensor, not None.",
    "x.unfold(0,3,1)": "maximum size for tensor at dimension 0 is 2 but size is 3; step is 1",
    "x.unfold(0,1,0)": "maximum size for tensor at dimension 0 is 2 but size is 1; step is 0",
    "x.unfold(0,-1,1)": "[window] windows of -1 elements, 1 apart, every 1, do not fit axis 0 of (2, 2).",
    "x.unfold(5,1,1)": "[unfold] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.unfold(\"a\",1,1)": "unfold(): argument 'dimension' must be int, not str.",
    "x.narrow(0,0,5)": "[narrow] start (0) + length (5) exceeds dimension size (2), or is negative.",
    "x.narrow(0,5,1)": "[narrow] start out of range (expected to be in range of [-2, 2], but got 5)",
    "x.narrow(5,0,1)": "[narrow] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.narrow(0,-3,1)": "[narrow] start out of range (expected to be in range of [-2, 2], but got -3)",
    "x.narrow(0,0,-1)": "[narrow] start (0) + length (-1) exceeds dimension size (2), or is negative.",
    "x.narrow(\"a\",0,1)": "narrow(): argument 'dim' must be int, not str.",
    "x.select(0,5)": "index 5 is out of bounds for dimension 0 with size 2",
    "x.select(5,0)": "[select] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.select(0,\"a\")": "select(): argument 'index' must be int, not str.",
    "x.unbind(5)": "[unbind] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.unbind(\"a\")": "unbind(): argument 'dim' must be int, not str.",
    "s.unbind()": "unbind() cannot be applied to a 0-dim tensor.",
    "x.split(0)": "split expects split_size be positive",
    "x.split(-1)": "split expects split_size be positive",
    "x.split([1,2])": "split_with_sizes expects split_sizes to sum exactly to 2 (input tensor's size at dimension 0), but",
    "x.split([3,-1])": "split_with_sizes expects split_sizes have only non-negative entries, but got [3, -1]",
    "x.split(\"a\")": "split(): argument 'split_size' must be int or tuple of ints, not str.",
    "x.split(1,5)": "[split] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "s.split(1)": "split() cannot be applied to a 0-dim tensor.",
    "x.chunk(0)": "chunk expects `chunks` to be greater than 0, got: 0",
    "x.chunk(-1)": "chunk expects `chunks` to be greater than 0, got: -1",
    "x.chunk(\"a\")": "chunk(): argument 'chunks' must be int, not str.",
    "x.chunk(2,5)": "[chunk] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "s.chunk(1)": "chunk() cannot be applied to a 0-dim tensor.",
    "x.roll(\"a\")": "roll(): argument 'shifts' must be int or tuple of ints, not str.",
    "x.roll((1,2))": "[roll] several shifts want as many dims.",
    "x.roll(1,5)": "[roll] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.roll((1,2),0)": "shifts and dimensions must align. shifts: 2, dims:1",
    "x.index_select(0,3)": "index_select(): argument 'index' must be Tensor, not int.",
    "x.index_select(0,v)": "[index] positions are float32, not integers.",
    "x.index_select(0,x)": "index_select(): Index is supposed to be a vector, but has shape (2, 2).",
    "x.index_select(5,i)": "[index_select] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.index_select(0,l.tensor([5])).sum().item()": "[gather] index 5 is out of range for an axis of size 2.",
    "x.gather(0,v)": "Index tensor must have the same number of dimensions as input tensor",
    "x.gather(0,x)": "gather(): Expected dtype int32/int64 for index",
    "x.gather(0,i)": "Index tensor must have the same number of dimensions as input tensor",
    "x.gather(5,l.zeros(2,2,dtype=i.dtype))": "[gather] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.gather(0,3)": "gather(): argument 'index' must be Tensor, not int.",
    "x.gather(0,l.zeros(2,3,dtype=i.dtype))": "Size does not match at dimension: index (2, 3) is larger than (2, 2) apart from dimension 0",
    "x.gather(\"a\",i)": "gather(): argument 'dim' must be int, not str.",
    "x.gather(0,l.zeros(2,2,dtype=i.dtype)+9).sum().item()": "[gather] index 9 is out of range for an axis of size 2.",
    "x.scatter(0,i,1.0)": "Index tensor must have the same number of dimensions as self tensor",
    "x.scatter(0,x,1.0)": "[scatter_add] positions are float32, not integers.",
    "x.scatter(0,l.zeros(2,2,dtype=i.dtype),\"a\")": "scatter(): argument 'src' must be Tensor or Number, not str.",
    "x.scatter(0,l.zeros(2,2,dtype=i.dtype),i)": "scatter(): Expected self.dtype to be equal to src.dtype, got float32 and int32.",
    "x.scatter(0,l.zeros(2,2,dtype=i.dtype),l.ones(1,1))": "[scatter] index (2, 2) is larger than src (1, 1).",
    "x.scatter(0,l.zeros(2,3,dtype=i.dtype),1.)": "[scatter] index (2, 3) is larger than self (2, 2) apart from dimension 0.",
    "x.scatter_add(0,l.zeros(2,2,dtype=i.dtype),3)": "scatter_add(): argument 'src' must be Tensor, not int.",
    "x.scatter_add(0,x,x)": "[scatter_add] positions are float32, not integers.",
    "x.scatter_add(0,l.zeros(2,2,dtype=i.dtype),l.ones(1,1))": "[scatter_add] index (2, 2) is larger than src (1, 1).",
    "x.scatter_add(0,l.zeros(2,2,dtype=i.dtype),l.tensor([[1,2],[3,4]]))": "scatter_add(): Expected self.dtype to be equal to src.dtype, got float32 and int32.",
    "x.scatter_add(0,l.zeros(2,3,dtype=i.dtype),l.ones(2,3))": "[scatter_add] index (2, 3) is larger than self (2, 2) apart from dimension 0.",
    "x.index_add(0,i,3)": "index_add(): argument 'source' must be Tensor, not int.",
    "x.index_add(0,i,v)": "[index_add] for 2 positions along dimension 0 of (2, 2) the source must be (2, 2), not (2,).",
    "x.index_add(0,v,x)": "[scatter_add] positions are float32, not integers.",
    "x.index_add(5,i,x)": "[index_add] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.index_add(0,l.tensor([0]),x)": "[index_add] for 1 positions along dimension 0 of (2, 2) the source must be (1, 2), not (2, 2).",
    "x.index_add(0,i,x,alpha=\"a\")": "index_add(): argument 'alpha' must be float, not str.",
    "x.index_fill(0,v,1.)": "index_fill(): argument 'index' must be of integers, not float32.",
    "x.index_fill(0,i,\"a\")": "index_fill(): argument 'value' must be Tensor or Number, not str.",
    "x.index_fill(5,i,1.)": "[index_fill] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.index_fill(0,x,1.)": "index_fill(): argument 'index' must be of integers, not float32.",
    "x.take_along_dim(v,0)": "[take_along_dim] input and indices should have the same number of dimensions, but got 2 and 1",
    "x.take_along_dim(3,0)": "take_along_dim(): argument 'indices' must be Tensor, not int.",
    "x.take_along_dim(i,0)": "[take_along_dim] input and indices should have the same number of dimensions, but got 2 and 1",
    "x.masked_fill(x,1.)": "masked_fill only supports boolean masks, but got mask with dtype float32",
    "x.masked_fill(3,1.)": "masked_fill(): argument 'mask' must be Tensor, not int.",
    "x.masked_fill(x>0,\"a\")": "masked_fill(): argument 'value' must be Tensor or Number, not str.",
    "x.masked_fill(x>0,v)": "[masked_fill] value must be a number or a tensor of shape (), got (2,).",
    "x.masked_fill(l.tensor([True]*3),1.)": "[where] the condition (3,) does not broadcast with (2, 2).",
    "x.masked_scatter(x,x)": "[masked_scatter] the mask must be of bools, not float32, and self and source of the same dtype, not",
    "x.masked_scatter(x>0,3)": "masked_scatter(): argument 'source' must be Tensor, not int.",
    "x.masked_scatter(x>0,v)": "[masked_scatter] the mask holds in 3 places or more, but the source has 2 elements.",
    "x.masked_select(x)": "masked_select: expected BoolTensor for mask, not float32.",
    "x.masked_select(3)": "masked_select(): argument 'mask' must be Tensor, not int.",
    "x.masked_select(l.tensor([True]*3))": "[masked_select] the shapes (2, 2) and (3,) do not broadcast.",
    "x.nonzero(as_tuple=1)": "nonzero(): argument 'as_tuple' must be bool, not int.",
    "v.diagonal()": "[diagonal] Dimension out of range (expected to be in range of [-1, 0], but got 1)",
    "x.diagonal(0,0,0)": "diagonal dimensions cannot be identical",
    "x.diagonal(0,0,5)": "[diagonal] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.diagonal(\"a\")": "diagonal(): argument 'offset' must be int, not str.",
    "s.diag()": "diag(): Supports 1D or 2D tensors. Got 0D",
    "l.ones(2,2,2).diag()": "diag(): Supports 1D or 2D tensors. Got 3D",
    "x.diag(\"a\")": "diag(): argument 'diagonal' must be int, not str.",
    "v.trace()": "trace: expected a matrix, but got tensor with dim 1",
    "v.tril()": "input must have at least 2 dimensions, not shape (2,)",
    "s.triu()": "input must have at least 2 dimensions, not shape ()",
    "x.tril(\"a\")": "tril(): argument 'diagonal' must be int, not str.",
    "s.diff()": "diff expects input to be at least one-dimensional",
    "x.diff(-1)": "[diff] order must be non-negative but got -1",
    "x.diff(\"a\")": "diff(): argument 'n' must be int, not str.",
    "x.diff(1,5)": "[diff] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.diff(prepend=3)": "diff(): argument 'prepend' must be Tensor, not int.",
    "x.sort(5)": "[argsort] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.sort(\"a\")": "sort(): argument 'dim' must be int, not str.",
    "x.sort(descending=\"a\")": "sort(): argument 'descending' must be bool, not str.",
    "x.argsort(5)": "[argsort] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.topk(99)": "[topk] selected index k out of range: k is 99, the axis has 2 elements.",
    "x.topk(-1)": "[topk] selected index k out of range: k is -1, the axis has 2 elements.",
    "x.topk(\"a\")": "topk(): argument 'k' must be int, not str.",
    "x.topk(1,5)": "[topk] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "s.topk(2)": "[topk] selected index k out of range: k is 2, the axis has 1 elements.",
    "x.kthvalue(5)": "[kthvalue] selected number k out of range for dimension -1: 5.",
    "x.kthvalue(0)": "[kthvalue] selected number k out of range for dimension -1: 0.",
    "x.kthvalue(\"a\")": "kthvalue(): argument 'k' must be int, not str.",
    "x.median(5)": "[median] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.median(\"a\")": "median(): argument 'dim' must be int, not str.",
    "l.zeros(0,2).median(0)": "[median] expected a non-empty axis, but the shape is (0, 2).",
    "x.quantile(2.0)": "quantile() q must be a scalar or a 1-d tensor with values in the range [0, 1]",
    "x.quantile(\"a\")": "quantile(): argument 'q' must be float or Tensor, not str.",
    "x.quantile(-1)": "quantile() q must be a scalar or a 1-d tensor with values in the range [0, 1]",
    "x.quantile(math.nan)": "quantile() q must be a scalar or a 1-d tensor with values in the range [0, 1]",
    "x.quantile(0.5,5)": "[quantile] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "i.quantile(0.5)": "quantile() input tensor must be either float or double dtype",
    "l.zeros(0).quantile(0.5)": "quantile() input tensor must be non-empty, but its shape is (0,).",
    "x.quantile(x)": "quantile() q must be a scalar or a 1-d tensor with values in the range [0, 1]",
    "x.bucketize(x)": "boundaries tensor must be 1 dimension, but got dim(2)",
    "x.bucketize(3)": "bucketize(): argument 'boundaries' must be Tensor, not int.",
    "v.searchsorted(\"a\")": "searchsorted(): argument 'values' must be Tensor or Number, not str.",
    "x.searchsorted(v)": "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input",
    "x.searchsorted(l.ones(3,1))": "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input",
    "x.clamp()": "[clamp] At least one of 'min' or 'max' must not be None",
    "x.clamp(\"a\")": "clamp(): argument 'min' must be Tensor or Number, not str.",
    "x.clamp(min=v,max=\"a\")": "clamp(): argument 'max' must be Tensor or Number, not str.",
    "x.clamp(l.ones(3))": "The shapes of the operands do not broadcast: (2, 2), (3,).",
    "x.add(y=\"a\")": "add(): missing a required argument: 'other'",
    "x.add(\"a\")": "add(): argument 'other' must be Tensor or Number, not str.",
    "x.add(x,alpha=\"a\")": "add(): argument 'alpha' must be Number, not str.",
    "x.add(l.ones(3))": "The shapes of the operands do not broadcast: (2, 2), (3,).",
    "x.sub(b)": "Subtraction, the `-` operator, with bools is not supported.",
    "b.sub(b)": "Subtraction, the `-` operator, with bools is not supported.",
    "b-b": "Subtraction, the `-` operator, with bools is not supported.",
    "-b": "Negation, the `-` operator, on a bool tensor is not supported.",
    "1-b": "Subtraction, the `-` operator, with bools is not supported.",
    "x.mul(None)": "mul(): argument 'other' must be Tensor or Number, not None.",
    "x.div(\"a\")": "div(): argument 'other' must be Tensor or Number, not str.",
    "x.div(2,rounding_mode=\"a\")": "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found 'a'",
    "x.div(2,rounding_mode=3)": "div(): argument 'rounding_mode' must be str, not int.",
    "x.pow(\"a\")": "pow(): argument 'exponent' must be Tensor or Number, not str.",
    "b.neg()": "Negation, the `-` operator, on a bool tensor is not supported.",
    "x.exp(3)": "exp(): too many positional arguments",
    "x.exp(foo=1)": "exp(): got an unexpected keyword argument 'foo'",
    "l.exp()": "exp(): missing a required argument: 'input'",
    "l.exp(3.0)": "exp(): argument 'input' must be Tensor, not float.",
    "l.exp(x,x)": "exp(): too many positional arguments",
    "l.exp(foo=1)": "exp(): missing a required argument: 'input'",
    "l.exp(input=3)": "exp(): argument 'input' must be Tensor, not int.",
    "l.sum(\"a\")": "sum(): argument 'input' must be Tensor, not str.",
    "l.softmax(x)": "softmax(): missing a required argument: 'dim'",
    "l.matmul(x,3)": "matmul(): argument 'other' must be Tensor, not int.",
    "l.max(\"a\")": "max(): argument 'input' must be Tensor, not str.",
    "x.atan2(3)": "atan2(): argument 'other' must be Tensor, not int.",
    "x.lerp(3,0.5)": "lerp(): argument 'end' must be Tensor, not int.",
    "x.lerp(x,\"a\")": "lerp(): argument 'weight' must be Tensor or Number, not str.",
    "x.lerp(x,None)": "lerp(): argument 'weight' must be Tensor or Number, not None.",
    "x.addcmul(x,3)": "addcmul(): argument 'tensor2' must be Tensor, not int.",
    "x.addcmul(x,x,value=\"a\")": "addcmul(): argument 'value' must be Number, not str.",
    "x.addcdiv(3,x)": "addcdiv(): argument 'tensor1' must be Tensor, not int.",
    "x.maximum(3)": "maximum(): argument 'other' must be Tensor, not int.",
    "x.minimum(\"a\")": "minimum(): argument 'other' must be Tensor, not str.",
    "x.logit(\"a\")": "logit(): argument 'eps' must be float, not str.",
    "x.xlogy(\"a\")": "xlogy(): argument 'other' must be Tensor or Number, not str.",
    "x.hypot(3)": "hypot(): argument 'other' must be Tensor, not int.",
    "x.logaddexp(3)": "logaddexp(): argument 'other' must be Tensor, not int.",
    "x.nan_to_num(\"a\")": "nan_to_num(): argument 'nan' must be float, not str.",
    "x.heaviside(3)": "heaviside(): argument 'values' must be Tensor, not int.",
    "x.heaviside(i)": "heaviside is not yet implemented for tensors with different dtypes: float32 and int32.",
    "x.round(decimals=\"a\")": "round(): argument 'decimals' must be int, not str.",
    "x.round(decimals=1.5)": "round(): argument 'decimals' must be int, not float.",
    "x.logical_and(3)": "logical_and(): argument 'other' must be Tensor, not int.",
    "x.logical_not(3)": "logical_not(): too many positional arguments",
    "x&x": "[and] is not defined for float32.",
    "x|1": "[or] is not defined for float32.",
    "~x": "[not] is not defined for float32.",
    "x<<1": "[shiftleft] is not defined for float32.",
    "x.bitwise_and(x)": "[and] is not defined for float32.",
    "x.bitwise_not()": "[not] is not defined for float32.",
    "x.bitwise_left_shift(\"a\")": "bitwise_left_shift(): argument 'other' must be Tensor or Number, not str.",
    "i&1.5": "[and] is not defined for float32.",
    "i&\"a\"": "unsupported operand type(s) for &: 'Tensor' and 'str'.",
    "i<<1.5": "[shiftleft] is not defined for float32.",
    "x.isclose(3)": "isclose(): argument 'other' must be Tensor, not int.",
    "x.isclose(i)": "[isclose] float32 did not match int32.",
    "x.isclose(x,rtol=\"a\")": "isclose(): argument 'rtol' must be float, not str.",
    "x.isclose(x,-1.)": "[isclose] rtol and atol must not be negative, but are -1.0 and 1e-08.",
    "x.allclose(3)": "allclose(): argument 'other' must be Tensor, not int.",
    "x.equal(3)": "equal(): argument 'other' must be Tensor, not int.",
    "x.mean(\"a\")": "mean(): argument 'dim' must be int or tuple of ints, not str.",
    "i.mean()": "mean(): could not infer output dtype. Input dtype must be a floating point dtype. Got: int32.",
    "x.mean(5)": "[mean] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.mean((0,0))": "[mean] a dim appears twice in (0, 0).",
    "x.amax(\"a\")": "amax(): argument 'dim' must be int or tuple of ints, not str.",
    "l.zeros(0).amax()": "[amax] expected a non-empty axis to reduce, but the shape is (0,).",
    "l.zeros(0).max()": "[max] expected a non-empty axis to reduce, but the shape is (0,).",
    "l.zeros(0).argmax()": "[argmax] expected a non-empty axis to reduce, but the shape is (0,).",
    "x.argmax(\"a\")": "argmax(): argument 'dim' must be int, not str.",
    "x.argmax(5)": "[argmax] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.max(\"a\")": "max(): argument 'dim' must be int or Tensor, not str.",
    "x.max(5)": "[max] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.max(0.5)": "max(): argument 'dim' must be int or Tensor, not float.",
    "x.max((0,1))": "max(): argument 'dim' must be int or Tensor, not tuple.",
    "x.aminmax(dim=\"a\")": "aminmax(): argument 'dim' must be int, not str.",
    "x.any(\"a\")": "any(): argument 'dim' must be int or tuple of ints, not str.",
    "x.any(5)": "[any] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.all(0,\"a\")": "all(): argument 'keepdim' must be bool, not str.",
    "x.var(\"a\")": "var(): argument 'dim' must be bool or int or tuple of ints, not str.",
    "x.var(5)": "[var] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "i.var()": "mean(): could not infer output dtype. Input dtype must be a floating point dtype. Got: int32.",
    "x.std(correction=\"a\")": "std(): argument 'correction' must be float, not str.",
    "x.var_mean(\"a\")": "var_mean(): argument 'dim' must be bool or int or tuple of ints, not str.",
    "x.logsumexp()": "logsumexp(): missing a required argument: 'dim'",
    "x.logsumexp(\"a\")": "logsumexp(): argument 'dim' must be int or tuple of ints, not str.",
    "x.logsumexp(5)": "[amax] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.prod(\"a\")": "prod(): argument 'dim' must be int, not str.",
    "x.prod((0,1))": "prod(): argument 'dim' must be int, not tuple.",
    "x.cumsum()": "cumsum(): missing a required argument: 'dim'",
    "x.cumsum(\"a\")": "cumsum(): argument 'dim' must be int, not str.",
    "x.cumsum(5)": "[cumsum] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.cumprod(None)": "cumprod(): argument 'dim' must be int, not None.",
    "x.count_nonzero(\"a\")": "count_nonzero(): argument 'dim' must be int or tuple of ints, not str.",
    "x.nansum(\"a\")": "nansum(): argument 'dim' must be int or tuple of ints, not str.",
    "x.nanmean(\"a\")": "nanmean(): argument 'dim' must be int or tuple of ints, not str.",
    "x.norm(\"a\")": "[norm] p is 'a'; known are 'fro', 'nuc' and numbers.",
    "x.norm([1])": "norm(): argument 'p' must be float or str, not list.",
    "x.norm(2,5)": "[sum] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.dist(3)": "dist(): argument 'other' must be Tensor, not int.",
    "x.dist(x,\"a\")": "dist(): argument 'p' must be float, not str.",
    "g.add_(1)": "a leaf Variable that requires grad is being used in an in-place operation (add_).",
    "x.add_(l.ones(3))": "The shapes of the operands do not broadcast: (2, 2), (3,).",
    "x.add_(\"a\")": "add_(): argument 'other' must be Tensor or Number, not str.",
    "x.exp_(3)": "exp_(): too many positional arguments",
    "x.clamp_()": "[clamp] At least one of 'min' or 'max' must not be None",
    "!x+=None": "add_(): argument 'other' must be Tensor or Number, not None.",
    "!x-=\"a\"": "sub_(): argument 'other' must be Tensor or Number, not str.",
    "x.copy_(\"a\")": "copy_(): argument 'source' must be Tensor or Number, not str.",
    "x.fill_(\"a\")": "fill_(): argument 'value' must be Number or Tensor, not str.",
    "x.fill_(v)": "fill_ only supports 0-dimension value tensor but got tensor with 1 dimensions.",
    "x.new_zeros(\"a\")": "zeros(): argument 'size' must be tuple of ints, not str.",
    "x.new_zeros(-1)": "zeros(): negative size in (-1,).",
    "x.new_full((2,),\"a\")": "new_full(): argument 'fill_value' must be Number, not str.",
    "x.new_ones(2,dtype=\"a\")": "unknown dtype 'a'. Known: bool, uint8, int8, uint16, int16, int32, uint32, int64, uint64, bfloat16, float16, float32, float64, complex64, complex128.",
    "x.new_tensor(\"a\")": "cannot make a tensor of str: give numbers, or sequences of them.",
    "x.numpy(3)": "numpy(): too many positional arguments",
    "x.numpy(foo=1)": "numpy(): got an unexpected keyword argument 'foo'",
    "x.item(3)": "item(): too many positional arguments",
    "x.tolist(3)": "tolist(): too many positional arguments",
    "x.size(\"a\")": "size(): argument 'dim' must be int, not str.",
    "x.size(5)": "[size] Dimension out of range (expected to be in range of [-2, 1], but got 5)",
    "x.dim(3)": "dim(): too many positional arguments",
    "x.numel(3)": "numel(): too many positional arguments",
    "x.detach(3)": "detach(): too many positional arguments",
    "x.clone(3)": "clone(): too many positional arguments",
    "x.type_as(3)": "type_as(): argument 'other' must be Tensor, not int.",
    "x.expand_as(3)": "expand_as(): argument 'other' must be Tensor, not int.",
    "x.view_as(3)": "view_as(): argument 'other' must be Tensor, not int.",
    "x.reshape_as(3)": "reshape_as(): argument 'other' must be Tensor, not int.",
    "x.uniform_(\"a\")": "uniform_(): argument 'from_' must be float, not str.",
    "x.uniform_(2,1)": "uniform_ expects to return a [from, to) range, but found from=2 > to=1",
    "x.normal_(0,-1)": "normal_ expects std >= 0.0, but found std -1",
    "x.normal_(\"a\")": "normal_(): argument 'mean' must be float, not str.",
    "x.bernoulli_(2.0)": "bernoulli_ expects p to be in [0, 1], but got p=2.0",
    "x.bernoulli_(\"a\")": "bernoulli_(): argument 'p' must be Tensor or float, not str.",
    "x.multinomial(99)": "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
    "x.multinomial(\"a\")": "multinomial(): argument 'num_samples' must be int, not str.",
    "x.multinomial(0)": "[multinomial] cannot sample n_sample <= 0 samples, but it is 0",
    "x.requires_grad_(3)": "requires_grad_(): argument 'requires_grad' must be bool, not int.",
    "i.requires_grad_()": "only Tensors of floating point and complex dtype can require gradients",
    "i.float(\"a\")": "float(): too many positional arguments",
    "x.long(3)": "long(): too many positional arguments",
    "s.backward()": "element 0 of tensors does not require grad and does not have a grad_fn",
    "g.backward()": "grad can be implicitly created only for scalar outputs",
    "g.sum().backward(v)": "Mismatch in shape: grad_output[0] has a shape of [2] and output[0] has a shape of [].",
    "x.retain_grad()": "can't retain_grad on Tensor that has requires_grad=False",
    "x.register_post_accumulate_grad_hook(print)": "cannot register a hook on a tensor that doesn't require gradient",
    "l.Tensor.exp(3.0)": "exp(): argument 'self' must be Tensor, not float.",
    "x.prelu(\"a\")": "prelu(): argument 'weight' must be Tensor, not str.",
    "x.mm(v)": "[mm] both must be matrices: (2, 2), (2,).",
    "x.mm(\"a\")": "mm(): argument 'mat2' must be Tensor, not str.",
    "x.bmm(x)": "[bmm] both must be batches of matrices of one size: (2, 2), (2, 2).",
    "x.mv(x)": "[mv] a matrix and a vector are wanted, not (2, 2) and (2, 2).",
    "x.dot(x)": "1D tensors expected, but got 2D and 2D tensors",
    "x.outer(v)": "[outer] vectors are wanted, not (2, 2) and (2,).",
    "x.outer(\"a\")": "outer(): argument 'vec2' must be Tensor, not str.",
    "x.inner(\"a\")": "inner(): argument 'other' must be Tensor, not str.",
    "x.addmm(x)": "addmm(): missing a required argument: 'mat2'",
    "x.addmm(x,\"a\")": "addmm(): argument 'mat2' must be Tensor, not str.",
    "x.addmm(x,x,beta=\"a\")": "addmm(): argument 'beta' must be float, not str.",
    "x.mm(i)": "[mm] both must be matrices: (2, 2), (2,).",
    "x.matmul(l.ones(3,3))": "[matmul] cannot contract: a is (2, 2), b is (3, 3); a's last axis (2) != b's second-last (3).",
    "l.abs(\"a\")": "abs(): argument 'input' must be Tensor, not str.",
    "l.clamp(3)": "clamp(): argument 'input' must be Tensor, not int.",
    "l.cat(tensors=[x,x],foo=1)": "cat(): got an unexpected keyword argument 'foo'",
    "l.zeros(2,foo=1)": "zeros(): got an unexpected keyword argument 'foo'",
    "l.ones(foo=2)": "ones(): got an unexpected keyword argument 'foo'",
    "l.arange()": "arange(): missing a required argument: 'end'",
    "l.arange(0,1,0.1,7,8)": "arange(): too many positional arguments",
    "l.full()": "full(): missing a required argument: 'size'",
    "l.full((2,),1,requires_grad=3)": "full(): argument 'requires_grad' must be bool, not int.",
    "l.tensor()": "tensor(): missing a required argument: 'data'",
    "l.tensor([1],foo=1)": "tensor(): got an unexpected keyword argument 'foo'",
    "l.tensor([1],dtype=\"a\")": "unknown dtype 'a'. Known: bool, uint8, int8, uint16, int16, int32, uint32, int64, uint64, bfloat16, float16, float32, float64, complex64, complex128.",
    "l.tensor([1],device=\"a\")": "unknown device 'a'. Known: cpu, webgpu (or webgpu:N for the N-th adapter).",
    "l.tensor([1],requires_grad=3)": "tensor(): argument 'requires_grad' must be bool, not int.",
    "l.tensor([1],requires_grad=True)": "only Tensors of floating point and complex dtype can require gradients",
    "l.eye()": "eye(): missing a required argument: 'n'",
    "l.stack(x,foo=1)": "stack(): argument 'tensors' must be tuple of Tensors, not shadergrad.Tensor.",
    "l.einsum()": "einsum(): missing a required argument: 'equation'",
    "l.relu(\"a\")": "relu(): argument 'input' must be Tensor, not str.",
    "l.topk(x,\"a\")": "topk(): argument 'k' must be int, not str.",
    "l.flatten(\"a\")": "flatten(): argument 'input' must be Tensor, not str.",
    "l.reshape(x,\"a\")": "reshape(): argument 'shape' must be tuple of ints, not str.",
    "l.transpose(x,0)": "transpose(): missing a required argument: 'dim1'",
    "l.is_floating_point(3)": "is_floating_point(): argument 'input' must be Tensor, not int.",
    "l.numel(3)": "numel(): argument 'input' must be Tensor, not int.",
    "l.argsort(\"a\")": "argsort(): argument 'input' must be Tensor, not str.",
    "l.zeros(math.nan)": "zeros(): argument 'size' must be tuple of ints, not float.",
    "l.zeros(2,math.inf)": "zeros(): argument 'size' must be tuple of ints, not float.",
    "l.zeros(None)": "zeros(): argument 'size' must be tuple of ints, not None.",
    "l.zeros({})": "zeros(): argument 'size' must be tuple of ints, not dict.",
    "l.rand(1.5)": "rand(): argument 'size' must be tuple of ints, not float.",
    "l.full((math.nan,),1)": "full(): argument 'size' must be tuple of ints, not float.",
    "l.full((2,),math.nan,dtype=i.dtype)": "value nan cannot be converted to int32 without overflow.",
    "l.full((2,),1<<70,dtype=i.dtype)": "value 1180591620717411303424 cannot be converted to int32 without overflow.",
    "x.reshape(math.nan)": "reshape(): argument 'shape' must be tuple of ints, not float.",
    "x.expand(True,2)": "expand(): argument 'size' must be tuple of ints, not bool.",
    "x.permute(True,0)": "permute(): argument 'dims' must be tuple of ints, not bool.",
    "x.narrow(0,True,1)": "narrow(): argument 'start' must be int or Tensor, not bool.",
    "x.sum(dim=True)": "sum(): argument 'dim' must be int or tuple of ints, not bool.",
    "x.unsqueeze(True)": "unsqueeze(): argument 'dim' must be int, not bool.",
    "x.flip(True)": "flip(): argument 'dims' must be tuple of ints, not bool.",
    "x.split(True)": "split(): argument 'split_size' must be int or tuple of ints, not bool.",
    "x.repeat(True)": "repeat(): argument 'repeats' must be tuple of ints, not bool.",
    "x.to(dtype=object())": "unknown dtype",
}  # fmt: skip

# What PyTorch takes and we refuse: there are no complex numbers and no float positions, arrays are no operands.
REFUSED: dict[str, str] = {
    "g.register_hook(3)": "register_hook(): argument 'hook' must be a function, not int.",
    "x[[0.5]]": "tensors used as indices must be of integers or bools, not float32.",
    "x[...,...]": "an index can only have a single ellipsis ('...')",
    "l.no_grad(\"a\")": "no_grad(): too many positional arguments",
    "l.zeros(0).median()": "[median] expected a non-empty axis, but the shape is (0,).",
    "!x*=np.ones(2)": "mul_(): argument 'other' must be Tensor or Number, not numpy.ndarray.",
}  # fmt: skip

# What programs catch. Of these calls PyTorch's kind is an accident of its parser, or of where it looks first.
CAUGHT = (ValueError, TypeError, RuntimeError, IndexError, KeyError, Exception)
ACCIDENTS = {
    "!x[0]=[1,2,3]",
    "l.tensor(1<<70)",
    '"a" in x',
    "x.to(device=3)",
    "x.register_hook(3)",
    "x.reshape()",
    'l.manual_seed("a")',
    'l.tensordot(x,x,"a")',
    "l.set_default_device(3.5)",
    'l.Generator("cpu").manual_seed("a")',
    "x.broadcast_to(3)",
    "x.gather(0,l.zeros(2,2,dtype=i.dtype)+9).sum().item()",
    "x.masked_scatter(x>0,v)",
    "l.einsum()",
}


def names(lib: Any) -> dict[str, Any]:
    return {
        "l": lib,
        "x": lib.ones(2, 2),
        "v": lib.tensor([1.0, 2.0]),
        "i": lib.tensor([0, 1]),
        "b": lib.tensor([True, False]),
        "s": lib.tensor(3.0),
        "g": lib.ones(2, 2).requires_grad_(),
        "np": np,
        "math": math,
    }


def run(lib: Any, call: str) -> None:
    """A call, or behind "!" a statement. The result is shown, so that what is found when values are computed is found."""
    if call.startswith("!"):
        exec(call[1:], names(lib))
    else:
        repr(eval(call, names(lib)))


@pytest.fixture(autouse=True)
def default_device() -> Iterator[None]:
    """Put back: where there is CUDA, PyTorch takes a number for one."""
    yield
    torch.set_default_device(None)


@pytest.mark.parametrize("call", BAD)
@pytest.mark.filterwarnings("ignore")
def test_a_bad_call_is_refused_as_pytorch_refuses_it(call: str) -> None:
    with pytest.raises(Exception) as theirs:
        run(torch, call)
    with pytest.raises(sg.ShadergradError) as ours:
        run(sg, call)
    message = str(ours.value)
    assert BAD[call] in message
    assert "\n" not in message
    if call not in ACCIDENTS:
        expected = next(k for k in type(theirs.value).__mro__ if k in CAUGHT)
        assert isinstance(ours.value, expected), f"PyTorch raises {type(theirs.value).__name__}: {theirs.value}"


@pytest.mark.parametrize("call", REFUSED)
def test_what_we_do_not_have_is_refused_in_a_line(call: str) -> None:
    with pytest.raises(sg.ShadergradError) as ours:
        run(sg, call)
    assert REFUSED[call] in str(ours.value)
    assert "\n" not in str(ours.value)


# ---------------------------------------------------------------------------------- every method and function


class Nonsense:
    """Of no use as any argument."""

    def __repr__(self) -> str:
        return "nonsense"


METHODS = {n: f for n, f in tensor_methods() if isinstance(f, types.FunctionType)}
FUNCTIONS = {
    f"sg.{n}": getattr(sg, n)
    for n in public_names(sg)
    if isinstance(getattr(sg, n), types.FunctionType) and not getattr(sg, n).__module__.startswith("shadergrad.nn")
}


def called(name: str, /, **options: Any) -> Any:
    """A method on a tensor of one axis, or a function, with these arguments and nothing else."""
    if name in METHODS:
        return METHODS[name](sg.ones(2), **options)
    return FUNCTIONS[name](**options)


def complaint(name: str, words: str, /, **options: Any) -> str:
    """What is wrong with how a function refuses these arguments: in a line that begins with its name and has such words."""
    try:
        called(name, **options)
    except sg.ShadergradError as error:
        text = str(error)
        begins = text.startswith(f"{name.rpartition('.')[2]}()")
        good = begins and re.search(words, text) and "\n" not in text and isinstance(error, TypeError)
        return "" if good else f"{name}({', '.join(options)}): {type(error).__name__}: {text}"
    except Exception as error:
        return f"{name}({', '.join(options)}): a bare {error!r}"
    return f"{name}({', '.join(options)}) is taken"


def test_an_unknown_argument_is_refused_by_name() -> None:
    words = r"unexpected keyword argument 'nonsense'|missing a required argument"
    complaints = [
        complaint(name, words, nonsense=3)
        for name, function in {**METHODS, **FUNCTIONS}.items()
        if not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())
    ]
    assert len(complaints) > 800
    assert not any(complaints), "\n".join(filter(None, complaints))


def test_an_argument_of_no_use_is_refused_by_name() -> None:
    """Each argument in turn, the others left out: it is looked at first, whatever else is wrong."""
    complaints: list[str] = []
    for name, function in {**METHODS, **FUNCTIONS}.items():
        parameters = list(inspect.signature(function).parameters.values())[1 if name in METHODS else 0 :]
        for p in parameters:
            unlooked_at = "Any" in str(p.annotation) or p.annotation in (inspect.Parameter.empty, "object")
            if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) or unlooked_at or p.name == "self":
                continue
            complaints.append(complaint(name, f"'{p.name}'", **{p.name: Nonsense()}))
    assert len(complaints) > 1000
    assert not any(complaints), "\n".join(filter(None, complaints))


def test_numbers_that_are_not_pythons_own_are_taken() -> None:
    x: Any = sg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum(np.int64(0)).tolist() == [4.0, 6.0]
    assert x.sum(sg.tensor(0)).tolist() == [4.0, 6.0]
    assert x.sum((np.int32(0), 1)).item() == 10.0
    assert x.add(np.float32(1), alpha=np.float64(2)).tolist() == [[3.0, 4.0], [5.0, 6.0]]
    assert x.clamp(min=sg.tensor(2.0)).tolist() == [[2.0, 2.0], [3.0, 4.0]]
    assert sg.zeros(np.int64(2), sg.tensor(3)).shape == (2, 3)
    assert sg.zeros(np.array([2, 3])).shape == (2, 3)
    assert x[np.int64(1)].tolist() == [3.0, 4.0]
    assert (np.float32(2) * x).tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert isinstance(np.float32(2) * x, sg.Tensor)


class Metres:
    """A class of a user's that knows what to do with a tensor."""

    def __radd__(self, other: Any) -> str:
        return "metres"

    def __rmatmul__(self, other: Any) -> str:
        return "metres"


def test_an_operator_leaves_other_classes_to_what_they_know() -> None:
    assert sg.ones(2) + Metres() == "metres"
    assert sg.ones(2) @ Metres() == "metres"
    assert (sg.ones(2) == "a") is False
    assert (sg.ones(2) != None) is True  # noqa: E711
    unknown: Any = Metres()
    with pytest.raises(TypeError):
        operator.sub(sg.ones(2), unknown)
