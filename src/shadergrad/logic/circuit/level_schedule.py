"""A circuit as tables that a fixed program runs: levels of gates, sorted by kind.

In: a circuit. Out: runs of gates of one kind, and for each gate the slots of its operands and of its result. The gates of a level
read earlier levels only, so they may come in any order, and one loop without branches does all of a kind. A slot is used again in the
level after the last one that reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .circuit import Circuit
from .gate_kinds import FALSE, NOT_A, TRUE, A
from .structural_hashing import LogicGraph, graph_of

_Gate = tuple[int, int, int]  # kind, and the nodes that it reads


@dataclass(frozen=True)
class Schedule:
    """Tables of a circuit. runs (k, 2): kind and number of gates; gates (n, 3): slots a, b and of the result, run by run.

    inputs: the slot of each input, -1 for an unused one; outputs: the slot of each output.
    """

    slots: int
    inputs: np.ndarray
    outputs: np.ndarray
    runs: np.ndarray
    gates: np.ndarray


def levels_of(circuit: Circuit) -> tuple[list[dict[int, _Gate]], list[int]]:
    """The gates of each level by node, and the node of each output. Folds constants and wires, and shares equal gates.

    Nodes from 1 on are inputs. There are inverters and constants only for outputs that need one.
    """
    graph, literals = graph_of(circuit)
    live, outputs, extra = _live(graph, literals), [], {}
    for literal in literals:
        node = literal >> 1
        if node and not literal & 1:
            outputs.append(node)
            continue
        gate = (NOT_A, node, node) if node else (TRUE if literal else FALSE, 0, 0)
        outputs.append(extra.setdefault(gate, len(graph.kinds) + len(extra)))
    level = [0] * (len(graph.kinds) + len(extra))
    levels: list[dict[int, _Gate]] = []
    own = [(node, (graph.kinds[node], graph.a[node], graph.b[node])) for node in live if graph.is_gate(node)]
    for node, gate in [*own, *((node, gate) for gate, node in extra.items())]:
        level[node] = 1 + max(level[gate[1]], level[gate[2]])
        while len(levels) < level[node]:
            levels.append({})
        levels[level[node] - 1][node] = gate
    return levels, outputs


def _live(graph: LogicGraph, literals: list[int]) -> list[int]:
    """The nodes on which some output depends, in order: a gate's operands come before it."""
    found = [False] * len(graph.kinds)
    for literal in literals:
        found[literal >> 1] = True
    for node in range(len(found) - 1, graph.inputs, -1):
        if found[node]:
            found[graph.a[node]] = found[graph.b[node]] = True
    return [node for node, is_live in enumerate(found) if is_live and node]


def schedule(circuit: Circuit) -> Schedule:
    """The tables of a circuit."""
    levels, outputs = levels_of(circuit)
    last = _last_reads(levels, outputs)
    slot: dict[int, int] = {0: 0}  # the operand of constants, which they ignore
    inputs = np.full(circuit.inputs, -1, np.int32)
    for node in range(1, circuit.inputs + 1):
        if node in last:
            slot[node] = inputs[node - 1] = len(slot) - 1
    count = max(1, len(slot) - 1)
    free: list[int] = []
    dying: list[list[int]] = [[] for _ in range(len(levels) + 2)]
    for node in slot:
        if node:
            dying[min(last[node], len(levels) + 1)].append(node)
    runs, gates = [], []
    for number, level in enumerate(levels, 1):
        free += [slot[node] for node in dying[number - 1]]
        by_kind = sorted(level.items(), key=lambda item: (item[1][0], slot[item[1][1]]))
        for node, (kind, a, b) in by_kind:
            if not free:
                free.append(count)
                count += 1
            slot[node] = free.pop()
            dying[min(last[node], len(levels) + 1)].append(node)
            gates.append((slot[a], slot[b], slot[node]))
            if not runs or runs[-1][0] != kind or runs[-1][2] != number:
                runs.append([kind, 0, number])
            runs[-1][1] += 1
    return Schedule(
        count,
        inputs,
        np.array([slot[node] for node in outputs], np.uint32),
        np.array([run[:2] for run in runs], np.uint32).reshape(-1, 2),
        np.array(gates, np.uint32).reshape(-1, 3),
    )


def _last_reads(levels: list[dict[int, _Gate]], outputs: list[int]) -> dict[int, int]:
    """The last level that reads a node; outputs are read after all."""
    last: dict[int, int] = {}
    for number, level in enumerate(levels, 1):
        for kind, a, b in level.values():
            if kind not in (TRUE, FALSE):
                last[a] = last[b] = number
    last.update(dict.fromkeys(outputs, len(levels) + 1))
    return last


def layers_of(circuit: Circuit) -> list[np.ndarray]:
    """The circuit as layers that read the one before alone: arrays (3, n) of kind, a and b; the last gives the outputs.

    A gate A passes on each value that a later layer reads.
    """
    levels, outputs = levels_of(circuit)
    last = _last_reads(levels, outputs)
    place = {node: node - 1 for node in range(1, circuit.inputs + 1)}
    place[0] = 0
    layers = []
    for number, level in enumerate(levels, 1):
        kept = [node for node in place if node and last.get(node, 0) > number]
        rows = [(A, place[node], place[node]) for node in kept]
        rows += [(kind, place[a], place[b]) for kind, a, b in level.values()]
        layers.append(np.array(rows, np.int32).T)
        place = {0: 0} | {node: k for k, node in enumerate([*kept, *level])}
    layers.append(np.array([(A, place[node], place[node]) for node in outputs], np.int32).T)
    return layers
