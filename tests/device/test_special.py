"""shadergrad.special as torch.special: values and gradients where PyTorch has them, else slopes by differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import special

import shadergrad as sg
from beside import Call, assert_as_the_cpu, assert_as_torch, floats
from helpers import assert_close
from shadergrad import host_operations
from shadergrad.autograd import gradcheck

POSITIVE = floats(3, 4, low=0.1, high=5.0)
ANY = floats(3, 4, low=-4.0, high=4.0)
SMALL = floats(3, 4, low=0.1, high=2.0)  # beyond, PyTorch loses half the digits of Bessel functions, SciPy none
INSIDE = floats(3, 4, low=-0.95, high=0.95)
DEGREES = np.array([-1, 0, 1, 2, 3, 7])

CALLS = [
    Call("gammaln", lambda t, x: t.special.gammaln(x), (POSITIVE,)),
    Call("gammaln below 0", lambda t, x: t.special.gammaln(x), (np.array([-0.5, -1.5, -2.75, -3.25]),), second=False),
    Call("digamma", lambda t, x: t.special.digamma(x), (POSITIVE,)),
    Call("digamma below 0", lambda t, x: t.special.psi(x), (np.array([-0.5, -1.5, -2.75]),)),
    Call("digamma at poles", lambda t, x: t.special.digamma(x), (np.array([0.0, -0.0, -1.0]),), gradient=False),
    *(Call(f"polygamma {n}", lambda t, x, n=n: t.special.polygamma(n, x), (POSITIVE,)) for n in range(5)),
    Call("polygamma 1 below 0", lambda t, x: t.special.polygamma(1, x), (np.array([-0.5, -1.5]),), gradient=False),
    Call("zeta", lambda t, q: t.special.zeta(2.5, q), (POSITIVE,)),
    Call("zeta of negative numbers", lambda t, q: t.special.zeta(3.0, q), (np.array([-8.4784, -9.3, -20.7, -0.5]),), gradient=False),
    Call("zeta at poles", lambda t, s, q: t.special.zeta(s, q), (np.array([1.0, 0.5, 3.0]), np.array([1.0, 1.0, -1.0])), gradient=False),
    Call("multigammaln", lambda t, x: t.special.multigammaln(x, 3), (POSITIVE + 1.5,)),
    Call("erf", lambda t, x: t.special.erf(x), (ANY,)),
    Call("erfc", lambda t, x: t.special.erfc(x), (ANY,)),
    Call("erfcx", lambda t, x: t.special.erfcx(x), (ANY,)),
    Call("erfinv", lambda t, x: t.special.erfinv(x), (INSIDE,)),
    Call("ndtr", lambda t, x: t.special.ndtr(x), (ANY,)),
    Call("log_ndtr", lambda t, x: t.special.log_ndtr(x), (ANY * 3,)),
    Call("ndtri", lambda t, x: t.special.ndtri(x), (floats(3, 4, low=0.02, high=0.98),)),
    Call("entr", lambda t, x: t.special.entr(x), (POSITIVE,)),
    Call("entr at edges", lambda t, x: t.special.entr(x), (np.array([0.0, -1.0, np.nan, np.inf]),), gradient=False),
    Call("expit", lambda t, x: t.special.expit(x), (ANY,)),
    Call("logit", lambda t, x: t.special.logit(x, eps=0.1), (floats(9, low=0.0, high=1.0),)),
    Call("exp2", lambda t, x: t.special.exp2(x), (ANY,)),
    Call("expm1", lambda t, x: t.special.expm1(x), (ANY,)),
    Call("log1p", lambda t, x: t.special.log1p(x), (POSITIVE,)),
    Call("round", lambda t, x: t.special.round(x, decimals=1), (ANY,), second=False),
    Call("sinc", lambda t, x: t.special.sinc(x), (ANY,)),
    Call("xlogy", lambda t, x, y: t.special.xlogy(x, y), (ANY, POSITIVE)),
    Call("xlogy of a number", lambda t, y: t.special.xlogy(2, y), (POSITIVE,)),
    Call("xlog1py", lambda t, x, y: t.special.xlog1py(x, y), (ANY, POSITIVE)),
    Call("xlog1py at edges", lambda t, x, y: t.special.xlog1py(x, y), (np.zeros(3), np.array([-1.0, np.nan, 2.0])), gradient=False),
    Call("i0", lambda t, x: t.special.i0(x), (ANY,), second=False),
    Call("i0e", lambda t, x: t.special.i0e(x), (ANY,), second=False),
    Call("i1", lambda t, x: t.special.i1(x), (ANY,), second=False),
    Call("i1e", lambda t, x: t.special.i1e(x), (ANY,), second=False),
    Call("softmax", lambda t, x: t.special.softmax(x, 1), (ANY,)),
    Call("log_softmax", lambda t, x: t.special.log_softmax(x, 0), (ANY,)),
    Call("logsumexp", lambda t, x: t.special.logsumexp(x, 1), (ANY,)),
    Call("gammainc", lambda t, a, x: t.special.gammainc(a.detach(), x), (POSITIVE, POSITIVE + 0.3)),
    Call("gammaincc", lambda t, a, x: t.special.gammaincc(a.detach(), x), (POSITIVE, POSITIVE + 0.3)),
    *(
        Call(name, lambda t, x, name=name: getattr(t.special, name)(x), (SMALL,), gradient=False)
        for name in (
            "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0", "modified_bessel_i1",
            "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
            "spherical_bessel_j0",
        )
    ),
    *(
        Call(f"{name} of {what}", lambda t, x, name=name, n=n: getattr(t.special, name)(x, n if isinstance(n, int) else t.tensor(n, device=x.device)), (x,), gradient=False)
        for name in (
            "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
            "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
            "shifted_chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
            "legendre_polynomial_p",
        )
        for what, n, x in (("3", 3, ANY), ("degrees", DEGREES, floats(6, low=0.1, high=0.9)))
    ),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_values_and_gradients_are_pytorchs(call: Call) -> None:
    assert_as_torch(call, 1e-8 if call.name == "multigammaln" else 1e-9)


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_webgpu_gives_what_the_cpu_gives(call: Call, webgpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_operations, "_said", {"test"})
    assert_as_the_cpu(call, webgpu)


SLOPES = ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
          "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0", "ndtri", "i1e", "i0")  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_gradients_are_slopes(name: str) -> None:
    x = sg.tensor(floats(4, low=0.1, high=0.9), requires_grad=True)
    assert gradcheck(getattr(sg.special, name), (x,))
    assert gradcheck(lambda x: sg.autograd.grad(getattr(sg.special, name)(x).sum(), x, create_graph=True)[0], (x,))


REFUSED: list[tuple[str, Any]] = [
    ("polygamma of -1", lambda t: t.special.polygamma(-1, t.ones(2))),
    ("multigammaln of 0", lambda t: t.special.multigammaln(t.ones(2), 0)),
    ("erf of a text", lambda t: t.special.erf("x")),
    ("shapes that do not fit", lambda t: t.special.zeta(t.ones(2), t.ones(3))),
]


@pytest.mark.parametrize(("what", "call"), REFUSED, ids=[w.replace(" ", "-") for w, _ in REFUSED])
def test_what_pytorch_refuses_is_refused(what: str, call: Any) -> None:
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        call(torch)
    with pytest.raises(sg.ShadergradError):
        call(sg)


def test_zeta_has_a_gradient_of_its_second_operand_alone(device: str) -> None:
    s, q = (sg.tensor([2.5, 3.0], device=device, requires_grad=True) for _ in range(2))
    with pytest.raises(sg.AutogradError, match="a gradient of `other` alone"):
        sg.special.zeta(s, 2.0).sum().backward()
    with pytest.raises(sg.AutogradError, match="a gradient of `other` alone"):
        sg.compile(lambda s, q: sg.autograd.grad(sg.special.zeta(s, q).sum(), [s, q]))(s, q)
    (slope,) = sg.autograd.grad(sg.special.zeta(s, q).sum(), q)  # nobody asks for that of s
    expected = -s.detach() * sg.special.zeta(s.detach() + 1, q.detach())
    assert_close(slope, expected.numpy(), 1e-5, 1e-6)


def test_all_names_are_there() -> None:
    known = {n for n in dir(torch.special) if not n.startswith("_") and callable(getattr(torch.special, n))}
    assert known - {"Tensor"} <= set(sg.special.__all__)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_the_incomplete_gamma_function_has_gradients_of_both_arguments(name: str, device: str) -> None:
    a, x = np.array([0.4, 1.0, 3.0, 9.0, 50.0]), np.array([0.9, 0.2, 4.0, 8.0, 55.0])
    leaves = [sg.tensor(v.astype(np.float32), device=device, requires_grad=True) for v in (a, x)]
    found = sg.autograd.grad(getattr(sg.special, name)(*leaves).sum(), leaves)
    reference = getattr(special, name)
    for k, g in enumerate(found):
        up, down = ([v + s * 1e-5 * (j == k) for j, v in enumerate((a, x))] for s in (1, -1))
        np.testing.assert_allclose(g.numpy(), (reference(*up) - reference(*down)) / 2e-5, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "line",
    """s.polygamma(1, x)|s.polygamma(2, x)|s.zeta(x, y)|s.i0(x)|s.i1(x)|s.log_ndtr(-x)|s.entr(x)|s.xlog1py(x, y)|s.spherical_bessel_j0(x)
s.chebyshev_polynomial_t(x, 4)|s.hermite_polynomial_h(x, 3)|s.laguerre_polynomial_l(x, 4)|s.legendre_polynomial_p(x, 5)|s.multigammaln(y, 2)
""".replace("\n", "|").strip("|").split("|"),
)  # fmt: skip
def test_special_functions_of_halves_round_once(name: str, line: str) -> None:
    halves = [sg.tensor(np.linspace(*ends, 40), dtype=name) for ends in ((1.2, 5.0), (2.0, 3.0))]
    doubles = [torch.tensor(v.float().numpy(), dtype=torch.float64) for v in halves]
    exact = eval(line, {"s": torch.special, "x": doubles[0], "y": doubles[1]}).numpy()
    found = eval(line, {"s": sg.special, "x": halves[0], "y": halves[1]})
    assert found.dtype.name == name
    np.testing.assert_allclose(
        found.float().numpy(), exact, rtol=sg.finfo(getattr(sg, name)).eps * 0.55, atol=3e-6 * abs(exact).max()
    )
