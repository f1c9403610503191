"""C, Verilog, WGSL and DOT: each run by the tool it is meant for, against the evaluation in NumPy and in plain Python."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from circuit_examples import life, life_circuit, naive_gate, naive_step, random_cell, random_circuit
from shadergrad.config import config
from shadergrad.logic.circuit import (
    CellCircuit,
    Circuit,
    CircuitError,
    cell_to_c,
    cell_to_verilog,
    cell_to_wgsl,
    native_board,
    to_c,
    to_dot,
    to_verilog,
    to_wgsl,
)
from shadergrad.logic.circuit.bit_packing import pack_board, pack_last, unpack_board, unpack_last
from shadergrad.logic.circuit.export_wgsl import row_words, workgroups

FOLDER = Path(native_board.__file__).parent
EVERY_KIND = Circuit(2, [(kind, 0, 1) for kind in range(16)], range(2, 18))

borders = pytest.mark.parametrize("border", ["zeros", "periodic"])
needs_a_name = pytest.mark.parametrize("export", [to_c, to_verilog, to_wgsl])


def expected_of_every_kind() -> np.ndarray:
    return np.array(
        [[naive_gate(kind, a, b) for kind in range(16)] for a, b in itertools.product((0, 1), repeat=2)], bool
    )


def all_patches(circuit: Circuit) -> np.ndarray:
    return np.array(list(itertools.product((False, True), repeat=circuit.inputs)))


@needs_a_name
def test_names_are_identifiers(export):
    with pytest.raises(CircuitError, match="the name '2fast' is no identifier"):
        export(life_circuit(), "2fast")


@needs_a_name
def test_exports_leave_out_dead_gates_and_unread_inputs(export):
    text = export(Circuit(3, [(1, 0, 1), (6, 0, 2), (7, 0, 2)], [5]))
    assert "g2" in text
    assert "g0" not in text
    assert "g1" not in text
    assert "x1 " not in text


# -- C


def require_compiler() -> str:
    path = native_board.find_compiler()
    if path is None:
        if config.require_webgpu:
            pytest.fail("no C compiler, and SHADERGRAD_REQUIRE_WEBGPU=1: apt-get install gcc.", pytrace=False)
        pytest.skip("no C compiler: install one (Debian, Ubuntu: gcc)")
    return path


def run_c(circuit: Circuit, patches: np.ndarray, folder: Path) -> np.ndarray:
    """Outputs (patches, outputs) of the block function, called once a block."""
    source, library = folder / "circuit.c", folder / "circuit.so"
    text = to_c(circuit)
    source.write_text(text)
    subprocess.run([require_compiler(), *native_board.FLAGS, "-Wall", "-Werror", "-o", library, source], check=True)
    block = int(text.partition("circuit_BLOCK = ")[2].partition(" ")[0])
    words = pack_last(patches.T)
    results = []
    for start in range(0, words.shape[1], block):
        x, y = np.zeros((circuit.inputs, block), np.uint64), np.zeros((len(circuit.outputs), block), np.uint64)
        n = min(block, words.shape[1] - start)
        x[:, :n] = words[:, start : start + n]
        ctypes.CDLL(str(library)).circuit_block(
            ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_size_t(n)
        )
        results.append(y[:, :n])
    return unpack_last(np.concatenate(results, axis=1), len(patches)).T


def test_c_computes_every_kind_of_gate(tmp_path):
    np.testing.assert_array_equal(run_c(EVERY_KIND, all_patches(EVERY_KIND), tmp_path), expected_of_every_kind())


def test_c_computes_large_circuits(tmp_path):
    rng = np.random.default_rng(0)
    circuit = random_circuit(rng, 100, 700, 30, window=120)
    patches = rng.random((3000, 100)) < 0.5
    np.testing.assert_array_equal(run_c(circuit, patches, tmp_path), circuit.evaluate(patches))


def test_the_template_of_c_compiles_as_it_is():
    command = [
        require_compiler(),
        "-std=c99",
        "-pedantic",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        FOLDER / "step.c",
    ]
    subprocess.run(command, check=True)


def test_c_says_how_boards_lie_in_memory():
    text = cell_to_c(life(), "life")
    assert "void life_step(const uint64_t *restrict state" in text
    assert "automaton" not in text
    assert "NAME" not in text


# -- Verilog


def require_iverilog() -> None:
    if shutil.which("iverilog") and shutil.which("vvp"):
        return
    if config.require_webgpu:
        pytest.fail("no Icarus Verilog, and SHADERGRAD_REQUIRE_WEBGPU=1: apt-get install iverilog.", pytrace=False)
    pytest.skip("VERILOG NOT TESTED, no Icarus Verilog: apt-get install iverilog")


def simulate(modules: str, bench: str, folder: Path) -> list[str]:
    """The lines that a test bench displays."""
    require_iverilog()
    source, program = folder / "bench.v", folder / "bench"
    source.write_text(modules + bench)
    subprocess.run(
        ["iverilog", "-g2001", "-Wall", "-s", "bench", "-o", program, source], check=True, capture_output=True
    )
    return subprocess.run(["vvp", "-n", program], check=True, capture_output=True, text=True).stdout.split()


def run_verilog(circuit: Circuit, patches: np.ndarray, folder: Path) -> np.ndarray:
    """Outputs (patches, outputs) of the combinational module."""
    drive = "\n".join(f'        x = {verilog_bits(row)}; #1 $display("%b", y);' for row in patches)
    bench = f"""
module bench;
    reg [{circuit.inputs - 1}:0] x;
    wire [{len(circuit.outputs) - 1}:0] y;
    circuit dut(.x(x), .y(y));
    initial begin
{drive}
        $finish;
    end
endmodule
"""
    return np.array([bits_of(line) for line in simulate(to_verilog(circuit), bench, folder)])


def verilog_bits(bits: np.ndarray) -> str:
    """A literal whose bit k is element k."""
    return f"{bits.size}'b" + "".join("01"[int(b)] for b in bits.reshape(-1)[::-1])


def bits_of(line: str) -> list[bool]:
    assert set(line) <= {"0", "1"}, f"undefined bits: {line}"
    return [digit == "1" for digit in reversed(line)]


def run_verilog_board(
    cell: CellCircuit, states: np.ndarray, fires: Sequence[np.ndarray], folder: Path
) -> list[np.ndarray]:
    """The board after loading and after each step."""
    height, width, channels = states.shape
    bits, cells = states.size, height * width
    steps = "\n".join(
        f'        load = 0; fire = {verilog_bits(fire)}; #1 clk = 1; #1 clk = 0; $display("%b", state);'
        for fire in fires
    )
    bench = f"""
module bench;
    reg clk, load;
    reg [{bits - 1}:0] start;
    reg [{cells - 1}:0] fire;
    wire [{bits - 1}:0] state;
    automaton_grid dut(.clk(clk), .load(load), .initial_state(start), .fire(fire), .state(state));
    initial begin
        clk = 0; load = 1; fire = 0; start = {verilog_bits(states)};
        #1 clk = 1; #1 clk = 0; $display("%b", state);
{steps}
        $finish;
    end
endmodule
"""
    lines = simulate(cell_to_verilog(cell, height, width), bench, folder)
    return [np.array(bits_of(line)).reshape(height, width, channels) for line in lines]


def test_verilog_computes_every_kind_of_gate(tmp_path):
    np.testing.assert_array_equal(run_verilog(EVERY_KIND, all_patches(EVERY_KIND), tmp_path), expected_of_every_kind())


def test_verilog_computes_life_in_all_neighbourhoods(tmp_path):
    patches = all_patches(life_circuit())
    np.testing.assert_array_equal(run_verilog(life_circuit(), patches, tmp_path), life_circuit().evaluate(patches))


@borders
@pytest.mark.parametrize(("height", "width", "channels"), [(6, 7, 1), (3, 5, 3), (1, 4, 2)])
def test_a_clocked_grid_steps_like_the_board(border, height, width, channels, tmp_path):
    rng = np.random.default_rng(channels)
    cell = random_cell(rng, channels, border)
    state = rng.random((height, width, channels)) < 0.5
    fires = [np.ones((height, width), bool), rng.random((height, width)) < 0.6, rng.random((height, width)) < 0.6]
    boards = run_verilog_board(cell, state, fires, tmp_path)
    assert len(boards) == 4
    for board, fire in zip(boards, [None, *fires], strict=True):
        state = state if fire is None else naive_step(cell, state, fire)
        np.testing.assert_array_equal(board, state)


def test_the_template_of_verilog_compiles_as_it_is(tmp_path):
    bench = "module bench; endmodule\n"
    assert simulate((FOLDER / "grid.v").read_text(), bench, tmp_path) == []


# -- WGSL


def run_wgsl(
    code: str, buffers: dict[int, np.ndarray], out: int, groups: tuple[int, int, int] = (1, 1, 1)
) -> np.ndarray:
    """The buffer at binding `out` after one dispatch; buffers by binding."""
    from wgpu.utils.compute import compute_with_buffers

    inputs = {k: v for k, v in buffers.items() if k != out}
    size = {out: (buffers[out].size, "I")}
    result = compute_with_buffers(inputs, size, code, n=groups)[out]
    return np.frombuffer(result, np.uint32).reshape(buffers[out].shape)


def run_wgsl_circuit(circuit: Circuit, patches: np.ndarray) -> np.ndarray:
    inputs, outputs = circuit.inputs, len(circuit.outputs)
    words = np.ascontiguousarray(pack_last(patches.T)).view("<u4")
    kernel = f"""
@group(0) @binding(0) var<storage, read> x: array<array<u32, {inputs}>>;
@group(0) @binding(1) var<storage, read_write> y: array<array<u32, {outputs}>>;
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) id: vec3u) {{
    y[id.x] = circuit(x[id.x]);
}}
"""
    columns = words.shape[1]
    buffers = {0: np.ascontiguousarray(words.T), 1: np.zeros((columns, outputs), np.uint32)}
    result = run_wgsl(to_wgsl(circuit) + kernel, buffers, 1, (columns, 1, 1))
    return unpack_last(np.ascontiguousarray(result.T).view(np.uint64), len(patches)).T


def run_wgsl_board(
    cell: CellCircuit, state: np.ndarray, fire: np.ndarray | None = None, groups: tuple[int, int, int] | None = None
) -> np.ndarray:
    height, width, _ = state.shape
    words = pack_board(state).view("<u4")
    assert words.shape[2] == row_words(width)
    buffers = {0: words, 1: np.zeros_like(words)}
    if fire is not None:
        buffers[2] = pack_last(fire).view("<u4")
    code = cell_to_wgsl(cell, height, width, fire=fire is not None)
    result = run_wgsl(code, buffers, 1, groups or workgroups(height, width)).view(np.uint64)
    board = unpack_board(result, width)
    np.testing.assert_array_equal(result, pack_board(board), err_msg="bits past the width")
    return board


def test_wgsl_computes_every_kind_of_gate(webgpu):
    np.testing.assert_array_equal(run_wgsl_circuit(EVERY_KIND, all_patches(EVERY_KIND)), expected_of_every_kind())


def test_wgsl_computes_life_in_all_neighbourhoods(webgpu):
    patches = all_patches(life_circuit())
    np.testing.assert_array_equal(run_wgsl_circuit(life_circuit(), patches), life_circuit().evaluate(patches))


@borders
@pytest.mark.parametrize("width", [1, 5, 31, 32, 33, 64, 65, 96, 130])
def test_the_kernel_steps_like_the_board(webgpu, border, width):
    rng = np.random.default_rng(width)
    for channels, height in ((1, 1), (3, 5)):
        cell = random_cell(rng, channels, border)
        state, fire = rng.random((height, width, channels)) < 0.5, rng.random((height, width)) < 0.6
        np.testing.assert_array_equal(run_wgsl_board(cell, state), naive_step(cell, state))
        np.testing.assert_array_equal(run_wgsl_board(cell, state, fire), naive_step(cell, state, fire))


def test_the_kernel_steps_boards_of_many_workgroups(webgpu):
    rng = np.random.default_rng(0)
    cell, state = life(), rng.random((300, 333, 1)) < 0.4
    expected = cell.step(state)
    np.testing.assert_array_equal(run_wgsl_board(cell, state), expected)
    np.testing.assert_array_equal(run_wgsl_board(cell, state, groups=(7, 8, 1)), expected)  # folded, 52 are needed


def test_the_template_of_wgsl_parses_as_it_is(webgpu):
    from wgpu.utils import get_default_device

    get_default_device().create_shader_module(code=(FOLDER / "step.wgsl").read_text(encoding="utf-8"))


def test_dispatches_fold_into_two_dimensions():
    assert workgroups(64, 64) == (2, 1, 1)
    x, y, z = workgroups(1 << 15, 1 << 15)
    assert max(x, y, z) <= 65535
    assert x * y * 64 >= (1 << 15) * (1 << 10)


def test_the_kernel_has_a_fire_mask_where_the_rate_is_below_one():
    assert "@binding(2)" not in cell_to_wgsl(life(), 8, 8)
    assert "@binding(2)" in cell_to_wgsl(life(fire_rate=0.6), 8, 8)


# -- DOT


def test_dot_draws_life():
    text = to_dot(life_circuit())
    edges = [line for line in text.splitlines() if "->" in line]
    assert len(edges) == 2 * len(life_circuit()) + 1
    assert 'x4 [shape=ellipse, label="centre"];' in text
    assert "g25 -> y0;" in text
    assert sum("arrowhead=odot" in edge for edge in edges) == 1
    assert text.count("{") == text.count("}") == 1


def test_dot_puts_the_circle_at_the_inverted_operand():
    assert "x1 -> g0 [arrowhead=odot];" in to_dot(Circuit(2, [(2, 0, 1)], [2]))
    assert "x0 -> g0 [arrowhead=odot];" in to_dot(Circuit(2, [(4, 0, 1)], [2]))
    assert 'label="NOT"' in to_dot(Circuit(2, [(10, 0, 1)], [2]))
    assert "x0" not in to_dot(Circuit(2, [(10, 0, 1)], [2]))


# -- names


@pytest.mark.parametrize("name", ["small", "wire", "module", "logic", "x", "g0", "x12", "y"])
def test_names_that_verilog_or_the_module_reserves_are_refused(name: str) -> None:
    with pytest.raises(CircuitError, match=r"reserves|names its wires") as refused:
        to_verilog(Circuit(2, [(6, 0, 1)], [2]), name)
    assert f"Hint: another one, such as {name}_circuit" in str(refused.value)


@pytest.mark.parametrize("name", ["fn", "module", "array", "u32", "wgsl", "self", "x", "g1"])
def test_names_that_wgsl_or_the_function_reserves_are_refused(name: str) -> None:
    with pytest.raises(CircuitError, match="WGSL"):
        to_wgsl(Circuit(2, [(6, 0, 1)], [2]), name)


@pytest.mark.parametrize("name", ["small_circuit", "xor2", "main", "vec", "Module", "gate", "y_x"])
def test_every_name_that_is_taken_compiles_as_verilog(name: str, tmp_path: Path) -> None:
    text = to_verilog(Circuit(2, [(6, 0, 1)], [2]), name)
    bench = f"""
module bench;
    reg [1:0] x = 2'b01;
    wire [0:0] y;
    {name} dut(.x(x), .y(y));
    initial begin #1 $display("%b", y); $finish; end
endmodule
"""
    assert simulate(text, bench, tmp_path) == ["1"]
