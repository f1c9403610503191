"""What a type checker sees of the library: a user's script passes, a mistake in it is found, and names are where they seem."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import shadergrad as sg

SCRIPT = """\
import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn, optim
from shadergrad.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.first = nn.Linear(4, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.second = nn.Linear(hidden, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.gelu(self.norm(self.first(x))))


sg.manual_seed(0)
rng = np.random.default_rng(0)
x = sg.tensor(rng.normal(size=(64, 4)).astype(np.float32))
y = sg.tensor(rng.integers(0, 3, 64).astype(np.int32))
model = Net()
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)


@sg.compile
def step(x: Tensor, y: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


for epoch in range(2):
    for bx, by in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
        loss = step(bx, by)
    schedule.step()
with sg.no_grad():
    p: Tensor = sg.softmax(model(x), -1)
    hits = (p.argmax(-1) == y).float().mean()
print(f"{hits.item():.2f}", sg.exp(x).sum().numpy(), x[0, :2].reshape(1, -1).T.shape, sg.cat([x, x]).shape)
sg.save(model.state_dict(), "model.safetensors")
model.load_state_dict(sg.load("model.safetensors"))
"""

# A mistake each, in a line of its own, and the rule by which pyright finds it.
MISTAKES = {
    "x.reshap(2)": "reportAttributeAccessIssue",
    "sg.expp(x)": "reportAttributeAccessIssue",
    "sg.exp(3.0)": "reportArgumentType",
    'x.sum("a")': "reportArgumentType",
    "x.softmax()": "reportCallIssue",
    "x.exp().shape.nothing": "reportAttributeAccessIssue",
    'nn.Linear("a", 2)': "reportArgumentType",
    "optim.SGD(model.parameters(), rate=1)": "reportCallIssue",
    "sg.zeros(2, shape=3)": "reportCallIssue",
}

PACKAGE = Path(sg.__file__).parent


def pyright(path: Path) -> list[str]:
    """The errors in a file, as lines "path:line:column - error: ... (rule)"."""
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(path)]
    (path.parent / "pyrightconfig.json").write_text(f'{{"extraPaths": ["{PACKAGE.parent}"]}}')
    done = subprocess.run(command, capture_output=True, text=True, cwd=path.parent)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [line.strip() for line in done.stdout.splitlines() if " - error: " in line or "(report" in line]


@pytest.mark.slow
def test_a_users_script_passes_and_mistakes_in_it_are_found(tmp_path: Path) -> None:
    good = tmp_path / "good.py"
    good.write_text(SCRIPT)
    assert pyright(good) == []
    bad = tmp_path / "bad.py"
    bad.write_text(SCRIPT + "\n".join(MISTAKES))
    found = pyright(bad)
    for k, (mistake, rule) in enumerate(MISTAKES.items(), SCRIPT.count("\n") + 1):
        at = next((n for n, line in enumerate(found) if f"bad.py:{k}:" in line), None)
        assert at is not None, f"pyright finds nothing in {mistake}: {found}"
        assert rule in "".join(found[at : at + 3]), f"{mistake}: {found[at : at + 3]}"


def test_the_script_is_as_long_as_a_users_is() -> None:
    assert 40 <= len(SCRIPT.splitlines()) <= 60
    compile(SCRIPT, "script", "exec")


def test_dir_shows_the_public_names_and_each_exists() -> None:
    assert dir(sg) == sorted(sg.__all__)
    assert len(set(sg.__all__)) == len(sg.__all__)
    for name in sg.__all__:
        assert hasattr(sg, name), name
        assert not name.startswith("_") or name == "__version__", name


def seen_by_type_checkers() -> frozenset[str]:
    """Names that the package binds for a type checker: what it imports and defines, and what functions.pyi lists."""
    names: set[str] = set()
    for path in (PACKAGE / "__init__.py", PACKAGE / "functions.pyi"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names |= {a.asname or a.name for a in node.names}
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Assign):
                names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return frozenset(names)


def test_the_public_names_are_seen_by_type_checkers() -> None:
    unseen = set(sg.__all__) - seen_by_type_checkers()
    assert not unseen, f"neither imported in __init__.py nor listed in functions.pyi: {sorted(unseen)}"
    named = {name: getattr(sg, name) for name in sg.__all__}
    private = [
        f"sg.{name} is {value.__name__}"
        for name, value in named.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__name__.startswith("_")
    ]
    assert not private
