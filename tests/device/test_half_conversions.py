"""What a device's own conversions of halves must be before kernels use them: NumPy's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from dawn_front_end import FrontEnd
from shadergrad.runtime import halves
from shadergrad.runtime.device import get_device

INTEGERS = halves.functions(by_device=False)
WRONG = {
    "towards zero": ("+ 0x0fffu + ((size >> 13u) & 1u)", ""),
    "ties away from zero": ("0x0fffu + ((size >> 13u) & 1u)", "0x1000u"),
    "subnormal halves as zero": ("select(normal, small, ", "select(normal, 0u, "),
    "subnormal numbers read as zero": ("f32(size) * 5.9604644775390625e-8", "0.0"),
    "the largest half for more": ("select(half, 0x7c00u, size >= 0x477ff000u)", "select(half, 0x7bffu, size >= 0x477ff000u)"),
    "infinity for what is no number": ("select(half, 0x7e00u", "select(half, 0x7c00u"),
}  # fmt: skip


def test_conversions_by_integers_are_numpys():
    assert halves.converts_as_ieee(get_device("webgpu"), INTEGERS)


@pytest.mark.parametrize("name", WRONG)
def test_other_conversions_are_seen(name: str):
    right, wrong = WRONG[name]
    assert right in INTEGERS
    assert not halves.converts_as_ieee(get_device("webgpu"), INTEGERS.replace(right, wrong))


def test_the_devices_own_are_valid():
    pytest.importorskip("wgpudawn", reason="Dawn's front end is not installed")
    assert FrontEnd().refused([halves.source(halves.functions())]) == []


def test_all_kinds_of_numbers_are_tried():
    given = halves.inputs()
    with np.errstate(over="ignore"):
        kinds = given.astype(np.float16)
    assert np.unique(kinds.view(np.uint16)[~np.isnan(kinds)]).size == (1 << 16) - 2 * 1023
    assert (np.abs(given) < 6e-8).any()
    assert np.isnan(given).any()
    assert np.isinf(given).any()
