"""Anomaly detection: NaN in gradients, and in what compiled steps give, is told with the line that it comes from."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest
import torch

import shadergrad as sg
from shadergrad import nn

LIBRARIES = pytest.mark.parametrize("lib", [sg, torch], ids=["shadergrad", "torch"])
pytestmark = pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled", "ignore:Error detected in")


def line_of(text: str) -> str:
    """ "test_anomalies.py:12" of the line of the calling test that ends with a comment."""
    caller = inspect.currentframe().f_back  # type: ignore[union-attr]
    lines, first = inspect.getsourcelines(caller.f_code)  # type: ignore[union-attr]
    (k,) = [k for k, line in enumerate(lines) if line.rstrip().endswith(f"# {text}")]
    return f"test_anomalies.py:{first + k}"


@LIBRARIES
@pytest.mark.parametrize("kind", ["sqrt", "product", "power", "function"])
def test_a_gradient_of_nan_raises_as_pytorchs(lib: Any, kind: str) -> None:
    class Broken(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * float("nan")

    calls = {
        "sqrt": lambda x: (x.sqrt() * 0.0).sum(),
        "product": lambda x: (x * float("nan")).sum(),
        "power": lambda x: ((x**0.5) * 0.0).sum(),
        "function": lambda x: Broken.apply(x).sum(),
    }
    x = lib.zeros(3, requires_grad=True)
    with lib.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="returned nan values in its 0th output"):
        calls[kind](x).backward()
    calls[kind](x).backward()  # and without, none
    assert lib.isnan(x.grad).any()


def test_the_line_of_the_forward_pass_is_named(device: str) -> None:
    x = sg.zeros(2, device=device, requires_grad=True)
    with sg.autograd.detect_anomaly():
        y = x.sqrt()  # the culprit
        loss = (y * 0.0).sum()
        with pytest.raises(sg.AutogradError, match=line_of("the culprit")):
            loss.backward()
        with pytest.raises(sg.AutogradError, match="SqrtBackward"):
            sg.autograd.grad((x.sqrt() * 0.0).sum(), x)


def test_a_line_outside_is_not_known() -> None:
    x = sg.zeros(2, requires_grad=True)
    loss = (x.sqrt() * 0.0).sum()
    with sg.autograd.detect_anomaly(), pytest.raises(sg.AutogradError, match="No forward pass information available"):
        loss.backward()


def test_the_module_is_named() -> None:
    class Root(nn.Module):
        def forward(self, x: sg.Tensor) -> sg.Tensor:
            return x.sqrt()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Root()

        def forward(self, x: sg.Tensor) -> sg.Tensor:
            return self.inner(x) * 0.0

    net = Net()
    with sg.autograd.detect_anomaly(), pytest.raises(sg.AutogradError, match=r"in inner\."):
        net(sg.zeros(1, requires_grad=True)).sum().backward()


@LIBRARIES
def test_the_switch(lib: Any) -> None:
    enabled = lib.is_anomaly_enabled
    assert not enabled()
    with lib.autograd.set_detect_anomaly(True):
        assert enabled()
        with lib.autograd.set_detect_anomaly(False):
            assert not enabled()
        assert enabled()
        with lib.autograd.detect_anomaly(check_nan=False):
            assert not lib.is_anomaly_check_nan_enabled()
            x = lib.zeros(1, requires_grad=True)
            (x.sqrt() * 0.0).sum().backward()
        assert lib.is_anomaly_check_nan_enabled()
    lib.autograd.set_detect_anomaly(True)
    assert enabled()
    lib.autograd.set_detect_anomaly(False)
    assert not enabled()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with lib.autograd.detect_anomaly():
            pass
    assert "Anomaly Detection has been enabled" in str(told[0].message)


def test_a_compiled_step_names_the_line(device: str) -> None:
    x = sg.zeros(2, device=device, requires_grad=True)

    def step(scale: sg.Tensor) -> None:
        y = x.sqrt()  # of the step
        (y * scale).sum().backward()

    compiled = sg.compile(step)
    compiled(sg.ones(1, device=device))
    line = f"test_anomalies.py:{step.__code__.co_firstlineno + 1}"
    with sg.autograd.detect_anomaly(), pytest.raises(sg.AutogradError, match=line):
        compiled(sg.zeros(1, device=device))


def test_a_compiled_module_names_the_line(device: str) -> None:
    model = sg.compile(nn.Sequential(nn.ReLU(), nn.LogSoftmax(-1)))
    x = sg.full((1, 2), float("inf"), device=device, requires_grad=True)
    with sg.autograd.detect_anomaly(), pytest.raises(sg.AutogradError, match="NaN"):
        model(x)


def test_what_a_step_gives_is_traced_to_the_first_nan(device: str) -> None:
    """And past it to the infinity that it is of."""
    kept = nn.Parameter(sg.ones(2, device=device))

    def step(x: sg.Tensor) -> sg.Tensor:
        wide = x.exp()
        gone = (3.0 - wide).sqrt()
        unused = (x - x) / (x - x)  # NaN that no result has
        del unused
        with sg.no_grad():
            kept.mul_(gone)
        return x

    compiled = sg.compile(step)
    first = step.__code__.co_firstlineno
    with sg.autograd.detect_anomaly():
        compiled(sg.ones(2, device=device))
        with pytest.raises(sg.AutogradError) as told:
            compiled(sg.full((2,), 1000.0, device=device))
    assert f"test_anomalies.py:{first + 2}" in str(told.value)
    assert f"That comes from exp[2]:float32, recorded at test_anomalies.py:{first + 1}" in str(told.value)


def test_masks_of_minus_infinity_are_no_anomaly(device: str) -> None:
    q = sg.ones(1, 1, 4, 8, device=device, requires_grad=True)
    mask = sg.ones(4, 4, dtype=sg.bool, device=device).tril()
    step = sg.compile(lambda: nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask).sum().backward())
    with sg.autograd.detect_anomaly():
        step()
    assert q.grad is not None
    assert q.grad.isfinite().all()
