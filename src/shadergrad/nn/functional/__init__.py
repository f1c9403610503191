"""Functions of networks: activations, maps, convolution, pooling, normalisation, attention, losses. One file a family.

What is imported here is public. Each is behind a check: what its signature calls a Tensor must be one.
"""

from types import FunctionType as _FunctionType

from ..arguments import takes_tensors as _takes_tensors
from .activations import celu as celu
from .activations import elu as elu
from .activations import gelu as gelu
from .activations import glu as glu
from .activations import gumbel_softmax as gumbel_softmax
from .activations import hardshrink as hardshrink
from .activations import hardsigmoid as hardsigmoid
from .activations import hardswish as hardswish
from .activations import hardtanh as hardtanh
from .activations import leaky_relu as leaky_relu
from .activations import log_softmax as log_softmax
from .activations import logsigmoid as logsigmoid
from .activations import mish as mish
from .activations import prelu as prelu
from .activations import relu as relu
from .activations import relu6 as relu6
from .activations import rrelu as rrelu
from .activations import selu as selu
from .activations import sigmoid as sigmoid
from .activations import silu as silu
from .activations import softmax as softmax
from .activations import softmin as softmin
from .activations import softplus as softplus
from .activations import softshrink as softshrink
from .activations import softsign as softsign
from .activations import tanh as tanh
from .activations import tanhshrink as tanhshrink
from .activations import threshold as threshold
from .alignment import ctc_loss as ctc_loss
from .attention import scaled_dot_product_attention as scaled_dot_product_attention
from .bags import embedding_bag as embedding_bag
from .classification import cross_entropy as cross_entropy
from .classification import nll_loss as nll_loss
from .contrast import cosine_embedding_loss as cosine_embedding_loss
from .contrast import hinge_embedding_loss as hinge_embedding_loss
from .contrast import margin_ranking_loss as margin_ranking_loss
from .contrast import triplet_margin_loss as triplet_margin_loss
from .contrast import triplet_margin_with_distance_loss as triplet_margin_with_distance_loss
from .conv import conv1d as conv1d
from .conv import conv2d as conv2d
from .conv import conv3d as conv3d
from .conv import conv_transpose1d as conv_transpose1d
from .conv import conv_transpose2d as conv_transpose2d
from .conv import conv_transpose3d as conv_transpose3d
from .conv import fold as fold
from .conv import unfold as unfold
from .distance import cosine_similarity as cosine_similarity
from .distance import normalize as normalize
from .distance import pairwise_distance as pairwise_distance
from .distance import pdist as pdist
from .dropout import alpha_dropout as alpha_dropout
from .dropout import dropout as dropout
from .dropout import dropout1d as dropout1d
from .dropout import dropout2d as dropout2d
from .dropout import dropout3d as dropout3d
from .dropout import feature_alpha_dropout as feature_alpha_dropout
from .inplace import celu_ as celu_
from .inplace import elu_ as elu_
from .inplace import hardtanh_ as hardtanh_
from .inplace import leaky_relu_ as leaky_relu_
from .inplace import relu_ as relu_
from .inplace import rrelu_ as rrelu_
from .inplace import selu_ as selu_
from .inplace import threshold_ as threshold_
from .linear import bilinear as bilinear
from .linear import channel_shuffle as channel_shuffle
from .linear import embedding as embedding
from .linear import linear as linear
from .linear import one_hot as one_hot
from .linear import unflatten as unflatten
from .linear_cross_entropy import linear_cross_entropy as linear_cross_entropy
from .losses import binary_cross_entropy as binary_cross_entropy
from .losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .losses import gaussian_nll_loss as gaussian_nll_loss
from .losses import huber_loss as huber_loss
from .losses import kl_div as kl_div
from .losses import l1_loss as l1_loss
from .losses import mse_loss as mse_loss
from .losses import poisson_nll_loss as poisson_nll_loss
from .losses import smooth_l1_loss as smooth_l1_loss
from .losses import soft_margin_loss as soft_margin_loss
from .margins import multi_margin_loss as multi_margin_loss
from .margins import multilabel_margin_loss as multilabel_margin_loss
from .margins import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from .multihead import multi_head_attention_forward as multi_head_attention_forward
from .normalization import batch_norm as batch_norm
from .normalization import group_norm as group_norm
from .normalization import instance_norm as instance_norm
from .normalization import layer_norm as layer_norm
from .normalization import local_response_norm as local_response_norm
from .normalization import rms_norm as rms_norm
from .padding import pad as pad
from .pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from .pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from .pooling import adaptive_avg_pool3d as adaptive_avg_pool3d
from .pooling import adaptive_max_pool1d as adaptive_max_pool1d
from .pooling import adaptive_max_pool2d as adaptive_max_pool2d
from .pooling import adaptive_max_pool3d as adaptive_max_pool3d
from .pooling import avg_pool1d as avg_pool1d
from .pooling import avg_pool2d as avg_pool2d
from .pooling import avg_pool3d as avg_pool3d
from .pooling import max_pool1d as max_pool1d
from .pooling import max_pool2d as max_pool2d
from .pooling import max_pool3d as max_pool3d
from .resampling import interpolate as interpolate
from .resampling import pixel_shuffle as pixel_shuffle
from .resampling import pixel_unshuffle as pixel_unshuffle
from .resampling import upsample as upsample
from .resampling import upsample_bilinear as upsample_bilinear
from .resampling import upsample_nearest as upsample_nearest
from .sampling import affine_grid as affine_grid
from .sampling import grid_sample as grid_sample
from .unpooling import fractional_max_pool2d as fractional_max_pool2d
from .unpooling import fractional_max_pool3d as fractional_max_pool3d
from .unpooling import lp_pool1d as lp_pool1d
from .unpooling import lp_pool2d as lp_pool2d
from .unpooling import lp_pool3d as lp_pool3d
from .unpooling import max_unpool1d as max_unpool1d
from .unpooling import max_unpool2d as max_unpool2d
from .unpooling import max_unpool3d as max_unpool3d

# what may be told a tensor to write its result to, `out=`
_WITH_OUT = frozenset((
    "avg_pool2d", "avg_pool3d", "gelu", "hardshrink", "linear", "logsigmoid", "normalize", "softplus", "softshrink",
))  # fmt: skip

# what PyTorch has for floating tensors alone
_FLOATING = frozenset((
    "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "leaky_relu", "logsigmoid", "mish", "prelu",
    "rrelu", "selu", "silu", "softplus", "softshrink",
))  # fmt: skip

for _name, _function in list(globals().items()):
    if isinstance(_function, _FunctionType) and not _name.startswith("_"):
        globals()[_name] = _takes_tensors(_function, _name, _name in _WITH_OUT, _name in _FLOATING)
        globals()[_name].__module__ = __name__  # where pickle finds it

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unflatten",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]
