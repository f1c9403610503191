"""Special functions, as torch.special.

Those that training needs (gammas, error functions, modified Bessel functions, polynomials) run on the device; the others run
on the host, from webgpu with one warning (shadergrad/host_operations.py).
"""

from . import elementary, host_functions, polynomials
from .elementary import *
from .host_functions import *
from .polynomials import *

__all__: list[str] = []
__all__ += elementary.__all__
__all__ += host_functions.__all__
__all__ += polynomials.__all__
