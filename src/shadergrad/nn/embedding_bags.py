"""Embedding bags: sums, means or maxima of looked-up rows."""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..tensor import Tensor
from . import functional as F
from .arguments import check_tensor
from .embedding import Embedding, draw_rows
from .errors import ArgumentError
from .module import Module

__all__ = ["EmbeddingBag"]


class EmbeddingBag(Module):
    """Rows of weight (num_embeddings, embedding_dim), looked up in bags of positions, reduced per bag by `mode`: (bags, embedding_dim).

    input: (bags, size), or (k,) with offsets (bags,), the start of each bag (and, with include_last_offset, the end of the
    last). mode: 'mean', 'sum' or 'max'. per_sample_weights, of the shape of input, multiply the rows, with 'sum'
    only. padding_idx: positions that are ignored; its row starts as zeros. An empty bag gives zeros. Further
    arguments, and initial weights: as for Embedding. Raises ArgumentError for another mode, ShapeError if shapes
    do not fit, DTypeError for positions that are not integers, IndexRangeError for a padding_idx that is not a row.

    >>> layer = nn.EmbeddingBag.from_pretrained(sg.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]), mode="sum")
    >>> layer(sg.tensor([0, 2, 1]), sg.tensor([0, 2]))
    tensor([[4., 6.],
            [2., 3.]])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if mode not in ("sum", "mean", "max"):
            raise ArgumentError(f"EmbeddingBag: mode has to be one of sum, mean or max, but got {mode!r}.")
        super().__init__()
        rows = Embedding(num_embeddings, embedding_dim, padding_idx, _weight=_weight, device=device, dtype=dtype)
        self.num_embeddings, self.embedding_dim = rows.num_embeddings, rows.embedding_dim
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.padding_idx = rows.padding_idx
        self.weight = rows.weight
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def reset_parameters(self) -> None:
        """Draw the weight again; the row padding_idx becomes zeros."""
        draw_rows(self.weight, self.padding_idx)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A module with the rows of a given matrix (num_embeddings, embedding_dim), by default not trained.

        freeze: the weight does not require gradients. The other arguments are those of EmbeddingBag.
        Raises ShapeError for anything but a matrix.
        """
        if check_tensor("EmbeddingBag.from_pretrained", "embeddings", embeddings).ndim != 2:
            raise ShapeError(f"Embeddings parameter is expected to be 2-dimensional, but is {list(embeddings.shape)}")
        layer = cls(
            *embeddings.shape,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        layer.weight.requires_grad_(not freeze)
        return layer

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        defaults = {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False, "mode": None, "padding_idx": None}
        parts += [f"{name}={getattr(self, name)!r}" for name, d in defaults.items() if getattr(self, name) != d]
        return ", ".join(parts)
