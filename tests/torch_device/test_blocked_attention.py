"""PyTorch's attention on the device: by blocks where it can, with gradients; the layers that PyTorch calls whole for inference."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

D = "webgpu"
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 4, 7, 8), (2, 4, 7, 8), {}),
    "causal": ((2, 4, 7, 8), (2, 4, 7, 8), {"is_causal": True}),
    "fewer heads of keys": ((2, 4, 7, 8), (2, 2, 9, 8), {"enable_gqa": True}),
    "hidden": ((2, 4, 7, 8), (2, 4, 9, 8), {"attn_mask": torch.arange(63).reshape(7, 9) % 5 > 0}),
    "biased": ((2, 4, 7, 8), (2, 4, 9, 8), {"attn_mask": torch.linspace(-1, 1, 126).reshape(2, 1, 7, 9), "scale": 0.3}),
    "three axes": ((4, 7, 8), (4, 9, 8), {}),
}


def on(device: str, options: dict[str, Any]) -> dict[str, Any]:
    return {k: v.to(device) if isinstance(v, Tensor) else v for k, v in options.items()}


@pytest.mark.parametrize("case", CASES)
def test_attention_and_its_gradients_are_pytorchs(case: str, torch_device: Any) -> None:
    of_queries, of_keys, options = CASES[case]
    q, k, v, g = (torch.randn(s) for s in (of_queries, of_keys, of_keys, of_queries))
    found = []
    for device in ("cpu", D):
        leaves = [t.to(device).requires_grad_() for t in (q, k, v)]
        y = F.scaled_dot_product_attention(*leaves, **on(device, options))  # type: ignore[arg-type]
        found.append([y, *torch.autograd.grad(y, leaves, g.to(device))])
    assert ("Overrideable" in type(found[1][0].grad_fn).__name__) == (len(of_queries) == 4)
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-4, atol=1e-5)


def test_a_program_may_ask_for_the_formula(torch_device: Any) -> None:
    x = torch.randn(1, 2, 3, 4, device=D).requires_grad_()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        y = F.scaled_dot_product_attention(x, x, x)
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert torch.autograd.grad(slope.square().sum(), x)[0].shape == x.shape
    trained = torch.zeros(3, 3, device=D).requires_grad_()
    F.scaled_dot_product_attention(x, x, x, trained).sum().backward()
    assert trained.grad is not None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("masked", ["", "padding", "causal", "both"])
def test_encoders_in_inference_are_pytorchs(masked: str, norm_first: bool, torch_device: Any) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first, activation="gelu")
    model = nn.TransformerEncoder(layer, 2).eval()
    twin = copy.deepcopy(model).to(D)
    x = torch.randn(3, 5, 16)
    padding = torch.arange(5)[None] >= torch.tensor([5, 3, 4])[:, None]
    options: dict[str, Any] = {}
    if masked in ("padding", "both"):
        options["src_key_padding_mask"] = torch.zeros(3, 5).masked_fill(padding, -torch.inf)
    if masked in ("causal", "both"):
        options["mask"] = nn.Transformer.generate_square_subsequent_mask(5)
    with torch.no_grad():
        expected, got = model(x, **options), twin(x.to(D), **on(D, options)).cpu()
    kept = ~padding if masked in ("padding", "both") else slice(None)
    torch.testing.assert_close(got[kept], expected[kept], rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"need_weights": False}, {"average_attn_weights": False}])
def test_multi_head_attention_in_inference_is_pytorchs(options: dict[str, Any], torch_device: Any) -> None:
    layer = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    twin = copy.deepcopy(layer).to(D)
    x = torch.randn(3, 5, 16)
    d = x.to(D)
    with torch.no_grad():
        expected, got = layer(x, x, x, **options), twin(d, d, d, **options)
    for a, b in zip(expected, got, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(b.cpu(), a, rtol=1e-4, atol=1e-5)
