"""Ctrl-C at random times: it arrives, nothing is printed, and what was cut short is whole or was not done at all."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

import shadergrad as sg
from shadergrad.system import interrupts

PROGRAM = """
import os, random, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it
import numpy as np, shadergrad as sg

how, device, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
sg.set_default_device(device)
weight = sg.zeros(8, requires_grad=True)
optimizer = sg.optim.SGD([weight], lr=1.0)
data = sg.data.TensorDataset(sg.ones(32, 8, device="cpu"))

def step(x):
    optimizer.zero_grad()
    loss = -(weight * x).sum()
    loss.backward()
    optimizer.step()  # adds 1 to each weight
    return loss.detach()

run = sg.compile(step) if how == "compiled" else step

def work():
    if how == "loader":
        for (batch,) in sg.data.DataLoader(data, 8, num_workers=2):
            run(batch.mean(0).to(device)).item()
    elif how == "uploads":
        run(sg.tensor(np.ones(8, np.float32))).item()
    else:
        for _ in range(3):
            loss = run(sg.ones(8))
        loss.item()

work()
draws = random.Random(0)
for _ in range(count):
    timer = threading.Timer(draws.uniform(0.0, 0.05), os.kill, (os.getpid(), signal.SIGINT))
    try:
        end = time.monotonic() + 20
        timer.start()
        while time.monotonic() < end:
            work()
        sys.exit("Ctrl-C never arrived")
    except KeyboardInterrupt:
        pass
    before = weight.detach().numpy()
    assert (before == before[0]).all() and before[0] % 1 == 0, before
    run(sg.ones(8)).item()
    after = weight.detach().numpy()
    assert (after == before + 1).all(), (before, after)
print("done")
"""


@pytest.mark.parametrize("how", ["eager", "compiled", "uploads", "loader"])
@pytest.mark.slow
def test_an_interrupt_arrives_and_the_next_call_works(how: str, device: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how, device, "25"], capture_output=True, text=True, timeout=300
    )
    assert (done.stdout.strip(), done.stderr.strip(), done.returncode) == ("done", "", 0)


def test_an_interrupt_waits_for_the_end_of_what_must_be_whole() -> None:
    seen: list[str] = []

    @interrupts.whole
    def whole() -> None:
        signal.raise_signal(signal.SIGINT)
        seen.append("whole")

    def call() -> None:
        whole()
        interrupts.deliver()

    sg.ones(1).tolist()  # which opens a device
    with pytest.raises(KeyboardInterrupt):
        call()
    assert seen == ["whole"]
    assert not interrupts.waiting.is_waiting


def test_an_interrupt_arrives_where_nothing_delivers_it() -> None:
    @interrupts.whole
    def whole() -> None:
        signal.raise_signal(signal.SIGINT)

    def call() -> None:
        whole()
        end = time.monotonic() + 10
        while time.monotonic() < end:
            pass

    sg.ones(1).tolist()
    with pytest.raises(KeyboardInterrupt):
        call()


def test_a_handler_of_the_programs_stays() -> None:
    before = signal.getsignal(signal.SIGINT)
    mine = lambda number, frame: None  # noqa: E731
    try:
        signal.signal(signal.SIGINT, mine)
        interrupts.install()
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
