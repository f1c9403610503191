"""Multi-head attention with its weights as arguments: PyTorch's functional form of nn.MultiheadAttention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...dtypes import bool_
from ...errors import DTypeError, ShapeError
from ...tensor import Tensor, cat, where, zeros
from .dropout import dropout
from .linear import linear

__all__ = ["multi_head_attention_forward"]


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """softmax(q k^T / sqrt(d)) v for num_heads parts, with linear maps before and after (Vaswani et al., 2017).

    Arguments and results as in nn.MultiheadAttention; query (L, N, E), key and value (S, N, E), or without N.
    static_k, static_v (N num_heads, S, d): replace the projected key and value. ShapeError if sizes do not fit,
    DTypeError for masks of integers.

    >>> x, w = sg.ones(2, 1, 2), sg.eye(2)
    >>> F.multi_head_attention_forward(
    ...     x, x, x, 2, 1, w.repeat(3, 1), None, None, None, False, 0.0, w, None
    ... )[0].flatten()
    tensor([1., 1., 1., 1.])
    """
    batched = query.ndim == 3
    q, k, v = (query, key, value) if batched else (t.unsqueeze(1) for t in (query, key, value))
    length, batch, size = q.shape
    if size != embed_dim_to_check or size % num_heads:
        raise ShapeError(
            f"was expecting embedding dimension of {embed_dim_to_check}, divisible by {num_heads}, but got {size}"
        )
    if is_causal and attn_mask is None:
        raise ShapeError("Need attn_mask if specifying the is_causal hint.")
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight
    q, k, v = _projected((q, k, v), weights, in_proj_bias)
    mask = _masks(
        attn_mask,
        key_padding_mask if batched or key_padding_mask is None else key_padding_mask.unsqueeze(0),
        batch,
        num_heads,
        q,
    )
    if bias_k is not None and bias_v is not None:
        k, v = (cat([t, b.expand(1, batch, size)]) for t, b in ((k, bias_k), (v, bias_v)))
        mask = _widened(mask)
    depth = size // num_heads

    def heads(t: Tensor) -> Tensor:
        return t.reshape(t.shape[0], batch * num_heads, depth).transpose(0, 1)

    q, k, v = heads(q), heads(k) if static_k is None else static_k, heads(v) if static_v is None else static_v
    if add_zero_attn:
        empty = zeros(batch * num_heads, 1, depth, dtype=k.dtype, device=k.device)
        k, v, mask = cat([k, empty], 1), cat([v, empty], 1), _widened(mask)
    scores = (q @ k.transpose(1, 2)) * (1.0 / math.sqrt(depth))
    if mask is not None:
        scores = scores + mask
    attention = scores.softmax(-1)
    attention = dropout(attention, dropout_p) if training and dropout_p else attention
    found = (attention @ v).transpose(0, 1).reshape(length, batch, size)
    result = linear(found, out_proj_weight, out_proj_bias)
    result = result if batched else result.squeeze(1)
    if not need_weights:
        return result, None
    shown = attention.reshape(batch, num_heads, length, -1)
    shown = shown.mean(1) if average_attn_weights else shown
    return result, shown if batched else shown.squeeze(0)


def _projected(
    inputs: tuple[Tensor, ...], weights: Tensor | Sequence[Tensor | None] | None, bias: Tensor | None
) -> list[Tensor]:
    """Queries, keys and values for all heads together. weights: one matrix for all three, or three."""
    each = [None] * 3 if weights is None else weights.chunk(3) if isinstance(weights, Tensor) else weights
    biases = [None] * 3 if bias is None else bias.chunk(3)
    if any(w is None for w in each):
        raise ShapeError(
            "use_separate_proj_weight is False but in_proj_weight is None, or True and one of the three is"
        )
    return [linear(t, w, b) for t, w, b in zip(inputs, each, biases, strict=True)]  # type: ignore[arg-type]


def _masks(attention: Tensor | None, padding: Tensor | None, batch: int, heads: int, q: Tensor) -> Any:
    """Both masks as numbers that are added to the scores (N heads, L, S), or None."""
    mask: Any = None
    if attention is not None:
        mask = _added(attention, q)
        mask = mask.unsqueeze(0) if mask.ndim == 2 else mask
    if padding is not None:
        wide = _added(padding, q).reshape(batch, 1, 1, -1).expand(batch, heads, 1, padding.shape[-1])
        wide = wide.reshape(batch * heads, 1, padding.shape[-1])
        mask = wide if mask is None else mask + wide
    return mask


def _added(mask: Tensor, q: Tensor) -> Tensor:
    """A mask as numbers: -inf where a bool forbids attention."""
    if mask.dtype is bool_:
        return where(mask, -math.inf, zeros(1, dtype=q.dtype, device=q.device))
    if not mask.is_floating_point():
        raise DTypeError(f"only bool and floating types of masks are supported, not {mask.dtype.name}.")
    return mask


def _widened(mask: Any) -> Any:
    """The mask with one further key, to which attention is allowed."""
    return None if mask is None else mask.pad((0, 1))
