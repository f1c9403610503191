"""The interface of devices, and the table of available ones. In: plans and host arrays. Out: storages and host arrays.

A device allocates storages, moves host arrays in and out, and loads a plan into a program. A program run on input
storages gives output storages; an output that aliases an input is that input's storage, updated in place.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from .. import config
from ..dtypes import DType
from ..errors import DeviceError
from ..graph.capture import Capture
from ..graph.node import Node
from ..graph.origin import users_place
from ..plan import Kernel, Plan
from ..system import interrupts
from ..target import Target

LARGE = 1 << 20  # bytes from which a storage records the line that made it


class Storage:
    """Owned device memory. `handle` is the device's own: a NumPy array, or a GPU buffer. Freed when unreachable.

    uploaded: the bytes from which it was made, if the device keeps them to survive its own loss; None once a program
    has overwritten it. spare: the array that a program of the cpu device replaced last; it is written next if nobody refers to it.
    writes: how often a compiled step assigned another value, so that copies can detect that they are outdated.
    """

    __slots__ = ("__weakref__", "_place", "device", "handle", "nbytes", "spare", "uploaded", "writes")

    def __init__(self, device: Device, nbytes: int, handle: Any) -> None:
        self._place = users_place() if nbytes >= LARGE else None
        self.device = device
        self.nbytes = nbytes
        self.handle = handle
        self.uploaded: bytes | None = None
        self.spare: Any = None
        self.writes = 0

    def __del__(self) -> None:
        if self.handle is not None:
            self.device.release(self.handle)

    @property
    def made_at(self) -> str:
        """The user's line that made a large storage, "train.py:12"; else ""."""
        return "" if self._place is None else self._place.line


class Program(ABC):
    """A loaded plan, in which everything that can be resolved in advance is resolved.

    numbers: the values of the plan's last inputs, if the program holds them; `run` then takes the inputs before them.
    """

    plan: Plan
    numbers: Sequence[np.ndarray] = ()

    @abstractmethod
    def run(self, inputs: Sequence[Storage], into: Sequence[Storage | None] | None = None) -> list[Storage]:
        """One execution: takes a storage for each of plan.inputs, returns a storage for each of plan.outputs.

        into: for each output, a storage of its size to overwrite instead of a fresh one, or None.
        Does not wait for the device. An aliased input is overwritten, so the caller must not use its old value afterwards.
        """


class Begun(NamedTuple):
    """A read of a part that is in flight. first: its first element. nbytes: the size of the part. is_ready: whether `finish`, which returns
    the elements, would not wait.
    """

    first: int
    nbytes: int
    is_ready: Callable[[], bool]
    finish: Callable[[], np.ndarray]


class Filling:
    """A storage that is filled in parts; the device has its values once all are there."""

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: DType) -> None:
        self._device, self._shape, self._dtype = device, shape, dtype
        self._parts: dict[int, np.ndarray] = {}

    def put(self, first: int, values: np.ndarray) -> None:
        """Adds the elements from `first` on, and copies them at once."""
        self._parts[first] = values

    def done(self) -> Storage:
        """The storage, once it has all elements."""
        parts = [part.reshape(-1) for _, part in sorted(self._parts.items())]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return self._device.upload(np.ascontiguousarray(whole).reshape(self._shape), self._dtype)


class Prepared:
    """A run of a program that starts when `begin` is called. Here nothing is prepared in advance."""

    def __init__(self, program: Program, inputs: Sequence[Storage], into: Sequence[Storage | None] | None) -> None:
        self._program, self._inputs, self._into = program, inputs, into

    def begin(self) -> list[Storage]:
        """Run it."""
        return self._program.run(self._inputs, self._into)

    def drop(self) -> None:
        """Never run it."""


class Device(ABC):
    name: str  # "cpu", "webgpu", "webgpu:1"
    target: Target
    has_own_history = False  # whether another library differentiates its computations

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """A context in which the library measures the device: its allocations do not count as the program's."""
        yield

    @abstractmethod
    def upload(self, array: np.ndarray, dtype: DType) -> Storage:
        """A new storage with the values of a C-contiguous host array of `dtype`."""

    @abstractmethod
    def write(self, storage: Storage, array: np.ndarray, dtype: DType) -> None:
        """Overwrite a storage of the same size, ordered after all work submitted so far."""

    @abstractmethod
    def download(self, storage: Storage, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        """The values, as a fresh host array. Waits for the work they depend on."""

    reads_at_once = True  # whether begin_download has the values when it returns
    has_room = True  # whether a few more submissions would wait for none under way

    def begin_download(self, storage: Storage, shape: tuple[int, ...], dtype: DType) -> list[Begun]:
        """Start reading the present values of a storage, after the work submitted so far, in parts."""
        values = self.download(storage, shape, dtype)
        return [Begun(0, values.nbytes, lambda: True, lambda: values.reshape(-1))]

    def begin_upload(self, shape: tuple[int, ...], dtype: DType) -> Filling:
        """A new storage whose values come in parts."""
        return Filling(self, shape, dtype)

    shares_memory = False  # whether it adopts memory of the host

    def adopt(self, memory: np.ndarray, shape: tuple[int, ...], dtype: DType) -> Storage:
        """A storage over bytes of the host, whole pages, which other processes may have mapped, too."""
        raise DeviceError(f"[{self.name}] has no storages in memory of the host.")

    def begin_copy(self, source: Storage, adopted: Storage) -> Callable[[], bool]:
        """Copy the present values of a storage to an adopted one, after the work submitted so far. Returns a function that says whether that
        work and the copy are done."""
        raise DeviceError(f"[{self.name}] has no storages in memory of the host.")

    def prepare(self, program: Program, inputs: Sequence[Storage], into: Sequence[Storage | None] | None) -> Prepared:
        """Prepare a run of a program, which starts at `begin`. Inputs may get their values until then."""
        return Prepared(program, inputs, into)

    def new_like(self, storage: Storage) -> Storage | None:
        """A storage of the same size with arbitrary contents, to be written by a program; None if programs make their own."""
        return None

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """A context in which a caller waits for the results of programs, and the device has little else to do."""
        yield

    def holds(self, storage: Storage) -> bool:
        """Whether a storage has memory: not if a lost device had it."""
        return True

    async def download_async(self, storage: Storage, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        """Like `download`, for Python in a browser that cannot block."""
        return self.download(storage, shape, dtype)

    @contextmanager
    def compiling(self) -> Iterator[Callable[[Kernel], None]]:
        """A context in which a plan is made and loaded. Returns a callback for each of its kernels, to be called as soon as its source is known."""
        yield lambda kernel: None

    @abstractmethod
    def load(self, plan: Plan) -> Program:
        """A program that runs `plan` on this device."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all submitted work is done."""

    @abstractmethod
    def release(self, handle: Any) -> None:
        """Free the memory of an unreachable storage."""

    @abstractmethod
    def describe(self) -> str:
        """A line of text that names the hardware."""

    def compute(self, wanted: Sequence[Node]) -> bool:
        """Compute pending nodes, on a device that does so without plans; False on all others."""
        return False

    def evaluate(self, capture: Capture) -> list[Storage] | None:
        """The values of a capture's outputs, then of nodes worth keeping, without a plan; None on a device that needs one."""
        return None

    @property
    def is_lost(self) -> bool:
        """Whether the device is gone, and each call to it raises DeviceLostError until `reset`."""
        return False

    def reset(self) -> bool:
        """Open the device again if it was lost, and return whether it was. Most devices cannot be reset."""
        return False


_factories: dict[str, Callable[[int], Device]] = {}
_devices: dict[str, Device] = {}
_stands: dict[str, str] = {}
_numbers: dict[str, int] = {}  # by kind: the number that the kind alone means
_only: list[str] = []  # one name, or none
_lock = threading.Lock()


def register_device(kind: str, factory: Callable[[int], Device]) -> None:
    """Register `kind`, or `kind:index`; `factory(index)` opens the device on first use."""
    _factories[kind] = factory


def stand_for(kind: str, *names: str, current: int = 0) -> None:
    """Map another library's names `kind:0`, `kind:1` ... to these devices, and `kind` to number `current`."""
    found = [canonical_name(name) for name in names]
    _stands.update({f"{kind}:{k}": name for k, name in enumerate(found)})
    _stands[kind] = found[current]
    _numbers[kind] = current


def count_of(kind: str) -> int:
    """How many devices are mapped to another library's kind."""
    return sum(name.startswith(f"{kind}:") for name in _stands)


def current_of(kind: str) -> int:
    """The number to which the kind alone refers."""
    return _numbers.get(kind, 0)


def make_current(kind: str, number: int) -> None:
    """Let the kind alone refer to another number. Raises DeviceError if no device is mapped to it."""
    name = f"{kind}:{number}"
    if name not in _stands:
        raise DeviceError(f"there is no {name!r}. Known: {', '.join(k for k in _stands if k.startswith(f'{kind}:'))}.")
    _stands[kind], _numbers[kind] = _stands[name], number


def standing_for(kind: str) -> str | None:
    """The device to which a name of another library's is mapped, if any."""
    return _stands.get(kind)


def restrict_to(name: str) -> None:
    """Let `name` be the only device that programs see when they list accelerators."""
    _only.append(canonical_name(name))
    del _only[:-1]


def only_device() -> str | None:
    """The device of `restrict_to`, if any."""
    return _only[-1] if _only else None


def canonical_name(name: object) -> str:
    """'webgpu:0' and 'webgpu' are one device; anything unknown raises DeviceError."""
    text = str(name)
    text = _stands.get(text, text)
    kind, _, index = text.partition(":")
    if kind not in _factories or (index and not index.isdigit()):
        stands = ", ".join(name for name in _stands if ":" in name)
        known = (
            f"unknown device {text!r}. Known: cpu, webgpu (or webgpu:N for the N-th adapter){stands and f', {stands}'}."
        )
        if not stands and kind in ("cuda", "mps", "xpu", "hip", "gpu"):
            known += " Hint: webgpu is any GPU here; shadergrad run SCRIPT.py lets a PyTorch program keep its 'cuda'."
        if kind == "meta":
            known += " Tensors without values are not there. Hint: make the model on the device where it will run."
        raise DeviceError(known)
    return kind if index in ("", "0") else f"{kind}:{int(index)}"


def get_device(name: str) -> Device:
    """The open device of that name; opens it on first use. Raises DeviceError if it cannot be opened, and ConfigError if
    a setting of the environment is invalid.
    """
    name = canonical_name(name)
    device = _devices.get(name)
    if device is None:
        with _lock:
            device = _devices.get(name)
            if device is None:
                config.check()
                kind, _, index = name.partition(":")
                interrupts.install()
                device = _devices[name] = _factories[kind](int(index or 0))
    return device


def open_devices() -> list[Device]:
    """The devices in use so far."""
    return list(_devices.values())
