"""`quantize`: a model's linear layers and embeddings with weights of 8 or 4 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..arguments import checked, refuse
from ..errors import ArgumentError
from ..nn import Embedding, Linear, Module
from ..nn.errors import ModuleTypeError
from ..nn.lazy import is_lazy
from ..tensor import Tensor
from .codes import Codes, Scheme, check_weight, quantized
from .layers import Quantized, QuantizedEmbedding, QuantizedLinear

M = TypeVar("M", bound=Module)


@checked
def quantize(
    model: M,
    bits: int = 8,
    group_size: int | None = 64,
    symmetric: bool = True,
    where: Callable[[str, Module], bool] | None = None,
) -> M:
    """Store the weights of a model's nn.Linear and nn.Embedding layers in 8 or 4 bits, in place; returns the model.

    Each `group_size` neighbours of a row share a scale in the weight's dtype (None: a whole row does). symmetric: codes stand for multiples of
    the scale around 0; else for steps from a group's least number to its largest. where(name, module): whether to quantise that layer; without
    it all are that have the class's own forward, and the Conv1D layers of transformers' GPT-2, which are linear. Weights that layers share stay
    shared. A model that is such a layer itself is replaced: use what is given back. What is quantised is not trained; gradients go through it to what is.

    Raises ShapeError for a group_size that does not divide a layer's columns, ArgumentError for other bits, for weights with NaN, and where
    there is nothing to quantise; ModuleTypeError for a layer that is parametrized, or an embedding with max_norm.

    >>> model = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    >>> sg.quantize(model, bits=4, where=lambda name, module: name != "2")
    Sequential(
      (0): QuantizedLinear(in_features=128, out_features=64, bias=True, bits=4, group_size=64, symmetric=True)
      (1): ReLU()
      (2): Linear(in_features=64, out_features=10, bias=True)
    )
    """
    if not isinstance(model, Module):
        refuse("quantize", "model", model, "nn.Module")
    scheme = Scheme(bits, group_size, symmetric)
    chosen = [
        (name, layer)
        for name, layer in model.named_modules()
        if _is_layer(layer) and (where is None or where(name, layer))
    ]
    if not chosen:
        raise ArgumentError(f"[quantize] {_why_none(model, where is not None)}")
    for name, layer in chosen:
        _check(name, layer, scheme)
    sharing: dict[int, list[tuple[str, Module]]] = {}  # layers by the weight that they share
    for name, layer in chosen:
        sharing.setdefault(id(layer._parameters["weight"]), []).append((name, layer))
    chosen.clear()
    for key in list(sharing):  # one weight after the other, so that its floats can go
        layers = sharing.pop(key)
        name, first = layers[0]
        codes = quantized(_rows(first), scheme, _named(name, first))
        for _, layer in layers:
            new = _converted(layer, scheme, codes)
            model = new if layer is model else model  # type: ignore[assignment]
            _replace(model, layer, new)
    return model


def _why_none(model: Module, chosen: bool) -> str:
    """Why there is nothing to quantise."""
    layers = [m for m in model.modules() if isinstance(m, Linear | Embedding) or _is_conv1d(m)]
    if any(isinstance(m, Quantized) for m in layers):
        return "the layers are quantised already. Hint: quantise the model of floats, with other bits."
    if chosen and any(_is_layer(m) for m in layers):
        return "where() left out every layer. Hint: it gives True for those to quantise."
    if layers:
        names = ", ".join(dict.fromkeys(type(m).__name__ for m in layers))
        return f"{names} computes by a forward of its own, which may read the weight in another way. Hint: put an nn.Linear in its place."
    return "there is no nn.Linear and no nn.Embedding to quantise. Hint: look at print(model)."


def _named(name: str, layer: Module) -> str:
    return f"{name or type(layer).__name__}.weight"


def _is_conv1d(module: Module) -> bool:
    """Whether it is what transformers calls Conv1D: a linear layer whose weight is (in, out)."""
    weight = module._parameters.get("weight")
    return type(module).__name__ == "Conv1D" and weight is not None and weight.ndim == 2 and hasattr(module, "nf")


def _rows(layer: Module) -> Tensor:
    """The weight with a row for each output."""
    weight = layer._parameters["weight"]
    assert weight is not None
    return weight.detach().T if _is_conv1d(layer) else weight


def _is_layer(module: Module) -> bool:
    """Whether it is a linear layer or an embedding that computes what its class does."""
    if _is_conv1d(module):
        return True
    base = next((c for c in (Linear, Embedding) if isinstance(module, c)), None)
    return base is not None and not isinstance(module, Quantized) and type(module).forward is base.forward


def _check(name: str, layer: Module, scheme: Scheme) -> None:
    """Raises for a layer that cannot be quantised, before any is."""
    weight = layer._parameters.get("weight")
    if weight is None or is_lazy(weight):
        raise ModuleTypeError(
            f"[quantize] {name or type(layer).__name__} has no parameter 'weight' of its own: it is parametrized, pruned or not yet "
            "shaped. Hint: remove that, call a lazy module once, or leave the layer out (where=...)."
        )
    if isinstance(layer, Embedding) and layer.max_norm is not None:
        raise ModuleTypeError(
            f"[quantize] {name or 'Embedding'} has max_norm, which shortens rows of the weight in place."
        )
    check_weight(_rows(layer), scheme, _named(name, layer))


def _converted(layer: Module, scheme: Scheme, codes: Codes) -> Module:
    """The layer with codes in the place of its weight, and everything else that it has."""
    kind = QuantizedEmbedding if isinstance(layer, Embedding) else QuantizedLinear
    new = kind.__new__(kind)
    new.__dict__.update(layer.__dict__)
    for table in ("_parameters", "_buffers", "_modules"):
        new.__dict__[table] = layer.__dict__[table].copy()
    del new._parameters["weight"]
    if _is_conv1d(layer):
        new.out_features, new.in_features = _rows(layer).shape
        new.transposed = True
    new._store(scheme, codes)
    return new


def _replace(model: Module, old: Module, new: Module) -> None:
    """Let whatever holds one module hold another."""
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is old:
                setattr(parent, name, new)
