"""An automaton as a page, which trains it, shows how it grows its picture, and hardens it to a circuit.

In: an experiment before its training. Out: a folder. The page knows the circuit's wires and which logits are a gate's, so
that it hardens the weights of any moment itself.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np

import shadergrad as sg
from shadergrad.logic.automata import LogicCA
from shadergrad.logic.circuit.export_statements import template
from shadergrad.logic.experiments import Training

from .draws import draws

BATCHES = 32  # that the page goes through again and again, where they differ
STEPS = 3000
BEGINS = {"lizard": "seed", "letter-g": "zeros"}  # the others: noise
TEXT = (
    "A cell sees its neighbours and decides by a network of logic gates alone. Nobody tells it the picture: watch the gates find "
    "the rule that grows it, then harden them to a circuit, damage its board, and watch it heal."
)


def automaton_page(name: str, training: Training, folder: Path) -> None:
    """Write the page of an experiment."""
    model, e = training.model, training.settings
    drawn = list(islice(draws(e, training.data_key, training.mask_key), BATCHES if e.fresh or e.fire_rate else 1))
    names = ("start", "target", "masks")[: len(drawn[0])]

    def train(start: sg.Tensor, target: sg.Tensor, masks: sg.Tensor | None = None) -> dict[str, sg.Tensor]:
        soft, hard = training.update(start, target, masks)
        return {"soft loss": soft, "hard loss": hard}

    def grown(hard: bool) -> sg.CompiledStep:
        def grow(state: sg.Tensor) -> sg.Tensor:
            with sg.no_grad():
                return model.rollout(state, 1, hard)

        return sg.compile(grow)

    first = sg.tensor(drawn[0][0][:1])
    gates, outputs = structure(model)
    height, width = e.grid
    sg.web.export(
        sg.compile(train),
        folder,
        *map(sg.tensor, drawn[0]),
        title=f"{name.replace('-', ' ').capitalize()}: an automaton of logic gates",
        text=TEXT,
        programs={"soft": (grown(False), first), "hard": (grown(True), first)},
        data={n: np.concatenate(parts) for n, parts in zip(names, zip(*drawn, strict=True), strict=True)}
        | {"first": first.numpy(), "picture": drawn[0][1][0], "gates": gates, "outputs": outputs},
        page="automaton",
        settings={
            "whole_batches": True,
            "steps": STEPS,
            "loss": "soft loss",
            "height": height,
            "width": width,
            "channels": model.channels,
            "shown": e.loss_channels,
            "steps_of_cell": e.ca_steps,
            "border": model.border,
            "fire_rate": 1.0 if model.fire_rate is None else model.fire_rate,
            "templates": {"c": template("step.c"), "v": template("grid.v")},
            "begins": BEGINS.get(name, "noise"),
            "logits": [n for n, _ in model.named_parameters()],
        },
    )


def structure(model: LogicCA) -> tuple[np.ndarray, np.ndarray]:
    """For every gate of the hardened cell the wires that it reads and its row among all logits (gates, 3); and the wires of
    the outputs."""
    circuit = model.harden().circuit
    starts = np.cumsum([0, *(p.numel() // 16 for p in model.parameters())])
    rows: list[int] = []
    perception = [layer.logits.shape[1] for layer in model.perception.layers]
    for _ in range(model.channels):
        for kernel in range(model.perception.kernels):
            for start, n_out in zip(starts, perception, strict=False):
                rows += range(start + kernel * n_out, start + (kernel + 1) * n_out)
    rows += range(starts[len(perception)], starts[-1])
    wires = [(a, b) for _, a, b in circuit.gates()]
    return np.column_stack([wires, rows]).astype(np.int32), np.asarray(circuit.outputs, np.int32)
