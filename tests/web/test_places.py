"""A page trains where a step takes less time, on the GPU or in JavaScript on the CPU, says so, and loses no step on the way."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.data import load_digits

from .steps import BATCH, digit_batches, digits
from .test_pages import figure, opened, wait_for_steps

LISTEN = """window.losses = []; window.counts = [];
window.Worker = class extends Worker {
  constructor(...args) {
    super(...args);
    this.addEventListener('message', ({data}) => {
      if (data.event !== 'progress') return;
      losses.push(...data.rows.map((row) => row.result));
      counts.push([data.steps, losses.length]);
    });
  }
};"""
SLOW = "const end = performance.now() + 40; while (performance.now() < end); nodes();"


def line() -> Any:
    """A step without arguments, whose losses tell whether each was made, and in which order: momentum, dropout."""
    sg.manual_seed(0)
    x, y, *_ = load_digits()
    x, y = sg.tensor(x[:32]), sg.tensor(y[:32])
    model = nn.Linear(64, 10)
    optimizer = sg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @sg.compile
    def step() -> sg.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(F.dropout(x, 0.2)), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_a_training_moves_to_the_faster_place_and_back_without_losing_a_step(visit: Any, tmp_path: Path) -> None:
    """The CPU is made slow, so that the GPU is faster, whatever it is."""
    step = line()
    sg.web.export(step, tmp_path, settings={"steps": 1_000_000})
    for script in (tmp_path / "step.cpu.js", tmp_path / "step.wasm.js"):
        script.write_text(script.read_text().replace("      nodes();", SLOW))
    page = opened(visit, tmp_path, LISTEN)
    assert re.match("The step runs on the CPU, in WebAssembly, while the GPU's kernels compile", said(page))
    page.wait_for_function("() => /^GPU: /.test(figure('runs on'))", polling=50)
    page.wait_for_function(
        "() => /ms a step there, .* ms on the CPU/.test(document.querySelector('.note').textContent)"
    )
    steps = int(figure(page, "steps").replace(",", ""))
    page.click("text=Run it on the CPU")
    page.wait_for_function("() => figure('runs on') === 'CPU: one thread'")
    wait_for_steps(page, steps + 3)
    assert "on=CPU" in page.url
    page.click("text=Run it on the GPU")
    page.wait_for_function("() => /^GPU: /.test(figure('runs on'))")
    wait_for_steps(page, int(figure(page, "steps").replace(",", "")) + 10)
    page.click("text=Pause")
    page.wait_for_function("() => document.querySelector('button.main').textContent === 'Start'")
    assert all(steps == count for steps, count in page.evaluate("counts"))
    there = page.evaluate("losses")
    here = [step().item() for _ in there]
    np.testing.assert_allclose(there, here, atol=1e-4)


def test_a_page_stays_on_the_cpu_where_it_is_faster_and_says_so(visit: Any, tmp_path: Path) -> None:
    step, predict, _ = digits()
    images, labels, *_ = load_digits()
    sg.web.export(
        step,
        tmp_path,
        *map(sg.tensor, digit_batches(1)[0]),
        data={"images": images, "labels": labels},
        programs={"predict": (predict, sg.zeros(BATCH, 64))},
        settings={"steps": 1_000_000_000},
    )
    script = tmp_path / "runtime.js"
    slow = "async _once(values, wanted) {\n    await new Promise((resolve) => setTimeout(resolve, 200));"
    script.write_text(script.read_text().replace("async _once(values, wanted) {", slow, 1))
    page = opened(visit, tmp_path)
    page.wait_for_function(
        "() => /ms a step there, .* ms on the GPU/.test(document.querySelector('.note').textContent)"
    )
    assert figure(page, "runs on") == "CPU: one thread"
    wait_for_steps(page, int(figure(page, "steps").replace(",", "")) + 50)
    page.click("button:text-is('Run')")
    page.wait_for_selector("text=/with the weights after [\\d,]+ step/")


def test_a_visitor_may_ask_for_a_place_by_the_address(visit: Any, tmp_path: Path) -> None:
    sg.web.export(line(), tmp_path, settings={"steps": 1_000_000_000})
    for on, told in (("GPU", "GPU: "), ("CPU", "CPU: one thread")):
        page = opened(visit, tmp_path, path=f"index.html#on={on}")
        wait_for_steps(page, 5)
        page.wait_for_timeout(300)
        assert figure(page, "runs on").startswith(told)
        assert page.evaluate("() => [...document.querySelectorAll('dl div')].some((row) => row.hidden)")
        page.close()


def said(page: Any) -> str:
    return page.inner_text(".note span")
