"""Further lines of the one table (cases.py): scattered reductions, scans, splits, counts, signs and what else is composed.

Where PyTorch's own samples (tests/conformance) try every argument, these lines fix one or two calls of each, so that the
gradients, both devices, the portable profile and the kernels' digests are looked at too.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

import shadergrad as sg
from cases import INF, NAN, Input, bools, case, floats, index, ints, spread, unary
from shadergrad.nn import functional as F

tnf = torch.nn.functional


def both(op: str, of: str, name: str, *inputs: Input, call: Any = lambda f, *x: f(*x), **options: Any) -> None:
    """A function that both packages have by one name: sg.NAME and torch.NAME."""
    ours, theirs = getattr(sg, name), getattr(torch, name)
    case(op, of, lambda *x: call(ours, *x), *inputs, torch=lambda *x: call(theirs, *x), **options)


def quiet(call: Any) -> Any:
    """A call of PyTorch's that warns of itself."""

    def silently(*x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(*x)

    return silently


def method(op: str, of: str, call: Any, *inputs: Input, **options: Any) -> None:
    """A call that reads the same on tensors of either package."""
    case(op, of, call, *inputs, **options)


def functional(op: str, of: str, call: Any, *inputs: Input, **options: Any) -> None:
    """A call of a function of networks."""
    case(op, of, lambda *x: call(F, *x), *inputs, torch=lambda *x: call(tnf, *x), **options)


# -- signs, exponents, neighbours

method("copysign", "(3, 4)", lambda x, y: x.copysign(y), floats(3, 4), floats(3, 4), second=False)
unary("signbit", lambda x: x.signbit(), grad=False)
unary("sgn", lambda x: x.sgn())
unary("angle", lambda x: x.angle(), second=False)
method("fmax", "with NaN", lambda x, y: x.fmax(y), Input((4,), values=(1.0, NAN, 2.0, -INF)), floats(4), second=False)
method("fmin", "with NaN", lambda x, y: x.fmin(y), Input((4,), values=(1.0, NAN, 2.0, -INF)), floats(4), second=False)
method("ldexp", "(2, 3)", lambda x, y: x.ldexp(y), floats(2, 3), ints(2, 3, low=0))
method("frexp", "(2, 5)", lambda x: list(x.frexp()), floats(2, 5), second=False)
method("gcd", "(5, 7)", lambda x, y: x.gcd(y), ints(5, 7, low=-60, high=60), ints(5, 7, low=-60, high=60))
method("lcm", "(5, 7)", lambda x, y: x.lcm(y), ints(5, 7, low=-60, high=60), ints(5, 7, low=1, high=60))
method("nextafter", "both ways", lambda x, y: x.nextafter(y) - x.detach(), floats(6), floats(6), grad=False)
both("rsub", "(3,)", "rsub", floats(3), floats(3), call=lambda f, x, y: f(x, y, alpha=2))
method("float_power", "squares", lambda x: x.float_power(2).float(), floats(4), grad=False)
method(
    "fmod", "large quotients", lambda x, y: x.fmod(y), floats(40, low=-1e9, high=1e9), floats(40, low=0.1), grad=False
)
method(
    "remainder",
    "large quotients",
    lambda x, y: x % y,
    floats(40, low=-1e9, high=1e9),
    floats(40, low=0.1),
    grad=False,
)
method(
    "clamp",
    "limits that are tensors",
    lambda x, a, b: x.clamp(a, b),
    floats(3, 5),
    floats(3, 5),
    floats(5),
    second=False,
)

# -- scans

for _n in (5, 64, 150):
    method(
        "cumsum",
        f"rows of {_n}, one infinite",
        lambda x: x.cumsum(1),
        Input((1, _n), values=(1.0,) * (_n - 3) + (INF, 2.0, NAN)),
        second=False,
    )
method("cummax", "rows", lambda x: list(x.cummax(1)), spread(3, 9), second=False)
method("cummin", "columns", lambda x: list(x.cummin(0)), spread(9, 3), second=False)
method("logcumsumexp", "rows", lambda x: x.logcumsumexp(1), floats(3, 9), length=9)
method(
    "logcumsumexp", "after -inf", lambda x: x.logcumsumexp(0), Input((4,), values=(-INF, -INF, 1.0, 2.0)), grad=False
)
both("trapezoid", "by places", "trapezoid", floats(3, 5), floats(5))
both("cumulative_trapezoid", "by steps", "cumulative_trapezoid", floats(3, 5), call=lambda f, y: f(y, dx=0.5), length=5)
method(
    "prod",
    "with zeros, twice differentiated",
    lambda x: x.prod(1),
    Input((2, 4), values=(0.0, 2.0, 3.0, 4.0, 0.0, 5.0, 0.0, 7.0)),
)

# -- scattered

for _reduce in ("sum", "prod", "mean", "amax", "amin"):
    for _self in (True, False):
        method(
            "scatter_reduce",
            f"{_reduce}{' with self' if _self else ''}",
            lambda x, i, s, r=_reduce, w=_self: x.scatter_reduce(1, i, s, r, include_self=w),
            floats(3, 5),
            index(3, 4, below=5),
            floats(3, 4),
            second=False,
        )
method(
    "index_reduce",
    "the largest",
    lambda x, i, s: x.index_reduce(0, i, s, "amax"),
    floats(5, 3),
    index(4, below=5),
    floats(4, 3),
    second=False,
    torch=quiet(lambda x, i, s: x.index_reduce(0, i, s, "amax")),
)
method("index_copy", "rows", lambda x, s: x.index_copy(0, _two(x), s), floats(5, 3), floats(2, 3))
method(
    "index_put",
    "added",
    lambda x, i, s: x.index_put((i,), s, accumulate=True),
    floats(5, 3),
    index(4, below=5),
    floats(4, 3),
)
method("put", "added", lambda x, i, s: x.put(i, s, accumulate=True), floats(2, 3), index(4, below=6), floats(4))
method("take", "(2, 3)", lambda x, i: x.take(i), floats(2, 3), index(5, below=6))
method(
    "take_along_dim",
    "negative, broadcast",
    lambda x, i: _lib(x).take_along_dim(x, i - 5, 1),
    floats(3, 5),
    index(1, 4, below=5),
)
method("select_scatter", "a column", lambda x, s: x.select_scatter(s, 1, 2), floats(3, 5), floats(3))
method("slice_scatter", "every second row", lambda x, s: x.slice_scatter(s, 0, 1, 5, 2), floats(5, 3), floats(2, 3))
method("diagonal_scatter", "above", lambda x, s: x.diagonal_scatter(s, 1), floats(4, 4), floats(3))
method("diag_embed", "below, in front", lambda x: x.diag_embed(-1, 0, 2), floats(2, 3))
method("diagflat", "(2, 2)", lambda x: x.diagflat(1), floats(2, 2))
method(
    "scatter",
    "multiplied",
    lambda x, i, s: x.scatter(1, i, s, reduce="multiply"),
    ints(3, 5),
    index(3, 4, below=5),
    ints(3, 4),
    torch=quiet(lambda x, i, s: x.scatter(1, i, s, reduce="multiply")),
)
method("repeat_interleave", "by counts", lambda x, i: x.repeat_interleave(i, 0), floats(4, 2), index(4, below=3))
method(
    "bincount", "weighted", lambda i, w: i.bincount(w, minlength=4), index(9, below=6), floats(9), grad=False, length=9
)
method(
    "masked_scatter",
    "a mask that is larger",
    lambda x, m, s: _lib(x).masked_scatter(x, m, s),
    floats(5),
    bools(3, 5),
    floats(15),
)

# -- taken apart, put together

method("tensor_split", "into parts", lambda x: list(x.tensor_split(3, 1)), floats(2, 7))
method("hsplit", "at places", lambda x: list(x.hsplit([1, 4])), floats(2, 7))
method("vsplit", "in two", lambda x: list(x.vsplit(2)), floats(4, 3))
method("dsplit", "in two", lambda x: list(x.dsplit(2)), floats(2, 3, 4))
for _k in (1, 2, 3):
    method("rot90", f"{_k} times", lambda x, k=_k: x.rot90(k, (0, 2)), floats(2, 3, 4))
method("sum_to_size", "a column", lambda x: x.sum_to_size(3, 1), floats(2, 3, 4), length=8)
method("kron", "(2, 3) and (3,)", lambda x, y: _lib(x).kron(x, y), floats(2, 3), floats(3))
method("cross", "rows", lambda x, y: x.cross(y, 1), floats(4, 3), floats(4, 3))
method("addr", "(2, 3)", lambda x, a, b: x.addr(a, b, beta=0.5, alpha=2), floats(2, 3), floats(2), floats(3))
method("addbmm", "(2, 3)", lambda x, a, b: x.addbmm(a, b), floats(2, 3), floats(4, 2, 5), floats(4, 5, 3), length=20)
method("vdot", "(5,)", lambda x, y: x.vdot(y), floats(5), floats(5), length=5)
method("renorm", "rows", lambda x: x.renorm(2, 0, 1.0), floats(3, 4, low=0.5), length=4, second=False)
method("cov", "3 variables", lambda x: x.cov(), floats(3, 7), length=7)
method("corrcoef", "3 variables", lambda x: x.corrcoef(), floats(3, 7), length=7, second=False)
both("block_diag", "three blocks", "block_diag", floats(2, 3), floats(2), floats(1, 1))
both("cartesian_prod", "two vectors", "cartesian_prod", floats(2), floats(3))
both("combinations", "with repetition", "combinations", floats(4), call=lambda f, x: f(x, 2, True))
both("column_stack", "vectors and a matrix", "column_stack", floats(3), floats(3, 2), call=lambda f, *x: f(x))
both("dstack", "matrices", "dstack", floats(2, 3), floats(2, 3), call=lambda f, *x: f(x))
both("atleast_3d", "a matrix", "atleast_3d", floats(2, 3))
both("cdist", "rows, p = 2", "cdist", floats(3, 4), floats(5, 4), length=4, second=False)
both(
    "cdist",
    "rows, p = 1",
    "cdist",
    floats(3, 4),
    floats(5, 4),
    call=lambda f, x, y: f(x, y, p=1.0),
    length=4,
    second=False,
)
both("gradient", "both axes", "gradient", floats(4, 5), call=lambda f, x: list(f(x, edge_order=2)))
both("isin", "(2, 5)", "isin", ints(2, 5), ints(3))
both("unravel_index", "(2, 3)", "unravel_index", index(5, below=6), call=lambda f, i: list(f(i, (2, 3))))
method("flip", "axes by name", lambda x: x.flip(dims=(0, 1)), floats(2, 3))

# -- counted

method("mode", "rows", lambda x: x.mode(1).values, ints(3, 9, low=0, high=3))
method(
    "nanmedian",
    "rows",
    lambda x: x.nanmedian(1).values,
    Input((2, 4), values=(3.0, NAN, 1.0, 2.0, NAN, NAN, 5.0, 4.0)),
    second=False,
)
for _how in ("lower", "higher", "midpoint", "nearest"):
    method("quantile", _how, lambda x, h=_how: x.quantile(0.4, 1, interpolation=h), spread(3, 6), second=False)
method(
    "nanquantile",
    "rows",
    lambda x: x.nanquantile(0.4, 1),
    Input((2, 4), values=(3.0, NAN, 1.0, 2.0, NAN, 6.0, 5.0, 4.0)),
    second=False,
)
method("histc", "(40,)", lambda x: x.histc(5, -1.0, 1.5), floats(40), grad=False)
method("histogram", "(40,)", lambda x: list(_lib(x).histogram(x.cpu(), 5, range=(-1.0, 1.5))), floats(40), grad=False)
method("msort", "(5, 3)", lambda x: x.msort(), spread(5, 3))
method("unique", "with counts", lambda x: list(x.unique(return_counts=True)), ints(20, low=0, high=5))
method(
    "unique_consecutive",
    "with inverse",
    lambda x: list(x.unique_consecutive(return_inverse=True)),
    ints(20, low=0, high=2),
)
both(
    "searchsorted",
    "right, by a sorter",
    "searchsorted",
    spread(6),
    floats(4),
    call=lambda f, e, x: f(e, x, side="right", sorter=e.argsort()),
    grad=False,
)

# -- functions of networks

for _mode in ("bilinear", "nearest", "bicubic"):
    for _pad in ("zeros", "border", "reflection"):
        functional(
            "grid_sample",
            f"{_mode}, {_pad}",
            lambda f, x, g, m=_mode, p=_pad: f.grid_sample(x, g, m, p, False),
            floats(2, 3, 4, 5),
            floats(2, 2, 3, 2, low=-1.3, high=1.3),
            second=False,
            length=16,
        )
functional(
    "grid_sample",
    "a volume",
    lambda f, x, g: f.grid_sample(x, g, align_corners=True),
    floats(1, 2, 3, 4, 3),
    floats(1, 2, 2, 2, 3, low=-1.2, high=1.2),
    second=False,
    length=8,
)
functional(
    "affine_grid", "of an image", lambda f, t: f.affine_grid(t, (2, 1, 3, 4), align_corners=False), floats(2, 2, 3)
)
for _how in ("bicubic", "area", "nearest-exact"):
    functional(
        "interpolate", _how, lambda f, x, h=_how: f.interpolate(x, size=(3, 7), mode=h), floats(2, 3, 5, 4), length=16
    )
functional(
    "interpolate",
    "linear beside an infinity",
    lambda f, x: f.interpolate(x, size=6, mode="linear"),
    Input((1, 1, 4), values=(1.0, 2.0, 3.0, INF)),
    second=False,
)
functional(
    "interpolate",
    "smoothed",
    lambda f, x: f.interpolate(x, size=(2, 3), mode="bilinear", antialias=True),
    floats(1, 2, 7, 8),
    length=16,
)
functional(
    "ctc_loss",
    "three sequences",
    lambda f, x, t: f.ctc_loss(x.log_softmax(2), t + 1, (6, 5, 6), (3, 2, 1), reduction="none"),
    floats(6, 3, 5),
    index(3, 3, below=4),
    second=False,
    length=30,
)
for _mode in ("sum", "mean", "max"):
    functional(
        "embedding_bag",
        _mode,
        lambda f, w, i, m=_mode: f.embedding_bag(i, w, mode=m),
        floats(6, 3),
        index(4, 5, below=6),
        second=False,
        length=5,
    )
functional("pdist", "4 rows", lambda f, x: f.pdist(x), floats(4, 3), length=3, second=False)
functional(
    "local_response_norm", "5 channels", lambda f, x: f.local_response_norm(x, 3, alpha=0.5), floats(2, 5, 3), length=3
)
functional(
    "multi_margin_loss",
    "squares",
    lambda f, x, t: f.multi_margin_loss(x, t, p=2),
    floats(4, 5),
    index(4, below=5),
    second=False,
    length=20,
)
functional(
    "multilabel_margin_loss",
    "up to -1",
    lambda f, x, t: f.multilabel_margin_loss(x, t),
    floats(2, 4),
    Input((2, 4), kind="index", values=(3, 0, -1, 1, 2, -1, 0, 1)),
    second=False,
    length=32,
)
functional(
    "multilabel_soft_margin_loss",
    "(3, 4)",
    lambda f, x, t: f.multilabel_soft_margin_loss(x, t),
    floats(3, 4),
    floats(3, 4, low=0.0, high=1.0),
    length=12,
)
functional(
    "max_unpool2d",
    "of what was pooled",
    lambda f, x: f.max_unpool2d(*f.max_pool2d(x, 2, return_indices=True), 2),
    spread(2, 3, 4, 6),
)
functional(
    "adaptive_max_pool2d",
    "with places",
    lambda f, x: list(f.adaptive_max_pool2d(x, (2, 3), True)),
    spread(2, 3, 5, 7),
    second=False,
)
functional("lp_pool2d", "p = 2", lambda f, x: f.lp_pool2d(x, 2, 2), floats(1, 2, 4, 4, low=0.5), length=4)
functional("hardswish", "NaN", lambda f, x: f.hardswish(x), Input((3,), values=(NAN, 1.0, -1.0)), grad=False)
for _name in ("threshold", "softshrink", "hardshrink"):
    functional(
        _name,
        "NaN",
        lambda f, x, n=_name: getattr(f, n)(x, *(0.5, 1.0) if n == "threshold" else ()),
        Input((4,), values=(NAN, 1.0, -1.0, 0.25)),
        second=False,
    )
method("std", "of equal elements", lambda x: x.std(1), Input((1, 3), values=(2.0, 2.0, 2.0)), second=False)


def _lib(x: Any) -> Any:
    return torch if isinstance(x, torch.Tensor) else sg


def _two(x: Any) -> Any:
    return torch.tensor([3, 1]) if isinstance(x, torch.Tensor) else sg.tensor([3, 1], device=x.device)
