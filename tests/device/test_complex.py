"""Complex tensors and shadergrad.fft as PyTorch's: values, gradients and second derivatives on the cpu; refused on webgpu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from beside import Call, assert_as_torch, floats

A, B = floats(3, 4), floats(3, 4, seed=1)


def z_of(t: Any, a: Any, b: Any) -> Any:
    return t.complex(a, b)


def both(t: Any, a: Any, b: Any, function: Any) -> Any:
    return function(t, t.complex(a, b))


def of_z(name: str, function: Any, second: bool = True) -> Call:
    return Call(name, lambda t, a, b: function(t, t.complex(a, b)), (A, B), second=second)


ARITHMETIC = [
    of_z("complex", lambda t, z: z),
    of_z("real and imag", lambda t, z: [t.real(z), z.imag, z.real, t.imag(z)]),
    of_z("conj", lambda t, z: z.conj() * z),
    of_z("abs", lambda t, z: z.abs()),
    of_z("angle", lambda t, z: t.angle(z)),
    of_z("view_as_real", lambda t, z: t.view_as_real(z)),
    Call("view_as_complex", lambda t, a: t.view_as_complex(a), (floats(3, 2),)),
    Call("polar", lambda t, a, b: t.polar(a, b), (floats(3, low=0.5), B[0, :3])),
    of_z("z + z", lambda t, z: z + z[0]),
    of_z("z - number", lambda t, z: z - (1 + 2j)),
    of_z("number * z", lambda t, z: 2j * z),
    of_z("z * z", lambda t, z: z * z[1:2]),
    of_z("z / z", lambda t, z: z / (z[0] + 3)),
    of_z("z / number", lambda t, z: z / 2.5),
    of_z("real * complex", lambda t, z: z.real * z),
    of_z("-z", lambda t, z: -z),
    of_z("exp", lambda t, z: z.exp()),
    of_z("log", lambda t, z: (z + 5).log()),
    of_z("sqrt", lambda t, z: (z + 5).sqrt()),
    of_z("sin cos tanh", lambda t, z: [z.sin(), z.cos(), z.tanh()]),
    of_z("hyperbolic", lambda t, z: [z.sinh(), z.cosh(), z.asinh(), z.acosh(), (z / 3).atanh()]),
    of_z("inverse", lambda t, z: [z.asin(), z.acos(), (z / 3).atan()]),
    of_z("exact near 0", lambda t, z: [z.expm1(), z.log1p(), (z * 1e-9).expm1(), (z * 1e-9).log1p()]),
    of_z("logarithms and roots", lambda t, z: [z.log2(), z.log10(), z.rsqrt()]),
    of_z("powers", lambda t, z: [z ** 1.5, z ** (2 + 1j), z ** z[0], z ** 3, 2.0 ** z, t.pow(1j, z), z ** -2]),
    of_z("powers of 0", lambda t, z: [(z * 0) ** z.abs(), (z * 0) ** 2.5, (z * 0) ** 0.0], second=False),
    of_z("sgn", lambda t, z: [z.sgn(), t.sgn(z * t.tensor([0, 1, 2, 0]))], second=False),
    of_z("variances", lambda t, z: [z.var(), z.std(1), z.var(0, keepdim=True), z.std(correction=0), *t.var_mean(z), *t.std_mean(z, 1)]),
    of_z("sum and mean", lambda t, z: [z.sum(), z.sum(0), z.mean(1)]),
    of_z("matmul", lambda t, z: z @ z.mT),
    of_z("einsum", lambda t, z: t.einsum("ij,kj->ik", z, z.conj())),
    of_z("views", lambda t, z: z.reshape(4, 3)[1:, ::2].permute(1, 0)),
    of_z("cat and stack", lambda t, z: [t.cat([z, z * 2]), t.stack([z, z], 1)]),
    of_z("where", lambda t, z: t.where(z.real > 0, z, z * 2)),
    of_z("equal", lambda t, z: [z == z, z != z * 2], second=False),
    of_z("isnan", lambda t, z: [(z / 0).isnan(), (z / 0).isfinite()], second=False),
    of_z("norms", lambda t, z: [z.norm(), z.norm(3, 0), z.norm(1), z.norm(float("inf"), 1)]),
    of_z("a norm of zeros", lambda t, z: (z * 0).norm(), second=False),
    of_z("norms of linalg", lambda t, z: [t.linalg.norm(z), t.linalg.vector_norm(z, 3, 0), *(t.linalg.matrix_norm(z, p) for p in ("fro", 1, float("inf")))]),
    of_z("a count of what is not 0", lambda t, z: z.norm(0), second=False),
    of_z("distances", lambda t, z: [t.dist(z, z[0] * 2), t.nn.functional.pairwise_distance(z, z.flip(0))]),
    of_z("vdot", lambda t, z: [t.vdot(z[0], z[1]), z[1].vdot(z[0] * 1j)]),
    of_z("vecdot", lambda t, z: t.linalg.vecdot(z, z[:1] * 1j, dim=1)),
    of_z("rotary", lambda t, z: t.view_as_real(z * t.polar(t.ones(4, dtype=t.float64), t.arange(4, dtype=t.float64))).flatten(1)),
    Call("angle of real ones", lambda t, a: t.angle(a), (A,), second=False),
]  # fmt: skip

N = floats(3, 6, 5)
FFT = [
    *(
        Call(f"{name} {options}", lambda t, a, name=name, o=options: getattr(t.fft, name)(a, **o), (N,))
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
        for options in ({}, {"n": 4}, {"n": 7, "dim": 1}, {"norm": "ortho"}, {"norm": "forward", "dim": 0})
    ),
    *(
        Call(f"{name} of complex {n}", lambda t, a, b, name=name, n=n: getattr(t.fft, name)(t.complex(a, b), n), (A, B))
        for name in ("fft", "ifft", "irfft", "hfft")
        for n in (None, 5)
    ),
    *(
        Call(f"{name} {options}", lambda t, a, name=name, o=options: getattr(t.fft, name)(a, **o), (N,))
        for name in ("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2", "fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn")
        for options in ({}, {"s": (4, 6)}, {"norm": "ortho", "dim": (0, 1)})
    ),
    Call("fftshift", lambda t, a: [t.fft.fftshift(a), t.fft.fftshift(a, dim=1), t.fft.ifftshift(a, dim=(0, 2))], (N,)),
    Call("frequencies", lambda t, a: [t.fft.fftfreq(5, 0.5), t.fft.fftfreq(6), t.fft.rfftfreq(7, 2.0)], (N,)),
    Call("a loss of the spectrum", lambda t, a: t.fft.rfft(a).abs().square().sum(), (N,)),
]  # fmt: skip


@pytest.mark.parametrize("call", [*ARITHMETIC, *FFT], ids=str)
def test_values_and_gradients_are_pytorchs(call: Call) -> None:
    assert_as_torch(call)


def test_a_complex_leaf_has_pytorchs_gradient() -> None:
    array = A + 1j * B
    x, y = sg.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    (x * x.conj() * (1 + 2j)).abs().sum().backward()
    (y * y.conj() * (1 + 2j)).abs().sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.resolve_conj().numpy(), rtol=1e-12)


@pytest.mark.parametrize("norm", [2.0, 1.0, 3.0, float("inf")])
def test_complex_gradients_are_clipped_as_pytorchs(norm: float) -> None:
    found = []
    for t in (sg, torch):
        p, q = t.tensor(A + 1j * B, requires_grad=True), t.tensor(A, requires_grad=True)
        p.grad, q.grad = t.tensor(B - 2j * A), t.tensor(B)
        total = t.nn.utils.clip_grad_norm_([p, q], 0.5, norm)
        found.append([x.numpy() for x in (total, p.grad, q.grad)])
    for ours, theirs in zip(*found, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_promotion_is_pytorchs() -> None:
    for a in ("int32", "float32", "float64", "complex64", "complex128"):
        for b in ("float32", "float64", "complex64", "complex128"):
            ours = sg.ones(2, dtype=getattr(sg, a)) * sg.ones(2, dtype=getattr(sg, b))
            theirs = torch.ones(2, dtype=getattr(torch, a)) * torch.ones(2, dtype=getattr(torch, b))
            assert ours.dtype.name == str(theirs.dtype).removeprefix("torch."), (a, b)
    assert (sg.ones(2, dtype=sg.float64) * 1j).dtype is sg.complex128


REFUSED: list[tuple[str, Any]] = [
    ("backward of a complex loss", lambda t: t.ones(1, dtype=t.complex64, requires_grad=True).sum().backward()),
    ("complex numbers by size", lambda t: t.ones(2, dtype=t.complex64) < 1),
    ("the largest of complex numbers", lambda t: t.ones(2, dtype=t.complex64).amax()),
    ("the sign of a complex number", lambda t: t.ones(2).copysign(1j)),
    ("the sign of complex numbers", lambda t: t.ones(2).copysign(t.ones(2, dtype=t.complex64))),
    ("complex numbers with a sign", lambda t: t.ones(2, dtype=t.complex64).copysign(1)),
    ("imag of real ones", lambda t: t.imag(t.ones(2))),
    ("view_as_complex of triples", lambda t: t.view_as_complex(t.ones(3))),
    ("complex of integers", lambda t: t.complex(t.ones(2).int(), t.ones(2).int())),
    (
        "a square of complex differences as a loss",
        lambda t: t.nn.functional.mse_loss(t.ones(2), t.ones(2, dtype=t.complex64)),
    ),
    (
        "a smooth loss of complex ones",
        lambda t: t.nn.functional.smooth_l1_loss(t.ones(2, dtype=t.complex64), t.ones(2, dtype=t.complex64)),
    ),
    (
        "the cosine of complex vectors",
        lambda t: t.nn.functional.cosine_similarity(t.ones(1, 2), t.ones(1, 2, dtype=t.complex64)),
    ),
    ("the hypotenuse of complex ones", lambda t: t.hypot(t.ones(2, dtype=t.complex64), t.ones(2, dtype=t.complex64))),
    ("rfft of complex ones", lambda t: t.fft.rfft(t.ones(2, dtype=t.complex64))),
    ("fft with another norm", lambda t: t.fft.fft(t.ones(2), norm="other")),
    ("fft to nothing", lambda t: t.fft.fft(t.ones(2), n=0)),
    ("fft twice along an axis", lambda t: t.fft.fftn(t.ones(2, 2), dim=(0, 0))),
    ("fft along an axis that there is not", lambda t: t.fft.fft(t.ones(2), dim=1)),
    ("sizes and axes of other numbers", lambda t: t.fft.fftn(t.ones(2, 2), s=(2, 2), dim=(0,))),
]


@pytest.mark.parametrize(("what", "call"), REFUSED, ids=[w.replace(" ", "-") for w, _ in REFUSED])
def test_what_pytorch_refuses_is_refused(what: str, call: Any) -> None:
    with pytest.raises((RuntimeError, ValueError, TypeError, IndexError)):
        call(torch)
    with pytest.raises(sg.ShadergradError):
        call(sg)


def test_real_parts_are_not_dropped_in_silence() -> None:
    with pytest.raises(sg.DTypeError, match="imaginary"):
        sg.tensor([1j]).to(sg.float32)


def test_webgpu_says_where_complex_numbers_live(webgpu: str) -> None:
    x = sg.ones(4, device=webgpu)
    for call in (
        lambda: sg.fft.rfft(x),
        lambda: sg.complex(x, x),
        lambda: sg.tensor([1j], device=webgpu),
        lambda: x * 1j,
    ):
        with pytest.raises(sg.DTypeError, match="cpu"):
            call()


def test_the_way_around_passes_gradients(webgpu: str) -> None:
    array = floats(8).astype(np.float32)
    x, y = sg.tensor(array, device=webgpu, requires_grad=True), torch.tensor(array, requires_grad=True)
    loss = sg.fft.rfft(x.cpu()).abs().sum().to(webgpu) * 2
    loss.backward()
    (torch.fft.rfft(y).abs().sum() * 2).backward()
    assert x.grad is not None
    assert y.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_it_prints_as_numpy() -> None:
    assert repr(sg.tensor([1 + 2j])) == "tensor([1.+2.j])"


FRAMES: dict[str, dict[str, Any]] = {
    "by default": {},
    "three apart": {"hop_length": 3},
    "short windows": {"hop_length": 3, "win_length": 6},
    "from the start": {"center": False},
    "normalized": {"normalized": True},
    "of all frequencies": {"onesided": False},
}


@pytest.mark.parametrize("name", FRAMES)
def test_short_transforms_and_back_are_pytorchs(name: str) -> None:
    rng, options = np.random.default_rng(0), FRAMES[name]
    signal, window = rng.standard_normal((2, 40)), rng.random(options.get("win_length", 8)) + 1

    def run(lib: Any) -> list[np.ndarray]:
        x = lib.tensor(signal, requires_grad=True)
        w = lib.tensor(window)
        z = lib.stft(x, 8, window=w, return_complex=True, **options)
        ((z.real - z.imag) ** 3).sum().backward()
        back = lib.istft(z.detach(), 8, window=w, length=37, **options)
        return [z.detach().numpy(), x.grad.numpy(), back.numpy()]

    for ours, theirs in zip(run(sg), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_edges_of_short_transforms_are_pytorchs() -> None:
    signal, window = np.random.default_rng(1).standard_normal((2, 20))
    for mode in ("constant", "reflect", "replicate", "circular"):
        ours, theirs = (
            lib.stft(lib.tensor(signal), 8, window=lib.tensor(window[:8]), pad_mode=mode, return_complex=True).numpy()
            for lib in (sg, torch)
        )
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    for wrong in ({}, {"return_complex": True, "hop_length": 0}, {"return_complex": True, "win_length": 9}):
        with pytest.raises(sg.ShadergradError):
            sg.stft(sg.ones(20), 8, **wrong)
    with pytest.raises(sg.DTypeError):
        sg.istft(sg.ones(5, 3), 8)


def test_eigenvalues_of_any_matrix_are_pytorchs() -> None:
    matrices = np.random.default_rng(2).standard_normal((3, 4, 4))

    def run(lib: Any) -> list[np.ndarray]:
        a = lib.tensor(matrices, requires_grad=True)
        values, vectors = lib.linalg.eig(a)
        (values.abs().sum() + (vectors.abs() ** 3).sum()).backward()
        return [values.detach().numpy(), vectors.detach().abs().numpy(), a.grad.numpy()]

    for ours, theirs in zip(run(sg), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


def test_complex_results_are_refused_on_a_gpu_with_the_way_there(webgpu: str) -> None:
    for line in (lambda x: sg.stft(x[0], 4, return_complex=True), sg.linalg.eig, sg.fft.fft):
        with pytest.raises(sg.DTypeError, match="the cpu device"):
            line(sg.ones(4, 4, device=webgpu))


def test_log1p_near_0_and_tangents_far_from_the_real_axis_are_pytorchs() -> None:
    z = np.array([1e-8, 1e-8j, -1e-12 + 1e-9j, 0.4 - 0.2j, 3 + 4j, -0.3, 400j, 2 - 1e3j, 0.5 + 0.1j])
    for name in ("log1p", "tan", "atanh"):
        found = getattr(sg, name)(sg.tensor(z, dtype=sg.complex128)).numpy()
        expected = getattr(torch, name)(torch.tensor(z)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-14, atol=0, err_msg=name)
