"""Recipes from files: a user's own by its path, and one dropped into the folder; what they can get wrong, in one line."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from helpers import StopAfter, assert_same_bits
from shadergrad import cli, recipes
from shadergrad.checkpoint import load_checkpoint
from shadergrad.train import Option, Recipe, RecipeError, training_run


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")


def rows(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def assert_same_checkpoints(a: Path, b: Path) -> None:
    """Two runs are at the same place, with the same bits."""
    (arrays_a, meta_a), (arrays_b, meta_b) = load_checkpoint(a), load_checkpoint(b)
    assert meta_a == meta_b
    assert arrays_a.keys() == arrays_b.keys()
    for name, array in arrays_a.items():
        assert_same_bits(arrays_b[name], array, name)


MINE = """
import numpy as np
import shadergrad as sg
from shadergrad.train import Option, Recipe, Trainable

def build(settings, device):
    model = sg.nn.Linear(1, settings["width"]).to(device)
    optimizer = sg.optim.SGD(model.parameters(), lr=settings.lr)
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        return loss
    measures = lambda: {"test_accuracy": 0.5}
    return Trainable(model, optimizer, (np.linspace(0, 1, 12, dtype=np.float32)[:, None],), step, measures)

RECIPE = Recipe("A line to one.", build, {"epochs": 2, "batch_size": 4, "lr": 0.1}, (Option("width", int, "Lines.", 1),))
"""
BY_STEPS = MINE.replace('"epochs": 2', '"steps": 7')


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's file, in a folder with a blank in its name, where the user is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = Path("my files", "mine_too.py")
    path.parent.mkdir()
    path.write_text(MINE)
    return path


def assert_refused(capsys: pytest.CaptureFixture[str], words: list[object], *expected: str) -> None:
    """Exit code 2, and one line on stderr with all of `expected`."""
    capsys.readouterr()
    assert cli.run([str(word) for word in words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: "), error
    assert error.count("\n") == 1, error
    for word in expected:
        assert word in error


def test_a_file_dropped_into_the_folder_is_a_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recipes, "__path__", [*recipes.__path__, str(tmp_path)])
    (tmp_path / "dropped_in.py").write_text(MINE)
    try:
        assert "dropped-in" in recipes.names()
        assert cli.run(["train", "--help"]) == 0
        assert "│ dropped-in " in capsys.readouterr().out
        assert cli.run(["train", "dropped-in", "--device", "cpu", "--out", str(tmp_path / "out")]) == 0
        assert load_checkpoint(tmp_path / "out")[1]["recipe"] == "dropped-in"
    finally:
        sys.modules.pop("shadergrad.recipes.dropped_in", None)


def test_a_broken_file_in_the_folder_breaks_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recipes, "__path__", [*recipes.__path__, str(tmp_path)])
    (tmp_path / "dropped_in.py").write_text("import shadergrad\nRECIPE = (\n")
    assert_refused(capsys, ["train", "--help"], "dropped_in.py, line 2: '(' was never closed: RECIPE = (")
    assert cli.run(["train", "xor", "--help"]) == 0


def test_a_users_file_is_trained_as_a_recipe_of_the_library_is(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", str(mine), "--device", "cpu"]
    assert cli.run([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert "A line to one." in text
    for option in ("--epochs", "--batch-size", "--lr", "--seed", "--out", "--resume", "--device", "--width"):
        assert option in text
    assert cli.run([*words, "--epochs", "3"]) == 0
    out = Path("runs/mine-too")
    assert sorted(path.name for path in out.iterdir()) == [
        "checkpoint.json",
        "checkpoint.safetensors",
        "curve.png",
        "metrics.jsonl",
    ]
    assert [row["test_accuracy"] for row in rows(out)] == [0.5, 0.5, 0.5]
    assert load_checkpoint(out)[1]["recipe"] == "mine_too.py"
    assert "test accuracy 50.00 % after epoch 3" in capsys.readouterr().out


@pytest.mark.slow
def test_a_users_run_that_was_stopped_goes_on_by_the_command_that_it_shows(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", str(mine), "--device", "cpu", "--width", "2"]
    assert cli.run([*words, "--out", "whole"]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(training_run, "StopWish", lambda: StopAfter(asked=3))
        assert cli.run([*words, "--out", "in parts"]) == cli.INTERRUPTED
    (go_on,) = re.findall(r"To go on: shadergrad (.*)", capsys.readouterr().out)
    assert go_on.startswith("train 'my files/mine_too.py' --resume --epochs 2 --batch-size 4 --lr 0.1 ")
    assert go_on.endswith(" --width 2")
    assert cli.run(shlex.split(go_on)) == 0
    assert_same_checkpoints(Path("whole"), Path("in parts"))
    assert_refused(
        capsys, [*words, "--out", "whole", "--resume", "--width", 3, "--epochs", 9], "that run had width 2 (now 3)"
    )


@pytest.mark.slow
def test_a_recipe_that_counts_steps_goes_through_its_data_again(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven steps are two epochs of three and a step; lines of metrics are those of each tenth, and what is measured at the end."""
    mine.write_text(BY_STEPS)
    words = ["train", str(mine), "--device", "cpu"]
    assert cli.run([*words, "--out", "whole"]) == 0
    assert cli.run([*words, "--out", "parts", "--steps", "3"]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(training_run, "StopWish", lambda: StopAfter(asked=1))
        assert cli.run([*words, "--out", "parts", "--resume"]) == cli.INTERRUPTED
    assert cli.run([*words, "--out", "parts", "--resume"]) == 0
    assert_same_checkpoints(Path("whole"), Path("parts"))
    assert load_checkpoint("whole")[1]["position"] == {"epoch": 2, "step": 1}
    for out in ("whole", "parts"):
        first, last = rows(Path(out))
        assert (first["step"], last["step"]) == (0, 7)
        assert first["loss"] > 0
        assert last["test_accuracy"] == 0.5
    assert cli.run([*words, "--out", "long", "--steps", "33"]) == 0
    assert [row["step"] for row in rows(Path("long"))] == [0, 10, 20, 30, 33]
    assert len({row.get("loss") for row in rows(Path("long"))}) == 5


def test_a_users_file_may_import_its_neighbours(mine: Path) -> None:
    (mine.parent / "a_neighbour_of_mine.py").write_text(MINE)
    mine.write_text("from a_neighbour_of_mine import RECIPE\n")
    try:
        assert cli.run(["train", str(mine), "--device", "cpu"]) == 0
    finally:
        sys.modules.pop("a_neighbour_of_mine", None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("x = 1\nrecipes = 2\n", ["mine_too.py has no RECIPE, but recipes", "examples/my_recipe.py"]),
        ("x = 1\n", ["mine_too.py has no RECIPE. "]),
        ("RECIPE = {}\n", ["its RECIPE is a dict, and not a Recipe"]),
        ("x = 1\nfor\n", ["mine_too.py, line 2: invalid syntax: for"]),
        ("x = 1\nraise OSError('a\\nb')\n", ["mine_too.py, line 2: OSError: a b"]),
        ("import no_such_module_here\n", ["line 1: ModuleNotFoundError: No module named 'no_such_module_here'"]),
        ("import sys\n\nsys.exit(3)\n", ["line 3: SystemExit: 3"]),
        ("\0", ["mine_too.py", "null bytes"]),
        (MINE.replace('"epochs"', '"epoch"'), ["line 18: [Recipe] defaults has 'epoch'", "Did you mean epochs?"]),
        (MINE.replace('"epochs": 2', '"lr": 1'), ["either epochs or steps"]),
        (MINE.replace('"lr": 0.1', '"lr": "0.1"'), ["--lr is a float; its default is '0.1'"]),
        (MINE.replace('"width", int', '"seed", int'), ["options has 'seed', which is there already"]),
        (MINE.replace('"width", int', '"width", list'), ["--width is of kind <class 'list'>"]),
        (MINE.replace('settings["width"]', 'settings["size"]'), ["asks for its option 'size'", "width"]),
        (MINE.replace("return Trainable", "Trainable"), ["build of mine_too.py returned None", "a Trainable"]),
        (MINE.replace("return loss", "pass"), ["step of mine_too.py returned None", "a scalar tensor"]),
        (MINE.replace("return loss", "return model(x)"), ["returned a tensor (4, 1)", "a scalar tensor"]),
        (MINE.replace("[:, None],)", "[:, None], np.zeros(5))"), ["equal first axes", "(12, 1), (5,)"]),
        (MINE.replace("[:, None],)", "[:, None])"), ["a tuple of NumPy arrays"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_file_that_is_no_recipe_is_refused_in_one_line(
    mine: Path, capsys: pytest.CaptureFixture[str], content: str, words: list[str]
) -> None:
    mine.write_text(content)
    assert_refused(capsys, ["train", mine, "--device", "cpu"], *words)


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("digitz", ["No such command 'digitz'", "neither a recipe nor a file", "Did you mean digits"]),
        ("quux", ["There are autoencoder, char-lm", "your own is the path of its file"]),
        ("mine", ["Did you mean mine_2.py?"]),
        ("my files/mine.py", ["there is no recipe file my files/mine.py. Did you mean my files/mine_too.py?"]),
        ("other/mine.py", ["there is no folder other"]),
        ("my files", ["my files: that is a folder, with mine_too.py."]),
        ("notes.txt", ["notes.txt, line 1"]),
    ],
)
def test_a_word_that_is_no_recipe_is_answered_with_what_is_near(
    mine: Path, capsys: pytest.CaptureFixture[str], word: str, words: list[str]
) -> None:
    Path("mine_2.py").write_text(MINE)
    Path("notes.txt").write_text("what to do\n")
    assert_refused(capsys, ["train", word], *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--widths", "3"], "No such option: --widths"),
        (["--width", "many"], "--width"),
        (["--epochs", "0"], "at least 1"),
    ],
)
def test_bad_options_of_a_users_recipe_are_refused(
    mine: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert_refused(capsys, ["train", mine, *options], words)


def test_a_recipe_needs_a_way_to_train() -> None:
    with pytest.raises(RecipeError, match="either build, a function, or train"):
        Recipe("Nothing.")
    with pytest.raises(RecipeError, match="help is empty"):
        Recipe(" ", cast(Any, lambda settings, device: None), {"epochs": 1, "batch_size": 1})
    with pytest.raises(RecipeError, match="is no name in Python"):
        Option("batch-size", int, "A number.")


def test_the_template_trains_and_tells_the_moons_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = Path(__file__).parents[2] / "examples" / "my_recipe.py"
    assert len(template.read_text().splitlines()) < 50
    assert cli.run(["train", str(template), "--device", "cpu", "--epochs", "8", "--out", str(tmp_path)]) == 0
    assert rows(tmp_path)[-1]["test_accuracy"] > 0.95
    assert cli.run(["train", str(template), "--help"]) == 0
    assert "runs/my-recipe" in capsys.readouterr().out
