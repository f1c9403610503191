"""A program of examples/ that trains as long as another process asks: benchmarks/uncompiled_programs.py starts it, under PyTorch or under `shadergrad run`.

python benchmarks/one_program.py vae cpu 2                  # then a number of steps in each line of the input; prints their seconds

The second figure of a line counts the seconds that processors spent on them.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
import time
from pathlib import Path

import torch

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def main(name: str, device: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    torch.manual_seed(0)
    model = program.build(device)
    losses = program.training(model, device)
    for line in sys.stdin:
        begin, used = time.perf_counter(), time.process_time()
        *_, loss = itertools.islice(losses, int(line))
        *_, last = model.parameters()
        values = [t.detach().reshape(-1)[0].item() for t in (loss, last)]  # so that the last update is done, too
        print(time.perf_counter() - begin, time.process_time() - used, *values, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4])
