"""The recipes: each learns what it says, and a run resumed is the run never stopped. (digits: test_cli.py.)"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import shadergrad as sg
from helpers import assert_same_bits
from shadergrad import cli
from shadergrad.checkpoint import load_checkpoint
from shadergrad.creation import default_generator
from shadergrad.data.digits import load_digits
from shadergrad.recipes import char_lm, state
from shadergrad.recipes.task import Position, Settings, Task

RECIPES = ["xor", "regression", "mnist", "autoencoder", "char-lm"]
SHORT_TEXT = 30  # lines
LARGE_BATCHES = {name: ["--batch-size", "256"] for name in ("mnist", "autoencoder", "char-lm")}


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")


def idx(array: np.ndarray) -> bytes:
    """An IDX file of bytes."""
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


@pytest.fixture(scope="module")
def mnist_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like MNIST's, with the small digits in the middle of 28 x 28 pixels, each three times as large."""
    root = tmp_path_factory.mktemp("data")
    (root / "mnist").mkdir()
    train_images, train_labels, test_images, test_labels = load_digits()
    for part, images, labels in (("train", train_images, train_labels), ("t10k", test_images, test_labels)):
        large = np.kron(images.reshape(-1, 8, 8) * 255, np.ones((3, 3)))
        (root / "mnist" / f"{part}-images-idx3-ubyte").write_bytes(idx(np.pad(large, ((0, 0), (2, 2), (2, 2)))))
        (root / "mnist" / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    return root


@pytest.fixture(scope="module")
def own_options(mnist_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each recipe needs to be quick."""
    text = tmp_path_factory.mktemp("text") / "a text.txt"
    text.write_text("\n".join(char_lm.TALE.read_text().splitlines()[:SHORT_TEXT]))
    return {"mnist": ["--data", str(mnist_folder)], "char-lm": ["--text", str(text)]}


def rows(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_resumed_run_is_the_run_never_stopped(
    tmp_path: Path, own_options: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, recipe: str, device: str
) -> None:
    monkeypatch.setattr(char_lm, "SAMPLE", 10)

    def train(out: str, epochs: int, *options: str) -> None:
        words = ["train", recipe, "--device", device, "--out", str(tmp_path / out), "--epochs", str(epochs)]
        assert cli.run([*words, *options, *own_options.get(recipe, []), *LARGE_BATCHES.get(recipe, [])]) == 0

    train("whole", 2)
    train("parts", 1)
    train("parts", 2, "--resume")
    whole, parts = rows(tmp_path / "whole"), rows(tmp_path / "parts")
    assert [row["epoch"] for row in parts] == [1, 2]
    assert parts[1]["loss"] < parts[0]["loss"]
    if device == "cpu":
        (a, meta_a), (b, meta_b) = load_checkpoint(tmp_path / "whole"), load_checkpoint(tmp_path / "parts")
        assert meta_a == meta_b
        assert a.keys() == b.keys()
        for name, array in a.items():
            assert_same_bits(b[name], array, name)
    assert parts[1]["loss"] == pytest.approx(whole[1]["loss"], abs=0 if device == "cpu" else 1e-5)


def test_regression_recovers_two_and_three_and_prints_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str
) -> None:
    assert cli.run(["train", "regression", "--device", device, "--out", str(tmp_path)]) == 0
    last = rows(tmp_path)[-1]
    assert last["epoch"] == 100
    assert last["weight"] == pytest.approx(2, abs=1e-2)
    assert last["bias"] == pytest.approx(3, abs=1e-2)
    printed = re.search(r"weight (\S+) \(of 2\), bias (\S+) \(of 3\)", capsys.readouterr().out)
    assert printed
    assert [float(text) for text in printed.groups()] == pytest.approx([2, 3], abs=1e-2)


def test_xor_is_learned_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str) -> None:
    assert cli.run(["train", "xor", "--device", device, "--out", str(tmp_path)]) == 0
    answers = re.findall(r"^(\d) xor (\d) = (\S+)$", capsys.readouterr().out, re.MULTILINE)
    assert len(answers) == 4
    for a, b, found in answers:
        assert float(found) == pytest.approx(int(a != b), abs=0.05)


def test_mnist_learns_the_digits_in_its_folder(tmp_path: Path, mnist_folder: Path) -> None:
    options = ["--device", "cpu", "--out", str(tmp_path), "--data", str(mnist_folder), "--epochs", "4"]
    assert cli.run(["train", "mnist", *options, "--batch-size", "32"]) == 0
    assert rows(tmp_path)[-1]["test_accuracy"] > 0.9
    assert load_checkpoint(tmp_path)[0]["model/0.weight"].shape == (128, 784)


def test_mnist_without_files_says_what_to_set_and_where_to_put_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--device", "cpu", "--out", str(tmp_path / "out"), "--data", str(tmp_path)]
    assert cli.run(["train", "mnist", *options]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    for words in ("SHADERGRAD_DATA_MIRROR", "train-images-idx3-ubyte.gz", f"into {tmp_path / 'mnist'} by hand"):
        assert words in error
    assert not (tmp_path / "out").exists()


def test_autoencoder_halves_its_error_and_draws_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["train", "autoencoder", "--device", "cpu", "--out", str(tmp_path), "--epochs", "8"]) == 0
    measured = rows(tmp_path)
    assert measured[-1]["test_loss"] < 0.5 * measured[0]["test_loss"]
    assert (tmp_path / "reconstructions.png").read_bytes().startswith(b"\x89PNG")
    text = capsys.readouterr().out
    assert "test error 0.0" in text
    assert "reconstructions.png" in text


def test_char_lm_learns_the_text_and_writes_in_its_alphabet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own_options: dict[str, list[str]]
) -> None:
    options = ["--device", "cpu", "--out", str(tmp_path), "--epochs", "2", *own_options["char-lm"]]
    assert cli.run(["train", "char-lm", *options]) == 0
    assert rows(tmp_path)[-1]["test_loss"] < 2.4  # guessing: ln 40 = 3.7
    written = capsys.readouterr().out.partition("it writes:\n")[2].partition("\nin ")[0]
    assert len(written) > char_lm.SAMPLE // 2
    assert set(written) <= set(char_lm.TALE.read_text())


def test_char_lm_does_not_resume_on_another_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    options = ["train", "char-lm", "--device", "cpu", "--out", str(tmp_path / "out"), "--text", str(text)]
    text.write_text("abcd" * 100)
    assert cli.run([*options, "--epochs", "1"]) == 0
    text.write_text("abdc" * 100)
    capsys.readouterr()
    assert cli.run([*options, "--epochs", "2", "--resume"]) == 2
    assert "that run had text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot read"), (b"\xff\xfe\x00", "not a text file in UTF-8"), (b"short", "has no window")],
)
def test_an_unusable_text_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "text").write_bytes(content)
    options = ["--device", "cpu", "--out", str(tmp_path / "out"), "--text", str(tmp_path / "text")]
    assert cli.run(["train", "char-lm", *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_the_words_to_go_on_hold_the_recipes_own_options() -> None:
    own = {"text": Path("a text.txt"), "mirror": None}
    options = Settings(1, 2, 0.1, Path("runs/x"), own=own).options()
    assert options.endswith("--out runs/x --text 'a text.txt'")


def test_random_numbers_go_on_where_the_checkpoint_left_them(tmp_path: Path, device: str) -> None:
    def task() -> Task:
        model = sg.nn.Linear(1, 1).to(device)
        return Task(model, sg.optim.SGD(model.parameters(), lr=0.1), (np.zeros(1),), lambda x: x, dict)

    settings = Settings(1, 1, 0.1, tmp_path)
    sg.manual_seed(5)
    first = task()
    sg.rand(3, device=device).numpy()
    state.save_run("test", settings, first, Position(), device)
    expected = sg.rand(4, device=device).numpy(), sg.rand(4).numpy()
    sg.manual_seed(6)
    state.restore_run("test", settings, task(), device)
    assert_same_bits(sg.rand(4, device=device), expected[0])
    assert_same_bits(sg.rand(4), expected[1])
    assert default_generator(device).get_state()[2] > 0


@pytest.mark.parametrize("recipe", RECIPES)
def test_help_says_what_it_is_and_takes(capsys: pytest.CaptureFixture[str], recipe: str) -> None:
    assert cli.run(["train", recipe, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"runs/{recipe}" in text
    assert "--resume" in text
    assert cli.run(["train", "--help"]) == 0
    assert f"│ {recipe} " in capsys.readouterr().out
