"""Compiles a device's kernels with several threads. In: kernels. Out: the driver's pipelines. Raises CompileError.

`pipelines.py` knows which kernels are compiled already; this module compiles each kernel that it is given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from functools import cache
from typing import Any

from ..errors import CompileError
from ..plan import Kernel
from ..system.browser import thread_pool
from .interface import Device, NativeError
from .rehearsal import Rehearsal

MOST_COMPILERS = min(16, os.cpu_count() or 1)  # threads


class Compiler:
    """All calls are made under the device's lock.

    is_loss: whether an error means that the device is lost. rehearsal: for drivers that compile at the first dispatch, or None.
    """

    def __init__(self, native: Device, is_loss: Callable[[Exception], bool], rehearsal: Rehearsal | None) -> None:
        self._native = native
        self._is_loss = is_loss
        self.rehearsal = rehearsal
        self._layouts: dict[tuple[str, ...], tuple[Any, Any]] = {}
        self._begun: dict[tuple[str, tuple[str, ...]], Future[Any]] = {}  # by source and bindings

    def compile_all(self, kernels: list[Kernel]) -> list[Any]:
        """Pipelines of kernels, the longest first. A driver's message does not name the kernel; after an error they are
        compiled one after another, so that the error names the right one."""
        try:
            for kernel in sorted(kernels, key=lambda k: -len(k.source)):
                self.begin(kernel)
            made = [self._made(kernel) for kernel in kernels]
            self._native.events.check()
            if self.rehearsal is not None:
                self.rehearsal.run(kernels, compilers())
            return made
        except (NativeError, CompileError):
            self.forget_begun()
            self._native.events.errors.clear()
            if self._native.events.lost is not None:
                raise
        return [self._compile(kernel) for kernel in kernels]

    def begin(self, kernel: Kernel) -> None:
        """Start compiling a kernel on another thread, unless that has been done."""
        key = kernel.source, kernel.access
        if key in self._begun:
            return
        _, layout = self.layouts(kernel.access)
        if self._native.compiles_ahead:
            self._native.begin_pipeline(kernel.source, layout)
            return
        self._begun[key] = compilers().submit(self._compile, kernel)

    def forget_begun(self) -> None:
        """Drop compilations that are no longer needed. Each thread has removed its errors from `events` when it ends."""
        self.wait_begun()
        self._begun.clear()
        if self._native.compiles_ahead:
            self._native.forget_begun()

    def wait_begun(self) -> None:
        """Wait for the threads."""
        wait(self._begun.values())

    @property
    def under_way(self) -> int:
        """The number of compilations that were started and neither used nor dropped."""
        return len(self._begun)

    def layouts(self, access: tuple[str, ...]) -> tuple[Any, Any]:
        """The layouts of a bind group and of its pipelines, from the kernels' access to each buffer."""
        layouts = self._layouts.get(access)
        if layouts is None:
            group = self._native.create_bind_group_layout(access)
            layouts = self._layouts[access] = (group, self._native.create_pipeline_layout(group))
        return layouts

    def _made(self, kernel: Kernel) -> Any:
        """The pipeline whose compilation was started."""
        begun = self._begun.pop((kernel.source, kernel.access), None)
        return self._compile(kernel) if begun is None else begun.result()

    def _compile(self, kernel: Kernel) -> Any:
        _, layout = self.layouts(kernel.access)
        try:
            return self._native.create_pipeline(kernel.source, layout)
        except NativeError as error:
            if self._is_loss(error):
                raise
            raise CompileError(explain_compile_error(kernel, str(error))) from error


@cache
def compilers() -> Executor:
    """The threads that compile kernels."""
    return thread_pool(MOST_COMPILERS, "compile")


def explain_compile_error(kernel: Kernel, message: str) -> str:
    """Name the kernel, quote its line, and add the shader compiler's message."""
    text = f"[webgpu] kernel {kernel.name!r} does not compile"
    if kernel.origin:
        text += f" (it computes {kernel.origin})"
    # naga writes "┌─ wgsl:6:5" when parsing, "┌─ :6:5" when validating, Tint ":6:5 error:"
    match = re.search(r"┌─ (?:wgsl)?:(\d+):\d+", message) or re.search(r":(\d+):\d+ error:", message)
    if match:
        lines = kernel.source.splitlines()
        number = int(match[1])
        if number <= len(lines):
            text += f", line {number}:\n    {lines[number - 1].strip()}"
    said = re.sub(r"^Validation Error\s+Caused by:\s+In \w+\s*", "", message).replace("Shader '' ", "")
    said = re.sub(r"\n\s*- While .*|\n    at .*", "", said).strip()  # where in Dawn's own calls
    return f"{text}\n{said}"
