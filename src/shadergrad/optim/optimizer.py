"""What all optimizers share: parameter groups, state, and their saving.

State is made in the constructor. The learning rate lives on the device, so that changing it compiles nothing; so does
momentum once a schedule cycles it (`ParamGroup.cycle_momentum`). Other hyperparameters are constants of a compiled
step, and changing one compiles the step anew. Reference for names, texts and layouts: torch.optim.
"""

from __future__ import annotations

import copy
import functools
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, ClassVar, NamedTuple, Self, TypedDict

import numpy as np

from ..drive import tracing
from ..drive.tracing import current
from ..errors import CompileError, ShadergradError
from ..graph.node import grad_mode, mode
from ..run.step import CompiledStep
from ..tensor import Tensor, flush, full


class OptimizerError(ShadergradError, ValueError, TypeError):
    """Hyperparameters, parameters or state that do not fit. PyTorch raises ValueError or TypeError."""


class MissingKeyError(OptimizerError, KeyError):
    """A group or a state without something that it must have."""

    __str__ = Exception.__str__  # KeyError would put quotes around


class Implementation(TypedDict, total=False):
    """PyTorch's choices of how to compute the same. Taken, and without effect: here every step is one fused program."""

    foreach: bool | None
    fused: bool | None
    capturable: bool
    differentiable: bool


MOST_CAPTURES = 16  # of the update by itself, by as many hyperparameters and parameters without gradients
LOG_OF_ZERO = -1e4  # finite, and small enough that exp of it is 0


class Decay(NamedTuple):
    """A decay rate b as update rules use it: b, 1 - b, log b. Numbers, or 0-d tensors where b is on the device."""

    value: Any
    rest: Any
    log: Any

    @classmethod
    def of(cls, rate: float) -> Decay:
        return cls(rate, 1.0 - rate, max(math.log(rate), LOG_OF_ZERO) if rate > 0.0 else LOG_OF_ZERO)

    def bias_correction(self, step: Tensor) -> Tensor:
        """1 - b ** step, without the cancellation that float32 would suffer at the first steps."""
        return -(step * self.log).expm1()


class ParamGroup(dict):
    """Parameters with their hyperparameters, a dict. Setting `lr` writes it to the device and compiles nothing.

    constants: the keys that update rules read as numbers; setting one raises `version`, and compiled steps are compiled
    anew. CompileError for setting anything inside a compiled step.

    >>> optimizer = sg.optim.SGD([sg.zeros(2)], lr=0.5, momentum=0.75)
    >>> group = optimizer.param_groups[0]
    >>> group["lr"] = 0.25
    >>> group["lr"], group["momentum"]
    (0.25, 0.75)
    """

    def __init__(self, items: dict[str, Any], constants: Iterable[str] = (), owner: Optimizer | None = None) -> None:
        super().__init__(items)
        self.version = 0
        self._constants = {"params", *constants} - {"lr"}
        self._owner = None if owner is None else weakref.ref(owner)
        self._rates: dict[str, Tensor] = {}
        self._decays: dict[str, Tensor] = {}
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
            for rate in self._rates.values():
                rate.write_(np.array(value, rate.dtype.numpy))
        elif key in self._constants and (key == "params" or before != value):
            constant = True
            if self._cycles and key == self._momentum_key:
                for decay in self._decays.values():
                    decay.write_(np.array(Decay.of(self._momentum), decay.dtype.numpy))
                constant = key == "betas" and tuple(before or ())[1:] != tuple(value)[1:]
            if constant:
                self._changed()

    def __deepcopy__(self, memo: dict[int, Any]) -> ParamGroup:
        """A group of a copied optimizer, with all that is on the device copied too."""
        result = memo[id(self)] = ParamGroup.__new__(ParamGroup)
        owner = None if self._owner is None else copy.deepcopy(self._owner(), memo)
        result.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k != "_owner"})
        result._owner = None if owner is None else weakref.ref(owner)
        dict.update(result, {k: copy.deepcopy(v, memo) for k, v in self.items()})  # sets, and tells nobody
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (dict(self), {k: v for k, v in self.__dict__.items() if k != "_owner"})

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def _changed(self) -> None:
        """Compiled steps are compiled anew; state that the group now needs is made."""
        self.version += 1
        tracing.changes += 1
        owner = None if self._owner is None else self._owner()
        if owner is not None:
            owner.make_state(self)

    def rate(self, like: Tensor) -> Tensor:
        """The learning rate as a 0-d tensor on the device of a parameter, in its dtype."""
        return _on_device(self._rates, self["lr"], like)

    def has_momentum(self) -> bool:
        """Whether 'momentum' may be other than 0."""
        return self._cycles or bool(self["momentum"])

    def momentum(self, like: Tensor) -> Decay:
        """'momentum', or the first of 'betas': numbers, or on the device of a parameter once it is cycled."""
        if not self._cycles:
            return Decay.of(self._momentum)
        held = _on_device(self._decays, Decay.of(self._momentum), like)
        return Decay(held[0], held[1], held[2])

    def cycle_momentum(self) -> None:
        """Keep momentum on the device from now on, so that changing it compiles nothing. Costs the kernels a buffer."""
        if not self._cycles:
            self._cycles = True
            self._changed()

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The hyperparameters that live on devices, with their keys."""
        yield from (("lr", rate) for rate in self._rates.values())
        yield from ((self._momentum_key, decay) for decay in self._decays.values())

    @property
    def _momentum_key(self) -> str:
        return "betas" if "betas" in self else "momentum"

    @property
    def _momentum(self) -> float:
        return self["betas"][0] if "betas" in self else self["momentum"]


def _unpickled(items: dict[str, Any], state: dict[str, Any]) -> ParamGroup:
    result = ParamGroup({})
    result.__dict__.update(state)
    dict.update(result, items)  # sets, and tells nobody
    return result


def _on_device(known: dict[str, Tensor], value: Any, like: Tensor) -> Tensor:
    """The tensor of a hyperparameter on the device of another, in its dtype; made on first use."""
    key = f"{like.device} {like.dtype.name}"
    if key not in known:
        known[key] = Tensor(np.array(value, like.dtype.numpy), dtype=like.dtype, device=like.device)
    return known[key]


def check_number(name: str, value: Any) -> Any:
    """The number that a hyperparameter must be."""
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise OptimizerError(f"{name} must be a number, but got {name}={value!r}")
    return value


def _pair(betas: Any) -> tuple[float, float]:
    given = tuple(betas) if isinstance(betas, Iterable) and not isinstance(betas, str | Tensor) else ()
    if len(given) != 2:
        raise OptimizerError(f"betas must be two numbers, but got {betas=}")
    return given


NOT_NEGATIVE = {  # PyTorch's words for what may not be negative, nor NaN
    "lr": "learning rate",
    "lr_decay": "lr_decay value",
    "momentum": "momentum value",
    "weight_decay": "weight_decay value",
    "initial_accumulator_value": "initial_accumulator_value value",
    "eps": "epsilon value",
    "alpha": "alpha value",
    "momentum_decay": "momentum_decay value",
}


class Noted(dict):
    """A dict of which compiled steps learn that it was changed."""

    def __setitem__(self, key: Any, value: Any) -> None:
        tracing.changes += 1
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        tracing.changes += 1
        super().__delitem__(key)

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def clear(self) -> None:
        tracing.changes += 1
        super().clear()

    def pop(self, *args: Any) -> Any:
        tracing.changes += 1
        return super().pop(*args)

    def popitem(self) -> tuple[Any, Any]:
        tracing.changes += 1
        return super().popitem()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        tracing.changes += 1
        return super().setdefault(key, default)

    def update(self, *args: Any, **kwargs: Any) -> None:
        tracing.changes += 1
        super().update(*args, **kwargs)


class Optimizer:
    """Base of the optimizers: a subclass names its state and writes `update`, the rule for one parameter.

    slots: names of state that every parameter has, of its shape; scalars: of 0-d state that a group shares, 'step'
    among it.
    params: tensors, (name, tensor) pairs, or dicts with 'params' and hyperparameters that override `defaults`. As in
    PyTorch; foreach, fused and capturable are taken and change nothing, since every step is one fused program.
    OptimizerError for hyperparameters that are negative, NaN or no numbers, betas outside [0, 1), no parameters, one
    that is no leaf tensor or comes twice, and differentiable=True.

    >>> class SignDescent(sg.optim.Optimizer):
    ...     def update(self, p, gradient, state, group):
    ...         p.sub_(gradient.sign() * group.rate(p))
    >>> w = sg.tensor([2.0, -3.0], requires_grad=True)
    >>> optimizer = SignDescent([w], {"lr": 0.5})
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 1.5, -2.5], requires_grad=True)
    """

    slots: ClassVar[tuple[str, ...]] = ()
    scalars: ClassVar[tuple[str, ...]] = ()
    _replayed: CompiledStep[[], None] | None = None

    def __init__(
        self, params: Iterable[Any], defaults: dict[str, Any], implementation: Implementation | None = None
    ) -> None:
        for name, value in (implementation or {}).items():
            if name not in Implementation.__annotations__:
                raise OptimizerError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{name}'")
            if name == "differentiable" and value:
                raise OptimizerError("differentiable=True is not supported: steps are not recorded on the tape.")
        if isinstance(params, Tensor):
            raise OptimizerError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got Tensor"
            )
        if not isinstance(params, Iterable):
            raise OptimizerError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{type(params).__name__}"
            )
        self.defaults = defaults
        self.param_groups: list[ParamGroup] = []
        self._state: dict[Tensor, dict[str, Any]] = Noted()
        self._changes_seen = -1
        self.version = 0
        self._opt_called = False  # schedulers warn when they are stepped first
        groups = list(params)
        if not groups:
            raise OptimizerError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for group in self.param_groups:
            group._owner = weakref.ref(self)  # type: ignore[assignment]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Further parameters, with hyperparameters of their own where given. Compiled steps are compiled anew."""
        if not isinstance(param_group, dict):
            raise OptimizerError(f"param_group must be a dict, but got {type(param_group)}")
        if "params" not in param_group:
            raise MissingKeyError(f"a parameter group must have 'params', but it has {sorted(param_group)}")
        if isinstance(param_group["params"], set):
            raise OptimizerError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        params = [param_group["params"]] if isinstance(param_group["params"], Tensor) else list(param_group["params"])
        names = [p[0] for p in params if isinstance(p, tuple)]
        if names and len(names) != len(params):
            raise OptimizerError("all optimizer params should be with/without names. Some param names are missing")
        params = [p[1] for p in params] if names else params
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise OptimizerError(
                    f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}"
                )
            if not p.is_leaf:
                raise OptimizerError("can't optimize a non-leaf Tensor")
            if id(p) in known:
                raise OptimizerError("some parameters appear in more than one parameter group")
            known.add(id(p))
        items = {**self.defaults, **param_group, "params": params}
        if "betas" in items:
            items["betas"] = _pair(items["betas"])
        if names:
            items["param_names"] = names
        made = ParamGroup(items, self.defaults, self)
        self.check(made)
        self.param_groups.append(made)
        self.make_state(made)
        self.version += 1
        tracing.changes += 1

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """What is kept of each parameter, by name. What is replaced counts from the next step on; what is taken out begins anew."""
        return self._state

    @state.setter
    def state(self, state: dict[Tensor, dict[str, Any]]) -> None:
        tracing.changes += 1
        self._state = state

    def _lacks_state(self, group: ParamGroup) -> bool:
        """Whether some of the state that the parameters of a group need was taken out."""
        for p in group["params"]:
            have = self._state.get(p)
            if have is None or any(name not in have for name in self.scalars_of(group)):
                return True
            if any(name not in have and self.shape_of(name, p) is not None for name in self.slots_of(group)):
                return True
        return False

    def _mend_state(self) -> None:
        if self._changes_seen != tracing.changes or not isinstance(self._state, Noted):
            for group in self.param_groups:
                if self._lacks_state(group):
                    self.make_state(group)
            self._changes_seen = tracing.changes

    @property
    def _held_state(self) -> tuple[Any, ...]:
        """Which tensors the state holds: a compiled step changes those that it found."""
        if current.trace is None:
            self._mend_state()
        return tuple((id(p), *((name, id(v)) for name, v in have.items())) for p, have in self._state.items())

    def _note_state(self) -> None:
        """Tell a capture of what the state holds in dicts that are not ours."""
        if current.trace is None:
            return
        on_place, path = current.trace.on_place, f"{type(self).__name__}.state"
        if on_place is None:
            return
        for table, where in ((self._state, path), *((have, f"{path}[...]") for have in self._state.values())):
            if not isinstance(table, Noted):  # nobody tells of its changes
                for key in table:
                    on_place(table, key, f"{where}[{key!r}]" if isinstance(key, str) else f"{where}[...]")

    def make_state(self, group: ParamGroup) -> None:
        """The state that the parameters of a group need and do not have."""
        shared: dict[tuple[str, str], dict[str, Tensor]] = {}
        for p in group["params"]:
            if p not in self._state:
                self._state[p] = Noted()
            have = self._state[p]  # stays what it is, for someone may hold it
            common = shared.setdefault((str(p.device), p.dtype.name), {})
            for name in self.scalars_of(group):
                if name not in common:
                    common[name] = have[name] if name in have else self._start(name, group, (), p)
                have.setdefault(name, common[name])
            for name in self.slots_of(group):
                shape = self.shape_of(name, p)
                if shape is not None and name not in have:
                    have[name] = self._start(name, group, shape, p)
        flush()

    def _start(self, name: str, group: ParamGroup, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return full(shape, self.start_of(name, group), dtype=like.dtype, device=like.device)

    def slots_of(self, group: ParamGroup) -> tuple[str, ...]:
        """The state that every parameter of a group needs, of its shape."""
        return self.slots

    def shape_of(self, name: str, p: Tensor) -> tuple[int, ...] | None:
        """The shape of a slot of a parameter; None where that parameter has none."""
        return tuple(p.shape)

    def scalars_of(self, group: ParamGroup) -> tuple[str, ...]:
        """The 0-d state that the parameters of a group share: 'step' counts the steps."""
        return self.scalars

    def start_of(self, name: str, group: ParamGroup) -> float:
        """What state is filled with."""
        return 0.0

    def check(self, group: ParamGroup) -> None:
        """Raises OptimizerError on hyperparameters that make no sense."""
        for key, words in NOT_NEGATIVE.items():
            if key in group and not check_number(key, group[key]) >= 0.0:
                raise OptimizerError(f"Invalid {words}: {group[key]}")
        for k, beta in enumerate(group.get("betas", ())):
            if not 0.0 <= check_number("betas", beta) < 1.0:
                raise OptimizerError(f"Invalid beta parameter at index {k}: {beta}")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients (or set them to zero)."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    if p.grad.requires_grad:
                        p.grad.detach_()
                    p.grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient. Starts the work on the device; does not wait.

        closure: clears the gradients, computes the loss, calls backward() and returns the loss; it runs first, and
        its loss is returned.
        """
        loss = None
        if closure is not None:
            with grad_mode(True):
                loss = closure()
        self._opt_called = True
        if current.trace is None:
            self._mend_state()
        if current.trace is not None:
            self._update_all()
        elif not (self._is_replayed() and self._replay()):
            self._update_all()
            flush()
        return loss

    def _update_all(self) -> None:
        if current.trace is not None:
            current.trace.on_attribute(self, "version", self.version)
            current.trace.on_optimizer(self)
            current.trace.on_attribute(self, "_held_state", self._held_state)
            self._note_state()
        origins = mode.origins
        with grad_mode(False), nullcontext() if origins is None else origins.kept():
            if origins is not None:
                origins.enter(self.update.__self__, "update")  # of a proxy, what it stands for
            for group in self.param_groups:
                if current.trace is not None:
                    current.trace.on_attribute(group, "version", group.version)
                active = [(p, p.grad) for p in group["params"] if p.grad is not None]
                self._advance(active, group)
                for p, gradient in active:
                    self.update(p, -gradient if group.get("maximize") else gradient, self.state[p], group)

    def _is_replayed(self) -> bool:
        """Whether the update is captured and replayed, which makes an uncompiled loop twice as fast. The rules of this
        package can be; those of users may be anything, and what is other in every step is not worth it."""
        if not type(self).__module__.startswith("shadergrad.optim."):
            return False
        if self._replayed is not None and self._replayed.captures >= MOST_CAPTURES:
            return False
        active = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        return len({p._node.device for p in active}) == 1

    def _replay(self) -> bool:
        """The update as one submission; False where it cannot be captured, and then nothing has changed."""
        if self._replayed is None:  # a proxy: an optimizer in a circle with its step would outlive its last user
            update = functools.partial(Optimizer._update_all, weakref.proxy(self))
            self._replayed = CompiledStep(update, most_unwarned=MOST_CAPTURES)
        try:
            self._replayed()
        except CompileError:
            return False
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_replayed": None}

    def _advance(self, active: list[tuple[Tensor, Tensor]], group: ParamGroup) -> None:
        """Advance the scalars of a group once, however many parameters share them."""
        names = self.scalars_of(group)
        if names:
            states = [self.state[p] for p, _ in active]
            for state in {id(s[names[0]]): s for s in states}.values():
                self.advance(state, group)

    def advance(self, state: dict[str, Tensor], group: ParamGroup) -> None:
        """The next step of the scalars that parameters share, in place."""
        state["step"].add_(1)

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup) -> None:
        """One parameter's update, in place."""
        raise NotImplementedError

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Every parameter with the name that it was given, else its number: `params[0]`."""
        number = 0
        for group in self.param_groups:
            for k, p in enumerate(group["params"]):
                yield group["param_names"][k] if "param_names" in group else f"params[{number}]", p
                number += 1

    def named_state(self, names: Mapping[int, str]) -> Iterator[tuple[str, Tensor]]:
        """Every tensor of the state and of the hyperparameters on the device, named after its parameter
        (`exp_avg.0.weight`), or by its own name where parameters share it (`step`, `lr`; `lr.1` in the second group).

        names: what the parameters are called, by id.
        """
        for k, group in enumerate(self.param_groups):
            end = f".{k}" if k else ""
            for name, value in group.tensors():
                yield name + end, value
            shared = self.scalars_of(group)
            for p in group["params"]:
                for name, value in self.state[p].items():
                    if isinstance(value, Tensor):
                        yield name + (end if name in shared else f".{names[id(p)]}"), value

    def state_dict(self) -> dict[str, Any]:
        """PyTorch's layout: state by number of the parameter, groups with numbers for parameters."""
        numbers: dict[Tensor, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers[p] = len(numbers)
            groups.append(
                {
                    **{k: v for k, v in group.items() if k != "params"},
                    "params": [numbers[p] for p in group["params"]],
                }
            )
        state = {numbers[key]: _copied(values) for key, values in self.state.items() if values}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over hyperparameters and state; raises OptimizerError where the parameters differ."""
        for key in ("param_groups", "state"):
            if key not in state_dict:
                raise MissingKeyError(f"the loaded state dict must have '{key}', but it has {sorted(state_dict)}")
        groups = state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise OptimizerError("loaded state dict has a different number of parameter groups, or parameters in them")
        loaded = {int(k): v for k, v in state_dict["state"].items()}
        number = 0
        for group, saved in zip(self.param_groups, groups, strict=True):
            for key, value in saved.items():
                if key != "params":
                    group[key] = tuple(value) if isinstance(value, list) else value
            numbered = list(enumerate(group["params"], number))
            for k, p in sorted(
                numbered, key=lambda item: item[0] in loaded
            ):  # shared scalars: what was saved comes last
                self.load_state(p, k, loaded.get(k), group)
            number += len(numbered)

    def load_state(self, p: Tensor, number: int, saved: dict[str, Any] | None, group: ParamGroup) -> None:
        """Take over the state of one parameter; None: none was saved."""
        for name, tensor in self.state[p].items():
            if saved is None:
                tensor.write_(np.full(tuple(tensor.shape), self.start_of(name, group)))
                continue
            if name not in saved:
                raise OptimizerError(f"the state of parameter {number} lacks {name!r}; it has {sorted(saved)}.")
            array = as_array(saved[name])
            if array.shape != tuple(tensor.shape):
                raise OptimizerError(
                    f"{name!r} of parameter {number} has shape {array.shape}, not {tuple(tensor.shape)}."
                )
            tensor.write_(array)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for k, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {k}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def _copied(value: Any) -> Any:
    """State with its tensors copied."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return [_copied(v) for v in value] if isinstance(value, list) else value


def as_array(value: Any) -> np.ndarray:
    """A saved value, a tensor of this library or of another, on the host."""
    return value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)
