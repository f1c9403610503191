"""Several processes with a GPU each: operations, and training that equals one process with the whole batch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import shadergrad as sg
from ranks import assert_ranks_pass

pytestmark = [
    pytest.mark.skipif(not sg.distributed.is_available(), reason="PyTorch is not installed"),
    pytest.mark.slow,
]


def _of(name: str) -> ModuleType:
    """The file of tests of processes, whose programs run here on a GPU."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "processes" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("small_parts", ["", "1"])
def test_it_equals_one_process_on_the_gpu(small_parts: str, webgpu: str) -> None:
    assert_ranks_pass(_of("test_data_parallel").EQUAL, 2, DEVICES=webgpu, SMALL_PARTS=small_parts)


def test_every_operation_works_on_a_gpu(webgpu: str) -> None:
    wide = "sg.int8, sg.int16, sg.int32, sg.uint8, sg.int64, sg.float16"
    program = _of("test_process_groups").EVERYTHING.replace(wide, "sg.int32, sg.uint8, sg.int64")
    assert_ranks_pass(program, 2, DEVICES=webgpu)


DILOCO = """
import numpy as np
import warnings
import shadergrad as sg
nn, dist = sg.nn, sg.distributed
warnings.filterwarnings("error", message=".* is captured for the ")  # another rate captures nothing
dist.init_process_group("gloo", timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()

def values(parameters):
    return [p.detach().cpu().numpy() for p in parameters]

def moved(parameters):
    with sg.no_grad():
        for p in parameters:
            p += 1.0 + rank

# each device has its own connections; the outer rate may change
for every, delay in ((1, 0), (2, 1)):
    parameters = [*nn.Linear(4, 8).parameters(), *nn.Linear(3, 2).to("webgpu").parameters()]
    optimizer = sg.optim.DiLoCo(sg.optim.SGD(parameters, lr=0.1), every=every, parts=2, delay=delay, momentum=0.0)
    for rate in (1.0, 0.25, 0.5):
        optimizer.lr = rate
        before = values(parameters)
        moved(parameters)
        for _ in range(every):
            optimizer.advance()
        optimizer.finish()
        for found, b in zip(values(parameters), before):
            assert np.abs(found - (b + rate * 1.5)).max() < 1e-5, (every, rate)

# as on the cpu device, with inner steps while values travel
for dtype, tolerance in (("float32", 1e-5), ("float16", 2e-3), ("int8", 2e-2)):
    found = []
    for place in ("cpu", "webgpu"):
        sg.manual_seed(3)
        model = nn.Sequential(nn.Linear(40, 60), nn.Linear(60, 7)).to(place)
        optimizer = sg.optim.DiLoCo(sg.optim.SGD(model.parameters(), lr=0.1), every=3, parts=2, delay=1, dtype=dtype)
        for _ in range(10):
            moved(model.parameters())
            optimizer.advance()
        optimizer.finish()
        found.append(values(model.parameters()))
    for a, b in zip(*found):
        assert np.abs(a - b).max() < tolerance, (dtype, np.abs(a - b).max())
    everyone = [None] * size
    dist.all_gather_object(everyone, [a.tolist() for a in found[1]])
    assert everyone[0] == everyone[1], dtype
"""


def test_exchanges_of_diloco_on_a_gpu(webgpu: str) -> None:
    assert_ranks_pass(DILOCO, 2, DEVICES=webgpu)
