"""The programs in examples/torch train on the device as on PyTorch's cpu: equal weights, equal data, the losses of the first steps."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from libraries import named, package

EXAMPLES = Path(__file__).parents[2] / "examples" / "torch"
STEPS = 20

# What makes each as small as a test may be; the programs name their sizes in capitals
SMALL: dict[str, dict[str, Any]] = {
    "digits": {"BATCH": 16, "HIDDEN": 16},
    "resnet": {"BATCH": 128, "CHANNELS": 2, "EPOCHS": 2},
    "lstm": {"BATCH": 4, "LENGTH": 3, "LAYERS": 1, "WIDTH": 8},
    "gpt": {"BLOCK": 8, "LAYERS": 1, "HEADS": 2, "WIDTH": 16, "BATCH": 4},
    "lora": {"BLOCK": 8, "LAYERS": 1, "HEADS": 2, "WIDTH": 16, "BATCH": 4, "FIRST": 8, "THEN": 12},
}
OF_LIBRARIES = {"hugging_face": {"BLOCK": 8, "WIDTH": 16, "LAYERS": 1, "HEADS": 2, "BATCH": 4, "FIRST": 10, "THEN": 10}}


def load(name: str, sizes: dict[str, Any]) -> ModuleType:
    path = EXAMPLES / f"{name}.py"
    module = ModuleType(name)
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    assert sizes.keys() <= module.__dict__.keys()
    module.__dict__.update(sizes)
    return module


@pytest.mark.parametrize("name", SMALL)
def test_a_program_trains_on_the_device_as_on_pytorchs_cpu(name: str, torch_device: Any) -> None:
    program = load(name, SMALL[name])
    first = program.build("cpu")
    found = {}
    for device in ("cpu", "webgpu"):
        torch.manual_seed(1)
        model = copy.deepcopy(first).to(device)
        losses = [loss.item() for loss in itertools.islice(program.training(model, device), STEPS)]
        assert all(p.device.type == device for p in model.parameters())
        found[device] = losses
    assert len(found["cpu"]) == STEPS
    assert found["webgpu"] == pytest.approx(found["cpu"], rel=1e-4, abs=1e-4)
    assert found["cpu"][0] != found["cpu"][-1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the libraries' own: of other releases, of settings that no test needs
@pytest.mark.parametrize("name", OF_LIBRARIES)
def test_a_program_of_libraries_trains_as_on_pytorchs_cpu(
    name: str, torch_device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in ("transformers", "peft", "accelerate"):
        package(needed)
    named("transformers", "Trainer")
    reset = package("accelerate").state.AcceleratorState._reset_state
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "webgpu")  # the program sets it anew; this takes it back
    program = load(name, OF_LIBRARIES[name])
    first = program.build()
    found = {}
    for device in ("cpu", "webgpu"):
        reset(True)
        torch.manual_seed(1)
        model, losses = program.training(copy.deepcopy(first), device)
        assert {p.device.type for p in model.parameters()} == {device}
        found[device] = losses
    reset(True)
    assert found["webgpu"] == pytest.approx(found["cpu"], abs=1e-4)


def test_each_program_is_compared_and_listed() -> None:
    programs = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")}
    assert programs.keys() == SMALL.keys() | OF_LIBRARIES.keys()
    gallery = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for name, text in programs.items():
        assert f"[{name}.py]({name}.py)" in gallery
        assert len(text.splitlines()) <= 130, name
        assert f"python examples/torch/{name}.py" in text


def test_what_the_page_shows_of_a_program_stands_there() -> None:
    page = (EXAMPLES.parents[1] / "docs" / "torch-device.md").read_text(encoding="utf-8")
    program = [line.strip() for line in (EXAMPLES / "hugging_face.py").read_text(encoding="utf-8").splitlines()]
    section = page.split("## Fine-tune", 1)[1].split("\n## ", 1)[0]
    shown = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    commands = [line for line in shown if line.startswith(("pip ", "python "))]
    assert len(shown) - len(commands) >= 6
    assert [line for line in shown if line not in program and line not in commands] == []
