"""A real browser: Debian's Chromium, headless, with WebGPU on SwiftShader, driven by Playwright's Python package.

`chromium` is the browser, `visit` serves an exported folder and opens it. Where there is no Chromium the tests are skipped and
the last lines say so; SHADERGRAD_REQUIRE_WEBGPU=1 makes them fail instead. A request that leaves the folder's origin, an
error on a page and one in its console fail the test that caused them.
"""

from __future__ import annotations

import importlib.util
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import shadergrad as sg
from shadergrad.config import config

NO_BROWSER = "no Chromium"
REMEDY = "install chromium (Debian: apt-get install chromium), and playwright from PyPI"
FLAGS = ["--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]


def missing(why: str) -> NoReturn:
    if config.require_webgpu:
        pytest.fail(f"{NO_BROWSER} ({why}), and SHADERGRAD_REQUIRE_WEBGPU=1: {REMEDY}.", pytrace=False)
    pytest.skip(f"{NO_BROWSER}: {why}")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser, started once."""
    path = shutil.which("chromium")
    if path is None:
        missing("there is no chromium on the PATH")
    if importlib.util.find_spec("playwright") is None:
        missing("the playwright package is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Any]]:
    """visit(folder, path="index.html", **options of the context) → an open page; its `problems` are checked at the end."""
    servers, contexts, problems = [], [], []

    def open_page(folder: Path, path: str = "index.html", script: str = "", **options: Any) -> Any:
        server = sg.web.serve(folder, 0)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        origin = f"http://127.0.0.1:{server.server_address[1]}"
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        if script:
            page.add_init_script(script)
        context.on(
            "request", lambda r: r.url.startswith((origin, "blob:", "data:")) or problems.append(f"asked for {r.url}")
        )
        page.on("pageerror", lambda error: problems.append(f"page error: {error}"))
        page.on("console", lambda m: m.type == "error" and problems.append(f"console: {m.text}"))
        page.goto(f"{origin}/{path}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    for server in servers:
        server.shutdown()
        server.server_close()
    assert not problems, problems
