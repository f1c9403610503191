"""Names in exports: what is reserved or no name is refused or mended, and the tools of each language take all others."""

from __future__ import annotations

import json
import shutil
import subprocess
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shadergrad.logic.circuit import (
    CellCircuit,
    Circuit,
    CircuitClassifier,
    CircuitError,
    cell_to_c,
    cell_to_verilog,
    classifier_to_javascript,
    classifier_to_verilog,
    from_json,
    native_board,
    to_aiger,
    to_blif,
    to_c,
    to_dot,
    to_json,
    to_svg,
    to_verilog,
    to_wgsl,
)

XOR = Circuit(2, [(6, 0, 1)], [2])
CELL = CellCircuit(Circuit(9, [(1, 3, 4)], [9]))
CLASSIFIER = CircuitClassifier(Circuit(2, [(1, 0, 1), (14, 0, 1)], [2, 3]), 2)

NO_IDENTIFIERS = ["", "3x", "a b", "é", "x-y", "a\n", "a;b", "_x", "$x", "π", "a.b"]
KEYWORDS = [
    "small",
    "wire",
    "module",
    "fn",
    "class",
    "main",
    "int",
    "function",
    "export",
    "let",
    "static",
    "default",
    "enum",
    "endmodule",
]
OWN = [
    "x",
    "y",
    "g0",
    "x12",
    "w0",
    "label",
    "votes",
    "ones",
    "decide",
    "first",
    "best",
    "count",
    "counts",
    "gates",
    "evaluate",
    "v",
    "c",
    "i",
]
OWN += ["CLASSES", "GROUP", "rule", "cell_at", "patch", "state", "rows", "clk", "NAME", "automaton", "classifier", "n"]
TYPES = [
    "u32",
    "array",
    "f32",
    "vec2",
    "bool",
    "min",
    "vec3u",
    "size_t",
    "uint64_t",
    "memcpy",
    "inline",
    "restrict",
    "NULL",
    "logic",
    "bit",
    "wone",
    "wreal",
]
CANDIDATES = sorted({*KEYWORDS, *OWN, *TYPES})

NAMED: dict[str, Callable[[str], str]] = {
    "c": lambda name: to_c(XOR, name),
    "cell_c": lambda name: cell_to_c(CELL, name),
    "verilog": lambda name: to_verilog(XOR, name),
    "cell_verilog": lambda name: cell_to_verilog(CELL, 2, 3, name),
    "classifier_verilog": lambda name: classifier_to_verilog(CLASSIFIER, name),
    "wgsl": lambda name: to_wgsl(XOR, name),
}


@pytest.mark.parametrize("name", NO_IDENTIFIERS)
@pytest.mark.parametrize("export", NAMED)
def test_what_is_no_identifier_is_refused(export: str, name: str) -> None:
    with pytest.raises(CircuitError, match="is no identifier; use letters, digits and _, a letter first"):
        NAMED[export](name)


def refusal(export: str, name: str) -> str:
    """What an export says against a name, or nothing."""
    try:
        NAMED[export](name)
    except CircuitError as refused:
        return str(refused)
    return ""


def taken(export: str) -> list[str]:
    """Those of the candidates that an export does not refuse; each refusal hints at a name that is taken."""
    refused = {name: said for name in CANDIDATES if (said := refusal(export, name))}
    for name, said in refused.items():
        assert f"Hint: another one, such as {name}_circuit" in said
        assert not refusal(export, f"{name}_circuit")
    return [name for name in CANDIDATES if name not in refused]


@pytest.mark.parametrize("standard", ["-std=c99", "-std=gnu17"])
@pytest.mark.parametrize("export", ["c", "cell_c"])
def test_c_compiles_under_every_name_as_it_is_a_prefix(export: str, standard: str, tmp_path: Path) -> None:
    compiler = native_board.find_compiler()
    if compiler is None:
        pytest.skip("no C compiler: install one (Debian, Ubuntu: gcc)")
    assert taken(export) == CANDIDATES
    (tmp_path / "all.c").write_text("".join(NAMED[export](name) for name in CANDIDATES), encoding="ascii")
    command = [compiler, standard, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "all.c"]
    subprocess.run(command, check=True, cwd=tmp_path)


@pytest.mark.parametrize("standard", ["-g2001", "-g2012"])
@pytest.mark.parametrize("export", ["verilog", "cell_verilog", "classifier_verilog"])
def test_verilog_compiles_under_every_name_that_is_taken(export: str, standard: str, tmp_path: Path) -> None:
    if shutil.which("iverilog") is None:
        pytest.skip("VERILOG NOT TESTED, no Icarus Verilog: apt-get install iverilog")
    names = taken(export)
    if export != "cell_verilog":  # whose names are prefixes
        assert not {"small", "wire", "module", "class", "int", "logic", "x12"} & set(names)
    assert {"main", "fn", "label", "votes", "gates", "decide", "rule", "patch", "u32"} <= set(names)
    for name in names:
        (tmp_path / f"{name}.v").write_text(NAMED[export](name), encoding="ascii")
        command = ["iverilog", standard, "-Wall", "-Wno-timescale", "-o", "all", f"{name}.v"]
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (told.returncode, told.stderr) == (0, ""), name


def test_wgsl_compiles_under_every_name_that_is_taken(webgpu: object) -> None:
    from wgpu.utils import get_default_device

    names = taken("wgsl")
    assert not {"fn", "module", "class", "array", "u32", "x", "y", "g0"} & set(names)
    assert {"main", "small", "wire", "label", "int"} <= set(names)
    kernel = "@group(0) @binding(0) var<storage, read_write> z: array<u32, 1>;\n@compute @workgroup_size(1) fn entry() { z[0] = NAME(array<u32, 2>(1u, 2u))[0]; }"
    for name in names:
        get_default_device().create_shader_module(code=NAMED["wgsl"](name) + kernel.replace("NAME", name))


# -- names of inputs and outputs, which any text may be

ODD = [
    "a b",
    "é",
    "π=3",
    "#x",
    "a\nb",
    "small",
    "3x",
    '"',
    "\\",
    "&lt;<",
    "\x01",
    "'",
    "a\tb",
    "\\N",
    "0",
    ".end",
    "c",
    "wire",
]
NAMES_OF = {
    "odd": (ODD, ["g0", "g1", "out.a b"]),
    "clashing": (["g0", "out.y", "y", "gate.g0", "in.0", "out.out.y"], ["y", "out.y", "z"]),
    "alike": (["a b", "a_b", "a\nb"], ["#", "=", "\\"]),
}


def named(kind: str) -> Circuit:
    inputs, outputs = NAMES_OF[kind]
    n = len(inputs)
    gates = [(6, 0, 1), (1, n, 2), (7, n + 1, n - 1)]
    return Circuit(n, gates, [n, n + 1, n + 2], inputs, outputs)


@pytest.mark.parametrize("kind", NAMES_OF)
def test_blif_has_one_word_a_name_and_no_other_signs(kind: str) -> None:
    circuit = named(kind)
    lines = to_blif(circuit, "a model #1\n.end").splitlines()
    assert lines[0] == ".model a_model__1_.end"
    inputs, outputs = lines[1].split()[1:], lines[2].split()[1:]
    assert (len(inputs), len(outputs)) == (circuit.inputs, 3)
    driven = [line.split()[-1] for line in lines if line.startswith(".names")]
    assert len({*inputs, *driven}) == len(inputs) + len(driven) == circuit.inputs + 6  # each is driven once
    assert set(outputs) <= set(driven)
    assert not set('#\\="') & set("".join(lines))
    assert "".join(lines).isascii()
    with pytest.raises(CircuitError, match="the name ' ' is empty"):
        to_blif(circuit, " ")


@pytest.mark.parametrize("kind", NAMES_OF)
def test_aiger_names_each_input_and_output_on_a_line(kind: str) -> None:
    circuit = named(kind)
    lines = to_aiger(circuit).split("\n")
    header = [int(number) for number in lines[0].split()[1:]]
    symbols = lines[1 + header[1] + header[3] + header[4] : -1]
    assert [symbol.split(" ")[0] for symbol in symbols] == [*(f"i{k}" for k in range(circuit.inputs)), "o0", "o1", "o2"]
    if kind == "odd":
        assert symbols[:5] == ["i0 a b", "i1 é", "i2 π=3", "i3 #x", "i4 a b"]


@pytest.mark.parametrize("kind", NAMES_OF)
def test_drawings_show_names_as_they_are(kind: str) -> None:
    circuit = named(kind)
    shown = [name.replace("\n", " ").replace("\t", " ").replace("\x01", " ") for name in NAMES_OF[kind][0]]
    root = xml.etree.ElementTree.fromstring(to_svg(circuit))
    labels = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {shown[0], shown[1], shown[2], shown[-1]} <= set(labels)
    everything = Circuit(len(shown), [], range(len(shown)), NAMES_OF[kind][0])
    lines = [line for line in to_dot(everything).splitlines() if "ellipse" in line]
    labels = [line.partition("label=")[2].removesuffix("];") for line in lines]
    assert [label[1:-1].replace('\\"', '"').replace("\\\\", "\\").replace("&amp;", "&") for label in labels] == shown


@pytest.mark.parametrize("kind", NAMES_OF)
def test_files_give_back_every_name(kind: str) -> None:
    circuit = named(kind)
    assert from_json(to_json(circuit)) == circuit


@pytest.mark.parametrize("kind", NAMES_OF)
def test_languages_hold_no_name_of_an_input_or_output(kind: str) -> None:
    """C, Verilog and WGSL number inputs and outputs, so the text is that of the circuit without names."""
    circuit = named(kind)
    plain = Circuit(circuit.inputs, list(circuit.gates()), circuit.outputs)
    for export in (to_c, to_verilog, to_wgsl):
        assert export(circuit) == export(plain)


def test_javascript_of_a_named_circuit_runs(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("no Node: install nodejs")
    circuit = named("odd")
    classifier = CircuitClassifier(circuit, 3)
    bits = np.random.default_rng(0).integers(0, 2, (9, circuit.inputs))
    (tmp_path / "classifier.mjs").write_text(classifier_to_javascript(classifier), encoding="utf-8")
    script = f'import {{ predict }} from "./classifier.mjs"; console.log(JSON.stringify([...await predict({json.dumps(bits.ravel().tolist())})]));'
    (tmp_path / "run.mjs").write_text(script, encoding="utf-8")
    told = subprocess.run(["node", "run.mjs"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert json.loads(told) == classifier.predict(bits).tolist()
