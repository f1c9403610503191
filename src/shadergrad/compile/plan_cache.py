"""The plan cache on disk, shared by processes. In: a graph and a target. Out: its plan.

A file holds one plan, named by a digest of everything that determines it: the graph (primitives with all parameters, shapes,
dtypes, edges), the target (the compiler's complete description of a device), and the source of the compiler. Files belong to the
user alone and are replaced atomically (`system/private_files.py`), so concurrent writers, truncated files and other versions do no
harm. A plan that does not fit its graph is compiled again. Small graphs, graphs of the cpu device, and graphs with primitives defined
outside the library are not cached.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import astuple, replace
from functools import cache
from pathlib import Path
from typing import Any

from .. import symbolic_sizes
from ..config import config
from ..errors import CompileError, PlanError, ShadergradError
from ..explanation import Note
from ..graph import verify
from ..graph.capture import Graph
from ..graph.node import topological
from ..graph.primitive import Primitive, to_data
from ..plan import FORMAT, Plan
from ..system.private_files import PrivateFiles, make_room
from ..target import Target

MOST_BYTES = 256 << 20  # of all files; beyond it the least recently used are deleted
FEWEST_NODES = 64  # smaller graphs compile faster than a look-up takes
PACKAGE = Path(__file__).parents[1]
TEXTS = ("compile", "graph", "primitives", "plan.py", "dtypes.py", "explanation.py")  # on which plans depend


class CacheWarning(UserWarning):
    """The plan cache is not used, because other users may have written to it."""


class CacheError(ShadergradError, OSError):
    """A plan that cannot be cached."""


files = PrivateFiles(
    "the plan cache is not used: {} {}, and a plan is a program that the GPU runs.", CacheWarning, CacheError
)


def compiled(
    graph: Graph, target: Target, compile_graph: Callable[[Graph, Target], tuple[Plan, list[int]]]
) -> tuple[Plan, list[int]]:
    """The result of `compile_graph`, from disk if it is cached."""
    folder = _folder()
    name = None if folder is None else name_of(graph, target)
    if folder is None or name is None:
        return compile_graph(graph, target)
    path = folder / name
    found = _read(path)
    if found is None or not _fits(*found, graph, target):
        found = compile_graph(graph, target)
        with suppress(CacheError):  # a full or read-only disk only costs time
            _write(path, *found)
    return found


def _folder() -> Path | None:
    """The folder of the cache; None if caching is off, in debug and checked mode, and while sizes vary."""
    # while sizes vary, texts have placeholders that are valid in this process only
    if config.debug or verify.enabled or symbolic_sizes.follows:
        return None
    folder = config.cache_folder("plans")
    return None if folder is None else files.usable(folder)


def name_of(graph: Graph, target: Target) -> str | None:
    """The file name of a graph; None if it is not cached."""
    if target.language != "wgsl":
        return None
    ends = [*graph.outputs, *graph.keep]
    nodes = list({id(n): n for n in [*graph.inputs, *topological(ends, lambda n: n.inputs)]}.values())
    if len(nodes) < FEWEST_NODES:
        return None
    place = {id(n): k for k, n in enumerate(nodes)}
    written: dict[Primitive, Any] = {}
    rows = []
    for node in nodes:
        primitive = node.primitive
        if primitive not in written:
            if not type(primitive).__module__.startswith(f"{__name__.split('.')[0]}."):
                return None
            try:
                written[primitive] = len(written), to_data(primitive)
            except CompileError:  # a primitive that has no description
                return None
            if '"object"' in json.dumps(written[primitive][1]):  # a parameter that only this process knows
                return None
        rows.append((written[primitive][0], node.shape, node.dtype.name, [place[id(i)] for i in node.inputs]))
    places = [[place.get(id(n)) for n in group] for group in (graph.inputs, graph.outputs, graph.keep, graph.nodes)]
    # JSON tells 1 from 1.0 and True, and -0.0 from 0.0
    whole = [[data for _, data in written.values()], rows, places, sorted(graph.in_place.items()), astuple(target)]
    return hashlib.sha256(f"{source_digest()} {json.dumps(whole)}".encode()).hexdigest()


@cache
def source_digest() -> str:
    """A digest of the compiler's source code, because another version compiles to other plans."""
    digest = hashlib.sha256(str(FORMAT).encode())
    for part in TEXTS:
        path = PACKAGE / part
        for file in sorted([path] if path.is_file() else [*path.rglob("*.py"), *path.rglob("*.wgsl")]):
            digest.update(str(file.relative_to(PACKAGE)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _read(path: Path) -> tuple[Plan, list[int]] | None:
    """The plan in a file; None if the file is missing or incomplete."""
    packed = files.read(path)
    if packed is None:
        return None
    try:
        kept, notes, text = json.loads(zlib.decompress(packed))
        plan = replace(Plan.from_json(text), notes=tuple(map(Note.from_data, notes)))
        return plan, [int(k) for k in kept]
    except (zlib.error, PlanError, ValueError, TypeError, KeyError):
        return None


def _fits(plan: Plan, kept: list[int], graph: Graph, target: Target) -> bool:
    """Whether a plan has the inputs and outputs of the graph."""
    if plan.target != target or len(set(kept)) != len(kept) or not all(0 <= k < len(graph.keep) for k in kept):
        return False
    rows = [*plan.inputs, *plan.outputs]
    nodes = [*graph.inputs, *graph.outputs, *(graph.keep[k] for k in kept)]
    return len(rows) == len(nodes) and all(
        (plan.buffers[row].shape, plan.buffers[row].dtype) == (node.shape, node.dtype)
        for row, node in zip(rows, nodes, strict=True)
    )


def _write(path: Path, plan: Plan, kept: Iterable[int]) -> None:
    """Store a plan, and delete old ones beyond the limit. Raises CacheError if the disk refuses it."""
    notes = [note.to_data() for note in plan.notes]
    packed = zlib.compress(json.dumps([list(kept), notes, plan.to_json()]).encode(), 1)
    files.write(path, packed)
    make_room(path.parent, MOST_BYTES)
