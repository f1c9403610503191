"""Training steps in half precision: ms a step and memory, beside our float32 and PyTorch in bfloat16 and TF32.

    SHADERGRAD_WEBGPU=dawn python benchmarks/half_precision.py gpt2s --against torch,compile,tf32 --results benchmarks/results
    python benchmarks/half_precision.py mlm --dtype bfloat16 --small --steps 2 --rounds 1
    SHADERGRAD_WEBGPU=dawn python benchmarks/half_precision.py resnet --explain         # kernels and their device times

A step is `step.py`'s under autocast; of float16 with a GradScaler inside the compiled step, as PyTorch's users write it. PyTorch's runs under
autocast of bfloat16, which needs no scaling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

import shadergrad as sg
from device_time import commands_of, seconds
from record import Folder, Measured, keep
from shadergrad.plan import format_bytes
from shadergrad.runtime.device import get_device
from step import Runner, in_turns, ours
from workloads import WORKLOADS, Workload

PEERS = {"torch": "PyTorch eager, bfloat16", "compile": "torch.compile, bfloat16", "tf32": "torch.compile, TF32"}
OURS = "shadergrad, float32"


def training_step(
    lib: Any, workload: Workload, model: Any, kind: str, dtype: Any, scaler: Any
) -> Callable[[Any, Any], Any]:
    """kind: of the device, for autocast. dtype: None for float32. scaler: None, or a GradScaler."""
    optimizer = getattr(lib.optim, workload.optimizer)(model.parameters(), lr=workload.lr)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with lib.autocast(kind, dtype=dtype, enabled=dtype is not None):
            loss = workload.loss(lib, model, x, y)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return loss

    return step


def in_half(workload: Workload, name: str, dtype: str, is_scaled: bool) -> Runner:
    device = get_device(name)
    sg.manual_seed(0)
    model = workload.model(sg).to(name)
    scaler = sg.amp.GradScaler(name) if is_scaled else None
    step = sg.compile(training_step(sg, workload, model, name, getattr(sg, dtype), scaler))
    x, y = (sg.tensor(a, device=name) for a in workload.batch())

    def peak() -> int | None:
        statistics_of = getattr(device, "statistics", None)
        return statistics_of().peak_bytes if statistics_of else None

    return Runner(device.describe(), lambda: step(x, y), lambda: sg.sync(), peak, step)


def torch_peer(workload: Workload, name: str) -> Runner:
    """PyTorch's step, on CUDA where there is one."""
    import torch

    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    torch.manual_seed(0)
    model = workload.model(torch).to(device)
    run = model if name == "torch" else torch.compile(model)
    step = training_step(torch, workload, run, device, None if name == "tf32" else torch.bfloat16, None)
    x, y = (torch.tensor(a, device=device) for a in workload.batch())
    x, y = (t if t.is_floating_point() else t.long() for t in (x, y))

    def call() -> Any:
        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = name == "tf32"
        return step(x, y)

    return Runner(
        PEERS[name],
        call,
        torch.cuda.synchronize if cuda else lambda: None,
        torch.cuda.max_memory_allocated if cuda else lambda: None,
    )


def print_kernels(runner: Runner, device: str, top: int) -> None:
    """The kernels of the last step, the longest first, each timed by itself."""
    program, commands = commands_of(runner.compiled, device)
    plan = program.plan
    rows: dict[tuple[str, str, str], list[float]] = {}
    for dispatch, command in zip([d for d in plan.dispatches if all(d.grid)], commands, strict=True):
        kernel = plan.kernels[dispatch.kernel]
        key = (kernel.archetype, f"{kernel.choice[:60]}; {kernel.shape[:70]}", kernel.origin[:60])
        rows.setdefault(key, []).append(seconds(device, [command], 0.004) * 1e3)
    print(f"  {len(commands)} dispatches, {seconds(device, commands, 0.2) * 1e3:.3f} ms together")
    for (archetype, how, origin), times in sorted(rows.items(), key=lambda row: -sum(row[1]))[:top]:
        print(f"  {sum(times):8.3f} ms {len(times):4} x {archetype:5} {how}  {origin}")


def main(
    task: Annotated[str, typer.Argument(help=f"one of {', '.join(WORKLOADS)}")] = "gpt2s",
    device: str = "webgpu",
    dtype: Annotated[str, typer.Option(help="float16 or bfloat16")] = "float16",
    scaler: Annotated[bool, typer.Option("--scaler/--no-scaler", help="of float16: scale the loss")] = True,
    against: Annotated[str, typer.Option(help=f"peers, by commas: {', '.join(PEERS)}")] = "",
    steps: Annotated[int, typer.Option(help="of a round; 0: as many as take 0.4 s")] = 0,
    rounds: int = 9,
    small: Annotated[bool, typer.Option("--small", help="tiny sizes: to try it, not to measure")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="print the kernels, the longest first")] = False,
    top: int = 40,
    results: Folder = None,
) -> None:
    """Measure one compiled training step in half precision."""
    names = [name for name in against.split(",") if name]
    if task not in WORKLOADS or not {*names} <= PEERS.keys() or dtype not in ("float16", "bfloat16"):
        raise typer.BadParameter(f"there are {', '.join(WORKLOADS)}; float16, bfloat16; --against {', '.join(PEERS)}")
    workload = WORKLOADS[task](small)
    is_scaled = scaler and dtype == "float16"
    case = f"{task}, {dtype}{'' if is_scaled else ', not scaled' if dtype == 'float16' else ''}{', small' if small else ''}"
    own = in_half(workload, device, dtype, is_scaled)
    losses = [float(own.call()) for _ in range(3)]
    peak = own.peak()
    runners = {OURS: ours(workload, device)}
    exact = [float(runners[OURS].call()) for _ in range(3)]
    for name in names:
        try:
            peer = torch_peer(workload, name)
            peer.call()
            peer.wait()
            runners[PEERS[name]] = peer
        except Exception as error:
            print(f"  {PEERS[name]} failed: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
    (ms, *others), how = in_turns([own, *runners.values()], steps, rounds)
    theirs = dict(zip(runners, others, strict=True))
    print(f"{case} on {own.name}: {ms:.4f} ms/step ({how}), losses {losses}, in float32 {exact}")
    for name, other in theirs.items():
        print(f"  {other:.4f} ms/step {name}: half precision is {other / ms:.2f} times as fast", flush=True)
    found = [Measured(case, "time", ms, "ms", theirs, how)]
    if peak:
        print(f"  peak device memory {format_bytes(peak)}")
        found.append(Measured(case, "peak memory", peak, "bytes"))
    keep(results, "half_precision", device, found)
    if explain:
        print_kernels(own, device, top)


if __name__ == "__main__":
    typer.run(main)
