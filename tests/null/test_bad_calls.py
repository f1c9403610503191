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
    ones=torch.ones,
    zeros=torch.zeros,
    tensor=torch.tensor,
    int=torch.int64,
    double=torch.float64,
)
Call = Callable[[Any], Any]


def image(l: Any) -> Any:
    return l.ones(1, 4, 6, 6)


def kernel(l: Any) -> Any:
    return l.ones(4, 4, 3, 3)


def param(l: Any) -> Any:
    return l.ones(2, 2).requires_grad_()


def sgd(l: Any, **options: Any) -> Any:
    return l.optim.SGD([param(l)], lr=0.1, **options)


# name: the call, and what the message must say of it
BAD: dict[str, tuple[Call, str]] = {
    "conv2d stride 0": (lambda l: l.F.conv2d(image(l), kernel(l), stride=0), "stride=0"),
    "conv2d stride negative": (lambda l: l.F.conv2d(image(l), kernel(l), stride=(1, -1)), "stride=(1, -1)"),
    "conv2d stride float": (lambda l: l.F.conv2d(image(l), kernel(l), stride=1.5), "'stride' must be int or a tuple of ints, not float"),
    "conv2d stride None": (lambda l: l.F.conv2d(image(l), kernel(l), stride=None), "'stride' must be int or a tuple of ints, not None"),
    "conv2d stride of three": (lambda l: l.F.conv2d(image(l), kernel(l), stride=(1, 1, 1)), "stride=(1, 1, 1)"),
    "conv2d dilation 0": (lambda l: l.F.conv2d(image(l), kernel(l), dilation=0), "dilation=0"),
    "conv2d dilation negative": (lambda l: l.F.conv2d(image(l), kernel(l), dilation=-1), "dilation=-1"),
    "conv2d padding negative": (lambda l: l.F.conv2d(image(l), kernel(l), padding=-1), "padding=-1"),
    "conv2d padding word": (lambda l: l.F.conv2d(image(l), kernel(l), padding="x"), "padding='x'"),
    "conv2d same and strided": (lambda l: l.F.conv2d(image(l), kernel(l), stride=2, padding="same"), "stride=2"),
    "conv2d groups 0": (lambda l: l.F.conv2d(image(l), kernel(l), groups=0), "groups=0"),
    "conv2d groups negative": (lambda l: l.F.conv2d(image(l), kernel(l), groups=-1), "groups=-1"),
    "conv2d groups float": (lambda l: l.F.conv2d(image(l), kernel(l), groups=2.0), "'groups' must be int, not float"),
    "conv2d groups that do not divide": (lambda l: l.F.conv2d(image(l), kernel(l), groups=3), "groups=3"),
    "conv2d groups of other channels": (lambda l: l.F.conv2d(image(l), kernel(l), groups=2), "groups=2"),
    "conv2d kernel too large": (lambda l: l.F.conv2d(image(l), l.ones(4, 4, 9, 9)), "Kernel size: [9, 9]"),
    "conv2d kernel too large dilated": (lambda l: l.F.conv2d(image(l), kernel(l), dilation=3), "dilation"),
    "conv2d kernel empty": (lambda l: l.F.conv2d(image(l), l.ones(4, 4, 0, 3)), "[4, 4, 0, 3]"),
    "conv2d bias": (lambda l: l.F.conv2d(image(l), kernel(l), l.ones(3)), "bias of size [3]"),
    "conv2d weight of 3D": (lambda l: l.F.conv2d(image(l), l.ones(4, 4, 3)), "[4, 4, 3]"),
    "conv2d input of 2D": (lambda l: l.F.conv2d(l.ones(3, 3), kernel(l)), "[3, 3]"),
    "conv1d stride 0": (lambda l: l.F.conv1d(l.ones(1, 2, 5), l.ones(2, 2, 3), stride=0), "conv1d(): stride"),
    "Conv2d stride 0": (lambda l: l.nn.Conv2d(4, 4, 3, stride=0)(image(l)), "Conv2d(): stride should be greater than zero, but got stride=0"),
    "Conv2d dilation 0": (lambda l: l.nn.Conv2d(4, 4, 3, dilation=0)(image(l)), "dilation=0"),
    "Conv2d padding negative": (lambda l: l.nn.Conv2d(4, 4, 3, padding=-1)(image(l)), "padding=-1"),
    "Conv2d kernel 0": (lambda l: l.nn.Conv2d(4, 4, 0)(image(l)), "kernel_size=0"),
    "Conv2d groups 0": (lambda l: l.nn.Conv2d(4, 4, 3, groups=0), "groups=0"),
    "Conv2d groups in": (lambda l: l.nn.Conv2d(4, 6, 3, groups=3), "in_channels=4"),
    "Conv2d groups out": (lambda l: l.nn.Conv2d(6, 4, 3, groups=3), "out_channels=4"),
    "Conv2d channels negative": (lambda l: l.nn.Conv2d(-1, 4, 3), "in_channels=-1"),
    "Conv2d channels float": (lambda l: l.nn.Conv2d(2.0, 4, 3), "'in_channels' must be int, not float"),
    "Conv2d padding mode": (lambda l: l.nn.Conv2d(4, 4, 3, padding_mode="x"), "padding_mode='x'"),
    "Conv2d padding word": (lambda l: l.nn.Conv2d(4, 4, 3, padding="x"), "padding='x'"),
    "Conv2d same and strided": (lambda l: l.nn.Conv2d(4, 4, 3, stride=2, padding="same"), "stride=2"),
    "Conv2d of ndarray": (lambda l: l.nn.Conv2d(4, 4, 3)(np.ones((1, 4, 6, 6))), "'input' must be Tensor, not numpy.ndarray"),
    "Conv2d reflecting, of ndarray": (lambda l: l.nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect")(np.ones((1, 4, 6, 6))), "Conv2d(): argument 'input' must be Tensor, not numpy.ndarray"),
    "a network on ndarray": (lambda l: l.nn.Sequential(l.nn.Conv2d(4, 2, 3), l.nn.ReLU())(np.ones((1, 4, 6, 6))), "must be Tensor, not numpy.ndarray"),
    "conv_transpose2d stride 0": (lambda l: l.F.conv_transpose2d(image(l), kernel(l), stride=0), "stride=0"),
    "conv_transpose2d output_padding": (lambda l: l.F.conv_transpose2d(image(l), kernel(l), output_padding=1), "output_padding=1"),
    "conv_transpose2d output_padding negative": (lambda l: l.F.conv_transpose2d(image(l), kernel(l), stride=2, output_padding=-1), "output_padding=-1"),
    "conv_transpose2d padding negative": (lambda l: l.F.conv_transpose2d(image(l), kernel(l), padding=-1), "padding=-1"),
    "conv_transpose2d padding too large": (lambda l: l.F.conv_transpose2d(image(l), kernel(l), padding=9), "padding=9"),
    "conv_transpose2d groups": (lambda l: l.F.conv_transpose2d(image(l), kernel(l), groups=3), "groups=3"),
    "conv_transpose2d bias": (lambda l: l.F.conv_transpose2d(image(l), kernel(l), l.ones(3)), "bias of size [3]"),
    "conv_transpose2d channels": (lambda l: l.F.conv_transpose2d(l.ones(1, 3, 6, 6), kernel(l)), "[1, 3, 6, 6]"),
    "ConvTranspose2d padding mode": (lambda l: l.nn.ConvTranspose2d(4, 4, 3, padding_mode="reflect"), "padding_mode='reflect'"),
    "ConvTranspose2d output_size": (lambda l: l.nn.ConvTranspose2d(4, 4, 3)(image(l), output_size=(99, 99)), "(99, 99)"),
    "ConvTranspose2d output_size of three": (lambda l: l.nn.ConvTranspose2d(4, 4, 3)(image(l), output_size=(9, 9, 9)), "(9, 9, 9)"),
    "ConvTranspose2d of ndarray": (lambda l: l.nn.ConvTranspose2d(4, 4, 3)(np.ones((1, 4, 6, 6)), output_size=(8, 8)), "numpy.ndarray"),
    "max_pool2d kernel 0": (lambda l: l.F.max_pool2d(image(l), 0), "kernel_size=0"),
    "max_pool2d kernel negative": (lambda l: l.F.max_pool2d(image(l), -1), "kernel_size=-1"),
    "max_pool2d kernel float": (lambda l: l.F.max_pool2d(image(l), 2.5), "'kernel_size' must be int or a tuple of ints, not float"),
    "max_pool2d stride 0": (lambda l: l.F.max_pool2d(image(l), 2, 0), "stride=0"),
    "max_pool2d dilation 0": (lambda l: l.F.max_pool2d(image(l), 2, 1, 0, 0), "dilation=0"),
    "max_pool2d padding": (lambda l: l.F.max_pool2d(image(l), 2, padding=2), "padding=2"),
    "max_pool2d padding negative": (lambda l: l.F.max_pool2d(image(l), 2, padding=-1), "padding=-1"),
    "max_pool2d kernel too large": (lambda l: l.F.max_pool2d(image(l), 9), "kernel_size=[9, 9]"),
    "max_pool2d of 2D": (lambda l: l.F.max_pool2d(l.ones(3, 3), 2), "[3, 3]"),
    "MaxPool2d stride 0": (lambda l: l.nn.MaxPool2d(2, 0)(image(l)), "stride=0"),
    "avg_pool2d kernel 0": (lambda l: l.F.avg_pool2d(image(l), 0), "kernel_size=0"),
    "avg_pool2d stride 0": (lambda l: l.F.avg_pool2d(image(l), 2, 0), "stride=0"),
    "avg_pool2d padding": (lambda l: l.F.avg_pool2d(image(l), 2, padding=2), "padding=2"),
    "avg_pool2d padding negative": (lambda l: l.F.avg_pool2d(image(l), 2, padding=-1), "padding=-1"),
    "avg_pool2d divisor 0": (lambda l: l.F.avg_pool2d(image(l), 2, divisor_override=0), "divisor_override=0"),
    "avg_pool2d kernel too large": (lambda l: l.F.avg_pool2d(image(l), 9), "kernel_size=[9, 9]"),
    "adaptive_avg_pool2d negative": (lambda l: l.F.adaptive_avg_pool2d(image(l), -1), "output_size=(-1, -1)"),
    "adaptive_avg_pool2d of three": (lambda l: l.F.adaptive_avg_pool2d(image(l), (1, 2, 3)), "output_size=(1, 2, 3)"),
    "adaptive_avg_pool2d float": (lambda l: l.F.adaptive_avg_pool2d(image(l), 2.5), "'output_size' must be int or a tuple of ints, not float"),
    "adaptive_avg_pool2d of 2D": (lambda l: l.F.adaptive_avg_pool2d(l.ones(3, 3), 2), "[3, 3]"),
    "adaptive_max_pool2d negative": (lambda l: l.F.adaptive_max_pool2d(image(l), -1), "output_size=(-1, -1)"),
    "interpolate without size": (lambda l: l.F.interpolate(image(l)), "size=None, scale_factor=None"),
    "interpolate with both": (lambda l: l.F.interpolate(image(l), size=3, scale_factor=2), "size=3, scale_factor=2"),
    "interpolate mode": (lambda l: l.F.interpolate(image(l), size=3, mode="x"), "mode='x'"),
    "interpolate mode of another rank": (lambda l: l.F.interpolate(image(l), size=3, mode="linear"), "mode='linear'"),
    "interpolate align_corners": (lambda l: l.F.interpolate(image(l), size=3, align_corners=True), "align_corners=True"),
    "interpolate size 0": (lambda l: l.F.interpolate(image(l), size=0), "size=0"),
    "interpolate size negative": (lambda l: l.F.interpolate(image(l), size=-2), "size=-2"),
    "interpolate size float": (lambda l: l.F.interpolate(image(l), size=2.5), "'size' must be int or a tuple of ints, not float"),
    "interpolate size of three": (lambda l: l.F.interpolate(image(l), size=(1, 2, 3)), "size=(1, 2, 3)"),
    "interpolate scale 0": (lambda l: l.F.interpolate(image(l), scale_factor=0), "scale_factor=0"),
    "interpolate scale negative": (lambda l: l.F.interpolate(image(l), scale_factor=-1.0), "scale_factor=-1.0"),
    "interpolate scale of three": (lambda l: l.F.interpolate(image(l), scale_factor=(1.0, 2.0, 3.0)), "(1.0, 2.0, 3.0)"),
    "interpolate of 2D": (lambda l: l.F.interpolate(l.ones(3, 3), size=2), "[3, 3]"),
    "Upsample of list": (lambda l: l.nn.Upsample(scale_factor=2)([[1.0]]), "must be Tensor, not list"),
    "pixel_shuffle channels": (lambda l: l.F.pixel_shuffle(image(l), 3), "input.size(-3)=4 is not divisible by 9"),
    "pixel_shuffle 0": (lambda l: l.F.pixel_shuffle(image(l), 0), "upscale_factor=0"),
    "pixel_shuffle negative": (lambda l: l.F.pixel_shuffle(image(l), -1), "upscale_factor=-1"),
    "pixel_shuffle of 2D": (lambda l: l.F.pixel_shuffle(l.ones(3, 3), 1), "[3, 3]"),
    "pixel_unshuffle height": (lambda l: l.F.pixel_unshuffle(image(l), 4), "input.size(-2)=6 is not divisible by 4"),
    "pixel_unshuffle 0": (lambda l: l.F.pixel_unshuffle(image(l), 0), "downscale_factor=0"),
    "ChannelShuffle channels": (lambda l: l.nn.ChannelShuffle(3)(image(l)), "groups=3"),
    "ChannelShuffle 0": (lambda l: l.nn.ChannelShuffle(0)(image(l)), "groups=0"),
    "unfold kernel 0": (lambda l: l.F.unfold(image(l), 0), "kernel_size=0"),
    "unfold stride 0": (lambda l: l.F.unfold(image(l), 2, stride=0), "stride=0"),
    "unfold dilation 0": (lambda l: l.F.unfold(image(l), 2, dilation=0), "dilation=0"),
    "unfold padding negative": (lambda l: l.F.unfold(image(l), 2, padding=-1), "padding=-1"),
    "unfold kernel too large": (lambda l: l.F.unfold(image(l), 9), "kernel_size=9"),
    "unfold of 2D": (lambda l: l.F.unfold(l.ones(3, 3), 2), "[3, 3]"),
    "fold windows": (lambda l: l.F.fold(l.ones(1, 4, 5), (4, 4), 2), "output_size=(4, 4)"),
    "fold rows": (lambda l: l.F.fold(l.ones(1, 5, 9), (4, 4), 2), "[1, 5, 9]"),
    "fold of 1D": (lambda l: l.F.fold(l.ones(4), (4, 4), 2), "[4]"),
    "fold stride 0": (lambda l: l.F.fold(l.ones(1, 4, 9), (4, 4), 2, stride=0), "stride=0"),
    "pad odd": (lambda l: l.F.pad(image(l), (1,)), "pad=(1,)"),
    "pad mode": (lambda l: l.F.pad(image(l), (1, 1), mode="x"), "mode='x'"),
    "pad value": (lambda l: l.F.pad(image(l), (1, 1, 1, 1), mode="reflect", value=1.0), "value=1.0"),
    "pad reflect too much": (lambda l: l.F.pad(image(l), (9, 9, 1, 1), mode="reflect"), "(9, 9)"),
    "pad circular too much": (lambda l: l.F.pad(image(l), (9, 9, 1, 1), mode="circular"), "(9, 9)"),
    "pad too many": (lambda l: l.F.pad(l.ones(3), (1, 1, 1, 1)), "pad=(1, 1, 1, 1)"),
    "pad cuts too much": (lambda l: l.F.pad(l.ones(3), (-2, -2)), "(-2, -2)"),
    "pad int": (lambda l: l.F.pad(image(l), 1), "'pad' must be a tuple of ints, not int"),
    "pad float": (lambda l: l.F.pad(image(l), (1.5, 1)), "'pad' must be a tuple of ints, not float"),
    "dropout p": (lambda l: l.F.dropout(image(l), 1.5), "p=1.5"),
    "dropout p nan": (lambda l: l.F.dropout(image(l), math.nan), "p=nan"),
    "Dropout p": (lambda l: l.nn.Dropout(p=1.5), "p=1.5"),
    "Dropout p negative": (lambda l: l.nn.Dropout2d(-0.1), "p=-0.1"),
    "Dropout p word": (lambda l: l.nn.Dropout("a"), "'p' must be float, not str"),
    "Dropout p None": (lambda l: l.nn.Dropout(None), "'p' must be float, not None"),
    "alpha_dropout p": (lambda l: l.F.alpha_dropout(image(l), -1.0, True), "p=-1.0"),
    "Embedding padding_idx": (lambda l: l.nn.Embedding(3, 2, padding_idx=3), "padding_idx=3"),
    "Embedding padding_idx negative": (lambda l: l.nn.Embedding(3, 2, padding_idx=-4), "padding_idx=-4"),
    "Embedding rows negative": (lambda l: l.nn.Embedding(-3, 2), "num_embeddings=-3"),
    "Embedding of floats": (lambda l: l.nn.Embedding(3, 2)(l.ones(2)), "float32"),
    "Embedding weight": (lambda l: l.nn.Embedding(3, 2, _weight=l.ones(2, 2)), "[2, 2]"),
    "Embedding.from_pretrained": (lambda l: l.nn.Embedding.from_pretrained(l.ones(2)), "[2]"),
    "embedding padding_idx": (lambda l: l.F.embedding(l.tensor([1]), l.ones(3, 2), padding_idx=7), "padding_idx=7"),
    "embedding weight": (lambda l: l.F.embedding(l.tensor([1]), l.ones(3)), "[3]"),
    "Linear negative": (lambda l: l.nn.Linear(-1, 2), "in_features=-1"),
    "Linear float": (lambda l: l.nn.Linear(2.5, 2), "'in_features' must be int, not float"),
    "Linear word": (lambda l: l.nn.Linear(2, "a"), "'out_features' must be int, not str"),
    "Linear of other features": (lambda l: l.nn.Linear(4, 2)(l.ones(3)), "(3,)"),
    "Linear of ndarray": (lambda l: l.nn.Linear(4, 2)(np.ones((3, 4))), "linear(): argument 'input' must be Tensor, not numpy.ndarray"),
    "Linear of list": (lambda l: l.nn.Linear(4, 2)([1.0, 2.0]), "must be Tensor, not list"),
    "Linear of None": (lambda l: l.nn.Linear(4, 2)(None), "must be Tensor, not None"),
    "linear of 0D": (lambda l: l.F.linear(l.tensor(1.0), l.ones(2, 4)), "()"),
    "linear bias": (lambda l: l.F.linear(l.ones(3, 4), l.ones(2, 4), l.ones(3)), "(3,)"),
    "linear weight of 3D": (lambda l: l.F.linear(l.ones(3, 4), l.ones(2, 3, 4)), "(2, 3, 4)"),
    "linear weight ndarray": (lambda l: l.F.linear(l.ones(3, 4), np.ones((2, 4))), "'weight' must be Tensor, not numpy.ndarray"),
    "linear bias float": (lambda l: l.F.linear(l.ones(3, 4), l.ones(2, 4), bias=1.0), "'bias' must be Tensor, not float"),
    "Bilinear features": (lambda l: l.nn.Bilinear(0, 1, 1), "in1_features=0"),
    "Bilinear of others": (lambda l: l.nn.Bilinear(3, 4, 2)(l.ones(2, 4), l.ones(2, 4)), "got 4 but expected 3"),
    "Bilinear batch": (lambda l: l.nn.Bilinear(3, 4, 2)(l.ones(2, 3), l.ones(3, 4)), "[2, 3]"),
    "Flatten of list": (lambda l: l.nn.Flatten()([1.0]), "Flatten(): argument 'input' must be Tensor, not list"),
    "Flatten axes": (lambda l: l.nn.Flatten(2, 1)(image(l)), "start_dim cannot come after end_dim"),
    "Unflatten size": (lambda l: l.nn.Unflatten(1, 3), "int"),
    "Unflatten sizes": (lambda l: l.nn.Unflatten(1, (2, 2.0)), "float"),
    "Unflatten product": (lambda l: l.nn.Unflatten(1, (2, 3))(image(l)), "[2, 3]"),
    "BatchNorm2d of 3D": (lambda l: l.nn.BatchNorm2d(4)(l.ones(4, 6, 6)), "got 3D input"),
    "BatchNorm2d of ndarray": (lambda l: l.nn.BatchNorm2d(4)(np.ones((1, 4, 6, 6))), "must be Tensor, not numpy.ndarray"),
    "BatchNorm2d channels": (lambda l: l.nn.BatchNorm2d(3)(image(l)), "4 elements not 3"),
    "BatchNorm1d of one value": (lambda l: l.nn.BatchNorm1d(3)(l.ones(1, 3)), "[1, 3]"),
    "BatchNorm negative": (lambda l: l.nn.BatchNorm1d(-3), "num_features=-3"),
    "BatchNorm eps": (lambda l: l.nn.BatchNorm2d(4, eps=-1.0)(image(l)), "eps"),
    "batch_norm without statistics": (lambda l: l.F.batch_norm(image(l), None, None), "running_mean"),
    "InstanceNorm1d of one": (lambda l: l.nn.InstanceNorm1d(2)(l.ones(1, 2, 1)), "[1, 2, 1]"),
    "InstanceNorm2d of ndarray": (lambda l: l.nn.InstanceNorm2d(2)(np.ones((1, 2, 1, 1))), "must be Tensor, not numpy.ndarray"),
    "LayerNorm shape": (lambda l: l.nn.LayerNorm(4)(l.ones(2, 3)), "[2, 3]"),
    "LayerNorm negative": (lambda l: l.nn.LayerNorm(-4), "normalized_shape=-4"),
    "layer_norm weight": (lambda l: l.F.layer_norm(l.ones(2, 3), (3,), l.ones(4)), "weight of shape [4]"),
    "layer_norm of list": (lambda l: l.F.layer_norm([1.0], (1,)), "must be Tensor, not list"),
    "RMSNorm shape": (lambda l: l.nn.RMSNorm(4)(l.ones(2, 3)), "[2, 3]"),
    "GroupNorm groups": (lambda l: l.nn.GroupNorm(2, 3), "num_groups (2)"),
    "GroupNorm groups 0": (lambda l: l.nn.GroupNorm(0, 3), "num_groups"),
    "group_norm groups": (lambda l: l.F.group_norm(image(l), 3), "num_groups=3"),
    "glu odd": (lambda l: l.F.glu(l.ones(3, 3)), "size 3"),
    "softmax axis": (lambda l: l.F.softmax(l.ones(3, 3), 2), "2"),
    "softmax of list": (lambda l: l.F.softmax([1.0], 0), "softmax(): argument 'input' must be Tensor, not list"),
    "Softmax2d of 2D": (lambda l: l.nn.Softmax2d()(l.ones(2, 2)), "got 2D"),
    "Softmax2d of ndarray": (lambda l: l.nn.Softmax2d()(np.ones((2, 2, 2))), "must be Tensor, not numpy.ndarray"),
    "prelu parameters": (lambda l: l.F.prelu(l.ones(3, 4), l.ones(3)), "parameter numbers = 3"),
    "Hardtanh limits": (lambda l: l.nn.Hardtanh(2.0, 1.0), "2.0 and 1.0"),
    "softshrink lambd": (lambda l: l.F.softshrink(l.ones(2), -1.0), "found to be -1.0"),
    "gelu approximate": (lambda l: l.F.gelu(l.ones(2), approximate="x"), "x"),
    "GELU approximate": (lambda l: l.nn.GELU("x")(l.ones(2)), "x"),
    "celu alpha 0": (lambda l: l.F.celu(l.ones(2), alpha=0.0), "alpha=0.0"),
    "rrelu bounds": (lambda l: l.F.rrelu(l.ones(2), 0.5, 0.1, True), "lower=0.5"),
    "relu of float": (lambda l: l.F.relu(1.0), "must be Tensor, not float"),
    "one_hot of floats": (lambda l: l.F.one_hot(l.ones(2)), "index tensor"),
    "one_hot classes": (lambda l: l.F.one_hot(l.tensor([1]), 0), "num_classes=0"),
    "RNN size 0": (lambda l: l.nn.RNN(0, 3), "input_size=0"),
    "LSTM hidden float": (lambda l: l.nn.LSTM(2, 3.0), "hidden_size should be of type int, got: float"),
    "GRU layers 0": (lambda l: l.nn.GRU(2, 3, 0), "num_layers=0"),
    "RNN nonlinearity": (lambda l: l.nn.RNN(2, 3, nonlinearity="x"), "'x'"),
    "RNN dropout": (lambda l: l.nn.RNN(2, 3, 2, dropout=2.0), "dropout=2.0"),
    "LSTM proj_size": (lambda l: l.nn.LSTM(2, 3, proj_size=3), "proj_size=3"),
    "LSTM proj_size negative": (lambda l: l.nn.LSTM(2, 3, proj_size=-1), "proj_size=-1"),
    "GRU proj_size": (lambda l: l.nn.GRU(2, 3, proj_size=1), "proj_size"),
    "LSTM of 1D": (lambda l: l.nn.LSTM(2, 3)(l.ones(2)), "got 1D"),
    "LSTM of ndarray": (lambda l: l.nn.LSTM(2, 3)(np.ones((4, 1, 2))), "LSTM(): argument 'input' must be Tensor, not numpy.ndarray"),
    "LSTM state ndarray": (lambda l: l.nn.LSTM(2, 3)(l.ones(4, 1, 2), (np.ones((1, 1, 3)), np.ones((1, 1, 3)))), "numpy.ndarray"),
    "GRU features": (lambda l: l.nn.GRU(2, 3)(l.ones(4, 1, 5)), "got 5"),
    "GRU state": (lambda l: l.nn.GRU(2, 3)(l.ones(4, 1, 2), l.ones(1, 2, 3)), "[1, 2, 3]"),
    "GRUCell features": (lambda l: l.nn.GRUCell(2, 3)(l.ones(2, 3)), "got 3"),
    "LSTMCell of ndarray": (lambda l: l.nn.LSTMCell(2, 3)(np.ones((1, 2))), "must be Tensor, not numpy.ndarray"),
    "RNNCell nonlinearity": (lambda l: l.nn.RNNCell(2, 3, nonlinearity="x")(l.ones(1, 2)), "x"),
    "MultiheadAttention heads": (lambda l: l.nn.MultiheadAttention(5, 2), "embed_dim=5"),
    "MultiheadAttention heads 0": (lambda l: l.nn.MultiheadAttention(5, 0), "num_heads=0"),
    "MultiheadAttention of 1D": (lambda l: l.nn.MultiheadAttention(4, 2)(*[l.ones(4)] * 3), "1-D"),
    "MultiheadAttention of ndarray": (lambda l: l.nn.MultiheadAttention(4, 2)(*[np.ones((3, 4))] * 3), "MultiheadAttention(): argument 'query' must be Tensor, not numpy.ndarray"),
    "MultiheadAttention mask": (lambda l: l.nn.MultiheadAttention(4, 2)(*[l.ones(3, 2, 4)] * 3, attn_mask=l.ones(2, 2)), "[2, 2]"),
    "TransformerEncoderLayer activation": (lambda l: l.nn.TransformerEncoderLayer(4, 2, activation="x"), "not x"),
    "Transformer features": (lambda l: l.nn.Transformer(4, 2, 1, 1, 5)(l.ones(2, 1, 3), l.ones(2, 1, 4)), "4"),
    "Transformer of ndarray": (lambda l: l.nn.Transformer(4, 2, 1, 1, 5)(np.ones((2, 1, 4)), np.ones((2, 1, 4))), "numpy.ndarray"),
    "attention mask and causal": (lambda l: l.F.scaled_dot_product_attention(*[l.ones(2, 3, 4)] * 3, attn_mask=l.ones(3, 3), is_causal=True), "is_causal=True"),
    "attention features": (lambda l: l.F.scaled_dot_product_attention(l.ones(2, 3, 4), l.ones(2, 3, 5), l.ones(2, 3, 4)), "4"),
    "attention of list": (lambda l: l.F.scaled_dot_product_attention([1.0], [1.0], [1.0]), "'query' must be Tensor, not list"),
    "Sequential of a function": (lambda l: l.nn.Sequential(math.sin), "not a Module subclass"),
    "ModuleList of a number": (lambda l: l.nn.ModuleList([1]), "int is not a Module subclass"),
    "Parameter of ndarray": (lambda l: l.nn.Parameter(np.ones(3)), "numpy.ndarray"),
    "init.dirac_": (lambda l: l.nn.init.dirac_(l.ones(2)), "[2]"),
    "init.eye_": (lambda l: l.nn.init.eye_(l.ones(2)), "[2]"),
    "init.xavier_uniform_": (lambda l: l.nn.init.xavier_uniform_(l.ones(2)), "[2]"),
    "init.kaiming_uniform_ mode": (lambda l: l.nn.init.kaiming_uniform_(l.ones(2, 2), mode="x"), "x"),
    "init.orthogonal_": (lambda l: l.nn.init.orthogonal_(l.ones(2)), "[2]"),
    "init.calculate_gain": (lambda l: l.nn.init.calculate_gain("x"), "x"),
    "init.uniform_ of ndarray": (lambda l: l.nn.init.uniform_(np.ones(3)), "numpy.ndarray"),
    "clip_grad_norm_ of None": (lambda l: l.nn.utils.clip_grad_norm_(None, 1.0), "None"),
    # losses
    "mse_loss reduction": (lambda l: l.F.mse_loss(l.ones(3), l.ones(3), reduction="mena"), "mena is not a valid value for reduction"),
    "MSELoss reduction": (lambda l: l.nn.MSELoss(reduction="mena")(l.ones(3), l.ones(3)), "mena is not a valid value for reduction"),
    "CrossEntropyLoss reduction": (lambda l: l.nn.CrossEntropyLoss(reduction="mena")(l.ones(3, 4), l.tensor([0, 1, 2])), "mena is not a valid value for reduction"),
    "kl_div reduction": (lambda l: l.F.kl_div(l.ones(3), l.ones(3), reduction="mena"), "mena is not a valid value for reduction"),
    "mse_loss of ndarray": (lambda l: l.F.mse_loss(l.ones(3), np.ones(3)), "'target' must be Tensor, not numpy.ndarray"),
    "mse_loss of float": (lambda l: l.F.mse_loss(l.ones(3), 1.0), "'target' must be Tensor, not float"),
    "MSELoss of None": (lambda l: l.nn.MSELoss()(None, l.ones(3)), "'input' must be Tensor, not None"),
    "cross_entropy of ndarray": (lambda l: l.F.cross_entropy(np.ones((3, 4)), l.tensor([0, 1, 2])), "numpy.ndarray"),
    "cross_entropy of list": (lambda l: l.F.cross_entropy(l.ones(3, 4), [0, 1, 2]), "'target' must be Tensor, not list"),
    "cross_entropy batch": (lambda l: l.F.cross_entropy(l.ones(3, 4), l.tensor([0, 1])), "batch_size (3)"),
    "cross_entropy size": (lambda l: l.F.cross_entropy(l.ones(3, 4, 5), l.zeros(3, 6, dtype=l.int)), "[3, 6]"),
    "cross_entropy weight": (lambda l: l.F.cross_entropy(l.ones(3, 4), l.tensor([0, 1, 2]), l.ones(3)), "[3]"),
    "cross_entropy smoothing": (lambda l: l.F.cross_entropy(l.ones(3, 4), l.tensor([0, 1, 2]), label_smoothing=2.0), "2.0"),
    "CrossEntropyLoss smoothing": (lambda l: l.nn.CrossEntropyLoss(label_smoothing=-1.0)(l.ones(3, 4), l.tensor([0, 1, 2])), "-1.0"),
    "cross_entropy floats as classes": (lambda l: l.F.cross_entropy(l.ones(3, 4), l.ones(3)), "float32"),
    "nll_loss weight": (lambda l: l.F.nll_loss(l.ones(3, 4), l.tensor([0, 1, 2]), l.ones(3)), "[3]"),
    "mse_loss weight": (lambda l: l.F.mse_loss(l.ones(3), l.ones(3), weight=l.ones(2)), "[2]"),
    "huber_loss delta": (lambda l: l.F.huber_loss(l.ones(3), l.ones(3), delta=0.0), "delta=0.0"),
    "HuberLoss delta": (lambda l: l.nn.HuberLoss(delta=-1.0)(l.ones(3), l.ones(3)), "delta=-1.0"),
    "smooth_l1_loss beta": (lambda l: l.F.smooth_l1_loss(l.ones(3), l.ones(3), beta=-1.0), "beta=-1.0"),
    "binary_cross_entropy sizes": (lambda l: l.F.binary_cross_entropy(l.ones(3), l.ones(2)), "[2]"),
    "binary_cross_entropy_with_logits sizes": (lambda l: l.F.binary_cross_entropy_with_logits(l.ones(3), l.ones(2)), "[2]"),
    "triplet_margin_loss margin": (lambda l: l.F.triplet_margin_with_distance_loss(*[l.ones(1, 2)] * 3, margin=-1.0), "margin"),
    "TripletMarginLoss margin": (lambda l: l.nn.TripletMarginLoss(margin=0.0), "margin=0.0"),
    "TripletMarginWithDistanceLoss margin": (lambda l: l.nn.TripletMarginWithDistanceLoss(margin=-1.0), "margin=-1.0"),
    "margin_ranking_loss ranks": (lambda l: l.F.margin_ranking_loss(l.ones(2), l.ones(2, 1), l.ones(2)), "[2, 1]"),
    "cosine_embedding_loss": (lambda l: l.F.cosine_embedding_loss(l.ones(3, 4), l.ones(3, 4), l.ones(2)), "(2,)"),
    "gaussian_nll_loss var": (lambda l: l.F.gaussian_nll_loss(l.ones(3), l.ones(3), l.ones(7)), "[7]"),
    "gaussian_nll_loss reduction": (lambda l: l.F.gaussian_nll_loss(l.ones(3), l.ones(3), l.ones(3), reduction="mena"), "mena is not a valid value for reduction"),
    "poisson_nll_loss reduction": (lambda l: l.F.poisson_nll_loss(l.ones(3), l.ones(3), reduction="mena"), "mena is not a valid value for reduction"),
    "pairwise_distance of list": (lambda l: l.F.pairwise_distance([1.0], [1.0]), "'x1' must be Tensor, not list"),
    "cosine_similarity shapes": (lambda l: l.F.cosine_similarity(l.ones(2, 3), l.ones(2, 4)), "3"),
    # optimizers
    **{f"{kind} lr": (lambda l, k=kind: getattr(l.optim, k)([param(l)], lr=-1.0), "-1.0") for kind in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "RMSprop", "Adadelta", "Muon", "LBFGS")},
    **{f"{kind} lr word": (lambda l, k=kind: getattr(l.optim, k)([param(l)], lr="a"), "lr") for kind in ("SGD", "Adam", "Adagrad", "Muon", "LBFGS")},
    **{f"{kind} weight_decay": (lambda l, k=kind: getattr(l.optim, k)([param(l)], weight_decay=-1.0), "-1.0") for kind in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "RMSprop", "Adadelta", "Muon")},
    **{f"{kind} eps": (lambda l, k=kind: getattr(l.optim, k)([param(l)], eps=-1.0), "-1.0") for kind in ("Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "RMSprop", "Adadelta")},
    **{f"{kind} betas": (lambda l, k=kind: getattr(l.optim, k)([param(l)], betas=(1.0, 0.9)), "index 0: 1.0") for kind in ("Adam", "AdamW", "NAdam", "RAdam")},
    **{f"{kind} second beta": (lambda l, k=kind: getattr(l.optim, k)([param(l)], betas=(0.9, -0.1)), "index 1: -0.1") for kind in ("Adam", "AdamW", "NAdam", "RAdam")},
    "Adam betas number": (lambda l: l.optim.Adam([param(l)], betas=0.9), "betas"),
    "Adam one beta": (lambda l: l.optim.Adam([param(l)], betas=(0.9,)), "betas"),
    "SGD momentum": (lambda l: sgd(l, momentum=-0.5), "-0.5"),
    "SGD nesterov without momentum": (lambda l: sgd(l, nesterov=True), "momentum=0.0"),
    "SGD nesterov dampened": (lambda l: sgd(l, nesterov=True, momentum=0.9, dampening=0.1), "dampening=0.1"),
    "NAdam momentum_decay": (lambda l: l.optim.NAdam([param(l)], momentum_decay=-1.0), "-1.0"),
    "Adagrad lr_decay": (lambda l: l.optim.Adagrad([param(l)], lr_decay=-1.0), "-1.0"),
    "Adagrad initial_accumulator_value": (lambda l: l.optim.Adagrad([param(l)], initial_accumulator_value=-1.0), "-1.0"),
    "RMSprop momentum": (lambda l: l.optim.RMSprop([param(l)], momentum=-1.0), "-1.0"),
    "RMSprop alpha": (lambda l: l.optim.RMSprop([param(l)], alpha=-1.0), "-1.0"),
    "Adadelta rho": (lambda l: l.optim.Adadelta([param(l)], rho=1.5), "1.5"),
    "Muon momentum": (lambda l: l.optim.Muon([param(l)], momentum=-1.0), "-1.0"),
    "Muon adjust_lr_fn": (lambda l: l.optim.Muon([param(l)], adjust_lr_fn="x"), "x"),
    "Muon ns_steps": (lambda l: _step(l, l.optim.Muon, ns_steps=100), "ns_steps=100"),
    "Muon of vectors": (lambda l: l.optim.Muon([l.ones(2).requires_grad_()]), "[2]"),
    "LBFGS line search": (lambda l: _step(l, l.optim.LBFGS, line_search_fn="x"), "x"),
    "LBFGS groups": (lambda l: l.optim.LBFGS([{"params": [param(l)]}, {"params": [param(l)]}]), "2"),
    "no parameters": (lambda l: l.optim.SGD([], lr=0.1), "empty parameter list"),
    "a tensor for parameters": (lambda l: l.optim.SGD(param(l), lr=0.1), "Tensor"),
    "a number among parameters": (lambda l: l.optim.SGD([1.0], lr=0.1), "float"),
    "ndarray among parameters": (lambda l: l.optim.SGD([np.ones(2)], lr=0.1), "ndarray"),
    "None for parameters": (lambda l: l.optim.SGD(None, lr=0.1), "None"),
    "a computed parameter": (lambda l: l.optim.SGD([param(l) * 2], lr=0.1), "non-leaf"),
    "a parameter in two groups": (lambda l: (p := param(l)) is None or l.optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1), "more than one parameter group"),
    "a set of parameters": (lambda l: l.optim.SGD([{"params": {param(l)}}], lr=0.1), "ordered collections"),
    "a group without params": (lambda l: l.optim.SGD([{"lr": 0.1}], lr=0.1), "params"),
    "a group that is none": (lambda l: sgd(l).add_param_group([param(l)]), "list"),
    "unknown option": (lambda l: l.optim.SGD([param(l)], lr=0.1, momentun=0.9), "momentun"),
    "loading another state": (lambda l: sgd(l).load_state_dict({"state": {}, "param_groups": []}), "parameter groups"),
    "loading nothing": (lambda l: sgd(l).load_state_dict({}), "param_groups"),
    # schedulers
    "StepLR step_size 0": (lambda l: _steps(l, l.s.StepLR(sgd(l), step_size=0)), "step_size=0"),
    "StepLR step_size word": (lambda l: _steps(l, l.s.StepLR(sgd(l), step_size="a")), "'step_size' must be int, not str"),
    "StepLR of no optimizer": (lambda l: l.s.StepLR([1], 3), "list is not an Optimizer"),
    "MultiStepLR milestones": (lambda l: l.s.MultiStepLR(sgd(l), 5), "milestones"),
    "ConstantLR factor": (lambda l: l.s.ConstantLR(sgd(l), factor=1.5), "factor=1.5"),
    "ConstantLR factor negative": (lambda l: l.s.ConstantLR(sgd(l), factor=-0.5), "factor=-0.5"),
    "ConstantLR factor 0": (lambda l: _steps(l, l.s.ConstantLR(sgd(l), factor=0.0, total_iters=2)), "factor=0.0"),
    "LinearLR start_factor": (lambda l: l.s.LinearLR(sgd(l), start_factor=0.0), "start_factor=0.0"),
    "LinearLR end_factor": (lambda l: l.s.LinearLR(sgd(l), end_factor=1.5), "end_factor=1.5"),
    "LinearLR total_iters 0, closed": (lambda l: l.s.LinearLR(sgd(l), total_iters=0).step(3), "total_iters=0"),
    "ExponentialLR gamma": (lambda l: _steps(l, l.s.ExponentialLR(sgd(l), "a")), "'gamma' must be float, not str"),
    "PolynomialLR total_iters 0, closed": (lambda l: l.s.PolynomialLR(sgd(l), total_iters=0).step(3), "total_iters=0"),
    "CosineAnnealingLR T_max 0": (lambda l: _steps(l, l.s.CosineAnnealingLR(sgd(l), 0)), "T_max=0"),
    "CosineAnnealingWarmRestarts T_0": (lambda l: l.s.CosineAnnealingWarmRestarts(sgd(l), 0), "T_0, but got 0"),
    "CosineAnnealingWarmRestarts T_mult": (lambda l: l.s.CosineAnnealingWarmRestarts(sgd(l), 3, 0.5), "T_mult >= 1, but got 0.5"),
    "CosineAnnealingWarmRestarts epoch": (lambda l: l.s.CosineAnnealingWarmRestarts(sgd(l), 3).step(-1), "-1"),
    "OneCycleLR without steps": (lambda l: l.s.OneCycleLR(sgd(l), 0.1), "total_steps"),
    "OneCycleLR total_steps": (lambda l: l.s.OneCycleLR(sgd(l), 0.1, 0), "total_steps, but got 0"),
    "OneCycleLR pct_start": (lambda l: l.s.OneCycleLR(sgd(l), 0.1, 10, pct_start=2.0), "pct_start, but got 2.0"),
    "OneCycleLR anneal_strategy": (lambda l: l.s.OneCycleLR(sgd(l), 0.1, 10, anneal_strategy="x"), "got x"),
    "OneCycleLR max_lr": (lambda l: l.s.OneCycleLR(sgd(l), [0.1, 0.2], 10), "max_lr has 2 values"),
    "OneCycleLR momentum": (lambda l: l.s.OneCycleLR(l.optim.Adagrad([param(l)]), 0.1, 10), "cycle_momentum"),
    "ReduceLROnPlateau factor": (lambda l: l.s.ReduceLROnPlateau(sgd(l), factor=1.0), "factor=1.0"),
    "ReduceLROnPlateau mode": (lambda l: l.s.ReduceLROnPlateau(sgd(l), mode="x"), "mode x is unknown"),
    "ReduceLROnPlateau threshold_mode": (lambda l: l.s.ReduceLROnPlateau(sgd(l), threshold_mode="x"), "threshold mode x is unknown"),
    "ReduceLROnPlateau min_lr": (lambda l: l.s.ReduceLROnPlateau(sgd(l), min_lr=[0.1, 0.1]), "got 2"),
    "ReduceLROnPlateau metric": (lambda l: l.s.ReduceLROnPlateau(sgd(l)).step("a"), "'a'"),
    "LambdaLR of a number": (lambda l: l.s.LambdaLR(sgd(l), 0.9), "float"),
    "LambdaLR of two": (lambda l: l.s.LambdaLR(sgd(l), [abs, abs]), "got 2"),
    "MultiplicativeLR of a number": (lambda l: l.s.MultiplicativeLR(sgd(l), 0.9), "float"),
    "SequentialLR of none": (lambda l: l.s.SequentialLR(sgd(l), [], []), "no scheduler"),
    "SequentialLR milestones": (lambda l: l.s.SequentialLR(o := sgd(l), [l.s.StepLR(o, 3)], [3]), "milestones to be equal to 1"),
    "ChainedScheduler of none": (lambda l: l.s.ChainedScheduler([]), "no scheduler"),
    "ChainedScheduler of a number": (lambda l: l.s.ChainedScheduler([3]), "index 0"),
    "resuming without initial_lr": (lambda l: l.s.StepLR(sgd(l), 3, last_epoch=5), "param_groups[0]"),
}  # fmt: skip


def _step(l: Any, kind: Any, **options: Any) -> None:
    """A step of an optimizer: PyTorch looks at some arguments only then."""
    p = param(l)
    optimizer = kind([p], **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    optimizer.step(closure)


def _steps(l: Any, scheduler: Any) -> None:
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
        for what, value in NO_TENSORS.items():
            if (value is None and "None" in str(p.annotation)) or (what == "float" and "float" in str(p.annotation)):
                continue
            says = rf"^{name}\(\): argument '{wrong}' must be Tensor, not "
            if "float" not in str(p.annotation):
                with pytest.raises(TypeError, match=says) as caught:
                    FUNCTIONS[name](**{**fixed, wrong: value})
                assert isinstance(caught.value, sg.ShadergradError)
        if list(parameters)[0] == wrong:
            with pytest.raises(TypeError, match=says):
                FUNCTIONS[name](np.ones(2), **{k: v for k, v in fixed.items() if k != wrong})
