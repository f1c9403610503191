"""Functions of neural networks: activations, linear maps, convolution, pooling, normalisation, attention, losses. One file per family.

The files' `__all__` list the public names. Each function is wrapped in a check that its tensor arguments are tensors.
"""

from types import FunctionType as _FunctionType

from ...system.suggestions import suggesting as _suggesting
from ...tensor.precision import follows_policy as _follows_policy
from ..arguments import takes_tensors as _takes_tensors
from .activations import *
from .attention import *
from .classification_losses import *
from .contrastive_losses import *
from .conv import *
from .ctc import *
from .distance import *
from .dropout import *
from .embedding_bags import *
from .grid_sampling import *
from .inplace_activations import *
from .interpolation import *
from .linear import *
from .linear_cross_entropy import *
from .loss_reduction import older_reduction as _older_reduction
from .losses import *
from .margin_losses import *
from .multihead_attention import *
from .normalization import *
from .padding import *
from .pooling import *
from .unpooling import *

# functions with an argument `out`
_WITH_OUT = frozenset((
    "avg_pool2d", "avg_pool3d", "gelu", "hardshrink", "linear", "logsigmoid", "normalize", "softplus", "softshrink",
))  # fmt: skip

# functions that PyTorch has for floating tensors only
_FLOATING = frozenset((
    "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "leaky_relu", "logsigmoid", "mish", "prelu",
    "rrelu", "selu", "silu", "softplus", "softshrink",
))  # fmt: skip

# losses that accept size_average and reduce in PyTorch
_OLDER_REDUCTION = frozenset((
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy",
    "hinge_embedding_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss",
    "soft_margin_loss", "triplet_margin_loss",
))  # fmt: skip

for _name, _function in list(globals().items()):
    if isinstance(_function, _FunctionType) and not _name.startswith("_"):
        globals()[_name] = _takes_tensors(
            _follows_policy(_function, _name), _name, _name in _WITH_OUT, _name in _FLOATING
        )
        if _name in _OLDER_REDUCTION:
            globals()[_name] = _older_reduction(globals()[_name])
        globals()[_name].__module__ = __name__  # the name under which pickle finds it

__all__ = sorted(  # pyright: ignore[reportUnsupportedDunderAll]
    _name for _name, _value in globals().items() if isinstance(_value, _FunctionType) and not _name.startswith("_")
)

globals()["__getattr__"] = _suggesting(__name__)  # hidden from type checkers, which would accept any name
