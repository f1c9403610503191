"""Steps in WebAssembly give the numbers of the cpu device: a part of the operator table with gradients, products of all sizes, two programs
on one state; what cannot be written so is refused, and a page falls back to plain JavaScript."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np
import pytest

import cases
import shadergrad as sg
import shadergrad.nn.functional as F
from chromium import as_numbers, blank_page, runtime_folder, served
from helpers import ATOL, RTOL, as_array, leaves_of, results_of
from shadergrad.compile.pipeline import compile_graph
from shadergrad.drive import execute
from shadergrad.graph.capture import Capture
from shadergrad.plan import Label
from shadergrad.runtime import llvm
from shadergrad.target import NUMPY
from shadergrad.web import wasm_step
from shadergrad.web.errors import WebError
from shadergrad.web.wasm_object import linked
from shadergrad.web.wasm_step import WasmStep

EVERY = 8
RUN = """async ([script, code, state]) => {
  const {load} = await import(URL.createObjectURL(new Blob([script], {type: 'text/javascript'})));
  const module = new WebAssembly.Module(Uint8Array.from(atob(code), (c) => c.charCodeAt(0)));
  const numbers = (list) => list.map((x) => x === 'nan' ? NaN : x === 'inf' ? Infinity : x === '-inf' ? -Infinity : x);
  const held = new Map(Object.entries(state).map(([key, [kind, list]]) => [key, {data: globalThis[kind].from(numbers(list))}]));
  const found = load(held, module).run({});
  const text = (x) => Number.isFinite(x) ? (Object.is(x, -0) ? '-0' : x) : `${x}`;
  return Object.fromEntries(Object.entries(found).map(([name, value]) =>
    [name, typeof value === 'number' ? [text(value)] : Array.from(value, text)]));
}"""


@pytest.fixture(scope="module")
def page(chromium: Any) -> Any:
    with served(runtime_folder()) as origin:
        yield blank_page(chromium, origin)


def computed(page: Any, tensors: list[sg.Tensor]) -> list[np.ndarray]:
    """Pending tensors of the cpu device, in WebAssembly."""
    capture = Capture([t._node for t in tensors])
    plan, _ = compile_graph(capture.graph(), NUMPY)
    made = wasm_step.render(plan, [Label("result", f"out{k}") for k in range(len(plan.outputs))])
    state = {
        key: (wasm_step.KINDS[plan.buffers[row].dtype.name], as_numbers(execute.download(node)))
        for row, key, node in zip(plan.inputs, wasm_step.keyed(plan), capture.sources, strict=True)
    }
    answer = page.evaluate(RUN, [made.script, base64.b64encode(made.module).decode(), state])
    return [np.array([float(x) for x in answer[f"out{k}"]]).reshape(t.shape) for k, t in enumerate(tensors)]


@pytest.mark.parametrize("case", cases.CASES[::EVERY], ids=lambda case: case.id)
def test_a_case_gives_in_webassembly_what_it_gives_on_the_cpu(page: Any, case: cases.Case) -> None:
    results = results_of(case, sg, leaves_of(case, case.arrays(), "cpu", "float32"), second=True)
    flat = [t for part in results.values() for t in part]
    try:
        found = computed(page, flat)
    except WebError as error:
        if not re.search("cannot be (written|computed)|computes nothing", str(error)):
            raise
        return
    for there, here in zip(found, map(as_array, flat), strict=True):
        assert np.allclose(there, here.astype(np.float64), RTOL, ATOL * case.length, equal_nan=True)


@pytest.mark.parametrize("seed", range(12))
def test_products_of_all_sizes(page: Any, seed: int) -> None:
    """Fewer rows than a tile has and more, fewer columns than lanes, transposed and computed operands, an epilogue."""
    rng = np.random.default_rng(seed)
    batch, m, n, k = (int(rng.choice([1, 2, 3, 5, 7, 8, 9, 17, 30, 64])) for _ in range(4))
    a, b, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((batch, m, k), (batch, k, n), (n,)))
    left, right = sg.tensor(a), sg.tensor(b)
    if seed % 3 == 1:
        right = sg.tensor(np.ascontiguousarray(b.swapaxes(1, 2))).mT
    if seed % 3 == 2:
        left, right = left * 2, right + 1
    found = computed(page, [(left @ right + sg.tensor(bias)).relu()])[0]
    wide = a.astype(np.float64), b.astype(np.float64)
    product = (2 * wide[0]) @ (wide[1] + 1) if seed % 3 == 2 else wide[0] @ wide[1]
    np.testing.assert_allclose(found, np.maximum(product + bias, 0), rtol=1e-4, atol=1e-4 * k)


@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_and_their_gradients(page: Any, groups: int, stride: int) -> None:
    rng = np.random.default_rng(groups)
    x, w = (
        sg.tensor(rng.standard_normal(shape).astype(np.float32), requires_grad=True)
        for shape in ((3, 8, 9, 11), (8, 8 // groups, 3, 3))
    )
    y = F.conv2d(x, w, stride=stride, padding=(1, 0), groups=groups)
    tensors = [y, *sg.autograd.grad((y * y).sum(), [x, w])]
    for there, here in zip(computed(page, tensors), tensors, strict=True):
        np.testing.assert_allclose(there, as_array(here), rtol=1e-4, atol=1e-3)


def test_what_lies_in_one_place_is_not_written_while_it_is_read(page: Any) -> None:
    """Random graphs: slots of dead arrays are taken again, results are inputs, one value is several results."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        made = [sg.tensor(rng.standard_normal((6, 10)).astype(np.float32)) for _ in range(3)]
        for _ in range(12):
            a, b = (made[int(rng.integers(len(made)))] for _ in range(2))
            made.append(
                [
                    lambda a, b: a + b.cos(),
                    lambda a, b: a - b.mean(1, keepdim=True),
                    lambda a, b: (a @ b.T) @ b * 0.1,
                    lambda a, b: a.sort(1).values * b,
                    lambda a, b: a.gather(1, b.argsort(1, stable=True)).cumsum(0),
                    lambda a, b: a.flip(0).softmax(1) + b,
                    lambda a, b: a * b.kthvalue(3, 1, keepdim=True).values,
                ][int(rng.integers(7))](a, b)
            )
        chosen = [made[-1], made[-1], *(made[int(k)] for k in rng.integers(3, len(made), 3))]
        for there, here in zip(computed(page, chosen), chosen, strict=True):
            np.testing.assert_allclose(there, here.numpy(), rtol=1e-4, atol=1e-4)


def test_copies_of_several_products_do_not_lie_on_the_stack_together(page: Any) -> None:
    rng = np.random.default_rng(0)
    x, *weights = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((40, 300), (300, 200), (200, 300), (300, 160))
    )
    value, expected = sg.tensor(x), x.astype(np.float64)
    for w in weights:
        value, expected = value @ sg.tensor(w), expected @ w
    np.testing.assert_allclose(computed(page, [value])[0], expected, rtol=1e-4, atol=1e-1)


def test_what_webassembly_lacks_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(tensor: sg.Tensor) -> WasmStep:
        plan, _ = compile_graph(Capture([tensor._node]).graph(), NUMPY)
        return wasm_step.render(plan, [Label("result", "out0")])

    with pytest.raises(WebError, match="float64 cannot be computed in WebAssembly"):
        of(sg.tensor([1.0], dtype="float64") + 1)
    with pytest.raises(WebError, match="Digamma cannot be written"):
        of(sg.special.digamma(sg.tensor([1.0])))
    with pytest.raises(WebError, match="holds arrays without elements"):
        of(sg.zeros(0) + 1)
    monkeypatch.setattr(wasm_step, "MOST_BYTES", 1 << 16)
    with pytest.raises(WebError, match=r"the step takes [\d,]+ bytes; a module may have 65,536"):
        of(sg.ones(1 << 14) + 1)


def test_an_object_that_calls_what_is_not_there_is_no_module() -> None:
    text = """declare float @strange(float)
define void @run0() {
  %x = call float @strange(float 1.0)
  store float %x, ptr inttoptr (i32 8 to ptr)
  ret void
}
"""
    code = llvm.code().object_for(text, wasm_step.TRIPLE, wasm_step.FEATURES)
    with pytest.raises(WebError, match="the step calls strange, which WebAssembly does not have"):
        linked(code, ["run0"], 1024, 65536)
    with pytest.raises(WebError, match="no module of WebAssembly"):
        linked(b"ELF", [], 0, 0)
