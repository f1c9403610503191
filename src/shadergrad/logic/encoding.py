"""Numbers as bits, the inputs of a logic network. In: (..., n). Out: (..., n * bits), values in [0, 1]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import shadergrad as sg

from ..errors import ShapeError
from ..nn import Parameter
from ..nn.errors import ArgumentError
from .modes import Moded


class Thermometer(Moded):
    """`bits` thresholds for each of n numbers: bit k is 1 if the number is above threshold k.

    x (..., n) gives (..., n * bits), the bits of a number side by side. The parameter `thresholds` (n, bits) starts evenly
    spaced inside low..high, without the ends; fit() sets it to quantiles. With one bit it is a plain threshold.
    mode: "soft": sigmoid((x - threshold) / temperature). "hard": 0 or 1, without gradient for the thresholds.
    "straight-through": 0 or 1, with the gradient of "soft". In eval() every mode computes as "hard". learned=False keeps the thresholds as they are.
    image: (channels, height, width) with n places: x (..., *image) gives (..., channels * bits, height, width), for LogicConv2d; the bits of
    a channel are adjacent.
    Raises ArgumentError for arguments out of range, ShapeError for another last axis.

    >>> encode = sg.logic.Thermometer(2, 3, mode="hard")  # thresholds at 0.25, 0.5 and 0.75
    >>> encode(sg.tensor([0.6, 0.1]))
    tensor([1., 1., 0., 0., 0., 0.])
    """

    thresholds: sg.Tensor
    modes = ("soft", "hard", "straight-through")

    def __init__(
        self,
        n: int,
        bits: int,
        low: float = 0.0,
        high: float = 1.0,
        mode: str = "soft",
        temperature: float = 0.1,
        learned: bool = True,
        device: Any = None,
        image: tuple[int, int, int] | None = None,
    ) -> None:
        super().__init__()
        if n < 1 or bits < 1:
            raise ArgumentError(f"[Thermometer] {n} numbers of {bits} bits; both must be at least 1.")
        if not low < high:
            raise ArgumentError(f"[Thermometer] the range {low} to {high} is empty.")
        if image is not None and (len(image) != 3 or math.prod(image) != n):
            raise ArgumentError(f"[Thermometer] an image of {tuple(image)} does not have the {n} numbers.")
        self.image = None if image is None else tuple(image)
        self.n, self.bits, self.mode, self.temperature = n, bits, mode, temperature
        spaced = np.linspace(low, high, bits + 2, dtype=np.float32)[1:-1]
        self.thresholds = Parameter(sg.tensor(np.tile(spaced, (n, 1)), device=device), requires_grad=learned)

    def fit(self, data: Any) -> Thermometer:
        """Set the thresholds to quantiles of data (samples, n), an array or tensor, so that all bits carry equal information."""
        values = data.detach().numpy() if isinstance(data, sg.Tensor) else np.asarray(data)
        if values.ndim != 2 or values.shape[1] != self.n or not len(values):
            raise ShapeError(
                f"[Thermometer.fit] data are {values.shape}, not (samples, {self.n}) with a sample at least."
            )
        if np.isnan(values).any():
            raise ArgumentError(
                f"[Thermometer.fit] number {int(np.isnan(values).any(0).argmax())} is NaN in a sample; no quantile is defined."
            )
        parts = np.linspace(0, 1, self.bits + 2)[1:-1]
        self.thresholds.write_(np.quantile(values, parts, axis=0).T)
        return self

    def forward(self, input: sg.Tensor) -> sg.Tensor:
        """The bits (..., n * bits) of numbers (..., n); of an image (..., channels, height, width) as above."""
        x = sg.as_tensor(input)
        if self.image is not None:
            if tuple(x.shape[-3:]) != self.image:
                raise ShapeError(f"[Thermometer] x is {tuple(x.shape)}; it must end in the image, {self.image}.")
            x = x.reshape(*x.shape[:-3], self.n)
        if not x.ndim or x.shape[-1] != self.n:
            raise ShapeError(f"[Thermometer] x is {tuple(x.shape)}; its last axis must have the {self.n} numbers.")
        above = x.unsqueeze(-1) - self.thresholds
        result = (above.detach() > 0).to(dtype=above.dtype)
        if not self.hard:
            soft = (above / self.temperature).sigmoid()
            result = soft if self.mode == "soft" else result + (soft - soft.detach())
        if self.image is not None:
            channels, height, width = self.image
            bits = result.reshape(*x.shape[:-1], channels, height, width, self.bits).movedim(-1, -3)
            return bits.reshape(*x.shape[:-1], channels * self.bits, height, width)
        return result.reshape(*x.shape[:-1], self.n * self.bits)

    def extra_repr(self) -> str:
        """The text in brackets of the printed module."""
        return f"n={self.n}, bits={self.bits}, mode={self.mode!r}, temperature={self.temperature}"
