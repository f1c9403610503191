"""Where the elements of views lie: as NumPy's own strides."""

from __future__ import annotations

import numpy as np
import pytest

from shadergrad.dtypes import float32
from shadergrad.graph.leaves import Placeholder
from shadergrad.graph.node import Node, make
from shadergrad.primitives.strides import is_covered, reshaped, row_major, strided
from shadergrad.primitives.views import Flip, Permute, Reshape, Slice


def input_of(*shape: int) -> Node:
    return Node(Placeholder(0, shape, float32), (), shape, float32, "cpu")


def seen(node: Node, base: Node) -> np.ndarray:
    """The elements of a view as its strides say, of a base that counts up."""
    found = strided(node)
    assert found.base is base
    flat = np.arange(base.size)
    return np.lib.stride_tricks.as_strided(flat[found.offset :], node.shape, [8 * s for s in found.strides])


@pytest.mark.parametrize(
    "views",
    [
        (Reshape((2, 6, 3, 4)), Permute((0, 2, 1, 3))),
        (Slice((0, 0, 4), (2, 6, 4), (1, 1, 1)), Reshape((2, 6, 2, 2)), Permute((0, 2, 1, 3))),
        (Permute((1, 0, 2)), Slice((1, 0, 0), (3, 2, 12), (2, 1, 1))),
        (Permute((1, 0, 2)), Reshape((6, 2, 1, 12)), Permute((2, 1, 0, 3))),
        (Slice((1, 0, 0), (1, 6, 12), (1, 1, 1)), Reshape((72,))),
    ],
    ids=str,
)
def test_a_chain_of_views_has_the_strides_of_its_elements(views: tuple) -> None:
    base = node = input_of(2, 6, 12)
    expected = np.arange(144).reshape(2, 6, 12)
    for view in views:
        node, expected = make(view, node), view.numpy(expected)
    np.testing.assert_array_equal(seen(node, base), expected)


def test_what_has_no_strides_is_its_own_base() -> None:
    x = input_of(2, 3)
    scattered = make(Reshape((6,)), make(Permute((1, 0)), x))
    assert strided(scattered).base is scattered
    turned = make(Flip((0,)), x)
    assert strided(make(Reshape((6,)), turned)).base is turned


def test_reshaping_strides_equals_numpys() -> None:
    assert reshaped((4, 6), (6, 1), (2, 2, 3, 2)) == (12, 6, 2, 1)
    assert reshaped((4, 6), (12, 1), (24,)) is None
    assert reshaped((4, 6), (12, 1), (2, 2, 6)) == (24, 12, 1)
    assert reshaped((1, 6), (0, 1), (6, 1)) == (1, 0)
    assert row_major((2, 1, 3)) == (3, 0, 1)


def test_axes_cover_an_array_where_each_place_is_reached_once() -> None:
    assert is_covered(24, [(2, 12), (3, 4), (4, 1)])
    assert not is_covered(24, [(2, 12), (3, 4), (4, 2)])
    assert not is_covered(48, [(2, 12), (3, 4), (4, 1)])
    assert is_covered(1, [(1, 0)])
