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
