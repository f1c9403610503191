"""Tiles of products, of transposes and of rows: right at every edge, and read once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from shadergrad import cli, nn
from shadergrad.compile import tuning
from shadergrad.compile.choices import Cut, Shape, Tile
from shadergrad.compile.tiles import register
from shadergrad.runtime.device import get_device
from shadergrad.testing import assert_close

rng = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize(
    ("layout", "stores"), [("", True), ("a", True), ("b", True), ("ab", True), ("", False), ("b", False)]
)
@pytest.mark.parametrize(
    ("tile", "parts", "sizes"),
    [
        (Tile(16, 16, 8, 4, 4, 2), 1, (32, 48, 40)),  # two steps a turn, an odd number of them
        (Tile(16, 16, 16, 4, 4, 2), 1, (17, 30, 50)),
        (Tile(16, 16, 8, 4, 4), 1, (20, 36, 44)),  # loads without a branch, the last step a part of one
        (Tile(16, 32, 16, 4, 4), 3, (33, 24, 144)),
        (Tile(16, 16, 32, 4, 4, 1, 4), 1, (16, 20, 64)),
        (Tile(16, 16, 32, 8, 4, 2, 2), 3, (33, 16, 160)),
        (Tile(16, 32, 8, 8, 4, 1, 2), 1, (20, 40, 24)),  # slices that are joined in two rounds
        (Tile(16, 32, 64, 4, 8, 1, 4), 1, (33, 18, 152)),  # each of which joins a row, rows that are kept along k
        (Tile(32, 16, 40, 8, 4, 2, 2), 1, (20, 36, 100)),  # each of which joins four, an odd number of quads in a row
        (Tile(32, 16, 64, 8, 8, 1, 8), 3, (20, 20, 320)),  # too many results to keep rows
        (Tile(16, 32, 16, 4, 4, 1, 2), 1, (20, 40, 48)),  # rows of a tile that lie apart by fours, and slices
        (Tile(16, 16, 16, 4, 4, 2), 2, (36, 20, 112)),  # the same in two stages
        (Tile(128, 128, 8, 16, 8), 1, (132, 136, 20)),
        (Tile(128, 128, 8, 16, 8), 1, (130, 9, 16)),  # columns that are stored one by one
        (Tile(128, 128, 8, 16, 8, 2), 2, (130, 132, 80)),
        (Tile(32, 32, 16, 16, 8, 1, 2), 1, (36, 40, 48)),  # many sums of slices
        (Tile(16, 24, 8, 4, 12), 1, (20, 40, 16)),
    ],
    ids=str,
)
def test_products_of_tuned_tiles(
    tile: Tile,
    parts: int,
    sizes: tuple[int, int, int],
    layout: str,
    stores: bool,
    webgpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tiles in two stages, and whose steps are cut into slices, which a table names; a browser's portable kernels have neither. As a
    GPU has them, in whose products multiplications go to and fro along rows, a place behind what is read, and sums are stored from
    other registers. stores: whether threads may write components of vectors, as they may not in a browser."""
    gpu: Any = get_device(webgpu)
    m, n, k = sizes
    table = register({Shape(1, m, n, k): Cut(tile, parts)})
    target = replace(gpu.target, measured=table).having(slow_loads=False, component_stores=stores)
    monkeypatch.setattr(gpu, "target", target)
    a, b = drawn(m, k), drawn(k, n)
    laid = [np.ascontiguousarray(x.T) if name in layout else x for name, x in (("a", a), ("b", b))]
    step = sg.compile(lambda a, b: (a.T if "a" in layout else a) @ (b.T if "b" in layout else b))
    found = step(*(sg.tensor(x, device=webgpu) for x in laid)).numpy()
    assert_close(found, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)
    if gpu.target.traits.unrolls:
        assert f"(tile {tile.bm} x {tile.bn} x {tile.bk})" in step.plan.kernels[0].shape


def test_many_tiles_are_taken_in_stripes(webgpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last stripe is narrower. Of small integers, whose sums are exact, in two parts of two samples."""
    gpu: Any = get_device(webgpu)
    m, n, k = 740, 730, 128
    table = register({Shape(2, m, n, k): Cut(Tile(16, 16, 8, 4, 4), 2)})
    monkeypatch.setattr(gpu, "target", replace(gpu.target, measured=table).having(slow_loads=False))
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((2, m, k), (2, k, n)))
    step = sg.compile(lambda a, b: a @ b)
    found = step(*(sg.tensor(x, device=webgpu) for x in (a, b))).numpy()
    assert_close(found, a @ b, rtol=0, atol=0)
    if gpu.target.traits.unrolls:
        assert "(tile 16 x 16 x 8)" in step.plan.kernels[0].shape
        assert "let stripe = " in step.plan.kernels[0].source


def test_the_command_keeps_what_it_measures(
    webgpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu: Any = get_device(webgpu)
    monkeypatch.setattr(tuning, "config", replace(tuning.config, cache=str(tmp_path)))
    code = cli.run(["tune", "24x16x40:b", "--tries", "2", "--milliseconds", "0.1", "--device", webgpu])
    shown = capsys.readouterr()
    if not gpu.target.traits.unrolls:
        assert code == cli.BAD_INPUT
        assert "SHADERGRAD_PROFILE" in shown.err
        return
    assert (code, shown.err) == (0, "")
    assert "24x16x40" in shown.out
    table = tuning.load(tuning.path_for(gpu.adapter.name, gpu.adapter.driver), gpu.adapter.name, gpu.adapter.driver)
    assert list(table) == [Shape(1, 24, 16, 40)]


def test_a_wrong_result_is_not_kept(
    webgpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu: Any = get_device(webgpu)
    if not gpu.target.traits.unrolls:
        return
    from shadergrad.cli.tune import Tuner

    monkeypatch.setattr(tuning, "config", replace(tuning.config, cache=str(tmp_path)))
    monkeypatch.setattr(Tuner, "multiply", lambda self, a, b: a @ b * 1.001)
    assert cli.run(["tune", "8x8x8", "--tries", "1", "--device", webgpu]) == cli.BAD_INPUT
    assert "is wrong on this adapter" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.json"))


TURNED = {
    "whole tiles": ((128, 128), lambda x: x.T + 1),
    "edges": ((133, 200), lambda x: x.T * 2),
    "both ways": ((160, 160), lambda x: x + x.T),
    "batch": ((3, 150, 70), lambda x: x.transpose(1, 2) - 1),
    "a middle axis": ((37, 35, 40), lambda x: x.permute(1, 2, 0) + 0),
    "bools": ((130, 140), lambda x: (x.T > 0).int()),
    "flipped": ((130, 140), lambda x: x.flip(1).T * 3),
}


@pytest.mark.parametrize("name", TURNED)
def test_what_lies_across_is_read_by_tiles(name: str, webgpu: str) -> None:
    shape, turn = TURNED[name]
    x = drawn(*shape)
    step = sg.compile(turn)
    found = step(sg.tensor(x, device=webgpu)).numpy()
    expected = turn(sg.tensor(x)).numpy()
    assert_close(found, expected, rtol=0, atol=0)
    (kernel,) = step.plan.kernels
    by_tiles = name != "flipped"  # whose rows run backwards
    assert ("in 32 x 32" in kernel.shape) == by_tiles


ROWS = {
    "one round of vec4s": (3, 64),
    "rounds that do not go up": (2050, 100),
    "several rows a workgroup": (2049, 36),
    "odd": (5, 1001),
    "many rounds": (2, 5000),
    "in blocks": (2, 70004),
    "by one thread": (70, 12),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_however_they_are_walked(name: str, webgpu: str) -> None:
    x = drawn(*ROWS[name]) * 3
    step = sg.compile(lambda x: (x.softmax(-1), (x - x.mean(-1, keepdim=True)).square().sum(-1), x.amin(-1)))
    soft, squares, least = (t.numpy() for t in step(sg.tensor(x, device=webgpu)))
    exact = x.astype(np.float64)
    powers = np.exp(exact - exact.max(-1, keepdims=True))
    assert_close(soft, powers / powers.sum(-1, keepdims=True), rtol=1e-5, atol=1e-8)
    assert_close(squares, ((exact - exact.mean(-1, keepdims=True)) ** 2).sum(-1), rtol=1e-5, atol=0)
    assert_close(least, x.min(-1), rtol=0, atol=0)


def test_a_row_that_fits_the_registers_is_read_once(webgpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Softmax of many rows of 256: two vec4s a thread, each loaded once for the maximum, the sum and the result. On a GPU, that is:
    in software each thread has a row."""
    gpu: Any = get_device(webgpu)
    monkeypatch.setattr(gpu, "target", gpu.target.having(slow_loads=False))
    step = sg.compile(lambda x: x.softmax(-1))
    step(sg.tensor(drawn(2048, 256), device=webgpu)).numpy()
    (kernel,) = step.plan.kernels
    code = kernel.source.split("fn main")[1]
    assert "array<vec4<f32>>" in kernel.source
    assert (code.count("b0["), code.count("b1["), code.count("workgroupBarrier")) == (2, 2, 4)


def test_strided_reads_of_rows_are_not_vectors(webgpu: str) -> None:
    x = drawn(12, 40, 6)
    found = (sg.tensor(x, device=webgpu).transpose(0, 1) * 2).amax(-1).numpy()
    assert_close(found, (x.swapaxes(0, 1) * 2).max(-1), rtol=0, atol=0)
    found = sg.tensor(x, device=webgpu)[:, :, ::2].softmax(1).sum(-1).numpy()
    soft = np.exp(x[:, :, ::2].astype(np.float64))
    assert_close(found, (soft / soft.sum(1, keepdims=True)).sum(-1), rtol=1e-5, atol=0)


@pytest.mark.parametrize("sizes", [(2, 5, 7, 6), (3, 40, 70, 19)], ids=str)
def test_small_products_of_browsers_take_no_workgroup_memory(
    sizes: tuple[int, ...], webgpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose zeros cost a software adapter a second. With operands that are computed, transposed and shared."""
    gpu: Any = get_device(webgpu)
    target = gpu.target.having(unrolls=False, component_stores=False, zeroes_slowly=True)
    monkeypatch.setattr(gpu, "target", target)
    batch, m, n, k = sizes
    a, b = drawn(batch, m, k), drawn(batch, n, k)

    @sg.compile
    def step(a: sg.Tensor, b: sg.Tensor) -> tuple[sg.Tensor, ...]:
        return a.relu() @ b.mT + 1, a.round().to(sg.int32) @ b.round().to(sg.int32).mT, a[0] @ b.mT

    found = step(*(sg.tensor(x, device=webgpu) for x in (a, b)))
    expected = np.maximum(a, 0) @ b.swapaxes(1, 2) + 1, a.round() @ b.round().swapaxes(1, 2), a[0] @ b.swapaxes(1, 2)
    for there, here in zip(found, expected, strict=True):
        assert np.allclose(there.numpy(), here, 1e-4, 1e-4)
    dots = [kernel for kernel in step.plan.kernels if kernel.archetype == "dot"]
    assert dots
    assert not any("var<workgroup>" in kernel.source for kernel in dots)


@pytest.mark.parametrize(
    ("shape", "out", "options"),
    [
        ((4, 8, 16, 16), 3, {"padding": 1}),
        ((3, 8, 15, 17), 3, {"padding": 1}),  # the last workgroup has columns that there are not
        ((3, 10, 20, 20), 2, {"padding": 2, "dilation": 2}),
        ((5, 6, 13, 13), 1, {}),
        ((2, 8, 32, 32), 4, {"stride": 2, "padding": 1}),
        ((2, 8, 20, 20), 6, {"padding": 1, "groups": 2}),
    ],
    ids=str,
)
def test_convolutions_to_few_channels(shape: tuple[int, ...], out: int, options: dict[str, int], webgpu: str) -> None:
    """A thread has all channels of a place. What is before and behind is part of the kernel."""
    x, w, b = drawn(*shape), drawn(out, shape[1] // options.get("groups", 1), 3, 3), drawn(out)
    step = sg.compile(lambda x, w, b: nn.functional.conv2d(x.relu(), w, b, **options).relu() * 2)
    found = step(*(sg.tensor(each, device=webgpu) for each in (x, w, b))).numpy()
    wide, weight, bias = (torch.tensor(each).double() for each in (np.maximum(x, 0), w, b))
    same = torch.nn.functional.conv2d(wide, weight, bias, **options)
    assert_close(found, same.relu().numpy() * 2, rtol=1e-5, atol=2e-5)
    gpu: Any = get_device(webgpu)
    if gpu.target.traits.unrolls and not gpu.target.shuffles(same.numel() * w[0].size):
        assert "(narrow" in next(kernel.shape for kernel in step.plan.kernels if kernel.archetype == "dot")


def test_convolutions_of_integers_to_few_channels(webgpu: str) -> None:
    x, w = drawn(2, 8, 17, 17) * 9, drawn(3, 8, 3, 3) * 9
    x, w = x.astype(np.int32), w.astype(np.int32)
    found = nn.functional.conv2d(sg.tensor(x, device=webgpu), sg.tensor(w, device=webgpu)).numpy()
    same = torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(w))
    assert_close(found, same.numpy(), rtol=0, atol=0)


def test_a_product_joined_to_others_at_its_own_place(webgpu: str) -> None:
    """What begins with a product and is cut to its size: four neighbours are computed one by one, each of its own sum."""
    a, b, c = drawn(2, 9, 14), drawn(2, 14, 20), drawn(18)
    step = sg.compile(lambda a, b, c: sg.cat([(a @ b).reshape(-1), c])[:360])
    found = step(*(sg.tensor(x, device=webgpu) for x in (a, b, c))).numpy()
    assert_close(found, (a @ b).reshape(-1), rtol=1e-5, atol=1e-5)
