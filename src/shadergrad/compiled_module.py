"""sg.compile of a function (one submission, run/step.py), or of a module (one submission for each of its two passes).

A compiled module works in any training loop: its results have a history. While its forward pass is captured, the backward pass is
recorded, too, for placeholder cotangents. Values of the forward pass that the backward pass needs become further results of the forward
plan; the backward pass is a plan of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar, Unpack, overload

from . import cpython, symbolic_sizes
from .arguments import checked, refuse
from .autograd import Function, once_differentiable
from .drive import execute
from .drive.tracing import current
from .errors import ArgumentError, CompileError
from .graph import autodiff
from .graph import node as nodes
from .graph.capture import Capture
from .graph.node import Node, grad_mode, mode, resolve, topological
from .nn import Module
from .run.anomalies import checked_for_nan
from .run.capture import newest
from .run.owners import read_with_history
from .run.step import CompiledStep
from .run.trees import exchange, tensors_in
from .runtime.device import Program
from .tensor import Tensor, flush

P = ParamSpec("P")
R = TypeVar("R")

MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
# the origin of a module's result: the number of an argument, one of these two, or None for a value without gradients or from outside
Source = int | None
HISTORY, LEAF = -1, -2
Origin = tuple[Literal["cotangent", "value", "saved"], int]  # whose value an input of a backward plan is


class BackwardPass:
    """What one capture of a forward pass leaves for the way back.

    roots: the results that have a history. wanted: what gradients are asked for. values: the tensors whose nodes are at
    hand in every call, parameters, buffers and arguments.
    """

    def __init__(self, roots: list[Tensor], wanted: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        ends = [r._node for r in roots]
        cotangents = [_like(node) for node in ends]
        targets = [t._node for t in wanted]
        found = autodiff.backward(ends, cotangents, retain_graph=True, targets=targets, through=False)
        self._reached = [id(t) in found for t in targets]
        self._origins: dict[int, Origin] = {id(g.storage): ("cotangent", k) for k, g in enumerate(cotangents)}
        for k, t in enumerate(values):
            if t._node.storage is not None:
                self._origins.setdefault(id(t._node.storage), ("value", k))
        self._family = symbolic_sizes.follows  # of the capture
        self._program: Program | None = None
        self._capture: Capture | None = None
        self._sources: list[Any] = []
        self._saved: list[Tensor] = []
        self._gradients = self._cut([found[id(t)][1] for t in targets if id(t) in found], ends)

    def _cut(self, gradients: list[Node], ends: list[Node]) -> list[Node]:
        """The gradients, with leaves in place of what the forward pass computed. Its views are taken again."""
        forward = {id(n) for n in topological(ends, lambda n: n.inputs)}

        def is_saved(node: Node) -> bool:
            if node.storage is not None:
                return id(node) in forward and id(node.storage) not in self._origins
            return id(node) in forward and node.primitive.kind not in ("view", "source")

        def inputs_of(node: Node) -> tuple[Node, ...]:
            return () if node.storage is not None or is_saved(node) else tuple(map(resolve, node.inputs))

        made: dict[int, Node] = {}
        for node in topological(map(resolve, gradients), inputs_of):
            if is_saved(node):
                made[id(node)] = _like(node)
                self._origins[id(made[id(node)].storage)] = ("saved", len(self._saved))
                self._saved.append(Tensor._of(node))
            elif node.storage is not None:
                made[id(node)] = nodes.leaf(node.storage, node.shape, node.dtype, node.device)
            else:
                inputs = tuple(made[id(resolve(i))] for i in node.inputs)
                made[id(node)] = Node(node.primitive, inputs, node.shape, node.dtype, node.device)
                made[id(node)].origin = node.origin
        return [made[id(resolve(g))] for g in gradients]

    def saved(self) -> list[Tensor]:
        """What the forward plan has to give besides; to be asked for once, for nobody else may keep it."""
        saved, self._saved = self._saved, []
        return saved

    def run(self, given: dict[str, list[Node]]) -> list[Tensor | None]:
        """Gradients of what they are wanted of, None where none leads there. given: the values by kind of origin."""
        if not self._gradients:
            return [None] * len(self._reached)
        flush(views=True)  # the loss and its slope, in one plan
        with execute.lock:
            execute.realize(given["cotangent"])
            if self._program is None:
                self._capture = Capture(self._gradients)
                with symbolic_sizes.following(self._family):
                    self._program = execute.programs.get(self._capture)[0]
                self._sources = [self._origins.get(id(s.storage), s.storage) for s in self._capture.sources]
            inputs = [given[s[0]][s[1]].storage if isinstance(s, tuple) else s for s in self._sources]
            assert self._capture is not None
            storages = execute.run_noted(self._program, self._capture, inputs)
        made = (
            Tensor._of(nodes.leaf(storage, symbolic_sizes.plain(g.shape), g.dtype, g.device))
            for storage, g in zip(storages, self._gradients, strict=True)
        )
        return [next(made) if reached else None for reached in self._reached]


def _like(node: Node) -> Node:
    """A leaf that stands for a value to come."""
    return nodes.leaf(object(), node.shape, node.dtype, node.device)


class _Passes(Function):
    """Both passes as one operation: of all that requires grad to the results that have a history."""

    @staticmethod
    def forward(ctx: Any, call: Callable[[], tuple[list[Tensor], Any]], *wanted: Tensor) -> Any:
        results, ctx.backward_of = call()
        return tuple(results)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, *ctx.backward_of([g._node for g in grads])


class CompiledModule(Module):
    """A module whose forward pass runs as one submission, and whose backward pass as another. `sg.compile` makes it.

    Parameters, buffers and submodules are those of the module, under `_orig_mod` as in PyTorch, and so are other
    attributes; train() and eval() reach it. Other shapes, training flags or plain attributes capture anew. Gradients of
    gradients raise AutogradError, as PyTorch's do.

    >>> model = sg.compile(nn.Linear(2, 1, bias=False))
    >>> sorted(model.state_dict())
    ['_orig_mod.weight']
    >>> model(sg.ones(3, 2)).sum().backward()
    >>> model.weight.grad
    tensor([[3., 3.]])
    """

    _orig_mod: Module

    def __init__(self, module: Module, dynamic: bool | None = None) -> None:
        super().__init__()
        self._orig_mod = module
        self._passes = CompiledStep(self._both, dynamic=dynamic)
        self._forward_alone = CompiledStep(module, dynamic=dynamic)
        self.training = module.training

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_orig_mod"), name)

    @property
    def captures(self) -> int:
        """How often the module was captured, with and without gradients."""
        return self._passes.captures + self._forward_alone.captures

    def train(self, mode: bool = True) -> Any:
        """Set the training flag, the module's too."""
        self._orig_mod.train(mode)
        return super().train(mode)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the module's, with a history where gradients are recorded."""
        if current.trace is not None or cpython.refuted:
            if cpython.refuted:
                cpython.warn_once(stacklevel=4)
            return self._orig_mod(*args, **kwargs)
        if mode.inspect is not None:
            return checked_for_nan(self._orig_mod, args, kwargs)
        if not mode.grad:
            return self._forward_alone(*args, **kwargs)
        given = [t for _, t in tensors_in((args, kwargs))]
        parameters = list(self._orig_mod.parameters())
        before = [t._node for t in (*parameters, *self._orig_mod.buffers(), *given)]
        plain, options = exchange((args, kwargs), Tensor, lambda t: t.detach())
        with grad_mode(False):
            result, saved, sources, flags, outside, backward = self._passes(
                tuple(t.requires_grad for t in given), plain, options
            )
        for t, flag in zip(given, flags, strict=True):
            if t.requires_grad != flag:  # the module set it
                t.requires_grad_(flag)
        results = [t for _, t in tensors_in(result)]
        computed = [t for t, source in zip(results, sources, strict=True) if source == HISTORY]
        wanted = [*(t for t in (*parameters, *given) if t.requires_grad), *outside]
        if computed and not wanted:  # leaves that the module made are all that there is
            wanted = [Tensor._of(computed[0]._node).requires_grad_()]
        known = {"value": [*before, *(t._node for t in outside)], "saved": [t._node for t in saved]}

        def call() -> tuple[list[Tensor], Any]:
            return computed, lambda cotangents: backward.run({"cotangent": cotangents, **known}) or [None]

        tracked = iter(_Passes.apply(call, *wanted) if computed else ())

        def as_outside(t: Tensor, source: Source) -> Tensor:
            if source == LEAF:
                return t.requires_grad_()
            return next(tracked) if source == HISTORY else t if source is None else given[source]

        replaced = iter([as_outside(t, source) for t, source in zip(results, sources, strict=True)])
        return exchange(result, Tensor, lambda _: next(replaced))

    def _both(self, flags: tuple[bool, ...], args: Any, kwargs: Any) -> Any:
        """What is captured: the module's results, what the backward pass needs, what each result is, which arguments require grad
        now, what else has gradients, made outside of the module, and the backward pass itself. flags: of the tensors among the
        arguments, whether they require grad."""
        requires = iter(flags)
        given: list[Tensor] = []

        def leaf(t: Tensor) -> Tensor:
            given.append(t.detach().requires_grad_(next(requires)))
            return given[-1]

        args, kwargs = exchange((args, kwargs), Tensor, leaf)
        parameters, buffers = list(self._orig_mod.parameters()), list(self._orig_mod.buffers())
        values = (*parameters, *buffers, *given)
        began = newest()
        if current.trace is not None:
            current.trace.keeps_histories = True
        with grad_mode(True):
            try:
                with nodes.nodes_of() as made:
                    result = self._orig_mod(*args, **kwargs)
            finally:
                _refuse_lost(given)
            if not mode.grad:
                raise CompileError(
                    "a compiled module set whether gradients are recorded, and left it so; later calls would not. Hint: set it "
                    "outside, or use a with block, as in `with sg.no_grad():`."
                )
            number = {id(t): k for k, t in enumerate(given)}
            results = [t for _, t in tensors_in(result)]
            sources = [_source(t, number, began) for t in results]
            roots = [t for t, source in zip(results, sources, strict=True) if source == HISTORY]
            _refuse_between(roots, [t for t, source in zip(results, sources, strict=True) if source == LEAF])
            outside = read_with_history([t._node for t in roots], made, values, began)
            wanted = [t for t in (*parameters, *given, *outside) if t.requires_grad]
            backward = BackwardPass(roots, wanted, (*values, *outside))
        own = {id(t) for t in roots}
        result = exchange(result, Tensor, lambda t: t.detach() if id(t) in own else t)
        return result, backward.saved(), tuple(sources), tuple(t.requires_grad for t in given), outside, backward


def _source(t: Tensor, number: dict[int, int], began: int) -> Source:
    """What a result is. number: of each argument, by id."""
    if id(t) in number:
        return number[id(t)]
    if not t.requires_grad or t._serial <= began:
        return None
    return LEAF if t.is_leaf else HISTORY


def _refuse_between(roots: Sequence[Tensor], leaves: Sequence[Tensor]) -> None:
    """Raise where results were made of leaves that are results, too."""
    reached = (
        topological([t._node for t in roots], lambda n: [i for i in n.inputs if i.requires_grad]) if leaves else []
    )
    if {id(n) for n in reached} & {id(t._node) for t in leaves}:
        raise CompileError(
            "a compiled module returned a leaf that it made, and what it computed of it, which would not lead back there. "
            "Hint: make the leaf outside, and give it as an argument."
        )


def _refuse_lost(given: Sequence[Tensor]) -> None:
    """Raise where a module did to an argument what only its stand-in shows."""
    trace = current.trace
    if trace is not None and any(id(t) in trace.grads or id(t) in trace.grad_reads for t in given):
        raise CompileError(
            "a compiled module read or set the .grad of an argument, by backward() or by hand, which it does not know. "
            "Hint: give back what autograd.grad makes, or compile the function that calls the module."
        )
    if any(t.requires_grad and not t.is_leaf for t in given):
        raise CompileError(
            "a compiled module wrote a value with a history into an argument, which would get none. Hint: return the value."
        )


class Options(TypedDict, total=False):
    """PyTorch's choices of how to compile."""

    fullgraph: bool
    dynamic: bool | None
    backend: str
    mode: str | None
    options: dict[str, Any] | None
    disable: bool


@overload
def compile(model: Module, **options: Unpack[Options]) -> CompiledModule: ...
@overload
def compile(model: None = None, **options: Unpack[Options]) -> Callable[[Callable[P, R]], CompiledStep[P, R]]: ...
@overload
def compile(model: Callable[P, R], **options: Unpack[Options]) -> CompiledStep[P, R]: ...
@checked
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str = "inductor",
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """Capture a function, or a module, on first use and replay it from then on, in one submission a call.

    A function may call backward() and optimizer steps, and change tensors in place; all of that happens on the
    device. It may not read values (item(), print, if tensor). Arguments: tensors, numbers, strings, containers; a new
    combination of shapes, dtypes and Python values captures anew, and so does a tensor that requires grad, or shares
    memory with what the function changes, and is not that of an earlier call. Raises CompileError where the function
    cannot be captured: there are no graph breaks, so fullgraph changes nothing.

    A module becomes a module, whose forward and backward passes are a submission each: CompiledModule. As a decorator
    with options, `@sg.compile(mode=...)`. mode: one of PyTorch's, all the same here. dynamic: whether a further size of an
    argument compiles no kernels: True, of its leading axis from the first call on; None, of an axis that was seen with a second
    size, or marked (`mark_dynamic`); False, never. docs/compile.md says what that costs. disable, or the backend "eager": gives the function as it is. Raises ArgumentError for another
    mode or backend, and for options.

    >>> w = sg.ones(2)
    >>> step = sg.compile(lambda x: w.add_(x))
    >>> step(sg.tensor([1.0, 2.0]))
    tensor([2., 3.])
    >>> w
    tensor([2., 3.])
    """
    if mode is not None and mode not in MODES:
        raise ArgumentError(f"[compile] Unrecognized mode={mode}, should be one of: {', '.join(MODES)}.")
    if backend not in ("inductor", "eager"):
        raise ArgumentError(
            f"[compile] Invalid backend: {backend!r}. Hint: there is one, leave it out; 'eager' compiles nothing."
        )
    if options:
        raise ArgumentError(f"[compile] Unexpected optimization option {next(iter(options))}: there are none.")
    if model is None:
        return lambda function: compile(function, dynamic=dynamic, backend=backend, disable=disable)
    if not callable(model):
        refuse("compile", "model", model, "a function or a module")
    if disable or backend == "eager":
        return model
    return CompiledModule(model, dynamic) if isinstance(model, Module) else CompiledStep(model, dynamic=dynamic)
