"""The start states, targets and masks of an automaton's training, drawn on the host ahead of their use.

In: an experiment and where its random keys stand. Out: for each optimizer step what Training.batch and Training.masks
give, to the bit, and the keys after it. Many steps are drawn by one call: single draws would take longer than a GPU's step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple

import numpy as np

from ..data.dataset import IterableDataset
from ..data.loader import DataLoader
from ..logic import wiring
from ..logic.automata import draw_masks
from ..logic.experiments import Experiment
from ..runtime.device import canonical_name
from ..tensor import Tensor, tensor

AT_ONCE = 32  # optimizer steps


class Keys(NamedTuple):
    """Of the data and of the masks drawn next, two uint32 words each."""

    data: np.ndarray
    masks: np.ndarray


Arrays = tuple[np.ndarray, ...]


def draws(settings: Experiment, keys: Keys) -> Iterator[tuple[Arrays, Keys]]:
    """For each step (start, target), or (start, target, masks), and the keys after it; without end."""
    while True:
        data, data_after = _chain(keys.data)
        masks, masks_after = _chain(keys.masks)
        parts = [_of_each_step(part) for part in settings.data(data, settings)]
        if settings.fire_rate is not None:
            parts.append(draw_masks(masks, settings.ca_steps, *settings.grid, settings.fire_rate))
        for k in range(AT_ONCE):
            keys = Keys(data_after[k], masks_after[k])
            yield tuple(part[k] for part in parts), keys


def _of_each_step(part: np.ndarray) -> np.ndarray:
    """(steps, batch, height, width, channels), also of what is the same in all steps."""
    return part if part.ndim == 5 else np.broadcast_to(part, (AT_ONCE, *part.shape))


def _chain(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What so many splittings of a key one after the other give: the keys drawn, and those that were left each time."""
    drawn, left = [], []
    for _ in range(AT_ONCE):
        key, own = wiring.split(key)
        left.append(key)
        drawn.append(own)
    return np.stack(drawn), np.stack(left)


class Batches:
    """`for batch in Batches(...)`: tensors on the device, for so many steps; `keys` are those after the last batch given."""

    def __init__(self, settings: Experiment, keys: Keys, steps: int, device: str) -> None:
        self.settings, self.keys, self.steps, self.device = settings, keys, steps, device
        self._drawn: deque[Keys] = deque()  # of the batches on their way, in their order

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        if not self.settings.fresh and self.settings.fire_rate is None:
            yield from repeat(self._only(), self.steps)
            return
        workers = 0 if canonical_name(self.device) == "cpu" else 1
        batches = DataLoader(_Stream(self._arrays()), None, num_workers=workers, prefetch_factor=8, device=self.device)
        for batch in batches:
            self.keys = self._drawn.popleft()
            yield batch

    def _only(self) -> tuple[Tensor, ...]:
        """The batch of an experiment whose batches are all the same."""
        arrays, _ = next(draws(self.settings, self.keys))
        return tuple(tensor(array, device=self.device) for array in arrays)

    def _arrays(self) -> Iterator[Arrays]:
        for (arrays, keys), _ in zip(draws(self.settings, self.keys), range(self.steps), strict=False):
            self._drawn.append(keys)
            yield arrays


class _Stream(IterableDataset[Arrays]):
    def __init__(self, arrays: Iterator[Arrays]) -> None:
        self.arrays = arrays

    def __iter__(self) -> Iterator[Arrays]:
        return self.arrays
