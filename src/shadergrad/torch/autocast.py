"""torch.autocast on the device: which operators run in the lower dtype, which in float32. All others run as they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

from .private import AUTOCAST_KEY, overload, without_autocast
from .storage import is_ours

LOWER = """
linear matmul mm bmm addmm baddbmm addbmm convolution conv1d conv2d conv3d conv_transpose1d conv_transpose2d.input conv_transpose3d.input
scaled_dot_product_attention lstm_cell gru_cell
"""
FLOAT = """
softmax.int log_softmax.int layer_norm rms_norm group_norm nll_loss nll_loss2d cross_entropy_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div
binary_cross_entropy_with_logits exp log log10 log2 log1p pow.Tensor_Scalar sum sum.dim_IntList cumsum cumprod prod norm.Scalar softplus
"""
_libraries: list[Any] = []


def _policy(op: Any, lower: bool) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with without_autocast():
            dtype = torch.get_autocast_dtype("webgpu") if lower else torch.float32

            def cast(a: Any) -> Any:
                return a.to(dtype) if is_ours(a) and a.is_floating_point() and a.dtype is not dtype else a

            args, kwargs = pytree.tree_map(cast, (args, kwargs))
            return op(*args, **kwargs)

    return run


def register() -> None:
    """Register the policies, and that all else passes through."""
    general = torch.library.Library("_", "IMPL", AUTOCAST_KEY)
    general.fallback(torch.library.fallthrough_kernel)
    library = torch.library.Library("aten", "IMPL", AUTOCAST_KEY)
    _libraries.extend((general, library))
    for names, lower in ((LOWER, True), (FLOAT, False)):
        for name in names.split():
            op = overload(name)
            if op is not None:
                library.impl(name, _policy(op, lower), AUTOCAST_KEY)
