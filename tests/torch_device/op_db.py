"""PyTorch's own database of operators, through the device, beside PyTorch's cpu: values, gradients, in place, out=."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor

D = "webgpu"
SAMPLES = 2  # of each entry
# Whose values are drawn, or are not set at all: kinds, dtypes and shapes are compared.
DRAWN = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric", "log_normal",
    "multinomial", "new_empty", "new_empty_strided", "nn.functional.alpha_dropout", "nn.functional.dropout",
    "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "nn.functional.rrelu", "normal",
    "pca_lowrank", "rand_like", "randint", "randint_like", "randn", "randn_like", "svd_lowrank", "uniform",
}  # fmt: skip
HALVES = (torch.bfloat16, torch.float16)
DTYPES = (torch.float32, torch.int64, torch.int32, torch.bool, torch.complex64)
# How much of a database each run takes, the rest with the slow tests: on webgpu, where kernels take long to compile, less.
SHARES = {"cpu": 10, "webgpu": 60}
in_shares = pytest.mark.parametrize(
    ("device", "share"),
    [
        pytest.param(device, slice(k, None, n), marks=[pytest.mark.slow] if k else [], id=f"{device}-{k}/{n}")
        for device, n in SHARES.items()
        for k in range(n)
    ],
    indirect=["device"],
)


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def moved(tree: Any) -> Any:
    """The same arguments on the device."""

    def move(a: Any) -> Any:
        if isinstance(a, Tensor):
            return a.detach().to(D).requires_grad_(a.requires_grad)
        return torch.device(D) if a == torch.device("cpu") else D if a == "cpu" else a

    return pytree.tree_map(move, tree)


def difference(expected: Any, got: Any, values: bool = True) -> str:
    """In what two results differ; "" where in nothing."""
    a, b = pytree.tree_leaves(expected), pytree.tree_leaves(got)
    if len(a) != len(b):
        return f"{len(b)} results for {len(a)}"
    for x, y in zip(a, b, strict=True):
        if isinstance(x, Tensor):
            if found := _tensors_differ(x, y, values):
                return found
        elif isinstance(x, float) and values:
            if abs(x - y) > 1e-4:
                return f"{y} for {x}"
        elif isinstance(x, (bool, int)) and x != y:
            return f"{y} for {x}"
    return ""


def _tensors_differ(x: Tensor, y: Any, values: bool) -> str:
    if not isinstance(y, Tensor):
        return f"{type(y).__name__} for a tensor"
    if x.dtype is not y.dtype or x.shape != y.shape:
        return f"{y.dtype} {tuple(y.shape)} for {x.dtype} {tuple(x.shape)}"
    if not values or not x.numel():
        return ""
    wide = torch.complex128 if x.is_complex() else torch.float64
    q, problem = tried(lambda: y.detach().cpu().resolve_conj().to(wide))
    if problem:
        return problem
    p = x.detach().resolve_conj().to(wide)
    finite = p.abs()[torch.isfinite(p)]
    size = min(1e9, float(finite.max())) if finite.numel() else 0.0
    if x.dtype in HALVES:  # PyTorch rounds in between in some operators, we in others
        step = torch.finfo(x.dtype).eps
        close = torch.allclose(p, q, rtol=8 * step, atol=4 * step * (0.5 + size), equal_nan=True)
    else:
        close = torch.allclose(p, q, rtol=1e-3, atol=1e-4 + 1e-5 * size, equal_nan=True)
    if close:
        return ""
    return f"values: {q.flatten()[:3].tolist()}… for {p.flatten()[:3].tolist()}…"


def tried(run: Callable[[], Any]) -> tuple[Any, str]:
    """What a function gives, or what it says."""
    try:
        return run(), ""
    except Exception as error:
        text = str(error).strip()
        return None, f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"


def dtype_of(op: Any) -> torch.dtype | None:
    """The first dtype that PyTorch's cpu takes; None for an entry of other devices."""
    supported = op.supported_dtypes("cpu")
    return next((d for d in DTYPES if d in supported), None)


def faults(op: Any, dtype: torch.dtype | None = None) -> list[str]:
    """What is wrong with an entry, over its first samples. dtype: by default the first that PyTorch's cpu takes; nothing
    is wrong with an entry that does not take it."""
    dtype = dtype_of(op) if dtype is None else dtype
    if dtype is None or dtype not in op.supported_dtypes("cpu"):
        return []
    grad = bool(op.supports_autograd) and dtype.is_floating_point
    found = []
    samples: Iterable[Any] = op.sample_inputs("cpu", dtype, requires_grad=grad)
    for sample in itertools.islice(samples, SAMPLES):
        for text in _faults_of(op, sample, grad):
            found.append(text)
    return found


def _faults_of(op: Any, sample: Any, grad: bool) -> Iterable[str]:
    args, kwargs = sample.args, dict(sample.kwargs)
    if "dropout_p" in kwargs:  # would be dropped by each device's own random numbers
        kwargs["dropout_p"] = 0.0
    elif op.name == "nn.functional.multi_head_attention_forward":
        args = (*args[:9], 0.0, *args[10:])
    shown = sample.output_process_fn_grad or (lambda y: y)
    theirs = (sample.input, args, kwargs)
    torch.manual_seed(1)
    expected, refusal = tried(lambda: op(sample.input, *args, **kwargs))
    if refusal:
        return
    ours, problem = tried(lambda: moved(theirs))
    if problem:
        yield problem
        return
    is_drawn = op.name in DRAWN
    torch.manual_seed(1)
    got, problem = tried(lambda: op(ours[0], *ours[1], **ours[2]))
    problem = problem or difference(shown(expected), shown(got), not is_drawn)
    if problem:
        yield problem
        return
    if is_drawn:
        return
    if grad:
        yield from _gradients(shown(expected), shown(got), theirs, ours)
    yield from _in_place(op, theirs, ours)
    yield from _into(op, theirs, ours, expected, shown)


def _differentiable(tree: Any) -> list[Tensor]:
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, Tensor) and t.requires_grad]


def _gradients(expected: Any, got: Any, theirs: Any, ours: Any) -> Iterable[str]:
    a, b = _differentiable(expected), _differentiable(got)
    if len(a) != len(b):
        yield f"gradients: {len(b)} of the results have one, {len(a)} in PyTorch"
        return
    if not a:
        return
    torch.manual_seed(5)
    weights = [torch.randn(t.shape, dtype=t.dtype) for t in a]

    def slopes(results: list[Tensor], weights: list[Tensor], inputs: Any) -> Any:
        loss = sum(
            (y * w).sum().real if y.is_complex() else (y * w).sum() for y, w in zip(results, weights, strict=True)
        )
        return torch.autograd.grad(loss, _differentiable(inputs), allow_unused=True)  # type: ignore[arg-type]

    wanted, refusal = tried(lambda: slopes(a, weights, theirs))
    if refusal:
        return
    found, problem = tried(lambda: slopes(b, [w.to(D) for w in weights], ours))
    problem = problem or difference(list(wanted), list(found))
    if problem:
        yield f"gradients: {problem}"


def _in_place(op: Any, theirs: Any, ours: Any) -> Iterable[str]:
    if not op.inplace_variant or not isinstance(theirs[0], Tensor):
        return
    results = []
    for x, args, kwargs in (theirs, ours):
        y = x.detach().clone()
        with torch.no_grad():
            _, problem = tried(lambda y=y, args=args, kwargs=kwargs: op.inplace_variant(y, *args, **kwargs))
        if x is theirs[0] and (problem or y.shape != x.shape):
            return
        if problem:
            yield f"in place: {problem}"
            return
        results.append(y)
    if problem := difference(*results):
        yield f"in place: {problem}"


def _into(op: Any, theirs: Any, ours: Any, expected: Any, shown: Callable[[Any], Any]) -> Iterable[str]:
    leaves = pytree.tree_leaves(expected)
    if not op.supports_out or not all(isinstance(t, Tensor) for t in leaves):
        return
    for shaped in (True, False):
        outs = []
        for (x, args, kwargs), device in ((theirs, "cpu"), (ours, D)):
            made = [torch.zeros(t.shape if shaped else (0,), dtype=t.dtype, device=device) for t in leaves]
            out = made[0] if isinstance(expected, Tensor) else tuple(made)
            with torch.no_grad():
                _, problem = tried(lambda x=x, args=args, kwargs=kwargs, out=out: op(x, *args, **kwargs, out=out))
            if device == "cpu" and (problem or difference(expected, out)):
                return  # where PyTorch itself refuses, or gives something else
            if problem:
                yield f"out=: {problem}"
                return
            outs.append(out)
        if problem := difference(shown(outs[0]), shown(outs[1])):
            yield f"out=: {problem}"
            return
