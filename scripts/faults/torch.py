"""Faults in PyTorch's device: operators that are recognised and not recorded. `planting.py` says what a row is."""

from planting import fault

SEQUENCES = "torch_device/test_sequences.py::test_"

# fmt: off
FAULTS = (
    fault("sequences-any-value-of-the-sequence", "torch/entries.py", "_is_as_seen",
          "if cell.place != place:", "if False:",
          SEQUENCES + "random_loops[cpu-0"),
    fault("sequences-any-value-from-outside", "torch/entries.py", "_is_as_seen",
          "if inputs[k] is not node:", "if False:",
          SEQUENCES + "random_loops[cpu-0"),
    fault("sequences-one-tensor-as-two", "torch/runs.py", "Run.take",
          "if id(node) in self._taken:", "if False:",
          SEQUENCES + "a_tensor_that_is_given_twice[cpu"),
    fault("sequences-any-strides", "torch/entries.py", "_is_as_seen",
          "a.stride() == stride", "True",
          SEQUENCES + "layouts_sizes_and_what_is_read_count[cpu"),
    fault("sequences-numbers-of-the-step-before", "torch/entries.py", "_are_as_said",
          "if differs(a, e):", "if False:",
          SEQUENCES + "random_loops[cpu-0"),
    fault("sequences-numbers-in-half-their-digits", "torch/sequences.py", "_takes_tensors_as_numbers",
          "a.dtype is torch.float32 for a in leaves", "True for a in leaves",
          SEQUENCES + "numbers_keep_their_digits[cpu"),
    fault("sequences-values-that-were-read-before", "torch/sequences.py", "_recorded",
          "is_whole = not drawn and execute.downloads == downloads and call.tell(entry, result, made)",
          "is_whole = not drawn and call.tell(entry, result, made)",
          SEQUENCES + "layouts_sizes_and_what_is_read_count[cpu"),
    fault("sequences-sizes-given-in-place", "torch/sequences.py", "_Call.tell",
          "!= (tuple(a.shape), a.stride(), a.storage_offset()):", "!= (e.shape, e.stride, e.offset):",
          SEQUENCES + "layouts_sizes_and_what_is_read_count[cpu"),
    fault("sequences-any-default-dtype", "torch/sequences.py", "followed",
          "if run is not None and not run.is_over and run.dtype is torch.get_default_dtype() and not here.kinds:",
          "if run is not None and not run.is_over and not here.kinds:",
          SEQUENCES + "the_default_dtype_counts[cpu"),
    fault("sequences-writes-that-are-forgotten", "torch/entries.py", "Entry.give",
          "for k, place in self.written:", "for k, place in ():",
          SEQUENCES + "writes_through_views[cpu"),
)
