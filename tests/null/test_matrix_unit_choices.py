"""Which products go to matrix units, and that their kernels are WGSL to Dawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from test_simplify import Graph, wide

import shadergrad as sg
from dawn_front_end import FrontEnd
from shadergrad.compile import convolution_on_units, matrix_units
from shadergrad.compile.pipeline import compile_graph
from shadergrad.compile.products import Product
from shadergrad.compile.rewrite import Rewriter
from shadergrad.dtypes import float16
from shadergrad.graph.capture import Capture
from shadergrad.graph.node import make, topological
from shadergrad.plan import Kernel, Plan
from shadergrad.primitives.window import Conv
from shadergrad.target import PORTABLE, ROWS, Matrices, Target
from shadergrad.tensor import flush

UNITS = (
    Matrices(16, 16, 16, "f16", "f16"),
    Matrices(16, 16, 16, "f16", "f32"),
    Matrices(16, 8, 16, "f16", "f32"),
    Matrices(16, 16, 32, "i8", "i32"),
)
SERVER = Target(
    "wgsl", 64, 1024, 49152, 65535, 1 << 31, traits=ROWS["discrete"], f16=True, subgroups=(32, 32), matrices=UNITS
)


def half(*shape: int) -> Any:
    return sg.tensor(np.ones(shape, np.float16), device="cpu")


def products(call: Callable[[], Any], target: Target = SERVER) -> list[Kernel]:
    """The kernels of products in the plan of what `call` computes."""
    flush(views=True)
    found = call()
    nodes = [t._node for t in (found if isinstance(found, tuple) else (found,))]
    plan = compile_graph(Capture(nodes).graph(), target)[0]
    return [k for k in plan.kernels if k.archetype == "dot"]


def on_units(kernel: Kernel) -> bool:
    return "enable chromium_experimental_subgroup_matrix;" in kernel.source


HALVES: dict[str, Callable[[], Any]] = {
    "of float16": lambda: half(256, 256) @ half(256, 256),
    "with sums in float32": lambda: half(256, 256).float() @ half(256, 256).float(),
    "of float32 under autocast": lambda: sg.tensor(np.ones((256, 256), np.float32)).to(sg.float16) @ half(256, 256),
    "in parts": lambda: half(128, 16384) @ half(16384, 128),
    "a convolution": lambda: sg.nn.functional.conv2d(half(8, 64, 16, 16), half(64, 64, 3, 3), padding=1),
    "a convolution of float32 weights": lambda: sg.nn.functional.conv2d(
        half(8, 64, 16, 16), sg.tensor(np.ones((64, 64, 3, 3), np.float32)).to(sg.float16), stride=2
    ),
    "both gradients of a layer": lambda: (half(512, 256) @ half(256, 512), half(512, 256).T @ half(512, 512)),
}
OTHERS: dict[str, Callable[[], Any]] = {
    "float32": lambda: sg.tensor(np.ones((256, 256), np.float32)) @ sg.tensor(np.ones((256, 256), np.float32)),
    "bfloat16": lambda: half(256, 256).bfloat16() @ half(256, 256).bfloat16(),
    "one operand of bfloat16": lambda: half(256, 256).float() @ half(256, 256).bfloat16().float(),
    "few rows": lambda: half(4, 2048) @ half(2048, 2048),
    "few multiplications": lambda: half(64, 64) @ half(64, 64),
    "a convolution of three channels": lambda: sg.nn.functional.conv2d(half(64, 3, 16, 16), half(64, 3, 3, 3)),
    "a convolution of groups": lambda: sg.nn.functional.conv2d(half(64, 64, 16, 16), half(64, 16, 3, 3), groups=4),
    "a small convolution": lambda: sg.nn.functional.conv2d(half(2, 16, 8, 8), half(16, 16, 3, 3)),
}


@pytest.mark.parametrize("name", HALVES)
def test_products_of_float16_go_to_matrix_units(name: str) -> None:
    kernels = products(HALVES[name])
    assert kernels
    assert all(map(on_units, kernels))


@pytest.mark.parametrize("name", OTHERS)
def test_other_products_do_not(name: str) -> None:
    kernels = products(OTHERS[name])
    assert kernels
    assert not any(map(on_units, kernels))


@pytest.mark.parametrize(
    "target",
    [
        PORTABLE,
        replace(PORTABLE, f16=True, subgroups=(32, 32), matrices=UNITS),  # a browser
        replace(SERVER, f16=False),
        replace(SERVER, matrices=()),
        replace(SERVER, matrices=(UNITS[0], UNITS[3])),
        replace(SERVER, subgroups=(4, 128)),
        replace(SERVER, max_workgroup_invocations=64),
        replace(SERVER, max_workgroup_storage=8192),
    ],
    ids=["portable", "browser", "no float16", "none", "other types", "sizes of subgroups", "threads", "memory"],
)
def test_targets_without_such_units_have_other_kernels(target: Target) -> None:
    assert not any(map(on_units, products(HALVES["of float16"], target)))


def test_tiles_fit_the_memory_of_a_workgroup() -> None:
    for most in (16384, 32768, 49152):
        (kernel,) = products(lambda: half(2048, 2048) @ half(2048, 2048), replace(SERVER, max_workgroup_storage=most))
        declared = re.findall(r"var<workgroup> \w+: array<(.*), (\d+)>", kernel.source)
        size = {"vec4<u32>": 16, "vec4<f32>": 16}
        assert on_units(kernel)
        assert sum(size[kind] * int(count) for kind, count in declared) <= most


SIZES = ((256, 384, 512), (260, 516, 132), (257, 259, 261), (260, 259, 512))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_dawn_takes_kernels_for_matrix_units(sizes: tuple[int, int, int]) -> None:
    """Of all transposes, for units of both shapes, and with what follows a product."""
    m, n, k = sizes
    texts = []
    for a_turned, b_turned, of_float32 in product((False, True), (False, True), (True, False)):

        def call(a_turned: bool = a_turned, b_turned: bool = b_turned) -> Any:
            a, b = half(*((k, m) if a_turned else (m, k))), half(*((n, k) if b_turned else (k, n)))
            y = (a.T if a_turned else a) @ (b.T if b_turned else b)
            return (y + half(n)).relu() * half(m, n)

        target = SERVER if of_float32 else replace(SERVER, matrices=UNITS[2:])
        texts += [kernel.source for kernel in products(call, target)]
    assert all("subgroupMatrixLoad" in text for text in texts)
    assert not FrontEnd().refused(texts)


def test_products_of_one_dispatch_share_tiles() -> None:
    """One with loads of 16 bytes beside one whose rows allow single elements only."""
    (kernel,) = products(lambda: (half(512, 256) @ half(256, 512), half(512, 255).T @ half(512, 511)))
    assert on_units(kernel)
    assert kernel.source.count("var<workgroup> tile_a") == 1
    assert not FrontEnd().refused([kernel.source])


def test_an_operand_of_halves_is_seen_through_views() -> None:
    x = half(64, 32)
    cast = (x.T.float()[4:])._node
    found = matrix_units.half_behind(cast, lambda n: n.storage is not None)
    assert found is not None
    assert matrix_units.buffer_behind(found, lambda n: n.storage is not None) is x._node


def test_weights_are_cast_once_for_all_products() -> None:
    """The halves of a float32 weight go to memory in one kernel, which the products of both passes read."""
    flush(views=True)
    w = sg.tensor(np.ones((256, 512), np.float32), requires_grad=True)
    with sg.autocast("cpu", dtype=sg.float16):
        y = sg.nn.functional.linear(half(320, 512).requires_grad_(), w)
        (found,) = sg.autograd.grad(y.float().sum(), w)
    kernels = products(lambda: (y, found, y @ w.to(sg.float16)))
    assert all(map(on_units, kernels))
    assert not any(
        "sg_words_float16(v" in k.source.partition("workgroupBarrier")[2].partition("Multiply")[0] for k in kernels
    )


def step_of_words(words: int) -> Plan:
    """The forward and backward pass of a layer with logits for so many words."""
    flush(views=True)
    w = sg.tensor(np.ones((words, 256), np.float32), requires_grad=True)
    x = half(512, 256).requires_grad_()
    with sg.autocast("cpu", dtype=sg.float16):
        loss = sg.nn.functional.cross_entropy(sg.nn.functional.linear(x, w), sg.tensor(np.zeros(512, np.int32)))
    found = [loss, *sg.autograd.grad(loss, (x, w))]
    return compile_graph(Capture([t._node for t in found]).graph(), replace(SERVER, converts_halves=True))[0]


@pytest.mark.parametrize("words", [1001, 1004, 1007])
def test_rows_that_eight_does_not_divide_are_padded_where_they_are_computed(words: int) -> None:
    """Without a dispatch more: logits, their slopes, and the halves of the weight."""
    plan, whole = step_of_words(words), step_of_words(1008)
    assert [plan.kernels[d.kernel].name for d in plan.dispatches] == [
        whole.kernels[d.kernel].name for d in whole.dispatches
    ]
    dots = [k for k in plan.kernels if k.archetype == "dot"]
    assert all(on_units(k) and "loads of 8 and 8" in k.choice for k in dots)
    of_rows = [d for d in plan.dispatches if any(plan.buffers[row].shape == (512, 1008) for row in d.buffers)]
    assert len(of_rows) == 5
    assert not any("atomic" in plan.kernels[d.kernel].source for d in of_rows)
    assert sum(k.nbytes for k in plan.kernels) <= sum(k.nbytes for k in whole.kernels)
    assert not FrontEnd().refused(k.source for k in plan.kernels)


def test_rows_are_not_padded_for_other_targets() -> None:
    flush(views=True)
    x = (half(64, 64) @ half(64, 51)).relu()
    y = x @ half(51, 64)
    for target in (PORTABLE, replace(SERVER, f16=False)):
        plan = compile_graph(Capture([y._node]).graph(), target)[0]
        assert not any(spec.shape[-1:] == (56,) for spec in plan.buffers)


def test_results_are_not_padded() -> None:
    """A value that is given back keeps its rows, though a product reads it."""
    flush(views=True)
    x = (half(512, 256) @ half(256, 1001)).relu()
    y = x @ sg.tensor(np.ones((1001, 256), np.float32)).to(sg.float16)
    plan = compile_graph(Capture([x._node, y._node]).graph(), SERVER)[0]
    assert not any(1008 in spec.shape for spec in plan.buffers)


def test_conversions_by_the_device_are_valid() -> None:
    target = replace(SERVER, converts_halves=True)
    flush(views=True)
    found = [(half(2048).float() * 3).half(), half(256, 256) @ half(256, 256)]
    plan = compile_graph(Capture([t._node for t in found]).graph(), target)[0]
    texts = [k.source for k in plan.kernels]
    assert all("pack2x16float" in text and "hidden_zero = wid.z;" in text for text in texts)
    assert not FrontEnd().refused(texts)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(768, 768, 2048), (2048, 768, 50257), (128, 128, 100_000), (4096, 4096, 4096)]
)
def test_contractions_are_cut_in_whole_steps(m: int, n: int, k: int) -> None:
    sizes = Product(1, m, n, k, k, 1, 1)
    chunk = matrix_units.chunk_of(sizes, SERVER)
    assert chunk == k or (chunk % 64 == 0 and chunk < k)
    assert (chunk < k) is (m * n < 128 * 128 * SERVER.traits.costs.cores)


def test_weights_become_halves_in_one_dispatch() -> None:
    weights = [sg.tensor(np.ones((256, 256), np.float32)) for _ in range(6)]
    flush(views=True)
    x = half(320, 256)
    for w in weights:
        x = (x @ w.to(sg.float16)).relu()
    plan = compile_graph(Capture([x._node]).graph(), SERVER)[0]
    kinds = [plan.kernels[d.kernel].archetype for d in plan.dispatches]
    assert kinds == ["map"] + ["dot"] * 6


def test_scaled_gradients_are_stored_once() -> None:
    """Unscaled, in float32. Where the halves of a long contraction's sum were stored as well, rows shared words."""
    flush(views=True)
    w = sg.tensor(np.ones((256, 512), np.float32), requires_grad=True)
    scaler, optimizer = sg.amp.GradScaler("cpu"), sg.optim.SGD([w], lr=0.1)
    with sg.autocast("cpu", dtype=sg.float16):
        y = sg.nn.functional.linear(half(8192, 512), w)
    scaler.scale(y.float().sum()).backward()
    scaler.unscale_(optimizer)
    assert w.grad is not None
    plan = compile_graph(Capture([scaler._found[optimizer]._node, w.grad._node]).graph(), SERVER)[0]
    assert not any(b.dtype is float16 and b.size == w.size for b in plan.buffers if b.role == "temporary")
    assert not any("array<atomic<u32>>" in k.source for k in plan.kernels)


def test_small_maps_of_inputs_run_beside_the_casts_of_weights() -> None:
    """As an optimizer's bias corrections do. A map of a result runs after it."""
    weight, steps = sg.tensor(np.ones((256, 256), np.float32)), sg.tensor(np.ones(2, np.float32))
    flush(views=True)
    y = half(320, 256) @ weight.to(sg.float16)
    scale = (steps * 0.5).exp().sin()
    scaled, shifted = y.float().sum((0, 1)).exp().sin(), (y.float().sum(0).reshape(8, 32) * scale[0]).T.contiguous()
    plan = compile_graph(Capture([t._node for t in (scale, scaled, shifted)]).graph(), SERVER)[0]
    kinds = [plan.kernels[d.kernel].archetype for d in plan.dispatches]
    assert kinds[:2] == ["map", "dot"]
    assert plan.outputs[0] in plan.dispatches[0].buffers
    assert not {*plan.outputs[1:]} & {*plan.dispatches[0].buffers}


@pytest.mark.parametrize(
    ("x", "w", "conv"),
    [
        ((1, 2, 32, 8, 9), (1, 40, 32, 3, 3), Conv((1, 1), (1, 1), (1, 1), (1, 1))),
        ((1, 2, 32, 9, 9), (1, 32, 32, 3, 2), Conv((2, 1), (1, 2), (1, 0), (0, 2))),
        ((1, 2, 32, 8, 8), (1, 32, 32, 2, 2), Conv((1, 1), (1, 1), (-1, 0), (0, -2))),
        ((1, 32, 4, 8, 8), (1, 40, 4, 8, 8), Conv((1, 1), (1, 1), (1, 1), (1, 1))),
        ((1, 32, 4, 9, 9), (1, 32, 4, 4, 4), Conv((1, 1), (2, 2), (1, 0), (0, 1))),
    ],
    ids=["forward", "with steps", "cut", "weight gradient", "weight gradient of steps"],
)
def test_convolutions_become_products_of_the_same_value(
    x: tuple[int, ...], w: tuple[int, ...], conv: Conv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over copies with channels last."""
    monkeypatch.setattr(matrix_units, "SMALLEST", 1)
    monkeypatch.setattr(matrix_units, "LEAST", 1)
    graph = Graph()
    before = make(conv, *(wide(graph.input(*shape, dtype=float16)) for shape in (x, w)))
    rules = convolution_on_units.RULES
    after = Rewriter(rules, "cpu", SERVER).rewrite([before])[id(before)]
    names = {n.primitive.name for n in topological([after], lambda n: n.inputs)}
    assert {"dot", "channelslast"} <= names
    assert "conv" not in names
    np.testing.assert_allclose(graph.evaluate(after), graph.evaluate(before), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("batch", "size", "target"),
    [(4, 33, SERVER), (2, 16, replace(SERVER, max_binding_bytes=1 << 20))],
    ids=["mostly zeros", "beyond a binding"],
)
def test_images_are_not_copied_with_too_many_zeros(batch: int, size: int, target: Target) -> None:
    """Which windows of distant elements need around them."""
    graph = Graph()
    x, w = (wide(graph.input(*shape, dtype=float16)) for shape in ((1, batch, 64, size, size), (1, 64, 64, 3, 3)))
    around = (36, 36)
    before = make(Conv((1, 1), around, around, around), x, w)
    after = Rewriter(convolution_on_units.RULES, "cpu", target).rewrite([before])[id(before)]
    assert "channelslast" not in {n.primitive.name for n in topological([after], lambda n: n.inputs)}
