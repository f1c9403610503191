"""The base class of optimizers: parameter groups, state, and their state dicts.

State is created when a parameter is first updated, inside a captured step too. Reference for names, texts and layouts:
torch.optim.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, ClassVar

from ..drive import tracing
from ..drive.tracing import current
from ..dtypes import DType
from ..errors import CompileError
from ..graph.node import grad_mode, mode
from ..run.step import CompiledStep
from ..system.suggestions import did_you_mean
from ..tensor import Tensor, flush
from ..tensor import where as chosen
from . import saving
from .checks import NOT_NEGATIVE as NOT_NEGATIVE
from .checks import Implementation as Implementation
from .checks import MissingKeyError as MissingKeyError
from .checks import OptimizerError as OptimizerError
from .checks import check_number as check_number
from .checks import pair_of
from .group import Decay as Decay
from .group import ParamGroup as ParamGroup
from .group import unpickled as _unpickled  # noqa: F401  # by which groups were pickled
from .hooks import Hooks, hooked
from .hooks import register_optimizer_step_post_hook as register_optimizer_step_post_hook
from .hooks import register_optimizer_step_pre_hook as register_optimizer_step_pre_hook
from .state import (
    Filling,
    Kept,
    PairsWithin,
    States,
    Within,
    all_held,
    filled,
    fresh_copy,
    held,
    holders_of,
    pairs_of,
    put,
)
from .state import Noted as Noted
from .state import as_array as as_array
from .state import scalar_dtype as scalar_dtype

MOST_CAPTURES = 16  # of the update by itself, by as many hyperparameters and parameters without gradients


class Optimizer(Hooks):
    """Base of the optimizers: a subclass names its state and writes `update`, the rule for one parameter.

    slots: the names of state tensors of each parameter, with its shape. scalars: the names of 0-d state that a group shares,
    such as 'step'.
    params: tensors, (name, tensor) pairs, or dicts with 'params' and hyperparameters that override `defaults`. As in
    PyTorch; foreach, fused and capturable are accepted without effect, because every step is one fused program.
    differentiable: record the step on the tape, so that gradients reach what it reads (gradients, parameters, state and a learning rate
    that is a tensor); the parameters are no leaves then, such as clones.
    OptimizerError for hyperparameters that are negative, NaN or no numbers, for betas outside [0, 1), without parameters, for a
    parameter that is no leaf tensor or is in two groups. A parameter that is twice in a group is updated twice, with a warning.

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
    # whether the update sees complex parameters as pairs of real numbers; False in rules for whole matrices
    takes_complex: ClassVar[bool] = True
    _replayed: CompiledStep[[], None] | None = None
    _differentiable = False
    found_inf: Tensor | None = None  # within a GradScaler's step: above 0 if nothing may change

    def __init__(
        self, params: Iterable[Any], defaults: dict[str, Any], implementation: Implementation | None = None
    ) -> None:
        for name in implementation or {}:
            if name not in Implementation.__annotations__:
                near = did_you_mean(name, defaults)
                raise OptimizerError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument '{name}'{near and f'.{near}'}"
                )
        if isinstance(params, Tensor):
            raise OptimizerError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got Tensor"
            )
        if not isinstance(params, Iterable):
            raise OptimizerError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{type(params).__name__}"
            )
        self._differentiable = bool((implementation or {}).get("differentiable"))
        self.defaults = defaults
        self.param_groups: list[ParamGroup] = []
        self._state: dict[Tensor, dict[str, Any]] = States()
        self._begin_hooks()
        self.version = 0
        self._opt_called = False  # schedulers give a warning if this is False at their first step
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
        """Add parameters, with their own hyperparameters if given. Compiled steps are recompiled."""
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
            if not (p.is_leaf or self._differentiable):
                raise OptimizerError("can't optimize a non-leaf Tensor")
            if p.dtype.is_complex and not self.takes_complex:
                raise OptimizerError(
                    f"{type(self).__name__} does not support complex parameters. Hint: keep pairs of real numbers as the "
                    "parameter, and torch.view_as_complex of them."
                )
            if id(p) in known:
                raise OptimizerError("some parameters appear in more than one parameter group")
        _warn_of_duplicates(params)
        items = {**self.defaults, **param_group, "params": params}
        if "betas" in items:
            items["betas"] = pair_of(items["betas"])
        if names:
            items["param_names"] = names
        made = ParamGroup(items, self.defaults, self)
        self.check(made)
        self.param_groups.append(made)
        self.version += 1
        tracing.changes += 1

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """The state of each parameter, by name. A replaced tensor is used from the next step on; the state of a removed parameter starts again."""
        return self._state

    @state.setter
    def state(self, state: dict[Tensor, dict[str, Any]]) -> None:
        tracing.changes += 1
        self._state = state

    @property
    def _held_state(self) -> tuple[Any, ...]:
        """The tensors of the state: a compiled step changes those that it found."""
        return tuple((id(p), *((name, id(v)) for name, v in all_held(have))) for p, have in self._state.items())

    def _note_state(self) -> None:
        """Report to a capture the state in dicts that are not the library's."""
        if current.trace is None:
            return
        on_place, path = current.trace.on_place, f"{type(self).__name__}.state"
        if on_place is None:
            return
        for table, where in ((self._state, path), *((have, f"{path}[...]") for have in self._state.values())):
            if not isinstance(table, Noted):  # its changes are not reported
                for key in table:
                    on_place(table, key, f"{where}[{key!r}]" if isinstance(key, str) else f"{where}[...]")

    def _begin_state(self, active: list[Tensor], group: ParamGroup) -> None:
        """Create missing state of parameters."""
        wanted: dict[Any, tuple[Filling, list[tuple[dict[str, Any], str]]]] = {}
        for p in active:
            have = self._state.get(p)
            if have is None:
                have = self._state[p] = Kept()
            for name, shape in self._needs(p, group):
                if held(have, name) is None:
                    shared = name in self.scalars_of(group)
                    dtype = scalar_dtype(p) if shared else self.dtype_of(name, p)
                    start = self.start_of(name, group)
                    start = complex(start, start) if dtype.is_complex else start  # each part begins there
                    filling = Filling(shape, start, dtype, p._node.device)
                    wanted.setdefault((name, filling) if shared else (name, id(p)), (filling, []))[1].append(
                        (have, name)
                    )
        if wanted:
            for tensor, (_, places) in zip(filled([f for f, _ in wanted.values()]), wanted.values(), strict=True):
                for have, name in places:
                    put(have, name, tensor, shared=len(places) > 1)
        self._part(active, group)

    def _needs(self, p: Tensor, group: ParamGroup) -> list[tuple[str, tuple[int, ...]]]:
        """The state that a parameter needs, with its shapes."""
        slots = ((name, self.shape_of(name, p)) for name in self.slots_of(group))
        return [*((name, ()) for name in self.scalars_of(group)), *((name, s) for name, s in slots if s is not None)]

    def _part(self, active: list[Tensor], group: ParamGroup) -> None:
        """Give parameters whose shared scalars belong to others that are not updated their own scalars."""
        ids = {id(p) for p in active}
        states = [(p, self._state[p]) for p in group["params"] if p in self._state]
        for name in self.scalars_of(group):
            for sharers in holders_of(name, states).values():
                going = [have for p, have in sharers if id(p) in ids]
                if going and len(going) < len(sharers):
                    own = fresh_copy(held(going[0], name))
                    for have in going:
                        put(have, name, own, shared=len(going) > 1)

    def slots_of(self, group: ParamGroup) -> tuple[str, ...]:
        """The state that every parameter of a group needs, of its shape."""
        return self.slots

    def shape_of(self, name: str, p: Tensor) -> tuple[int, ...] | None:
        """The shape of a slot of a parameter; None if the parameter has no such slot."""
        return tuple(p.shape)

    def dtype_of(self, name: str, p: Tensor) -> DType:
        """The dtype of a slot of a parameter."""
        return p.dtype if p.shape or p.dtype.is_complex else scalar_dtype(p)

    def scalars_of(self, group: ParamGroup) -> tuple[str, ...]:
        """The 0-d state that the parameters of a group share: 'step' counts the steps."""
        return self.scalars

    def start_of(self, name: str, group: ParamGroup) -> float:
        """The initial value of state."""
        return 0.0

    def check(self, group: ParamGroup) -> None:
        """Raises OptimizerError for invalid hyperparameters."""
        for key, words in NOT_NEGATIVE.items():
            if key in group and not check_number(key, group[key]) >= 0.0:
                raise OptimizerError(f"Invalid {words}: {group[key]}")
        for k, beta in enumerate(group.get("betas", ())):
            if not 0.0 <= check_number("betas", beta) < 1.0:
                raise OptimizerError(f"Invalid beta parameter at index {k}: {beta}")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set all gradients to None (or to zero)."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    if p.grad.requires_grad:
                        p.grad.detach_()
                    p.grad.zero_()

    @hooked
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient. Starts the work on the device; does not wait.

        closure: clears the gradients, computes the loss, calls backward() and returns the loss; it runs first, and
        its loss is returned.
        """
        loss = None
        if closure is not None:
            with grad_mode(True):
                loss = closure()
        if current.trace is not None:
            self._update_all()
        elif self.found_inf is not None or not (self._is_replayed() and self._replay()):
            self._update_all()
            flush()
        return loss

    def _update_all(self) -> None:
        trace = current.trace
        origins = mode.origins
        with grad_mode(self._differentiable), nullcontext() if origins is None else origins.restored():
            if origins is not None:
                origins.enter(self.update.__self__, "update")  # for a weak proxy, its object
            active = [(group, found) for group in self.param_groups for found in _rounds(group["params"])]
            for group, found in active:
                self._begin_state([p for p, _ in found], group)
            if trace is not None:
                trace.on_attribute(self, "version", self.version)
                trace.on_optimizer(self)
                trace.on_attribute(self, "_held_state", self._held_state)
                self._note_state()
            before = [] if self.found_inf is None else self._held_values(active)
            for group, found in active:
                if trace is not None:
                    trace.on_attribute(group, "version", group.version)
                self._advance(found, group)
                for p, gradient in found:
                    gradient = gradient if gradient.dtype is p.dtype else gradient.to(p.dtype)
                    if self.found_inf is not None:
                        # If the flag is set, results are dropped. A choice by the flag makes them depend on it: they are not computed before.
                        gradient = chosen(self.found_inf > 0, 0.0, gradient)
                    gradient = -gradient if group.get("maximize") else gradient
                    if p.dtype.is_complex:
                        self.update(pairs_of(p), pairs_of(gradient), PairsWithin(self._state[p]), group)  # type: ignore[arg-type]
                    else:
                        self.update(p, gradient, Within(self._state[p]), group)  # type: ignore[arg-type]
            for tensor, value in before:
                if tensor._node is not value._node:
                    tensor.copy_(chosen(self.found_inf > 0, value, tensor))  # type: ignore[operator]

    def _held_values(self, active: list[tuple[ParamGroup, list[tuple[Tensor, Tensor]]]]) -> list[tuple[Tensor, Tensor]]:
        """The tensors that a step changes, with their old values."""
        found = {id(p): p for _, pairs in active for p, _ in pairs}
        for _, pairs in active:
            for p, _ in pairs:
                found |= {id(v): v for _, v in all_held(self._state[p]) if isinstance(v, Tensor)}
        for group in self.param_groups:
            found |= {id(v): v for _, v in group.tensors()}
        return [(t, Tensor._of(t._node).detach()) for t in found.values()]

    def _is_replayed(self) -> bool:
        """Whether the update is captured and replayed, which makes an uncompiled loop twice as fast. Only this package's rules are replayed:
        users' rules may have other effects. A rule that differs in every step is not worth capturing.
        """
        if self._differentiable or not type(self).__module__.startswith("shadergrad.optim."):
            return False
        if self._replayed is not None and self._replayed.captures >= MOST_CAPTURES:
            return False
        active = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        return len({p._node.device for p in active}) == 1

    def _replay(self) -> bool:
        """The update as one submission; False if it cannot be captured, and then nothing has changed."""
        if self._replayed is None:
            # a weak proxy, because a reference cycle of optimizer and step would outlive its last user
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
        """Advance the scalars of a group once, for all parameters that share them."""
        names = self.scalars_of(group)
        if names:
            states = [self._state[p] for p, _ in active]
            for state in {id(held(s, names[0])): s for s in states}.values():
                self.advance(Within(state), group)  # type: ignore[arg-type]

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

        names: of the parameters, by id.
        """
        for k, group in enumerate(self.param_groups):
            end = f".{k}" if k else ""
            for name, value in group.tensors():
                yield name + end, value
            shared = self.scalars_of(group)
            for p in group["params"]:
                for name, value in all_held(self._state.get(p, {})):
                    if isinstance(value, Tensor):
                        yield name + (end if name in shared else f".{names[id(p)]}"), value

    def state_dict(self) -> dict[str, Any]:
        """PyTorch's layout: state by number of the parameter, groups with numbers for parameters. The result of a hook replaces
        it."""
        for hook in list(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        found = saving.state_dict(self.param_groups, self._state)
        for hook in list(self._optimizer_state_dict_post_hooks.values()):
            result = hook(self, found)
            found = found if result is None else result
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load hyperparameters and state; raises OptimizerError if the parameters differ, and changes nothing then."""
        state_dict = dict(state_dict)
        for hook in list(self._optimizer_load_state_dict_pre_hooks.values()):
            result = hook(self, state_dict)
            state_dict = state_dict if result is None else result
        saving.load(self, state_dict)
        for hook in list(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    def check_saved(self, p: Tensor, number: int, saved: dict[str, Any], group: ParamGroup) -> None:
        """Raises OptimizerError if the saved state of a parameter cannot be loaded."""
        shapes = {name: self.shape_of(name, p) for name in self.slots_of(group)}
        for name, shape in {**shapes, **dict.fromkeys(self.scalars_of(group), ())}.items():
            if shape is None:
                continue
            if name not in saved:
                raise OptimizerError(f"the state of parameter {number} lacks {name!r}; it has {sorted(saved)}.")
            found = as_array(saved[name]).shape
            if found != shape and not (shape == () and found == (1,)):
                raise OptimizerError(f"{name!r} of parameter {number} has shape {found}, not {shape}.")

    def completed(self, saved: dict[str, Any], group: ParamGroup) -> dict[str, Any]:
        """A saved state with the entries that PyTorch does not save."""
        return saved

    def load_state(self, p: Tensor, saved: dict[str, Any], group: ParamGroup) -> None:
        """Load the state of one parameter, except the scalars that parameters share."""
        saving.load_slots(self._state, p, saved, self.scalars_of(group))

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for k, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {k}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def _warn_of_duplicates(params: list[Tensor]) -> None:
    if len({id(p) for p in params}) < len(params):
        warnings.warn(
            "optimizer contains a parameter group with duplicate parameters: a step updates them as often as they are there. "
            "Hint: name each parameter once.",
            stacklevel=5,
        )


def _rounds(params: list[Tensor]) -> list[list[tuple[Tensor, Tensor]]]:
    """Parameters with their gradients, if they have any. A parameter that occurs again is updated in a second round,
    as a separate step.
    """
    rounds: list[dict[int, tuple[Tensor, Tensor]]] = [{}]
    for p in params:
        if (gradient := p.grad) is not None:
            into = next((r for r in rounds if id(p) not in r), None)
            if into is None:
                rounds.append(into := {})
            into[id(p)] = p, gradient
    return [list(r.values()) for r in rounds]
