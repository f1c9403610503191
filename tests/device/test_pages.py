"""What the pages show is what happens: their programs run as they stand, one after the other, and their commands exist."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer.main

import shadergrad as sg
from ranks import free_port
from shadergrad import cli
from shadergrad.cli.app import app
from shadergrad.errors import ShadergradError
from shadergrad.logic.circuit import from_json
from shadergrad.web.join import joined

ROOT = Path(__file__).parents[2]
TEXTS = [
    *(ROOT / "docs").glob("*.md"),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "RESULTS.md",
    ROOT / "examples" / "README.md",
]
SHOWN = {"python", "sh", "json", "js", "wgsl"}  # kinds of blocks; another one would be run by nobody
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
ELSEWHERE = {"README.md"}  # on both devices, in test_examples
PAGES = sorted(p.name for p in TEXTS if "```python" in p.read_text() and p.name not in ELSEWHERE)
SLOW = {"tutorial.md"}


def text_of(page: str) -> str:
    return next(path for path in TEXTS if path.name == page).read_text()


def test_no_block_of_a_page_is_of_a_kind_that_nobody_runs() -> None:
    everywhere = [*TEXTS, *(ROOT / "docs" / "decisions").glob("*.md"), ROOT / "CHANGELOG.md"]
    kinds = {(path.name, kind) for path in everywhere for kind in re.findall(r"^```(.+)$", path.read_text(), re.M)}
    assert {kind for _, kind in kinds} <= SHOWN
    run = {*PAGES, *ELSEWHERE}
    assert {name for name, kind in kinds if kind in ("python", "sh")} <= run
    assert {name for name, kind in kinds if kind in ("json", "js", "wgsl")} <= {
        "logic.md",
        "browser.md",
        "CONTRIBUTING.md",
    }


@pytest.mark.parametrize("page", [pytest.param(p, marks=pytest.mark.slow if p in SLOW else ()) for p in PAGES])
def test_the_programs_on_a_page_run_as_written(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page == "onnx.md":
        pytest.importorskip("onnxruntime", reason='ONNX NOT TESTED: pip install "shadergrad[onnx]" onnxruntime')
    if page == "distributed.md":
        alone_as_by_torchrun(monkeypatch)
    text = text_of(page)
    names: dict[str, object] = {}
    for found in BLOCK.finditer(text):
        kind, program = found.groups()
        line = text[: found.start()].count("\n") + 1
        if kind == "python":
            exec(compile("\n" * line + program, page, "exec"), names)
        elif kind == "sh":
            for words in map(shlex.split, program.splitlines()):
                assert (words[0], cli.run(words[1:])) == ("shadergrad", 0), f"{page}:{line}"
    if sg.distributed.is_initialized():
        sg.distributed.destroy_process_group()


def alone_as_by_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchrun starts the only process of a program; groups that the page leaves are left at the end."""
    started = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    for name, value in started.items():
        monkeypatch.setenv(name, str(value))


def commands() -> Iterator[tuple[str, str]]:
    """(page, line) of all that the pages would have one type."""
    for path in TEXTS:
        for line in re.findall(r"^(?:    )?(shadergrad .*)$", path.read_text(), re.M):
            yield path.name, line.partition(" # ")[0]


def parsed(group: Any, words: Sequence[str], parent: Any = None) -> Any:
    """The context of a command whose words are understood; nothing runs. Raises what typer raises."""
    context = group.make_context(words[0] if words else "", list(words), parent=parent)
    rest = [*getattr(context, "_protected_args", []), *context.args]
    if not hasattr(group, "resolve_command") or not rest:
        return context
    _, command, rest = group.resolve_command(context, rest)
    return parsed(command, rest, context)


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())))
def test_a_command_on_a_page_is_one(page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text((ROOT / "examples" / "my_recipe.py").read_text())
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for part in line.split(" && "):
        with suppress(typer.Exit):  # of --help and --version
            parsed(typer.main.get_command(app), shlex.split(part)[1:])


def test_a_command_that_there_is_not_would_be_seen() -> None:
    for line in ("train digit", "train digits --epoch 3", "logic export circuit.json", "predict digits"):
        with pytest.raises((typer.TyperException, ShadergradError)):
            parsed(typer.main.get_command(app), line.split())


def test_the_circuit_on_a_page_is_one() -> None:
    (text,) = [text for kind, text in BLOCK.findall(text_of("logic.md")) if kind == "json"]
    assert len(json.loads(text)["gates"]) == len(from_json(text))  # type: ignore[arg-type]


def test_what_the_browsers_page_calls_is_in_its_runtime() -> None:
    (text,) = [text for kind, text in BLOCK.findall(text_of("browser.md")) if kind == "js"]
    runtime = joined(ROOT / "src" / "shadergrad" / "web" / "site" / "runtime.js")
    called = set(re.findall(r"(?:step|Program)\.(\w+)\(", text))
    assert called >= {"load", "run", "write", "read", "saveState"}
    assert all(re.search(rf"\b{name}\(", runtime) for name in called)
