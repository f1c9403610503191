"""A lost device is opened again in the same process, and what a checkpoint or the host has goes on.

Each program runs in a process of its own, as it loses the device that all tests of a process share.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import shadergrad as sg

TRAINING = """
import sys
import numpy as np
import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.runtime.device import get_device

LOSE = {
    "driver": lambda device: device.native.lib.wgpuDeviceDestroy(device.native.raw),
    "callback": lambda device: device._lose("the GPU fell off the bus"),
}

def lose():
    device = get_device("webgpu")
    device.synchronize()  # and not sg.sync(), which computes what is pending
    LOSE[sys.argv[2]](device)

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 8)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int32)

def batch():
    return sg.tensor(X, device="webgpu"), sg.tensor(Y, device="webgpu")

sg.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 40), nn.BatchNorm1d(40), nn.Dropout(0.2), nn.Tanh(), nn.Linear(40, 2)).to("webgpu")
optimizer = sg.optim.AdamW(model.parameters(), lr=1e-2)

def step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

def say(call):
    try:
        print("no error:", call())
    except sg.ShadergradError as error:
        print(type(error).__name__, error)
"""

GOES_ON = (
    TRAINING
    + """
compiled = sg.compile(step)
run = {"compiled": compiled, "uncompiled": step}[sys.argv[1]]
x, y = batch()
for _ in range(5):
    run(x, y)
states = model.state_dict(), optimizer.state_dict()
sg.save(states, sys.argv[3])
del states

def ten_steps():
    sg.manual_seed(1)
    return [run(*batch()).item() for _ in range(10)]

expected = ten_steps()
pending = x * 2 + 1  # never read before the loss, and lost with x
lose()
say(lambda: run(x, y))
assert sg.devices.reset() == ["webgpu"]
assert sg.devices.reset() == [], "nothing is lost any more"
saved = sg.load(sys.argv[3])
model.load_state_dict(saved[0])
optimizer.load_state_dict(saved[1])
captures, compilations = compiled.captures, sg.drive.execute.programs.compiled
assert ten_steps() == expected
if run is compiled:
    assert (compiled.captures, sg.drive.execute.programs.compiled) == (captures, compilations)
say(pending.numpy)
"""
)

SAYS_SO = (
    TRAINING
    + """
kept = sg.tensor([1.0, 2.0, 3.0], device="webgpu")
rates = kept * 2
large, labels = batch()
squares = large * large
squares.numpy()
unread = large + 1
changed = sg.tensor([1.0, 2.0, 3.0], device="webgpu")
lose()
say(lambda: sg.tensor([4.0], device="webgpu"))
print(sg.devices.reset("webgpu:0"))
assert kept.tolist() == [1.0, 2.0, 3.0]
assert rates.tolist() == [2.0, 4.0, 6.0]
sg.sync()  # what cannot be computed any more is not met again here
for call in (large.numpy, squares.numpy, unread.numpy, (large @ large.t()).numpy, lambda: model(large).detach().numpy()):
    say(call)
large.copy_(sg.tensor(X, device="webgpu"))
assert (large.numpy() == X).all(), "it has a value again"
assert (large + 1).numpy().shape == X.shape
"""
)


def run(program: str, *arguments: str) -> list[str]:
    """The lines that a program prints."""
    command = [sys.executable, "-c", program, *arguments]
    environment = {**os.environ, "SHADERGRAD_MEMORY_LIMIT": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("how", ["driver", "callback"])
@pytest.mark.parametrize("mode", ["compiled", "uncompiled"])
def test_training_goes_on_from_a_checkpoint_bit_for_bit(webgpu: str, tmp_path: Path, mode: str, how: str) -> None:
    """The same model, optimizer and compiled step; nothing is captured or compiled anew."""
    said = run(GOES_ON, mode, how, str(tmp_path / "checkpoint.safetensors"))
    errors = [line for line in said if line.startswith("DeviceLostError")]
    assert len(errors) == 2, said
    assert "was lost: " in errors[0]
    assert "  Hint: sg.devices.reset('webgpu') opens it again" in said[1]
    assert "the argument 'in0' of shape (200, 8), float32, was in the memory of" in errors[1]


@pytest.mark.parametrize("how", ["driver", "callback"])
@pytest.mark.slow
def test_what_was_lost_says_so_and_what_the_host_had_is_there(webgpu: str, how: str) -> None:
    first, _, opened, *rest = run(SAYS_SO, "", how)
    assert first.startswith("DeviceLostError [webgpu]")
    assert opened == "['webgpu']"
    assert [line[:15] for line in rest[::2]] == ["DeviceLostError"] * 5
    assert all("was lost (" in line and "opened again since" in line for line in rest[::2])
    assert all("Hint: load the last checkpoint" in line for line in rest[1::2])


def test_a_device_that_was_not_lost_stays_as_it_is(device: str) -> None:
    x = sg.arange(3, device=device) * 2
    sg.sync()
    assert sg.devices.reset(device) == []
    assert sg.devices.reset() == []
    assert x.tolist() == [0, 2, 4]


def test_an_unknown_device_cannot_be_reset() -> None:
    with pytest.raises(sg.DeviceError, match="unknown device 'cuda'"):
        sg.devices.reset("cuda")


def test_a_compiled_step_cannot_reset_devices() -> None:
    with pytest.raises(sg.CompileError, match="outside"):
        sg.compile(lambda x: (sg.devices.reset(), x + 1)[1])(sg.ones(2))


def test_the_adapters_are_listed_in_the_order_of_their_numbers(webgpu: str) -> None:
    listed = sg.devices.adapters()
    assert [adapter.index for adapter in listed] == list(range(len(listed)))
    assert {adapter.name for adapter in listed} <= {adapter.name for adapter in sg.devices.adapters(all_backends=True)}
