"""Blockwise attention for PyTorch's scaled_dot_product_attention, and the fused layers that PyTorch calls for inference."""

from __future__ import annotations

import math
from typing import Any

import torch

import shadergrad as sg
from shadergrad.nn import functional as F

from ...tensor import Tensor
from ..halves import HALVES
from ..private import overrideable_attention_is_enabled
from ..table import composite, kernel, on_tensors
from .gradients import gradients

aten = torch.ops.aten


def _is_by_blocks(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, dropout: float) -> bool:
    """Whether the blockwise kernel applies: no dropout, no trained mask, and torch.nn.attention.sdpa_kernel does not exclude it."""
    return (
        overrideable_attention_is_enabled()
        and not dropout
        and q.dim() == k.dim() == v.dim() == 4
        and 0 not in q.shape
        and 0 not in k.shape
        and q.dtype in (torch.float32, *HALVES)
        and (mask is None or not mask.requires_grad)
    )


@composite("scaled_dot_product_attention")
def scaled_dot_product_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: Any = None, enable_gqa: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Chooses the kernel, because PyTorch's own choice does not support a device in Python."""
    if not _is_by_blocks(q, k, v, attn_mask, dropout_p) or (q.shape[1] != k.shape[1] and not enable_gqa):
        return aten._scaled_dot_product_attention_math(
            q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )[0]
    if attn_mask is not None and is_causal:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    return aten._scaled_dot_product_fused_attention_overrideable(
        q, k, v, attn_mask, 0.0, is_causal, False, scale=scale
    )[0]


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool, scale: Any) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale, q.shape[1] != k.shape[1])


@kernel("_scaled_dot_product_fused_attention_overrideable")
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Any = None, dropout: float = 0.0, causal: bool = False, debug: bool = False, *, scale: Any = None
) -> Any:  # fmt: skip
    """The result, and PyTorch's eight further results, of which only the two lengths are set: the gradient recomputes the weights."""
    y = _attention(q, k, v, mask, causal, scale)
    nothing = sg.zeros(0, dtype=q.dtype, device=q.device)
    none = sg.zeros(0, dtype=sg.int64, device=q.device)
    return y, nothing, none, none, q.shape[2], k.shape[2], none, none, nothing


@kernel("_scaled_dot_product_fused_attention_overrideable_backward")
def attention_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Any, asked: Any, y: Tensor, sums: Tensor, starts_q: Any, starts_k: Any,
    most_q: int, most_k: int, dropout: float, causal: bool, seed: Any, offset: Any, *, scale: Any = None,
) -> Any:  # fmt: skip
    dq, dk, dv = gradients(lambda q, k, v: _attention(q, k, v, mask, causal, scale), [q, k, v], g)
    return dq if asked[0] else None, dk if asked[1] else None, dv if asked[2] else None, None


def _bias(mask: Any, kind: Any, x: Tensor) -> Any:
    """-inf where a mask of PyTorch's inference paths is not zero. kind 0: (l, l), 1: (batch, l), 2: (batch, heads, l, l)."""
    if mask is None:
        return None
    hidden = mask if mask.dtype is sg.bool else mask != 0
    if kind == 1 or (kind is None and hidden.shape == (x.shape[0], x.shape[1]) and x.shape[0] != x.shape[1]):
        hidden = hidden.reshape(x.shape[0], 1, 1, x.shape[1])
    return sg.where(hidden, -float("inf"), 0.0)


def _heads(x: Tensor, heads: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


@kernel("_native_multi_head_attention")
def multi_head_attention(
    q: Tensor, k: Tensor, v: Tensor, size: int, heads: int, w: Tensor, b: Tensor, wo: Tensor, bo: Tensor, mask: Any = None,
    need_weights: bool = True, average: bool = True, kind: Any = None,
) -> Any:  # fmt: skip
    n = w.shape[0] // 3
    parts = [
        _heads(F.linear(x, w[i * n : (i + 1) * n], b[i * n : (i + 1) * n]), heads) for i, x in enumerate((q, k, v))
    ]
    bias = _bias(mask, kind, q)
    if not need_weights:
        y, weights = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], bias), None
    else:
        scores = parts[0] @ parts[1].mT / math.sqrt(size // heads)
        weights = (scores if bias is None else scores + bias).softmax(-1)
        y = weights @ parts[2]
        weights = weights.mean(1) if average else weights
    return F.linear(y.transpose(1, 2).reshape(q.shape), wo, bo), weights


@kernel("_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    x: Tensor, size: int, heads: int, w: Tensor, b: Tensor, wo: Tensor, bo: Tensor, gelu: bool, norm_first: bool, eps: float,
    w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor,
    mask: Any = None, kind: Any = None,
) -> Tensor:  # fmt: skip
    def first(x: Tensor) -> Tensor:
        return F.layer_norm(x, (size,), w1, b1, eps)

    def second(x: Tensor) -> Tensor:
        return F.layer_norm(x, (size,), w2, b2, eps)

    def attend(x: Tensor) -> Tensor:
        return multi_head_attention(x, x, x, size, heads, w, b, wo, bo, mask, False, True, kind)[0]

    def feed(x: Tensor) -> Tensor:
        h = F.linear(x, up, up_bias)
        return F.linear(F.gelu(h) if gelu else h.relu(), down, down_bias)

    if norm_first:
        x = x + attend(first(x))
        return x + feed(second(x))
    x = first(x + attend(x))
    return second(x + feed(x))


@on_tensors("_nested_tensor_from_mask_left_aligned")
def can_be_nested(x: torch.Tensor, mask: torch.Tensor) -> bool:
    """False: nn.TransformerEncoder then computes the padding as well, and masks it."""
    return False
