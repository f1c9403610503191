"""What memory or the number of passes bounds: rows, transposes, sorting, scattered sums, beside PyTorch. Device time, float32.

    python benchmarks/memory.py --against torch
    python benchmarks/memory.py --only softmax --share 64

Measured as in products.py. GB/s counts what must be read and written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np
import typer

import shadergrad as sg
from products import ours, theirs
from record import Folder, Measured, keep

Case = tuple[str, int, list[np.ndarray], Callable[..., Any], Callable[..., Any]]  # name, bytes, arrays, ours, torch's


def cases(share: int) -> Iterator[Case]:
    """The shapes, their first axis `share` times shorter."""
    rng = np.random.default_rng(0)
    rows, width = 65536 // share, 1024
    x, g = (rng.standard_normal((rows, width), dtype=np.float32) for _ in range(2))
    weight, bias = (rng.standard_normal(width, dtype=np.float32) for _ in range(2))
    nbytes = x.nbytes
    name = f"{rows}x{width}"

    def softmax(x: Any) -> Any:
        return x.softmax(-1)

    def row_sums(x: Any) -> Any:
        return x.sum(-1)

    def column_sums(x: Any) -> Any:
        return x.sum(0)

    yield f"softmax {name}", 2 * nbytes, [x], softmax, softmax
    yield f"row sums {name}", nbytes, [x], row_sums, row_sums
    yield f"column sums {name}", nbytes, [x], column_sums, column_sums

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return library(x).nn.functional.layer_norm(x, (width,), weight, bias)

    def layer_norm_gradients(x: Any, weight: Any, bias: Any, g: Any) -> Any:
        lib = library(x)
        leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
        y = lib.nn.functional.layer_norm(leaves[0], (width,), *leaves[1:])
        return lib.autograd.grad(y, leaves, g)[0]

    yield f"layer norm {name}", 2 * nbytes, [x, weight, bias], layer_norm, layer_norm
    yield f"layer norm gradients {name}", 3 * nbytes, [x, weight, bias, g], layer_norm_gradients, layer_norm_gradients
    side = 8192 // max(1, int(share**0.5))
    square = rng.standard_normal((side, side), dtype=np.float32)

    def transpose(x: Any) -> Any:
        return x.T.contiguous()

    def add_transposed(x: Any) -> Any:
        return x + x.T

    yield f"transpose {side}x{side}", 2 * square.nbytes, [square], transpose, transpose
    yield f"x + transpose {side}x{side}", 2 * square.nbytes, [square], add_transposed, add_transposed
    n = (1 << 20) // share
    keys = rng.standard_normal(n, dtype=np.float32)

    def sort(x: Any) -> Any:
        return x.sort().values

    yield f"sort {n}", 2 * keys.nbytes, [keys], sort, sort
    count = 1_000_000 // share
    source = rng.standard_normal((count, 64), dtype=np.float32)
    places = rng.integers(0, count // 10, count, dtype=np.int32)

    def scatter(source: Any, places: Any) -> Any:
        lib = library(source)
        positions = places.long() if lib is not sg else places
        return lib.zeros(count // 10, 64, device=source.device).index_add(0, positions, source)

    yield f"scattered sum {count}x64", source.nbytes, [source, places], scatter, scatter


def library(x: Any) -> Any:
    """The library that a tensor is of."""
    if isinstance(x, sg.Tensor):
        return sg
    import torch

    return torch


def main(
    device: str = "webgpu",
    against: Annotated[str, typer.Option(help="a peer to measure beside: torch")] = "",
    only: Annotated[str, typer.Option(help="names that contain this")] = "",
    share: Annotated[int, typer.Option(help="this many times smaller, to try it")] = 1,
    results: Folder = None,
) -> None:
    """A line a case: microseconds, GB/s, and the peer's with the ratio of speeds and the largest difference."""
    for name, nbytes, arrays, call, peer in cases(share):
        if only not in name:
            continue
        found, result, dispatches = ours([sg.tensor(a, device=device) for a in arrays], call, device)
        peers: dict[str, float] = {}
        line = f"{name:36s} {found * 1e6:9.1f} us {nbytes / found / 1e9:6.0f} GB/s in {dispatches}"
        if against:
            other, expected = theirs(arrays, peer)
            peers["PyTorch eager"] = other * 1e6
            error = np.abs(result - expected).max() / np.abs(expected).max()
            line += f"   torch {other * 1e6:9.1f} us {nbytes / other / 1e9:6.0f}   ours {other / found:5.2f} times as fast, {error:.0e} apart"
        print(line, flush=True)
        keep(results, "memory", device, [Measured(name, "device time", found * 1e6, "us", peers)])


if __name__ == "__main__":
    typer.run(main)
