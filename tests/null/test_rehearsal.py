"""Kernels compiled before their first run: which ones, by whom, and when it is left. On a driver of our own making."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock
from types import SimpleNamespace
from typing import Any

import pytest

from shadergrad.errors import DeviceError
from shadergrad.plan import Kernel
from shadergrad.runtime import rehearsal
from shadergrad.runtime.interface import READ_USAGE, NativeError
from shadergrad.runtime.rehearsal import LONG, MANY, Rehearsal


class Driver:
    """Compiles for `seconds`, of a clock of its own; keeps what it compiled for all devices where it `shares`."""

    def __init__(self, seconds: float = 1.0, shares: bool = True, opens: bool = True) -> None:
        self.seconds, self.shares, self.opens = seconds, shares, opens
        self.kept: set[str] = set()
        self.now = 0.0
        self.dispatched: list[tuple[int, str]] = []  # by which device, which kernel
        self.devices: list[Device] = []
        self.failing = ""  # the kernel that is refused
        self.together: Barrier | None = None  # which threads that compile at once meet at
        self.lock = Lock()

    def open(self) -> Device:
        if not self.opens:
            raise DeviceError("no more")
        self.devices.append(Device(self, len(self.devices)))
        return self.devices[-1]

    def compiled(self) -> list[str]:
        return [source for _, source in self.dispatched]


class Device:
    def __init__(self, driver: Driver, number: int) -> None:
        self.driver, self.number = driver, number
        self.closed = False
        self.own: set[str] = set()

    def create_buffer(self, nbytes: int, usage: int = 0) -> str:
        return "read" if usage == READ_USAGE else "write"

    def create_bind_group_layout(self, access: tuple[str, ...]) -> tuple[str, ...]:
        return access

    def create_pipeline_layout(self, layout: Any) -> Any:
        return layout

    def create_pipeline(self, source: str, layout: Any) -> Any:
        if source == self.driver.failing:
            raise NativeError("refused")
        return SimpleNamespace(raw=source)

    def create_bind_group(self, layout: tuple[str, ...], bindings: list[tuple[str, int, int]]) -> Any:
        assert [b[0] for b in bindings] == ["write" if a == "read_write" else "read" for a in layout]
        return SimpleNamespace(raw=bindings)

    def run(self, copies: Any, commands: list[Any]) -> None:
        assert not self.closed
        ((source, _, *workgroups),) = commands
        assert workgroups == [0, 0, 0]
        with self.driver.lock:
            if source not in (self.driver.kept if self.driver.shares else self.own):
                self.driver.now += self.driver.seconds
            self.driver.kept.add(source)
            self.own.add(source)
            self.driver.dispatched.append((self.number, source))
        if self.driver.together is not None and len(self.driver.dispatched) > 3:
            self.driver.together.wait(10)

    def wait_all(self) -> None:
        pass

    def release_dead(self) -> None:
        pass

    def release(self, buffers: list[Any]) -> None:
        self.closed = True


KERNELS = [
    Kernel("k", "map", ("read", "uniform", "read_write"), "x" * (LONG + i)) for i in range(12)
]  # even, without the two of the trial: threads meet in pairs
SOURCES = [kernel.source for kernel in KERNELS]


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def rehearsal_on(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    monkeypatch.setattr(rehearsal, "time", SimpleNamespace(perf_counter=lambda: driver.now))
    return Rehearsal(driver.open, 2)  # type: ignore[arg-type]


def test_every_long_kernel_is_compiled_once_by_two_devices(threads: Any, monkeypatch: Any) -> None:
    driver = Driver()
    driver.together = Barrier(2)  # nobody goes on alone
    short = Kernel("short", "map", ("read_write",), "short")
    rehearsal_on(driver, monkeypatch).run([short, *KERNELS], threads)
    compiled = driver.compiled()
    assert sorted(set(compiled), key=len) == SOURCES
    assert len(compiled) == len(SOURCES) + 1  # one was dispatched by both, to see whether they share
    assert driver.now == len(SOURCES)
    late = [source for _, source in driver.dispatched[3:]]
    assert {len(source) for source in late[:2]} == {LONG + 11, LONG + 10}  # the longest first
    assert {number for number, _ in driver.dispatched[3:]} == {0, 1}
    assert all(device.closed for device in driver.devices)


def test_the_second_program_needs_no_trial_of_sharing(threads: Any, monkeypatch: Any) -> None:
    driver = Driver()
    it = rehearsal_on(driver, monkeypatch)
    it.run(KERNELS[:MANY], threads)
    driver.dispatched.clear()
    others = [Kernel("k", "map", ("read_write",), "y" * (LONG + i)) for i in range(MANY)]
    it.run(others, threads)
    assert sorted(driver.compiled(), key=len) == [kernel.source for kernel in others]


def test_few_kernels_are_left_to_their_first_run(threads: Any, monkeypatch: Any) -> None:
    driver = Driver()
    short = [Kernel("short", "map", ("read_write",), "z" * (LONG - 1 - i)) for i in range(20)]
    rehearsal_on(driver, monkeypatch).run(KERNELS[: MANY - 1] + short, threads)
    assert not driver.devices


def test_what_lies_on_disk_already_is_not_compiled_again(threads: Any, monkeypatch: Any) -> None:
    driver = Driver()
    driver.kept.update(SOURCES)
    it = rehearsal_on(driver, monkeypatch)
    it.run(KERNELS, threads)
    assert len(driver.dispatched) == 1
    driver.kept.clear()
    it.run(KERNELS, threads)  # it told nothing of whether devices share
    assert set(driver.compiled()) == set(SOURCES)


def test_it_is_left_where_devices_do_not_share(threads: Any, monkeypatch: Any) -> None:
    driver = Driver(shares=False)
    it = rehearsal_on(driver, monkeypatch)
    it.run(KERNELS, threads)
    assert len(driver.dispatched) == 3
    it.run(KERNELS, threads)
    assert len(driver.dispatched) == 3
    assert all(device.closed for device in driver.devices)


@pytest.mark.parametrize("failing", SOURCES)
def test_a_kernel_that_is_refused_ends_it_without_an_error(failing: str, threads: Any, monkeypatch: Any) -> None:
    driver = Driver()
    driver.failing = failing
    it = rehearsal_on(driver, monkeypatch)
    it.run(KERNELS, threads)
    count = len(driver.dispatched)
    it.run(KERNELS, threads)
    assert len(driver.dispatched) == count
    assert all(device.closed for device in driver.devices)


def test_no_more_devices_is_no_error(threads: Any, monkeypatch: Any) -> None:
    driver = Driver(opens=False)
    rehearsal_on(driver, monkeypatch).run(KERNELS, threads)
    assert not driver.dispatched
