"""What a type checker says of the public surface: `make types` checks the assertions, this test that they run."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import shadergrad as sg
from shadergrad import data, nn, optim
from shadergrad.dtypes import DType
from shadergrad.nn import functional as F


def test_tensors_come_from_functions_and_methods() -> None:
    x = sg.ones(2, 3)
    assert_type(x, sg.Tensor)
    assert_type(sg.tensor([1.0]), sg.Tensor)
    assert_type(sg.zeros((2, 3), dtype="float32"), sg.Tensor)
    assert_type(sg.randn(2, 3), sg.Tensor)
    assert_type(sg.arange(3), sg.Tensor)
    assert_type(sg.from_numpy(np.ones(2, np.float32)), sg.Tensor)
    assert_type(sg.zeros_like(x), sg.Tensor)
    assert_type(sg.exp(x), sg.Tensor)
    assert_type(sg.matmul(x, x.T), sg.Tensor)
    assert_type(sg.where(x > 0, x, 0.0), sg.Tensor)
    assert_type(sg.cat([x, x]), sg.Tensor)
    assert_type(sg.stack((x, x)), sg.Tensor)
    assert_type(x + 1, sg.Tensor)
    assert_type(2 * x, sg.Tensor)
    assert_type(1 / x, sg.Tensor)
    assert_type(x @ x.T, sg.Tensor)
    assert_type(-x, sg.Tensor)
    assert_type(x**2, sg.Tensor)
    assert_type(x == x, sg.Tensor)
    assert_type(x < 1, sg.Tensor)
    assert_type(x[0], sg.Tensor)
    assert_type(x[:, None, ..., 1:], sg.Tensor)
    assert_type(x.exp(), sg.Tensor)
    assert_type(x.relu(), sg.Tensor)
    assert_type(x.sum(), sg.Tensor)
    assert_type(x.sum(1, keepdim=True), sg.Tensor)
    assert_type(x.mean(), sg.Tensor)
    assert_type(x.max(), sg.Tensor)
    assert_type(x.max(1).values, sg.Tensor)
    assert_type(x.min(x), sg.Tensor)
    assert_type(sg.max(x), sg.Tensor)
    assert_type(sg.max(x, 1)[1], sg.Tensor)
    assert_type(x.sort()[0], sg.Tensor)
    assert_type(x.topk(2).indices, sg.Tensor)
    assert_type(x.median(), sg.Tensor)
    assert_type(x.nonzero(), sg.Tensor)
    assert_type(sg.nonzero(x, as_tuple=True), tuple[sg.Tensor, ...])
    assert_type(x.aminmax().min, sg.Tensor)
    assert_type(x.argmax(1), sg.Tensor)
    assert_type(x.softmax(1), sg.Tensor)
    assert_type(x.reshape(3, 2), sg.Tensor)
    assert_type(x.flatten(), sg.Tensor)
    assert_type(x.T, sg.Tensor)
    assert_type(x.mT, sg.Tensor)
    assert_type(x.permute(1, 0), sg.Tensor)
    assert_type(x.unsqueeze(0), sg.Tensor)
    assert_type(x.clamp(0, 1), sg.Tensor)
    assert_type(x.gather(1, sg.zeros(2, 1, dtype="int32")), sg.Tensor)
    assert_type(x.to("cpu"), sg.Tensor)
    assert_type(x.cpu(), sg.Tensor)
    assert_type(x.float(), sg.Tensor)
    assert_type(x.detach(), sg.Tensor)
    assert_type(x.clone(), sg.Tensor)
    assert_type(x.requires_grad_(), sg.Tensor)
    assert_type(x.grad, sg.Tensor | None)
    assert_type(x.data, sg.Tensor)
    assert_type(x.split(1), tuple[sg.Tensor, ...])
    assert_type(x.chunk(2), tuple[sg.Tensor, ...])
    assert_type(x.unbind(), tuple[sg.Tensor, ...])
    assert_type(x.shape[0], int)
    assert_type(x.size(0), int)
    assert_type(x.numel(), int)
    assert_type(x.dim(), int)
    assert_type(x.ndim, int)
    assert_type(len(x), int)
    assert_type(x.dtype, DType)
    assert_type(x.is_leaf, bool)
    assert_type([row for row in x], list[sg.Tensor])  # noqa: C416  # what iteration gives, not what list() says


def test_tensors_changed_in_place_are_tensors() -> None:
    x = sg.ones(2, 3)
    assert_type(x.add_(1), sg.Tensor)
    assert_type(x.mul_(2), sg.Tensor)
    assert_type(x.exp_(), sg.Tensor)
    assert_type(x.clamp_(0, 1), sg.Tensor)
    assert_type(x.copy_(x * 2), sg.Tensor)
    assert_type(x.fill_(1), sg.Tensor)
    assert_type(x.zero_(), sg.Tensor)
    assert_type(x.uniform_(), sg.Tensor)
    assert_type(x.normal_(), sg.Tensor)
    assert_type(x.detach_(), sg.Tensor)
    x += 1
    assert_type(x, sg.Tensor)
    x *= 2
    assert_type(x, sg.Tensor)
    x[0] = 3.0


def test_parameters_stay_parameters_where_they_are_the_same_object() -> None:
    p = nn.Parameter(sg.ones(2))
    assert_type(p.requires_grad_(False), nn.Parameter)
    q: sg.Tensor = p * 2
    assert not isinstance(q, nn.Parameter)
    assert_type(nn.Linear(2, 2).weight, nn.Parameter)


def test_modules_losses_and_gradients() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    assert_type(model.to("cpu"), nn.Sequential)
    assert_type(model.train(), nn.Sequential)
    assert_type(model.eval(), nn.Sequential)
    assert_type([p for p in model.parameters()], list[nn.Parameter])  # noqa: C416  # what iteration gives
    assert_type([n for n, _ in model.named_parameters()], list[str])
    assert_type(dict(model.named_modules()), dict[str, nn.Module])
    x = sg.ones(5, 3, requires_grad=True)
    loss: sg.Tensor = F.cross_entropy(model(x), sg.zeros(5, dtype="int32"))
    assert_type(F.relu(x), sg.Tensor)
    assert_type(F.mse_loss(x, x), sg.Tensor)
    assert_type(loss.backward(), None)
    y = x * 2
    assert_type(sg.autograd.grad(y.sum(), x), tuple[sg.Tensor, ...])
    assert_type(sg.autograd.grad(x.sum(), [x], allow_unused=True), tuple[sg.Tensor | None, ...])
    with sg.no_grad():
        z = x * 2
    assert_type(z, sg.Tensor)


def test_a_compiled_function_has_its_own_types() -> None:
    @sg.compile
    def step(x: sg.Tensor, rate: float = 0.5) -> sg.Tensor:
        return x * rate

    assert_type(step(sg.ones(2)), sg.Tensor)
    assert_type(step(sg.ones(2), rate=2.0), sg.Tensor)
    assert_type(step.captures, int)
    assert_type(sg.compile(lambda x: (x, 2.0))(sg.ones(1))[1], float)


def test_optimizers_schedulers_and_loaders() -> None:
    model = nn.Linear(3, 2)
    for optimizer in (optim.SGD(model.parameters(), lr=0.1), optim.AdamW(model.named_parameters(), lr=0.1)):
        optimizer.zero_grad()
        optimizer.param_groups[0]["lr"] = 0.5
        for group in optimizer.param_groups:
            group["lr"] *= 0.1
    schedule = optim.lr_scheduler.CosineAnnealingLR(optim.SGD(model.parameters(), lr=0.1), 10)
    assert_type(schedule.get_last_lr()[0], float)
    set_ = data.TensorDataset(sg.ones(4, 3), sg.zeros(4, dtype="int32"))
    for x, labels in data.DataLoader(set_, batch_size=2):
        assert_type(x, Any)
        assert tuple(labels.shape) == (2,)
    assert_type(len(data.DataLoader(set_)), int)
    assert_type(model.state_dict(), dict[str, Any])  # get_extra_state gives anything


class Cube(sg.autograd.Function):
    @staticmethod
    def forward(ctx: sg.autograd.FunctionCtx, x: sg.Tensor, power: int) -> sg.Tensor:
        ctx.save_for_backward(x)
        ctx.power = power
        return x**power

    @staticmethod
    def backward(ctx: sg.autograd.FunctionCtx, g: sg.Tensor) -> tuple[sg.Tensor, None]:
        (x,) = ctx.saved_tensors
        return g * ctx.power * x ** (ctx.power - 1), None


def test_functions_of_the_users() -> None:
    x = sg.tensor([2.0], requires_grad=True)
    Cube.apply(x, 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [12.0]
