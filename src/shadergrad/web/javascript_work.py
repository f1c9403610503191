"""Counts the operations of a step, from which a page estimates its time on the CPU. In: a step node by node. Out: a count."""

from __future__ import annotations

import json
import math

from ..run.portable import PortableStep

OF_OPERATION = 6400  # an element of a user's operation: automata run many steps of a network of gates
VIEWS = frozenset({"Reshape", "Expand", "Permute", "Slice", "Flip", "Window", "Constant", "Iota"})


IN_WASM = 10  # times as many a millisecond, about: benchmarks/page_cpu.py


def work(step: PortableStep, in_wasm: bool = False) -> int:
    """The operation count: multiply-adds of matrix multiplications and convolutions, and elements of other operations, scaled to
    equal times in plain JavaScript.

    >>> import shadergrad as sg
    >>> work(sg.compile(lambda x: x @ x).node_by_node(sg.ones(10, 10)))
    1000
    """
    total = own = 0
    for d in step.plan.dispatches:
        kernel = step.plan.kernels[d.kernel]
        *read, out = (step.plan.buffers[row].shape for row in d.buffers)
        parameters = json.loads(kernel.parameters)
        match kernel.primitive:
            case name if name in VIEWS:
                continue
            case "Dot":
                total += math.prod(out) * read[0][2]
            case "Conv":
                total += math.prod(out) * math.prod(read[1][2:])
            case "Attention" | "AttentionGradient":
                q, k = read[:2] if kernel.primitive == "Attention" else read[2:4]
                total += math.prod(q) * k[2] * (2 if kernel.primitive == "Attention" else 5)
            case "OperationCall":
                own += OF_OPERATION * max(math.prod(shape) for shape in (*read, out))
            case "ArgSort":
                total += 10 * math.prod(out) * max(1, math.ceil(math.log2(out[parameters["axis"]] + 1)))
            case _:
                total += max(math.prod(shape) for shape in (*read, out))
    return (total // IN_WASM if in_wasm else total) + own
