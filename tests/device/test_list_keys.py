"""Keys that are lists of sequences, slices or tensors: PyTorch takes them as tuples, and so do reads and writes here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shadergrad as sg

torch = pytest.importorskip("torch")
KEYS: dict[str, Any] = {
    "lists": lambda t: [[0, 0], [1, 0]],
    "tuples": lambda t: [(0, 1), (1, 0)],
    "arrays": lambda t: [np.array([0, 1]), np.array([1, 0])],
    "tensors": lambda t: [t.tensor([0, 1]), t.tensor([1, 0])],
    "slices": lambda t: [slice(0, 1), slice(1, 2)],
    "none": lambda t: [None, 0],
    "dots": lambda t: [Ellipsis, 0],
    "one list": lambda t: [[0, 1]],
    "three deep": lambda t: [[[0, 1], [1, 0]]],
    "masks": lambda t: [[True, False, True], [False, True]],
    "ints": lambda t: [0, 2],
    "a tuple of lists of lists": lambda t: ([[0, 1], [1, 0]], [0]),
}


@pytest.mark.parametrize("case", KEYS)
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_a_list_of_entries_is_a_tuple_of_them(case: str, device: str) -> None:
    def run(lib: Any, **options: Any) -> list[Any]:
        x = lib.arange(12.0, **options).reshape(3, 2, 2)
        read = x[KEYS[case](lib)].tolist()
        x[KEYS[case](lib)] = 5.0
        return [read, x.tolist()]

    with sg.device(device):
        assert run(sg, device=device) == run(torch)


def test_it_is_warned_of(device: str) -> None:
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        sg.zeros(3, 3, device=device)[[[0, 1], [1, 0]]]
