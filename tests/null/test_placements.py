"""What libraries ask of torch.distributed when they are imported, as PyTorch has it: placements as values, the class of reductions."""

from __future__ import annotations

from typing import Any

import pytest
import torch.distributed
import torch.distributed.tensor as theirs
from torch.distributed.tensor import placement_types

from shadergrad.as_torch.absent import AbsentNameError
from shadergrad.as_torch.stand_ins import stand_ins


@pytest.fixture(scope="module")
def names() -> Any:
    return stand_ins()


def _placements(module: Any) -> list[Any]:
    return [
        module.Shard(0),
        module.Shard(-1),
        module.Shard(dim=1),
        module.Replicate(),
        module.Partial(),
        module.Partial("avg"),
    ]


def _facts(module: Any) -> list[Any]:
    made, again = _placements(module), _placements(module)
    asked = [
        (
            repr(p),
            str(p),
            p.is_shard(),
            p.is_shard(1),
            p.is_shard(dim=-1),
            p.is_replicate(),
            p.is_partial(),
            p.is_partial("sum"),
        )
        for p in made
    ]
    equal = [[a == b for b in again] for a in made]
    return [asked, equal, [hash(a) == hash(b) for a, b in zip(made, again, strict=True)]]


def test_placements_are_values_as_in_pytorch(names: Any) -> None:
    ours = names["torch.distributed.tensor"]
    assert _facts(ours) == _facts(theirs)
    for name in ("Placement", "Shard", "Replicate", "Partial"):
        assert getattr(names["torch.distributed.tensor.placement_types"], name) is getattr(ours, name)
        assert hasattr(placement_types, name)


def test_what_would_divide_a_tensor_is_absent(names: Any) -> None:
    ours = names["torch.distributed.tensor"]
    assert not isinstance(1, ours.DTensor)
    with pytest.raises(AbsentNameError, match=r"torch\.distributed\.tensor\.distribute_tensor is not in shadergrad"):
        ours.distribute_tensor(1)


def test_reductions_are_of_the_class_that_pytorch_names(names: Any) -> None:
    for distributed in (torch.distributed, names["torch.distributed"]):
        assert isinstance(distributed.ReduceOp.SUM, distributed.ReduceOp.RedOpType)
        assert isinstance(distributed.ReduceOp.SUM, distributed.ReduceOp)
