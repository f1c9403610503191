"""Helpers for training loops, as torch.nn.utils: gradient clipping, parameters as one vector, parametrizations, packed sequences."""

from . import parametrizations, parametrize, prune, rnn
from .gradients import (
    NonFiniteError,
    VectorError,
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)
from .skip_init import skip_init
from .weight_and_spectral_norm import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

__all__ = [
    "NonFiniteError",
    "VectorError",
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]
