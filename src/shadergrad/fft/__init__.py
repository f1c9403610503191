"""Discrete Fourier transforms, as torch.fft, with gradients. Complex numbers live on the cpu device, and so do these.

From webgpu they raise a DTypeError; x.cpu() on the way in, and .to("webgpu") of real results, pass gradients. Cooley and Tukey,
1965; computed by scipy.fft.
"""

from .frequencies import (
    fftfreq,
    fftshift,
    ifftshift,
    rfftfreq,
)
from .transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
