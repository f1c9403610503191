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

    Sharing that began during the capture has been undone; then it is the tensor that was shared first.
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
    """Whether a node is the value of a tensor, even if the tensor is a view whose history was freed and whose value is derived again."""
    shared = tensor._shared
    if shared is not None and tensor._seen == shared.storage.version and resolve(tensor._current) is resolve(node):
        return True
    return resolve(tensor._node).storage is node.storage


def read_with_history(ends: Sequence[Node], made: Sequence[Node], known: Sequence[Tensor], began: int) -> list[Tensor]:
    """The tensors from before, except the `known` ones, on which nodes depend with gradients; their own histories are not followed.
    made: the nodes recorded since; began: tensors made since then have higher serial numbers.

    Raises CompileError if no tensor has the value any more.
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
