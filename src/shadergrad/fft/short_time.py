"""The short-time Fourier transform and its inverse, composed of `fft` along frames.

Allen, 1977, "Short term spectral analysis, synthesis, and modification by discrete Fourier transform".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arguments import checked
from ..complex_numbers import real, view_as_real
from ..errors import ArgumentError, DTypeError, ShapeError
from ..tensor import Tensor, cat, ones, tensor, zeros
from .transforms import fft, ifft, irfft, rfft


@checked
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Tensor:
    """The Fourier transforms of frames of n_fft samples, hop_length apart: (*, frequencies, frames), complex.

    input: real or complex, (length,) or (batch, length), on the cpu device.
    hop_length: by default n_fft // 4.
    window: (win_length,), in the middle of a frame, by default ones.
    center: centre frames at multiples of hop_length, with n_fft // 2 elements of padding on both sides, by pad_mode 'reflect',
    'constant', 'replicate' or 'circular'.
    normalized: divide by the root of n_fft.
    onesided: n_fft // 2 + 1 frequencies, the default for real signals.
    return_complex: required for real signals; False gives pairs (*, 2).
    Raises ShapeError and ArgumentError for sizes that do not fit.

    >>> sg.stft(sg.ones(8), 4, center=False, return_complex=True).shape
    shadergrad.Size([3, 5])
    """
    hop, width, shape = _sizes("stft", input, n_fft, hop_length, win_length, window)
    if input.ndim not in (1, 2):
        raise ShapeError(f"stft: expected a 1D or 2D tensor, but got {input.ndim}D tensor")
    is_complex = input.dtype.is_complex or shape.dtype.is_complex
    if return_complex is None and not is_complex:
        raise ArgumentError(
            "stft requires the return_complex parameter be given for real inputs. Hint: return_complex=True."
        )
    half = not is_complex if onesided is None else onesided
    if half and is_complex:
        raise ArgumentError("stft: Cannot have onesided output if window or input is complex")
    x = _padded(input, n_fft // 2, pad_mode) if center else input
    if x.shape[-1] < n_fft:
        raise ShapeError(f"stft: expected 0 < n_fft < {x.shape[-1]}, but got n_fft={n_fft}")
    frames = x.unfold(-1, n_fft, hop) * _centred(shape, width, n_fft)
    transform = rfft if half else fft
    found = transform(frames, norm="ortho" if normalized else None).mT
    return found if return_complex or return_complex is None else view_as_real(found)


@checked
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal of which `stft` with these arguments gave input (*, frequencies, frames): the least squares, by frames that
    are added where they overlap (Griffin and Lim, 1984). length: of the signal, cut or filled with zeros.

    Raises DTypeError for real numbers, ArgumentError if windows leave samples without any frame.

    >>> x = sg.tensor([1.0, 2.0, 3.0, 4.0])
    >>> sg.istft(sg.stft(x, 4, return_complex=True), 4)
    tensor([1., 2., 3., 4.])
    """
    if not input.dtype.is_complex:
        raise DTypeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    hop, width, shape = _sizes("istft", input, n_fft, hop_length, win_length, window)
    if input.ndim not in (2, 3) or not input.numel():
        raise ShapeError(f"istft: expected a tensor with 2 or 3 dimensions and elements, but got {list(input.shape)}")
    half = input.shape[-2] != n_fft if onesided is None else onesided
    if input.shape[-2] != (n_fft // 2 + 1 if half else n_fft):
        raise ShapeError(
            f"istft: expected the frequency dimension (2nd to the last) to match n_fft={n_fft}, but got {input.shape[-2]}"
        )
    if half and return_complex:
        raise ArgumentError("istft: cannot have onesided input and return_complex=True")
    shape = _centred(shape, width, n_fft)
    spectrum, norm = input.mT, "ortho" if normalized else None
    frames = irfft(spectrum, n_fft, norm=norm) if half else ifft(spectrum, norm=norm)
    frames = frames if half or return_complex else real(frames)
    count = frames.shape[-2]
    total = n_fft + hop * (count - 1)
    at = np.add.outer(hop * np.arange(count), np.arange(n_fft)).ravel()
    signal = _added(frames * shape, at, total)
    weight = _added((shape * shape).expand(count, n_fft), at, total)
    start = n_fft // 2 if center else 0
    end = total - start if length is None else min(start + length, total)
    signal, weight = signal[..., start:end], weight[start:end]
    if weight.abs().amin().item() < 1e-11:
        raise ArgumentError(
            "istft: window overlap add min: 1. Hint: frames must cover every sample; see hop_length and window."
        )
    signal = signal / weight
    missing = 0 if length is None else length - signal.shape[-1]
    return cat([signal, signal.new_zeros(*signal.shape[:-1], missing)], -1) if missing > 0 else signal


def _sizes(what: str, x: Tensor, n_fft: int, hop: int | None, width: int | None, window: Tensor | None) -> Any:
    """The distance of frames, the length of the window, and the window."""
    hop = n_fft // 4 if hop is None else hop
    width = n_fft if width is None else width
    if n_fft <= 0:
        raise ArgumentError(f"{what}: expected n_fft > 0, but got n_fft={n_fft}")
    if hop <= 0:
        raise ArgumentError(f"{what}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise ArgumentError(f"{what}: expected 0 < win_length <= n_fft, but got win_length={width}")
    if x.dtype.category < 2:
        raise DTypeError(f"{what}: expected a tensor of floating point or complex values, not {x.dtype.name}.")
    if window is None:
        return hop, width, ones(width, dtype=x.dtype.real, device=x.device)
    if tuple(window.shape) != (width,):
        raise ShapeError(
            f"{what}: expected a 1D window tensor of size equal to win_length={width}, but got {list(window.shape)}"
        )
    return hop, width, window


def _centred(window: Tensor, width: int, n_fft: int) -> Tensor:
    left = (n_fft - width) // 2
    if width == n_fft:
        return window
    return cat([window.new_zeros(left), window, window.new_zeros(n_fft - width - left)])


def _padded(x: Tensor, by: int, mode: str) -> Tensor:
    """x with `by` more samples on both sides."""
    n = x.shape[-1]
    place = np.arange(-by, n + by)
    if mode == "constant":
        edge = zeros(*x.shape[:-1], by, dtype=x.dtype, device=x.device)
        return cat([edge, x, edge], -1)
    if mode == "reflect":
        if by >= n:
            raise ShapeError(f"stft: padding of {by} on both sides must be less than the length of the signal, {n}.")
        place = n - 1 - np.abs(n - 1 - np.abs(place))
    elif mode == "replicate":
        place = place.clip(0, n - 1)
    elif mode == "circular":
        place = place % n
    else:
        raise ArgumentError(f"stft: pad_mode is 'reflect', 'constant', 'replicate' or 'circular', not {mode!r}.")
    return x.index_select(-1, tensor(place.astype(np.int32), device=x.device))


def _added(frames: Tensor, at: np.ndarray, total: int) -> Tensor:
    """Frames (*, count, n) added up at their places of a signal (*, total)."""
    batch = tuple(frames.shape[:-2])
    flat = frames.reshape(*batch, math.prod(frames.shape[-2:]))
    return frames.new_zeros(*batch, total).index_add(-1, tensor(at.astype(np.int32), device=frames.device), flat)


METHODS = {"stft": stft, "istft": istft}
for _name, _function in METHODS.items():
    setattr(Tensor, _name, _function)
