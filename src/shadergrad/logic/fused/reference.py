"""The cell of a logic automaton in NumPy: all cells at once. The cpu device runs it; the shaders are checked against it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cell import CENTRE, PATCH, CellCall, unpack_wires


def gate_values(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """c0 + c1 a + (c2 + c3 a) b, c: (4, ...)."""
    value = c[3] * a
    value += c[2]
    value *= b
    value += c[1] * a
    value += c[0]
    return value


def gate_gradients(
    g: np.ndarray, c: np.ndarray, a: np.ndarray, b: np.ndarray, over: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of a, of b, and of the coefficients (4, ...), summed over the axes `over`."""
    ga = g * a
    sums = np.stack([g.sum(over), ga.sum(over), (g * b).sum(over), (ga * b).sum(over)])
    return g * (c[1] + c[3] * b), g * (c[2] + c[3] * a), sums


def gathered(da: np.ndarray, db: np.ndarray, a: np.ndarray, b: np.ndarray, n_in: int) -> np.ndarray:
    """The gradient of the n_in inputs (first axis): the sum over the gates that read each."""
    read = np.concatenate([a, b])
    order = np.argsort(read, kind="stable")
    starts = np.searchsorted(read[order], np.arange(n_in))
    rows = np.concatenate([da, db])[order]
    used = np.unique(read)
    result = np.zeros((n_in, *da.shape[1:]), da.dtype)
    result[used] = np.add.reduceat(rows, starts[used], axis=0)
    return result


class NumpyCell:
    """The network of all cells at once, gates along the first axis, cells along the last."""

    def __init__(self, call: CellCall, coefficients: np.ndarray, wires: np.ndarray) -> None:
        self.call = call
        self.wires = unpack_wires(wires, call.widths)
        at = 0
        self.perception: list[np.ndarray] = []  # (4, gates, kernels, 1, 1)
        for n in call.seen:
            c = coefficients[at : at + call.kernels * n].reshape(call.kernels, n, 4)
            self.perception.append(np.ascontiguousarray(c.transpose(2, 1, 0)[..., None, None]))
            at += call.kernels * n
        self.update: list[np.ndarray] = []  # (4, gates, 1)
        for n in call.widths[1:]:
            self.update.append(np.ascontiguousarray(coefficients[at : at + n].T[..., None]))
            at += n

    def patches(self, state: np.ndarray) -> np.ndarray:
        """(9, channels, cells)."""
        call = self.call
        padded = np.pad(state, ((0, 0), (1, 1), (1, 1), (0, 0)), "wrap" if call.periodic else "constant")
        views = [padded[:, y : y + call.height, x : x + call.width] for y in range(3) for x in range(3)]
        return np.stack([v.reshape(-1, call.channels).T for v in views])

    def unpatches(self, g: np.ndarray) -> np.ndarray:
        """The adjoint of `patches`: a state."""
        call = self.call
        h, w = call.height, call.width
        total = np.zeros((call.batch, h + 2, w + 2, call.channels), g.dtype)
        for n in range(PATCH):
            y, x = divmod(n, 3)
            total[:, y : y + h, x : x + w] += g[n].T.reshape(call.state_shape)
        if call.periodic:
            total[:, 1] += total[:, h + 1]
            total[:, h] += total[:, 0]
            total[:, :, 1] += total[:, :, w + 1]
            total[:, :, w] += total[:, :, 0]
        return total[:, 1 : h + 1, 1 : w + 1]

    def forward(self, state: np.ndarray, mask: np.ndarray | None, kept: list[Any] | None = None) -> np.ndarray:
        """The next state; `kept` gets the inputs of all gates."""
        call = self.call
        patches = self.patches(state)
        x = patches[:, None]
        for (wa, wb), c in zip(call.perception, self.perception, strict=True):
            a, b = x[list(wa)], x[list(wb)]
            if kept is not None:
                kept.append((a, b))
            x = gate_values(c, a, b)
        found = x.transpose(2, 0, 1, 3).reshape(-1, call.cells)
        x = np.concatenate([patches[CENTRE], found])
        for (wa, wb), c in zip(self.wires, self.update, strict=True):
            a, b = x[wa], x[wb]
            if kept is not None:
                kept.append((a, b))
            x = gate_values(c, a, b)
        new = x.T.reshape(call.state_shape)
        return new if mask is None else np.where(mask, new, state)

    def backward(
        self, state: np.ndarray, mask: np.ndarray | None, gradient: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The gradients of the state and, layer by layer, of the coefficients (4, gates of the layer in their order)."""
        call = self.call
        kept: list[Any] = []
        self.forward(state, None, kept)
        stays = 0.0 if mask is None else np.where(mask, 0, gradient)
        g = gradient if mask is None else np.where(mask, gradient, 0)
        g = np.ascontiguousarray(g.reshape(-1, call.channels).T)
        sums: list[np.ndarray] = []
        for (wa, wb), c, n_in in reversed(list(zip(self.wires, self.update, call.widths[:-1], strict=True))):
            a, b = kept.pop()
            da, db, s = gate_gradients(g, c, a, b, (1,))
            sums.append(s)
            g = gathered(da, db, wa, wb, n_in)
        centre = g[: call.channels]
        g = g[call.channels :].reshape(call.channels, -1, call.kernels, call.cells).transpose(1, 2, 0, 3)
        for (wa, wb), c, n_in in reversed(
            list(zip(call.perception, self.perception, (9, *call.seen[:-1]), strict=True))
        ):
            a, b = kept.pop()
            da, db, s = gate_gradients(g, c, a, b, (2, 3))
            sums.append(s.transpose(0, 2, 1).reshape(4, -1))  # kernel by kernel
            g = gathered(da, db, np.array(wa), np.array(wb), n_in)
        g = g.sum(1)
        g[CENTRE] += centre
        return self.unpatches(g) + stays, sums[::-1]
