"""Anomaly detection: a gradient of NaN raises an error with the line of the forward operation.

While it is on, compiled steps run uncompiled and also raise if their results contain NaN. Reference:
https://pytorch.org/docs/stable/autograd.html#anomaly-detection
"""

from __future__ import annotations

import warnings

from ..arguments import check_constructors, checked
from ..graph.node import mode
from ..graph.origin import Origins
from ..run.anomalies import refuse_nan_gradients


class _Settings:
    """Whether anomalies are looked for, and whether NaN is one."""

    enabled = False
    check_nan = True


def _set(enabled: bool, check_nan: bool) -> tuple[bool, bool]:
    """Switch it on or off; gives what was before."""
    before = _Settings.enabled, _Settings.check_nan
    _Settings.enabled, _Settings.check_nan = enabled, check_nan
    mode.inspect = refuse_nan_gradients if enabled and check_nan else None
    if enabled and mode.origins is None:
        mode.origins, mode.heard = Origins(), True
    elif not enabled and before[0]:
        mode.origins, mode.heard = None, mode.made is not None
    return before


class set_detect_anomaly:
    """Switch anomaly detection on or off, from the call on, or within `with`; see detect_anomaly.

    >>> with sg.autograd.set_detect_anomaly(True):
    ...     sg.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _set(mode, check_nan)

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        _set(*self._before)


class detect_anomaly:
    """A context in which a gradient of NaN raises AutogradError, with the line of its operation in the forward pass.

    Each gradient is read when it is computed, which is slow: a warning says that this is for debugging. The line is known for operations that
    were recorded within the context. Compiled steps run uncompiled within it; if their results or parameters contain NaN, they raise an error
    that names the operation. check_nan: False disables the check.

    >>> import warnings
    >>> warnings.simplefilter("ignore")
    >>> x = sg.zeros(1, requires_grad=True)
    >>> with sg.autograd.detect_anomaly():
    ...     (x.sqrt() * 0).sum().backward()
    Traceback (most recent call last):
    shadergrad.errors.AutogradError: Function 'SqrtBackward' returned nan values in its 0th output. ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._before = _set(True, self.check_nan)

    def __exit__(self, *_: object) -> None:
        _set(*self._before)


check_constructors(set_detect_anomaly, detect_anomaly)


@checked
def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is switched on.

    >>> sg.is_anomaly_enabled()
    False
    """
    return _Settings.enabled


@checked
def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly detection looks for NaN.

    >>> sg.is_anomaly_check_nan_enabled()
    True
    """
    return _Settings.check_nan
