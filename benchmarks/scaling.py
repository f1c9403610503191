"""Scaling over GPUs: steps a second of 1 and N processes with the same batch each. Start it with torchrun, once for each number of GPUs.

    torchrun --standalone --nproc-per-node 2 benchmarks/scaling.py --model gpt2 --way ddp --out runs/scaling

ways: alone (no exchange: what one process does), ddp, ddp-fp16, diloco, and with PyTorch instead of this library torch-nccl, torch-gloo. Rank 0 prints a line of
JSON: steps a second of the slowest process. Weak scaling is N times the rate of
a way, over that of `alone` with one process.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

RESNET_CLASSES, VOCABULARY = 10, 50257


def block(nn: Any, inside: int, outside: int, stride: int) -> Any:
    """A residual block of ResNet-18."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.na = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)
            self.b, self.nb = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)
            same = stride == 1 and inside == outside
            self.short = (
                nn.Identity()
                if same
                else nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
            )

        def forward(self, x: Any) -> Any:
            return (self.nb(self.b(self.na(self.a(x)).relu())) + self.short(x)).relu()

    return Block()


def resnet18(nn: Any) -> Any:
    """ResNet-18 for small images."""
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inside = 64
    for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [block(nn, inside, outside, stride), block(nn, outside, outside, 1)]
        inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, RESNET_CLASSES))


def gpt(torch: Any, width: int, depth: int, vocabulary: int, length: int) -> Any:
    """A decoder of GPT-2's shape."""
    nn = torch.nn if hasattr(torch, "nn") else torch

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            layer = nn.TransformerEncoderLayer(
                width, max(1, width // 64), 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
            self.head = nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.token.weight

        def forward(self, x: Any) -> Any:
            size = x.shape[1]
            mask = torch.triu(torch.full((size, size), -1e9, device=x.device), 1)
            places = torch.arange(size, device=x.device)
            return self.head(self.layers(self.token(x) + self.place(places), mask=mask))

    return Gpt()


def work(torch: Any, name: str, batch: int, rank: int) -> tuple[Any, tuple[np.ndarray, np.ndarray]]:
    """A model and a batch."""
    rng = np.random.default_rng(rank)
    if name == "resnet18":
        return resnet18(torch.nn), (
            rng.standard_normal((batch, 3, 32, 32), np.float32),
            rng.integers(0, RESNET_CLASSES, batch),
        )
    width, depth, vocabulary, length = (768, 12, VOCABULARY, 512) if name == "gpt2" else (64, 2, 256, 32)
    tokens = rng.integers(0, vocabulary, (batch, length + 1))
    return gpt(torch, width, depth, vocabulary, length), (tokens[:, :-1], tokens[:, 1:])


def prepare(arguments: argparse.Namespace, rank: int, local: int) -> tuple[Any, Any, Any]:
    """The function that makes a step and gives the loss, the one that waits for it, and process groups."""
    theirs = arguments.way.startswith("torch")
    torch: Any = importlib.import_module("torch" if theirs else "shadergrad")
    torch.distributed.init_process_group("nccl" if arguments.way == "torch-nccl" else "gloo")
    device = arguments.device or (f"cuda:{local}" if theirs else f"webgpu:{local}")
    torch.manual_seed(0)
    model, arrays = work(torch, arguments.model, arguments.batch, rank)
    model = model.to(device)
    x, y = (torch.tensor(a, device=device) for a in arrays)
    run = model
    if arguments.way not in ("alone", "diloco"):
        run = torch.nn.parallel.DistributedDataParallel(model)
    if arguments.way == "ddp-fp16":
        run.register_comm_hook(None, torch.distributed.default_hooks.fp16_compress_hook)
    inner = torch.optim.AdamW(model.parameters(), lr=1e-4)
    outer = torch.optim.DiLoCo(inner, every=arguments.every) if arguments.way == "diloco" else None

    def step(x: Any, y: Any) -> Any:
        inner.zero_grad()
        out = run(x)
        loss = torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        loss.backward()
        inner.step()
        return loss

    compiled = step if theirs else torch.compile(step)

    def once() -> Any:
        loss = compiled(x, y)
        if outer is not None:
            outer.advance()
        return loss

    return once, lambda loss: float(loss.detach().cpu()), torch.distributed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gpt2", choices=["resnet18", "gpt2", "tiny"])
    parser.add_argument(
        "--way", default="ddp", choices=["alone", "ddp", "ddp-fp16", "diloco", "torch-nccl", "torch-gloo"]
    )
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--every", type=int, default=50, help="steps between DiLoCo's exchanges")
    parser.add_argument("--device", help="by default webgpu:LOCAL_RANK, or cuda:LOCAL_RANK")
    parser.add_argument("--out", type=Path, help="a folder for the line of JSON")
    arguments = parser.parse_args()
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    once, read, distributed = prepare(arguments, rank, local)
    first = last = 0.0
    for _ in range(3):
        first = read(once())
    distributed.barrier()
    begun = time.perf_counter()
    for _ in range(arguments.steps - 1):
        once()
    last = read(once())
    seconds = time.perf_counter() - begun
    found: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(found, seconds)
    if rank == 0:
        row = {
            "model": arguments.model,
            "way": arguments.way,
            "processes": len(found),
            "batch": arguments.batch,
            "steps_per_second": arguments.steps / max(found),
            "first_loss": first,
            "last_loss": last,
            "host": platform.node(),
            "date": time.strftime("%Y-%m-%d"),
        }
        print(json.dumps(row))
        if arguments.out is not None:
            arguments.out.mkdir(parents=True, exist_ok=True)
            name = f"{arguments.model}-{arguments.way}-{len(found)}.json"
            (arguments.out / name).write_text(json.dumps(row) + "\n", encoding="utf-8")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
