"""The command line: what it prints, writes and refuses; and that a run stopped and resumed is a run never stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import save_file

import shadergrad
from helpers import StopAfter
from shadergrad import cli
from shadergrad.checkpoint import load_checkpoint, save_checkpoint
from shadergrad.cli import info
from shadergrad.errors import DeviceError
from shadergrad.train import training_run

MEASURED = ("loss", "test_loss", "test_accuracy")


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")


def train(out: Path, *options: object, device: str = "cpu") -> int:
    return cli.run(["train", "digits", "--device", device, "--out", str(out), *map(str, options)])


def rows(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def assert_same_run(a: Path, b: Path) -> None:
    """Two runs ended with the same bits, and measured the same on the way."""
    (arrays_a, meta_a), (arrays_b, meta_b) = load_checkpoint(a), load_checkpoint(b)
    assert meta_a == meta_b
    assert arrays_a.keys() == arrays_b.keys()
    for name in arrays_a:
        np.testing.assert_array_equal(arrays_a[name], arrays_b[name], err_msg=name)
    assert [[row[key] for key in MEASURED] for row in rows(a)] == [[row[key] for key in MEASURED] for row in rows(b)]


def assert_refused(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> None:
    """Exit code 2, and one line on stderr with all of `words`."""
    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith("error: "), error
    assert error.count("\n") == 1, error
    for word in words:
        assert word in error


# --- help and info


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([], ["info", "train", "through WebGPU"]),
        (["train"], ["digits"]),
        (
            ["train", "digits"],
            ["--device", "--epochs", "--batch-size", "--lr", "--seed", "--out", "--resume", "default: auto"],
        ),
        (["info"], ["adapter", "limits", "features", "profile"]),
    ],
    ids=lambda value: " ".join(value) or "shadergrad",
)
def test_help_says_what_there_is(capsys: pytest.CaptureFixture[str], command: list[str], words: list[str]) -> None:
    assert cli.run([*command, "--help"]) == 0
    text = capsys.readouterr().out
    for word in words:
        assert word in text


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 2
    captured = capsys.readouterr()
    assert "Commands" in captured.out
    assert captured.err == ""


@pytest.mark.slow
def test_python_m_shadergrad_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "shadergrad", "nosuch"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: No such command 'nosuch'")


def test_importing_the_library_loads_no_package_that_it_may_not_need() -> None:
    """Half of the time of many a program is this import: what only some need is imported by them."""
    late = {
        "torch",
        "matplotlib",
        "sklearn",
        "scipy",
        "llvmlite",
        "rich",
        "ssl",
        "urllib.request",
        "email",
        "tarfile",
        "importlib.metadata",
    }
    code = f"import sys, shadergrad; print({late} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_info_shows_the_cpu_and_each_adapter(capsys: pytest.CaptureFixture[str], webgpu: str) -> None:
    from shadergrad.runtime.adapters import adapters

    assert cli.run(["info", "--verbose"]) == 0
    text = capsys.readouterr().out
    assert "trainings run on" in text.splitlines()[0]
    for word in ("shadergrad 0.", "wgpu 0.32", "\ncpu", "\nwebgpu  ", "--device auto: "):
        assert word in text
    for adapter in adapters():
        for word in (adapter.name, adapter.backend, adapter.profile, "max-buffer-size", *adapter.features[:1]):
            assert word in text


def test_info_in_short_leaves_out_the_limits_which_json_has(capsys: pytest.CaptureFixture[str], webgpu: str) -> None:
    assert cli.run(["info"]) == 0
    short = capsys.readouterr().out
    assert "trainings run on" in short.splitlines()[0]
    assert "max-buffer-size" not in short
    assert cli.run(["info", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == short.splitlines()[0]
    assert any(adapter["device"] == "webgpu" for adapter in document["adapters"])
    assert document["adapters"][0]["limits"]["max-buffer-size"] > 0


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"shadergrad {shadergrad.__version__}\n"


def test_info_without_an_adapter_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(info, "adapters", lambda all_backends: [])
    assert cli.run(["info"]) == 0
    assert "mesa-vulkan-drivers" in capsys.readouterr().out


def test_info_where_wgpu_cannot_be_loaded_says_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def adapters(all_backends: bool) -> None:
        raise DeviceError("wgpu cannot be loaded: no such library")

    monkeypatch.setattr(info, "adapters", adapters)
    assert cli.run(["info"]) == 0
    assert "no webgpu device: wgpu cannot be loaded: no such library" in capsys.readouterr().out


# --- a run


@pytest.mark.slow
def test_a_short_run_writes_checkpoint_metrics_and_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str
) -> None:
    assert train(tmp_path, "--epochs", 2, device=device) == 0
    text = capsys.readouterr().out
    assert f"device {device}: " in text
    assert "test accuracy" in text
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["best", "checkpoint.json", "checkpoint.safetensors", "curve.png", "metrics.jsonl"]
    assert [row["epoch"] for row in rows(tmp_path)] == [1, 2]
    assert rows(tmp_path)[0]["loss"] > rows(tmp_path)[1]["loss"]
    assert set(MEASURED) < set(rows(tmp_path)[0])
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    arrays, meta = load_checkpoint(tmp_path)
    assert arrays["model/0.weight"].shape == (128, 64)
    assert meta["position"] == {"epoch": 2, "step": 0}
    assert meta["hyperparameters"] == {"batch_size": 64, "lr": 0.003, "seed": 0}


def test_the_default_run_reaches_97_percent(tmp_path: Path, device: str) -> None:
    assert train(tmp_path, device=device) == 0
    assert rows(tmp_path)[-1]["test_accuracy"] >= 0.97


def test_the_first_epoch_is_the_same_on_both_devices(tmp_path: Path, webgpu: str) -> None:
    for device in ("cpu", webgpu):
        assert train(tmp_path / device, "--epochs", 1, device=device) == 0
    (cpu,), (gpu,) = rows(tmp_path / "cpu"), rows(tmp_path / webgpu)
    assert gpu["loss"] == pytest.approx(cpu["loss"], abs=1e-5)


def test_two_runs_with_one_seed_are_one_run_and_another_seed_is_another(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert train(tmp_path / name, "--epochs", 1, "--seed", seed) == 0
    assert_same_run(tmp_path / "a", tmp_path / "b")
    assert rows(tmp_path / "a")[0]["loss"] != rows(tmp_path / "c")[0]["loss"]


def test_a_second_run_into_the_same_folder_is_refused_unless_it_may_overwrite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path, "--epochs", 2) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert train(tmp_path, "--epochs", 1) == cli.BAD_INPUT
    assert re.search(r"holds a run\. Hint: --resume continues it, --overwrite replaces it", capsys.readouterr().err)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert train(tmp_path, "--epochs", 1, "--resume", "--overwrite") == cli.BAD_INPUT
    assert train(tmp_path, "--epochs", 1, "--overwrite") == 0
    assert [row["epoch"] for row in rows(tmp_path)] == [1]


def test_the_commands_that_a_run_suggests_fit_a_line_and_leave_out_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["train", "digits", "--epochs", "1", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "next: shadergrad train digits --resume --epochs 2 --device cpu" in out.splitlines()
    assert max(len(line) for line in out.splitlines() if "next: " in line or "or in Python" in line) <= 80


@pytest.mark.parametrize(
    ("written", "meant"),
    [("--learning-rate", "--lr"), ("--epoch", "--epochs"), ("--batch_size", "--batch-size"), ("--outt", "--out")],
)
def test_an_option_that_there_is_not_is_answered_with_the_one_meant(
    written: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["train", "digits", written, "1"]) == cli.BAD_INPUT
    assert f"Did you mean {meant}? (shadergrad train digits --help" in " ".join(capsys.readouterr().err.split())


def test_a_missing_argument_says_what_the_command_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["predict", "digits", "one.png"]) == cli.BAD_INPUT
    assert "Missing argument 'images'. Hint: it takes RUN, then IMAGES." in " ".join(capsys.readouterr().err.split())


def test_help_shows_no_type_beside_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["train", "digits"], ["run"], ["info"], ["predict", "digits"], ["serve"]):
        assert cli.run([*words, "--help"]) == 0
    assert "<bool>" not in capsys.readouterr().out


@pytest.mark.parametrize("found", [True, False], ids=["with a GPU", "without a GPU"])
def test_auto_takes_hardware_where_there_is_some(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, found: bool
) -> None:
    monkeypatch.setattr(training_run, "hardware_adapter_available", lambda: found)
    monkeypatch.setattr(training_run, "auto_device_reason", lambda: "the reason")
    assert training_run.choose_device("auto", Console()) == ("webgpu" if found else "cpu")
    assert capsys.readouterr().out == "device auto: the reason\n"


# --- resume


def test_a_resumed_run_is_bit_for_bit_the_uninterrupted_one(tmp_path: Path) -> None:
    assert train(tmp_path / "whole", "--epochs", 3) == 0
    assert train(tmp_path / "parts", "--epochs", 1) == 0
    assert train(tmp_path / "parts", "--epochs", 3, "--resume") == 0
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_a_run_stopped_within_an_epoch_resumes_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert train(tmp_path / "whole", "--epochs", 2) == 0
    with monkeypatch.context() as patch:
        patch.setattr(training_run, "StopWish", lambda: StopAfter(asked=30))
        assert train(tmp_path / "parts", "--epochs", 2) == 130
    position = load_checkpoint(tmp_path / "parts")[1]["position"]
    assert position["epoch"] == 1
    assert 0 < position["step"] < 22
    assert train(tmp_path / "parts", "--epochs", 2, "--resume") == 0
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_a_run_resumes_on_another_device(tmp_path: Path, webgpu: str) -> None:
    assert train(tmp_path, "--epochs", 1, device=webgpu) == 0
    assert train(tmp_path, "--epochs", 2, "--resume", device="cpu") == 0
    assert [row["epoch"] for row in rows(tmp_path)] == [1, 2]


def test_resume_drops_metrics_written_after_the_checkpoint(tmp_path: Path) -> None:
    assert train(tmp_path, "--epochs", 1) == 0
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 2, "loss": 1.0}\n{"epoch": 3, "lo')  # as a killed run leaves it
    assert train(tmp_path, "--epochs", 2, "--resume") == 0
    assert [row["epoch"] for row in rows(tmp_path)] == [1, 2]
    assert set(MEASURED) < set(rows(tmp_path)[1])


@pytest.mark.slow
def test_resuming_a_finished_run_trains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path, "--epochs", 1) == 0
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    assert train(tmp_path, "--epochs", 1, "--resume") == 0
    assert "nothing left to train" in capsys.readouterr().out
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.slow
def test_ctrl_c_saves_says_how_to_go_on_and_leaves(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shadergrad", "train", "digits", "--device", "cpu", "--epochs", "100000"]
    child = subprocess.Popen([*command, "--out", str(tmp_path)], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (tmp_path / "checkpoint.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    text, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "stopped after" in text
    assert "shadergrad train digits --resume --epochs 100000 --batch-size 64" in text
    reached = load_checkpoint(tmp_path)[1]["position"]["epoch"]
    assert reached == len(rows(tmp_path)) >= 1
    assert (tmp_path / "curve.png").exists()
    assert train(tmp_path, "--epochs", reached + 1, "--resume") == 0


# --- bad input


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--device", "mars"], ["unknown device 'mars'", "cpu", "webgpu"]),
        (["--epochs", "0"], ["--epochs is 0", "at least 1"]),
        (["--epochs", "many"], ["--epochs", "valid int"]),
        (["--batch-size", "-1"], ["--batch-size is -1"]),
        (["--batch-size", "5000"], ["--batch-size is 5000", "1437 training samples"]),
        (["--lr", "-0.1"], ["--lr is -0.1", "positive"]),
        (["--lr", "nan"], ["--lr is nan"]),
        (["--seed", "-1"], ["--seed is -1"]),
        (["--resume"], ["there is no checkpoint", "train from the start"]),
        (["--nosuch"], ["No such option", "--nosuch"]),
    ],
    ids=" ".join,
)
def test_bad_options_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: list[str]
) -> None:
    assert_refused(capsys, train(tmp_path / "new", *options), *words)
    assert not (tmp_path / "new").exists()


def test_an_out_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert_refused(capsys, train(tmp_path / "file"), "--out is", "cannot be a folder")


def test_resume_with_other_hyperparameters_names_those_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path, "--epochs", 1) == 0
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    capsys.readouterr()
    code = train(tmp_path, "--epochs", 2, "--resume", "--lr", 0.5, "--batch-size", 32)
    assert_refused(capsys, code, "lr 0.003 (now 0.5)", "batch_size 64 (now 32)")
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before


def test_a_truncated_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path, "--epochs", 1) == 0
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    capsys.readouterr()
    assert_refused(capsys, train(tmp_path, "--resume"), "checkpoint.safetensors", "cut short")


def test_a_foreign_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_file({"weight": np.ones(3, np.float32)}, tmp_path / "checkpoint.safetensors")
    assert_refused(capsys, train(tmp_path, "--resume"), "not one that shadergrad wrote")


def test_a_checkpoint_that_no_training_wrote_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_checkpoint(tmp_path, {"weight": np.ones(3, np.float32)}, {})
    assert_refused(capsys, train(tmp_path, "--resume"), "no training's checkpoint", "recipe")


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str
) -> None:
    assert train(tmp_path, "--epochs", 1, device=device) == 0
    before = (tmp_path / "checkpoint.safetensors").read_bytes(), (tmp_path / "metrics.jsonl").read_bytes()
    capsys.readouterr()
    code = train(tmp_path, "--epochs", 1, "--lr", 1e30, "--overwrite", device=device)
    assert_refused(capsys, code, "the loss became", "in epoch 1", "smaller --lr", "is unchanged")
    after = (tmp_path / "checkpoint.safetensors").read_bytes(), (tmp_path / "metrics.jsonl").read_bytes()
    assert after == before


def test_digits_come_along_without_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert train(tmp_path, "--epochs", 1) == 0


def test_without_matplotlib_the_run_ends_well_and_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert train(tmp_path, "--epochs", 1) == 0
    assert 'pip install "shadergrad[plots]"' in capsys.readouterr().out
    assert not (tmp_path / "curve.png").exists()
