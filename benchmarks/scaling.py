"""Scaling over GPUs: the training steps of workloads.py in 1 to N processes, a GPU each, beside PyTorch's over NCCL and gloo.

    python benchmarks/scaling.py --gpus 2 4 8 --tasks resnet gpt2s mlm --results benchmarks/results
    python benchmarks/scaling.py --gpus 2 --tasks mlp --device cpu --steps 5 --rounds 1       # tries it without GPUs

Each process takes the same batch as one alone (weak scaling). A figure says how many times the samples a second of one process N processes
reach, by the slowest of them; `expected` is the formula of docs/distributed.md for PCIe, printed before a way is measured. `alone` exchanges
nothing, so it is what the host and its memory cost N processes. One process is measured first, for all others are divided by it. Starts torchrun
once for each way and each number of processes, and passes over what a time limit leaves no room for, in words.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from record import ROOT, Measured, keep
from workloads import WORKLOADS

EVERY = 50  # steps from one exchange of DiLoCo to the next
DELAY = 5  # steps that go on while the values of DiLoCo travel
WAYS = {
    "alone": "no exchange",
    "ddp": "DDP",
    "ddp-fp16": "DDP, float16",
    "diloco": f"DiLoCo, H = {EVERY}",
    "diloco-late": f"DiLoCo, H = {EVERY}, {DELAY} steps late",
    "torch-nccl": "PyTorch DDP over NCCL",
    "torch-gloo": "PyTorch DDP over gloo",
}
REPEATS = {"gpt2s": 2}  # 8 x 512 tokens
DOUBLED = ", batch doubled"


def prepare(task: str, way: str, local: int, device: str | None) -> tuple[Any, Any, Any, int]:
    """The function that makes a step and gives the loss, the one that waits for a loss, process groups, and the parameters' number."""
    theirs = way.startswith("torch")
    lib: Any = importlib.import_module("torch" if theirs else "shadergrad")
    if theirs and way == "torch-nccl":
        lib.cuda.set_device(local)
    lib.distributed.init_process_group("nccl" if way == "torch-nccl" else "gloo")
    device = device or (f"cuda:{local}" if theirs else f"webgpu:{local}")
    lib.manual_seed(0)
    workload = WORKLOADS[task](False)
    model = workload.model(lib).to(device)
    arrays = (np.concatenate([a] * REPEATS.get(task, 1)) for a in workload.batch())
    x, y = (lib.tensor(a if a.dtype.kind == "f" else a.astype(np.int64), device=device) for a in arrays)
    run = model
    if way != "alone" and not way.startswith("diloco"):
        run = lib.nn.parallel.DistributedDataParallel(model)
    if way == "ddp-fp16":
        run.register_comm_hook(None, lib.distributed.default_hooks.fp16_compress_hook)
    inner = lib.optim.AdamW(model.parameters(), lr=1e-4)
    outer = None
    if way.startswith("diloco"):
        outer = lib.optim.DiLoCo(inner, every=EVERY, delay=DELAY if way == "diloco-late" else 0)

    def step(x: Any, y: Any) -> Any:
        inner.zero_grad()
        loss = workload.loss(lib, run, x, y)
        loss.backward()
        inner.step()
        return loss

    compiled = step if theirs else lib.compile(step)

    def once() -> Any:
        loss = compiled(x, y)
        if outer is not None:
            outer.advance()
        return loss

    count = sum(p.numel() for p in model.parameters())
    return once, lambda loss: float(loss.detach().cpu()), lib.distributed, count


def work(arguments: argparse.Namespace) -> None:
    """One of the processes. The first writes what all found."""
    once, read, distributed, count = prepare(
        arguments.task, arguments.way, int(os.environ["LOCAL_RANK"]), arguments.device
    )
    loss, steps, warm = 0.0, arguments.steps, 4
    if arguments.way.startswith("diloco"):
        steps = -(-steps // EVERY) * EVERY  # so that every round has its exchanges
        warm += EVERY + DELAY  # until an exchange has ended
    for _ in range(warm):
        loss = read(once())
    rounds = []
    for _ in range(arguments.rounds):
        distributed.barrier()
        begin = time.perf_counter()
        for _ in range(steps - 1):
            once()
        loss = read(once())
        rounds.append((time.perf_counter() - begin) / steps)
    found: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(found, sorted(rounds)[len(rounds) // 2])
    if int(os.environ["RANK"]) == 0:
        Path(arguments.out).write_text(json.dumps({"ms": 1e3 * max(found), "loss": loss, "parameters": count}))
    distributed.destroy_process_group()


def start(task: str, way: str, processes: int, arguments: argparse.Namespace, limit: float) -> dict[str, float] | None:
    """What `processes` processes found; None, with the reason printed, where they failed or the time was over."""
    command = ["--task", task, "--way", way, "--steps", str(arguments.steps), "--rounds", str(arguments.rounds)]
    command += ["--device", arguments.device] if arguments.device else []
    return launched(__file__, command, processes, limit)


def launched(script: str, arguments: list[str], processes: int, limit: float) -> dict[str, float] | None:
    """What the first of `processes` processes of a script wrote to its --out; None, with the reason printed, where they failed or took longer
    than `limit` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command += [script, *arguments, "--out", str(out)]
        log = Path(folder) / "log"
        with log.open("w") as to:
            child = subprocess.Popen(command, stdout=to, stderr=to, start_new_session=True)
            try:
                child.wait(limit)
            except subprocess.TimeoutExpired:
                print(f"{' '.join(arguments)}, {processes}: over {limit:.0f} s", flush=True)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        if not out.exists():
            print(f"{' '.join(arguments)}, {processes}: failed\n{log.read_text()[-1500:]}", flush=True)
            return None
        return json.loads(out.read_text())


def expected(parameters: float, seconds: float, way: str, processes: int) -> float | None:
    """Times the throughput of one process, by the formula of docs/distributed.md."""
    sys.path.insert(0, str(ROOT / "scripts"))
    formula = importlib.import_module("distributed_table")
    width, every = {"ddp": (4, 1), "ddp-fp16": (2, 1), "diloco": (4, EVERY), "diloco-late": (4, EVERY)}.get(way, (0, 1))
    if not width or processes == 1:
        return None
    model = formula.Model("", parameters, seconds * formula.FLOPS)
    return processes * formula.share(model, formula.NETWORKS[0], width, every, processes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--gpus", type=int, nargs="+", default=[2], help="numbers of processes, a GPU each, beside one alone"
    )
    parser.add_argument("--tasks", nargs="+", default=["resnet", "gpt2s", "mlm"], choices=list(WORKLOADS))
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing later")
    parser.add_argument("--device", help="by default webgpu:LOCAL_RANK, and cuda:LOCAL_RANK for PyTorch")
    parser.add_argument("--results", type=Path, help="a folder to keep what is measured in, as JSON")
    parser.add_argument("--task", help=argparse.SUPPRESS)  # of one of the processes
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        work(arguments)
        return
    if min(arguments.gpus) < 1 or arguments.steps < 2 or arguments.rounds < 1:
        parser.error("--gpus and --rounds are 1 or more, --steps 2 or more.")
    begin, found = time.monotonic(), {}
    for task, way, processes in planned(arguments.tasks, arguments.ways, arguments.gpus, arguments.device):
        left = begin + arguments.seconds - time.monotonic()
        if left <= 10:
            print(f"{task}, {way}, {processes}: left out, for --seconds is over", flush=True)
            continue
        one = found.get((task, "alone", 1))
        by_formula = expected(one["parameters"], one["ms"] / 1e3, way, processes) if one else None
        if by_formula:
            print(f"{task}, {way}, {processes}: {by_formula:.2f} times is expected", flush=True)
        told = start(task, way, processes, arguments, min(left, 240))
        if told:
            found[task, way, processes] = told
            print(f"{task}, {way}, {processes}: {told['ms']:.3f} ms, loss {told['loss']:.4f}", flush=True)
    measured = report(found)
    keep(arguments.results, "scaling", arguments.device or "webgpu", measured)


def planned(tasks: list[str], ways: list[str], counts: list[int], device: str | None) -> list[tuple[str, str, int]]:
    """What to measure: task, way, processes. First what all others are divided by: one process of each library."""
    if device == "cpu" and "torch-nccl" in ways:
        print("torch-nccl: left out, for NCCL needs GPUs", flush=True)
        ways = [way for way in ways if way != "torch-nccl"]
    theirs = [way for way in ways if way.startswith("torch")][
        :1
    ]  # a process alone exchanges nothing, whatever would carry it
    plan = [(task, way, 1) for way in ("alone", *theirs) for task in tasks]
    return plan + [(task, way, n) for way in ways for task in tasks for n in sorted({*counts} - {1})]


def report(found: dict[tuple[str, str, int], dict[str, float]]) -> list[Measured]:
    """How many times the throughput of one process each way reaches, of this library and, as peers, of PyTorch."""
    measured = []
    for (task, way, processes), told in found.items():
        one = found.get((task, "alone", 1))
        if way.startswith("torch") or one is None or (way, processes) == ("alone", 1):
            continue
        peers = {}
        for name in ("torch-nccl", "torch-gloo"):
            single = found.get((task, "torch-nccl", 1)) or found.get((task, "torch-gloo", 1))
            several = found.get((task, name, processes))
            if single and several and way != "alone":
                peers[WAYS[name]] = processes * single["ms"] / several["ms"]
        by_formula = expected(told["parameters"], one["ms"] / 1e3, way, processes)
        if by_formula:
            peers["expected"] = by_formula
        times = processes * one["ms"] / told["ms"]
        print(f"{task}, {WAYS[way]}, {processes}: {times:.2f} times, {peers}", flush=True)
        how = f"one process {one['ms']:.3f} ms a step, {processes} {told['ms']:.3f}"
        measured.append(
            Measured(
                f"{task}{DOUBLED if task in REPEATS else ''}, {WAYS[way]}, {processes} processes",
                "throughput of one process",
                times,
                "times",
                peers,
                how,
            )
        )
    return measured


if __name__ == "__main__":
    main()
