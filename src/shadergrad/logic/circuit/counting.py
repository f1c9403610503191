"""Vote counting as gates: a classifier, with its counts and its class, as one circuit.

In: a CircuitClassifier. Out: a circuit of the same inputs whose outputs are binary numbers, for runners that support only gates, such as
WebAssembly's. Full adders add bits of equal weight, three at a time; a comparison per class selects the largest count.
"""

from __future__ import annotations

import itertools
from collections import deque

from .circuit import Circuit
from .classifier import CircuitClassifier
from .gate_kinds import A_AND_NOT_B, AND, FALSE, NOT_A, NOT_A_AND_B, OR, XNOR, XOR


class _Gates:
    """The gates of a circuit, and further ones after them."""

    def __init__(self, circuit: Circuit) -> None:
        self.inputs = circuit.inputs
        self.gates = list(circuit.gates())

    def add(self, kind: int, a: int, b: int) -> int:
        """The wire of a new gate."""
        self.gates.append((kind, a, b))
        return self.inputs + len(self.gates) - 1

    def count(self, wires: list[int], planes: int) -> list[int]:
        """The number of ones among wires, as `planes` bits, the lowest first."""
        weights: list[deque[int]] = [deque(wires), *(deque() for _ in range(planes))]
        found = []
        for own, above in itertools.pairwise(weights):
            while len(own) > 1:
                x, y = own.popleft(), own.popleft()
                either = self.add(XOR, x, y)
                carry = self.add(AND, x, y)
                if own:
                    z = own.popleft()
                    carry = self.add(OR, carry, self.add(AND, either, z))
                    either = self.add(XOR, either, z)
                own.append(either)
                above.append(carry)
            found.append(own[0] if own else self.add(FALSE, 0, 0))
        return found

    def more(self, own: list[int], best: list[int]) -> int:
        """1 if the number `own` is above `best`."""
        found = self.add(A_AND_NOT_B, own[0], best[0])
        for x, y in zip(own[1:], best[1:], strict=True):
            found = self.add(OR, self.add(A_AND_NOT_B, x, y), self.add(AND, self.add(XNOR, x, y), found))
        return found

    def choose(self, switch: int, yes: int, no: int) -> int:
        """The wire `yes` where `switch` is 1, else `no`."""
        return self.add(OR, self.add(AND, switch, yes), self.add(NOT_A_AND_B, switch, no))


def counted(classifier: CircuitClassifier) -> Circuit:
    """The circuit whose outputs are the label, `digits` bits, then the votes of each class, `planes` bits a class, lowest bits first.

    digits: max(1, (classes - 1).bit_length()); planes: max(1, group.bit_length()). The label is the class with the most votes, the first of
    equals. Inputs are the classifier's bits, as `encode` gives them.

    >>> voters = sg.logic.circuit.Circuit(4, [], [0, 1, 2, 3])
    >>> sg.logic.circuit.counting.counted(sg.logic.circuit.CircuitClassifier(voters, 2)).evaluate([1, 0, 1, 1]).astype(int).tolist()
    [1, 1, 0, 0, 1]
    """
    circuit, group = classifier.circuit, classifier.group
    built = _Gates(circuit)
    wires, planes = circuit.outputs.tolist(), max(1, group.bit_length())
    digits = max(1, (classifier.classes - 1).bit_length())
    votes = [built.count(wires[c * group : (c + 1) * group], planes) for c in range(classifier.classes)]
    zero = built.add(FALSE, 0, 0)
    best, label = votes[0], [zero] * digits
    for c, own in enumerate(votes[1:], 1):
        more = built.more(own, best)
        best = [built.choose(more, x, y) for x, y in zip(own, best, strict=True)]
        less = built.add(NOT_A, more, more)
        label = [built.add(OR, more, d) if c >> k & 1 else built.add(AND, less, d) for k, d in enumerate(label)]
    return Circuit(circuit.inputs, built.gates, [*label, *(bit for own in votes for bit in own)])
