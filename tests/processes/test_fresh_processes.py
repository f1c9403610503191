"""What only a process shows that has just begun: its first use of the library, another order of sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import shadergrad as sg

SOURCE = Path(sg.__file__).parent.parent

PLAN = """
import shadergrad as sg
from shadergrad import nn

sg.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))
optimizer = sg.optim.AdamW(model.parameters())
seen, scale = sg.zeros(()), sg.ones(())

@sg.compile
def step(batch, *, options):
    optimizer.zero_grad()
    x, labels = batch
    loss = nn.functional.cross_entropy(model(x) * scale, labels)
    loss.backward()
    optimizer.step()
    seen.add_(1)
    return {"loss": loss, "more": (options["a"] * 2, [loss * 3])}

step((sg.ones(5, 4), sg.zeros(5, dtype=sg.int32)), options={"a": sg.ones(2)})
plan = step.plan.to_json()
"""


def run(program: str, folder: Path, **variables: str) -> str:
    """What a program prints, in a process with these environment variables."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), **variables}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plans_are_the_same_in_every_process(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(PLAN, names)
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    assert run(f"{PLAN}\nprint(plan)", tmp_path, PYTHONHASHSEED=hash_seed).strip() == names["plan"]


def test_a_setting_that_means_nothing_is_told_at_the_first_use_and_after_it(tmp_path: Path) -> None:
    """Not at the import, which tools do."""
    uses = ["(sg.ones(2) + 1).numpy()", "sg.ones(2, device='webgpu').numpy()"]
    tries = [f"try: {use}\nexcept sg.ShadergradError as e: print(e)" for use in uses]
    program = "\n".join(["import shadergrad as sg", "print('imported')", *tries])
    imported, *errors = run(program, tmp_path, SHADERGRAD_PROFILE="fast").splitlines()
    assert imported == "imported"
    assert [e.startswith("SHADERGRAD_PROFILE='fast'") for e in errors] == [True, True], errors


def test_a_foreign_backend_of_matplotlib_does_not_end_a_run(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "loss": 1.0}\n')
    program = "from shadergrad.train.plots import training_curve as t; print(t('metrics.jsonl', 'curve.png'))"
    assert run(program, tmp_path, MPLBACKEND="no_such_backend") == "None\n"
