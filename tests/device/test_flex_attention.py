"""Attention with scores and masks of one's own, and the choice of ways. As PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.attention.flex_attention as theirs

import shadergrad as sg
import shadergrad.nn.attention.flex_attention as ours
from helpers import assert_close
from shadergrad.nn.attention import SDPBackend, sdpa_kernel

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's, of flex_attention without torch.compile

SLOPES = np.array([0.5, 0.25], np.float32)
DOCUMENTS = np.array([0, 0, 1, 1, 1, 2])

SCORES: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda lib, d: None,
    "relative": lambda lib, d: lambda s, b, h, q, k: s + (q - k),
    "alibi": lambda lib, d: (lambda slopes: lambda s, b, h, q, k: s + slopes[h] * (k - q))(
        lib.tensor(SLOPES, device=d)
    ),
    "causal": lambda lib, d: lambda s, b, h, q, k: lib.where(q >= k, s, -float("inf")),
    "soft cap": lambda lib, d: lambda s, b, h, q, k: (s / 2.0).tanh() * 2.0,
}
MASKS: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda lib, d: None,
    "causal": lambda lib, d: lambda b, h, q, k: q >= k,
    "documents": lambda lib, d: (lambda of: lambda b, h, q, k: of[q] == of[k])(lib.tensor(DOCUMENTS, device=d)),
    "first heads": lambda lib, d: lambda b, h, q, k: (h < 1) & (q >= k),
}


def given(lib: Any, device: Any, gqa: bool) -> list[Any]:
    rng = np.random.default_rng(0)
    heads = (2, 1, 1) if gqa else (2, 2, 2)
    return [lib.tensor(rng.standard_normal((2, h, 6, 4)).astype(np.float32), device=device) for h in heads]


def called(
    lib: Any, room: Any, device: Any, score: str, mask: str, aux: bool, gqa: bool, tensors: list[Any]
) -> list[Any]:
    mod, allowed = SCORES[score](lib, device), MASKS[mask](lib, device)
    block = None if allowed is None else room.create_block_mask(allowed, None, 2, 6, 6, device=device)
    options: dict[str, Any] = {"return_aux": room.AuxRequest(lse=True)} if aux else {}
    found = room.flex_attention(*tensors, mod, block, enable_gqa=gqa, **options)
    return [found[0], found[1].lse] if aux else [found]


def gradients(lib: Any, out: Any, tensors: list[Any]) -> list[Any]:
    (out * out).sum().backward()
    return [t.grad for t in tensors]


def plain(score: str, mask: str, gqa: bool, tensors: list[Any]) -> Any:
    """Of PyTorch's operators: its flex_attention has no backward pass on the CPU."""
    q, k, v = tensors
    if gqa:
        k, v = k.expand(-1, 2, -1, -1), v.expand(-1, 2, -1, -1)
    places = [torch.arange(n).reshape([n if a == j else 1 for j in range(4)]) for a, n in enumerate((2, 2, 6, 6))]
    scores = q @ k.mT * 0.5
    mod, allowed = SCORES[score](torch, "cpu"), MASKS[mask](torch, "cpu")
    scores = scores if mod is None else mod(scores, *places)
    seen = torch.ones(1, 1, 6, 6, dtype=torch.bool) if allowed is None else allowed(*places)
    weights = torch.where(seen, scores, -1e30).softmax(-1)
    return torch.where(seen.any(-1, keepdim=True), weights @ v, 0.0)


def check(device: str, score: str, mask: str, aux: bool, gqa: bool) -> None:
    leaves = [t.requires_grad_() for t in given(sg, device, gqa)]
    found = called(sg, ours, device, score, mask, aux, gqa, leaves)
    expected = called(torch, theirs, "cpu", score, mask, aux, gqa, given(torch, "cpu", gqa))
    for own, other in zip(found, expected, strict=True):
        assert_close(own.detach(), other.numpy(), 2e-4, 2e-5)
    their_leaves = [t.requires_grad_() for t in given(torch, "cpu", gqa)]
    wanted = gradients(torch, plain(score, mask, gqa, their_leaves), their_leaves)
    for own, other in zip(gradients(sg, found[0], leaves), wanted, strict=True):
        assert_close(own, other.numpy(), 2e-4, 2e-5)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_scores_and_masks_are_pytorchs(score: str, mask: str, device: str) -> None:
    aux = mask != "first heads"  # PyTorch's logarithms of rows that see nothing are its own
    check(device, score, mask, aux, False)


def test_grouped_heads_are_pytorchs(device: str) -> None:
    check(device, "relative", "causal", False, True)


def test_masks_join() -> None:
    def shown(lib: Any, room: Any) -> Any:
        near, back = (lambda b, h, q, k: q - k < 2), (lambda b, h, q, k: q >= k)
        both, either = room.and_masks(near, back), room.or_masks(back, room.noop_mask)
        return [room.create_mask(m, 1, 1, 4, 5, device="cpu").tolist() for m in (both, either)]

    assert shown(sg, ours) == shown(torch, theirs)


def test_flex_attention_within_a_compiled_step(device: str) -> None:
    q = sg.rand(1, 2, 6, 4, device=device)
    mask = ours.create_block_mask(lambda b, h, i, j: i >= j, None, None, 6, 6, device=device)
    call = lambda x: ours.flex_attention(x, x, x, lambda s, b, h, i, j: s + i - j, mask)  # noqa: E731
    assert_close(sg.compile(call)(q), call(q).numpy(), 1e-6, 1e-6)


def test_what_does_not_fit_is_refused() -> None:
    q = sg.ones(1, 2, 6, 4)
    with pytest.raises(sg.ShapeError, match="create_block_mask"):
        ours.flex_attention(q, q, q, None, ours.create_block_mask(lambda b, h, i, j: i >= j, None, None, 4, 4))
    with pytest.raises(ValueError, match="enable_gqa"):
        ours.flex_attention(q, q[:, :1], q[:, :1])
    with pytest.raises(ValueError, match="bools"):
        ours.create_block_mask(lambda b, h, i, j: i - j, None, None, 4, 4)
    with pytest.raises(NotImplementedError, match="create_block_mask"):
        ours.BlockMask.from_kv_blocks()


def test_a_way_of_attention_is_chosen(device: str) -> None:
    q = sg.rand(1, 1, 16, 16, device=device)
    step = lambda: sg.nn.functional.scaled_dot_product_attention(q, q, q)  # noqa: E731
    expected = step().numpy()
    for backends in (SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], SDPBackend.EFFICIENT_ATTENTION):
        with sdpa_kernel(backends):
            compiled = sg.compile(step)
            assert_close(compiled(), expected, 1e-5, 1e-5)
            names = " ".join(row.name for row in compiled.plan.kernels) if hasattr(compiled.plan, "kernels") else ""
            assert ("attention" in names) == (backends is not SDPBackend.MATH) or not names
    with pytest.raises(TypeError, match="Backend must be"), sdpa_kernel("math"):
        pass
    assert [b.name for b in SDPBackend] == [
        b.name for b in SDPBackend if hasattr(torch.nn.attention.SDPBackend, b.name)
    ]


def test_the_largest_scores_are_given() -> None:
    q = sg.rand(1, 2, 6, 4)
    _, more = ours.flex_attention(q, q, q, return_aux=ours.AuxRequest(max_scores=True))
    assert more.lse is None
    assert_close(more.max_scores, ((q @ q.mT) * 0.5).amax(-1).numpy(), 1e-6, 1e-6)
    _, lse = ours.flex_attention(q, q, q, return_lse=True)
    assert_close(lse, ((q @ q.mT) * 0.5).logsumexp(-1).numpy(), 1e-6, 1e-6)
