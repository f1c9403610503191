"""Operators over lists of tensors (`torch._foreach_*`): beside PyTorch's cpu, where lists overlap, and where they are not plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

D = "webgpu"
LISTS = [
    [torch.rand(shape, generator=torch.Generator().manual_seed(k)) + 0.5 for shape in ((3,), (2, 4), (), (1, 5))]
    for k in range(3)
]
NUMBERS = [0.5, 2.0, -1.25, 3]
CASES: dict[str, Callable[..., Any]] = {
    **{
        f"{name} {what}": lambda x, y, z, name=name, other=other: getattr(torch, f"_foreach_{name}")(x, other(y))
        for name in ("add", "sub", "mul", "div")
        for what, other in (("list", lambda y: y), ("number", lambda y: 1.5), ("numbers", lambda y: NUMBERS))
    },
    "add a tensor": lambda x, y, z: torch._foreach_add(x, y[2]),
    "mul a tensor": lambda x, y, z: torch._foreach_mul(x, y[2]),
    "div a tensor": lambda x, y, z: torch._foreach_div(x, y[2]),
    "add alpha": lambda x, y, z: torch._foreach_add(x, y, alpha=0.25),
    "sub alpha": lambda x, y, z: torch._foreach_sub(x, y, alpha=2),
    "maximum": lambda x, y, z: torch._foreach_maximum(x, y),
    "neg": lambda x, y, z: torch._foreach_neg(x),
    "sqrt": lambda x, y, z: torch._foreach_sqrt(x),
    "reciprocal": lambda x, y, z: torch._foreach_reciprocal(x),
    "lerp number": lambda x, y, z: torch._foreach_lerp(x, y, 0.1),
    "lerp list": lambda x, y, z: torch._foreach_lerp(x, y, z),
    "lerp numbers": lambda x, y, z: torch._foreach_lerp(x, y, [0.1, 0.9, 0.5, 0.0]),
    **{
        f"{name} {what}": lambda x, y, z, name=name, value=value: getattr(torch, f"_foreach_{name}")(x, y, z, value)
        for name in ("addcmul", "addcdiv")
        for what, value in (("number", 0.75), ("numbers", NUMBERS))
    },
}


def on(device: str, lists: Any = LISTS) -> list[list[Any]]:
    return [[x.clone().to(device) for x in each] for each in lists]


def same(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_lists_are_as_on_the_cpu(name: str, torch_device: Any) -> None:
    """Again and again: from the third call on a list is one composition."""
    lists, expected = on(D), CASES[name](*on("cpu"))
    for _ in range(4):
        same(CASES[name](*lists), expected)
    for each, kept in zip(lists, LISTS, strict=True):
        same(each, kept)


IN_PLACE: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, z: torch._foreach_add_(x, y, alpha=0.5),
    "mul": lambda x, y, z: torch._foreach_mul_(x, 0.9),
    "div": lambda x, y, z: torch._foreach_div_(x, NUMBERS),
    "lerp": lambda x, y, z: torch._foreach_lerp_(x, y, 0.1),
    "addcmul": lambda x, y, z: torch._foreach_addcmul_(x, y, z, 0.3),
    "addcdiv": lambda x, y, z: torch._foreach_addcdiv_(x, y, z, NUMBERS),
    "sqrt": lambda x, y, z: torch._foreach_sqrt_(x),
    "a tensor twice": lambda x, y, z: torch._foreach_mul_([x[0], x[0]], 2.0),
    "what was written is read": lambda x, y, z: torch._foreach_add_([x[0], y[0]], [y[0], x[0]]),
    "with itself": lambda x, y, z: torch._foreach_mul_(x, x),
    "parts of one tensor": lambda x, y, z: torch._foreach_add_([x[1][0], x[1][1]], [x[1][1], x[1][0]]),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_lists_are_written_as_on_the_cpu(name: str, torch_device: Any) -> None:
    lists, beside = on(D), on("cpu")
    for _ in range(4):
        IN_PLACE[name](*lists)
        IN_PLACE[name](*beside)
        for a, b in zip(lists, beside, strict=True):
            same(a, b)


def test_lists_that_are_not_plain_are_as_on_the_cpu(torch_device: Any) -> None:
    """Halves, integers, matrices that are transposed, and tensors of the host go one after another."""
    x = [torch.arange(6.0).reshape(2, 3).t(), torch.arange(3), torch.ones(2, dtype=torch.float16)]
    found = torch._foreach_mul([v.to(D) for v in x], 3)
    expected = torch._foreach_mul(x, 3)
    same(found, expected)
    assert [v.dtype for v in found] == [v.dtype for v in expected]
    assert [v.stride() for v in found] == [v.stride() for v in expected]


def test_lists_of_other_lengths_and_results_that_do_not_fit_are_refused(torch_device: Any) -> None:
    a, b = torch.ones(2, device=D), torch.ones(2, dtype=torch.int32, device=D)
    with pytest.raises(RuntimeError, match="same number of tensors"):
        torch._foreach_add([a], [a, a])
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch._foreach_mul_([b], 0.5)
    with pytest.raises(RuntimeError, match="broadcast shape"):
        torch._foreach_add_([a], [torch.ones(3, 2, device=D)])


def test_gradients_flow_through_lists(torch_device: Any) -> None:
    found = []
    for device in ("cpu", D):
        x = [v.requires_grad_() for v in on(device)[0]]
        torch.stack([v.sum() for v in torch._foreach_mul(torch._foreach_add(x, 1.0), x)]).sum().backward()
        found.append([v.grad.cpu() for v in x])
    same(found[1], found[0])


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "SGD", "RMSprop", "NAdam", "RAdam"])
def test_an_optimizer_with_a_schedule_is_as_on_the_cpu(optimizer: str, torch_device: Any) -> None:
    """Numbers that change from step to step: those of bias corrections, and the learning rate."""
    options = {"lr": 0.05} | ({"momentum": 0.9} if optimizer in ("SGD", "RMSprop") else {})
    found = []
    for device in ("cpu", D):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(device)
        x, y = torch.randn(16, 6).to(device), torch.randn(16, 1).to(device)
        steps = getattr(torch.optim, optimizer)(model.parameters(), foreach=True, **options)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(steps, 12)
        losses = []
        for _ in range(12):
            steps.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            steps.step()
            schedule.step()
            losses.append(loss.item())
        found.append(losses)
    torch.testing.assert_close(torch.tensor(found[1]), torch.tensor(found[0]), rtol=2e-4, atol=1e-5)
