"""PyTorch's operators for which shadergrad has a function of the same name and signature. In: a name. Out: the function.

Each name below was compared with PyTorch over op_db. If signatures differ, there is a kernel in kernels/.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shadergrad as sg
from shadergrad.nn import functional as F

_VALUES = """
abs acos acosh addbmm addmv all all.dim all.dims any any.dim any.dims amax amin aminmax angle asin asinh atan atan2 atanh bitwise_and.Tensor
bitwise_not bitwise_or.Tensor bitwise_xor.Tensor ceil cholesky cholesky_inverse clamp clamp.Tensor clamp_max
clamp_max.Tensor clamp_min clamp_min.Tensor complex copysign.Tensor cos cosh cumprod cumsum diag_embed diagonal_scatter
digamma div.Tensor_mode dot eq.Scalar eq.Tensor equal erf erfc erfinv exp exp2 expm1 flip floor floor_divide fmax fmin fmod.Tensor
frac frexp.Tensor gather gcd ge.Scalar ge.Tensor gt.Scalar gt.Tensor heaviside histc histogram.bin_ct hypot i0 igamma igammac index_add
index_copy index_fill.int_Scalar index_fill.int_Tensor index_reduce index_select isin.Tensor_Tensor isnan isneginf isposinf lcm le.Scalar
le.Tensor lerp.Scalar lerp.Tensor lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit
lt.Scalar lt.Tensor lu_unpack masked_scatter masked_select max maximum median min minimum nan_to_num nanmedian nansum ne.Scalar ne.Tensor neg
nextafter norm.ScalarOpt_dim normal.Tensor_Tensor polar polygamma pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor put
reciprocal remainder.Tensor renorm roll round round.decimals rsqrt rsub.Tensor scatter.src scatter.value scatter_add scatter_reduce.two
select_scatter sigmoid sign signbit sin sinc sinh slice_scatter sqrt std.correction std_mean.correction take tan tanh trace
triangular_solve tril triu trunc var.correction var_mean.correction vdot xlogy.Tensor
"""
_POSITIONS = """
argmax argmin count_nonzero.dim_IntList kthvalue max.dim median.dim min.dim mode multinomial nanmedian.dim nonzero
sort.stable topk
"""  # whose positions and counts are int64 in PyTorch, int32 here
_FUNCTIONAL = """
avg_pool2d avg_pool3d channel_shuffle gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu
mish pixel_shuffle pixel_unshuffle softplus softshrink threshold
"""
_LINALG = """
cholesky_ex cross eig householder_product inv_ex lu lu_factor_ex lu_solve matrix_exp pinv.atol_rtol_tensor qr solve_triangular
"""
_SPECIAL = """
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
entr erfcx hermite_polynomial_h hermite_polynomial_he i0e i1 i1e laguerre_polynomial_l legendre_polynomial_p log_ndtr modified_bessel_i0
modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 ndtri scaled_modified_bessel_k0 scaled_modified_bessel_k1
shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
spherical_bessel_j0 xlog1py zeta
"""
SAME: dict[str, Callable[..., Any]] = {}


def _fill() -> None:
    for names, rooms, prefix in (
        (_VALUES, (sg, sg.Tensor), ""),
        (_FUNCTIONAL, (F, sg), ""),
        (_LINALG, (sg.linalg,), "linalg_"),
        (_SPECIAL, (sg.special,), "special_"),
    ):
        for name in names.split():
            SAME[prefix + name] = _found(rooms, name)
    for name in _POSITIONS.split():
        SAME[name] = _with_long_positions(_found((sg, sg.Tensor), name))


def _found(rooms: tuple[Any, ...], name: str) -> Callable[..., Any]:
    base = name.partition(".")[0]
    return next(getattr(room, base) for room in rooms if hasattr(room, base))


def _with_long_positions(function: Callable[..., Any]) -> Callable[..., Any]:
    """The positions, the only or the second result, as int64."""

    def run(*args: Any, **kwargs: Any) -> Any:
        out = function(*args, **kwargs)
        return out.to(sg.int64) if isinstance(out, sg.Tensor) else (out[0], out[1].to(sg.int64))

    return run


def function_of(name: str) -> Callable[..., Any] | None:
    """The shadergrad function for one of PyTorch's operators; None if none takes the same arguments."""
    if not SAME:
        _fill()
    return SAME.get(name)
