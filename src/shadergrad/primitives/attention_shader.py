"""The kernels of attention, in WGSL: the forward pass, and two variants of the three gradients.

A workgroup computes a block of rows of its result and loops over the blocks of the other sequence: a block of queries over the keys for
the result, a block of keys over the queries for the gradients of k and v. There are two ways to compute the gradient of q. Either further
workgroups compute it, blocks of queries over keys; this takes seven block products in all. Or, for long sequences, the workgroups of k and v
also accumulate it, with five block products: they divide the keys of a head among them, each has its own partial gradient of q, and another
dispatch adds these. The block of weights between two products passes through workgroup memory; rows keep a running maximum and sum (Dao,
"FlashAttention-2", 2023, algorithms 1 and 2). attention_writer.py has the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

from ..symbolic_sizes import divides
from .attention_tiles import (
    LANES,
    AttentionChoice,
    Layout,
    Problem,
    Shares,
    Tile,
    place_of_result,
)
from .attention_writer import PREAMBLE, Writer, scale_text
from .call import CallKernel

JOINED = 256  # vec4s of the gradients that a workgroup adds


def forward(p: Problem, layouts: Sequence[Layout], logs: bool, choice: AttentionChoice) -> CallKernel:
    """q, k, v, [mask], [key] to the result, with `logs` also the log-sum-exp, as described in `Attention`."""
    blocks = choice.blocks
    w = Writer(p, choice, dict(zip(("q", "k", "v"), layouts, strict=True)))
    tile, out = choice.scores, choice.of_queries
    count = -(-p.rows // blocks.rows)
    w.add("let id = i32(lid);")
    w.add(f"let bh = wg % {p.n * p.heads};\nlet r0 = ({count - 1} - wg / {p.n * p.heads}) * {blocks.rows};")
    w.head()
    w.places(tile, out)
    for g in range(tile.tall // LANES):
        w.add(f"var top_{g} = vec4<f32>(lowest());\nvar total_{g} = vec4<f32>();")
    w.sums("s", tile)
    w.sums("o", out)
    w.registers(*w.pair("q", "k"), w.plain("v", "c0"))
    end = f"min({p.columns}, r0 + {blocks.rows})" if p.causal else str(p.columns)
    w.add("var c0 = 0;")
    w.begin("q", "k")
    w.add(f"for (; c0 < {end}; c0 += {blocks.columns}) {{")
    w.between("s", "q", "k", lambda: w.fetch(w.plain("v", "c0")))
    w.masked()
    _weights_of_block(w)
    w.write_turned("s")
    w.add("workgroupBarrier();")
    _fall(w, out)

    def next_block() -> None:
        w.add(f"if (c0 + {blocks.columns} < {end}) {{")
        w.begin("q", "k", c0=f"(c0 + {blocks.columns})")
        w.add("}")

    w.onto("o", out, "v", "c0", next_block)
    w.add("}")
    whole = not logs or divides(LANES, p.rows)  # else one vec4 would hold logarithms of the rows of two workgroups
    _finish_rows(w, out, logs, whole)
    size = math.prod(p.shape)
    flops = 4 * size * p.columns // (2 if p.causal else 1)
    vectors = frozenset(("q", "k", "v", *(("result",) if whole else ())))
    return CallKernel(
        "\n".join(w.lines), blocks.threads, count * p.n * p.heads, w.preamble(), vectors, flops, w.functions
    )


def _largest(names: Sequence[str]) -> str:
    """The largest component of vec4s."""
    most = names[0]
    for name in names[1:]:
        most = f"max({most}, {name})"
    return f"max(max(({most}).x, ({most}).y), max(({most}).z, ({most}).w))"


def _exchange(w: Writer, g: int, column: str) -> str:
    """The workgroup memory through which the threads of a row exchange their values of the g-th four rows."""
    quads = w.blocks.rows // LANES
    return f"{w.blocks.weights} + {column} * {quads} + {w.row_quad(w.scores, g)}"


def _of_rows(w: Writer, tile: Tile, g: int) -> str:
    """The workgroup memory in which four rows' factors pass from the threads of the weights to those of the result."""
    return f"{w.blocks.of_rows} + {w.row_quad(tile, g)}"


def _weights_of_block(w: Writer) -> None:
    """Turn the block s of scores into exponentials relative to the rows' running maximum, and their sums."""
    tile = w.scores
    groups, quads = range(tile.tall // LANES), range(tile.broad // LANES)
    for g in groups:
        rows = ", ".join(_largest([f"s_{g * LANES + i}_{q}" for q in quads]) for i in range(LANES))
        w.add(f"put({_exchange(w, g, f'x{tile.name}')}, vec4<f32>({rows}));")
    w.add("workgroupBarrier();")
    for g in groups:
        w.add(f"var next_{g} = top_{g};")
    w.add(f"for (var t = 0; t < {tile.across}; t++) {{")
    for g in groups:
        w.add(f"next_{g} = max(next_{g}, held({_exchange(w, g, 't')}));")
    w.add("}\nworkgroupBarrier();")
    for g in groups:
        w.add(f"let base_{g} = finite(next_{g});\nlet fall_{g} = exp(top_{g} - base_{g});\ntop_{g} = next_{g};")
        w.add(f"if (x{tile.name} == 0) {{ put({_of_rows(w, tile, g)}, fall_{g}); }}")
    for i, q in product(range(tile.tall), quads):
        w.add(f"s_{i}_{q} = exp(s_{i}_{q} - vec4<f32>(base_{i // LANES}[{i % LANES}]));")
    for g in groups:
        rows = (" + ".join(f"dot(s_{g * LANES + i}_{q}, vec4<f32>(1.0))" for q in quads) for i in range(LANES))
        w.add(f"total_{g} = total_{g} * fall_{g} + vec4<f32>({', '.join(rows)});")
    if w.p.dropped:
        for i, q in product(range(tile.tall), quads):
            w.add(f"s_{i}_{q} *= {w.keep_factor(i, q)};")


def _fall(w: Writer, out: Tile) -> None:
    """Rescale the rows of the result, which other threads hold, when the maximum rises (online softmax)."""
    w.add(w.active(out))
    for g in range(out.tall // LANES):
        w.add(f"let scale_{g} = held({_of_rows(w, out, g)});")
    for i, q in product(range(out.tall), range(out.broad // LANES)):
        w.add(f"o_{i}_{q} *= scale_{i // LANES}[{i % LANES}];")
    w.add("}")


def _finish_rows(w: Writer, out: Tile, logs: bool, whole: bool) -> None:
    """Sums of whole rows from those of threads; the result divided by them, and their logarithms. whole: see `store`."""
    p, tile = w.p, w.scores
    w.add("workgroupBarrier();")
    for g in range(tile.tall // LANES):
        w.add(f"put({_exchange(w, g, f'x{tile.name}')}, total_{g});")
    w.add(f"workgroupBarrier();\nif (x{tile.name} == 0) {{")
    for g in range(tile.tall // LANES):
        w.add(f"for (var t = 1; t < {tile.across}; t++) {{ total_{g} += held({_exchange(w, g, 't')}); }}")
        w.add(f"let empty_{g} = total_{g} == vec4<f32>();")
        w.add(f"let whole_{g} = select(total_{g}, vec4<f32>(1.0), empty_{g});")
        w.add(f"put({_of_rows(w, tile, g)}, vec4<f32>(1.0) / whole_{g});")
        if logs:
            _store_logs(w, g, whole)
    w.add("}\nworkgroupBarrier();")
    w.add(w.active(out))
    for g in range(out.tall // LANES):
        w.add(f"let share_{g} = held({_of_rows(w, out, g)});")
    place = place_of_result(p.shape, p.by_row)
    w.add(f"let result_at = {_start_of(place)};")
    w.store("o", out, "r0", p.rows, place, lambda i: f"share_{i // LANES}[{i % LANES}]", whole=whole)
    w.add("}")


def _store_logs(w: Writer, g: int, whole: bool) -> None:
    """Store the log-sum-exp of a thread's g-th four rows."""
    rows, start = w.p.rows, math.prod(w.p.shape)
    w.add(f"let logs_{g} = select(finite(top_{g}) + log(whole_{g}), vec4<f32>(lowest()), empty_{g});")
    w.add(
        f"let row_{g} = r0 + {w.row_quad(w.scores, g)} * {LANES};\nlet logs_at_{g} = {start} + bh * {rows} + row_{g};"
    )
    if whole:
        w.add(f"if (row_{g} < {rows}) {{ result[logs_at_{g} / {LANES}] = logs_{g}; }}")
        return
    for e in range(LANES):
        w.add(f"if (row_{g} + {e} < {rows}) {{ result[logs_at_{g} + {e}] = logs_{g}[{e}]; }}")


def sums(p: Problem, layout: Layout) -> CallKernel:
    """The log-sum-exp, and the sums over d of gradient times result: eight threads per row."""
    n, heads, rows, d = p.shape
    total, size = n * heads * rows, math.prod(p.shape)
    body = f"""
let row = min(wg * 8 + i32(lid) / 8, {total - 1});
let own = i32(lid) % 8;
let b = row / {rows} / {heads};
let h = row / {rows} % {heads};
let l = row % {rows};
let g_at = {_row_of(layout, "l")};
let flat_at = {_row_of(place_of_result(p.shape, p.by_row), "l")};
var sum = 0.0;
for (var q = own; q < {d // LANES}; q += 8) {{ sum += dot(g[g_at + q], flat[flat_at + q]); }}
partial[lid] = sum;
workgroupBarrier();
if (own == 0 && wg * 8 + i32(lid) / 8 < {total}) {{
  for (var t = 1u; t < 8u; t++) {{ sum += partial[lid + t]; }}
  let at = {size} + row;
  result[row] = flat[at / {LANES}][at % {LANES}];
  result[{total} + row] = sum;
}}"""
    preamble = "var<workgroup> partial: array<f32, 64>;\n"
    return CallKernel(body, 64, -(-total // 8), preamble, frozenset(("g", "flat")), 2 * size)


def backward(p: Problem, layouts: Sequence[Layout], places: Sequence[Layout], choice: AttentionChoice) -> CallKernel:
    """g, flat, q, k, v, [mask], [key] to the three gradients, as described in `AttentionGradient`. The first workgroups loop over
    queries for the gradients of k and v, the others over keys for that of q.
    """
    blocks = choice.blocks
    w = Writer(p, choice, dict(zip(("g", "q", "k", "v"), layouts, strict=True)))
    of_keys, of_queries = choice.of_keys, choice.of_queries
    assert of_keys is not None
    heads = p.n * p.heads
    for_keys, for_queries = (-(-n // size) * heads for n, size in ((p.columns, blocks.columns), (p.rows, blocks.rows)))
    w.add("let id = i32(lid);")
    w.add(f"let bh = wg % {heads};")
    w.head()
    w.places(w.scores, of_keys, of_queries)
    w.sums("s", w.scores)
    w.sums("t", w.scores)
    w.registers(*w.pair("q", "k"), *(w.plain(*of) for of in (("g", "r0"), ("q", "r0"), ("k", "c0"))))
    w.add(f"if (wg < {for_keys}) {{")
    w.add(f"let c0 = (wg / {heads}) * {blocks.columns};")
    _over_queries(w, of_keys)
    for name, place in (("dk", places[1]), ("dv", places[2])):
        w.add(f"{{\nlet result_at = {_start_of(place)};")
        _store_of_keys(w, name, of_keys, place)
        w.add("}")
    w.add("} else {")
    w.add(f"let r0 = ({for_queries // heads - 1} - (wg - {for_keys}) / {heads}) * {blocks.rows};")
    w.sums("dq", of_queries)
    end = f"min({p.columns}, r0 + {blocks.rows})" if p.causal else str(p.columns)
    w.add("var c0 = 0;")
    _row_sums(w)
    w.begin("q", "k")
    w.add(f"for (; c0 < {end}; c0 += {blocks.columns}) {{")
    _weights(w, lambda: w.fetch(w.plain("k", "c0")))
    if p.dropped:
        for i in range(w.scores.tall):
            for q in range(w.scores.broad // LANES):
                w.keep_factor(i, q)
    _to_scores(w)
    w.write_turned("t")

    def next_keys() -> None:
        w.add(f"if (c0 + {blocks.columns} < {end}) {{")
        w.begin("q", "k", c0=f"(c0 + {blocks.columns})")
        w.add("}")

    w.onto("dq", of_queries, "k", "c0", next_keys)
    w.add("}")
    w.add(f"let result_at = {_start_of(places[0])};")
    w.store("dq", of_queries, "r0", p.rows, places[0], lambda _: scale_text(p))
    w.add("}")
    return _kernel_of_gradients(w, for_keys + for_queries, 14)


def shares(p: Problem, layouts: Sequence[Layout], of: Shares, choice: AttentionChoice) -> CallKernel:
    """g, sums, q, k, v, [mask], [key] to the gradients of k and v and the partial gradients of q, as described in `LaidShares`."""
    blocks, heads = choice.blocks, p.n * p.heads
    w = Writer(p, choice, dict(zip(("g", "q", "k", "v"), layouts, strict=True)))
    of_keys, of_queries = choice.of_keys, choice.of_queries
    assert of_keys is not None
    w.add("let id = i32(lid);")
    w.add(f"let bh = wg % {heads};\nlet share = wg / {heads};")
    w.head()
    w.places(w.scores, of_keys, of_queries)
    w.sums("s", w.scores)
    w.sums("t", w.scores)
    w.sums("dq", of_queries)
    w.registers(*w.pair("q", "k"), *(w.plain(*of) for of in (("g", "r0"), ("q", "r0"), ("k", "c0"))))
    w.add(f"for (var c0 = share * {blocks.columns}; c0 < {p.columns}; c0 += {of.count * blocks.columns}) {{")
    whole, row = p.n * p.heads * p.columns * p.d, (0, 0, 0, p.d)

    def own_queries() -> None:
        """The gradient of q from the first block of keys is stored, those of others are added to it."""
        start = f"({2 * whole} + (share * {heads} + bh) * {p.rows * p.d}) / {LANES}"
        w.add(f"{{\nlet result_at = {start};\nlet fresh = c0 == share * {blocks.columns};")
        w.store("dq", of_queries, "r0", p.rows, row, lambda _: "1.0", onto="fresh")
        w.add("}")

    _over_queries(w, of_keys, of_queries, own_queries)
    for name, start in (("dk", 0), ("dv", whole)):
        w.add(f"{{\nlet result_at = ({start} + bh * {p.columns * p.d}) / {LANES};")
        _store_of_keys(w, name, of_keys, row)
        w.add("}")
    w.add("}")
    return _kernel_of_gradients(w, of.count * heads, 10, of_memory=True)


def join(p: Problem, of: Shares, places: Sequence[Layout]) -> CallKernel:
    """Write the gradients of k and v, and the sum of the partial gradients of q, to their places: a vec4 per thread."""
    quads = p.d // LANES
    queries, keys = (p.n * p.heads * length * quads for length in (p.rows, p.columns))
    seen = f"if (l < {of.first_row('share')}) {{ break; }}" if p.causal else ""

    def goal(place: Layout, length: int, t: str) -> str:
        start, by_n, by_head, by_row = (s // LANES for s in place)
        head, row = f"({t} / {quads * length})", f"({t} / {quads} % {length})"
        at = f"{head} / {p.heads} * {by_n} + {head} % {p.heads} * {by_head} + {row} * {by_row} + {t} % {quads}"
        return f"{start} + {at}"

    body = f"""
let t = wg * {JOINED} + i32(lid);
if (t < {queries}) {{
  let l = t / {quads} % {p.rows};
  var sum = shares[{2 * keys} + t];
  for (var share = 1; share < {of.count}; share++) {{
    {seen}
    sum += shares[{2 * keys} + share * {queries} + t];
  }}
  result[{goal(places[0], p.rows, "t")}] = sum * {scale_text(p)};
}} else if (t < {queries + keys}) {{
  let u = t - {queries};
  result[{goal(places[1], p.columns, "u")}] = shares[u];
}} else if (t < {queries + 2 * keys}) {{
  let u = t - {queries + keys};
  result[{goal(places[2], p.columns, "u")}] = shares[{keys} + u];
}}"""
    return CallKernel(
        body,
        JOINED,
        -(-(queries + 2 * keys) // JOINED),
        PREAMBLE if "of_bits" in body else "",
        frozenset(("shares", "result")),
        of.count * queries * LANES,
    )


def _kernel_of_gradients(w: Writer, workgroups: int, products: int, of_memory: bool = False) -> CallKernel:
    """products: operations for each element of the block of weights, in units of the head size; of_memory: see `_row_sums`."""
    p = w.p
    flops = products * math.prod(p.shape) * p.columns // (2 if p.causal else 1)
    vectors = frozenset(("g", "q", "k", "v", "result", *(() if of_memory else ("flat",))))
    return CallKernel("\n".join(w.lines), w.blocks.threads, workgroups, w.preamble(), vectors, flops, w.functions)


def _over_queries(
    w: Writer, of_keys: Tile, of_queries: Tile | None = None, own_queries: Callable[[], None] = lambda: None
) -> None:
    """The gradients of a block of keys, dk and dv, accumulated over the queries; with `of_queries` also dq of each block, which
    `own_queries` stores.
    """
    p, blocks = w.p, w.blocks
    w.sums("dk", of_keys)
    w.sums("dv", of_keys)
    start = f"(c0 / {blocks.rows}) * {blocks.rows}" if p.causal else "0"
    w.add(f"var r0 = {start};")
    w.begin("q", "k")
    w.add(f"for (; r0 < {p.rows}; r0 += {blocks.rows}) {{")
    if of_queries is None:
        _row_sums(w)
    _weights(w, lambda: w.fetch(w.plain("g", "r0")), of_memory=of_queries is not None)
    if p.dropped:
        for i in range(w.scores.tall):
            for q in range(w.scores.broad // LANES):
                w.add(f"let used_{i}_{q} = s_{i}_{q} * {w.keep_factor(i, q)};")
        w.write("used")
    else:
        w.write("s")
    _to_scores(w)
    w.onto("dv", of_keys, "g", "r0", lambda: w.fetch(w.plain("q", "r0")))
    w.add("workgroupBarrier();")
    w.write("t")

    def next_queries() -> None:
        w.add(f"if (r0 + {blocks.rows} < {p.rows}) {{")
        w.begin("q", "k", r0=f"(r0 + {blocks.rows})")
        w.add("}")

    if of_queries is None:
        w.onto("dk", of_keys, "q", "r0", next_queries)
    else:
        w.onto("dk", of_keys, "q", "r0", lambda: w.fetch(w.plain("k", "c0")))
        w.add("workgroupBarrier();")
        w.write_turned("t")
        w.clear("dq", of_queries)
        w.onto("dq", of_queries, "k", "c0", next_queries)
        own_queries()
    w.add("}")


def _store_of_keys(w: Writer, name: str, of_keys: Tile, place: Layout) -> None:
    factor = scale_text(w.p) if name == "dk" else "1.0"
    w.store(name, of_keys, "c0", w.p.columns, place, lambda _: factor)


def _start_of(place: Layout) -> str:
    """The first vec4 of this head in an array."""
    start, by_n, by_head, _ = (s // LANES for s in place)
    return f"{start} + b * {by_n} + h * {by_head}"


def _row_of(place: Layout, row: str) -> str:
    """The first vec4 of a row of this head."""
    return f"{_start_of(place)} + {row} * {place[3] // LANES}"


def _row_sums(w: Writer) -> None:
    """The sums over d of gradient times result of the rows from r0 on, in workgroup memory: neighbouring
    threads compute parts of each. For short sequences, for which it costs less than a dispatch.
    """
    p, blocks = w.p, w.blocks
    parts, quads = blocks.threads // blocks.rows, p.d // LANES
    w.add(f"{{\nlet l = r0 + id / {parts};\nvar sum = 0.0;")
    w.add(f"if (l < {p.rows}) {{" if p.rows % blocks.rows else "{")
    w.add(f"let g_row = g_at + l * {w.layouts['g'][3] // LANES};")
    w.add(f"let flat_row = {_row_of(place_of_result(p.shape, p.by_row), 'l')};")
    w.add(
        f"for (var at = id % {parts}; at < {quads}; at += {parts}) {{ sum += dot(g[g_row + at], flat[flat_row + at]); }}"
    )
    w.add("}")
    w.add(w.part(f"{blocks.of_rows} + id / {LANES}", f"id % {LANES}", "sum"))
    w.add("}")


def _weights(w: Writer, then: Callable[[], None], of_memory: bool = False) -> None:
    """The block s of weights, the block t of their gradients, and the rows' sums: of `_row_sums`, or, with
    of_memory, from `sums`. All threads have read workgroup memory when it ends; `then` loads the next
    operands.
    """
    p, tile = w.p, w.scores
    w.between("s", "q", "k", lambda: w.begin("g", "v"))
    w.masked()
    w.between("t", "g", "v", then)
    total = p.n * p.heads * p.rows
    parts = 0 if of_memory else w.blocks.threads // w.blocks.rows
    for g in range(tile.tall // LANES):
        for part in range(parts):
            w.add(f"let sums_{g}_{part} = held({w.blocks.of_rows} + {w.row_quad(tile, g)} * {parts} + {part});")
    for i in range(tile.tall):
        w.add(f"let place_{i} = bh * {p.rows} + min(row_{i}, {p.rows - 1});")
        if of_memory:
            w.add(f"let log_{i} = sums[place_{i}];\nlet delta_{i} = sums[{total} + place_{i}];")
        else:
            own = range(i % LANES * parts, (i % LANES + 1) * parts)
            w.add(f"let delta_{i} = {' + '.join(f'sums_{i // LANES}_{k // LANES}[{k % LANES}]' for k in own)};")
            at = f"({math.prod(p.shape)} + place_{i})"
            w.add(f"let log_{i} = flat[{at} / {LANES}][{at} % {LANES}];")
        # rows beyond the last must give 0; rows without allowed keys are 0 already
        base = f"select(log_{i}, 0.0, log_{i} == lowest())"
        if p.rows % w.blocks.rows:
            base = f"select(-lowest(), {base}, row_{i} < {p.rows})"
        w.add(f"let base_{i} = {base};")
        for q in range(tile.broad // LANES):
            w.add(f"s_{i}_{q} = exp(s_{i}_{q} - vec4<f32>(base_{i}));")
    w.add("workgroupBarrier();")


def _to_scores(w: Writer) -> None:
    """The gradient of the scores, in t, with the same order of operations in all threads."""
    for i in range(w.scores.tall):
        for q in range(w.scores.broad // LANES):
            t = f"t_{i}_{q}"
            given = f"{t} * kept_{i}_{q}" if w.p.dropped else t
            w.add(f"{t} = s_{i}_{q} * ({given} - vec4<f32>(delta_{i}));")
