"""Calls that make no sense: PyTorch refuses them, and so do we, in one line that names the argument and its value.

Every call runs against both libraries. Where PyTorch's exception is of a kind that programs catch, ours is of that kind.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn, optim
from shadergrad.optim import lr_scheduler

OURS = types.SimpleNamespace(
    nn=nn,
    F=F,
    optim=optim,
    s=lr_scheduler,
    top=sg,
    ones=sg.ones,
    zeros=sg.zeros,
    tensor=sg.tensor,
    int=sg.int32,
    double=sg.float64,
)
THEIRS = types.SimpleNamespace(
    nn=torch.nn,
    F=torch.nn.functional,
    optim=torch.optim,
    s=torch.optim.lr_scheduler,
    top=torch,
    ones=torch.ones,
    zeros=torch.zeros,
    tensor=torch.tensor,
    int=torch.int64,
    double=torch.float64,
)
Call = Callable[[Any], Any]


def image(lib: Any) -> Any:
    return lib.ones(1, 4, 6, 6)


def kernel(lib: Any) -> Any:
    return lib.ones(4, 4, 3, 3)


def param(lib: Any) -> Any:
    return lib.ones(2, 2).requires_grad_()


def sgd(lib: Any, **options: Any) -> Any:
    return lib.optim.SGD([param(lib)], lr=0.1, **options)


# name: the call, and what the message must say of it
BAD: dict[str, tuple[Call, str]] = {
    # tensors
    "add of a word": (lambda lib: lib.ones(2).add("a"), "str"),
    "add of None": (lambda lib: lib.ones(2).add(None), "'other' must be Tensor or Number, not None"),
    "mul of list": (lambda lib: lib.ones(2).mul([1.0, 2.0]), "list"),
    "eq of a word": (lambda lib: lib.ones(2).eq("a"), "str"),
    "subtraction of True": (lambda lib: lib.ones(2) - True, "bools"),
    "subtraction from a mask": (lambda lib: 1 - lib.tensor([True]), "bools"),
    "clamp word": (lambda lib: lib.ones(2).clamp("a"), "str"),
    "round decimals of integers": (lambda lib: lib.tensor([15]).round(decimals=-1), "decimals=-1"),
    "masked_fill values": (lambda lib: lib.ones(2).masked_fill(lib.tensor([True, False]), lib.ones(2)), "(2,)"),
    "isclose tolerance": (lambda lib: lib.ones(2).isclose(lib.ones(2), rtol=-1.0), "-1.0"),
    **{f"{n} of float": (lambda lib, n=n: getattr(lib.ones(2), n)(4.0), f"{n}(): argument '{'values' if n == 'heaviside' else 'other'}' must be Tensor, not float") for n in ("atan2", "heaviside", "hypot", "isclose", "logaddexp", "logical_and", "logical_or", "logical_xor", "reshape_as", "view_as", "expand_as")},
    "where condition": (lambda lib: lib.top.where(True, lib.ones(2), lib.ones(2)), "'condition' must be Tensor, not bool"),
    "zeros size float": (lambda lib: lib.zeros(2.5), "tuple of ints, not float"),
    "zeros sizes float": (lambda lib: lib.zeros(2, 2.5), "tuple of ints, not float"),
    "reshape float": (lambda lib: lib.ones(6).reshape(2, 3.0), "tuple of ints, not float"),
    "reshape word": (lambda lib: lib.ones(6).reshape("a"), "tuple of ints, not str"),
    "sum axis word": (lambda lib: lib.ones(2).sum("a"), "'dim' must be int or tuple of ints, not str"),
    "flatten axis float": (lambda lib: lib.ones(2, 3).flatten(0.5), "'start_dim' must be int, not float"),
    "flatten 0-d": (lambda lib: lib.tensor(1.0).flatten(1), "[-1, 0]"),
    "squeeze axis float": (lambda lib: lib.ones(1).squeeze(0.0), "'dim' must be int or tuple of ints, not float"),
    "unsqueeze None": (lambda lib: lib.ones(1).unsqueeze(None), "None"),
    "unsqueeze range": (lambda lib: lib.ones(1).unsqueeze(3), "[-2, 1]"),
    "unflatten 0-d": (lambda lib: lib.tensor(1.0).unflatten(0, (1,)), "()"),
    "unflatten sizes": (lambda lib: lib.ones(2).unflatten(0, 2), "must be tuple of ints, not int"),
    "transpose 0-d": (lambda lib: lib.tensor(1.0).transpose(0, 1), "[-1, 0]"),
    "movedim lengths": (lambda lib: lib.ones(2, 3).movedim((0, 1), (1,)), "(0, 1)"),
    "movedim twice": (lambda lib: lib.ones(2, 3).movedim((0, 1), (1, 1)), "(1, 1)"),
    "expand negative": (lambda lib: lib.ones(1).expand(-2), "-2"),
    "broadcast_to": (lambda lib: lib.ones(3).broadcast_to((2,)), "(3,)"),
    "flipud 0-d": (lambda lib: lib.tensor(1.0).flipud(), "()"),
    "prelu weight 2D": (lambda lib: lib.ones(1, 2).prelu(lib.ones(1, 2)), "ndim = 2"),
    "prelu weight float": (lambda lib: lib.ones(2).prelu(0.5), "'weight' must be Tensor, not float"),
    "cat of a tensor": (lambda lib: lib.top.cat(lib.ones(2, 2)), "must be tuple of Tensors, not shadergrad.Tensor"),
    "cat of a number": (lambda lib: lib.top.cat(5), "must be tuple of Tensors, not int"),
    "cat of none": (lambda lib: lib.top.cat([]), "non-empty"),
    **{f"{n} with a number": (lambda lib, n=n: getattr(lib.top, n)([lib.ones(1), 2]), "but element 1 is int") for n in ("cat", "stack", "hstack", "vstack", "meshgrid")},
    "broadcast_tensors with a number": (lambda lib: lib.top.broadcast_tensors(lib.ones(1), 2), "'tensors' must be Tensor, not int"),
    "hstack of none": (lambda lib: lib.top.hstack([]), "hstack expects a non-empty"),
    "meshgrid of matrices": (lambda lib: lib.top.meshgrid(lib.ones(1, 2), lib.ones(2), indexing="ij"), "(1, 2)"),
    "meshgrid of none": (lambda lib: lib.top.meshgrid(), "non-empty"),
    "broadcast_tensors": (lambda lib: lib.top.broadcast_tensors(lib.ones(2), lib.ones(3)), "(2,), (3,)"),
    "broadcast_shapes": (lambda lib: lib.top.broadcast_shapes((2,), (3,)), "(2,), (3,)"),
    "finfo of integers": (lambda lib: lib.top.finfo(lib.top.int32), "int32"),
    "iinfo of floats": (lambda lib: lib.top.iinfo(lib.top.float32), "float32"),
    "empty_like of a number": (lambda lib: lib.top.empty_like(3), "must be Tensor, not int"),
    "conv2d stride 0": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), stride=0), "stride=0"),
    "conv2d stride negative": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), stride=(1, -1)), "stride=(1, -1)"),
    "conv2d stride float": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), stride=1.5), "'stride' must be int or a tuple of ints, not float"),
    "conv2d stride None": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), stride=None), "'stride' must be int or a tuple of ints, not None"),
    "conv2d stride of three": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), stride=(1, 1, 1)), "stride=(1, 1, 1)"),
    "conv2d dilation 0": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), dilation=0), "dilation=0"),
    "conv2d dilation negative": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), dilation=-1), "dilation=-1"),
    "conv2d padding negative": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), padding=-1), "padding=-1"),
    "conv2d padding word": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), padding="x"), "padding='x'"),
    "conv2d same and strided": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), stride=2, padding="same"), "stride=2"),
    "conv2d groups 0": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), groups=0), "groups=0"),
    "conv2d groups negative": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), groups=-1), "groups=-1"),
    "conv2d groups float": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), groups=2.0), "'groups' must be int, not float"),
    "conv2d groups that do not divide": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), groups=3), "groups=3"),
    "conv2d groups of other channels": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), groups=2), "groups=2"),
    "conv2d kernel too large": (lambda lib: lib.F.conv2d(image(lib), lib.ones(4, 4, 9, 9)), "Kernel size: [9, 9]"),
    "conv2d kernel too large dilated": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), dilation=3), "dilation"),
    "conv2d kernel empty": (lambda lib: lib.F.conv2d(image(lib), lib.ones(4, 4, 0, 3)), "[4, 4, 0, 3]"),
    "conv2d bias": (lambda lib: lib.F.conv2d(image(lib), kernel(lib), lib.ones(3)), "bias of size [3]"),
    "conv2d weight of 3D": (lambda lib: lib.F.conv2d(image(lib), lib.ones(4, 4, 3)), "[4, 4, 3]"),
    "conv2d input of 2D": (lambda lib: lib.F.conv2d(lib.ones(3, 3), kernel(lib)), "[3, 3]"),
    "conv1d stride 0": (lambda lib: lib.F.conv1d(lib.ones(1, 2, 5), lib.ones(2, 2, 3), stride=0), "conv1d(): stride"),
    "Conv2d stride 0": (lambda lib: lib.nn.Conv2d(4, 4, 3, stride=0)(image(lib)), "Conv2d(): stride should be greater than zero, but got stride=0"),
    "Conv2d dilation 0": (lambda lib: lib.nn.Conv2d(4, 4, 3, dilation=0)(image(lib)), "dilation=0"),
    "Conv2d padding negative": (lambda lib: lib.nn.Conv2d(4, 4, 3, padding=-1)(image(lib)), "padding=-1"),
    "Conv2d kernel 0": (lambda lib: lib.nn.Conv2d(4, 4, 0)(image(lib)), "kernel_size=0"),
    "Conv2d groups 0": (lambda lib: lib.nn.Conv2d(4, 4, 3, groups=0), "groups=0"),
    "Conv2d groups in": (lambda lib: lib.nn.Conv2d(4, 6, 3, groups=3), "in_channels=4"),
    "Conv2d groups out": (lambda lib: lib.nn.Conv2d(6, 4, 3, groups=3), "out_channels=4"),
    "Conv2d channels negative": (lambda lib: lib.nn.Conv2d(-1, 4, 3), "in_channels=-1"),
    "Conv2d channels float": (lambda lib: lib.nn.Conv2d(2.0, 4, 3), "'in_channels' must be int, not float"),
    "Conv2d padding mode": (lambda lib: lib.nn.Conv2d(4, 4, 3, padding_mode="x"), "padding_mode='x'"),
    "Conv2d padding word": (lambda lib: lib.nn.Conv2d(4, 4, 3, padding="x"), "padding='x'"),
    "Conv2d same and strided": (lambda lib: lib.nn.Conv2d(4, 4, 3, stride=2, padding="same"), "stride=2"),
    "Conv2d of ndarray": (lambda lib: lib.nn.Conv2d(4, 4, 3)(np.ones((1, 4, 6, 6))), "'input' must be Tensor, not numpy.ndarray"),
    "Conv2d reflecting, of ndarray": (lambda lib: lib.nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect")(np.ones((1, 4, 6, 6))), "Conv2d(): argument 'input' must be Tensor, not numpy.ndarray"),
    "a network on ndarray": (lambda lib: lib.nn.Sequential(lib.nn.Conv2d(4, 2, 3), lib.nn.ReLU())(np.ones((1, 4, 6, 6))), "must be Tensor, not numpy.ndarray"),
    "conv_transpose2d stride 0": (lambda lib: lib.F.conv_transpose2d(image(lib), kernel(lib), stride=0), "stride=0"),
    "conv_transpose2d output_padding": (lambda lib: lib.F.conv_transpose2d(image(lib), kernel(lib), output_padding=1), "output_padding=1"),
    "conv_transpose2d output_padding negative": (lambda lib: lib.F.conv_transpose2d(image(lib), kernel(lib), stride=2, output_padding=-1), "output_padding=-1"),
    "conv_transpose2d padding negative": (lambda lib: lib.F.conv_transpose2d(image(lib), kernel(lib), padding=-1), "padding=-1"),
    "conv_transpose2d padding too large": (lambda lib: lib.F.conv_transpose2d(image(lib), kernel(lib), padding=9), "padding=9"),
    "conv_transpose2d groups": (lambda lib: lib.F.conv_transpose2d(image(lib), kernel(lib), groups=3), "groups=3"),
    "conv_transpose2d bias": (lambda lib: lib.F.conv_transpose2d(image(lib), kernel(lib), lib.ones(3)), "bias of size [3]"),
    "conv_transpose2d channels": (lambda lib: lib.F.conv_transpose2d(lib.ones(1, 3, 6, 6), kernel(lib)), "[1, 3, 6, 6]"),
    "ConvTranspose2d padding mode": (lambda lib: lib.nn.ConvTranspose2d(4, 4, 3, padding_mode="reflect"), "padding_mode='reflect'"),
    "ConvTranspose2d output_size": (lambda lib: lib.nn.ConvTranspose2d(4, 4, 3)(image(lib), output_size=(99, 99)), "(99, 99)"),
    "ConvTranspose2d output_size of three": (lambda lib: lib.nn.ConvTranspose2d(4, 4, 3)(image(lib), output_size=(9, 9, 9)), "(9, 9, 9)"),
    "ConvTranspose2d of ndarray": (lambda lib: lib.nn.ConvTranspose2d(4, 4, 3)(np.ones((1, 4, 6, 6)), output_size=(8, 8)), "numpy.ndarray"),
    "max_pool2d kernel 0": (lambda lib: lib.F.max_pool2d(image(lib), 0), "kernel_size=0"),
    "max_pool2d kernel negative": (lambda lib: lib.F.max_pool2d(image(lib), -1), "kernel_size=-1"),
    "max_pool2d kernel float": (lambda lib: lib.F.max_pool2d(image(lib), 2.5), "'kernel_size' must be int or a tuple of ints, not float"),
    "max_pool2d stride 0": (lambda lib: lib.F.max_pool2d(image(lib), 2, 0), "stride=0"),
    "max_pool2d dilation 0": (lambda lib: lib.F.max_pool2d(image(lib), 2, 1, 0, 0), "dilation=0"),
    "max_pool2d padding": (lambda lib: lib.F.max_pool2d(image(lib), 2, padding=2), "padding=2"),
    "max_pool2d padding negative": (lambda lib: lib.F.max_pool2d(image(lib), 2, padding=-1), "padding=-1"),
    "max_pool2d kernel too large": (lambda lib: lib.F.max_pool2d(image(lib), 9), "kernel_size=[9, 9]"),
    "max_pool2d of 2D": (lambda lib: lib.F.max_pool2d(lib.ones(3, 3), 2), "[3, 3]"),
    "MaxPool2d stride 0": (lambda lib: lib.nn.MaxPool2d(2, 0)(image(lib)), "stride=0"),
    "avg_pool2d kernel 0": (lambda lib: lib.F.avg_pool2d(image(lib), 0), "kernel_size=0"),
    "avg_pool2d stride 0": (lambda lib: lib.F.avg_pool2d(image(lib), 2, 0), "stride=0"),
    "avg_pool2d padding": (lambda lib: lib.F.avg_pool2d(image(lib), 2, padding=2), "padding=2"),
    "avg_pool2d padding negative": (lambda lib: lib.F.avg_pool2d(image(lib), 2, padding=-1), "padding=-1"),
    "avg_pool2d divisor 0": (lambda lib: lib.F.avg_pool2d(image(lib), 2, divisor_override=0), "divisor_override=0"),
    "avg_pool2d kernel too large": (lambda lib: lib.F.avg_pool2d(image(lib), 9), "kernel_size=[9, 9]"),
    "adaptive_avg_pool2d negative": (lambda lib: lib.F.adaptive_avg_pool2d(image(lib), -1), "output_size=-1"),
    "adaptive_avg_pool2d of three": (lambda lib: lib.F.adaptive_avg_pool2d(image(lib), (1, 2, 3)), "output_size=(1, 2, 3)"),
    "adaptive_avg_pool2d float": (lambda lib: lib.F.adaptive_avg_pool2d(image(lib), 2.5), "'output_size' must be int or a tuple of ints, not float"),
    "adaptive_avg_pool2d of 2D": (lambda lib: lib.F.adaptive_avg_pool2d(lib.ones(3, 3), 2), "[3, 3]"),
    "adaptive_max_pool2d negative": (lambda lib: lib.F.adaptive_max_pool2d(image(lib), -1), "output_size=-1"),
    "interpolate without size": (lambda lib: lib.F.interpolate(image(lib)), "size=None, scale_factor=None"),
    "interpolate with both": (lambda lib: lib.F.interpolate(image(lib), size=3, scale_factor=2), "size=3, scale_factor=2"),
    "interpolate mode": (lambda lib: lib.F.interpolate(image(lib), size=3, mode="x"), "mode='x'"),
    "interpolate mode of another rank": (lambda lib: lib.F.interpolate(image(lib), size=3, mode="linear"), "mode='linear'"),
    "interpolate align_corners": (lambda lib: lib.F.interpolate(image(lib), size=3, align_corners=True), "align_corners=True"),
    "interpolate size 0": (lambda lib: lib.F.interpolate(image(lib), size=0), "size=0"),
    "interpolate size negative": (lambda lib: lib.F.interpolate(image(lib), size=-2), "size=-2"),
    "interpolate size float": (lambda lib: lib.F.interpolate(image(lib), size=2.5), "'size' must be int or a tuple of ints, not float"),
    "interpolate size of three": (lambda lib: lib.F.interpolate(image(lib), size=(1, 2, 3)), "size=(1, 2, 3)"),
    "interpolate scale 0": (lambda lib: lib.F.interpolate(image(lib), scale_factor=0), "scale_factor=0"),
    "interpolate scale negative": (lambda lib: lib.F.interpolate(image(lib), scale_factor=-1.0), "scale_factor=-1.0"),
    "interpolate scale of three": (lambda lib: lib.F.interpolate(image(lib), scale_factor=(1.0, 2.0, 3.0)), "(1.0, 2.0, 3.0)"),
    "interpolate of 2D": (lambda lib: lib.F.interpolate(lib.ones(3, 3), size=2), "[3, 3]"),
    "Upsample of list": (lambda lib: lib.nn.Upsample(scale_factor=2)([[1.0]]), "must be Tensor, not list"),
    "pixel_shuffle channels": (lambda lib: lib.F.pixel_shuffle(image(lib), 3), "input.size(-3)=4 is not divisible by 9"),
    "pixel_shuffle 0": (lambda lib: lib.F.pixel_shuffle(image(lib), 0), "upscale_factor=0"),
    "pixel_shuffle negative": (lambda lib: lib.F.pixel_shuffle(image(lib), -1), "upscale_factor=-1"),
    "pixel_shuffle of 2D": (lambda lib: lib.F.pixel_shuffle(lib.ones(3, 3), 1), "[3, 3]"),
    "pixel_unshuffle height": (lambda lib: lib.F.pixel_unshuffle(image(lib), 4), "input.size(-2)=6 is not divisible by 4"),
    "pixel_unshuffle 0": (lambda lib: lib.F.pixel_unshuffle(image(lib), 0), "downscale_factor=0"),
    "ChannelShuffle channels": (lambda lib: lib.nn.ChannelShuffle(3)(image(lib)), "groups=3"),
    "ChannelShuffle 0": (lambda lib: lib.nn.ChannelShuffle(0)(image(lib)), "groups=0"),
    "unfold kernel 0": (lambda lib: lib.F.unfold(image(lib), 0), "kernel_size=0"),
    "unfold stride 0": (lambda lib: lib.F.unfold(image(lib), 2, stride=0), "stride=0"),
    "unfold dilation 0": (lambda lib: lib.F.unfold(image(lib), 2, dilation=0), "dilation=0"),
    "unfold padding negative": (lambda lib: lib.F.unfold(image(lib), 2, padding=-1), "padding=-1"),
    "unfold kernel too large": (lambda lib: lib.F.unfold(image(lib), 9), "kernel_size=9"),
    "unfold of 2D": (lambda lib: lib.F.unfold(lib.ones(3, 3), 2), "[3, 3]"),
    "fold windows": (lambda lib: lib.F.fold(lib.ones(1, 4, 5), (4, 4), 2), "output_size=(4, 4)"),
    "fold rows": (lambda lib: lib.F.fold(lib.ones(1, 5, 9), (4, 4), 2), "[1, 5, 9]"),
    "fold of 1D": (lambda lib: lib.F.fold(lib.ones(4), (4, 4), 2), "[4]"),
    "fold stride 0": (lambda lib: lib.F.fold(lib.ones(1, 4, 9), (4, 4), 2, stride=0), "stride=0"),
    "pad odd": (lambda lib: lib.F.pad(image(lib), (1,)), "pad=(1,)"),
    "pad mode": (lambda lib: lib.F.pad(image(lib), (1, 1), mode="x"), "mode='x'"),
    "pad value": (lambda lib: lib.F.pad(image(lib), (1, 1, 1, 1), mode="reflect", value=1.0), "value=1.0"),
    "pad reflect too much": (lambda lib: lib.F.pad(image(lib), (9, 9, 1, 1), mode="reflect"), "(9, 9)"),
    "pad circular too much": (lambda lib: lib.F.pad(image(lib), (9, 9, 1, 1), mode="circular"), "(9, 9)"),
    "pad too many": (lambda lib: lib.F.pad(lib.ones(3), (1, 1, 1, 1)), "pad=(1, 1, 1, 1)"),
    "pad cuts too much": (lambda lib: lib.F.pad(lib.ones(3), (-2, -2)), "(-2, -2)"),
    "pad int": (lambda lib: lib.F.pad(image(lib), 1), "'pad' must be a tuple of ints, not int"),
    "pad float": (lambda lib: lib.F.pad(image(lib), (1.5, 1)), "'pad' must be a tuple of ints, not float"),
    "dropout p": (lambda lib: lib.F.dropout(image(lib), 1.5), "p=1.5"),
    "dropout p nan": (lambda lib: lib.F.dropout(image(lib), math.nan), "p=nan"),
    "Dropout p": (lambda lib: lib.nn.Dropout(p=1.5), "p=1.5"),
    "Dropout p negative": (lambda lib: lib.nn.Dropout2d(-0.1), "p=-0.1"),
    "Dropout p word": (lambda lib: lib.nn.Dropout("a"), "'p' must be float, not str"),
    "Dropout p None": (lambda lib: lib.nn.Dropout(None), "'p' must be float, not None"),
    "alpha_dropout p": (lambda lib: lib.F.alpha_dropout(image(lib), -1.0, True), "p=-1.0"),
    "Embedding padding_idx": (lambda lib: lib.nn.Embedding(3, 2, padding_idx=3), "padding_idx=3"),
    "Embedding padding_idx negative": (lambda lib: lib.nn.Embedding(3, 2, padding_idx=-4), "padding_idx=-4"),
    "Embedding rows negative": (lambda lib: lib.nn.Embedding(-3, 2), "num_embeddings=-3"),
    "Embedding of floats": (lambda lib: lib.nn.Embedding(3, 2)(lib.ones(2)), "float32"),
    "Embedding weight": (lambda lib: lib.nn.Embedding(3, 2, _weight=lib.ones(2, 2)), "[2, 2]"),
    "Embedding.from_pretrained": (lambda lib: lib.nn.Embedding.from_pretrained(lib.ones(2)), "[2]"),
    "embedding padding_idx": (lambda lib: lib.F.embedding(lib.tensor([1]), lib.ones(3, 2), padding_idx=7), "padding_idx=7"),
    "embedding weight": (lambda lib: lib.F.embedding(lib.tensor([1]), lib.ones(3)), "[3]"),
    "Linear negative": (lambda lib: lib.nn.Linear(-1, 2), "in_features=-1"),
    "Linear float": (lambda lib: lib.nn.Linear(2.5, 2), "'in_features' must be int, not float"),
    "Linear word": (lambda lib: lib.nn.Linear(2, "a"), "'out_features' must be int, not str"),
    "Linear of other features": (lambda lib: lib.nn.Linear(4, 2)(lib.ones(3)), "(3,)"),
    "Linear of ndarray": (lambda lib: lib.nn.Linear(4, 2)(np.ones((3, 4))), "linear(): argument 'input' must be Tensor, not numpy.ndarray"),
    "Linear of list": (lambda lib: lib.nn.Linear(4, 2)([1.0, 2.0]), "must be Tensor, not list"),
    "Linear of None": (lambda lib: lib.nn.Linear(4, 2)(None), "must be Tensor, not None"),
    "linear of 0D": (lambda lib: lib.F.linear(lib.tensor(1.0), lib.ones(2, 4)), "()"),
    "linear bias": (lambda lib: lib.F.linear(lib.ones(3, 4), lib.ones(2, 4), lib.ones(3)), "(3,)"),
    "linear weight of 3D": (lambda lib: lib.F.linear(lib.ones(3, 4), lib.ones(2, 3, 4)), "(2, 3, 4)"),
    "linear weight ndarray": (lambda lib: lib.F.linear(lib.ones(3, 4), np.ones((2, 4))), "'weight' must be Tensor, not numpy.ndarray"),
    "linear bias float": (lambda lib: lib.F.linear(lib.ones(3, 4), lib.ones(2, 4), bias=1.0), "'bias' must be Tensor, not float"),
    "Bilinear features": (lambda lib: lib.nn.Bilinear(0, 1, 1), "in1_features=0"),
    "Bilinear of others": (lambda lib: lib.nn.Bilinear(3, 4, 2)(lib.ones(2, 4), lib.ones(2, 4)), "got 4 but expected 3"),
    "Bilinear batch": (lambda lib: lib.nn.Bilinear(3, 4, 2)(lib.ones(2, 3), lib.ones(3, 4)), "[2, 3]"),
    "Flatten of list": (lambda lib: lib.nn.Flatten()([1.0]), "Flatten(): argument 'input' must be Tensor, not list"),
    "Flatten axes": (lambda lib: lib.nn.Flatten(2, 1)(image(lib)), "start_dim cannot come after end_dim"),
    "Unflatten size": (lambda lib: lib.nn.Unflatten(1, 3), "int"),
    "Unflatten sizes": (lambda lib: lib.nn.Unflatten(1, (2, 2.0)), "float"),
    "Unflatten product": (lambda lib: lib.nn.Unflatten(1, (2, 3))(image(lib)), "[2, 3]"),
    "BatchNorm2d of 3D": (lambda lib: lib.nn.BatchNorm2d(4)(lib.ones(4, 6, 6)), "got 3D input"),
    "BatchNorm2d of ndarray": (lambda lib: lib.nn.BatchNorm2d(4)(np.ones((1, 4, 6, 6))), "must be Tensor, not numpy.ndarray"),
    "BatchNorm2d channels": (lambda lib: lib.nn.BatchNorm2d(3)(image(lib)), "4 elements not 3"),
    "BatchNorm1d of one value": (lambda lib: lib.nn.BatchNorm1d(3)(lib.ones(1, 3)), "[1, 3]"),
    "BatchNorm negative": (lambda lib: lib.nn.BatchNorm1d(-3), "num_features=-3"),
    "BatchNorm eps": (lambda lib: lib.nn.BatchNorm2d(4, eps=-1.0)(image(lib)), "eps"),
    "batch_norm without statistics": (lambda lib: lib.F.batch_norm(image(lib), None, None), "running_mean"),
    "InstanceNorm1d of one": (lambda lib: lib.nn.InstanceNorm1d(2)(lib.ones(1, 2, 1)), "[1, 2, 1]"),
    "InstanceNorm2d of ndarray": (lambda lib: lib.nn.InstanceNorm2d(2)(np.ones((1, 2, 1, 1))), "must be Tensor, not numpy.ndarray"),
    "LayerNorm shape": (lambda lib: lib.nn.LayerNorm(4)(lib.ones(2, 3)), "[2, 3]"),
    "LayerNorm negative": (lambda lib: lib.nn.LayerNorm(-4), "normalized_shape=-4"),
    "layer_norm weight": (lambda lib: lib.F.layer_norm(lib.ones(2, 3), (3,), lib.ones(4)), "weight of shape [4]"),
    "layer_norm of list": (lambda lib: lib.F.layer_norm([1.0], (1,)), "must be Tensor, not list"),
    "RMSNorm shape": (lambda lib: lib.nn.RMSNorm(4)(lib.ones(2, 3)), "[2, 3]"),
    "GroupNorm groups": (lambda lib: lib.nn.GroupNorm(2, 3), "num_groups (2)"),
    "GroupNorm groups 0": (lambda lib: lib.nn.GroupNorm(0, 3), "num_groups"),
    "group_norm groups": (lambda lib: lib.F.group_norm(image(lib), 3), "num_groups=3"),
    "glu odd": (lambda lib: lib.F.glu(lib.ones(3, 3)), "size 3"),
    "softmax axis": (lambda lib: lib.F.softmax(lib.ones(3, 3), 2), "2"),
    "softmax of list": (lambda lib: lib.F.softmax([1.0], 0), "softmax(): argument 'input' must be Tensor, not list"),
    "Softmax2d of 2D": (lambda lib: lib.nn.Softmax2d()(lib.ones(2, 2)), "got 2D"),
    "Softmax2d of ndarray": (lambda lib: lib.nn.Softmax2d()(np.ones((2, 2, 2))), "must be Tensor, not numpy.ndarray"),
    "prelu parameters": (lambda lib: lib.F.prelu(lib.ones(3, 4), lib.ones(3)), "parameter numbers = 3"),
    "Hardtanh limits": (lambda lib: lib.nn.Hardtanh(2.0, 1.0), "2.0 and 1.0"),
    "softshrink lambd": (lambda lib: lib.F.softshrink(lib.ones(2), -1.0), "found to be -1.0"),
    "gelu approximate": (lambda lib: lib.F.gelu(lib.ones(2), approximate="x"), "x"),
    "GELU approximate": (lambda lib: lib.nn.GELU("x")(lib.ones(2)), "x"),
    "celu alpha 0": (lambda lib: lib.F.celu(lib.ones(2), alpha=0.0), "alpha=0.0"),
    "rrelu bounds": (lambda lib: lib.F.rrelu(lib.ones(2), 0.5, 0.1, True), "lower=0.5"),
    "relu of float": (lambda lib: lib.F.relu(1.0), "must be Tensor, not float"),
    "one_hot of floats": (lambda lib: lib.F.one_hot(lib.ones(2)), "index tensor"),
    "one_hot classes": (lambda lib: lib.F.one_hot(lib.tensor([1]), 0), "num_classes=0"),
    "RNN size 0": (lambda lib: lib.nn.RNN(0, 3), "input_size=0"),
    "LSTM hidden float": (lambda lib: lib.nn.LSTM(2, 3.0), "hidden_size should be of type int, got: float"),
    "GRU layers 0": (lambda lib: lib.nn.GRU(2, 3, 0), "num_layers=0"),
    "RNNBase mode": (lambda lib: lib.nn.RNNBase("x", 2, 3), "x"),
    "RNN nonlinearity": (lambda lib: lib.nn.RNN(2, 3, nonlinearity="x"), "'x'"),
    "RNN dropout": (lambda lib: lib.nn.RNN(2, 3, 2, dropout=2.0), "dropout=2.0"),
    "LSTM proj_size": (lambda lib: lib.nn.LSTM(2, 3, proj_size=3), "proj_size=3"),
    "LSTM proj_size negative": (lambda lib: lib.nn.LSTM(2, 3, proj_size=-1), "proj_size=-1"),
    "GRU proj_size": (lambda lib: lib.nn.GRU(2, 3, proj_size=1), "proj_size"),
    "LSTM of 1D": (lambda lib: lib.nn.LSTM(2, 3)(lib.ones(2)), "got 1D"),
    "LSTM of ndarray": (lambda lib: lib.nn.LSTM(2, 3)(np.ones((4, 1, 2))), "LSTM(): argument 'input' must be Tensor, not numpy.ndarray"),
    "LSTM state ndarray": (lambda lib: lib.nn.LSTM(2, 3)(lib.ones(4, 1, 2), (np.ones((1, 1, 3)), np.ones((1, 1, 3)))), "numpy.ndarray"),
    "GRU features": (lambda lib: lib.nn.GRU(2, 3)(lib.ones(4, 1, 5)), "got 5"),
    "GRU state": (lambda lib: lib.nn.GRU(2, 3)(lib.ones(4, 1, 2), lib.ones(1, 2, 3)), "[1, 2, 3]"),
    "GRUCell features": (lambda lib: lib.nn.GRUCell(2, 3)(lib.ones(2, 3)), "got 3"),
    "LSTMCell of ndarray": (lambda lib: lib.nn.LSTMCell(2, 3)(np.ones((1, 2))), "must be Tensor, not numpy.ndarray"),
    "RNNCell nonlinearity": (lambda lib: lib.nn.RNNCell(2, 3, nonlinearity="x")(lib.ones(1, 2)), "x"),
    "MultiheadAttention heads": (lambda lib: lib.nn.MultiheadAttention(5, 2), "embed_dim=5"),
    "MultiheadAttention heads 0": (lambda lib: lib.nn.MultiheadAttention(5, 0), "num_heads=0"),
    "MultiheadAttention of 1D": (lambda lib: lib.nn.MultiheadAttention(4, 2)(*[lib.ones(4)] * 3), "1-D"),
    "MultiheadAttention of ndarray": (lambda lib: lib.nn.MultiheadAttention(4, 2)(*[np.ones((3, 4))] * 3), "MultiheadAttention(): argument 'query' must be Tensor, not numpy.ndarray"),
    "MultiheadAttention mask": (lambda lib: lib.nn.MultiheadAttention(4, 2)(*[lib.ones(3, 2, 4)] * 3, attn_mask=lib.ones(2, 2)), "[2, 2]"),
    "MultiheadAttention batches": (lambda lib: lib.nn.MultiheadAttention(4, 2)(lib.ones(3, 2, 4), *[lib.ones(3, 1, 4)] * 2), "batch of 2"),
    "MultiheadAttention causal and padded": (
        lambda lib: lib.nn.MultiheadAttention(4, 2)(*[lib.ones(2, 4)] * 3, lib.zeros(2), need_weights=False, is_causal=True),
        "Need attn_mask",
    ),
    "MultiheadAttention causal with a row of zeros": (
        lambda lib: lib.nn.MultiheadAttention(4, 2, add_zero_attn=True)(*[lib.ones(2, 4)] * 3, need_weights=False, is_causal=True),
        "Need attn_mask",
    ),
    "TransformerEncoderLayer causal and padded": (
        lambda lib: lib.nn.TransformerEncoderLayer(4, 2, 8)(lib.ones(2, 4), None, lib.zeros(2), True),
        "Need attn_mask",
    ),
    "TransformerEncoderLayer activation": (lambda lib: lib.nn.TransformerEncoderLayer(4, 2, activation="x"), "not x"),
    "Transformer features": (lambda lib: lib.nn.Transformer(4, 2, 1, 1, 5)(lib.ones(2, 1, 3), lib.ones(2, 1, 4)), "4"),
    "Transformer of ndarray": (lambda lib: lib.nn.Transformer(4, 2, 1, 1, 5)(np.ones((2, 1, 4)), np.ones((2, 1, 4))), "numpy.ndarray"),
    "attention mask and causal": (lambda lib: lib.F.scaled_dot_product_attention(*[lib.ones(2, 3, 4)] * 3, attn_mask=lib.ones(3, 3), is_causal=True), "is_causal=True"),
    "attention features": (lambda lib: lib.F.scaled_dot_product_attention(lib.ones(2, 3, 4), lib.ones(2, 3, 5), lib.ones(2, 3, 4)), "4"),
    "attention of list": (lambda lib: lib.F.scaled_dot_product_attention([1.0], [1.0], [1.0]), "'query' must be Tensor, not list"),
    "Sequential of a function": (lambda lib: lib.nn.Sequential(math.sin), "not a Module subclass"),
    "ModuleList of a number": (lambda lib: lib.nn.ModuleList([1]), "int is not a Module subclass"),
    "Parameter of ndarray": (lambda lib: lib.nn.Parameter(np.ones(3)), "numpy.ndarray"),
    "init.dirac_": (lambda lib: lib.nn.init.dirac_(lib.ones(2)), "[2]"),
    "init.eye_": (lambda lib: lib.nn.init.eye_(lib.ones(2)), "[2]"),
    "init.xavier_uniform_": (lambda lib: lib.nn.init.xavier_uniform_(lib.ones(2)), "[2]"),
    "init.kaiming_uniform_ mode": (lambda lib: lib.nn.init.kaiming_uniform_(lib.ones(2, 2), mode="x"), "x"),
    "init.orthogonal_": (lambda lib: lib.nn.init.orthogonal_(lib.ones(2)), "[2]"),
    "init.calculate_gain": (lambda lib: lib.nn.init.calculate_gain("x"), "x"),
    "init.uniform_ bounds": (lambda lib: lib.nn.init.uniform_(lib.ones(2), 2.0, 1.0), "from=2.0"),
    "init.normal_ std": (lambda lib: lib.nn.init.normal_(lib.ones(2), std=-1.0), "std=-1.0"),
    "init.trunc_normal_ bounds": (lambda lib: lib.nn.init.trunc_normal_(lib.ones(2), a=2.0, b=1.0), "a=2.0"),
    "init.trunc_normal_ std": (lambda lib: lib.nn.init.trunc_normal_(lib.ones(2), std=0.0), "std=0.0"),
    "init.uniform_ of ndarray": (lambda lib: lib.nn.init.uniform_(np.ones(3)), "numpy.ndarray"),
    "clip_grad_norm_ of None": (lambda lib: lib.nn.utils.clip_grad_norm_(None, 1.0), "None"),
    # losses
    "mse_loss reduction": (lambda lib: lib.F.mse_loss(lib.ones(3), lib.ones(3), reduction="mena"), "mena is not a valid value for reduction"),
    "MSELoss reduction": (lambda lib: lib.nn.MSELoss(reduction="mena")(lib.ones(3), lib.ones(3)), "mena is not a valid value for reduction"),
    "CrossEntropyLoss reduction": (lambda lib: lib.nn.CrossEntropyLoss(reduction="mena")(lib.ones(3, 4), lib.tensor([0, 1, 2])), "mena is not a valid value for reduction"),
    "kl_div reduction": (lambda lib: lib.F.kl_div(lib.ones(3), lib.ones(3), reduction="mena"), "mena is not a valid value for reduction"),
    "mse_loss of ndarray": (lambda lib: lib.F.mse_loss(lib.ones(3), np.ones(3)), "'target' must be Tensor, not numpy.ndarray"),
    "mse_loss of float": (lambda lib: lib.F.mse_loss(lib.ones(3), 1.0), "'target' must be Tensor, not float"),
    "MSELoss of None": (lambda lib: lib.nn.MSELoss()(None, lib.ones(3)), "'input' must be Tensor, not None"),
    "cross_entropy of ndarray": (lambda lib: lib.F.cross_entropy(np.ones((3, 4)), lib.tensor([0, 1, 2])), "numpy.ndarray"),
    "cross_entropy of list": (lambda lib: lib.F.cross_entropy(lib.ones(3, 4), [0, 1, 2]), "'target' must be Tensor, not list"),
    "cross_entropy batch": (lambda lib: lib.F.cross_entropy(lib.ones(3, 4), lib.tensor([0, 1])), "batch_size (3)"),
    "cross_entropy size": (lambda lib: lib.F.cross_entropy(lib.ones(3, 4, 5), lib.zeros(3, 6, dtype=lib.int)), "[3, 6]"),
    "cross_entropy weight": (lambda lib: lib.F.cross_entropy(lib.ones(3, 4), lib.tensor([0, 1, 2]), lib.ones(3)), "[3]"),
    "cross_entropy smoothing": (lambda lib: lib.F.cross_entropy(lib.ones(3, 4), lib.tensor([0, 1, 2]), label_smoothing=2.0), "2.0"),
    "cross_entropy floats as classes": (lambda lib: lib.F.cross_entropy(lib.ones(3, 4), lib.ones(3)), "float32"),
    "cross_entropy of 1D": (lambda lib: lib.F.cross_entropy(lib.ones(4), lib.zeros(2, dtype=lib.int)), "size: 2"),
    "cross_entropy integers as probabilities": (lambda lib: lib.F.cross_entropy(lib.ones(3, 4), lib.zeros(3, 4, dtype=lib.int)), "int32"),
    "nll_loss weight": (lambda lib: lib.F.nll_loss(lib.ones(3, 4), lib.tensor([0, 1, 2]), lib.ones(3)), "[3]"),
    "mse_loss weight": (lambda lib: lib.F.mse_loss(lib.ones(3), lib.ones(3), weight=lib.ones(2)), "[2]"),
    "huber_loss delta": (lambda lib: lib.F.huber_loss(lib.ones(3), lib.ones(3), delta=0.0), "delta=0.0"),
    "HuberLoss delta": (lambda lib: lib.nn.HuberLoss(delta=-1.0)(lib.ones(3), lib.ones(3)), "delta=-1.0"),
    "smooth_l1_loss beta": (lambda lib: lib.F.smooth_l1_loss(lib.ones(3), lib.ones(3), beta=-1.0), "beta=-1.0"),
    "binary_cross_entropy sizes": (lambda lib: lib.F.binary_cross_entropy(lib.ones(3), lib.ones(2)), "[2]"),
    "binary_cross_entropy_with_logits sizes": (lambda lib: lib.F.binary_cross_entropy_with_logits(lib.ones(3), lib.ones(2)), "[2]"),
    "triplet_margin_loss margin": (lambda lib: lib.F.triplet_margin_with_distance_loss(*[lib.ones(1, 2)] * 3, margin=-1.0), "margin"),
    "TripletMarginLoss margin": (lambda lib: lib.nn.TripletMarginLoss(margin=0.0), "margin=0.0"),
    "TripletMarginWithDistanceLoss margin": (lambda lib: lib.nn.TripletMarginWithDistanceLoss(margin=-1.0), "margin=-1.0"),
    "margin_ranking_loss ranks": (lambda lib: lib.F.margin_ranking_loss(lib.ones(2), lib.ones(2, 1), lib.ones(2)), "[2, 1]"),
    "cosine_embedding_loss": (lambda lib: lib.F.cosine_embedding_loss(lib.ones(3, 4), lib.ones(3, 4), lib.ones(2)), "(2,)"),
    "gaussian_nll_loss var": (lambda lib: lib.F.gaussian_nll_loss(lib.ones(3), lib.ones(3), lib.ones(7)), "[7]"),
    "gaussian_nll_loss reduction": (lambda lib: lib.F.gaussian_nll_loss(lib.ones(3), lib.ones(3), lib.ones(3), reduction="mena"), "mena is not a valid value for reduction"),
    "poisson_nll_loss reduction": (lambda lib: lib.F.poisson_nll_loss(lib.ones(3), lib.ones(3), reduction="mena"), "mena is not a valid value for reduction"),
    "pairwise_distance of list": (lambda lib: lib.F.pairwise_distance([1.0], [1.0]), "'x1' must be Tensor, not list"),
    "cosine_similarity shapes": (lambda lib: lib.F.cosine_similarity(lib.ones(2, 3), lib.ones(2, 4)), "3"),
    # optimizers
    **{f"{kind} lr": (lambda lib, k=kind: getattr(lib.optim, k)([param(lib)], lr=-1.0), "-1.0") for kind in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "RMSprop", "Adadelta", "Muon", "LBFGS")},
    **{f"{kind} lr word": (lambda lib, k=kind: getattr(lib.optim, k)([param(lib)], lr="a"), "lr") for kind in ("SGD", "Adam", "Adagrad", "Muon", "LBFGS")},
    **{f"{kind} weight_decay": (lambda lib, k=kind: getattr(lib.optim, k)([param(lib)], weight_decay=-1.0), "-1.0") for kind in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "RMSprop", "Adadelta", "Muon")},
    **{f"{kind} eps": (lambda lib, k=kind: getattr(lib.optim, k)([param(lib)], eps=-1.0), "-1.0") for kind in ("Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "RMSprop", "Adadelta")},
    **{f"{kind} betas": (lambda lib, k=kind: getattr(lib.optim, k)([param(lib)], betas=(1.0, 0.9)), "index 0: 1.0") for kind in ("Adam", "AdamW", "NAdam", "RAdam")},
    **{f"{kind} second beta": (lambda lib, k=kind: getattr(lib.optim, k)([param(lib)], betas=(0.9, -0.1)), "index 1: -0.1") for kind in ("Adam", "AdamW", "NAdam", "RAdam")},
    "Adam betas number": (lambda lib: lib.optim.Adam([param(lib)], betas=0.9), "betas"),
    "Adam one beta": (lambda lib: lib.optim.Adam([param(lib)], betas=(0.9,)), "betas"),
    "SGD momentum": (lambda lib: sgd(lib, momentum=-0.5), "-0.5"),
    "SGD nesterov without momentum": (lambda lib: sgd(lib, nesterov=True), "momentum=0.0"),
    "SGD nesterov dampened": (lambda lib: sgd(lib, nesterov=True, momentum=0.9, dampening=0.1), "dampening=0.1"),
    "NAdam momentum_decay": (lambda lib: lib.optim.NAdam([param(lib)], momentum_decay=-1.0), "-1.0"),
    "Adagrad lr_decay": (lambda lib: lib.optim.Adagrad([param(lib)], lr_decay=-1.0), "-1.0"),
    "Adagrad initial_accumulator_value": (lambda lib: lib.optim.Adagrad([param(lib)], initial_accumulator_value=-1.0), "-1.0"),
    "RMSprop momentum": (lambda lib: lib.optim.RMSprop([param(lib)], momentum=-1.0), "-1.0"),
    "RMSprop alpha": (lambda lib: lib.optim.RMSprop([param(lib)], alpha=-1.0), "-1.0"),
    "Adadelta rho": (lambda lib: lib.optim.Adadelta([param(lib)], rho=1.5), "1.5"),
    "Muon momentum": (lambda lib: lib.optim.Muon([param(lib)], momentum=-1.0), "-1.0"),
    "Muon adjust_lr_fn": (lambda lib: lib.optim.Muon([param(lib)], adjust_lr_fn="x"), "x"),
    "Muon ns_steps": (lambda lib: _step(lib, lib.optim.Muon, ns_steps=100), "ns_steps=100"),
    "Muon of vectors": (lambda lib: lib.optim.Muon([lib.ones(2).requires_grad_()]), "[2]"),
    "LBFGS line search": (lambda lib: _step(lib, lib.optim.LBFGS, line_search_fn="x"), "x"),
    "LBFGS groups": (lambda lib: lib.optim.LBFGS([{"params": [param(lib)]}, {"params": [param(lib)]}]), "2"),
    "no parameters": (lambda lib: lib.optim.SGD([], lr=0.1), "empty parameter list"),
    "a tensor for parameters": (lambda lib: lib.optim.SGD(param(lib), lr=0.1), "Tensor"),
    "a number among parameters": (lambda lib: lib.optim.SGD([1.0], lr=0.1), "float"),
    "ndarray among parameters": (lambda lib: lib.optim.SGD([np.ones(2)], lr=0.1), "ndarray"),
    "None for parameters": (lambda lib: lib.optim.SGD(None, lr=0.1), "None"),
    "a computed parameter": (lambda lib: lib.optim.SGD([param(lib) * 2], lr=0.1), "non-leaf"),
    "a parameter in two groups": (lambda lib: (p := param(lib)) is None or lib.optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1), "more than one parameter group"),
    "a set of parameters": (lambda lib: lib.optim.SGD([{"params": {param(lib)}}], lr=0.1), "ordered collections"),
    "a group without params": (lambda lib: lib.optim.SGD([{"lr": 0.1}], lr=0.1), "params"),
    "a group that is none": (lambda lib: sgd(lib).add_param_group([param(lib)]), "list"),
    "unknown option": (lambda lib: lib.optim.SGD([param(lib)], lr=0.1, momentun=0.9), "momentun"),
    "loading another state": (lambda lib: sgd(lib).load_state_dict({"state": {}, "param_groups": []}), "parameter groups"),
    "loading nothing": (lambda lib: sgd(lib).load_state_dict({}), "param_groups"),
    # schedulers
    "StepLR step_size 0": (lambda lib: _steps(lib, lib.s.StepLR(sgd(lib), step_size=0)), "step_size=0"),
    "StepLR step_size word": (lambda lib: _steps(lib, lib.s.StepLR(sgd(lib), step_size="a")), "'step_size' must be int, not str"),
    "StepLR of no optimizer": (lambda lib: lib.s.StepLR([1], 3), "list is not an Optimizer"),
    "MultiStepLR milestones": (lambda lib: lib.s.MultiStepLR(sgd(lib), 5), "milestones"),
    "ConstantLR factor": (lambda lib: lib.s.ConstantLR(sgd(lib), factor=1.5), "factor=1.5"),
    "ConstantLR factor negative": (lambda lib: lib.s.ConstantLR(sgd(lib), factor=-0.5), "factor=-0.5"),
    "ConstantLR factor 0": (lambda lib: _steps(lib, lib.s.ConstantLR(sgd(lib), factor=0.0, total_iters=2)), "factor=0.0"),
    "LinearLR start_factor": (lambda lib: lib.s.LinearLR(sgd(lib), start_factor=0.0), "start_factor=0.0"),
    "LinearLR end_factor": (lambda lib: lib.s.LinearLR(sgd(lib), end_factor=1.5), "end_factor=1.5"),
    "LinearLR total_iters 0, closed": (lambda lib: lib.s.LinearLR(sgd(lib), total_iters=0).step(3), "total_iters=0"),
    "ExponentialLR gamma": (lambda lib: _steps(lib, lib.s.ExponentialLR(sgd(lib), "a")), "'gamma' must be float, not str"),
    "PolynomialLR total_iters 0, closed": (lambda lib: lib.s.PolynomialLR(sgd(lib), total_iters=0).step(3), "total_iters=0"),
    "CosineAnnealingLR T_max 0": (lambda lib: _steps(lib, lib.s.CosineAnnealingLR(sgd(lib), 0)), "T_max=0"),
    "CosineAnnealingWarmRestarts T_0": (lambda lib: lib.s.CosineAnnealingWarmRestarts(sgd(lib), 0), "T_0, but got 0"),
    "CosineAnnealingWarmRestarts T_mult": (lambda lib: lib.s.CosineAnnealingWarmRestarts(sgd(lib), 3, 0.5), "T_mult >= 1, but got 0.5"),
    "CosineAnnealingWarmRestarts epoch": (lambda lib: lib.s.CosineAnnealingWarmRestarts(sgd(lib), 3).step(-1), "-1"),
    "OneCycleLR without steps": (lambda lib: lib.s.OneCycleLR(sgd(lib), 0.1), "total_steps"),
    "OneCycleLR total_steps": (lambda lib: lib.s.OneCycleLR(sgd(lib), 0.1, 0), "total_steps, but got 0"),
    "OneCycleLR pct_start": (lambda lib: lib.s.OneCycleLR(sgd(lib), 0.1, 10, pct_start=2.0), "pct_start, but got 2.0"),
    "OneCycleLR anneal_strategy": (lambda lib: lib.s.OneCycleLR(sgd(lib), 0.1, 10, anneal_strategy="x"), "got x"),
    "OneCycleLR max_lr": (lambda lib: lib.s.OneCycleLR(sgd(lib), [0.1, 0.2], 10), "max_lr has 2 values"),
    "OneCycleLR momentum": (lambda lib: lib.s.OneCycleLR(lib.optim.Adagrad([param(lib)]), 0.1, 10), "cycle_momentum"),
    "ReduceLROnPlateau factor": (lambda lib: lib.s.ReduceLROnPlateau(sgd(lib), factor=1.0), "factor=1.0"),
    "ReduceLROnPlateau mode": (lambda lib: lib.s.ReduceLROnPlateau(sgd(lib), mode="x"), "mode x is unknown"),
    "ReduceLROnPlateau threshold_mode": (lambda lib: lib.s.ReduceLROnPlateau(sgd(lib), threshold_mode="x"), "threshold mode x is unknown"),
    "ReduceLROnPlateau min_lr": (lambda lib: lib.s.ReduceLROnPlateau(sgd(lib), min_lr=[0.1, 0.1]), "got 2"),
    "ReduceLROnPlateau metric": (lambda lib: lib.s.ReduceLROnPlateau(sgd(lib)).step("a"), "'a'"),
    "LambdaLR of a number": (lambda lib: lib.s.LambdaLR(sgd(lib), 0.9), "float"),
    "LambdaLR of two": (lambda lib: lib.s.LambdaLR(sgd(lib), [abs, abs]), "got 2"),
    "MultiplicativeLR of a number": (lambda lib: lib.s.MultiplicativeLR(sgd(lib), 0.9), "float"),
    "SequentialLR of none": (lambda lib: lib.s.SequentialLR(sgd(lib), [], []), "no scheduler"),
    "SequentialLR milestones": (lambda lib: lib.s.SequentialLR(o := sgd(lib), [lib.s.StepLR(o, 3)], [3]), "milestones to be equal to 1"),
    "ChainedScheduler of none": (lambda lib: lib.s.ChainedScheduler([]), "no scheduler"),
    "ChainedScheduler of a number": (lambda lib: lib.s.ChainedScheduler([3]), "index 0"),
    "resuming without initial_lr": (lambda lib: lib.s.StepLR(sgd(lib), 3, last_epoch=5), "param_groups[0]"),
}  # fmt: skip


def _step(lib: Any, kind: Any, **options: Any) -> None:
    """A step of an optimizer: PyTorch looks at some arguments only then."""
    p = param(lib)
    optimizer = kind([p], **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    optimizer.step(closure)


def _steps(lib: Any, scheduler: Any) -> None:
    for _ in range(3):
        scheduler.step()


@pytest.mark.parametrize("name", BAD)
@pytest.mark.filterwarnings("ignore")
def test_a_bad_call_is_refused_as_pytorch_refuses_it(name: str) -> None:
    call, says = BAD[name]
    with pytest.raises(Exception) as theirs:
        call(THEIRS)
    with pytest.raises(sg.ShadergradError) as ours:
        call(OURS)
    message = str(ours.value)
    assert says in message
    assert "\n" not in message
    if name not in ACCIDENTS:
        expected = next(k for k in type(theirs.value).__mro__ if k in CAUGHT)
        assert isinstance(ours.value, expected), f"PyTorch raises {type(theirs.value).__name__}: {theirs.value}"


# What programs catch. PyTorch's NotImplementedError is a RuntimeError; its bare asserts, ZeroDivisionErrors and
# AttributeErrors are accidents that nobody means to catch, and so are the IndexErrors of some calls.
CAUGHT = (ValueError, TypeError, RuntimeError, IndexError, KeyError, Exception)
ACCIDENTS = ("unfold of 2D", "Adam one beta")


# ---------------------------------------------------------------------------------- tensors

FUNCTIONS = {n: f for n, f in vars(F).items() if inspect.isfunction(f) and not n.startswith("_")}
NO_TENSORS = {
    "ndarray": np.ones((2, 2), np.float32),
    "list": [1.0, 2.0],
    "float": 1.0,
    "None": None,
    "torch": torch.ones(2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_refuses_what_is_no_tensor(name: str) -> None:
    """Each of its tensors in turn, by position and by name."""
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    tensors = {
        n: p for n, p in parameters.items() if "Tensor" in str(p.annotation) and "Callable" not in str(p.annotation)
    }
    fixed = {n: sg.ones(2) for n, p in tensors.items() if p.default is inspect.Parameter.empty}
    fixed |= {n: 1 for n, p in parameters.items() if n not in tensors and p.default is inspect.Parameter.empty}
    assert fixed, name
    for wrong, p in tensors.items():
        says = rf"^{name}\(\): argument '{wrong}' must be Tensor, not "
        for what, value in NO_TENSORS.items():
            if (value is None and "None" in str(p.annotation)) or (what == "float" and "float" in str(p.annotation)):
                continue
            if "float" not in str(p.annotation):
                with pytest.raises(TypeError, match=says) as caught:
                    FUNCTIONS[name](**{**fixed, wrong: value})
                assert isinstance(caught.value, sg.ShadergradError)
        if next(iter(parameters)) == wrong:
            with pytest.raises(TypeError, match=says):
                FUNCTIONS[name](np.ones(2), **{k: v for k, v in fixed.items() if k != wrong})
