"""Linear layers as one operator (torch/kernels/linear.py): values, gradients and what looks into the composition, beside PyTorch's cpu."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
F: Any = torch.nn.functional
D = "webgpu"

SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]] = {
    "rows": ((5, 3), (4, 3), (4,)),
    "no bias": ((5, 3), (4, 3), None),
    "a vector": ((3,), (4, 3), (4,)),
    "batches": ((2, 1, 5, 3), (4, 3), (4,)),
    "batches, no bias": ((2, 5, 3), (4, 3), None),
    "no rows": ((0, 3), (4, 3), (4,)),
    "no features": ((2, 0), (4, 0), (4,)),
    "a bias for all": ((5, 3), (4, 3), (1,)),
}


def drawn(name: str) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in SHAPES[name] if shape is not None]


def same(a: Any, b: Any) -> None:
    torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", SHAPES)
def test_values_and_gradients(name: str, torch_device: Any) -> None:
    """Again and again: from the third time on they are recognised."""
    for _ in range(4):
        found = []
        for place in (D, "cpu"):
            leaves = [x.to(place).requires_grad_() for x in drawn(name)]
            y = F.linear(*leaves)
            y.sin().sum().backward()
            found.append([y, *[x.grad for x in leaves]])
        for a, b in zip(*found, strict=True):
            assert a.shape == b.shape
            same(a, b)


@pytest.mark.parametrize("asked", [(0,), (1,), (2,), (0, 2)])
def test_gradients_of_some(asked: tuple[int, ...], torch_device: Any) -> None:
    found = []
    for place in (D, "cpu"):
        leaves = [x.to(place).requires_grad_(k in asked) for k, x in enumerate(drawn("batches"))]
        found.append(torch.autograd.grad(F.linear(*leaves).sin().sum(), [leaves[k] for k in asked]))
    for a, b in zip(*found, strict=True):
        same(a, b)


def test_it_is_one_operator_with_a_gradient_of_one(torch_device: Any) -> None:
    x, w, b = (v.to(D).requires_grad_() for v in drawn("batches"))
    assert type(F.linear(x, w, b).grad_fn).__name__ == "LinearBackward0"


def test_gradients_of_gradients(torch_device: Any) -> None:
    found = []
    for place in (D, "cpu"):
        leaves = [x.to(place).requires_grad_() for x in drawn("batches")]
        first = torch.autograd.grad(F.linear(*leaves).sin().sum(), leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in first), leaves))
    for a, b in zip(*found, strict=True):
        same(a, b)


def test_strides_of_operands(torch_device: Any) -> None:
    x, w, b = drawn("rows")
    ours = F.linear(x.t().contiguous().to(D).t(), w.t().contiguous().to(D).t(), b.repeat(2).to(D)[::2])
    expected = F.linear(x, w, b.repeat(2)[::2])
    same(ours, expected)
    assert ours.stride() == expected.stride()


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # of an import of PyTorch's own
def test_forward_derivatives_transforms_and_modes_see_the_composition(torch_device: Any) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Noting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x, w, b = drawn("rows")
    found = []
    for place in (D, "cpu"):
        p, q, r = (v.to(place) for v in (x, w, b))
        value, tangent = torch.func.jvp(lambda p, q, r=r: F.linear(p, q, r), (p, q), (p.sin(), q.cos()))
        each = torch.func.vmap(torch.func.grad(lambda q, p, r=r: F.linear(p, q, r).sin().sum()), (None, 0))(q, p)
        with torch.autograd.forward_ad.dual_level():
            dual = F.linear(torch.autograd.forward_ad.make_dual(p, p.sin()), q, r)
            slope = torch.autograd.forward_ad.unpack_dual(dual).tangent
        found.append([value, tangent, each, slope])
        seen: list[str] = []
        with Noting():
            F.linear(p, q, r)
        assert "aten.addmm.default" in seen
    for a, b in zip(*found, strict=True):
        same(a, b)


def test_halves_round_as_before_and_autocast_casts(torch_device: Any) -> None:
    x, w, b = (v.half() for v in drawn("rows"))
    ours = F.linear(x.to(D), w.to(D), b.to(D))
    assert ours.dtype is torch.float16
    torch.testing.assert_close(ours.cpu(), F.linear(x.float(), w.float(), b.float()).half(), rtol=1e-3, atol=1e-3)
    with torch.autocast(D, torch.bfloat16):
        assert F.linear(x.float().to(D), w.float().to(D)).dtype is torch.bfloat16


def test_sizes_that_do_not_fit_raise_as_in_pytorch(torch_device: Any) -> None:
    x, w, _ = (v.to(D) for v in drawn("rows"))
    with pytest.raises((RuntimeError, ValueError), match="cannot"):
        F.linear(x, w.t())
    with pytest.raises(RuntimeError):
        F.linear(x, w.cpu())
