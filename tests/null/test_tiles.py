"""How matrix products are cut up: every choice fits the target, covers the product, and keeps large GPUs busy."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby, pairwise

import pytest

from shadergrad.compile.choices import Cut, Shape, Table, Tile
from shadergrad.compile.layouts import is_shared
from shadergrad.compile.pipeline import compile_graph
from shadergrad.compile.tiles import choose_tile, chunk_of, register
from shadergrad.dtypes import float32
from shadergrad.graph import build
from shadergrad.graph.capture import Graph
from shadergrad.graph.leaves import Placeholder
from shadergrad.graph.node import Node
from shadergrad.target import PORTABLE, ROWS, Target

LARGE = Target("wgsl", max_workgroup_invocations=1024, max_workgroup_storage=49152, traits=ROWS["native"])
TARGETS = {"portable": PORTABLE, "large": LARGE}
# batch, m, n, k, window
PRODUCTS = {
    "square": (1, 1024, 1024, 1024, 1),
    "one result": (1, 1, 1, 7, 1),
    "few rows": (1, 3, 131072, 576, 9),
    "convolution": (1, 128, 32768, 1152, 9),
    "odd channels": (1, 7, 100, 45, 9),
    "window of 25": (1, 16, 512, 100, 25),
    "window of 49": (1, 64, 512, 147, 49),
    "weight gradient": (1, 64, 576, 131072, 1),
    "many small": (64, 16, 16, 16, 1),
    "prime": (1, 101, 103, 107, 1),
}


def tile_of(name: str, target: Target) -> Tile:
    return choose_tile(*PRODUCTS[name], target)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_tile_fits_the_target(name: str, target: Target) -> None:
    tile = tile_of(name, target)
    assert tile.threads <= target.max_workgroup_invocations
    assert tile.storage <= target.max_workgroup_storage
    assert tile.bm % tile.tm == tile.bn % tile.tn == 0
    assert tile.narrow or tile.tm % 4 == tile.tn % 4 == 0


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", ["convolution", "odd channels", "few rows", "window of 25"])
def test_a_step_takes_whole_windows(name: str, target: Target) -> None:
    assert tile_of(name, target).bk % PRODUCTS[name][4] == 0


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_step_does_not_reach_into_the_next_part(name: str, target: Target) -> None:
    batch, m, n, k, window = PRODUCTS[name]
    chunk = chunk_of(batch, m, n, k, window, target)
    parts = -(-k // chunk)
    assert parts == 1 or chunk % choose_tile(batch * parts, m, n, chunk, window, target).bk == 0


def test_a_long_contraction_of_few_results_is_cut_until_every_core_works() -> None:
    chunk = chunk_of(*PRODUCTS["weight gradient"], LARGE)
    parts = -(-131072 // chunk)
    tile = choose_tile(parts, 64, 576, chunk, 1, LARGE)
    assert parts * -(-64 // tile.bm) * -(-576 // tile.bn) >= LARGE.traits.costs.cores * 0.8


def test_a_product_with_many_results_stays_whole() -> None:
    assert chunk_of(1, 4096, 4096, 4096, 1, LARGE) == 4096
    assert chunk_of(1, 128, 32768, 1152, 9, LARGE) == 1152


def test_large_products_take_large_tiles_and_small_ones_small() -> None:
    assert tile_of("convolution", LARGE) == Tile(128, 128, 18, 8, 8)
    assert choose_tile(1, 4096, 4096, 4096, 1, LARGE) == Tile(128, 128, 16, 8, 8)
    small = choose_tile(1, 64, 64, 256, 1, LARGE)
    assert small.bm * small.bn < 64 * 64
    assert tile_of("few rows", LARGE).bm == 3


@pytest.mark.parametrize(("m", "n", "k"), [(2048, 50257, 768), (50257, 768, 2048)])
def test_rows_that_are_no_multiple_of_four_leave_room_for_a_second_workgroup(m: int, n: int, k: int) -> None:
    aligned = choose_tile(1, m // 4 * 4, n // 4 * 4, k, 1, LARGE)
    assert choose_tile(1, m, n, k, 1, LARGE).threads < aligned.threads


def test_small_products_of_pages_take_short_steps_and_large_ones_do_not() -> None:
    assert choose_tile(1, 64, 128, 64, 1, PORTABLE).bk == 8
    assert choose_tile(1, 64, 128, 64, 1, LARGE).bk > 8
    assert choose_tile(1, 256, 1024, 1024, 1, PORTABLE).bk > 8


def test_a_few_rows_over_windows_lie_whole_in_workgroup_memory() -> None:
    batch, m, n, k, window = PRODUCTS["few rows"]
    assert choose_tile(batch, m, n, k, window, LARGE) == Tile(m, 256, k, m, 1)
    assert not choose_tile(batch, m, n, k, 1, LARGE).narrow
    assert not choose_tile(batch, m, n, k, window, PORTABLE).narrow
    assert not choose_tile(batch, m, n, k // 2, window, LARGE, k // 2).narrow
    assert not choose_tile(batch, 5, n, k, window, LARGE).narrow
    assert not choose_tile(batch, m, 255, k, window, LARGE).narrow
    assert choose_tile(batch, m, n, 49152 // 16, window, LARGE).narrow
    assert not choose_tile(batch, m, n, 49152 // 16 + 9, window, LARGE).narrow


def source(*shape: int) -> Node:
    return Node(Placeholder(0, shape, float32), (), shape, float32, "cpu")


def text_of_product(m: int, n: int, k: int, target: Target, negated: bool = False, turned: bool = False) -> str:
    """That of the one kernel which multiplies two matrices, of which the right one lies transposed where it is `turned`."""
    shapes = (1, m, k), (1, n, k) if turned else (1, k, n)
    operands = [Node(Placeholder(i, s, float32), (), s, float32, "webgpu") for i, s in enumerate(shapes)]
    left, right = operands
    product = build.dot(left, build.permute(right, (0, 2, 1)) if turned else right)
    graph = Graph(operands, [-product if negated else product], device="webgpu")
    (kernel,) = compile_graph(graph, target)[0].kernels
    return kernel.source


DEAR = LARGE.having(slow_loads=True)


def tuned(*tile: int) -> Target:
    """A large GPU whose table has this tile for every product of `text_of_product`."""
    table: Table = {Shape(1, m, n, k): Cut(Tile(*tile)) for m, n, k in ((512, 512, 512), (4096, 4096, 512))}
    return replace(LARGE, measured=register(table))


MULTIPLICATION = re.compile(r"= fma\((a_(\w+)_\d+\.\w), (b_\w+\.\w), ")
FEW_SUMS = (2048, 768, 512)  # a thread, and many workgroups


@pytest.mark.parametrize(("m", "n", "k"), [(4096, 4096, 512), (64, 64, 128), FEW_SUMS])
def test_each_multiplication_of_a_tile_takes_an_operand_of_the_one_before(m: int, n: int, k: int) -> None:
    multiplications = MULTIPLICATION.findall(text_of_product(m, n, k, LARGE))
    tile = choose_tile(1, m, n, k, 1, LARGE)
    behind = 0 if (m, n, k) == FEW_SUMS else 1  # the last place of the last step, after the loop
    assert len(multiplications) == (tile.bk // tile.slices + behind) * tile.tm * tile.tn
    for (a, step, b), (next_a, next_step, next_b) in pairwise(multiplications):
        assert a == next_a or b == next_b or step != next_step
    assert "= fma(a_" not in text_of_product(m, n, k, PORTABLE)
    assert "= fma(a_" not in text_of_product(m, n, k, DEAR)


def places_of(text: str) -> list[str]:
    """Of the loop over steps: what is read at a place along the contraction ("read 3"), what is multiplied ("3")."""
    loop = text.split("for (var k = ")[1].split("\n  }\n")[0]
    found = re.findall(r"let a_(\d+)_0 = |= fma\(a_(\w+)_\d+\.", loop)
    return [name for name, _ in groupby(f"read {read}" if read else place for read, place in found)]


@pytest.mark.parametrize(
    "tile", [(64, 128, 16, 8, 8), (64, 128, 16, 8, 8, 2), (128, 128, 8, 16, 8), (32, 32, 64, 8, 4, 1, 4)]
)
def test_what_is_read_last_in_a_step_is_multiplied_in_the_next(tile: tuple[int, ...]) -> None:
    text = text_of_product(512, 512, 512, tuned(*tile))
    of = Tile(*tile)
    places = ["held", *map(str, range(of.bk // of.slices))]
    assert places_of(text) == [name for a, b in pairwise(places) for name in (a, f"read {b}")]
    assert f"a_held_0 = a_{places[-1]}_0;" in text


def test_nothing_waits_in_browsers() -> None:
    assert "_held_" not in text_of_product(512, 512, 512, PORTABLE)


def test_few_sums_wait_where_there_are_few_workgroups_only() -> None:
    """NVIDIA's driver leaves them few registers, so that many workgroups run at a time."""
    tile = 64, 64, 16, 8, 4
    assert "_held_" in text_of_product(512, 512, 512, tuned(*tile))
    assert "_held_" not in text_of_product(4096, 4096, 512, tuned(*tile))
    assert places_of(text_of_product(4096, 4096, 512, tuned(*tile)))[:3] == ["read 0", "0", "read 1"]


def test_many_sums_begin_with_the_row_that_is_read_last() -> None:
    """And are numbers, unless the right operand is stored along the contraction: both were measured."""
    many = tuned(128, 128, 8, 16, 8)
    text = text_of_product(4096, 4096, 512, many)
    loaded = re.search(r"next_b_1 = v\d+;", text)
    assert loaded
    assert loaded.start() < text.index("var sum_0_0 = ")  # as was measured
    rows = [int(row) for row in re.findall(r"sum_(\d+)_0 = fma\(a_held", text)]
    assert rows == [*range(15, -1, -1)] * 2
    assert re.findall(r"let (\w)_0_(\d) = tile_", text) == [*zip("babaaa", "001123", strict=True)]
    turned = text_of_product(4096, 4096, 512, many, turned=True)
    assert "sum_" not in turned
    assert re.search(r"c_15_0\.x = fma\(a_held_3\.w, b_held_0\.x, c_15_0\.x\);", turned)
    assert "sum_" not in text_of_product(4096, 4096, 512, LARGE)


def test_sums_are_stored_from_other_registers() -> None:
    """Those of which nothing is computed, and where four are stored at once."""
    assert text_of_product(4096, 4096, 512, LARGE).count(" + zero;") == 16
    assert " + zero;" in text_of_product(64, 64, 64, LARGE)
    assert "zero" not in text_of_product(4096, 4096, 512, LARGE, negated=True)
    assert "zero" not in text_of_product(4096, 4095, 512, LARGE)
    assert "zero" not in text_of_product(4096, 4096, 512, PORTABLE)
    assert "zero" not in text_of_product(4096, 4096, 512, DEAR)


def numbers(text: str, expression: str, **known: int) -> int:
    """The value of an integer expression over names that a kernel's text defines."""
    defined = dict(re.findall(r"^  let (\w+) = ([^;]+);$", text, re.MULTILINE))
    values = {"n0": 0, "m0": 0, **known}

    def of(name: re.Match[str]) -> str:
        if name[0] not in values:
            values[name[0]] = evaluated(defined[name[0]])
        return str(values[name[0]])

    def evaluated(text: str) -> int:
        text = re.sub(r"[a-z_]\w*", of, re.sub(r"\b(\d+)u\b", r"\1", text))
        return int(eval(text.replace("/", "//"), {"__builtins__": {}}))

    return evaluated(expression)


@pytest.mark.parametrize(("m", "n"), [(2048, 2304), (1024, 256)])
def test_neighbouring_threads_share_what_they_read(m: int, n: int) -> None:
    """Of 16 bytes for each, NVIDIA's cores bring those of eight threads at a time, and of sixteen where the eight are pairs."""
    text = text_of_product(m, n, 512, LARGE)
    assert choose_tile(1, m, n, 512, 1, LARGE).threads % 32 == 0
    places = [tuple(numbers(text, name, id=i) for name in ("tm", "tn")) for i in range(32)]
    assert len(set(places)) == 32
    assert [len({place[axis] for place in places}) for axis in (0, 1)] == [4, 8]
    for i in range(32):
        assert places[i][0] == places[i ^ 1][0]
        assert places[i][1] == places[i ^ 2][1]


@pytest.mark.parametrize(("m", "n", "k"), [(2048, 2304, 512), (1024, 1024, 520), (512, 512, 256)])
def test_threads_of_a_subgroup_store_to_different_banks(m: int, n: int, k: int) -> None:
    """Elements of the left operand, of which four neighbours along the contraction are one load."""
    text, step = text_of_product(m, n, k, LARGE), choose_tile(1, m, n, k, 1, LARGE).bk
    stores = re.findall(r"tile_a\[([^]]+)\]\[([^]]+)\] = next_a_\d+\[\d\];", text)
    assert stores
    for quad, lane in stores:
        words = [4 * numbers(text, quad, id=i) + numbers(text, lane, id=i) for i in range(32)]
        assert len({word % 32 for word in words}) == 32, (step, quad)


def test_an_operand_is_shared_where_all_samples_have_the_same() -> None:
    x = source(1, 3, 5)
    assert is_shared(build.broadcast(x, (4, 3, 5)))
    assert is_shared(build.reshape(build.broadcast(build.reshape(x, (1, 1, 3, 5)), (1, 4, 3, 5)), (4, 3, 5)))
    assert not is_shared(source(4, 3, 5))
    assert not is_shared(x)
    assert not is_shared(build.reshape(build.broadcast(source(2, 1, 3), (2, 4, 3)), (8, 3, 1)))
