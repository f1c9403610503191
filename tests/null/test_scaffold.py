"""What scripts/scaffold.py begins is filled in; names that are bad or taken are refused, and a program's digest can be had alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import golden
import scaffold

ROOT = Path(__file__).parents[2]


def test_what_was_begun_is_filled_in() -> None:
    left = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "SCAFFOLD" in line and "SHADERGRAD" not in line
    ]
    assert not left, f"say there what it is, and remove the word SCAFFOLD: {', '.join(left)}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["op"], "name it: make op NAME=..."),
        (["op", "Entr"], "'Entr' is no name of an operation: lower case"),
        (["op", "soft_sign"], "one word, such as entr"),
        (["op", "exp"], "tensors have a method exp already"),
        (["op", "bitcast"], "there is a primitive Bitcast already"),
        (["composed", "lambda"], "'lambda' is no name of an operation"),
        (["composed", "two__words"], "words joined by _"),
        (["composed", "wave", "--room", "kitchen"], "'kitchen' is no room of composed operations: elementwise,"),
        (["module", "scale"], "'scale' is no name of a class: words that begin in upper case"),
        (["module", "Linear"], "sg.nn has Linear already"),
        (["module", "Recurrent"], "src/shadergrad/nn/recurrent.py is there already"),
        (["optimizer", "Adam"], "sg.optim has Adam already"),
        (["optimizer", "Signum", "--room", "nn"], "--room is for composed operations"),
    ],
    ids=" ".join,
)
def test_bad_and_taken_names_are_refused_and_nothing_is_written(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Path, "write_text", lambda *_: pytest.fail("something is written"))
    assert scaffold.main(arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith("nothing is written: ")
    assert words in said


def test_the_digests_of_one_operation_are_those_of_all() -> None:
    known = json.loads(golden.GOLDEN.read_text())
    found = golden.digests(golden.compiled("exp"))
    assert found == {name: digest for name, digest in known.items() if name.startswith("exp of ")}


def test_a_name_of_no_program_is_refused() -> None:
    with pytest.raises(SystemExit, match="no program's name begins with 'nothing'"):
        golden.main(["--only", "nothing"])


def test_one_operation_is_written_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "ROOT", tmp_path)
    monkeypatch.setattr(golden, "GOLDEN", tmp_path / "kernels.json")
    monkeypatch.setattr(golden, "compiled", lambda only: {"exp of 1, portable": ["text"]})
    golden.GOLDEN.write_text(json.dumps({"exp of 2, portable": "gone", "expm1 of 1, portable": "stays"}))
    assert golden.main(["--only", "exp", "--write"]) == 0
    assert json.loads(golden.GOLDEN.read_text()).keys() == {"exp of 1, portable", "expm1 of 1, portable"}
