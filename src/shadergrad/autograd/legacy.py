"""Names of older programs: Variable, which is a tensor, and the detection of anomalies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..tensor import Tensor


def Variable(data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Tensor:
    """The tensor, as a leaf that requires grad if requested. All tensors are Variables since PyTorch 0.4.

    >>> sg.autograd.Variable(sg.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """
    if requires_grad and not data.requires_grad:
        return data.detach().requires_grad_()
    return data


@contextmanager
def detect_anomaly(check_nan: bool = True) -> Iterator[None]:
    """Has no effect: gradient errors always point at the operation's line, and nothing searches for NaN.

    >>> with sg.autograd.detect_anomaly():
    ...     y = sg.ones(2)
    """
    yield


class set_detect_anomaly:
    """Has no effect, as `detect_anomaly`; a call or a context.

    >>> _ = sg.autograd.set_detect_anomaly(True)
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return
