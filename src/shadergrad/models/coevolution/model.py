"""The coevolution transformer and its two heads.

In: tokens (n, t) of pairs, `CLS a SEP b SEP`. Out: logits of masked residues, or of contacts between a and b. An encoder
(Vaswani et al., 2017) with the norm before each part (Xiong et al., 2020), trained by masking (Devlin et al., 2019); contacts
from representations and attention maps, after Rao et al., 2021 ("Transformer protein language models are unsupervised structure
learners"). PAD may occur anywhere: no token attends to it and it has no position, so a row with gaps gives the same output as
its sequence without them.
"""

from __future__ import annotations

import shadergrad as sg

from ... import nn
from .families import FamilyError
from .vocabulary import PAD, SEP, VOCABULARY

HEAD_WIDTH = 64


class EncoderLayer(nn.Module):
    """x + attention(norm1(x)), then x + ff(norm2(x)): (n, t, d_model) to the same shape. Also returns the attention on request.

    >>> layer = sg.models.coevolution.EncoderLayer(8, 2, 16, dropout=0.0)
    >>> x, maps = layer(sg.ones(1, 5, 8), need_maps=True)
    >>> x.shape, maps.shape
    (shadergrad.Size([1, 5, 8]), shadergrad.Size([1, 2, 5, 5]))
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attention = nn.MultiheadAttention(d_model, n_heads, dropout=dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.norm2 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.GELU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model), nn.Dropout(dropout)
        )

    def forward(
        self, x: sg.Tensor, padding: sg.Tensor | None = None, need_maps: bool = False
    ) -> tuple[sg.Tensor, sg.Tensor | None]:
        """padding (n, t): true where no token may attend. The second result, with need_maps, is (n, heads, t, t)."""
        y = self.norm1(x)
        y, maps = self.attention(y, y, y, padding, need_weights=need_maps, average_attn_weights=False)
        x = x + self.dropout(y)
        return x + self.ff(self.norm2(x)), maps


class CoevolutionTransformer(nn.Module):
    """Tokens (n, t) to representations (n, t, d_model), and, on request, the attention maps of every layer.

    Token, segment (0 up to the first SEP, then 1) and position embeddings, LayerNorm, dropout, n_layers encoder layers,
    LayerNorm. With the defaults 1.26 million parameters.
    max_len: the number of positions: the residues of a pair, and 3.
    Raises FamilyError for more than max_len tokens.

    >>> model = sg.models.coevolution.CoevolutionTransformer(d_model=8, n_layers=2, n_heads=2, d_ff=16)
    >>> x, maps = model(sg.tensor([[23, 0, 1, 24, 2, 24, 22]]))
    >>> x.shape, maps
    (shadergrad.Size([1, 7, 8]), [])
    """

    def __init__(
        self,
        d_model: int = 128,
        n_layers: int = 6,
        n_heads: int = 4,
        d_ff: int = 512,
        vocab_size: int = VOCABULARY,
        max_len: int = 512,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.d_model, self.n_layers, self.n_heads, self.vocab_size, self.max_len = (
            d_model,
            n_layers,
            n_heads,
            vocab_size,
            max_len,
        )
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.segments = nn.Embedding(2, d_model)
        self.positions = nn.Embedding(max_len, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(EncoderLayer(d_model, n_heads, d_ff, dropout) for _ in range(n_layers))
        self.final_norm = nn.LayerNorm(d_model)

    def forward(self, tokens: sg.Tensor, need_maps: bool = False) -> tuple[sg.Tensor, list[sg.Tensor]]:
        """Representations, and with need_maps a map (n, heads, t, t) for each layer."""
        if tokens.shape[1] > self.max_len:
            raise FamilyError(
                f"[CoevolutionTransformer] a pair has {tokens.shape[1]} tokens, the model positions for {self.max_len}. "
                "Hint: shorter chains (a domain each); a model with a larger max_len, --max-len of a training; or mean-field in place of the run."
            )
        padding = tokens == PAD
        x = self.tokens(tokens) + self.segments(segments_of(tokens)) + self.positions(positions_of(tokens))
        x = self.dropout(self.norm(x))
        maps = []
        for layer in self.layers:
            x, weights = layer(x, padding, need_maps)
            if weights is not None:
                maps.append(weights)
        return self.final_norm(x), maps


def positions_of(tokens: sg.Tensor) -> sg.Tensor:
    """The number of tokens before each token (n, t) of a row, without PAD: int32 (n, t)."""
    return ((tokens != PAD).to(sg.int32).cumsum(1) - 1).clamp(min=0).to(sg.int32)


def segments_of(tokens: sg.Tensor) -> sg.Tensor:
    """0 up to the first SEP of a row (n, t), then 1: int32 (n, t)."""
    ends = (tokens == SEP).to(sg.int32)
    return (ends.cumsum(1) - ends > 0).to(sg.int32)


class MaskedLanguageModel(nn.Module):
    """Tokens (n, t), some of them MASK, to logits (n, t, vocab_size) of the original tokens. Phase 1.

    The head is dense, GELU, LayerNorm, projection (Devlin et al., 2019).

    >>> transformer = sg.models.coevolution.CoevolutionTransformer(d_model=8, n_layers=1, n_heads=2, d_ff=16)
    >>> sg.models.coevolution.MaskedLanguageModel(transformer)(sg.tensor([[23, 21, 24, 2, 24]])).shape
    shadergrad.Size([1, 5, 25])
    """

    def __init__(self, transformer: CoevolutionTransformer) -> None:
        super().__init__()
        d = transformer.d_model
        self.transformer = transformer
        self.head = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.LayerNorm(d), nn.Linear(d, transformer.vocab_size))

    def forward(self, tokens: sg.Tensor) -> sg.Tensor:
        x, _ = self.transformer(tokens)
        return self.head(x)


class ContactPredictor(nn.Module):
    """Tokens (n, t) of pairs whose first chain takes length_a of them, to logits (n, length_a, length_b). Phase 2.

    A logit is the evidence of this pair's residues for a contact of their columns. Trained with balanced classes it is a
    log-likelihood ratio, which adds up over the members of a family. Logits at PAD are 0. The head is symmetric in the two
    chains.

    >>> transformer = sg.models.coevolution.CoevolutionTransformer(d_model=8, n_layers=1, n_heads=2, d_ff=16)
    >>> predictor = sg.models.coevolution.ContactPredictor(transformer)
    >>> predictor(sg.tensor([[23, 0, 1, 24, 2, 3, 4, 24]]), length_a=2).shape
    shadergrad.Size([1, 2, 3])
    """

    def __init__(self, transformer: CoevolutionTransformer, width: int = HEAD_WIDTH) -> None:
        super().__init__()
        self.transformer = transformer
        self.pair = nn.Linear(transformer.d_model, width)  # its products are the joint features of two residues
        self.single = nn.Linear(transformer.d_model, width)
        self.maps = nn.Linear(transformer.n_layers * transformer.n_heads, width, bias=False)
        self.activation = nn.GELU()
        self.out = nn.Linear(width, 1)

    def forward(self, tokens: sg.Tensor, length_a: int) -> sg.Tensor:
        a, b = slice(1, 1 + length_a), slice(2 + length_a, tokens.shape[1] - 1)
        x, maps = self.transformer(tokens, need_maps=True)
        present = tokens != PAD
        both = (present[:, a].unsqueeze(2) & present[:, b].unsqueeze(1)).to(x.dtype)
        pair, single = self.pair(x), self.single(x)
        together = pair[:, a].unsqueeze(2) * pair[:, b].unsqueeze(1)
        together = together + single[:, a].unsqueeze(2) + single[:, b].unsqueeze(1)
        count = present.to(x.dtype).sum(1).reshape(-1, 1, 1, 1)
        together = together + self.maps(between(maps, a, b, both.unsqueeze(1), count))
        return self.out(self.activation(together)).squeeze(3) * both


def between(maps: list[sg.Tensor], a: slice, b: slice, both: sg.Tensor, count: sg.Tensor) -> sg.Tensor:
    """The attention between the chains, (n, length_a, length_b, layers x heads): both directions added, APC, scaled.

    maps: (n, heads, t, t) each. both (n, 1, length_a, length_b): 1 where both have residues. count (n, 1, 1, 1): tokens of a
    row; scaled by it, uniform attention is 1. APC removes the common part of rows and columns (Dunn et al., 2008).
    """
    blocks = sg.cat([m[:, :, a, b] + m[:, :, b, a].transpose(2, 3) for m in maps], 1) * both * count
    rows, columns = blocks.sum(3, keepdim=True), blocks.sum(2, keepdim=True)
    total = rows.sum(2, keepdim=True)
    return (blocks - both * (rows * columns / (total + 1e-6))).permute(0, 2, 3, 1)
