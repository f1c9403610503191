"""The graph of operations, hooks on several gradients, saved tensors, and decorators of mixed precision. As PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from helpers import assert_close

LIBRARIES = pytest.mark.parametrize("lib", [sg, torch], ids=["shadergrad", "torch"])
pytestmark = pytest.mark.filterwarnings("ignore:saved_tensors_hooks sees", "ignore:save_on_cpu moves nothing")


def several(lib: Any, mode: str) -> list[Any]:
    a, b = lib.full((2,), 2.0).requires_grad_(), lib.full((2,), 3.0).requires_grad_()
    c, d = a * b, a * 2
    log: list[Any] = []

    def note(grads: Any) -> None:
        log.append(grads.tolist() if mode == "any" else [None if g is None else g.tolist() for g in grads])

    handle = lib.autograd.graph.register_multi_grad_hook((a, b, c, d), note, mode=mode)
    c.sum().backward(retain_graph=True)
    c.sum().backward(inputs=(a,), retain_graph=True)
    d.sum().backward(retain_graph=True)
    if mode == "any":  # which PyTorch does not support of leaves with "all"
        lib.autograd.grad((c * d).sum(), [a, b], retain_graph=True)
    handle.remove()
    c.sum().backward()
    return log


@pytest.mark.parametrize("mode", ["all", "any"])
def test_a_hook_on_several_gradients_is_pytorchs(mode: str) -> None:
    assert several(sg, mode) == several(torch, mode)


def test_a_hook_on_several_gradients_within_a_compiled_step(device: str) -> None:
    a = sg.ones(2, device=device, requires_grad=True)
    b = sg.ones(2, device=device, requires_grad=True)
    total = sg.zeros(2, device=device)

    def add(grads: Any) -> None:
        total.add_(grads[0] + grads[1])

    sg.autograd.graph.register_multi_grad_hook([a, b], add)
    step = sg.compile(lambda x: (a * b * x).sum().backward())
    for _ in range(3):
        step(sg.full((2,), 2.0, device=device))
    assert_close(total, [12.0, 12.0], 0, 0)


@LIBRARIES
def test_nodes_and_edges(lib: Any) -> None:
    graph = lib.autograd.graph
    x = lib.ones(2, requires_grad=True)
    y = x * 2
    assert isinstance(y.grad_fn, graph.Node)
    assert y.grad_fn.name().startswith("MulBackward")
    edge = graph.get_gradient_edge(y)
    assert (type(edge), edge.output_nr) == (graph.GradientEdge, 0)
    assert edge.node == y.grad_fn
    (found,) = lib.autograd.grad((y * y).sum(), edge)
    assert found.tolist() == [4.0, 4.0]
    (x * 3).sum().backward(inputs=[graph.get_gradient_edge(x)])
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="gradient edge"):
        graph.get_gradient_edge(lib.ones(1))
    with pytest.raises(ValueError, match="Expects mode"):
        graph.register_multi_grad_hook([x], print, mode="some")


def squared(lib: Any) -> Any:
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x, None)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * ctx.saved_tensors[0] * g

    return Square


@LIBRARIES
def test_what_functions_save_is_packed(lib: Any) -> None:
    log: list[Any] = []

    def pack(t: Any) -> Any:
        log.append("pack")
        return [v * 10 for v in t.tolist()]

    def unpack(values: Any) -> Any:
        log.append("unpack")
        return lib.tensor(values)

    x: Any = lib.tensor([3.0], requires_grad=True)
    with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = squared(lib).apply(x)
    y.sum().backward()
    assert x.grad.tolist() == [60.0]
    assert log == ["pack", "unpack"]
    with (
        lib.autograd.graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        lib.autograd.graph.saved_tensors_hooks(pack, unpack),
    ):
        pass
    with lib.autograd.graph.save_on_cpu():
        z = squared(lib).apply(x)
    x.grad = None
    z.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0]


@LIBRARIES
def test_written_tensors_keep_their_gradients_where_allowed(lib: Any) -> None:
    x = lib.full((2,), 3.0).requires_grad_()
    with lib.autograd.graph.allow_mutation_on_saved_tensors() as context:
        y = x * 1
        z = y * y
        with lib.no_grad():
            y.mul_(0)
        z.sum().backward()
        context.clear()
    assert x.grad.tolist() == [6.0, 6.0]


@LIBRARIES
def test_decorators_of_mixed_precision(lib: Any) -> None:
    class Double(lib.autograd.Function):
        @staticmethod
        @lib.amp.custom_fwd(device_type="cpu", cast_inputs=lib.float32)
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        @lib.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = lib.ones(1, requires_grad=True)
    y = Double.apply(x)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([2.0], [2.0])
    with pytest.raises(ValueError, match="device_type"):
        lib.amp.custom_fwd(device_type=3)


def test_what_has_no_effect_warns_once() -> None:
    sg.autograd.graph._said.clear()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            with sg.autograd.graph.save_on_cpu():
                pass
    assert len(told) == 1


def test_decorators_by_their_older_names() -> None:
    class Double(sg.autograd.Function):
        @staticmethod
        @sg.cuda.amp.custom_fwd(cast_inputs=sg.float32)
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        @sg.cuda.amp.custom_bwd
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = sg.ones(1, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0]


def _course(lib: Any, device: str, compile: Any, put: Any) -> list[Any]:
    """The gradients of two leaves, where `put` places hooks on operations."""
    x = lib.tensor([0.5, -1.0, 2.0], device=device, requires_grad=True)
    y = lib.tensor([1.5, 1.0, -2.0], device=device, requires_grad=True)

    def step() -> None:
        product = x * y
        made = product.exp() + x.detach() * y
        put(product, made)
        made.sum().backward()

    compile(step)()
    return [x.grad.cpu().tolist(), y.grad.cpu().tolist()]


HOOKS: dict[str, Any] = {
    "none": lambda product, made: None,
    "sees": lambda product, made: product.grad_fn.register_hook(lambda ins, outs: None),
    "replaces the operands'": lambda product, made: product.grad_fn.register_hook(lambda ins, outs: (ins[0] * 2, ins[1] * outs[0])),
    "one after another": lambda product, made: [product.grad_fn.register_hook(lambda ins, outs: tuple(g + 1 for g in ins)) for _ in range(2)],
    "replaces the result's": lambda product, made: product.grad_fn.register_prehook(lambda outs: (outs[0] * 3,)),
    "both": lambda product, made: (
        product.grad_fn.register_prehook(lambda outs: (outs[0] * 3,)),
        product.grad_fn.register_hook(lambda ins, outs: tuple(g * outs[0] for g in ins)),
    ),
    "is taken out": lambda product, made: product.grad_fn.register_hook(lambda ins, outs: (ins[0] * 2, ins[1])).remove(),
}  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True], ids=["uncompiled", "compiled"])
@pytest.mark.parametrize("name", HOOKS)
def test_hooks_on_operations_change_what_pytorchs_do(name: str, compiled: bool, device: str) -> None:
    expected = _course(torch, "cpu", lambda f: f, HOOKS[name])
    np.testing.assert_allclose(
        _course(sg, device, sg.compile if compiled else lambda f: f, HOOKS[name]), expected, 1e-5, 1e-6
    )


def test_hooks_on_operations_see_none_for_operands_without_gradients() -> None:
    for lib in (sg, torch):
        x, seen = lib.tensor([2.0], requires_grad=True), []
        product = x * lib.tensor([3.0])
        product.grad_fn.register_hook(lambda ins, outs, seen=seen: seen.extend([*ins, *outs]))
        product.backward()
        assert [None if g is None else g.tolist() for g in seen] == [[3.0], None, [1.0]]


def test_hooks_on_leaves_run_when_the_gradient_is_there() -> None:
    for lib in (sg, torch):
        x, seen = lib.tensor([2.0], requires_grad=True), []
        leaf = x.view_as(x).grad_fn.next_functions[0][0]
        assert leaf.variable is x
        handle = leaf.register_hook(
            lambda ins, outs, x=x, seen=seen: seen.append((ins, outs[0].tolist(), x.grad.tolist()))
        )
        (x * 3).backward()
        assert seen == [((), [3.0], [3.0])]
        handle.remove()
        (x * 3).backward()
        assert len(seen) == 1


def test_a_hook_that_gives_too_few_gradients_is_refused() -> None:
    x = sg.tensor([2.0], requires_grad=True)
    product: Any = x * x
    product.grad_fn.register_hook(lambda ins, outs: (ins[0],))
    with pytest.raises(sg.ShadergradError, match="returned 1 gradients for 2 operands"):
        product.backward()
