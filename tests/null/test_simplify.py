"""Each rule of compile/simplify.py, lower.py and order.py: the graph takes the expected form, and keeps its value.

A graph is built over placeholders, rewritten, and both are evaluated node by node in NumPy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shadergrad.compile import attention, convolution, lower, order, simplify
from shadergrad.compile.rewrite import Rewriter
from shadergrad.dtypes import DType, bfloat16, bool_, float16, float32, int32, int64, uint8, uint32
from shadergrad.graph import build
from shadergrad.graph.leaves import Constant, Detach, Iota, Placeholder, Variable
from shadergrad.graph.node import Node, make, topological
from shadergrad.graph.primitive import Primitive
from shadergrad.primitives import elementwise as e
from shadergrad.primitives import views as v
from shadergrad.primitives.attention import Attention
from shadergrad.primitives.call import Call
from shadergrad.primitives.dot import Dot
from shadergrad.primitives.indexing import ArgSort, Gather, ScatterAdd
from shadergrad.primitives.reduce import ReduceMax, ReduceMin, ReduceProd, ReduceSum
from shadergrad.primitives.window import Conv, Fold, Window
from shadergrad.target import PORTABLE, ROWS

Rule = Callable[..., Any]


class Graph:
    """Placeholders with values, and what is built over them."""

    def __init__(self) -> None:
        self.values: list[np.ndarray] = []

    def input(self, *shape: int, dtype: DType = float32, low: float = -5, high: float = 6) -> Node:
        rng = np.random.default_rng(len(self.values))
        array = rng.integers(int(low), int(high), shape) if dtype.category < 2 else rng.uniform(low, high, shape)
        self.values.append(np.asarray(array).astype(dtype.numpy))
        return Node(Placeholder(len(self.values) - 1, shape, dtype), (), shape, dtype, "cpu")

    def evaluate(self, output: Node) -> np.ndarray:
        known: dict[int, np.ndarray] = {}
        for node in topological([output], lambda n: n.inputs):
            p = node.primitive
            with np.errstate(all="ignore"):
                value = (
                    self.values[p.position]
                    if isinstance(p, Placeholder)
                    else p.numpy(*(known[id(i)] for i in node.inputs))
                )
            value = np.asarray(value)
            assert value.shape == node.shape, f"{node!r} has the value's shape {value.shape}"
            assert value.dtype == node.dtype.numpy, f"{node!r} has the value's dtype {value.dtype}"
            known[id(node)] = value
        return known[id(output)]


def part(x: Node, starts: tuple[int, ...], sizes: tuple[int, ...]) -> Node:
    return make(v.Slice(starts, sizes, (1,) * x.ndim), x)


def padded(x: Node, low: tuple[int, ...], high: tuple[int, ...]) -> Node:
    return make(v.Pad(low, high, (0,) * x.ndim, 0.0), x)


def in_thirds(x: Node, starts: tuple[int, ...]) -> Node:
    """The sum of pairs of columns of x (2, 6), each where it stood, as the gradient of a split."""
    parts = [padded(part(x, (0, a), (2, 2)), (0, a), (0, 4 - a)) for a in starts]
    return functools.reduce(lambda a, b: make(e.Add(), a, b), parts)


def moved(x: Node) -> Node:
    """The halves of x (4,), swapped."""
    first, second = part(x, (0,), (2,)), part(x, (2,), (2,))
    return make(e.Add(), padded(first, (2,), (0,)), padded(second, (0,), (2,)))


TARGET = PORTABLE.having(winograd=1e9)  # for which no rule stands back


def rewritten(output: Node, *rules: Rule) -> Node:
    return Rewriter(rules, "cpu", TARGET).rewrite([output])[id(output)]


def form(node: Node) -> str:
    """The graph as an expression of primitive names."""
    if isinstance(node.primitive, Placeholder):
        return f"in{node.primitive.position}"
    if isinstance(node.primitive, Constant):
        return f"{node.primitive.value:.12g}"
    return f"{node.primitive.name}({', '.join(form(i) for i in node.inputs)})" if node.inputs else node.primitive.name


def assert_becomes(build: Callable[[Graph], Node], expected: str, *rules: Rule) -> None:
    """The rules turn a graph into the expected form, of the same shape, dtype and value."""
    graph = Graph()
    before = build(graph)
    after = rewritten(before, *rules)
    assert form(after) == expected
    assert (after.shape, after.dtype) == (before.shape, before.dtype)
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-6, atol=1e-6)


def number(value: float, *shape: int, dtype: DType = float32) -> Node:
    return build.constant(value, dtype, "cpu", shape)


def wide(x: Node) -> Node:
    return make(e.Cast(float32), x)


def itself(comparison: Primitive, x: Node) -> Node:
    return make(comparison, x, x)


def half(x: Node) -> Node:
    return make(e.Cast(float16), x)


def const(form_of: str) -> str:
    """How a number of one axis or more reads."""
    return f"expand(reshape({form_of}))"


Build = Callable[[Graph], Node]

RULES: dict[Rule, dict[str, tuple[Build, str]]] = {
    simplify.look_through_aliases: {
        "a variable": (lambda g: make(Variable(), g.input(3)), "in0"),
        "a detached tensor": (lambda g: make(e.Exp(), make(Detach(), g.input(3))), "exp(in0)"),
    },
    simplify.empty_results: {
        "a map of nothing": (lambda g: make(e.Exp(), g.input(0, 3)), const("0")),
        "a sum of nothing": (lambda g: make(ReduceSum((1,)), g.input(2, 0)), const("0")),
        "a maximum of nothing": (lambda g: make(ReduceMax((0,)), g.input(0, 2)), const("-inf")),
        "a minimum of nothing": (lambda g: make(ReduceMin((0,)), g.input(0, 2)), const("inf")),
        "a border around nothing": (lambda g: make(v.Pad((1, 0), (1, 0), (0, 0), 2.5), g.input(0, 3)), const("2.5")),
        "a product over nothing": (lambda g: make(Dot(), g.input(1, 2, 0), g.input(1, 0, 3)), const("0")),
        "a scatter of nothing": (
            lambda g: make(ScatterAdd(0, 3), g.input(0, 2, dtype=int32), g.input(0, 2)),
            const("0"),
        ),
        "a view of nothing": (lambda g: make(v.Flip((0,)), g.input(0, 3)), const("0")),
        "not a product of something": (lambda g: make(Dot(), g.input(1, 2, 1), g.input(1, 1, 3)), "dot(in0, in1)"),
    },
    simplify.cat_without_empties: {
        "cat with nothing": (lambda g: make(v.Cat(0), g.input(2), g.input(0), g.input(3)), "cat(in0, in2)"),
    },
    simplify.fold_constants: {
        "a sum of numbers": (lambda g: number(2, 3) + number(0.5, 3), const("2.5")),
        "an integer division": (lambda g: make(e.FloorDiv(), number(-7, dtype=int32), number(2, dtype=int32)), "-4"),
        "a comparison": (lambda g: make(e.Less(), number(1), number(2)), "1"),
        "a conversion": (lambda g: make(e.Cast(int32), number(2.75, 2)), const("2")),
        "a choice": (lambda g: make(e.Where(), number(True, dtype=bool_), number(1), number(2)), "1"),
        "an overflow": (lambda g: number(3e38) * number(10), "inf"),
        "words that wrap": (lambda g: number(4294967295, dtype=uint32) + number(2, dtype=uint32), "1"),
        "integers that wrap": (lambda g: number(2**31 - 1, dtype=int32) + number(1, dtype=int32), "-2147483648"),
        "a permuted number": (lambda g: make(v.Permute((1, 0)), number(2, 2, 3)), const("2")),
        "a sliced number": (lambda g: make(v.Slice((1,), (2,), (1,)), number(2, 5)), const("2")),
        "a flipped number": (lambda g: make(v.Flip((0,)), number(2, 5)), const("2")),
        "not what has an input": (lambda g: g.input(3) + number(1, 3), f"add(in0, {const('1')})"),
    },
    simplify.reduce_constants: {
        "a sum of one number": (lambda g: make(ReduceSum((0, 1)), number(0.5, 3, 4)), "reshape(6)"),
        "a maximum of one number": (lambda g: make(ReduceMax((1,)), number(-2, 3, 4)), const("-2")),
        "a sum of ones as integers": (lambda g: make(ReduceSum((0,)), number(1, 7, dtype=int32)), "reshape(7)"),
        "a sum over axes of size 1": (lambda g: make(ReduceSum((1,)), g.input(3, 1)), "in0"),
        "a product of one number": (lambda g: make(ReduceProd((1,)), number(2, 3, 4)), const("16")),
        "a product of integers, which wraps": (
            lambda g: make(ReduceProd((0,)), number(3, 300, dtype=uint8)),
            f"reshape({pow(3, 300, 256)})",
        ),
        "a sum of integers, which wraps": (
            lambda g: make(ReduceSum((0,)), number(3, 300, dtype=uint8)),
            f"reshape({900 % 256})",
        ),
        "a sum of infinities": (lambda g: make(ReduceSum((0,)), number(np.inf, 4)), "reshape(inf)"),
    },
    simplify.sum_of_repeats: {
        "along the repeated axis": (
            lambda g: make(ReduceSum((1,)), make(v.Expand((3, 4)), g.input(3, 1))),
            f"mul(in0, {const('4')})",
        ),
        "along that and another": (
            lambda g: make(ReduceSum((0, 1)), make(v.Expand((3, 4)), g.input(3, 1))),
            "mul(reducesum(in0), reshape(4))",
        ),
        "not along another": (
            lambda g: make(ReduceSum((0,)), make(v.Expand((3, 4)), g.input(3, 1))),
            "reducesum(expand(in0))",
        ),
        "not a maximum": (
            lambda g: make(ReduceMax((1,)), make(v.Expand((3, 4)), g.input(3, 1))),
            "reducemax(expand(in0))",
        ),
    },
    simplify.neutral_operands: {
        "x + 0 of integers": (lambda g: g.input(3, dtype=int32) + 0, "in0"),
        "0 + x of integers": (lambda g: 0 + g.input(3, dtype=int32), "in0"),
        "x + -0.0": (lambda g: g.input(3) + -0.0, "in0"),
        "not 0.0 - x": (lambda g: -0.0 - g.input(3), f"sub({const('-0')}, in0)"),
        "x - 0": (lambda g: g.input(3) - 0, "in0"),
        "x * 1": (lambda g: g.input(3) * 1, "in0"),
        "1 * x": (lambda g: 1 * g.input(3), "in0"),
        "x / 1": (lambda g: g.input(3) / 1, "in0"),
        "not 0 - x": (lambda g: 0 - g.input(3), f"sub({const('0')}, in0)"),
        "not 1 / x": (lambda g: 1 / g.input(3, low=1), f"div({const('1')}, in0)"),
        "not x * 0": (lambda g: g.input(3) * 0, f"mul(in0, {const('0')})"),
        "not bools": (
            lambda g: make(e.Mul(), g.input(3, dtype=bool_), number(True, 3, dtype=bool_)),
            f"mul(in0, {const('1')})",
        ),
    },
    simplify.sums_with_zero: {
        "x + 0.0": (lambda g: g.input(3) + 0.0, f"where(equal(in0, {const('0')}), {const('0')}, in0)"),
        "0.0 + x": (lambda g: 0.0 + g.input(3), f"where(equal(in0, {const('0')}), {const('0')}, in0)"),
        "x - -0.0": (lambda g: g.input(3) - -0.0, f"where(equal(in0, {const('0')}), {const('0')}, in0)"),
    },
    simplify.division_by_powers_of_two: {
        "x / 4": (lambda g: g.input(3) / 4, f"mul(in0, {const('0.25')})"),
        "not x / 3": (lambda g: g.input(3) / 3, f"div(in0, {const('3')})"),
    },
    simplify.double_negation: {
        "- - x": (lambda g: make(e.Neg(), make(e.Neg(), g.input(3))), "in0"),
    },
    simplify.cast_to_its_own_dtype: {
        "a cast to its own type": (lambda g: make(e.Cast(float32), g.input(3)), "in0"),
    },
    simplify.halves_cast_back: {
        "halves to float32 and back": (lambda g: half(wide(g.input(3, dtype=float16))), "in0"),
        "to another kind of halves": (
            lambda g: make(e.Cast(bfloat16), wide(g.input(3, dtype=float16))),
            "cast(cast(in0))",
        ),
        "float32 to halves and back": (lambda g: wide(half(g.input(3))), "cast(cast(in0))"),
    },
    simplify.relu_of_halves: {
        "relu of halves": (
            lambda g: make(e.Relu(), wide(g.input(3, dtype=float16))),
            "cast(cast(relu(cast(in0))))",
        ),
        "relu of float32": (lambda g: make(e.Relu(), g.input(3)), "relu(in0)"),
    },
    simplify.known_condition: {
        "where true": (lambda g: make(e.Where(), number(True, 3, dtype=bool_), g.input(3), g.input(3)), "in0"),
        "where false": (lambda g: make(e.Where(), number(False, 3, dtype=bool_), g.input(3), g.input(3)), "in1"),
    },
    simplify.compared_with_itself: {
        "x == x": (lambda g: itself(e.Equal(), g.input(3)), "not(isnan(in0))"),
        "x != x": (lambda g: itself(e.NotEqual(), g.input(3)), "isnan(in0)"),
        "x >= x": (lambda g: itself(e.GreaterEqual(), g.input(3)), "not(isnan(in0))"),
        "x < x": (lambda g: itself(e.Less(), g.input(3)), "expand(reshape(0))"),
        "x == y": (lambda g: make(e.Equal(), g.input(3), g.input(3)), "equal(in0, in1)"),
        "not of integers": (lambda g: itself(e.Equal(), g.input(3, dtype=int32)), "equal(in0, in0)"),
    },
    simplify.sum_of_counts: {
        "a counter": (lambda g: (g.input(dtype=int32) + 1) + 1, "add(in0, 2)"),
        "a counter that wraps": (lambda g: (g.input(dtype=uint32, low=0) + 4294967295) + 2, "add(in0, 1)"),
        "not a float counter": (lambda g: (g.input() + 1) + 1, "add(add(in0, 1), 1)"),
    },
    simplify.small_powers: {
        "x ** 1": (lambda g: make(e.Pow(), g.input(3), number(1, 3)), "in0"),
        "x ** 2": (lambda g: make(e.Pow(), g.input(3), number(2, 3)), "mul(in0, in0)"),
        "x ** 3": (lambda g: make(e.Pow(), g.input(3), number(3, 3)), "mul(mul(in0, in0), in0)"),
        "x ** 0.5": (lambda g: make(e.Pow(), g.input(3, low=0), number(0.5, 3)), "sqrt(in0)"),
        "x ** -1": (lambda g: make(e.Pow(), g.input(3, low=1), number(-1, 3)), f"div({const('1')}, in0)"),
        "not x ** 2.5": (lambda g: make(e.Pow(), g.input(3, low=1), number(2.5, 3)), f"pow(in0, {const('2.5')})"),
        "not an integer": (
            lambda g: make(e.Pow(), g.input(3, dtype=int32), number(2, 3, dtype=int32)),
            f"pow(in0, {const('2')})",
        ),
    },
    simplify.compose_permutations: {
        "two permutes": (
            lambda g: make(v.Permute((1, 2, 0)), make(v.Permute((2, 1, 0)), g.input(2, 3, 4))),
            "permute(in0)",
        ),
        "a permute and its inverse": (
            lambda g: make(v.Permute((1, 2, 0)), make(v.Permute((2, 0, 1)), g.input(2, 3, 4))),
            "in0",
        ),
        "no permute at all": (lambda g: make(v.Permute((0, 1)), g.input(2, 3)), "in0"),
        "a permute of axes of size 1": (lambda g: make(v.Permute((1, 0, 2)), g.input(1, 3, 4)), "reshape(in0)"),
    },
    simplify.compose_shapes: {
        "two reshapes": (lambda g: make(v.Reshape((6,)), make(v.Reshape((3, 2)), g.input(2, 3))), "reshape(in0)"),
        "a reshape and its inverse": (lambda g: make(v.Reshape((2, 3)), make(v.Reshape((6,)), g.input(2, 3))), "in0"),
        "two expands": (lambda g: make(v.Expand((2, 3)), make(v.Expand((1, 3)), g.input(1, 1))), "expand(in0)"),
        "no expand at all": (lambda g: make(v.Expand((2, 3)), g.input(2, 3)), "in0"),
        "not a reshape of a permute": (
            lambda g: make(v.Reshape((6,)), make(v.Permute((1, 0)), g.input(2, 3))),
            "reshape(permute(in0))",
        ),
    },
    simplify.slice_of_padding: {
        "all but the padding": (lambda g: part(padded(g.input(2, 3), (0, 1), (2, 0)), (0, 1), (2, 3)), "in0"),
        "less than that": (lambda g: part(padded(g.input(2, 3), (0, 1), (2, 0)), (1, 2), (1, 2)), "slice(in0)"),
        "every other": (
            lambda g: make(v.Slice((1,), (2,), (2,)), padded(g.input(4), (1,), (0,))),
            "slice(in0)",
        ),
        "not with padding": (lambda g: part(padded(g.input(3), (1,), (0,)), (0,), (3,)), "slice(pad(in0))"),
        "not beyond the end": (lambda g: part(padded(g.input(3), (0,), (2,)), (1,), (3,)), "slice(pad(in0))"),
    },
    simplify.sum_of_parts: {
        "thirds of an array": (lambda g: in_thirds(g.input(2, 6), (0, 2, 4)), "in0"),
        "in any order": (lambda g: in_thirds(g.input(2, 6), (2, 4, 0)), "in0"),
        "two of three": (lambda g: in_thirds(g.input(2, 6), (2, 4)), "pad(slice(in0))"),
        "not with a gap": (lambda g: in_thirds(g.input(2, 6), (0, 4)), "add(pad(slice(in0)), pad(slice(in0)))"),
        "not elsewhere than it stood": (
            lambda g: moved(g.input(4)),
            "add(pad(slice(in0)), pad(slice(in0)))",
        ),
    },
    lower.thin_dot_to_sum: {
        "an outer product": (
            lambda g: make(Dot(), g.input(1, 3, 1), g.input(1, 1, 4)),
            "mul(expand(in0), expand(in1))",
        ),
        "a matrix and a vector": (
            lambda g: make(Dot(), g.input(2, 3, 4), g.input(2, 4, 1)),
            "reducesum(mul(in0, expand(permute(in1))))",
        ),
        "not a matrix and a matrix": (lambda g: make(Dot(), g.input(1, 3, 4), g.input(1, 4, 5)), "dot(in0, in1)"),
    },
}
CASES = [(rule, name, *case) for rule, cases in RULES.items() for name, case in cases.items()]


@pytest.mark.parametrize(("rule", "name", "build", "expected"), CASES, ids=[f"{c[0].__name__}: {c[1]}" for c in CASES])
def test_a_rule_gives_the_expected_form_and_the_same_value(rule: Rule, name: str, build: Build, expected: str) -> None:
    assert_becomes(build, expected, rule)


@pytest.mark.parametrize(("rule", "name", "build", "expected"), CASES, ids=[f"{c[0].__name__}: {c[1]}" for c in CASES])
def test_all_rules_together_keep_the_value(rule: Rule, name: str, build: Build, expected: str) -> None:
    graph = Graph()
    before = build(graph)
    after = rewritten(before, *simplify.RULES, *convolution.RULES, *lower.RULES)
    assert (after.shape, after.dtype) == (before.shape, before.dtype)
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("m", [1, 2])
def test_thin_dot_to_sum_takes_a_row_where_it_is_thin(m: int) -> None:
    """A single row times a matrix is left to either kernel, but never changes its value."""
    graph = Graph()
    before = make(Dot(), graph.input(1, m, 4), graph.input(1, 4, 5))
    after = rewritten(before, lower.thin_dot_to_sum)
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------------------------- rules with larger results


def primitives_of(node: Node) -> list[str]:
    return [n.primitive.name for n in topological([node], lambda n: n.inputs)]


class Doubled(Call):
    """x + x."""

    arguments = ("x",)

    def infer(self, *inputs):
        return inputs[0].shape, inputs[0].dtype

    def numpy(self, x):
        return x + x

    def expand(self, r, *inputs):
        return r.make(e.Add(), inputs[0], inputs[0])


def scattered(g: Graph, n: int, size: int) -> Node:
    return make(ScatterAdd(0, size), g.input(n, dtype=int32, low=0, high=size), g.input(n))


LARGER: dict[Rule, Build] = {
    attention.attention_to_calls: lambda g: make(
        Attention(0.5, True, False, 0.0, False, True), *(g.input(1, 2, 5, 8) for _ in range(3))
    ),
    lower.expand_call: lambda g: make(Doubled(), g.input(5)),
    lower.fold_to_sum: lambda g: make(Fold((1,), (7,), (1,), (1,)), g.input(2, 5, 3)),
    convolution.conv_to_dot: lambda g: make(Conv((1,), (1,)), g.input(1, 2, 2, 7), g.input(1, 4, 2, 3)),
    convolution.conv_to_points: lambda g: make(Conv((1, 1), (1, 1)), g.input(1, 2, 2, 7, 6), g.input(1, 4, 2, 3, 3)),
    convolution.depthwise_to_map: lambda g: make(Conv((2,), (1,)), g.input(3, 2, 2, 7), g.input(3, 1, 2, 3)),
    convolution.spread_to_residues: lambda g: make(
        Conv((1,), (1,), (0,), (0,), (2,)), g.input(1, 2, 2, 7), g.input(1, 4, 2, 3)
    ),
    lower.split_long_contractions: lambda g: make(Dot(), g.input(2, 3, 4096), g.input(2, 4096, 5)),
    lower.fold_to_views: lambda g: make(Fold((1,), (6,), (2,), (1,)), g.input(2, 3, 2)),
    lower.transposed_product: lambda g: build.transpose(
        make(Dot(), build.transpose(g.input(1, 5, 3)), g.input(1, 5, 4))
    ),
    lower.contiguous_rows: lambda g: make(ReduceSum((0, 2)), g.input(4, 3, 5)),
    lower.split_large_reductions: lambda g: make(ReduceSum((0,)), g.input(9001)),
    order.scatter_to_sum: lambda g: scattered(g, 7, 3),
    order.scatter_to_index: lambda g: scattered(g, 3000, 400),
    order.argsort_to_ranks: lambda g: make(ArgSort(0, False), g.input(7)),
    order.argsort_to_merges: lambda g: make(ArgSort(0, False), g.input(1100)),
}


@pytest.mark.parametrize("rule", [*simplify.RULES, *convolution.RULES, *lower.RULES], ids=lambda rule: rule.__name__)
def test_every_rule_of_the_compiler_changes_a_graph_and_keeps_its_value(rule: Rule) -> None:
    """A new rule needs a graph in RULES, or in LARGER and a test below."""
    changed = 0
    for make_graph in [LARGER[rule]] if rule in LARGER else [make_graph for make_graph, _ in RULES[rule].values()]:
        graph = Graph()
        before = make_graph(graph)
        after = rewritten(before, rule)
        changed += primitives_of(after) != primitives_of(rewritten(before))
        np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-3, atol=1e-3)
    assert changed, "none of its graphs changes"


@pytest.mark.parametrize(("step", "dilation"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_fold_to_sum_gathers_from_every_window(step: int, dilation: int) -> None:
    graph = Graph()
    before = make(Fold((1,), (4 * step + 2 * dilation + 3,), (step,), (dilation,)), graph.input(2, 5, 3))
    after = rewritten(before, lower.fold_to_sum)
    assert "unwindow" in primitives_of(after)
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 5), 0), ((3, 5), 1), ((2, 4, 3), 1)])
def test_argsort_to_ranks_orders_with_ties_in_place(shape: tuple[int, ...], axis: int, descending: bool) -> None:
    graph = Graph()
    before = make(ArgSort(axis, descending), graph.input(*shape, dtype=int32, low=0, high=3))
    after = rewritten(before, order.argsort_to_ranks)
    assert "argsort" not in primitives_of(after)
    np.testing.assert_array_equal(graph.evaluate(after), graph.evaluate(before))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((9000,), 0), ((9000, 3), 0), ((2, 9000), 1)])
def test_argsort_to_merges_orders_with_ties_in_place(shape: tuple[int, ...], axis: int, descending: bool) -> None:
    graph = Graph()
    before = make(ArgSort(axis, descending), graph.input(*shape, dtype=int32, low=0, high=30))
    after = rewritten(before, order.argsort_to_merges)
    assert primitives_of(after).count("mergeruns") == 3
    np.testing.assert_array_equal(graph.evaluate(after), graph.evaluate(before))
    short = make(ArgSort(0, descending), graph.input(100))
    assert rewritten(short, order.argsort_to_merges).primitive is short.primitive


@pytest.mark.parametrize("n", [65536, 65537])
def test_argsort_to_merges_sorts_digit_by_digit_where_that_is_fewer_passes(n: int) -> None:
    graph = Graph()
    before = make(ArgSort(0, True), graph.input(n, low=-5, high=6))
    after = rewritten(before, order.argsort_to_merges)
    found = primitives_of(after)
    counted = [found.count(name) for name in ("sortblocks", "mergeruns", "digitcounts", "digitstarts", "movebydigit")]
    assert counted == ([1, 5, 0, 0, 0] if n == 65536 else [0, 0, 4, 4, 4])
    np.testing.assert_array_equal(graph.evaluate(after), graph.evaluate(before))


@pytest.mark.parametrize(("size", "digits"), [(255, 1), (256, 2)])
def test_scatter_to_index_sorts_by_the_digits_of_its_places(size: int, digits: int) -> None:
    """One more place is for those that are out of range."""
    graph = Graph()
    before = scattered(graph, 9000, size)
    after = rewritten(before, order.scatter_to_index)
    assert primitives_of(after).count("movebydigit") == digits
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((3000,), 0), ((300, 12), 0), ((12, 300), 1), ((3, 300, 4), 1)])
def test_scatter_to_index_sums_segments(shape: tuple[int, ...], axis: int, shared: bool) -> None:
    graph = Graph()
    size = 400
    ones = tuple(n if a == axis else 1 for a, n in enumerate(shape))
    positions = graph.input(*(ones if shared else shape), dtype=int32, low=0, high=size)
    before = make(ScatterAdd(axis, size), build.broadcast(positions, shape), graph.input(*shape))
    after = rewritten(before, order.scatter_to_index)
    index = next(n for n in topological([after], lambda n: n.inputs) if n.primitive.name == "sortblocks")
    assert index.inputs[0].shape[0] == (1 if shared else before.inputs[1].size // shape[axis])
    assert "segmentsum" in primitives_of(after)
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("row", "last"), [("portable", "laidattention"), ("software", "cat")])
def test_attention_is_a_kernel_or_composed(row: str, last: str) -> None:
    """Composed where products need no tiles."""
    graph = Graph()
    before = make(Attention(0.2, True, False, 0.0, False, True), *(graph.input(1, 4, 256, 64) for _ in range(3)))
    rewriter = Rewriter([attention.attention_to_calls], "cpu", replace(PORTABLE, traits=ROWS[row]))
    after = rewriter.rewrite([before])[id(before)]
    assert primitives_of(after)[-1] == last
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-5, atol=1e-5)


def test_expand_call_puts_nodes_in_its_place() -> None:
    graph = Graph()
    before = make(Doubled(), graph.input(5))
    after = rewritten(before, lower.expand_call)
    assert primitives_of(after).count("add") == 1
    np.testing.assert_array_equal(graph.evaluate(after), graph.evaluate(before))


@pytest.mark.parametrize(("batch", "length"), [(1, 5), (3, 7), (2, 60)])
@pytest.mark.parametrize(("step", "dilation", "groups"), [(1, 1, 1), (2, 1, 2), (1, 2, 1)])
def test_conv_to_dot_multiplies_window_views(batch: int, length: int, step: int, dilation: int, groups: int) -> None:
    graph = Graph()
    x, w = graph.input(groups, batch, 2, length), graph.input(groups, 4, 2, 3)
    before = make(Conv((step,), (dilation,)), x, w)
    after = rewritten(before, convolution.conv_to_dot)
    assert {"window", "dot"} <= set(primitives_of(after))
    assert "conv" not in primitives_of(after)
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("out", "channels"), [(1, 1), (1, 3), (1, 4), (2, 1)])
def test_depthwise_to_map_multiplies_element_by_element(out: int, channels: int) -> None:
    graph = Graph()
    x, w = graph.input(5, 2, channels, 6, 7), graph.input(5, out, channels, 3, 3)
    before = make(Conv((2, 1), (1, 2), (1, 0), (0, 1)), x, w)
    after = rewritten(before, convolution.depthwise_to_map)
    assert ("conv" not in primitives_of(after)) == (out == 1 and channels <= 3), "36 products are no map"
    assert not {"dot", "reducesum"} & set(primitives_of(after))
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [12, 13, 15])
@pytest.mark.parametrize(("step", "size"), [(2, 2), (3, 2), (4, 1)])
def test_fold_to_views_moves_the_elements_of_windows_that_do_not_overlap(length: int, step: int, size: int) -> None:
    graph = Graph()
    windows = make(Window((1, 2), (size, 2), (step, 2), (1, 1)), graph.input(2, length, 6, 3))
    before = make(Fold((1, 2), (length, 6), (step, 2), (1, 1)), graph.input(*windows.shape))
    after = rewritten(before, lower.fold_to_views)
    assert not {"fold", "unwindow", "reducesum"} & set(primitives_of(after))
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before))


def test_fold_to_views_leaves_windows_that_overlap() -> None:
    graph = Graph()
    before = make(Fold((1,), (7,), (1,), (1,)), graph.input(2, 5, 3))
    assert "fold" in primitives_of(rewritten(before, lower.fold_to_views))


@pytest.mark.parametrize("flat", [False, True])
def test_transposed_product_is_written_as_its_reader_wants_it(flat: bool) -> None:
    graph = Graph()
    dot = make(Dot(), build.permute(graph.input(1, 5, 3), (0, 2, 1)), graph.input(1, 5, 4))
    before = build.transpose(build.reshape(dot, (3, 4)) if flat else dot)
    after = rewritten(before, lower.transposed_product)
    assert primitives_of(after)[-1] in ("dot", "reshape")
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("turned", [False, True])
def test_thin_dot_to_sum_reads_a_matrix_as_it_lies(turned: bool) -> None:
    graph = Graph()
    b = build.permute(graph.input(2, 4, 7), (0, 2, 1)) if turned else graph.input(2, 7, 4)
    before = make(Dot(), graph.input(2, 1, 7), b)
    after = rewritten(before, lower.thin_dot_to_sum, *simplify.RULES)
    (found,) = [p for n in topological([after], lambda n: n.inputs) if isinstance(p := n.primitive, ReduceSum)]
    assert found.axes == ((2,) if turned else (1,))
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", [(0, 0), (1, 2), (-1, 1)])
@pytest.mark.parametrize(("spread", "dilation", "window"), [(2, 1, 3), (3, 1, 2), (2, 2, 3), (4, 2, 2), (3, 2, 4)])
def test_spread_to_residues_meets_no_zeros(spread: int, dilation: int, window: int, padding: tuple[int, int]) -> None:
    """What is left of a convolution of spread elements are convolutions of the elements themselves."""
    graph = Graph()
    x, w = graph.input(2, 3, 2, 6, 5), graph.input(2, 4, 2, window, 3)
    low, high = padding
    before = make(Conv((1, 2), (dilation, 1), (low, 1), (high, 0), (spread, 1)), x, w)
    after = rewritten(before, convolution.spread_to_residues)
    convs = [n for n in topological([after], lambda n: n.inputs) if isinstance(n.primitive, Conv)]
    assert convs
    assert all(n.primitive.spread == (1, 1) for n in convs if isinstance(n.primitive, Conv))
    assert sum(n.inputs[1].shape[3] for n in convs) == window, "each place of the window is used once"
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("k", [4096, 5000])
def test_split_long_contractions_takes_samples_with_one_left_operand_as_columns(k: int) -> None:
    graph = Graph()
    left = build.broadcast(graph.input(1, 3, k), (4, 3, k))
    before = make(Dot(), left, graph.input(4, k, 5))
    after = rewritten(before, lower.split_long_contractions)
    (dot,) = [n for n in topological([after], lambda n: n.inputs) if isinstance(n.primitive, Dot)]
    assert dot.shape[0] > 1
    assert dot.shape[1:] == (3, 20)
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("axes", [(0, 2), (0, 3), (0, 2, 3), (1, 3)])
def test_contiguous_rows_reduces_the_last_axes(axes: tuple[int, ...]) -> None:
    graph = Graph()
    before = make(ReduceSum(axes), graph.input(4, 3, 5, 2))
    after = rewritten(before, lower.contiguous_rows)
    (found,) = [p for n in topological([after], lambda n: n.inputs) if isinstance(p := n.primitive, ReduceSum)]
    trailing = tuple(range(4 - len(axes), 4))
    assert found.axes == (axes if 3 not in axes else trailing)
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("k", [4096, 5000, 4099])
def test_split_long_contractions_keeps_the_value(k: int) -> None:
    graph = Graph()
    before = make(Dot(), graph.input(2, 3, k), graph.input(2, k, 5))
    after = rewritten(before, lower.split_long_contractions)
    assert "reducesum" in primitives_of(after)
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [int32, int64], ids=lambda d: d.name)
@pytest.mark.parametrize(("shape", "axis", "size"), [((7,), 0, 3), ((4, 5), 0, 6), ((4, 5), 1, 2), ((2, 3, 4), 1, 5)])
def test_scatter_to_sum_adds_each_element_once(shape: tuple[int, ...], axis: int, size: int, dtype: DType) -> None:
    graph = Graph()
    before = make(ScatterAdd(axis, size), graph.input(*shape, dtype=dtype, low=0, high=size), graph.input(*shape))
    after = rewritten(before, order.scatter_to_sum)
    names = {n.primitive.name for n in topological([after], lambda n: n.inputs)}
    assert "scatteradd" not in names
    assert "reducesum" in names
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [ReduceSum, ReduceMax, ReduceMin], ids=lambda k: k.__name__)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((9001,), (0,)),
        ((4096, 3), (0,)),
        ((2, 5000), (1,)),
        ((2, 4099, 3), (1,)),
        ((70, 2, 70), (0, 2)),
        ((3, 70, 70), (1, 2)),
        ((8192,), (0,)),
        ((1024, 100), (0,)),
    ],
    ids=str,
)
def test_split_large_reductions_keeps_the_value(kind: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    graph = Graph()
    before = make(kind(axes), graph.input(*shape))
    after = rewritten(before, lower.split_large_reductions)
    passes = [n for n in topological([after], lambda n: n.inputs) if isinstance(n.primitive, kind)]
    assert len(passes) == 2, "two passes"
    assert max(n.inputs[0].size // n.size for n in passes) < before.inputs[0].size // before.size
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("kind", [ReduceMax, ReduceMin, ReduceProd], ids=lambda k: k.__name__)
@pytest.mark.parametrize("low", [-1.002, 1.001])
def test_split_large_reductions_pads_with_what_changes_nothing(kind: Any, low: float) -> None:
    """9001 elements make no whole number of equal parts; all are negative, or all positive."""
    graph = Graph()
    before = make(kind((0,)), graph.input(9001, low=low, high=low + 0.001))
    after = rewritten(before, lower.split_large_reductions)
    assert "pad" in {n.primitive.name for n in topological([after], lambda n: n.inputs)}
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-4)


@pytest.mark.parametrize(
    ("shape", "axes"), [((100,), (0,)), ((5000, 5000), (0,)), ((600, 5000), (1,)), ((4095,), (0,))], ids=str
)
def test_split_large_reductions_leaves_what_has_work_enough(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    before = make(ReduceSum(axes), Node(Placeholder(0, shape, float32), (), shape, float32, "cpu"))
    assert rewritten(before, lower.split_large_reductions) is not before
    assert form(rewritten(before, lower.split_large_reductions)) == "reducesum(in0)"


# ---------------------------------------------------------------------------------- the rewriter itself


def test_equal_nodes_become_one() -> None:
    graph = Graph()
    x = graph.input(3)
    after = rewritten(make(e.Exp(), x) + make(e.Exp(), x))
    assert after.inputs[0] is after.inputs[1]


def test_constants_that_differ_only_in_sign_or_type_stay_apart() -> None:
    rewriter = Rewriter((), "cpu")
    made = [
        rewriter.make(Constant(value, dtype))
        for value, dtype in ((0.0, float32), (-0.0, float32), (0, int32), (False, bool_))
    ]
    assert len({id(n) for n in made}) == 4


def test_rules_apply_to_what_rules_make() -> None:
    """(x ** 2) ** 1 / 1 - 0, with a sum over an axis of size 1."""
    graph = Graph()
    x = graph.input(3, 1)
    power = make(e.Pow(), make(e.Pow(), x, number(2, 3, 1)), number(1, 3, 1))
    before = make(v.Reshape((3, 1)), make(ReduceSum((1,)), power / 1 - 0))
    after = rewritten(before, *simplify.RULES)
    assert form(after) == "mul(in0, in0)"


def test_a_shared_node_is_rewritten_once() -> None:
    count = 0

    def counting(r: Rewriter, p: Primitive, inputs: tuple[Node, ...]) -> Node | None:
        nonlocal count
        count += 1
        return None

    graph = Graph()
    y = graph.input(2)
    for _ in range(20):
        y = y + y
    rewritten(y, counting)
    assert count == 20


def test_gather_with_constant_positions_keeps_its_value() -> None:
    graph = Graph()
    positions = build.broadcast(build.reshape(Node(Iota(2), (), (2,), int32, "cpu"), (2, 1)), (2, 3))
    before = make(Gather(0), graph.input(5, 3), positions)
    after = rewritten(before, *simplify.RULES, *convolution.RULES, *lower.RULES)
    np.testing.assert_array_equal(graph.evaluate(after), graph.evaluate(before))
