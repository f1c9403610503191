"""How processes find each other: arguments that cannot work are refused at once, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shadergrad as sg


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"backend": "nope"}, "Known: gloo, mpi"),
        ({"init_method": "http://x"}, "tcp://HOST:PORT or file:///PATH"),
        ({"init_method": "tcp://localhost", "rank": 0, "world_size": 2}, "lacks a host, or a port"),
        ({"init_method": "tcp://localhost:99999", "rank": 0, "world_size": 2}, "lacks a host, or a port"),
        ({"init_method": "tcp://localhost:1234"}, "they are -1 and -1"),
        ({"init_method": "tcp://localhost:1234", "rank": 2, "world_size": 2}, "0 <= rank < world_size"),
        ({"init_method": "tcp://localhost:1234", "rank": "0", "world_size": 2}, "whole numbers"),
        ({"init_method": "file://meet", "rank": 0, "world_size": 2}, "names no file"),
        ({"init_method": "file://", "rank": 0, "world_size": 2}, "names no file"),
        ({"init_method": "file:///no/such/folder/meet", "rank": 0, "world_size": 2}, "cannot be written"),
        ({"timeout": 0}, "must be positive"),
        ({"timeout": "soon"}, "a timedelta, or seconds"),
    ],
)
def test_arguments_that_cannot_work_are_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(sg.distributed.NoGroupError, match=word):
        sg.distributed.init_process_group(**options)
    assert not sg.distributed.is_initialized()


def test_a_folder_is_no_file_to_meet_at(tmp_path: Path) -> None:
    """PyTorch would try to open it until its time is over."""
    with pytest.raises(sg.distributed.NoGroupError, match="cannot be written"):
        sg.distributed.init_process_group("gloo", f"file://{tmp_path}", rank=0, world_size=2)


@pytest.mark.parametrize(
    "options", [{"num_replicas": 2.0, "rank": 0}, {"num_replicas": 0, "rank": 0}, {"num_replicas": 2, "rank": "0"}]
)
def test_a_sampler_counts_in_whole_numbers(options: dict[str, Any]) -> None:
    with pytest.raises(sg.data.DataError, match="whole numbers"):
        sg.utils.data.DistributedSampler(range(4), **options)
