"""Functions of functions, as torch.func: gradients, products with Jacobians, calls with other parameters, batches.

grad, vjp, jvp, linearize, jacrev, hessian    transforms.py
vmap                                          batching.py
functional_call, stack_module_state           stateless.py
"""

from .batching import vmap
from .stateless import functional_call, replace_all_batch_norm_modules_, stack_module_state
from .transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
