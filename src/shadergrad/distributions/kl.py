"""Kullback and Leibler's divergence between distributions, by pairs of their classes."""

from . import divergences, divergences_across
from .kl_registry import KL_REGISTRY as KL_REGISTRY
from .kl_registry import NoDivergenceError, kl_divergence, register_kl

__all__ = ["NoDivergenceError", "kl_divergence", "register_kl"]
__rules__ = (divergences, divergences_across)  # importing them registers their rules
