"""Layers and networks of gates: values, gradients at shared inputs, modes, state, and the circuits that they become."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from digits_training import BITS, hard_accuracy
from helpers import assert_close, grad_of
from shadergrad import nn, optim
from shadergrad.errors import IndexRangeError, ShapeError
from shadergrad.logic import GroupSum, LogicCA, LogicLayer, LogicNetwork, Thermometer, gates, wiring
from shadergrad.nn.errors import ArgumentError
from test_logic_gates import naive_mixture

SHARED = ([0, 0, 2, 0, 1], [1, 3, 0, 0, 0])  # input 0 is read six times, once twice by one gate; input 4 not at all


def values(*shape: int, device: str = "cpu", seed: int = 0) -> sg.Tensor:
    return sg.tensor(np.random.default_rng(seed).random(shape).astype(np.float32), device=device)


def shared_layer(device: str, mode: str = "soft") -> LogicLayer:
    sg.manual_seed(1)
    return LogicLayer(5, 5, SHARED, init="gaussian", mode=mode, device=device)


# -- one layer


def test_a_layer_and_its_gradients_are_those_of_sixteen_gates_on_its_wires(device: str) -> None:
    layer = shared_layer(device)
    weights = values(2, 3, 5, device=device, seed=9)
    x = values(2, 3, 5, device=device).requires_grad_()
    y = layer(x)
    (y * weights).sum().backward()
    plain = x.detach().requires_grad_()
    logits = layer.logits.detach().requires_grad_()
    columns = [plain[..., k] for k in range(5)]
    a, b = (sg.stack([columns[k] for k in wires], -1) for wires in SHARED)
    naive = naive_mixture(logits, a, b)
    (naive * weights).sum().backward()
    assert tuple(y.shape) == (2, 3, 5)
    for name, found, wanted in (("y", y, naive), ("x", x.grad, plain.grad), ("logits", layer.logits.grad, logits.grad)):
        assert_close(found, wanted, 1e-4, 1e-5, name)


def test_an_input_that_no_gate_reads_has_a_gradient_of_zero(device: str) -> None:
    x = values(4, 5, device=device).requires_grad_()
    shared_layer(device)(x).sum().backward()
    assert x.grad is not None
    assert x.grad.numpy()[:, 4].tolist() == [0.0] * 4
    assert (x.grad.numpy()[:, 0] != 0).all()


def test_gradients_are_the_same_bits_in_every_run(device: str) -> None:
    runs = []
    for _ in range(2):
        x = values(64, 5, device=device).requires_grad_()
        shared_layer(device)(x).square().sum().backward()
        assert x.grad is not None
        runs.append(x.grad.numpy().tobytes())
    assert runs[0] == runs[1]


@pytest.mark.parametrize("init", ["pass-through", "residual"])
def test_a_new_layer_passes_its_first_input_on(device: str, init: str) -> None:
    layer = LogicLayer(8, 8, init=init, device=device)
    x = values(3, 8, device=device)
    a = layer.wires.numpy()[0]
    assert layer.kinds().tolist() == [gates.PASS_THROUGH] * 8
    assert_close(layer(x).detach().numpy(), x.numpy()[:, a], 0, 1e-3)
    probability = layer.logits.detach().softmax(-1).numpy()[0, gates.PASS_THROUGH]
    assert abs(probability - 0.99932) < 1e-5


def test_gaussian_logits_are_drawn_from_the_seed() -> None:
    first, again = (shared_layer("cpu").logits.detach().numpy() for _ in range(2))
    assert first.std() == pytest.approx(1, abs=0.2)
    assert first.tobytes() == again.tobytes()


def test_wires_are_int32_and_part_of_the_state() -> None:
    layer = LogicLayer(8, 8, seed=1)
    other = LogicLayer(8, 8, seed=2)
    state = layer.state_dict()
    assert sorted(state) == ["logits", "wires"]
    assert state["wires"].dtype is sg.int32
    assert tuple(state["wires"].shape) == (2, 8)
    x = values(3, 8)
    assert other(x).tolist() != layer(x).tolist()
    other.load_state_dict(state)
    assert other(x).tolist() == layer(x).tolist()


def test_whole_modules_are_pickled_with_their_wires() -> None:
    """Also into a state that is loaded later: the index of the wires follows it."""
    automaton = LogicCA(1, 2, (9, 8, 4), (9, 8, 4, 2, 1), border="periodic")
    copied = pickle.loads(pickle.dumps(automaton))
    board = values(1, 4, 4, 1).round()
    assert copied.rollout(board, 2).tolist() == automaton.rollout(board, 2).tolist()
    for wiring_name in ("unique", "learned"):
        network, other = (
            LogicNetwork((8, 8, 8), wiring_name, "gaussian", seed=seed, parametrisation="walsh") for seed in (1, 2)
        )
        copied = pickle.loads(pickle.dumps(network))
        assert copied(values(3, 8)).tolist() == network(values(3, 8)).tolist()
        copied.load_state_dict(other.state_dict())
        assert copied(values(3, 8)).tolist() == other(values(3, 8)).tolist()


def test_a_key_gives_the_wires_of_that_key() -> None:
    key = wiring.prng_key(5)
    for name in ("unique", "random"):
        assert LogicLayer(8, 6, name, key=key).wires.tolist() == [x.tolist() for x in wiring.draw(name, 8, 6, key)]
    assert set(LogicLayer(9, 8, "moore").wires.tolist()[1]) == {4}


# -- modes


def test_a_hard_layer_of_bits_gives_bits_and_a_gradient_for_x_only(device: str) -> None:
    layer = shared_layer(device, "hard")
    bits = (np.random.default_rng(0).random((16, 5)) > 0.5).astype(np.float32)
    x = sg.tensor(bits, device=device).requires_grad_()
    y = layer(x)
    a, b = (bits[:, wires].astype(int) for wires in SHARED)
    kinds = layer.logits.detach().numpy().argmax(-1)
    assert y.detach().numpy().tolist() == (kinds >> (3 - 2 * a - b) & 1).tolist()
    y.sum().backward()
    assert x.grad is not None
    assert layer.logits.grad is None


def test_straight_through_is_hard_and_trains_as_soft(device: str) -> None:
    x = (values(16, 5, device=device) > 0.5).float()
    results, grads = {}, {}
    for mode in ("hard", "soft", "straight-through"):
        layer = shared_layer(device, mode)
        results[mode] = layer(x)
        if mode != "hard":
            results[mode].sum().backward()
            assert layer.logits.grad is not None
            grads[mode] = layer.logits.grad.numpy()
    assert results["straight-through"].tolist() == results["hard"].tolist()
    assert_close(grads["straight-through"], grads["soft"], 1e-5, 1e-6)


def test_gumbel_draws_anew_at_each_call_and_is_hard_in_eval(device: str) -> None:
    layer = shared_layer(device, "gumbel")
    x = (values(16, 5, device=device) > 0.5).float()
    first, second = layer(x), layer(x)
    assert first.tolist() != second.tolist()
    first.sum().backward()
    assert layer.logits.grad is not None
    assert np.isfinite(layer.logits.grad.numpy()).all()
    assert layer.eval()(x).tolist() == shared_layer(device, "hard")(x).tolist()


def test_gumbel_picks_gates_as_often_as_softmax_says() -> None:
    sg.manual_seed(0)
    layer = LogicLayer(2, 4000, (np.zeros(4000, int), np.ones(4000, int)), mode="gumbel", temperature=0.01)
    logits = np.zeros((4000, 16), np.float32)
    logits[:, 1] = np.log(15)  # AND with probability 1/2
    with sg.no_grad():
        layer.logits.copy_(sg.tensor(logits))
    drawn = layer.coefficients().detach().numpy()
    is_and = np.abs(drawn - gates.COEFFICIENTS[1]).max(1) < 0.05
    assert is_and.mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("mode", ["soft", "straight-through", "gumbel", "gumbel-hard"])
def test_eval_hardens_every_mode_and_train_takes_it_back(mode: str, device: str) -> None:
    network = LogicNetwork((5, 8, 4), "random", mode=mode, seed=2, device=device)
    with sg.no_grad():
        for layer in network.layers:
            layer.logits.copy_(sg.randn(*layer.logits.shape, device=device))
    bits = (values(16, 5, device=device) > 0.5).float()
    expected = network.harden().evaluate(bits.numpy() > 0.5).tolist()
    encode = Thermometer(5, 1, mode="soft", device=device)
    assert not network.hard
    assert network(bits).tolist() != expected or "hard" in mode or "straight" in mode
    assert network.eval().hard
    assert network(bits).tolist() == expected
    assert set(encode.eval()(values(3, 5, device=device)).flatten().tolist()) <= {0.0, 1.0}
    assert not network.train().hard
    assert 0 < encode.train()(values(1, 5, device=device)).flatten().tolist()[0] < 1


def test_the_mode_of_a_network_is_one_switch_that_compiled_steps_follow(device: str) -> None:
    sg.manual_seed(1)
    network = LogicNetwork((5, 8, 4), "random", init="gaussian", seed=2, device=device)
    bits = (values(16, 5, device=device) > 0.5).float()
    compiled = sg.compile(lambda x: network(x))
    soft = compiled(bits).tolist()
    network.mode = "hard"
    assert [layer.mode for layer in network.layers] == ["hard", "hard"]
    hard = compiled(bits).tolist()
    assert hard == network.harden().evaluate(bits.numpy() > 0.5).tolist() != soft
    network.mode = "soft"
    assert compiled(bits).tolist() == soft
    assert compiled(bits).tolist() != hard == (network.eval() and compiled(bits)).tolist()
    network.layers[0].mode = "gumbel"
    assert network.mode == "gumbel, soft"


def test_temperature_and_factor_of_a_network_are_those_of_all_layers_in_compiled_steps_too(device: str) -> None:
    network = LogicNetwork((5, 8, 4), "random", mode="gumbel", seed=2, device=device)
    x = values(16, 5, device=device)

    def gradient(x: sg.Tensor) -> sg.Tensor:
        own = x.detach().requires_grad_()
        network(own).sum().backward()
        return grad_of(own)

    compiled = sg.compile(lambda x: network(x).detach())
    sg.manual_seed(1)
    warm = compiled(x).tolist()
    network.temperature = 1e-3
    assert [layer.temperature for layer in network.layers] == [1e-3, 1e-3]
    sg.manual_seed(1)
    cold = compiled(x).tolist()
    assert cold != warm
    network.mode = "soft"
    plain = gradient(x)
    network.grad_factor = 3.0
    assert network.fused
    assert_close(gradient(x), 9 * plain.numpy(), 1e-4, 1e-5)
    network.layers[0].grad_factor = 1.0
    assert network.grad_factor == (1.0, 3.0)
    assert_close(gradient(x), 3 * plain.numpy(), 1e-4, 1e-5)


def test_numbers_and_wire_modes_are_checked_when_they_are_set() -> None:
    network, encode = LogicNetwork((5, 8, 4), "learned", candidates=2), Thermometer(2, 2)
    network.wire_mode = "soft"
    assert [layer.learned.mode for layer in network.layers] == ["soft", "soft"]
    with pytest.raises(ArgumentError, match="no mode 'firm'; choose of straight-through, soft"):
        network.layers[0].learned.mode = "firm"
    with pytest.raises(ArgumentError, match="these wires are fixed"):
        LogicNetwork((5, 8, 4)).wire_mode = "soft"
    for module in (network, network.layers[0], encode):
        with pytest.raises(ArgumentError, match="the temperature is 0; it must be positive"):
            module.temperature = 0
    with pytest.raises(ArgumentError, match="the grad_factor is -1; it must be positive"):
        network.grad_factor = -1


def test_switches_that_would_do_nothing_are_refused() -> None:
    network, encode = LogicNetwork((5, 8, 4)), Thermometer(2, 2)
    for module in (network, network.layers[0], encode):
        with pytest.raises(ArgumentError, match="there is no mode 'firm'"):
            module.mode = "firm"
        with pytest.raises(ArgumentError, match=r"hard cannot be set. Hint: .mode = 'hard'"):
            module.hard = True
    with pytest.raises(ArgumentError, match="no mode 'gumbel'"):
        encode.mode = "gumbel"


# (mode, init, learning rate): each trains six layers, if it starts from gates that its noise leaves alone
SIX = [
    ("soft", "gaussian", 0.02),
    ("soft", "residual", 0.05),
    ("straight-through", "gaussian", 0.02),
    ("gumbel", "residual", 0.1),
    ("gumbel-hard", "residual", 0.1),
]


@pytest.mark.parametrize(("mode", "init", "rate"), SIX)
@pytest.mark.slow
def test_every_mode_trains_six_layers(mode: str, init: str, rate: float) -> None:
    def make() -> LogicNetwork:
        return LogicNetwork((BITS, *[600] * 6), "random", init=init, mode=mode, seed=0)

    assert hard_accuracy(make, 6.0, rate) > 0.7


def test_gumbel_noise_over_gaussian_logits_warns() -> None:
    with pytest.warns(UserWarning, match="hardly learns. Hint: init='residual'"):
        LogicNetwork((8, 8, 8, 8), init="gaussian", mode="gumbel")


# -- networks


def test_a_tau_that_is_a_parameter_is_trained(device: str) -> None:
    x = values(3, 6, device=device)
    tau = nn.Parameter(sg.tensor(2.0, device=device))
    sums = GroupSum(3, tau)
    assert [name for name, _ in sums.named_parameters()] == ["tau"]
    assert_close(sums(x), GroupSum(3, 2.0)(x), 1e-6, 1e-6)
    sums(x).sum().backward()
    assert_close(grad_of(tau), -x.sum() / 4, 1e-5, 1e-6)
    kept = GroupSum(3, sg.tensor([4.0], device=device))
    assert "tau" in kept.state_dict()
    assert not list(kept.parameters())
    assert_close(kept(x), GroupSum(3, 4.0)(x), 1e-6, 1e-6)
    with pytest.raises(ShapeError, match="one element, for all classes"):
        GroupSum(3, sg.ones(3))


def test_group_sums_count_the_votes_of_each_class(device: str) -> None:
    x = sg.tensor(np.arange(12, dtype=np.float32).reshape(2, 6), device=device)
    assert GroupSum(3, tau=2.0)(x).tolist() == [[0.5, 2.5, 4.5], [6.5, 8.5, 10.5]]
    with pytest.raises(ShapeError, match="does not part into 4 equal groups"):
        GroupSum(4)(x)
    with pytest.raises(ArgumentError, match="tau positive"):
        GroupSum(2, tau=0)


def test_a_hardened_network_is_the_circuit_of_its_hard_forward() -> None:
    sg.manual_seed(3)
    network = LogicNetwork((6, 12, 8, 4), init="gaussian", mode="hard", seed=4)
    bits = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(np.float32)
    circuit = network.harden()
    assert (circuit.inputs, len(circuit), len(circuit.outputs)) == (6, 24, 4)
    assert circuit.evaluate(bits.astype(bool)).tolist() == (network(sg.tensor(bits)).numpy() > 0.5).tolist()


def test_layers_of_a_network_have_wires_of_their_own() -> None:
    network = LogicNetwork((8, 8, 8), seed=0)
    first, second = (layer.wires.tolist() for layer in network.layers)
    assert first != second


def test_a_network_learns_parity_of_three_bits(device: str) -> None:
    sg.manual_seed(0)
    network = LogicNetwork((3, 24, 12, 1), "random", init="gaussian", seed=1, device=device)
    bits = (np.arange(8)[:, None] >> np.arange(3) & 1).astype(np.float32)
    x = sg.tensor(bits, device=device)
    target = sg.tensor(bits.sum(1, keepdims=True) % 2, device=device)
    optimizer = optim.Adam(network.parameters(), lr=0.1)

    @sg.compile
    def step() -> sg.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(network(x), target)
        loss.backward()
        optimizer.step()
        return loss

    losses = [step().item() for _ in range(150)]
    assert losses[-1] < 0.01 < 0.1 < losses[0]
    assert network.harden().evaluate(bits.astype(bool)).tolist() == (target.numpy() > 0.5).tolist()


# -- numbers as bits


def test_a_thermometer_says_which_thresholds_a_number_exceeds(device: str) -> None:
    thermometer = Thermometer(2, 3, low=0, high=4, mode="hard", device=device)
    x = sg.tensor([[0.5, 3.5], [2.0, 1.5]], device=device)
    assert thermometer.thresholds.tolist() == [[1, 2, 3]] * 2
    assert thermometer(x).tolist() == [[0, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0]]


def test_soft_bits_are_sigmoids_and_train_thresholds(device: str) -> None:
    gradients = []
    for mode in ("soft", "straight-through"):
        thermometer = Thermometer(1, 2, mode=mode, temperature=0.5, device=device)
        x = sg.tensor([[0.4]], device=device)
        y = thermometer(x)
        y.sum().backward()
        expected = 1 / (1 + np.exp(-(0.4 - np.array([1 / 3, 2 / 3])) / 0.5))
        gradients.append(grad_of(thermometer.thresholds).numpy())
        assert_close(gradients[-1], -(expected * (1 - expected))[None] / 0.5, 1e-5, 1e-6)
        assert_close(y.detach().numpy(), expected[None] if mode == "soft" else np.array([[1.0, 0.0]]), 1e-5, 0)
    assert not Thermometer(1, 2, learned=False).thresholds.requires_grad


def test_fitted_thresholds_part_the_data_evenly() -> None:
    data = np.random.default_rng(0).standard_normal((1000, 2)) ** 3
    thermometer = Thermometer(2, 3, mode="hard").fit(data)
    rates = thermometer(sg.tensor(data.astype(np.float32))).numpy().mean(0)
    assert_close(rates, np.array([0.75, 0.5, 0.25] * 2), 0, 0.01)
    assert thermometer.thresholds.requires_grad
    with pytest.raises(ShapeError, match=r"not \(samples, 2\)"):
        thermometer.fit(data[:, :1])


# -- errors


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LogicLayer(4, 4, ([0, 1, 2, 4], [1, 2, 3, 0])), IndexRangeError, "input a of gate 3 is wire 4"),
        (lambda: LogicLayer(4, 3, ([0, 1], [1, 2])), ShapeError, r"a pair of arrays \(3,\)"),
        (lambda: LogicLayer(8, 3), ArgumentError, "read at most 6 of 8"),
        (lambda: LogicLayer(4, 4, "full"), ArgumentError, "no wiring 'full'"),
        (lambda: LogicLayer(4, 4, init="zeros"), ArgumentError, "no init 'zeros'"),
        (lambda: LogicLayer(4, 4, mode="firm"), ArgumentError, "no mode 'firm'"),
        (lambda: LogicLayer(4, 4, temperature=0), ArgumentError, "must be positive"),
        (lambda: LogicNetwork((4,)), ArgumentError, "make no layer"),
        (lambda: LogicLayer(4, 4)(sg.zeros(2, 5)), ShapeError, r"x is \(2, 5\): axis -1 must be the 4 wires"),
        (lambda: LogicLayer(4, 4).evaluate(sg.zeros(2, 4), sg.zeros(3, 4)), ShapeError, r"are \(3, 4\), not \(4, 4\)"),
        (lambda: Thermometer(0, 1), ArgumentError, "both must be at least 1"),
        (lambda: Thermometer(1, 1, 2, 1), ArgumentError, "range 2 to 1 is empty"),
        (lambda: Thermometer(1, 1, mode="gumbel"), ArgumentError, "no mode 'gumbel'"),
        (lambda: Thermometer(1, 1, temperature=0), ArgumentError, "must be positive"),
        (lambda: Thermometer(2, 1)(sg.zeros(3)), ShapeError, "must have the 2 numbers"),
        (lambda: Thermometer(2, 1).fit([[0.0, np.nan]]), ArgumentError, "number 1 is NaN in a sample"),
    ],
)
def test_what_does_not_fit_is_named(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(("wiring", "sorts"), [("random", 0), ("one", 1)])
def test_the_gradient_of_shared_wires_uses_an_index_built_once(wiring: str, sorts: int, webgpu: str) -> None:
    """No sorting of wires at a step, unless one input has very many readers."""
    wires = (np.zeros(3000, int), np.arange(3000) % 2000) if wiring == "one" else wiring
    layer = LogicLayer(2000, 3000, wires, init="gaussian", device=webgpu)

    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        y = x.detach().requires_grad_()
        (layer(y) ** 2).sum().backward()
        assert y.grad is not None
        return y.grad

    found = step(sg.ones(2, 2000, device=webgpu))
    names = [step.plan.kernels[d.kernel].name for d in step.plan.dispatches]
    assert sum("sortblocks" in name for name in names) == sorts
    x = sg.ones(2, 2000, requires_grad=True)
    (layer.to("cpu")(x) ** 2).sum().backward()
    assert x.grad is not None
    assert_close(found.numpy(), x.grad.numpy(), 1e-3, 1e-3)
