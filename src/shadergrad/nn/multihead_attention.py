"""Multi-head attention (Vaswani et al., 2017, section 3.2.2)."""

from __future__ import annotations

import math
from typing import Any

from ..dtypes import DType, bool_
from ..errors import DTypeError, ShapeError
from ..tensor import Tensor, cat, empty, where, wrap, zeros
from ..tensor.composed import composed
from . import functional as F
from . import init
from .arguments import takes_tensors
from .errors import ArgumentError
from .functional.attention import ways
from .functional.dropout import check_probability
from .linear import Linear
from .module import Module
from .parameter import Parameter

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear with PyTorch's class name for the output projection, so that models print as in PyTorch."""


class MultiheadAttention(Module):
    """softmax(q k^T / sqrt(d)) v for each of num_heads parts of the embedding, with linear maps before and after.

    Vaswani et al., 2017, section 3.2.2. Shapes: query (L, N, E), key (S, N, kdim), value (S, N, vdim) give (L, N, E); N
    is first with batch_first, absent for one sample. With need_weights, the second result is the attention weights, (N, L, S)
    averaged over heads, or (N, heads, L, S). key_padding_mask (N, S) and attn_mask (L, S) or (N heads, L, S): bools,
    true where attention is NOT allowed, or numbers that are added to the scores. A row without allowed positions gives NaN
    with need_weights and 0 without, as in PyTorch.

    xavier_uniform_ initializes in_proj_weight (3 E, E), or, if the sizes differ, q_proj_weight (E, E), k_proj_weight
    (E, kdim) and v_proj_weight (E, vdim). in_proj_bias (3 E,) and out_proj.bias (E,) start as zeros, out_proj.weight (E, E)
    as in Linear. add_bias_kv: appends a learned key and value, bias_k and bias_v (1, 1, E). add_zero_attn: appends a key and
    a value of zeros. dropout: of the attention weights, in training.
    Raises ArgumentError if num_heads does not divide embed_dim, ShapeError if inputs or masks do not fit,
    DTypeError for masks of integers.

    >>> attention = nn.MultiheadAttention(4, 2, batch_first=True)
    >>> x = sg.ones(1, 3, 4)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    (shadergrad.Size([1, 3, 4]), shadergrad.Size([1, 3, 3]))
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ArgumentError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise ArgumentError(f"embed_dim must be divisible by num_heads, but got {embed_dim=}, {num_heads=}")
        super().__init__()
        check_probability("MultiheadAttention", dropout)
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        one = self._qkv_same_embed_dim
        shapes: dict[str, tuple[int, ...] | None] = {
            "q_proj_weight": None if one else (embed_dim, embed_dim),
            "k_proj_weight": None if one else (embed_dim, self.kdim),
            "v_proj_weight": None if one else (embed_dim, self.vdim),
            "in_proj_weight": (3 * embed_dim, embed_dim) if one else None,
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            value = None if shape is None else Parameter(empty(*shape, device=device, dtype=dtype))
            self.register_parameter(name, value)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    @takes_tensors
    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns (output, weights or None); see the class for shapes and masks.

        is_causal states that attn_mask is the causal mask. With attn_mask=None, is_causal replaces the mask, but only
        without need_weights, key_padding_mask, add_bias_kv and add_zero_attn: otherwise it raises ShapeError. PyTorch
        always requires the mask.
        """
        batched = self._check(query, key, value, key_padding_mask, attn_mask)
        others = need_weights or key_padding_mask is not None or self.bias_k is not None or self.add_zero_attn
        if is_causal and attn_mask is None and others:
            raise ShapeError("Need attn_mask if specifying the is_causal hint.")
        dropout_p = self.dropout if self.training else 0.0
        if key_padding_mask is None and not (others or dropout_p) and (attn_mask is None or not is_causal):
            weights = (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            settings = (self.num_heads, self.batch_first, is_causal, ways.composed_alone)
            result = self.out_proj(_attended(query, key, value, attn_mask, *weights, self.in_proj_bias, *settings))
            if not batched:
                return result.squeeze(0), None
            return (result if self.batch_first else result.transpose(0, 1)), None
        weights = (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        q, k, v = _projected(query, key, value, *weights, self.in_proj_bias)
        q, k, v = (_heads(x, batched, self.batch_first, self.num_heads) for x in (q, k, v))
        extended = self.bias_k is not None or self.add_zero_attn
        causal = is_causal and not need_weights and key_padding_mask is None and not extended
        if causal:  # is_causal determines the mask, so its values are not read
            _check_mask(q, k, attn_mask)
            attn_mask = None
        mask = self._mask(q, k, key_padding_mask, attn_mask, batched)
        source = k.shape[2]
        k, v = self._extended(k, self.bias_k), self._extended(v, self.bias_v)
        if mask is not None and k.shape[2] > source:  # attention to appended keys is always allowed
            mask = mask.pad((0, k.shape[2] - source))
        shares = None
        if need_weights:
            scores = (q * math.sqrt(1.0 / self.head_dim)) @ k.transpose(-2, -1)
            shares = F.dropout((scores if mask is None else scores + mask).softmax(-1), dropout_p)
            result = shares @ v
            shares = shares.mean(1) if average_attn_weights else shares
            shares = shares if batched else shares.squeeze(0)
        else:
            result = F.scaled_dot_product_attention(q, k, v, mask, dropout_p, causal)
        n, _, length, _ = result.shape
        result = self.out_proj(result.transpose(1, 2).reshape(n, length, self.embed_dim))
        if not batched:
            return result.squeeze(0), shares
        return (result if self.batch_first else result.transpose(0, 1)), shares

    def _check(self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None) -> bool:
        """Whether there is a batch axis. Raises ShapeError if shapes do not fit."""
        rank = query.ndim
        if rank not in (2, 3):
            raise ShapeError(f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
        kind = "batched" if rank == 3 else "unbatched"
        if key.ndim != rank or value.ndim != rank:
            raise ShapeError(
                f"For {kind} ({rank}-D) `query`, expected `key` and `value` to be {rank}-D but found {key.ndim}-D and "
                f"{value.ndim}-D tensors respectively"
            )
        if padding is not None and padding.ndim != rank - 1:
            raise ShapeError(
                f"For {kind} ({rank}-D) `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but found "
                f"{padding.ndim}-D tensor instead"
            )
        if mask is not None and mask.ndim not in (2, 3):
            raise ShapeError(
                f"For {kind} ({rank}-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.ndim}-D "
                "tensor instead"
            )
        if query.shape[-1] != self.embed_dim:
            raise ShapeError(f"was expecting embedding dimension of {self.embed_dim}, but got {query.shape[-1]}")
        if key.shape[:-1] != value.shape[:-1]:
            raise ShapeError(f"key's sequence and batch dims {key.shape[:-1]} do not match value's {value.shape[:-1]}")
        batch = 0 if self.batch_first else 1
        if rank == 3 and query.shape[batch] != key.shape[batch]:
            raise ShapeError(f"query's batch of {query.shape[batch]} does not match key's of {key.shape[batch]}")
        return rank == 3

    def _extended(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Keys or values (N, heads, S, d), followed by the learned row and the row of zeros, if enabled."""
        n, heads, _, d = x.shape
        if bias is not None:
            x = cat([x, bias.reshape(1, heads, 1, d).expand(n, heads, 1, d)], 2)
        if self.add_zero_attn:
            x = cat([x, zeros(n, heads, 1, d, dtype=x.dtype, device=x.device)], 2)
        return x

    def _mask(self, q: Tensor, k: Tensor, padding: Tensor | None, mask: Tensor | None, batched: bool) -> Tensor | None:
        """The mask that is added to the scores (N, heads, L, S)."""
        n, heads, length, _ = q.shape
        source = k.shape[2]
        result = None
        _check_mask(q, k, mask)
        if mask is not None:
            result = additive(mask, "attn_mask", q.dtype)
            if mask.ndim == 3:
                result = result.reshape(n, heads, length, source)
        if padding is not None:
            if list(padding.shape) != ([n, source] if batched else [source]):
                raise ShapeError(
                    f"[MultiheadAttention] key_padding_mask is {list(padding.shape)}, but should be {[n, source]}."
                )
            hidden = additive(padding, "key_padding_mask", q.dtype).reshape(n, 1, 1, source)
            result = hidden if result is None else result + hidden
        return result


def additive(mask: Tensor, name: str, dtype: DType) -> Tensor:
    """The mask as numbers to add: 0 where attention is allowed, -inf where it is not."""
    if mask.dtype is bool_:
        return where(mask, -math.inf, 0.0).to(dtype=dtype)
    if not mask.is_floating_point():
        raise DTypeError(f"only bool and floating types of {name} are supported")
    return mask


def _check_mask(q: Tensor, k: Tensor, mask: Tensor | None) -> None:
    """Raises if an attn_mask does not fit the heads' queries and keys."""
    if mask is None:
        return
    (n, heads, length, _), source = q.shape, k.shape[2]
    expected = [length, source] if mask.ndim == 2 else [n * heads, length, source]
    if list(mask.shape) != expected:
        raise ShapeError(f"The shape of the {mask.ndim}D attn_mask is {list(mask.shape)}, but should be {expected}.")


def _projected(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weight: Tensor | None,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    v_weight: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, ...]:
    """Queries, keys and values for all heads together. weight: that of all three, or None if each has its own."""
    if weight is not None and query is key and key is value:  # one matrix product instead of three
        return F.linear(query, weight, bias).chunk(3, -1)
    weights = (q_weight, k_weight, v_weight) if weight is None else weight.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    maps = zip((query, key, value), weights, biases, strict=True)
    return tuple(F.linear(x, w, b) for x, w, b in maps if w is not None)


def _heads(x: Tensor, batched: bool, batch_first: bool, heads: int) -> Tensor:
    """(L, N, E), (N, L, E) or (L, E) to (N, heads, L, E / heads)."""
    if not batched:
        x = x.unsqueeze(0)
    elif not batch_first:
        x = x.transpose(0, 1)
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2)


@composed
def _attended(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    weight: Tensor | None,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    v_weight: Tensor | None,
    bias: Tensor | None,
    heads: int,
    batch_first: bool,
    is_causal: bool,
    composed_alone: bool,
) -> Tensor:
    """The input of the output projection, (N, L, E), in the common case: no dropout, no need_weights, no padding and nothing appended.

    composed_alone: `ways.composed_alone`, on which the attention depends.
    """
    batched = query.ndim == 3
    q, k, v = _projected(query, key, value, weight, q_weight, k_weight, v_weight, bias)
    q, k, v = (_heads(x, batched, batch_first, heads) for x in (q, k, v))
    if mask is not None:
        _check_mask(q, k, mask)
        added = additive(mask, "attn_mask", q.dtype)
        mask = added.reshape(q.shape[0], heads, q.shape[2], k.shape[2]) if mask.ndim == 3 else added
    result = F.scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal)
    n, _, length, size = result.shape
    return wrap(result.transpose(1, 2).reshape(n, length, heads * size)._node)
