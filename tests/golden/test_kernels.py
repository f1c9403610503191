"""Everything that the compiler writes is as it was, unless someone says otherwise, and another implementation of WebGPU reads it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from dawn_front_end import FrontEnd
from golden_programs import TARGETS, graph_of_step, programs
from shadergrad.compile.pipeline import compile_graph
from shadergrad.compile.tuning import digest_for
from shadergrad.target import ROWS, Target
from shadergrad.web import plans
from workloads import WORKLOADS

GOLDEN = Path(__file__).with_name("kernels.json")
HINT = (
    "\n`python scripts/golden.py --diff` shows what became of the kernels since the last commit; "
    "`python scripts/golden.py --write` takes them as golden."
)


def test_the_compiler_writes_the_golden_kernels():
    front_end, refused, found = FrontEnd(), [], {}
    for name, text in programs():
        found[name] = hashlib.sha256("\n".join(text).encode()).hexdigest()[:16]
        refused += front_end.refused(text)
    golden = json.loads(GOLDEN.read_text())
    missing = sorted(golden.keys() - found.keys())
    new = sorted(found.keys() - golden.keys())
    changed = sorted(n for n in found.keys() & golden.keys() if found[n] != golden[n])
    assert not changed, f"{len(changed)} programs compile to other kernels: {changed[:5]}.{HINT}"
    assert not new, f"{len(new)} programs are new: {new[:5]}.{HINT}"
    assert not missing, f"{len(missing)} programs are gone: {missing[:5]}.{HINT}"
    assert not refused, f"Dawn refuses {len(refused)} kernels, the first with: {refused[0]}"


SERVER = Target("wgsl", 64, 1024, 49152, 65535, 1 << 31, traits=ROWS["discrete"], f16=True, subgroups=(32, 32))


@pytest.mark.parametrize("target", ["portable", "server", "desktop"])
@pytest.mark.parametrize("task", ["mlp", "mlm", "lstm", pytest.param("gpt2s", marks=pytest.mark.slow)])
def test_dawn_takes_the_kernels_of_steps_in_full_size(task: str, target: str):
    server = replace(SERVER, measured=digest_for("", "", SERVER.traits.table))
    measured = {"server": server, **plans.chosen(plans.TARGETS), **TARGETS}
    plan = compile_graph(graph_of_step(WORKLOADS[task](False)), measured[target])[0]
    refused = FrontEnd().refused(k.source for k in plan.kernels)
    assert not refused, f"Dawn refuses {len(refused)} kernels, the first with: {refused[0]}"
