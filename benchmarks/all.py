"""Every benchmark in one command, each in a process of its own, with its peer beside it.

    python benchmarks/all.py                    # on the GPU that there is
    python benchmarks/all.py --quick            # few rounds, sizes that two CPU cores take: two minutes there
    python benchmarks/all.py --only step

What each prints is shown when it ends; a table of what ran, how long it took and whether it ended well stands at the end. The exit
status is 1 where one failed. `--out` keeps each output as a file. Peers that are not installed are left out.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import shadergrad as sg

FOLDER = Path(__file__).parent
STEPS = ("logreg", "mlp", "xor", "cnn", "lstm", "transformer", "resnet", "mlm", "gpt2s")
FEW = "--steps 3 --rounds 3"
MOST_SECONDS = {True: 120, False: 1800}  # of one benchmark, by whether it is quick


@dataclass(frozen=True)
class Benchmark:
    """A script with its arguments. {device}: the one that is measured; peer: what `--against` names, "" for nothing."""

    script: str
    arguments: str
    peer: str = ""

    @property
    def name(self) -> str:
        return f"{self.script} {self.arguments}".strip()

    def command(self, device: str) -> list[str]:
        words = self.arguments.format(device=device).split()
        has_peer = self.peer and importlib.util.find_spec(self.peer) is not None
        return [
            sys.executable,
            str(FOLDER / f"{self.script}.py"),
            *words,
            *(["--against", self.peer] if has_peer else []),
        ]


FULL = (
    *(Benchmark("step", f"{task} --device {{device}}", "torch") for task in STEPS),
    Benchmark("uncompiled", "mlp --device {device}"),
    Benchmark("host_time", "xor mlp --device {device}"),
    Benchmark("first_step", "resnet mlm gpt2s --device {device}"),
    Benchmark("growth", "--device {device}", "torch"),
    Benchmark("products", "--device {device}", "torch"),
    Benchmark("memory", "--device {device}", "torch"),
    Benchmark("attention", "--device {device}", "torch"),
    Benchmark("transfers", "--device {device}"),
    Benchmark("logic", "--device {device}", "jax"),
    Benchmark("circuits", ""),
    Benchmark("circuits", "--no-host --device {device} --size 16384"),
)
QUICK = (
    *(Benchmark("step", f"{task} --device cpu {FEW}", "torch") for task in ("logreg", "mlp", "xor", "cnn", "lstm")),
    Benchmark("step", f"mlp --device {{device}} {FEW}", "torch"),
    Benchmark("uncompiled", f"mlp --device {{device}} --small {FEW}"),
    Benchmark("host_time", "xor mlp --device {device} --small"),
    Benchmark("first_step", "mlp lstm --device {device} --small"),
    Benchmark("growth", "--device cpu --small --only decoder", "torch"),
    Benchmark("products", "--device {device} --only 256x784x512", "torch"),
    Benchmark("memory", "--device {device} --share 64 --only softmax", "torch"),
    Benchmark("attention", "--device {device} --small --calls 2 --rounds 1", "torch"),
    Benchmark("transfers", "--device {device} --mib 8"),
    Benchmark("logic", "life --device cpu --steps 3 --rounds 3"),
    Benchmark("circuits", "--size 1024"),
)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="few rounds of sizes that two CPU cores take")] = False,
    device: Annotated[str, typer.Option(help="what is measured; webgpu where there is an adapter, else cpu")] = "",
    only: Annotated[str, typer.Option(help="those whose script and arguments contain this")] = "",
    out: Annotated[Path | None, typer.Option(help="a folder for what each prints")] = None,
) -> None:
    """Run the benchmarks one after another, and say which ended well."""
    device = device or ("webgpu" if sg.devices.adapters() else "cpu")
    chosen = [b for b in (QUICK if quick else FULL) if only in b.name]
    if not chosen:
        raise typer.BadParameter(f"no benchmark has {only!r} in its name", param_hint="--only")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    console = Console()
    table = Table("benchmark", "seconds", "ended")
    has_failed = False
    for number, benchmark in enumerate(chosen):
        console.rule(benchmark.name.format(device=device))
        began = time.perf_counter()
        text, ended = measure(benchmark.command(device), MOST_SECONDS[quick])
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        if out is not None:
            (out / f"{number:02}-{benchmark.script}.txt").write_text(text)
        has_failed |= ended != "well"
        table.add_row(benchmark.name.format(device=device), f"{time.perf_counter() - began:.0f}", ended)
    console.print(table)
    raise typer.Exit(int(has_failed))


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
