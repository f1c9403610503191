"""Training steps of exported folders on the CPU, in Node: WebAssembly beside plain JavaScript, and Python's cpu device on one thread.

In: workloads. Out: milliseconds of a step for each, and the greatest difference of their losses.

    python benchmarks/page_cpu.py                     # needs node, and llvmlite for WebAssembly
    python benchmarks/page_cpu.py --only mlp --results benchmarks/results
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import shadergrad as sg
from record import Folder, Measured, keep
from shadergrad.system.safe_tensors import save
from workloads import WORKLOADS, training_step

SCRIPT = Path(__file__).with_name("page_cpu.mjs")
STEPS = ("xor", "mlp", "cnn", "lstm", "transformer")
LOSSES = 4  # steps whose losses are compared
SECONDS = 2.0  # that each is timed, at least
FEWEST, MOST = 3, 2000  # steps


def measured(name: str) -> Measured:
    """Rounds in Node, then here; the losses of the first steps of each must agree."""
    workload = WORKLOADS[name](False)
    sg.manual_seed(0)
    step = sg.compile(training_step(sg, workload, workload.model(sg).to("cpu")))
    x, y = (sg.tensor(a, device="cpu") for a in workload.batch())
    with tempfile.TemporaryDirectory() as folder:
        sg.web.export(step, folder, x, y, targets=())
        (Path(folder) / "inputs.safetensors").write_bytes(save(step.node_by_node(x, y).arguments))
        node = shutil.which("node")
        assert node is not None, "Node is not installed"
        told = subprocess.run(
            [node, str(SCRIPT), folder, *map(str, (LOSSES, SECONDS, FEWEST, MOST))], capture_output=True, text=True
        )
    if told.returncode:
        raise SystemExit(f"Node could not run {name}: {told.stderr.strip()[-800:]}")
    there = json.loads(told.stdout)
    losses = [float(step(x, y).item()) for _ in range(LOSSES)]
    for kind, found in there.items():
        off = float(np.abs(np.subtract(found["losses"], losses)).max())
        assert off < 1e-3, f"{kind} of {name}: losses are off by {off}"
    sg.sync()
    begun, count = time.perf_counter(), 0
    while count < FEWEST or (time.perf_counter() - begun < SECONDS and count < MOST):
        step(x, y).item()
        count += 1
    own = 1e3 * (time.perf_counter() - begun) / count
    peers = {"plain JavaScript": there["plain JavaScript"]["ms"], "the cpu device, one thread": own}
    return Measured(name, "time", there["WebAssembly"]["ms"], "ms", peers)


def main(only: Annotated[list[str] | None, typer.Option(help="these alone")] = None, results: Folder = None) -> None:
    """Time training steps on the CPU as pages run them, beside Python's cpu device."""
    sg.set_num_threads(1)
    found = [measured(name) for name in only or STEPS]
    rows = Table("step", "WebAssembly, ms", "plain JavaScript", "cpu device, 1 thread")
    for m in found:
        rows.add_row(m.case, *(f"{v:.3g}" for v in (m.value, *m.peers.values())))
    Console().print(rows)
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    keep(results, "page_cpu", "cpu", found, f"Node {node.removeprefix('v')} on the CPU")


if __name__ == "__main__":
    typer.run(main)
