"""Pruning: sets the smallest, or random, elements of parameters to 0, with PyTorch's names.

In: a module and a parameter's name. Out: the module, with the parameter `name_orig`, the mask `name_mask` as a buffer, and `name`, their
product, which a forward pre-hook computes before each call.
Source: https://docs.pytorch.org/docs/stable/nn.html#utilities (torch.nn.utils.prune).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from ...tensor import Tensor, cat, ones_like, rand, randperm
from ..errors import ArgumentError, ModuleTypeError
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer", "RandomStructured",
    "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """Base of pruning methods. A subclass defines `compute_mask(t, default_mask)`, and in PRUNING_TYPE what a second pruning considers:
    the remaining elements ('unstructured'), the remaining channels ('structured'), or everything ('global').
    """

    PRUNING_TYPE: ClassVar[str] = "global"
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask, of the shape of the scores t: 1 where an element stays; 0 where it is pruned, and where default_mask is 0."""

    def apply_mask(self, module: Module) -> Tensor:
        """The product of the parameter and its mask."""
        original = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(dtype=original.dtype) * original

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned tensor, without a module."""
        scores = t if importance_scores is None else importance_scores
        _check_scores(scores, t)
        return t * self.compute_mask(scores, ones_like(t) if default_mask is None else default_mask)

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a module's parameter; further arguments are those of the method. A parameter may be pruned several times."""
        before = _hook_of(module, name)
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        if before is None:
            tensor = getattr(module, name)
            if not isinstance(tensor, Parameter):
                raise ModuleTypeError(f"[prune] {name} of {type(module).__name__} is not a parameter.")
            mask = ones_like(tensor.detach())
        else:
            tensor = getattr(module, f"{name}_orig")
            mask = getattr(module, f"{name}_mask")
        scores = tensor if importance_scores is None else importance_scores
        _check_scores(scores, tensor)
        combined: BasePruningMethod = method
        if before is not None:
            _, old = before
            combined = PruningContainer(*(old if isinstance(old, PruningContainer) else (old,)), method)
            combined._tensor_name = name
        found = combined.compute_mask(scores.detach(), mask).to(dtype=tensor.dtype)
        if before is None:
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", tensor)
            module.register_buffer(f"{name}_mask", found)
        else:
            setattr(module, f"{name}_mask", found)
            del module._forward_pre_hooks[before[0]]
        setattr(module, name, combined.apply_mask(module))  # the value until the first call
        module.register_forward_pre_hook(combined)
        return method

    def remove(self, module: Module) -> None:
        """Make the pruning permanent: `name` is a parameter again, and mask and hook are gone."""
        name = self._tensor_name
        pruned = self.apply_mask(module).detach()
        original: Any = module._parameters.pop(f"{name}_orig")
        original.data = pruned
        del module._buffers[f"{name}_mask"]
        delattr(module, name)
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """Several methods, one after the other, for one parameter."""

    def __init__(self, *methods: BasePruningMethod) -> None:
        self._methods: tuple[BasePruningMethod, ...] = ()
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Append a method for the same parameter."""
        if not isinstance(method, BasePruningMethod):
            raise ModuleTypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._methods and method._tensor_name != self._tensor_name:
            raise ArgumentError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer, not '{method._tensor_name}'."
            )
        self._tensor_name = method._tensor_name
        self._methods += (method,)

    def __len__(self) -> int:
        return len(self._methods)

    def __iter__(self) -> Any:
        return iter(self._methods)

    def __getitem__(self, place: int) -> BasePruningMethod:
        return self._methods[place]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the latest method, applied to the elements that the earlier ones, with default_mask, left."""
        method, mask = self._methods[-1], default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            left: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            axis = method.dim % t.ndim  # type: ignore[attr-defined]
            others = tuple(a for a in range(t.ndim) if a != axis)
            left = (slice(None),) * axis + ((mask.sum(others) != 0).nonzero().flatten(),)
        elif method.PRUNING_TYPE == "global":
            left = (slice(None),) * t.ndim
        else:
            raise ArgumentError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        found = mask.clone()
        found[left] = method.compute_mask(t[left], mask[left]).to(dtype=mask.dtype)
        return found


class Identity(BasePruningMethod):
    """Prunes nothing, and gives the parameter a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Amount(BasePruningMethod):
    """Base of methods that prune an amount: a part of 0 to 1, or a number of elements or channels."""

    def __init__(self, amount: float) -> None:
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise ModuleTypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or (isinstance(amount, float) and amount > 1):
            raise ArgumentError(
                f"amount={amount} should either be a float in the range [0.0, 1.0] or a non-negative integer"
            )
        self.amount = amount

    def _count(self, size: int) -> int:
        """How many of `size` are pruned."""
        if isinstance(self.amount, float):
            return round(self.amount * size)
        if self.amount > size:
            raise ArgumentError(f"amount={self.amount} should be smaller than the number of parameters to prune={size}")
        return self.amount


class RandomUnstructured(_Amount):
    """Prunes random elements."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, randperm(t.numel()).to(t.device)[: self._count(t.numel())])


class L1Unstructured(_Amount):
    """Prunes the elements of the smallest absolute value."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = self._count(t.numel())
        return _without(default_mask, t.abs().flatten().topk(count, largest=False).indices) if count else default_mask


class _Channels(_Amount):
    """Base of methods that prune whole slices along an axis, dim."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    @abstractmethod
    def _scores(self, t: Tensor, others: tuple[int, ...]) -> Tensor:
        """A score for each channel; the smallest are pruned. others: the axes within a channel."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if not -t.ndim <= self.dim < t.ndim:
            raise ArgumentError(f"Invalid index {self.dim} for tensor of size {tuple(t.shape)}")
        axis = self.dim % t.ndim
        count = self._count(t.shape[axis])
        if not count:
            return default_mask
        scores = self._scores(t, tuple(a for a in range(t.ndim) if a != axis))
        kept = ones_like(scores)
        kept[scores.topk(count, largest=False).indices] = 0
        return default_mask * kept.reshape([-1 if a == axis else 1 for a in range(t.ndim)]).to(dtype=default_mask.dtype)


class RandomStructured(_Channels):
    """Prunes random channels along an axis."""

    def _scores(self, t: Tensor, others: tuple[int, ...]) -> Tensor:
        return rand(t.numel() // math.prod(t.shape[a] for a in others), device=t.device)


class LnStructured(_Channels):
    """Prunes the channels along an axis with the smallest norm of order n."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor, others: tuple[int, ...]) -> Tensor:
        return t.norm(p=self.n, dim=others) if others else t.abs()


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.to(dtype=default_mask.dtype, device=default_mask.device)


def _without(mask: Tensor, places: Tensor) -> Tensor:
    found = mask.clone().flatten()
    found[places] = 0
    return found.reshape(mask.shape)


def _check_scores(scores: Tensor, tensor: Tensor) -> None:
    if scores.shape != tensor.shape:
        raise ArgumentError(
            f"importance_scores should have the same shape as the tensor to prune, not {tuple(scores.shape)} and {tuple(tensor.shape)}."
        )


def _hook_of(module: Module, name: str) -> tuple[int, BasePruningMethod] | None:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones. Returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune random elements of a parameter: a part of 0 to 1, or a number. Returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prune the elements of a parameter with the smallest absolute value, or score. Returns the module.

    >>> from shadergrad.nn.utils import prune
    >>> layer = prune.l1_unstructured(nn.Linear(2, 2), "weight", amount=0.5)
    >>> int((layer.weight == 0).sum()), sorted(layer.state_dict())
    (2, ['bias', 'weight_mask', 'weight_orig'])
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune random channels of a parameter along an axis. Returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the channels of a parameter along an axis with the smallest norm of order n. Returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter by a mask of its shape. Returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune parameters, pairs of a module and a name, as if they were one vector; kwargs: those of the method, as amount."""
    pairs = list(parameters)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs) or not pairs:
        raise ModuleTypeError(
            "global_unstructured(): parameters must be pairs of a module and a name, and one at least."
        )
    given = importance_scores or {}
    scores, masks = [], []
    for module, name in pairs:
        pruned = _hook_of(module, name) is not None
        tensor: Tensor = getattr(module, f"{name}_orig" if pruned else name).detach()
        own: Tensor = given.get((module, name), tensor)
        scores.append(own.detach())
        _check_scores(scores[-1], tensor)
        masks.append(getattr(module, f"{name}_mask") if pruned else ones_like(tensor))
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise ModuleTypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of type '
            f"{method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp"
    whole = PruningContainer(method)
    mask = whole.compute_mask(cat([s.flatten() for s in scores]), cat([m.flatten() for m in masks]))
    parts = mask.split([m.numel() for m in masks])
    for (module, name), part, old in zip(pairs, parts, masks, strict=True):
        custom_from_mask(module, name, part.reshape(old.shape))


def remove(module: Module, name: str) -> Module:
    """Make a pruning permanent: the parameter is one again, with zeros. Returns the module. ArgumentError where there is none."""
    found = _hook_of(module, name)
    if found is None:
        raise ArgumentError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed. Hint: prune.is_pruned."
        )
    found[1].remove(module)
    del module._forward_pre_hooks[found[0]]
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of a module, or of one within, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )
