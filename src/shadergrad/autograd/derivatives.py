"""sg.autograd.grad: derivatives of recorded tensors, returned instead of stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, overload

from ..arguments import checked
from ..errors import AutogradError
from ..graph import autodiff, build
from ..tensor import Tensor, cotangent, leaf_of, mark_as_siblings, note_flag, tensors_of


class GradArgumentError(AutogradError, ValueError):
    """Arguments of `grad` or `gradcheck` that contradict each other."""


@overload
def grad(
    outputs: Tensor | Iterable[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: Literal[False] | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: Tensor | Iterable[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...
@checked
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """d(sum of outputs . grad_outputs) / d(inputs), without touching .grad: a tuple of the inputs' shapes.

    grad_outputs: a cotangent for each output; None stands for 1 if the output has one element.
    allow_unused: return None for an input that the outputs do not depend on;
    materialize_grads: return zeros for it.
    create_graph: the result can be differentiated again;
    retain_graph: the outputs can. only_inputs must be True.
    Raises AutogradError for an input that does not require grad or does not affect the outputs, ShapeError or DTypeError for a
    cotangent that does not fit.

    >>> x = sg.tensor([1.0, 2.0], requires_grad=True)
    >>> sg.autograd.grad((x * x).sum(), x)
    (tensor([2., 4.]),)
    """
    outs, ins = tensors_of(outputs, "grad", "outputs"), tensors_of(inputs, "grad", "inputs")
    is_one = isinstance(grad_outputs, Tensor) or not isinstance(
        grad_outputs, Iterable
    )  # tensors are iterable, but for 0-d ones
    given: list[Any] = [grad_outputs] * len(outs) if is_one else list(grad_outputs)
    if len(given) != len(outs):
        raise AutogradError(f"[grad] got {len(outs)} outputs and {len(given)} grad_outputs.")
    if not only_inputs:
        raise GradArgumentError("only_inputs=False is not there, nor in PyTorch. Hint: use backward().")
    if not ins:
        raise AutogradError("`inputs` argument to `grad()` cannot be empty.")
    if materialize_grads and allow_unused is False:
        raise GradArgumentError("Expected allow_unused to be True or not passed when materialize_grads=True.")
    for x in ins:
        if not x.requires_grad:
            raise AutogradError("One of the differentiated Tensors does not require grad")
        note_flag(x)
    targets = [x._node for x in ins]  # of views other nodes, once their history is used up
    found = autodiff.backward(
        [o._node for o in outs],
        [cotangent(o, g) for o, g in zip(outs, given, strict=True)],
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        targets=targets,
        leaf_of=leaf_of,
    )
    result: list[Tensor | None] = []
    for k, x in enumerate(ins):
        pair = found.get(id(targets[k]))
        if pair is not None:
            result.append(Tensor._of(pair[1]))
        elif materialize_grads:
            result.append(Tensor._of(build.like(x._node, 0)))
        elif allow_unused:
            result.append(None)
        else:
            raise AutogradError(
                f"The differentiated Tensor at index {k} appears to not have been used in the graph. Set allow_unused=True if "
                "this is the desired behavior."
            )
    mark_as_siblings(result)
    return tuple(result)
