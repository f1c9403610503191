"""Attention by blocks: against PyTorch and the composed form over shapes, masks, head sizes and blocks, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close
from shadergrad import nn
from shadergrad.compile import attention as choosing
from shadergrad.compile.attention import BACKWARD, FORWARD
from shadergrad.drive.execute import programs
from shadergrad.nn import functional as F
from shadergrad.nn.functional.attention import composed_attention
from shadergrad.primitives import attention_shader
from shadergrad.primitives.attention_tiles import Blocks
from shadergrad.runtime.device import get_device

Arrays = list[np.ndarray]


def padding(n: int, heads: int, rows: int, columns: int) -> np.ndarray:
    """The last columns of the first sample are padding."""
    return np.arange(columns) < np.array([columns - 3] + [columns] * (n - 1))[:, None, None, None]


def numbers(n: int, heads: int, rows: int, columns: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.where(rng.random((rows, columns)) < 0.3, -np.inf, rng.normal(size=(rows, columns)))


def of_heads(n: int, heads: int, rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(1, heads, 1, columns))


def nothing_for_some(n: int, heads: int, rows: int, columns: int) -> np.ndarray:
    mask = np.random.default_rng(3).random((n, 1, rows, columns)) < 0.7
    mask[:, :, 1] = False
    return mask


MASKS: dict[str, Callable[..., np.ndarray] | None] = {
    "plain": None,
    "causal": None,
    "padding": padding,
    "numbers": numbers,
    "numbers of heads": of_heads,
    "rows that see nothing": nothing_for_some,
}
GRID = [
    ("plain", (2, 2, 8, 8, 16)),
    ("plain", (1, 1, 65, 65, 128)),
    ("causal", (1, 2, 70, 40, 64)),
    ("causal", (1, 1, 33, 70, 20)),
    ("padding", (2, 1, 33, 70, 32)),
    ("numbers", (1, 2, 40, 64, 17)),
    ("numbers of heads", (2, 2, 9, 12, 16)),
    ("rows that see nothing", (2, 1, 40, 35, 24)),
]


def draw(n: int, heads: int, rows: int, columns: int, d: int) -> Arrays:
    """q, k, v and the gradient of the result."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, heads, length, d)) for length in (rows, columns, columns, rows)]


def ours(arrays: Arrays, device: str, attend: Callable[..., Any], mask: np.ndarray | None = None) -> Arrays:
    """The result and the gradients of q, k and v."""
    dtype = sg.float64 if device == "cpu" else sg.float32
    *qkv, g = (sg.tensor(a, dtype=dtype, device=device) for a in arrays)
    leaves = [x.requires_grad_() for x in qkv]
    given = None if mask is None else sg.tensor(mask, dtype=None if mask.dtype == bool else dtype, device=device)
    result = attend(*leaves, given)
    (result * g).sum().backward()
    return [result.detach().numpy(), *(x.grad.numpy() for x in leaves if x.grad is not None)]


def torchs(arrays: Arrays, mask: np.ndarray | None, causal: bool) -> Arrays:
    q, k, v = (torch.tensor(a, requires_grad=True) for a in arrays[:3])
    given = None if mask is None else torch.tensor(mask)
    result = F_torch(q, k, v, attn_mask=given, is_causal=causal)
    (result * torch.tensor(arrays[3])).sum().backward()
    return [result.detach().numpy(), *(x.grad.numpy() for x in (q, k, v) if x.grad is not None)]


F_torch = torch.nn.functional.scaled_dot_product_attention


def assert_equal(found: Arrays, expected: Arrays, rtol: float, atol: float) -> None:
    for name, a, b in zip(("result", "q", "k", "v"), found, expected, strict=True):
        assert_close(a, np.nan_to_num(b), rtol, atol, name)


@pytest.mark.parametrize(("mask", "shape"), GRID, ids=str)
def test_attention_by_blocks_equals_pytorchs(mask: str, shape: tuple[int, ...], device: str) -> None:
    n, heads, rows, columns, _ = shape
    arrays, make = draw(*shape), MASKS[mask]
    given = make(n, heads, rows, columns) if make else None
    causal = mask == "causal"
    found = ours(arrays, device, lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, is_causal=causal), given)
    tolerance = (1e-9, 1e-9) if device == "cpu" else (1e-4, 1e-5)
    assert_equal(found, torchs(arrays, given, causal), *tolerance)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("blocks", [*FORWARD, *BACKWARD, Blocks(128, 32, 128, 16)], ids=str)
def test_every_size_of_blocks_gives_the_same(
    blocks: Blocks, causal: bool, webgpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that fit the adapter, and one taller than broad; rows and columns fill none."""
    if 16 * blocks.pool > get_device(webgpu).target.max_workgroup_storage:
        pytest.skip("the adapter has too little workgroup memory")
    monkeypatch.setattr(choosing, "choose_blocks", lambda *_: blocks)
    arrays = draw(1, 1, 150, 136, 32)
    programs.clear()
    found = ours(arrays, webgpu, lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
    programs.clear()
    assert_equal(found, torchs(arrays, None, causal), 1e-4, 1e-5)


SHARED_GRID = [("plain", (1, 2, 64, 290, 32)), ("causal", (1, 2, 150, 290, 64)), ("padding", (2, 1, 70, 260, 20))]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize(("mask", "shape"), SHARED_GRID, ids=str)
def test_keys_divided_into_shares_give_the_same(
    mask: str, shape: tuple[int, ...], dropout: float, webgpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two shares of a head's five blocks of keys: each has a gradient of q of its own, for some of them the sum of three
    blocks. In the causal case some keys are seen by no query."""
    monkeypatch.setattr(choosing, "ENOUGH_WORKGROUPS", 4)
    make, options = MASKS[mask], {"is_causal": mask == "causal", "dropout_p": dropout}
    given = make(*shape[:4]) if make else None

    @sg.compile
    def step(q: Any, k: Any, v: Any, g: Any) -> Any:
        for x in (q, k, v):
            x.requires_grad_()
        m = None if given is None else sg.tensor(given, device=q.device)
        result = F.scaled_dot_product_attention(q, k, v, m, **options)
        return result, *sg.autograd.grad(result, [q, k, v], g)

    programs.clear()
    found: list[Arrays] = []
    for device in (webgpu, "cpu"):
        sg.manual_seed(5)
        q, k, v, g = (sg.tensor(a.astype(np.float32), device=device) for a in draw(*shape))
        found.append([x.numpy() for x in step(q, k, v, g)])
        names = [step.plan.kernels[d.kernel].name for d in step.plan.dispatches]
        assert ("laidshares" in names) == (device == webgpu), names
    programs.clear()
    assert_equal(found[0], found[1], 1e-4, 1e-5)


def test_text_for_browsers_gives_the_same(webgpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no single components of vectors are written, neither in workgroup memory nor in the result."""
    kernel = attention_shader.Writer.__init__

    def for_browsers(self: Any, p: Any, choice: Any, layouts: Any) -> None:
        kernel(self, p, replace(choice, scalar_pool=True), layouts)

    monkeypatch.setattr(attention_shader.Writer, "__init__", for_browsers)
    arrays = draw(1, 2, 40, 35, 20)
    programs.clear()
    found = ours(arrays, webgpu, lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v))
    programs.clear()
    assert_equal(found, torchs(arrays, None, False), 1e-4, 1e-5)


@pytest.mark.slow
def test_a_sequence_of_4096(webgpu: str) -> None:
    arrays = draw(1, 1, 4096, 4096, 16)
    found = ours(arrays, webgpu, lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    assert_equal(found, torchs(arrays, None, True), 1e-4, 1e-4)


def dropped(arrays: Arrays, device: str, p: float, **options: Any) -> Arrays:
    sg.manual_seed(5)
    return ours(arrays, device, lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, dropout_p=p, **options))


@pytest.mark.parametrize(("rows", "columns"), [(9, 9), (40, 35), (70, 64)])
def test_the_same_weights_are_dropped_on_every_device(rows: int, columns: int, webgpu: str) -> None:
    """Odd and even numbers of columns: two of them share a random draw."""
    arrays = draw(2, 2, rows, columns, 16)
    found, expected = dropped(arrays, webgpu, 0.3), dropped(arrays, "cpu", 0.3)
    assert_equal(found, expected, 1e-4, 1e-5)
    assert not np.allclose(
        found[0], ours(arrays, webgpu, lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v))[0]
    )


def test_as_many_weights_are_dropped_as_asked_for(device: str) -> None:
    """Of equal weights, with values of ones, a result is the share that is kept, by what is left of all."""
    q, ones = sg.zeros(4, 8, 64, 16, device=device), sg.ones(4, 8, 64, 16, device=device)
    sg.manual_seed(1)
    first = F.scaled_dot_product_attention(q, q, ones, dropout_p=0.25).numpy()
    second = F.scaled_dot_product_attention(q, q, ones, dropout_p=0.25).numpy()
    assert abs(first.mean() - 1.0) < 0.01
    assert abs(first[..., 0].std() - np.sqrt(0.25 / 0.75 / 64)) < 0.005
    assert not np.array_equal(first, second)
    assert len({row.tobytes() for row in first[..., 0].reshape(32, 64)}) == 32, "heads differ"


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"dropout_p": 0.4}], ids=str)
def test_the_gradient_that_is_differentiated_is_the_same_gradient(options: dict[str, Any], device: str) -> None:
    """With create_graph it has the whole matrix; so it must be right with dropout and masks, too."""
    arrays = [a.astype(np.float32) for a in draw(1, 2, 9, 12, 16)]
    found: list[Arrays] = []
    for create_graph in (False, True):
        sg.manual_seed(2)
        q, k, v = (sg.tensor(a, device=device, requires_grad=True) for a in arrays[:3])
        result = F.scaled_dot_product_attention(q, k, v, **options)
        slopes = sg.autograd.grad(result, [q, k, v], sg.tensor(arrays[3], device=device), create_graph=create_graph)
        found.append([s.detach().numpy() for s in slopes])
    for a, b in zip(*found, strict=True):
        assert_close(a, b, 1e-4, 1e-5)


@pytest.mark.parametrize("mask", [None, padding, numbers])
def test_second_derivatives_equal_pytorchs(mask: Callable[..., np.ndarray] | None) -> None:
    arrays = draw(1, 2, 8, 9, 16)
    given = None if mask is None else mask(1, 2, 8, 9)

    def second(lib: Any, attend: Callable[..., Any], q: Any, k: Any, v: Any, g: Any, m: Any) -> Arrays:
        slopes = lib.autograd.grad(attend(q, k, v, m), [q, k, v], g, create_graph=True)
        total = sum((s * s).sum() for s in slopes)
        return [x.detach().numpy() for x in lib.autograd.grad(total, [q, k, v])]

    q, k, v = (torch.tensor(a, requires_grad=True) for a in arrays[:3])
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        m = None if given is None else torch.tensor(given)
        expected = second(torch, F_torch, q, k, v, torch.tensor(arrays[3]), m)
    a, b, c = (sg.tensor(x, requires_grad=True) for x in arrays[:3])
    m = None if given is None else sg.tensor(given)
    found = second(sg, F.scaled_dot_product_attention, a, b, c, sg.tensor(arrays[3]), m)
    for x, y in zip(found, expected, strict=True):
        assert_close(x, y, 1e-8, 1e-9)


def test_views_of_one_array_are_read_and_written_in_place(webgpu: str) -> None:
    """q, k and v of one product, as models write it: nothing is copied before attention, and their gradients are one array."""
    x = sg.tensor(
        np.random.default_rng(0).normal(size=(2, 40, 96)).astype(np.float32), device=webgpu, requires_grad=True
    )
    g = sg.ones(2, 40, 32, device=webgpu)

    @sg.compile
    def step(x: sg.Tensor, g: sg.Tensor) -> Any:
        q, k, v = (part.reshape(2, 40, 2, 16).transpose(1, 2) for part in x.split(32, 2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 40, 32)
        return sg.autograd.grad(seen, x, g)

    (found,) = step(x, g)
    names = [step.plan.kernels[d.kernel].name for d in step.plan.dispatches]
    assert names == ["laidattention", "laidgradient"], names
    y = torch.tensor(x.detach().numpy().astype(np.float64), requires_grad=True)
    q, k, v = (part.reshape(2, 40, 2, 16).transpose(1, 2) for part in y.split(32, 2))
    F_torch(q, k, v, is_causal=True).sum().backward()
    assert y.grad is not None
    assert_close(found.numpy(), y.grad.numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("joined", [True, False])
def test_a_result_is_written_in_the_order_in_which_it_is_read(joined: bool, webgpu: str) -> None:
    """As the query lies, heads joined or apart: nothing is copied after attention."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(2, 38, 2, 16) if joined else (2, 2, 38, 16)).astype(np.float32) for _ in range(3)]

    @sg.compile
    def step(q: sg.Tensor, k: sg.Tensor, v: sg.Tensor) -> sg.Tensor:
        if not joined:
            return F.scaled_dot_product_attention(q, k, v)
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 38, 32)

    expected, found = (step(*(sg.tensor(a, device=device) for a in arrays)).numpy() for device in ("cpu", webgpu))
    assert_close(found, expected, 1e-5, 1e-6)
    names = [step.plan.kernels[d.kernel].name for d in step.plan.dispatches]
    assert names == ["laidattention"], names


def test_gradients_reach_the_views_themselves(device: str) -> None:
    """Not only the array that they are views of."""
    x = sg.tensor(
        np.random.default_rng(0).normal(size=(1, 2, 8, 16)).astype(np.float32), device=device, requires_grad=True
    )
    q = (x * 2.0).transpose(2, 3).reshape(1, 2, 16, 8).transpose(2, 3)
    loss = F.scaled_dot_product_attention(q, x.flip(2), x).square().sum()
    (slope,) = sg.autograd.grad(loss, [q], retain_graph=True)
    assert np.abs(slope.numpy()).max() > 0.1
    q.retain_grad()
    loss.backward()
    assert q.grad is not None
    assert x.grad is not None
    assert_close(q.grad.numpy(), slope.numpy(), 1e-5, 1e-6)


def test_memory_grows_with_the_length_not_with_its_square(webgpu: str) -> None:
    length = 1024
    q = sg.ones(1, 1, length, 16, device=webgpu, requires_grad=True)

    @sg.compile
    def step(q: sg.Tensor) -> Any:
        return sg.autograd.grad(F.scaled_dot_product_attention(q, q, q).sum(), q)

    step(q)
    assert sum(step.plan.slots) < length * length


def test_the_result_is_the_same_bit_for_bit(webgpu: str) -> None:
    arrays = draw(1, 2, 70, 70, 32)
    first, second = (
        ours(arrays, webgpu, lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, is_causal=True))
        for _ in range(2)
    )
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("batched", [True, False])
def test_more_axes_and_fewer_equal_the_composed_form(batched: bool, device: str) -> None:
    """(L, E), and two axes before the heads, with a mask for each of them."""
    rng = np.random.default_rng(0)
    lead = (2, 3, 2) if batched else ()
    q, k, v = (sg.tensor(rng.normal(size=(*lead, 12, 16)).astype(np.float32), device=device) for _ in range(3))
    mask = sg.tensor(rng.random((2, 3, 1, 12, 12) if batched else (12, 12)) < 0.8, device=device)
    found = F.scaled_dot_product_attention(q, k, v, mask)
    assert_close(found.numpy(), composed_attention(q, k, v, mask, 0.0, False, 0.25).numpy(), 1e-5, 1e-6)
    assert found.shape == q.shape


def test_a_mask_that_is_learned_gets_its_gradient(device: str) -> None:
    q = sg.ones(1, 1, 9, 16, device=device)
    bias = sg.zeros(1, 1, 9, 9, device=device, requires_grad=True)
    value = sg.arange(9, dtype=sg.float32, device=device).reshape(1, 1, 9, 1).expand(1, 1, 9, 16)
    F.scaled_dot_product_attention(q, q, value, bias).sum().backward()
    assert bias.grad is not None
    assert abs(bias.grad.numpy()).max() > 0


@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention_without_weights_equals_that_with(batch_first: bool, device: str) -> None:
    """The one is by blocks, the other is not; with padding, and with the causal mask that is_causal promises."""
    sg.manual_seed(0)
    layer = nn.MultiheadAttention(32, 2, batch_first=batch_first, device=device)
    x = sg.randn(2, 12, 32, device=device) if batch_first else sg.randn(12, 2, 32, device=device)
    hidden = sg.tensor(np.arange(12) >= np.array([[12], [7]]), device=device)
    causal = nn.Transformer.generate_square_subsequent_mask(12, device=device)
    for options in ({"key_padding_mask": hidden}, {"attn_mask": causal}, {"attn_mask": causal, "is_causal": True}):
        slopes = []
        for need_weights in (True, False):
            layer.zero_grad()
            result = layer(x, x, x, need_weights=need_weights, **options)[0]
            result.square().sum().backward()
            weight = layer.in_proj_weight
            assert weight is not None
            assert weight.grad is not None
            slopes.append((result.detach().numpy(), weight.grad.numpy()))
        for a, b in zip(*slopes, strict=True):
            assert_close(a, b, 1e-4, 1e-4)


def test_a_causal_promise_still_looks_at_the_masks_shape() -> None:
    layer = nn.MultiheadAttention(32, 2)
    x = sg.ones(12, 2, 32)
    with pytest.raises(sg.ShapeError, match="should be"):
        layer(x, x, x, need_weights=False, attn_mask=sg.zeros(3, 3), is_causal=True)
