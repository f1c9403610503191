"""Embeddings: vectors of words and other classes."""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..graph.node import grad_mode
from ..tensor import Tensor, arange, empty, where
from . import functional as F
from . import init
from .arguments import check_tensor, whole
from .functional.linear import padding_row
from .module import Module
from .parameter import Parameter

__all__ = ["Embedding"]


def draw_rows(weight: Parameter, padding_idx: int | None) -> None:
    """Fill a table of rows with normal numbers, in place, and row padding_idx with zeros."""
    init.normal_(weight)
    if padding_idx is not None:
        is_padding = (arange(weight.shape[0], device=weight.device) == padding_idx).unsqueeze(1)
        with grad_mode(False):
            weight.copy_(where(is_padding, 0.0, weight))


class Embedding(Module):
    """Rows of weight (num_embeddings, embedding_dim) at integer positions (...): (..., embedding_dim).

    The weight starts normal; the row padding_idx starts as zeros and gets no gradient. max_norm: looked-up
    rows with a larger norm (norm_type) are scaled down in place. scale_grad_by_freq: gradients are divided by the number of
    look-ups of a row. The gradient is dense, and the same in every run; `sparse` has no effect.
    Raises DTypeError for positions that are not integers, IndexRangeError for a padding_idx that is not a row; positions
    out of range raise on the cpu device when the result is computed (see docs/from-pytorch.md for webgpu).

    >>> layer = nn.Embedding(3, 2, padding_idx=0)
    >>> layer(sg.tensor([0, 0])).detach()
    tensor([[0., 0.],
            [0., 0.]])
    >>> layer(sg.tensor([[0, 1, 2], [2, 1, 0]])).shape
    shadergrad.Size([2, 3, 2])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = whole("Embedding", "num_embeddings", num_embeddings, 0)
        self.embedding_dim = whole("Embedding", "embedding_dim", embedding_dim, 0)
        self.padding_idx = padding_row(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if _weight is None:
            self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype), not _freeze)
            self.reset_parameters()
        elif list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise ShapeError(
                f"Shape of weight does not match num_embeddings and embedding_dim: {list(_weight.shape)} for "
                f"{num_embeddings} and {embedding_dim}"
            )
        else:
            self.weight = Parameter(_weight, not _freeze)

    def reset_parameters(self) -> None:
        """Draw the weight again; the row padding_idx becomes zeros."""
        draw_rows(self.weight, self.padding_idx)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A module with the rows of a given matrix (num_embeddings, embedding_dim), by default frozen.

        freeze: the weight does not require gradients. The other arguments are those of Embedding.
        Raises ShapeError for anything but a matrix.
        """
        if check_tensor("Embedding.from_pretrained", "embeddings", embeddings).ndim != 2:
            raise ShapeError(f"Embeddings parameter is expected to be 2-dimensional, but is {list(embeddings.shape)}")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        defaults = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False, "sparse": False}
        parts += [f"{name}={getattr(self, name)}" for name, d in defaults.items() if getattr(self, name) != d]
        return ", ".join(parts)
