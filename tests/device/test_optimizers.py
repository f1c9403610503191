"""Every optimizer against PyTorch's, step by step; what they share; and nn.utils.

PyTorch runs with float64 as its default dtype where float64 is compared: NAdam keeps its product of momenta in the
default dtype, whose rounding would be all there is to see.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close, assert_compiles_nothing, assert_same_bits, grad_of
from optimizer_cases import BY_CLOSURE, KINDS, LATER, RULES, torch_optimizer
from shadergrad import optim
from shadergrad.drive.execute import programs
from shadergrad.graph.composition import Composition
from shadergrad.nn.utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, vector_to_parameters
from shadergrad.optim import lbfgs
from shadergrad.tensor import flush

STEPPED = [rule for rule, (kind, _) in RULES.items() if kind not in BY_CLOSURE]
every_rule = pytest.mark.parametrize("rule", STEPPED)
every_kind = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in BY_CLOSURE])


@pytest.fixture
def torch_float64(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PyTorch in float64, and its Muon in the parameter's dtype."""
    unrounded_muon(monkeypatch)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def unrounded_muon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)


def start(kind: str = "") -> list[np.ndarray]:
    """The weights and biases of a network 3-4-2; for Muon the weights alone."""
    rng = np.random.default_rng(0)
    sizes = [(3, 4), (4, 2)] if kind == "Muon" else [(3, 4), (4, 2), (4,), (2,)]
    return [rng.standard_normal(size) for size in sizes]


def batches() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((5, 3)) for _ in range(7)]


def loss_of(x: Any, w1: Any, w2: Any, *biases: Any) -> Any:
    """The mean square distance to a function of x. Products as sums, whose kernels are quicker to compile."""
    b1, b2 = biases or (0.0, 0.0)
    h = ((x.unsqueeze(-1) * w1).sum(1) + b1).tanh()
    y = (h.unsqueeze(-1) * w2).sum(1) + b2
    return (y - x.sum(1, keepdim=True).sin()).square().mean()


def leaves(kind: str, device: str, dtype: Any = sg.float32) -> list[sg.Tensor]:
    return [sg.tensor(a, dtype=dtype, device=device, requires_grad=True) for a in start(kind)]


def training(optimizer: Any, parameters: list[sg.Tensor]) -> Callable[[sg.Tensor], sg.Tensor]:
    def step(x: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = loss_of(x, *parameters)
        loss.backward()
        optimizer.step()
        return loss

    return step


def ours(rule: str, device: str, dtype: Any, steps: int, compiled: bool) -> tuple[list[np.ndarray], list[float]]:
    kind, options = RULES[rule]
    parameters = leaves(kind, device, dtype)
    step = training(getattr(optim, kind)(parameters, **options), parameters)
    run = sg.compile(step) if compiled else step
    data = [sg.tensor(x, dtype=dtype, device=device) for x in batches()]
    losses = [run(data[k % len(data)]) for k in range(steps)]
    return [p.detach().numpy() for p in parameters], [loss.item() for loss in losses]


def theirs(rule: str, dtype: torch.dtype, steps: int) -> tuple[list[np.ndarray], list[float]]:
    kind, options = RULES[rule]
    parameters = [torch.tensor(a, dtype=dtype, requires_grad=True) for a in start(kind)]
    optimizer = torch_optimizer(kind)(parameters, **options)
    data = [torch.tensor(x, dtype=dtype) for x in batches()]
    losses = []
    for k in range(steps):
        losses.append(torch_step(optimizer, parameters, data[k % len(data)]))
    return [p.detach().numpy() for p in parameters], losses


def torch_step(optimizer: Any, parameters: list[torch.Tensor], x: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss = loss_of(x, *parameters)
    loss.backward()
    optimizer.step()
    return loss.item()


@every_rule
def test_cpu_equals_pytorch_in_float64_over_a_hundred_steps(rule: str, torch_float64: None) -> None:
    (parameters, losses), (expected, expected_losses) = (
        ours(rule, "cpu", sg.float64, 100, compiled=False),
        theirs(rule, torch.float64, 100),
    )
    assert_close(losses, expected_losses, 1e-11, 1e-11)
    for p, e in zip(parameters, expected, strict=True):
        assert_close(p, e, 1e-11, 1e-11)


@every_rule
def test_webgpu_equals_pytorch_in_float32(rule: str, webgpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled, twenty steps: beyond that float32 rounding decides, in PyTorch as here."""
    unrounded_muon(monkeypatch)
    (parameters, losses), (expected, expected_losses) = (
        ours(rule, webgpu, sg.float32, 20, compiled=True),
        theirs(rule, torch.float32, 20),
    )
    assert_close(losses, expected_losses, 1e-5, 1e-5)
    for p, e in zip(parameters, expected, strict=True):
        assert_close(p, e, 1e-5, 1e-5)


@every_rule
def test_a_compiled_step_equals_the_uncompiled_bit_for_bit_on_cpu(rule: str) -> None:
    for p, e in zip(
        ours(rule, "cpu", sg.float32, 5, compiled=True)[0],
        ours(rule, "cpu", sg.float32, 5, compiled=False)[0],
        strict=True,
    ):
        assert_same_bits(p, e)


@pytest.mark.parametrize("rule", ["NAdam", "RAdam", "Muon"])
def test_a_compiled_step_equals_the_uncompiled_on_webgpu(rule: str, webgpu: str) -> None:
    for p, e in zip(
        ours(rule, webgpu, sg.float32, 5, compiled=True)[0],
        ours(rule, webgpu, sg.float32, 5, compiled=False)[0],
        strict=True,
    ):
        assert_close(p, e, 2e-6, 2e-6)


@every_kind
def test_changing_the_rate_compiles_nothing_and_takes_effect(kind: str, device: str) -> None:
    parameters = leaves(kind, device)
    optimizer = getattr(optim, kind)(parameters, **KINDS[kind])
    step = sg.compile(training(optimizer, parameters))
    x = sg.tensor(batches()[0], dtype=sg.float32, device=device)
    step(x)
    step(x)
    before = [p.detach().numpy() for p in parameters]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    assert_compiles_nothing(lambda: step(x), "a step at another rate")
    assert step.captures == 1
    for p, b in zip(parameters, before, strict=True):
        if kind not in LATER:
            assert_same_bits(p, b)


@every_kind
def test_the_state_is_named_as_pytorchs_and_pytorchs_is_taken(kind: str, torch_float64: None) -> None:
    """Three steps in PyTorch, its state loaded here, and three more in both."""
    options = KINDS[kind]
    references = [torch.tensor(a, requires_grad=True) for a in start(kind)]
    reference = torch_optimizer(kind)(references, **options)
    data = batches()
    for x in data[:3]:
        torch_step(reference, references, torch.tensor(x))
    parameters = [sg.tensor(p.detach().numpy(), requires_grad=True) for p in references]
    optimizer = getattr(optim, kind)(parameters, **options)
    saved = reference.state_dict()
    step = training(optimizer, parameters)
    assert optimizer.state_dict()["state"] == {}, "state begins with the first step"
    assert set(optimizer.state_dict()["param_groups"][0]) <= set(saved["param_groups"][0])
    optimizer.load_state_dict(saved)
    names = [{k: list(values) for k, values in s["state"].items()} for s in (optimizer.state_dict(), saved)]
    assert names[0] == names[1]
    for x in data[3:6]:
        torch_step(reference, references, torch.tensor(x))
        step(sg.tensor(x))
    for p, e in zip(parameters, references, strict=True):
        assert_close(p, e.detach(), 1e-11, 1e-11)


@every_kind
def test_a_state_dict_continues_where_it_was_saved(kind: str) -> None:
    data = [sg.tensor(x, dtype=sg.float32) for x in batches()]
    parameters = leaves(kind, "cpu")
    optimizer = getattr(optim, kind)(parameters, **KINDS[kind])
    step = training(optimizer, parameters)
    for x in data[:3]:
        step(x)
    saved, weights = optimizer.state_dict(), [p.detach().numpy() for p in parameters]
    for x in data[3:]:
        step(x)
    others = [sg.tensor(w, requires_grad=True) for w in weights]
    again = getattr(optim, kind)(others, **KINDS[kind])
    again.load_state_dict(saved)
    step = training(again, others)
    for x in data[3:]:
        step(x)
    for p, q in zip(parameters, others, strict=True):
        assert_same_bits(p, q)


@pytest.mark.parametrize("kind", KINDS)
def test_a_deep_copy_goes_on_as_its_original_and_shares_nothing(kind: str, device: str) -> None:
    """Parameters and optimizer copied together, as copy.deepcopy of whatever holds both does."""
    parameters = leaves(kind, device)
    optimizer = getattr(optim, kind)(parameters, **KINDS[kind])
    data = [sg.tensor(x, dtype=sg.float32, device=device) for x in batches()[:4]]

    def train(parameters: list[sg.Tensor], optimizer: Any, x: sg.Tensor) -> None:
        def closure() -> sg.Tensor:
            optimizer.zero_grad()
            loss = loss_of(x, *parameters)
            loss.backward()
            return loss

        optimizer.step(closure)

    for x in data[:2]:
        train(parameters, optimizer, x)
    others, twin = copy.deepcopy((parameters, optimizer))
    assert [id(p) for g in twin.param_groups for p in g["params"]] == [id(p) for p in others]
    before = [p.detach().numpy() for p in parameters]
    twin.param_groups[0]["lr"] *= 1.0
    for x in data[2:]:
        train(others, twin, x)
    for p, b in zip(parameters, before, strict=True):
        assert_same_bits(p.detach(), b)
    for x in data[2:]:
        train(parameters, optimizer, x)
    for p, q in zip(parameters, others, strict=True):
        assert_same_bits(p.detach(), q.detach())
    twin.param_groups[0]["lr"] = 0.0
    assert optimizer.param_groups[0]["lr"] == KINDS[kind].get("lr", optimizer.defaults["lr"])
    train(parameters, optimizer, data[0])
    assert not all(
        np.array_equal(p.detach().numpy(), q.detach().numpy()) for p, q in zip(parameters, others, strict=True)
    )
    at_rest = [q.detach().numpy() for q in others]
    train(others, twin, data[0])
    for q, value in zip(others, at_rest, strict=True):
        if kind not in LATER:
            assert_same_bits(q.detach(), value)


def test_a_copied_group_makes_the_state_of_its_own_optimizer() -> None:
    optimizer = optim.SGD([sg.ones(2).requires_grad_()], lr=0.1)
    twin = copy.deepcopy(optimizer)
    twin.param_groups[0]["momentum"] = 0.9
    twin.param_groups[0]["params"][0].grad = sg.ones(2)
    twin.step()
    assert list(twin.state_dict()["state"][0]) == ["momentum_buffer"]
    assert optimizer.state_dict()["state"] == {}


def test_every_public_optimizer_has_a_case() -> None:
    public = {n for n, k in vars(optim).items() if inspect.isclass(k) and issubclass(k, optim.Optimizer)}
    others = {
        "Optimizer",
        "SparseAdam",
        "ZeroRedundancyOptimizer",
    }  # the last: processes/test_distributed_optimizers.py
    assert public - others == set(KINDS), "each has a rule in optimizer_cases.py"


def test_loading_a_state_without_entries_starts_anew() -> None:
    for kind, name, value in (("NAdam", "mu_product", 1.0), ("Adagrad", "sum", 0.5)):
        parameters = leaves(kind, "cpu")
        options = {"initial_accumulator_value": 0.5} if kind == "Adagrad" else {}
        optimizer = getattr(optim, kind)(parameters, **options)
        training(optimizer, parameters)(sg.tensor(batches()[0], dtype=sg.float32))
        optimizer.load_state_dict({**optimizer.state_dict(), "state": {}})
        assert optimizer.state_dict()["state"] == {}
        for p in parameters:
            p.grad = sg.zeros_like(p)
        optimizer.step()
        found = optimizer.state_dict()["state"][0]
        assert found["step"].item() == 1
        first = 0.9 * (1 - 0.5 * 0.96**0.004) if kind == "NAdam" else value
        assert np.allclose(found[name].numpy(), first)


def test_muon_is_near_pytorchs_in_bfloat16() -> None:
    """PyTorch iterates in bfloat16, three digits; here it is in float32."""
    for p, e in zip(
        ours("Muon", "cpu", sg.float32, 5, compiled=False)[0], theirs("Muon", torch.float32, 5)[0], strict=True
    ):
        assert_close(p, e, 0.02, 5e-3)


def test_radam_keeps_its_digits_in_float32_while_rho_is_small(webgpu: str) -> None:
    """rho of the first steps is a difference of numbers near 20000."""
    from shadergrad.optim.optimizer import Decay
    from shadergrad.optim.radam import length

    steps = np.array([1, 2, 4, 5, 6, 7, 20, 100, 1000, 20_000, 100_000])
    for beta in (0.9, 0.99, 0.999, 0.9999):
        decay = Decay.of(beta)
        t = sg.tensor(steps, dtype=sg.float32, device=webgpu)
        rho = length(t, decay.log, 2 / decay.rest - 1, decay.bias_correction(t)).numpy()
        b, limit = np.longdouble(beta), 2 / (1 - np.longdouble(beta)) - 1
        exact = limit - 2 * steps * b**steps / (1 - b**steps)
        assert_close(rho, exact.astype(np.float64), 5e-6, 1e-6, f"beta2 = {beta}")


# ---------------------------------------------------------------------------------- refusals, in PyTorch's words


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {"lr": -1.0}) for kind in ("SGD", "Adam", "NAdam", "RAdam", "Adagrad", "RMSprop", "Adadelta", "Muon")),
        *((kind, {"weight_decay": -0.5}) for kind in ("NAdam", "RAdam", "Adagrad", "RMSprop", "Adadelta", "Muon")),
        *((kind, {"eps": -1.0}) for kind in ("NAdam", "RAdam", "Adagrad", "RMSprop", "Adadelta")),
        *((kind, {"betas": (1.0, 0.9)}) for kind in ("NAdam", "RAdam")),
        *((kind, {"betas": (0.9, -0.1)}) for kind in ("NAdam", "RAdam")),
        ("LBFGS", {"lr": -1.0}),
        ("NAdam", {"momentum_decay": -1.0}),
        ("Adagrad", {"lr_decay": -1.0}),
        ("Adagrad", {"initial_accumulator_value": -1.0}),
        ("RMSprop", {"momentum": -1.0}),
        ("RMSprop", {"alpha": -1.0}),
        ("Adadelta", {"rho": 1.5}),
        ("Muon", {"momentum": -1.0}),
        ("Muon", {"adjust_lr_fn": "other"}),
    ],
)
def test_hyperparameters_that_make_no_sense_are_refused_in_pytorchs_words(kind: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as expected:
        getattr(torch.optim, kind)([torch.ones(2, 2, requires_grad=True)], **options)
    with pytest.raises(ValueError) as caught:
        getattr(optim, kind)([sg.ones(2, 2).requires_grad_()], **options)
    assert str(caught.value) == str(expected.value)
    assert isinstance(caught.value, sg.ShadergradError)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: optim.Lion(p, lr=-1.0), "Invalid learning rate: -1.0"),
        (lambda p: optim.Lion(p, betas=(0.9, 1.0)), "Invalid beta parameter at index 1: 1.0"),
        (lambda p: optim.Muon(p), "Muon only supports 2D parameters whereas we found a parameter with size"),
        (lambda p: optim.Muon(p, ns_steps=100), "Number of steps must be less than 100"),
        (lambda p: optim.Muon(p, ns_coefficients=cast(Any, (1.0, 2.0))), "exactly 3 values"),
        (lambda p: optim.LBFGS([{"params": p}, {"params": []}]), "LBFGS doesn't support per-parameter options"),
        (lambda p: optim.LBFGS(p, line_search_fn="golden"), "only 'strong_wolfe' is supported"),
        (lambda p: optim.RAdam([p[0] * 1]), "can't optimize a non-leaf Tensor"),
        (lambda p: cast(Any, optim.RAdam)(p, nesterov=True), "unexpected keyword argument 'nesterov'"),
        (lambda p: optim.RAdam(p[0]), "params argument given to the optimizer should be an iterable of Tensors"),
        (lambda p: optim.RAdam([p]), "optimizer can only optimize Tensors, but one of the params is list"),
        (lambda p: optim.RAdam(p).add_param_group(p), "param_group must be a dict, but got <class 'list'>"),
        (lambda p: optim.RAdam([{"params": set(p)}]), "need to be organized in ordered collections"),
        (lambda p: optim.RAdam([("a", p[0]), sg.ones(1)]), "Some param names are missing"),
    ],
)
def test_what_cannot_be_optimized_is_refused(make: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        make([sg.ones(2).requires_grad_()])
    assert message in str(caught.value)
    assert isinstance(caught.value, sg.ShadergradError)


# ---------------------------------------------------------------------------------- what optimizers share


def test_pytorchs_choices_of_implementation_are_taken() -> None:
    p = [sg.ones(2).requires_grad_()]
    for kind in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "RMSprop", "Adadelta"):
        optimizer = getattr(optim, kind)(p, foreach=True, capturable=True)
        assert "foreach" not in optimizer.param_groups[0]


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind not in (*BY_CLOSURE, "Muon")]
)  # which PyTorch has not either
def test_a_differentiable_step_passes_gradients_on(kind: str) -> None:
    """To the parameter, to its gradient and to the state, as finite differences say."""
    rng = np.random.default_rng(3)
    p, gradient = (sg.tensor(rng.standard_normal(3), requires_grad=True) for _ in range(2))

    def step(p: sg.Tensor, gradient: sg.Tensor) -> Any:
        moved = p.clone()
        optimizer = getattr(optim, kind)([moved], lr=0.1, differentiable=True)
        for factor in (1.0, 0.5):  # the second step reads the state that the first one left
            moved.grad = gradient * factor
            optimizer.step()
        return moved

    assert sg.autograd.gradcheck(step, (p, gradient), atol=1e-4)


@pytest.mark.parametrize("kind", ["SGD", "Adagrad", "Adadelta", "RAdam", "RMSprop"])
def test_a_differentiable_step_has_pytorchs_gradients(kind: str) -> None:
    found = []
    for t in (sg, torch):
        w, gradient = (t.tensor(a, dtype=t.float64, requires_grad=True) for a in ([1.0, -2.0], [0.5, 0.25]))
        rate: Any = t.tensor(0.1, dtype=t.float64, requires_grad=True) if kind == "SGD" else 0.1
        p: Any = w.clone()
        p.grad = gradient
        getattr(t.optim, kind)([p], lr=rate, differentiable=True).step()
        (p * p).sum().backward()
        found.append([x.grad.numpy() for x in (w, gradient, *([rate] if kind == "SGD" else []))])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_step_runs_a_closure_first_and_returns_its_loss(device: str) -> None:
    w = sg.ones(2, device=device).requires_grad_()
    optimizer = optim.SGD([w], lr=0.25)

    def closure() -> sg.Tensor:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with sg.no_grad():
        assert optimizer.step(closure).item() == 2.0
    assert w.tolist() == [0.5, 0.5]
    step = sg.compile(lambda: optimizer.step(closure))
    assert [step().item(), step().item()] == [0.5, 0.125]
    assert optim.SGD([w]).step() is None


def test_a_group_added_later_is_trained_by_a_compiled_step(device: str) -> None:
    a, b = (sg.ones(2, device=device).requires_grad_() for _ in range(2))
    optimizer = optim.RMSprop([a], lr=0.1)

    @sg.compile
    def step() -> None:
        optimizer.zero_grad()
        ((a * a).sum() + (b * b).sum()).backward()
        optimizer.step()

    step()
    assert b.tolist() == [1, 1]
    optimizer.add_param_group({"params": b, "lr": 0.5, "momentum": 0.9})
    step()
    assert b.tolist() != [1, 1]
    assert step.captures == 2
    assert "momentum_buffer" in optimizer.state_dict()["state"][1]


def test_groups_have_their_own_hyperparameters(device: str) -> None:
    a, b = (sg.ones(2, device=device).requires_grad_() for _ in range(2))
    optimizer = optim.Lion([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.25)
    (a * a + b * b).sum().backward()
    optimizer.step()
    assert (a.tolist(), b.tolist()) == ([0.75, 0.75], [0.5, 0.5])


def test_named_parameters_keep_their_names() -> None:
    a, b = (sg.ones(2).requires_grad_() for _ in range(2))
    optimizer = optim.Adagrad([("a", a), ("b", b)])
    assert optimizer.param_groups[0]["params"][1] is b
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]


def test_a_hyperparameter_that_needs_state_gets_it(device: str) -> None:
    """momentum set later, in a compiled loop: compiled anew, with a buffer that begins at 0, as PyTorch's."""
    w = sg.ones(2, device=device).requires_grad_()
    reference = torch.ones(2, requires_grad=True)
    optimizer, expected = optim.SGD([w], lr=0.1), torch.optim.SGD([reference], lr=0.1)

    @sg.compile
    def step() -> None:
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()

    for k in range(4):
        if k == 2:
            optimizer.param_groups[0]["momentum"] = expected.param_groups[0]["momentum"] = 0.9
        step()
        expected.zero_grad()
        (reference * reference).sum().backward()
        expected.step()
    assert step.captures == 2
    assert_close(w, reference, 1e-6, 0)


def test_entries_that_no_rule_reads_compile_nothing(device: str) -> None:
    w = sg.ones(2, device=device).requires_grad_()
    optimizer = optim.SGD([w], lr=0.1)

    @sg.compile
    def step() -> None:
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()

    step()
    optimizer.param_groups[0]["initial_lr"] = 3.0
    optimizer.param_groups[0].update(lr=0.2, name="the weights")
    assert_compiles_nothing(step)
    assert step.captures == 1
    assert_close(w, [0.48, 0.48], 1e-6, 0)


def test_setting_a_hyperparameter_inside_a_compiled_step_is_refused() -> None:
    w = sg.ones(2).requires_grad_()
    optimizer = optim.SGD([w], lr=0.1)

    @sg.compile
    def step() -> None:
        optimizer.param_groups[0]["lr"] = 0.2

    with pytest.raises(sg.CompileError, match="set it between the calls"):
        step()
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_an_optimizer_prints_its_groups() -> None:
    assert "Parameter Group 0\n    betas: (0.9, 0.99)\n    lr: 0.0001" in repr(
        optim.Lion([sg.ones(1).requires_grad_()])
    )


# ---------------------------------------------------------------------------------- L-BFGS

ROSENBROCK_START = [-1.5, 2.0, 0.5, -0.5]


def rosenbrock(x: Any) -> Any:
    a, b = x[:-1], x[1:]
    return ((b - a * a).square() * 100 + (1 - a).square()).sum()


def closure_for(optimizer: Any, x: Any, calls: list[float]) -> Callable[[], Any]:
    def closure() -> Any:
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        calls.append(loss.item())
        return loss

    return closure


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 1e-3, "max_iter": 20},
        {"lr": 1.0, "max_iter": 12, "line_search_fn": "strong_wolfe"},
        {"lr": 1.0, "max_iter": 8, "line_search_fn": "strong_wolfe", "history_size": 3, "max_eval": 9},
    ],
    ids=["fixed steps", "strong Wolfe", "strong Wolfe, short history"],
)
@pytest.mark.parametrize("in_numpy", [0, 1 << 16])
def test_lbfgs_goes_pytorchs_way_in_float64(
    options: dict[str, Any], in_numpy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lbfgs, "MOST_IN_NUMPY", in_numpy)
    x = sg.tensor(ROSENBROCK_START, dtype=sg.float64, requires_grad=True)
    y = torch.tensor(ROSENBROCK_START, dtype=torch.float64, requires_grad=True)
    optimizer, reference = optim.LBFGS([x], **options), torch.optim.LBFGS([y], **options)
    losses, expected = [], []
    mine, its = closure_for(optimizer, x, losses), closure_for(reference, y, expected)
    for _ in range(4):
        assert_close(optimizer.step(mine).item(), reference.step(its).item(), 1e-9, 1e-9)
    assert_close(losses, expected, 1e-6, 1e-9)  # every single evaluation
    assert_close(x, y, 1e-9, 1e-9)
    state, named = optimizer.state_dict()["state"][0], reference.state_dict()["state"][0]
    assert set(state) == set(named) - {"al"}  # which is scratch
    assert (state["n_iter"], state["func_evals"]) == (named["n_iter"], named["func_evals"])


def test_lbfgs_finds_the_minimum_on_several_parameters(device: str) -> None:
    """A least squares problem in float32; the closure is a compiled step."""
    rng = np.random.default_rng(3)
    inputs = sg.tensor(rng.standard_normal((20, 3)), dtype=sg.float32, device=device)
    truth = rng.standard_normal((3, 2)).astype(np.float32)
    targets = sg.tensor(inputs.numpy() @ truth + 0.5, dtype=sg.float32, device=device)
    w, b = sg.zeros(3, 2, device=device).requires_grad_(), sg.zeros(2, device=device).requires_grad_()
    optimizer = optim.LBFGS([w, b], max_iter=15, line_search_fn="strong_wolfe")

    @sg.compile
    def closure() -> sg.Tensor:
        optimizer.zero_grad()
        loss = ((inputs.unsqueeze(-1) * w).sum(1) + b - targets).square().mean()
        loss.backward()
        return loss

    first = optimizer.step(closure).item()
    assert closure().item() < 1e-9 < first
    assert_close(w, truth, 1e-4, 1e-4)
    assert_close(b, [0.5, 0.5], 1e-4, 1e-4)


def test_lbfgs_compiles_nothing_once_it_runs(device: str) -> None:
    """Neither a longer history nor another step length is another program."""
    x = sg.tensor(ROSENBROCK_START, device=device, requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=4, line_search_fn="strong_wolfe", history_size=50)
    closure = closure_for(optimizer, x, [])
    optimizer.step(closure)
    optimizer.step(closure)
    before = programs.compiled
    optimizer.step(closure)
    optimizer.step(closure)
    assert programs.compiled == before
    assert optimizer.state_dict()["state"][0]["n_iter"] == 16


def test_lbfgs_runs_as_many_programs_for_a_long_history(monkeypatch: pytest.MonkeyPatch) -> None:
    flushes: list[None] = []
    monkeypatch.setattr(lbfgs, "flush", lambda **options: flushes.append(None) or flush(**options))
    x = sg.tensor(ROSENBROCK_START, requires_grad=True)
    optimizer = optim.LBFGS([x], lr=1e-3, max_iter=4)
    counts = []
    for _ in range(4):
        flushes.clear()
        optimizer.step(closure_for(optimizer, x, []))
        counts.append(len(flushes))
    assert len(optimizer.state_dict()["state"][0]["old_dirs"]) > 8
    assert counts[1:] == counts[1:2] * 3


def test_lbfgs_makes_no_nodes_of_a_closure_that_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = sg.nn.Sequential(sg.nn.Linear(3, 4), sg.nn.Tanh(), sg.nn.Linear(4, 1)), sg.ones(5, 3)
    optimizer = optim.LBFGS(model.parameters(), lr=1e-3, max_iter=4)

    def closure() -> sg.Tensor:
        optimizer.zero_grad()
        loss = (model(inputs) - 1).square().mean()
        loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(closure)
    expanded: list[Any] = []
    expand = Composition.expand
    monkeypatch.setattr(Composition, "expand", lambda self: expanded.append(self.recipe) or expand(self))
    optimizer.step(closure)
    assert not expanded


def test_lbfgs_continues_from_a_state_dict() -> None:
    x = sg.tensor(ROSENBROCK_START, dtype=sg.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=5, line_search_fn="strong_wolfe")
    optimizer.step(closure_for(optimizer, x, []))
    saved, value = optimizer.state_dict(), x.detach().numpy()
    optimizer.step(closure_for(optimizer, x, []))
    y = sg.tensor(value, requires_grad=True)
    again = optim.LBFGS([y], max_iter=5, line_search_fn="strong_wolfe")
    again.load_state_dict(saved)
    again.step(closure_for(again, y, []))
    assert_same_bits(x, y)


def test_lbfgs_says_what_it_needs() -> None:
    x = sg.ones(3).requires_grad_()
    optimizer = optim.LBFGS([x])
    with pytest.raises(ValueError, match="needs a closure"):
        optimizer.step()
    with pytest.raises(sg.CompileError, match=r"LBFGS\.step\(\) reads losses"):
        sg.compile(lambda: optimizer.step(closure_for(optimizer, x, [])))()


# ---------------------------------------------------------------------------------- nn.utils


def with_gradients(arrays: list[np.ndarray], device: str) -> list[sg.Tensor]:
    """Parameters whose gradients are these; the last has none."""
    parameters = [sg.zeros(*a.shape, device=device).requires_grad_() for a in arrays]
    for p, a in zip(parameters, arrays, strict=True):
        p.grad = sg.tensor(a, dtype=sg.float32, device=device)
    return [*parameters, sg.zeros(2, device=device).requires_grad_()]


def torch_with_gradients(arrays: list[np.ndarray]) -> list[torch.Tensor]:
    parameters = [torch.zeros(a.shape, requires_grad=True) for a in arrays]
    for p, a in zip(parameters, arrays, strict=True):
        p.grad = torch.tensor(a, dtype=torch.float32)
    return [*parameters, torch.zeros(2, requires_grad=True)]


@pytest.mark.parametrize("norm_type", [2.0, 1.0, math.inf, -math.inf, 3.0, 0.5, 0.0])
@pytest.mark.parametrize("max_norm", [0.5, 1000.0])
def test_clip_grad_norm_equals_pytorchs(norm_type: float, max_norm: float, device: str) -> None:
    arrays = start()
    parameters, expected = with_gradients(arrays, device), torch_with_gradients(arrays)
    norm = clip_grad_norm_(parameters, max_norm, norm_type)
    reference = torch.nn.utils.clip_grad_norm_(expected, max_norm, norm_type)
    assert_close(norm, reference, 1e-5, 0)
    for p, e in zip(parameters[:-1], expected[:-1], strict=True):
        assert_close(p.grad, e.grad, 1e-5, 1e-7)
    assert parameters[-1].grad is None


def test_clip_grad_value_equals_pytorchs(device: str) -> None:
    arrays = start()
    arrays[0][0, 0] = np.nan
    parameters, expected = with_gradients(arrays, device), torch_with_gradients(arrays)
    clip_grad_value_(parameters, 0.3)
    torch.nn.utils.clip_grad_value_(expected, 0.3)
    for p, e in zip(parameters[:-1], expected[:-1], strict=True):
        assert_close(p.grad, e.grad, 1e-7, 0)
    clip_grad_value_(parameters[0], 0.1)
    assert grad_of(parameters[0]).numpy()[1:].max() <= np.float32(0.1)


def test_clipping_changes_the_gradient_that_others_hold() -> None:
    (p, *_) = with_gradients([np.ones(4)], "cpu")
    held = p.grad
    clip_grad_norm_([p], 1.0)
    assert p.grad is held
    assert_close(held, np.full(4, 0.5), 1e-5, 0)


def test_clipping_without_gradients() -> None:
    assert clip_grad_norm_(sg.ones(2).requires_grad_(), 1.0).item() == 0.0
    with pytest.warns(UserWarning, match="empty generator"):
        clip_grad_norm_(iter([]), 1.0)


def test_a_norm_that_is_not_finite_raises_where_asked(device: str) -> None:
    parameters = with_gradients([np.array([1.0, np.inf])], device)
    with pytest.raises(
        RuntimeError, match=r"The total norm of order 2\.0 for gradients from `parameters` is non-finite"
    ):
        clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert clip_grad_norm_(parameters, 1.0).item() == math.inf
    assert_close(parameters[0].grad, [0.0, np.nan], 0, 0)
    with pytest.raises(sg.CompileError, match="Hint: return the norm"):
        sg.compile(lambda: clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True))()


@contextmanager
def clipped(optimizer: Any, parameters: list[Any], utils: Any) -> Iterator[Callable[[Any], Any]]:
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        (loss_of(x, *parameters) * 100).backward()
        norm = utils.clip_grad_norm_(parameters, 0.5)
        utils.clip_grad_value_(parameters, 0.2)
        optimizer.step()
        return norm

    yield step


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_clipping_within_a_step_equals_pytorchs(compiled: bool, device: str) -> None:
    from shadergrad.nn import utils

    parameters, references = leaves("", device), [torch.tensor(a).float().requires_grad_() for a in start()]
    optimizer, reference = optim.SGD(parameters, lr=0.1), torch.optim.SGD(references, lr=0.1)
    with clipped(optimizer, parameters, utils) as step, clipped(reference, references, torch.nn.utils) as expected:
        run = sg.compile(step) if compiled else step
        for x in batches():
            norm = run(sg.tensor(x, dtype=sg.float32, device=device))
            assert_close(norm, expected(torch.tensor(x).float()), 1e-5, 0)
    for p, e in zip(parameters, references, strict=True):
        assert_close(p, e.detach(), 1e-5, 1e-5)


def test_gradients_of_a_compiled_step_can_be_clipped_outside(device: str) -> None:
    """The step writes its gradients where it wrote them before, which clipping must not hide."""
    parameters, references = leaves("", device), [torch.tensor(a).float().requires_grad_() for a in start()]
    optimizer, reference = optim.SGD(parameters, lr=0.1), torch.optim.SGD(references, lr=0.1)

    @sg.compile
    def gradients(x: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = loss_of(x, *parameters)
        loss.backward()
        return loss

    for x in batches():
        gradients(sg.tensor(x, dtype=sg.float32, device=device))
        clip_grad_norm_(parameters, 0.1)
        optimizer.step()
        reference.zero_grad()
        loss_of(torch.tensor(x).float(), *references).backward()
        torch.nn.utils.clip_grad_norm_(references, 0.1)
        reference.step()
    for p, e in zip(parameters, references, strict=True):
        assert_close(p, e.detach(), 1e-5, 1e-5)


def test_parameters_and_vector_are_inverses(device: str) -> None:
    parameters = leaves("", device)
    vector = parameters_to_vector(parameters)
    assert_close(vector, np.concatenate([a.reshape(-1) for a in start()]), 1e-6, 0)
    assert vector.requires_grad
    vector_to_parameters(vector.detach() * 2, parameters)
    for p, a in zip(parameters, start(), strict=True):
        assert p.requires_grad
        assert p.is_leaf
        assert_close(p, a * 2, 1e-6, 0)


def test_what_is_no_vector_is_refused(webgpu: str) -> None:
    with pytest.raises(TypeError, match=r"expected shadergrad\.Tensor, but got: list"):
        vector_to_parameters(cast(Any, [1.0]), [sg.ones(1)])
    with pytest.raises(TypeError, match="Found two parameters on different devices"):
        parameters_to_vector([sg.ones(1), sg.ones(1, device=webgpu)])
