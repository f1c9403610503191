"""The device "torch", whose values are torch.Tensors with PyTorch's autograd history in addition to ours.

In: pending nodes. Out: their values. Each primitive has a rule in PyTorch (primitive_rules.py), or uses its NumPy value and its own vjp.
Our graph decides which values have a history: a node that requires no gradient (detach, no_grad) has a detached value.
Only mirrors use this device. Compiled steps cannot run on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from ...dtypes import DType, parse_dtype
from ...errors import AutogradError, DeviceError
from ...graph import node as nodes
from ...graph.leaves import Stored
from ...graph.node import Node, grad_mode, topological
from ...plan import Plan
from ...primitives.joint import Meeting, Result
from ...runtime.device import Device, Program, Storage, get_device, register_device
from ...target import NUMPY
from ...tensor import Tensor, wrap
from ..errors import InteropError
from .primitive_rules import rule_of, torch_dtype

NAME = "torch"


class TorchDevice(Device):
    """Holds torch.Tensors on PyTorch's cpu, computed on demand."""

    has_own_history = True

    def __init__(self, index: int = 0) -> None:
        self.name = NAME
        self.target = NUMPY

    def upload(self, array: np.ndarray, dtype: DType) -> Storage:
        return _stored(_tensor_of(array, dtype))

    def write(self, storage: Storage, array: np.ndarray, dtype: DType) -> None:
        storage.handle = _tensor_of(array, dtype)

    def download(self, storage: Storage, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        return np.array(_array_of(storage.handle).reshape(shape), dtype.numpy, order="C")

    def compute(self, wanted: Sequence[Node]) -> bool:
        for node in topological(wanted, lambda n: () if n.storage is not None else n.inputs):
            if node.storage is None:
                value = _computed(node)
                if not node.requires_grad:
                    value = value.detach()
                node.materialize(_stored(value))
        return True

    def load(self, plan: Plan) -> Program:
        raise DeviceError(
            "a compiled step cannot run within a mirror. Hint: mirror the module, and compile what calls it."
        )

    def synchronize(self) -> None:
        return

    def release(self, handle: Any) -> None:
        return

    def describe(self) -> str:
        return f"torch (PyTorch {torch.__version__} on the cpu)"


class _Given(Stored):
    """A value that PyTorch computed, where our tape ends."""

    def vjp(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        raise AutogradError(
            "within a mirror PyTorch differentiates: backward() of shadergrad's tensors has no history there. "
            "Hint: call backward() on the torch.Tensor that the mirror gives."
        )


_Given.kind = "source"  # set here and not in the class, so that the class does not enter the registry


def _tensor_of(array: np.ndarray, dtype: DType) -> torch.Tensor:
    made = torch.from_numpy(np.array(array, dtype.numpy, order="C"))
    return made.to(torch_dtype(dtype)) if dtype.is_half else made


def _array_of(value: torch.Tensor) -> np.ndarray:
    """Values on the host; those of bfloat16, which NumPy lacks, as float32."""
    value = value.detach()
    return (value.float() if value.dtype is torch.bfloat16 else value).numpy()


def _stored(value: torch.Tensor) -> Storage:
    return Storage(get_device(NAME), value.numel() * value.element_size(), value)


def to_ours(value: torch.Tensor) -> Tensor:
    """A tensor on the device "torch" with this torch.Tensor as its value, and its history."""
    try:
        dtype = parse_dtype(str(value.dtype).removeprefix("torch."))
    except Exception:
        raise InteropError(f"[mirror] there is no tensor of {value.dtype} here. Hint: .float() it.") from None
    if value.device.type != "cpu" or value.layout is not torch.strided:
        raise InteropError(f"[mirror] takes dense tensors on PyTorch's cpu, not {value.layout} on {value.device}.")
    node = Node(_Given(), (), tuple(value.shape), dtype, NAME, value.requires_grad and nodes.mode.grad)
    node.storage = _stored(value if node.requires_grad else value.detach())
    return wrap(node)


def to_theirs(tensor: Tensor) -> torch.Tensor:
    """The torch.Tensor behind a tensor of the device "torch"."""
    node = tensor._node
    if node.device != NAME:
        raise DeviceError(f"[mirror] a tensor is on {node.device}. Hint: make tensors on the device of the input.")
    if node.storage is None:
        get_device(NAME).compute([node])
    return _value(node)


def _value(node: Node) -> torch.Tensor:
    value: torch.Tensor = node.storage.handle
    if value.requires_grad and not node.requires_grad:
        value = value.detach()
    return value if value.shape == node.shape else value.reshape(node.shape)


def _computed(node: Node) -> torch.Tensor:
    operands = tuple(_value(i) for i in node.inputs)
    primitive = node.primitive
    if isinstance(primitive, Meeting):
        return _Meet.apply(node, *operands)
    if isinstance(primitive, Result):
        return _Part.apply(primitive.position, *operands)
    rule = rule_of(type(primitive).__name__, operands)
    if rule is not None:
        with suppress(RuntimeError, IndexError):  # the NumPy twin raises our error, as for a bad position
            value = rule(primitive, *operands)
            dtype = torch_dtype(node.dtype)
            return value if value.dtype is dtype else value.to(dtype)
    return _ByTwin.apply(node, *operands) if node.requires_grad else _by_twin(node, operands)


def _by_twin(node: Node, operands: Sequence[torch.Tensor]) -> torch.Tensor:
    with np.errstate(all="ignore"):
        value = node.primitive.numpy(*map(_array_of, operands))
    return _tensor_of(value, node.dtype)


class _ByTwin(torch.autograd.Function):
    """A primitive computed by its NumPy twin and differentiated by its vjp, whose nodes this device computes, too."""

    @staticmethod
    def forward(ctx: Any, node: Node, *operands: torch.Tensor) -> torch.Tensor:
        value = _by_twin(node, operands)
        ctx.node = (node.primitive, node.shape, node.dtype)
        ctx.save_for_backward(value, *operands)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        primitive, shape, dtype = ctx.node
        value, *operands = ctx.saved_tensors
        needed = ctx.needs_input_grad[1:]
        inputs = tuple(_leaf(x, n) for x, n in zip(operands, needed, strict=True))
        node = Node(primitive, inputs, shape, dtype, NAME, requires_grad=True)
        node.storage = _stored(value.detach())
        with grad_mode(False):
            found = primitive.vjp(_leaf(grads[0], False), node)
        wanted = [g for g, n in zip(found, needed, strict=True) if n and g is not None and g.storage is None]
        get_device(NAME).compute(wanted)
        return None, *(_value(g) if n and g is not None else None for g, n in zip(found, needed, strict=True))


class _Meet(torch.autograd.Function):
    """Joins the gradients of several results (primitives/joint.py): a number whose backward pass runs after that of all results."""

    @staticmethod
    def forward(ctx: Any, node: Node, *operands: torch.Tensor) -> torch.Tensor:
        ctx.node = node
        token = operands[0].new_zeros(())
        ctx.gathered = token.gathered = {}  # type: ignore[attr-defined]
        return token

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        gathered = {position: _leaf(g, False) for position, g in ctx.gathered.items()}
        ctx.gathered.clear()
        with grad_mode(False):
            found = ctx.node.primitive.gradients(gathered, ctx.node)
        return None, *(None if g is None else to_theirs(wrap(g)) for g in found)


class _Part(torch.autograd.Function):
    """One of these results: its value, and the token that `_Meet` gives."""

    @staticmethod
    def forward(ctx: Any, position: int, value: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
        ctx.position, ctx.gathered = position, token.gathered  # type: ignore[attr-defined]
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (g,) = grads
        before = ctx.gathered.get(ctx.position)
        ctx.gathered[ctx.position] = g if before is None else before + g
        return None, None, g.new_zeros(())


def _leaf(value: torch.Tensor, requires_grad: bool) -> Node:
    dtype = parse_dtype(str(value.dtype).removeprefix("torch."))
    node = Node(Stored(), (), tuple(value.shape), dtype, NAME, requires_grad)
    node.storage = _stored(value.detach().contiguous())
    return node


register_device(NAME, TorchDevice)
