"""Modules, with PyTorch's names. Each family has one file, whose `__all__` lists the public names; functional/ has their functions."""

from ..system.suggestions import suggesting as _suggesting
from . import attention as attention
from . import functional as functional
from . import init as init
from . import modules as modules
from . import parallel as parallel
from . import utils as utils
from .activations import *
from .batchnorm import *
from .containers import *
from .conv import *
from .dropout import *
from .embedding import *
from .embedding_bags import *
from .folding import *
from .label_losses import *
from .lazy import *
from .linear import *
from .linear_cross_entropy import *
from .losses import *
from .module import *
from .multihead_attention import *
from .normalization import *
from .padding import *
from .parallel import DataParallel as DataParallel
from .parameter import *
from .parameter_containers import *
from .pooling import *
from .recurrent import *
from .recurrent_cells import *
from .reshaping import *
from .softmax import *
from .transformer import *
from .transformer_layers import *
from .unpooling import *

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *sorted(name for name, value in globals().items() if isinstance(value, type)),
    "attention",
    "functional",
    "init",
    "modules",
    "utils",
]

globals()["__getattr__"] = _suggesting(__name__)  # hidden from type checkers, which would accept any name
