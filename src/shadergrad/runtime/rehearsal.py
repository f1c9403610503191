"""Compiles kernels ahead of their first run on llvmpipe, which compiles lazily. In: kernels. Out: nothing.

llvmpipe generates the machine code of a kernel at its first dispatch, in the order of the dispatches, on one core. But it first looks
for it in its disk cache, and a dispatch of zero workgroups suffices to fill the cache. So before a program's
first run several threads dispatch its kernels in this way, each on a device of its own, and the program finds all of them compiled.

If the driver has no disk cache, or the cache already has the kernels, this is wasted work. One kernel, dispatched on two
devices and timed, tells which is the case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, wait

from ..errors import DeviceError
from ..plan import Kernel
from .interface import READ_USAGE, Device, NativeError

# For fewer kernels than MANY of more characters than LONG, and for short ones, a second pipeline of each costs more than it saves
MANY, LONG, SHORT = 8, 2_000, 600
BOUND = 1 << 16  # bytes of the bound buffers: the largest uniform binding
NOTICEABLE = 0.02  # seconds of a first dispatch that certainly compiled something
FASTER = 0.5  # share of the first dispatch's time, if another device has compiled the kernel


class Rehearsal:
    """Called by one thread at a time.

    open_device: opens another native device. most: threads that compile at once.
    """

    def __init__(self, open_device: Callable[[], Device], most: int) -> None:
        self._open_device = open_device
        self._most = most
        self._pays: bool | None = None  # whether a device finds what another one compiled; None until that is known

    def run(self, kernels: Iterable[Kernel], threads: Executor) -> None:
        """Let the driver compile kernels, the longest first, and wait for it. Errors here only cost time: the
        device that runs the kernel reports them, too.
        """
        todo = sorted((k for k in kernels if len(k.source) >= SHORT), key=lambda k: -len(k.source))
        long = sum(len(k.source) >= LONG for k in todo)
        if long < MANY or self._pays is False:
            return
        stages: list[_Stage] = []
        try:
            stages.append(self._open())
            trial = todo.pop(long // 2)
            seconds = stages[0].dispatch(trial)
            if seconds < NOTICEABLE:
                return  # the driver has it on disk, and so the others
            stages.extend(self._open() for _ in range(1, self._most))
            if self._pays is None:
                stages[0].dispatch(todo.pop(long // 2))  # while the driver writes the first kernel's code to its cache
                self._pays = stages[1].dispatch(trial) < FASTER * seconds
            if self._pays:
                _share(todo, stages, threads)
        except (NativeError, DeviceError):
            self._pays = False
        finally:
            for stage in stages:
                stage.close()

    def _open(self) -> _Stage:
        return _Stage(self._open_device())


def _share(kernels: list[Kernel], stages: Iterable[_Stage], threads: Executor) -> None:
    """A thread for each stage takes the next kernel, until there is none."""
    todo = iter(kernels)

    def work(stage: _Stage) -> None:
        for kernel in todo:
            stage.dispatch(kernel)

    futures = [threads.submit(work, stage) for stage in stages]
    try:
        for future in futures:
            future.result()
    finally:
        kernels.clear()  # after a Ctrl-C no kernel is started
        wait(futures)


class _Stage:
    """A device, with two buffers that suit every kernel: its inputs, and its outputs. Called by one thread at a time."""

    def __init__(self, native: Device) -> None:
        self._native = native
        self._reads = native.create_buffer(BOUND, READ_USAGE)
        self._writes = native.create_buffer(BOUND)

    def dispatch(self, kernel: Kernel) -> float:
        """Seconds that a kernel's first dispatch took."""
        native = self._native
        layout = native.create_bind_group_layout(kernel.access)
        pipeline = native.create_pipeline(kernel.source, native.create_pipeline_layout(layout))
        buffers = (self._writes if access == "read_write" else self._reads for access in kernel.access)
        group = native.create_bind_group(layout, [(buffer, 0, BOUND) for buffer in buffers])
        start = time.perf_counter()
        native.run((), [(pipeline.raw, group.raw, 0, 0, 0)])
        native.wait_all()
        seconds = time.perf_counter() - start
        del layout, pipeline, group
        native.release_dead()
        return seconds

    def close(self) -> None:
        """Release the device."""
        self._native.release([self._reads, self._writes])
