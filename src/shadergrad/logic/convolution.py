"""Convolutions of gates: a tree of gates for each output channel, the same at every position; and pooling by OR.

In: values in [0, 1], (batch, channels, height, width). Out: the same layout. Source: "Convolutional Differentiable Logic Gate Networks"
(Petersen and others, 2024).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import shadergrad as sg

from ..errors import ShapeError
from ..nn import Module, ModuleList
from ..nn.errors import ArgumentError
from ..nn.functional import max_pool2d, pad
from .layers import LogicLayer
from .modes import ModedStack

DEEPEST = 8  # a tree of 256 leaves


class LogicConv2d(ModedStack):
    """x (batch, in_channels, height, width) to (batch, out_channels, height', width'), by a tree of gates for each output channel.

    depth: of the trees; one has 2^depth leaves and 2^depth - 1 gates. A leaf reads a fixed place of the kernel's window, (kernel_size,
    kernel_size) in `channels_per_tree` of the input's channels, drawn with `seed`; leaves differ while there are places enough.
    stride, padding (zeros): as in nn.Conv2d. init, mode, temperature, parametrisation, strength, grad_factor: as in LogicLayer; trees start
    by default from gates that pass an input on.
    `layers`: the levels of all trees, LogicLayers on the window's values. Raises ArgumentError for arguments out of range, ShapeError
    for an input of other channels, or smaller than the window.

    >>> convolution = sg.logic.LogicConv2d(2, 5, kernel_size=3, depth=2, padding=1)
    >>> convolution(sg.zeros(1, 2, 8, 8)).shape, convolution.n_gates
    (shadergrad.Size([1, 5, 8, 8]), 15)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        depth: int = 3,
        stride: int = 1,
        padding: int = 0,
        channels_per_tree: int = 2,
        init: str = "residual",
        mode: str = "soft",
        seed: int = 0,
        temperature: float = 1.0,
        device: Any = None,
        parametrisation: str = "softmax",
        strength: float | None = None,
        grad_factor: float = 1.0,
    ) -> None:
        super().__init__()
        sizes = (in_channels, out_channels, kernel_size, depth, stride, channels_per_tree)
        if not all(isinstance(size, int | np.integer) for size in (*sizes, padding)):
            raise ArgumentError(
                f"[LogicConv2d] kernel_size {kernel_size!r}, stride {stride!r}, padding {padding!r}, depth {depth!r} and channels are "
                "whole numbers: windows are square."
            )
        if min(sizes) < 1 or padding < 0 or depth > DEEPEST:
            raise ArgumentError(
                f"[LogicConv2d] channels {in_channels} and {out_channels}, kernel_size {kernel_size}, depth {depth}, stride {stride}, "
                f"channels_per_tree {channels_per_tree}, padding {padding}: all at least 1, padding at least 0, depth at most {DEEPEST}."
            )
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.depth, self.stride, self.padding = depth, stride, padding
        leaves = draw_leaves(in_channels, out_channels, kernel_size, depth, channels_per_tree, seed)
        self.layers = ModuleList()
        n_in, wires = in_channels * kernel_size**2, (leaves[:, 0::2].reshape(-1), leaves[:, 1::2].reshape(-1))
        for level in range(depth):
            n_out = out_channels << (depth - 1 - level)
            options = (temperature, device, parametrisation, strength, grad_factor)
            self.layers.append(LogicLayer(n_in, n_out, wires, init, mode, None, 0, *options))
            n_in, wires = n_out, (np.arange(0, n_out, 2), np.arange(1, n_out, 2))

    @property
    def n_gates(self) -> int:
        """The number of gates with parameters: out_channels * (2^depth - 1)."""
        return sum(layer.n_gates for layer in self.layers)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """The height and width of the output. Raises ShapeError if the window does not fit."""
        sides = tuple((side + 2 * self.padding - self.kernel_size) // self.stride + 1 for side in (height, width))
        if min(sides) < 1:
            raise ShapeError(
                f"[LogicConv2d] an image of {height} x {width} with padding {self.padding} is smaller than the window, {self.kernel_size}."
            )
        return sides[0], sides[1]

    def forward(self, input: sg.Tensor) -> sg.Tensor:
        """The outputs (batch, out_channels, height', width') of x (batch, in_channels, height, width)."""
        if input.ndim != 4 or input.shape[1] != self.in_channels:
            raise ShapeError(
                f"[LogicConv2d] x is {tuple(input.shape)}, not (batch, {self.in_channels}, height, width)."
            )
        height, width = self.output_size(*input.shape[2:])
        own = self.padding
        x = pad(input, (own, own, own, own)) if own else input
        windows = x.unfold(2, self.kernel_size, self.stride).unfold(3, self.kernel_size, self.stride)
        y = windows.permute(0, 2, 3, 1, 4, 5).reshape(-1, self.layers[0].n_in)
        for layer in self.layers:
            y = layer(y)
        return y.reshape(input.shape[0], height, width, self.out_channels).permute(0, 3, 1, 2)

    def extra_repr(self) -> str:
        """The text in brackets of the printed module."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, depth={self.depth}, stride={self.stride}, "
            f"padding={self.padding}"
        )


class OrPool2d(Module):
    """The OR of each window: the largest value of (batch, channels, height, width) in kernel_size x kernel_size, as nn.MaxPool2d.

    stride: by default kernel_size. Raises ArgumentError for sizes below 1, ShapeError for another number of axes.

    >>> sg.logic.OrPool2d(2)(sg.tensor([[[[0.0, 1.0], [0.0, 0.0]]]])).flatten()
    tensor([1.])
    """

    def __init__(self, kernel_size: int, stride: int | None = None) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        if min(self.kernel_size, self.stride) < 1:
            raise ArgumentError(f"[OrPool2d] kernel_size {kernel_size} and stride {stride}; both are at least 1.")

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """The height and width of the output. Raises ShapeError if no window fits."""
        sides = tuple((side - self.kernel_size) // self.stride + 1 for side in (height, width))
        if min(sides) < 1:
            raise ShapeError(
                f"[OrPool2d] an image of {height} x {width} is smaller than the window, {self.kernel_size}."
            )
        return sides[0], sides[1]

    def forward(self, input: sg.Tensor) -> sg.Tensor:
        """The outputs (batch, channels, height', width')."""
        if input.ndim != 4:
            raise ShapeError(f"[OrPool2d] x is {tuple(input.shape)}, not (batch, channels, height, width).")
        self.output_size(*input.shape[2:])
        return max_pool2d(input, self.kernel_size, self.stride)  # type: ignore[return-value]  # no indices are asked for

    def extra_repr(self) -> str:
        """The text in brackets of the printed module."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}"


def draw_leaves(
    in_channels: int, out_channels: int, kernel_size: int, depth: int, channels_per_tree: int, seed: int
) -> np.ndarray:
    """The places that the leaves of each tree read, int64 (out_channels, 2^depth), of the window's in_channels * kernel_size^2.

    All channels are read equally often, give or take one, because trees take them from shuffled rounds.
    """
    rng = np.random.default_rng(seed)
    taken = min(channels_per_tree, in_channels)
    rounds = -(-out_channels * taken // in_channels)
    order = np.concatenate([rng.permutation(in_channels) for _ in range(rounds)])
    leaves = np.empty((out_channels, 1 << depth), np.int64)
    area = kernel_size**2
    for tree in range(out_channels):
        channels = np.unique(order[tree * taken : (tree + 1) * taken])
        places = (channels[:, None] * area + np.arange(area)).reshape(-1)
        repeats = -(-leaves.shape[1] // len(places))
        leaves[tree] = np.concatenate([rng.permutation(places) for _ in range(repeats)])[: leaves.shape[1]]
    return leaves
