"""A step for another runner, such as a web page: its plan, and the values that it reads and changes, by role and name.

In: a capture compiled within WebGPU's default limits. Out: plain data. Values that come back are written into the tensors that hold
them. The guard is tests/device/test_portable_steps.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..drive import execute
from ..drive.tracing import Trace
from ..errors import CheckpointError, CompileError, DTypeError
from ..plan import FAULTS, BufferSpec, Label, Plan
from ..tensor import Tensor
from .replay import GradSlot, Replay

State = dict[tuple[str, str], np.ndarray]  # by role and name
Known = dict[int, Label]  # labels of values, by the identity of their memory

TRAINING_FLAG = "_training"  # set by train() and eval(); the kernels of the plan depend on it
FORMAT = 1  # version of the document for other runners
MOST_NAMES = 8  # listed in an error


class PortableStep:
    """The result of `CompiledStep.portable`.

    plan: for WebGPU's default limits. arguments: those of the example call, by name.
    """

    def __init__(
        self,
        replay: Replay,
        watch: Trace,
        tensors: list[Tensor],
        on_gpu: bool = True,
        operations: Sequence[Any] = (),
    ) -> None:
        """on_gpu: whether the runner is a page's GPU, which lacks some dtypes, and must repeat all effects of a call. operations: those to
        which the plan refers; they can be looked up while this object references them.
        """
        self._operations = tuple(operations)
        _refuse_python(replay, on_gpu)
        self.plan: Plan = replay.plan
        self._holders = list(replay.bind(tensors))
        self._draws = replay.draws
        self._optimizers = list(watch.optimizers.values())
        self._in_modules = {
            id(tensor)
            for module in watch.modules.values()
            for _, tensor in (*module.named_parameters(), *module.named_buffers())
        }
        for spec in self.plan.buffers if on_gpu else ():
            if spec.dtype.is_half and spec.role != "temporary":
                raise DTypeError(
                    f"[portable] {spec.role} {spec.name} is {spec.dtype.name}, which pages neither read nor write yet. Hint: .float(), and autocast."
                )
            if spec.dtype.wgsl is None:
                raise DTypeError(
                    f"[portable] {spec.role} {spec.name} is {spec.dtype.name}, which no GPU has. Hint: float32."
                )

    def to_json(self, state: str | None = None) -> str:
        """The document that other runners read: the plan, the texts of faults, the keys `role/name` of the weights, and the
        name of a file with the state.
        """
        weights = ["/".join(label) for label in self.weights]
        head = json.dumps({"format": FORMAT, "state": state, "weights": weights, "faults": FAULTS})
        return f'{head[:-1]}, "plan": {self.plan.to_json()}}}'

    @property
    def arguments(self) -> dict[str, np.ndarray]:
        """The values of the example's arguments, by name."""
        return {spec.name: value for spec, value in self._values() if spec.role == "argument"}

    @property
    def weights(self) -> list[Label]:
        """The part of the state that is parameters and buffers of modules, under their own names."""
        return [Label(s.role, s.name) for s, holder in self._inputs() if id(holder) in self._in_modules]

    @property
    def outputs(self) -> list[Label]:
        """The role and name of each output of the plan."""
        return [Label(self.plan.buffers[row].role, self.plan.buffers[row].name) for row in self.plan.outputs]

    def share(self, known: Known, name: str) -> None:
        """Give values that other steps share the same names as there. A value whose name is taken is renamed to `name.label`.
        known: the names in those steps; those of this step are added.
        """
        labels: list[Label] = []
        taken = set(known.values())
        for spec, holder in self._inputs():
            label = Label(spec.role, spec.name)
            if spec.role != "argument":
                execute.realize([holder._node])
                identity = id(holder._node.storage)
                if identity not in known and label in taken:
                    label = Label(spec.role, f"{name}.{spec.name}")
                label = known.setdefault(identity, label)
            labels.append(label)
        renamed = {Label(s.role, s.name): new for (s, _), new in zip(self._inputs(), labels, strict=True)}
        outputs = [self.plan.buffers[row] for row in self.plan.outputs]
        self.plan = self.plan.labelled(
            labels, [renamed.get(Label(s.role, s.name), Label(s.role, s.name)) for s in outputs]
        )

    def state(self) -> State:
        """The present values of all other inputs: parameters, state, counters and constants."""
        return {(spec.role, spec.name): value for spec, value in self._values() if spec.role != "argument"}

    def restore(self, state: State) -> None:
        """Give tensors, and learning rates of optimizers, the values in `state`, which come from here or from another runner.

        Raises CheckpointError, and changes nothing, if names, shapes or dtypes differ from those of the plan.
        """
        wanted = {(s.role, s.name): (s, h) for s, h in self._inputs() if s.role != "argument"}
        problems = _differences({label: spec for label, (spec, _) in wanted.items()}, state)
        if problems:
            raise CheckpointError("[restore] the state is not this step's: " + "; ".join(problems[:MOST_NAMES]) + ".")
        for label, (spec, holder) in wanted.items():
            tensor = holder.gradient if isinstance(holder, GradSlot) else holder
            if spec.role != "constant" or not np.array_equal(state[label], execute.download(tensor._node)):
                tensor.write_(state[label])
                self._tell_optimizers(tensor, state[label])
        for generator in self._draws.generators:
            generator.adopt()

    def _tell_optimizers(self, tensor: Tensor, value: np.ndarray) -> None:
        """Copy learning rates to the optimizers' groups, too."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group.adopt(tensor, value)

    def held(self, role: str = "") -> Iterator[tuple[int, str, np.ndarray]]:
        """Row, name and value of each input, in order. role: only inputs with this role."""
        self._draws.ready()
        for row, (spec, holder) in zip(self.plan.inputs, self._inputs(), strict=True):
            if role in ("", spec.role):
                yield row, spec.name, execute.download(holder._node)

    def _inputs(self) -> list[tuple[BufferSpec, Any]]:
        return [(self.plan.buffers[row], h) for row, h in zip(self.plan.inputs, self._holders, strict=True)]

    def _values(self) -> list[tuple[BufferSpec, np.ndarray]]:
        self._draws.ready()
        return [(spec, execute.download(holder._node)) for spec, holder in self._inputs()]


def _differences(wanted: Mapping[tuple[str, str], BufferSpec], given: State) -> list[str]:
    problems = [f"{' '.join(label)} is missing" for label in wanted if label not in given]
    problems += [f"{' '.join(label)} is not known" for label in given if label not in wanted]
    for label, spec in wanted.items():
        value = given.get(label)
        if value is not None and (value.shape != spec.shape or value.dtype != spec.dtype.numpy):
            problems.append(
                f"{' '.join(label)} is {value.dtype} {value.shape}, not {spec.dtype.name} {tuple(spec.shape)}"
            )
    return problems


def _refuse_python(replay: Replay, all_of_it: bool) -> None:
    """Refuse effects on Python objects, which another runner cannot repeat. all_of_it: also effects without tensors, such as a cache."""
    effects = (e for e in replay.python.effects if e.key != TRAINING_FLAG)
    left = [e.path for e in effects if all_of_it or e.holds_tensors]
    if left:
        where = ", ".join(left[:MOST_NAMES])
        raise CompileError(
            f"[portable] the step leaves something in Python at each call ({where}), which no other runner can do. "
            "Hint: return it, or keep it in a tensor that is changed in place."
        )
    if replay.changes_arguments:
        raise CompileError(
            "[portable] the step changes one of its arguments, which are the runner's. Hint: return the new value."
        )
