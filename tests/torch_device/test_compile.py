"""torch.compile(backend="shadergrad"): models and functions beside PyTorch's cpu, and what is compiled of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from test_models import LastOfSequence, classified, convolutional, images, mlp, sequences
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("graphs")
D = "webgpu"
STEPS = 10


def captures(graphs: list[Any]) -> list[int]:
    """How often each graph was captured; -1 for one that runs op by op."""
    return [-1 if g.step is None else g.step.captures for g in graphs]


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(32 * 6, 10))


def encoded() -> list[Tensor]:
    return [torch.randn(4, 6, 32), torch.randint(0, 10, (4,))]


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], list[Tensor]]]] = {
    "mlp": (mlp, classified),
    "convolutions": (convolutional, images),
    "encoder layer": (encoder, encoded),
    "lstm": (lambda: LastOfSequence(nn.LSTM), sequences),
}


@pytest.mark.parametrize("case", MODELS)
def test_a_compiled_model_trains_as_on_pytorchs_cpu(case: str, torch_device: Any, graphs: list[Any]) -> None:
    make, draw = MODELS[case]
    model, data = make(), draw()
    twin = copy.deepcopy(model)
    model = model.to(D)
    losses = []
    for m, run, (x, y) in (
        (model, torch.compile(model, backend="shadergrad"), [d.to(D) for d in data]),
        (twin, twin, data),
    ):
        optimizer = torch.optim.SGD(m.parameters(), 0.05, momentum=0.9)
        losses.append([])
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = F.cross_entropy(run(x), y)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], abs=2e-5)
    assert captures(graphs) == [1, 1]  # forward, backward
    assert not counters["graph_break"]
    for (name, a), b in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


def test_inference_and_the_mode_of_the_module(torch_device: Any) -> None:
    model, (x, _) = convolutional(), images()
    twin = copy.deepcopy(model).eval()
    compiled = torch.compile(model.to(D).eval(), backend="shadergrad")
    with torch.inference_mode():
        for given in (x, 2 * x):
            torch.testing.assert_close(compiled(given.to(D)).cpu(), twin(given), rtol=1e-4, atol=1e-5)
    twin.train()
    model.train()
    torch.testing.assert_close(compiled(x.to(D)).cpu(), twin(x), rtol=1e-4, atol=1e-5)


def test_dropout_drops_anew_in_each_call(torch_device: Any, graphs: list[Any]) -> None:
    drop = torch.compile(lambda x: F.dropout(x, 0.5) + torch.rand_like(x) * 0, backend="shadergrad")
    x = torch.ones(1000, device=D, requires_grad=True)
    first, second = drop(x), drop(x)
    assert not torch.equal(first.cpu(), second.cpu())
    assert 0.4 < (first != 0).float().mean().item() < 0.6
    second.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad.cpu(), second.detach().cpu())  # the mask of the forward pass
    torch.manual_seed(7)
    third = drop(x).detach().cpu()
    torch.manual_seed(7)
    assert torch.equal(drop(x).detach().cpu(), third)
    assert captures(graphs) == [1, 1]


def counted(x: Tensor, seen: Tensor) -> Tensor:
    seen.add_(1)
    seen[0].mul_(2)
    return x * seen


def broken(x: Tensor) -> Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos() + 1


def twice(x: Tensor) -> Any:
    y = x * 2
    return y, y.t(), y[:, 1:], x, x.t(), [y.sum(), None, 3]


def exchanged(x: Tensor, y: Tensor) -> Tensor:
    before = x.clone()
    x.copy_(y)
    y.copy_(before)
    return x + 2 * y


def written_and_returned(x: Tensor) -> Any:
    x.add_(1)
    return x, x * 2


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[], list[Any]]]] = {
    "an argument is written": (counted, lambda: [torch.randn(2, 3), torch.zeros(2, 3)]),
    "a part of one is written": (lambda x: x[1:].mul_(3) + x[0], lambda: [torch.randn(4, 3)]),
    "arguments are exchanged": (exchanged, lambda: [torch.randn(2, 3), torch.randn(2, 3)]),
    "an argument is written and returned": (written_and_returned, lambda: [torch.randn(2, 3)]),
    "a transposed argument is written": (lambda x: x.mul_(2).sum(1), lambda: [torch.randn(3, 4).t()]),
    "an argument of another dtype and shape is written": (
        lambda x, y: x.copy_(y) + 1,
        lambda: [torch.zeros(2, 3, dtype=torch.int32), torch.arange(3.0) + 0.5],
    ),
    "the graph breaks": (broken, lambda: [torch.randn(4, 3)]),
    "results share memory": (twice, lambda: [torch.randn(4, 3)]),
    "a transposed argument": (lambda x: x.t().reshape(-1) + 1, lambda: [torch.randn(3, 4).t()]),
    "a transposed argument is viewed": (lambda x: x.t().view(-1) * 2, lambda: [torch.randn(3, 4).t()]),
    "a part of an argument": (lambda x: (x + 1).view(x.shape[0], -1), lambda: [torch.randn(4, 3, 5)[:, 1:, ::2]]),
    "channels last": (
        lambda x: F.conv2d(x, torch.ones(2, 3, 1, 1, device=x.device)).relu().permute(0, 2, 3, 1).flatten(1),
        lambda: [torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)],
    ),
    "numbers and constants": (
        lambda x, k: x * k + torch.tensor([1.0, 2.0, 3.0], device=x.device) + torch.arange(3, device=x.device) * k,
        lambda: [torch.randn(4, 3), 2.5],
    ),
    "strides named": (lambda x: (x * 2).as_strided((2, 2), (1, 2), 1), lambda: [torch.randn(4, 3)]),
    "dtypes": (lambda x: (x > 0).sum(0) + x.long().argmax(0) + x.to(torch.int32)[0], lambda: [torch.randn(4, 3)]),
    "gathered": (lambda x, i: x[i] + x.index_select(0, i).cumsum(0), lambda: [torch.randn(4, 3), torch.tensor([2, 0])]),
}


def with_strides(x: Tensor) -> Tensor:
    """The same on the device, as it lies in memory."""
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=D).copy_(x)


@pytest.mark.parametrize("case", FUNCTIONS)
def test_a_compiled_function_does_what_it_does_on_pytorchs_cpu(case: str, torch_device: Any, graphs: list[Any]) -> None:
    function, make = FUNCTIONS[case]
    compiled = torch.compile(function, backend="shadergrad")
    for _ in range(3):
        theirs = make()
        ours = [with_strides(x) if isinstance(x, Tensor) else x for x in theirs]
        expected, got = function(*theirs), compiled(*ours)
        for a, b in zip(*(pytree.tree_leaves(found) for found in ((got, ours), (expected, theirs))), strict=True):
            if isinstance(b, Tensor):
                assert (a.shape, a.dtype, a.device.type) == (b.shape, b.dtype, D)
                torch.testing.assert_close(a.cpu(), b)
            else:
                assert a == b
    assert graphs
    assert -1 not in captures(graphs)


def test_new_values_of_arguments_are_results_of_the_step(torch_device: Any, graphs: list[Any]) -> None:
    """No operator copies them, and autograd knows that the tensors changed."""
    x, seen, compiled = (
        torch.randn(2, 3, device=D),
        torch.zeros(2, 3, device=D),
        torch.compile(exchanged, backend="shadergrad"),
    )
    needed = seen.clone().requires_grad_()
    product = (needed * seen).sum()
    compiled(x, seen)
    assert [len(g.writes) for g in graphs] == [2]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_results_that_share_memory_share_it(torch_device: Any) -> None:
    y, transposed, part, *_ = torch.compile(twice, backend="shadergrad")(torch.randn(4, 3, device=D))
    y.zero_()
    assert transposed.abs().sum().item() == 0
    assert part.abs().sum().item() == 0


def test_shapes_that_change(torch_device: Any, graphs: list[Any]) -> None:
    def function(x: Tensor) -> Tensor:
        return (x.softmax(-1) * x.shape[0]).reshape(x.shape[0] * x.shape[1]).cumsum(0)

    compiled = torch.compile(function, backend="shadergrad")
    for n in (4, 5, 6, 9, 5, 4):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x.to(D)).cpu(), function(x))
    assert len(graphs) == 2  # of one size, and of any


def test_a_graph_that_needs_values_runs_op_by_op_and_says_so(torch_device: Any) -> None:
    from shadergrad.torch.compiling import UncompiledGraph

    def function(x: Tensor, cpu: Tensor) -> Tensor:
        return x * 2 + cpu.sum().to(D)

    x, y = torch.randn(4), torch.randn(3)
    with pytest.warns(
        UncompiledGraph, match=r"test_compile.py:\d+\): .* is a tensor on cpu, and a step runs on one device"
    ):
        got = torch.compile(function, backend="shadergrad")(x.to(D), y)
    torch.testing.assert_close(got.cpu(), x * 2 + y.sum())


def test_an_operator_without_a_kernel_runs_op_by_op_and_says_so(
    torch_device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shadergrad.torch import dispatch
    from shadergrad.torch.compiling import UncompiledGraph

    monkeypatch.setattr(dispatch, "is_on_host", lambda op: op is torch.ops.aten.sin.default)
    x = torch.randn(3, 3)
    compiled = torch.compile(lambda x: (x + 1).sin() * 2, backend="shadergrad")
    with pytest.warns(UncompiledGraph, match="aten::sin has no kernel on the device"):
        got = compiled(x.to(D))
    torch.testing.assert_close(got.cpu(), (x + 1).sin() * 2)
    torch.testing.assert_close(compiled(x.to(D)).cpu(), got.cpu())  # without another warning


def test_what_a_kernel_raises_reaches_the_program(torch_device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from shadergrad.torch import compiling

    def fails(*_: Any) -> Any:
        raise ZeroDivisionError("in the kernel")

    monkeypatch.setitem(compiling.RESHAPED, torch.ops.aten.sin.default, fails)
    with pytest.raises(ZeroDivisionError, match="in the kernel"):
        torch.compile(torch.sin, backend="shadergrad")(torch.randn(4, device=D))


def test_the_backend_is_found_by_its_name(torch_device: Any) -> None:
    from torch._dynamo import list_backends

    assert "shadergrad" in list_backends()
    with pytest.raises(Exception, match="has no options"):
        torch.compile(torch.sin, backend="shadergrad", options={"a": 1})(torch.randn(4, device=D))
