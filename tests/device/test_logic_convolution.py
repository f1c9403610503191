"""Convolutions of gates against trees on unfolded windows in plain PyTorch, pooling by OR, and the classifiers that they become."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close, grad_of
from shadergrad import nn, optim
from shadergrad.data import load_digits
from shadergrad.errors import ShapeError
from shadergrad.logic import GroupSum, LogicConv2d, LogicNetwork, OrPool2d, Thermometer, harden
from shadergrad.logic.circuit import NativeClassifier
from shadergrad.logic.circuit.native_board import find_compiler
from shadergrad.logic.convolution import draw_leaves
from shadergrad.nn.errors import ArgumentError

SHAPES = [  # channels in and out, kernel, depth, stride, padding
    (1, 3, 2, 1, 1, 0),
    (2, 4, 3, 2, 1, 1),
    (3, 5, 3, 3, 2, 0),
    (4, 2, 5, 4, 3, 2),
    (2, 3, 1, 2, 1, 0),
]


def images(*shape: int, device: str = "cpu", bits: bool = False) -> sg.Tensor:
    x = np.random.default_rng(1).random(shape)
    return sg.tensor((x > 0.5 if bits else x).astype(np.float32), device=device)


def convolution(shape: tuple[int, ...], device: str, **options: object) -> LogicConv2d:
    sg.manual_seed(2)
    channels, out, kernel, depth, stride, padding = shape
    return LogicConv2d(channels, out, kernel, depth, stride, padding, init="gaussian", seed=3, device=device, **options)  # type: ignore[arg-type]


def plain_gates(logits: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Mixtures of the sixteen gates, each by its formula; logits (n, 16), a and b (..., n)."""
    ab, zero = a * b, torch.zeros_like(a)
    eight = [zero, ab, a - ab, a, b - ab, b, a + b - 2 * ab, a + b - ab]
    return (torch.stack(eight + [1 - x for x in reversed(eight)], -1) * torch.softmax(logits, -1)).sum(-1)


def plain(layer: LogicConv2d, logits: list[torch.Tensor], x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Each tree by itself on the columns that unfold gives."""
    channels, out, kernel, depth, stride, padding = shape
    columns = torch.nn.functional.unfold(
        x, kernel, padding=padding, stride=stride
    )  # (batch, channels * kernel^2, places)
    leaves = draw_leaves(channels, out, kernel, depth, 2, 3)
    trees = []
    for tree in range(out):
        values = columns[:, torch.tensor(leaves[tree])]
        for level in range(depth):
            n = 1 << (depth - 1 - level)
            own = logits[level][tree * n : (tree + 1) * n]
            values = plain_gates(own, values[:, 0::2].transpose(1, 2), values[:, 1::2].transpose(1, 2)).transpose(1, 2)
        trees.append(values[:, 0])
    side = [(s + 2 * padding - kernel) // stride + 1 for s in x.shape[2:]]
    return torch.stack(trees, 1).reshape(len(x), out, *side)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_convolution_and_its_gradients_are_trees_on_unfolded_windows(shape: tuple[int, ...], device: str) -> None:
    layer, x = convolution(shape, device), images(2, shape[0], 6, 7, device=device).requires_grad_()
    y = layer(x)
    (y * y).sum().backward()
    logits = [
        torch.tensor(each.logits.detach().numpy(), dtype=torch.float64, requires_grad=True) for each in layer.layers
    ]
    plain_x = torch.tensor(x.detach().numpy(), dtype=torch.float64, requires_grad=True)
    wanted = plain(layer, logits, plain_x, shape)
    (wanted * wanted).sum().backward()
    assert_close(y, wanted.detach().numpy(), 1e-4, 1e-5)
    assert_close(grad_of(x), grad_of(plain_x).numpy(), 1e-3, 1e-4)
    for own, other in zip(layer.layers, logits, strict=True):
        assert_close(grad_of(own.logits), grad_of(other).numpy(), 1e-3, 1e-4)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_hardened_convolution_is_the_one_in_eval_at_every_position(shape: tuple[int, ...]) -> None:
    layer, (channels, out, *_) = convolution(shape, "cpu"), shape
    model = nn.Sequential(nn.Unflatten(1, (channels, 6, 7)), layer, nn.Flatten(), GroupSum(out, 1.0)).eval()
    x = images(20, channels * 42, bits=True)
    votes = harden(model).votes(x.numpy())
    assert votes.tolist() == model(x).numpy().astype(int).tolist()


def test_pooling_is_or_of_bits_and_the_largest_of_numbers(device: str) -> None:
    for kernel, stride in ((2, None), (3, 2), (2, 1)):
        x, bits = images(2, 3, 7, 8, device=device), images(2, 3, 7, 8, device=device, bits=True)
        pool = OrPool2d(kernel, stride)
        wanted = torch.nn.functional.max_pool2d(torch.tensor(x.numpy()), kernel, stride)
        assert_close(pool(x), wanted.numpy(), 0, 0)
        model = nn.Sequential(
            nn.Unflatten(1, (3, 7, 8)), LogicConv2d(3, 3, 1, 1, seed=1), pool, nn.Flatten(), GroupSum(1)
        ).eval()
        flat = bits.reshape(2, -1).to("cpu")
        assert harden(model).votes(flat.numpy()).tolist() == model(flat).numpy().astype(int).tolist()


def test_a_thermometer_of_images_puts_the_bits_of_a_channel_side_by_side(device: str) -> None:
    encode = Thermometer(2 * 3 * 4, 3, image=(2, 3, 4), device=device)
    x = images(5, 2, 3, 4, device=device)
    flat = Thermometer(24, 3, device=device)(x.reshape(5, 24)).reshape(5, 2, 3, 4, 3).detach().numpy()
    assert_close(encode(x), flat.transpose(0, 1, 4, 2, 3).reshape(5, 6, 3, 4), 0, 0)
    with pytest.raises(ShapeError, match=r"must end in the image, \(2, 3, 4\)"):
        encode(images(5, 24, device=device))
    with pytest.raises(ArgumentError, match="does not have the 24 numbers"):
        Thermometer(24, 1, image=(2, 3, 3))


def test_leaves_differ_lie_in_few_channels_and_read_all_channels_equally_often() -> None:
    leaves = draw_leaves(8, 40, 3, 4, 2, 0)
    channels = [set((row // 9).tolist()) for row in leaves]
    assert all(len(set(row.tolist())) == 16 for row in leaves)
    assert all(len(each) <= 2 for each in channels)
    counts = np.bincount([channel for each in channels for channel in each], minlength=8)
    assert counts.max() - counts.min() <= 2
    few = draw_leaves(1, 2, 2, 3, 2, 0)  # eight leaves of four places
    assert all(np.bincount(row).tolist() == [2, 2, 2, 2] for row in few)


@pytest.mark.parametrize(("mode", "name", "rate"), [("soft", "softmax", 0.05), ("straight-through", "walsh", 0.02)])
@pytest.mark.slow
def test_a_convolutional_network_learns_the_digits_and_hardens(mode: str, name: str, rate: float) -> None:
    train_images, labels, test_images, test_labels = load_digits()
    sg.manual_seed(0)
    encode = Thermometer(64, 3, mode="hard", learned=False, image=(1, 8, 8))
    strength = None if name == "softmax" else 1.0
    features = LogicConv2d(3, 24, 3, 2, 1, 1, seed=1, mode=mode, parametrisation=name, strength=strength)
    sizes = (24 * 16, 600, 400)
    gates = LogicNetwork(sizes, "random", "residual", mode, seed=0, parametrisation=name, strength=strength)
    model = nn.Sequential(encode, features, OrPool2d(2), nn.Flatten(), gates, GroupSum(10, 4.0))
    optimizer = optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate)

    @sg.compile
    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    for _ in range(200):
        rows = rng.integers(0, len(labels), 64)
        step(sg.tensor(train_images[rows].reshape(-1, 1, 8, 8)), sg.tensor(labels[rows]))
    x = test_images.reshape(-1, 1, 8, 8)
    told = model.eval()(sg.tensor(x)).numpy().argmax(-1)
    assert (told == test_labels).mean() > 0.75
    classifier = harden(model)
    assert classifier.predict(x).tolist() == told.tolist()
    if find_compiler():
        assert NativeClassifier(classifier).predict(x).tolist() == told.tolist()


def test_what_does_not_fit_is_named() -> None:
    for make, error, message in (
        (lambda: LogicConv2d(1, 1, 3, depth=9), ArgumentError, "depth at most 8"),
        (lambda: LogicConv2d(0, 1, 3), ArgumentError, "channels 0 and 1"),
        (lambda: LogicConv2d(1, 1, (3, 3)), ArgumentError, r"kernel_size \(3, 3\).* windows are square"),  # type: ignore[arg-type]
        (lambda: LogicConv2d(1, 1, 3, mode="firm"), ArgumentError, "no mode 'firm'"),
        (lambda: LogicConv2d(2, 1, 3)(sg.zeros(1, 3, 8, 8)), ShapeError, r"not \(batch, 2, height, width\)"),
        (lambda: LogicConv2d(1, 1, 3)(sg.zeros(1, 1, 2, 8)), ShapeError, "smaller than the window, 3"),
        (lambda: OrPool2d(0), ArgumentError, "both are at least 1"),
        (lambda: OrPool2d(3)(sg.zeros(1, 1, 2, 2)), ShapeError, "smaller than the window, 3"),
        (
            lambda: harden(nn.Sequential(LogicConv2d(1, 2, 3), GroupSum(2))),
            ArgumentError,
            "reads an image. Hint: a Thermometer",
        ),
        (
            lambda: harden(nn.Sequential(Thermometer(64, 2, image=(1, 8, 8)), LogicConv2d(1, 2, 3), GroupSum(2))),
            ArgumentError,
            "reads 1 channels; what comes before has 2",
        ),
        (
            lambda: harden(nn.Sequential(Thermometer(64, 1, image=(1, 8, 8)), LogicNetwork((64, 32)), GroupSum(2))),
            ArgumentError,
            r"has \(1, 8, 8\). Hint: nn.Flatten\(\)",
        ),
    ):
        with pytest.raises(error, match=message):
            make()
    layer = LogicConv2d(1, 2, 3)
    layer.mode = "hard"
    assert {each.mode for each in layer.layers} == {"hard"}
