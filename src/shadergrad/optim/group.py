"""Parameter groups, and their hyperparameters as update rules read them.

The learning rate is on the device, so that changing it compiles nothing; so is momentum once a schedule cycles it.
Other numbers are constants of a compiled step, and changing one compiles the step again. A hyperparameter that is a tensor
is read on its device: changing it in place compiles nothing either.
"""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..drive import execute, tracing
from ..drive.tracing import current, unwatched
from ..errors import CompileError
from ..tensor import Tensor
from .state import outside, scalar_dtype

LOG_OF_ZERO = -1e4  # a finite number whose exp is 0


class Decay(NamedTuple):
    """A decay rate b as update rules use it: b, 1 - b, log b. Numbers, or 0-d tensors where b is on the device."""

    value: Any
    rest: Any
    log: Any

    @classmethod
    def of(cls, rate: Any) -> Decay:
        if isinstance(rate, Tensor):
            return cls(rate, 1.0 - rate, rate.log().clamp(min=LOG_OF_ZERO))
        return cls(rate, 1.0 - rate, max(math.log(rate), LOG_OF_ZERO) if rate > 0.0 else LOG_OF_ZERO)

    def bias_correction(self, step: Tensor) -> Tensor:
        """1 - b ** step, without the cancellation that float32 would suffer at the first steps."""
        return -(step * self.log).expm1()


class Carried:
    """The value of a tensor on another device, which every run of a step copies again."""

    def __init__(self, source: Tensor, device: str, like: Tensor) -> None:
        self.source = source
        [self.held] = outside(lambda: [Tensor(self._value(), dtype=scalar_dtype(like), device=device)])

    def _value(self) -> np.ndarray:
        node = self.source._node
        if node.storage is None and current.trace is not None:
            current.trace.on_read("a hyperparameter on another device that the step changes")
        return execute.download(node).reshape(())

    def ready(self) -> None:
        """Copy the present value. Called before each run."""
        with unwatched():
            value = self._value().astype(self.held.dtype.numpy)
            if not np.array_equal(value, execute.download(self.held._node)):
                self.held.write_(value)


class ParamGroup(dict):
    """Parameters with their hyperparameters, a dict. Setting `lr` writes it to the device and compiles nothing.

    constants: the keys that update rules read as numbers; setting one increments `version`, and compiled steps are recompiled.
    Setting anything inside a compiled step raises CompileError.

    >>> optimizer = sg.optim.SGD([sg.zeros(2)], lr=0.5, momentum=0.75)
    >>> group = optimizer.param_groups[0]
    >>> group["lr"] = 0.25
    >>> group["lr"], group["momentum"]
    (0.25, 0.75)
    """

    def __init__(self, items: dict[str, Any], constants: Iterable[str] = (), owner: Any = None) -> None:
        super().__init__(items)
        self.version = 0
        self._constants = {"params", *constants} - {"lr"}
        self._owner = None if owner is None else weakref.ref(owner)
        self._rates: dict[str, Tensor] = {}
        self._decays: dict[str, Tensor] = {}
        self._carried: dict[tuple[int, str], Carried] = {}
        self._cycles = False

    def __setitem__(self, key: str, value: Any) -> None:
        if current.trace is not None:
            raise CompileError(
                f"setting {key!r} of a parameter group inside a compiled step would happen once, not at every call. "
                "Hint: set it between the calls; a scheduler's step() belongs there too."
            )
        before = self.get(key)
        super().__setitem__(key, value)
        if key == "lr":
            if isinstance(before, Tensor) or isinstance(value, Tensor):
                self._rates.clear()
                if before is not value:
                    self._changed()
            for rate in self._rates.values():
                rate.write_(np.array(value, rate.dtype.numpy))
        elif key in self._constants and (key == "params" or not _is_same(before, value)):
            constant = True
            if self._cycles and key == self._momentum_key and not isinstance(self._momentum, Tensor):
                for decay in self._decays.values():
                    decay.write_(np.array(Decay.of(self._momentum), decay.dtype.numpy))
                constant = key == "betas" and not _is_same(tuple(before or ())[1:], tuple(value)[1:])
            if constant or isinstance(before, Tensor) or _has_tensors(before) or _has_tensors(value):
                self._changed()

    def __deepcopy__(self, memo: dict[int, Any]) -> ParamGroup:
        """A group for a copied optimizer, with copies of all tensors on the device."""
        result = memo[id(self)] = ParamGroup.__new__(ParamGroup)
        owner = None if self._owner is None else copy.deepcopy(self._owner(), memo)
        result.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self._plain().items()})
        result._owner = None if owner is None else weakref.ref(owner)
        dict.update(
            result, {k: copy.deepcopy(v, memo) for k, v in self.items()}
        )  # sets the value without a report to the trace
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return unpickled, (dict(self), self._plain())

    def _plain(self) -> dict[str, Any]:
        """The attributes that copies take over; `_carried` refers to tensors by their ids."""
        return {**{k: v for k, v in self.__dict__.items() if k != "_owner"}, "_carried": {}}

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def _changed(self) -> None:
        """Compiled steps are recompiled; state that the group now needs is created by the next step."""
        self.version += 1
        self._carried.clear()
        tracing.changes += 1

    def uses(self, key: str) -> bool:
        """Whether a hyperparameter may be other than 0; a tensor may."""
        value = self[key]
        return isinstance(value, Tensor) or bool(value)

    def value(self, key: str, like: Tensor, place: int | None = None) -> Any:
        """A hyperparameter, or an entry of a tuple: a number, or, if it is a tensor, a 0-d tensor on the device of a
        parameter.
        """
        value = self[key] if place is None else self[key][place]
        return self._at(value, like) if isinstance(value, Tensor) else value

    def decay(self, key: str, like: Tensor, place: int | None = None) -> Decay:
        """A decay rate of the group."""
        return Decay.of(self.value(key, like, place))

    def rate(self, like: Tensor) -> Tensor:
        """The learning rate as a 0-d tensor on the device of a parameter."""
        value = self["lr"]
        return self._at(value, like) if isinstance(value, Tensor) else _on_device(self._rates, value, like)

    def has_momentum(self) -> bool:
        """Whether 'momentum' may be other than 0."""
        return self._cycles or self.uses("momentum")

    def momentum(self, like: Tensor) -> Decay:
        """'momentum', or the first of 'betas': numbers, or tensors on the device of a parameter if it is cycled, or is a tensor."""
        value = self._momentum
        if isinstance(value, Tensor):
            return Decay.of(self._at(value, like))
        if not self._cycles:
            return Decay.of(value)
        held = _on_device(self._decays, Decay.of(value), like)
        return Decay(held[0], held[1], held[2])

    def cycle_momentum(self) -> None:
        """Keep momentum on the device from now on, so that changing it compiles nothing. Costs the kernels a buffer."""
        if not self._cycles:
            self._cycles = True
            self._changed()

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The hyperparameters that are tensors on devices, with their keys."""
        yield from (("lr", rate) for rate in self._rates.values())
        yield from ((self._momentum_key, decay) for decay in self._decays.values())
        carried = {id(c.source): c.held for c in self._carried.values()}
        for key in ("lr", *sorted(self._constants - {"params"})):
            for value in self[key] if isinstance(self.get(key), tuple | list) else (self.get(key),):
                if isinstance(value, Tensor):
                    yield key, carried.get(id(value), value)

    def adopt(self, held: Tensor, value: np.ndarray) -> None:
        """Copy the learning rate that another runner wrote into its device tensor."""
        for rate in self._rates.values():
            if rate is held and rate.dtype.numpy.type(self["lr"]) != value:
                self["lr"] = float(value)
        for carried in self._carried.values():
            if carried.held is held:
                carried.source.write_(value.reshape(tuple(carried.source.shape)))

    def _at(self, value: Tensor, like: Tensor) -> Tensor:
        """A tensor among the hyperparameters, 0-d, on the device of a parameter."""
        device = like._node.device
        if value._node.device != device:
            key = id(value), f"{device} {scalar_dtype(like).name}"
            if key not in self._carried:
                self._carried[key] = Carried(value, device, like)
            carried = self._carried[key]
            if current.trace is None:
                carried.ready()
            else:
                current.trace.on_carried(carried)
            return carried.held
        value = value.reshape(()) if value.ndim else value
        return value if value.dtype is scalar_dtype(like) else value.to(scalar_dtype(like))

    @property
    def _momentum_key(self) -> str:
        return "betas" if "betas" in self else "momentum"

    @property
    def _momentum(self) -> Any:
        return self["betas"][0] if "betas" in self else self["momentum"]


def unpickled(items: dict[str, Any], state: dict[str, Any]) -> ParamGroup:
    result = ParamGroup({})
    result.__dict__.update(state)
    dict.update(result, items)  # sets the value without a report to the trace
    return result


def _on_device(known: dict[str, Tensor], value: Any, like: Tensor) -> Tensor:
    """The tensor of a number on the device of a parameter; made on first use."""
    dtype = scalar_dtype(like)
    key = f"{like.device} {dtype.name}"
    if key not in known:
        known[key] = Tensor(np.array(value, dtype.numpy), dtype=dtype, device=like.device)
    return known[key]


def _has_tensors(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, tuple | list) and any(isinstance(v, Tensor) for v in value))


def _is_same(a: Any, b: Any) -> bool:
    """Whether two hyperparameters are equal: numbers by value, tensors by identity, because their values are not read."""
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return a is b if isinstance(a, Tensor) or isinstance(b, Tensor) else a == b
