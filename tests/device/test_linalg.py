"""shadergrad.linalg as torch.linalg: values, gradients, second derivatives, batches; what is refused; webgpu by the host."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from beside import Call, assert_as_the_cpu, assert_as_torch, floats
from shadergrad import host_operations
from shadergrad.errors import HostWarning


def regular(*shape: int, seed: int = 0) -> np.ndarray:
    """Matrices far from singular."""
    return floats(*shape, seed=seed) + 3 * np.eye(shape[-1])


def definite(*shape: int, seed: int = 0) -> np.ndarray:
    a = floats(*shape, seed=seed)
    return a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])


def symmetric(x: Any) -> Any:
    return (x + x.mT) / 2


A, B3, WIDE, TALL = regular(4, 4), regular(2, 3, 3, seed=1), floats(2, 3, 5, seed=2), floats(2, 5, 3, seed=3)
CALLS = [
    Call("inv", lambda t, a: t.linalg.inv(a), (B3,)),
    Call("inv_ex", lambda t, a: t.linalg.inv_ex(a), (B3,)),
    Call("solve", lambda t, a, b: t.linalg.solve(a, b), (A, floats(4, 2))),
    Call("solve of vectors", lambda t, a, b: t.linalg.solve(a, b), (B3, floats(2, 3))),
    Call("solve broadcast", lambda t, a, b: t.linalg.solve(a, b), (regular(3, 3), floats(4, 3, 2))),
    Call("solve from the right", lambda t, a, b: t.linalg.solve(a, b, left=False), (B3, floats(2, 2, 3))),
    *(
        Call(
            f"solve_triangular {upper} {left} {unit}",
            lambda t, a, b, u=upper, le=left, un=unit: t.linalg.solve_triangular(a, b, upper=u, left=le, unitriangular=un),
            (B3, floats(2, 3, 3)),
        )
        for upper in (True, False)
        for left in (True, False)
        for unit in (True, False)
    ),
    Call("det", lambda t, a: t.linalg.det(a), (B3,)),
    Call("slogdet", lambda t, a: t.linalg.slogdet(a), (B3,)),
    Call("cholesky", lambda t, a: t.linalg.cholesky(symmetric(a)), (definite(2, 3, 3),)),
    Call("cholesky upper", lambda t, a: t.linalg.cholesky(symmetric(a), upper=True), (definite(3, 3),)),
    Call("cholesky_ex", lambda t, a: t.linalg.cholesky_ex(symmetric(a)), (definite(3, 3),)),
    Call("qr", lambda t, a: t.linalg.qr(a), (A,)),
    Call("qr tall", lambda t, a: t.linalg.qr(a), (TALL,)),
    Call("qr wide", lambda t, a: t.linalg.qr(a), (WIDE,)),
    Call("qr complete", lambda t, a: t.linalg.qr(a, "complete"), (WIDE,)),
    Call("qr r", lambda t, a: t.linalg.qr(a.detach(), mode="r"), (TALL,)),
    Call("svd", lambda t, a: [x.abs() for x in t.linalg.svd(a, full_matrices=False)], (A,)),
    Call("svd tall", lambda t, a: [x.abs() for x in t.linalg.svd(a, full_matrices=False)], (TALL,)),
    Call("svd wide", lambda t, a: [x.abs() for x in t.linalg.svd(a, full_matrices=False)], (WIDE,)),
    Call("svd full", lambda t, a: t.linalg.svd(a)[1], (WIDE,)),
    Call("svdvals", lambda t, a: t.linalg.svdvals(a), (TALL,)),
    Call("svdvals of equal ones", lambda t, a: t.linalg.svdvals(a), (np.eye(3),), second=False),
    Call("eigh", lambda t, a: [x.abs() for x in t.linalg.eigh(symmetric(a))], (B3,)),
    Call("eigh upper", lambda t, a: t.linalg.eigh(symmetric(a), UPLO="U")[0], (B3,)),
    Call("eigvalsh", lambda t, a: t.linalg.eigvalsh(symmetric(a)), (B3,)),
    Call("pinv", lambda t, a: t.linalg.pinv(a), (TALL,)),
    Call("pinv wide", lambda t, a: t.linalg.pinv(a), (WIDE,)),
    Call("pinv hermitian", lambda t, a: t.linalg.pinv(symmetric(a), hermitian=True), (B3,)),
    Call("pinv rtol", lambda t, a: t.linalg.pinv(a, rtol=0.5), (np.diag([4.0, 3.0, 1.0]),), second=False),
    Call("matrix_power", lambda t, a: t.linalg.matrix_power(a, 5), (B3,)),
    Call("matrix_power 0", lambda t, a: t.linalg.matrix_power(a, 0), (B3,), gradient=False),
    Call("matrix_power -2", lambda t, a: t.linalg.matrix_power(a, -2), (B3,)),
    Call("matrix_exp", lambda t, a: t.linalg.matrix_exp(a), (floats(2, 3, 3),)),
    Call("matrix_rank", lambda t, a: t.linalg.matrix_rank(a), (np.ones((2, 3, 3)) + np.diag([1.0, 0, 0]),)),
    Call("matrix_rank atol", lambda t, a: t.linalg.matrix_rank(a, atol=2.0), (np.diag([1.0, 2.5, 3.0]),)),
    Call("matrix_rank hermitian", lambda t, a: t.linalg.matrix_rank(a, hermitian=True), (np.diag([1.0, 0, -3.0]),)),
    Call("lstsq", lambda t, a, b: t.linalg.lstsq(a, b), (TALL, floats(2, 5, 2))),
    Call("lstsq gels", lambda t, a, b: t.linalg.lstsq(a, b, driver="gels"), (TALL, floats(2, 5, 2))),
    Call("lstsq wide", lambda t, a, b: t.linalg.lstsq(a, b, driver="gelsd"), (WIDE, floats(2, 3, 2))),
    *(
        Call(f"lstsq {driver} rcond {rcond}", lambda t, a, b, d=driver, r=rcond: t.linalg.lstsq(a, b, r, driver=d), (TALL, floats(2, 5, 2)), gradient=False)
        for driver, rcond in (("gels", 0.9), ("gelsd", 2.0), ("gelsd", 0.5), ("gelsd", -1.0), ("gelss", 2.0), ("gelss", 0.5), ("gelss", -1.0))
    ),
    Call("lstsq gelsy counts the largest", lambda t, a, b: t.linalg.lstsq(a, b, 2.0).rank, (TALL, floats(2, 5, 2)), gradient=False),
    Call("lu_factor", lambda t, a: t.linalg.lu_factor(a), (B3,)),
    Call("lu", lambda t, a: t.linalg.lu(a), (B3,)),
    Call("lu tall", lambda t, a: t.linalg.lu(a), (TALL,)),
    Call("lu wide", lambda t, a: t.linalg.lu(a), (WIDE,)),
    *(
        Call(
            f"lu_solve {left} {adjoint}",
            lambda t, a, b, le=left, ad=adjoint: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, left=le, adjoint=ad),
            (B3, floats(2, 3, 3)),
        )
        for left in (True, False)
        for adjoint in (True, False)
    ),
    Call("multi_dot", lambda t, *a: t.linalg.multi_dot(a), (floats(3), floats(3, 4), floats(4, 2), floats(2, 5))),
    Call("cross", lambda t, a, b: t.linalg.cross(a, b), (floats(4, 3), floats(1, 3))),
    Call("cross dim", lambda t, a, b: t.linalg.cross(a, b, dim=0), (floats(3, 2), floats(3, 2, seed=1))),
    Call("vecdot", lambda t, a, b: t.linalg.vecdot(a, b), (floats(4, 3), floats(3))),
    Call("vander", lambda t, a: t.linalg.vander(a), (floats(2, 4),)),
    Call("vander N", lambda t, a: t.linalg.vander(a, N=3), (floats(4),)),
    Call("householder_product", lambda t, a, b: t.linalg.householder_product(a, b), (TALL, floats(2, 2)), second=False),
    Call("tensorinv", lambda t, a: t.linalg.tensorinv(a.reshape(4, 2, 2), ind=1), (A,)),
    Call("tensorsolve", lambda t, a, b: t.linalg.tensorsolve(a.reshape(2, 2, 4), b), (A, floats(2, 2))),
    Call("diagonal", lambda t, a: t.linalg.diagonal(a, offset=1), (B3,)),
    Call("inverse", lambda t, a: [t.inverse(a), a.inverse()], (B3,)),
    Call("logdet", lambda t, a: [t.logdet(a), a.det(), a.slogdet()[1]], (definite(2, 3, 3),)),
    Call("logdet of a negative one", lambda t, a: t.logdet(a), (np.diag([-1.0, 1.0]),), gradient=False),
    Call("cholesky_solve", lambda t, b, a: t.cholesky_solve(b, a.tril()), (floats(2, 3, 2), B3)),
    Call("cholesky_solve upper", lambda t, b, a: b.cholesky_solve(a.triu(), True), (floats(2, 3, 2), B3)),
    Call("cholesky_inverse", lambda t, a: t.cholesky_inverse(a.tril()), (B3,)),
    Call("svd with V", lambda t, a: [x.abs() for x in t.svd(a)], (WIDE,)),
    Call("svd without", lambda t, a: t.svd(a, compute_uv=False)[1], (WIDE,)),
    Call("qr not some", lambda t, a: t.qr(a, some=False), (TALL,), gradient=False),
    Call("triangular_solve", lambda t, b, a: t.triangular_solve(b, a, transpose=True)[0], (floats(2, 3, 2), B3)),
    Call("pinverse", lambda t, a: a.pinverse(), (TALL,)),
    Call("norm", lambda t, a: t.linalg.norm(a), (TALL,)),
    Call("norm keepdim", lambda t, a: t.linalg.norm(a, keepdim=True), (TALL,)),
    *(
        Call(f"matrix_norm {p}", lambda t, a, p=p: t.linalg.matrix_norm(a, p), (TALL,))
        for p in ("fro", "nuc", np.inf, -np.inf, 1, -1, 2, -2)
    ),
    *(
        Call(f"matrix_norm {p} elsewhere", lambda t, a, p=p: t.linalg.matrix_norm(a, p, dim=(2, 0), keepdim=True), (TALL,))
        for p in ("nuc", np.inf, -1)
    ),
    *(
        Call(f"vector_norm {p}", lambda t, a, p=p: t.linalg.vector_norm(a, p, dim=-1), (TALL,))
        for p in (0, 1, 2, 3.5, np.inf, -np.inf, -1)
    ),
    *(Call(f"cond {p}", lambda t, a, p=p: t.linalg.cond(a, p), (B3,)) for p in (None, -2)),
    # PyTorch's own backward pass of these fails
    *(
        Call(f"cond {p}", lambda t, a, p=p: t.linalg.cond(a, p), (B3,), gradient=False)
        for p in ("fro", "nuc", np.inf, 1)
    ),
]  # fmt: skip


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning was given."""
    monkeypatch.setattr(host_operations, "_said", {"test"})


# PyTorch's older names say that they are
@pytest.mark.filterwarnings("ignore:torch.(qr|triangular_solve) is deprecated")
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_values_and_gradients_are_pytorchs(call: Call) -> None:
    assert_as_torch(call, 1e-8 if call.name.startswith(("svd", "cond")) else 1e-9)


@pytest.mark.parametrize("call", [c for c in CALLS if c.on_webgpu], ids=str)
def test_webgpu_gives_what_the_cpu_gives(call: Call, webgpu: str, said: None) -> None:
    assert_as_the_cpu(call, webgpu)


SQUARE, VECTOR, WHOLE = np.ones((2, 3)), np.ones(3), np.ones((2, 2), np.int32)
REFUSED = [
    *((f"{n} of no square", lambda t, n=n: getattr(t.linalg, n)(t.tensor(SQUARE))) for n in ("inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "matrix_exp")),
    *((f"{n} of a vector", lambda t, n=n: getattr(t.linalg, n)(t.tensor(VECTOR))) for n in ("inv", "qr", "svd", "pinv", "matrix_norm", "lu")),
    *((f"{n} of integers", lambda t, n=n: getattr(t.linalg, n)(t.tensor(WHOLE))) for n in ("inv", "qr", "svd", "vector_norm", "det", "cholesky", "norm")),
    ("inv of a singular matrix", lambda t: t.linalg.inv(t.ones(2, 2))),
    ("solve with a singular matrix", lambda t: t.linalg.solve(t.zeros(2, 2), t.ones(2))),
    ("cholesky of an indefinite matrix", lambda t: t.linalg.cholesky(-t.eye(2))),
    ("cholesky_ex that checks", lambda t: t.linalg.cholesky_ex(-t.eye(2), check_errors=True)),
    ("solve of other sizes", lambda t: t.linalg.solve(t.eye(2), t.ones(3))),
    ("solve_triangular of other sizes", lambda t: t.linalg.solve_triangular(t.eye(2), t.ones(3, 1), upper=True)),
    ("qr mode", lambda t: t.linalg.qr(t.eye(2), "full")),
    ("matrix_norm ord", lambda t: t.linalg.matrix_norm(t.eye(2), 3)),
    ("matrix_norm dim", lambda t: t.linalg.matrix_norm(t.eye(2), dim=(0, 0))),
    ("norm ord of three axes", lambda t: t.linalg.norm(t.ones(2, 2, 2), 2)),
    ("multi_dot of one", lambda t: t.linalg.multi_dot([t.eye(2)])),
    ("multi_dot of other sizes", lambda t: t.linalg.multi_dot([t.eye(2), t.eye(3)])),
    ("cross of two", lambda t: t.linalg.cross(t.ones(2), t.ones(2))),
    ("householder_product of wide", lambda t: t.linalg.householder_product(t.ones(2, 3), t.ones(2))),
    ("eigh UPLO", lambda t: t.linalg.eigh(t.eye(2), UPLO="X")),
    ("lstsq of other sizes", lambda t: t.linalg.lstsq(t.eye(2), t.ones(3, 1))),
    ("lstsq driver", lambda t: t.linalg.lstsq(t.eye(2), t.ones(2, 1), driver="qr")),
    ("lu without pivots", lambda t: t.linalg.lu(t.eye(2), pivot=False)),
]  # fmt: skip


@pytest.mark.parametrize(("what", "call"), REFUSED, ids=[w.replace(" ", "-") for w, _ in REFUSED])
def test_what_pytorch_refuses_is_refused(what: str, call: Any) -> None:
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        call(torch)
    with pytest.raises(sg.ShadergradError):
        call(sg)


def test_a_singular_matrix_is_an_error_of_its_own() -> None:
    with pytest.raises(sg.linalg.LinAlgError, match="singular"):
        sg.linalg.inv(sg.zeros(2, 2))
    assert sg.linalg.inv_ex(sg.zeros(2, 2)).info.item() != 0


def test_the_gradient_of_a_determinant_of_0_is_the_cofactors() -> None:  # PyTorch gives zeros
    a = sg.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    (found,) = sg.autograd.grad(sg.linalg.det(a), a)
    np.testing.assert_allclose(found.numpy(), [[4, -2], [-2, 1]], rtol=1e-5)


def test_results_have_pytorchs_names() -> None:
    a = torch.eye(2)
    for name in ("qr", "svd", "eigh", "lu_factor", "lu", "slogdet", "cholesky_ex", "inv_ex"):
        theirs = getattr(torch.linalg, name)(a)
        ours = getattr(sg.linalg, name)(sg.eye(2))
        for field in ours._fields:
            assert hasattr(theirs, field), f"{name} has no {field}"


def test_the_host_is_named_once(webgpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_operations, "_said", set())
    x = sg.eye(3, device=webgpu)
    with pytest.warns(HostWarning, match=r"inverse.*host"):
        sg.linalg.inv(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sg.linalg.svd(x)


def test_a_compiled_step_on_webgpu_says_what_to_do(webgpu: str, said: None) -> None:
    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        return sg.linalg.inv(x)

    with pytest.raises(sg.CompileError, match="outside the step"):
        step(sg.eye(2, device=webgpu))


def test_a_compiled_step_on_the_cpu_holds_it() -> None:
    @sg.compile
    def step(w: sg.Tensor) -> tuple[sg.Tensor, sg.Tensor]:
        loss = sg.linalg.slogdet(w).logabsdet
        return loss, sg.autograd.grad(loss, w)[0]

    for k in range(3):
        a = regular(3, 3, seed=k).astype(np.float32)
        loss, grad = step(sg.tensor(a, requires_grad=True))
        np.testing.assert_allclose(loss.item(), np.linalg.slogdet(a)[1], rtol=1e-5)
        np.testing.assert_allclose(grad.numpy(), np.linalg.inv(a).T, rtol=1e-4, atol=1e-5)


def test_results_go_where_they_are_told_to() -> None:
    q, r, eye = sg.zeros(2, 2), sg.zeros(2, 2), sg.eye(2)
    given = sg.linalg.qr(eye * 2, out=(q, r))
    assert given.Q is q
    assert (q @ r).tolist() == [[2.0, 0.0], [0.0, 2.0]]
    found = sg.zeros(2)
    assert sg.special.i0(sg.zeros(2), out=found) is found
    assert found.tolist() == [1.0, 1.0]
    with pytest.raises(sg.ArgumentTypeError, match="must be 2 tensors, not 1"):
        sg.linalg.qr(eye, out=(q,))


def test_batches_of_nothing_are_decomposed() -> None:
    nothing = sg.zeros(0, 3, 3)
    for parts in (sg.linalg.qr(nothing), sg.linalg.svd(nothing), sg.linalg.lu(nothing), sg.linalg.eigh(nothing)):
        assert all(part.shape[0] == 0 for part in parts)


def test_a_power_of_0_is_the_identity_whatever_the_matrix() -> None:
    x = sg.tensor([[float("nan"), 1.0], [2.0, float("inf")]], requires_grad=True)
    y = sg.linalg.matrix_power(x, 0)
    y.sum().backward()
    assert y.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert x.grad is not None
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]
