"""How the time of a training step grows with the batch, the width and the depth of a network; a picture of it.

    python benchmarks/growth.py --device webgpu --against torch --out runs/growth
    python benchmarks/growth.py --draw runs/growth/growth.json

One of the three varies, the others stay. A step is timed as in `step`, ours and PyTorch's in turns. What is told is the time of a
sample by the GFLOP of its products, so that a line that falls to its level and stays there is a network that fills the device. The
level of what the device multiplies at best (`sg.devices.measure_limits`) is drawn beside it; convolutions count as plain products,
so that those by Winograd's way, ours and cuDNN's, may fall below. Writes growth.json and growth.png.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import shadergrad as sg
from record import Folder, Measured, keep
from shadergrad.train.plots import figure_module, or_the_reason, plain_axes
from step import medians, ours, torch_peer
from workloads import Workload, decoder, residual, training_step

HEAD = 64  # the width of one of a decoder's heads
ROUNDS = 3
SECONDS = 0.15  # of a round, about


def decoder_of(batch: int = 16, width: int = 256, depth: int = 4) -> Workload:
    return decoder(batch, width, depth, heads=max(1, width // HEAD))


def residual_of(batch: int = 128, width: int = 64, depth: int = 2) -> Workload:
    """depth: blocks at each of the four sizes, of two convolutions."""
    return residual(batch, 32, (width, 2 * width, 4 * width, 8 * width), depth)


SWEEPS: dict[str, tuple[Callable[..., Workload], dict[str, tuple[int, ...]]]] = {
    "decoder": (
        decoder_of,
        {
            "batch": (1, 2, 4, 8, 16, 32, 64, 128),
            "width": (64, 128, 256, 512, 1024),
            "depth": (1, 2, 4, 8, 16),
        },
    ),
    "residual": (residual_of, {"batch": (2, 8, 32, 128, 512), "width": (16, 32, 64, 128), "depth": (1, 2, 4)}),
}


@dataclass(frozen=True)
class Point:
    """One network: milliseconds a step, PyTorch's (None without it), and GFLOP of a step's products."""

    network: str
    axis: str
    size: int
    ms: float
    torch_ms: float | None
    gflop: float

    def cost(self, ms: float) -> float:
        """Microseconds of a sample, by its GFLOP."""
        return 1e3 * ms / self.gflop


def gflop(workload: Workload) -> float:
    """Of a step's products, as they are within the portable limits, where no convolution goes by Winograd's way."""
    step = sg.compile(training_step(sg, workload, workload.model(sg)))
    plan = step.portable(*(sg.tensor(a) for a in workload.batch())).plan
    kernels = (plan.kernels[d.kernel] for d in plan.dispatches)
    return sum(kernel.flops for kernel in kernels if kernel.archetype == "dot") / 1e9


def measure(network: str, axis: str, size: int, workload: Workload, device: str, against: str, few: bool) -> Point:
    """few: of two steps, to try it."""
    own = ours(workload, device)
    own.call()
    own.wait()
    runners = [own, *([torch_peer(workload)] if against else [])]
    if few:
        times = medians(runners, 2, 1)
    else:
        guess = max(medians(runners, 3, 1))
        times = medians(runners, max(2, min(200, round(1e3 * SECONDS / guess))), ROUNDS)
    return Point(network, axis, size, times[0], times[1] if against else None, gflop(workload))


def points(device: str, against: str, networks: Iterable[str], few: bool) -> list[Point]:
    found = []
    for network in networks:
        make, sweeps = SWEEPS[network]
        for axis, sizes in sweeps.items():
            for size in sizes[:2] if few else sizes:
                workload = make(**({"batch": 2, "width": 16, "depth": 1} if few else {}) | {axis: size})
                point = measure(network, axis, size, workload, device, against, few)
                found.append(point)
                theirs = f", PyTorch {point.torch_ms:.3f}" if point.torch_ms else ""
                typer.echo(f"{network} {axis} {size}: {point.ms:.3f} ms{theirs}, {point.gflop:.3g} GFLOP")
    return found


def measured(point: Point, small: bool) -> Measured:
    peers = {"PyTorch eager": point.torch_ms} if point.torch_ms else {}
    return Measured(
        f"{point.network}, {point.axis} {point.size}{', small' if small else ''}", "time", point.ms, "ms", peers
    )


@or_the_reason
def draw(found: list[Point], limit: float, where: str, path: Path) -> str | None:
    """A panel for each network and axis, sizes and costs as logarithms. None, or why nothing was drawn."""
    networks = list(dict.fromkeys(p.network for p in found))
    axes_of = list(dict.fromkeys(p.axis for p in found))
    figure = figure_module("the growth").Figure(
        figsize=(3.2 * len(axes_of), 2.7 * len(networks)), dpi=90, layout="constrained"
    )
    grid = figure.subplots(len(networks), len(axes_of), sharey="row", squeeze=False)
    for row, network in zip(grid, networks, strict=True):
        for axes, axis in zip(row, axes_of, strict=True):
            some = [p for p in found if (p.network, p.axis) == (network, axis)]
            sizes = [p.size for p in some]
            axes.plot(sizes, [p.cost(p.ms) for p in some], "o-", markersize=4, color="C0", label="shadergrad")
            theirs = [p for p in some if p.torch_ms is not None]
            if theirs:
                costs = [p.cost(p.torch_ms) for p in theirs if p.torch_ms is not None]
                axes.plot([p.size for p in theirs], costs, "o-", markersize=4, color="C1", label="PyTorch eager")
            axes.axhline(1e15 / limit, color="gray", linestyle="--", linewidth=1, label="the device's limit")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.minorticks_off()
            plain_axes(axes)
            axes.set_title(f"{network}: {axis}", fontsize=10)
        row[0].set_ylabel("microseconds a GFLOP")
    grid[0][0].legend(fontsize=8)
    figure.suptitle(where, fontsize=8)
    figure.savefig(path)
    return None


def main(
    device: str = "webgpu",
    against: Annotated[str, typer.Option(help="a peer to measure beside: torch")] = "",
    out: Path = Path("runs/growth"),
    only: Annotated[list[str] | None, typer.Option(help=f"of {', '.join(SWEEPS)}")] = None,
    small: Annotated[bool, typer.Option("--small", help="tiny sizes: to try it, not to measure")] = False,
    where: Annotated[str, typer.Option(help="what stands above the picture, such as the machine and the day")] = "",
    drawn: Annotated[Path | None, typer.Option("--draw", help="only draw what an earlier run wrote")] = None,
    results: Folder = None,
) -> None:
    """Measure how steps grow, and draw it."""
    if against not in ("", "torch") or not {*(only or ())} <= SWEEPS.keys():
        raise typer.BadParameter(f"--against torch or nothing; --only of {', '.join(SWEEPS)}")
    if drawn is None:
        found = points(device, against, only or SWEEPS, small)
        keep(results, "growth", device, [measured(point, small) for point in found])
        told: dict[str, Any] = {
            "where": where or sg.devices.get_device(device).describe(),
            "limit": sg.devices.measure_limits(device).flops_per_second,
            "points": [asdict(p) for p in found],
        }
        out.mkdir(parents=True, exist_ok=True)
        drawn = out / "growth.json"
        drawn.write_text(json.dumps(told, indent=1) + "\n")
    told = json.loads(drawn.read_text())
    path = drawn.with_suffix(".png")
    reason = draw([Point(**p) for p in told["points"]], told["limit"], where or told["where"], path)
    typer.echo(reason or f"in {path}")


if __name__ == "__main__":
    typer.run(main)
