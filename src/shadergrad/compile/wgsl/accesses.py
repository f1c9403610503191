"""Loads and stores of a kernel's buffers: placeholders while the body is generated, WGSL once all accesses are known.

Whether a buffer is declared as scalars, as vec4s or as words of two halves depends on every access to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...dtypes import bool_
from ...graph.index import Index, render
from ...graph.node import Node
from ...symbolic_sizes import varies
from ..puller import LANES

OFFSET_ALIGNMENT = 64  # elements: a binding begins at a multiple of 256 bytes on every device


@dataclass
class Binding:
    """A buffer of the kernel. `vectorized` once an access reads or writes four elements at a time.

    start: the first element that the kernel reads, rounded down; earlier ones are not bound. wide: its elements are read in pairs,
    as 64-bit integers (`Traits.slow_loads`). Halves are stored two per word; shared: different threads write the two halves of a word,
    so words are atomic. octets: halves are declared eight to a vec4<u32>, for threads that load 16 bytes.
    """

    name: str
    node: Node
    written: bool = False
    vectorized: bool = False
    start: int = 0
    wide: bool = False
    shared: bool = False
    octets: bool = False

    @property
    def is_half(self) -> bool:
        return self.node.dtype.is_half

    @property
    def itemsize(self) -> int:
        """Bytes of an element in memory."""
        return 2 if self.is_half else 4

    @property
    def stored(self) -> str:
        """The type of an element in memory."""
        return "u32" if self.node.dtype is bool_ else str(self.node.dtype.wgsl)

    @property
    def element(self) -> str:
        """What the kernel declares an array of."""
        if self.wide:
            return "vec2<u64>"
        if self.is_half:
            if self.octets:
                return "vec4<u32>"
            return "atomic<u32>" if self.shared else "vec2<u32>" if self.vectorized else "u32"
        return f"vec4<{self.stored}>" if self.vectorized else self.stored


class Accesses:
    """The accesses of one kernel, by number: the placeholder `@3@` in a text is the fourth, `@3:value@` a store of a half.

    functions: the library functions that the accesses call. wide: as in Renderer.
    """

    def __init__(self, functions: set[str], wide: bool) -> None:
        self.functions = functions
        self.wide = wide
        self._all: list[tuple[Binding, Index, Index | None]] = []
        self._packed: set[int] = set()  # those that give the bits of halves

    def mark(self, binding: Binding, flat: Index, quad: Index | None, packed: bool = False) -> str:
        """The placeholder of a load of the element at `flat`, or of four, the `quad`-th; packed: it gives the bits of halves."""
        if packed:
            self._packed.add(len(self._all))
        self._all.append((binding, flat, quad))
        return f"@{len(self._all) - 1}@"

    def mark_write(self, binding: Binding, flat: Index, quad: Index | None, value: str) -> str:
        """The placeholder of a statement that stores a value."""
        mark = self.mark(binding, flat, quad)
        return f"{mark[:-1]}:{value}@" if binding.is_half else f"{mark} = {value};"

    def _choose_starts(self) -> None:
        """Bind each read-only buffer from its first element that is read: kernels that differ only in that, for example in the time
        step, are one kernel.
        """
        lowest: dict[int, tuple[Binding, int]] = {}
        for binding, flat, _ in self._all:
            before = lowest.get(id(binding), (binding, flat.low))[1]
            lowest[id(binding)] = (binding, min(before, flat.low))
        for binding, low in lowest.values():
            if not binding.written and not varies(low):
                alignment = OFFSET_ALIGNMENT * 4 // binding.itemsize
                binding.start = max(low, 0) // alignment * alignment

    def resolve(self, text: str) -> str:
        """Replace placeholders by the accesses, once it is known which buffers are arrays of vec4."""

        self._choose_starts()
        for binding, _, _ in self._all:
            binding.wide = self.wide and binding.vectorized and not binding.written and not binding.is_half
            binding.octets = binding.octets and not binding.written

        def access(match: re.Match[str]) -> str:
            binding, flat, quad = self._all[int(match[1])]
            flat = flat - binding.start
            if binding.is_half:
                quad = None if quad is None else quad - binding.start // LANES
                return self._load_halves(binding, flat, quad, int(match[1]) in self._packed)
            if binding.wide:
                return self._wide_access(binding, flat, None if quad is None else quad - binding.start // LANES)
            if quad is not None:
                return f"{binding.name}[{render(quad - binding.start // LANES)}]"
            if binding.vectorized:
                return f"{binding.name}[{render(flat // LANES)}][{render(flat % LANES)}]"
            return f"{binding.name}[{render(flat)}]"

        def write(match: re.Match[str]) -> str:
            binding, flat, quad = self._all[int(match[1])]
            return self._store_halves(binding, flat, quad, match[2])

        return re.sub(r"@(\d+)@", access, re.sub(r"@(\d+):(.*?)@", write, text))

    def _load_halves(self, binding: Binding, flat: Index, quad: Index | None, packed: bool) -> str:
        """An element, or four of them, of a buffer of halves, as float32; packed: as bits, in a word or in two."""
        kind = binding.node.dtype.name

        def word(place: Index) -> str:
            if binding.shared:
                return f"atomicLoad(&{binding.name}[{render(place)}])"
            if binding.octets:
                return f"{binding.name}[{render(place // LANES)}][{render(place % LANES)}]"
            return (
                f"{binding.name}[{render(place // 2)}][{render(place % 2)}]"
                if binding.vectorized
                else f"{binding.name}[{render(place)}]"
            )

        if quad is None and packed:
            return f"(({word(flat // 2)} >> (16u * u32({render(flat % 2)}))) & 0xffffu)"
        if quad is None:
            self.functions.add(f"sg_one_{kind}")
            return f"sg_one_{kind}({word(flat // 2)}, {render(flat % 2)})"
        words = (
            f"vec2<u32>({word(quad * 2)}, {word(quad * 2 + 1)})"
            if binding.shared or binding.octets
            else f"{binding.name}[{render(quad)}]"
        )
        half = quad % 2
        if binding.octets and not half.terms:
            words = f"{binding.name}[{render(quad // 2)}].{'zw' if half.constant else 'xy'}"
        if packed:
            return words
        self.functions.add(f"sg_four_{kind}")
        return f"sg_four_{kind}({words})"

    def _store_halves(self, binding: Binding, flat: Index, quad: Index | None, value: str) -> str:
        """The statement that stores an element, or four, in a buffer of halves. A thread that writes one half of a word preserves the
        other, which another thread may be writing.
        """
        kind, name = binding.node.dtype.name, binding.name
        if quad is None:
            self.functions.add(f"sg_bits_{kind}")
            word, shift = f"&{name}[{render(flat // 2)}]", f"16u * u32({render(flat % 2)})"
            return (
                f"atomicAnd({word}, 0xffff0000u >> ({shift})); atomicOr({word}, sg_bits_{kind}({value}) << ({shift}));"
            )
        self.functions.add(f"sg_words_{kind}")
        words = f"sg_words_{kind}({value})"
        if not binding.shared:
            return f"{name}[{render(quad)}] = {words};"
        places = (f"&{name}[{render(quad * 2 + k)}], {words}.{part}" for k, part in enumerate("xy"))
        return " ".join(f"atomicStore({place});" for place in places)

    def _wide_access(self, binding: Binding, flat: Index, quad: Index | None) -> str:
        """An element, or four of them, of a buffer that is declared as 64-bit integers."""
        if quad is not None:
            text, value = f"sg_four({binding.name}[{render(quad)}])", f"vec4<{binding.stored}>"
        else:
            word = f"{binding.name}[{render(flat // LANES)}][{render(flat % LANES // 2)}]"
            text, value = f"sg_one({word}, {render(flat % 2)})", binding.stored
        return text if binding.stored == "u32" else f"bitcast<{value}>({text})"
