"""Exported steps in Chromium beside the native runtime, both on software adapters: steps a second, loading, page weight.

In: the digits recipe and a small automaton. Out: a table, with the losses of both sides.

    python benchmarks/browser.py            # SwiftShader in Chromium, llvmpipe (or whatever webgpu is) natively
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import shadergrad as sg
from shadergrad import recipes
from shadergrad.data import load_digits
from shadergrad.runtime.device import get_device
from shadergrad.train.pages import export_recipe, named_losses
from shadergrad.train.settings import Settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from chromium import blank_page, chromium, served

STEPS = 200
BATCH, SAMPLES = 64, 1000
RUN = """async ({steps, batch}) => {
  const {Program, readTensors} = await import(new URL('runtime.js', location.href));
  const begun = performance.now();
  const program = await Program.load('step.json');
  const data = readTensors(await (await fetch('data.safetensors')).arrayBuffer());
  const [images, labels] = ['images', 'labels'].map((name) => data.get(name).data);
  const inputs = (k) => {
    const at = (k * batch) % (1000 - batch);
    return {images: images.subarray(64 * at, 64 * (at + batch)), labels: labels.subarray(at, at + batch)};
  };
  await program.run(inputs(0));
  const first = performance.now() - begun;
  const predict = await Program.load('predict.json', {share: program});
  const [tests, answers] = ['test_images', 'test_labels'].map((name) => data.get(name).data);
  await predict.run({images: tests});
  const started = performance.now();
  const losses = await Promise.all(Array.from({length: steps}, (_, k) => program.run(inputs(k + 1)).then(({loss}) => loss)));
  const trained = performance.now() - started;
  const logits = (await predict.run({images: tests})).result;
  let right = 0;
  answers.forEach((answer, k) => {
    const row = Array.from(logits.subarray(10 * k, 10 * k + 10));
    right += row.indexOf(Math.max(...row)) === answer;
  });
  return {first, trained, losses, accuracy: right / answers.length, adapter: program.adapter};
}"""


def native() -> tuple[float, list[float]]:
    """Steps a second of the digits recipe on webgpu, and the losses."""
    recipe = recipes.find("digits")
    assert recipe.build is not None
    sg.manual_seed(0)
    trainable = recipe.build(Settings(out=Path(), batch_size=BATCH, lr=3e-3, epochs=1), "webgpu")
    step = named_losses(trainable, ["images", "labels"])
    images, labels, *_ = load_digits()
    starts = [k * BATCH % (SAMPLES - BATCH) for k in range(STEPS + 1)]
    batches = [[sg.tensor(a[i : i + BATCH], device="webgpu") for a in (images, labels)] for i in starts]
    losses = [step(*batches[0])["loss"].item()]
    begun = time.perf_counter()
    found = [step(*batch)["loss"] for batch in batches[1:]]
    losses += [loss.item() for loss in found]
    return STEPS / (time.perf_counter() - begun), losses


def in_browser(folder: Path) -> dict[str, Any]:
    with chromium() as browser, served(folder) as origin:
        found = blank_page(browser, origin).evaluate(RUN, {"steps": STEPS, "batch": BATCH})
        return found | {"version": browser.version}


def weight(folder: Path, without: Callable[[str], bool]) -> float:
    return sum(path.stat().st_size for path in folder.iterdir() if not without(path.name)) / 1024


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export_recipe("digits", recipes.find("digits"), folder, batch_size=BATCH)
        there = in_browser(folder)
        kib = weight(folder, lambda file: file.endswith(".safetensors"))
    speed, losses = native()
    apart = float(np.abs(np.subtract(there["losses"], losses[1:])).max())
    browser_speed = 1000 * STEPS / there["trained"]
    table = Table("digits, batch 64", "Chromium", "native")
    table.add_row("adapter", f"{there['adapter']} (Chromium {there['version']})", get_device("webgpu").describe())
    table.add_row("steps/s", f"{browser_speed:.0f} ({browser_speed / speed:.2f} x)", f"{speed:.0f}")
    table.add_row("load to first step", f"{there['first']:.0f} ms", "")
    table.add_row(f"{STEPS} steps of {SAMPLES} samples", f"{there['trained'] / 1000:.2f} s", f"{STEPS / speed:.2f} s")
    table.add_row("test accuracy after them", f"{there['accuracy']:.1%}", "")
    table.add_row("last loss", f"{there['losses'][-1]:.5f}", f"{losses[-1]:.5f} (apart {apart:.0e} at most)")
    table.add_row("page without data and weights", f"{kib:.0f} KiB", "")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
