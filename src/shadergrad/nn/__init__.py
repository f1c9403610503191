"""Modules, PyTorch's names. One file a family; functional/ holds what they compute. What is imported here is public."""

from . import functional as functional
from . import init as init
from . import parallel as parallel
from . import utils as utils
from .activations import CELU as CELU
from .activations import ELU as ELU
from .activations import GELU as GELU
from .activations import SELU as SELU
from .activations import Hardshrink as Hardshrink
from .activations import Hardsigmoid as Hardsigmoid
from .activations import Hardswish as Hardswish
from .activations import Hardtanh as Hardtanh
from .activations import LeakyReLU as LeakyReLU
from .activations import LogSigmoid as LogSigmoid
from .activations import Mish as Mish
from .activations import PReLU as PReLU
from .activations import ReLU as ReLU
from .activations import ReLU6 as ReLU6
from .activations import RReLU as RReLU
from .activations import Sigmoid as Sigmoid
from .activations import SiLU as SiLU
from .activations import Softplus as Softplus
from .activations import Softshrink as Softshrink
from .activations import Softsign as Softsign
from .activations import Tanh as Tanh
from .activations import Tanhshrink as Tanhshrink
from .activations import Threshold as Threshold
from .attention import MultiheadAttention as MultiheadAttention
from .bags import EmbeddingBag as EmbeddingBag
from .batchnorm import BatchNorm1d as BatchNorm1d
from .batchnorm import BatchNorm2d as BatchNorm2d
from .batchnorm import BatchNorm3d as BatchNorm3d
from .batchnorm import InstanceNorm1d as InstanceNorm1d
from .batchnorm import InstanceNorm2d as InstanceNorm2d
from .batchnorm import InstanceNorm3d as InstanceNorm3d
from .containers import ModuleDict as ModuleDict
from .containers import ModuleList as ModuleList
from .containers import Sequential as Sequential
from .conv import Conv1d as Conv1d
from .conv import Conv2d as Conv2d
from .conv import Conv3d as Conv3d
from .conv import ConvTranspose1d as ConvTranspose1d
from .conv import ConvTranspose2d as ConvTranspose2d
from .conv import ConvTranspose3d as ConvTranspose3d
from .dropout import AlphaDropout as AlphaDropout
from .dropout import Dropout as Dropout
from .dropout import Dropout1d as Dropout1d
from .dropout import Dropout2d as Dropout2d
from .dropout import Dropout3d as Dropout3d
from .dropout import FeatureAlphaDropout as FeatureAlphaDropout
from .embedding import Embedding as Embedding
from .folding import Fold, Unfold, UpsamplingBilinear2d, UpsamplingNearest2d
from .label_losses import CTCLoss as CTCLoss
from .label_losses import MultiLabelMarginLoss as MultiLabelMarginLoss
from .label_losses import MultiLabelSoftMarginLoss as MultiLabelSoftMarginLoss
from .label_losses import MultiMarginLoss as MultiMarginLoss
from .lazy import (
    LazyBatchNorm1d,
    LazyBatchNorm2d,
    LazyBatchNorm3d,
    LazyConv1d,
    LazyConv2d,
    LazyConv3d,
    LazyConvTranspose1d,
    LazyConvTranspose2d,
    LazyConvTranspose3d,
    LazyInstanceNorm1d,
    LazyInstanceNorm2d,
    LazyInstanceNorm3d,
    LazyLinear,
    UninitializedBuffer,
    UninitializedParameter,
)
from .linear import Bilinear as Bilinear
from .linear import Identity as Identity
from .linear import Linear as Linear
from .linear_cross_entropy import LinearCrossEntropyLoss as LinearCrossEntropyLoss
from .linear_cross_entropy import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from .losses import BCELoss as BCELoss
from .losses import BCEWithLogitsLoss as BCEWithLogitsLoss
from .losses import CosineEmbeddingLoss as CosineEmbeddingLoss
from .losses import CosineSimilarity as CosineSimilarity
from .losses import CrossEntropyLoss as CrossEntropyLoss
from .losses import GaussianNLLLoss as GaussianNLLLoss
from .losses import HingeEmbeddingLoss as HingeEmbeddingLoss
from .losses import HuberLoss as HuberLoss
from .losses import KLDivLoss as KLDivLoss
from .losses import L1Loss as L1Loss
from .losses import MarginRankingLoss as MarginRankingLoss
from .losses import MSELoss as MSELoss
from .losses import NLLLoss as NLLLoss
from .losses import PairwiseDistance as PairwiseDistance
from .losses import PoissonNLLLoss as PoissonNLLLoss
from .losses import SmoothL1Loss as SmoothL1Loss
from .losses import SoftMarginLoss as SoftMarginLoss
from .losses import TripletMarginLoss as TripletMarginLoss
from .losses import TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss
from .module import Module as Module
from .normalization import GroupNorm as GroupNorm
from .normalization import LayerNorm as LayerNorm
from .normalization import LocalResponseNorm as LocalResponseNorm
from .normalization import RMSNorm as RMSNorm
from .padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from .parallel import DataParallel as DataParallel
from .parameter import Parameter as Parameter
from .parameter_containers import ParameterDict as ParameterDict
from .parameter_containers import ParameterList as ParameterList
from .pooling import AdaptiveAvgPool1d as AdaptiveAvgPool1d
from .pooling import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from .pooling import AdaptiveAvgPool3d as AdaptiveAvgPool3d
from .pooling import AdaptiveMaxPool1d as AdaptiveMaxPool1d
from .pooling import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from .pooling import AdaptiveMaxPool3d as AdaptiveMaxPool3d
from .pooling import AvgPool1d as AvgPool1d
from .pooling import AvgPool2d as AvgPool2d
from .pooling import AvgPool3d as AvgPool3d
from .pooling import MaxPool1d as MaxPool1d
from .pooling import MaxPool2d as MaxPool2d
from .pooling import MaxPool3d as MaxPool3d
from .pooling import Upsample as Upsample
from .recurrent import GRU as GRU
from .recurrent import LSTM as LSTM
from .recurrent import RNN as RNN
from .recurrent import RNNBase as RNNBase
from .recurrent_cells import GRUCell as GRUCell
from .recurrent_cells import LSTMCell as LSTMCell
from .recurrent_cells import RNNCell as RNNCell
from .reshaping import ChannelShuffle as ChannelShuffle
from .reshaping import Flatten as Flatten
from .reshaping import PixelShuffle as PixelShuffle
from .reshaping import PixelUnshuffle as PixelUnshuffle
from .reshaping import Unflatten as Unflatten
from .softmax import GLU as GLU
from .softmax import LogSoftmax as LogSoftmax
from .softmax import Softmax as Softmax
from .softmax import Softmax2d as Softmax2d
from .softmax import Softmin as Softmin
from .transformer import Transformer as Transformer
from .transformer import TransformerDecoder as TransformerDecoder
from .transformer import TransformerEncoder as TransformerEncoder
from .transformer_layers import TransformerDecoderLayer as TransformerDecoderLayer
from .transformer_layers import TransformerEncoderLayer as TransformerEncoderLayer
from .unpooling import (
    FractionalMaxPool2d,
    FractionalMaxPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "CTCLoss",
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "DataParallel",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "Flatten",
    "Fold",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "GRUCell",
    "GaussianNLLLoss",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "KLDivLoss",
    "L1Loss",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "LSTMCell",
    "LayerNorm",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "LeakyReLU",
    "Linear",
    "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions",
    "LocalResponseNorm",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "MultiheadAttention",
    "NLLLoss",
    "PReLU",
    "PairwiseDistance",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNLLLoss",
    "RMSNorm",
    "RNNBase",
    "RNNCell",
    "RReLU",
    "ReLU",
    "ReLU6",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
    "Unflatten",
    "Unfold",
    "UninitializedBuffer",
    "UninitializedParameter",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
    "functional",
    "init",
    "utils",
]
