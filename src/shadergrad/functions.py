"""The function forms: sg.exp(x) is x.exp(); functions of several tensors; constants. Exported by name from the package."""

from __future__ import annotations

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi

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
from .nn.functional import pixel_shuffle as pixel_shuffle
from .nn.functional import pixel_unshuffle as pixel_unshuffle
from .nn.functional import rms_norm as rms_norm
from .nn.functional import rrelu as rrelu
from .nn.functional import selu as selu
from .tensor import Tensor
from .tensor_functions import broadcast_shapes as broadcast_shapes
from .tensor_functions import broadcast_tensors as broadcast_tensors
from .tensor_functions import celu_ as celu_
from .tensor_functions import empty_like as empty_like
from .tensor_functions import finfo as finfo
from .tensor_functions import hstack as hstack
from .tensor_functions import iinfo as iinfo
from .tensor_functions import is_tensor as is_tensor
from .tensor_functions import relu_ as relu_
from .tensor_functions import rrelu_ as rrelu_
from .tensor_functions import selu_ as selu_
from .tensor_functions import sigmoid_ as sigmoid_
from .tensor_functions import tanh_ as tanh_
from .tensor_functions import vstack as vstack
from .tensor_linalg import einsum as einsum
from .tensor_linalg import tensordot as tensordot
from .tensor_math import where as where
from .tensor_move import meshgrid as meshgrid
from .tensor_shape import cat as cat
from .tensor_shape import stack as stack

abs = Tensor.abs
absolute = Tensor.absolute
acos = Tensor.acos
acosh = Tensor.acosh
add = Tensor.add
addcdiv = Tensor.addcdiv
addcmul = Tensor.addcmul
addmm = Tensor.addmm
addmv = Tensor.addmv
all = Tensor.all
allclose = Tensor.allclose
amax = Tensor.amax
amin = Tensor.amin
aminmax = Tensor.aminmax
any = Tensor.any
arccos = Tensor.arccos
arcsin = Tensor.arcsin
arctan = Tensor.arctan
argmax = Tensor.argmax
argmin = Tensor.argmin
argsort = Tensor.argsort
asin = Tensor.asin
asinh = Tensor.asinh
atan = Tensor.atan
atan2 = Tensor.atan2
atanh = Tensor.atanh
baddbmm = Tensor.baddbmm
bernoulli = Tensor.bernoulli
bitwise_and = Tensor.bitwise_and
bitwise_left_shift = Tensor.bitwise_left_shift
bitwise_not = Tensor.bitwise_not
bitwise_or = Tensor.bitwise_or
bitwise_right_shift = Tensor.bitwise_right_shift
bitwise_xor = Tensor.bitwise_xor
bmm = Tensor.bmm
broadcast_to = Tensor.broadcast_to
bucketize = Tensor.bucketize
ceil = Tensor.ceil
chunk = Tensor.chunk
clamp = Tensor.clamp
clamp_max = Tensor.clamp_max
clamp_min = Tensor.clamp_min
clip = Tensor.clip
clone = Tensor.clone
cos = Tensor.cos
cosh = Tensor.cosh
count_nonzero = Tensor.count_nonzero
cumprod = Tensor.cumprod
cumsum = Tensor.cumsum
deg2rad = Tensor.deg2rad
detach = Tensor.detach
diag = Tensor.diag
diagonal = Tensor.diagonal
diff = Tensor.diff
dist = Tensor.dist
div = Tensor.div
divide = Tensor.divide
dot = Tensor.dot
eq = Tensor.eq
equal = Tensor.equal
erf = Tensor.erf
erfinv = Tensor.erfinv
exp = Tensor.exp
exp2 = Tensor.exp2
expm1 = Tensor.expm1
fix = Tensor.fix
flatten = Tensor.flatten
flip = Tensor.flip
fliplr = Tensor.fliplr
flipud = Tensor.flipud
floor = Tensor.floor
floor_divide = Tensor.floor_divide
fmod = Tensor.fmod
frac = Tensor.frac
gather = Tensor.gather
ge = Tensor.ge
greater = Tensor.greater
greater_equal = Tensor.greater_equal
gt = Tensor.gt
heaviside = Tensor.heaviside
hypot = Tensor.hypot
index_add = Tensor.index_add
index_fill = Tensor.index_fill
index_select = Tensor.index_select
inner = Tensor.inner
is_floating_point = Tensor.is_floating_point
isclose = Tensor.isclose
isfinite = Tensor.isfinite
isinf = Tensor.isinf
isnan = Tensor.isnan
isneginf = Tensor.isneginf
isposinf = Tensor.isposinf
kthvalue = Tensor.kthvalue
le = Tensor.le
lerp = Tensor.lerp
less = Tensor.less
less_equal = Tensor.less_equal
log = Tensor.log
log10 = Tensor.log10
log1p = Tensor.log1p
log2 = Tensor.log2
log_softmax = Tensor.log_softmax
logaddexp = Tensor.logaddexp
logaddexp2 = Tensor.logaddexp2
logical_and = Tensor.logical_and
logical_not = Tensor.logical_not
logical_or = Tensor.logical_or
logical_xor = Tensor.logical_xor
logit = Tensor.logit
logsumexp = Tensor.logsumexp
lt = Tensor.lt
masked_fill = Tensor.masked_fill
masked_scatter = Tensor.masked_scatter
masked_select = Tensor.masked_select
matmul = Tensor.matmul
max = Tensor.max
maximum = Tensor.maximum
mean = Tensor.mean
median = Tensor.median
min = Tensor.min
minimum = Tensor.minimum
mm = Tensor.mm
moveaxis = Tensor.moveaxis
movedim = Tensor.movedim
mul = Tensor.mul
multinomial = Tensor.multinomial
multiply = Tensor.multiply
mv = Tensor.mv
nan_to_num = Tensor.nan_to_num
nanmean = Tensor.nanmean
nansum = Tensor.nansum
narrow = Tensor.narrow
ne = Tensor.ne
neg = Tensor.neg
negative = Tensor.negative
nonzero = Tensor.nonzero
norm = Tensor.norm
not_equal = Tensor.not_equal
numel = Tensor.numel
outer = Tensor.outer
permute = Tensor.permute
positive = Tensor.positive
pow = Tensor.pow
prelu = Tensor.prelu
prod = Tensor.prod
quantile = Tensor.quantile
rad2deg = Tensor.rad2deg
ravel = Tensor.ravel
reciprocal = Tensor.reciprocal
relu = Tensor.relu
remainder = Tensor.remainder
repeat_interleave = Tensor.repeat_interleave
reshape = Tensor.reshape
roll = Tensor.roll
round = Tensor.round
rsqrt = Tensor.rsqrt
scatter = Tensor.scatter
scatter_add = Tensor.scatter_add
searchsorted = Tensor.searchsorted
select = Tensor.select
sigmoid = Tensor.sigmoid
sign = Tensor.sign
sin = Tensor.sin
sinc = Tensor.sinc
sinh = Tensor.sinh
softmax = Tensor.softmax
sort = Tensor.sort
split = Tensor.split
sqrt = Tensor.sqrt
square = Tensor.square
squeeze = Tensor.squeeze
std = Tensor.std
std_mean = Tensor.std_mean
sub = Tensor.sub
subtract = Tensor.subtract
sum = Tensor.sum
swapaxes = Tensor.swapaxes
swapdims = Tensor.swapdims
t = Tensor.t
take_along_dim = Tensor.take_along_dim
tan = Tensor.tan
tanh = Tensor.tanh
tile = Tensor.tile
topk = Tensor.topk
trace = Tensor.trace
transpose = Tensor.transpose
tril = Tensor.tril
triu = Tensor.triu
true_divide = Tensor.true_divide
trunc = Tensor.trunc
unbind = Tensor.unbind
unflatten = Tensor.unflatten
unsqueeze = Tensor.unsqueeze
var = Tensor.var
var_mean = Tensor.var_mean
xlogy = Tensor.xlogy
zero_ = Tensor.zero_


concat = concatenate = cat
