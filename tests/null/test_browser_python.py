"""The library where a browser's Python runs it: without compiled packages, processes and threads. Pyodide itself: tests/web/test_pyodide.py."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from packaging.requirements import Requirement
from scipy import special

from shadergrad.system import safe_tensors_python as ours
from shadergrad.system.special_functions import FUNCTIONS

ABSENT = "wgpu safetensors typer pydantic llvmlite matplotlib PIL scipy torch multiprocessing _posixsubprocess fcntl"
BROWSER = f"""
import os, sys, sysconfig, threading
import numpy

sysconfig.get_config_vars()

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        absent = name.partition(".")[0] in {ABSENT.split()}
        return None if absent else self.finder.find_spec(name, path, target)

def start(self):
    raise RuntimeError("can't start new thread")

sys.meta_path[:] = map(Without, sys.meta_path)
for name in [name for name in sys.modules if name.partition(".")[0] in {ABSENT.split()}]:
    del sys.modules[name]
threading.Thread.start = start
sys.platform = "emscripten"
for name in ("fork", "register_at_fork", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)
"""


def run_in_browser(program: str, folder: Path) -> str:
    """What a program prints there."""
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        # NumPy warns of processors' features that its build does not know, which tests as on another processor switch off
        [sys.executable, "-W", "error", "-W", "ignore::ImportWarning", "-c", BROWSER + program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_browser_installs_nothing_compiled() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    needed = (Requirement(text) for text in project["dependencies"])
    assert {r.name for r in needed if r.marker is None or r.marker.evaluate({"sys_platform": "emscripten"})} == {
        "numpy",
        "rich",
    }


TRAINS = """
import numpy as np
import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.data import DataLoader, TensorDataset, load_digits

images, labels, *_ = load_digits()
sg.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = sg.optim.AdamW(model.parameters(), lr=1e-2)

@sg.compile
def step(x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

class Pairs(sg.data.Dataset):
    def __len__(self):
        return 640
    def __getitem__(self, k):
        return images[k], labels[k]

losses = [step(x, y).item() for _ in range(4) for x, y in DataLoader(Pairs(), batch_size=64, num_workers=2)]
assert losses[-1] < 0.5 * losses[0], losses
sg.save(model.state_dict(), "weights.safetensors")
again = sg.load("weights.safetensors")
assert all((again[name].numpy() == value.numpy()).all() for name, value in model.state_dict().items())
trainer = sg.train.Trainer(model, optimizer, F.cross_entropy, (images, labels), batch_size=64, progress=True)
trainer.fit(1)
print("trained")
"""


def test_a_network_trains_on_the_cpu_device_of_a_browser(tmp_path: Path) -> None:
    assert run_in_browser(TRAINS, tmp_path).rstrip().endswith("trained")
    assert len(safetensors.numpy.load_file(tmp_path / "weights.safetensors")) == 4


def test_scipy_is_imported_by_what_needs_it_only(tmp_path: Path) -> None:
    program = """
import shadergrad as sg
from shadergrad.system.optional_packages import MissingPackageError
try:
    assert abs(sg.ones(2).erf()[0].item() - 0.8427) < 1e-4  # without it
    sg.ones(2).digamma().tolist()
except MissingPackageError as error:
    print(error)
"""
    said = run_in_browser(program, tmp_path)
    assert "scipy" in said
    assert "await pyodide_js.loadPackage('scipy')" in said


def test_a_page_has_its_browsers_webgpu_alone(tmp_path: Path) -> None:
    program = """
import os
os.environ["SHADERGRAD_WEBGPU"] = "dawn"
import shadergrad as sg
try:
    sg.ones(2, device="webgpu").tolist()
except ValueError as error:
    print(error)
"""
    assert "SHADERGRAD_WEBGPU='dawn': a page has its browser's WebGPU" in run_in_browser(program, tmp_path)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_without_scipy_are_scipys_to_the_last_digits(name: str) -> None:
    draw = np.random.default_rng(0)
    ends = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1 - 1e-16, 1e-300, -3.0, np.inf, -np.inf, np.nan]
    x = np.concatenate(
        [draw.uniform(-1, 1, 3000), draw.standard_normal(1000) * 6, 1 - 10 ** draw.uniform(-16, 0, 1000), ends]
    )
    with np.errstate(all="ignore"):
        found, wanted = FUNCTIONS[name](x.reshape(-1, 4)), getattr(special, name)(x)
    np.testing.assert_allclose(found.ravel(), wanted, rtol=4e-14, atol=1e-300 if name != "gammaln" else 1e-15)
    assert FUNCTIONS[name](np.zeros((0, 2), np.float32)).shape == (0, 2)


ARRAYS = {
    "b": np.array([[True, False]]),
    "e": np.zeros((0, 3), np.float32),
    "f": np.arange(6, dtype=np.float32).reshape(2, 3),
    "h": np.array([1.5], np.float16),
    "i": np.array(-3, np.int64),
    "u": np.arange(5, dtype=np.uint8),
    "ü": np.array([1.0, np.nan, np.inf]),
}


@pytest.mark.parametrize("metadata", [None, {"format": "π"}])
def test_files_are_the_packages_own(metadata: dict[str, str] | None) -> None:
    assert ours.save(ARRAYS, metadata) == safetensors.numpy.save(ARRAYS, metadata)


def test_files_of_the_package_are_read(tmp_path: Path) -> None:
    safetensors.numpy.save_file(ARRAYS, tmp_path / "a", {"k": "v"})
    found = ours.load_file(tmp_path / "a")
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    with ours.safe_open(tmp_path / "a") as file:
        assert file.metadata() == {"k": "v"}


def test_a_dtype_that_numpy_has_not_is_named(tmp_path: Path) -> None:
    header = json.dumps({"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "a").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with ours.safe_open(tmp_path / "a") as file:
        assert file.get_slice("x").get_dtype() == "BF16"
        with pytest.raises(TypeError, match="BF16"):
            file.get_tensor("x")
    with pytest.raises(ours.SafetensorError, match="complex128"):
        ours.save({"x": np.zeros(1, np.complex128)})


def outcome(read: Any, path: Path) -> Any:
    try:
        with read(path, framework="numpy") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (safetensors.SafetensorError, ours.SafetensorError):
        return "refused"


def test_damaged_files_are_refused_where_the_package_refuses_them(tmp_path: Path) -> None:
    draw, sound, path = random.Random(0), safetensors.numpy.save(ARRAYS), tmp_path / "a"
    length = 8 + int.from_bytes(sound[:8], "little")
    different = []
    for _ in range(400):
        damaged = bytearray(sound)
        at = draw.randrange(length)
        match draw.randrange(4):
            case 0:
                damaged[at] = draw.randrange(256)
            case 1:
                damaged[at] = ord(draw.choice('0123456789[]{}:,"'))
            case 2:
                del damaged[draw.randrange(len(damaged)) :]
            case 3:
                damaged += b"x"
        path.write_bytes(damaged)
        if outcome(ours.safe_open, path) != outcome(safetensors.safe_open, path):
            different.append(bytes(damaged[:length]))
    assert not different, different[:3]
