"""Every benchmark in one command, each in a process of its own, with its peers beside it.

    python benchmarks/all.py                                  # on the GPU that there is; without one as with --quick
    python benchmarks/all.py --results results --commit H     # keeps what is measured, as records of that commit (see `record`)
    python benchmarks/all.py --quick                          # few rounds, sizes that two CPU cores take: some minutes there
    python benchmarks/all.py --only step --budget 0           # training steps alone, however long they take

Training steps come first, and no benchmark begins once the budget is spent: a list at the end says what was left out. What each
prints is shown when it ends; a table of what ran, how long it took and whether it ended well stands at the end. The exit status
is 1 where one failed. `--out` keeps each output as a file. Peers that are not installed are left out.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import record
import shadergrad as sg

FOLDER = Path(__file__).parent
STEPS = ("xor", "mlp", "cnn", "resnet", "mlm", "gpt2s", "lstm", "transformer", "logreg")
ENOUGH = "--steps 0 --rounds 5"
FEW = "--steps 3 --rounds 3"
MOST_SECONDS = {True: 120, False: 1800}  # of one benchmark, by whether it is quick
LEAST_SECONDS = 5  # no benchmark begins with less
PYTORCH = "torch,compile"  # eager, and torch.compile


@dataclass(frozen=True)
class Benchmark:
    """A script with its arguments. {device}: the one that is measured; peer: what `--against` names, its package first, or "" for
    nothing."""

    script: str
    arguments: str
    peer: str = ""

    @property
    def name(self) -> str:
        return f"{self.script} {self.arguments}".strip()

    def command(self, device: str) -> list[str]:
        words = self.arguments.format(device=device).split()
        has_peer = self.peer and importlib.util.find_spec(self.peer.partition(",")[0]) is not None
        return [
            sys.executable,
            str(FOLDER / f"{self.script}.py"),
            *words,
            *(["--against", self.peer] if has_peer else []),
        ]


FULL = (
    *(Benchmark("step", f"{task} --device {{device}} {ENOUGH}", PYTORCH) for task in STEPS),
    Benchmark("uncompiled", "mlp --device {device}"),
    Benchmark("host_time", "xor mlp --device {device}"),
    Benchmark("implementations", ""),
    Benchmark("first_step", "resnet mlm gpt2s --device {device}"),
    Benchmark("growth", "--device {device}", "torch"),
    Benchmark("products", "--device {device}", "torch"),
    Benchmark("memory", "--device {device}", "torch"),
    Benchmark("attention", "--device {device}", "torch"),
    Benchmark("transfers", "--device {device}"),
    Benchmark("logic", "--device {device}", "jax"),
    Benchmark("dca", "--device {device}"),
    Benchmark("logic_training", "--device {device}"),
    Benchmark("circuits", ""),
    Benchmark("circuits", "--no-host --device {device} --size 16384"),
)
QUICK = (
    *(Benchmark("step", f"{task} --device cpu {FEW}", PYTORCH) for task in ("xor", "mlp")),
    Benchmark("step", f"mlp --device {{device}} {FEW}", "torch"),
    *(Benchmark("step", f"{task} --device cpu {FEW}", "torch") for task in ("cnn", "lstm", "logreg")),
    *(Benchmark("step", f"{task} --device cpu --small {FEW}", "torch") for task in ("resnet", "mlm", "gpt2s")),
    Benchmark("uncompiled", f"mlp --device {{device}} --small {FEW}"),
    Benchmark("host_time", "xor mlp --device {device} --small"),
    Benchmark("implementations", "--rounds 8"),
    Benchmark("first_step", "mlp lstm --device {device} --small"),
    Benchmark("growth", "--device cpu --small --only decoder", "torch"),
    Benchmark("products", "--device {device} --only 256x512x784", "torch"),
    Benchmark("memory", "--device {device} --share 64 --only softmax", "torch"),
    Benchmark("attention", "--device {device} --small --calls 2 --rounds 1", "torch"),
    Benchmark("transfers", "--device {device} --mib 8"),
    Benchmark("logic", "life --device cpu --steps 3 --rounds 3"),
    Benchmark("dca", "--device cpu --small"),
    Benchmark("circuits", "--size 1024"),
)


def main(
    quick: Annotated[
        bool | None,
        typer.Option("--quick/--full", help="few rounds of sizes that two CPU cores take; without a GPU the default"),
    ] = None,
    device: Annotated[str, typer.Option(help="what is measured; webgpu where there is an adapter, else cpu")] = "",
    only: Annotated[str, typer.Option(help="those whose script and arguments contain this")] = "",
    out: Annotated[Path | None, typer.Option(help="a folder for what each prints")] = None,
    results: record.Folder = None,
    commit: Annotated[str, typer.Option(help="what the records say of the tree, where it is no checkout")] = "",
    budget: Annotated[
        float, typer.Option(help="seconds, after which no benchmark begins and the last one is stopped; 0: none")
    ] = 480,
) -> None:
    """Run the benchmarks one after another, and say which ended well."""
    began = time.perf_counter()
    adapters = sg.devices.adapters()
    device = device or ("webgpu" if adapters else "cpu")
    if quick is None:
        quick = device == "cpu" or not any(adapter.type == "hardware" for adapter in adapters)
    chosen = [b for b in (QUICK if quick else FULL) if only in b.name]
    if not chosen:
        raise typer.BadParameter(f"no benchmark has {only!r} in its name", param_hint="--only")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    console = Console()
    table = Table("benchmark", "seconds", "ended")
    has_failed = False
    left_out: list[str] = []
    for number, benchmark in enumerate(chosen):
        name = benchmark.name.format(device=device)
        left = began + budget - time.perf_counter() if budget else float(MOST_SECONDS[quick])
        if left < LEAST_SECONDS:
            left_out.append(name)
            continue
        console.rule(name)
        text, ended, seconds = run(benchmark.command(device), min(left, MOST_SECONDS[quick]), results, commit)
        if left < MOST_SECONDS[quick] and ended.startswith("stopped"):
            left_out.append(f"{name}, stopped before its end")
        else:
            has_failed |= ended != "well"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        if out is not None:
            (out / f"{number:02}-{benchmark.script}.txt").write_text(text)
        table.add_row(name, f"{seconds:.0f}", ended)
    console.print(table)
    if left_out:
        console.print(
            f"Left out, for the budget of {budget:g} s:", *(f"  {name}" for name in left_out), sep="\n", markup=False
        )
    raise typer.Exit(int(has_failed))


def run(command: list[str], seconds: float, results: Path | None, commit: str) -> tuple[str, str, float]:
    """What a command prints, how it ended and how long it took. What it had measured until then is kept in `results`."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        text, ended = measure([*command, *(["--results", folder] if results else [])], seconds)
        took = time.perf_counter() - began
        if results:
            found = record.read(Path(folder))
            record.append(results, [replace(r, commit=commit or r.commit) for r in found])
    return text, ended, took


def measure(command: list[str], seconds: float) -> tuple[str, str]:
    """What a command prints, and how it ended: "well", or what was wrong."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        printed = error.stdout or b""
        return printed.decode() if isinstance(printed, bytes) else printed, f"stopped after {seconds:g} s"
    return done.stdout, "well" if done.returncode == 0 else f"exit status {done.returncode}"


if __name__ == "__main__":
    typer.run(main)
