"""torch.autocast on the device, by PyTorch's lists for GPUs: operators that run in the lower dtype, in float32, and in the widest dtype of
their operands. All others run in the dtype of their operands. float64 and integers are never cast.

Casts of weights are cached until the outermost context ends, so that a weight used twice is cast once, and so is its gradient.

https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

from .private import AUTOCAST_KEY, is_under_transforms, overload, without_autocast
from .storage import is_ours

LOWER = """
_convolution _convolution.deprecated convolution conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding conv_tbc conv_transpose1d
conv_transpose2d.input conv_transpose3d.input prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul
linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell scaled_dot_product_attention
"""
FLOAT = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar softplus
layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss
cosine_embedding_loss nll_loss nll_loss2d nll_loss_nd cross_entropy_loss hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss
margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist
cdist renorm logsumexp upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d
upsample_bicubic2d prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
linalg_matrix_norm.str_ord sum sum.dim_IntList norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dtype norm.ScalarOpt_dim_dtype
"""
WIDEST = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add"
REFUSED = "binary_cross_entropy"
_libraries: list[Any] = []
# by the weight's id, which stays its own while the weight is kept here
_casts: dict[tuple[int, torch.dtype, bool], tuple[torch.Tensor, torch.Tensor]] = {}


def _is_cast(a: Any) -> bool:
    return is_ours(a) and a.is_floating_point() and a.dtype is not torch.float64


def _widest(args: Any, kwargs: Any) -> torch.dtype:
    dtypes = {a.dtype for a in pytree.tree_leaves((args, kwargs)) if _is_cast(a)}
    return torch.float32 if torch.float32 in dtypes else torch.get_autocast_dtype("webgpu")


def _is_kept(a: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether PyTorch would cache a cast: of float32 weights to the lower dtype. torch.func's wrappers end with their transform."""
    return (
        a.requires_grad
        and a.is_leaf
        and a.dtype is torch.float32
        and dtype is torch.get_autocast_dtype("webgpu")
        and torch.is_autocast_cache_enabled()
        and not a._is_view()
        and not is_under_transforms()
    )


def _cast(a: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A cast, or the cached one. As in PyTorch, a weight that is changed within the context keeps the cast of its old values."""
    if not _is_kept(a, dtype):
        return a.to(dtype)
    key = id(a), dtype, torch.is_inference_mode_enabled()
    if key not in _casts:
        with torch.enable_grad():  # without a history it would swallow the gradients of later uses
            _casts[key] = a, a.to(dtype)
    return _casts[key][1]


def _replace_clearing() -> None:
    of_torch = torch.clear_autocast_cache

    def clear_autocast_cache() -> None:
        """PyTorch's own function, which torch.autocast calls when the outermost context ends."""
        _casts.clear()
        of_torch()

    torch.clear_autocast_cache = clear_autocast_cache


def _policy(op: Any, dtype_for: Callable[[Any, Any], torch.dtype]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with without_autocast():
            dtype = dtype_for(args, kwargs)

            def cast(a: Any) -> Any:
                return _cast(a, dtype) if _is_cast(a) and a.dtype is not dtype else a

            args, kwargs = pytree.tree_map(cast, (args, kwargs))
            return op(*args, **kwargs)

    return run


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: their gradient in halves is often infinite. "
        "Hint: binary_cross_entropy_with_logits, of what the sigmoid was taken of."
    )


def register() -> None:
    """Register the policies, the fallthrough for all other operators, and the clearing of cached casts."""
    general = torch.library.Library("_", "IMPL", AUTOCAST_KEY)
    general.fallback(torch.library.fallthrough_kernel)
    library = torch.library.Library("aten", "IMPL", AUTOCAST_KEY)
    _libraries.extend((general, library))
    for names, dtype_for in (
        (LOWER, lambda *_: torch.get_autocast_dtype("webgpu")),
        (FLOAT, lambda *_: torch.float32),
        (WIDEST, _widest),
    ):
        for name in names.split():
            op = overload(name)
            if op is not None:
                library.impl(name, _policy(op, dtype_for), AUTOCAST_KEY)
    for name in REFUSED.split():
        library.impl(name, _refuse, AUTOCAST_KEY)
    _replace_clearing()
