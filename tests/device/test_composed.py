"""Further names of PyTorch: in-place forms, other names for the same, questions with one answer, and random values.

Values and gradients of the functions themselves are in the table (cases.py).
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close
from shadergrad.tensor.names import IN_PLACE

VALUES = np.array([[0.25, 0.5, 0.75], [0.125, 0.5, 0.875]])
INDEX = np.array([[2, 0], [1, 2]])


def tensors(lib: Any, device: str) -> tuple[Any, Any, Any, Any]:
    """x, another y, an index, a mask."""
    if lib is torch:
        x, index = torch.tensor(VALUES, dtype=torch.float32), torch.tensor(INDEX)
        return x, x.flip(0) + 0.5, index, x > 0.4
    x = sg.tensor(VALUES, dtype=sg.float32, device=device)
    return x, x.flip(0) + 0.5, sg.tensor(INDEX, device=device), x > 0.4


ARGUMENTS: dict[str, Callable[[Any, Any, Any, Any], tuple[Any, ...]]] = {
    "addcdiv": lambda x, y, i, m: (y, y + 1),
    "addcmul": lambda x, y, i, m: (y, y + 1),
    "addmm": lambda x, y, i, m: (x @ y.t(), y),
    "addr": lambda x, y, i, m: (y[:, 0], y[1]),
    "renorm": lambda x, y, i, m: (2, 0, 0.5),
    "index_copy": lambda x, y, i, m: (1, i[0], y[:, :2]),
    "index_put": lambda x, y, i, m: ((i[0] // 2, i[1]), y[0, :2], True),
    "index_reduce": lambda x, y, i, m: (1, i[0], y[:, :2], "prod"),
    "put": lambda x, y, i, m: (i[0], y[0, :2]),
    "scatter_reduce": lambda x, y, i, m: (1, i, y, "amax"),
    "clamp": lambda x, y, i, m: (0.3, 0.6),
    "clamp_max": lambda x, y, i, m: (0.5,),
    "clamp_min": lambda x, y, i, m: (0.5,),
    "clip": lambda x, y, i, m: (0.3, 0.6),
    "cumprod": lambda x, y, i, m: (1,),
    "cumsum": lambda x, y, i, m: (1,),
    "index_add": lambda x, y, i, m: (1, i[0], y[:, :2]),
    "index_fill": lambda x, y, i, m: (1, i[0], 7.0),
    "lerp": lambda x, y, i, m: (y, 0.25),
    "masked_fill": lambda x, y, i, m: (m, 7.0),
    "masked_scatter": lambda x, y, i, m: (m, y),
    "scatter": lambda x, y, i, m: (1, i, y),
    "scatter_add": lambda x, y, i, m: (1, i, y),
    "softmax": lambda x, y, i, m: (1,),
    **{
        name: lambda x, y, i, m: (y,)
        for name in (
            "add", "arctan2", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
            "copysign", "div", "ldexp", "nextafter", "divide", "eq", "floor_divide", "fmod",
            "ge", "greater", "greater_equal", "gt", "heaviside", "hypot", "le", "less", "less_equal", "logical_and", "logical_or", "logical_xor", "lt", "maximum",
            "minimum", "mul", "multiply", "ne", "not_equal", "pow", "remainder", "sub", "subtract", "true_divide", "xlogy",
        )
    },
}  # fmt: skip
OURS_ALONE = ("maximum", "minimum", "softmax")  # PyTorch has no such form in place


# of other shapes or dtypes: PyTorch's own samples try them (test_conformance_ops.py)
ELSEWHERE = ("addbmm", "addmv", "baddbmm", "float_power", "gcd", "lcm")


@pytest.mark.filterwarnings("ignore:index_reduce")  # PyTorch's, that it may change
@pytest.mark.parametrize("name", [name for name in IN_PLACE if name not in ELSEWHERE])
def test_in_place_forms_are_pytorchs(name: str, device: str) -> None:
    x, y, index, mask = tensors(sg, device)
    t, u, *others = tensors(torch, device)
    if name in ("acosh", "arccosh"):
        x, t = x + 1, t + 1
    if name.startswith("bitwise"):
        x, y, t, u = index, index + 1, others[0], others[0] + 1
    dtype, arguments = x.dtype, ARGUMENTS.get(name, lambda *_: ())
    result = getattr(x, f"{name}_")(*arguments(x, y, index, mask))
    expected = getattr(t, name if name in OURS_ALONE else f"{name}_")(*arguments(t, u, *others))
    assert result is x
    assert x.dtype is dtype
    assert_close(x, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("name", ["relu_", "sigmoid_", "tanh_", "celu_", "selu_", "rrelu_", "zero_"])
def test_in_place_functions_are_pytorchs(name: str, device: str) -> None:
    x = sg.tensor([-1.0, 0.5], device=device)
    assert getattr(sg, name)(x) is x
    assert_close(x, getattr(torch, name)(torch.tensor([-1.0, 0.5])), 1e-5, 1e-6)


SAME = {
    "absolute": "abs", "negative": "neg", "positive": "clone", "fix": "trunc", "arccos": "acos", "arcsin": "asin",
    "arctan": "atan", "ravel": "flatten",
}  # fmt: skip
SAME_OF_TWO = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "greater": "gt", "greater_equal": "ge",
    "less": "lt", "less_equal": "le", "not_equal": "ne", "clamp_min": "maximum", "clamp_max": "minimum",
}  # fmt: skip


def test_other_names_mean_the_same() -> None:
    x, y, _, _ = tensors(sg, "cpu")
    for name, other in SAME.items():
        assert getattr(sg, name)(x).equal(getattr(x, other)()), name
    for name, other in SAME_OF_TWO.items():
        assert getattr(sg, name)(x, y).equal(getattr(x, other)(y)), name
    cube = sg.arange(24).reshape(2, 3, 4)
    assert cube.swapaxes(0, 2).equal(cube.transpose(0, 2))
    assert cube.swapdims(0, 2).equal(cube.transpose(0, 2))
    assert cube.moveaxis(0, 2).equal(cube.movedim(0, 2))
    assert sg.concat([x, y]).equal(sg.concatenate([x, y]))
    assert (x.fliplr().equal(x.flip(1)), x.flipud().equal(x.flip(0))) == (True, True)
    assert x.view_as(sg.ones(3, 2)).shape == x.reshape_as(sg.ones(3, 2)).shape == (3, 2)
    assert (x.ndimension(), x.is_contiguous(), sg.numel(x), sg.is_tensor(x), sg.is_tensor(3)) == (
        2,
        True,
        6,
        True,
        False,
    )


def test_an_alias_speaks_of_itself() -> None:
    assert (inspect.getdoc(sg.Tensor.clip) or "").startswith("Another name of `clamp`")
    assert "x.clip(" in (inspect.getdoc(sg.Tensor.clip) or "")
    assert "x.clip_(" in (inspect.getdoc(sg.Tensor.clip_) or "")
    with pytest.raises(TypeError, match=r"^clip\(\): too many"):
        sg.ones(2).clip(0, 1, 2)  # type: ignore[call-arg]


def test_inverse_hyperbolic_functions_of_large_numbers_are_finite(device: str) -> None:
    values = [-1.5e38, -1e20, 1e20, 1.5e38]
    assert_close(sg.tensor(values, device=device).asinh(), torch.tensor(values).asinh(), 1e-6, 0)
    assert_close(sg.tensor(values[2:], device=device).acosh(), torch.tensor(values[2:]).acosh(), 1e-6, 0)


@pytest.mark.parametrize("name", ["sinh", "cosh", "asinh", "acosh", "atanh"])
def test_hyperbolic_functions_of_bools_are_pytorchs(name: str, device: str) -> None:
    values = [True, True] if name == "acosh" else [True, False]
    x = getattr(sg.tensor(values, device=device), name)()
    assert x.dtype is sg.float32
    assert_close(x, getattr(torch.tensor(values), name)(), 1e-6, 1e-6)


@pytest.mark.parametrize(
    "apply", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift], ids=lambda f: f.__name__
)
def test_python_numbers_may_come_first(apply: Callable[[Any, Any], Any], device: str) -> None:
    found = apply(13, sg.tensor([1, 2, 3], device=device))
    assert found.tolist() == apply(13, torch.tensor([1, 2, 3])).tolist()


def test_squeezing_no_axis_keeps_all() -> None:
    assert sg.ones(1, 3, 1).squeeze(()).shape == torch.ones(1, 3, 1).squeeze(()).shape


def test_half_a_pair_of_padding_is_refused() -> None:
    with pytest.raises(sg.ShapeError, match=r"pairs of numbers, got \(1,\)"):
        sg.ones(2).pad((1,))


def test_questions_about_equality(device: str) -> None:
    x = sg.tensor([1.0, np.nan], device=device)
    assert not x.equal(x)
    assert not sg.allclose(x, x)
    assert sg.allclose(x, x, equal_nan=True)
    assert sg.ones(2, device=device).allclose(sg.ones(2, device=device) + 1e-6)
    assert not sg.ones(2, device=device).allclose(sg.ones(2, device=device) + 1e-4)
    assert not sg.equal(sg.ones(2, device=device), sg.ones(3, device=device))
    with pytest.raises(sg.DTypeError, match="did not match"):
        sg.isclose(sg.ones(2), sg.ones(2).int())


def test_gradients_do_not_run_through_what_is_counted() -> None:
    x = sg.tensor([1.0, 0.0], requires_grad=True)
    assert not any(
        y.requires_grad
        for y in (x.count_nonzero(), x.isclose(x), x.heaviside(x), x.bucketize(x.detach()), x.bernoulli())
    )


def test_new_tensors_are_like_the_old(device: str) -> None:
    x = sg.ones(2, dtype=sg.int32, device=device)
    for made in (x.new_zeros(3), x.new_ones((3,)), x.new_full((3,), 7), x.new_tensor([1, 2, 3]), x.new_empty(3)):
        assert (made.dtype, made.device, tuple(made.shape)) == (sg.int32, x.device, (3,))
    assert x.new_full((1,), 7).tolist() == [7]
    assert x.new_zeros(1, dtype=sg.float32).dtype is sg.float32
    assert (sg.empty_like(x).dtype, tuple(sg.empty_like(x).shape)) == (sg.int32, (2,))


def test_shapes_and_limits() -> None:
    assert sg.broadcast_shapes((2, 1), (3,)) == (2, 3)
    assert [tuple(t.shape) for t in sg.broadcast_tensors(sg.ones(2, 1), sg.ones(3))] == [(2, 3), (2, 3)]
    assert float(sg.finfo(sg.float32).max) == torch.finfo(torch.float32).max
    assert int(sg.iinfo(sg.int32).min) == torch.iinfo(torch.int32).min
    assert (sg.pi, sg.e, sg.inf) == (torch.pi, torch.e, torch.inf)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: sg.ones(2).unflatten(0, (3, 2)), "don't multiply up to the size of dim 0"),
        (lambda: sg.ones(2).trace(), "expected a matrix, but got tensor with dim 1"),
        (lambda: sg.ones(2).bucketize(sg.ones(2, 2)), "boundaries tensor must be 1 dimension"),
        (lambda: sg.ones(2, 3).searchsorted(sg.ones(3, 3)), "must match"),
        (lambda: sg.ones(2).heaviside(sg.ones(2).int()), "different dtypes"),
        (lambda: sg.ones(2).scatter(0, sg.tensor([0]), sg.ones(1).int()), "self.dtype to be equal to src.dtype"),
        (lambda: sg.ones(2).div(2, rounding_mode="up"), "rounding_mode to be one of"),
        (lambda: sg.ones(2).multinomial(3), "without replacement"),
        (lambda: sg.tensor(1.0).diff(), "at least one-dimensional"),
    ],
)
def test_what_cannot_be_is_refused_in_pytorchs_words(run: Callable[[], Any], message: str) -> None:
    with pytest.raises((sg.ShapeError, sg.DTypeError), match=message):
        run()


# ---------------------------------------------------------------------------------- random values


def test_random_fillings_have_their_moments(device: str) -> None:
    sg.manual_seed(0)
    x = sg.zeros(4000, device=device)
    values = x.uniform_(-2, 4).numpy()
    assert (values.min() >= -2, values.max() < 4, abs(values.mean() - 1) < 0.1) == (True, True, True)
    values = x.normal_(3.0, 2.0).numpy()
    assert (abs(values.mean() - 3) < 0.15, abs(values.std() - 2) < 0.15) == (True, True)
    values = x.bernoulli_(0.25).numpy()
    assert set(values) == {0, 1}
    assert abs(values.mean() - 0.25) < 0.03
    assert sg.bernoulli(sg.tensor([0.0, 1.0], device=device)).tolist() == [0, 1]


def test_random_fillings_leave_leaves_that_record_alone() -> None:
    w = sg.zeros(2).requires_grad_()
    with pytest.raises(sg.AutogradError, match="in-place operation"):
        w.uniform_()
    with sg.no_grad():
        w.normal_()
    assert w.requires_grad


def test_multinomial_draws_by_weight(device: str) -> None:
    sg.manual_seed(0)
    weights = sg.tensor([[1.0, 0.0, 3.0], [0.0, 5.0, 0.0]], device=device)
    drawn = weights.multinomial(2000, replacement=True).numpy()
    assert drawn.shape == (2, 2000)
    assert abs((drawn[0] == 2).mean() - 0.75) < 0.04
    assert set(drawn[0]) == {0, 2}
    assert set(drawn[1]) == {1}
    once = sg.multinomial(sg.tensor([1.0, 2.0, 3.0, 0.0], device=device), 3).tolist()
    assert sorted(once) == [0, 1, 2]


def test_functions_of_networks_at_top_level(device: str) -> None:
    """Those that PyTorch has there too, with the same arguments."""
    x, w = np.random.default_rng(0).random((2, 3, 6, 6)), np.random.default_rng(1).random((4, 3, 2, 2))

    def both(ours: Any, theirs: Any) -> None:
        given = [sg.tensor(a.astype(np.float32), device=device) for a in (x, w)]
        assert_close(ours(*given).numpy(), theirs(*(torch.tensor(a).float() for a in (x, w))).numpy(), 1e-4, 1e-5)

    both(lambda a, b: sg.conv2d(a, b, stride=2), lambda a, b: torch.conv2d(a, b, stride=2))
    both(lambda a, _: sg.max_pool2d(a, 2), lambda a, _: torch.max_pool2d(a, 2))
    both(lambda a, _: sg.cosine_similarity(a, a * a, 1), lambda a, _: torch.cosine_similarity(a, a * a, 1))
    both(
        lambda a, b: sg.bilinear(a[..., :2], a[..., 2:4], b[0]),
        lambda a, b: torch.bilinear(a[..., :2], a[..., 2:4], b[0]),
    )
    both(
        lambda a, _: sg.nn.functional.upsample(a, scale_factor=2),
        lambda a, _: torch.nn.functional.interpolate(a, scale_factor=2),
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.var(1, unbiased=False),
        lambda x: x.var(1, False),
        lambda x: x.std(1, unbiased=False),
        lambda x: x.var(unbiased=True),
        lambda x: x.var(1, correction=2),
    ],
    ids=["var", "var by position", "std", "of all", "correction"],
)
def test_variances_are_divided_as_asked(function: Any, device: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    assert_close(function(sg.tensor(x, device=device)), function(torch.tensor(x)), 1e-5, 1e-6)


def test_sums_of_exponentials_of_infinities(device: str) -> None:
    x = np.array([[1, -np.inf, 2], [-np.inf] * 3, [np.inf, 1, 2], [np.inf, -np.inf, np.inf]], np.float32)
    assert_close(sg.tensor(x, device=device).logsumexp(1), torch.tensor(x).logsumexp(1), 1e-6, 1e-6)


def test_quantiles_of_rows_with_nan_are_nan(device: str) -> None:
    x = np.array([[1, np.nan, 2, 3], [4, 1, 3, 2]], np.float32)
    for q in (0.0, 0.4, 1.0):
        assert_close(sg.tensor(x, device=device).quantile(q, 1), torch.tensor(x).quantile(q, 1), 1e-6, 0)


@pytest.mark.parametrize(
    ("shape", "kernel", "output"),
    [
        ((2, 3, 9, 8), (2, 3), (4, 5)),
        ((3, 9, 9), 2, (1, 1)),
        ((2, 2, 9, 8, 7), (2, 3, 2), (4, 5, 1)),
        ((1, 2, 7, 7, 7), 2, 3),
    ],
)
def test_fractional_pooling_is_pytorchs_for_the_same_draws(
    shape: tuple[int, ...], kernel: Any, output: Any, device: str
) -> None:
    rank = 3 if len(shape) == 5 else 2
    rng = np.random.default_rng(0)
    values = rng.standard_normal(shape).astype(np.float32)
    draws = rng.random((shape[0] if len(shape) > 3 else 1, shape[-rank - 1], rank)).astype(np.float32)
    found = []
    for lib, place in ((sg, device), (torch, "cpu")):
        x = lib.tensor(values, device=place, requires_grad=True)
        pool = getattr(lib.nn.functional, f"fractional_max_pool{rank}d")
        samples = lib.tensor(draws, device=place)
        best, where = pool(x, kernel, output_size=output, return_indices=True, _random_samples=samples)
        (best * best).sum().backward()
        found.append([v.detach().numpy() for v in (best, where, x.grad)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
