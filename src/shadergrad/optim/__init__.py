"""Optimizers, with PyTorch's names and update rules. A step is captured as a whole, and compiles to few dispatches."""

from ..system.suggestions import suggesting as _suggesting
from . import lr_scheduler as lr_scheduler
from . import swa_utils as swa_utils
from .adadelta import Adadelta as Adadelta
from .adafactor import Adafactor
from .adagrad import Adagrad as Adagrad
from .adam import Adam as Adam
from .adam import AdamW as AdamW
from .adamax import Adamax
from .asgd import ASGD
from .diloco import DiLoCo as DiLoCo
from .lbfgs import LBFGS as LBFGS
from .lion import Lion as Lion
from .muon import Muon as Muon
from .nadam import NAdam as NAdam
from .optimizer import Optimizer as Optimizer
from .optimizer import ParamGroup as ParamGroup
from .radam import RAdam as RAdam
from .rmsprop import RMSprop as RMSprop
from .rprop import Rprop
from .sgd import SGD as SGD
from .sparse_adam import SparseAdam as SparseAdam
from .zero import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "DiLoCo",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "ParamGroup",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "ZeroRedundancyOptimizer",
    "lr_scheduler",
    "swa_utils",
]

globals()["__getattr__"] = _suggesting(__name__)  # hidden from type checkers, which would accept any name
