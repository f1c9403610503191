"""After a training: the run is asked on the command line and in Python, the best is kept, a resumed run may change its rate."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

import shadergrad as sg
from shadergrad import cli, recipes
from shadergrad.checkpoint import load_checkpoint
from shadergrad.cli import predict_recipes
from shadergrad.data import load_digits
from shadergrad.data.drawn_characters import read_drawing
from shadergrad.data.errors import DataError
from shadergrad.errors import CheckpointError
from shadergrad.train.metrics import read_rows

*_, IMAGES, LABELS = load_digits()


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    assert cli.run(["train", "digits", "--device", "cpu", "--epochs", "8", "--out", str(folder)]) == 0
    return folder


def draw(path: Path, digit: np.ndarray, dark: bool = True) -> Path:
    """A digit of 8x8 pixels as a user's picture: large, off the middle, with paper around."""
    large = np.pad(np.kron(digit.reshape(8, 8), np.ones((12, 12))), ((40, 5), (3, 60)))
    Image.fromarray((255 * (1 - large if dark else large)).astype(np.uint8)).save(path)
    return path


def test_drawn_digits_are_read_as_they_were(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [draw(tmp_path / f"{k}.png", IMAGES[k], dark=k % 2 == 0) for k in range(60)]
    capsys.readouterr()
    assert cli.run(["predict", "digits", str(digits), *map(str, files)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [str(path) for path in files]
    right = [int(line.split(": ")[1][0]) == LABELS[k] for k, line in enumerate(lines)]
    assert np.mean(right) > 0.9


def test_the_folder_of_a_run_stands_for_its_recipe(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(draw(tmp_path / "seven.png", IMAGES[0]))
    capsys.readouterr()
    assert cli.run(["predict", "digits", str(digits), file]) == cli.run(["predict", str(digits), file]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert cli.run(["train", "xor", "--epochs", "1", "--device", "cpu", "--out", str(tmp_path / "xor")]) == 0
    assert cli.run(["predict", str(tmp_path / "xor"), file]) == cli.BAD_INPUT
    assert "is a run of xor, which no command asks. Hint: in Python" in capsys.readouterr().err


def written(path: Path, text: str) -> Path:
    """Characters in a font, dark on light."""
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), 80)
    picture = Image.new("L", (60 * len(text) + 60, 140), 255)
    ImageDraw.Draw(picture).text((25, 15), text, fill=0, font=font)
    picture.save(path)
    return path


def test_several_characters_and_what_is_no_digit_are_not_sure(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = tmp_path / "noise.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)).save(noise)
    several = [written(tmp_path / f"{text}.png", text) for text in ("12", "5 7", "111")]
    stacked = tmp_path / "stacked.png"
    Image.fromarray(np.concatenate([np.asarray(Image.open(written(tmp_path / "3.png", "3")))] * 2)).save(stacked)
    none = [noise, *(written(tmp_path / f"{letter}.png", letter) for letter in "MHK")]
    drawn = [draw(tmp_path / f"{k}-drawn.png", IMAGES[k]) for k in range(60)]
    printed = [written(tmp_path / f"{k}-printed.png", str(k)) for k in range(10)]
    capsys.readouterr()
    assert cli.run(["predict", str(digits), *map(str, [*several, stacked, *none, *drawn, *printed])]) == 0
    lines = iter(capsys.readouterr().out.splitlines())
    for _ in [*several, stacked]:
        assert re.search(r"not sure: [23] characters seem to be on the picture", next(lines))
    for _ in none:
        assert "not sure: it is unlike" in next(lines)
    for _ in [*drawn, *printed]:
        assert "not sure:" not in next(lines)


def test_a_test_image_shows_its_label(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.fromarray((255 * (1 - IMAGES[12].reshape(8, 8))).astype(np.uint8)).save(tmp_path / "twelve.png")
    capsys.readouterr()
    assert cli.run(["predict", str(digits), str(tmp_path / "twelve.png")]) == 0
    assert capsys.readouterr().out.rstrip().endswith(f"test image 12, its label is {LABELS[12]}")


def test_the_model_of_a_run_is_three_lines_of_python(digits: Path) -> None:
    model = sg.recipes.load(digits)
    with sg.no_grad():
        found = model(sg.tensor(IMAGES)).numpy().argmax(1)
    rows = read_rows(digits / "metrics.jsonl")
    best = min(rows, key=lambda row: row["test_loss"])
    assert (found == LABELS).mean() == pytest.approx(best["test_accuracy"])
    assert not model.training


def test_the_best_is_kept_when_later_epochs_are_worse(tmp_path: Path) -> None:
    options = ["train", "digits", "--device", "cpu", "--out", str(tmp_path)]
    assert cli.run([*options, "--epochs", "2"]) == 0
    best = load_checkpoint(tmp_path / "best")[1]
    assert best["position"]["epoch"] == 2
    assert cli.run([*options, "--epochs", "4", "--resume", "--lr", "2.0", "--override"]) == 0
    assert load_checkpoint(tmp_path / "best")[1] == best
    assert load_checkpoint(tmp_path)[1]["position"]["epoch"] == 4


@pytest.mark.slow
def test_a_resumed_run_changes_its_rate_only_when_told_to_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["train", "xor", "--device", "cpu", "--out", str(tmp_path)]
    assert cli.run([*options, "--epochs", "1"]) == 0
    assert cli.run([*options, "--epochs", "2", "--resume", "--lr", "0.002"]) == 2
    assert "--override" in capsys.readouterr().err
    assert cli.run([*options, "--epochs", "2", "--override"]) == 2
    assert "give --resume too" in capsys.readouterr().err
    assert cli.run([*options, "--epochs", "2", "--resume", "--lr", "0.002", "--override"]) == 0
    assert "lr 0.01 now 0.002" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row.get("override") for row in rows] == [None, {"lr": [0.01, 0.002]}, None]
    meta = load_checkpoint(tmp_path)[1]
    assert meta["hyperparameters"]["lr"] == 0.002
    assert cli.run([*options, "--epochs", "3", "--resume", "--lr", "0.002"]) == 0
    assert len(read_rows(tmp_path / "metrics.jsonl")) == 4


@pytest.mark.parametrize("name", ["autoencoder", "digits-cnn", "digits-logic"])
@pytest.mark.slow
def test_other_recipes_of_digits_answer_too(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    size = ["--batch-size", "1437"] if name != "digits-cnn" else ["--batch-size", "400"]
    assert cli.run(["train", name, "--device", "cpu", "--epochs", "1", "--out", str(folder), *size]) == 0
    printed = capsys.readouterr().out
    assert f"next: shadergrad predict {name} {folder} IMAGE..." in printed
    assert f"next: shadergrad train {name} --resume --epochs 2 {size[0]} {size[1]}" in printed
    picture = draw(tmp_path / "three.png", IMAGES[0])
    assert cli.run(["predict", name, str(folder), str(picture), "--out", str(tmp_path)]) == 0
    assert str(picture) in capsys.readouterr().out
    assert (tmp_path / "reconstructions.png").exists() == (name == "autoencoder")


@pytest.mark.slow
def test_the_character_model_writes_on_from_a_prompt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "cpu", "--epochs", "1", "--batch-size", "1024", "--out", str(tmp_path)]
    assert cli.run(["train", "char-lm", *options]) == 0
    capsys.readouterr()
    ask = ["predict", "char-lm", str(tmp_path), "--prompt", "The ", "--characters", "30"]
    assert cli.run(ask) == 0
    text = capsys.readouterr().out
    assert text.startswith("The ")
    assert len(text.rstrip("\n")) >= 20
    assert cli.run(ask) == 0
    assert capsys.readouterr().out == text
    assert cli.run([*ask, "--prompt", "☃"]) == 2


def test_commands_are_those_of_the_recipes_that_can_be_asked() -> None:
    able = {
        name
        for name in recipes.names()
        if (p := recipes.find(name).predict) is not None and p.answer and p.takes == "images"
    }
    assert set(predict_recipes.IMAGES) == able


def test_another_recipes_run_is_refused(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["predict", "mnist", str(digits), "x.png"]) == 2
    assert "is a run of digits, not of mnist" in capsys.readouterr().err
    with pytest.raises(CheckpointError, match="is a run of digits, not of"):
        recipes.load(digits, recipe=tmp_path / "mine.py")


MINE = """
import numpy as np, shadergrad as sg, shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.train import Option, Prediction, Recipe, Trainer, classify_images, probabilities

def network(shared):
    return nn.Sequential(nn.Linear(64, shared["width"]), nn.ReLU(), nn.Linear(shared["width"], 10))

def build(settings, device):
    model = network({"width": settings["width"]}).to(device)
    train_images, train_labels, *_ = sg.data.load_digits()
    optimizer = sg.optim.AdamW(model.parameters(), lr=settings.lr)
    return Trainer(model, optimizer, F.cross_entropy, (train_images, train_labels))

RECIPE = Recipe(
    "Digits, again.", build, {"epochs": 4, "batch_size": 64, "lr": 1e-2}, (Option("width", int, "Hidden.", 32),),
    predict=Prediction(network, classify_images(8, probabilities)),
)
"""


def test_a_recipe_of_ones_own_is_asked_by_the_words_that_its_run_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my recipes").mkdir()
    Path("my recipes/mine.py").write_text(MINE)
    draw(Path("a.png"), IMAGES[0])
    assert cli.run(["train", "my recipes/mine.py", "--device", "cpu", "--width", "16"]) == 0
    printed = capsys.readouterr().out
    (words,) = re.findall(r"^next: shadergrad (predict .*) IMAGE\.\.\.$", printed, re.M)
    assert cli.run([*shlex.split(words), "a.png"]) == 0
    assert capsys.readouterr().out.startswith(f"a.png: {LABELS[0]} (")
    assert "sg.recipes.load('runs/mine', recipe='my recipes/mine.py')" in printed
    assert recipes.load("runs/mine", recipe="my recipes/mine.py")(sg.tensor(IMAGES)).shape == (len(IMAGES), 10)
    with pytest.raises(CheckpointError, match=r"a run of your mine\.py. Hint: say where that lies"):
        recipes.load("runs/mine")
    Path("mute.py").write_text(
        MINE.replace("predict=", "").replace("Prediction(network, classify_images(8, probabilities)),", "")
    )
    assert cli.run(["predict", "mute.py", "runs/mine", "a.png"]) == 2
    assert "mute.py does not say what its model can be asked" in capsys.readouterr().err


def test_an_image_that_is_none_or_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(DataError, match="no image that pillow knows"):
        read_drawing(tmp_path / "text.png", 8)
    Image.new("L", (50, 50), "white").save(tmp_path / "white.png")
    with pytest.raises(DataError, match="nothing drawn"):
        read_drawing(tmp_path / "white.png", 8)
    with pytest.raises(DataError, match="No such file"):
        read_drawing(tmp_path / "gone.png", 8)


def test_an_image_of_the_right_size_stays_as_it_is(tmp_path: Path) -> None:
    Image.fromarray((255 * IMAGES[5].reshape(8, 8)).astype(np.uint8)).save(tmp_path / "small.png")
    np.testing.assert_allclose(read_drawing(tmp_path / "small.png", 8), IMAGES[5].reshape(8, 8), atol=1 / 255)
