"""Runs random trainings under PyTorch and in modes of the library, and says where they part.

    python scripts/trainings.py --seeds 0:2000 --modes eager-cpu,compiled-cpu --jobs 2
    python scripts/trainings.py --seeds 17 --modes compiled-webgpu

Modes: eager-cpu, compiled-cpu (in float64), eager-webgpu, compiled-webgpu (in float32, with optimizers that forgive rounding).
Exit 1 where anything differs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from functools import partial
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests")]


def differences(seed: int, modes: list[str]) -> list[str]:
    """What differs of one training, a text for each mode."""
    from trainings.compare import difference  # only here: it lies beside the tests

    return [f"{mode}: {words}" for mode in modes if (words := difference(seed, mode))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:100", help="one, or first:end")
    parser.add_argument("--modes", default="eager-cpu,compiled-cpu")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    first, _, end = options.seeds.partition(":")
    seeds = range(int(first), int(end or int(first) + 1))
    found = 0
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=100) as pool:
        work = partial(differences, modes=options.modes.split(","))
        for words in pool.imap_unordered(work, seeds, chunksize=5):
            found += len(words)
            for text in words:
                print(text, flush=True)
    print(f"{found} of {len(seeds)} trainings in {options.modes} part from PyTorch's")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
