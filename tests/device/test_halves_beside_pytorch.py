"""What halves do at the edges, line by line beside PyTorch: parts at odd places, dtypes of results, numbers beyond the dtype, no elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad.errors import ArgumentError, DTypeError

HALVES = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # and the distance from 1 to the next number
A = (np.random.default_rng(0).standard_normal((5, 7)) * 2).astype(np.float32)
B = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
EDGES = np.array(
    [0, -0.0, math.inf, -math.inf, math.nan, 1, -1, 65504, -65504, 1e-7, 6e-8, -6e-8, 3e-5, 0.1, 2.5, -2.5, 1000, -300.7, 40000],
    np.float32,
)  # fmt: skip

# statements, and an expression last; x, y: (5, 7); v, w: (13,); e: the edges; z: (0, 3); s: (); single, one: float32
LINES = {
    "parts": """
x[1, 1:6].fill_(3); x|x.view(-1)[3:16].mul_(2); x|x[:, 1].add_(1); x|x.t()[2].copy_(y[:, 0]); x|x[1:4, 2:5] = y[0:3, 1:4]; x|x[::2, ::3] = 7; x
x.view(-1)[1::5].zero_(); x|x[:, [1, 3]] = y[:, [0, 2]]; x|x[m] = 0.5; x|x[m] = y[m]; x|x[0] = single[0]; x|x.masked_fill_(m, -inf); x
x.diagonal().fill_(0); x|a = v[1:]; a.view(3, 4).add_(1); v|a = v[3:9]; a[1:4] = 0; a += 1; v|a = x[1:, 1:]; a *= 2; x|a = x.t()[1:4]; a.sub_(1); x
a = x.unbind(1)[3]; a.fill_(9); x|v.split(5)[1].zero_(); v|x.view(35)[7:20].exp_(); x|v[1:4].add_(v[6:9]); v|x[2].masked_fill_(m[2], 1); x
x[:, 3].scatter_(0, i[:3] % 5, w[:3]); x|x[2, 1:6].cumsum_(0); x|o = t.zeros_like(v); t.mul(v[1:], w[1:], out=o[1:]); o|x.as_strided((3, 3), (2, 1), 1)
v.index_put((i,), w[:6])|v.index_put((i % 3,), w[:6], accumulate=True)|v.scatter_reduce(0, i, w[:6], "amax")|v.index_copy(0, i, w[:6])|v.gather(0, i)
x.cumsum(1)|x.sort(1)|x.topk(3)|x.argmax(1)|x.min(0)|x.kthvalue(3, 1)|x.median(1)|v.unfold(0, 3, 2)|x.roll((1, 2), (0, 1))|t.stack([v, w], 1)
v.repeat_interleave(2)|f.pad(x, (1, 2, 3, 0))|f.pad(x[None], (1, 2), mode="reflect")|x.t().reshape(-1)[1::2]|v[-1]|x.tril()|x.masked_scatter(m, y)
""",
    "dtypes": """
x ** one|one ** x|x.hypot(one)|x.fmod(one)|x % one|x // one|x.atan2(one)|x.logaddexp(one)|x.xlogy(one)|x.addcmul(one, y)|x.maximum(one)
x + one|x * t.tensor(2)|x + single|s + single|single.add(x, alpha=3)|s.add(single, alpha=3)|single.mul_(x); single|x.mul_(single); x|s * i|i / s|i ** 0.5
f.batch_norm(x, single[0] * 0, single[0] * 0 + 1)|f.batch_norm(x, single[0] * 0, single[0] * 0 + 1, single[1], single[2])
f.batch_norm(x, single[0] * 0, single[0] * 0 + 1, single[1], single[2], training=True)|f.cosine_embedding_loss(x, y, one.expand(5))
f.instance_norm(x[None], one.expand(5) * 0, one.expand(5), use_input_stats=False)|f.layer_norm(x, (7,), single[0], single[1])|t.cat([x, single])
x.sum(dtype=t.float32)|x.softmax(1, dtype=t.float32)|single.sum(1, dtype=D)|single.log_softmax(1, dtype=D).exp()|x.var(1)|x.norm()|t.where(m, x, 0.1)
t.where(m, x, single)|x.clamp(one - 3, one)|x.clamp(one * -0.5, None)|x.float().to(D)|t.bucketize(x, v.sort()[0])|t.isin(x, y)|x.heaviside(y)
""",
    "roundings": """
x.add(y, alpha=3)|x.sub(y, alpha=3)|x.add_(y, alpha=-0.5); x|t.rsub(x, y, alpha=3)|x.addcmul(y, y, value=0.3)|x.lerp(y, 0.3)|x.addmm(x[:, :5], y, alpha=0.3)
t.linalg.vector_norm(e[16:18])|t.linalg.vector_norm(e[16:18], 6)|t.linalg.norm(e[16:18])|t.linalg.matrix_norm(e[15:17].reshape(1, 2))|e[16:18].norm()
t.linalg.vector_norm(e[16:18], dtype=t.float32)|o = v.new_zeros(()); t.linalg.vecdot(v, w, out=o); o
o = v.new_zeros(()); t.linalg.multi_dot([v, t.outer(w, v), v], out=o); o|f.elu(x, inplace=True); x|f.celu(x, inplace=True); x|f.selu(x, inplace=True); x
f.silu(x[1:], inplace=True); x|f.mish(v[1:4], inplace=True); v|f.hardsigmoid(x.t(), inplace=True); x|f.hardswish(x, inplace=True); x|f.relu(x, True); x
x / 3|x * 0.1|x - 0.3|(x * y).tanh()|x.std(1)|f.gelu(x)|f.layer_norm(x, (7,))|x @ y.t()|x.cumprod(1)|f.interpolate(x[None, None], scale_factor=2)
""",
    "edges": """
e * 2|e + e|e / 0.0|1 / e|-e|e.abs()|e.sqrt()|e.exp()|e.log()|e.isnan()|e.isfinite()|e.floor()|e.round()|e.pow(2)|e.fmod(3)|e.remainder(3)|e.nan_to_num()
e[5:7].int()|e[13:].long()|e[12:16].to(t.int8)|e.bool()|e.max()|e.argmax()|e[5:].mean()|e == 0.1|e > 0.1|e >= 65504|e < 65519|e.softmax(0)|e.cumsum(0)
e.topk(3)|e.clamp(t.finfo(D).min, t.finfo(D).max)|e[9:12] * e[9:12]|e[9:12] / 1000|e[9:12].sum()|e[9:12] > 0|e[9:12].count_nonzero()|e.float()
t.tensor([2049, 2051, 257, 259, 65520, 70000]).to(D)|t.tensor([0.1, 1e-8, 70000.0]).to(D)|x + 1e5|x * 1e5|t.where(m, x, 1e5)|t.tensor(70000.0, dtype=D)
t.arange(0, 1e5, 3e4, dtype=D)|x.lerp(y, 1e5)|t.full((2,), inf, dtype=D)|x.fill_(65504); x|x.masked_fill(m, -inf)
""",
    "no elements": """
z.sum()|z.mean()|z.prod()|z.sum(0)|z.mean(0)|z.any()|z.all()|z.cumsum(0)|z.sort(0)|z + 1|z @ y[:3, :2]|z.softmax(1)|z.norm()|t.cat([z, x[:, :3]])
z.float()|z.unique()|z.max()|z.argmax()|z.amax(0)|x[1:1].sum()
""",
}


def scope(lib: Any, name: str, device: str) -> dict[str, Any]:
    kind = getattr(lib, name)

    def made(values: Any, dtype: Any = kind) -> Any:
        return lib.tensor(np.asarray(values, np.float32)).to(device if lib is sg else "cpu").to(dtype)

    return {
        "t": lib, "f": lib.nn.functional, "D": kind, "inf": math.inf, "x": made(A), "y": made(B), "v": made(A.reshape(-1)[:13]),
        "w": made(B.reshape(-1)[:13]), "e": made(EDGES), "z": made(np.zeros((0, 3))), "s": made(1.7), "one": made(1.0, lib.float32),
        "single": made(A, lib.float32), "m": made(A > 0.3, lib.bool), "i": made([3, 0, 4, 1, 12, 7], lib.int64 if lib is torch else lib.int32),
    }  # fmt: skip


def result(line: str, lib: Any, name: str, device: str) -> list[tuple[str, np.ndarray]] | str:
    names = scope(lib, name, device)
    *statements, last = line.split("; ")
    try:
        exec("\n".join(statements), names)
        found = eval(last, names)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return "an error"
    values = found if isinstance(found, tuple) else (found,)
    kinds = [str(v.dtype).rpartition(".")[2].replace("int64", "int32") for v in values]
    return [(k, (v.float() if k in HALVES else v).numpy()) for k, v in zip(kinds, values, strict=True)]


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("group", LINES)
def test_lines_give_what_pytorchs_give(device: str, name: str, group: str) -> None:
    """Equal where elements move; elsewhere within two of the dtype's steps, for PyTorch rounds in between here and there."""
    wrong = []
    for line in (line for row in LINES[group].strip().split("\n") for line in row.split("|")):
        wanted, found = result(line, torch, name, device), result(line, sg, name, device)
        if isinstance(wanted, str) or isinstance(found, str):
            assert wanted == found, (line, wanted, found)
            continue
        for (kind, exact), (own, value) in zip(wanted, found, strict=True):
            assert (own, value.shape) == (kind, exact.shape), (line, own, kind, value.shape, exact.shape)
            step = 2 * HALVES[name] if exact.dtype.kind == "f" else 0
            if not np.allclose(value, exact, rtol=step, atol=step / 64, equal_nan=True):
                wrong.append((line, value, exact))
    assert not wrong, wrong[:3]


@pytest.mark.parametrize(
    "line",
    """x.fill_(1e5)|x.masked_fill(x > 0, -1e9)|x.masked_fill_(x > 0, -1e9)|x.clamp(max=1e5)|x.clamp_min(-1e5)|f.hardtanh(x, -1e5, 1e5)|x.new_full((2,), 1e5)
t.full_like(x, 1e5)|t.full((2,), 1e5, dtype=t.float16)|x.index_fill(0, t.tensor([1]), 1e5)|f.pad(x, (1, 1), value=1e5)|f.threshold(x, 1, 1e5)|x.fill_(65519)
t.ones(2, 2).half().fill_diagonal_(1e5)|x.scatter(0, t.tensor([1]), 1e5)|t.ones(2).fill_(1e39)|t.full((2,), 1e39)|t.ones(2).bfloat16().fill_(3.4e38)
""".replace("\n", "|").strip("|").split("|"),
)  # fmt: skip
def test_no_tensor_is_filled_with_a_number_beyond_its_dtype(line: str) -> None:
    """A mask of -1e9 would make infinite what a program takes for a large number."""
    for lib, error in ((torch, RuntimeError), (sg, ArgumentError)):
        names = {"t": lib, "f": lib.nn.functional, "x": lib.ones(3, dtype=lib.float16)}
        with pytest.raises(error, match="without overflow"):
            eval(line, names)


def test_a_dtype_that_a_gpu_lacks_is_refused_by_reductions(webgpu: str) -> None:
    x = sg.ones(3, device=webgpu, dtype="float16")
    for f in (lambda: x.sum(dtype=sg.float64), lambda: x.mean(dtype=sg.float64), lambda: x.cumsum(0, dtype=sg.float64)):
        with pytest.raises(DTypeError, match="float64 is not available"):
            f()


def test_halves_print_as_many_digits_as_others() -> None:
    x = [0.2515, 1.28125, 2.607, -4.6484]
    assert (
        repr(sg.tensor(x, dtype="float16")) == "tensor([ 0.2515,  1.2812,  2.6074, -4.6484], dtype=shadergrad.float16)"
    )
    assert repr(sg.tensor(1.7, dtype="float16")) == "tensor(1.7002, dtype=shadergrad.float16)"


@pytest.mark.parametrize("name", HALVES)
def test_a_gradient_that_is_given_may_have_another_floating_dtype(name: str) -> None:
    for lib in (sg, torch):
        x = lib.ones(3, dtype=getattr(lib, name), requires_grad=True)
        (x * 2).backward(lib.tensor([0.1, 1.0, 3.0]))
        assert x.grad is not None
        assert x.grad.dtype is x.dtype
        assert x.grad.float().tolist() == (lib.tensor([0.1, 1.0, 3.0]).to(x.dtype).float() * 2).tolist()


@pytest.mark.parametrize("name", HALVES)
def test_random_numbers_of_halves_stay_in_their_ranges(device: str, name: str) -> None:
    """Rounded to 16 bits, a number below 1 may be 1: its logarithm is 0, and it is not below a probability of 1."""
    x = sg.zeros(20000, device=device, dtype=name)
    assert sg.rand(20000, device=device, dtype=name).max().item() < 1
    for low, high in ((0.0, 1.0), (2.0, 3.0), (-2.0, -1.0), (-1.0, 0.0), (0.1, 0.3)):
        drawn = x.uniform_(low, high).float()
        assert low - HALVES[name] <= drawn.min().item()
        assert drawn.max().item() < high
        assert abs(drawn.mean().item() - (low + high) / 2) < 0.02
    assert sg.ones_like(x).bernoulli().min().item() == 1
    assert sg.full_like(x, 0.001).bernoulli().mean(dtype=sg.float32).item() < 0.002
    assert x.exponential_().isfinite().all().item()
    assert F.gumbel_softmax(sg.zeros_like(x).reshape(-1, 2)).isfinite().all().item()


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("value", [1.0, 3.0, 0.1, -1.0, -0.3, 0.0, 2.0**-14])
def test_the_half_below_a_number_is_pytorchs(name: str, value: float) -> None:
    near = torch.tensor(value, dtype=getattr(torch, name))
    below = near if near.double() < value else near.nextafter(torch.full_like(near, -math.inf))
    assert getattr(sg, name).half_below(value) == below.item()


def test_a_norm_in_use_keeps_the_halves_that_autocast_gives(device: str) -> None:
    conv, norm = sg.nn.Conv2d(1, 2, 3).to(device), sg.nn.BatchNorm2d(2).to(device)
    for model in (norm, norm.eval()):
        with sg.autocast("cpu" if device == "cpu" else "webgpu", dtype=sg.bfloat16):
            assert F.relu(model(conv(sg.ones(2, 1, 5, 5, device=device)))).dtype is sg.bfloat16
