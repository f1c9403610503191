"""Stacks of transformer layers: encoder, decoder, and both (Vaswani et al., 2017)."""

from __future__ import annotations

import copy
import math
from typing import Any

from ..tensor import Tensor, arange, where
from . import functional as F
from . import init
from .arguments import takes_tensors
from .containers import ModuleList
from .errors import ArgumentError
from .module import Module
from .normalization import LayerNorm
from .transformer_layers import Activation, TransformerDecoderLayer, TransformerEncoderLayer

__all__ = ["Transformer", "TransformerDecoder", "TransformerEncoder"]


class _Stack(Module):
    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm


class TransformerEncoder(_Stack):
    """Applies num_layers copies of an encoder layer in sequence, then norm; src keeps its shape (Vaswani et al., 2017).

    The copies start with the values of encoder_layer. There are no nested tensors, so the last two arguments have no
    effect.

    >>> layer = nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> nn.TransformerEncoder(layer, num_layers=2)(sg.ones(5, 1, 8)).shape
    shadergrad.Size([5, 1, 8])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    @takes_tensors
    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Applies all layers to src. Each gets mask and src_key_padding_mask. is_causal as in TransformerEncoderLayer.

        is_causal=None means False. PyTorch then detects a causal mask, which gives the same values.
        """
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(_Stack):
    """Applies num_layers copies of a decoder layer in sequence, then norm; tgt keeps its shape (Vaswani et al., 2017).

    The copies start with the values of decoder_layer; each attends to `memory`.

    >>> layer = nn.TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> nn.TransformerDecoder(layer, num_layers=2)(sg.ones(3, 1, 8), sg.ones(5, 1, 8)).shape
    shadergrad.Size([3, 1, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    @takes_tensors
    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Applies all layers to tgt. Each gets memory and the masks."""
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask,
                memory_mask,
                tgt_key_padding_mask,
                memory_key_padding_mask,
                bool(tgt_is_causal),
                memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of `src` and a decoder of `tgt` that attends to it (Vaswani et al., 2017).

    src (S, N, d_model) and tgt (T, N, d_model) give (T, N, d_model); N is first with batch_first, absent for one sample.
    There are no embeddings, no positional encoding and no final linear layer. Matrices are initialized by
    xavier_uniform_. custom_encoder and custom_decoder replace the stacks. Other arguments as in TransformerEncoderLayer.
    The call raises ArgumentError unless the inputs have d_model features; other errors as in MultiheadAttention.

    >>> model = nn.Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> model(sg.ones(5, 1, 8), sg.ones(3, 1, 8)).shape
    shadergrad.Size([3, 1, 8])
    >>> nn.Transformer.generate_square_subsequent_mask(2)
    tensor([[  0., -inf],
            [  0.,   0.]])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        place: dict[str, Any] = {"device": device, "dtype": dtype}

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **place)

        if custom_encoder is None:
            layer = TransformerEncoderLayer(*shape, **place)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*shape, **place)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm())
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    @takes_tensors
    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoder's result for src and tgt, with the shape of tgt.

        src_mask (S, S), tgt_mask (T, T), memory_mask (T, S) and the key_padding_masks (N, S), (N, T), (N, S) are masks
        as in MultiheadAttention: for the encoder, the decoder, and the decoder's attention to the encoder's result.
        """
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ArgumentError(
                f"the feature number of src and tgt must be equal to d_model, {self.d_model}, but got {list(src.shape)} and "
                f"{list(tgt.shape)}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask (sz, sz): -inf above the diagonal, else 0; float32 by default."""
        rows = arange(sz, device=device)
        mask = where(rows.unsqueeze(1) < rows, -math.inf, 0.0)
        return mask if dtype is None else mask.to(dtype=dtype)
