"""sg.profile: which kernels ran, how long each took, and what share of the device's limits it reached."""

from __future__ import annotations

import atexit
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from .arguments import checked
from .config import ConfigError, config
from .drive.tracing import current
from .errors import ArgumentError, CompileError
from .explanation import NOWHERE, Explanation, Origin, in_column, merged
from .graph.node import mode, origins_of
from .graph.origin import Origins
from .plan import compact
from .runtime import timing
from .runtime.limits import DeviceLimits, measure_limits
from .runtime.timing import Span, Timed
from .tensor.pending import flush, sync

__all__ = ["KernelTime", "ModuleTime", "Origin", "profile"]

HEAD = ("kernel", "type", "from", "shape", "calls", "ms", "of all", "us each", "GB/s", "GFLOP/s", "of limit")
MODULE_HEAD = ("module", "calls", "forward ms", "backward ms", "update ms", "of all")
ROWS = {
    "compute": "stages",
    "read": "read from the device",
    "exchange": "exchanges",
    "wait": "waiting for exchanges",
    "write": "written back",
}
ORDERS = ("seconds", "calls", "mean", "name")


@dataclass(frozen=True)
class KernelTime:
    """One kernel of a profile. seconds: of all calls together. nbytes, flops: of one call, as the plan counts them, each
    byte once. share: of the device's measured limit, memory's or arithmetic's, whichever it comes closer to; None where
    the limits were not measured, or nothing is counted. origin: where all that it computed was recorded; layers that share a
    kernel are told as one, `layers.*.norm`.

    >>> sg.profiling.KernelTime("add", "map", "16", "cpu", 2, 0.5, 1000, 10, None).mean
    0.25
    """

    name: str
    archetype: str
    shape: str
    device: str
    calls: int
    seconds: float
    nbytes: int
    flops: int
    share: float | None
    origin: Origin = NOWHERE

    @property
    def mean(self) -> float:
        """Seconds of a call."""
        return self.seconds / self.calls


@dataclass(frozen=True)
class ModuleTime:
    """Seconds that the kernels of one module took, without those of modules within it. name: the module's, as in named_modules;
    of an update the optimizer's; where no module was at work the line. calls: of kernels.

    >>> sg.profiling.ModuleTime("layers.0.norm", 3, 0.25, 0.5).seconds
    0.75
    """

    name: str
    calls: int
    forward: float = 0.0
    backward: float = 0.0
    update: float = 0.0

    @property
    def seconds(self) -> float:
        """On all ways together."""
        return self.forward + self.backward + self.update


class ModuleTimes(tuple[ModuleTime, ...]):
    """The times of modules, which print as a table and are shown as one in notebooks."""

    __slots__ = ()

    def table(self) -> Explanation:
        """A module a row: calls, milliseconds forward, backward and in an optimizer, and the share of the whole."""
        total = max(sum(row.seconds for row in self), 1e-12)
        rows = [
            (
                row.name or "(not known)",
                f"{row.calls:,}",
                *(f"{seconds * 1e3:,.3f}" if seconds else "" for seconds in (row.forward, row.backward, row.update)),
                f"{row.seconds / total:.1%}",
            )
            for row in self
        ]
        return Explanation(MODULE_HEAD, rows, 1, f"{total * 1e3:,.3f} ms in {len(rows):,} places")

    def __str__(self) -> str:
        return str(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class profile:
    """Measure the kernels that run inside a `with` block, on every device.

    Work recorded before the block is not counted, and what the block records is computed before it ends. Kernels run one by
    one meanwhile, each timed by the device's own clock (timestamp queries; where an adapter has none, by the host's, which
    waits for each). So the sum of the times is that of the device; the host's own time, between kernels, is not in it.

    Each kernel is told with the module or line that it is from: in a compiled step, and where the operation was recorded within the
    block. Recording that takes the host some microseconds an operation.

    limits: measure once what the device can do, and tell shares of it. clock: "device" or "host", once something ran.

    Raises CompileError inside a compiled step.

    >>> with sg.profile(limits=False) as measured:
    ...     y = (sg.ones(4, 4) @ sg.ones(4, 4)).relu()
    >>> [kernel.calls for kernel in measured.kernels() if "relu" in kernel.name.lower()]
    [1]
    """

    @checked
    def __init__(self, *, limits: bool = True) -> None:
        self._limits = limits
        self._measured: dict[str, DeviceLimits] = {}
        self._sums: dict[tuple[str, str, str], KernelTime] = {}
        self._origins: dict[tuple[str, str, str], set[Origin]] = {}  # of the same
        self._modules: dict[str, ModuleTime] = {}
        self._heard: list[Timed] | None = []  # in order; None: only sums are kept
        self._spans: list[Span] = []  # exchanges with other processes, and the work at the same time
        self._clocks: set[str] = set()
        self._runs: set[int] = set()
        self._listening = ExitStack()

    def __enter__(self) -> profile:
        if current.trace is not None:
            raise CompileError("profile() cannot be part of a compiled step. Hint: put the step's call inside it.")
        flush(views=True)
        sync()
        self._listening.enter_context(timing.listening(self._hear))
        self._listening.enter_context(timing.listening_to_spans(self._spans.append))
        if mode.origins is None:
            self._listening.enter_context(origins_of(Origins()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                flush(views=True)  # also nodes that are still pending
        finally:
            self._listening.close()
        if self._limits and error is None:
            self._measured = {name: measure_limits(name) for name in sorted({device for _, _, device in self._sums})}

    def _hear(self, t: Timed) -> None:
        kernel = t.kernel
        key = (kernel.name, kernel.shape, t.device)
        row = self._sums.get(key)
        if row is None:
            row = KernelTime(
                kernel.name, kernel.archetype, kernel.shape, t.device, 0, 0.0, kernel.nbytes, kernel.flops, None
            )
        self._sums[key] = replace(row, calls=row.calls + 1, seconds=row.seconds + t.seconds)
        self._origins.setdefault(key, set()).add(t.origin)
        name, phase = t.origin.name, t.origin.phase
        module = self._modules.get(name) or ModuleTime(name, 0)
        times = {phase: getattr(module, phase) + t.seconds}
        self._modules[name] = replace(module, calls=module.calls + 1, **times)
        self._clocks.add(t.clock)
        self._runs.add(t.run)
        if self._heard is not None:
            self._heard.append(t)

    @property
    def clock(self) -> str:
        """Whose times these are: "device", "host", or both, separated by a comma."""
        return ", ".join(sorted(self._clocks))

    @property
    def seconds(self) -> float:
        """Of all kernels together."""
        return sum(row.seconds for row in self._sums.values())

    @property
    def hidden(self) -> float | None:
        """Which part of the time of exchanges with other processes passed while something was computed or copied, from 0 to 1: the rest was
        waited for. None where nothing was exchanged. Kernels run one by one within the block, so that more is hidden than without."""
        return timing.hidden_share(self._spans)

    @checked
    def kernels(self, sort_by: str = "seconds") -> list[KernelTime]:
        """Kernels with the same name, shape and device together. sort_by: "seconds" or "calls" or "mean", the highest first,
        or "name". Raises ArgumentError for another.

        >>> with sg.profile(limits=False) as measured:
        ...     sg.sync()
        >>> measured.kernels()
        []
        """
        if sort_by not in ORDERS:
            raise ArgumentError(f"[profile] sort_by={sort_by!r}. Hint: one of {', '.join(ORDERS)}.")
        rows = [
            replace(row, share=self._share(row), origin=merged(sorted(self._origins[key])))
            for key, row in self._sums.items()
        ]
        if sort_by == "name":
            return sorted(rows, key=lambda row: row.name)
        return sorted(rows, key=lambda row: getattr(row, sort_by), reverse=True)

    def by_module(self) -> ModuleTimes:
        """The times of modules, the longest first, forward and backward apart: a sequence that prints as a table. A kernel that
        computes for several modules counts for the one around them.

        Compiled steps are covered completely; uncompiled operations only if they were recorded within the block.

        >>> model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        >>> with sg.profile(limits=False) as measured:
        ...     y = model(sg.ones(2, 4)).numpy()
        >>> sorted(time.name for time in measured.by_module() if time.name.isdigit())
        ['0', '1']
        """
        return ModuleTimes(sorted(self._modules.values(), key=lambda row: -row.seconds))

    def _share(self, row: KernelTime) -> float | None:
        limits = self._measured.get(row.device)
        if limits is None or row.seconds <= 0 or not (row.nbytes or row.flops):
            return None
        return max(row.nbytes / limits.bytes_per_second, row.flops / limits.flops_per_second) / row.mean

    @checked
    def table(self, sort_by: str = "seconds", row_limit: int = 100) -> str:
        """The kernels as text, row_limit of them, below each other: the module or line that they are from, calls, milliseconds
        together, share of the whole, microseconds each, GB/s, GFLOP/s, and the share of the device's limit. Raises ArgumentError
        for another order.

        >>> with sg.profile(limits=False) as measured:
        ...     sg.sync()
        >>> print(measured.table())
        nothing ran
        """
        rows = self.kernels(sort_by)
        if not rows:
            return "nothing ran"
        total = sum(row.seconds for row in rows)
        several = len({row.device for row in rows}) > 1
        lines: list[tuple[str, ...]] = []
        for row in rows[:row_limit]:
            mean = max(row.mean, 1e-12)
            lines.append(
                (
                    f"{row.device}: {row.name}" if several else row.name,
                    row.archetype,
                    in_column(row.origin),
                    compact(row.shape),
                    f"{row.calls:,}",
                    f"{row.seconds * 1e3:,.3f}",
                    f"{row.seconds / max(total, 1e-12):.1%}",
                    f"{row.mean * 1e6:,.1f}",
                    f"{row.nbytes / mean / 1e9:,.1f}" if row.nbytes else "",
                    f"{row.flops / mean / 1e9:,.1f}" if row.flops else "",
                    "" if row.share is None else f"{row.share:.0%}",
                )
            )
        below = [f"... and {len(rows) - row_limit} more"] if len(rows) > row_limit else []
        below.append(
            f"{sum(row.calls for row in rows):,} kernels in {len(self._runs):,} runs, {total * 1e3:,.3f} ms by the {self.clock}'s clock"
        )
        if self.hidden is not None:
            parts = {kind: [s for s in self._spans if s.kind == kind] for kind in ("exchange", "read", "write")}
            sums = {kind: f"{sum(s.seconds for s in spans) * 1e3:,.3f} ms" for kind, spans in parts.items()}
            nbytes = sum(s.nbytes for s in parts["exchange"])
            below.append(
                f"{len(parts['exchange']):,} exchanges of {nbytes / 1e6:,.3f} MB together, {sums['exchange']}, {self.hidden:.0%} hidden; "
                f"read from the device {sums['read']}, written back {sums['write']}"
            )
        below += [f"limits of {limits}" for limits in self._measured.values()]
        return Explanation(HEAD, lines, 4, "\n".join(below))

    def _repr_html_(self) -> str:
        table = self.table()
        return table._repr_html_() if isinstance(table, Explanation) else table

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | Path) -> Path:
        """Write what ran as a trace that ui.perfetto.dev and chrome://tracing open; gives the file. Of a step that exchanges values with other
        processes it has, on the same time line, stages, copies, exchanges and waiting.

        >>> import tempfile
        >>> with sg.profile(limits=False) as measured:
        ...     y = sg.ones(2) + 1
        >>> measured.export_chrome_trace(Path(tempfile.mkdtemp()) / "trace.json").name
        'trace.json'
        """
        path = Path(path)
        path.write_text(json.dumps({"traceEvents": list(self._events()), "displayTimeUnit": "ns"}), encoding="utf-8")
        return path

    def _events(self) -> Iterator[dict[str, object]]:
        """In the format of https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU."""
        heard = self._heard or []
        devices = {t.device for t in heard}
        # from each device's clock to the host's: a kernel is heard of when it has run, at the earliest
        offsets = {
            device: min(
                0.0 if t.clock == "host" else t.heard - t.seconds - t.start for t in heard if t.device == device
            )
            for device in devices
        }
        starts = [t.start + offsets[t.device] for t in heard] + [span.start for span in self._spans]
        first = min(starts, default=0.0)
        for number, device in enumerate(sorted(devices)):
            yield {"name": "process_name", "ph": "M", "pid": number, "args": {"name": device}}
            for t in heard:
                if t.device != device:
                    continue
                kernel = t.kernel
                yield {
                    "name": kernel.name,
                    "cat": kernel.archetype,
                    "ph": "X",
                    "pid": number,
                    "tid": 0,
                    "ts": (t.start + offsets[device] - first) * 1e6,
                    "dur": t.seconds * 1e6,
                    "args": {
                        "shape": kernel.shape,
                        "bytes": kernel.nbytes,
                        "flops": kernel.flops,
                        "workgroups": t.workgroups,
                        "computes": kernel.origin,
                        "module": t.origin.module,
                        "line": t.origin.line,
                        "phase": t.origin.phase,
                        "run": t.run,
                    },
                }

        yield from self._host_events(len(devices), first)

    def _host_events(self, number: int, first: float) -> Iterator[dict[str, object]]:
        """Of exchanges with other processes and what is beside them, a row a kind."""
        if not self._spans:
            return
        yield {"name": "process_name", "ph": "M", "pid": number, "args": {"name": "exchange with other processes"}}
        for row, (kind, name) in enumerate(ROWS.items()):
            yield {"name": "thread_name", "ph": "M", "pid": number, "tid": row, "args": {"name": name}}
            for span in self._spans:
                if span.kind != kind:
                    continue
                yield {
                    "name": span.name,
                    "cat": kind,
                    "ph": "X",
                    "pid": number,
                    "tid": row,
                    "ts": (span.start - first) * 1e6,
                    "dur": span.seconds * 1e6,
                    "args": {"bytes": span.nbytes, "device": span.device},
                }


def watch_process() -> None:
    """What SHADERGRAD_DEBUG=times asks for: everything that this process runs, as a table on stderr when it ends."""
    whole = profile(limits=False)
    whole._heard = None
    timing.listeners.append(whole._hear)

    def tell() -> None:
        print(whole.table(), file=sys.stderr)

    atexit.register(tell)


with suppress(ConfigError):  # other invalid settings raise at the first use
    if "times" in config.debug:
        watch_process()
