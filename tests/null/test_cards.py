"""Which GPU is whose: by what a launcher says, and by how many there are."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import shadergrad as sg
from shadergrad.as_torch import device_names
from shadergrad.distributed import cards
from shadergrad.runtime import device as devices


@dataclass
class Adapter:
    type: str


@pytest.mark.parametrize(
    ("adapters", "rank", "own", "count", "words"),
    [
        ("hh", 1, "webgpu:1", 2, "webgpu:0 to webgpu:1 for 2 processes"),
        ("hhhh", 1, "webgpu:1", 4, "webgpu:0 to webgpu:1 for 2 processes"),
        ("hs", 1, "webgpu:0", 2, "2 processes share 1 GPU"),
        ("s", 1, "webgpu:0", 2, "2 processes share 1 GPU"),
        ("", 0, "webgpu:0", 2, "2 processes share 1 GPU"),
    ],
)
def test_each_process_has_the_gpu_of_its_number_or_shares(
    monkeypatch: pytest.MonkeyPatch, adapters: str, rank: int, own: str, count: int, words: str
) -> None:
    found = [Adapter("hardware" if a == "h" else "software") for a in adapters]
    monkeypatch.setattr(cards, "adapters", lambda: found)
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert cards.own_card() == own
    assert len(cards.cards()) == count
    assert cards.sharing() == words
    assert cards.are_shared() == ("share" in words)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """`shadergrad run` as the second of two processes, on a machine of two GPUs."""
    monkeypatch.setattr(cards, "adapters", lambda: [Adapter("hardware")] * 2)
    for name, value in (("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2"), ("WORLD_SIZE", "2"), ("RANK", "1")):
        monkeypatch.setenv(name, value)
    for name in ("_stands", "_numbers"):
        monkeypatch.setattr(devices, name, {})
    monkeypatch.setattr(devices, "_only", [])
    monkeypatch.setattr(device_names, "get_device", lambda name: None)
    monkeypatch.setattr(device_names, "_given", [])
    device_names.give_device("webgpu", None)


@pytest.mark.usefixtures("two_gpus")
def test_cuda_is_the_card_of_the_process_under_each_of_its_names() -> None:
    assert device_names.given_device() == "webgpu:1"
    assert [str(sg.device(name)) for name in ("cuda", "cuda:0", "cuda:1")] == ["webgpu:1", "webgpu", "webgpu:1"]
    assert str(sg.device(1)) == "webgpu:1"  # type: ignore[arg-type]  # PyTorch's numbers are those of GPUs
    assert sg.cuda.device_count() == 2
    assert sg.cuda.current_device() == 1
    with sg.cuda.device(0):
        assert str(sg.device("cuda")) == "webgpu"
    assert str(sg.device("cuda")) == "webgpu:1"
    sg.cuda.set_device("cuda:0")
    assert sg.cuda.current_device() == 0
    for call in (lambda: sg.cuda.set_device(2), lambda: sg.ones(1, device="cuda:2"), lambda: sg.ones(1).to(2)):
        with pytest.raises(sg.DeviceError, match=r"cuda:2.*cuda:0, cuda:1"):
            call()


def test_numbers_are_no_devices_where_nothing_stands_for_cuda() -> None:
    with pytest.raises(sg.ShadergradError):
        sg.ones(1).to(0)  # type: ignore[arg-type]
    assert sg.cuda.device_count() == 0
