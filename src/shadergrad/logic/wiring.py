"""The wires of gate layers, drawn on the host with JAX's random numbers.

In: sizes and keys (two uint32 words). Out: pairs of int32 arrays (a, b), the positions of each gate's two inputs.
The draws are those of jax.random with jax_threefry_partitionable=False, the default up to JAX 0.4, so a seed gives the
circuits of the reference experiments of "Differentiable Logic Cellular Automata" (Miotti and others, 2025).
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import IndexRangeError, ShapeError
from ..extend import threefry2x32
from ..nn.errors import ArgumentError

Wires = tuple[np.ndarray, np.ndarray]

CENTRE, NEIGHBOURS = 4, (0, 1, 2, 3, 5, 6, 7, 8)  # of a 3x3 patch, row by row


# -- random numbers: of one key (2,), or of each of several (..., 2), whose axes then come first


def prng_key(seed: int) -> np.ndarray:
    """The key of a 64-bit seed: two uint32 words, the high one first.

    >>> sg.logic.wiring.prng_key(2**32 + 7).tolist()
    [1, 7]
    """
    return np.array([(seed >> 32) & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)


def bits(key: np.ndarray, count: int) -> np.ndarray:
    """`count` random uint32 words: the counters 0, 1, ... in two halves are the two inputs of threefry2x32.

    >>> sg.logic.wiring.bits(sg.logic.wiring.prng_key(0), 2).tolist()
    [928981903, 3453687069]
    """
    keys = np.asarray(key, np.uint32)
    counters = np.arange(count + count % 2, dtype=np.uint32)
    counters[count:] = 0
    halves = threefry2x32(np.moveaxis(keys, -1, 0)[..., None], *np.split(counters, 2))
    return np.concatenate(halves, -1)[..., :count]


def split(key: np.ndarray, count: int = 2) -> np.ndarray:
    """`count` new keys (count, 2).

    >>> sg.logic.wiring.split(sg.logic.wiring.prng_key(0)).tolist()
    [[4146024105, 967050713], [2718843009, 1272950319]]
    """
    return _shaped(bits(key, 2 * count), (count, 2))


def uniform(key: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """float32 on [0, 1): 23 bits as the mantissa of a number on [1, 2), less 1.

    >>> sg.tensor(sg.logic.wiring.uniform(sg.logic.wiring.prng_key(0), (2, 2)))
    tensor([[0.9653, 0.2252],
            [0.633 , 0.2964]])
    """
    words = bits(key, math.prod(shape)) >> np.uint32(9) | np.uint32(0x3F800000)
    return _shaped(words.view(np.float32), shape) - np.float32(1)


def randint(key: np.ndarray, shape: Sequence[int], low: int, high: int) -> np.ndarray:
    """int32 on [low, high): 64 random bits modulo the range, the high 32 from one key and the low 32 from another.

    Raises ArgumentError for an empty range, or one wider than 2**31.

    >>> sg.logic.wiring.randint(sg.logic.wiring.prng_key(0), (6,), 0, 10).tolist()
    [8, 1, 5, 8, 8, 0]
    """
    if not low < high <= low + (1 << 31):
        raise ArgumentError(f"[randint] the range {low} to {high} is empty or too wide for int32.")
    span = high - low
    keys = split(key)
    above, below = (bits(keys[..., k, :], math.prod(shape)).astype(np.uint64) for k in (0, 1))
    factor = (1 << 16) % span  # 2**32 modulo the range, without its square leaving 32 bits, as JAX has it
    factor = (factor * factor & 0xFFFFFFFF) % span
    offset = ((above % span * factor & 0xFFFFFFFF) + below % span & 0xFFFFFFFF) % span
    return _shaped((low + offset.astype(np.int64)).astype(np.int32), shape)


def _shaped(drawn: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return drawn.reshape(*drawn.shape[:-1], *shape)


def permutation(key: np.ndarray, count: int) -> np.ndarray:
    """A random order of 0 ... count - 1, int32: sorted by random words, repeated while words tie.

    >>> sg.logic.wiring.permutation(sg.logic.wiring.prng_key(0), 5).tolist()
    [1, 0, 4, 3, 2]
    """
    order = np.arange(count, dtype=np.int32)
    for _ in range(math.ceil(3 * math.log(max(1, count)) / math.log((1 << 32) - 1))):
        key, drawn = split(key)
        order = order[np.argsort(bits(drawn, count), kind="stable")]
    return order


# -- wirings


def unique(n_in: int, n_out: int, key: np.ndarray) -> Wires:
    """Pairs that are all different, in random order.

    Neighbours (0, 1), (2, 3), ... come first, then (1, 2), (3, 4), ..., then pairs 2, 3, ... apart, until there are
    n_out.
    Every input has a reader, except the last of an odd number if n_out is below n_in - 1.

    Raises ArgumentError if 2 * n_out < n_in (inputs would be unread) or there are fewer pairs than n_out.

    >>> a, b = sg.logic.wiring.unique(4, 3, sg.logic.wiring.prng_key(0))
    >>> sorted(zip(a.tolist(), b.tolist()))
    [(0, 1), (1, 2), (2, 3)]
    """
    _check_sizes("unique", n_in, n_out)
    if 2 * n_out < n_in:
        raise ArgumentError(
            f"[unique] {n_out} gates read at most {2 * n_out} of {n_in} inputs. Hint: use at least {-(-n_in // 2)} gates, "
            "or wiring='random'."
        )
    possible = n_in * (n_in - 1) // 2
    if n_out > possible:
        raise ArgumentError(
            f"[unique] {n_in} inputs make {possible} different pairs, fewer than {n_out} gates. Hint: use fewer gates, or "
            "wiring='random'."
        )
    starts = [np.arange(0, n_in - 1, 2), np.arange(1, n_in - 1, 2)]
    distances = [1, 1]
    while sum(map(len, starts)) < n_out:
        distances.append(distances[-1] + 1)
        starts.append(np.arange(n_in - distances[-1]))
    order = permutation(key, n_out)
    a = np.concatenate(starts)[:n_out][order]
    apart = np.repeat(distances, [len(s) for s in starts])[:n_out][order]
    return a.astype(np.int32), (a + apart).astype(np.int32)


def random(n_in: int, n_out: int, key: np.ndarray) -> Wires:
    """Random inputs, each read equally often as far as n_out allows; a pair may come twice.

    Raises ArgumentError for no inputs or no gates.

    >>> a, b = sg.logic.wiring.random(4, 2, sg.logic.wiring.prng_key(0))
    >>> sorted([*a.tolist(), *b.tolist()])
    [0, 1, 2, 3]
    """
    _check_sizes("random", n_in, n_out)
    first, second = split(key)
    drawn = permutation(first, n_in)[permutation(second, 2 * n_out) % n_in]
    return drawn[:n_out], drawn[n_out:]


def first_kernel(key: np.ndarray) -> Wires:
    """The eight neighbours of a 3x3 patch (9 inputs), each with the centre, in random order.

    >>> a, b = sg.logic.wiring.first_kernel(sg.logic.wiring.prng_key(0))
    >>> sorted(a.tolist()), b.tolist()
    ([0, 1, 2, 3, 5, 6, 7, 8], [4, 4, 4, 4, 4, 4, 4, 4])
    """
    order = permutation(key, len(NEIGHBOURS))
    return np.array(NEIGHBOURS, np.int32)[order], np.full(len(NEIGHBOURS), CENTRE, np.int32)


def moore(n_in: int, n_out: int, key: np.ndarray) -> Wires:
    """first_kernel for the sizes 9 and 8; else raises ArgumentError.

    >>> a, b = sg.logic.wiring.moore(9, 8, sg.logic.wiring.prng_key(0))
    >>> len(a), set(b.tolist())
    (8, {4})
    """
    if (n_in, n_out) != (9, 8):
        raise ArgumentError(
            f"[moore] joins the 8 neighbours of a 3x3 patch with its centre: 9 to 8, not {n_in} to {n_out}."
        )
    return first_kernel(key)


def balanced(n_in: int, n_out: int, key: np.ndarray) -> Wires:
    """Every input is read equally often, give or take one, and no gate reads one input twice.

    A butterfly over shuffled inputs: the gates of a round read input i and input i + 1, of the next i and i + 2, then i + 4, and so on.
    Raises ArgumentError for fewer than two inputs.

    >>> a, b = sg.logic.wiring.balanced(4, 8, sg.logic.wiring.prng_key(0))
    >>> np.bincount(np.concatenate([a, b])).tolist()
    [4, 4, 4, 4]
    """
    _check_sizes("balanced", n_in, n_out)
    if n_in < 2:
        raise ArgumentError("[balanced] a gate reads two inputs; there is one.")
    order = permutation(key, n_in)
    rounds, place = np.divmod(np.arange(n_out), n_in)
    last = (
        n_out % n_in
    )  # the gates of an incomplete round read inputs this far apart, together consecutive ones, so each equally often
    steps = [pow(2, k, n_in) or 1 for k in range(n_out // n_in)] + [last]
    other = (place + np.array(steps)[rounds]) % n_in
    return order[place].astype(np.int32), order[other].astype(np.int32)


KINDS: dict[str, Callable[[int, int, np.ndarray], Wires]] = {
    "unique": unique,
    "random": random,
    "moore": moore,
    "balanced": balanced,
}


def draw(kind: str, n_in: int, n_out: int, key: np.ndarray) -> Wires:
    """The wires of a layer, by the name of the wiring: "unique", "random", "balanced" or "moore". Raises ArgumentError for another one.

    >>> a, b = sg.logic.wiring.draw("unique", 4, 2, sg.logic.wiring.prng_key(0))
    >>> sorted(zip(a.tolist(), b.tolist()))
    [(0, 1), (2, 3)]
    """
    if kind not in KINDS:
        raise ArgumentError(
            f"[wiring] there is no wiring {kind!r}; choose of {', '.join(KINDS)}, in a layer also learned, or give (a, b)."
        )
    return KINDS[kind](n_in, n_out, key)


def check(n_in: int, n_out: int, pair: Any) -> Wires:
    """A given pair (a, b) as int32 arrays.

    Raises ShapeError unless both are (n_out,), ArgumentError for values that are not integers, IndexRangeError for a position
    that is not below n_in.

    >>> a, b = sg.logic.wiring.check(3, 2, ([0, 1], [1, 2]))
    >>> a.dtype, b.tolist()
    (dtype('int32'), [1, 2])
    """
    _check_sizes("wiring", n_in, n_out)
    arrays = [np.asarray(x) for x in pair]
    if [x.shape for x in arrays] != [(n_out,), (n_out,)]:
        raise ShapeError(
            f"[wiring] a pair of arrays ({n_out},) is wanted, one position a gate, not {[x.shape for x in arrays]}."
        )
    for name, x in zip("ab", arrays, strict=True):
        if x.dtype.kind not in "iu":
            raise ArgumentError(f"[wiring] positions {name} are {x.dtype}, not integers.")
        if ((x < 0) | (x >= n_in)).any():
            gate = int(np.flatnonzero((x < 0) | (x >= n_in))[0])
            raise IndexRangeError(
                f"[wiring] input {name} of gate {gate} is wire {x[gate]}, out of range for {n_in} inputs."
            )
    a, b = (x.astype(np.int32) for x in arrays)
    return a, b


def _check_sizes(name: str, n_in: int, n_out: int) -> None:
    if n_in < 1 or n_out < 1:
        raise ArgumentError(f"[{name}] a layer needs at least one input and one gate, not {n_in} and {n_out}.")


# -- networks


def network(sizes: Sequence[int], key: np.ndarray, first: str = "unique") -> list[Wires]:
    """The wires of layers sizes[0] -> sizes[1] -> ..., each with a key of its own; `first`: the wiring of the first.

    Raises ArgumentError for fewer than two sizes, or sizes that a wiring does not take.

    >>> layers = sg.logic.wiring.network((9, 8, 4, 2), sg.logic.wiring.prng_key(0), first="moore")
    >>> [len(a) for a, b in layers]
    [8, 4, 2]
    """
    if len(sizes) < 2:
        raise ArgumentError(f"[wiring] a network has at least one layer, so two sizes; these are {tuple(sizes)}.")
    layers = []
    for k, (n_in, n_out) in enumerate(itertools.pairwise(sizes)):
        key, own = split(key)
        layers.append(draw(first if k == 0 else "unique", n_in, n_out, own))
    return layers


def automaton(perception: Sequence[int], update: Sequence[int], key: np.ndarray) -> tuple[list[Wires], list[Wires]]:
    """The wires of an automaton's perception (shared by all kernels) and of its update network, from one key.

    >>> perception, update = sg.logic.wiring.automaton((9, 8, 4, 2), (6, 4, 2), sg.logic.wiring.prng_key(0))
    >>> len(perception), len(update)
    (3, 2)
    """
    key, of_update = split(key)
    key, of_perception = split(key)
    return network(perception, of_perception, "moore"), network(update, of_update)


def digest(layers: Iterable[Wires]) -> str:
    """SHA-256 of all wires, int32 little-endian: a and then b of each layer.

    >>> sg.logic.wiring.digest([sg.logic.wiring.check(2, 1, ([0], [1]))])[:8]
    '01acecb5'
    """
    return hashlib.sha256(b"".join(x.astype("<i4").tobytes() for pair in layers for x in pair)).hexdigest()
