"""The programs whose kernels are golden: every operator case with its gradients, and whole training steps.

They run on the cpu device while the graphs that would be compiled are noted; those are compiled for WGSL, no adapter
needed. Out: for each program, the text of its kernels and its dispatches.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import shadergrad as sg
import workloads
from cases import CASES, Case
from helpers import leaves_of, listed, results_of
from shadergrad import logic
from shadergrad.compile.pipeline import compile_graph
from shadergrad.drive import execute
from shadergrad.errors import ShadergradError
from shadergrad.graph.capture import Capture, Graph
from shadergrad.plan import Plan
from shadergrad.primitives.reduce import Reduce
from shadergrad.target import PORTABLE, ROWS, Target
from shadergrad.tensor import flush, generator, positions

TARGETS = {
    "portable": PORTABLE,
    "large": Target("wgsl", 16, 1024, 32768, 65535, 1 << 31, traits=ROWS["native"]),
    "checked": Target("wgsl", checked=True),
}


def text_of(plan: Plan) -> list[str]:
    """The kernels of a plan, and a line a dispatch."""
    lines = [
        f"kernel {d.kernel} on {d.buffers} grid {d.grid} offsets {d.offsets} in place "
        f"{[plan.buffers[b].aliases for b in d.buffers]} slots {[plan.buffers[b].slot for b in d.buffers]}"
        for d in plan.dispatches
    ]
    return [*(k.source for k in plan.kernels), *lines, f"slots {plan.slots}"]


@contextmanager
def graphs_compiled() -> Iterator[list[Graph]]:
    """Notes the graphs that are compiled meanwhile."""
    found: list[Graph] = []

    def note(graph: Graph, target: Target, *_: Any) -> Any:
        found.append(graph)
        return compile_graph(graph, target)

    flush(views=True)  # what other tests have left pending
    execute.programs.clear()
    planned = mock.patch.object(execute, "LONG", sys.maxsize)  # also what the cpu device needs no plan for
    with mock.patch.object(execute, "compile_graph", note), planned, mock.patch.dict(generator._generators, clear=True):
        yield found


def graph_of_case(case: Case) -> Graph:
    flush(views=True)  # so that no case is computed in the middle because of those before it
    leaves = leaves_of(case, case.arrays(), "cpu", "float32")
    with mock.patch.object(
        positions, "_known_values", return_value=None
    ):  # else the cpu device looks at once, and no kernel
        results = results_of(case, sg, leaves)
    return Capture([t._node for part in results.values() for t in listed(part)]).graph()


class _GraphsNoted(Exception):
    """A step's graph is known, and nobody wants its values."""


def graph_of_step(workload: Any) -> Graph:
    """The graph of a compiled training step, of which nothing is computed."""

    def stop(graph: Graph, *_: Any) -> Any:
        found.append(graph)
        raise _GraphsNoted

    step = step_of(workload)
    flush(views=True)
    with (
        graphs_compiled() as found,
        mock.patch.object(execute, "compile_graph", stop),
        contextlib.suppress(_GraphsNoted),
    ):
        step()
    return found[0]


def step_of(workload: Any) -> Callable[[], sg.Tensor]:
    """A compiled training step of a benchmark's workload."""
    sg.manual_seed(0)
    model = workload.model(sg)
    optimizer = getattr(sg.optim, workload.optimizer)(model.parameters(), lr=workload.lr)
    x, y = (sg.tensor(a) for a in workload.batch())

    @sg.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = workload.loss(sg, model, x, y)
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step(x, y)


def train(workload: Any) -> None:
    """One compiled step of a benchmark's workload."""
    step_of(workload)().item()


def train_automaton() -> None:
    """One compiled step of a small logic automaton, forward and backward through time."""
    model = logic.LogicCA(8, 2, (9, 8, 4, 2), (40, 32, 16, 8), border="periodic", seed=0)
    optimizer = sg.optim.AdamW(model.parameters(), lr=0.1)

    @sg.compile
    def step(board: Any) -> Any:
        optimizer.zero_grad()
        loss = (model.rollout(board, 3) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step(sg.ones(2, 6, 6, 8)).item()


def train_beside_codes() -> None:
    """One compiled step of a layer that learns between layers with weights of 8 and 4 bits."""
    layers = (sg.nn.Embedding(24, 64), sg.nn.Linear(64, 48), sg.nn.Linear(48, 64), sg.nn.Linear(64, 40, bias=False))
    embedding, first, learns, last = layers
    model = sg.nn.Sequential(
        sg.quantize(embedding, 8, 32),
        sg.quantize(first, 8, 32, symmetric=False),
        learns,
        sg.quantize(last, 4, 16, symmetric=False),
    )
    optimizer = sg.optim.SGD(learns.parameters(), lr=0.1)

    @sg.compile
    def step(tokens: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(tokens) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step(sg.zeros(2, 9, dtype=sg.int64)).item()


STEPS: dict[str, Callable[[], None]] = {
    f"step {name}": lambda make=make: train(make(small=True))
    for name, make in {
        "xor": workloads.xor,
        "logreg": workloads.logreg,
        "mlp": workloads.mlp,
        "cnn": workloads.cnn,
        "lstm": workloads.lstm,
        "transformer": workloads.transformer,
        "mlm": workloads.mlm,
        "gpt2s": workloads.gpt2s,
    }.items()
} | {"step automaton": train_automaton, "step codes": train_beside_codes}


def programs(only: str = "") -> Iterator[tuple[str, list[str]]]:
    """(name, text) of every program and target; only: of those whose names begin with these words."""
    for case in CASES:
        if not _begins(case.id, only):
            continue
        graph = graph_of_case(case)
        sums = case.length > 1 or any(isinstance(n.primitive, Reduce) for n in graph.nodes)
        yield from _for_targets(case.id, [graph], list(TARGETS)[: 2 if sums else 1])
    for name, run in STEPS.items():
        if not _begins(name, only):
            continue
        with graphs_compiled() as graphs:
            run()
        yield from _for_targets(name, graphs, TARGETS)


def _begins(name: str, words: str) -> bool:
    return not words or f"{name} ".startswith(f"{words} ")


def _for_targets(name: str, graphs: list[Graph], targets: Any) -> Iterator[tuple[str, list[str]]]:
    for target in targets:
        text: list[str] = []
        for graph in graphs:
            try:
                text += text_of(compile_graph(graph, TARGETS[target])[0])
            except ShadergradError as error:
                text.append(f"{type(error).__name__}: {error}")
        yield f"{name}, {target}", text
