"""Modules called with other tensors, and Jacobians and linear approximations of functions, as torch.func's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import shadergrad as sg
from helpers import assert_close
from shadergrad import nn

pytestmark = [  # PyTorch's own, of forward mode
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node"),
]
LIBRARIES = pytest.mark.parametrize("lib", [sg, torch], ids=["shadergrad", "torch"])


def tied(lib: Any) -> Any:
    class Tied(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = lib.nn.Parameter(lib.ones(2))
            self.same = self.w
            self.plain = lib.full((2,), 5.0)
            self.number = 3
            self.register_buffer("count", lib.zeros(1))

        def forward(self, x: Any) -> Any:
            self.count = self.count + 1
            return x * self.w + self.same * 10 + self.plain * 100

    return Tied()


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


CALLS: dict[str, Callable[[Any], tuple[Any, dict[str, Any]]]] = {
    "a plain attribute": lambda lib: ({"plain": lib.zeros(2)}, {}),
    "tied": lambda lib: ({"w": lib.zeros(2)}, {}),
    "not tied": lambda lib: ({"w": lib.zeros(2)}, {"tie_weights": False}),
    "two values of one": lambda lib: ({"w": lib.zeros(2), "same": lib.ones(2)}, {}),
    "no tensor there": lambda lib: ({"number": lib.zeros(2)}, {}),
    "no tensor given": lambda lib: ({"w": 3}, {}),
    "a name that is not there": lambda lib: ({"nothing": lib.ones(1)}, {}),
    "a path that is not there": lambda lib: ({"a.b": lib.ones(1)}, {}),
    "all, strictly": lambda lib: ({"w": lib.zeros(2), "count": lib.ones(1)}, {"strict": True}),
    "one missing": lambda lib: ({"w": lib.zeros(2)}, {"strict": True}),
    "one too many": lambda lib: ({"w": lib.zeros(2), "count": lib.ones(1), "plain": lib.ones(2)}, {"strict": True}),
    "several dicts": lambda lib: ([{"w": lib.zeros(2)}, {"count": lib.ones(1)}], {}),
    "several with one name": lambda lib: ([{"w": lib.zeros(2)}, {"w": lib.ones(2)}], {}),
    "no dict": lambda lib: ("text", {}),
    "a buffer that is replaced": lambda lib: ({"count": lib.full((1,), 7.0)}, {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_other_tensors_take_the_places_of_a_modules(name: str) -> None:
    def called(lib: Any) -> Any:
        module = tied(lib)
        given, options = CALLS[name](lib)
        try:
            result = plain(lib.func.functional_call(module, given, lib.ones(2), **options))
        except Exception as error:  # PyTorch's classes, or what extends them
            result = [c.__name__ for c in type(error).__mro__]
        return result, plain(given), plain(module.state_dict()), plain(module.plain), hasattr(module, "nothing")

    (ours, *our_state), (theirs, *their_state) = called(sg), called(torch)
    assert our_state == their_state
    assert ours == theirs or theirs[0] in ours


@LIBRARIES
def test_gradients_reach_what_takes_the_place_of_an_attribute(lib: Any) -> None:
    module = tied(lib)
    given = {"plain": lib.zeros(2, requires_grad=True)}
    lib.func.functional_call(module, given, lib.ones(2)).sum().backward()
    assert given["plain"].grad.tolist() == [100.0, 100.0]


def test_a_functional_call_within_a_compiled_step(device: str) -> None:
    module = nn.Linear(2, 1, bias=False, device=device)
    module.scale = sg.ones(1, device=device)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = sg.ones(1, device=device)

        def forward(self, x: sg.Tensor) -> sg.Tensor:
            return x * self.scale

    scaled = Scaled()
    step = sg.compile(lambda s, x: sg.func.functional_call(scaled, {"scale": s}, x))
    x = sg.ones(2, device=device)
    for factor in (2.0, 3.0):
        assert_close(step(sg.full((1,), factor, device=device), x), [factor, factor], 0, 0)
    assert_close(scaled(x), [1.0, 1.0], 0, 0)


def test_the_name_of_a_parametrized_tensor_stands_for_its_value() -> None:
    module = nn.utils.parametrizations.weight_norm(nn.Linear(2, 1, bias=False))
    w = sg.tensor([[3.0, 4.0]], requires_grad=True)
    before = module.weight.tolist()
    out = sg.func.functional_call(module, {"weight": w}, sg.ones(1, 2))
    assert out.tolist() == [[7.0]]
    out.sum().backward()
    assert w.grad is not None
    assert module.weight.tolist() == before


def jacobians(lib: Any) -> Any:
    x, y = lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0])
    func = lib.func

    def f(a: Any, b: Any) -> Any:
        return {"product": a * b, "square": (a * a).sum()}

    def g(a: Any, b: Any) -> Any:
        return a * b, a + b

    tree = {"u": x, "v": [y]}
    return [plain(make(f, argnums=n)(x, y)) for make in (func.jacrev, func.jacfwd) for n in (0, (0, 1), (1, 0))] + [
        plain(func.jacrev(g, has_aux=True)(x, y)),
        plain(func.jacfwd(g, has_aux=True)(x, y)),
        plain(func.jacrev(lambda t: t["u"] * t["v"][0])(tree)),
        plain(func.hessian(lambda a: a**3)(x)),
        plain(func.hessian(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(x, y)),
    ]


def test_jacobians_of_trees_are_pytorchs() -> None:
    assert jacobians(sg) == jacobians(torch)


@LIBRARIES
def test_linearize(lib: Any) -> None:
    def f(a: Any, b: Any) -> Any:
        return {"sum": a.sin() + b, "product": a * b}

    x, y = lib.tensor([0.0, 0.5]), lib.tensor([2.0, 3.0])
    value, push = lib.func.linearize(f, x, y)
    assert_close(value["product"], [0.0, 1.5], 1e-6, 1e-6)
    for k in (1.0, 2.0):
        found = push(lib.full((2,), k), lib.zeros(2))
        assert_close(found["product"], [2.0 * k, 3.0 * k], 1e-6, 1e-6)
        assert_close(found["sum"], [k, 0.87758 * k], 1e-4, 1e-4)
    for tangents in ((lib.ones(2),), (lib.ones(3), lib.ones(2)), (lib.ones(2).double(), lib.ones(2))):
        with pytest.raises(RuntimeError):
            push(*tangents)


def test_batch_norms_that_track_nothing() -> None:
    for lib in (sg, torch):
        net = lib.nn.Sequential(lib.nn.BatchNorm1d(2), lib.nn.ReLU())
        lib.func.replace_all_batch_norm_modules_(net)
        assert net[0].running_mean is None
        net.eval()
        assert_close(net(lib.tensor([[1.0, 2.0], [3.0, 2.0]])), [[0.0, 0.0], [1.0, 0.0]], 1e-4, 1e-4)
