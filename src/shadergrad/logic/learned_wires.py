"""Wires that are learned: each input of a gate chooses among a few wires drawn at random.

In: values on wires (..., n_in). Out: the inputs a and b of every gate, (..., n_out) each. A choice is a softmax over candidates; straight
through, the forward pass reads the likeliest wire, as the hardened circuit does, and the gradient reaches all candidates. Source: "A Method
for Optimizing Connections in Differentiable Logic Gate Networks" (Mommen and others, 2025), which chooses among a subset of connections.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import shadergrad as sg

from ..nn import Module, Parameter
from ..nn.errors import ArgumentError
from ..nn.functional import one_hot
from . import wiring as wiring_of
from .fused import cell as fused_cell
from .modes import checked_mode
from .wire_gradients import ReadWires

CANDIDATES = 8  # of an input of a gate
WIRE_MODES = ("straight-through", "soft")
MOST_READERS = 256  # of one input; if one has more, no index is built, and each step sorts the wires


class LearnedWires(Module):
    """The wires of a layer with wiring="learned": `choices` (2, n_out, candidates), the logits of the wires in the buffer `candidates`, int32 of
    the same shape.

    candidates: for each input of a gate, drawn with `key`, without repetition; at most n_in. mode: "straight-through" reads the likeliest
    wire, with the gradient of the mixture; "soft" reads the mixture. Raises ArgumentError for candidates below 1 or another mode.

    >>> wires = sg.logic.learned_wires.LearnedWires(6, 4, 3, "soft", sg.logic.wiring.prng_key(0))
    >>> [tuple(x.shape) for x in wires(sg.zeros(5, 6), hard=False)]
    [(5, 4), (5, 4)]
    """

    choices: Parameter
    candidates: sg.Tensor
    readers: sg.Tensor | None
    _mode: str

    def __init__(self, n_in: int, n_out: int, candidates: int, mode: str, key: np.ndarray, device: Any = None) -> None:
        super().__init__()
        if candidates < 1:
            raise ArgumentError(f"[LogicLayer] {candidates} candidates; an input of a gate needs at least 1.")
        self.n_in, self.n_out, self.mode = n_in, n_out, mode
        drawn = draw_candidates(n_in, n_out, candidates, key)
        self.register_buffer("candidates", sg.tensor(drawn, device=device))
        self.prepare()
        self.choices = Parameter(sg.randn(*drawn.shape, device=device))

    @property
    def mode(self) -> str:
        """How the wires are read in train()."""
        return self._mode

    @mode.setter
    def mode(self, value: str) -> None:
        self._mode = checked_mode("LogicLayer wire_mode", value, WIRE_MODES)

    def prepare(self) -> None:
        """Build the index of each input's readers. Call it after changing candidates by hand. Raises IndexRangeError for wires out of range."""
        given = self.candidates.numpy().reshape(2, -1)
        pair = wiring_of.check(self.n_in, given.shape[1], given)
        table = fused_cell.readers_of(self.n_in, *pair)
        kept = table if len(table) <= MOST_READERS else None
        readers = None if kept is None else sg.tensor(kept.astype(np.int32), device=self.candidates.device)
        self.register_buffer("readers", readers, persistent=False)

    def likeliest(self) -> sg.Tensor:
        """The likeliest wires (2, n_out) int32, which the circuit gets; the first on ties."""
        chosen = self.choices.detach().argmax(-1, keepdim=True)
        return self.candidates.gather(-1, chosen).squeeze(-1)

    def forward(self, x: sg.Tensor, hard: bool) -> tuple[sg.Tensor, sg.Tensor]:
        """The inputs a and b (..., n_out) of x (..., n_in); hard: those of the likeliest wires, without a gradient for the choices."""
        if hard:
            read = x.index_select(-1, self.likeliest().reshape(-1)).reshape(*x.shape[:-1], 2, self.n_out)
            return read.select(-2, 0), read.select(-2, 1)
        places = self.candidates.reshape(-1)
        read = x.index_select(-1, places) if self.readers is None else ReadWires.apply(x, places, self.readers, -1)
        weights = self.choices.softmax(-1)
        if self.mode == "straight-through":
            chosen = one_hot(self.choices.detach().argmax(-1), self.choices.shape[-1]).to(dtype=weights.dtype)
            weights = chosen + (weights - weights.detach())
        mixed = (read.reshape(*x.shape[:-1], *self.choices.shape) * weights).sum(-1)
        return mixed.select(-2, 0), mixed.select(-2, 1)

    def extra_repr(self) -> str:
        """The text in brackets of the printed module."""
        return f"n_in={self.n_in}, n_out={self.n_out}, candidates={self.choices.shape[-1]}, mode={self.mode!r}"


def draw_candidates(n_in: int, n_out: int, candidates: int, key: np.ndarray) -> np.ndarray:
    """Wires for each input of each gate, int32 (2, n_out, candidates or n_in), distinct for each input. All wires occur about equally often.

    >>> sorted(sg.logic.learned_wires.draw_candidates(3, 1, 5, sg.logic.wiring.prng_key(0))[0, 0].tolist())
    [0, 1, 2]
    """
    return draw_rows(n_in, 2 * n_out, candidates, key).reshape(2, n_out, -1)


def draw_rows(n_in: int, rows: int, most: int, key: np.ndarray) -> np.ndarray:
    """`most` of n_in wires, or all, for each row, int32 (rows, most or n_in): distinct within a row, all about equally often."""
    rng = np.random.default_rng([int(word) for word in key])
    taken = min(most, n_in)
    drawn = np.empty((rows, taken), np.int32)
    order = np.zeros(0, np.int64)
    for row in range(rows):
        if len(order) < taken:  # the next round begins with wires that are not left over, so that no row repeats one
            fresh = rng.permutation(n_in)
            repeated = np.isin(fresh, order)
            order = np.concatenate([order, fresh[~repeated], fresh[repeated]])
        drawn[row], order = order[:taken], order[taken:]
    return drawn
