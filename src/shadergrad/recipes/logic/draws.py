"""The start states, targets and masks of an automaton's training, drawn on the host ahead of their use.

In: an experiment and the random keys that it begins with. Out: for each optimizer step what Training.batch and
Training.masks give, to the bit. Many steps are drawn by one call: single draws would take longer than a GPU's step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shadergrad.logic import wiring
from shadergrad.logic.automata import draw_masks
from shadergrad.logic.experiments import Experiment

AT_ONCE = 32  # optimizer steps


Arrays = tuple[np.ndarray, ...]


def draws(settings: Experiment, data_key: np.ndarray, mask_key: np.ndarray) -> Iterator[Arrays]:
    """An endless iterator over (start, target), or (start, target, masks), per step. A key is two uint32 words."""
    first = 0
    while True:
        data, data_key = _chain(data_key)
        masks, mask_key = _chain(mask_key)
        parts = [_of_each_step(part) for part in settings.data(data, settings)]
        if settings.fire_rate is not None:
            parts.append(draw_masks(masks, settings.ca_steps, *settings.grid, settings.fire_rate))
        allowed = settings.remedies.masks(first, AT_ONCE, settings.ca_steps, settings.grid)
        if allowed is not None:
            parts[2:] = [parts[2] & allowed if len(parts) > 2 else allowed]
        first += AT_ONCE
        for k in range(AT_ONCE):
            yield tuple(part[k] for part in parts)


def _of_each_step(part: np.ndarray) -> np.ndarray:
    """(steps, batch, height, width, channels), also for arrays that are the same in all steps."""
    return part if part.ndim == 5 else np.broadcast_to(part, (AT_ONCE, *part.shape))


def _chain(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The keys of this number of successive splits, and the remaining key."""
    drawn = []
    for _ in range(AT_ONCE):
        key, own = wiring.split(key)
        drawn.append(own)
    return np.stack(drawn), key
