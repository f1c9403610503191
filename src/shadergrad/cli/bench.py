"""`shadergrad bench`: the limits of devices, and the speed of each engine of the backward pass, beside PyTorch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from ..errors import ShadergradError
from ..runtime.device import get_device

bench = typer.Typer(no_args_is_help=True)


class BenchError(ShadergradError, ValueError):
    """A measurement with invalid options."""


@bench.command()
def limits(
    device: Annotated[list[str] | None, typer.Option(help="cpu, webgpu or webgpu:N; may be repeated.")] = None,
) -> None:
    """Measure each device's limits: memory bandwidth and float32 arithmetic. `sg.profile` reports shares of them."""
    from ..devices import adapters, measure_limits  # here, as help needs nothing of it

    console = Console(highlight=False)
    table = Table()
    for title in ("device", "", "GB/s", "GFLOP/s"):
        table.add_column(title, justify="left" if title in ("device", "") else "right")
    names = device or ["cpu", *("webgpu" if a.index == 0 else f"webgpu:{a.index}" for a in adapters())]
    for name in names:
        found = measure_limits(name)
        rates = (found.bytes_per_second / 1e9, found.flops_per_second / 1e9)
        table.add_row(found.device, get_device(found.device).describe(), *(f"{rate:,.1f}" for rate in rates))
    console.print(table)


@bench.command()
def backward(
    device: Annotated[str, typer.Option(help="webgpu, cpu, webgpu:N, or auto: a GPU if there is one.")] = "auto",
    layers: Annotated[int, typer.Option(help="Encoder layers.")] = 6,
    width: Annotated[int, typer.Option(help="Features of a token.")] = 128,
    heads: Annotated[int, typer.Option(help="Attention heads.")] = 4,
    length: Annotated[int, typer.Option(help="Tokens per sequence.")] = 128,
    batch_size: Annotated[int, typer.Option(help="Sequences per step.")] = 8,
    dropout: Annotated[float, typer.Option(help="Dropout probability.")] = 0.0,
    steps: Annotated[int, typer.Option(help="Timed steps, after two untimed ones; the median counts.")] = 5,
    threads: Annotated[
        int | None, typer.Option(help="Threads of PyTorch.", show_default="cores - 2, at least 1")
    ] = None,
) -> None:
    """Train phase 1 of the coevolution transformer with each engine and in PyTorch alone; print sequences per second."""
    from ..train.training_run import choose_device  # here, as help needs nothing of it

    console = Console(highlight=False)
    sizes = {
        "layers": layers,
        "width": width,
        "heads": heads,
        "length": length,
        "batch-size": batch_size,
        "steps": steps,
    }
    for name, value in sizes.items():
        if value < 1:
            raise BenchError(f"--{name} is {value}; it must be at least 1.")
    if length < SHORTEST:
        raise BenchError(f"--length is {length}; a pair, CLS a SEP b SEP, has at least {SHORTEST} tokens.")
    name = choose_device(device, console)
    shape = {"d_model": width, "n_layers": layers, "n_heads": heads, "d_ff": 4 * width}
    shape |= {"max_len": length, "dropout": dropout}
    batch = masked_pairs(batch_size, length)
    engines = ("shaders", "torch") if name == "cpu" else ("shaders", "torch", "numpy")  # there the first is NumPy's
    rows = [_engine(engine, name, shape, batch, steps, threads) for engine in engines]
    rows.append(_pytorch(shape, batch, steps, threads))
    table = Table(
        title=f"{layers} layers, d {width}, {heads} heads, {batch_size} x {length} tokens, dropout {dropout:g}"
    )
    for title in ("backward", "ms a step", "sequences/s", "dispatches", "last loss"):
        table.add_column(title, justify="left" if title == "backward" else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


SHORTEST = 5  # tokens of a pair

Batch = tuple[np.ndarray, np.ndarray]
Row = tuple[str, str, str, str, str]


def masked_pairs(count: int, length: int) -> Batch:
    """Tokens of random pairs, some masked, and the original tokens, both int32 (count, length)."""
    from ..models import coevolution as co  # here, as help needs nothing of it

    rng = np.random.default_rng(0)
    half = (length - 3) // 2
    a, b = (rng.integers(0, len(co.AMINO_ACIDS), (count, n)) for n in (half, length - 3 - half))
    return co.mask_tokens(co.pair_tokens(a, b), rng)


def _engine(engine: str, device: str, shape: dict[str, Any], batch: Batch, steps: int, threads: int | None) -> Row:
    import shadergrad as sg  # here, as help needs nothing of it

    from ..models import coevolution as co  # as above
    from ..system.optional_packages import MissingPackageError  # as above
    from ..train import TrainingStep  # as above

    sg.manual_seed(0)
    model = co.MaskedLanguageModel(co.CoevolutionTransformer(**shape)).to(device)
    objective = co.Objective(model, co.MaskedTokens())
    optimizer = sg.optim.AdamW(model.parameters(), lr=1e-3)
    try:
        step = TrainingStep(
            model, optimizer, objective.total, backward=engine, weight=objective.weight, threads=threads
        )
    except MissingPackageError:
        return engine, "", "", "", "PyTorch is not installed"
    seconds, last = _timed(lambda: step(*batch).item(), steps)
    shown = "shaders (here NumPy)" if device == "cpu" and engine == "shaders" else engine
    return _row(shown, seconds, len(batch[0]), f"{step.dispatches:,}", last)


def _pytorch(shape: dict[str, Any], batch: Batch, steps: int, threads: int | None) -> Row:
    """The same training in PyTorch alone, on the cpu."""
    name = "PyTorch alone, cpu"
    try:
        import torch  # optional, and slow to load

        from ..interop.torch.threads import check_threads, limited  # which import it
        from .bench_torch import MaskedLanguageModel  # as above
    except ModuleNotFoundError:
        return name, "", "", "", "PyTorch is not installed"
    with limited(check_threads(threads)):
        torch.manual_seed(0)
        model = MaskedLanguageModel(**shape)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        tokens, labels = (torch.from_numpy(part).long() for part in batch)

        def step() -> float:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
            loss.backward()
            optimizer.step()
            return loss.item()

        seconds, last = _timed(step, steps)
    return _row(name, seconds, len(tokens), "", last)


def _timed(step: Callable[[], float], steps: int) -> tuple[float, float]:
    """The median time of a step, and the last loss."""
    last, seconds = step(), []
    last = step()
    for _ in range(steps):
        started = time.perf_counter()
        last = step()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), last


def _row(name: str, seconds: float, sequences: int, dispatches: str, last: float) -> Row:
    return name, f"{1e3 * seconds:,.2f}", f"{sequences / seconds:,.1f}", dispatches, f"{last:.4f}"
