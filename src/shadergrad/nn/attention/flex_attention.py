"""Attention whose scores a function modifies, and whose mask a function defines, as torch.nn.attention.flex_attention.

The functions are called once, with tensors of positions that broadcast; PyTorch calls them for each score. The mask is materialized, so
memory grows with the product of the lengths. Reference: https://pytorch.org/blog/flexattention/
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...dtypes import bool_
from ...errors import ArgumentError, ShapeError
from ...tensor import Tensor, arange, where
from ..functional.attention import repeated_heads, scaled_dot_product_attention

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

Mask = Callable[..., Any]  # of batch, head, position of the query, position of the key


class AuxRequest(NamedTuple):
    """The additional results of flex_attention: the log-sum-exp, and the largest scores.

    >>> sg.nn.attention.flex_attention.AuxRequest(lse=True)
    AuxRequest(lse=True, max_scores=False)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The additional results of flex_attention, each (N, heads, L), or None.

    >>> sg.nn.attention.flex_attention.AuxOutput()
    AuxOutput(lse=None, max_scores=None)
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class BlockMask:
    """The pairs of queries and keys that may attend; made by create_block_mask.

    mask: bools (B or 1, H or 1, L, S). mask_mod: the function that defines it. seq_lengths: (L, S). It is not divided into blocks.

    >>> causal = sg.nn.attention.flex_attention.create_block_mask(lambda b, h, q, k: q >= k, None, None, 2, 2)
    >>> causal.shape
    (1, 1, 2, 2)
    """

    def __init__(self, mask: Tensor, mask_mod: Mask, block_size: Any = 128) -> None:
        self.mask, self.mask_mod = mask, mask_mod
        self.BLOCK_SIZE = block_size if isinstance(block_size, tuple) else (block_size, block_size)

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, L, S)."""
        return tuple(self.mask.shape)

    @property
    def seq_lengths(self) -> tuple[int, int]:
        """(L, S)."""
        return self.mask.shape[-2], self.mask.shape[-1]

    def to(self, device: Any) -> BlockMask:
        """The same on another device."""
        return BlockMask(self.mask.to(device), self.mask_mod, self.BLOCK_SIZE)

    def sparsity(self) -> float:
        """The percentage of masked pairs. PyTorch counts blocks."""
        return 100.0 * (1.0 - self.mask.float().mean().item())

    def numel(self) -> int:
        """The number of pairs."""
        return self.mask.numel()

    @classmethod
    def from_kv_blocks(cls, *args: Any, **kwargs: Any) -> BlockMask:
        """There are no blocks: raises NotImplementedError."""
        raise NotImplementedError(
            "BlockMask.from_kv_blocks is not there: masks are held whole. Hint: create_block_mask of a function."
        )

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape})"


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Tensor:
    """Allows all pairs.

    >>> sg.nn.attention.flex_attention.noop_mask(0, 0, sg.tensor(1), 2)
    tensor(True)
    """
    return token_q == token_q


def or_masks(*mask_mods: Mask) -> Mask:
    """Allows what one of the masks allows.

    >>> allow = sg.nn.attention.flex_attention.or_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: k < 1)
    >>> allow(0, 0, sg.tensor(0), sg.tensor(0))
    tensor(True)
    """
    return _joined(mask_mods, lambda x, y: x | y)


def and_masks(*mask_mods: Mask) -> Mask:
    """Allows what all of the masks allow.

    >>> allow = sg.nn.attention.flex_attention.and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: k < 1)
    >>> allow(0, 0, sg.tensor(2), sg.tensor(1))
    tensor(False)
    """
    return _joined(mask_mods, lambda x, y: x & y)


def _joined(mask_mods: tuple[Mask, ...], join: Callable[[Any, Any], Any]) -> Mask:
    if not mask_mods or not all(map(callable, mask_mods)):
        raise ArgumentError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        found = mask_mods[0](b, h, q_idx, kv_idx)
        for other in mask_mods[1:]:
            found = join(found, other(b, h, q_idx, kv_idx))
        return found

    return mask


def _positions(b: int, h: int, n: int, m: int, device: Any) -> list[Tensor]:
    """Of batch, head, query and key, each along its axis of (B, H, L, S)."""
    sizes = (b, h, n, m)
    return [
        arange(size, device=device).reshape(*(size if k == a else 1 for k in range(4))) for a, size in enumerate(sizes)
    ]


def create_mask(
    mod_fn: Mask, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None, **options: Any
) -> Tensor:
    """The bools (B or 1, H or 1, Q_LEN, KV_LEN) of a mask function (batch, head, query, key).

    >>> sg.nn.attention.flex_attention.create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    b, h = 1 if B is None else B, 1 if H is None else H
    found = mod_fn(*_positions(b, h, Q_LEN, KV_LEN, device))
    if not isinstance(found, Tensor) or found.dtype is not bool_:
        raise ArgumentError("[create_mask] the function must give a tensor of bools. Hint: compare positions.")
    return found.expand(b, h, Q_LEN, KV_LEN)


def create_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: Any = 128,
    _compile: bool = False,
    **options: Any,
) -> BlockMask:
    """The BlockMask of a mask function (batch, head, query, key) that returns bools; B, H: None if the mask does not depend on it.

    The function is called once, with positions that broadcast. BLOCK_SIZE is stored, and changes nothing.

    >>> sg.nn.attention.flex_attention.create_block_mask(lambda b, h, q, k: q >= k, 1, None, 4, 4)
    BlockMask(shape=(1, 1, 4, 4))
    """
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device).clone(), mask_mod, BLOCK_SIZE)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query key^T scale)) value, over the pairs that block_mask allows.

    query (N, heads, L, E), key (N, heads, S, E), value (N, heads, S, Ev): (N, heads, L, Ev). score_mod(score, batch, head, query, key)
    returns scores; it is called once, with tensors that broadcast. enable_gqa: key and value have fewer heads, each for several heads of
    query. return_lse, or return_aux: also the log-sum-exp, with AuxRequest the largest score. A row without allowed pairs
    gives 0. kernel_options changes nothing. Without score_mod and additional results, it is scaled_dot_product_attention.
    Raises ShapeError for other shapes, and for a mask of other lengths.

    >>> q = sg.ones(1, 1, 2, 2)
    >>> later = lambda score, b, h, q, k: score + k
    >>> sg.nn.attention.flex_attention.flex_attention(q, q, sg.arange(2.0).reshape(1, 1, 2, 1), later).flatten()
    tensor([0.7311, 0.7311])
    """
    if not query.ndim == key.ndim == value.ndim == 4:
        raise ShapeError("[flex_attention] query, key and value must be (N, heads, length, size of a head).")
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise ShapeError(
            f"Expect query and key/value to have the same number of heads but got Hq={query.shape[1]} and Hkv={key.shape[1]}. "
            "Try setting enable_gqa=True for GQA."
        )
    mask = None if block_mask is None else _fitting(block_mask, query.shape[-2], key.shape[-2])
    wanted = return_aux or AuxRequest(lse=return_lse)
    if score_mod is None and not any(wanted):
        return scaled_dot_product_attention(query, key, value, mask, scale=scale, enable_gqa=enable_gqa)
    if enable_gqa:
        key, value = (repeated_heads(x, query.shape[1]) for x in (key, value))
    scores = (query * (1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)) @ key.transpose(-2, -1)
    if score_mod is not None:
        n, heads, rows, columns = scores.shape
        scores = score_mod(scores, *_positions(n, heads, rows, columns, query.device)).to(dtype=query.dtype)
    if mask is not None:
        scores = where(mask, scores, -math.inf)
    top = scores.detach().amax(-1, keepdim=True)
    powers = (scores - where(top.isfinite(), top, 0.0)).exp()
    total = powers.sum(-1, keepdim=True)
    result = (powers / where(total == 0.0, 1.0, total)) @ value
    if not any(wanted) and return_aux is None:
        return result
    lse = scores.logsumexp(-1) if wanted.lse else None
    if return_aux is None:
        return result, lse
    return result, AuxOutput(lse, scores.amax(-1) if wanted.max_scores else None)


def _fitting(mask: BlockMask, rows: int, columns: int) -> Tensor:
    if mask.seq_lengths != (rows, columns):
        raise ShapeError(
            f"[flex_attention] block_mask is for lengths {mask.seq_lengths}, query and key have {(rows, columns)}. Hint: make it "
            "anew with create_block_mask."
        )
    return mask.mask
