"""Mirrors in PyTorch: every operation and every module has PyTorch's values and gradients there, under PyTorch's names."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
import shadergrad.nn.functional as F
from cases import CASES, Case
from helpers import (
    assert_close,
    assert_equals_torch,
    cotangents_of,
    evaluate,
    grad_of,
    gradients,
    results_of,
    torch_leaves_of,
)
from module_cases import CASES as MODULES
from module_cases import ModuleCase, floats
from shadergrad import extend, nn
from shadergrad.drive.execute import programs
from shadergrad.interop import InteropError
from shadergrad.interop.torch import mirror, torch_name
from shadergrad.interop.torch.device import to_ours, to_theirs
from shadergrad.interop.torch.module_mirror import Mirror
from shadergrad.interop.torch.threads import check_threads, default_threads
from shadergrad.nn.errors import ModuleError
from shadergrad.system.optional_packages import MissingPackageError

pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom.*", "ignore:Support for mismatched")


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_an_operation_within_a_mirror_has_pytorchs_value_and_gradients(case: Case) -> None:
    expected = results_of(case, torch, torch_leaves_of(case, case.arrays()))
    leaves = torch_leaves_of(case, case.arrays())
    ours = [to_ours(x.int() if i.kind == "index" else x) for x, i in zip(leaves, case.inputs, strict=True)]
    found = [o if isinstance(o, sg.Tensor) else sg.tensor(o) for o in evaluate(case, case.ours, ours)]
    for k, (a, b) in enumerate(zip(found, expected["values"], strict=True)):
        assert_equals_torch(a, b, what=f"{case.id} {k}")
    if not case.differentiable:
        return
    theirs = [to_theirs(o) for o in found if o.is_floating_point()]
    smooth = [x for x in leaves if x.is_floating_point()]
    us = [torch.tensor(u, dtype=o.dtype) for u, o in zip(cotangents_of(theirs), theirs, strict=True)]
    for a, b in zip(gradients(torch, theirs, smooth, us), expected["gradients"], strict=True):
        assert_close(
            a,
            b,
            2e-6 if a.dtype is torch.float32 else 1e-9,
            2e-6 if a.dtype is torch.float32 else 1e-9,
            f"gradient: {case.id}",
        )


def flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [t for v in value for t in flat(v)]
    return [] if value is None else [value]


def module_results(c: ModuleCase, module: Any) -> dict[str, np.ndarray]:
    """Outputs, gradients for a random cotangent, and buffers, of a torch.nn.Module."""
    leaves = [torch.tensor(a, requires_grad=a.dtype.kind == "f" and k not in c.fixed) for k, a in enumerate(c.inputs)]
    outputs = [o for o in flat(c.call(module, *leaves)) if o.is_floating_point()]
    total: Any = sum((o * torch.tensor(floats(*o.shape, seed=100 + k))).sum() for k, o in enumerate(outputs))
    if total.requires_grad:
        total.backward()
    found = {f"output {k}": o for k, o in enumerate(outputs)}
    found |= {f"gradient of input {k}": x.grad for k, x in enumerate(leaves)}
    found |= {f"gradient of {name}": p.grad for name, p in module.named_parameters()}
    found |= dict(module.named_buffers())
    return {name: np.zeros(0) if t is None else t.numpy(force=True) for name, t in found.items()}


@pytest.mark.parametrize("c", [c for c in MODULES if c.as_a_whole], ids=str)
def test_a_mirrored_module_equals_pytorchs_own_in_float64(c: ModuleCase) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = c.make(torch.nn).double().train(c.train)
    with torch.no_grad():
        for p in theirs.parameters():
            p.normal_(0.2, 0.6)
    ours = c.make(nn).to(sg.float64).train(c.train)
    ours.load_state_dict(theirs.state_dict())
    twin: Mirror = mirror(ours)
    assert twin.state_dict().keys() == theirs.state_dict().keys()
    found, expected = module_results(c, twin), module_results(c, theirs)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert_close(found[name], value, c.tolerance, c.tolerance, f"{c.name}: {name}")


class Forgetful(nn.Module):
    """Of which nothing is kept between the passes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        return sg.checkpoint(lambda x: self.linear(x).tanh(), x)


def test_what_is_computed_twice_here_is_kept_in_a_mirror() -> None:
    ours = Forgetful()
    x = floats(4, 3).astype(np.float32)
    twin = mirror(ours)
    twin(torch.tensor(x)).sum().backward()
    ours(sg.tensor(x)).sum().backward()
    for name, gradient in twin.gradients().items():
        assert_close(gradient, dict(ours.named_parameters())[name].grad, 1e-5, 1e-6, name)


class Norm(nn.Module):
    """A norm with the names of old."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.gamma, self.beta = nn.Parameter(sg.ones(n)), nn.Parameter(sg.zeros(n))

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        return F.layer_norm(x, (x.shape[-1],), self.gamma, self.beta)


class Perceptron(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(n, 2 * n), nn.Linear(2 * n, n)

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        return self.linear2(F.gelu(self.linear1(x)))


class Block(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.norm, self.ff = Norm(n), Perceptron(n)

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        return x + self.ff(self.norm(x))


class TheirBlock(torch.nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(n)
        parts = (torch.nn.Linear(n, 2 * n), torch.nn.GELU(), torch.nn.Dropout(0.0), torch.nn.Linear(2 * n, n))
        self.ff = torch.nn.Sequential(*parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.ff(self.norm(x))


def test_a_mirrors_state_dict_is_that_of_the_same_network_written_in_pytorch(device: str) -> None:
    twin, theirs = mirror(Block(4).to(device)), TheirBlock(4)
    theirs.load_state_dict(twin.state_dict())
    x = torch.randn(3, 4)
    assert_close(twin(x), theirs(x), 1e-6, 1e-6)
    assert twin.names["ff.linear2.bias"] == "ff.3.bias"


def test_names_that_become_one_are_refused() -> None:
    block = Norm(2)
    block.weight = nn.Parameter(sg.ones(2))
    with pytest.raises(InteropError, match=r"'gamma' and 'weight' are both 'weight'"):
        mirror(block)
    assert torch_name("off.linear1.gamma_") == "off.linear1.gamma_"


def test_only_what_has_changed_is_copied(device: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(device)
    optimizer = sg.optim.SGD(model[2].parameters(), lr=0.1)
    twin = mirror(model)
    x = sg.randn(5, 3, device=device)

    @sg.compile
    def step(x: sg.Tensor) -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    assert twin.sync() == 0
    for _ in range(3):
        step(x)
        assert twin.sync() == 2 + 3  # the last layer, and the statistics of the norm
    with sg.no_grad():
        model[0].bias.fill_(3)
    assert twin.sync() == 1
    model.load_state_dict(model.state_dict())
    assert twin.sync() == 9
    assert_close(dict(twin.named_parameters())["0.bias"], np.full(4, 3), 0, 0)


def test_a_tensor_given_elsewhere_in_the_model_is_one_parameter() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
    model[1].weight = model[0].weight
    twin = mirror(model)
    assert len(list(twin.parameters())) == 1
    assert list(twin.state_dict()) == ["0.weight", "1.weight"]
    twin(torch.arange(5)).square().sum().backward()
    twin.write_gradients()
    found = grad_of(model[0].weight).numpy()
    model.zero_grad()
    model(sg.arange(5)).square().sum().backward()
    assert_close(found, grad_of(model[0].weight), 1e-5, 1e-5)


class Odd(nn.Module):
    """What PyTorch has no word for: a function of the user's own, a write in place, a cut, values that are looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(sg.linspace(-1, 1, 4))

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        class Tripled(sg.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: sg.Tensor) -> sg.Tensor:
                return x * 3

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return grads[0] * 5  # not the derivative, so that it is seen whose rule is used

        y = Tripled.apply(x * self.weight)
        y[0] = self.weight.detach() * self.weight
        with sg.no_grad():
            y = y + (self.weight * 0).sum() if y.sum().item() > 1e9 else y
        first, *_ = y.unbind(0)
        return y.cumsum(0) + first.sort()[0]


def test_pythons_own_ways_have_our_gradients_in_a_mirror() -> None:
    model, x = Odd(), np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    model(sg.tensor(x)).square().sum().backward()
    twin = mirror(model)
    twin(x).square().sum().backward()
    assert_close(twin.gradients()["weight"], grad_of(model.weight), 1e-5, 1e-5)


def test_a_value_put_in_place_without_a_history_keeps_the_one_that_was() -> None:
    class Rounded(nn.Module):
        def forward(self, x: sg.Tensor) -> sg.Tensor:
            y = x * 3
            with sg.no_grad():
                y.copy_(y.round())
            return y * y

    x = torch.tensor([0.5, 1.1], requires_grad=True)
    y = mirror(Rounded())(x)
    y.sum().backward()
    assert y.tolist() == [4, 9]
    assert grad_of(x).tolist() == [12, 18]


@dataclass(frozen=True)
class Cubed(extend.Operation):
    """x ** 3, whose gradient is said to be 7 x g: so that it is seen whose rule is used."""

    arguments = ("x",)

    def infer(self, *inputs: extend.Spec) -> extend.Spec:
        return inputs[0]

    def numpy(self, *arrays: np.ndarray) -> np.ndarray:
        return arrays[0] ** 3

    def gradient(self, g: sg.Tensor, result: sg.Tensor, *inputs: sg.Tensor) -> Any:
        return (g * inputs[0] * 7,)


def test_a_kernel_written_by_hand_runs_by_its_numpy_twin_and_its_own_gradient() -> None:
    class Cube(nn.Module):
        def forward(self, x: sg.Tensor) -> sg.Tensor:
            return Cubed()(x + 1)

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = mirror(Cube())(x)
    y.sum().backward()
    assert y.tolist() == [8, 27]
    assert grad_of(x).tolist() == [14, 21]


def test_what_a_norm_tracks_is_tracked_in_the_mirror_too() -> None:
    ours, theirs = nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    twin, x = mirror(ours), torch.randn(6, 3)
    for _ in range(2):
        assert_close(twin(x), theirs(x), 1e-5, 1e-5)
    assert_close(twin.state_dict()["running_var"], theirs.running_var, 1e-6, 1e-6)
    assert_close(ours.running_var, np.ones(3), 0, 0)
    twin.write_back()
    assert_close(ours.running_var, theirs.running_var, 1e-6, 1e-6)


def test_a_mirror_can_be_trained_in_pytorch_and_written_back(device: str) -> None:
    model = nn.Linear(3, 2).to(device)
    twin = mirror(model)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    twin(torch.ones(4, 3)).square().mean().backward()
    optimizer.step()
    twin.write_back()
    assert_close(model.weight, twin.state_dict()["weight"], 0, 0)
    assert_close(model(sg.ones(4, 3, device=device)), twin(torch.ones(4, 3)), 1e-5, 1e-6)


def test_dropout_in_a_mirror_follows_our_seed_and_leaves_pytorchs_generator_alone() -> None:
    twin = mirror(nn.Dropout(0.25))
    before = torch.get_rng_state()
    sg.manual_seed(3)
    first, second = twin(torch.ones(4000)), twin(torch.ones(4000))
    sg.manual_seed(4)
    assert not torch.equal(first, second)
    assert not torch.equal(first, twin(torch.ones(4000)))
    sg.manual_seed(3)
    assert torch.equal(first, twin(torch.ones(4000)))
    assert abs(first.mean().item() - 1) < 0.05
    assert set(first.unique().tolist()) == {0.0, float(np.float32(1 / 0.75))}
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(twin.eval()(torch.ones(9)), torch.ones(9))


def test_a_mirror_computes_on_as_many_threads_as_it_was_told() -> None:
    seen = []

    class Watch(nn.Module):
        def forward(self, x: sg.Tensor) -> sg.Tensor:
            seen.append(torch.get_num_threads())
            return x

    before = torch.get_num_threads()
    mirror(Watch(), threads=1)(torch.ones(1))
    mirror(Watch(), threads=3)(torch.ones(1))
    assert seen == [1, 3]
    assert torch.get_num_threads() == before
    assert default_threads() >= 1
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(InteropError, match="threads is"):
            check_threads(wrong)  # pyright: ignore[reportArgumentType]


def test_without_pytorch_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        MissingPackageError, match=r'torch, which is not installed. Hint: pip install "shadergrad\[torch\]"'
    ):
        mirror(nn.Linear(1, 1))


def test_what_cannot_be_mirrored_is_said() -> None:
    with pytest.raises(InteropError, match="takes a module of shadergrad, not a Linear"):
        mirror(torch.nn.Linear(1, 1))  # pyright: ignore[reportArgumentType]
    model = nn.Sequential(nn.Linear(2, 2))
    twin = mirror(model)
    model[0].weight = nn.Parameter(sg.ones(2, 2))
    with pytest.raises(ModuleError, match="other tensors than when it was mirrored"):
        twin(torch.ones(1, 2))
    with pytest.raises(InteropError, match=r"no tensor of torch.float8_e5m2"):
        mirror(nn.Linear(2, 2))(torch.ones(1, 2).to(torch.float8_e5m2))
    with pytest.raises(InteropError, match=r"an input of shadergrad's requires grad"):
        mirror(nn.Linear(2, 2))(sg.ones(1, 2, requires_grad=True))
    compiled = sg.compile(lambda x: x + 1)

    class Compiled(nn.Module):
        def forward(self, x: sg.Tensor) -> sg.Tensor:
            return compiled(x)

    with pytest.raises(sg.DeviceError, match="a compiled step cannot run within a mirror"):
        mirror(Compiled())(torch.ones(1))


def test_a_forward_that_fails_leaves_the_model_as_it_was() -> None:
    class Failing(nn.Linear):
        def forward(self, input: sg.Tensor) -> sg.Tensor:
            raise KeyError("no")

    model = Failing(2, 2)
    weight = model.weight
    with pytest.raises(KeyError):
        mirror(model)(torch.ones(1, 2))
    assert model.weight is weight


def test_a_mirror_compiles_nothing() -> None:
    twin = mirror(Block(4))
    before = programs.compiled
    twin(torch.ones(2, 4)).sum().backward()
    assert programs.compiled == before
    assert len(twin.gradients()) == 6


def test_errors_within_a_mirror_are_ours() -> None:
    class Tail(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.linear = nn.Embedding(4, 3), nn.Linear(3, 2)

        def forward(self, x: sg.Tensor, what: str) -> sg.Tensor:
            if what == "loss":
                return F.cross_entropy(self.linear(self.embedding(x)), x)
            return self.linear(sg.ones(2, 4)) if what == "linear" else self.embedding.weight[x]

    twin = mirror(Tail())
    with pytest.raises(sg.IndexRangeError):
        twin(torch.tensor([4]), "loss")
    with pytest.raises(sg.IndexRangeError):
        twin(torch.tensor([3]), "loss")  # a row, and no class
    with pytest.raises(sg.IndexRangeError):
        twin(torch.tensor([7]), "index")
    with pytest.raises(sg.ShapeError, match=r"\[linear\] cannot contract: input is \(2, 4\)"):
        twin(torch.tensor([0]), "linear")


@pytest.mark.parametrize(
    "call",
    [
        lambda x, w, i: F.linear(x, w, w[0]),
        lambda x, w, i: F.embedding(i, w),
        lambda x, w, i: F.layer_norm(x, (4,), w[0], w[1]),
        lambda x, w, i: F.gelu(x, "tanh"),
        lambda x, w, i: F.scaled_dot_product_attention(x, x, x, dropout_p=0.1, is_causal=True),
        lambda x, w, i: F.cross_entropy(x, i, label_smoothing=0.1),
        lambda x, w, i: F.dropout(x, 0.5),
    ],
    ids=["linear", "embedding", "layer_norm", "gelu", "attention", "cross_entropy", "dropout"],
)
def test_what_pytorch_computes_whole_is_one_value(call: Any) -> None:
    x, w, i = (to_ours(t) for t in (torch.ones(4, 4), torch.ones(4, 4), torch.tensor([0, 1, 2, 3], dtype=torch.int32)))
    assert call(x, w, i)._node.storage is not None
