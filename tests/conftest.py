"""What every test may ask for: a device by name, and a loud word when half of the suite could not run.

`device` runs a test once on "cpu" and once on "webgpu"; `webgpu` gives the name "webgpu" alone. Without an adapter the
webgpu half is skipped and the last lines of the report say so; SHADERGRAD_REQUIRE_WEBGPU=1 makes it fail instead.
Tests get the marker `webgpu` by themselves when they need an adapter: `pytest -m webgpu`, `pytest -m "not webgpu"`.
A test in tests/null that needs one is an error: it belongs into tests/device.
Hypothesis draws the same examples in every run and sets no time limit, so that no run depends on another or on the clock.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it
os.environ.setdefault("SHADERGRAD_CACHE", "off")  # before it is read: no test finds what another run left
os.environ.setdefault("SHADERGRAD_WEBGPU", "wgpu")  # Dawn, which tests/golden asks, refuses software adapters

from shadergrad.graph import verify
from slow_tests import Family, family_of, is_in_share, is_slow

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

NO_ADAPTER = "no WebGPU adapter"
REMEDY = "install a Vulkan driver (Debian, Ubuntu: mesa-vulkan-drivers)"


verify.enabled = True  # every graph that a test compiles


@cache
def has_adapter() -> bool:
    """Whether this machine has any WebGPU adapter, hardware or software."""
    from shadergrad.runtime.adapters import adapters

    return bool(adapters())


def require_webgpu() -> str:
    """The device name "webgpu"; skips the test, or fails it where the environment says so, without an adapter."""
    from shadergrad.config import config

    if not has_adapter():
        if config.require_webgpu:
            pytest.fail(f"{NO_ADAPTER}, and SHADERGRAD_REQUIRE_WEBGPU=1: {REMEDY}.", pytrace=False)
        pytest.skip(NO_ADAPTER)
    return "webgpu"


@pytest.fixture(autouse=True)
def nothing_pending() -> None:
    """Each test begins with nothing to compute that another one left, which would join its plans, and with nothing that could not
    be computed, which its sync() would report."""
    from shadergrad.tensor import flush
    from shadergrad.tensor.pending import failures

    flush()
    failures()


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Each test draws the same random numbers, whichever tests came before it in its process."""
    import shadergrad as sg

    sg.manual_seed(0)
    if hasattr(torch := sys.modules.get("torch"), "default_generator"):
        torch.default_generator.manual_seed(0)  # type: ignore[union-attr]


def settings_of_the_process() -> dict[str, object]:
    """What a test may set for those after it, in this library and in PyTorch, where that is loaded."""
    import shadergrad as sg

    found: dict[str, object] = {
        "sg.get_default_dtype()": sg.get_default_dtype(),
        "sg.get_default_device()": str(sg.get_default_device()),
        "sg.is_grad_enabled()": sg.is_grad_enabled(),
    }
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "_C"):
        found["torch.get_default_dtype()"] = torch.get_default_dtype()
        found["torch.is_grad_enabled()"] = torch.is_grad_enabled()
        # set_default_device leaves such a mode, under which PyTorch's own functions take other ways (l1_loss loses its weight)
        found["active modes of PyTorch's functions"] = torch._C._len_torch_function_stack()
    return found


@pytest.fixture(autouse=True)
def nothing_set() -> Iterator[None]:
    """Each test leaves the process as it found it: else another one fails, and only in some orders."""
    before = settings_of_the_process()
    yield
    after = settings_of_the_process()
    left = [f"{name}: {before[name]}, now {value}" for name, value in after.items() if before.get(name, value) != value]
    assert not left, f"this test sets what those after it meet: {'; '.join(left)}. Set it back."


@pytest.fixture(params=["cpu", "webgpu"])
def device(request: pytest.FixtureRequest) -> str:
    """The name of a device, each in turn."""
    return require_webgpu() if request.param == "webgpu" else request.param


@pytest.fixture
def webgpu() -> str:
    """The name of the webgpu device, for tests that mean no other."""
    return require_webgpu()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share", metavar="K/N", help="of N shares of the tests, by their names, the K-th alone: 0/3, 1/3, 2/3"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test that needs an adapter, and leave out the experiments, which take hours, where -m does not name them, and other shares."""
    if "experiment" not in str(config.getoption("markexpr")):
        hours = [item for item in items if item.get_closest_marker("experiment")]
        config.hook.pytest_deselected(items=hours)
        items[:] = [item for item in items if item not in hours]
    families = [family_of(item) for item in items]
    sizes, met = Counter(families), Counter[Family]()
    for item, family in zip(items, families, strict=True):
        if is_slow(item.nodeid, family, met[family], sizes[family]):
            item.add_marker(pytest.mark.slow)
        met[family] += 1
        if family[2]:
            item.add_marker(pytest.mark.webgpu)
            if item.nodeid.startswith(("tests/null/", "tests/processes/")):
                folder = item.nodeid.rsplit("/", 1)[0]
                raise pytest.UsageError(f"{item.nodeid} needs an adapter: {folder} has none, tests/device has.")
    if share := config.getoption("share"):
        others = [item for item in items if not is_in_share(item.nodeid, share)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if is_in_share(item.nodeid, share)]


def pytest_collection_finish() -> None:
    """Leave what was collected, more than a million objects, out of every later garbage collection: a second each, and tests ask for some."""
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their argument: what they hold may differ from run to run, and reads badly."""
    return argname if isinstance(val, bytes) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One loud line for each tool that tests were skipped for want of."""
    for what, lacking, remedy in (
        ("WEBGPU", NO_ADAPTER, REMEDY),
        ("VERILOG", "no Icarus Verilog", "install iverilog"),
        ("EXPORTED C", "no C compiler", "install gcc"),
        ("BROWSER", "no Chromium", "install chromium"),
        ("DAWN", "no Dawn", 'pip install "shadergrad[dawn]"; without a GPU, name SwiftShader in VK_DRIVER_FILES'),
    ):
        skipped = [r for r in terminalreporter.stats.get("skipped", []) if lacking in str(r.longrepr)]
        if skipped:
            line = f"{what} NOT TESTED: {len(skipped)} tests skipped, {lacking}. To run them, {remedy}."
            terminalreporter.write_line(line, red=True, bold=True)
