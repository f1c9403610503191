"""`shadergrad tune`: measures the fastest tiles of matrix multiplication on this adapter and saves them for the compiler."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ..compile.choices import Cut, Shape
from ..compile.tiles import candidates, register
from ..compile.tuning import NOWHERE, TuningError, load, path_for, save

# sizes from networks, and squares; "a", "b": the operand that is transposed in memory
USUAL = (
    "1024x1024x1024",
    "2048x2048x2048",
    "4096x4096x4096",
    "2048x3072x768:b",
    "2048x768x3072",
    "768x3072x2048:a",
    "2048x768x768:b",
    "768x768x2048:a",
    "2048x2304x768:b",
    "2304x768x2048:a",
    "512x512x512",
    "256x512x784:b",
    "512x784x256:a",
    "256x512x512:b",
    "512x512x256:a",
    "4096x512x128:b",
    "4096x128x512:b",
    "4096x128x128:b",
    "128x9216x128",
    "128x128x9216:b",
    "256x1024x256:b",
    "1024x256x64:a",
    "96x128x128x32:b",
    "16384x16x1024",
    "16x1024x16384:a",
)
LARGEST_ERROR = 1e-5  # of a result, relative to the largest, times the root of the terms
ROWS_CHECKED = 64
ROUNDS = 5
FINALISTS = 6
CLEARLY = 1.02  # times as fast
MOST_TIMES = 200  # that the dispatches are in one submission


def tune(
    shapes: Annotated[
        list[str] | None,
        typer.Argument(
            help="Shapes m x n x k or batch x m x n x k, as 256x512x784; the suffix :a, :b or :ab transposes operands.",
            show_default="what usual networks need",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="webgpu or webgpu:N.")] = "webgpu",
    tries: Annotated[int, typer.Option(help="Candidates per shape, at most.")] = 40,
    milliseconds: Annotated[float, typer.Option(help="Run time of a candidate in each round.")] = 6,
    keep: Annotated[bool, typer.Option(help="Save the table, or only print it.")] = True,
) -> None:
    """Measure the best tiles and splits of matrix multiplication on this adapter. Programs compiled from now on use them."""
    from ..runtime.webgpu import WebGPUDevice  # here, as help needs no adapter

    console = Console(highlight=False)
    problems = [parse(text) for text in shapes or USUAL]
    if tries < 1 or milliseconds <= 0:
        raise TuningError(f"[tune] --tries {tries} and --milliseconds {milliseconds:g} must be above 0.")
    if not re.fullmatch(r"webgpu(:\d+)?", device):
        raise TuningError(f"[tune] --device is {device!r}; products are tuned on webgpu or webgpu:N.")
    from ..runtime.device import get_device  # as above

    opened: Any = get_device(device)
    assert isinstance(opened, WebGPUDevice)
    if not opened.target.traits.unrolls:
        raise TuningError("[tune] SHADERGRAD_PROFILE=portable compiles for any browser: unset it to tune this adapter.")
    adapter = opened.adapter
    if keep and path_for(adapter.name, adapter.driver) is None:
        raise TuningError(NOWHERE)
    console.print(f"{adapter.describe()}, driver {adapter.driver}")
    rows = Table("shape", "tile", "parts", "microseconds", "GFLOP/s", "of the estimate's speed")
    found: dict[Shape, Cut] = {}
    known, path = found, None
    with Progress(console=console, transient=True) as progress:
        for problem in progress.track(problems, description="products"):
            tuner = Tuner(opened, device, *problem, milliseconds / 1e3)
            cuts = candidates(tuner.shape, opened.target)[:tries]
            task = progress.add_task(f"{tuner.shape}", total=2 * len(cuts))
            best, seconds, own = tuner.best(cuts, lambda task=task: progress.advance(task))
            progress.remove_task(task)
            found[tuner.shape] = best
            if keep:  # measurements before an interrupt are saved
                known = {**load(path_for(adapter.name, adapter.driver), adapter.name, adapter.driver), **found}
                path = save(known, adapter.name, adapter.driver)
            rows.add_row(
                str(tuner.shape), str(best.tile), str(best.parts), *tuner.rates(seconds), f"{own / seconds:.2f}"
            )
    console.print(rows)
    if keep:
        console.print(f"{len(known)} products in {path}", soft_wrap=True)


def parse(text: str) -> tuple[Shape, str]:
    """The shape and the transposed operands of "256x512x784:b". Raises TuningError for another text."""
    match = re.fullmatch(r"((?:[1-9]\d*x)?[1-9]\d*x[1-9]\d*x[1-9]\d*)(?::(a|b|ab))?", text)
    if match is None:
        raise TuningError(
            f"[tune] {text!r} is no product: write m x n x k, as 256x512x784, or with a batch 8x256x512x784; :a, :b or :ab "
            "behind it for transposed operands."
        )
    *batch, m, n, k = (int(size) for size in match[1].split("x"))
    return Shape(batch[0] if batch else 1, m, n, k), match[2] or ""


class Tuner:
    """One matrix multiplication: its operands on the device, and the expected values of some rows."""

    def __init__(self, device: Any, name: str, shape: Shape, transposed: str, budget: float) -> None:
        import shadergrad as sg  # here, as help needs nothing of it

        self.device, self.shape, self.budget = device, shape, budget
        batch, m, n, k = shape
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal(s, dtype=np.float32) for s in ((batch, m, k), (batch, k, n)))
        self.rows = np.unique(np.linspace(0, m - 1, ROWS_CHECKED).astype(int))
        self.expected = a[:, self.rows].astype(np.float64) @ b
        laid = [np.ascontiguousarray(x.swapaxes(1, 2)) if t in transposed else x for x, t in ((a, "a"), (b, "b"))]
        self.operands = [sg.tensor(x if batch > 1 else x[0], device=name) for x in laid]
        self.transposed = transposed
        self.steps: list[Any] = []

    def multiply(self, a: Any, b: Any) -> Any:
        """The matrix multiplication of the operands in their memory layout."""
        return (a.mT if "a" in self.transposed else a) @ (b.mT if "b" in self.transposed else b)

    def best(self, cuts: Sequence[Cut], advance: Any) -> tuple[Cut, float, float]:
        """The fastest candidate with a correct result, its seconds, and those of the first. All are compiled before any is measured, and
        the device works for a while before: its clock falls while it waits. The best of one round are measured in turns; the
        first gives way only to one that is clearly faster."""
        commands = {}
        for cut in cuts:
            commands[cut] = self._compiled(cut)
            advance()
        own = cuts[0]
        started = time.perf_counter()
        while time.perf_counter() - started < 30 * self.budget:
            self._seconds(commands[own])
        times: dict[Cut, float] = {}
        for cut in cuts:
            times[cut] = self._seconds(commands[cut])
            advance()
        finalists = list(dict.fromkeys([own, *sorted(cuts, key=lambda c: times[c])[:FINALISTS]]))
        rounds: dict[Cut, list[float]] = {cut: [] for cut in finalists}
        for turn in range(ROUNDS):
            for cut in finalists[:: -1 if turn % 2 else 1]:
                rounds[cut].append(self._seconds(commands[cut]))
        medians = {cut: statistics.median(found) for cut, found in rounds.items()}
        fastest = min(medians, key=lambda c: medians[c] * (1 if c == own else CLEARLY))
        return fastest, medians[fastest], medians[own]

    def _compiled(self, cut: Cut) -> list[Any]:
        """The dispatches of the multiplication with this tile and split. Raises TuningError if the result is wrong."""
        import shadergrad as sg  # as above

        target = self.device.target
        self.device.target = replace(target, measured=register({self.shape: cut}))
        try:
            step = sg.compile(self.multiply)
            result = step(*self.operands).numpy().reshape(self.shape.batch, self.shape.m, self.shape.n)
            step(*self.operands)
        finally:
            self.device.target = target
        error = np.abs(result[:, self.rows] - self.expected).max() / np.abs(self.expected).max()
        if not error <= LARGEST_ERROR * max(1, self.shape.k / 1024) ** 0.5:
            raise TuningError(
                f"[tune] the product {self.shape} with tiles {cut.tile} is wrong on this adapter: {error:.1e} of its largest "
                "element. Please report it with the driver's version; nothing was written."
            )
        self.steps.append(step)  # whose commands are used
        pipeline = group = None
        commands = []
        program: Any = step._ran_last("time")[1].program
        for p, g, *grid in program._latest.commands:
            pipeline, group = p or pipeline, g or group
            commands.append((pipeline, group, *grid))
        return commands

    def _seconds(self, commands: list[Any]) -> float:
        """Seconds of one run of the dispatches: as many runs as the budget allows, then one wait."""

        def once(times: int) -> float:
            start = time.perf_counter()
            self.device.native.run((), commands * times)
            self.device.native.wait_all()
            return (time.perf_counter() - start) / times

        with self.device.lock:
            self.device.synchronize()
            once(1)
            return once(max(1, min(MOST_TIMES, int(self.budget / max(once(1), 1e-6)))))

    def rates(self, seconds: float) -> tuple[str, str]:
        """Microseconds and GFLOP/s, as text."""
        batch, m, n, k = self.shape
        return f"{seconds * 1e6:,.1f}", f"{2e-9 * batch * m * n * k / seconds:,.0f}"
