"""Checkpoints come back as they were, say what is wrong with them, and survive a death in the middle of a save."""

from __future__ import annotations

import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from shadergrad import cli
from shadergrad.checkpoint import (
    DESCRIPTION_FILE,
    load_checkpoint,
    load_tensors,
    pack,
    save_checkpoint,
    save_tensors,
    unpack,
)
from shadergrad.errors import CheckpointError
from shadergrad.system import atomic_files

ARRAYS = {
    "matrix": np.arange(12, dtype=np.float32).reshape(3, 4),
    "transposed": np.arange(12, dtype=np.float32).reshape(3, 4).T,
    "every other": np.arange(10, dtype=np.int64)[::2],
    "scalar": np.array(3.5, np.float64),
    "empty": np.zeros((0, 3), np.uint32),
    "flags": np.array([True, False]),
    "half": np.array([1.5, -0.0], np.float16),
}
META = {"epoch": 3, "lr": 0.1, "text": "ü", "none": None, "list": [1, {"a": True}]}


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_array_equal(found[name], array, strict=True)


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path / "new" / "folder", ARRAYS, META)
    arrays, meta = load_checkpoint(path.parent)
    assert_same(arrays, ARRAYS)
    assert meta == META


def test_the_json_beside_it_describes_it_for_people(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, ARRAYS, META)
    described = json.loads((tmp_path / DESCRIPTION_FILE).read_text())
    assert described["epoch"] == 3
    assert described["tensors"]["matrix"] == "float32 [3, 4]"


def test_only_the_two_files_are_left_in_the_folder(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, ARRAYS, META)
    save_checkpoint(tmp_path, ARRAYS, META)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.json", "checkpoint.safetensors"]


def test_files_get_the_permissions_that_the_user_gives_to_new_files(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    save_tensors(tmp_path / "saved", ARRAYS, META)
    assert (tmp_path / "saved").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("kept", [0, 7, 100, -1])
def test_a_truncated_file_is_named_as_such(tmp_path: Path, kept: int) -> None:
    path = save_checkpoint(tmp_path, ARRAYS, META)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors is no safetensors file, or was cut short"):
        load_checkpoint(tmp_path)


def test_a_text_file_is_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a checkpoint, but long enough to be one\n" * 100)
    with pytest.raises(CheckpointError, match=r"notes\.txt is no safetensors file"):
        load_tensors(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_safetensors_file_of_another_library_is_told_apart(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    save_file({"weight": np.ones(3, np.float32)}, tmp_path / "x.safetensors", metadata)
    with pytest.raises(CheckpointError, match="not one that shadergrad wrote"):
        load_tensors(tmp_path / "x.safetensors")


def test_another_format_version_says_which_it_is_and_which_is_read(tmp_path: Path) -> None:
    metadata = {"format": "shadergrad", "version": "99", "meta": "{}"}
    save_file({"weight": np.ones(3, np.float32)}, tmp_path / "x.safetensors", metadata)
    with pytest.raises(CheckpointError, match="format version 99; this shadergrad reads versions 1 and 2"):
        load_tensors(tmp_path / "x.safetensors")


def test_a_damaged_description_is_reported(tmp_path: Path) -> None:
    metadata = {"format": "shadergrad", "version": "1", "meta": '{"epoch": '}
    save_file({"weight": np.ones(3, np.float32)}, tmp_path / "x.safetensors", metadata)
    with pytest.raises(CheckpointError, match="damaged description"):
        load_tensors(tmp_path / "x.safetensors")


@pytest.mark.parametrize("meta", ["[" * 100_000, '{"a": ' * 100_000, "3", "null", "[]"], ids=lambda text: text[:6])
def test_a_description_that_is_none_is_reported(tmp_path: Path, meta: str) -> None:
    metadata = {"format": "shadergrad", "version": "1", "meta": meta}
    save_file({"weight": np.ones(3, np.float32)}, tmp_path / "x.safetensors", metadata)
    with pytest.raises(CheckpointError, match="damaged description"):
        load_tensors(tmp_path / "x.safetensors")


def test_a_file_from_before_there_were_checksums_still_loads(tmp_path: Path) -> None:
    metadata = {"format": "shadergrad", "version": "1", "meta": '{"epoch": 3}'}
    save_file({"weight": np.ones(3, np.float32)}, tmp_path / "x.safetensors", metadata)
    arrays, meta = load_tensors(tmp_path / "x.safetensors")
    assert_same(arrays, {"weight": np.ones(3, np.float32)})
    assert meta == {"epoch": 3}


def test_a_file_of_today_does_not_load_without_its_checksum(tmp_path: Path) -> None:
    metadata = {"format": "shadergrad", "version": "2", "meta": "{}"}
    save_file({"weight": np.ones(3, np.float32)}, tmp_path / "x.safetensors", metadata)
    with pytest.raises(CheckpointError, match="it lacks its checksum"):
        load_tensors(tmp_path / "x.safetensors")


def test_a_flipped_bit_anywhere_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    save_tensors(path, {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "empty": np.zeros((0, 1))}, {"epoch": 3})
    whole = path.read_bytes()

    def loads() -> bool:
        try:
            load_tensors(path)
        except CheckpointError:
            return False
        return True

    silent = []
    with path.open("r+b", buffering=0) as file:
        for place, byte in enumerate(whole):
            for bit in range(8):
                file.seek(place)
                file.write(bytes([byte ^ 1 << bit]))
                silent += [(place, bit)] if loads() else []
            file.seek(place)
            file.write(bytes([byte]))
    assert not silent
    assert loads()


def test_equal_contents_give_equal_bytes(tmp_path: Path) -> None:
    """Of a random order of four entries, eight files would agree once in 24^7 times."""
    for k in range(8):
        save_tensors(tmp_path / f"{k}", ARRAYS, META)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_identical_runs_write_identical_checkpoints(tmp_path: Path) -> None:
    for name in ("a", "b"):
        options = ["--epochs", "2", "--device", "cpu", "--out", str(tmp_path / name)]
        assert cli.run(["train", "xor", *options]) == 0
    for file in ("checkpoint.safetensors", "checkpoint.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_data_begins_where_any_dtype_may(tmp_path: Path) -> None:
    """So that others can map the file to memory."""
    for k in range(8):
        save_tensors(tmp_path / "x", ARRAYS, {"text": "a" * k})
        assert int.from_bytes((tmp_path / "x").read_bytes()[:8], "little") % 8 == 0


def test_arrays_of_another_byte_order_come_back_in_ours(tmp_path: Path) -> None:
    save_tensors(tmp_path / "x", {"a": np.array([1.5, 2], ">f4"), "b": np.array([1, 2], "<i8")}, {})
    assert_same(load_tensors(tmp_path / "x")[0], {"a": np.array([1.5, 2], "f4"), "b": np.array([1, 2], "i8")})


@pytest.mark.parametrize("array", [np.array(["text"]), np.array([None]), np.array(["2020-01-01"], "datetime64[D]")])
def test_arrays_that_are_no_numbers_are_refused_before_anything_is_written(tmp_path: Path, array: np.ndarray) -> None:
    with pytest.raises(CheckpointError, match="cannot save"):
        save_tensors(tmp_path / "x", {"a": array}, {})
    assert not list(tmp_path.iterdir())


def test_names_that_no_file_can_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot save"):
        save_tensors(tmp_path / "x", {"\ud800": np.zeros(1)}, {})


def test_a_description_that_could_not_be_read_back_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["shadergrad.checkpoint"], "MAX_HEADER", 1000)  # sg.checkpoint is a function
    save_tensors(tmp_path / "x", {}, {"text": "a" * 700})
    with pytest.raises(CheckpointError, match=r"take 1\d\d\d bytes, and 1000 can be read back.*into an array"):
        save_tensors(tmp_path / "x", {}, {"text": "a" * 1000})
    assert load_tensors(tmp_path / "x") == ({}, {"text": "a" * 700})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"there is no checkpoint .*checkpoint\.safetensors"):
        load_checkpoint(tmp_path / "nowhere")


def test_a_folder_that_cannot_be_made_is_a_checkpoint_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot write"):
        save_checkpoint(tmp_path / "file", ARRAYS, META)


@pytest.mark.parametrize("meta", [{"value": float("nan")}, {"value": object()}])
def test_a_description_that_is_not_json_is_refused_before_anything_is_written(tmp_path: Path, meta: dict) -> None:
    with pytest.raises(CheckpointError, match="description is not JSON"):
        save_checkpoint(tmp_path, ARRAYS, meta)
    assert not list(tmp_path.iterdir())


def test_a_failing_save_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, ARRAYS, META)

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(CheckpointError, match=r"No space left on device\. What was there before is unchanged"):
        save_checkpoint(tmp_path, {"matrix": np.zeros(3)}, {"epoch": 4})
    assert_same(load_checkpoint(tmp_path)[0], ARRAYS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.json", "checkpoint.safetensors"]


def test_a_disk_that_does_not_confirm_the_folder_is_not_said_to_have_kept_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_tensors(tmp_path / "x", ARRAYS, META)
    flush = os.fsync

    def broken_folder(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(5, "Input/output error")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", broken_folder)
    with pytest.raises(CheckpointError, match=r"x is written, but the disk did not confirm it: Input/output error"):
        save_tensors(tmp_path / "x", ARRAYS, {"epoch": 4})
    assert load_tensors(tmp_path / "x")[1] == {"epoch": 4}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no folders to flush")
def test_a_save_flushes_the_file_then_renames_it_then_flushes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not flushed can be lost in a power cut: the file's contents, its new name, a new folder's own name."""
    events: list[tuple[str, int]] = []
    flush, rename = os.fsync, os.replace

    def watched_flush(descriptor: int) -> None:
        events.append(("flush", os.fstat(descriptor).st_ino))
        flush(descriptor)

    def watched_rename(source: Path, target: Path) -> None:
        events.append(("rename", os.stat(source).st_ino))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", watched_flush)
    monkeypatch.setattr(os, "replace", watched_rename)
    save_tensors(tmp_path / "a" / "b" / "x", ARRAYS, META)
    root, a, b, x = (path.stat().st_ino for path in (tmp_path, tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/x"))
    assert events == [("flush", root), ("flush", a), ("flush", x), ("rename", x), ("flush", b)]


# --- several writers


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_save_in_the_middle_of_another_harms_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    original = getattr(os, moment)

    def interrupted(*args: Any) -> None:
        monkeypatch.setattr(os, moment, original)
        save_checkpoint(tmp_path, {"matrix": np.zeros(3)}, {"writer": 2})
        assert load_checkpoint(tmp_path)[1] == {"writer": 2}
        original(*args)

    monkeypatch.setattr(os, moment, interrupted)
    save_checkpoint(tmp_path, ARRAYS, {"writer": 1})
    assert_same(load_checkpoint(tmp_path)[0], ARRAYS)
    assert load_checkpoint(tmp_path)[1] == {"writer": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.json", "checkpoint.safetensors"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other locks")
def test_a_writer_that_was_taken_for_dead_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another save comes when the file aside is there, and not yet locked."""
    locks: Any = atomic_files.fcntl
    lock = locks.flock

    def late(file: Any, operation: int) -> None:
        monkeypatch.setattr(locks, "flock", lock)
        save_tensors(tmp_path / "x", {}, {"writer": 2})
        lock(file, operation)

    monkeypatch.setattr(locks, "flock", late)
    save_tensors(tmp_path / "x", ARRAYS, {"writer": 1})
    assert load_tensors(tmp_path / "x")[1] == {"writer": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_writers_and_readers_of_one_path_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "x"
    save_tensors(path, {"a": np.zeros(1000)}, {"writer": 0})

    def write(writer: int) -> None:
        for _ in range(50):
            save_tensors(path, {"a": np.full(1000 * writer, writer)}, {"writer": writer})

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, writer) for writer in (1, 2, 3)]
        while not all(writer.done() for writer in writers):
            arrays, meta = load_tensors(path)
            assert set(arrays["a"].tolist()) == {meta["writer"]}
        for writer in writers:
            writer.result()
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_orphans_go_and_what_only_looks_like_them_stays(tmp_path: Path) -> None:
    orphans = [".x.part", ".x.0123456789abcdef.part"]
    others = [".x.notes.part", ".x.y.0123456789abcdef.part", "x.part", ".y.0123456789abcdef.part"]
    for name in (*orphans, *others):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))  # where there are no locks, age tells
    save_tensors(tmp_path / "x", ARRAYS, META)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, "x"])


def assert_packs(value: object) -> None:
    arrays, structure = pack(value)
    structure = json.loads(json.dumps(structure))  # what a file does to it
    found = unpack({name: ("array", array.tolist()) for name, array in arrays.items()}, structure)

    def expected(node: object) -> object:
        if isinstance(node, np.ndarray):
            return ("array", node.tolist())
        if isinstance(node, dict):
            return {key: expected(child) for key, child in node.items()}
        if isinstance(node, (list, tuple)):
            return type(node)(expected(child) for child in node)
        return node

    assert found == expected(value)


@pytest.mark.parametrize(
    "value",
    [
        {
            "state": {0: {"step": np.array(1.0)}, 1: {"step": np.array(2.0)}},
            "param_groups": [{"lr": 0.1, "params": [0, 1]}],
        },
        {"0": np.array(1), 0: np.array(2)},
        {"a/b": np.array(1), "a": {"b": np.array(2)}},
        {"array": "no array"},
        {"tuple": [1]},
        {"dict": {"dict": []}},
        {"array": {"array": np.array(1)}},
        {True: 1, "x": None},
        [(), [], {}, (1, (2.5, "x")), None, True],
        np.arange(3),
        3,
    ],
    ids=repr,
)
def test_nested_data_with_tensors_packs_and_unpacks(value: object) -> None:
    assert_packs(value)


def test_packing_something_else_names_where_it_is() -> None:
    with pytest.raises(CheckpointError, match="cannot save a/1: a complex is no tensor"):
        pack({"a": [1, 1j]})
    with pytest.raises(CheckpointError, match=r"its key 1\.5"):
        pack({1.5: 0})


def test_what_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CheckpointError, match="nested too deeply, or contains itself"):
        pack({"a": loop})


@pytest.mark.parametrize(
    "structure",
    [
        {"array": "b"},
        {"array": 3},
        {"array": ["a"]},
        [{"x": {"tuple": "abc"}}],
        {"tuple": {"a": 1}},
        {"dict": 3},
        {"dict": [["a"]]},
        {"dict": ["ab"]},
        {"dict": [[["a"], 1]]},
        {"dict": {"ab": 1}},
    ],
    ids=lambda structure: repr(structure)[:30],
)
def test_a_structure_that_was_never_packed_is_refused(structure: Any) -> None:
    with pytest.raises(CheckpointError, match="structure of the data"):
        unpack({"a": np.zeros(1)}, structure)


def test_a_structure_of_any_depth_is_refused() -> None:
    structure: list[Any] = []
    for _ in range(100_000):
        structure = [structure]
    with pytest.raises(CheckpointError, match="nested too deeply"):
        unpack({}, structure)
    with pytest.raises(CheckpointError, match="nested too deeply"):
        pack(structure)
