"""The layers of transformers (Vaswani et al., 2017)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from . import functional as F
from .arguments import takes_tensors
from .dropout import Dropout
from .errors import ModuleError
from .linear import Linear
from .module import Module
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm

__all__ = ["TransformerDecoderLayer", "TransformerEncoderLayer"]

Activation = str | Callable[[Tensor], Tensor]


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise ModuleError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


class _Layer(Module):
    """Base: attention and a perceptron, each with a residual and a norm, before it with norm_first, else after."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        device: Any,
        dtype: Any,
        *,
        is_decoder: bool,
    ) -> None:
        super().__init__()
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        attention: dict[str, Any] = {"dropout": dropout, "bias": bias, "batch_first": batch_first, **place}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        if is_decoder:
            self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first = norm_first
        count = 3 if is_decoder else 2
        for k in range(1, count + 1):
            self.add_module(f"norm{k}", LayerNorm(d_model, layer_norm_eps, bias=bias, **place))
        for k in range(1, count + 1):
            self.add_module(f"dropout{k}", Dropout(dropout))
        self.activation = _activation(activation)

    def _residual(self, x: Tensor, number: int, block: Callable[[Tensor], Tensor]) -> Tensor:
        norm, dropout = self.get_submodule(f"norm{number}"), self.get_submodule(f"dropout{number}")
        return x + dropout(block(norm(x))) if self.norm_first else norm(x + dropout(block(x)))

    def _perceptron(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a perceptron; (S, N, d_model), or (N, S, d_model) with batch_first, keeps its shape.

    x + attention(x), then x + linear2(activation(linear1(x))), each normalised after the sum, or with norm_first before
    the part (Vaswani et al., 2017). dim_feedforward: features between linear1 and linear2. activation: 'relu', 'gelu'
    or a function. dropout: after each part, of the attention and of the activation. Masks as in MultiheadAttention.
    Raises ModuleError for another activation; else as MultiheadAttention.

    >>> layer = nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> layer(sg.ones(5, 1, 8)).shape
    shadergrad.Size([5, 1, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
            is_decoder=False,
        )

    @takes_tensors
    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """src to a result of its shape.

        is_causal states that src_mask is the causal mask. Without src_mask and src_key_padding_mask, it replaces the
        mask.
        """

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._residual(self._residual(src, 1, attend), 2, self._perceptron)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to `memory`, and a perceptron; tgt (T, N, d_model), memory (S, N, d_model).

    The result has the shape of tgt; N comes first with batch_first. Arguments and errors as of TransformerEncoderLayer.

    >>> layer = nn.TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> layer(sg.ones(3, 1, 8), sg.ones(5, 1, 8)).shape
    shadergrad.Size([3, 1, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
            is_decoder=True,
        )

    @takes_tensors
    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt and memory to a result of the shape of tgt.

        tgt_is_causal and memory_is_causal state that the mask is the causal one. Without a mask and a key_padding_mask,
        they replace it.
        """

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def look(x: Tensor) -> Tensor:
            return self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal
            )[0]

        x = self._residual(self._residual(tgt, 1, attend), 2, look)
        return self._residual(x, 3, self._perceptron)
