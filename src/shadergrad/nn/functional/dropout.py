"""Dropout: elements, or whole channels, set to zero at random.

The masks come from the default generator of the input's device: the same after the same manual_seed, on every device,
and drawn anew each time a compiled step runs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from ...errors import ShapeError
from ...tensor import Tensor, rand, where
from ..arguments import number
from ..errors import ArgumentError
from .device_overrides import overridable

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]

SELU_FLOOR = -1.7580993408473766  # the limit of selu at -infinity


def check_probability(what: str, p: float) -> None:
    if not 0.0 <= number(what, "p", p) <= 1.0:
        raise ArgumentError(f"{what}(): dropout probability has to be between 0 and 1, but got p={p}")


def _keep_mask(input: Tensor, shape: Sequence[int], p: float) -> Tensor:
    return rand(*shape, device=input.device) >= p


def _placed(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    return input._update_in_place(result, "dropout_") if inplace else result


def _dropped(what: str, input: Tensor, shape: Sequence[int], p: float, training: bool, inplace: bool) -> Tensor:
    """Zero where a random mask of `shape` is false; the other elements are scaled by 1 / (1 - p)."""
    check_probability(what, p)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return _placed(input, input * 0.0, inplace)
    kept = _keep_mask(input, shape, p)
    return _placed(input, where(kept, input * (1.0 / (1.0 - p)), 0.0), inplace)


@overridable
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element 0 with probability p, else times 1 / (1 - p); without training, the input (Srivastava et al., 2014).

    The draws come from the generator of the input's device (sg.manual_seed). ArgumentError for p outside [0, 1].
    inplace: the result is written into `input` too; AutogradError if that is a leaf that requires gradients.

    >>> F.dropout(sg.ones(8), p=0.5)
    tensor([2., 0., 0., 0., 0., 2., 2., 0.])
    """
    return _dropped("dropout", input, input.shape, p, training, inplace)


def _channels(input: Tensor, spatial: int, what: str) -> tuple[int, ...]:
    """The shape of a mask for (N, C, *spatial) or (C, *spatial)."""
    if input.ndim not in (spatial + 1, spatial + 2):
        raise ShapeError(
            f"[{what}] Expected {spatial + 1}D or {spatial + 2}D input, but received a {input.ndim}D input."
        )
    return (*input.shape[: input.ndim - spatial], *(1,) * spatial)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, L) or (C, L); ShapeError for another number of axes.

    Arguments: as for dropout.

    >>> F.dropout1d(sg.ones(4, 2), p=0.5)
    tensor([[2., 2.],
            [0., 0.],
            [0., 0.],
            [0., 0.]])
    """
    return _dropped("dropout1d", input, _channels(input, 1, "dropout1d"), p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, H, W) (Tompson et al., 2014). Arguments: as for dropout.

    Other inputs are treated as (N, C, *), with a warning, as in PyTorch: each element of (N, C) is dropped separately, and (N, C, L) is
    not a single image. ShapeError for fewer than two axes.

    >>> F.dropout2d(sg.ones(4, 1, 1, 2), p=0.5).flatten()
    tensor([2., 2., 0., 0., 0., 0., 0., 0.])
    """
    if input.ndim < 2:
        raise ShapeError(f"[dropout2d] Expected a 4D input, (N, C, H, W), but received a {input.ndim}D input.")
    if input.ndim != 4:
        warnings.warn(
            f"dropout2d: Received a {input.ndim}-D input, which is taken as (N, C, *). Hint: dropout or dropout1d for these, "
            "unsqueeze(0) for a single (C, H, W).",
            stacklevel=2,
        )
    shape = (*input.shape[:2], *(1,) * (input.ndim - 2))
    return _dropped("dropout2d", input, shape, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W); ShapeError for another number of axes.

    Arguments: as for dropout.

    >>> F.dropout3d(sg.ones(4, 1, 1, 1), p=0.5).flatten()
    tensor([2., 0., 0., 0.])
    """
    return _dropped("dropout3d", input, _channels(input, 3, "dropout3d"), p, training, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout to the lower limit of selu, then scaled so that mean 0 and variance 1 stay (Klambauer et al., 2017).

    Without training, which is the default here, the input. Arguments: as for dropout.

    >>> F.alpha_dropout(sg.ones(4), p=0.5, training=True)
    tensor([ 1.6656, -0.7792, -0.7792, -0.7792])
    """
    return _alpha("alpha_dropout", input, input.shape, p, training, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """alpha_dropout of whole channels, axis 1, of (N, C, ...). Arguments: as for alpha_dropout.

    >>> F.feature_alpha_dropout(sg.ones(2, 2, 2), p=0.5).shape
    shadergrad.Size([2, 2, 2])
    """
    if training and input.ndim < 2:
        raise ShapeError("Feature dropout requires at least 2 dimensions in the input")
    shape = (*input.shape[:2], *(1,) * (input.ndim - 2))
    return _alpha("feature_alpha_dropout", input, shape, p, training, inplace)


def _alpha(what: str, input: Tensor, shape: Sequence[int], p: float, training: bool, inplace: bool) -> Tensor:
    check_probability(what, p)
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return _placed(input, input * 0.0, inplace)
    scale = 1.0 / math.sqrt((SELU_FLOOR**2 * p + 1.0) * (1.0 - p))
    kept = where(_keep_mask(input, shape, p), input, SELU_FLOOR)
    return _placed(input, kept * scale - scale * SELU_FLOOR * p, inplace)
