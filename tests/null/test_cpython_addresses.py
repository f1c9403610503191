"""The address of an array's memory, as compiled programs read it."""

import numpy as np
import pytest

from shadergrad import cpython


def test_addresses_are_those_that_numpy_tells() -> None:
    whole = np.arange(24.0).reshape(4, 6)
    fixed = np.arange(3)
    fixed.flags.writeable = False
    arrays = (whole, whole[2:, 1::2], whole[::-1, ::-1], whole.T, fixed, np.empty((0, 3)), np.array(2.0))
    assert [*map(cpython.address_of, arrays)] == [a.ctypes.data for a in arrays]


def test_a_layout_that_is_not_known_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpython, "_read_address", lambda array: id(array))
    assert not cpython._reads_addresses()
