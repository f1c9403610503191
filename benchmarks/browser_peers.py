"""The exported step of a page, and Python in the page, beside other libraries for browsers, all in Node on Chromium's WebGPU.

In: workloads with Adam, and the folder of libraries that `browser_peers/fetch.sh` packs. Out: milliseconds of a step for each, and the native
runtime's. All start from the same weights and train on the same batch; a library whose first losses differ from ours is left out, and the
exit status is 1.

    benchmarks/browser_peers/fetch.sh build/peers.tar.xz && tar xf build/peers.tar.xz -C build      # Node, Dawn, Pyodide, the libraries
    python benchmarks/browser_peers.py build/peers --results benchmarks/results
    VK_DRIVER_FILES=/usr/lib/chromium/vk_swiftshader_icd.json python benchmarks/browser_peers.py build/peers --small --rounds 1   # to try it

The others are borch (PyPI's pyborch: a runtime in TypeScript, and a binding for Pyodide), jax-js and TensorFlow.js. A step is measured in
rounds: steps are submitted, and the last one's loss is read. The page uploads its batch in each step, and is also measured with one that it uploads once; the others keep theirs on the GPU. borch
records a step and replays it, which it calls compiled; it is also measured without that. Node suspends Python as Chrome and Edge do.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import shadergrad as sg
from record import Folder, Measured, append, keep, machine_of, read
from shadergrad.system.safe_tensors import save
from shadergrad.web.wheels import write_wheels
from step import FEWEST, MOST, WAKING, measure, ours
from workloads import WORKLOADS, Workload, training_step

SCRIPTS = Path(__file__).resolve().with_name("browser_peers")
STEPS = ("mlp", "cnn", "resnet_16", "mlm")
PAGE, IN_PYTHON, NATIVE = "page", "Python in the page", "native runtime"
# The script and the file of each library; TensorFlow.js has no attention.
LIBRARIES = {
    PAGE: ("page.mjs", "-"),
    "borch": ("borch.mjs", "borch.mjs"),
    "jax-js": ("jaxjs.mjs", "jax.mjs"),
    "TF.js": ("tfjs.mjs", "tf.cjs"),
    IN_PYTHON: ("page_python.mjs", "pyodide"),
    "borch, Python in the page": ("borch_python.mjs", "pyodide"),
}
LACKING = {("TF.js", "mlm")}
SUSPENDING = "--experimental-wasm-jspi"  # Python waits for the GPU, as in Chrome and Edge
OFF = 1e-3  # most that losses may differ, as a share of the first one: Adam's first steps amplify rounding
LONGEST = 240  # seconds of one library and case, on a GPU


def exported(workload: Workload, folder: Path, small: bool) -> None:
    """Write a page of the step, and the weights and the batch that all libraries take."""
    sg.manual_seed(0)
    model = workload.model(sg)
    weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
    x, y = workload.batch()
    layers = [m for m in model.modules() if hasattr(m, "num_heads")]
    classes = list(weights.values())[-1].shape[0]
    sg.web.export(sg.compile(training_step(sg, workload, model)), folder, sg.tensor(x), sg.tensor(y))
    (folder / "weights.safetensors").write_bytes(save(weights))
    (folder / "batch.safetensors").write_bytes(save({"x": x, "y": y}))
    heads = layers[0].num_heads if layers else 0
    about = {"heads": heads, "classes": classes, "lr": workload.lr, "small": small}
    (folder / "about.json").write_text(json.dumps(about))


def in_node(library: str, peers: Path, folder: Path, case: str, rounds: int, seconds: float, longest: float) -> Any:
    """What run.mjs tells of a library: version, losses, and rounds of each way to run it. Raises RuntimeError."""
    script, held = LIBRARIES[library]
    words = [script, peers / "dawn.node", held if held == "-" else peers / held, folder, case, rounds, seconds]
    command = [str(word) for word in (peers / "node", SUSPENDING, SCRIPTS / "run.mjs", *words)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=longest)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end after {longest:g} s") from None
    if done.returncode or not done.stdout:
        raise RuntimeError(done.stderr.strip()[-1500:] or f"exit status {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def natively(workload: Workload, rounds: int, seconds: float) -> list[float]:
    """Milliseconds of a step in each round of the native runtime."""
    runner = ours(workload, "webgpu")
    runner.call()
    runner.wait()
    busy_until = time.perf_counter() + min(WAKING, seconds)
    one = measure(runner, FEWEST)[0]
    while time.perf_counter() < busy_until:
        one = measure(runner, FEWEST)[0]
    steps = max(FEWEST, min(MOST, round(seconds / one)))
    return [1000 * measure(runner, steps)[0] for _ in range(rounds)]


def measured(
    case: str, small: bool, asked: list[str], peers: Path, rounds: int, seconds: float, longest: float
) -> tuple[Table, list[Measured], list[str]]:
    """One case: a table, records where the page ran, and what went wrong."""
    workload = replace(WORKLOADS[case](small), optimizer="Adam")
    table = Table(
        f"{case}, Adam", "ms a step", "rounds", "times the page's", "ms of a call from Python", "losses", "version"
    )
    times: dict[str, float] = {}
    host: dict[str, float] = {}
    said: dict[str, str] = {}
    wrong: list[str] = []
    losses: list[float] = []

    def row(name: str, found: list[float], first: Iterable[float] = (), version: str = "") -> None:
        times[name] = statistics.median(found)
        share = f"{times[name] / times[PAGE]:.2f}" if PAGE in times else ""
        shown = " ".join(f"{loss:.5f}" for loss in first)
        called = f"{host[name]:.3f}" if name in host else ""
        table.add_row(
            name, f"{times[name]:.3f}", f"{min(found):.3f} to {max(found):.3f}", share, called, shown, version
        )

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        exported(workload, folder, small)
        for library in (name for name in asked if name in LIBRARIES and (name, case) not in LACKING):
            try:
                told = in_node(library, peers, folder, case, rounds, seconds, longest)
            except RuntimeError as error:
                wrong.append(f"{library} of {case} failed: {error}")
                continue
            losses = losses or told["losses"]
            off = float(np.abs(np.subtract(told["losses"], losses)).max() / losses[0])
            if not off < OFF:
                wrong.append(f"{library} of {case}: losses {told['losses']} instead of {losses}")
                continue
            said[library] = told["version"]
            host |= told["host"]
            for way, found in told["ways"].items():
                row(way, found, told["losses"], told["version"])
    if NATIVE in asked:
        row(NATIVE, natively(workload, rounds, seconds))
    if PAGE not in times:
        return table, [], wrong
    named = f"{case}, small" if small else case
    how = (
        f"median of {rounds} x {seconds:g} s, Adam; {', '.join(f'{name} {version}' for name, version in said.items())}"
    )
    found = [Measured(named, "time", times.pop(PAGE), "ms", times, how)]
    if IN_PYTHON in host:
        found.append(
            Measured(
                f"{named}, {IN_PYTHON}", "host time", host.pop(IN_PYTHON), "ms", host, "a call that submits a step"
            )
        )
    return table, found, wrong


def main(
    peers: Annotated[Path, typer.Argument(help="the folder that browser_peers/fetch.sh packed")],
    only: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(STEPS)}; all by default")] = None,
    library: Annotated[
        list[str] | None, typer.Option(help=f"beside the page, of {', '.join([*LIBRARIES, NATIVE])}; all by default")
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="tiny sizes: to try it, not to measure")] = False,
    rounds: int = 5,
    seconds: Annotated[float, typer.Option(help="of a round, about")] = 1.0,
    longest: Annotated[float, typer.Option(help="seconds after which a library is stopped")] = LONGEST,
    results: Folder = None,
    commit: Annotated[str, typer.Option(help="what the records say of the tree, where it is no checkout")] = "",
) -> None:
    """Measure and print."""
    for given, known in ((only, STEPS), (library, (*LIBRARIES, NATIVE))):
        if not {*(given or [])} <= {*known}:
            raise typer.BadParameter(f"there are {', '.join(known)}")
    asked = [name for name in (*LIBRARIES, NATIVE) if name == PAGE or not library or name in library]
    # Dawn in Node takes the adapter that the native runtime takes, and tells nothing of it but the driver's version.
    where = f"{machine_of('webgpu').adapter.partition(' (')[0]} in Node, Dawn"
    wheels = peers / "pyodide" / "wheels"
    write_wheels(wheels)
    for wheel in peers.glob("pyborch-*.whl"):
        shutil.copy(wheel, wheels)
    has_failed = False
    for case in only or STEPS:
        table, found, wrong = measured(case, small, asked, peers, rounds, seconds, longest)
        Console(width=190).print(table, *wrong, sep="\n", markup=False)
        has_failed |= bool(wrong)
        if results:
            with tempfile.TemporaryDirectory() as folder:
                keep(Path(folder), "browser_peers", "webgpu", found, where)
                append(results, [replace(r, commit=commit or r.commit) for r in read(Path(folder))])
    raise typer.Exit(int(has_failed))


if __name__ == "__main__":
    typer.run(main)
