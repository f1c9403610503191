"""`shadergrad run`: unmodified PyTorch programs, in processes of their own, beside an installed PyTorch and without one."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.data
from torch import Tensor, optim
from torch.autograd import Variable
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DataParallel
from torch.nn.utils.rnn import pad_sequence
from torch.optim.lr_scheduler import StepLR, _LRScheduler
from torch.random import fork_rng
from torch.utils.data import DataLoader, TensorDataset
from einops import rearrange, reduce
from einops.layers.torch import Rearrange

device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
model = nn.Sequential(Rearrange('b (h w) -> b w h', h=2), nn.Flatten(), nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).to(device)
assert [isinstance(m, _BatchNorm) for m in model] == [False, False, False, True, False]
optimizer = optim.SGD(model.parameters(), lr=0.1)
scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
x = torch.randn(64, 4)
data = torch.utils.data.DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=16, shuffle=True)
assert isinstance(data, DataLoader) and isinstance(scheduler, _LRScheduler) and isinstance(x, Tensor) and isinstance(x, torch.Tensor)
for epoch in range(8):
    for inputs, labels in data:
        inputs, labels = inputs.to(device), labels.to(device)
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
if hasattr(torch, 'no_such_thing'):
    raise SystemExit('there is')
assert tuple(rearrange(x, '(a b) c -> b a c', a=2).shape) == (32, 2, 4)
assert torch.allclose(reduce(x, 'b c -> c', 'mean'), x.mean(0), atol=1e-6)
with fork_rng():
    drawn = torch.rand(2)
assert torch.equal(drawn, torch.rand(2)) and DataParallel(model).module is model
assert torch.jit.script(model) is model and not torch.compiler.is_compiling()
assert tuple(int(n) for n in torch.__version__.split('.')[:2]) >= (2, 0)
import pickle
assert pickle.loads(pickle.dumps(Tensor([1.0]))).item() == 1
print(__name__, sys.argv[1:], device, round(loss.item(), 1) < 0.7, type(model).__module__.split('.')[0])
"""

WITHOUT = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == 'torch':
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nothing())
"""


def run(
    tmp_path: Path, source: str, *words: str, options: tuple[str, ...] = ("--device", "cpu")
) -> tuple[int, str, str]:
    script = tmp_path / "script.py"
    script.write_text(source)
    command = [sys.executable, "-m", "shadergrad", "run", *options, str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("there", ["installed", "not installed"])
def test_an_unmodified_program_runs(tmp_path: Path, there: str) -> None:
    source = PROGRAM if there == "installed" else WITHOUT + PROGRAM
    code, out, error = run(tmp_path, source, "--device", "theirs", "-v")
    assert (code, error) == (0, "")
    assert out == "__main__ ['--device', 'theirs', '-v'] cpu True shadergrad\n"


def test_what_is_missing_is_listed_with_its_lines(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("import torch\n\ndef f():\n    return torch.nn.functional.nothing(1)\n")
    code, out, error = run(
        tmp_path,
        "import torch\n"
        "from torch import nn\n"
        "import beside\n"
        "hasattr(torch, 'asked')\n"
        "def f():\n"
        "    return torch.quantize_it(1)\n"
        "def g():\n"
        "    return nn.NoModule, torch.sparse.mm\n"
        "print('so far')\n"
        "f()\n",
    )
    assert (code, out) == (1, "so far\n")
    assert error.splitlines() == [
        "Traceback (most recent call last):",
        '  File "' + str(tmp_path / "script.py") + '", line 10, in <module>',
        "    f()",
        *(["    ~^^"] if sys.version_info >= (3, 13) else []),
        '  File "' + str(tmp_path / "script.py") + '", line 6, in f',
        "    return torch.quantize_it(1)",
        "           ^^^^^^^^^^^^^^^^^",
        "AttributeError: torch.quantize_it is not in shadergrad. Hint: docs/from-pytorch.md says what is.",
        "",
        "Not in shadergrad, and asked for:",
        "  torch.quantize_it            script.py:6",
        "  torch.nn.NoModule            script.py:8",
        "  torch.sparse                 script.py:8",
        "  torch.nn.functional.nothing  beside.py:4",
    ]


ENDS = [
    ("import torch\nfrom torch.nowhere import x\n", 1, "  torch.nowhere  script.py:2"),
    ("from torch import nowhere\n", 1, "  torch.nowhere  script.py:1"),
    ("import torch\ntorch.ones(2).frobnicate()\n", 1, "  Tensor.frobnicate  script.py:2"),
    ("import torch\ntry:\n    torch.nowhere\nexcept AttributeError:\n    pass\n", 0, "  torch.nowhere  script.py:3"),
    ("import torch\ntorch.ones(2, 3) @ torch.ones(2, 3)\n", 1, "a's last axis (3) != b's second-last (2)."),
    ("raise SystemExit(7)\n", 7, ""),
    ("import sys\nsys.exit('that was all')\n", 1, "that was all"),
    ("raise KeyboardInterrupt\n", 130, ""),
    ("import torch\nassert torch.ones(1) == 2, 'no'\n", 1, "AssertionError: no"),
]

SEVERAL = """
import sys
from pathlib import Path
from shadergrad.cli import run
for source in eval(sys.stdin.read()):
    Path("script.py").write_text(source)
    code = run(["run", "--device", "cpu", "script.py"])
    print(f"== {code}", file=sys.stderr)
"""


CHILDREN = """
import os, subprocess, sys
def child(*options, **named):
    subprocess.run([sys.executable, *options, "-c", "pass"], check=True, **named)
child()
child("-u", "-W", "ignore", "-X", "utf8", env={**os.environ, "SET": "1"})
subprocess.run(["true", "-I"], check=True, env={})
subprocess.run(["sh", "-c", "true"], check=True)
print("now", file=sys.stderr, flush=True)
FOREIGN
"""


@pytest.mark.parametrize(
    ("foreign", "reason"),
    [
        ("child(env={'PATH': os.environ['PATH']}); child(env={})", "its environment lacks PYTHONPATH's first folder."),
        ("child('-I')", "-I ignores the environment or its sitecustomize."),
        ("child('-uS')", "-uS ignores"),
        ("os.environ['PYTHONPATH'] = '.'; child()", "its environment lacks"),
        ("subprocess.run(f'{sys.executable} -E -c pass', shell=True, check=True)", "-E ignores"),
        ("subprocess.run([b'python3', b'-c', b'pass'], env={b'PATH': os.environb[b'PATH']})", "its environment lacks"),
    ],
)
def test_a_python_process_that_gets_another_torch_is_told_of_once(tmp_path: Path, foreign: str, reason: str) -> None:
    code, _, error = run(tmp_path, CHILDREN.replace("FOREIGN", foreign))
    lines = error.splitlines()
    assert (code, lines[0], len(lines)) == (0, "now", 2)
    assert lines[1].startswith(f"shadergrad run: a Python process gets PyTorch instead of shadergrad: {reason}")


SPAWNED = """
import multiprocessing, os
import torch

def send(queue):
    queue.put((torch.__file__, os.environ["SHADERGRAD_AS_TORCH"]))

if __name__ == "__main__":
    del os.environ["PYTHONPATH"], os.environ["SHADERGRAD_AS_TORCH"]
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=send, args=(queue,))
        process.start()
        file, device = queue.get(timeout=60)
        process.join()
        print(method, file == torch.__file__, device)
"""


def test_a_process_of_multiprocessing_needs_no_environment(tmp_path: Path) -> None:
    assert run(tmp_path, SPAWNED) == (0, "spawn True cpu\nforkserver True cpu\n", "")


def test_how_programs_end(tmp_path: Path) -> None:
    """One process for all: each starts as if it were the first."""
    sources = repr([source for source, _, _ in ENDS])
    command = [sys.executable, "-c", SEVERAL]
    done = subprocess.run(command, input=sources, capture_output=True, text=True, check=True, cwd=tmp_path)
    *parts, rest = re.split(r"== (\d+)\n", done.stderr)
    assert rest == ""
    for (source, code, last), error, found in zip(ENDS, parts[::2], parts[1::2], strict=True):
        assert int(found) == code, source
        assert error.rstrip("\n").endswith(last) if last else error == "", error
        assert not re.search(r'File ".*shadergrad/', error), "none of the library's own lines"


def test_a_module_runs_as_python_m_does(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("import torch\nvalue = torch.ones(2).sum().item()\n")
    (package / "__main__.py").write_text("import sys\nfrom .part import value\nprint(value, sys.argv[1:])\n")
    command = [sys.executable, "-m", "shadergrad", "run", "--device", "cpu", "-m", "package", "-x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("2.0 ['-x']\n", "", 0)


def test_the_collector_leaves_the_library_out_and_collects_young_cycles_as_often(tmp_path: Path) -> None:
    source = "import gc, torch\nprint(gc.get_freeze_count() > len(gc.get_objects()), gc.get_threshold())\n"
    young, middle, full = gc.get_threshold()
    assert run(tmp_path, source) == (0, f"True {(young, middle, 10 * full)}\n", "")


def test_a_script_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shadergrad", "run", str(tmp_path / "nothing.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "there is no such file" in done.stderr


def test_metrics_are_computed_of_our_tensors(tmp_path: Path) -> None:
    source = (
        "import torch, torchmetrics\n"
        "p, t = torch.tensor([[.8, .1, .1], [.2, .5, .3], [.1, .7, .2], [.1, .2, .7]]), torch.tensor([0, 1, 2, 2])\n"
        "options = dict(task='multiclass', num_classes=3)\n"
        "for kind in (torchmetrics.Accuracy, torchmetrics.F1Score, torchmetrics.AUROC):\n"
        "    metric = kind(average='macro', **options)\n"
        "    metric(p, t)\n"
        "    print(round(metric.compute().item(), 4))\n"
        "print(torchmetrics.MeanSquaredError()(p, p + 2).item())\n"
    )
    code, out, error = run(tmp_path, source)
    assert (code, out.split(), error) == (0, ["0.8333", "0.7778", "0.8056", "4.0"], "")


def test_former_names_of_modules_and_pooling_work(tmp_path: Path) -> None:
    source = (
        "import warnings, torch, torch.nn.functional as F\n"
        "warnings.simplefilter('ignore')\n"
        "from torch.nn.utils import stateless\n"
        "layer = torch.nn.Linear(2, 1, bias=False)\n"
        "print(stateless.functional_call(layer, {'weight': torch.ones(1, 2)}, torch.ones(3, 2)).tolist())\n"
        "print([t.tolist() for t in F.max_pool1d_with_indices(torch.arange(4.).reshape(1, 4), 2)])\n"
    )
    code, out, error = run(tmp_path, source)
    assert (code, out.splitlines(), error) == (0, ["[[2.0], [2.0], [2.0]]", "[[[1.0, 3.0]], [[1, 3]]]"], "")
