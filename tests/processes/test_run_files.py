"""Files that a program under `shadergrad run` saves are PyTorch's, and it reads PyTorch's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_run_script import run

SAVES = """
import argparse
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(4, 2)).sum().backward()
optimizer.step()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "args": argparse.Namespace(lr=0.1), "best": float("inf")},
           "checkpoint.pt")
torch.save(model.state_dict(), "weights.pth")
"""

LOADS = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
optimizer = torch.optim.Adam(model.parameters())
found = torch.load("checkpoint.pt", map_location="cpu", weights_only=False)
model.load_state_dict(torch.load("weights.pth"))
optimizer.load_state_dict(found["optimizer"])
print(all(torch.equal(x, found["model"][name]) for name, x in model.state_dict().items()), found["args"], found["best"])
print(optimizer.state[model[0].weight]["step"])
try:
    torch.load("checkpoint.pt")
except Exception as error:
    print("Namespace" in str(error))
with torch.serialization.safe_globals([type(found["args"])]):
    print(torch.load("checkpoint.pt")["args"].lr)
"""


@pytest.mark.slow
def test_checkpoints_are_read_by_either(tmp_path: Path) -> None:
    script = tmp_path / "with_pytorch.py"
    for saver in ("ours", "theirs"):
        for loader in ("ours", "theirs"):
            for who, source in ((saver, SAVES), (loader, LOADS)):
                if who == "ours":
                    code, out, error = run(tmp_path, source)
                else:
                    script.write_text(source)
                    done = subprocess.run(
                        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
                    )
                    code, out, error = done.returncode, done.stdout, done.stderr
                assert code == 0, f"{saver} to {loader}: {error}"
            assert out == "True Namespace(lr=0.1) inf\ntensor(1.)\nTrue\n0.1\n", f"{saver} to {loader}"
