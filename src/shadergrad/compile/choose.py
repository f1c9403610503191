"""Chooses the parameters of each kernel: the stage between fusion and emission.

In: a group of nodes, the Target, and the nodes that have buffers. Out: a Choice, plain data that the emitters in compile/wgsl follow.
All differences between devices are decided here, or before by tiles.py and horizontal.py: an emitter gets no Target.

Constants without a source were measured on an H200; those for software adapters (`Traits.slow_loads`) on two cores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..graph.index import Index, flatten, unflatten, variable
from ..graph.node import Node
from ..primitives.call import Call
from ..primitives.elementwise import Elementwise
from ..symbolic_sizes import divides, hint, varies
from ..target import Target
from . import matrix_units, tiles
from .calls import options_of
from .choices import CallChoice, Choice, DotChoice, Layout, MapChoice, Part, RowChoice, Tile
from .groups import Group, behind_reshapes, reduce_index, row_position, row_recorder
from .layouts import IndexOf, IsBuffer, OperandIndex, layout_of, reads_quads
from .loop_iterations import MOST_ITERATIONS, iterations_within
from .products import Product
from .puller import LANE, LANES, lane_variable
from .recorder import Recorder
from .wgsl.functions import math_functions


def choose(group: Group, target: Target, is_buffer: IsBuffer) -> Choice:
    """The choice for a group, or for several that share a dispatch."""
    parts: Sequence[Part] = CHOOSE[group.archetype](group.parts or [group], target, is_buffer)
    return Choice(
        group.archetype,
        tuple(parts),
        target.max_workgroups,
        checked=target.checked,
        wide_loads=target.traits.slow_loads and target.traits.wide_loads,
        converts_halves=target.converts_halves,
    )


# -- maps

THREADS = 256
SMALL = 1 << 18  # with fewer elements, smaller workgroups use more cores
THREADS_SMALL = 64
SIDE = 32  # of a square tile
TILED_FROM = 1 << 14  # elements of a map from which on transposes go through tiles


def _maps(parts: Sequence[Group], target: Target, is_buffer: IsBuffer) -> list[MapChoice]:
    axis = axis_of_tiles(parts[0], is_buffer) if len(parts) == 1 else None
    if axis is not None:
        return [MapChoice(THREADS, axis)]
    threads = THREADS_SMALL if hint(sum(p.size for p in parts)) < SMALL else THREADS
    return [MapChoice(threads)] * len(parts)


def axis_of_tiles(group: Group, is_buffer: IsBuffer) -> int | None:
    """The axis along which a map's reads are contiguous, if it reads across the rows that it writes; None if it does not."""
    sizes = group.roots[0].shape
    if group.size < TILED_FROM or len(sizes) < 2 or sizes[-1] < SIDE:
        return None
    count: dict[int, int] = {}
    for flat in reads_of_map(group, is_buffer).reads:
        axis = axis_of_rows(flat[1], sizes)
        if axis is not None:
            count[axis] = count.get(axis, 0) + 1
    return max(count, key=lambda a: count[a]) if count else None


def reads_of_map(group: Group, is_buffer: IsBuffer) -> Recorder:
    """A Recorder with the reads of a map for its element at (x0, x1, ...)."""
    sizes = group.roots[0].shape
    index = tuple(variable(f"x{a}", n) for a, n in enumerate(sizes))
    recorder = Recorder(is_buffer)
    for root in group.roots:
        recorder.pull(root, unflatten(flatten(index, sizes), root.shape))
    return recorder


def axis_of_rows(flat: Index, sizes: tuple[int, ...]) -> int | None:
    """The axis along which neighbours are contiguous in memory, if it is not the last one, which has a large stride there."""
    last = flat.split(f"x{len(sizes) - 1}")
    if last is None or last[1] < SIDE or not flat.variables() <= {f"x{a}" for a in range(len(sizes))}:
        return None
    splits = {a: flat.split(f"x{a}") for a, n in enumerate(sizes[:-1]) if n >= SIDE}
    return next((a for a, split in splits.items() if split is not None and split[1] == 1), None)


# -- rows

MIN_THREADS = 64
MAX_THREADS = 256
SHORT_ROW = 16  # elements of a row that one thread reduces
MANY_ROWS = 2048
# On adapters with slow loads, coalesced reads gain nothing, and barriers take longest to compile. So from this many rows and
# elements on, each thread reduces a whole row.
ROWS_ALONE = 128
ELEMENTS_ALONE = 1 << 16
THREADS_ALONE = 8
COLUMNS = 32  # neighbouring rows per workgroup in a strided reduction
A_THREAD = 16  # elements of a row that a thread keeps in registers, if there are many rows
ROUNDS = 4  # iterations that are unrolled
FEW_ROUNDS = 256  # iterations of a thread along a row that every device allows
ITERATIONS_AN_ELEMENT = 1.1  # loop iterations per element of a row, including those over blocks (wgsl/row.py)
MANY_COLUMNS = 1 << 14  # short columns from which on a thread reduces four; with fewer, cores would be idle
FEW = 16  # threads per row whose results are combined in one stage, if workgroup memory is slow


def threads_of_rows(group: Group, target: Target) -> int:
    """Threads per workgroup of a row kernel."""
    rows, width = _rows_and_width(group, target)
    return rows * width


def _rows_and_width(group: Group, target: Target) -> tuple[int, int]:
    """(rows per workgroup, threads per row)."""
    inner, outer = hint(group.inner), hint(group.outer)
    alone = target.traits.slow_loads and outer >= ROWS_ALONE and inner * outer >= ELEMENTS_ALONE
    rows, width = (THREADS_ALONE, 1) if alone else _shared_rows(group, inner, outer)
    if inner <= FEW_ROUNDS * width:
        return rows, width
    wanted = _fewest_threads(group, inner)
    if alone and wanted > 1:
        rows, width = _shared_rows(group, inner, outer)
    while width < min(wanted, MAX_THREADS):
        rows, width = max(1, rows // 2), width * 2
    return rows, width


def _shared_rows(group: Group, inner: int, outer: int) -> tuple[int, int]:
    """(rows per workgroup, threads per row) if loads are not slow."""
    if inner <= SHORT_ROW:
        return min(MIN_THREADS, power_of_two(outer)), 1
    if group.trailing:
        width = min(power_of_two(-(-inner // LANES)), MAX_THREADS)
        if outer >= MANY_ROWS:  # several rows a workgroup
            width = min(width, max(COLUMNS, power_of_two(-(-inner // A_THREAD))))
            return MAX_THREADS // width, width
        return max(1, min(MIN_THREADS // width, power_of_two(outer))), width
    rows = min(COLUMNS, power_of_two(outer))
    return rows, min(MAX_THREADS // rows, power_of_two(inner))


def _fewest_threads(group: Group, inner: int) -> int:
    """The fewest threads per row with which an invocation stays within the allowed loop iterations (compile/loop_iterations.py)."""
    walks = len(group.reduces) + any(root.size != group.outer for root in group.roots)
    iterations = ITERATIONS_AN_ELEMENT + sum(map(_iterations_within, _elementwise_behind(group)))
    return power_of_two(math.ceil(inner * walks * iterations / MOST_ITERATIONS))


def _iterations_within(node: Node) -> int:
    """The loop iterations that compute one element of an elementwise operation."""
    primitive = node.primitive
    return (
        iterations_within(primitive.expression(node.inputs[-1].dtype), math_functions())
        if isinstance(primitive, Elementwise)
        else 0
    )


def _elementwise_behind(group: Group) -> list[Node]:
    """The nodes that a kernel may compute for an element of its rows."""
    ends = {id(n) for n in group.reduces}
    found: dict[int, Node] = {}
    stack = [*group.roots, *(i for n in group.reduces for i in n.inputs)]
    while stack:
        node = stack.pop()
        if id(node) not in found and id(node) not in ends and node.primitive.kind in ("elementwise", "view", "index"):
            found[id(node)] = node
            stack.extend(node.inputs)
    return list(found.values())


def _rows(parts: Sequence[Group], target: Target, is_buffer: IsBuffer) -> list[RowChoice]:
    return [_row(part, target, is_buffer) for part in parts]


def _row(group: Group, target: Target, is_buffer: IsBuffer) -> RowChoice:
    rows, width = _rows_and_width(group, target)
    lanes = LANES if _reads_row_by_quads(group, is_buffer) else 1
    columns = LANES if width == 1 and _reads_columns_by_quads(group, target, is_buffer) else 1
    steps = group.inner // lanes
    return RowChoice(
        rows,
        width,
        lanes,
        columns,
        unrolled=-(-hint(steps) // width) <= ROUNDS and not varies(steps),
        alone=target.traits.slow_loads and width == 1,
        one_stage=target.traits.zeroes_slowly and width <= FEW,
    )


def _reads_row_by_quads(group: Group, is_buffer: IsBuffer) -> bool:
    """Whether all reads along the row can be vec4 loads."""
    if not group.trailing or not divides(LANES, group.inner):
        return False
    recorder = row_recorder(group, is_buffer)
    o, element = variable("o", group.outer), variable("r", group.inner // LANES) * LANES + lane_variable()
    for node in group.reduces:
        recorder.pull(node.inputs[0], reduce_index(node, o, element))
    for root in group.roots:
        if root.size != group.outer:
            position = row_position(root, group.outer, group.inner).substitute({"r": element})
            recorder.pull_flat(root, position)
    return _are_quads(recorder)


def _reads_columns_by_quads(group: Group, target: Target, is_buffer: IsBuffer) -> bool:
    """Whether a thread that reduces whole columns should reduce four neighbours: loads and stores of elements are then vec4s."""
    if group.trailing or target.traits.slow_loads or not divides(LANES, group.outer):
        return False
    if hint(group.outer) < MANY_COLUMNS or any(root.size != group.outer for root in group.roots):
        return False
    recorder = row_recorder(group, is_buffer)
    o, element = variable("o", group.outer // LANES) * LANES + lane_variable(), variable("r", group.inner)
    for node in group.reduces:
        recorder.pull(node.inputs[0], reduce_index(node, o, element))
    for root in group.roots:
        recorder.pull_flat(root, o)
    return _are_quads(recorder)


def _are_quads(recorder: Recorder) -> bool:
    """Whether all reads that depend on the lane are aligned vec4 loads, and there is one."""
    splits = [flat.split(LANE) for flat in recorder.places]
    if not any(s is not None and s[1] == 1 for s in splits):
        return False
    return all(s is not None and (s[1] == 0 or (s[1] == 1 and s[0].divisible(LANES))) for s in splits)


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(0, (n - 1).bit_length())


# -- matrix multiplications

# Where workgroup memory is zeroed word by word, a tile takes half a second to compile. Products of fewer multiplications use no tile.
SMALLEST = 1 << 22
CHEAP = 8  # operations per element of an operand that may be recomputed for every few results
CHEAP_BESIDE_LOADS = 64  # the same if a load takes longer than many operations
MANY_SUMS = 128  # accumulators per thread from which on it computes longer than it loads
ENOUGH_SUMS = 64  # accumulators per thread above which saving registers does not pay
MANY_TILES = 2048  # number of tiles above which they are numbered in stripes
SHORT_STEP = 8  # the longest step that loads without testing for a next one
HALF_BANKS = 4  # neighbours along k whose adjacent stores use half of the banks


def _dots(parts: Sequence[Group], target: Target, is_buffer: IsBuffer) -> list[DotChoice]:
    dots = [_Dot(part, target, is_buffer) for part in parts]
    units = [choice for dot in dots if (choice := dot.on_units(len(dots) == 1)) is not None]
    shared = matrix_units.common_loads(units, target) if len(units) == len(dots) else None
    return shared or [dot.choice() for dot in dots]


class _Dot:
    """The sizes of a matrix multiplication while its choice is made."""

    def __init__(self, group: Group, target: Target, is_buffer: IsBuffer) -> None:
        assert group.dot is not None
        self.group, self.dot, self.target, self.is_buffer = group, group.dot, target, is_buffer
        self.product = Product.of(self.dot)
        batch, self.m, self.k = self.dot.inputs[0].shape
        self.n = self.dot.shape[2]
        self.multiplications = hint(batch * self.m * self.n * self.k)
        self.index = OperandIndex(self.product.batches, self.product.n, self.n)

    def choice(self) -> DotChoice:
        product, target = self.product, self.target
        method = self._method()
        if method:
            return self._without_tiles(shuffled=method == "shuffled")
        tile = self.group.tile or tiles.tile_of(product, target)
        assert product.parts == 1 or product.chunk % tile.bk == 0, "a step reaches into the next part"
        if tile.narrow:
            return DotChoice("narrow", tile, window=product.window)
        return self._tiled(tile)

    def on_units(self, alone: bool) -> DotChoice | None:
        """The choice for matrix units; None if they do not multiply it. alone: whether it has a dispatch to itself."""
        return matrix_units.choice_of(self.dot, self.product, self.index, self.target, self.is_buffer, alone)

    def _method(self) -> str:
        """The method of a matrix multiplication without tiles; "" for a tiled one."""
        if self.target.shuffles(self.multiplications) and self._cost() <= CHEAP_BESIDE_LOADS:
            return "shuffled"
        small = self.multiplications <= SMALLEST and self.target.traits.zeroes_slowly and self.product.window == 1
        return "direct" if small and self._cost() <= CHEAP else ""

    def _cost(self) -> int:
        """Operations per element of both operands, in addition to the load."""
        m, n, k = (variable(x, size) for x, size in (("m", self.m), ("n", self.product.n), ("k", self.k)))
        a, b = self.dot.inputs
        recorder = Recorder(self.is_buffer)
        recorder.pull(a, self.index.left(m, k))
        recorder.pull(b, self.index.right(n, k))
        return recorder.cost

    # -- without tiles

    def _without_tiles(self, shuffled: bool) -> DotChoice:
        product = self.product
        quads = self._has_quads()
        along_k = shuffled and self._is_along_k(quads)
        tile = tiles.shuffled_tile(product.shape, quads, along_k) if shuffled else tiles.direct_tile(self.m, product.n)
        assert product.parts == 1 or product.chunk % tile.bk == 0, "a step reaches into the next part"
        return DotChoice("shuffled" if shuffled else "direct", tile, quads=quads, along_k=along_k)

    def _has_quads(self) -> bool:
        """Whether four neighbours of a row of the right operand are one load."""
        columns = self.product.n
        quad = variable("q", -(-columns // LANES)) * LANES + lane_variable()
        index = self.index.right(quad, variable("k", self.k))
        return divides(LANES, columns) and reads_quads(self.dot.inputs[1], index, self.is_buffer)

    def _is_along_k(self, quads: bool) -> bool:
        """Whether four positions along the contraction are one load of a row of the left operand; and of a column of the right one,
        unless four columns are.
        """

        def reads(operand: Node, free: int, index: IndexOf) -> bool:
            quad = variable("q", -(-self.k // LANES)) * LANES + lane_variable()
            return reads_quads(operand, index(variable("free", free), quad), self.is_buffer)

        a, b = self.dot.inputs
        return (
            divides(LANES, self.k)
            and divides(LANES, self.product.chunk)
            and reads(a, self.m, self.index.left)
            and (quads or reads(b, self.product.n, self.index.right))
        )

    # -- with tiles

    def _tiled(self, tile: Tile) -> DotChoice:
        product, traits = self.product, self.target.traits
        window = 1 if tile.bk % product.window else product.window
        layouts = self._layouts(tile, window)
        padded = self._is_padded(tile)
        fma_order = self.dot.dtype.category == 2 and traits.unrolls and not traits.slow_loads
        many_sums = tile.tm * tile.tn >= MANY_SUMS
        return DotChoice(
            "tiled",
            tile,
            layouts,
            window=window,
            padded=padded,
            skewed=padded and traits.unrolls and _takes_four(tile),
            striped=self._is_striped(tile),
            unrolled=traits.unrolls,
            fma_order=fma_order,
            pipelined=fma_order and self._is_pipelined(tile),
            scalar_sums=fma_order and many_sums and layouts[1] not in ("along k", "scalars along k"),
            many_sums=many_sums,
            loads_always=traits.unrolls and _loads_always(tile, layouts),
            moves_sums=fma_order and self._moves_sums(),
            component_stores=traits.component_stores,
        )

    def _layouts(self, tile: Tile, window: int) -> tuple[Layout, Layout]:
        a, b = self.dot.inputs
        return (
            layout_of(a, self.m, self.k, self.index.left, tile, window, self.is_buffer),
            layout_of(b, self.product.n, self.k, self.index.right, tile, window, self.is_buffer),
        )

    def _is_padded(self, tile: Tile) -> bool:
        """Whether workgroup memory has room for a vec4 of padding per row."""
        padding = 4 * 2 * LANES * tile.bk * tile.stages
        if tile.keeps_rows:
            padding += 4 * LANES * (tile.bm + tile.bn) * tile.stages
        return tile.storage + padding <= self.target.max_workgroup_storage

    def _is_striped(self, tile: Tile) -> bool:
        down, across = -(-self.m // tile.bm), -(-self.product.n // tile.bn)
        return hint(down * across) > MANY_TILES and hint(down) != 1

    def _is_pipelined(self, tile: Tile) -> bool:
        """Whether to use software pipelining, which takes registers. With few sums per thread, a discrete GPU's driver limits registers to run
        more workgroups at a time, and spills some: then pipelining helps only if there are no more workgroups.
        """
        enough = tile.tm * tile.tn >= ENOUGH_SUMS
        return enough or hint(self.product.workgroups(tile)) <= 2 * self.target.traits.costs.cores

    def _moves_sums(self) -> bool:
        """Whether sums are copied before they are stored: if a root is the sums themselves, in rows of whole vec4s. Without the copy a driver
        accumulates them in the registers from which they are stored, four neighbours at a time, which makes multiplications wait for registers
        and moves some sums back and forth in every step.
        """
        plain = any(behind_reshapes(root) is self.dot for root in self.group.roots)
        return plain and divides(LANES, self.n)


def _takes_four(tile: Tile) -> bool:
    """Whether neighbouring threads load four vectors along each row of a transposed operand, so that the stores of one thread fall into half of
    the banks.
    """
    return tile.bk == HALF_BANKS * LANES and tile.bk // tile.slices % LANES == 0


def _loads_always(tile: Tile, layouts: Sequence[Layout]) -> bool:
    """Whether the last step loads its tiles again (instead of a branch), as measured: for vec4 loads, in short steps, and in all steps that
    transpose both operands.
    """
    transposed: tuple[Layout, ...] = ("along k", "rows")
    of = (*transposed, "along free") if tile.bk <= SHORT_STEP else transposed
    return all(layout in of for layout in layouts)


# -- calls


def _calls(parts: Sequence[Group], target: Target, is_buffer: IsBuffer) -> list[CallChoice]:
    return [_call(part, target) for part in parts]


def _call(group: Group, target: Target) -> CallChoice:
    assert group.call is not None
    primitive = group.call.primitive
    assert isinstance(primitive, Call)
    return CallChoice(options_of(primitive, target, group.call.inputs))


CHOOSE: dict[str, Callable[[Sequence[Group], Target, IsBuffer], Sequence[Part]]] = {
    "map": _maps,
    "row": _rows,
    "dot": _dots,
    "call": _calls,
}
