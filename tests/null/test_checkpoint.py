"""Checkpoints come back as they were, say what is wrong with them, and survive a death in the middle of a save."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from shadergrad import checkpoint
from shadergrad.checkpoint import load_checkpoint, load_tensors, pack, save_checkpoint, save_tensors, unpack
from shadergrad.errors import CheckpointError

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
    described = json.loads((tmp_path / checkpoint.DESCRIPTION_FILE).read_text())
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
    with pytest.raises(CheckpointError, match="format version 99; this shadergrad reads version 1"):
        load_tensors(tmp_path / "x.safetensors")


def test_a_damaged_description_is_reported(tmp_path: Path) -> None:
    metadata = {"format": "shadergrad", "version": "1", "meta": '{"epoch": '}
    save_file({"weight": np.ones(3, np.float32)}, tmp_path / "x.safetensors", metadata)
    with pytest.raises(CheckpointError, match="damaged description"):
        load_tensors(tmp_path / "x.safetensors")


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


KILLED_SAVE = """
    import os, signal, sys
    import numpy as np
    import shadergrad.checkpoint as checkpoint

    stage, folder = sys.argv[1:]

    def die(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGKILL)

    if stage == "writing":
        checkpoint.Path.write_bytes = lambda path, data: (open(path, "wb").write(data[: len(data) // 2]), die())
    elif stage == "flushing":
        os.fsync = die
    elif stage == "renaming":
        os.replace = die
    else:  # between the two files
        checkpoint.Path.write_text = die
    checkpoint.save_checkpoint(folder, {"matrix": np.full(1000, 2.0)}, {"epoch": 2})
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize(
    ("stage", "epoch"), [("writing", 1), ("flushing", 1), ("renaming", 1), ("between the two files", 2)]
)
def test_a_kill_at_any_moment_of_a_save_leaves_a_whole_checkpoint(tmp_path: Path, stage: str, epoch: int) -> None:
    save_checkpoint(tmp_path, {"matrix": np.full(1000, 1.0)}, {"epoch": 1})
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED_SAVE), stage, str(tmp_path)], check=False)
    assert child.returncode == -signal.SIGKILL
    arrays, meta = load_checkpoint(tmp_path)
    assert meta == {"epoch": epoch}
    assert_same(arrays, {"matrix": np.full(1000, float(epoch))})
    save_checkpoint(tmp_path, {"matrix": np.full(1000, 3.0)}, {"epoch": 3})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.json", "checkpoint.safetensors"]


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
