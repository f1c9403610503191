"""The kernels of attention on matrix units, in WGSL: operands of float16, sums in float32.

A workgroup of four subgroups has a block of rows of one sequence and iterates over blocks of the other. Matrix units compute a block of scores;
the threads read it from workgroup memory and write weights of float16, the operand of the next multiplication. Instructions cannot scale the rows
of a matrix, so there is no running maximum: the forward pass has two loops over the keys, the first for the log-sum-exp of each row, the second for
the result. The backward pass has two kinds of workgroups: a block of keys iterates over queries for the gradients of k and v, a block of queries
over keys for the gradient of q. Dao, "FlashAttention-2" (2023), has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .attention_tiles import Layout, Problem, place_of_result
from .attention_units_writer import (
    GAP,
    OCTET,
    QUAD,
    ROWS,
    SIDE,
    THREADS,
    Parts,
    Tile,
    UnitsChoice,
    Writer,
    preamble,
)
from .call import CallKernel

# Weights are multiplied by 2^12 before they are rounded, because the weights of many keys would be subnormal halves, or zero.
SCALE_BITS = 12
SCALE, LOG_SCALE = float(1 << SCALE_BITS), SCALE_BITS * math.log(2)
LEAST, MASKED = "-1e30", "-3e38"  # below every score of halves; a score that is masked, whose exponential is 0


# -- forward


def forward(p: Problem, layouts: Sequence[Layout], logs: bool, choice: UnitsChoice) -> CallKernel:
    """From q (n, heads, rows, d), k and v (n, heads, columns, d) of float16, at `layouts`, to the flat float32 array of `Attention`."""
    w = Writer(p, dict(zip(("q", "k", "v"), layouts, strict=True)))
    block = choice.others
    q, k, v, weights = Tile("q", ROWS, p.d), Tile("k", block, p.d), Tile("v", block, p.d), Tile("p", ROWS, block)
    scores, out = Parts(ROWS, block), Parts(ROWS, p.d)
    heads, count = p.n * p.heads, -(-p.rows // ROWS)
    octets = range(block // (2 * OCTET))
    w.add("let id = i32(lid);", f"let bh = wg % {heads};", f"let r0 = ({count - 1} - wg / {heads}) * {ROWS};")
    w.head()
    w.add(f"let row = subgroup * {SIDE} + lane % {SIDE};", f"let side = lane / {SIDE};")
    for tile in (q, k, v):
        w.registers(tile)
    w.fetch(q, "q", "r0", p.rows)
    w.store(q)
    end = f"min({p.columns}, r0 + {ROWS})" if p.causal else str(p.columns)
    w.add(f"let end = {end};", f"var top = {LEAST};", "var total = 0.0;")

    def scores_of_block(with_values: bool) -> None:
        """The scores of a thread, half of the octets of a row, in x_octet_element; meanwhile the values are loaded, and the next keys."""
        w.store(k)
        if with_values:
            w.fetch(v, "v", "c0", p.columns)
        w.fetch(k, "k", f"(c0 + {block})", p.columns)
        w.barrier()
        w.begin_sums("s", scores)
        w.multiply("s", scores, p.d, q, k, (False, True))
        w.spread("s", scores)
        w.barrier()
        for o in octets:
            w.load_octet(f"scores_{o}", "row", f"{2 * o} + side", block)
            w.add(f"let column_{o} = ({2 * o} + side) * {OCTET};")
            for e in range(OCTET):
                conditions = [f"c0 + column_{o} + {e} <= r0 + row"] if p.causal else []
                conditions += [f"c0 + column_{o} + {e} < {p.columns}"] if p.columns % block else []
                value = f"scores_{o}_{e // QUAD}[{e % QUAD}] * {p.scale!r}"
                masked = f"select({MASKED}, {value}, {' && '.join(conditions)})" if conditions else value
                w.add(f"let x_{o}_{e} = {masked};")

    names = [f"x_{o}_{e}" for o in octets for e in range(OCTET)]
    w.fetch(k, "k", "0", p.columns)
    w.add(f"for (var c0 = 0; c0 < end; c0 += {block}) {{")
    scores_of_block(with_values=False)
    most = "top"
    for name in names:
        most = f"max({most}, {name})"
    w.add(f"let next = {most};")
    w.add(f"total = total * exp(top - next) + {' + '.join(f'exp({name} - next)' for name in names)};")
    w.add("top = next;", "}")
    w.add("tops[id] = top;", "totals[id] = total;")
    w.barrier()
    w.add(f"let beside = id ^ {SIDE};", "let most = max(top, tops[beside]);")
    w.add("let log_sum = most + log(total * exp(top - most) + totals[beside] * exp(tops[beside] - most));")
    w.add(f"let shift = log_sum - {LOG_SCALE!r};")
    w.begin_sums("o", out)
    w.fetch(k, "k", "0", p.columns)
    w.add(f"for (var c0 = 0; c0 < end; c0 += {block}) {{")
    scores_of_block(with_values=True)
    for o in octets:
        powers = [f"exp(x_{o}_{e} - shift)" for e in range(OCTET)]
        w.add(f"tile_p[row * {weights.pitch} + {2 * o} + side] = {w.octet(powers)};")
    w.store(v, to=k)
    w.barrier()
    w.multiply("o", out, block, weights, k, (False, False))
    w.barrier()
    w.add("}")
    w.write("o", out, place_of_result(p.shape, p.by_row), "r0", p.rows, 1 / SCALE)
    size = math.prod(p.shape)
    if logs:
        w.add(f"if (side == 0 && r0 + row < {p.rows}) {{ result[{size} + bh * {p.rows} + r0 + row] = log_sum; }}")
    words = ROWS * (max(block, out.beside * SIDE) + GAP)
    numbers = "".join(f"var<workgroup> {name}: array<f32, {THREADS}>;\n" for name in ("tops", "totals"))
    flops = 4 * size * p.columns // (2 if p.causal else 1)
    return CallKernel(
        "\n".join(w.lines),
        THREADS,
        count * heads,
        preamble((q, k, weights), words, numbers),
        flops=flops,
        functions=("sg_words_float16",),
        octets=frozenset(("q", "k", "v")),
        on_units=True,
    )


# -- backward


def gradient(p: Problem, layouts: Sequence[Layout], places: Sequence[Layout], choice: UnitsChoice) -> CallKernel:
    """From g, `Attention`'s flat array, q, k, v and the sums of gradient times result (n, heads, rows) to the three float32 gradients at `places`."""
    named: dict[str, Layout] = dict(zip(("g", "q", "k", "v"), layouts, strict=True))
    heads = p.n * p.heads
    of_keys, of_queries = (-(-n // choice.own) * heads for n in (p.columns, p.rows))
    tiles = [
        *(Tile(name, choice.own, p.d) for name in "ab"),
        *(Tile(name, choice.others, p.d) for name in "cd"),
        *(Tile(name, choice.others, choice.own) for name in "ps"),
    ]
    body = ["let id = i32(lid);", f"if (wg < {of_keys}) {{", f"let bh = wg % {heads};"]
    body += [
        f"let own0 = wg / {heads} * {choice.own};",
        *Backward(p, named, choice, tiles, by_keys=True).written(places),
    ]
    body += ["} else {", f"let bh = (wg - {of_keys}) % {heads};"]
    last = of_queries // heads - 1  # with a causal mask the last queries take longest, so they start first
    body += [f"let own0 = ({last} - (wg - {of_keys}) / {heads}) * {choice.own};"]
    body += [*Backward(p, named, choice, tiles, by_keys=False).written(places), "}"]
    numbers = "".join(f"var<workgroup> {name}: array<f32, {choice.own}>;\n" for name in ("own_logs", "own_sums"))
    return CallKernel(
        "\n".join(body),
        THREADS,
        of_keys + of_queries,
        preamble(tiles, choice.others * (choice.own + GAP), numbers),
        flops=10 * math.prod(p.shape) * p.columns // (2 if p.causal else 1),
        functions=("sg_words_float16",),
        octets=frozenset(named),
        on_units=True,
    )


class Backward(Writer):
    """A workgroup of the backward pass with a block of keys, or of queries, that iterates over blocks of the other sequence. In scores and their
    gradients a row belongs to the other sequence: q k^T for a block of keys, k q^T for a block of queries.
    """

    def __init__(
        self, p: Problem, layouts: dict[str, Layout], choice: UnitsChoice, tiles: Sequence[Tile], by_keys: bool
    ) -> None:
        super().__init__(p, layouts)
        self.own, self.others, self.by_keys = choice.own, choice.others, by_keys
        self.a, self.b, self.c, self.d, self.weights, self.slopes = tiles
        self.of_own, self.of_others = (("k", "v"), ("q", "g")) if by_keys else (("q", "g"), ("k", "v"))
        self.own_count, self.count = (p.columns, p.rows) if by_keys else (p.rows, p.columns)
        self.scores, self.out = Parts(choice.others, choice.own), Parts(choice.own, p.d)
        self.logs_from = math.prod(p.shape)  # in the flat array
        self.each = range(choice.others * choice.own // OCTET // THREADS)  # octets of scores of a thread

    def written(self, places: Sequence[Layout]) -> list[str]:
        """The statements."""
        self._begin()
        self.add(f"for (; o0 < last; o0 += {self.others}) {{")
        self._load_others()
        self._product_of_block("s", self.c, self.a)
        for k in self.each:
            self._weights(k)
        self.barrier()
        self._product_of_block("t", self.d, self.b)
        for k in self.each:
            self._slopes(k)
        self.barrier()
        if self.by_keys:
            self.multiply("gradient_v", self.out, self.others, self.weights, self.d, (True, False))
        self.multiply("gradient_own", self.out, self.others, self.slopes, self.c, (True, False))
        self.barrier()
        self.add("}")
        of_q, of_k, of_v = places
        self.write("gradient_own", self.out, of_k if self.by_keys else of_q, "own0", self.own_count)
        if self.by_keys:
            self.write("gradient_v", self.out, of_v, "own0", self.own_count, 1 / SCALE)
        return self.lines

    def _begin(self) -> None:
        """Load the own block and the first of the other sequence. A causal mask shortens the loop."""
        p = self.p
        self.head()
        for tile in (self.a, self.b, self.c, self.d):
            self.registers(tile)
        for tile, source in zip((self.a, self.b), self.of_own, strict=True):
            self.fetch(tile, source, "own0", self.own_count)
            self.store(tile)
        if not self.by_keys:
            at = f"bh * {p.rows} + min(own0 + id, {p.rows - 1})"
            self.add(f"if (id < {self.own}) {{")
            self.add(
                f"  own_logs[id] = flat[{self.logs_from} + {at}] - {LOG_SCALE!r};", f"  own_sums[id] = rows[{at}];", "}"
            )
        first, last = "0", str(self.count)
        if p.causal and self.by_keys:
            first = f"own0 / {self.others} * {self.others}"
        elif p.causal:
            last = f"min({self.count}, own0 + {self.own})"
        for name in ("gradient_v", "gradient_own") if self.by_keys else ("gradient_own",):
            self.begin_sums(name, self.out)
        self.add(f"let last = {last};", f"var o0 = {first};")
        self._fetch_others("o0")

    def _fetch_others(self, first: str) -> None:
        for tile, source in zip((self.c, self.d), self.of_others, strict=True):
            self.fetch(tile, source, first, self.count)

    def _load_others(self) -> None:
        for tile in (self.c, self.d):
            self.store(tile)
        self._fetch_others(f"(o0 + {self.others})")
        self.barrier()

    def _product_of_block(self, name: str, left: Tile, right: Tile) -> None:
        """The product of a block of the other sequence with the own one, for all threads."""
        self.begin_sums(name, self.scores)
        self.multiply(name, self.scores, self.p.d, left, right, (False, True))
        self.spread(name, self.scores)
        self.barrier()

    def _weights(self, k: int) -> None:
        """The weights of a thread's k-th octet, times SCALE, p_k_element, which a block of keys keeps as an operand."""
        p = self.p
        number = f"(id + {k * THREADS})"
        self.add(f"let row_{k} = {number} % {self.others};", f"let octet_{k} = {number} / {self.others};")
        self.load_octet(f"scores_{k}", f"row_{k}", f"octet_{k}", self.own)
        if self.by_keys:
            at = f"bh * {p.rows} + min(o0 + row_{k}, {p.rows - 1})"
            self.add(f"let logs_{k} = flat[{self.logs_from} + {at}] - {LOG_SCALE!r};", f"let sums_{k} = rows[{at}];")
        for e in range(OCTET):
            value = f"exp(scores_{k}_{e // QUAD}[{e % QUAD}] * {p.scale!r} - {self._of_query('logs', k, e)})"
            self.add(f"let p_{k}_{e} = {_masked(value, self._conditions(k, e))};")
        if self.by_keys:
            octet = self.octet([f"p_{k}_{e}" for e in range(OCTET)])
            self.add(f"tile_p[row_{k} * {self.weights.pitch} + octet_{k}] = {octet};")

    def _slopes(self, k: int) -> None:
        """The gradients of the scores of a thread's k-th octet."""
        self.load_octet(f"slopes_{k}", f"row_{k}", f"octet_{k}", self.own)
        found = [
            f"p_{k}_{e} * (slopes_{k}_{e // QUAD}[{e % QUAD}] - {self._of_query('sums', k, e)}) * {self.p.scale / SCALE!r}"
            for e in range(OCTET)
        ]
        self.add(f"tile_s[row_{k} * {self.slopes.pitch} + octet_{k}] = {self.octet(found)};")

    def _of_query(self, name: str, k: int, e: int) -> str:
        """The logs or sums of an element's query."""
        return f"{name}_{k}" if self.by_keys else f"own_{name}[octet_{k} * {OCTET} + {e}]"

    def _conditions(self, k: int, e: int) -> list[str]:
        """The conditions under which a weight is not zero."""
        other, mine = f"o0 + row_{k}", f"own0 + octet_{k} * {OCTET} + {e}"
        query, key = (other, mine) if self.by_keys else (mine, other)
        found = [f"{key} <= {query}"] if self.p.causal else []
        return found + ([f"{other} < {self.count}"] if self.count % self.others else [])


def _masked(value: str, conditions: Sequence[str]) -> str:
    return f"select(0.0, {value}, {' && '.join(conditions)})" if conditions else value
