"""Remedies with which an automaton's training converges for more seeds. In: settings, all off by default. Out: masks, rates, noise, a loss.

Which of them help depends on the experiment: `shadergrad logic study checkerboard --seeds 20 --strength 3` counts the seeds that converge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import shadergrad as sg

from ..errors import ShapeError
from ..nn import Parameter
from ..nn.errors import ArgumentError

NEAREST = 1e-6  # the least 1 - error: its logarithm stays finite


@dataclass(frozen=True)
class Remedies:
    """gradient_noise: adds normal noise to each gradient, in multiples of its root mean square (after Neelakantan and others, 2015).
    strength: the logit with which gates pass an input on at first, 10 by default: a smaller one lets them change sooner.
    curriculum: the optimizer step from which the automaton takes all its steps; before, it takes a part of them that grows evenly.
    warm_up: optimizer steps while the learning rate rises from 0.
    focal: the gamma of the focal loss, which takes the place of the squared error (Lin and others, 2017); 0: cross-entropy.
    Raises ArgumentError for numbers out of range.

    >>> sg.logic.Remedies(curriculum=4).automaton_steps(1, of=20)
    10
    """

    gradient_noise: float = 0.0
    strength: float | None = None
    curriculum: int = 0
    warm_up: int = 0
    focal: float | None = None

    def __post_init__(self) -> None:
        least = {"gradient_noise": 0, "curriculum": 0, "warm_up": 0, "focal": 0}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and not bound <= value < np.inf:
                raise ArgumentError(f"[Remedies] {name} is {value}; it must be at least {bound}, and finite.")
        if self.strength is not None and not 0 < self.strength < np.inf:
            raise ArgumentError(f"[Remedies] strength is {self.strength}; it must be positive, and finite.")

    @property
    def chosen(self) -> dict[str, Any]:
        """The remedies that are on, by name."""
        nothing = asdict(Remedies())
        return {name: value for name, value in asdict(self).items() if value != nothing[name]}

    def rate(self, step: int) -> float:
        """The factor of the learning rate of optimizer step 0, 1, 2 ..."""
        return min(1.0, (step + 1) / self.warm_up) if self.warm_up else 1.0

    def automaton_steps(self, step: int, of: int) -> int:
        """How many of an automaton's steps it takes at optimizer step 0, 1, 2 ..."""
        return of if step >= self.curriculum else max(1, -(-(step + 1) * of // self.curriculum))

    def masks(self, first: int, count: int, of: int, grid: tuple[int, int]) -> np.ndarray | None:
        """The cells that change at optimizer steps first, first + 1, ...: bool (count, of, height, width, 1). None without a curriculum."""
        if not self.curriculum:
            return None
        taken = np.array([self.automaton_steps(first + k, of) for k in range(count)])
        changes = np.arange(of) < taken[:, None]
        return np.broadcast_to(changes[..., None, None, None], (count, of, *grid, 1))

    def add_noise(self, parameters: Iterable[Parameter]) -> None:
        """Add the noise to the parameters' gradients."""
        if not self.gradient_noise:
            return
        with sg.no_grad():
            for p in parameters:
                if p.grad is not None:
                    spread = self.gradient_noise * p.grad.square().mean().sqrt()
                    p.grad = p.grad + spread * sg.randn(*p.shape, device=p.device)


def focal_error(state: sg.Tensor, target: sg.Tensor, gamma: float = 2.0, channels: int | None = None) -> sg.Tensor:
    """The sum over batch, cells and the first `channels` channels (all, by default) of -e^gamma log(1 - e), e = |state - target|.

    state and target (..., channels or more), in [0, 1]. Bits that are nearly right weigh less; gamma 0 is cross-entropy. Raises ShapeError if the
    other axes differ, or there are fewer channels. Source: "Focal Loss for Dense Object Detection" (Lin and others, 2017).

    >>> sg.logic.focal_error(sg.tensor([[0.5, 1.0]]), sg.zeros(1, 1), gamma=1.0, channels=1)  # ln 2 / 2
    tensor(0.3466)
    """
    count = state.shape[-1] if channels is None else channels
    if state.shape[:-1] != target.shape[:-1] or min(state.shape[-1], target.shape[-1]) < count:
        raise ShapeError(
            f"[focal_error] the state is {tuple(state.shape)}, the target {tuple(target.shape)}; {count} channels are to be compared."
        )
    error = (state[..., :count] - target[..., :count]).abs()
    return -(error**gamma * (1 - error).clamp(NEAREST, 1.0).log()).sum()
