"""Operations as plain JavaScript give the numbers of the cpu device: orders, running sums, reductions into places, special functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import shadergrad as sg
from shadergrad.web.javascript_step import render

ROWS = np.array([[3, -1, 2, 2, -1], [0.5, np.nan, -np.inf, 7, 0.5], [1, 1, 1, 1, 1]], np.float32)
PLACES = np.array([[0, 1, 0, 2, 2], [1, 1, 1, 1, 1], [2, 0, 1, 0, 2]])
FINITE = np.where(np.isfinite(ROWS), ROWS, 4).astype(np.float32)
INTEGERS = np.array([[70000, -3, 90001], [2, 5, -(2**31)]], np.int32)
INSIDE = np.array([-1, -0.99999, -0.7, -1e-6, 0, 0.2, 0.9, 0.9999, 1], np.float32)
REAL = np.array([-3.7, -2, -0.3, 0, 0.1, 1, 2.5, 9, 120, np.inf], np.float32)
# numbers beside those that are float16: ties, subnormal ones, the largest and what rounds to infinity
SPECIAL = [
    0,
    -0.0,
    1 / 3,
    2049,
    2051,
    65504,
    65519,
    65520,
    -65520,
    7e4,
    3.4e38,
    1e-8,
    2.0**-25,
    3 * 2.0**-25,
    -(2.0**-24),
    6.1e-5,
    np.inf,
    -np.inf,
    np.nan,
]
DRAW = np.random.default_rng(0)
HALVES = np.array([*SPECIAL, *(DRAW.standard_normal(200) * 10.0 ** DRAW.integers(-9, 6, 200))], np.float32)
CASES: dict[str, tuple[Callable[[sg.Tensor], Any], np.ndarray]] = {
    "sort": (lambda x: x.sort(1).values, ROWS),
    "argsort": (lambda x: x.argsort(1, stable=True), ROWS),
    "argsort down": (lambda x: x.argsort(0, descending=True, stable=True), ROWS),
    "sort integers": (lambda x: x.sort(1, descending=True).values, INTEGERS),
    "topk": (lambda x: x.topk(2, 1).values, FINITE),
    "quantile": (lambda x: x.quantile(0.3, 1), FINITE),
    "cumsum": (lambda x: x.cumsum(0), ROWS),
    "cumsum of a transpose": (lambda x: x.T.cumsum(1), FINITE),
    "gradient of cumsum": (lambda x: sg.func.grad(lambda y: (y.cumsum(1) * y).sum())(x), FINITE),
    "cumsum of integers": (lambda x: x.cumsum(1), INTEGERS),
    "prod": (lambda x: x.prod(1), FINITE),
    "prod of integers": (lambda x: x.prod(0), INTEGERS[:, :2]),
    "largest into places": (lambda x: x.scatter_reduce(1, sg.tensor(PLACES), x, "amax", include_self=False), FINITE),
    "least into places": (lambda x: x.scatter_reduce(0, sg.tensor(PLACES), x * 2, "amin"), FINITE),
    "products into places": (lambda x: sg.ones(3, 5).scatter_reduce(1, sg.tensor(PLACES), x, "prod"), FINITE),
    "erfinv": (lambda x: x.erfinv(), INSIDE),
    "erfc": (lambda x: sg.special.erfc(x), REAL),
    "lgamma": (lambda x: x.lgamma(), REAL),
    "float16": (lambda x: x.to(sg.float16).float(), HALVES),
    "bfloat16": (lambda x: x.to(sg.bfloat16).float(), HALVES),
    "halves moved": (
        lambda x: sg.cat([x.to(sg.float16).relu(), x.to(sg.float16).flip(0) * 3]).max(0).values.float(),
        HALVES[None, ::7] * np.array([[1], [-0.37]], np.float32),
    ),
}
RUN = """async ([names, inputs]) => {
  const found = {};
  for (const name of names) {
    const {load} = await import(new URL(`${name.replaceAll(' ', '-')}.js`, location.href));
    const numbers = (list) => list.map((x) => x === 'nan' ? NaN : x === 'inf' ? Infinity : x === '-inf' ? -Infinity : x);
    const {result} = load(new Map(Object.entries(inputs[name].state).map(([key, [kind, list]]) =>
      [key, {data: globalThis[kind].from(numbers(list))}]))).run({x: numbers(inputs[name].x)});
    found[name] = Array.from(result, (x) => Number.isFinite(x) ? x : `${x}`);
  }
  return found;
}"""
KINDS = {"float32": "Float32Array", "uint32": "Uint32Array"}


def listed(array: np.ndarray) -> list[Any]:
    return [x if np.isfinite(x) else str(float(x)) for x in array.ravel().tolist()]


def test_operations_in_javascript_give_the_numbers_of_the_cpu_device(visit: Any, tmp_path: Path) -> None:
    here, inputs = {}, {}
    for name, (function, given) in CASES.items():
        step = sg.compile(lambda x, function=function: function(x))
        x = sg.tensor(given)
        part = step.node_by_node(x)
        (tmp_path / f"{name.replace(' ', '-')}.js").write_text(render(part, step.portable(x).outputs))
        held = {f"{role}/{key}": value for (role, key), value in part.state().items()}
        state = {key: [KINDS.get(value.dtype.name, "Int32Array"), listed(value)] for key, value in held.items()}
        inputs[name] = {"x": listed(given), "state": state}
        here[name] = step(x).numpy().ravel()
    (tmp_path / "index.html").write_text('<link rel="icon" href="data:,">')
    there = visit(tmp_path).evaluate(RUN, json.loads(json.dumps([list(CASES), inputs])))
    for name, expected in here.items():
        found = np.array([float(x) for x in there[name]])
        if "float16" in name or "halves" in name:
            np.testing.assert_array_equal(found.astype(np.float32), expected, err_msg=name)
            continue
        np.testing.assert_allclose(
            found, expected.astype(np.float64).ravel(), rtol=2e-6, atol=1e-6, equal_nan=True, err_msg=name
        )
