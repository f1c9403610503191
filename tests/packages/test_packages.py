"""Packages over PyTorch from PyPI train unmodified under `shadergrad run`, and give PyTorch's numbers.

Each program in programs/ runs in processes of its own, with PyTorch and with this library under its names on each device, from the same
weights and inputs. On a software adapter some take minutes, while their kernels compile.
A package that is not installed is skipped. PACKAGES_PYTHON names an interpreter that has them, and PyTorch; this one otherwise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
PYTHON = os.environ.get("PACKAGES_PYTHON", sys.executable)
SOURCES = Path(__file__).parents[2] / "src"
TOLERANCE = 1e-4  # of single precision after a few steps
LIMITS = {None: 280, "cpu": 280, "webgpu": 1500}  # seconds for a program

# Of each program: the packages that it needs, and its cases
CASES = {
    "transformers_models": (["transformers"], "bert gpt2 llama mistral t5 vit clip whisper"),
    "transformers_trainer": (["transformers", "accelerate"], "trainer"),
    "torchvision_models": (["torchvision"], "resnet18 mobilenet_v2 transforms grid"),
    "timm_models": (["timm", "torchvision"], "resnet18 vit convnext mobilenetv3 mixer"),
    "accelerate_loop": (["accelerate"], "loop"),
    "peft_lora": (["peft", "transformers"], "lora"),
    "diffusers_unet": (["diffusers"], "unet conditioned sampling"),
    "lightning_fit": (["lightning"], "fit"),
    "geometric_graphs": (["torch_geometric"], "gcn gat sage graphs"),
    "kornia_images": (["kornia"], "blur sobel colours rotation resize similarity differentiable augmentation"),
    "ignite_engine": (["ignite"], "engine"),
    "torchmetrics_values": (["torchmetrics"], "classes regression images collection"),
    "keras_fit": (["keras"], "dense conv lstm attention"),
}


@cache
def missing(packages: tuple[str, ...]) -> list[str]:
    """Those of some packages that the interpreter does not have."""
    asks = "import importlib.util as u, sys; print(*[p for p in sys.argv[1:] if u.find_spec(p) is None])"
    return subprocess.run([PYTHON, "-c", asks, *packages], capture_output=True, text=True, check=True).stdout.split()


@cache
def reported(program: str, device: str | None) -> dict[str, list[float] | str]:
    """What a program reports of its cases, on a device of this library, or with PyTorch: numbers, or the error."""
    start = [] if device is None else ["-m", "shadergrad", "run", "--device", device]
    command = [PYTHON, "-W", "ignore", *start, "start.py", f"{program}.py"]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "KERAS_BACKEND": "torch",
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "disabled",
    }
    if device is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(SOURCES), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=PROGRAMS, env=environment, capture_output=True, text=True, check=False, timeout=LIMITS[device]
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("REPORT ")]
    assert lines, done.stdout[-2000:] + done.stderr[-4000:]
    assert f"MADE ON {device or 'cpu'}" in done.stdout.splitlines()
    return json.loads(lines[-1].removeprefix("REPORT "))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "case"), [(program, case) for program, (_, cases) in CASES.items() for case in cases.split()]
)
def test_a_package_gives_pytorchs_numbers(program: str, case: str, device: str) -> None:
    absent = missing(("torch", *CASES[program][0]))
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}. PACKAGES_PYTHON names an interpreter that has them.")
    theirs, ours = reported(program, None)[case], reported(program, device)[case]
    assert not isinstance(theirs, str), f"PyTorch: {theirs}"
    assert not isinstance(ours, str), ours
    assert len(ours) > 0
    assert ours == pytest.approx(theirs, rel=TOLERANCE, abs=TOLERANCE)


def test_every_program_is_run() -> None:
    assert {path.stem for path in PROGRAMS.glob("*_*.py")} == set(CASES)
