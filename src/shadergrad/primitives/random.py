"""Random bits: threefry2x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), 20 rounds, as in JAX."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import DType, uint32
from ..errors import DTypeError, ShapeError
from ..graph.node import Node
from ..graph.primitive import Primitive, Shape

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
AT_ONCE = 1 << 14  # positions on the host: blocks that fit a core's cache take a fourth of the time


def threefry2x32(key: np.ndarray, x0: np.ndarray, x1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two output words for counter words x0, x1 under a key of two words, all uint32; x0 and x1 are broadcast.

    Threefry-2x32 with 20 rounds, as in JAX. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.

    >>> zero = np.zeros(1, np.uint32)
    >>> [hex(word[0]) for word in sg.extend.threefry2x32(np.zeros(2, np.uint32), zero, zero)]
    ['0x6b200159', '0x99ba4efe']
    """
    k0, k1 = np.uint32(key[0]), np.uint32(key[1])
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        x0, x1 = x0 + keys[0], x1 + keys[1]
        for group in range(5):
            for r in ROTATIONS[group % 2]:
                x0 = x0 + x1
                x1 = (x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r))
                x1 = x0 ^ x1
            x0 = x0 + keys[(group + 1) % 3]
            x1 = x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


@dataclass(frozen=True, eq=False)
class Threefry(Primitive):
    """key (2,), counters x0 and x1 of one shape, all uint32; gives (2, *shape): both output words, or *shape: one xor the
    other.

    A primitive, because the composition would have 120 nodes per draw.
    """

    kind = "index"
    differentiable = False
    cost = 80
    joined: bool = False

    def infer(self, *inputs: Node) -> tuple[Shape, DType]:
        key, x0, x1 = inputs
        if any(i.dtype is not uint32 for i in inputs):
            raise DTypeError("[threefry] key and counters must be uint32.")
        if key.shape != (2,) or x0.shape != x1.shape:
            raise ShapeError(
                f"[threefry] the key is {key.shape}, not (2,), or the counters differ: {x0.shape}, {x1.shape}."
            )
        return x0.shape if self.joined else (2, *x0.shape), uint32

    def numpy(self, key, x0, x1):
        if not self.joined:
            return np.stack(threefry2x32(key, x0, x1))
        found = np.empty(x0.shape, np.uint32)
        flat, x0, x1 = found.reshape(-1), x0.reshape(-1), x1.reshape(-1)
        for start in range(0, found.size, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            np.bitwise_xor(*threefry2x32(key, x0[part], x1[part]), out=flat[part])
        return found

    def vjp(self, g, node):
        return (None, None, None)
