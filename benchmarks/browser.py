"""Exported steps in Chromium, or in Node on Chromium's WebGPU, beside the native runtime: steps a second, loading, page weight.

In: the pages of the recipes in STEPS. Out: a table for each, with the losses of both sides.

    python benchmarks/browser.py                       # SwiftShader in Chromium, and whatever webgpu is natively
    VK_DRIVER_FILES=/usr/lib/chromium/vk_swiftshader_icd.json python benchmarks/browser.py       # SwiftShader on both sides
    python benchmarks/browser.py --dawn node_modules/webgpu/dist/linux-x64/dawn.node --only checkerboard      # no browser
    python benchmarks/browser.py --plan desktop --plan portable        # the same page by each of its plans (docs/browser.md)

In Chromium rounds of both sides take turns, and the best of each is compared: other programs slow them alike.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import shadergrad as sg
from record import Folder, Measured, keep, machine_of
from shadergrad import recipes
from shadergrad.logic.experiments import EXPERIMENTS, Training
from shadergrad.runtime.device import get_device
from shadergrad.train.page_export import export_recipe, named_losses
from shadergrad.train.settings import Settings
from shadergrad.train.trainable import Stream

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

STEPS = {"digits": 200, "digits-cnn": 100, "gpt": 20, "checkerboard": 20}
AUTOMATA = ("checkerboard",)


def of_recipe(name: str) -> Callable[[], sg.Tensor]:
    """A step of the recipe natively, on batches in the data's order."""
    recipe = recipes.find(name)
    assert recipe.build is not None
    chosen: dict[str, Any] = {option.name: option.default for option in recipe.all_options(name)} | {"out": Path()}
    sg.manual_seed(0)
    trainable = recipe.build(Settings(**chosen), "webgpu")
    size = chosen["batch_size"]
    if isinstance(trainable.data, Stream):
        drawn = list(islice(trainable.data.batches(0), 8))
    else:
        drawn = [[a[i : i + size] for a in trainable.data] for i in range(0, 16 * size, size)]
    step = named_losses(trainable, [f"input{k}" for k in range(len(drawn[0]))])
    batches = [[sg.tensor(a, device="webgpu") for a in batch] for batch in drawn]
    return taking_turns(batches, lambda *batch: step(*batch)["loss"])


def of_automaton(name: str) -> Callable[[], sg.Tensor]:
    """A step of the automaton natively."""
    training = Training(EXPERIMENTS[name], device="webgpu")
    update = sg.compile(training.update)
    return taking_turns([training.batch() for _ in range(8)], lambda *batch: update(*batch)[0])


def taking_turns(batches: list[Any], step: Callable[..., sg.Tensor]) -> Callable[[], sg.Tensor]:
    number = iter(range(1 << 30))
    return lambda: step(*batches[next(number) % len(batches)])


def native(step: Callable[[], sg.Tensor], steps: int) -> float:
    """Milliseconds; the losses are read at the end."""
    begun = time.perf_counter()
    losses = [step() for _ in range(steps)]
    assert np.isfinite([loss.item() for loss in losses]).all()
    return 1000 * (time.perf_counter() - begun)


@contextmanager
def in_chromium(folder: Path, plan: str) -> Iterator[Callable[[str], Any]]:
    """Evaluates JavaScript beside the page, where `open` is what browser_steps.js opened."""
    from chromium import blank_page, chromium, served

    shutil.copyfile(HERE / "browser_steps.js", folder / "browser_steps.js")
    with chromium() as browser, served(folder) as origin:
        page = blank_page(browser, origin)
        page.evaluate(
            f"""async () => {{
              window.steps = await import(new URL('browser_steps.js', location.href));
              window.open = await window.steps.opened(new URL('.', location.href).href, {json.dumps(plan)});
            }}"""
        )
        yield page.evaluate


def rounds_of_chromium(
    folder: Path, step: Callable[[], sg.Tensor], steps: int, rounds: int, plan: str
) -> tuple[Any, list[float]]:
    with in_chromium(folder, plan) as evaluate:
        there: dict[str, Any] = {"took": []}
        here = []
        for _ in range(rounds):
            there["took"].append(evaluate(f"() => steps.trained(open, {steps})"))
            there.setdefault("accuracy", evaluate("() => steps.accuracy(open)"))
            here.append(native(step, steps))
        found = evaluate("() => ({first: open.first, losses: open.losses, adapter: open.adapter, plan: open.plan})")
    return there | found, here


def rounds_of_node(
    folder: Path, step: Callable[[], sg.Tensor], steps: int, rounds: int, plan: str, dawn: Path, node: str
) -> tuple[Any, list[float]]:
    command = [node, HERE / "dawn.mjs", dawn.resolve(), folder, str(steps), str(rounds), plan]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)  # of a plan that the adapter refuses, say
    return json.loads(done.stdout.splitlines()[-1]), [native(step, steps) for _ in range(rounds)]


def main(
    only: Annotated[str, typer.Option(help=f"One of {', '.join(STEPS)}; all by default.")] = "",
    plan: Annotated[
        list[str] | None, typer.Option(help="Plans to force; by default the one that the page takes.")
    ] = None,
    dawn: Annotated[
        Path | None, typer.Option(help="dawn.node of npm's package webgpu: Node in place of Chromium.")
    ] = None,
    node: Annotated[str, typer.Option(help="The Node to run it in.")] = "node",
    rounds: Annotated[int, typer.Option(help="Of each side.")] = 3,
    scale: Annotated[float, typer.Option(help="How many times as many steps.")] = 1.0,
    results: Folder = None,
) -> None:
    """Measure and print."""
    if only not in ("", *STEPS):
        raise typer.BadParameter(f"there are {', '.join(STEPS)}")
    for name in [only] if only else STEPS:
        steps = int(scale * STEPS[name])
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            export_recipe(name, recipes.find(name), folder)
            files = [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".safetensors"]
            kib = sum(path.stat().st_size for path in files) / 1024
            step = (of_automaton if name in AUTOMATA else of_recipe)(name)
            native(step, 1)
            for wished in plan or [""]:
                if dawn is None:
                    there, here = rounds_of_chromium(folder, step, steps, rounds, wished)
                else:
                    there, here = rounds_of_node(folder, step, steps, rounds, wished, dawn, node)
                show(name, steps, there, here, kib, dawn, results)


def show(
    name: str, steps: int, there: Any, here: list[float], kib: float, dawn: Path | None, results: Path | None
) -> None:
    """Print a table of both sides, and keep what is in it. there: what the page found. here: milliseconds of the native rounds."""
    table = Table(f"{name}, {steps} steps", "Chromium" if dawn is None else "Node, Dawn", "native")
    fast, own = (1000 * steps / min(took) for took in (there["took"], here))
    table.add_row("adapter", there["adapter"], get_device("webgpu").describe())
    table.add_row("plan", there["plan"], "")
    table.add_row("steps/s, best", f"{fast:.0f} ({fast / own:.2f} x)", f"{own:.0f}")
    table.add_row("seconds a round", *(", ".join(f"{t / 1000:.2f}" for t in took) for took in (there["took"], here)))
    table.add_row("load to first step", f"{there['first']:.0f} ms", "")
    table.add_row("loss, first and last", f"{there['losses'][0]:.4f}, {there['losses'][-1]:.4f}", "")
    if there["accuracy"] is not None:
        table.add_row("accuracy after one round", f"{there['accuracy']:.1%}", "")
    table.add_row("page without data and weights", f"{kib:.0f} KiB", "")
    Console().print(table)
    case = f"{name}, plan {there['plan']}"
    found = [
        Measured(case, "rate", fast, "steps/s", {"the native runtime": own}),
        Measured(case, "load to first step", there["first"], "ms"),
    ]
    # Dawn in Node tells of its adapter nothing but the driver's version; it takes the first, as the native runtime does
    where = (
        f"{there['adapter']} in Chromium"
        if dawn is None
        else f"{machine_of('webgpu').adapter.partition(' (')[0]} in Node, Dawn"
    )
    keep(results, "browser", "webgpu", found, where)


if __name__ == "__main__":
    typer.run(main)
