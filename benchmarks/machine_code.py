"""What NVIDIA's driver makes of kernels: registers, instructions, and the longest loop of each, from the driver's cache.

    __GL_SHADER_DISK_CACHE_PATH=/tmp/code python benchmarks/step.py mlp --device webgpu    # an empty folder, filled
    python benchmarks/machine_code.py /tmp/code                                            # a line a kernel
    python benchmarks/machine_code.py /tmp/code --listing 3                                # one as text

Needs `pip install zstandard nvidia-cuda-nvdisasm` (or nvdisasm on the path). Kernels come in the order in which they were compiled.
Cycles are those that an instruction keeps its warp from the next one, as the driver wrote them into it, without waits for memory;
LDL and STL in a loop are registers that did not suffice. Cycles "with reads" are those that multiply-adds take which wait for their
registers (`cycles_with_reads`). The format was found by looking (driver 580, 2026-11-25), and may change.
"""

from __future__ import annotations

import importlib
import re
import shutil
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

COMPRESSED = b"\x28\xb5\x2f\xfd"  # a frame of Zstandard begins
KERNEL = b"NVuc"
CODE_SIZE = 17  # which word of a kernel's header, counted from its name; the next is where the code begins
STALL = 41  # the first of four bits of an instruction's second half: cycles until the next one of the warp
WAITING = 2  # reads that a bank of registers can put off
INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,6})\*/\s+(.*?)\s*;.*\n.*/\* 0x([0-9a-f]{16}) \*/")
JUMP = re.compile(r"BRA\S*(?: !?U?P\d,)? 0x([0-9a-f]+)")


@dataclass(frozen=True)
class Instruction:
    at: int
    text: str
    cycles: int

    @property
    def kind(self) -> str:
        """Its name, without the condition before it and the kinds after the first dot."""
        return re.sub(r"^@!?U?P\d+ ", "", self.text).split()[0].split(".")[0]


def kernels(folder: Path) -> Iterator[bytes]:
    """The code of each kernel in a folder of the driver's cache."""
    zstandard: Any = importlib.import_module("zstandard")
    for file in sorted(folder.rglob("*.bin")):
        data = file.read_bytes()
        at = data.find(COMPRESSED)
        while at >= 0:
            try:
                found = zstandard.ZstdDecompressor().decompressobj().decompress(data[at:])
            except zstandard.ZstdError:  # four bytes that look like a beginning
                found = b""
            if KERNEL in found[:64]:
                yield code_of(found)
            at = data.find(COMPRESSED, at + 1)


def code_of(kernel: bytes) -> bytes:
    """The instructions of an object of the cache."""
    start = kernel.index(KERNEL)
    size, offset = struct.unpack_from("<2I", kernel, start + 4 * CODE_SIZE)
    return kernel[start + offset : start + offset + size]


def listing(code: bytes, architecture: str) -> str:
    """nvdisasm's text of it, with the bits of each instruction."""
    program = shutil.which("nvdisasm")
    if program is None:
        package: Any = importlib.import_module("nvidia.cu13")
        program = str(Path(next(iter(package.__path__))) / "bin" / "nvdisasm")
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(code)
        command = [program, "--binary", architecture, "-hex", file.name]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def instructions(text: str) -> list[Instruction]:
    """Those of a listing."""
    return [
        Instruction(int(at, 16), words, int(bits, 16) >> STALL & 15) for at, words, bits in INSTRUCTION.findall(text)
    ]


def longest_loop(code: list[Instruction]) -> list[Instruction]:
    """From where the farthest jump backwards leads up to it; empty where there is none. The jump to itself at the end is none."""
    jumps = ((i.at, JUMP.search(i.text)) for i in code)
    loops = [(int(m[1], 16), at) for at, m in jumps if m and int(m[1], 16) < at]
    first, last = max(loops, key=lambda loop: loop[1] - loop[0], default=(1, 0))
    return [i for i in code if first <= i.at <= last]


def cycles_with_reads(code: list[Instruction]) -> int:
    """Cycles of a loop if its multiply-adds alone read registers: even numbers lie in one bank, odd ones in another, each gives one a
    cycle and puts off two more; what an operand's place keeps (`.reuse`) is not read again.

    Nine loops of nothing but multiply-adds took 1.10 to 1.48 cycles a multiply-add on an H100 (2026-11-25), as their order and their
    registers were; this count differs by -0.4 to 1.3 %."""
    kept: list[str | None] = [None] * 3
    waiting = [0, 0]
    cycles = 0
    for instruction in code:
        reads = [0, 0]
        if instruction.kind == "FFMA":
            operands = re.findall(r"\b(R(?:Z|\d+))(\.reuse)?", instruction.text.split(",", 1)[1])
            for place, (register, keep) in enumerate(operands):
                if register not in ("RZ", kept[place]):
                    reads[int(register[1:]) % 2] += 1
                kept[place] = register if keep else None
        waiting = [max(0, old - 1) + new for old, new in zip(waiting, reads, strict=True)]
        late = max(0, max(waiting) - WAITING)
        waiting = [max(0, left - late) for left in waiting]
        cycles += 1 + late
    return cycles


def registers(code: list[Instruction]) -> int:
    """How many a thread has, by the highest that is named."""
    return 1 + max((int(n) for i in code for n in re.findall(r"\bR(\d+)", i.text)), default=-1)


def line(number: int, code: list[Instruction]) -> str:
    loop = longest_loop(code)
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(i.kind for i in loop).most_common(9))
    parts = [f"{number:4d}  {registers(code):3d} registers  {len(code):5d} instructions"]
    if loop:
        cycles = f"{sum(i.cycles for i in loop)} cycles, {cycles_with_reads(loop)} with reads"
        parts.append(f"loop {len(loop)}, {cycles}: {kinds}")
    return "  ".join(parts)


def main(
    folder: Path,
    show: Annotated[int | None, typer.Option("--listing", help="the number of a kernel to print as text")] = None,
    architecture: Annotated[
        str, typer.Option(help="what nvdisasm calls the GPU: SM90 for an H100 and an H200")
    ] = "SM90",
) -> None:
    """A line a kernel, or one kernel's text with the cycles of each instruction."""
    found = 0
    for found, code in enumerate(kernels(folder), 1):
        if show is None:
            print(line(found, instructions(listing(code, architecture))), flush=True)
        elif show == found:
            for i in instructions(listing(code, architecture)):
                print(f"{i.at:#06x} {i.cycles:2d}  {i.text}")
            return
    if show is not None or not found:
        raise typer.BadParameter(
            f"{folder} has {found} kernels. The driver fills it where __GL_SHADER_DISK_CACHE_PATH names it, once a process has ended"
        )


if __name__ == "__main__":
    typer.run(main)
