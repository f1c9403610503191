"""`shadergrad bench backward`: how fast each engine of the backward pass trains here, beside PyTorch's own training."""

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

bench = typer.Typer(no_args_is_help=True)


class BenchError(ShadergradError, ValueError):
    """A measurement that cannot be made as asked."""


@bench.callback()
def _group() -> None:
    """Without it typer would make the one command the whole group."""


@bench.command()
def backward(
    device: Annotated[str, typer.Option(help="webgpu, cpu, webgpu:N, or auto: a GPU if there is one.")] = "auto",
    layers: Annotated[int, typer.Option(help="Layers of the encoder.")] = 6,
    width: Annotated[int, typer.Option(help="Features of a token.")] = 128,
    heads: Annotated[int, typer.Option(help="Heads of attention.")] = 4,
    length: Annotated[int, typer.Option(help="Tokens of a sequence.")] = 128,
    batch_size: Annotated[int, typer.Option(help="Sequences a step.")] = 8,
    dropout: Annotated[float, typer.Option(help="Share of features that is dropped.")] = 0.0,
    steps: Annotated[int, typer.Option(help="Steps that are timed, after two that are not; the median counts.")] = 5,
    threads: Annotated[
        int | None, typer.Option(help="Threads of PyTorch.", show_default="cores - 2, at least 1")
    ] = None,
) -> None:
    """Train a masked language model with each engine, and in PyTorch alone: sequences a second, dispatches, first loss."""
    from ..train.run import choose_device  # here, as help needs nothing of it

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
    name = choose_device(device, console)
    tokens = np.random.default_rng(0).integers(0, TOKENS, (batch_size, length)).astype(np.int32)
    shape = (layers, width, heads, dropout)
    engines = ("shaders", "torch") if name == "cpu" else ("shaders", "torch", "numpy")  # there the first is NumPy's
    rows = [_engine(engine, name, shape, tokens, steps, threads) for engine in engines]
    rows.append(_pytorch(shape, tokens, steps, threads))
    table = Table(
        title=f"{layers} layers, d {width}, {heads} heads, {batch_size} x {length} tokens, dropout {dropout:g}"
    )
    for title in ("backward", "ms a step", "sequences/s", "dispatches", "loss of the last step"):
        table.add_column(title, justify="left" if title == "backward" else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


TOKENS = 25  # of proteins: the residues and the signs between them

Row = tuple[str, str, str, str, str]


def network(nn: Any, layers: int, width: int, heads: int, dropout: float) -> Any:
    """The model, of either library's modules: logits (batch, length, TOKENS)."""
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout, "gelu", batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(TOKENS, width), encoder, nn.LayerNorm(width), nn.Linear(width, TOKENS))


def _engine(engine: str, device: str, shape: Any, tokens: np.ndarray, steps: int, threads: int | None) -> Row:
    import shadergrad as sg  # here, as help needs nothing of it

    from ..extras import MissingPackageError  # as above
    from ..train import TrainingStep  # as above

    sg.manual_seed(0)
    model = network(sg.nn, *shape).to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=1e-3)

    def loss(tokens: sg.Tensor) -> sg.Tensor:
        return sg.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    try:
        step = TrainingStep(model, optimizer, loss, backward=engine, threads=threads)
    except MissingPackageError:
        return engine, "", "", "", "PyTorch is not installed"
    seconds, last = _timed(lambda: step(tokens).item(), steps)
    shown = "shaders (here NumPy)" if device == "cpu" and engine == "shaders" else engine
    return _row(shown, seconds, len(tokens), f"{step.dispatches:,}", last)


def _pytorch(shape: Any, tokens: np.ndarray, steps: int, threads: int | None) -> Row:
    """The same training in PyTorch alone, on the cpu."""
    name = "PyTorch alone, cpu"
    try:
        import torch  # optional, and slow to load

        from ..interop.torch.threads import check_threads, limited  # which import it
    except ModuleNotFoundError:
        return name, "", "", "", "PyTorch is not installed"
    with limited(check_threads(threads)):
        torch.manual_seed(0)
        model = network(torch.nn, *shape)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        given = torch.from_numpy(tokens).long()

        def step() -> float:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(given).flatten(0, 1), given.flatten())
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
