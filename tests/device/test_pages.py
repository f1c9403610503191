"""The Python of every page runs as it stands, block after block: README, CONTRIBUTING, and what lies in docs/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close
from shadergrad.compile import render, simplify
from shadergrad.compile.pipeline import compile_graph
from shadergrad.compile.rewrite import Rewriter
from shadergrad.graph import build
from shadergrad.graph.capture import Capture
from shadergrad.graph.leaves import Placeholder
from shadergrad.graph.node import Node, make
from shadergrad.graph.primitive import REGISTRY
from shadergrad.plan import PORTABLE
from shadergrad.tensor import wrap

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))}
APART = {"README.md", "CONTRIBUTING.md", "extend.md", "logic.md"}  # what they leave is looked at below


def blocks(name: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGES[name].read_text(encoding="utf-8"), re.DOTALL)


def run_page(name: str) -> dict[str, Any]:
    """The names that the blocks of a page leave."""
    found = blocks(name)
    assert found, f"{name} has no Python"
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(found, 1):
        exec(compile(block, f"{name}, block {number}", "exec", dont_inherit=True), names)
    return names


@pytest.mark.parametrize("name", sorted(name for name in PAGES if blocks(name) and name not in APART))
def test_a_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(name)


def test_readme(webgpu: str) -> None:
    sg.manual_seed(0)
    names = run_page("README.md")
    assert names["loss"].item() < 0.05, "exclusive or is learned"
    assert str(names["loss"].device) == webgpu


def test_links_between_pages_lead_somewhere() -> None:
    for path in PAGES.values():
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:")):
                assert (path.parent / target).exists(), f"{path.name} links to {target}, which is not there"


def test_files_that_pages_name_are_there() -> None:
    """A name with a slash in backticks is a file of the repository, of the package, or of tests."""
    places = [
        ROOT,
        ROOT / "src" / "shadergrad",
        ROOT / "src" / "shadergrad" / "compile",
        ROOT / "src" / "shadergrad" / "nn",
    ]
    for name in ("README.md", "CONTRIBUTING.md", "architecture.md", "glossary.md", "data.md", "extend.md"):
        for target in re.findall(r"`([a-z_./]+/[a-z_]+\.(?:py|md|wgsl))`", PAGES[name].read_text(encoding="utf-8")):
            assert any((place / target).exists() for place in places), f"{name} names {target}, which is not there"


def test_extend(webgpu: str) -> None:
    names = run_page("extend.md")
    recurrence = names["Recurrence"]()
    inputs = [sg.tensor(np.linspace(k, 1.5, 6).reshape(3, 2), requires_grad=True) for k in (0.1, 0.7)]
    assert sg.autograd.gradgradcheck(recurrence, inputs), "the gradient has a gradient, as the page says"


def test_logic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page("logic.md")
    assert names["adder"].evaluate(np.array([[1, 0, 1]])).tolist() == [[False, True]]
    assert names["after"].shape == names["state"].shape


@pytest.fixture
def contributing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The names of CONTRIBUTING.md, while its operation is known and its WGSL is among the functions."""
    (body,) = blocks("CONTRIBUTING.md", "wgsl")
    functions = {**render.math_functions(), "sg_entr": body.partition("\n")[2]}
    monkeypatch.setattr(render, "math_functions", lambda: functions)
    with mock.patch.dict(REGISTRY):
        yield run_page("CONTRIBUTING.md")


def test_contributing_adds_an_operation(contributing: dict[str, Any], device: str) -> None:
    x = sg.tensor([0.25, 1.0, 3.0], device=device, requires_grad=True)
    y = wrap(make(contributing["Entr"](), x._node))
    y.sum().backward()
    reference = torch.tensor([0.25, 1.0, 3.0], requires_grad=True)
    torch.special.entr(reference).sum().backward()
    assert_close(y.detach(), torch.special.entr(reference.detach()), 1e-5, 1e-6)
    assert_close(x.grad, reference.grad, 1e-5, 1e-6)
    plan, _ = compile_graph(Capture([wrap(make(contributing["Entr"](), x.detach()._node))._node]).graph(), PORTABLE)
    assert "fn sg_entr(x: f32)" in plan.kernels[0].source


def test_contributing_adds_a_method_a_module_and_a_loss(contributing: dict[str, Any]) -> None:
    values = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    x, t = sg.tensor(values), torch.tensor(values)
    assert_close(contributing["standardize"](x), (t - t.mean(-1, True)) / t.std(-1, keepdim=True), 1e-5, 1e-6)
    module, theirs = contributing["ZeroPad1d"]((1, 2)), torch.nn.ZeroPad1d((1, 2))
    assert_close(module(x), theirs(t), 0, 0)
    assert repr(module) == repr(theirs)
    loss, target = contributing["multilabel_soft_margin_loss"], abs(x.sign())
    assert_close(loss(x, target), torch.nn.functional.multilabel_soft_margin_loss(t, t.sign().abs()), 1e-5, 1e-6)
    with pytest.raises(sg.ShapeError):
        loss(x, x[0])


def test_contributing_adds_an_optimizer(contributing: dict[str, Any]) -> None:
    ours, theirs = sg.tensor([1.0, -2.0], requires_grad=True), torch.tensor([1.0, -2.0], requires_grad=True)
    pairs: list[Any] = [
        (ours, contributing["Adamax"]([ours], lr=0.1)),
        (theirs, torch.optim.Adamax([theirs], lr=0.1)),
    ]
    for _ in range(5):
        for w, optimizer in pairs:
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
    assert_close(ours.detach(), theirs.detach(), 1e-5, 1e-6)


def test_contributing_adds_a_scheduler(contributing: dict[str, Any]) -> None:
    optimizer = sg.optim.SGD([sg.ones(1, requires_grad=True)], lr=1.0)
    scheduler = contributing["InverseSqrtLR"](optimizer, 10.0)
    for _ in range(30):
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5)


def test_contributing_adds_a_rule(contributing: dict[str, Any]) -> None:
    x = Node(Placeholder(0, (3,), sg.float32), (), (3,), sg.float32, "cpu")
    y = build.elementwise("Log", build.elementwise("Exp", x))
    rules = (*simplify.RULES, contributing["log_of_exp"])
    assert Rewriter(rules, "cpu").rewrite([y])[id(y)] is x
    assert Rewriter(simplify.RULES, "cpu").rewrite([y])[id(y)] is not x
