"""Calls at the edges of their arguments give what PyTorch gives: lists of axes, sizes near whole numbers, samples of tuples."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
import shadergrad.nn.functional as F

Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    "axes", [([0, 1], [1, 2]), ([0, 1], [1, 2], [2, 0]), ([5, ...], [..., 51], [...]), ([0, 1], (1, 0), [])]
)
def test_einsum_takes_lists_of_axes(axes: Any) -> None:
    a = np.arange(6.0).reshape(2, 3)
    b = np.arange(6.0).reshape(3, 2)
    ours, theirs = (lib.einsum(lib.tensor(a), axes[0], lib.tensor(b), *axes[1:]).numpy() for lib in (sg, torch))
    np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([0, 52],), "0 to 51"),
        (("ij",), "followed by a list"),
        (([0, 1, 2],), "does not fit"),
        ((), "followed by a list"),
    ],
)
def test_einsum_refuses_axes_that_are_none(arguments: Any, told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        sg.einsum(sg.ones(2, 2), *arguments)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize(
    ("size", "options"), [(7, {"scale_factor": 0.6}), (6, {"scale_factor": 1.2}), (10, {"size": 24})]
)
def test_the_nearest_element_is_found_in_float32(size: int, mode: str, options: Any) -> None:
    x = np.arange(float(size), dtype=np.float32).reshape(1, 1, size)
    ours = F.interpolate(sg.tensor(x), mode=mode, **options).numpy()
    np.testing.assert_array_equal(ours, torch.nn.functional.interpolate(torch.tensor(x), mode=mode, **options).numpy())


def kinds(value: Any) -> Any:
    """The types of containers, from the outside inwards."""
    if isinstance(value, dict):
        return {key: kinds(part) for key, part in value.items()}
    return [type(value).__name__, *map(kinds, value)] if isinstance(value, tuple | list) else "leaf"


@pytest.mark.parametrize("batch_size", [2, None])
def test_batches_hold_lists_where_samples_hold_tuples(batch_size: int | None) -> None:
    samples = [{"x": (1.0, (2, 5)), "pair": Pair(1, (2,))}, {"x": (3.0, (4, 6)), "pair": Pair(1, (2,))}]
    rows = np.zeros(2, np.float32)
    for data in (samples, [(1, 2), (3, 4)], "pairs"):
        ours, theirs = (
            [
                kinds(b)
                for b in lib.DataLoader(lib.TensorDataset(t(rows), t(rows)) if data == "pairs" else data, batch_size)
            ]
            for lib, t in ((sg.data, sg.tensor), (torch.utils.data, torch.tensor))
        )
        assert ours == theirs


@pytest.mark.parametrize("sample", [None, (1, None), {"a": None}])
def test_a_sample_of_none_makes_no_batch(sample: Any) -> None:
    with pytest.raises(TypeError, match="NoneType"):
        torch.utils.data.default_collate([sample, sample])
    with pytest.raises(sg.data.DataError, match="cannot make a batch of NoneType"):
        sg.data.default_collate([sample, sample])


def test_a_generator_takes_a_seed_of_its_own() -> None:
    first, second = sg.Generator(), sg.Generator()
    seeds = {first.seed(), second.seed()}
    assert seeds == {first.initial_seed(), second.initial_seed()}
    assert not (sg.rand(4, generator=first) == sg.rand(4, generator=second)).all()


def test_a_plateau_keeps_what_is_worse_than_all() -> None:
    for lib in (sg, torch):
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.zeros(1))], lr=1.0)
        found = [lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode).mode_worse for mode in ("min", "max")]
        assert found == [float("inf"), -float("inf")]
