"""Which tests are slow: they take more than 0.7 s of processor time where a software adapter compiles their kernels, or are one of many alike.

`make test` leaves the slow ones out, `make test-slow` runs them, and `.ci/run` runs the sixth of them that a commit names.
A test that is slow by itself has the mark beside it; here are those of which some cases are quick, by the names of their functions.
Of a thinned family, a case that a planted fault names (scripts/faults) runs each time: it is known to find something.
"""

from __future__ import annotations

import re
import zlib
from typing import TypeAlias

import pytest

from faults import FAULTS

# Whose cases on webgpu all take longer: their kernels are many, or long.
SLOW_ON_WEBGPU = frozenset({
    "test_a_backward_pass_in_a_later_block_names_the_modules_of_the_forward_pass",
    "test_a_backward_pass_through_batch_norm_is_not_derived_again",
    "test_a_checkpointed_part_runs_again_under_its_autocast",
    "test_a_compiled_graph_of_halves",
    "test_a_compiled_model_trains_as_on_pytorchs_cpu",
    "test_a_compiled_model_within_and_around_a_context",
    "test_a_compiled_module_is_trained_as_the_module_itself",
    "test_a_compiled_module_takes_other_sizes",
    "test_a_file_of_huggingfaces_gives_pytorchs_logits_and_gradients",
    "test_a_function_trains_in_a_compiled_step_as_outside",
    "test_a_fused_network_is_the_unfused_one_and_hardens_to_its_eval",
    "test_a_large_circuit_of_many_channels_runs",
    "test_a_later_fit_compiles_nothing",
    "test_a_layer_equals_the_cpu_device",
    "test_a_loader_gives_its_own_batches_and_the_last_small_one_too",
    "test_a_long_sort_equals_numpys",
    "test_a_loop_means_the_same_whoever_reads_its_nodes",
    "test_a_loop_that_came_before_makes_no_nodes_of_compositions",
    "test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_checkpoint",
    "test_a_loss_with_slopes_is_trained_as_in_pytorch",
    "test_a_mask_that_is_learned_gets_its_gradient",
    "test_a_model_trains_as_on_pytorchs_cpu",
    "test_a_module_is_cast_and_trains",
    "test_a_network_learns_parity_of_three_bits",
    "test_a_network_of_channels_last_stays_so_to_its_end_and_learns_alike",
    "test_a_network_trains_under_autocast",
    "test_a_process_that_exits_amid_work_exits_quietly",
    "test_a_program_trains_as_in_pytorch_on_webgpu",
    "test_a_program_trains_on_the_device_as_on_pytorchs_cpu",
    "test_a_saved_state_goes_on_in_a_compiled_step_and_on_the_cpu",
    "test_a_schedule_and_clipping",
    "test_a_step_is_right_at_every_size_and_compiles_for_the_first_two",
    "test_a_training_step_may_be_compiled_whole",
    "test_a_training_step_with_shared_rows_equals_one_on_the_cpu",
    "test_a_way_of_attention_is_chosen",
    "test_a_weight_is_cast_once_and_has_float32_gradients",
    "test_a_whole_training_is_copied",
    "test_activations_are_stored_in_halves_by_no_more_kernels",
    "test_adapters_learn_beside_a_weight_that_stays",
    "test_an_infinite_value_of_the_last_key_makes_no_nan",
    "test_an_optimizer_with_a_schedule_is_as_on_the_cpu",
    "test_angles_follow_scipys_cdf",
    "test_as_many_weights_are_dropped_as_asked_for",
    "test_binary_cross_entropy_behind_a_product_looks_at_every_element",
    "test_both_gradients_share_dispatches",
    "test_calls_of_known_shapes_compile_nothing",
    "test_captures_of_other_sizes_keep_no_gradients",
    "test_casts_are_as_many_as_pytorchs_and_gradients_equal",
    "test_cells_computed_together",
    "test_coefficients_are_those_of_the_layers_perception_first_and_kernel_by_kernel",
    "test_convolution_on_webgpu",
    "test_convolutions_by_points",
    "test_dropout_between_layers_draws_anew",
    "test_dynamic_false_compiles_each_size",
    "test_divergences_on_webgpu_are_those_of_the_cpu",
    "test_each_call_is_its_numpy_twin",
    "test_edits_between_steps_act_on_webgpu_as_on_cpu",
    "test_embeddings_give_rows_of_the_weight_they_share_with_a_layer",
    "test_engines_that_take_turns_continue_the_curve",
    "test_eval_and_changed_settings_are_seen_by_a_compiled_step",
    "test_every_parameter_gets_a_gradient",
    "test_every_size_of_blocks_gives_the_same",
    "test_files_and_state_dicts_hold_codes_and_floats_are_quantised_on_the_way_in",
    "test_fit_goes_on_where_the_last_fit_ended",
    "test_fused_asynchronous_steps",
    "test_gradients_accumulate_across_compiled_steps",
    "test_gradients_by_points_take_turns_where_they_would_be_most_of_the_memory",
    "test_gradients_of_a_weight_that_is_used_many_times",
    "test_gradients_of_each_sample_by_transforms",
    "test_gradients_of_parts_are_those_of_the_batch",
    "test_gradients_reach_the_views_themselves",
    "test_gradients_that_nobody_reads_are_computed_within_the_block",
    "test_gradients_through_a_kept_cast_are_those_of_a_cast_for_each_use",
    "test_gradients_through_twenty_steps_agree_between_devices",
    "test_grouped_heads_are_pytorchs",
    "test_gumbel_draws_anew_at_each_call_and_is_hard_in_eval",
    "test_in_software_weight_gradients_that_are_too_large_go_by_halves",
    "test_inference_and_the_mode_of_the_module",
    "test_it_gives_the_numbers_of_a_loop_written_by_hand",
    "test_later_uncompiled_steps_compile_nothing_either",
    "test_layers_of_halves_compute_as_pytorchs",
    "test_layers_wider_than_a_workgroup",
    "test_lbfgs_finds_the_minimum_on_several_parameters",
    "test_loss_and_gradients_are_those_of_the_twin_in_pytorch",
    "test_losses_train_as_pytorchs_on_webgpu",
    "test_masks_of_minus_infinity_are_no_anomaly",
    "test_mean_field_on_a_device_is_the_oracle_between_the_chains_and_within",
    "test_more_axes_and_fewer_equal_the_composed_form",
    "test_multihead_attention_without_weights_equals_that_with",
    "test_no_weight_lies_in_memory_as_floats",
    "test_numpys_gradients_are_those_of_the_masks_that_the_shaders_drew",
    "test_of_several_numbers_the_first_is_minimised_and_all_are_given",
    "test_operators_of_op_db_are_right_in_halves",
    "test_optimizers",
    "test_other_lengths_are_no_other_program",
    "test_other_lengths_branches_and_reads",
    "test_random_graphs_agree_between_devices",
    "test_random_loops",
    "test_random_numbers_of_halves_stay_in_their_ranges",
    "test_random_programs_mean_the_same_on_pytorchs_device",
    "test_random_programs_mean_the_same_on_webgpu",
    "test_random_trainings_go_pytorchs_way_on_webgpu",
    "test_reading_gradients_one_by_one_is_one_plan",
    "test_reading_the_loss_before_backward_computes_no_product_twice",
    "test_reading_the_loss_first_changes_no_gradient",
    "test_recomputed_gradients_are_those_of_caching_on_webgpu",
    "test_recurrent_layers_of_halves_are_as_exact_as_pytorchs",
    "test_running_statistics_move_in_every_call_alike",
    "test_second_derivatives_by_a_gamma_variables_shape_are_refused",
    "test_seeds_repeat_draws_on_both_devices",
    "test_segments_of_a_sequence",
    "test_sizes_may_change_and_models_go_through_pickle",
    "test_spectral_norm_makes_the_largest_singular_value_1",
    "test_straight_through_is_hard_and_trains_as_soft",
    "test_text_for_browsers_gives_the_same",
    "test_the_benchmark_of_loops_prints_each_way",
    "test_the_benchmark_prints_time_ratio_and_memory",
    "test_the_benchmarks_of_the_host_print_their_parts",
    "test_the_cache_gives_what_the_whole_text_gives",
    "test_the_calls_of_attention",
    "test_the_default_run_reaches_97_percent",
    "test_the_first_epoch_is_the_same_on_both_devices",
    "test_the_first_losses_of_life_are_those_of_the_reference",
    "test_the_gradient_that_is_differentiated_is_the_same_gradient",
    "test_the_inverse_by_blocks_is_the_inverse",
    "test_the_readme_example_runs_and_learns",
    "test_the_result_is_the_same_bit_for_bit",
    "test_the_same_graph_again_compiles_nothing",
    "test_the_same_weights_are_dropped_on_every_device",
    "test_threads_follow_sequences_of_their_own",
    "test_training_goes_on_from_a_checkpoint_bit_for_bit",
    "test_training_is_measured",
    "test_training_is_the_same",
    "test_training_under_autocast_with_a_scaler_follows_float32",
    "test_training_with_batchnorm_and_dropout_is_the_same_on_both_devices",
    "test_values_and_gradients",
    "test_values_that_are_kept",
    "test_views_of_one_array_are_read_and_written_in_place",
    "test_webgpu_follows_the_cpu_for_50_steps",
    "test_weights_of_attention_may_be_small",
    "test_what_comes_again_compiles_nothing",
    "test_what_is_frozen_and_thawed_between_steps_is_left_alone_and_trained",
    "test_what_is_to_be_done_between_gradients_and_optimizer_is_done",
    "test_wires_read_by_many_gates",
    "test_workers_compute_while_a_model_trains",
})  # fmt: skip

FIRST = 10_000  # in the tables: the first case alone

# Whose cases take long together and are much alike: every n-th of those on each device is run each time, the others with the slow tests.
THINNED = {
    "test_a_bar_fits_its_terminal": FIRST,
    "test_a_compiled_step_equals_the_uncompiled_bit_for_bit_on_cpu": 2,
    "test_a_loader_gives_its_own_batches_and_the_last_small_one_too": 3,
    "test_a_long_loop_loses_nothing": 3,
    "test_a_number_is_compiled_twice_and_right_each_time": 5,
    "test_a_program_that_leaves_in_an_epoch_ends_without_a_word_of_its_workers": 3,
    "test_a_program_trains_as_in_pytorch": 3,
    "test_a_program_trains_on_the_device_as_on_pytorchs_cpu": 3,
    "test_a_step_on_the_pages_cpu_gives_the_losses_of_the_cpu_device": 3,
    "test_a_tenth_of_pytorchs_table_passes": 3,
    "test_a_training_step_may_be_compiled_whole": 3,
    "test_all_tiles": 11,
    "test_batches": 4,
    "test_casts_are_as_many_as_pytorchs_and_gradients_equal": 3,
    "test_edits_between_steps_act_as_in_pytorch": 11,
    "test_every_parametrisation_trains_six_layers": 4,
    "test_no_constant_of_a_capture_is_in_the_memory_of_a_tensor": FIRST,
    "test_operators": 5,
    "test_operators_equal_the_interpreters": 11,
    "test_products": 5,
    "test_products_in_one_dispatch_give_what_they_give_alone": 3,
    "test_products_of_tuned_tiles": 7,
    "test_products_that_share_a_dispatch_and_load_otherwise": 3,
    "test_random_graphs_agree_between_devices": 3,
    "test_random_programs_mean_the_same_on_pytorchs_device": 3,
    "test_random_programs_mean_the_same_on_webgpu": 3,
    "test_random_programs_mean_what_pytorch_says": 11,
    "test_random_steps_mean_the_same_as_forward_passes_of_compiled_modules": 3,
    "test_random_trainings_go_pytorchs_way": 5,
    "test_reductions_of_millions_are_as_exact_as_pytorchs": 5,
    "test_scores_and_masks_are_pytorchs": 3,
    "test_values_and_derivatives_are_pytorchs": 3,
}
# The same of cases on webgpu, whose kernels are long.
THINNED_ON_WEBGPU = {
    "test_a_call_again_has_its_own_values_and_gradients": 5,
    "test_a_compiled_function_does_what_it_does_on_pytorchs_cpu": 3,
    "test_a_compiled_step_holds_it": 15,
    "test_a_compiled_step_updates_halves_in_place": 2,
    "test_a_convolution_and_its_gradients_are_trees_on_unfolded_windows": FIRST,
    "test_a_deep_copy_goes_on_as_its_original_and_shares_nothing": 5,
    "test_a_function_is_exact_to_some_units_at_every_exponent": 5,
    "test_a_fused_network_is_its_layers": FIRST,
    "test_a_kernel_writes_nothing_behind_its_results": 5,
    "test_a_layer_and_its_gradients_are_those_of_sums_over_corners": FIRST,
    "test_a_lazy_module_becomes_what_pytorchs_becomes": 5,
    "test_a_long_loop_loses_nothing": FIRST,
    "test_a_loss_on_webgpu_equals_pytorchs": 5,
    "test_a_module_on_webgpu_equals_pytorchs": 7,
    "test_a_number_is_compiled_twice_and_right_each_time": 15,
    "test_a_pair_takes_the_tiles_that_were_measured": FIRST,
    "test_a_result_is_written_in_the_order_in_which_it_is_read": FIRST,
    "test_a_row_of_a_matrix_may_be_any": 3,
    "test_a_step_equals_that_of_numpy": 3,
    "test_a_step_leaves_no_buffer_no_tensor_and_no_program_behind": FIRST,
    "test_an_optimizer_made_before_its_model_moves_trains_it": 5,
    "test_as_many_elements_get_a_gradient_as_were_taken": 5,
    "test_attention": FIRST,
    "test_attention_and_its_gradients_are_pytorchs": FIRST,
    "test_attention_by_blocks_equals_pytorchs": FIRST,
    "test_attention_takes_any_scale": FIRST,
    "test_both_ways_of_sorting_are_stable": 3,
    "test_compiled_does_what_the_function_does": 3,
    "test_convolutions": 7,
    "test_draws_are_of_the_support": 2,
    "test_encoders_in_inference_are_pytorchs": FIRST,
    "test_eval_hardens_every_mode_and_train_takes_it_back": FIRST,
    "test_eval_is_the_circuit_of_the_likeliest_wires": FIRST,
    "test_every_mode_hardens_to_the_circuit_of_eval": FIRST,
    "test_every_share_of_a_board_gives_the_same": 5,
    "test_focal_losses_are_those_of_the_formula": 3,
    "test_fused_steps_are_those_of_the_layers": FIRST,
    "test_gamma_draws_follow_scipys_cdf": FIRST,
    "test_gamma_draws_have_the_gradients_of_their_quantiles": FIRST,
    "test_gradients_reach_the_outside_as_in_pytorch": 3,
    "test_halves_and_autocast_multiply_in_halves": FIRST,
    "test_kernels_are_their_twins_and_differentiate": 3,
    "test_keys_divided_into_shares_give_the_same": FIRST,
    "test_labels_of_numpy_train_through_a_loader": FIRST,
    "test_lines_give_what_pytorchs_give": FIRST,
    "test_lists_are_as_on_the_cpu": 3,
    "test_long_axes_are_sorted_and_summed": FIRST,
    "test_numbers_are_rounded_to_nearest_even": 2,
    "test_operations_are_pytorchs": 11,
    "test_parameters_without_a_gradient_stay_and_what_a_norm_tracks_moves_once": FIRST,
    "test_products_in_one_dispatch_give_what_they_give_alone": FIRST,
    "test_products_read_codes_and_their_gradients_go_to_the_input": FIRST,
    "test_programs_written_by_hand_mean_what_pytorch_says": 7,
    "test_quantised_weights_are_rounded_to_halves_on_their_way_into_tiles": 5,
    "test_random_graphs_are_the_same_fused_and_unfused": FIRST,
    "test_reductions_of_millions_are_as_exact_as_pytorchs": FIRST,
    "test_results_and_gradients_lie_as_on_pytorchs_cpu": 3,
    "test_scattered_sums_where_every_row_has_its_own_places": FIRST,
    "test_scores_and_masks_are_pytorchs": FIRST,
    "test_second_derivatives_are_those_of_tensor_operations": FIRST,
    "test_sizes_0_and_1_are_right_among_others": FIRST,
    "test_sort_blocks": 2,
    "test_sorting_by_digits": 3,
    "test_stories_end_as_pytorchs": 3,
    "test_the_kernel_steps_like_the_board": 3,
    "test_thirty_steps_on_webgpu_are_pytorchs_in_float32": FIRST,
    "test_values_and_derivatives_are_pytorchs": FIRST,
    "test_values_and_gradients_are_near_float64s": 7,
    "test_webgpu_equals_pytorch_in_float32": 5,
    "test_webgpu_equals_torch_in_float32": 5,
    "test_webgpu_gives_what_the_cpu_gives": 11,
    "test_webgpu_passes_on_a_few_entries": FIRST,
    "test_what_follows_is_part_of_the_last_transform": FIRST,
}
# The same of the cases of each operation, beginning with another one in each, so that all layouts of operands are met.
THINNED_BY_OPERATION = {"test_webgpu_value_and_gradient_equal_cpu": 7}

NAMED_BY_FAULTS = tuple({f"tests/{test}" for fault in FAULTS for test in fault.tests if re.search(r"\[.", test)})

Family: TypeAlias = tuple[str, str, bool, str]


def family_of(item: pytest.Item) -> Family:
    """Whose case a test is: its file, the name of its function, whether it needs an adapter, and the operation where each has its own cases."""
    name, parameters = getattr(item, "originalname", ""), getattr(getattr(item, "callspec", None), "params", {})
    on_webgpu = parameters.get("device") == "webgpu" or "webgpu" in getattr(item, "fixturenames", ())
    operation = parameters["case"].op if name in THINNED_BY_OPERATION else ""
    return item.nodeid.split("::", 1)[0], name, on_webgpu, operation


def is_slow(test: str, family: Family, place: int, size: int) -> bool:
    """Whether the tables leave out the case of this id, which is in this place among the `size` cases of its family."""
    _, name, on_webgpu, operation = family
    if on_webgpu and name in SLOW_ON_WEBGPU:
        return True
    every = max(
        THINNED.get(name, 1), THINNED_BY_OPERATION.get(name, 1), THINNED_ON_WEBGPU.get(name, 1) if on_webgpu else 1
    )
    first = zlib.crc32(operation.encode()) % min(every, size)
    return place % every != first and not test.startswith(NAMED_BY_FAULTS)


def is_in_share(nodeid: str, share: str) -> bool:
    """Whether a test is in a share "K/N". Raises UsageError for what names none."""
    found = re.fullmatch(r"(\d+)/(\d+)", share)
    if found is None or not int(found[1]) < int(found[2]):
        raise pytest.UsageError(f"--share {share} names none. Hint: 0/3, 1/3 and 2/3 are the shares of three.")
    return zlib.crc32(nodeid.encode()) % int(found[2]) == int(found[1])
