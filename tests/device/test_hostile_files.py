"""Files that are damaged, odd or malicious: every reader refuses them in one line that names the file."""

from __future__ import annotations

import gzip
import io
import json
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import shadergrad as sg
from shadergrad import cli, interop
from shadergrad.checkpoint import load_checkpoint, load_tensors, save_checkpoint, save_tensors
from shadergrad.data import DataError, ImageFolder
from shadergrad.data.dataset_formats import read_idx
from shadergrad.data.text import read_text
from shadergrad.errors import CheckpointError, PlanError, ShadergradError
from shadergrad.interop import InteropError
from shadergrad.logic import circuit
from shadergrad.logic.circuit import CircuitError
from shadergrad.logic.convergence_study import Outcome
from shadergrad.logic.convergence_study import read as read_study
from shadergrad.plan import Plan

DEEP = "[" * 100_000
DEEP_OBJECT = '{"a": ' * 100_000
BIG = str(1 << 50)


def safetensors(header: dict[str, Any] | bytes, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def one_tensor(dtype: str, nbytes: int, meta: str | None = None) -> bytes:
    """A safetensors file with two numbers `w`; with `meta`, as this library wrote them before there were checksums."""
    header: dict[str, Any] = {"w": {"dtype": dtype, "shape": [2], "data_offsets": [0, nbytes]}}
    if meta is not None:
        header["__metadata__"] = {"format": "shadergrad", "version": "1", "meta": meta}
    return safetensors(header, bytes(nbytes))


def saved(structure: Any) -> bytes:
    """What sg.save would write of this structure, if it could."""
    return one_tensor("F32", 8, json.dumps({"structure": structure}))


def npz(name: str, content: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), content)
    return target.getvalue()


def npy(descr: str, shape: str, data: bytes = b"") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def patched(archive: bytes, local: int, central: int, value: int) -> bytes:
    """A zip archive of one entry, with a byte of both of its headers changed."""
    changed = bytearray(archive)
    changed[local] = changed[changed.find(b"PK\x01\x02") + central] = value
    return bytes(changed)


def pytorch(value: Any) -> bytes:
    target = io.BytesIO()
    torch.save(value, target)
    return target.getvalue()


def nested() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a prototype
        return torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])


def png(width: int, height: int) -> bytes:
    """The head of a picture of that size, without its pixels."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    head = struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return b"\x89PNG\r\n\x1a\n" + head


def picture(mode: str, kind: str) -> bytes:
    target = io.BytesIO()
    Image.new(mode, (100, 100)).save(target, kind)
    return target.getvalue()


CIRCUIT = {
    "format": "shadergrad.circuit",
    "version": 1,
    "inputs": [f"i{k}" for k in range(9)],
    "gates": [["g", "AND", "i0", "i1"]],
    "outputs": [["y", "g"]],
}
CELL = {
    "format": "shadergrad.cell",
    "version": 1,
    "channels": 1,
    "border": "zeros",
    "fire_rate": 1.0,
    "circuit": CIRCUIT,
}


def circuit_file(**changes: Any) -> bytes:
    return json.dumps(CIRCUIT | changes).encode()


def cell_file(**changes: Any) -> bytes:
    return json.dumps(CELL | changes).encode()


STUDY = {"settings": {"experiment": "life"}, "outcomes": []}


def study_file(**changes: Any) -> bytes:
    return json.dumps(STUDY | changes).encode()


def a_study(path: Path) -> Any:
    return read_study(path, {"experiment": "life"})


def an_idx(path: Path) -> Any:
    return read_idx(path, (100, 28, 28))


def a_picture(path: Path) -> Any:
    folder = path.parent / "pictures" / "class"
    folder.mkdir(parents=True)
    path.rename(folder / path.name)
    return ImageFolder(folder.parent)[0]


Row = tuple[Callable[[Path], Any], type[ShadergradError], bytes, str]

FILES: dict[str, Row] = {
    # what a checkpoint can hold
    "checkpoint bfloat16": (load_tensors, CheckpointError, one_tensor("BF16", 4, "{}"), "holds w in BF16"),
    "checkpoint float8": (load_tensors, CheckpointError, one_tensor("F8_E4M3", 2, "{}"), "holds w in F8_E4M3"),
    "checkpoint float4": (load_tensors, CheckpointError, one_tensor("F4", 1, "{}"), ""),
    "checkpoint deep header": (load_tensors, CheckpointError, safetensors(DEEP.encode()), "no safetensors file"),
    "checkpoint deep": (load_tensors, CheckpointError, one_tensor("F32", 8, DEEP), "damaged description"),
    "checkpoint deep object": (load_tensors, CheckpointError, one_tensor("F32", 8, DEEP_OBJECT), "damaged description"),
    "checkpoint number": (load_tensors, CheckpointError, one_tensor("F32", 8, "3"), "damaged description"),
    "checkpoint long header": (load_tensors, CheckpointError, b"\xff" * 16, "no safetensors file"),
    "checkpoint empty": (load_tensors, CheckpointError, b"", "no safetensors file"),
    "checkpoint others'": (load_tensors, CheckpointError, one_tensor("F32", 8), "not one that shadergrad wrote"),
    # what sg.load puts together
    "load bfloat16": (sg.load, CheckpointError, one_tensor("BF16", 4, '{"structure": 3}'), "holds w in BF16"),
    "load missing array": (sg.load, CheckpointError, saved({"a": {"array": "v"}}), "names an array 'v'"),
    "load odd array": (sg.load, CheckpointError, saved({"array": ["w"]}), "names an array"),
    "load odd tuple": (sg.load, CheckpointError, saved({"tuple": 3}), "no tuple is '3'"),
    "load odd dict": (sg.load, CheckpointError, saved({"dict": [[["w"], 1]]}), "no dict is"),
    # files of arrays
    "safetensors float8": (interop.read_arrays, InteropError, one_tensor("F8_E5M2", 2), "w in F8_E5M2: NumPy has no"),
    "safetensors deep": (interop.read_arrays, InteropError, safetensors(DEEP.encode()), "no safetensors file"),
    "safetensors size": (
        interop.read_arrays,
        InteropError,
        safetensors({"w": {"dtype": "U8", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 1]}}, b"a"),
        "no safetensors file",
    ),
    "npz object": (interop.load_npz, InteropError, npz("a.npy", npy("'|O'", "(1,)")), "no .npz file"),
    "npz size": (interop.load_npz, InteropError, npz("a.npy", npy("'<f8'", f"({BIG},)")), "no .npz file"),
    "npz negative": (interop.load_npz, InteropError, npz("a.npy", npy("'<f8'", "(-1,)")), "no .npz file"),
    "npz open bracket": (interop.load_npz, InteropError, npz("a.npy", npy("(", "(1,)")), "no .npz file"),
    "npz short": (interop.load_npz, InteropError, npz("a.npy", npy("'<f8'", "(4,)", bytes(8))), "no .npz file"),
    "npz text": (interop.load_npz, InteropError, npz("a.txt", b"text"), "'a.txt', which is no array"),
    "npz not npy": (interop.load_npz, InteropError, npz("a.npy", b"text"), "'a', which is no array"),
    "npz strings": (interop.load_npz, InteropError, npz("a.npy", npy("'<U1'", "(1,)", bytes(4))), "no tensor can"),
    "npz records": (interop.load_npz, InteropError, npz("a.npy", npy("[('x', '<f4')]", "(1,)", bytes(4))), "no tensor"),
    "npz encrypted": (interop.load_npz, InteropError, patched(npz("a.npy", b"x"), 6, 8, 1), "encrypted"),
    "npz method": (interop.load_npz, InteropError, patched(npz("a.npy", b"x"), 8, 10, 99), "compression"),
    "npz one array": (interop.load_npz, InteropError, npy("'<f4'", "(1,)", bytes(4)), "single array"),
    "pt empty": (interop.read_arrays, InteropError, b"", "cannot be loaded"),
    "pt number": (interop.read_arrays, InteropError, pytorch(3), "more than a state dict"),
    "pt sparse": (interop.read_arrays, InteropError, pytorch({"a": torch.eye(2).to_sparse()}), "torch.sparse_coo"),
    "pt meta": (interop.read_arrays, InteropError, pytorch({"a": torch.empty(2, device="meta")}), "on meta"),
    "pt nested": (interop.read_arrays, InteropError, pytorch({"a": nested()}), "NumPy has no torch.float32"),
    # circuits and cells
    "circuit deep": (circuit.load, CircuitError, DEEP.encode(), "nested too deeply"),
    "circuit deep object": (circuit.load, CircuitError, DEEP_OBJECT.encode(), "nested too deeply"),
    "circuit no text": (circuit.load, CircuitError, b"\xff\xff{", "no JSON"),
    "circuit number": (circuit.load, CircuitError, b"9" * 5000, "no JSON"),
    "circuit format": (circuit.load, CircuitError, circuit_file(format=["a"]), "the format is"),
    "circuit kind": (circuit.load, CircuitError, circuit_file(gates=[["g", ["AND"], "i0", "i1"]]), "is of kind"),
    "circuit gates": (circuit.load, CircuitError, circuit_file(gates={"g": 1}), "gates is a list of"),
    "circuit long entry": (circuit.load, CircuitError, circuit_file(gates=[["g" * 10**6]]), "gates is a list of"),
    "circuit long cycle": (
        circuit.load,
        CircuitError,
        circuit_file(gates=[[f"g{k}", "AND", f"g{(k + 1) % 1000}", "i0"] for k in range(1000)], outputs=[["y", "g0"]]),
        "form a cycle",
    ),
    "cell circuit": (circuit.load, CircuitError, cell_file(circuit=3), "an object as circuit"),
    "cell border": (circuit.load, CircuitError, cell_file(border=["zeros"]), "border is"),
    "cell rate": (circuit.load, CircuitError, cell_file(fire_rate=10**400), "fire_rate is 1000"),
    "cell rate nan": (circuit.load, CircuitError, cell_file(fire_rate=float("nan")), "fire_rate is nan"),
    "cell rate true": (circuit.load, CircuitError, cell_file(fire_rate=True), "a number as fire_rate"),
    # studies
    "study deep": (a_study, CheckpointError, DEEP.encode(), "no study's file"),
    "study list": (a_study, CheckpointError, b"[]", "no study's file"),
    "study settings": (a_study, CheckpointError, study_file(settings=3), "no study's file"),
    "study outcomes": (a_study, CheckpointError, study_file(outcomes=[3]), "no study's file"),
    "study text": (
        a_study,
        CheckpointError,
        study_file(outcomes=[dict.fromkeys((f.name for f in fields(Outcome)), "many")]),
        "'many' is no number",
    ),
    # data sets
    "idx empty": (an_idx, DataError, b"", "begins with nothing"),
    "idx huge": (an_idx, DataError, b"\0\0\x08\x03" + b"\xff" * 12, "that of the data set has"),
    "idx bomb": (an_idx, DataError, gzip.compress(b"\0\0\x08\x03" + bytes(10**7), mtime=0), "has bytes after its end"),
    "picture none": (a_picture, DataError, b"text", "no whole picture"),
    "picture of 40,000 megapixels": (a_picture, DataError, png(200_000, 200_000), "no whole picture"),
    "picture cut": (a_picture, DataError, picture("RGB", "BMP")[:9999], "no whole picture"),
    "picture of 16 bits": (a_picture, DataError, picture("I;16", "PNG"), "pixels of mode I;16"),
    "text no UTF-8": (read_text, DataError, b"\xff\xff", "not a text file in UTF-8"),
}
SUFFIXES = {"pt": ".pt", "npz": ".npz", "picture": ".png"}


@pytest.mark.parametrize("name", [name for name in FILES if "bfloat16" in name or "float8" in name])
def test_types_that_another_package_adds_to_numpy_change_nothing(tmp_path: Path, name: str) -> None:
    """As onnx and jax do, which import ml_dtypes."""
    pytest.importorskip("ml_dtypes", reason="no package adds types to NumPy")
    test_a_hostile_file_is_refused_in_one_line_that_names_it(tmp_path, name)


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_refused_in_one_line_that_names_it(tmp_path: Path, name: str) -> None:
    read, kind, content, words = FILES[name]
    path = tmp_path / f"file{SUFFIXES.get(name.split()[0], '.safetensors')}"
    path.write_bytes(content)
    with pytest.raises(kind) as caught:
        read(path)
    message = str(caught.value)
    assert path.name in message
    assert words in message
    assert "\n" not in message
    assert len(message) < 500


@pytest.mark.parametrize(
    "read", [load_tensors, sg.load, interop.read_arrays, interop.load_npz, circuit.load, read_text]
)
@pytest.mark.parametrize("there", ["nothing", "a folder"])
def test_what_is_no_file_is_refused_by_name(tmp_path: Path, read: Callable[[Path], Any], there: str) -> None:
    path = tmp_path / "file.npz"
    if there == "a folder":
        path.mkdir()
    with pytest.raises(ShadergradError, match=r"file\.npz"):
        read(path)


# --- texts that are plans


@pytest.fixture(scope="module")
def plan_text() -> str:
    step = sg.compile(lambda x: (x * 2 + 1).sum())
    for _ in range(2):
        step(sg.ones(4, device="cpu"))
    return step.plan.to_json()


@pytest.mark.parametrize("text", [DEEP, DEEP_OBJECT, "", "3", "[]", "{}", '{"format": 2}'], ids=lambda text: text[:6])
def test_text_that_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match=r"no plan|has format"):
        Plan.from_json(text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("target", "checked"), "yes"),
        (("target", "nonsense"), 1),
        (("buffers", 0, "shape"), 3),
        (("buffers", 0, "shape"), [-1]),
        (("buffers", 0, "dtype"), "float128"),
        (("buffers", 0, "role"), "spare"),
        (("buffers", 0, "aliases"), 99),
        (("buffers", 0, "slot"), -1),
        (("kernels", 0, "primitive"), {"primitive": "Nonsense"}),
        (("kernels", 0, "primitive"), {"primitive": ["Add"]}),
        (("kernels", 0, "access"), ["read"] * 9),
        (("dispatches", 0, "kernel"), 99),
        (("dispatches", 0, "kernel"), -1),
        (("dispatches", 0, "buffers"), [0] * 9),
        (("dispatches", 0, "grid"), [1]),
        (("inputs",), [99]),
        (("outputs",), ["0"]),
        (("slots",), [-4]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_plan_with_something_odd_in_it_is_refused(plan_text: str, path: tuple[Any, ...], value: Any) -> None:
    document = json.loads(plan_text)
    assert Plan.from_json(json.dumps(document)).to_json() == plan_text
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(PlanError, match="the text is no plan"):
        Plan.from_json(json.dumps(document))


# --- what a training resumes from


def train(out: Path, *options: object) -> int:
    return cli.run(["train", "xor", "--device", "cpu", "--out", str(out), *map(str, options)])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    assert train(out, "--epochs", 1) == 0
    return out


def assert_not_resumed(capsys: pytest.CaptureFixture[str], out: Path, *words: str) -> None:
    capsys.readouterr()
    assert train(out, "--epochs", 2, "--resume") == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    for word in words:
        assert word in error


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("recipe", None),
        ("position", 3),
        ("position", {"nonsense": 1}),
        ("hyperparameters", [1]),
        ("model", 3),
        ("model", {"array": "nowhere"}),
        ("optimizer", [1]),
        ("optimizer", {"state": {}, "param_groups": 3}),
    ],
)
def test_a_checkpoint_with_another_description_is_not_resumed(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: Any
) -> None:
    arrays, meta = load_checkpoint(trained)
    save_checkpoint(tmp_path, arrays, meta | {key: value})
    assert_not_resumed(capsys, tmp_path)


def test_a_checkpoint_with_other_random_states_is_not_resumed(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays, meta = load_checkpoint(trained)
    save_checkpoint(tmp_path, arrays | {"random/stream": np.zeros(1, np.uint32)}, meta)
    assert_not_resumed(capsys, tmp_path)


@pytest.mark.parametrize(
    "lines",
    ["3\n", DEEP + "\n{}\n", '{"epoch": \n{"epoch": 1}\n', b"\xff\xff\n{}\n"],
    ids=lambda lines: repr(lines[:8]),
)
def test_metrics_that_cannot_be_kept_are_not_dropped(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: str | bytes
) -> None:
    arrays, meta = load_checkpoint(trained)
    save_checkpoint(tmp_path, arrays, meta)
    content = lines if isinstance(lines, bytes) else lines.encode()
    (tmp_path / "metrics.jsonl").write_bytes(content)
    assert_not_resumed(capsys, tmp_path, "metrics.jsonl is damaged: line 1 is no JSON object")
    assert (tmp_path / "metrics.jsonl").read_bytes() == content


def test_rows_of_metrics_without_a_number_do_not_outlive_a_resume(trained: Path, tmp_path: Path) -> None:
    arrays, meta = load_checkpoint(trained)
    save_checkpoint(tmp_path, arrays, meta)
    (tmp_path / "metrics.jsonl").write_text(
        '{"epoch": 1, "loss": 1}\n{"epoch": "one"}\n{"epoch": [1]}\n{"epoch": 2, "l'
    )
    assert train(tmp_path, "--epochs", 2, "--resume") == 0
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2]


def test_arrays_of_other_machines_are_read(tmp_path: Path) -> None:
    """Odd, and not hostile: the other byte order, types that no tensor has, bfloat16 of others."""
    (tmp_path / "a.npz").write_bytes(npz("a.npy", npy("'>f4'", "(1,)", bytes([63, 128, 0, 0]))))
    assert interop.load_npz(tmp_path / "a.npz")["a"].tolist() == [1]
    (tmp_path / "b.safetensors").write_bytes(one_tensor("BF16", 4))
    assert interop.read_arrays(tmp_path / "b.safetensors")["w"].tolist() == [0, 0]
    save_tensors(tmp_path / "c", {"a": np.array([1 << 63], np.uint64)}, {})
    assert load_tensors(tmp_path / "c")[0]["a"].tolist() == [1 << 63]
