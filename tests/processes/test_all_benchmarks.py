"""`benchmarks/all.py` asks each benchmark for what it has, and says how each ended."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

every = importlib.import_module("all")


@pytest.mark.parametrize("benchmark", dict.fromkeys((*every.FULL, *every.QUICK)), ids=lambda b: b.name)
def test_a_benchmark_takes_the_arguments_that_it_is_given(benchmark: Any) -> None:
    app = typer.Typer(add_completion=False)
    app.command()(importlib.import_module(benchmark.script).main)
    _, script, *arguments = [*benchmark.command("webgpu"), "--results", "folder"]
    assert script.endswith(f"{benchmark.script}.py")
    typer.main.get_command(app).make_context(benchmark.script, arguments)  # raises where one is not known


def test_each_is_run_and_told_how_it_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scripts = {"good": "print('12 ms')", "bad": "print('a line'); raise SystemExit(3)"}

    class Script(every.Benchmark):
        def command(self, device: str) -> list[str]:
            return [sys.executable, "-c", scripts[self.script]]

    monkeypatch.setattr(every, "QUICK", [Script(name, "on {device}") for name in scripts])
    app = typer.Typer()
    app.command()(every.main)
    done = CliRunner().invoke(app, ["--quick", "--device", "cpu", "--out", str(tmp_path)], env={"COLUMNS": "100"})
    assert done.exit_code == 1
    for words in ("good on cpu", "12 ms", "well", "a line", "exit status 3"):
        assert words in done.output
    assert (tmp_path / "00-good.txt").read_text() == "12 ms\n"
    assert CliRunner().invoke(app, ["--quick", "--device", "cpu", "--only", "good"]).exit_code == 0
    assert "no benchmark has 'x'" in CliRunner().invoke(app, ["--quick", "--only", "x"]).output


def test_what_is_measured_is_kept_and_what_the_budget_leaves_out_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A benchmark writes its record and then takes too long: the record stays, and no other one begins."""
    script = (
        "import sys, time; from pathlib import Path; import record; print('began');"
        "record.keep(Path(sys.argv[-1]), 'step', 'cpu', [record.Measured('mlp', 'time', 2.0, 'ms')]);"
        "time.sleep(60)"
    )

    class Script(every.Benchmark):
        def command(self, device: str) -> list[str]:
            return [sys.executable, "-c", script]

    monkeypatch.setenv("PYTHONPATH", str(every.FOLDER))
    monkeypatch.setattr(every, "QUICK", [Script("first", ""), Script("second", "")])
    monkeypatch.setattr(every, "LEAST_SECONDS", 1)
    app = typer.Typer()
    app.command()(every.main)
    arguments = ["--quick", "--device", "cpu", "--budget", "12", "--commit", "abc", "--results", str(tmp_path)]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    assert done.exit_code == 0
    for words in ("began", "Left out, for the budget of 12 s:", "first, stopped before its end", "second"):
        assert words in done.output
    (found,) = every.record.read(tmp_path)
    assert (found.case, found.value, found.commit) == ("mlp", 2.0, "abc")


def test_one_that_takes_too_long_is_stopped() -> None:
    assert every.measure([sys.executable, "-c", "import time; time.sleep(60)"], 0.1) == ("", "stopped after 0.1 s")
