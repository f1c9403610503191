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
import re
import signal
import sys
import zlib
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


# Whose cases on webgpu take more than 5 s where a software adapter compiles their kernels.
SLOW_ON_WEBGPU = frozenset({
    "test_a_compiled_model_trains_as_on_pytorchs_cpu",
    "test_a_file_of_huggingfaces_gives_pytorchs_logits_and_gradients",
    "test_a_model_trains_as_on_pytorchs_cpu",
    "test_a_process_that_exits_amid_work_exits_quietly",
    "test_a_program_trains_as_in_pytorch_on_webgpu",
    "test_a_program_trains_on_the_device_as_on_pytorchs_cpu",
    "test_cells_computed_together",
    "test_convolution_on_webgpu",
    "test_each_call_is_its_numpy_twin",
    "test_engines_that_take_turns_continue_the_curve",
    "test_every_parameter_gets_a_gradient",
    "test_every_size_of_blocks_gives_the_same",
    "test_gradients_of_parts_are_those_of_the_batch",
    "test_gradients_reach_the_views_themselves",
    "test_gradients_through_twenty_steps_agree_between_devices",
    "test_in_software_weight_gradients_that_are_too_large_go_by_halves",
    "test_it_gives_the_numbers_of_a_loop_written_by_hand",
    "test_layers_of_halves_compute_as_pytorchs",
    "test_loss_and_gradients_are_those_of_the_twin_in_pytorch",
    "test_multihead_attention_without_weights_equals_that_with",
    "test_numpys_gradients_are_those_of_the_masks_that_the_shaders_drew",
    "test_operators_of_op_db_are_right_in_halves",
    "test_other_lengths_branches_and_reads",
    "test_text_for_browsers_gives_the_same",
    "test_the_calls_of_attention",
    "test_the_default_run_reaches_97_percent",
    "test_the_first_losses_of_life_are_those_of_the_reference",
    "test_the_gradient_that_is_differentiated_is_the_same_gradient",
    "test_the_result_is_the_same_bit_for_bit",
    "test_the_same_weights_are_dropped_on_every_device",
    "test_training_goes_on_from_a_checkpoint_bit_for_bit",
    "test_training_is_the_same",
    "test_views_of_one_array_are_read_and_written_in_place",
    "test_webgpu_follows_the_cpu_for_50_steps",
    "test_what_comes_again_compiles_nothing",
    "test_what_is_frozen_and_thawed_between_steps_is_left_alone_and_trained",
    "test_what_is_to_be_done_between_gradients_and_optimizer_is_done",
})  # fmt: skip

# Whose cases take long together and are much alike: every n-th is run each time, the others with the slow tests. Where devices or dtypes
# take turns, n has no factor in common with their number, so that all of them are met.
THINNED = {
    "test_a_loader_gives_its_own_batches_and_the_last_small_one_too": 3,
    "test_a_program_trains_as_in_pytorch": 3,
    "test_a_program_trains_on_the_device_as_on_pytorchs_cpu": 3,
    "test_a_training_step_may_be_compiled_whole": 3,
    "test_all_tiles": 5,
    "test_batches": 4,
    "test_casts_are_as_many_as_pytorchs_and_gradients_equal": 3,
    "test_edits_between_steps_act_as_in_pytorch": 5,
    "test_every_parametrisation_trains_six_layers": 4,
    "test_operators": 5,
    "test_operators_equal_the_interpreters": 5,
    "test_products": 5,
    "test_products_in_one_dispatch_give_what_they_give_alone": 3,
    "test_products_of_tuned_tiles": 7,
    "test_products_that_share_a_dispatch_and_load_otherwise": 3,
    "test_random_graphs_agree_between_devices": 3,
    "test_random_graphs_are_the_same_fused_and_unfused": 3,
    "test_random_programs_mean_the_same_on_pytorchs_device": 3,
    "test_random_programs_mean_the_same_on_webgpu": 3,
    "test_random_programs_mean_what_pytorch_says": 5,
    "test_random_steps_mean_the_same_as_forward_passes_of_compiled_modules": 3,
    "test_random_trainings_go_pytorchs_way": 5,
    "test_scores_and_masks_are_pytorchs": 3,
    "test_values_and_derivatives_are_pytorchs": 3,
}
# The same of cases on webgpu, whose kernels are long.
THINNED_ON_WEBGPU = {
    "test_a_compiled_module_is_trained_as_the_module_itself": 3,
    "test_a_compiled_step_holds_it": 7,
    "test_a_loss_with_slopes_is_trained_as_in_pytorch": 3,
    "test_a_module_on_webgpu_equals_pytorchs": 5,
    "test_a_network_trains_under_autocast": 3,
    "test_a_number_is_compiled_twice_and_right_each_time": 3,
    "test_a_step_equals_that_of_numpy": 3,
    "test_an_optimizer_with_a_schedule_is_as_on_the_cpu": 5,
    "test_attention_by_blocks_equals_pytorchs": 5,
    "test_edits_between_steps_act_on_webgpu_as_on_cpu": 3,
    "test_every_share_of_a_board_gives_the_same": 5,
    "test_fused_asynchronous_steps": 3,
    "test_fused_steps_are_those_of_the_layers": 5,
    "test_gradients_through_a_kept_cast_are_those_of_a_cast_for_each_use": 2,
    "test_keys_divided_into_shares_give_the_same": 5,
    "test_more_axes_and_fewer_equal_the_composed_form": 3,
    "test_no_weight_lies_in_memory_as_floats": 3,
    "test_operations_are_pytorchs": 3,
    "test_optimizers": 3,
    "test_programs_written_by_hand_mean_what_pytorch_says": 3,
    "test_random_trainings_go_pytorchs_way_on_webgpu": 5,
    "test_results_and_gradients_lie_as_on_pytorchs_cpu": 3,
    "test_thirty_steps_on_webgpu_are_pytorchs_in_float32": 3,
    "test_values_and_gradients_are_near_float64s": 2,
    "test_webgpu_equals_torch_in_float32": 3,
    "test_webgpu_gives_what_the_cpu_gives": 5,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share", metavar="K/N", help="of N shares of the tests, by their names, the K-th alone: 0/3, 1/3, 2/3"
    )


def is_in_share(nodeid: str, share: str) -> bool:
    """Whether a test is in a share "K/N". Raises UsageError for what names none."""
    found = re.fullmatch(r"(\d+)/(\d+)", share)
    if found is None or not int(found[1]) < int(found[2]):
        raise pytest.UsageError(f"--share {share} names none. Hint: 0/3, 1/3 and 2/3 are the shares of three.")
    return zlib.crc32(nodeid.encode()) % int(found[2]) == int(found[1])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test that needs an adapter, and leave out the experiments, which take hours, where -m does not name them, and other shares."""
    if "experiment" not in str(config.getoption("markexpr")):
        hours = [item for item in items if item.get_closest_marker("experiment")]
        config.hook.pytest_deselected(items=hours)
        items[:] = [item for item in items if item not in hours]
    met: Counter[str] = Counter()
    met_on_webgpu: Counter[str] = Counter()
    for item in items:
        name, parameters = getattr(item, "originalname", ""), getattr(getattr(item, "callspec", None), "params", {})
        if met[name] % THINNED.get(name, 1):
            item.add_marker(pytest.mark.slow)
        met[name] += 1
        if parameters.get("device") == "webgpu" or "webgpu" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.webgpu)
            if name in SLOW_ON_WEBGPU or met_on_webgpu[name] % THINNED_ON_WEBGPU.get(name, 1):
                item.add_marker(pytest.mark.slow)
            met_on_webgpu[name] += 1
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
