"""`benchmarks/machine_code.py` reads what a driver has compiled: a folder of its cache, and listings of kernels."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
import typer
import zstandard

import machine_code


def instruction(at: int, words: str, cycles: int) -> str:
    """Two lines of a listing: the text and the first half of the bits, the second half."""
    second = 0x000FE0000000FF00 & ~(15 << machine_code.STALL) | cycles << machine_code.STALL
    return f"        /*{at:04x}*/   {words} ;   /* 0x0000000000007919 */\n{' ' * 40}/* {second:#018x} */\n"


LISTING = "".join(
    instruction(16 * number, words, cycles)
    for number, (words, cycles) in enumerate(
        [
            ("S2R R0, SR_CTAID.X", 1),
            ("ISETP.GE.AND P0, PT, R0, 0x10, PT", 4),
            ("@!P0 LDG.E.128.CONSTANT R40, [R196.U32+UR4]", 2),  # the loop begins
            ("FFMA.FTZ R52, R29.reuse, R32, R52", 1),
            ("FFMA.FTZ R53, R29, R33, R53", 1),
            ("@P0 BRA 0x30", 5),  # a shorter loop within it
            ("STS [R193+0x1000], R40", 4),
            ("@P0 BRA 0x20", 5),
            ("EXIT", 5),
            ("BRA 0x90", 0),
        ]
    )
)


def test_a_listing_tells_instructions_with_their_cycles() -> None:
    code = machine_code.instructions(LISTING)
    assert [i.at for i in code] == [16 * n for n in range(10)]
    assert [i.kind for i in code[:4]] == ["S2R", "ISETP", "LDG", "FFMA"]
    assert [i.cycles for i in code] == [1, 4, 2, 1, 1, 5, 4, 5, 5, 0]
    assert machine_code.registers(code) == 197


def test_the_longest_loop_is_what_a_line_tells_of() -> None:
    code = machine_code.instructions(LISTING)
    assert [i.at for i in machine_code.longest_loop(code)] == [0x20, 0x30, 0x40, 0x50, 0x60, 0x70]
    told = machine_code.line(7, code)
    assert (
        told == "   7  197 registers     10 instructions  loop 6, 18 cycles, 6 with reads: 2 FFMA, 2 BRA, 1 LDG, 1 STS"
    )


def test_a_kernel_without_a_loop_has_none_though_it_ends_in_a_jump_to_itself() -> None:
    code = machine_code.instructions(LISTING)[-2:]
    assert machine_code.longest_loop(code) == []
    assert "loop" not in machine_code.line(1, code)


@pytest.mark.parametrize(
    ("words", "cycles"),
    [
        ("FFMA.FTZ R6, R2, R4, R6", 29),  # three even numbers: a cycle for each, but for two that are put off
        ("FFMA.FTZ R6, R2.reuse, R4.reuse, R6", 11),  # two of them are kept
        ("FFMA.FTZ R6, R2.reuse, R4, R6", 20),
        ("FFMA.FTZ R7, R2.reuse, R4, R7", 10),  # one of each bank
        ("FFMA.FTZ R7, R3, R4, R7", 19),
        ("FFMA.FTZ R6, R2, R4, RZ", 19),
        ("FADD.FTZ R6, R2, R4", 10),  # is not counted
    ],
)
def test_multiply_adds_wait_for_registers_of_one_bank(words: str, cycles: int) -> None:
    code = machine_code.instructions("".join(instruction(16 * n, words, 1) for n in range(10)))
    assert machine_code.cycles_with_reads(code) == cycles


def test_what_is_kept_is_kept_beyond_other_instructions_but_not_for_another_operand() -> None:
    first, load = "FFMA.FTZ R6, R2.reuse, R4.reuse, R6", "LDS.128 R8, [R2]"

    def cycles(*code: str) -> int:
        lines = (instruction(16 * n, words, 1) for n, words in enumerate(code))
        return machine_code.cycles_with_reads(machine_code.instructions("".join(lines)))

    assert cycles(first, load, "FFMA.FTZ R6, R2, R4, R6") == 4
    assert cycles(first, "FFMA.FTZ R6, R2, R4, R6") == 3
    assert cycles(first, "FFMA.FTZ R6, R4, R2, R6") == 5


def kernel(code: bytes) -> bytes:
    """An object of the cache: bytes before it, the header, the code, other sections."""
    header = bytearray(machine_code.KERNEL + bytes(4 * 96 - 4))
    struct.pack_into("<2I", header, 4 * machine_code.CODE_SIZE, len(code), len(header))
    return b"NVDANVVM" + bytes(header) + code + b"sections"


def test_a_folder_gives_the_code_of_its_kernels_in_order(tmp_path: Path) -> None:
    draw = random.Random(0)
    codes = [draw.randbytes(320), draw.randbytes(64)]
    compressed = [zstandard.compress(thing) for thing in (kernel(codes[0]), b"\x7fELF, no kernel", kernel(codes[1]))]
    decoy = machine_code.COMPRESSED + b"no frame at all"
    (tmp_path / "GLCache").mkdir()
    (tmp_path / "GLCache" / "a.bin").write_bytes(b"head" + b"between".join([decoy, *compressed]))
    (tmp_path / "GLCache" / "a.toc").write_bytes(b"no kernels")
    assert list(machine_code.kernels(tmp_path)) == codes


def test_a_folder_without_kernels_says_how_it_is_filled(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match=r"0 kernels.*__GL_SHADER_DISK_CACHE_PATH"):
        machine_code.main(tmp_path)
