"""When several processes pay: writes the table of docs/distributed.md from its formula. `--check` only compares.

A step computes for c seconds. What travels takes t = 2 (N - 1) / N * B / W + 2 (N - 1) * L + 2 F / C seconds: B bytes around a ring of N processes at W bytes a second
and L seconds for each message, and F bytes, those of float32, to the host and back at C bytes a second. DiLoCo's int8 is gathered, for each process has a scale of its own:
(N - 1) * B / W + (N - 1) * L + 2 F / C. DistributedDataParallel hides what fits behind the backward
pass, two thirds of c: a step takes c + max(0, t - 2/3 c). DiLoCo exchanges every H steps: c + t / H.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "distributed.md"
BEGIN, END = "<!-- written by scripts/distributed_table.py -->\n", "<!-- end -->\n"
HIDDEN = 2 / 3  # of a step: the backward pass
COPY = 20e9  # bytes a second between a GPU and its host
FLOAT32, INT8 = 4, 1  # bytes
FLOPS = 20e12  # a second, of the GPU that computes


@dataclass(frozen=True)
class Network:
    name: str
    bandwidth: float  # bytes a second
    latency: float  # seconds


@dataclass(frozen=True)
class Model:
    name: str
    parameters: float
    flops: float  # of a step of one process


NETWORKS = (
    Network("PCIe, one machine", 12e9, 5e-6),
    Network("10 Gbit/s Ethernet", 1.25e9, 50e-6),
    Network("1 Gbit/s Ethernet", 0.125e9, 100e-6),
    Network("20 Mbit/s at home", 2.5e6, 50e-3),
)
MODELS = (
    Model("ResNet-18, 128 images", 11.7e6, 3 * 2 * 1.8e9 * 128),
    Model("GPT-2 small, 8 x 512 tokens", 124e6, 6 * 124e6 * 8 * 512),
)
# a way to exchange: its name, bytes a parameter, steps between exchanges
WAYS = (("DDP", 4, 1), ("DDP, float16", 2, 1), ("DiLoCo, H = 50, float16", 2, 50), ("DiLoCo, H = 500, int8", 1, 500))
PROCESSES = 8
VOLUNTEERS = (10, 100, 1000, 10_000)  # at home, each with a GPU
SELDOM = (500, 5000, 50_000)  # steps between their exchanges


def traffic(count: int, numbers: float, width: int, network: Network) -> float:
    """Seconds for the mean of so many numbers over `count` processes. width: bytes of each, as it travels."""
    size, others = width * numbers, count - 1
    copies = 2 * FLOAT32 * numbers / COPY
    if width == INT8:
        return others * size / network.bandwidth + others * network.latency + copies
    return 2 * others / count * size / network.bandwidth + 2 * others * network.latency + copies


def share(model: Model, network: Network, width: int, every: int, count: int = PROCESSES) -> float:
    """The throughput of each process, as a share of that of one alone."""
    compute = model.flops / FLOPS
    time = traffic(count, model.parameters, width, network)
    extra = max(0.0, time - HIDDEN * compute) if every == 1 else time / every
    return compute / (compute + extra)


def table() -> str:
    """The table in Markdown."""
    lines = []
    for model in MODELS:
        lines += [
            "",
            f"**{model.name}**: {model.parameters / 1e6:.0f} million parameters, {1e3 * model.flops / FLOPS:.0f} ms a step.",
            "",
        ]
        lines.append("| network | " + " | ".join(name for name, *_ in WAYS) + " |")
        lines.append("|---" * (len(WAYS) + 1) + "|")
        for network in NETWORKS:
            cells = [f"{100 * share(model, network, width, every):.0f} %" for _, width, every in WAYS]
            lines.append(f"| {network.name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines[1:], "", *volunteers(), ""])


def volunteers() -> list[str]:
    """The lines of the table of how many times the throughput of one process volunteers reach, by DiLoCo with float16."""
    network = NETWORKS[-1]
    model = MODELS[0]
    lines = [
        f"**Volunteers on paper**: {model.name.partition(',')[0]} by DiLoCo with float16 over {network.name}, in times the throughput of one process.",
        "",
        "| processes | " + " | ".join(f"H = {every:,}" for every in SELDOM) + " |",
        "|---" * (len(SELDOM) + 1) + "|",
    ]
    for count in VOLUNTEERS:
        cells = [f"{count * share(model, network, 2, every, count):,.0f}" for every in SELDOM]
        lines.append(f"| {count:,} | " + " | ".join(cells) + " |")
    return lines


def page(text: str) -> str:
    """The page with the table in its place."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true")
    text = PAGE.read_text(encoding="utf-8")
    if arguments.parse_args().check:
        return 0 if page(text) == text else 1
    PAGE.write_text(page(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
