"""Checked mode: bounds-checked shaders that report an index out of range at the next read."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import shadergrad as sg

PROGRAM = """
import numpy as np, shadergrad as sg
table = sg.tensor(np.arange(10, dtype=np.float32), device="webgpu")
good = table.index_select(0, sg.tensor([3, 9], device="webgpu"))
assert good.tolist() == [3.0, 9.0]
bad = table.index_select(0, sg.tensor([3, 17], device="webgpu") + 0)
try:
    bad.numpy()
except sg.IndexRangeError as error:
    print(error)
assert good.tolist() == [3.0, 9.0], "reported once"
"""


@pytest.mark.webgpu
@pytest.mark.slow
def test_checked_mode_raises_at_the_next_read(webgpu: str) -> None:
    environment = {**os.environ, "SHADERGRAD_CHECKED": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[gather] index 17 is out of range for an axis of size 10."


WIDE = """
import numpy as np, shadergrad as sg
from shadergrad.runtime.device import get_device

def tensor(values):
    return sg.tensor(values, device="webgpu")

target = get_device("webgpu").target
assert (target.max_storage_buffers, target.checked) == (8, True), target
table, rows = np.arange(10, dtype=np.float32), np.array([3, 9], np.int32)
for count in range(1, 12):
    others = [np.full(2, k + 1, np.float32) for k in range(count)]
    total = tensor(table).index_select(0, tensor(rows))
    for other in others:
        total = total * 0.5 + tensor(other)
    expected = table[rows]
    for other in others:
        expected = expected * np.float32(0.5) + other
    np.testing.assert_allclose(total.numpy(), expected, rtol=1e-6)
    bad = tensor(table).index_select(0, tensor(np.array([3, 17], np.int32)) + 0)
    for other in others:
        bad = bad * 0.5 + tensor(other)
    try:
        bad.numpy()
    except sg.IndexRangeError as error:
        print(count, error)
"""


@pytest.mark.webgpu
@pytest.mark.slow
def test_checked_kernels_keep_a_binding_free_for_their_report_within_the_portable_limits(webgpu: str) -> None:
    """Expressions that would fill all eight storage buffers of a portable kernel, and the buffer of reports besides."""
    environment = {**os.environ, "SHADERGRAD_CHECKED": "1", "SHADERGRAD_PROFILE": "portable"}
    done = subprocess.run([sys.executable, "-c", WIDE], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    report = "[gather] index 17 is out of range for an axis of size 10."
    assert done.stdout.splitlines() == [f"{count} {report}" for count in range(1, 12)]


@pytest.mark.webgpu
@pytest.mark.parametrize("position", [10, 2**31 - 1, -1, -(2**31)])
def test_trusted_shaders_stay_inside_the_tensor(webgpu: str, position: int) -> None:
    table = sg.tensor(np.full(10, 7.0, np.float32), device=webgpu)
    picked = table.gather(0, sg.tensor([0, position, 9], device=webgpu) + 0)
    with pytest.raises(sg.IndexRangeError, match=f"index {position} is out of range for an axis of size 10"):
        picked.tolist()
    assert picked.tolist() == [7.0, 0.0, 7.0]


@pytest.mark.parametrize("position", [10, -1])
def test_the_cpu_raises_at_once(position: int) -> None:
    table = sg.tensor(np.full(10, 7.0, np.float32))
    with pytest.raises(sg.IndexRangeError, match=f"index {position} is out of range for an axis of size 10"):
        table.gather(0, sg.tensor([0, position])).numpy()


SCATTERS = """
import shadergrad as sg

def tensor(values):
    return sg.tensor(values, device="webgpu")

x, long = sg.zeros(3, device="webgpu"), sg.zeros(3000, device="webgpu")
for scatter in (
    lambda: x.scatter_add(0, tensor([0, 5]), tensor([1.0, 2.0])),
    lambda: x.index_add(0, tensor([-1]), tensor([1.0])),
    lambda: x.scatter(0, tensor([3]), tensor([1.0])),
    lambda: long.scatter_add(0, sg.arange(4000, device="webgpu"), sg.ones(4000, device="webgpu")),
):
    try:
        print(scatter().sum().item())
    except sg.IndexRangeError as error:
        print(error)
print(x.index_add(0, tensor([2, 2]), tensor([1.0, 2.0])).tolist())
"""


@pytest.mark.webgpu
@pytest.mark.slow
def test_checked_mode_covers_what_scatters(webgpu: str) -> None:
    environment = {**os.environ, "SHADERGRAD_CHECKED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCATTERS], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    *reports, last = done.stdout.splitlines()
    assert [r.split(" is out of range for an axis of size ") for r in reports[:3]] == [
        ["[scatter_add] position 5", "3."],
        ["[scatter_add] position -1", "3."],
        ["[scatter_add] position 3", "3."],
    ]
    assert reports[3].startswith("[scatter_add] position 3"), "one of those from 3000 on"
    assert last == "[0.0, 0.0, 3.0]"


@pytest.mark.webgpu
def test_cross_entropy_with_a_label_out_of_range_harms_nothing(webgpu: str) -> None:
    logits = sg.tensor(np.zeros((2, 3), np.float32), device=webgpu, requires_grad=True)
    loss = sg.nn.functional.cross_entropy(logits, sg.tensor([1, 5], device=webgpu))
    loss.backward()
    assert logits.grad is not None
    for value in (loss, logits.grad):  # each is told when it is read first, and is a number
        with pytest.raises(sg.IndexRangeError, match="target 5"):
            value.numpy() if value is not loss else loss.item()
        assert np.isfinite(value.detach().numpy()).all()
