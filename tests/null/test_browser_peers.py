"""The page beside other libraries (`benchmarks/browser_peers.py`): same weights for all, and whose losses differ is no peer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import browser_peers
import results
from record import Machine, Record, RecordError
from shadergrad.system.safe_tensors import load_file
from workloads import WORKLOADS

PAGE_LOSSES = [2.5, 2.4, 2.3, 2.2]
TOLD: dict[str, dict[str, Any]] = {
    "page": {"version": "plan portable", "losses": PAGE_LOSSES, "ways": {"page": [2.0, 1.0, 3.0]}, "host": {}},
    "borch": {
        "version": "0.6.1",
        "losses": [2.5, 2.4, 2.3, 2.2001],
        "ways": {"borch": [8.0, 6.0, 7.0], "borch, each step anew": [20.0]},
        "host": {},
    },
    "jax-js": {"version": "1", "losses": [2.5, 2.4, 2.3, 2.21], "ways": {"jax-js": [1.0]}, "host": {}},
    "Python in the page": {
        "version": "0.1.0",
        "losses": PAGE_LOSSES,
        "ways": {"Python in the page": [2.5]},
        "host": {"Python in the page": 0.125},
    },
}


def told(library: str, *_: object) -> dict[str, Any]:
    if library not in TOLD:
        raise RuntimeError("no adapter")
    return TOLD[library]


def test_a_record_has_each_library_whose_losses_are_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_peers, "in_node", told)
    monkeypatch.setattr(browser_peers, "exported", lambda *_: None)
    asked = [*TOLD, "TF.js"]
    table, (time, host), wrong = browser_peers.measured("mlp", True, asked, Path(), 3, 1.0, 1.0)
    assert time.case == "mlp, small"
    assert (time.value, time.unit) == (2.0, "ms")  # the median
    assert time.peers == {"borch": 7.0, "borch, each step anew": 20.0, "Python in the page": 2.5}
    assert (host.quantity, host.value, host.peers) == ("host time", 0.125, {})
    assert "borch 0.6.1" in time.how
    assert [line.partition(":")[0] for line in wrong] == ["jax-js of mlp", "TF.js of mlp failed"]
    assert table.row_count == 4


def test_a_library_without_the_layers_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_peers, "in_node", told)
    monkeypatch.setattr(browser_peers, "exported", lambda *_: None)
    assert browser_peers.measured("mlm", True, ["page", "TF.js"], Path(), 1, 1.0, 1.0)[2] == []


def test_no_page_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_peers, "in_node", told)
    monkeypatch.setattr(browser_peers, "exported", lambda *_: None)
    _, found, wrong = browser_peers.measured("mlp", True, ["TF.js"], Path(), 1, 1.0, 1.0)
    assert found == []
    assert wrong == ["TF.js of mlp failed: no adapter"]


def test_all_libraries_get_the_pages_weights_and_batch(tmp_path: Path) -> None:
    workload = replace(WORKLOADS["mlm"](True), optimizer="Adam")
    browser_peers.exported(workload, tmp_path, True)
    weights, state = (load_file(tmp_path / f"{name}.safetensors") for name in ("weights", "state"))
    of_page = {name.partition("/")[2]: value for name, value in state.items() if name.startswith("parameter/")}
    assert weights.keys() == of_page.keys()
    for name, value in weights.items():
        np.testing.assert_array_equal(of_page[name], value)
    batch = load_file(tmp_path / "batch.safetensors")
    for name, value in zip("xy", workload.batch(), strict=True):
        np.testing.assert_array_equal(batch[name], value)
    about = json.loads((tmp_path / "about.json").read_text())
    assert about == {"heads": 2, "classes": 25, "lr": 1e-3, "small": True}


def test_the_table_is_of_the_gpu_and_of_no_small_size() -> None:
    gpu, software = (Machine("a processor, 2 cores", f"{name} in Node, Dawn") for name in ("a GPU", "SwiftShader"))
    first = Record("browser_peers", "cnn", "time", 1.0, "ms", gpu, "2026-11-30", {"borch": 4.0}, {}, "abc")
    others = [
        replace(first, case="mlp", value=0.25, peers={"borch": 2.0, "TF.js": 50.0}),
        replace(first, case="mlp, small", value=9.0),
        replace(first, quantity="host time", value=8.0),
        replace(first, machine=software, value=7.0),
    ]
    lines = results.browser_peers([first, *others]).splitlines()
    assert [line.split(" | ")[1:] for line in lines if line.startswith(("| MLP", "| CNN"))] == [
        ["0.25 ms", "2.00 ms (8.00)", "50.0 ms (200) |"],
        ["1.00 ms", "4.00 ms (4.00)", "|"],
    ]
    assert not any(f"{other}.00 ms" in line for line in lines for other in (7, 8, 9))
    with pytest.raises(RecordError, match="no record"):
        results.browser_peers([others[1]])
