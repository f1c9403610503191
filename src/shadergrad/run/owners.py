"""Finds the tensor to which a captured node's value belongs, and the tensors with histories from which a node is computed."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import CompileError
from ..graph.node import Node, resolve, topological
from ..tensor import Tensor
from ..tensor.storage import Base, Leaf
from ..tensor.storage import Storage as SharedStorage


def shown_by(node: Node, began: int) -> Tensor | None:
    """The tensor whose value a captured node is, if there is one.

    Sharing that began in the capture has been undone: then it is the tensor that was shared first.
    """
    owner = None if node.owner is None else node.owner()
    tensor = None
    if isinstance(owner, Leaf):
        tensor = owner.tensor()
        owner = None if owner.storage is None else owner.storage()
    if isinstance(owner, SharedStorage):
        return Tensor._all_of(owner) if owner._serial <= began else owner.tensor()
    if tensor is None:
        tensor = owner.tensor() if isinstance(owner, Base) else owner
    return tensor


def shows(tensor: Tensor, node: Node) -> bool:
    """Whether a node is the value of a tensor: that of a view also where its history was used up, which it follows anew."""
    shared = tensor._shared
    if shared is not None and tensor._seen == shared.storage.version and resolve(tensor._current) is resolve(node):
        return True
    return resolve(tensor._node).storage is node.storage


def read_with_history(ends: Sequence[Node], made: Sequence[Node], known: Sequence[Tensor], began: int) -> list[Tensor]:
    """The tensors of before, but for the `known` ones, that nodes depend on with gradients; what these were made of is not looked at.
    made: what was recorded since; began: since then tensors have higher serial numbers.

    Raises CompileError where the value that was read is no tensor's any more.
    """
    ours = {id(n) for n in made}
    over = {id(t) for t in known}
    stops = {id(t._node) for t in known}
    found: dict[int, Tensor] = {}

    def before(node: Node) -> list[Node]:
        if id(node) in stops:
            return []
        if id(node) in ours:
            return [i for i in node.inputs if i.requires_grad]
        tensor = shown_by(node, began)
        if tensor is None or not shows(tensor, node):
            raise CompileError(
                "a compiled module read a tensor that was made outside of it with gradients recorded, and changed it: the gradient "
                "of what it was has no place to go. Hint: give it to the module as an argument."
            )
        if tensor._serial <= began and id(tensor) not in over:
            found.setdefault(id(tensor), tensor)
        return []

    topological(ends, before)
    return list(found.values())
