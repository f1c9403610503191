"""Faults are planted where their definition and expression are, wherever those stand and however they are written."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from planting import SOURCE, Fault, NotPlanted, mend, plant, trouble

TEXT = """
RULES = {
    "one": first(a, b),
}

class Adam:
    rate = 1.0

    def step(self, gradient):
        if self.rate and gradient is not None:
            self.count += 1
            return gradient * self.rate
        return gradient

    def restart(self):
        return gradient * self.rate
"""
SLOWER = Fault("slower", "adam.py", "Adam.step", "return gradient * self.rate", "return gradient", ("test_adam.py",))


def test_a_fault_is_planted_in_its_definition_alone() -> None:
    assert plant(TEXT, SLOWER) == TEXT.replace("return gradient * self.rate", "return gradient", 1)


@pytest.mark.parametrize(
    ("within", "find", "put"),
    [
        ("RULES", "a, b", "b, a"),
        ("Adam.rate", "1.0", "2.0"),
        ("Adam", "self.count += 1", "pass"),
        ("", '"one"', '"two"'),
    ],
)
def test_definitions_are_functions_classes_names_and_the_file(within: str, find: str, put: str) -> None:
    assert plant(TEXT, replace(SLOWER, within=within, find=find, put=put)) == TEXT.replace(find, put)


def test_a_definition_may_stand_elsewhere_in_its_file_and_be_changed() -> None:
    moved = "import this\n\n" + TEXT.replace("self.count += 1", "self.count += 2\n            self.seen = True")
    assert plant(moved, SLOWER) == moved.replace("return gradient * self.rate", "return gradient", 1)


@pytest.mark.parametrize(
    ("written", "find"),
    [
        ("call(\n    a,\n    b,  # the second\n)", "call(a, b)"),
        ("call(a, b)", "call(\n    a,\n    b,\n)"),
        ("x = (\n    a + b\n)", "x = a + b"),
        ("x = call('a')", 'x = call("a")'),
        ("x = [k for k in a\n     if k]", "[k for k in a if k]"),
    ],
)
def test_line_breaks_comments_commas_and_brackets_do_not_matter(written: str, find: str) -> None:
    text = f"{written}\n"
    assert plant(text, replace(SLOWER, within="", find=find, put="gone()")) in (
        "gone()\n",
        "x = gone()\n",
        "x = call(gone())\n",
    )


def test_words_are_found_whole() -> None:
    assert plant("ab = 1; b = 2\n", replace(SLOWER, within="", find="b =", put="c =")) == "ab = 1; c = 2\n"
    with pytest.raises(NotPlanted):
        plant("xs = returned\n", replace(SLOWER, within="", find="return ed", put=""))


def test_what_is_planted_takes_the_indentation_of_its_place() -> None:
    fault = replace(
        SLOWER, find="if self.rate and gradient is not None:\n    self.count += 1", put="if True:\n    pass"
    )
    assert "\n        if True:\n            pass\n            return" in plant(TEXT, fault)
    outside = replace(fault, within="step")
    assert "\n    if True:\n        pass\n        return" in plant(
        "def step(self):\n    if self.rate and gradient is not None:\n        self.count += 1\n        return 1\n",
        outside,
    )


def test_what_fits_several_times_is_refused_unless_one_is_chosen() -> None:
    fault = replace(SLOWER, within="Adam", find="return gradient * self.rate")
    with pytest.raises(
        NotPlanted, match=r"is found 2 times in Adam of adam.py \(lines 12, 16\); say nth= or quote more"
    ):
        plant(TEXT, fault)
    assert plant(TEXT, replace(fault, nth=2)).endswith("def restart(self):\n        return gradient\n")
    with pytest.raises(NotPlanted, match="number 3 was asked for"):
        plant(TEXT, replace(fault, nth=3))


def test_what_is_not_found_is_said_with_what_is_nearest() -> None:
    with pytest.raises(NotPlanted, match=r"adam.py defines no Adam.stop. Nearest: Adam.step"):
        plant(TEXT, replace(SLOWER, within="Adam.stop"))
    with pytest.raises(
        NotPlanted, match=r"'.*gradient / self.rate' is not found in Adam.step of adam.py. Nearest: .* \*"
    ):
        plant(TEXT, replace(SLOWER, find="return gradient / self.rate"))


def test_shaders_are_anchored_by_text() -> None:
    shader = replace(SLOWER, file="math.wgsl", within="", find="a * b", put="a + b")
    assert plant("fn f() {\n  return a *\n    b; // product\n}", shader) == "fn f() {\n  return a + b; // product\n}"


# -- mending

TABLE = """FAULTS = (
    fault("slower", "adam.py", "Adam.step",
          "return gradient * self.rate", "return gradient",
          "test_adam.py"),  # a comment
)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / SOURCE).mkdir(parents=True)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "optim.py").write_text(TABLE)
    (tmp_path / SOURCE / "adam.py").write_text(TEXT)
    return tmp_path


def mended(tree: Path, text: str, file: str = "adam.py") -> tuple[list[str], str]:
    (tree / SOURCE / "adam.py").unlink()
    (tree / SOURCE / file).parent.mkdir(exist_ok=True)
    (tree / SOURCE / file).write_text(text)
    return mend([SLOWER], tree, tree / "tables"), (tree / "tables" / "optim.py").read_text()


def test_a_table_that_fits_stays(tree: Path) -> None:
    assert trouble(SLOWER, tree) is None
    assert mend([SLOWER], tree, tree / "tables") == []


def test_mending_finds_a_definition_in_another_file(tree: Path) -> None:
    said, table = mended(tree, TEXT, "rules/adam.py")
    assert said == ["mended slower: adam.py: Adam.step -> rules/adam.py: Adam.step"]
    assert table == TABLE.replace("adam.py", "rules/adam.py", 1)


def test_mending_finds_a_renamed_definition(tree: Path) -> None:
    said, table = mended(tree, TEXT.replace("restart", "resume").replace("class Adam", "class Adam2"))
    assert said == ["mended slower: adam.py: Adam.step -> adam.py: Adam2.step"]
    assert table == TABLE.replace("Adam.step", "Adam2.step")


def test_mending_says_what_it_cannot_find(tree: Path) -> None:
    said, table = mended(tree, TEXT.replace("def step", "def go"))
    assert len(said) == 1
    assert said[0].startswith("NOT MENDED slower: adam.py defines no Adam.step")
    assert said[0].endswith("Found in adam.py: Adam.go, adam.py: Adam.restart")
    assert table == TABLE
    shutil.rmtree(tree / SOURCE)
    (tree / SOURCE).mkdir(parents=True)
    assert mend([SLOWER], tree, tree / "tables") == [f"NOT MENDED slower: {SOURCE / 'adam.py'} is not there"]
