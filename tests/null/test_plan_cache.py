"""Plans on disk: found again by another process, and harmless where they are torn, stale, or cannot be written."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shadergrad.compile import plan_cache
from shadergrad.compile.pipeline import compile_graph
from shadergrad.dtypes import float32
from shadergrad.graph.capture import Graph
from shadergrad.graph.leaves import Placeholder
from shadergrad.graph.node import Node
from shadergrad.plan import Plan
from shadergrad.system.private_files import DIGEST
from shadergrad.target import NUMPY, PORTABLE, Target

Count = Callable[[], int]


def long_graph(number: float = 0.5, size: int = 8, length: int = 40) -> Graph:
    """A chain of additions, of more nodes than a graph that is not kept."""
    x = Node(Placeholder(0, (size,), float32), (), (size,), float32, "webgpu")
    y = x
    for _ in range(length):
        y = (y + x) * number
    return Graph([x], [y], device="webgpu")


CALLS: list[Graph] = []  # what was compiled


def compiled(graph: Graph, target: Target) -> tuple[Plan, list[int]]:
    """The plan of a graph, as a process gets it."""

    def counted(graph: Graph, target: Target) -> tuple[Plan, list[int]]:
        CALLS.append(graph)
        return compile_graph(graph, target)

    return plan_cache.compiled(graph, target, counted)


@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Count:
    """How many graphs were compiled, with plans kept in tmp_path / "plans"."""
    CALLS.clear()
    monkeypatch.setattr(plan_cache, "config", replace(plan_cache.config, cache=str(tmp_path), debug=frozenset()))
    monkeypatch.setattr(plan_cache.verify, "enabled", False)
    return lambda: len(CALLS)


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "plans").iterdir())


def test_a_plan_is_compiled_once_and_found_again_equal(tmp_path: Path, compilations: Count) -> None:
    first = compiled(long_graph(), PORTABLE)
    assert compiled(long_graph(), PORTABLE) == first
    assert (compilations(), len(files(tmp_path))) == (1, 1)


def test_what_differs_in_anything_is_another_plan(tmp_path: Path, compilations: Count) -> None:
    graphs = [
        long_graph(),
        long_graph(0.25),
        long_graph(0.0),
        long_graph(-0.0),
        long_graph(size=9),
        long_graph(length=41),
    ]
    wide = long_graph()
    wide.outputs.append(-wide.outputs[0])
    donating = long_graph()
    donating.in_place[0] = 0
    for graph in [*graphs, wide, donating]:
        compiled(graph, PORTABLE)
    compiled(long_graph(), replace(PORTABLE, checked=True))
    assert compilations() == len(files(tmp_path)) == len(graphs) + 3


def test_another_version_of_the_compiler_compiles_anew(compilations: Count, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(long_graph(), PORTABLE)
    monkeypatch.setattr(plan_cache, "source_digest", lambda: "another")
    compiled(long_graph(), PORTABLE)
    assert compilations() == 2


def test_small_graphs_and_those_of_the_cpu_are_not_kept(tmp_path: Path, compilations: Count) -> None:
    compiled(long_graph(length=3), PORTABLE)
    compiled(long_graph(), NUMPY)
    assert compilations() == 2
    assert not (tmp_path / "plans").exists()


def written_by_another(data: bytes) -> bytes:
    """The same plan, behind the digest of other bytes."""
    return data[:DIGEST] + zlib.compress(zlib.decompress(data[DIGEST:]) + b" ")


@pytest.mark.parametrize(
    "spoil",
    [lambda data: data[:-7], lambda data: data[:40] + b"?" + data[41:], lambda data: b"", written_by_another],
)
def test_a_torn_file_is_compiled_and_written_anew(
    tmp_path: Path, compilations: Count, spoil: Callable[[bytes], bytes]
) -> None:
    first = compiled(long_graph(), PORTABLE)
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(spoil(whole))
    assert compiled(long_graph(), PORTABLE) == first
    assert path.read_bytes() == whole
    assert compilations() == 2


def disguised(change: Callable[[list[Any]], None]) -> Callable[[bytes], bytes]:
    """Another plan behind its own, right digest."""

    def spoil(data: bytes) -> bytes:
        kept, notes, text = json.loads(zlib.decompress(data[DIGEST:]))
        found = [kept, notes, json.loads(text)]
        change(found)
        packed = zlib.compress(json.dumps([found[0], found[1], json.dumps(found[2])]).encode())
        return hashlib.sha256(packed).digest() + packed

    return spoil


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found[0].append(7),
        lambda found: found[2]["inputs"].append(0),
        lambda found: found[2]["outputs"].clear(),
        lambda found: found[2]["buffers"][found[2]["inputs"][0]].update(shape=[9]),
        lambda found: found[2]["buffers"][found[2]["outputs"][0]].update(dtype="int32"),
        lambda found: found[2]["dispatches"][0]["buffers"].append(99),
        lambda found: found[2]["target"].update(subgroups=True),
    ],
)
def test_a_plan_that_does_not_fit_its_graph_is_compiled_anew(
    tmp_path: Path, compilations: Count, change: Callable[[list[Any]], None]
) -> None:
    first = compiled(long_graph(), PORTABLE)
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(disguised(lambda found: None)(whole))
    assert compiled(long_graph(), PORTABLE) == first
    assert compilations() == 1
    path.write_bytes(disguised(change)(whole))
    assert compiled(long_graph(), PORTABLE) == first
    assert path.read_bytes() == whole
    assert compilations() == 2


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has no such bits")
@pytest.mark.parametrize("what", ["folder", "file"])
@pytest.mark.parametrize("how", ["group", "all", "owner"])
def test_what_others_may_have_written_is_left_alone_with_one_warning(
    tmp_path: Path, compilations: Count, monkeypatch: pytest.MonkeyPatch, what: str, how: str
) -> None:
    monkeypatch.setattr(plan_cache.files, "warned", [])
    before = os.umask(0)
    try:
        first = compiled(long_graph(), PORTABLE)
    finally:
        os.umask(before)
    (path,) = files(tmp_path)
    assert [p.stat().st_mode & 0o777 for p in (path.parent, path)] == [0o700, 0o600]
    changed = path if what == "file" else path.parent
    if how == "owner":
        if os.getuid() != 0:
            monkeypatch.setattr(os, "getuid", lambda: changed.stat().st_uid + 1)
        else:
            os.chown(changed, 12345, -1)
    else:
        changed.chmod(0o720 if how == "group" else 0o702)
    words = "belongs to user" if how == "owner" else "may be written by others"
    with pytest.warns(plan_cache.CacheWarning, match=f"{words}.*Hint"):
        assert compiled(long_graph(), PORTABLE) == first
    assert compilations() == 2
    compiled(long_graph(size=9), PORTABLE)  # without a word
    if what == "folder":
        assert files(tmp_path) == [path]  # nothing was written there


def test_a_link_in_place_of_a_plan_is_not_followed(tmp_path: Path, compilations: Count) -> None:
    compiled(long_graph(), PORTABLE)
    (path,) = files(tmp_path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    compiled(long_graph(), PORTABLE)
    assert compilations() == 2
    assert not path.is_symlink()


def test_a_disk_that_takes_nothing_costs_only_time(tmp_path: Path, compilations: Count) -> None:
    (tmp_path / "plans").write_text("a file where the folder should be")
    for _ in range(2):
        plan, _ = compiled(long_graph(), PORTABLE)
        assert plan.dispatches
    assert compilations() == 2


def test_those_used_longest_ago_make_room(tmp_path: Path, compilations: Count, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(3):
        compiled(long_graph(size=8 + k), PORTABLE)
        for path in files(tmp_path):
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 10))
    compiled(long_graph(size=8), PORTABLE)  # used again: the one of size 9 is the oldest
    monkeypatch.setattr(plan_cache, "MOST_BYTES", sum(p.stat().st_size for p in files(tmp_path)) + 10)
    compiled(long_graph(size=20), PORTABLE)
    before = compilations()
    compiled(long_graph(size=8), PORTABLE)
    assert compilations() == before
    compiled(long_graph(size=9), PORTABLE)
    assert compilations() == before + 1
