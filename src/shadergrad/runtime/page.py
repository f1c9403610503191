"""The browser's WebGPU, for Python in a page: Pyodide's calls into JavaScript (page.js). The only module that imports pyodide.

In: sizes, WGSL, prepared commands. Out: JavaScript's objects. A browser answers with promises. Python waits for them if the browser can
suspend it (JavaScript Promise Integration); otherwise only operations that need no wait work: large buffers are not checked, and
errors arrive with a later call. Most errors arrive late anyway, because the device reports them between calls.

The browser has one queue and orders submissions itself. So `wait` does nothing: a mapped buffer
contains all earlier writes. Pyodide: https://pyodide.org/en/stable/usage/api/python-api/ffi.html
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import js  # type: ignore[import-not-found]
import numpy as np
from pyodide.code import run_js  # type: ignore[import-not-found]
from pyodide.ffi import JsException, create_proxy, to_js  # type: ignore[import-not-found]

from ..errors import DeviceError
from ..system.browser import CANNOT_WAIT, can_wait, wait_for
from ..target import Matrices
from .interface import (
    MOST_OPERATIONS,
    MOST_PER_SUBMISSION,
    SOON_PER_SUBMISSION,
    STORAGE_USAGE,
    UNIFORM_USAGE,
    Command,
    Copy,
    Events,
    Found,
    NativeError,
    Stretch,
    Wish,
)
from .targets import PORTABLE_LIMITS, SOFTWARE_NAMES

NAME = "page"
PACKAGE = "pyodide"
LARGE = 1 << 22  # bytes of a buffer from which on Python waits for an out-of-memory error
BINDINGS = {"read": "read-only-storage", "read_write": "storage", "uniform": "uniform"}
PHONE = re.compile("android|iphone|mobile", re.IGNORECASE)
MATRIX_FEATURES = ["shader-f16", "subgroups", "chromium-experimental-subgroup-matrix"]
MAP_MODE = {False: 1, True: 2}  # GPUMapMode, for reading and writing
REQUEST = (
    "  Hint: `await sg.devices.request_async()` asks for the GPU, once, before it is used; then `await loss.item_async()` reads a value "
    "where item() cannot. Or use the cpu device."
)
if not hasattr(js, "shadergradPage"):  # a page whose policy forbids evaluating a text has set it
    run_js(Path(__file__).with_suffix(".js").read_text(encoding="utf-8"))
calls = js.shadergradPage
requested: dict[str, Any] = {}  # by request(): the adapter, and an open device


def enumerate_adapters() -> list[Found]:
    """The adapter that the browser chooses; none if it has no WebGPU."""
    if getattr(getattr(js, "navigator", None), "gpu", None) is None:
        return []
    if "adapter" in requested:
        return requested["adapter"]
    if not can_wait():
        raise DeviceError(f"[webgpu] the page's GPU cannot be asked for: {CANNOT_WAIT}\n{REQUEST}")
    return _found(_awaited(calls.adapter()))


def _found(told: Any) -> list[Found]:
    if told is None:
        return []
    names = " ".join(filter(None, (told.vendor, told.architecture, told.description))).lower()
    name = told.description or told.device or " ".join(filter(None, (told.vendor, told.architecture)))
    limits = {re.sub("[A-Z]", lambda m: "-" + m[0].lower(), k): int(v) for k, v in told.limits.to_py().items()}
    info = {
        "device": name or "the browser's GPU",
        "description": told.architecture or "",
        "vendor": told.vendor or "",
        "vendor_id": 0,
        "device_id": 0,
        "adapter_type": "CPU" if told.fallback or any(word in names for word in SOFTWARE_NAMES) else "unknown",
        "backend_type": "WebGPU",
        "stackgroup_min_size": int(told.subgroupMinSize or 0),
        "stackgroup_max_size": int(told.subgroupMaxSize or 0),
        "is_phone": PHONE.search(getattr(js.navigator, "userAgent", None) or "") is not None,
    }
    features = frozenset(told.features.to_py())
    matrices = tuple(Matrices(int(m), int(n), int(k), *kinds) for m, n, k, *kinds in told.matrices.to_py())
    return [Found(info, limits, features, matrices if features >= {*MATRIX_FEATURES} else ())]


async def request(wish: Wish) -> None:
    """Request the adapter and a device in advance, for Python that cannot wait."""
    if getattr(getattr(js, "navigator", None), "gpu", None) is None:
        return
    found = requested["adapter"] = _found(await calls.adapter())
    if found:
        wish = replace(wish, uses_matrices=bool(found[0].matrices))
        requested["device"] = await calls.open(*_asked(found[0], wish))


def _asked(found: Found, wish: Wish) -> tuple[Any, Any]:
    """The adapter's limits that are relevant for kernels, lowered if requested, and the features that they use."""
    hyphens = {name: re.sub("[A-Z]", lambda m: "-" + m[0].lower(), name) for name in PORTABLE_LIMITS}
    granted = {name: found.limits[key] for name, key in hyphens.items() if key in found.limits}
    limits = {name: min(value, wish.limits.get(name, value)) for name, value in granted.items()}
    return _object(limits), to_js(MATRIX_FEATURES if wish.uses_matrices else [])


def _object(values: dict[str, Any]) -> Any:
    return to_js(values, dict_converter=js.Object.fromEntries)


def _awaited(promise: Any) -> Any:
    """The result of a promise. Raises NativeError if it is rejected, or Python cannot wait."""
    if not can_wait():
        raise NativeError(f"{CANNOT_WAIT}\n{REQUEST}")
    try:
        return wait_for(promise)
    except JsException as error:  # the reason of its rejection
        raise NativeError(str(error)) from None


class Prepared(list[Command]):
    """The commands of a run; `prepared` holds them as JavaScript objects."""

    prepared: Any = None


class Handle:
    """An object of the browser's, which its garbage collector frees; the device counts its bind groups."""

    __slots__ = ("__weakref__", "_graveyard", "raw")

    def __init__(self, raw: Any, graveyard: deque[None] | None = None) -> None:
        self.raw, self._graveyard = raw, graveyard

    def __del__(self) -> None:
        if self._graveyard is not None:
            self._graveyard.append(None)


class PageDevice:
    """A device of the browser's and its queue, as `interface.Device` describes it."""

    has_timestamps = False
    compiles_ahead = True
    adopts_memory = False

    def __init__(self, found: Found, wish: Wish) -> None:
        self.events = events = Events()
        self.raw = requested.pop("device", None) or _awaited(calls.open(*_asked(found, wish)))

        def on_error(message: str, exhausted: bool) -> None:
            events.errors.append((message, exhausted))

        def on_lost(message: str) -> None:
            events.lost = events.lost or message.rstrip(".")

        self._heard = create_proxy(on_error), create_proxy(on_lost)
        self._calls = driver = calls.driver(self.raw, *self._heard)
        self._hold, self._run, self._submit_all, self._copy = driver.hold, driver.run, driver.submit, driver.copy
        self._write, self._group, self._map, self._mapped_bytes = driver.write, driver.group, driver.map, driver.mapped
        self.submits = 0
        self.dispatches = 0
        self.bind_groups = 0
        self.bind_groups_created = 0
        self._max_in_flight = wish.in_flight
        self._held = 0  # runs that wait for others
        self._operations = 0  # of these
        self._needs: list[Any] = []  # the objects that their commands use
        self._runs_per_submission = 1  # how many runs the next submission shall have
        self._unwaited = 0  # runs submitted since a write, a read or a wait
        self._graveyard: deque[None] = deque()
        self._writing: dict[
            int, tuple[Any, np.ndarray]
        ] = {}  # memory that is mapped for writing, by its buffer, and a copy

    # --- objects that are made once

    def create_buffer(self, nbytes: int, usage: int = STORAGE_USAGE) -> Any:
        if nbytes < LARGE or not can_wait():
            return self._calls.buffer(nbytes, usage)
        raw, exhausted, invalid = _awaited(self._calls.checkedBuffer(nbytes, usage))
        if exhausted or invalid:
            raw.destroy()
            raise NativeError(exhausted or invalid, bool(exhausted))
        return raw

    def create_uniform(self, data: np.ndarray) -> Handle:
        raw = self.create_buffer(data.nbytes, UNIFORM_USAGE)
        self.write(raw, data)
        return Handle(raw)

    def destroy_buffer(self, raw: Any) -> None:
        raw.destroy()

    def create_bind_group_layout(self, access: Sequence[str]) -> Handle:
        return Handle(self._calls.layout(to_js([BINDINGS[mode] for mode in access])))

    def create_pipeline_layout(self, bind_group_layout: Handle) -> Handle:
        return Handle(self._calls.pipelineLayout(bind_group_layout.raw))

    def begin_pipeline(self, source: str, layout: Handle) -> None:
        """Start compilation in the browser, while Python continues; `create_pipeline` takes the result."""
        if can_wait():
            self._calls.begin(layout.raw, source)

    def forget_begun(self) -> None:
        self._calls.forgetBegun()

    def create_pipeline(self, source: str, layout: Handle) -> Handle:
        if not can_wait():
            return Handle(self._calls.pipelineNow(layout.raw, source))
        raw, error = _awaited(self._calls.pipeline(layout.raw, source))
        if error is not None:
            raise NativeError(error)
        return Handle(raw)

    def create_bind_group(self, layout: Handle, bindings: Sequence[tuple[Any, int, int]]) -> Handle:
        bound = [(b.raw if isinstance(b, Handle) else b, offset, nbytes) for b, offset, nbytes in bindings]
        self.bind_groups_created += 1
        self.bind_groups += 1
        return Handle(self._group(layout.raw, to_js(bound)), self._graveyard)

    def release_dead(self) -> None:
        while self._graveyard:
            self._graveyard.popleft()
            self.bind_groups -= 1

    # --- calls of every step

    def prepare(self, commands: list[Command]) -> Prepared:
        made = Prepared(commands)
        made.prepared = self._calls.prepare(to_js([tuple(command) for command in commands]))
        return made

    def write(self, buffer: Any, data: np.ndarray) -> None:
        self.submit_held()
        self._write(buffer, 0, data.reshape(-1).view(np.uint8))
        if self.events.errors:
            self.events.check()

    def run(
        self, copies: Iterable[Copy], commands: Sequence[Command], needs: Any = None, operations: int = MOST_OPERATIONS
    ) -> None:
        prepared = commands if isinstance(commands, Prepared) else self.prepare(list(commands))
        if copies:
            self.submit_held()
            self._check()
            self._submitted(self._calls.copiesThenRuns(to_js([(a, 0, b, 0, nbytes) for a, b, nbytes in copies])))
        self._held += 1
        self._operations += operations
        self.dispatches += len(commands)
        if self._held < self._runs_per_submission and self._operations < MOST_OPERATIONS:
            self._needs.append(needs)
            self._hold(prepared.prepared)
            return
        self._unwaited += self._held
        self._runs_per_submission = min(
            max(min(2 * self._runs_per_submission, SOON_PER_SUBMISSION), self._unwaited // 4), MOST_PER_SUBMISSION
        )
        self._check()
        self._submitted(self._run(prepared.prepared))

    def run_timed(self, copies: Iterable[Copy], commands: Sequence[Command]) -> list[tuple[float, float]]:
        """With the host's clock, because browsers round the device's to a tenth of a millisecond."""
        self.submit_held()
        if copies:
            self.run(copies, [])
        return [self._timed(command) for command in commands]

    def _timed(self, command: Command) -> tuple[float, float]:
        prepared = self.prepare([command])
        self.wait_all()
        start = time.perf_counter()
        self.run((), prepared)
        self.wait_all()
        return start, time.perf_counter()

    def submit_held(self) -> None:
        self._runs_per_submission, self._unwaited = 1, 0
        if self._held:
            self._check()
            self._submitted(self._submit_all())

    def copy(self, source: Any, offset: int, destination: Any, nbytes: int, to: int = 0) -> int:
        self._runs_per_submission, self._unwaited = 1, 0
        self._check()
        return self._submitted(self._copy(source, offset, destination, to, nbytes))  # with the held runs

    def copy_all(self, stretches: Sequence[Stretch]) -> int:
        return [self.copy(source, offset, into, nbytes, to) for source, offset, into, to, nbytes in stretches][-1]

    def clear(self, buffers: Iterable[tuple[Any, int]]) -> int:
        self.submit_held()
        return self._submitted(self._calls.clear(to_js([tuple(pair) for pair in buffers])))

    def wait(self, index: int) -> None:
        pass

    def wait_all(self) -> None:
        self.submit_held()
        _awaited(self._calls.done())
        self.events.check()

    async def settled(self) -> None:
        """Waits until the device has finished its submissions and requested mappings."""
        await self._calls.settled()

    # --- the host's view of a buffer

    def new_status(self) -> None:
        return None

    def map(self, buffer: Any, nbytes: int, status: Any, write: bool = False) -> None:
        self._map(buffer, MAP_MODE[write], nbytes)

    def is_mapped(self, status: Any) -> bool:
        return True

    def mapped(self, buffer: Any, nbytes: int, status: Any, write: bool = False) -> np.ndarray:
        there = self._mapped_bytes(buffer, nbytes)
        if hasattr(there, "then"):
            there = _awaited(there)
        out = np.empty(nbytes, np.uint8)
        if write:
            self._writing[id(buffer)] = there, out
        else:
            there.assign_to(out)
        return out

    def unmap(self, buffer: Any) -> None:
        there, copy = self._writing.pop(id(buffer), (None, None))
        if there is not None:
            there.assign(copy)
        buffer.unmap()

    # --- the end

    def probe(self) -> None:
        self.wait_all()
        if self.events.lost is not None:
            raise NativeError(f"the device is lost: {self.events.lost}")

    def destroy(self) -> None:
        self.wait_all()
        self.events.lost = "it was destroyed by the program"
        self._calls.destroy()

    def release(self, buffers: Iterable[Any]) -> None:
        for raw in buffers:
            raw.destroy()
        self._calls.destroy()

    @property
    def in_flight(self) -> int:
        return self._calls.inFlight()

    @property
    def has_room(self) -> bool:
        return True

    # --- within

    def _check(self) -> None:
        """Nothing is submitted after an error, or to a lost device."""
        if self.events.errors or self.events.lost is not None:
            self._forget_held()
            self.events.check()
            raise NativeError(f"the device was lost: {self.events.lost}")

    def _forget_held(self) -> None:
        self._calls.forget()
        self._held = self._operations = 0
        self._needs.clear()

    def _submitted(self, in_flight: int) -> int:
        """Bound the work in flight, if Python can wait; the index of the submission."""
        if self._held:
            self._held = self._operations = 0
            self._needs.clear()
        self.submits += 1
        if in_flight > self._max_in_flight and can_wait():
            _awaited(self._calls.ease(self._max_in_flight // 2))
        if self.events.errors:
            self.events.check()
        return self.submits


open_device = PageDevice
