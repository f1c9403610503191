"""Learning-rate schedulers, with PyTorch's names, arguments and values. In: an optimizer; out: its learning rates.

A scheduler sets `lr` of the optimizer's groups at every step(), on the host, between calls of a compiled step. That
writes one number to the device and compiles nothing. Call it after the optimizer's step. A scheduler has one or two formulas:
`get_lr` computes the next rate from the present one, so that schedulers combine, and `_get_closed_form_lr`, if it
exists, computes it from the initial rate. Reference: torch.optim.lr_scheduler.
"""

from ...system.suggestions import suggesting as _suggesting
from .base import LRScheduler as LRScheduler
from .base import ResumeError as ResumeError
from .base import SchedulerError as SchedulerError
from .by_function import LambdaLR, MultiplicativeLR
from .combined import ChainedScheduler, SequentialLR, warmup_cosine
from .cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from .cycles import CyclicLR, OneCycleLR
from .formulas import ConstantLR, ExponentialLR, LinearLR, MultiStepLR, PolynomialLR, StepLR
from .plateau import ReduceLROnPlateau

_LRScheduler = LRScheduler  # its older name, from which programs derive classes

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "warmup_cosine",
]

globals()["__getattr__"] = _suggesting(__name__)  # hidden from type checkers, which would accept any name
