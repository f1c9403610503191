"""Faults in exported pages. `planting.py` says what a row is."""

from planting import fault

from .tests import PLANS

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
)
