"""Every module in PyTorch's own database gives on the device what it gives on PyTorch's cpu, with the gradients of its parameters."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

pytest.importorskip("torch")

import op_db
import torch
import torch.utils._pytree as pytree

LAZY = "a lazy module that moves before its first call has lost its laziness"
EXPECTED = {f"nn.LazyConv{kind}{n}d": LAZY for kind in ("", "Transpose") for n in (1, 2, 3)}
INPUTS = 3  # of each module
DRAWS = ("Dropout", "RReLU", "Fractional")


def draws(module: torch.nn.Module) -> bool:
    """Whether a module in training draws random numbers of its own."""
    parts = list(module.modules())
    return module.training and any(
        getattr(m, "dropout", 0) or any(word in type(m).__name__ for word in DRAWS) for m in parts
    )


def loss_of(outputs: Any) -> Any:
    leaves = [y for y in pytree.tree_leaves(outputs) if isinstance(y, torch.Tensor) and y.requires_grad]
    return sum(y.square().mean() for y in leaves) if leaves else None


def faults(info: Any, training: bool) -> list[str]:
    found = []
    options = {"device": "cpu", "dtype": torch.float32, "requires_grad": False, "training": training}
    for given in itertools.islice(info.module_inputs_func(info, **options), INPUTS):
        if given.forward_input is None:
            continue
        made, called = given.constructor_input, given.forward_input
        module = info.module_cls(*made.args, **made.kwargs).train(training)
        twin = copy.deepcopy(module).to(op_db.D)
        expected, refusal = op_db.tried(lambda m=module, c=called: m(*c.args, **c.kwargs))
        if refusal:
            continue
        got, problem = op_db.tried(lambda m=twin, c=called: m(*op_db.moved(c.args), **op_db.moved(c.kwargs)))
        if problem:
            found.append(problem)
            continue
        is_drawn = draws(module)
        if problem := op_db.difference(expected, got, not is_drawn):
            found.append(problem)
            continue
        loss = loss_of(expected)
        if loss is None or is_drawn:
            continue
        loss.backward()
        loss_of(got).backward()
        slopes = [[p.grad for p in m.parameters()] for m in (module, twin)]
        if problem := op_db.difference(slopes[0], slopes[1]):
            found.append(f"gradients: {problem}")
    return found


@pytest.mark.filterwarnings("ignore")
@op_db.in_shares
def test_modules_of_module_db_are_right_without_the_host(share: slice, torch_device: Any) -> None:
    from torch.testing._internal.common_modules import module_db  # seconds to import

    wrong, healed = {}, []
    for info in module_db[share]:
        text = faults(info, True) + faults(info, False)
        if text and info.name not in EXPECTED:
            wrong[info.name] = text
        elif info.name in EXPECTED and not text:
            healed.append(info.name)
    assert not wrong
    assert not healed, f"they run now; take them out of the table: {healed}"
