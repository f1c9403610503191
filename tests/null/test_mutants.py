"""The table of planted faults keeps up with the sources: each still applies, and the tests that it names are there."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import mutants
import planting
from faults import FAULTS
from planting import Fault

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
SCRIPTS = ROOT / "scripts"


@cache
def names_in(path: str) -> set[str]:
    """The functions and classes of a file of tests, as ids have them."""
    found: set[str] = set()
    for node in ast.parse((TESTS / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{f.name}" for f in node.body if isinstance(f, ast.FunctionDef)}
    return found


def test_there_are_many_faults_each_with_a_name_of_its_own() -> None:
    names = [f.name for f in FAULTS]
    assert len(names) == len(set(names)) >= 60
    assert len({(f.file, f.within, f.find, f.put, f.nth) for f in FAULTS}) == len(FAULTS)
    parts = {Path(f.file).parts[0].removesuffix(".py") for f in FAULTS}
    assert parts >= {
        "graph",
        "primitives",
        "compile",
        "run",
        "runtime",
        "tensor",
        "nn",
        "optim",
        "data",
        "train",
        "cli",
        "logic",
    }


def test_a_fault_is_in_one_place_and_changes_it() -> None:
    stale = [f"{fault.name}: {why}" for fault in FAULTS if (why := planting.trouble(fault))]
    assert not stale, "run scripts/mutants.py --mend, then mend in scripts/faults/ what is left: " + "; ".join(stale)


def test_the_tests_that_a_fault_names_are_there() -> None:
    stale = []
    for fault in FAULTS:
        assert fault.tests, f"{fault.name} names no test"
        for test in fault.tests:
            path, _, name = test.partition("::")
            if not (TESTS / path).is_file() or (name and name.split("[", 1)[0] not in names_in(path)):
                stale.append(f"{fault.name}: there is no tests/{test}")
    assert not stale, "mend scripts/faults/: " + "; ".join(stale)


@pytest.mark.slow
def test_the_cases_that_a_fault_names_are_there() -> None:
    tests = mutants.arguments_for(test for f in FAULTS for test in f.tests)
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *tests]
    paths = [str(ROOT / "scripts"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


def test_ids_are_taken_whole_or_as_they_begin() -> None:
    assert mutants.begins_with("tests/a.py::test_x", "tests/a.py::test_x")
    assert mutants.begins_with("tests/a.py::test_x[1-2]", "tests/a.py::test_x")
    assert mutants.begins_with("tests/a.py::test_x[1-2]", "tests/a.py::test_x[1")
    assert mutants.begins_with("tests/a.py::TestX::test_y", "tests/a.py::TestX")
    assert mutants.begins_with("tests/a.py::test_x", "tests/a.py")
    assert not mutants.begins_with("tests/a.py::test_xyz", "tests/a.py::test_x")
    assert not mutants.begins_with("tests/a.py::test_x[2]", "tests/a.py::test_x[1")


def tree(folder: Path) -> Fault:
    """A tree with a library of one function and its tests; the function's fault."""
    for name, text in {
        "src/shadergrad/__init__.py": "",
        "src/shadergrad/double.py": "def double(x):\n    return 2 * x\n",
        "tests/test_double.py": (
            "import pytest\nfrom shadergrad.double import double\n\n"
            "@pytest.mark.parametrize('x', [0, 2, 3])\ndef test_double(x):\n    assert double(x) == x + x\n\n"
            "def test_a_wrong_one():\n    assert double(1) == 3\n"
        ),
        **{
            f"scripts/{p.relative_to(SCRIPTS)}": p.read_text()
            for p in (*SCRIPTS.glob("*.py"), *SCRIPTS.glob("faults/*.py"))
        },
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return Fault("triples", "double.py", "double", "return 2 * x", "return 3 * x", ("test_double.py::test_double[3",))


@pytest.fixture
def triples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fault:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    return tree(tmp_path)


@pytest.mark.slow
def test_faults_are_caught_or_survive_and_the_tree_is_as_it_was(
    triples: Fault, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    squares = Fault(
        "squares", "double.py", "double", "return 2 * x", "return x * x", ("test_double.py::test_double[2",)
    )
    gone = Fault("gone", "double.py", "double", "return 4 * x", "return x", triples.tests)
    lost = replace(gone, name="lost", file="treble.py")
    found = mutants.run([triples, squares, gone, lost], jobs=1, seconds=60)
    assert found == {
        "triples": mutants.CAUGHT,
        "squares": mutants.SURVIVED,
        "gone": mutants.MOVED,
        "lost": mutants.MOVED,
    }
    assert (tmp_path / "src/shadergrad/double.py").read_text() == "def double(x):\n    return 2 * x\n"
    assert "tests pass" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("test_a_wrong_one", "mend them first"),
        ("test_none", "not found"),
        ("test_double[4", r"no test begins with tests/test_double.py::test_double\[4"),
    ],
)
def test_tests_that_fail_anyway_or_are_not_there_end_it(test: str, words: str, triples: Fault) -> None:
    with pytest.raises(SystemExit, match=words):
        mutants.run([replace(triples, tests=(f"test_double.py::{test}",))], 1, 60)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([mutants.CAUGHT] * 20, 0),
        ([mutants.CAUGHT] * 19 + [mutants.SURVIVED], 0),
        ([mutants.CAUGHT] * 18 + [mutants.SURVIVED] * 2, 1),
        ([mutants.CAUGHT] * 19 + [mutants.MOVED], 1),
        ([mutants.CAUGHT] * 19 + [mutants.NO_TEST], 1),
    ],
)
def test_too_many_survivors_and_a_stale_table_are_failures(
    results: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = FAULTS[: len(results)]
    monkeypatch.setattr(mutants, "FAULTS", faults)
    found = {f.name: result for f, result in zip(faults, results, strict=True)}
    monkeypatch.setattr(mutants, "run", lambda *_: found)
    assert mutants.main([]) == code
