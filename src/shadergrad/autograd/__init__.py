"""Gradients of tensors and of functions, custom gradient rules, gradient checks, and contexts that switch recording.

    grad, backward      derivatives of recorded tensors
    Function            an operation with its own backward step
    functional          jacobian, hessian, vjp, jvp, hvp, vhp of Python functions
    gradcheck           derivatives against finite differences

Reference: https://pytorch.org/docs/stable/autograd.html
"""

from ..tensor import backward
from . import functional, graph
from .activation_checkpointing import checkpoint
from .anomaly_mode import detect_anomaly, is_anomaly_check_nan_enabled, is_anomaly_enabled, set_detect_anomaly
from .derivatives import grad
from .function import Function, FunctionCtx, once_differentiable
from .grad_mode import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from .variable import Variable

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
    "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
]
