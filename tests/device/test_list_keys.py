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


NUMBERS: dict[str, Any] = {
    "a row": lambda t, x, i: x[i].fill_(1),
    "a column": lambda t, x, i: x[:, i].fill_(1),
    "an element": lambda t, x, i: x[i, i, i].fill_(1),
    "counted from the end": lambda t, x, i: x[t.tensor(-1, device=x.device)].fill_(1),
    "with an int": lambda t, x, i: x[0, i].fill_(1),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_what_a_tensor_without_axes_chooses_is_a_view(case: str, device: str) -> None:
    def run(lib: Any, **options: Any) -> list[Any]:
        x = lib.arange(24.0, **options).reshape(2, 3, 4).clone()
        return [NUMBERS[case](lib, x, lib.tensor(1, **options)).tolist(), x.tolist()]

    assert run(sg, device=device) == run(torch)


BESIDE: dict[str, Any] = {
    "apart": lambda x, i, p: x[i, :, p],
    "apart, after": lambda x, i, p: x[p, :, i],
    "side by side": lambda x, i, p: x[i, p],
    "two numbers": lambda x, i, p: x[i, :, p, i],
    "a new axis": lambda x, i, p: x[i, None, :, p],
    "a mask": lambda x, i, p: x[i, :, p > 0],
}


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("case", BESIDE)
def test_numbers_in_tensors_choose_before_positions_do(case: str, is_known: bool, device: str) -> None:
    def run(lib: Any, **options: Any) -> list[Any]:
        x = lib.arange(120.0, **options).reshape(2, 3, 2, 10)
        i, p = lib.tensor(1, **options), lib.tensor([0, 1], **options)
        i = i if is_known else i * 1
        found = BESIDE[case](x, i, p)
        compiled = sg.compile(BESIDE[case])(x, i, p) if lib is sg and "mask" not in case else found
        return [found.tolist(), compiled.tolist()]

    assert run(sg, device=device) == run(torch)
