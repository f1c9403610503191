"""Runs random programs under PyTorch and in every mode of the library, and says where they differ.

    python scripts/programs.py --seeds 0:2000                                   what `make test` allows, on cpu
    python scripts/programs.py --seeds 0:500 --features all --shrink            everything, the smallest programs shown
    python scripts/programs.py --seeds 17 --features all --modes compiled-cpu --show   one program, whole
    python scripts/programs.py --by-feature --seeds 0:30                        a line a feature: how many programs pass
    python scripts/programs.py --cases                                          the programs written by hand

Modes: eager-cpu, compiled-cpu, module-cpu (steps as forward passes of compiled modules), torch-cpu (PyTorch itself, on its device
"webgpu"), the same with -webgpu. Exit 1 where
anything differs.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests")]

if __name__ == "__main__":
    from programs.command import main  # only here: it lies beside the tests, and a worker process needs the path alone

    sys.exit(main(str(__doc__)))
