"""PyTorch's names of module and pooling functions that have other names in this library."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import shadergrad


def stateless() -> dict[str, Any]:
    def functional_call(
        module: Any,
        parameters_and_buffers: dict[str, Any],
        args: Any = None,
        kwargs: dict[str, Any] | None = None,
        *,
        tie_weights: bool = True,
        strict: bool = False,
    ) -> Any:
        """torch.func.functional_call under its former name, with a warning."""
        warnings.warn(
            "torch.nn.utils.stateless.functional_call is deprecated. Hint: torch.func.functional_call.",
            FutureWarning,
            stacklevel=2,
        )
        return shadergrad.func.functional_call(
            module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
        )

    return {"functional_call": functional_call}


def with_indices() -> dict[str, Any]:
    """The pooling functions that also return the positions of the maxima."""

    def also(name: str) -> Any:
        pool = getattr(shadergrad.nn.functional, name)

        @functools.wraps(pool)
        def call(*args: Any, **options: Any) -> Any:
            return pool(*args, **{**options, "return_indices": True})

        return call

    kinds = ("max_pool", "adaptive_max_pool", "fractional_max_pool")
    names = [f"{kind}{n}d" for kind in kinds for n in (1, 2, 3) if hasattr(shadergrad.nn.functional, f"{kind}{n}d")]
    return {f"{name}_with_indices": also(name) for name in names}
