"""Layers whose weight is stored in 8 or 4 bits, and never as floats.

A product reads the words and computes numbers on their way into its tiles. The weight is not trained: gradients go through it to the
input, as LoRA needs. Source: LLM.int8() (arXiv:2208.07339) and QLoRA (arXiv:2305.14314) for the use, with plain rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nn import Embedding, Linear, Module
from ..nn import functional as F
from ..nn.arguments import whole
from ..nn.errors import ModuleAttributeError, ModuleError
from ..nn.functional.linear import padding_row
from ..nn.parameter import Parameter
from ..tensor import Tensor, empty, tensor
from .codes import Codes, Scheme, numbers, quantized


class Quantized(Module):
    """The common base of the layers: buffers packed, scales and offsets (None if symmetric), and the weight whose codes they are.

    A state dict of floats that has `weight` is quantised as it is loaded.
    """

    bits: int
    group_size: int | None
    symmetric: bool
    transposed: bool = False  # whether the weight, which is stored by rows of outputs, is seen as (in, out), as in transformers' Conv1D
    packed: Tensor
    scales: Tensor
    offsets: Tensor | None

    def _store(self, scheme: Scheme, codes: Codes) -> None:
        self.bits, self.group_size, self.symmetric = scheme.bits, scheme.group_size, scheme.symmetric
        for name, value in codes._asdict().items():
            self.register_buffer(name, value)

    @property
    def scheme(self) -> Scheme:
        """How the weight is stored."""
        return Scheme(self.bits, self.group_size, self.symmetric)

    @property
    def codes(self) -> Codes:
        """The buffers together."""
        return Codes(self.packed, self.scales, self.offsets)

    @property
    def weight(self) -> Tensor:
        """The weight as floats, computed by whatever reads it. It is not trained, and writing to it raises AutogradError."""
        found = numbers(self.codes, self.bits)
        return found.T if self.transposed else found

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "weight":
            raise ModuleAttributeError(
                f"[{type(self).__name__}] the weight is stored in {self.bits} bits and cannot be assigned. Hint: load_state_dict() takes floats."
            )
        super().__setattr__(name, value)

    def reset_parameters(self) -> None:
        """Raises ModuleError: a quantised weight is not trained, and so has no beginning."""
        raise ModuleError(
            f"[{type(self).__name__}] a quantised weight is not drawn anew. Hint: draw, then sg.quantize()."
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        name, own = f"{prefix}weight", {f"{prefix}{key}": x for key, x in self.codes._asdict().items()}
        given = state_dict.get(name)
        misfit = False
        if own.keys() & state_dict.keys():
            error_msgs += self._mismatches(state_dict, prefix)
        elif given is not None:
            misfit = tuple(getattr(given, "shape", ())) != self._shape
            state_dict = {key: x for key, x in state_dict.items() if key.startswith(prefix) and key != name}
            if misfit:
                found = getattr(given, "shape", type(given).__name__)
                error_msgs.append(
                    f"size mismatch for {name}: the checkpoint has {found}, the quantised layer is of {self._shape}."
                )
            else:
                value = given if isinstance(given, Tensor) else tensor(np.asarray(given))
                value = value.to(self.packed.device, self.scales.dtype)
                codes = quantized(value.T if self.transposed else value, self.scheme, name)
                state_dict |= {f"{prefix}{key}": x for key, x in codes._asdict().items() if x is not None}
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if misfit:  # which is said above
            missing_keys[:] = [key for key in missing_keys if key not in own]

    def _mismatches(self, state_dict: dict[str, Any], prefix: str) -> list[str]:
        """Why codes of a state dict are other numbers here, where they fit by their shapes."""
        problems: list[str] = []
        words = state_dict.get(f"{prefix}packed")
        if words is not None and "int" not in str(getattr(words, "dtype", "int")):
            problems.append(
                f"{prefix}packed is of {words.dtype}: packed codes are int32, which floats do not hold. Hint: cast only the floats of a state dict."
            )
        names = {key: x is not None for key, x in self.codes._asdict().items()}
        if any((f"{prefix}{key}" in state_dict) != here for key, here in names.items()):
            wanted = ", ".join(key for key, here in names.items() if here)
            problems.append(
                f"{prefix}packed stands for other numbers here: a layer of {self._scheme_repr()} takes {wanted}, all together. "
                "Hint: sg.quantize() as the model that was saved."
            )
        return problems

    @property
    def _shape(self) -> tuple[int, int]:
        """Of the weight."""
        rows, words = self.packed.shape
        columns = words * self.scheme.codes
        return (columns, rows) if self.transposed else (rows, columns)

    def _scheme_repr(self) -> str:
        return f"bits={self.bits}, group_size={self.group_size}, symmetric={self.symmetric}"


class QuantizedLinear(Quantized, Linear):
    """x @ weight.T + bias; x (..., in_features) gives (..., out_features), with the weight in 8 or 4 bits. sg.quantize() makes it.

    group_size: numbers of a row that share a scale; None: whole rows. The bias is a parameter of floats. One made by hand has a weight of
    zeros, for load_state_dict().
    Raises ShapeError where groups do not divide in_features, ArgumentError for other bits.

    >>> sg.quantization.QuantizedLinear(128, 2, bits=4)
    QuantizedLinear(in_features=128, out_features=2, bias=True, bits=4, group_size=64, symmetric=True)
    >>> sg.quantization.QuantizedLinear(128, 2)(sg.ones(3, 128)).shape
    shadergrad.Size([3, 2])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bits: int = 8,
        group_size: int | None = 64,
        symmetric: bool = True,
    ) -> None:
        Module.__init__(self)
        self.in_features = whole("QuantizedLinear", "in_features", in_features, 1)
        self.out_features = whole("QuantizedLinear", "out_features", out_features, 0)
        scheme = Scheme(bits, group_size, symmetric)
        self._store(scheme, Codes.empty(scheme, out_features, in_features, "QuantizedLinear", device, dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, numbers(self.codes, self.bits), self.bias)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self._scheme_repr()}"


class QuantizedEmbedding(Quantized, Embedding):
    """Rows of a weight (num_embeddings, embedding_dim) in 8 or 4 bits at integer positions (...): (..., embedding_dim). sg.quantize() makes it.

    Only the rows that are looked up become floats. One made by hand has a weight of zeros, for load_state_dict().
    Raises ShapeError where groups do not divide embedding_dim, ArgumentError for other bits; for positions as nn.Embedding.

    >>> sg.quantization.QuantizedEmbedding(10, 64, group_size=32)(sg.tensor([[1, 2, 3]])).shape
    shadergrad.Size([1, 3, 64])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bits: int = 8,
        group_size: int | None = 64,
        symmetric: bool = True,
    ) -> None:
        Module.__init__(self)
        self.num_embeddings = whole("QuantizedEmbedding", "num_embeddings", num_embeddings, 0)
        self.embedding_dim = whole("QuantizedEmbedding", "embedding_dim", embedding_dim, 1)
        self.padding_idx = padding_row(padding_idx, num_embeddings)
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse = None, 2.0, False, False
        scheme = Scheme(bits, group_size, symmetric)
        self._store(scheme, Codes.empty(scheme, num_embeddings, embedding_dim, "QuantizedEmbedding", device, dtype))

    def forward(self, input: Tensor) -> Tensor:
        return numbers(self.codes, self.bits, lambda x: F.embedding(input, x))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self._scheme_repr()}"
