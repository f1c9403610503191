"""torch.autocast casts a weight once in a context, as on PyTorch's cpu: how many casts, which values, which gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("torch_device")
PLACES = ("cpu", "webgpu")
LOWER = torch.bfloat16


class Casts(TorchDispatchMode):
    """Notes the shape of each tensor that is cast."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._to_copy.default:
            self.shapes.append(tuple(args[0].shape))
        return func(*args, **(kwargs or {}))


def layer(device: str) -> nn.Module:
    """Layers that autocast casts, of which a cast is kept; on webgpu few, since their kernels take seconds to compile."""
    if device == "webgpu":
        return nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)


def thrice(model: nn.Module, x: Tensor) -> Tensor:
    for _ in range(3):
        x = model(x)
    return x


def by_parts(model: nn.Module, x: Tensor) -> Tensor:
    """Each layer's activations are computed anew in the backward pass."""
    for _ in range(3):
        x = checkpoint(model, x, use_reentrant=False)  # type: ignore[assignment]
    return x


def measured_first(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        thrice(model, x)
    return thrice(model, x)


def inferred_first(model: nn.Module, x: Tensor) -> Tensor:
    with torch.inference_mode():
        model(x)
    return model(x)


def in_two_contexts(model: nn.Module, x: Tensor) -> Tensor:
    with torch.autocast(x.device.type, dtype=LOWER):
        x = model(x)
    return model(x)


def without_cache(model: nn.Module, x: Tensor) -> Tensor:
    with torch.autocast(x.device.type, dtype=LOWER, cache_enabled=False):
        x = model(x)
        return model(x)


def cleared(model: nn.Module, x: Tensor) -> Tensor:
    x = model(x)
    torch.clear_autocast_cache()
    return model(x)


PROGRAMS: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    f.__name__: f for f in (thrice, by_parts, measured_first, inferred_first, in_two_contexts, without_cache, cleared)
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_casts_are_as_many_as_pytorchs_and_gradients_equal(program: str, device: str) -> None:
    model, x = layer(device), torch.randn(2, 5, 16)
    casts, gradients = [], []
    for place in PLACES:
        m, given = copy.deepcopy(model).to(place), x.to(place, copy=True).requires_grad_()
        with Casts() as seen:
            with torch.autocast(place, dtype=LOWER):
                y = PROGRAMS[program](m, given)
            y.float().square().sum().backward()
        casts.append(sorted(seen.shapes))
        assert given.grad is not None
        gradients.append([given.grad.cpu(), *(p.grad.cpu() for p in m.parameters() if p.grad is not None)])
    assert casts[1] == casts[0]
    assert len(gradients[0]) == len(gradients[1]) == 1 + len(list(model.parameters()))
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(b, a, rtol=0.05, atol=0.05 * a.abs().max().item())  # bfloat16 has 8 bits


def test_gradients_through_a_kept_cast_are_those_of_a_cast_for_each_use(device: str) -> None:
    model, x = layer(device).to("webgpu"), torch.randn(2, 5, 16, device="webgpu")
    found = []
    for kept in (True, False):
        model.zero_grad()
        with torch.autocast("webgpu", dtype=LOWER, cache_enabled=kept):
            y = model(x) + model(2 * x)
        y.float().square().sum().backward()
        found.append([p.grad.cpu() for p in model.parameters() if p.grad is not None])
    for a, b in zip(*found, strict=True):  # the gradients of two uses are added in bfloat16, or in float32
        torch.testing.assert_close(a, b, rtol=0.02, atol=0.01 * b.abs().max().item())


def lengths(made: list[Tensor]) -> list[float]:
    return [round(y.detach().float().square().sum().item(), 4) for y in made]


def _written(place: str, w: Tensor, x: Tensor) -> Iterator[Tensor]:
    """A weight that is written in the context: the next context sees it."""
    with torch.autocast(place, dtype=LOWER):
        yield x @ w
        with torch.no_grad():
            w.mul_(2)
        yield x @ w
    with torch.autocast(place, dtype=LOWER):
        yield x @ w


def _nested(place: str, w: Tensor, x: Tensor) -> Iterator[Tensor]:
    """The end of an inner context keeps the casts."""
    with torch.autocast(place, dtype=LOWER):
        with torch.autocast(place, dtype=LOWER):
            yield x @ w
        with torch.no_grad():
            w.mul_(2)
        yield x @ w


def _views_and_results(place: str, w: Tensor, x: Tensor) -> Iterator[Tensor]:
    """No casts of them are kept."""
    with torch.autocast(place, dtype=LOWER):
        part, fixed, double = w[:2], w.detach(), w * 2
        for _ in range(2):
            yield x[:, :2] @ part
            yield x @ fixed
            yield x @ double
            with torch.no_grad():
                w.mul_(2)


@pytest.mark.parametrize("program", [_written, _nested, _views_and_results])
def test_what_is_kept_and_how_long_is_pytorchs(program: Any) -> None:
    w, x = torch.randn(4, 4), torch.randn(3, 4)
    found = [lengths(list(program(place, w.to(place, copy=True).requires_grad_(), x.to(place)))) for place in PLACES]
    assert found[1] == pytest.approx(found[0], rel=0.02)


def test_an_inner_context_of_another_dtype_casts_anew() -> None:
    w, x = torch.randn(4, 4, device="webgpu", requires_grad=True), torch.randn(3, 4, device="webgpu")
    with torch.autocast("webgpu", dtype=LOWER):
        assert (x @ w).dtype is LOWER
        with torch.autocast("webgpu", dtype=torch.float16):
            assert (x @ w).dtype is torch.float16
        assert (x @ w).dtype is LOWER


def test_no_cast_outlives_its_context() -> None:
    from shadergrad.torch import autocast

    w, x = torch.randn(4, 4, device="webgpu", requires_grad=True), torch.randn(3, 4, device="webgpu")
    with torch.autocast("webgpu", dtype=LOWER):
        y = x @ w
        assert y.dtype is LOWER
        assert len(autocast._casts) == 1
        with pytest.raises(ValueError, match="here"), torch.autocast("webgpu"):
            raise ValueError("here")
        assert len(autocast._casts) == 1
    assert not autocast._casts


def test_transforms_of_functions_under_autocast() -> None:
    model, x = nn.Linear(4, 3), torch.randn(5, 4)
    found = []
    for place in PLACES:
        m, given = copy.deepcopy(model).to(place), x.to(place)

        def loss(parameters: Any, row: Tensor, m: nn.Module = m) -> Tensor:
            y = torch.func.functional_call(m, parameters, (row,))
            return (y + torch.func.functional_call(m, parameters, (2 * row,))).float().square().sum()

        parameters = {k: p.detach() for k, p in m.named_parameters()}
        with torch.autocast(place, dtype=LOWER):
            m(given)  # keeps the casts of the module's own
            gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, given)
        found.append([g.cpu() for g in gradients.values()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a, rtol=0.05, atol=0.05 * a.abs().max().item())


def test_a_compiled_model_within_and_around_a_context() -> None:
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(5, 4)
    torch._dynamo.reset()

    def inside(m: Any, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, dtype=LOWER):
            return m(m(x))

    def within(m: Any, x: Tensor) -> Tensor:
        return m(m(x))

    for function in (inside, within):
        found = []
        for place in PLACES:
            m, given = copy.deepcopy(model).to(place), x.to(place)
            run = torch.compile(function, backend="shadergrad") if place == "webgpu" else function
            y = given
            for _ in range(2):
                with torch.autocast(place, dtype=LOWER, enabled=function is within):
                    y = run(m, given)
                y.float().square().sum().backward()
            found.append([y.detach().float().cpu(), *(p.grad.cpu() for p in m.parameters() if p.grad is not None)])
        assert len(found[1]) == 3
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(b, a, rtol=0.05, atol=0.05 * a.abs().max().item())
    torch._dynamo.reset()
