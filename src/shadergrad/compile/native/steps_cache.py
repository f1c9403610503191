"""The steps of large plans on disk, shared by processes. In: a plan of the cpu device and a tile of registers. Out: its steps.

A file holds the steps of one plan, named by a digest of all that determines them: the plan, the tile, and the compiler's source. With it a process computes
natively from its first run on, and neither interprets a plan nor writes its kernels again. Machine code is cached separately (runtime/llvm.py). Only
the user may write the files. If a file is damaged, or names other primitives than the library's, the plan is compiled again.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from contextlib import suppress
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from ... import symbolic_sizes
from ...config import config
from ...dtypes import named_dtype
from ...errors import CompileError, ShadergradError
from ...graph import verify
from ...graph.primitive import REGISTRY, from_data, to_data
from ...plan import Kernel, Plan
from ...system.private_files import PrivateFiles, make_room
from ..plan_cache import source_digest
from .program import Row, Step, Steps
from .regions import Hosted
from .registers import Tile

MOST_BYTES = 128 << 20  # of all files; beyond it the least recently used are deleted
FEWEST_DISPATCHES = 256  # smaller plans compile faster than a look-up takes


class StepsCacheWarning(UserWarning):
    """The cache of steps is not used, because other users may have written to it."""


class StepsCacheError(ShadergradError, OSError):
    """Steps that cannot be cached."""


files = PrivateFiles(
    "the cache of steps is not used: {} {}, and steps are programs that the processor runs.",
    StepsCacheWarning,
    StepsCacheError,
)


def serves(plan: Plan) -> bool:
    """Whether a plan is large enough, and no debug or checked mode is on."""
    return len(plan.dispatches) >= FEWEST_DISPATCHES and not (config.debug or verify.enabled or symbolic_sizes.follows)


def path_of(plan: Plan, tile: Tile) -> Path | None:
    """The file of a plan's steps. None if they are not cached: if caching is off, the plan is not served, or it has primitives of other packages."""
    if not serves(plan):
        return None
    folder = config.cache_folder("steps")
    if folder is None or files.usable(folder) is None or not all(map(_is_of_library, plan.kernels)):
        return None
    text = json.dumps([_described(plan), astuple(tile)])
    return folder / hashlib.sha256(f"{source_digest()} {text}".encode()).hexdigest()


def _is_of_library(kernel: Kernel) -> bool:
    """Whether another process knows the primitive and all its parameters."""
    cls = REGISTRY.get(kernel.primitive)
    own = cls is not None and cls.__module__.startswith(f"{__name__.split('.')[0]}.")
    return own and '"object"' not in kernel.parameters


def _described(plan: Plan) -> Any:
    """Everything in a plan that its steps depend on."""
    return [
        [(spec.shape, spec.dtype.name, spec.aliases) for spec in plan.buffers],
        [(kernel.primitive, kernel.parameters) for kernel in plan.kernels],
        [(dispatch.kernel, dispatch.buffers) for dispatch in plan.dispatches],
        [plan.inputs, plan.outputs],
    ]


def read(path: Path) -> Steps | None:
    """The steps in a file; None if it is missing or damaged."""
    packed = files.read(path)
    if packed is None:
        return None
    try:
        return _steps(json.loads(zlib.decompress(packed)))
    except (zlib.error, ValueError, TypeError, KeyError, CompileError):
        return None


def write(path: Path, steps: Steps) -> None:
    """Store steps, and delete the least recently used beyond the limit. If the disk refuses the write, nothing is stored."""
    with suppress(StepsCacheError, CompileError):
        files.write(path, zlib.compress(json.dumps(_data(steps)).encode(), 1))
        make_room(path.parent, MOST_BYTES)


def _data(steps: Steps) -> dict[str, Any]:
    return {
        "rows": [(row.shape, row.dtype.name) for row in steps.rows],
        "steps": [{**vars(step), "hosted": _hosted_data(step.hosted)} for step in steps.steps],
        **{f.name: getattr(steps, f.name) for f in fields(Steps) if f.name not in ("rows", "steps")},
    }


def _hosted_data(hosted: Hosted | None) -> Any:
    if hosted is None:
        return None
    return to_data(hosted.of), [[to_data(view) for view in views] for views in hosted.views]


def _steps(data: dict[str, Any]) -> Steps:
    return Steps(
        rows=tuple(Row(tuple(shape), named_dtype(dtype)) for shape, dtype in data["rows"]),
        inputs=data["inputs"],
        outputs=tuple(data["outputs"]),
        texts=tuple(data["texts"]),
        steps=tuple(_step(step) for step in data["steps"]),
        dies=tuple(map(tuple, data["dies"])),
    )


def _step(data: dict[str, Any]) -> Step:
    lists = {name: tuple(data[name]) for name in ("reads", "writes", "buffers", "places", "own")}
    hosted = data["hosted"]
    if hosted is not None:
        of, views = hosted
        hosted = Hosted(from_data(of), tuple(tuple(map(from_data, of_operand)) for of_operand in views))
    return Step(**{**data, **lists, "hosted": hosted})
