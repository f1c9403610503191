"""Attention (Vaswani et al., 2017)."""

from __future__ import annotations

import math
import threading

from ...dtypes import bool_, float32, float64
from ...errors import DTypeError, ShapeError
from ...graph import node as nodes
from ...primitives.attention import Attention
from ...primitives.attention_layouts import lies_by_row
from ...symbolic_sizes import hint
from ...tensor import Tensor, arange, default_generator, where
from .device_overrides import overridable
from .dropout import check_probability, dropout

__all__ = ["scaled_dot_product_attention"]


class _Ways(threading.local):
    composed_alone = False  # no fused kernels: nn.attention.sdpa_kernel


ways = _Ways()
SHORTEST = 8  # queries or keys from which on the fused kernels are faster
HEADS = (16, 128)  # head sizes that they support


@overridable
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query key^T scale + mask) value (Vaswani et al., 2017).

    query (..., L, E), key (..., S, E), value (..., S, Ev): (..., L, Ev). attn_mask, broadcast to (..., L, S): bools,
    true where attention is allowed, or floats that are added. is_causal: row i sees columns up to i. scale:
    1 / sqrt(E) by default. dropout_p: the fraction of the weights that is dropped; also in inference, so give 0 there.
    enable_gqa: every head of key and value, axis -3, serves several of query. A row without allowed keys gives 0.
    For heads of 16 to 128, blockwise kernels compute it: memory grows with L + S, not L S, forward and backward (Dao, 2023).

    ShapeError for a mask together with is_causal, and for heads that do not divide those of query; DTypeError for a mask of
    integers.

    >>> query, key = sg.zeros(2, 1), sg.ones(2, 1)
    >>> F.scaled_dot_product_attention(query, key, sg.tensor([[2.0], [4.0]]), is_causal=True)
    tensor([[2.],
            [3.]])
    """
    if is_causal and attn_mask is not None:
        raise ShapeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    check_probability("scaled_dot_product_attention", dropout_p)
    if enable_gqa:
        key, value = (repeated_heads(x, query.shape[-3]) for x in (key, value))
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    if _is_fused(query, key, value, attn_mask, dropout_p):
        return fused_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    return composed_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)


def composed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
) -> Tensor:
    """`scaled_dot_product_attention` as tensor operations, with the whole matrix of weights."""
    scores = (query * scale) @ key.transpose(-2, -1)
    if is_causal:
        rows, columns = scores.shape[-2:]
        attn_mask = arange(rows, device=query.device).unsqueeze(1) >= arange(columns, device=query.device)
    weights = dropout(masked_softmax(scores, attn_mask), dropout_p)
    return weights @ value


def _is_fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float) -> bool:
    """Whether blockwise kernels exist for these inputs. The answer is the same on every device, so that dropout drops the same
    weights.
    """
    if (
        ways.composed_alone
        or query.ndim < 2
        or key.shape != value.shape
        or query.shape[-1] != key.shape[-1]
        or query.shape[:-2] != key.shape[:-2]
    ):
        return False
    if not query.dtype is key.dtype is value.dtype or query.dtype not in (float32, float64) or dropout_p == 1.0:
        return False
    if mask is not None and (mask.requires_grad or (mask.dtype is not bool_ and mask.dtype is not query.dtype)):
        return False
    if mask is not None and (mask.ndim > query.ndim or not _broadcasts(mask, (*query.shape[:-1], key.shape[-2]))):
        return False
    suits = HEADS[0] <= query.shape[-1] <= HEADS[1]
    return suits and min(hint(query.shape[-2]), hint(key.shape[-2])) >= SHORTEST and query.numel() > 0


def _broadcasts(mask: Tensor, shape: tuple[int, ...]) -> bool:
    return all(m in (1, n) for m, n in zip(reversed(mask.shape), reversed(shape), strict=False))


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
) -> Tensor:
    """Blockwise `scaled_dot_product_attention`: memory grows with L + S, not with their product (Dao, 2023). The result has the
    query's memory layout, with heads joined or apart.
    """
    shape, filling = query.shape, -query.shape[-1] % 4
    if filling:  # padded with zeros, which do not change the scores
        query, key, value = (x.pad((0, filling)) for x in (query, key, value))
    q, k, v = (_four_axes(x) for x in (query, key, value))
    given = [q, k, v]
    if attn_mask is not None:
        mask = attn_mask.reshape(*(1,) * (len(shape) - attn_mask.ndim), *attn_mask.shape)
        if len(shape) > 4 and math.prod(mask.shape[:-3]) > 1:
            mask = mask.expand(*shape[:-3], *mask.shape[-3:])
        given.append(_four_axes(mask))
    nodes_given = [x._node for x in given]
    if dropout_p:
        nodes_given.append(default_generator(query.device).bits((2,)))
    by_row = lies_by_row(q._node)
    has_gradient = nodes.mode.grad and any(x.requires_grad for x in nodes_given)
    call = Attention(float(scale), is_causal, attn_mask is not None, float(dropout_p), by_row, has_gradient)
    flat = Tensor._of(nodes.make(call, *nodes_given))
    result = flat._view(lambda x: call.result_of(x, q.shape))
    return result[..., : shape[-1]].reshape(*shape)


def _four_axes(x: Tensor) -> Tensor:
    """(..., heads, L, E) with all axes before the heads as one."""
    return x.reshape(*(1,) * (4 - x.ndim), *x.shape) if x.ndim < 5 else x.reshape(-1, *x.shape[-3:])


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """softmax along the last axis over the elements that a mask of bools allows, or with a numeric mask added; a row without
    allowed elements gives 0.
    """
    if mask is None:
        return scores.softmax(-1)
    if mask.dtype is bool_:
        scores = where(mask, scores, -math.inf)
    elif mask.dtype.category == 2:
        scores = scores + mask
    else:
        raise DTypeError(f"Expected attn_mask dtype to be bool or float, but got {mask.dtype.name}.")
    top = scores.detach().amax(-1, keepdim=True)
    powers = (scores - where(top.isfinite(), top, 0.0)).exp()
    total = powers.sum(-1, keepdim=True)
    return powers / where(total == 0.0, 1.0, total)


def repeated_heads(x: Tensor, heads: int) -> Tensor:
    """Each head, axis -3, repeated so that there are `heads`."""
    own = x.shape[-3]
    if heads % own:
        raise ShapeError(f"[scaled_dot_product_attention] {heads} heads of query for {own} of key and value.")
    wider = x.unsqueeze(-3)
    wider = wider.expand(*x.shape[:-2], heads // own, *x.shape[-2:])
    return wider.reshape(*x.shape[:-3], heads, *x.shape[-2:])
