"""PyTorch's own table of modules (torch.testing._internal's module_db) run against ours: values and gradients, in float64.

In: the name of a module. Out: what differs, a line for each sample that does. Each sample is built in both libraries, takes
PyTorch's parameters, and is called on the same arrays, in training and in evaluation.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
import torch

import shadergrad as sg
from helpers import as_array

TOLERANCE = 1e-9
RANDOM = {"FractionalMaxPool2d", "FractionalMaxPool3d"}  # each library draws its own windows: shapes are compared


@cache
def table() -> dict[str, Any]:
    """The records of PyTorch's table by the modules' names."""
    from torch.testing._internal.common_modules import module_db  # which is slow to import

    return {info.module_cls.__name__: info for info in module_db}


def there() -> list[str]:
    """Those that we have."""
    return sorted(name for name in table() if hasattr(sg.nn, name))


def missing() -> list[str]:
    """Those that we have not."""
    return sorted(set(table()) - set(there()))


def differences(name: str) -> list[str]:
    """What is not as PyTorch's."""
    found = []
    for training in (True, False):
        for k, sample in enumerate(_samples(name, training)):
            label = f"{name}, sample {k}, {'training' if training else 'evaluation'}"
            try:
                problem = _compared(name, sample, training)
            except Exception as error:
                problem = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            if problem:
                found.append(f"{label}: {problem}")
    return found


def _samples(name: str, training: bool) -> list[Any]:
    info = table()[name]
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(
            info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=True, training=training)
        )


def ours(value: Any, leaves: list[tuple[Any, Any]] | None = None) -> Any:
    """A value of PyTorch's as ours; floating tensors that require gradients are noted as pairs."""
    if isinstance(value, torch.Tensor):
        known = [mine for mine, its in leaves or [] if its is value]
        if known:  # given twice
            return known[0]
        made = sg.tensor(value.detach().numpy())
        if value.requires_grad:
            made.requires_grad_()
            if leaves is not None:
                leaves.append((made, value))
        return made
    if isinstance(value, torch.dtype):
        return getattr(sg, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, dict):
        return {k: ours(v, leaves) for k, v in value.items()}
    if isinstance(value, list | tuple):
        parts = [ours(v, leaves) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, torch.nn.Module | torch.nn.LinearCrossEntropyOptions):
        return _made_again(value)
    if callable(value) and hasattr(sg.nn.functional, getattr(value, "__name__", "")):
        return getattr(sg.nn.functional, value.__name__)
    return value


def _made_again(its: Any) -> Any:
    """What a module is made of, a layer with its sizes."""
    if isinstance(its, torch.nn.LinearCrossEntropyOptions):
        return sg.nn.LinearCrossEntropyOptions(**ours(asdict(its)))
    if not isinstance(its, torch.nn.TransformerEncoderLayer):
        return getattr(sg.nn, type(its).__name__)()
    attention = its.self_attn
    return sg.nn.TransformerEncoderLayer(
        attention.embed_dim,
        attention.num_heads,
        its.linear1.out_features,
        its.dropout.p,
        activation=ours(its.activation),
        layer_norm_eps=its.norm1.eps,
        bias=its.linear1.bias is not None,
        batch_first=attention.batch_first,
        norm_first=its.norm_first,
    )


def _compared(name: str, sample: Any, training: bool) -> str:
    given, call = sample.constructor_input, sample.forward_input
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = table()[name].module_cls(*given.args, **given.kwargs).to(torch.float64).train(training)
        mine = getattr(sg.nn, name)(*ours(given.args), **ours(given.kwargs))
        leaves: list[tuple[Any, Any]] = []
        args, kwargs = ours(call.args, leaves), ours(call.kwargs, leaves)
        lazy = hasattr(mine, "has_uninitialized_params")
        expected = theirs(*call.args, **call.kwargs)
        mine.double()  # before it takes values of 64 bits
        if lazy:
            mine(*args, **kwargs)
        mine.load_state_dict(
            {k: v.detach().numpy() for k, v in theirs.state_dict().items()}
            if not training or not _tracks(theirs)
            else _before(name, given)
        )
        mine.train(training)
        found = mine(*args, **kwargs)
    a, b = list(_tensors(found)), list(_tensors(expected))
    if [tuple(x.shape) for x in a] != [tuple(x.shape) for x in b]:
        return f"shapes {[tuple(x.shape) for x in a]}, PyTorch has {[tuple(x.shape) for x in b]}"
    if name in RANDOM:
        return ""
    for x, y in zip(a, b, strict=True):
        if not np.allclose(as_array(x), as_array(y), TOLERANCE, TOLERANCE, equal_nan=True):
            return f"a value differs by {np.abs(as_array(x) - as_array(y)).max():.1e}"
    return _gradients_compared(a, b, leaves, mine, theirs)


def _tracks(module: Any) -> bool:
    return any("running" in k for k in module.state_dict())


def _before(name: str, given: Any) -> dict[str, np.ndarray]:
    """The state of a module that tracks statistics, as it is made: parameters are ones and zeros."""
    fresh = table()[name].module_cls(*given.args, **given.kwargs)
    return {k: v.detach().numpy() for k, v in fresh.state_dict().items()}


def _gradients_compared(a: list[Any], b: list[Any], leaves: list[tuple[Any, Any]], mine: Any, theirs: Any) -> str:
    smooth = [k for k, y in enumerate(b) if y.requires_grad]
    if not smooth:
        return ""
    wanted = [*leaves, *zip(mine.parameters(), theirs.parameters(), strict=True)]
    wanted = [(x, y) for x, y in wanted if y.requires_grad]
    rng = np.random.default_rng(0)
    us = [rng.standard_normal(tuple(b[k].shape)) for k in smooth]
    its = torch.autograd.grad(
        [b[k] for k in smooth], [y for _, y in wanted], [torch.tensor(u) for u in us], allow_unused=True
    )
    own = sg.autograd.grad(
        [a[k] for k in smooth],
        [x for x, _ in wanted],
        [sg.tensor(u, dtype=a[k].dtype) for k, u in zip(smooth, us, strict=True)],
        allow_unused=True,
    )
    for k, (g, h) in enumerate(zip(own, its, strict=True)):
        first = np.zeros(tuple(wanted[k][1].shape)) if g is None else as_array(g)
        second = np.zeros_like(first) if h is None else as_array(h)
        if not np.allclose(first, second, 10 * TOLERANCE, 10 * TOLERANCE, equal_nan=True):
            return f"gradient {k} of {len(wanted)} differs by {np.abs(first - second).max():.1e}"
    return ""


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor | sg.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from _tensors(v)
