"""What the library refuses, and in which words: devices, dtypes, shapes, positions. Errors come at the user's line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from helpers import assert_close, assert_same_bits, grad_of
from shadergrad import nn
from shadergrad.config import config
from shadergrad.errors import DTypeError

# ---------------------------------------------------------------------------------- devices


def test_operands_on_two_devices_name_shapes_and_remedy(webgpu: str) -> None:
    a, b = sg.ones(2, 3), sg.ones(2, 3, device=webgpu)
    for op in (lambda: a + b, lambda: b * a, lambda: a @ b.t(), lambda: sg.cat([a, b]), lambda: sg.where(b > 0, a, a)):
        with pytest.raises(sg.DeviceError, match=r"on cpu.*on webgpu|on webgpu.*on cpu") as caught:
            op()
        assert "[2, 3]" in str(caught.value) or "[3, 2]" in str(caught.value)
        assert ".to(" in str(caught.value)
        assert isinstance(caught.value, RuntimeError)


def test_a_model_and_its_input_on_two_devices_are_refused(webgpu: str) -> None:
    with pytest.raises(sg.DeviceError, match=r"\.to\("):
        nn.Linear(3, 2, device=webgpu)(sg.ones(4, 3))


def test_a_cpu_number_follows_the_other_operand(webgpu: str) -> None:
    """As in PyTorch: zero-dimensional cpu tensors mix with any device."""
    x = sg.ones(2, device=webgpu)
    result = x * sg.tensor(3.0) + sg.tensor(1)
    assert (result.device, result.tolist()) == (webgpu, [4, 4])


@pytest.mark.parametrize("name", ["cuda", "webgpu:x", "", "CPU", "webgpu:-1"])
def test_an_unknown_device_is_named_with_those_known(name: str) -> None:
    for make in (
        lambda: sg.zeros(2, device=name),
        lambda: sg.ones(2).to(device=name),
        lambda: sg.set_default_device(name),
    ):
        with pytest.raises(sg.DeviceError) as caught:
            make()
        assert repr(name) in str(caught.value)
        assert "cpu, webgpu" in str(caught.value)


def test_an_adapter_that_is_not_there_is_refused(webgpu: str) -> None:
    with pytest.raises(sg.DeviceError, match="99"):
        sg.zeros(2, device="webgpu:99").numpy()


def test_device_names_compare_as_text(device: str) -> None:
    x = sg.zeros(2, device=device)
    assert x.device == device
    assert x.device.type == device
    assert x.device.index == 0
    assert sg.zeros(2, device=sg.device(device)).device == x.device
    assert sg.zeros(2, device=f"{device}:0").device == x.device


def test_the_default_device_is_where_tensors_are_made(webgpu: str) -> None:
    assert sg.get_default_device() == "cpu"
    try:
        sg.set_default_device(webgpu)
        assert sg.zeros(2).device == webgpu
        assert sg.tensor([1.0]).device == webgpu
        assert sg.rand(2).device == webgpu
        assert nn.Linear(2, 2).weight.device == webgpu
        assert sg.zeros(2, device="cpu").device == "cpu"
    finally:
        sg.set_default_device("cpu")


@pytest.mark.parametrize("kind", ["float32", "int32", "int64", "uint32", "uint8", "bool_"])
def test_values_survive_the_way_there_and_back(kind: str, webgpu: str) -> None:
    from shadergrad import dtypes

    dtype = getattr(dtypes, kind)
    values = np.array([0, 1, 2, 250, 7]).astype(dtype.numpy)
    x = sg.tensor(values, dtype=dtype)
    y = x.to(webgpu)
    assert (y.device, y.dtype) == (webgpu, dtype)
    assert_same_bits(y, values)
    assert_same_bits(y.cpu(), values)
    assert y.to(webgpu) is y


def test_special_floats_survive_the_way(webgpu: str) -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-42, 3.4e38], np.float32)
    assert_same_bits(sg.tensor(values, device=webgpu), values)
    assert_close(sg.tensor(values, device=webgpu) * 1, values, 0, 1e-41)


def test_gradients_go_back_the_way_that_a_value_came(webgpu: str) -> None:
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    there = x.to(webgpu)
    back = (there * there).cpu()
    (back * 3).sum().backward()
    assert grad_of(x).tolist() == [6, 12]
    assert grad_of(x).device == "cpu"


def test_second_derivatives_cross_devices(webgpu: str) -> None:
    x = sg.tensor([1.0, 2.0], device=webgpu, requires_grad=True)
    (first,) = sg.autograd.grad((x**3).cpu().sum(), x, create_graph=True)
    (second,) = sg.autograd.grad(first.cpu().sum(), x)
    assert second.tolist() == [6, 12]
    assert second.device == webgpu


def test_a_model_moves_with_its_parameters(webgpu: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    expected = model(sg.tensor(x)).detach().numpy()
    parameters = list(model.parameters())
    assert model.to(webgpu) is model
    assert [p.device for p in model.parameters()] == [webgpu] * 4
    assert list(model.parameters()) == parameters or all(
        a is b for a, b in zip(model.parameters(), parameters, strict=True)
    )
    assert_close(model(sg.tensor(x, device=webgpu)), expected, 1e-4, 1e-5)


def test_printing_names_the_device_where_it_is_not_the_cpu(webgpu: str) -> None:
    assert repr(sg.ones(2)) == "tensor([1., 1.])"
    assert repr(sg.ones(2, device=webgpu)) == "tensor([1., 1.], device='webgpu')"
    assert "requires_grad=True" in repr(sg.ones(2, requires_grad=True))


# ---------------------------------------------------------------------------------- dtypes


def test_float64_is_refused_on_webgpu(webgpu: str) -> None:
    for make in (
        lambda: sg.zeros(2, dtype=sg.float64, device=webgpu),
        lambda: sg.ones(2, dtype=sg.float64).to(webgpu),
        lambda: sg.ones(2, device=webgpu).to(sg.float64),
        lambda: sg.ones(2, device=webgpu).double(),
        lambda: sg.tensor(np.ones(2), device=webgpu, dtype="float64"),
        lambda: sg.rand(2, dtype=sg.float64, device=webgpu),
        lambda: nn.Linear(2, 2).to(sg.float64).to(webgpu),
    ):
        with pytest.raises(sg.DTypeError, match="float64") as caught:
            make()
        assert "cpu" in str(caught.value), "the remedy"


def test_float64_moves_to_webgpu_as_float32(webgpu: str) -> None:
    x = sg.ones(2, dtype=sg.float64).to(webgpu, sg.float32)
    assert (x.dtype, x.tolist()) == (sg.float32, [1, 1])


def test_a_float64_array_is_refused_or_converted_in_clear_words(webgpu: str) -> None:
    """NumPy arrays keep their dtype, so float64 on webgpu needs a word of the user."""
    with pytest.raises(sg.DTypeError, match="float64"):
        sg.tensor(np.ones(2), device=webgpu)
    assert sg.tensor(np.ones(2), dtype=sg.float32, device=webgpu).tolist() == [1, 1]


BAD_TYPES: dict[str, Callable[[str], Any]] = {
    "matmul of a float and an int": lambda d: sg.ones(2, 2, device=d) @ sg.ones(2, 2, dtype=sg.int32, device=d),
    "minus on bools": lambda d: sg.tensor([True], device=d) - sg.tensor([True], device=d),
    "negation of bools": lambda d: -sg.tensor([True], device=d),
    "mean of ints": lambda d: sg.tensor([1, 2], device=d).mean(),
    "where without a bool": lambda d: sg.where(sg.ones(2, device=d), 1.0, 2.0),
    "bitwise and of floats": lambda d: sg.ones(2, device=d) & sg.ones(2, device=d),
    "index by floats": lambda d: sg.ones(2, device=d)[sg.ones(2, device=d)],
    "gather by floats": lambda d: sg.ones(2, device=d).gather(0, sg.ones(2, device=d)),
    "cross_entropy with float targets": lambda d: F.cross_entropy(sg.ones(2, 3, device=d), sg.ones(2, device=d)),
    "an unknown dtype": lambda d: sg.zeros(2, dtype="float99", device=d),
    "in-place float into int": lambda d: sg.tensor([1, 2], device=d).add_(0.5),
    "random integers by rand": lambda d: sg.rand(2, dtype=sg.int32, device=d),
    "an int that does not fit": lambda d: sg.tensor([2**40], device=d),
}


@pytest.mark.parametrize("name", BAD_TYPES)
def test_a_wrong_dtype_is_refused_at_once(name: str, device: str) -> None:
    with pytest.raises(sg.DTypeError) as caught:
        BAD_TYPES[name](device)
    assert isinstance(caught.value, TypeError)
    assert len(str(caught.value)) > 20


# ---------------------------------------------------------------------------------- shapes

BAD_SHAPES: dict[str, tuple[Callable[[str], Any], str]] = {
    "add": (lambda d: sg.ones(2, 3, device=d) + sg.ones(4, device=d), r"\(2, 3\), \(4,\)"),
    "matmul": (
        lambda d: sg.ones(32, 784, device=d) @ sg.ones(768, 128, device=d),
        r"\[matmul\].*\(32, 784\).*\(768, 128\).*784.*768",
    ),
    "matmul of 0-d": (lambda d: sg.ones(2, device=d) @ sg.ones((), device=d), "at least 1D"),
    "matmul of batches": (lambda d: sg.ones(2, 3, 4, device=d) @ sg.ones(5, 4, 3, device=d), "batch axes"),
    "linear": (
        lambda d: nn.Linear(3, 2, device=d)(sg.ones(4, 5, device=d)),
        r"Linear\(3, 2\) takes 3 features, the input has 5",
    ),
    "reshape": (lambda d: sg.ones(2, 3, device=d).reshape(4), r"\(4,\).*size 6"),
    "reshape with two unknown": (lambda d: sg.ones(6, device=d).reshape(-1, -1), "only one dimension"),
    "reshape to a negative size": (lambda d: sg.ones(6, device=d).reshape(-2, -3), "invalid shape dimension"),
    "expand": (lambda d: sg.ones(2, 3, device=d).expand(2, 4), "must match the existing size"),
    "permute": (lambda d: sg.ones(2, 3, device=d).permute(0), "1 dims for a tensor of 2"),
    "permute twice the same": (lambda d: sg.ones(2, 3, device=d).permute(0, 0), "name each axis"),
    "cat": (lambda d: sg.cat([sg.ones(2, 3, device=d), sg.ones(2, 4, device=d)]), r"\(2, 3\), \(2, 4\)"),
    "cat of nothing": (lambda d: sg.cat([]), "non-empty"),
    "stack": (lambda d: sg.stack([sg.ones(2, device=d), sg.ones(3, device=d)]), "equal size"),
    "where": (lambda d: sg.where(sg.ones(2, device=d) > 0, sg.ones(3, device=d), 0.0), "does not broadcast"),
    "amax of nothing": (lambda d: sg.ones(2, 0, device=d).amax(1), r"\(2, 0\)"),
    "item of many": (lambda d: sg.ones(2, 3, device=d).item(), "6 elements"),
    "bool of many": (lambda d: bool(sg.ones(2, device=d)), "ambiguous"),
    "cross_entropy": (
        lambda d: F.cross_entropy(sg.ones(2, 3, device=d), sg.ones(3, dtype=sg.int32, device=d)),
        r"\[2\].*\[3\]",
    ),
    "mse_loss": (lambda d: F.mse_loss(sg.ones(2, 1, device=d), sg.ones(2, device=d)), r"\(2, 1\).*\(2,\)"),
    "ragged lists": (lambda d: sg.tensor([[1.0], [1.0, 2.0]], device=d), "equal lengths|inhomogeneous"),
    "in place over a smaller tensor": (
        lambda d: sg.ones(3, device=d).add_(sg.ones(2, 3, device=d)),
        r"\[3\].*\[2, 3\]",
    ),
    "negative sizes": (lambda d: sg.zeros(-1, device=d), "negative size"),
    "a dim twice": (lambda d: sg.ones(2, 3, device=d).sum((0, 0)), "twice"),
}


@pytest.mark.parametrize("name", BAD_SHAPES)
def test_shapes_that_do_not_fit_are_named(name: str, device: str) -> None:
    make, message = BAD_SHAPES[name]
    with pytest.raises(sg.ShapeError, match=message) as caught:
        make(device)
    assert isinstance(caught.value, ValueError)


BAD_AXES: dict[str, Callable[[sg.Tensor], Any]] = {
    "sum": lambda x: x.sum(2),
    "softmax": lambda x: x.softmax(-3),
    "transpose": lambda x: x.transpose(0, 5),
    "unsqueeze": lambda x: x.unsqueeze(4),
    "squeeze": lambda x: x.squeeze(2),
    "flip": lambda x: x.flip(2),
    "argmax": lambda x: x.argmax(7),
    "index": lambda x: x[2],
    "negative index": lambda x: x[0, -4],
    "too many indices": lambda x: x[0, 0, 0],
    "two ellipses": lambda x: x[..., ...],
    "a negative step": lambda x: x[::-1],
}


@pytest.mark.parametrize("name", BAD_AXES)
def test_axes_and_positions_out_of_range_are_index_errors(name: str, device: str) -> None:
    with pytest.raises(sg.IndexRangeError) as caught:
        BAD_AXES[name](sg.ones(2, 3, device=device))
    assert isinstance(caught.value, IndexError)


# ---------------------------------------------------------------------------------- positions that are data

trusted = pytest.mark.skipif(config.checked, reason="checked mode raises instead: test_checked.py")
OUTSIDE = [-1, 5, 6, 1000, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize("position", OUTSIDE)
def test_a_position_out_of_range_raises_on_the_cpu(position: int) -> None:
    x = sg.arange(5).float()
    with pytest.raises(sg.IndexRangeError, match=rf"{position}.*size 5"):
        x.gather(0, sg.tensor([0, position])).numpy()
    with pytest.raises(sg.IndexRangeError, match="scatter_add"):
        x.scatter_add(0, sg.tensor([position]), sg.ones(1)).numpy()


@trusted
@pytest.mark.parametrize("position", OUTSIDE)
def test_a_position_out_of_range_reads_zero_and_harms_nothing_on_webgpu(position: int, webgpu: str) -> None:
    """Forward and backward: the value is 0, other elements are theirs, no gradient arrives anywhere."""
    x = (sg.arange(5, device=webgpu) + 1).float().requires_grad_()
    index = (
        sg.tensor([2, position, 4], device=webgpu) + 0
    )  # to be computed: a value that is known is refused at the call
    picked = x.gather(0, index)
    total = (picked * sg.tensor([1.0, 10.0, 100.0], device=webgpu)).sum()
    total.backward()
    added = sg.zeros(5, device=webgpu).scatter_add(0, index, sg.ones(3, device=webgpu))
    for t in (picked, grad_of(x), added):  # whose kernels look at it
        with contextlib.suppress(sg.IndexRangeError):
            t.tolist()
    assert picked.tolist() == [3, 0, 5]
    assert grad_of(x).tolist() == [0, 0, 1, 0, 100]
    assert added.tolist() == [0, 0, 1, 0, 1]
    assert x.tolist() == [1, 2, 3, 4, 5]


@trusted
def test_a_position_out_of_range_in_a_middle_axis_harms_nothing(webgpu: str) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1
    index = np.array([0, 3, -2, 2], np.int32)
    selected = sg.tensor(x, device=webgpu).index_select(1, sg.tensor(index, device=webgpu) + 0)
    with pytest.raises(sg.IndexRangeError):
        selected.numpy()
    picked = selected.numpy()
    assert_same_bits(picked[:, [0, 3]], x[:, [0, 2]])
    assert not picked[:, 1:3].any()


@trusted
def test_a_label_out_of_range_is_refused_and_harms_nothing(device: str) -> None:
    logits = sg.zeros(3, 4, device=device).requires_grad_()
    loss = F.cross_entropy(logits, sg.tensor([0, 4, 1], device=device))
    with pytest.raises(sg.IndexRangeError, match="target 4"):
        loss.item()
    assert sg.ones(2, device=device).sum().item() == 2, "told once, and to who reads what has to do with it first"


@trusted
def test_uint32_positions_are_refused(webgpu: str) -> None:
    """As in PyTorch: as words of 32 bits they would wrap into the range."""
    index = sg.tensor(np.array([1, 2**32 - 1, 2**31, 2**31 + 3, 3], np.uint32), device=webgpu)
    x = sg.arange(4, 8, device=webgpu)
    for pick in (lambda: x.gather(0, index), lambda: x[index], lambda: x.index_select(0, index), lambda: x.take(index)):
        with pytest.raises(DTypeError):
            pick()
