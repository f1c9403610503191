"""The kernels of products that read weights of few bits, for a GPU that is not there."""

from __future__ import annotations

import pytest

import shadergrad as sg
from golden_programs import graphs_compiled
from helpers import large_gpu
from shadergrad import nn
from shadergrad.compile.pipeline import compile_graph


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [8, 4])
def test_kernels_load_four_codes_at_a_time_and_nothing_else_is_stored(bits: int, symmetric: bool) -> None:
    """Of products with a weight and with its transpose, also in halves, of one row, and of many."""
    layer = sg.quantize(nn.Linear(256, 512), bits, 32, symmetric)
    for dtype in (sg.float32, sg.float16):
        layer.to(dtype)
        for rows in (1, 512):
            x, y = sg.ones(rows, 256, dtype=dtype), sg.ones(rows, 512, dtype=dtype)
            sg.sync()
            with graphs_compiled() as graphs:
                sg.compile(lambda x, y: (x @ layer.weight.T, y @ layer.weight))(x, y)
            plan = compile_graph(graphs[-1], large_gpu())[0]
            assert len(plan.buffers) == len(plan.inputs) + len(plan.outputs)
            products = [k for k in plan.kernels if k.archetype == "dot"]
            assert bool(products) == (rows > 1)
            assert all("along" in k.choice and "scalars" not in k.choice for k in products)
