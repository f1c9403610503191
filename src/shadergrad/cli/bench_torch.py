"""The masked language model of the coevolution transformer, written in PyTorch for comparison."""

from __future__ import annotations

import torch
from torch import nn

from ..models.coevolution import PAD, SEP
from ..models.coevolution.vocabulary import VOCABULARY


class MaskedLanguageModel(nn.Module):
    """Tokens (n, t) to logits (n, t, vocabulary), with PyTorch's own encoder."""

    def __init__(self, d_model: int, n_layers: int, n_heads: int, d_ff: int, max_len: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, d_model)
        self.segments = nn.Embedding(2, d_model)
        self.positions = nn.Embedding(max_len, d_model)
        self.norm, self.dropout = nn.LayerNorm(d_model), nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, n_layers, nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.head = nn.Sequential(
            nn.Linear(d_model, d_model), nn.GELU(), nn.LayerNorm(d_model), nn.Linear(d_model, VOCABULARY)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        present, ends = tokens != PAD, tokens == SEP
        segments = (ends.cumsum(1) - ends.long() > 0).long()
        x = self.tokens(tokens) + self.segments(segments) + self.positions((present.cumsum(1) - 1).clamp(min=0))
        return self.head(self.encoder(self.dropout(self.norm(x)), src_key_padding_mask=~present))
