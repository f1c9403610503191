"""What is public: every name of every namespace that users import from, and every method of Tensor."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Any

import shadergrad as sg

NAMESPACES: dict[str, Any] = {
    "sg.accelerator": sg.accelerator,
    "sg.amp": sg.amp,
    "sg.backends.cudnn": sg.backends.cudnn,
    "sg.cuda": sg.cuda,
    "sg.distributed": sg.distributed,
    "sg.distributions": sg.distributions,
    "sg.func": sg.func,
    "sg.mps": sg.mps,
    "sg.testing": sg.testing,
    "sg.nn.parallel": sg.nn.parallel,
    "sg.random": sg.random,
    "sg.utils.checkpoint": sg.utils.checkpoint,
    "sg.utils.dlpack": sg.utils.dlpack,
    "sg.utils.tensorboard": sg.utils.tensorboard,
    "sg": sg,
    "sg.autograd": sg.autograd,
    "sg.autograd.functional": sg.autograd.functional,
    "sg.data": sg.data,
    "sg.data.transforms": sg.data.transforms,
    "sg.utils.data": sg.utils.data,
    "sg.devices": sg.devices,
    "sg.extend": sg.extend,
    "sg.fft": sg.fft,
    "sg.interop": sg.interop,
    "sg.linalg": sg.linalg,
    "sg.logic": sg.logic,
    "sg.logic.circuit": sg.logic.circuit,
    "sg.logic.gates": sg.logic.gates,
    "sg.logic.wiring": sg.logic.wiring,
    "sg.models.coevolution": sg.models.coevolution,
    "sg.models.coevolution.dca": sg.models.coevolution.dca,
    "sg.nn": sg.nn,
    "sg.autograd.graph": sg.autograd.graph,
    "sg.nn.attention": sg.nn.attention,
    "sg.nn.attention.flex_attention": sg.nn.attention.flex_attention,
    "sg.nn.functional": sg.nn.functional,
    "sg.nn.init": sg.nn.init,
    "sg.nn.modules.module": sg.nn.modules.module,
    "sg.nn.modules.utils": sg.nn.modules.utils,
    "sg.nn.utils": sg.nn.utils,
    "sg.nn.utils.parametrizations": sg.nn.utils.parametrizations,
    "sg.nn.utils.parametrize": sg.nn.utils.parametrize,
    "sg.nn.utils.rnn": sg.nn.utils.rnn,
    "sg.signal.windows": sg.signal.windows,
    "sg.special": sg.special,
    "sg.optim": sg.optim,
    "sg.optim.lr_scheduler": sg.optim.lr_scheduler,
    "sg.optim.swa_utils": sg.optim.swa_utils,
}


def public_names(namespace: Any) -> list[str]:
    """What a namespace offers: `__all__`, or what is defined in it without an underscore."""
    listed = getattr(namespace, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, value in vars(namespace).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == namespace.__name__
    ]


def public_objects() -> Iterator[tuple[str, Any]]:
    """(dotted name, function or class) of every namespace; constants and submodules left out."""
    for prefix, namespace in NAMESPACES.items():
        for name in public_names(namespace):
            value = getattr(namespace, name)
            if callable(value) and not isinstance(value, types.ModuleType):
                yield f"{prefix}.{name}", value


def tensor_methods() -> Iterator[tuple[str, Any]]:
    """("Tensor.exp", the method), properties included."""
    for name in dir(sg.Tensor):
        if not name.startswith("_"):
            yield f"Tensor.{name}", inspect.getattr_static(sg.Tensor, name)


def class_methods() -> Iterator[tuple[str, Any]]:
    """Public methods and properties of the public classes but Tensor, where they are defined."""
    seen: set[int] = set()
    for dotted, value in public_objects():
        if inspect.isclass(value) and value is not sg.Tensor:
            for name, member in vars(value).items():
                kind = isinstance(member, types.FunctionType | property | classmethod | staticmethod)
                if kind and not name.startswith("_") and id(member) not in seen:
                    seen.add(id(member))
                    yield f"{dotted}.{name}", member
