"""One small network, trained by us and by PyTorch from the same weights on the same batches.

PyTorch runs in the same test, in float64 for the cpu device and in float32 for webgpu. Every loss and every optimizer
trains the network; what the training loop leans on (gradient storage, edges of the tape) is told as a story beside it.
The rules of optimizers with all their options are in test_optim.py and test_optimizers.py, learning rates over a
hundred steps in test_schedulers.py, single operations in test_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close, grad_of

SIZES = (5, 8, 6, 3)  # of the layers
BATCH = 4
STEPS = 100


@pytest.fixture
def torch_float64() -> Iterator[None]:
    """PyTorch's NAdam keeps its product of momenta in the default dtype."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@dataclass(frozen=True)
class Side:
    """One of the two libraries, with where its tensors live."""

    lib: Any
    device: str
    dtype: Any

    def tensor(self, array: np.ndarray) -> Any:
        if array.dtype.kind == "f":
            return self.lib.tensor(array, dtype=self.dtype, device=self.device)
        return self.lib.tensor(array, device=self.device)

    def network(self) -> Any:
        """Linear layers with tanh and relu between, of the same weights on both sides."""
        nn = self.lib.nn
        rng = np.random.default_rng(0)
        layers: list[Any] = []
        for n_in, n_out, activation in zip(SIZES, SIZES[1:], (nn.Tanh, nn.ReLU, None), strict=False):
            linear = nn.Linear(n_in, n_out)
            weight, bias = rng.standard_normal((n_out, n_in)) * 0.5, rng.standard_normal(n_out) * 0.1
            linear.weight = nn.Parameter(self.tensor(weight))
            linear.bias = nn.Parameter(self.tensor(bias))
            layers += [linear] if activation is None else [linear, activation()]
        return nn.Sequential(*layers)


def ours(device: str) -> Side:
    return Side(sg, device, sg.float64 if device == "cpu" else sg.float32)


def theirs(device: str) -> Side:
    return Side(torch, "cpu", torch.float64 if device == "cpu" else torch.float32)


def batches(seed: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """Inputs, and a function of them to learn."""
    rng = np.random.default_rng(seed)
    xs = [rng.standard_normal((BATCH, SIZES[0])) for _ in range(7)]
    return [(x, np.sin(x[:, :3] + x[:, 1:4])) for x in xs]


def train(
    side: Side, make_optimizer: Callable[..., Any], loss_of: Callable[..., Any], steps: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Weights and losses; ours run as one compiled step."""
    network = side.network()
    optimizer = make_optimizer(side.lib.optim, network.parameters())

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(side.lib.nn.functional, network(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = sg.compile(step) if side.lib is sg else step
    data = [(side.tensor(x), side.tensor(y)) for x, y in batches()]
    losses = [run(*data[k % len(data)]) for k in range(steps)]
    return [p.detach().numpy() for p in network.parameters()], np.array([loss.item() for loss in losses])


def assert_trains_alike(
    device: str, make_optimizer: Callable[..., Any], loss_of: Callable[..., Any], steps: int, tolerance: float
) -> None:
    (weights, losses), (expected, expected_losses) = (
        train(side, make_optimizer, loss_of, steps) for side in (ours(device), theirs(device))
    )
    assert_close(losses, expected_losses, tolerance, tolerance, "losses")
    for k, (w, e) in enumerate(zip(weights, expected, strict=True)):
        assert_close(w, e, tolerance, tolerance, f"parameter {k}")


def mse(F: Any, y: Any, target: Any) -> Any:
    return F.mse_loss(y, target)


# ---------------------------------------------------------------------------------- optimizers

OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "SGD": lambda o, p: o.SGD(p, lr=0.05),
    "momentum": lambda o, p: o.SGD(p, lr=0.02, momentum=0.9),
    "nesterov": lambda o, p: o.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda o, p: o.Adam(p, lr=0.01),
    "AdamW": lambda o, p: o.AdamW(p, lr=0.01, weight_decay=0.1),
    "RMSprop": lambda o, p: o.RMSprop(p, lr=0.005),
    "Adagrad": lambda o, p: o.Adagrad(p, lr=0.05),
    "NAdam": lambda o, p: o.NAdam(p, lr=0.01),
    "RAdam": lambda o, p: o.RAdam(p, lr=0.01),
    "Adadelta": lambda o, p: o.Adadelta(p, lr=1.0),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_hundred_steps_are_pytorchs_in_float64(name: str, torch_float64: None) -> None:
    assert_trains_alike("cpu", OPTIMIZERS[name], mse, STEPS, 1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_thirty_steps_on_webgpu_are_pytorchs_in_float32(name: str, webgpu: str) -> None:
    assert_trains_alike(webgpu, OPTIMIZERS[name], mse, 30, 1e-4)


def test_a_hundred_steps_learn_something() -> None:
    """So that the tests above compare training and not standing still."""
    _, losses = train(ours("cpu"), OPTIMIZERS["Adam"], mse, STEPS)
    assert losses[-7:].mean() < 0.3 * losses[:7].mean()


# ---------------------------------------------------------------------------------- losses


LOSSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mse": mse,
    "l1": lambda F, y, t: F.l1_loss(y, t),
    "smooth l1": lambda F, y, t: F.smooth_l1_loss(y, t, beta=0.5),
    "huber": lambda F, y, t: F.huber_loss(y, t, delta=0.3),
    "cross entropy": lambda F, y, t: F.cross_entropy(y, t.argmax(1)),
    "cross entropy of probabilities": lambda F, y, t: F.cross_entropy(y, (t * 3).softmax(1), label_smoothing=0.1),
    "nll": lambda F, y, t: F.nll_loss(y.log_softmax(1), t.argmax(1)),
    "bce": lambda F, y, t: F.binary_cross_entropy(y.sigmoid(), t * 0.5 + 0.5),
    "bce with logits": lambda F, y, t: F.binary_cross_entropy_with_logits(y, t * 0.5 + 0.5),
    "kl": lambda F, y, t: F.kl_div(y.log_softmax(1), (t * 3).softmax(1), reduction="batchmean"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_trains_as_pytorchs_in_float64(name: str) -> None:
    assert_trains_alike("cpu", OPTIMIZERS["momentum"], LOSSES[name], STEPS, 1e-6)


@pytest.mark.parametrize("name", ["cross entropy", "bce", "kl"])
def test_losses_train_as_pytorchs_on_webgpu(name: str, webgpu: str) -> None:
    assert_trains_alike(webgpu, OPTIMIZERS["SGD"], LOSSES[name], 20, 1e-4)


# ---------------------------------------------------------------------------------- what a loop leans on

Story = Callable[[Side], list[Any]]


def weights_and_input(side: Side) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return side.tensor(rng.standard_normal((3, 4))).requires_grad_(), side.tensor(rng.standard_normal((2, 3)))


def accumulation_over_batches(side: Side) -> list[Any]:
    """Two half batches, whose gradients add up to those of the whole."""
    w, x = weights_and_input(side)
    for half in (x[:1], x[1:]):
        ((half @ w).tanh().sum() / 2).backward()
    return [w.grad]


def a_frozen_layer(side: Side) -> list[Any]:
    network = side.network()
    for p in network[0].parameters():
        p.requires_grad_(False)
    network(side.tensor(batches()[0][0])).square().mean().backward()
    assert network[0].weight.grad is None
    return [p.grad for p in network.parameters() if p.grad is not None]


def a_target_that_is_detached(side: Side) -> list[Any]:
    w, x = weights_and_input(side)
    y = x @ w
    (y - y.detach() * 0.5).square().mean().backward()
    return [w.grad]


def a_forward_pass_without_recording_between(side: Side) -> list[Any]:
    w, x = weights_and_input(side)
    with side.lib.no_grad():
        scale = (x @ w).abs().mean()
    assert not scale.requires_grad
    ((x @ w) / scale).sin().sum().backward()
    return [w.grad, scale]


def an_update_in_place_without_recording(side: Side) -> list[Any]:
    w, x = weights_and_input(side)
    for _ in range(3):
        w.grad = None
        (x @ w).square().sum().backward()
        with side.lib.no_grad():
            w -= 0.1 * grad_of(w)
    assert w.requires_grad
    assert w.is_leaf
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        w -= 0.1
    return [w.detach()]


def backward_twice_through_one_graph(side: Side) -> list[Any]:
    w, x = weights_and_input(side)
    y = (x @ w).exp()
    y.sum().backward(retain_graph=True)
    (y * y).sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        (y * 3).sum().backward()
    return [w.grad]


def backward_from_the_middle_with_a_gradient(side: Side) -> list[Any]:
    """The network cut in two: the gradient at the cut is handed on."""
    w, x = weights_and_input(side)
    hidden = (x @ w).tanh()
    cut = hidden.detach().requires_grad_()
    (cut.softmax(1) * side.tensor(np.arange(4.0))).sum().backward()
    hidden.backward(cut.grad)
    return [cut.grad, w.grad]


def a_penalty_on_the_gradient(side: Side) -> list[Any]:
    """A loss that contains a derivative."""
    w, x = weights_and_input(side)
    x = x.requires_grad_()
    y = (x @ w).tanh().sum()
    (g,) = side.lib.autograd.grad(y, x, create_graph=True)
    (y + (g.square().sum(1).sqrt() - 1).square().mean()).backward()
    return [w.grad, x.grad]


def views_and_products(side: Side) -> list[Any]:
    w, x = weights_and_input(side)
    y = w.transpose(0, 1).reshape(2, 2, 3) @ x.transpose(0, 1)
    (y.flatten(1)[:, ::2] * y.reshape(2, -1)[:, 1::2]).sum().backward()
    return [y.detach(), w.grad]


def activations(side: Side) -> list[Any]:
    w, x = weights_and_input(side)
    y = x @ w
    total = y.relu() + y.sigmoid() * y.tanh() - y.softmax(1) * y.log_softmax(1)
    total.mean().backward()
    return [total.detach(), w.grad]


def extrema_with_ties(side: Side) -> list[Any]:
    """Ties share, but along an axis the gradient goes to the one whose index is given."""
    found: list[Any] = []
    reductions: list[Callable[[Any], Any]] = [
        lambda x: x.max(),
        lambda x: x.min(),
        lambda x: x.amax(1).sum(),
        lambda x: x.max(1)[0].sum(),
        lambda x: x.min(0)[0].sum(),
        lambda x: side.lib.maximum(x, x.detach()).sum(),
        lambda x: x.relu().sum(),
        lambda x: x.abs().sum(),
        lambda x: x.clamp(0.0, 2.0).sum(),
    ]
    for reduce in reductions:
        x = side.tensor(np.array([[2.0, 0.0, 2.0], [-1.0, -1.0, 2.0]])).requires_grad_()
        reduce(x).backward()
        found.append(x.grad)
    return found


def shared_weights(side: Side) -> list[Any]:
    w, x = weights_and_input(side)
    ((x @ w) @ w.transpose(0, 1)).sin().sum().backward()
    return [w.grad]


def clipping(side: Side) -> list[Any]:
    network = side.network()
    network(side.tensor(batches()[0][0])).square().sum().backward()
    total = side.lib.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
    return [total, *(p.grad for p in network.parameters())]


STORIES: dict[str, Story] = {
    f.__name__: f
    for f in (
        accumulation_over_batches,
        a_frozen_layer,
        a_target_that_is_detached,
        a_forward_pass_without_recording_between,
        an_update_in_place_without_recording,
        backward_twice_through_one_graph,
        backward_from_the_middle_with_a_gradient,
        a_penalty_on_the_gradient,
        views_and_products,
        activations,
        extrema_with_ties,
        shared_weights,
        clipping,
    )
}


@pytest.mark.parametrize("story", STORIES)
def test_stories_end_as_pytorchs(story: str, device: str) -> None:
    found, expected = STORIES[story](ours(device)), STORIES[story](theirs(device))
    tolerance = 1e-9 if device == "cpu" else 1e-4
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert_close(a, b.numpy(force=True), tolerance, tolerance, f"value {k}")
