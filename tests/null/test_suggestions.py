"""Errors say what was perhaps meant, by one word for it: Hint."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import pytest

import shadergrad as sg
from shadergrad import nn
from shadergrad.system.suggestions import meant


@pytest.mark.parametrize(
    ("module", "written", "wanted"),
    [
        (nn, "Conv2D", "Conv2d"),
        (nn, "ReLu", "ReLU"),
        (nn, "Dense", "Linear"),
        (nn, "BatchNormalization", "BatchNorm1d"),
        (nn.functional, "cross_entropy_loss", "cross_entropy"),
        (nn.functional, "mse", "mse_loss"),
        (nn.functional, "leakyrelu", "leaky_relu"),
        (nn.functional, "max_pool", "max_pool1d"),
        (sg.optim, "Adamw", "AdamW"),
        (sg.optim, "SDG", "SGD"),
        (sg, "no_gradient", "no_grad"),
        (sg.optim.lr_scheduler, "CosineAnnealing", "CosineAnnealingLR"),
        (sg.data, "Dataloader", "DataLoader"),
        (sg.utils.data, "dataset", "Dataset"),
        (sg, "tnesor", "tensor"),
    ],
)
def test_a_name_that_there_is_not_is_answered_with_the_one_meant(module: Any, written: str, wanted: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{written}'\. Did you mean {wanted}\?") as caught:
        getattr(module, written)
    assert "".join(traceback.format_exception(caught.value)).count("Did you mean") == 1
    assert not hasattr(module, written)
    assert getattr(module, written, None) is None


def test_what_is_far_from_all_is_not_guessed() -> None:
    assert meant("zzzz", ["Linear", "Conv2d"]) is None
    with pytest.raises(AttributeError, match=r"has no attribute 'Zzzz'$"):
        getattr(nn, "Zzzz")  # noqa: B009 (type checkers know that it is not there)
    with pytest.raises(AttributeError, match=r"has no attribute '__wrapped__'$"):
        getattr(nn, "__wrapped__")  # noqa: B009


def test_an_optimizers_argument_is_answered_with_the_one_meant() -> None:
    with pytest.raises(TypeError, match=r"'learning_rate'\. Did you mean lr\?"):
        sg.optim.SGD(nn.Linear(1, 1).parameters(), learning_rate=0.1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'foo'$"):
        sg.optim.Adam(nn.Linear(1, 1).parameters(), foo=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
def test_another_librarys_device_points_at_run(name: str) -> None:
    with pytest.raises(sg.DeviceError, match=r"unknown device.*Hint: webgpu is any GPU here; shadergrad run"):
        sg.ones(1, device=name)


@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (3, 1, 1)])
def test_labels_with_an_axis_too_many_say_so(shape: tuple[int, ...]) -> None:
    with pytest.raises(sg.ShapeError, match=r"Expected (target size \[3\], got \[3, 1|input batch_size).*Hint"):
        nn.functional.cross_entropy(sg.randn(3, 4), sg.zeros(*shape, dtype=sg.int64))


def test_one_hot_labels_of_integers_say_so() -> None:
    with pytest.raises(sg.DTypeError, match=r"got int64\. Hint: \.float\(\) for probabilities; class indices"):
        nn.functional.cross_entropy(sg.randn(3, 4), sg.zeros(3, 4, dtype=sg.int64))


def test_one_word_introduces_what_to_do() -> None:
    package = Path(sg.__file__).parent
    others = re.compile(r"\b(Remedy|Tip|Suggestion|Advice)\b: ")
    assert [str(p) for p in package.rglob("*.py") if others.search(p.read_text(encoding="utf-8"))] == []
