"""Running sums, remainders, `out=` and other promises that the table of cases does not hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.nn import functional as F


def test_a_running_sum_is_spoiled_only_from_an_infinity_on(device: str) -> None:
    x = sg.ones(3, 130, device=device)
    x[1, 70] = math.inf
    x[2, 5] = math.nan
    found = x.cumsum(1).numpy()
    assert np.isfinite(found[0]).all()
    assert np.isfinite(found[1, :70]).all()
    assert (found[1, 70:] == np.inf).all()
    assert np.isfinite(found[2, :5]).all()
    assert np.isnan(found[2, 5:]).all()


def test_the_gradient_of_a_running_sum_is_the_sum_from_the_other_end(device: str) -> None:
    x = sg.zeros(200, device=device).requires_grad_()
    x.cumsum(0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == list(range(200, 0, -1))


def test_remainders_of_large_quotients_are_exact(device: str) -> None:
    x = sg.tensor([1e9, -1e9, 1e20], device=device)
    assert (x % 360.0).tolist() == [280.0, 80.0, float(np.float32(1e20) % np.float32(360.0))]
    assert x.fmod(360.0).abs().max().item() < 360.0


@pytest.mark.parametrize(
    "line", ["x.sum()", "x.sum(0)", "x.cumsum(0)", "(-x).sum() - x[1]", "x.repeat(40).prod()", "x.cumprod(0)"]
)
def test_sums_and_products_beyond_32_bits_are_told(line: str, device: str) -> None:
    x = sg.tensor([2**31 - 1, 1, 2], device=device)
    for kind in (sg.int32, sg.int64):
        total = eval(line, {"x": x.to(dtype=kind)})
        if kind is sg.int64 and device == "cpu":
            continue  # which has all 64 bits
        with pytest.raises(sg.DTypeError, match="does not fit its 32 bits"):
            total.numpy()


def test_sums_that_fit_are_exact(device: str) -> None:
    x = sg.tensor([2**31 - 1, -(2**31) + 1, 2**31 - 1, -5], device=device)
    assert x.sum().item() == 2**31 - 6
    assert x.cumsum(0).tolist() == [2**31 - 1, 0, 2**31 - 1, 2**31 - 6]
    assert sg.tensor([-(2**30), 2], device=device).prod().item() == -(2**31)
    assert sg.tensor([2**31 - 1, 1]).sum(dtype=sg.int64).item() == 2**31


def test_a_negative_zero_stays_but_beside_zero(device: str) -> None:
    x = sg.tensor([-0.0, 0.0], device=device)
    for found in (x + 0, 0 + x, x + 0.0, x - (-0.0)):
        assert np.signbit(found.numpy()).tolist() == [False, False]
    for found in (x - 0, x + (-0.0), x * 1, x / 1):
        assert np.signbit(found.numpy()).tolist() == [True, False]


def test_out_is_written_and_given(device: str) -> None:
    x, out = sg.tensor([1.0, 4.0], device=device), sg.zeros(2, device=device)
    alias = out.detach()
    assert sg.sqrt(x, out=out) is out
    assert alias.tolist() == [1.0, 2.0]
    values, places = sg.empty(0, device=device), sg.empty(0, dtype=sg.int32, device=device)
    found = sg.sort(x, descending=True, out=(values, places))
    assert found.values is values
    assert (values.tolist(), places.tolist()) == ([4.0, 1.0], [1, 0])


def test_out_of_another_shape_is_exchanged_with_a_warning() -> None:
    out = sg.zeros(3)
    with pytest.warns(UserWarning, match="was resized"):
        sg.add(sg.ones(2), sg.ones(2), out=out)
    assert out.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("out", "error", "says"),
    [
        (lambda: sg.zeros(2, dtype=sg.int32), sg.DTypeError, "can't be cast"),
        (lambda: 3, sg.ArgumentTypeError, "must be Tensor"),
        (lambda: sg.zeros(2, requires_grad=True), sg.AutogradError, "automatic differentiation"),
    ],
    ids=["of integers", "no tensor", "one that requires grad"],
)
def test_out_that_cannot_be_written_is_refused(out: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        sg.exp(sg.ones(2), out=out())  # type: ignore[operator]


def test_forms_in_place_that_turn_a_tensor_share_its_memory() -> None:
    x = sg.zeros(2, 3)
    view = x[0]
    assert x.t_() is x
    x[2, 0] = 5.0
    assert view.tolist() == [0.0, 0.0, 5.0]
    assert x.unsqueeze_(0).squeeze_().transpose_(0, 1).shape == (2, 3)


def test_a_turned_tensor_has_its_gradient() -> None:
    w = sg.ones(2, 3, requires_grad=True)
    y = w * 2
    y.t_()
    (y * sg.arange(6.0).reshape(3, 2)).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [[0.0, 4.0, 8.0], [2.0, 6.0, 10.0]]


def test_a_leaf_is_not_turned() -> None:
    with pytest.raises(sg.AutogradError, match="leaf"):
        sg.ones(2, 3, requires_grad=True).t_()


@pytest.mark.parametrize("weights", [[0.0, 0.0], [-1.0, 2.0], [math.nan, 1.0], [math.inf, 1.0]], ids=str)
def test_bad_weights_draw_nothing(weights: list[float], device: str) -> None:
    with pytest.raises(sg.IndexRangeError, match="multinomial"):
        sg.tensor(weights, device=device).multinomial(1).item()


def test_probabilities_outside_their_range_are_told(device: str) -> None:
    p = sg.tensor([1.5], device=device)
    with pytest.raises(sg.IndexRangeError, match="bernoulli"):
        p.bernoulli().item()
    with pytest.raises(sg.IndexRangeError, match="between 0 and 1"):
        F.binary_cross_entropy(p, sg.ones(1, device=device)).item()
    with pytest.raises(sg.IndexRangeError, match="one_hot"):
        F.one_hot(sg.tensor([3], device=device), 3).numpy()


def test_an_empty_batch_leaves_the_running_statistics() -> None:
    mean, var = sg.ones(2), sg.ones(2)
    F.batch_norm(sg.zeros(0, 2), mean, var, training=True)
    assert (mean.tolist(), var.tolist()) == ([1.0, 1.0], [1.0, 1.0])


def test_draws_in_place_follow_their_distribution() -> None:
    sg.manual_seed(0)
    x = sg.zeros(4000)
    assert x.exponential_(2.0).mean().item() == pytest.approx(0.5, rel=0.1)
    assert x.geometric_(0.25).mean().item() == pytest.approx(4.0, rel=0.1)
    assert x.cauchy_(1.0, 2.0).median().item() == pytest.approx(1.0, abs=0.3)
    assert x.log_normal_(0.0, 0.5).log().std().item() == pytest.approx(0.5, rel=0.1)
    assert set(x.random_(3).tolist()) == {0.0, 1.0, 2.0}
    assert sg.normal(sg.full((4000,), 3.0), 2.0).mean().item() == pytest.approx(3.0, abs=0.2)
