"""The recipes: each learns what it says, and a run resumed is the run never stopped. (digits: test_cli.py.)"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import shadergrad as sg
from helpers import StopAfter, assert_same_bits
from shadergrad import cli, recipes
from shadergrad.checkpoint import load_checkpoint, save_checkpoint
from shadergrad.data.digits import load_digits
from shadergrad.errors import CheckpointError
from shadergrad.logic import harden
from shadergrad.logic.circuit import CircuitClassifier, load
from shadergrad.logic.evaluation import Sizes
from shadergrad.logic.experiments import EXPERIMENTS
from shadergrad.recipes import char_lm, mnist_logic_conv
from shadergrad.recipes.logic import automaton, mnist
from shadergrad.runtime.device import get_device
from shadergrad.tensor import default_generator
from shadergrad.train import RecipeError, Settings, Stream, Trainable, checkpoints, training_run
from shadergrad.train.console_progress import Bar, StopWish
from shadergrad.train.metrics import Metrics
from shadergrad.train.settings import flag

SHORT_TEXT = 30  # lines
LARGE_BATCHES = {
    name: ["--batch-size", "256"] for name in ("digits-cnn", "mnist", "mnist-logic-conv", "autoencoder", "char-lm")
}


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
    tiny = ["--families", "8", "--depth", "4", "--epoch-steps", "2", "--warm-up", "2", "--buckets", "1"]
    tiny += ["--d-model", "8", "--n-layers", "1", "--n-heads", "2", "--d-ff", "8", "--max-len", "64"]
    small = ["--context", "16", "--width", "16", "--layers", "1", "--heads", "2"]
    return {
        "mnist": ["--data", str(mnist_folder)],
        "mnist-logic": [
            "--data",
            str(mnist_folder),
            *["--width", "95", "--layers", "2", "--thresholds", "2", "--shift", "5"],
        ],
        "mnist-logic-conv": ["--data", str(mnist_folder), "--channels", "1"],
        "char-lm": ["--text", str(text)],
        "coevolution": tiny,
        "gpt": ["--text", str(text), *small],
    }


def rows(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def assert_same_checkpoints(a: Path, b: Path) -> None:
    """Two runs are at the same place, with the same bits."""
    (arrays_a, meta_a), (arrays_b, meta_b) = load_checkpoint(a), load_checkpoint(b)
    assert meta_a == meta_b
    assert arrays_a.keys() == arrays_b.keys()
    for name, array in arrays_a.items():
        assert_same_bits(arrays_b[name], array, name)


ON_WEBGPU = [
    "regression",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("xor", "digits", "digits-cnn", "mnist", "autoencoder", "char-lm")
    ),
]


def resume(folder: Path, recipe: str, device: str, options: list[str]) -> tuple[Path, Path]:
    """The folders of a run of two epochs, and of one that was stopped after the first."""

    def train(out: Path, epochs: int, *more: str) -> None:
        words = ["train", recipe, "--device", device, "--out", str(out), "--epochs", str(epochs)]
        assert cli.run([*words, *more, *options, *LARGE_BATCHES.get(recipe, [])]) == 0

    train(folder / "whole", 2)
    train(folder / "parts", 1)
    train(folder / "parts", 2, "--resume")
    return folder / "whole", folder / "parts"


SHORT = {"epochs": "1", "steps": "2", "seeds": "1"}  # of the options that a recipe has
SLOW = {
    "checkerboard-async",
    "coevolution",
    "digits-cnn",
    "digits-logic",
    "gpt",
    "letter-g",
    "life",
    "lizard",
    "logic-study",
    "mnist-logic-conv",
    "xor",
}
WORDS = {"logic-study": ["life"]}  # what has to stand before the options


@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in recipes.names()]
)
def test_a_recipe_trains_and_is_resumed_bit_for_bit(
    tmp_path: Path,
    own_options: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    recipe: str,
) -> None:
    """Every file in recipes/: to its end at once, and stopped after a step and continued by the command that it shows."""
    monkeypatch.setattr(char_lm, "SAMPLE", 10)
    monkeypatch.setattr(automaton, "SIZES", Sizes((16, 4), (32, 4), (32, 4), (32, 6, 3), 10, 2))
    monkeypatch.setattr(automaton, "CHECKED_PATCHES", 1 << 10)
    for name, e in EXPERIMENTS.items():
        monkeypatch.setitem(EXPERIMENTS, name, replace(e, ca_steps=min(e.ca_steps, 2)))
    takes = {option.name for option in recipes.find(recipe).all_options(recipe)}
    short = [word for name in SHORT.keys() & takes for word in (f"--{name}", SHORT[name])]
    words = ["train", recipe, *WORDS.get(recipe, []), "--device", "cpu", *short, *own_options.get(recipe, [])]
    words += LARGE_BATCHES.get(recipe, [])
    whole, parts = tmp_path / "whole", tmp_path / "the parts"
    assert cli.run([*words, "--out", str(whole)]) == 0
    if recipe != "logic-study":  # of many runs
        assert_next_is_said_and_the_model_loads(whole, capsys.readouterr().out)
    with monkeypatch.context() as patch:
        patch.setattr(training_run, "StopWish", lambda: StopAfter(asked=0))
        assert cli.run([*words, "--out", str(parts)]) == cli.INTERRUPTED
    (go_on,) = re.findall(r"To go on: shadergrad (.*)", capsys.readouterr().out)
    assert cli.run(shlex.split(go_on)) == 0

    files = [sorted(str(path.relative_to(out)) for path in out.rglob("*")) for out in (whole, parts)]
    assert files[0] == files[1]
    folders = [path.parent.relative_to(whole) for path in whole.rglob("checkpoint.safetensors")]
    assert folders
    for folder in folders:
        assert_same_checkpoints(whole / folder, parts / folder)
        if folder.name == "best":
            continue  # the metrics are its neighbour's
        measured = rows(whole / folder)
        assert measured
        assert all(math.isfinite(value) for row in measured for value in row.values())
        assert [row["step"] for row in measured] == [row["step"] for row in rows(parts / folder)]
    pictures = list(whole.rglob("*.png"))
    assert pictures
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)


def assert_next_is_said_and_the_model_loads(out: Path, printed: str) -> None:
    """What to do with a run, and how to go on with it; its model, in Python, has the best state, else the last."""
    assert f"model = sg.recipes.load({str(out)!r})" in printed
    assert re.search(r"^next: shadergrad train .* --resume ", printed, re.M)
    folder = out / "best" if (out / "best").exists() else out
    kept = {
        name.removeprefix("model/"): a for name, a in load_checkpoint(folder)[0].items() if name.startswith("model/")
    }
    found = recipes.load(out).state_dict()
    assert found.keys() == kept.keys()
    for name, array in kept.items():
        assert_same_bits(found[name], array, name)


@pytest.mark.parametrize("recipe", ON_WEBGPU)
@pytest.mark.slow
def test_a_run_resumed_on_webgpu_has_the_losses_of_the_run_never_stopped(
    tmp_path: Path, own_options: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, recipe: str, webgpu: str
) -> None:
    monkeypatch.setattr(char_lm, "SAMPLE", 10)
    whole, parts = resume(tmp_path, recipe, webgpu, own_options.get(recipe, []))
    assert [row["epoch"] for row in rows(parts)] == [1, 2]
    assert rows(parts)[1]["loss"] < rows(parts)[0]["loss"]
    assert rows(parts)[1]["loss"] == pytest.approx(rows(whole)[1]["loss"], abs=1e-5)


@pytest.mark.slow
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


@pytest.mark.slow
def test_xor_is_learned_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str) -> None:
    assert cli.run(["train", "xor", "--device", device, "--out", str(tmp_path)]) == 0
    answers = re.findall(r"^(\d) xor (\d) = (\S+)$", capsys.readouterr().out, re.MULTILINE)
    assert len(answers) == 4
    for a, b, found in answers:
        assert float(found) == pytest.approx(int(a != b), abs=0.05)


@pytest.mark.parametrize(
    ("epochs", "least"), [(4, 0.95), pytest.param(30, 0.985, marks=pytest.mark.slow)], ids=["begins", "ends"]
)
@pytest.mark.slow
def test_digits_cnn_reaches_its_accuracy(tmp_path: Path, epochs: int, least: float) -> None:
    assert cli.run(["train", "digits-cnn", "--device", "cpu", "--out", str(tmp_path), "--epochs", str(epochs)]) == 0
    assert rows(tmp_path)[-1]["test_accuracy"] >= least


def test_mnist_learns_the_digits_in_its_folder(tmp_path: Path, mnist_folder: Path) -> None:
    options = ["--device", "cpu", "--out", str(tmp_path), "--data", str(mnist_folder), "--epochs", "4"]
    assert cli.run(["train", "mnist", *options, "--batch-size", "32"]) == 0
    assert rows(tmp_path)[-1]["test_accuracy"] > 0.9
    assert load_checkpoint(tmp_path)[0]["model/0.weight"].shape == (128, 784)


def test_mnist_without_files_says_what_to_set_and_where_to_put_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sg.data.MNIST, "mirrors", ("http://127.0.0.1:9/mnist",))
    options = ["--device", "cpu", "--out", str(tmp_path / "out"), "--data", str(tmp_path)]
    assert cli.run(["train", "mnist", *options]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    for words in ("SHADERGRAD_DATA_MIRROR", "train-images-idx3-ubyte.gz", f"into {tmp_path / 'mnist'} by hand"):
        assert words in error
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_gates_learn_mnist_and_their_file_says_what_the_run_says(
    tmp_path: Path, mnist_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--device", "cpu", "--out", str(tmp_path), "--data", str(mnist_folder), "--batch-size", "32"]
    gates = ["--width", "600", "--layers", "3", "--strength", "3", "--lr", "0.05", "--epochs", "10"]
    assert cli.run(["train", "mnist-logic", *options, *gates]) == 0
    last = rows(tmp_path)[-1]
    assert last["test_accuracy"] > 0.75
    assert last["soft_accuracy"] > 0.85
    classifier = load(tmp_path / "classifier.json")
    assert isinstance(classifier, CircuitClassifier)
    test = sg.data.MNIST(mnist_folder, train=False)
    found = classifier.predict(test.images.reshape(-1, 28, 28)[:, 4:24, 4:24])
    assert (found == test.labels).mean() == pytest.approx(last["test_accuracy"])
    assert f"hard accuracy {100 * last['test_accuracy']:.2f} % by the circuit" in capsys.readouterr().out
    assert cli.run(["logic", "export", str(tmp_path / "classifier.json"), "verilog"]) == 0
    assert "module" in capsys.readouterr().out


@pytest.mark.parametrize("shift", [1, 3])
def test_training_images_are_moved_by_at_most_the_shift(shift: int, device: str) -> None:
    """Each of the places occurs, and nothing else is left."""
    sg.manual_seed(0)
    side = 4
    framed = np.pad(np.arange(1, 17).reshape(1, 1, side, side), ((0, 0), (0, 0), (shift, shift), (shift, shift)))
    images = sg.tensor(np.repeat(framed, 600, axis=0).astype(np.uint8), device=device)
    places = range(2 * shift + 1)
    expected = {framed[0, 0, y : y + side, x : x + side].tobytes() for y in places for x in places}
    found = mnist.moved(images, shift).numpy().astype(framed.dtype)
    assert found.shape == (600, 1, side, side)
    assert {part.tobytes() for part in found} == expected


def test_convolutions_of_gates_are_the_circuit_that_they_become() -> None:
    values = {
        "channels": 1,
        "thresholds": 1,
        "tau": None,
        "wiring": "learned",
        "seed": 3,
        "parametrisation": "light",
        "strength": None,
        "mode": "soft",
        "shift": 0,
    }
    model = mnist_logic_conv.network(values)
    images = np.random.default_rng(0).integers(0, 256, (3, 1, 28, 28), np.uint8)
    shares = mnist_logic_conv.votes(model.eval(), images.reshape(3, -1) / np.float32(255), values)
    votes = harden(model).votes(images)
    np.testing.assert_allclose(shares, votes / votes.sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(
    ("recipe", "option", "words"),
    [
        ("mnist-logic", ["--width", "0"], "--width is 0"),
        ("mnist-logic-conv", ["--thresholds", "0"], "--thresholds is 0"),
        ("mnist-logic", ["--mode", "firm"], "there is no mode 'firm'"),
        ("mnist-logic", ["--tau", "-1"], "tau -1.0"),
        ("mnist-logic-conv", ["--shift", "28"], "--shift is 28"),
    ],
)
def test_sizes_that_make_no_gates_are_refused(
    tmp_path: Path, mnist_folder: Path, capsys: pytest.CaptureFixture[str], recipe: str, option: list[str], words: str
) -> None:
    options = ["--device", "cpu", "--out", str(tmp_path / "out"), "--data", str(mnist_folder)]
    assert cli.run(["train", recipe, *options, *option]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.slow
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
    own = {"text": Path("a text.txt"), "mirror": None, "deep": True, "wide": False}
    options = Settings(epochs=1, batch_size=2, lr=0.1, out=Path("runs/x"), **own).options()
    assert options == (
        "--epochs 1 --batch-size 2 --lr 0.1 --seed 0 --device auto --out runs/x --text 'a text.txt' --deep --no-wide"
    )


def test_random_numbers_go_on_where_the_checkpoint_left_them(tmp_path: Path, device: str) -> None:
    def trainable() -> Trainable:
        model = sg.nn.Linear(1, 1).to(device)
        return Trainable(model, sg.optim.SGD(model.parameters(), lr=0.1), (np.zeros(1),), lambda x: x)

    settings = Settings(epochs=1, batch_size=1, lr=0.1, out=tmp_path)
    sg.manual_seed(5)
    first = training_run.Run("test", settings, trainable(), device)
    sg.rand(3, device=device).numpy()
    first.save()
    expected = sg.rand(4, device=device).numpy(), sg.rand(4).numpy()
    sg.manual_seed(6)
    checkpoints.put_back("test", settings, trainable(), device, *load_checkpoint(tmp_path))
    assert_same_bits(sg.rand(4, device=device), expected[0])
    assert_same_bits(sg.rand(4), expected[1])
    assert default_generator(device).get_state()[2] > 0


# --- batches that are made

STEPS = 12


def made(settings: Settings, device: str, batches: int = STEPS) -> Trainable:
    """A straight line again, its points new in each step."""
    model = sg.nn.Linear(1, 1).to(device)
    optimizer = sg.optim.SGD(model.parameters(), lr=settings.lr, momentum=0.5)

    def points(epoch: int) -> Iterator[tuple[np.ndarray, ...]]:
        rng = np.random.default_rng((settings.seed, epoch))
        for _ in range(batches):
            x = rng.uniform(-1, 1, (settings.batch_size, 1)).astype(np.float32)
            yield x, 2 * x + 3

    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return Trainable(model, optimizer, Stream(points, STEPS), step)


def train_with(build: training_run.Build, out: Path, device: str, resume: bool = False, **values: int) -> bool:
    chosen: dict[str, Any] = {"epochs": 4, "batch_size": 16, "lr": 0.1} | values
    if "steps" in chosen:
        del chosen["epochs"]
    settings = Settings(out=out, device=device, resume=resume, **chosen)
    return training_run.train("made", build, settings, Console(quiet=True), "shadergrad train made")


def train_made(out: Path, device: str, resume: bool = False) -> bool:
    return train_with(made, out, device, resume)


def test_a_stream_of_batches_is_learned_and_its_steps_are_counted(tmp_path: Path, device: str) -> None:
    assert train_made(tmp_path, device)
    measured = rows(tmp_path)
    assert [row["step"] for row in measured] == [STEPS, 2 * STEPS, 3 * STEPS, 4 * STEPS]
    assert measured[-1]["loss"] < 0.01 * measured[0]["loss"]


def test_a_schedule_is_asked_for_each_step_and_goes_on_where_it_left(tmp_path: Path) -> None:
    asked: list[int] = []

    def factor(step: int) -> float:
        asked.append(step)
        return 1.0 / (1 + step)

    def scheduled(settings: Settings, device: str) -> Trainable:
        return replace(made(settings, device), schedule=factor)

    assert train_with(made, tmp_path / "even", "cpu", epochs=2)
    assert train_with(scheduled, tmp_path / "whole", "cpu", epochs=2)
    assert asked == list(range(2 * STEPS))
    asked.clear()
    assert train_with(scheduled, tmp_path / "parts", "cpu", epochs=1)
    assert train_with(scheduled, tmp_path / "parts", "cpu", epochs=2, resume=True)
    assert asked == list(range(2 * STEPS))
    assert_same_checkpoints(tmp_path / "whole", tmp_path / "parts")
    assert rows(tmp_path / "whole")[-1]["loss"] != rows(tmp_path / "even")[-1]["loss"]


def test_a_stream_stopped_within_an_epoch_resumes_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert train_made(tmp_path / "whole", "cpu")
    with monkeypatch.context() as patch:
        patch.setattr(training_run, "StopWish", lambda: StopAfter(asked=STEPS + 6))
        assert not train_made(tmp_path / "parts", "cpu")
    position = load_checkpoint(tmp_path / "parts")[1]["position"]
    assert position["epoch"] == 1
    assert 0 < position["step"] < STEPS
    assert train_made(tmp_path / "parts", "cpu", resume=True)
    assert_same_checkpoints(tmp_path / "whole", tmp_path / "parts")


def test_a_stream_that_ends_too_early_is_an_error_and_not_an_epoch(tmp_path: Path, device: str) -> None:
    with pytest.raises(RecipeError, match=f"an epoch has {STEPS} steps, and the data ended after 5"):
        train_with(lambda s, d: made(s, d, 5), tmp_path, device)


def test_an_error_in_a_stream_comes_out_of_the_loop(tmp_path: Path, device: str) -> None:
    def broken(settings: Settings, device: str) -> Trainable:
        trainable = made(settings, device)
        trainable.data = Stream(lambda epoch: (1 / 0 for _ in range(STEPS)), STEPS)  # type: ignore[misc]
        return trainable

    with pytest.raises(ZeroDivisionError):
        train_with(broken, tmp_path, device)


def test_an_epoch_reads_the_device_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, webgpu: str) -> None:
    """Where no time passes, in which the loss would be shown."""
    settings = Settings(epochs=1, batch_size=16, lr=0.1, out=tmp_path)
    made_run = training_run.Run("made", settings, made(settings, webgpu), webgpu)
    device, reads = get_device(webgpu), []
    download = device.download
    monkeypatch.setattr(device, "download", lambda *a: (reads.append(a), download(*a))[1])
    monkeypatch.setattr(training_run, "SHOW_EVERY", math.inf)
    with Bar(Console(quiet=True), "samples", STEPS * 16, 0) as bar:
        made_run.train_epoch(bar, StopWish(), Metrics(tmp_path / "metrics.jsonl", 0))
    assert made_run.position.step == STEPS
    assert len(reads) == 1


@pytest.mark.parametrize("recipe", recipes.names())
def test_help_says_what_it_is_and_takes(capsys: pytest.CaptureFixture[str], recipe: str) -> None:
    assert cli.run(["train", recipe, "--help"]) == 0
    text = capsys.readouterr().out
    known = recipes.find(recipe)
    assert known.help in " ".join(text.split())
    for option in known.all_options(recipe):
        assert option.positional or flag(option.name) in text
    if known.train is None:
        assert f"runs/{recipe}" in text
        assert "--resume" in text
    assert cli.run(["train", "--help"]) == 0
    assert f"│ {recipe} " in capsys.readouterr().out


# --- checkpoints within an epoch


def test_a_long_epoch_is_saved_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every step is read, and every reading is long after the last checkpoint."""
    monkeypatch.setattr(training_run, "SHOW_EVERY", -math.inf)
    monkeypatch.setattr(training_run, "SAVE_EVERY", -math.inf)
    saved, save = [], training_run.save_checkpoint

    def spy(folder: Path, tensors: Any, meta: Any) -> Path:
        if folder == tmp_path:  # the best stands beside it
            saved.append((meta["position"]["epoch"], meta["position"]["step"]))
        return save(folder, tensors, meta)

    monkeypatch.setattr(training_run, "save_checkpoint", spy)
    assert train_with(made, tmp_path, "cpu", epochs=2)
    within = range(1, STEPS)
    assert saved == [*((0, k) for k in within), (1, 0), *((1, k) for k in within), (2, 0)]


def test_a_checkpoint_whose_losses_do_not_fit_its_position_is_refused(tmp_path: Path) -> None:
    assert train_with(made, tmp_path, "cpu", steps=5)
    arrays, meta = load_checkpoint(tmp_path)
    save_checkpoint(tmp_path, arrays | {"losses": arrays["losses"][:3]}, meta)
    with pytest.raises(CheckpointError, match="damaged: losses"):
        train_with(made, tmp_path, "cpu", resume=True, steps=6)


@pytest.mark.slow
def test_a_run_that_changes_its_engine_goes_on_as_if_it_had_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str
) -> None:
    options = ["train", "autoencoder", "--device", device, "--batch-size", "512"]
    assert cli.run([*options, "--out", str(tmp_path / "whole"), "--epochs", "4"]) == 0
    parts = [*options, "--out", str(tmp_path / "parts")]
    assert cli.run([*parts, "--epochs", "2", "--backward", "torch", "--threads", "1"]) == 0
    assert cli.run([*parts, "--epochs", "3", "--backward", "numpy", "--resume"]) == 0
    assert cli.run([*parts, "--epochs", "4", "--backward", "auto", "--resume"]) == 0
    whole, found = ([row["loss"] for row in rows(tmp_path / part)] for part in ("whole", "parts"))
    assert found == pytest.approx(whole, abs=1e-4)
    assert cli.run([*parts, "--backward", "cuda", "--resume"]) == 2
    assert "--backward is 'cuda'; choose one of" in capsys.readouterr().err


@pytest.mark.parametrize("backward", ["torch", "numpy"])
@pytest.mark.slow
def test_a_run_resumed_with_another_engine_draws_the_masks_of_the_run_never_stopped(
    tmp_path: Path, own_options: dict[str, list[str]], device: str, backward: str
) -> None:
    options = ["train", "gpt", "--device", device, "--backward", backward, "--batch-size", "4", *own_options["gpt"]]
    options += ["--schedule-steps", "8"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert cli.run([*options, "--out", str(whole), "--steps", "8"]) == 0
    assert cli.run([*options, "--out", str(parts), "--steps", "3"]) == 0
    assert cli.run([*options, "--out", str(parts), "--steps", "8", "--resume"]) == 0
    assert rows(parts)[-1]["test_loss"] == pytest.approx(rows(whole)[-1]["test_loss"], abs=1e-5)
