# Written by scripts/stubs.py (`make stubs`) from the tables; not by hand.
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from .dtypes import FloatLimits, IntegerLimits
from .nn.functional import adaptive_avg_pool1d as adaptive_avg_pool1d
from .nn.functional import adaptive_max_pool1d as adaptive_max_pool1d
from .nn.functional import avg_pool1d as avg_pool1d
from .nn.functional import bilinear as bilinear
from .nn.functional import celu as celu
from .nn.functional import conv1d as conv1d
from .nn.functional import conv2d as conv2d
from .nn.functional import conv3d as conv3d
from .nn.functional import conv_transpose1d as conv_transpose1d
from .nn.functional import conv_transpose2d as conv_transpose2d
from .nn.functional import conv_transpose3d as conv_transpose3d
from .nn.functional import cosine_similarity as cosine_similarity
from .nn.functional import max_pool1d as max_pool1d
from .nn.functional import max_pool2d as max_pool2d
from .nn.functional import max_pool3d as max_pool3d
from .nn.functional import pairwise_distance as pairwise_distance
from .nn.functional import pdist as pdist
from .nn.functional import pixel_shuffle as pixel_shuffle
from .nn.functional import pixel_unshuffle as pixel_unshuffle
from .nn.functional import rms_norm as rms_norm
from .nn.functional import rrelu as rrelu
from .nn.functional import selu as selu
from .tensor.arithmetic import ArithmeticTensor
from .tensor.assembly import atleast_1d as atleast_1d
from .tensor.assembly import atleast_2d as atleast_2d
from .tensor.assembly import atleast_3d as atleast_3d
from .tensor.assembly import block_diag as block_diag
from .tensor.assembly import cartesian_prod as cartesian_prod
from .tensor.assembly import cdist as cdist
from .tensor.assembly import column_stack as column_stack
from .tensor.assembly import combinations as combinations
from .tensor.assembly import dstack as dstack
from .tensor.assembly import gradient as gradient
from .tensor.assembly import histogramdd as histogramdd
from .tensor.assembly import isin as isin
from .tensor.assembly import tril_indices as tril_indices
from .tensor.assembly import triu_indices as triu_indices
from .tensor.assembly import unravel_index as unravel_index
from .tensor.base import TensorBase
from .tensor.coercion import Number
from .tensor.comparison import ComparisonTensor
from .tensor.counts import CountedTensor, Histogram
from .tensor.divide import DividedTensor
from .tensor.elementwise import ElementwiseTensor
from .tensor.generator import Generator
from .tensor.index import IndexTensor
from .tensor.joining import cat as cat
from .tensor.joining import meshgrid as meshgrid
from .tensor.joining import stack as stack
from .tensor.numeric import MantissaAndExponent, NumericTensor
from .tensor.order import OrderTensor
from .tensor.products import ProductTensor
from .tensor.products import einsum as einsum
from .tensor.products import tensordot as tensordot
from .tensor.public import Tensor
from .tensor.reduce import MinAndMax, ReduceTensor, ValuesAndIndices
from .tensor.scans import ScanTensor
from .tensor.scatter import ScatterTensor
from .tensor.slices import SliceTensor

MADE: tuple[str, ...]
WITH_OUT: tuple[str, ...]
NUMBER_FIRST: frozenset[str]
e: float
inf: float
nan: float
pi: float
INPLACE_ACTIVATIONS: tuple[str, ...]
concat = cat
concatenate = cat

def abs(input: Tensor, *, out: Any = None) -> Tensor: ...
def absolute(input: Tensor, *, out: Any = None) -> Tensor: ...
def acos(input: Tensor, *, out: Any = None) -> Tensor: ...
def acosh(input: Tensor, *, out: Any = None) -> Tensor: ...
def add(input: Tensor | Number, other: ArithmeticTensor | Number, *, alpha: Number = 1, out: Any = None) -> Tensor: ...
def addbmm(
    input: Tensor, batch1: DividedTensor, batch2: DividedTensor, *, beta: float = 1, alpha: float = 1, out: Any = None
) -> Tensor: ...
def addcdiv(
    input: Tensor, tensor1: ArithmeticTensor, tensor2: ArithmeticTensor, *, value: Number = 1, out: Any = None
) -> Tensor: ...
def addcmul(
    input: Tensor, tensor1: ArithmeticTensor, tensor2: ArithmeticTensor, *, value: Number = 1, out: Any = None
) -> Tensor: ...
def addmm(
    input: Tensor, mat1: ProductTensor, mat2: ProductTensor, *, beta: float = 1, alpha: float = 1, out: Any = None
) -> Tensor: ...
def addmv(
    input: Tensor, mat: ProductTensor, vec: ProductTensor, *, beta: float = 1, alpha: float = 1, out: Any = None
) -> Tensor: ...
def addr(
    input: Tensor, vec1: DividedTensor, vec2: DividedTensor, *, beta: float = 1, alpha: float = 1, out: Any = None
) -> Tensor: ...
def adjoint(input: Tensor) -> Tensor: ...
def all(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, out: Any = None) -> Tensor: ...
def allclose(
    input: Tensor, other: ReduceTensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool: ...
def amax(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, out: Any = None
) -> Tensor: ...
def amin(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, out: Any = None
) -> Tensor: ...
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> MinAndMax[Tensor]: ...
def any(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, out: Any = None) -> Tensor: ...
def arccos(input: Tensor, *, out: Any = None) -> Tensor: ...
def arccosh(input: Tensor, *, out: Any = None) -> Tensor: ...
def arcsin(input: Tensor, *, out: Any = None) -> Tensor: ...
def arcsinh(input: Tensor, *, out: Any = None) -> Tensor: ...
def arctan(input: Tensor, *, out: Any = None) -> Tensor: ...
def arctan2(input: Tensor, other: ElementwiseTensor, *, out: Any = None) -> Tensor: ...
def arctanh(input: Tensor, *, out: Any = None) -> Tensor: ...
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Tensor: ...
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Tensor: ...
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Any = None
) -> Tensor: ...
def argwhere(input: Tensor) -> Tensor: ...
def asin(input: Tensor, *, out: Any = None) -> Tensor: ...
def asinh(input: Tensor, *, out: Any = None) -> Tensor: ...
def atan(input: Tensor, *, out: Any = None) -> Tensor: ...
def atan2(input: Tensor, other: ElementwiseTensor, *, out: Any = None) -> Tensor: ...
def atanh(input: Tensor, *, out: Any = None) -> Tensor: ...
def baddbmm(
    input: Tensor, batch1: ProductTensor, batch2: ProductTensor, *, beta: float = 1, alpha: float = 1, out: Any = None
) -> Tensor: ...
def bernoulli(input: Tensor, *, generator: Generator | None = None, out: Any = None) -> Tensor: ...
def bincount(input: Tensor, weights: ScatterTensor | None = None, minlength: int = 0) -> Tensor: ...
def bitwise_and(input: Tensor | Number, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def bitwise_left_shift(input: Tensor | Number, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def bitwise_not(input: Tensor, *, out: Any = None) -> Tensor: ...
def bitwise_or(input: Tensor | Number, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def bitwise_right_shift(input: Tensor | Number, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def bitwise_xor(input: Tensor | Number, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def bmm(input: Tensor, mat2: ProductTensor, *, out: Any = None) -> Tensor: ...
def broadcast_to(input: Tensor, shape: Sequence[int]) -> Tensor: ...
def bucketize(
    input: Tensor | Number, boundaries: OrderTensor, *, out_int32: bool = True, right: bool = False, out: Any = None
) -> Tensor: ...
def ceil(input: Tensor, *, out: Any = None) -> Tensor: ...
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]: ...
def clamp(
    input: Tensor,
    min: ElementwiseTensor | Number | None = None,
    max: ElementwiseTensor | Number | None = None,
    *,
    out: Any = None,
) -> Tensor: ...
def clamp_max(input: Tensor, max: ElementwiseTensor | Number, *, out: Any = None) -> Tensor: ...
def clamp_min(input: Tensor, min: ElementwiseTensor | Number, *, out: Any = None) -> Tensor: ...
def clip(
    input: Tensor,
    min: ElementwiseTensor | Number | None = None,
    max: ElementwiseTensor | Number | None = None,
    *,
    out: Any = None,
) -> Tensor: ...
def clone(input: Tensor) -> Tensor: ...
def copysign(input: Tensor, other: NumericTensor | Number, *, out: Any = None) -> Tensor: ...
def corrcoef(input: Tensor) -> Tensor: ...
def cos(input: Tensor, *, out: Any = None) -> Tensor: ...
def cosh(input: Tensor, *, out: Any = None) -> Tensor: ...
def count_nonzero(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor: ...
def cov(
    input: Tensor, *, correction: int = 1, fweights: DividedTensor | None = None, aweights: DividedTensor | None = None
) -> Tensor: ...
def cross(input: Tensor, other: DividedTensor, dim: int | None = None, *, out: Any = None) -> Tensor: ...
def cummax(input: Tensor, dim: int, *, out: Any = None) -> ValuesAndIndices[Tensor]: ...
def cummin(input: Tensor, dim: int, *, out: Any = None) -> ValuesAndIndices[Tensor]: ...
def cumprod(input: Tensor, dim: int, *, dtype: Any = None, out: Any = None) -> Tensor: ...
def cumsum(input: Tensor, dim: int, *, dtype: Any = None, out: Any = None) -> Tensor: ...
def cumulative_trapezoid(
    input: Tensor, x: ScanTensor | None = None, *, dx: Number | None = None, dim: int = -1
) -> Tensor: ...
def deg2rad(input: Tensor, *, out: Any = None) -> Tensor: ...
def detach(input: Tensor) -> Tensor: ...
def diag(input: Tensor, diagonal: int = 0, *, out: Any = None) -> Tensor: ...
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor: ...
def diagflat(input: Tensor, offset: int = 0) -> Tensor: ...
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor: ...
def diagonal_scatter(input: Tensor, src: ScatterTensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor: ...
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: SliceTensor | None = None,
    append: SliceTensor | None = None,
    *,
    out: Any = None,
) -> Tensor: ...
def digamma(input: Tensor, *, out: Any = None) -> Tensor: ...
def dist(input: Tensor, other: ReduceTensor, p: float = 2) -> Tensor: ...
def div(
    input: Tensor | Number, other: ArithmeticTensor | Number, *, rounding_mode: str | None = None, out: Any = None
) -> Tensor: ...
def divide(
    input: Tensor | Number, other: ArithmeticTensor | Number, *, rounding_mode: str | None = None, out: Any = None
) -> Tensor: ...
def dot(input: Tensor, tensor: ProductTensor, *, out: Any = None) -> Tensor: ...
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]: ...
def eq(input: Tensor, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def equal(input: Tensor, other: ReduceTensor) -> bool: ...
def erf(input: Tensor, *, out: Any = None) -> Tensor: ...
def erfc(input: Tensor, *, out: Any = None) -> Tensor: ...
def erfinv(input: Tensor, *, out: Any = None) -> Tensor: ...
def exp(input: Tensor, *, out: Any = None) -> Tensor: ...
def exp2(input: Tensor, *, out: Any = None) -> Tensor: ...
def expm1(input: Tensor, *, out: Any = None) -> Tensor: ...
def fix(input: Tensor, *, out: Any = None) -> Tensor: ...
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor: ...
def flip(input: Tensor, *axes: Any, dims: int | Sequence[int] | None = None) -> Tensor: ...
def fliplr(input: Tensor) -> Tensor: ...
def flipud(input: Tensor) -> Tensor: ...
def float_power(input: Tensor | Number, exponent: NumericTensor | Number, *, out: Any = None) -> Tensor: ...
def floor(input: Tensor, *, out: Any = None) -> Tensor: ...
def floor_divide(input: Tensor | Number, other: ArithmeticTensor | Number, *, out: Any = None) -> Tensor: ...
def fmax(input: Tensor, other: NumericTensor, *, out: Any = None) -> Tensor: ...
def fmin(input: Tensor, other: NumericTensor, *, out: Any = None) -> Tensor: ...
def fmod(input: Tensor, other: ArithmeticTensor | Number, *, out: Any = None) -> Tensor: ...
def frac(input: Tensor, *, out: Any = None) -> Tensor: ...
def frexp(input: Tensor, *, out: Any = None) -> MantissaAndExponent: ...
def gather(input: Tensor, dim: int, index: IndexTensor, *, out: Any = None) -> Tensor: ...
def gcd(input: Tensor, other: NumericTensor, *, out: Any = None) -> Tensor: ...
def ge(input: Tensor, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def ger(input: Tensor, vec2: ProductTensor, *, out: Any = None) -> Tensor: ...
def greater(input: Tensor, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def greater_equal(input: Tensor, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def gt(input: Tensor, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def heaviside(input: Tensor, values: ElementwiseTensor, *, out: Any = None) -> Tensor: ...
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Any = None) -> Tensor: ...
def histogram(
    input: Tensor,
    bins: int | CountedTensor,
    *,
    range: Any = None,
    weight: CountedTensor | None = None,
    density: bool = False,
    out: Any = None,
) -> Histogram: ...
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]: ...
def hypot(input: Tensor, other: ElementwiseTensor, *, out: Any = None) -> Tensor: ...
def index_add(
    input: Tensor, dim: int, index: IndexTensor, source: IndexTensor, *, alpha: float = 1, out: Any = None
) -> Tensor: ...
def index_copy(input: Tensor, dim: int, index: ScatterTensor, source: ScatterTensor, *, out: Any = None) -> Tensor: ...
def index_fill(input: Tensor, dim: int, index: IndexTensor, value: IndexTensor | Number) -> Tensor: ...
def index_put(
    input: Tensor, indices: Sequence[ScatterTensor], values: ScatterTensor, accumulate: bool = False
) -> Tensor: ...
def index_reduce(
    input: Tensor,
    dim: int,
    index: ScatterTensor,
    source: ScatterTensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Any = None,
) -> Tensor: ...
def index_select(input: Tensor, dim: int, index: IndexTensor, *, out: Any = None) -> Tensor: ...
def inner(input: Tensor, other: ProductTensor, *, out: Any = None) -> Tensor: ...
def is_floating_point(input: Tensor) -> bool: ...
def is_signed(input: Tensor) -> bool: ...
def isclose(
    input: Tensor, other: ElementwiseTensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor: ...
def isfinite(input: Tensor) -> Tensor: ...
def isinf(input: Tensor) -> Tensor: ...
def isnan(input: Tensor) -> Tensor: ...
def isneginf(input: Tensor, *, out: Any = None) -> Tensor: ...
def isposinf(input: Tensor, *, out: Any = None) -> Tensor: ...
def isreal(input: Tensor) -> Tensor: ...
def kron(input: Tensor, other: DividedTensor, *, out: Any = None) -> Tensor: ...
def kthvalue(
    input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None
) -> ValuesAndIndices[Tensor]: ...
def lcm(input: Tensor, other: NumericTensor, *, out: Any = None) -> Tensor: ...
def ldexp(input: Tensor, other: NumericTensor, *, out: Any = None) -> Tensor: ...
def le(input: Tensor, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def lerp(input: Tensor, end: ArithmeticTensor, weight: ArithmeticTensor | Number, *, out: Any = None) -> Tensor: ...
def less(input: Tensor, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def less_equal(input: Tensor, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def lgamma(input: Tensor, *, out: Any = None) -> Tensor: ...
def log(input: Tensor, *, out: Any = None) -> Tensor: ...
def log10(input: Tensor, *, out: Any = None) -> Tensor: ...
def log1p(input: Tensor, *, out: Any = None) -> Tensor: ...
def log2(input: Tensor, *, out: Any = None) -> Tensor: ...
def log_softmax(input: Tensor, dim: int, dtype: Any = None, *, out: Any = None) -> Tensor: ...
def logaddexp(input: Tensor, other: ElementwiseTensor, *, out: Any = None) -> Tensor: ...
def logaddexp2(input: Tensor, other: ElementwiseTensor, *, out: Any = None) -> Tensor: ...
def logcumsumexp(input: Tensor, dim: int, *, out: Any = None) -> Tensor: ...
def logical_and(input: Tensor, other: ComparisonTensor, *, out: Any = None) -> Tensor: ...
def logical_not(input: Tensor, *, out: Any = None) -> Tensor: ...
def logical_or(input: Tensor, other: ComparisonTensor, *, out: Any = None) -> Tensor: ...
def logical_xor(input: Tensor, other: ComparisonTensor, *, out: Any = None) -> Tensor: ...
def logit(input: Tensor, eps: float | None = None, *, out: Any = None) -> Tensor: ...
def logsumexp(input: Tensor, dim: int | Sequence[int], keepdim: bool = False, *, out: Any = None) -> Tensor: ...
def lt(input: Tensor, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def masked_fill(input: Tensor, mask: ComparisonTensor, value: ComparisonTensor | Number) -> Tensor: ...
def masked_scatter(input: Tensor, mask: IndexTensor, source: IndexTensor) -> Tensor: ...
def masked_select(input: Tensor, mask: IndexTensor, *, out: Any = None) -> Tensor: ...
def matmul(input: Tensor, other: ProductTensor, *, out: Any = None) -> Tensor: ...
@overload
def max(input: Tensor, dim: None = None, keepdim: bool = False, *, out: Any = None) -> Tensor: ...
@overload
def max(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> ValuesAndIndices[Tensor]: ...
@overload
def max(input: Tensor, dim: ReduceTensor, *, out: Any = None) -> Tensor: ...
def maximum(input: Tensor, other: ElementwiseTensor, *, out: Any = None) -> Tensor: ...
def mean(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Tensor: ...
@overload
def median(input: Tensor, dim: None = None, keepdim: bool = False, *, out: Any = None) -> Tensor: ...
@overload
def median(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> ValuesAndIndices[Tensor]: ...
@overload
def min(input: Tensor, dim: None = None, keepdim: bool = False, *, out: Any = None) -> Tensor: ...
@overload
def min(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> ValuesAndIndices[Tensor]: ...
@overload
def min(input: Tensor, dim: ReduceTensor, *, out: Any = None) -> Tensor: ...
def minimum(input: Tensor, other: ElementwiseTensor, *, out: Any = None) -> Tensor: ...
def mm(input: Tensor, mat2: ProductTensor, *, out: Any = None) -> Tensor: ...
def mode(input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> ValuesAndIndices[Tensor]: ...
def moveaxis(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor: ...
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor: ...
def msort(input: Tensor, *, out: Any = None) -> Tensor: ...
def mul(input: Tensor | Number, other: ArithmeticTensor | Number, *, out: Any = None) -> Tensor: ...
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None, out: Any = None
) -> Tensor: ...
def multiply(input: Tensor | Number, other: ArithmeticTensor | Number, *, out: Any = None) -> Tensor: ...
def mv(input: Tensor, vec: ProductTensor, *, out: Any = None) -> Tensor: ...
def nan_to_num(
    input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None, *, out: Any = None
) -> Tensor: ...
def nanmean(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, out: Any = None
) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: None = None, keepdim: bool = False, *, out: Any = None) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> ValuesAndIndices[Tensor]: ...
def nanquantile(
    input: Tensor,
    q: float | OrderTensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Any = None,
) -> Tensor: ...
def nansum(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Tensor: ...
def narrow(input: Tensor, dim: int, start: int | SliceTensor, length: int) -> Tensor: ...
def ne(input: Tensor, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def neg(input: Tensor, *, out: Any = None) -> Tensor: ...
def negative(input: Tensor, *, out: Any = None) -> Tensor: ...
def nextafter(input: Tensor, other: NumericTensor, *, out: Any = None) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Any = None) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True], out: Any = None) -> tuple[Tensor, ...]: ...
def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Any = None,
) -> Tensor: ...
def not_equal(input: Tensor, other: ComparisonTensor | Number, *, out: Any = None) -> Tensor: ...
def numel(input: Tensor) -> int: ...
def outer(input: Tensor, vec2: ProductTensor, *, out: Any = None) -> Tensor: ...
def permute(input: Tensor, *dims: Any) -> Tensor: ...
def positive(input: Tensor) -> Tensor: ...
def pow(input: Tensor | Number, exponent: ArithmeticTensor | Number, *, out: Any = None) -> Tensor: ...
def prelu(input: Tensor, weight: ReduceTensor) -> Tensor: ...
def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Tensor: ...
def put(input: Tensor, index: ScatterTensor, source: ScatterTensor, accumulate: bool = False) -> Tensor: ...
def quantile(
    input: Tensor,
    q: float | OrderTensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Any = None,
) -> Tensor: ...
def rad2deg(input: Tensor, *, out: Any = None) -> Tensor: ...
def ravel(input: Tensor) -> Tensor: ...
def reciprocal(input: Tensor, *, out: Any = None) -> Tensor: ...
def relu(input: Tensor) -> Tensor: ...
def remainder(input: Tensor | Number, other: ArithmeticTensor | Number, *, out: Any = None) -> Tensor: ...
def renorm(input: Tensor, p: float, dim: int, maxnorm: float, *, out: Any = None) -> Tensor: ...
def reshape(input: Tensor, *shape: Any) -> Tensor: ...
def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor: ...
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor: ...
def round(input: Tensor, *, decimals: int = 0, out: Any = None) -> Tensor: ...
def rsqrt(input: Tensor, *, out: Any = None) -> Tensor: ...
def rsub(input: Tensor, other: NumericTensor | Number, *, alpha: Number = 1) -> Tensor: ...
def scatter(
    input: Tensor,
    dim: int,
    index: IndexTensor,
    src: IndexTensor | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
    out: Any = None,
) -> Tensor: ...
def scatter_add(input: Tensor, dim: int, index: IndexTensor, src: IndexTensor, *, out: Any = None) -> Tensor: ...
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: ScatterTensor,
    src: ScatterTensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Any = None,
) -> Tensor: ...
def searchsorted(
    input: Tensor,
    values: OrderTensor | Number,
    *,
    out_int32: bool = True,
    right: bool = False,
    side: str | None = None,
    sorter: OrderTensor | None = None,
    out: Any = None,
) -> Tensor: ...
def select(input: Tensor, dim: int, index: int) -> Tensor: ...
def select_scatter(input: Tensor, src: ScatterTensor, dim: int, index: int) -> Tensor: ...
def sgn(input: Tensor, *, out: Any = None) -> Tensor: ...
def sigmoid(input: Tensor, *, out: Any = None) -> Tensor: ...
def sign(input: Tensor, *, out: Any = None) -> Tensor: ...
def signbit(input: Tensor, *, out: Any = None) -> Tensor: ...
def sin(input: Tensor, *, out: Any = None) -> Tensor: ...
def sinc(input: Tensor, *, out: Any = None) -> Tensor: ...
def sinh(input: Tensor, *, out: Any = None) -> Tensor: ...
def slice_scatter(
    input: Tensor,
    src: ScatterTensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Any = None,
) -> Tensor: ...
def softmax(input: Tensor, dim: int, dtype: Any = None, *, out: Any = None) -> Tensor: ...
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Any = None
) -> ValuesAndIndices[Tensor]: ...
def split(input: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]: ...
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]: ...
def sqrt(input: Tensor, *, out: Any = None) -> Tensor: ...
def square(input: Tensor, *, out: Any = None) -> Tensor: ...
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor: ...
def std(
    input: Tensor,
    dim: bool | int | Sequence[int] | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Any = None,
) -> Tensor: ...
def std_mean(
    input: Tensor,
    dim: bool | int | Sequence[int] | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]: ...
def sub(input: Tensor | Number, other: ArithmeticTensor | Number, *, alpha: Number = 1, out: Any = None) -> Tensor: ...
def subtract(
    input: Tensor | Number, other: ArithmeticTensor | Number, *, alpha: Number = 1, out: Any = None
) -> Tensor: ...
def sum(
    input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Tensor: ...
def swapaxes(input: Tensor, dim0: int, dim1: int) -> Tensor: ...
def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor: ...
def t(input: Tensor) -> Tensor: ...
def take(input: Tensor, index: ScatterTensor, *, out: Any = None) -> Tensor: ...
def take_along_dim(input: Tensor, indices: IndexTensor, dim: int | None = None, *, out: Any = None) -> Tensor: ...
def tan(input: Tensor, *, out: Any = None) -> Tensor: ...
def tanh(input: Tensor, *, out: Any = None) -> Tensor: ...
def tensor_split(
    input: Tensor, indices_or_sections: int | Sequence[int] | DividedTensor, dim: int = 0
) -> tuple[Tensor, ...]: ...
def tile(input: Tensor, *dims: Any) -> Tensor: ...
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None
) -> ValuesAndIndices[Tensor]: ...
def trace(input: Tensor) -> Tensor: ...
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor: ...
def trapezoid(input: Tensor, x: ScanTensor | None = None, *, dx: Number | None = None, dim: int = -1) -> Tensor: ...
def trapz(input: Tensor, x: ScanTensor | None = None, *, dx: Number | None = None, dim: int = -1) -> Tensor: ...
def tril(input: Tensor, diagonal: int = 0, *, out: Any = None) -> Tensor: ...
def triu(input: Tensor, diagonal: int = 0, *, out: Any = None) -> Tensor: ...
def true_divide(
    input: Tensor | Number, other: ArithmeticTensor | Number, *, rounding_mode: str | None = None, out: Any = None
) -> Tensor: ...
def trunc(input: Tensor, *, out: Any = None) -> Tensor: ...
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]: ...
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor: ...
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any: ...
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any: ...
def unsqueeze(input: Tensor, dim: int) -> Tensor: ...
def var(
    input: Tensor,
    dim: bool | int | Sequence[int] | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Any = None,
) -> Tensor: ...
def var_mean(
    input: Tensor,
    dim: bool | int | Sequence[int] | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]: ...
def vdot(input: Tensor, other: DividedTensor, *, out: Any = None) -> Tensor: ...
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]: ...
def xlogy(input: Tensor | Number, other: ElementwiseTensor | Number, *, out: Any = None) -> Tensor: ...
def zero_(input: Tensor) -> Tensor: ...
def relu_(input: Tensor) -> Tensor: ...
def sigmoid_(input: Tensor) -> Tensor: ...
def tanh_(input: Tensor) -> Tensor: ...
def arange(
    start: float | None = None,
    end: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
) -> Tensor: ...
def empty(
    *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, out: Any = None
) -> Tensor: ...
def eye(
    n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, out: Any = None
) -> Tensor: ...
def from_numpy(array: np.ndarray) -> Tensor: ...
def full(
    size: Any, fill_value: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, out: Any = None
) -> Tensor: ...
def full_like(
    x: TensorBase, fill_value: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor: ...
def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
) -> Tensor: ...
def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Any = None,
) -> Tensor: ...
def normal(
    mean: TensorBase | float = 0.0,
    std: TensorBase | float = 1.0,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    generator: Generator | None = None,
    out: Any = None,
) -> Tensor: ...
def ones(
    *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, out: Any = None
) -> Tensor: ...
def ones_like(x: TensorBase, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor: ...
def rand(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
    out: Any = None,
) -> Tensor: ...
def rand_like(
    x: TensorBase,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor: ...
def randint(
    low: int,
    high: int | Sequence[int] | None = None,
    size: Any = (),
    *,
    dtype: Any = None,
    device: Any = None,
    generator: Generator | None = None,
    out: Any = None,
) -> Tensor: ...
def randint_like(
    x: TensorBase,
    low: int,
    high: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    generator: Generator | None = None,
) -> Tensor: ...
def scalar_tensor(s: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor: ...
def randn(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
    out: Any = None,
) -> Tensor: ...
def randn_like(
    x: TensorBase,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor: ...
def randperm(n: int, *, device: Any = None, generator: Generator | None = None, out: Any = None) -> Tensor: ...
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor: ...
def zeros(
    *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, out: Any = None
) -> Tensor: ...
def zeros_like(x: TensorBase, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor: ...
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor: ...
def selu_(input: Tensor) -> Tensor: ...
def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor: ...
def is_tensor(obj: object) -> bool: ...
def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]: ...
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]: ...
def empty_like(x: Tensor, **options: Any) -> Tensor: ...
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor: ...
def fill(input: Tensor, value: float) -> Tensor: ...
def repeat_interleave(
    input: Tensor, repeats: int | Tensor | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor: ...
def hstack(tensors: Sequence[Tensor]) -> Tensor: ...
def vstack(tensors: Sequence[Tensor]) -> Tensor: ...
def finfo(type: Any = None) -> FloatLimits: ...
def iinfo(type: Any) -> IntegerLimits: ...
def where(condition: Tensor, input: Any = None, other: Any = None) -> Tensor: ...

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "add",
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addr",
    "adjoint",
    "all",
    "allclose",
    "amax",
    "amin",
    "aminmax",
    "any",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "avg_pool1d",
    "baddbmm",
    "bernoulli",
    "bilinear",
    "bincount",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "block_diag",
    "bmm",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "bucketize",
    "cartesian_prod",
    "cat",
    "cdist",
    "ceil",
    "celu",
    "celu_",
    "chunk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "clone",
    "column_stack",
    "combinations",
    "concat",
    "concatenate",
    "constant_pad_nd",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "copysign",
    "corrcoef",
    "cos",
    "cosh",
    "cosine_similarity",
    "count_nonzero",
    "cov",
    "cross",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "deg2rad",
    "detach",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diagonal_scatter",
    "diff",
    "digamma",
    "dist",
    "div",
    "divide",
    "dot",
    "dsplit",
    "dstack",
    "e",
    "einsum",
    "empty",
    "empty_like",
    "eq",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "eye",
    "fill",
    "finfo",
    "fix",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "frexp",
    "from_numpy",
    "full",
    "full_like",
    "gather",
    "gcd",
    "ge",
    "ger",
    "gradient",
    "greater",
    "greater_equal",
    "gt",
    "heaviside",
    "histc",
    "histogram",
    "histogramdd",
    "hsplit",
    "hstack",
    "hypot",
    "iinfo",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "index_select",
    "inf",
    "inner",
    "is_floating_point",
    "is_signed",
    "is_tensor",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "kron",
    "kthvalue",
    "lcm",
    "ldexp",
    "le",
    "lerp",
    "less",
    "less_equal",
    "lgamma",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logcumsumexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logspace",
    "logsumexp",
    "lt",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "matmul",
    "max",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mm",
    "mode",
    "moveaxis",
    "movedim",
    "msort",
    "mul",
    "multinomial",
    "multiply",
    "mv",
    "nan",
    "nan_to_num",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "narrow",
    "ne",
    "neg",
    "negative",
    "nextafter",
    "nonzero",
    "norm",
    "normal",
    "not_equal",
    "numel",
    "ones",
    "ones_like",
    "outer",
    "pairwise_distance",
    "pdist",
    "permute",
    "pi",
    "pixel_shuffle",
    "pixel_unshuffle",
    "positive",
    "pow",
    "prelu",
    "prod",
    "put",
    "quantile",
    "rad2deg",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "ravel",
    "reciprocal",
    "relu",
    "relu_",
    "remainder",
    "renorm",
    "repeat_interleave",
    "reshape",
    "rms_norm",
    "roll",
    "rot90",
    "round",
    "rrelu",
    "rrelu_",
    "rsqrt",
    "rsub",
    "scalar_tensor",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "select",
    "select_scatter",
    "selu",
    "selu_",
    "sgn",
    "sigmoid",
    "sigmoid_",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "slice_scatter",
    "softmax",
    "sort",
    "split",
    "split_with_sizes",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "std_mean",
    "sub",
    "subtract",
    "sum",
    "swapaxes",
    "swapdims",
    "t",
    "take",
    "take_along_dim",
    "tan",
    "tanh",
    "tanh_",
    "tensor",
    "tensor_split",
    "tensordot",
    "tile",
    "topk",
    "trace",
    "transpose",
    "trapezoid",
    "trapz",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
    "true_divide",
    "trunc",
    "unbind",
    "unflatten",
    "unique",
    "unique_consecutive",
    "unravel_index",
    "unsqueeze",
    "var",
    "var_mean",
    "vdot",
    "vsplit",
    "vstack",
    "where",
    "xlogy",
    "zero_",
    "zeros",
    "zeros_like",
]
