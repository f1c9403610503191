"""`shadergrad run --device webgpu`: where the tensors of a program lie that names no device, and of one that does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MAKES = """
import numpy as np, torch
from torch.utils.data import DataLoader
class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, k):
        return torch.from_numpy(np.full(3, k, np.float32)), k
wide = torch.from_numpy(np.ones((2, 3)))
made = [torch.from_numpy(np.ones(2, np.float32)), torch.FloatTensor(2), torch.LongTensor([1]), torch.Tensor([1, 2]), torch.ones(2),
        wide.float(), torch.tensor(np.ones(2)).to(torch.float32), torch.nn.Linear(3, 2)(wide.float()),
        *next(iter(DataLoader(Samples(), batch_size=2))), torch.rand(2, generator=torch.Generator().manual_seed(0)),
        torch.from_dlpack(np.ones(2, np.float32))]
collated = torch.utils.data.default_collate([(np.ones(3), 1.0), (np.ones(3), 2.0)])
made += [collated[0].float(), collated[1]]
print({str(x.device) for x in made}, wide.device, torch.zeros(2, dtype=torch.float64).device, made[0].double().device, collated[0].dtype)
"""


def run(folder: Path, source: str) -> tuple[int, str, str]:
    script = folder / "script.py"
    script.write_text(source)
    command = [sys.executable, "-m", "shadergrad", "run", "--device", "webgpu", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_program_that_names_no_device_makes_everything_on_one(tmp_path: Path, webgpu: str) -> None:
    assert run(tmp_path, MAKES) == (0, "{'webgpu'} cpu cpu cpu shadergrad.float64\n", "")


@pytest.mark.slow
def test_a_program_that_names_devices_chooses(tmp_path: Path, webgpu: str) -> None:
    code, out, _ = run(
        tmp_path,
        "import torch\nx = torch.ones(2)\nprint(x.device, x.is_cuda, x.cuda().device, x.cuda().is_cuda, torch.cuda.Event().query())\n",
    )
    assert (code, out) == (0, "cpu False webgpu True True\n")
