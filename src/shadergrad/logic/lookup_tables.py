"""Gates of more than two inputs: lookup tables, learned. A layer of them hardens to trees of two-input gates.

In: values in [0, 1], (..., n_in). Out: values in [0, 1], (..., n_out). A table of k inputs has 2^k entries, each a sigmoid. Entry i is the value for
inputs equal to the bits of i, the first input the highest bit. Between these corners the value is interpolated linearly in every input. Sources
of the parameters: "Light Differentiable Logic Gate Networks" (Rüttgers and others, 2025) and "WARP-LUTs" (Gerlach and others, 2025).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import shadergrad as sg

from ..errors import ShapeError
from ..nn import Parameter
from ..nn.errors import ArgumentError
from . import wiring as wiring_of
from .circuit.gate_kinds import AND, NOT_A_AND_B, OR
from .learned_wires import draw_rows
from .modes import ModedGates
from .parametrisations import logistic_like
from .wire_gradients import ScaledGradient

PARAMETRISATIONS, INITS = ("light", "walsh"), ("residual", "pass-through", "gaussian")
WIDEST = 8  # inputs of a table
STRENGTH = 3.0


class LookupLayer(ModedGates):
    """n_out learned tables of `arity` inputs each: x (..., n_in) gives (..., n_out).

    arity: from 2 to 8, and at most n_in. The wires are drawn with `key` or `seed`, all inputs about equally often, different ones for a table;
    the buffer `wires` (arity, n_out) int32 holds them. parametrisation: "light", a logit for each entry, or "walsh", Walsh coefficients of
    the logits. init, strength (3 by default), mode, temperature and grad_factor: as in LogicLayer; "residual" passes the first input on.
    The parameter `logits` is (n_out, 2^arity). Raises ArgumentError for arguments out of range, ShapeError for another last axis of x.

    >>> layer = sg.logic.LookupLayer(10, 6, arity=4)
    >>> layer(sg.zeros(5, 10)).shape, layer.tables().shape
    (shadergrad.Size([5, 6]), (6, 16))
    """

    logits: Parameter
    wires: sg.Tensor

    def __init__(
        self,
        n_in: int,
        n_out: int,
        arity: int = 4,
        parametrisation: str = "light",
        init: str = "residual",
        mode: str = "soft",
        key: np.ndarray | None = None,
        seed: int = 0,
        temperature: float = 1.0,
        device: Any = None,
        strength: float | None = None,
        grad_factor: float = 1.0,
    ) -> None:
        super().__init__()
        if not 2 <= arity <= min(WIDEST, n_in) or n_out < 1:
            raise ArgumentError(
                f"[LookupLayer] {n_out} tables of {arity} of {n_in} inputs; arity is from 2 to {WIDEST}, and there are as many inputs."
            )
        for what, value, known in (("parametrisation", parametrisation, PARAMETRISATIONS), ("init", init, INITS)):
            if value not in known:
                raise ArgumentError(f"[LookupLayer] there is no {what} {value!r}; choose of {', '.join(known)}.")
        if strength is not None and not strength > 0:
            raise ArgumentError(f"[LookupLayer] strength is {strength}; it must be positive.")
        self.n_in, self.n_out, self.arity, self.parametrisation, self.init = n_in, n_out, arity, parametrisation, init
        self.mode, self.temperature, self.grad_factor = mode, temperature, grad_factor
        drawn = draw_rows(n_in, n_out, arity, wiring_of.prng_key(seed) if key is None else key)
        self.register_buffer("wires", sg.tensor(np.ascontiguousarray(drawn.T), device=device))
        self.logits = Parameter(self._initial(strength, device))

    def _initial(self, strength: float | None, device: Any) -> sg.Tensor:
        shape = (self.n_out, 1 << self.arity)
        if self.init == "gaussian":
            return (1.0 if strength is None else strength) * sg.randn(*shape, device=device)
        given = np.zeros(shape, np.float32)
        if self.parametrisation == "walsh":
            given[:, 1 << (self.arity - 1)] = 1  # the coefficient of the first input
        else:
            given[:, : shape[1] // 2], given[:, shape[1] // 2 :] = -1, 1
        return sg.tensor(given * np.float32(STRENGTH if strength is None else strength), device=device)

    @property
    def n_gates(self) -> int:
        """The number of tables."""
        return self.n_out

    def entries(self) -> sg.Tensor:
        """The logits of the tables' entries (n_out, 2^arity)."""
        return self.logits if self.parametrisation == "light" else self.logits @ self._walsh(self.logits)

    def tables(self) -> np.ndarray:
        """The hardened tables, bool (n_out, 2^arity)."""
        return self.entries().detach().numpy() > 0

    def _walsh(self, like: sg.Tensor) -> sg.Tensor:
        return sg.tensor(walsh(self.arity), dtype=like.dtype, device=like.device)

    def values(self) -> sg.Tensor:
        """The tables' entries in [0, 1] (n_out, 2^arity), by the mode; in eval() 0 or 1."""
        entries = self.entries()
        if self.mode.startswith("gumbel") and not self.hard:
            entries = (entries + logistic_like(entries)) / self.temperature
        bits = (entries.detach() > 0).to(dtype=entries.dtype)
        if self.hard:
            return bits
        soft = entries.sigmoid()
        return soft if self.mode in ("soft", "gumbel") else bits + (soft - soft.detach())

    def forward(self, input: sg.Tensor) -> sg.Tensor:
        """The outputs (..., n_out) of x (..., n_in), by the mode. Raises ShapeError for another last axis."""
        if not input.ndim or input.shape[-1] != self.n_in:
            raise ShapeError(f"[LookupLayer] x is {tuple(input.shape)}; its last axis must have the {self.n_in} wires.")
        if self.grad_factor != 1:
            input = ScaledGradient.apply(input, self.grad_factor)
        read = input.index_select(-1, self.wires.reshape(-1)).reshape(*input.shape[:-1], self.arity, self.n_out)
        found = self.values()
        for k in range(self.arity):
            x = read.select(-2, k).unsqueeze(-1)
            half = found.shape[-1] // 2
            low, high = found.narrow(-1, 0, half), found.narrow(-1, half, half)
            found = low + (high - low) * x
        return found.squeeze(-1)

    def extra_repr(self) -> str:
        """The text in brackets of the printed module."""
        return (
            f"n_in={self.n_in}, n_out={self.n_out}, arity={self.arity}, parametrisation={self.parametrisation!r}, "
            f"init={self.init!r}, mode={self.mode!r}"
        )


def walsh(arity: int) -> np.ndarray:
    """(2^arity, 2^arity): the factor of Walsh coefficient s at corner i: the product of the signs of the inputs in s, -1 for 0 and 1 for 1.

    >>> sg.logic.lookup_tables.walsh(1).tolist()
    [[1.0, 1.0], [-1.0, 1.0]]
    """
    one = np.array([[1, 1], [-1, 1]], np.float32)
    found = np.ones((1, 1), np.float32)
    for _ in range(arity):
        found = np.kron(found, one)
    return found


def as_gates(tables: np.ndarray, wires: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Tables (n, 2^k) on wires (k, n) as two-input gates: the gates (m, 3), whose wires count from `first`, and the wires of the results (n,).

    The last two inputs feed a gate for each assignment of the other inputs. These select one gate by (s AND high) OR (NOT s AND low).
    """
    n = len(tables)
    arity = int(math.log2(tables.shape[1]))
    kinds = tables.reshape(n, -1, 4) @ np.array([8, 4, 2, 1])
    parts = [np.stack(np.broadcast_arrays(kinds, wires[-2][:, None], wires[-1][:, None]), -1).reshape(-1, 3)]
    count = first + len(parts[0])
    found = np.arange(first, count).reshape(n, -1)
    for level in range(arity - 3, -1, -1):
        selector = np.broadcast_to(wires[level][:, None], (n, found.shape[1] // 2))
        low, high = found[:, 0::2], found[:, 1::2]
        made = []
        for kind, a, b in ((AND, selector, high), (NOT_A_AND_B, selector, low)):
            parts.append(np.stack(np.broadcast_arrays(kind, a, b), -1).reshape(-1, 3))
            made.append(np.arange(count, count + a.size).reshape(a.shape))
            count += a.size
        parts.append(np.stack(np.broadcast_arrays(OR, *made), -1).reshape(-1, 3))
        found = np.arange(count, count + made[0].size).reshape(made[0].shape)
        count += made[0].size
    return np.concatenate(parts), found[:, 0]
