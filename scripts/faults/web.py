"""Faults in exported pages, and in the kernels that they share with the cpu device. `planting.py` says what a row is."""

from planting import fault

from .tests import PLANS

WASM = "web/test_wasm.py::test_"

# fmt: off
FAULTS = (
    fault("web-a-kernel-enables-nothing", "web/plans.py", "_enabling",
          'f"enable subgroups;\\n{source}" if missing else source', "source",
          PLANS + "each_kernel_is_written_once_and_plans_tell_what_they_require"),
    fault("web-kernels-are-written-twice", "web/plans.py", "_manifests",
          "if digest not in known:", "if True:",
          PLANS + "each_kernel_is_written_once_and_plans_tell_what_they_require"),
    fault("web-a-plan-requires-no-limits", "web/plans.py", "_limits",
          'len(kernel["access"])', "0",
          PLANS + "each_kernel_is_written_once_and_plans_tell_what_they_require"),
    fault("web-a-plan-like-another-is-written", "web/plans.py", "_differing",
          "seen.append(_work(data))", "pass",
          PLANS + "kernels_that_other_plans_share_lie_in_a_file_of_their_own"),
    fault("web-plans-of-earlier-exports-stay", "web/plans.py", "write",
          "old.unlink()", "pass",
          PLANS + "kernels_that_other_plans_share_lie_in_a_file_of_their_own"),
    fault("web-panels-of-the-last-columns", "compile/native/product.py", "ProductText._right",
          """Value("%j.at", "i64", 2), literal(t.k, "i64")""", """Value("%j", "i64", 2), literal(t.k, "i64")""",
          WASM + "products_of_all_sizes"),
    fault("native-erf-near-everywhere", "compile/native/functions.py", "erf",
          'w.compare("fcmp olt", a, w.number(ERF_FROM, a))', 'w.compare("fcmp olt", a, w.number(2 * ERF_FROM, a))',
          "device/test_native_cpu.py::test_functions_are_exact_to_two_units_in_the_last_place"),
    fault("native-sigmoid-of-large-numbers", "compile/native/functions.py", "sigmoid",
          'w.op("fneg", w.call("fabs", x))', 'w.op("fneg", x)',
          "device/test_native_cpu.py::test_functions_are_exact_to_two_units_in_the_last_place"),
    fault("web-checked-views-have-no-place", "web/wasm_step.py", "_Module._host",
          "elif isinstance(hosted.of, InRange):", "elif False:",
          WASM + "what_lies_in_one_place_is_not_written_while_it_is_read"),
    fault("web-results-lie-where-others-do", "compile/native/slots.py", "slots_of",
          "begin = max(begin, high)", "pass",
          WASM + "what_lies_in_one_place_is_not_written_while_it_is_read"),
    fault("web-what-a-guest-holds-is-of-before", "web/wasm_step.py", "_Module._script",
          "guests.get(to)?.set(t[to]);", "",
          "web/test_without_gpu.py::test_a_program_changes_what_lies_in_anothers_memory"),
    fault("web-halves-are-not-rounded", "web/javascript_step.py", "Writer.write",
          "expression if half is None else half % expression", "expression",
          "web/test_javascript_operations.py::test_operations_in_javascript_give_the_numbers_of_the_cpu_device"),
    fault("web-no-plan-uses-matrix-units", "web/plans.py", "takes",
          "not target.matrices or any(spec.dtype is float16 for spec in portable.buffers)", "not target.matrices",
          "web/test_plans.py::test_a_step_with_halves_has_a_plan_for_matrix_units"),
)
