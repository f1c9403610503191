"""Gradients of tensors and of functions, custom gradient rules, gradient checks, and contexts that switch recording.

    grad, backward      derivatives of recorded tensors
    Function            an operation with its own backward step
    functional          jacobian, hessian, vjp, jvp, hvp, vhp of Python functions
    gradcheck           derivatives against finite differences

Reference: https://pytorch.org/docs/stable/autograd.html
"""

from ..tensor import backward
from . import functional
from .derivatives import grad
from .function import Function, FunctionCtx, once_differentiable
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from .legacy import Variable, detect_anomaly, set_detect_anomaly
from .modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from .recompute import checkpoint

__all__ = [
    "Function",
    "FunctionCtx",
    "GradcheckError",
    "Variable",
    "backward",
    "checkpoint",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
]
