"""The profiler's time line of a step that exchanges gradients: stages, copies, exchanges, and what of them is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

import shadergrad as sg
from ranks import assert_ranks_pass

pytestmark = [
    pytest.mark.skipif(not sg.distributed.is_available(), reason="PyTorch is not installed"),
    pytest.mark.slow,
]

PROGRAM = """
import json, os, sys, time
import shadergrad as sg
nn, dist = sg.nn, sg.distributed
dist.init_process_group("gloo")
rank = dist.get_rank()
model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)])
ddp = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
def step(x):
    ddp.zero_grad()
    ddp(x).sum().backward()
x = sg.ones(8, 64)
for call in (step, sg.compile(step)):
    call(x)
    if rank:
        time.sleep(0.5)  # which the other one waits for
    with sg.profile(limits=False) as measured:
        call(x)
    table = str(measured)
    trace = json.loads(measured.export_chrome_trace(f"{FOLDER}/trace{rank}.json").read_text())["traceEvents"]
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    spans = {}
    for e in trace:
        assert e["ph"] == "M" or (e["ts"] >= 0 and e["dur"] >= 0), e
        if e["ph"] == "X" and (e["pid"], e["tid"]) in rows:
            spans.setdefault(rows[e["pid"], e["tid"]], []).append(e)
    exchanges = spans["exchanges"]
    assert len(exchanges) == 4, len(exchanges)
    assert sum(e["args"]["bytes"] for e in exchanges) == sum(p.numel() for p in model.parameters()) * 4
    by_name = {kind: {e["name"]: e for e in found} for kind, found in spans.items()}
    for name, e in by_name["exchanges"].items():
        read, wait, write = (by_name[k][name] for k in ("read from the device", "waiting for exchanges", "written back"))
        assert read["ts"] + read["dur"] <= e["ts"] + 1 and e["ts"] + e["dur"] <= write["ts"] + 1, name
        assert e["ts"] + e["dur"] <= wait["ts"] + wait["dur"] + 1, name
    stages = spans["stages"]
    kernels = [e for e in trace if e["ph"] == "X" and (e["pid"], e["tid"]) not in rows]
    for k in kernels:  # on the same time line
        assert any(s["ts"] - 1 <= k["ts"] <= s["ts"] + s["dur"] + 1 for s in stages), k
    assert 0 <= measured.hidden <= 1
    if not rank:
        assert measured.hidden < 0.5, measured.hidden  # of half a second
    assert f"4 exchanges of" in table and f"{measured.hidden:.0%} hidden" in table, table
with sg.profile(limits=False) as measured:
    (x + 1).numpy()
assert measured.hidden is None and "hidden" not in str(measured)
"""


def test_exchanges_are_on_the_time_line_of_kernels(tmp_path: Path) -> None:
    assert_ranks_pass(PROGRAM.replace("{FOLDER}", str(tmp_path)), 2)
