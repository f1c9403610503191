"""The errors for state that a captured function must not leave behind."""

from __future__ import annotations

from typing import Any

from ..drive.tracing import Trace
from ..errors import CompileError
from ..graph.leaves import Variable
from ..graph.node import Node
from ..tensor import Tensor
from .trees import leaves_of, tensors_in

OF_BUFFERS = {"persistent"}  # attributes that nn.Buffer sets itself


def refuse_marks(before: list[dict[str, Any]], given: list[Tensor], result: Any, left: Any, began: int) -> None:
    """Raises CompileError if the function set custom attributes on an argument, or on a new tensor that
    outlives it: a later call would not set them.
    """
    changed = {n for was, t in zip(before, given, strict=True) for n in was.keys() ^ t.__dict__.keys()}
    changed |= {
        n for was, t in zip(before, given, strict=True) for n in was if n in t.__dict__ and t.__dict__[n] is not was[n]
    }
    arguments = set(map(id, given))
    for _, t in tensors_in((result, left)):
        if id(t) not in arguments and t._serial > began:
            changed |= t.__dict__.keys() - OF_BUFFERS
    if changed:
        names = ", ".join(sorted(changed))
        raise CompileError(
            f"a compiled step sets attributes ({names}) of tensors that later calls make anew. Hint: return the values, or set them outside."
        )


def refuse_hooks(watch: Trace, stand_ins: dict[int, Tensor]) -> None:
    """Refuse hooks that a function leaves on a tensor: replays would not register further ones."""
    own = {id(t) for t in stand_ins.values()}
    left = (t for t, ids, *_ in watch.hooks.values() if id(t) not in own and t._hook_ids != ids)
    is_left = any(t._serial <= watch.began for t in left)
    if is_left or any(list(table) != list(was) for table, was in watch.tables.values()):
        raise CompileError(
            "a compiled step registered a hook, or removed one, and left it so: later calls would not. Hint: do it "
            "outside, or remove the hook before the step ends."
        )


def refuse_lost_histories(left: list[tuple[str, Tensor]], values: dict[int, Node]) -> None:
    """Refuse stored or changed tensors with a history: after a replay they would have their value, but no history."""
    for path, t in left:
        node = values[id(t)]
        if node.requires_grad and not isinstance(node.primitive, Variable):
            raise CompileError(
                f"a compiled module left a value with a history in {path}, where it would have none. Hint: return it, store its "
                "detach(), or compile the function that calls the module and backward()."
            )


def refuse_given_away(watch: Trace, returned: list[Tensor]) -> None:
    """Refuse a tensor whose memory was given to another (`p.data = t`): after a replay it would have memory of its own."""
    cells = {id(cell) for r in watch.given_away if (cell := r()) is not None}
    if any(id(t) in cells or (t._shared is not None and id(t._shared.storage) in cells) for t in returned):
        raise CompileError(
            "a compiled step set the data of a tensor to another that it returns or stores, and the two would not share "
            "memory. Hint: return a clone()."
        )


def refuse_hidden_tensors(result: Any, where: str) -> None:
    """Refuse tensors in objects of other kinds, which would keep the value of the first call for ever."""
    for path, leaf in leaves_of(result, where):
        within = leaf if isinstance(leaf, set | frozenset) else getattr(leaf, "__dict__", {}).values()
        if not isinstance(leaf, Tensor) and any(isinstance(v, Tensor) and v._node.storage is None for v in within):
            raise CompileError(
                f"{path} is a {type(leaf).__name__} that holds a tensor of this call, and a compiled step could not give it "
                "another one in the next. Hint: return tensors in tuples, lists, dicts, named tuples or dataclasses."
            )
