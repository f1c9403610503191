"""A headless Chromium with WebGPU on SwiftShader, and the operator table's cases run in it, exported as plans."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import shadergrad as sg
from cases import Case
from helpers import as_array, leaves_of, results_of
from shadergrad.compile.pipeline import compile_graph
from shadergrad.drive import execute
from shadergrad.graph.capture import Capture
from shadergrad.plan import FAULTS
from shadergrad.target import PORTABLE

# the watchdog ends a GPU process that has not answered for some seconds, as one that compiles on a busy CPU
FLAGS = ["--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--disable-gpu-watchdog"]
RUN = """async ([text, inputs]) => {
  const {Program} = await import(new URL('runtime.js', location.href));
  const program = await Program.load(URL.createObjectURL(new Blob([text])));
  try {
    const found = await program.run(Object.fromEntries(Object.entries(inputs).map(([name, list]) => [name,
      list.map((x) => x === 'nan' ? NaN : x === 'inf' ? Infinity : x === '-inf' ? -Infinity : x)])));
    const text = (x) => Number.isFinite(x) ? (Object.is(x, -0) ? '-0' : x) : `${x}`;
    return Object.fromEntries(Object.entries(found).map(([name, value]) =>
      [name, typeof value === 'number' ? [text(value)] : Array.from(value, text)]));
  } finally {
    program.destroy();
  }
}"""


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser. Raises FileNotFoundError where there is none."""
    path = shutil.which("chromium")
    if path is None:
        raise FileNotFoundError("there is no chromium on the PATH")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder with an index.html."""
    server = sg.web.serve(folder, 0)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def runtime_folder() -> Path:
    """Where the runtime and the pages lie."""
    return Path(sg.web.__file__).parent / "site"


def blank_page(browser: Any, origin: str) -> Any:
    """A page of that origin beside runtime.js, with nothing on it."""
    page = browser.new_page()
    page.route("**/blank", lambda route: route.fulfill(body="<html></html>", content_type="text/html"))
    page.goto(f"{origin}/blank")
    return page


def run_case(page: Any, case: Case) -> tuple[dict[str, list[np.ndarray]], dict[str, list[np.ndarray]]]:
    """What a case gives in the browser, and on the cpu device in float32, by kind: values, gradients, second derivatives.
    Nothing of a case that is computed in a dtype that shaders have not, as float_power is in float64."""
    leaves = leaves_of(case, case.arrays(), "cpu", "float32")
    results = results_of(case, sg, leaves, second=True)
    flat = [t for part in results.values() for t in part]
    capture = Capture([t._node for t in flat])
    if any(node.dtype.wgsl is None for node in capture.order):
        return {}, {}
    inputs = [execute.download(node) for node in capture.sources]
    plan, _ = compile_graph(capture.graph(), PORTABLE)
    document = {"format": 1, "state": None, "weights": [], "faults": FAULTS, "plan": json.loads(plan.to_json())}
    given = {plan.buffers[row].name: as_numbers(array) for row, array in zip(plan.inputs, inputs, strict=True)}
    answer = page.evaluate(RUN, [json.dumps(document), given])
    found = iter(answer[f"out{k}"] for k in range(len(flat)))
    there = {
        kind: [np.array([float(x) for x in next(found)]).reshape(tuple(t.shape)) for t in part]
        for kind, part in results.items()
    }
    return there, {kind: [as_array(t) for t in part] for kind, part in results.items()}


def as_numbers(array: np.ndarray) -> list[Any]:
    """Numbers as JSON has them; special ones as texts."""
    values = array.astype(np.float64).ravel().tolist()
    return [x if np.isfinite(x) else str(x) for x in values]


__all__ = ["FLAGS", "blank_page", "chromium", "run_case", "runtime_folder", "served"]
