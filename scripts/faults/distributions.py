"""Faults in distributions. `planting.py` says what a row is."""

from planting import fault

# fmt: off
FAULTS = (
    fault("distributions-check-no-value", "distributions/distribution.py", "Distribution._validate_sample",
          "current.trace is None and not all_hold(support.check(value))", "False",
          "device/test_distributions.py::test_what_pytorch_refuses_is_refused"),
    fault("distributions-expand-without-their-event", "distributions/distribution.py", "Distribution.expand",
          "value.shape[value.ndim - events:]", "value.shape[value.ndim:]",
          "device/test_distributions.py::test_an_expanded_distribution_is_pytorchs"),
    fault("transforms-forget-what-they-computed", "distributions/transform.py", "Transform._inv_call",
          "if y is y_old:\n    return x_old", "",
          "device/test_distribution_transforms.py::test_a_cached_inverse_is_the_very_tensor"),
    fault("correlations-are-drawn-too-long", "distributions/matrices.py", "LKJCholesky._beta",
          "Beta(half + 0.5, rest, validate_args=False)", "Beta(half * 2 + 0.5, rest, validate_args=False)",
          "device/test_distribution_draws.py::test_correlations_are_uniform_for_a_concentration_of_1"),
    fault("gamma-draws-have-no-slope", "distributions/gamma_sampling.py", "standard_gamma",
          "Tensor._of(make(GammaDraw(), alpha._node, drawn._node))", "drawn",
          "device/test_distribution_draws.py::test_gamma_draws_have_the_gradients_of_their_quantiles"),
    fault("poisson-draws-take-what-is-refused", "distributions/counting_draws.py", "_rejected",
          "(us >= 0.07) & (v <= squeeze) | below", "us >= 0.0",
          "device/test_distribution_draws.py::test_poisson_draws_have_their_probabilities"),
    fault("distributions-cancel-near-a-half", "distributions/bernoulli_series.py", "_near",
          "near = t.abs() < reach", "near = t.abs() < reach / 1000",
          "device/test_distributions.py::test_a_continuous_bernoulli_variable_is_exact_near_a_half"),
)
