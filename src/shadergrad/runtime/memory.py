"""The pool of GPU buffers, which keeps calls of the driver rare and returns the same buffer to the same user.

In: sizes. Out: `Buffer`s, reused by size class. A freed buffer goes to a free list instead of the driver, for two reasons: a
new buffer costs a thousand times a reused one, and bind groups stay valid only while buffers stay the same. A training step that gets its
old buffers back has nothing to set up again. The pool does not depend on wgpu: it is given the functions that create and destroy buffers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import count
from typing import Any

from ..cpython import collect_cycles
from ..errors import OutOfMemoryError
from ..plan import format_bytes, round_up

GRANULARITY = 256  # bytes: the smallest buffer, and the strictest offset alignment of the portable profile
BINDING_GRANULARITY = 16  # bytes: bound ranges are rounded up to whole vec4s, so every buffer must be too
STEPS_PER_OCTAVE = 8  # size classes between two powers of two: at most 1/8 of a buffer is wasted
SMALL = 4096  # bytes: for smaller requests no bundle is broken up, because its program would make all bind groups again
LARGE, STEPS_OF_LARGE = 1 << 24, 128  # of larger buffers at most 1/128

_serials = count(1)


class Buffer:
    """One GPU buffer. Compared by identity; `serial` is never reused, `raw` is None once it is destroyed."""

    __slots__ = ("capacity", "raw", "serial")

    def __init__(self, raw: Any, capacity: int) -> None:
        self.raw = raw
        self.capacity = capacity
        self.serial = next(_serials)

    def __repr__(self) -> str:
        return f"Buffer({self.serial}, {format_bytes(self.capacity)}{'' if self.raw is not None else ', destroyed'})"


@lru_cache(maxsize=4096)
def size_class(nbytes: int) -> int:
    """The capacity for a request: a multiple of 256, at most 1/8 larger than requested beyond 2 KiB, 1/128 beyond 16 MiB."""
    octave = 1 << max(nbytes - 1, 1).bit_length() - 1
    return round_up(
        max(nbytes, 1), max(GRANULARITY, octave // (STEPS_OF_LARGE if octave >= LARGE else STEPS_PER_OCTAVE))
    )


class Bundle:
    """The temporaries of a program, which takes and returns their buffers together at each run.

    An idle bundle stays whole, so that taking it again is one operation. If the pool has nothing else to give,
    it breaks up idle bundles, and their programs collect their buffers again. For a small request a new buffer is made instead.
    """

    __slots__ = ("buffers", "nbytes")

    def __init__(self, buffers: tuple[Buffer, ...]) -> None:
        self.buffers = buffers
        self.nbytes = sum(buffer.capacity for buffer in buffers)


class MemoryPool:
    """Buffers in use, and free ones by capacity. All methods but `give_back` run under the device's lock.

    create(nbytes): a raw buffer, or None if the driver is out of memory.
    discard(buffers): destroys the raw buffers, and whatever refers to them.
    describe(): a sentence that lists the largest users of memory, for an error.
    """

    def __init__(
        self,
        create: Callable[[int], Any],
        discard: Callable[[list[Buffer]], None],
        max_buffer_bytes: int,
        limit: int | None = None,
        describe: Callable[[], str] = lambda: "",
    ) -> None:
        self._create = create
        self._describe = describe
        self._discard = discard
        self.max_buffer_bytes = max_buffer_bytes
        self.limit = limit
        self._free: dict[int, dict[Buffer, None]] = {}  # capacity -> free buffers, the latest last
        self._live: set[Buffer] = set()
        self._idle: dict[Bundle, None] = {}
        self._taken: set[Bundle] = set()  # those in use that were idle before; their buffers are not in _live
        self._returned: deque[Buffer] = deque()
        self._bytes_in_use = 0
        self._bytes_pooled = 0
        self.peak_bytes = 0
        self.allocated = 0  # buffers ever requested from the driver

    def acquire(self, nbytes: int, prefer: Iterable[Buffer] = ()) -> Buffer:
        """A buffer of at least `nbytes`: the first of `prefer` that is free, else the latest freed, else a new one."""
        if self._returned:
            self._collect()
        capacity = self._capacity(nbytes)
        free = self._free.get(capacity)
        if not free and self._idle and capacity > SMALL:
            self._break_bundles()
            free = self._free.get(capacity)
        if not free:
            return self._take(self._allocate(nbytes, capacity))
        for buffer in prefer:
            if buffer in free:
                del free[buffer]
                break
        else:
            buffer, _ = free.popitem()
        self._bytes_pooled -= capacity
        return self._take(buffer)

    def give_back(self, buffer: Buffer) -> None:
        """May be called on any thread, inside a garbage collection, and at interpreter exit: so it takes no lock, and only appends atomically."""
        self._returned.append(buffer)

    def take_bundle(self, bundle: Bundle) -> bool:
        """Take an idle bundle again; False if it was broken up."""
        if bundle not in self._idle:
            return False
        del self._idle[bundle]
        self._taken.add(bundle)
        self._bytes_pooled -= bundle.nbytes
        self._grow(bundle.nbytes)
        return True

    def give_back_bundle(self, bundle: Bundle) -> None:
        """Under the lock, unlike `give_back`."""
        self._idle[bundle] = None
        if bundle in self._taken:
            self._taken.remove(bundle)
        else:
            self._live.difference_update(bundle.buffers)
        self._bytes_in_use -= bundle.nbytes
        self._bytes_pooled += bundle.nbytes

    def trim(self) -> None:
        """Return every free buffer to the driver."""
        self._collect()
        self._break_bundles()
        dropped = [buffer for free in self._free.values() for buffer in free]
        self._free.clear()
        self._bytes_pooled = 0
        if dropped:
            self._discard(dropped)

    def abandon(self) -> list[Any]:
        """After the device's loss: forget every buffer, in use or free, and return the raw ones, to be released.

        The `raw` of every `Buffer` is None afterwards.
        """
        self._collect()
        self._break_bundles()
        taken = (buffer for bundle in self._taken for buffer in bundle.buffers)
        buffers = [*self._live, *taken, *(buffer for free in self._free.values() for buffer in free)]
        self._live.clear()
        self._taken.clear()
        self._free.clear()
        self._bytes_in_use = self._bytes_pooled = self.peak_bytes = self.allocated = 0
        raws = [buffer.raw for buffer in buffers]
        for buffer in buffers:
            buffer.raw = None
        return raws

    def check_size(self, nbytes: int) -> None:
        """Raise OutOfMemoryError for a buffer that this device could never hold."""
        if round_up(nbytes, BINDING_GRANULARITY) > self.max_buffer_bytes:
            raise self._out_of_memory(nbytes, f"one buffer holds at most {format_bytes(self.max_buffer_bytes)}")

    @property
    def bytes_in_use(self) -> int:
        self._collect()
        return self._bytes_in_use

    @property
    def bytes_pooled(self) -> int:
        self._collect()
        return self._bytes_pooled

    @property
    def live_buffers(self) -> int:
        self._collect()
        return len(self._live) + sum(len(bundle.buffers) for bundle in self._taken)

    def _capacity(self, nbytes: int) -> int:
        capacity = size_class(nbytes)
        # A class may overshoot the largest buffer where the request itself does not.
        return capacity if capacity <= self.max_buffer_bytes else round_up(nbytes, BINDING_GRANULARITY)

    def _collect(self) -> None:
        """Move returned buffers to the free lists."""
        while self._returned:
            buffer = self._returned.popleft()
            if buffer.raw is None:
                continue  # it went with a lost device
            self._live.discard(buffer)
            self._bytes_in_use -= buffer.capacity
            self._bytes_pooled += buffer.capacity
            self._free.setdefault(buffer.capacity, {})[buffer] = None

    def _break_bundles(self) -> None:
        for bundle in self._idle:
            for buffer in bundle.buffers:
                self._free.setdefault(buffer.capacity, {})[buffer] = None
        self._idle.clear()

    def _take(self, buffer: Buffer) -> Buffer:
        self._live.add(buffer)
        self._grow(buffer.capacity)
        return buffer

    def _grow(self, nbytes: int) -> None:
        self._bytes_in_use += nbytes
        if self._bytes_in_use > self.peak_bytes:
            self.peak_bytes = self._bytes_in_use

    def _allocate(self, nbytes: int, capacity: int) -> Buffer:
        """A new buffer; before giving up, it frees more and more memory to make room for it."""
        self.check_size(nbytes)
        for make_room in (lambda: None, self.trim, self._collect_garbage):
            make_room()
            if self.limit is not None and self._bytes_in_use + self._bytes_pooled + capacity > self.limit:
                continue
            raw = self._create(capacity)
            if raw is not None:
                self.allocated += 1
                return Buffer(raw, capacity)
        if self.limit is None:
            raise self._out_of_memory(nbytes, "the adapter has no more to give")
        raise self._out_of_memory(nbytes, f"the limit is {format_bytes(self.limit)} (SHADERGRAD_MEMORY_LIMIT)")

    def _collect_garbage(self) -> None:
        """Tensors in reference cycles hold memory until Python's garbage collector runs."""
        collect_cycles()
        self.trim()

    def _out_of_memory(self, nbytes: int, limit: str) -> OutOfMemoryError:
        self._collect()
        live = [*self._live, *(b for bundle in self._taken for b in bundle.buffers)]
        largest = sorted((b.capacity for b in live), reverse=True)[:5]
        sizes = ", ".join(format_bytes(n) for n in largest) or "none"
        return OutOfMemoryError(
            f"[webgpu] out of device memory: asked for {format_bytes(nbytes)}, "
            f"{format_bytes(self._bytes_in_use)} in use in {len(live)} buffers, {limit}. "
            f"The largest live buffers: {sizes}.{self._describe()}\n"
            "  Hint: take a smaller batch or model, compute activations again (sg.checkpoint), drop tensors you no longer "
            "need (a list of losses keeps every graph: append loss.item()), or use the cpu device."
        )
