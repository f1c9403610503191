"""The models of examples/ as ONNX: onnxruntime gives what they give, within 1e-5, also for other numbers of examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from shadergrad.as_torch import installed
from shadergrad.onnx import export
from test_programs_people_know import SMALL, load

pytest.importorskip("onnxruntime", reason='ONNX NOT TESTED: pip install "shadergrad[onnx]" onnxruntime')

CLOSE = 1e-5
Sample = Callable[[Any, int], tuple[Any, ...]]  # of the program, and of how many examples there are


def words(p: Any, n: int) -> tuple[Any, ...]:
    return (sg.randint(0, 10, (p.BPTT, n)),)


def graph(p: Any, n: int) -> tuple[Any, ...]:
    return p.network()[:2]


# what each model is given, and of which axis of each tensor there may be another number; None: of none
MODELS: dict[str, tuple[Sample, int | None]] = {
    "cnn": (lambda p, n: (sg.randn(n, 1, 28, 28),), 0),
    "resnet": (lambda p, n: (sg.randn(n, 3, p.SIZE, p.SIZE),), 0),
    "char_gpt": (lambda p, n: (sg.randint(0, 10, (n, p.BLOCK)),), 0),
    "lstm_lm": (lambda p, n: (*words(p, n), tuple(sg.zeros(p.LAYERS, n, p.WIDTH) for _ in range(2))), None),
    "transformer_lm": (words, 1),
    "vit": (lambda p, n: (sg.randn(n, 1, 8, 8),), 0),
    "diffusion": (lambda p, n: (sg.randn(n, 1, 8, 8), sg.randint(0, 10, (n,))), 0),
    "siren": (lambda p, n: (sg.randn(n, 2),), 0),
    "image_field": (lambda p, n: (sg.randn(n, 2),), 0),
    "siamese": (lambda p, n: (sg.randn(n, 1, 8, 8), sg.randn(n, 1, 8, 8)), 0),
    "simclr": (lambda p, n: (sg.randn(n, 64),), 0),
    "gcn": (graph, None),
    "gat": (graph, None),
    "time_series": (lambda p, n: (sg.randn(n, p.LENGTH),), 0),
    "binary_network": (lambda p, n: (sg.randn(n, 64),), 0),
    "dqn": (lambda p, n: (sg.randn(n, 4),), 0),
    "reinforce": (lambda p, n: (sg.randn(n, 4),), 0),
    "actor_critic": (lambda p, n: (sg.randn(n, 4),), 0),
}


def assert_alike(found: list[sg.Tensor], wanted: Any) -> None:
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    flat = [t for w in wanted for t in (w if isinstance(w, tuple) else (w,))]
    for a, b in zip(found, flat, strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_examples_gives_the_same_in_onnxruntime(name: str) -> None:
    sample, axis = MODELS[name]
    with installed():
        sg.manual_seed(0)
        program = load(name)
        model = program.build("cpu").eval()
        given = sample(program, 3)
        dynamic = None if axis is None else tuple({axis: "n"} for _ in given)
        exported = export(model, given, dynamic_shapes=dynamic)
        for n in (3,) if axis is None else (3, 1, 6):
            values = sample(program, n)
            flat = [t for v in values for t in (v if isinstance(v, tuple) else (v,))]
            with sg.no_grad():
                assert_alike(exported(*flat), model(*values))


assert set(SMALL) > set(MODELS)
