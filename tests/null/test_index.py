"""The index algebra against Python's integers: every expression has the value, and the range, that it says it has."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadergrad.graph.index import ZERO, Index, flatten, number, opaque, render, reshape_index, unflatten, variable

SIZES = {"i": 6, "j": 5, "k": 4}
VALUES = list(itertools.product(*(range(n) for n in SIZES.values())))
Pair = tuple[Index, Callable[..., int]]
stable = settings(max_examples=300)


def value_of(x: Index, values: dict[str, int]) -> int:
    """The value under an assignment, atom by atom."""
    total = x.constant
    for atom, c in x.terms.items():
        if atom.of is None:
            total += c * values[atom.name]
        else:
            inner = value_of(atom.of, values)
            total += c * (inner // atom.by if atom.kind == "div" else inner % atom.by)
    return total


@st.composite
def expressions(draw: Any, depth: int = 4) -> Pair:
    """An Index, and a Python function of i, j, k that computes the same with plain integers."""
    kind = (
        draw(st.sampled_from(("var", "number")))
        if depth == 0
        else draw(st.sampled_from(("var", "add", "sub", "mul", "shift", "div", "mod", "div", "mod")))
    )
    if kind == "number":
        n = draw(st.integers(-20, 20))
        return number(n), lambda i, j, k: n
    if kind == "var":
        name = draw(st.sampled_from("ijk"))
        return variable(name, SIZES[name]), lambda i, j, k: {"i": i, "j": j, "k": k}[name]
    x, f = draw(expressions(depth=depth - 1))
    if kind in ("add", "sub"):
        y, g = draw(expressions(depth=depth - 1))
        return (
            (x + y, lambda i, j, k: f(i, j, k) + g(i, j, k))
            if kind == "add"
            else (x - y, lambda i, j, k: f(i, j, k) - g(i, j, k))
        )
    if kind == "mul":
        c = draw(st.integers(-6, 6))
        return x * c, lambda i, j, k: f(i, j, k) * c
    if kind == "shift":
        c = draw(st.integers(-30, 30))
        return x + c, lambda i, j, k: f(i, j, k) + c
    by = draw(st.integers(1, 12))
    return (x // by, lambda i, j, k: f(i, j, k) // by) if kind == "div" else (x % by, lambda i, j, k: f(i, j, k) % by)


def wgsl(text: str, values: dict[str, int]) -> int:
    """WGSL's meaning of an i32 expression: division and remainder towards zero. Bits are taken of a name or of what stands in
    parentheses, not of a sum or a product."""
    assert not re.search(r"[-+*/%] (\w+|\([^()]*\)) (>>|&) ", text), text

    class Number(int):
        def __add__(self, o: int) -> Number:
            return Number(int(self) + int(o))

        def __sub__(self, o: int) -> Number:
            return Number(int(self) - int(o))

        def __mul__(self, o: int) -> Number:
            return Number(int(self) * int(o))

        def __neg__(self) -> Number:
            return Number(-int(self))

        def __truediv__(self, o: int) -> Number:
            q = abs(int(self)) // abs(int(o))
            return Number(q if (int(self) < 0) == (int(o) < 0) else -q)

        def __mod__(self, o: int) -> Number:
            return Number(int(self) - int(self / o) * int(o))

        def __rshift__(self, o: int) -> Number:
            return Number(int(self) >> int(o))

        def __and__(self, o: int) -> Number:
            return Number(int(self) & int(o))

        __radd__, __rmul__ = __add__, __mul__

        def __rsub__(self, o: int) -> Number:
            return Number(int(o) - int(self))

    text = re.sub(r"\b(\d+)u\b", r"\1", text)
    return int(eval(text, {"__builtins__": {}}, {n: Number(v) for n, v in values.items()}))


@stable
@given(expressions())
def test_expressions_equal_python_integers_within_their_range(pair: Pair) -> None:
    x, f = pair
    for i, j, k in VALUES:
        expected = f(i, j, k)
        assert value_of(x, {"i": i, "j": j, "k": k}) == expected, f"{x!r} at {i, j, k}"
        assert x.low <= expected <= x.high, f"{x!r} is said to lie in {x.low, x.high}"


@stable
@given(expressions(depth=3))
def test_rendered_expressions_mean_the_same_in_a_shader(pair: Pair) -> None:
    """Shaders divide towards zero, so only non-negative values may be divided."""
    x, f = pair
    text = render(x)
    for i, j, k in VALUES[::7]:
        assert wgsl(text, {"i": i, "j": j, "k": k}) == f(i, j, k), text


@stable
@given(expressions(depth=3), expressions(depth=2))
def test_substitution_equals_evaluating_with_the_value(pair: Pair, other: Pair) -> None:
    x, f = pair
    y, g = other
    replaced = x.substitute({"i": y % SIZES["i"]})
    for i, j, k in VALUES[::5]:
        assert value_of(replaced, {"i": i, "j": j, "k": k}) == f(g(i, j, k) % SIZES["i"], j, k)


@stable
@given(expressions(depth=3))
def test_splitting_off_a_variable_adds_up(pair: Pair) -> None:
    x, f = pair
    found = x.split("k")
    if found is None:
        return
    rest, c = found
    assert "k" not in rest.variables()
    for i, j, k in VALUES[::3]:
        assert value_of(rest, {"i": i, "j": j, "k": 0}) + c * k == f(i, j, k)


@stable
@given(expressions(depth=3), st.integers(1, 8))
def test_what_is_called_divisible_is(pair: Pair, by: int) -> None:
    x, f = pair
    if (x * by).divisible(by):
        assert all((f(*v) * by) % by == 0 for v in VALUES)
    if x.divisible(by):
        assert all(f(*v) % by == 0 for v in VALUES), f"{x!r} is said to be divisible by {by}"


LONG = variable("i", 60)
NESTED: dict[str, Callable[[Any, int, int], Any]] = {
    "a quotient of a quotient": lambda x, a, b: x // a // b,
    "a remainder of a quotient": lambda x, a, b: x // a % b,
    "a quotient of a remainder": lambda x, a, b: x % a // b,
    "a remainder of a remainder": lambda x, a, b: x % a % b,
    "a quotient and a remainder, weighted": lambda x, a, b: x // a * b + x % a * 2,
    "a remainder and a quotient, weighted": lambda x, a, b: x % a * b + x // a * a,
    "a quotient less a remainder": lambda x, a, b: x // b * a - x % b,
}


@pytest.mark.parametrize("name", NESTED)
def test_every_small_divisor_within_another(name: str) -> None:
    """Divisors that divide one another and such that do not, of a variable longer than all of them."""
    for a, b in itertools.product(range(1, 13), repeat=2):
        x = NESTED[name](LONG, a, b)
        for i in range(60):
            expected = NESTED[name](i, a, b)
            assert value_of(x, {"i": i}) == expected, f"{x!r} for {a, b} at {i}"
            assert x.low <= expected <= x.high, f"{x!r} for {a, b} is said to lie in {x.low, x.high}"


def test_a_remainder_is_divisible_where_number_and_divisor_are() -> None:
    for by, times, modulus in itertools.product(range(2, 9), range(1, 9), range(1, 25)):
        x = LONG * times % modulus
        if x.divisible(by):
            assert all(i * times % modulus % by == 0 for i in range(60)), f"{x!r} is said to be divisible by {by}"
    assert (LONG * 4 % 8).divisible(4)


shapes = st.lists(st.sampled_from((1, 2, 3, 4, 5, 6)), max_size=4).map(tuple)


@st.composite
def reshapes(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of equally many elements."""
    factors = draw(st.lists(st.sampled_from((2, 2, 3, 5)), max_size=5))

    def grouped() -> tuple[int, ...]:
        shape: list[int] = []
        for f in draw(st.permutations(factors)):
            if shape and draw(st.booleans()):
                shape[-1] *= f
            else:
                shape.append(f)
        for _ in range(draw(st.integers(0, 2))):
            shape.insert(draw(st.integers(0, len(shape))), 1)
        return tuple(shape)

    return grouped(), grouped()


@stable
@given(reshapes())
def test_reshape_index_equals_numpy(pair: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    shape, source = pair
    names = [f"x{a}" for a in range(len(shape))]
    index = [variable(n, size) for n, size in zip(names, shape, strict=True)]
    found = reshape_index(index, shape, source)
    assert len(found) == len(source)
    array = np.arange(int(np.prod(source))).reshape(source)
    expected = array.reshape(shape)
    for place in np.ndindex(*shape):
        values = dict(zip(names, place, strict=True))
        at = tuple(value_of(i, values) for i in found)
        assert all(i.low <= v <= i.high for i, v in zip(found, at, strict=True))
        assert all(0 <= v < n for v, n in zip(at, source, strict=True)), f"{at} lies outside {source}"
        assert array[at] == expected[place]


@stable
@given(shapes)
def test_unflatten_and_flatten_are_inverse(shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    flat = variable("i", size)
    index = unflatten(flat, shape)
    for place in range(size):
        expected = np.unravel_index(place, shape) if shape else ()
        assert tuple(value_of(i, {"i": place}) for i in index) == tuple(int(n) for n in expected)
    assert flatten(index, shape) == flat, "put together again it is the one variable"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda i, j: (i * 8 + j) // 8, "i"),
        (lambda i, j: (i * 8 + j) % 8, "j"),
        (lambda i, j: (i * 8 + j) // 8 * 8 + (i * 8 + j) % 8, "(i * 8 + j)"),
        (lambda i, j: (i * 16 + j * 2) // 2, "(i * 8 + j)"),
        (lambda i, j: (i * 8 + j + 8) // 8, "(i + 1)"),
        (lambda i, j: i - i, "0"),
        (lambda i, j: i * 3 + i, "i * 4"),
        (lambda i, j: (i // 2) // 2, "(i >> 2u)"),
        (lambda i, j: (i % 4) % 2, "(i & 1)"),
        (lambda i, j: (i * 8 + j) % 8 // 8, "0"),
        (lambda i, j: i // 6, "0"),
        (lambda i, j: i % 6, "i"),
        (lambda i, j: i // 3 + j % 3, "((i / 3) + (j % 3))"),
        (lambda i, j: (i * 3) // 4, "((i * 3) >> 2u)"),
        (lambda i, j: (i + j) % 4, "((i + j) & 3)"),
        (lambda i, j: (i - j) // 4, "(((i - j + 8) >> 2u) - 2)"),  # nothing negative is divided
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_expressions_take_their_simplest_form(make: Any, expected: str) -> None:
    assert render(make(variable("i", 6), variable("j", 8))) == expected


def test_a_variable_of_one_value_is_zero() -> None:
    assert variable("i", 1) is ZERO
    assert not (variable("i", 4) * 0).variables()


def test_equal_expressions_are_equal_and_hash_alike() -> None:
    i, j = variable("i", 4), variable("j", 5)
    assert i * 5 + j == j + i * 5
    assert hash(i * 5 + j) == hash(j + i * 5)
    assert i != j
    assert opaque("a", 0, 3) != opaque("b", 0, 3)
    assert number(3) == number(1) + 2


def test_ranges_of_data_are_kept() -> None:
    data = opaque("v1", 0, 6)
    assert (data * 2 + 1).low == 1
    assert (data * 2 + 1).high == 13
    assert (data * -1).low == -6
    assert data // 7 == ZERO
    assert data % 7 == data


def test_an_empty_array_has_no_index_to_map() -> None:
    assert reshape_index((variable("i", 0), variable("j", 3)), (0, 3), (3, 0)) == (ZERO, ZERO)
