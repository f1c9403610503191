"""A real browser: Debian's Chromium, headless, with WebGPU on SwiftShader, driven by Playwright's Python package.

`chromium` is the browser, `visit` serves an exported folder and opens it. Where there is no Chromium the tests are skipped and
the last lines say so; SHADERGRAD_REQUIRE_WEBGPU=1 makes them fail instead. A request that leaves the folder's origin, an
error on a page and one in its console fail the test that caused them.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import pytest

import chromium as browsers
from shadergrad.config import config
from shadergrad.web import plans

NO_BROWSER = "no Chromium"
REMEDY = "install chromium (Debian: apt-get install chromium), and playwright from PyPI"


def missing(why: str, what: str = NO_BROWSER, remedy: str = REMEDY) -> NoReturn:
    if config.require_webgpu:
        pytest.fail(f"{what} ({why}), and SHADERGRAD_REQUIRE_WEBGPU=1: {remedy}.", pytrace=False)
    pytest.skip(f"{what}: {why}")


@pytest.fixture(scope="package", autouse=True)
def portable_plans() -> Iterator[None]:
    """Exports have the plan that SwiftShader takes, and compile no others, unless a test names targets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "DEFAULT", ())
        yield


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser, started once."""
    if shutil.which("chromium") is None:
        missing("there is no chromium on the PATH")
    if importlib.util.find_spec("playwright") is None:
        missing("the playwright package is not installed")
    with browsers.chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def context(chromium: Any) -> Iterator[Any]:
    """A context of the browser without options. A context takes longer to open than a page, and each test's folder has an origin of its own."""
    context = chromium.new_context()
    yield context
    context.close()


@pytest.fixture
def visit(chromium: Any, context: Any) -> Iterator[Callable[..., Any]]:
    """visit(folder, path="index.html", **options of a context) → an open page; its `problems` are checked at the end."""
    stack, contexts, origins, problems = ExitStack(), [context], [], []

    def check(request: Any) -> None:
        if not request.url.startswith((*origins, "blob:", "data:")):
            problems.append(f"asked for {request.url}")

    def open_page(
        folder: Path, path: str = "index.html", script: str = "", refused: str | None = None, **options: Any
    ) -> Any:
        origins.append(origin := stack.enter_context(browsers.served(folder)))
        if options:
            contexts.append(chromium.new_context(**options))
            contexts[-1].on("request", check)
        page = (contexts[-1] if options else context).new_page()
        page.set_default_timeout(60_000)
        if script:
            page.add_init_script(script)
        page.on("pageerror", lambda error: problems.append(f"page error: {error}"))
        expected = [] if refused is None else [refused]  # errors that the test is about
        page.on(
            "console",
            lambda m: (
                m.type == "error" and not any(e in m.text for e in expected) and problems.append(f"console: {m.text}")
            ),
        )
        page.goto(f"{origin}/{path}")
        return page

    context.on("request", check)
    yield open_page
    for each in contexts:
        for page in each.pages:
            page.close()
    context.remove_listener("request", check)
    for own in contexts[1:]:
        own.close()
    stack.close()
    assert not problems, problems
