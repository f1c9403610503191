"""Tests whether a device's own conversions between float16 and float32 follow IEEE 754.

WGSL does not specify how `pack2x16float` rounds, nor the results for subnormal numbers and for numbers beyond the largest half. So the
functions of compile/wgsl/halves.wgsl run once on all halves, on all midpoints between two, and on their neighbours. In: an open device.
Out: whether each result equals NumPy's, and thus that of the integer arithmetic in math.wgsl.
"""

from __future__ import annotations

import numpy as np

from ..compile.wgsl.functions import HIDDEN_ZERO, functions_text, hidden_zero_declared, hidden_zero_set
from ..dtypes import float32, uint32
from ..plan import BufferSpec, Dispatch, Kernel, Plan
from .device import Device

THREADS = 256
RESULTS = 7  # words that a thread writes: the bits, back, rounded, two words of four, one of four back, and one of four rounded


def inputs() -> np.ndarray:
    """float32 numbers, padded to whole workgroups."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = np.sort(np.unique(halves[np.isfinite(halves)]))
    between = (finite[:-1] + finite[1:]) / 2  # exact in float32
    near = [np.nextafter(between, side, dtype=np.float32) for side in (np.float32(np.inf), np.float32(-np.inf))]
    beyond = np.array([65519.996, 65520.0, 65536.0, 1e6, 3.4028235e38, np.inf, np.nan, 2.0**-25, 1e-38], np.float32)
    found = np.concatenate([halves, between, *near, beyond, -beyond])
    return np.resize(found, -(-found.size // THREADS) * THREADS)


def expected(given: np.ndarray) -> np.ndarray:
    """The words that the kernel should write; for NaN `equal_bits` only tests that both are NaN."""
    with np.errstate(over="ignore"):
        halves = given.astype(np.float16)
    bits = halves.view(np.uint16).astype(np.uint32)
    wide = halves.astype(np.float32).view(np.uint32)
    return np.stack([bits, wide, wide, bits | (bits << 16), bits | (bits << 16), wide, wide], 1)


def equal_bits(found: np.ndarray, wanted: np.ndarray, given: np.ndarray) -> bool:
    """Whether all words are equal, where any NaN equals any NaN."""
    nan = np.isnan(given)
    if not np.array_equal(found[~nan], wanted[~nan]):
        return False
    halves = found[nan][:, [0, 3, 4]].astype(np.uint16).view(np.float16)
    floats = np.ascontiguousarray(found[nan][:, [1, 2, 5, 6]]).view(np.float32)
    return bool(np.isnan(halves).all() and np.isnan(floats).all())


def functions(by_device: bool = True) -> str:
    """The functions to test: those with the device's conversions, or those with integer arithmetic."""
    names = ("bits_float16", "from_float16", "as_float16", "as_float16_v4", "words_float16", "four_float16")
    return hidden_zero_declared() + functions_text({f"sg_{name}" for name in names}, by_device)


def source(functions: str) -> str:
    return f"""{functions}
@group(0) @binding(0) var<storage, read> given: array<f32>;
@group(0) @binding(1) var<storage, read_write> found: array<u32>;
@compute @workgroup_size({THREADS})
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) wid: vec3<u32>) {{
  {hidden_zero_set()}
  let x = given[id.x];
  let at = id.x * {RESULTS}u;
  let bits = sg_bits_float16(x);
  let words = sg_words_float16(vec4<f32>(x));
  found[at] = bits;
  found[at + 1u] = bitcast<u32>(sg_from_float16(bits | {HIDDEN_ZERO}));
  found[at + 2u] = bitcast<u32>(sg_as_float16(x));
  found[at + 3u] = words.x;
  found[at + 4u] = words.y;
  found[at + 5u] = bitcast<u32>(sg_four_float16(words | vec2<u32>({HIDDEN_ZERO})).w);
  found[at + 6u] = bitcast<u32>(sg_as_float16_v4(vec4<f32>(x)).z);
}}
"""


def converts_as_ieee(device: Device, text: str | None = None) -> bool:
    """See the module. text: of functions, by default those by the device's conversions."""
    given = inputs()
    kernel = Kernel(
        "halves",
        "map",
        ("read", "read_write"),
        source(functions() if text is None else text),
        workgroup=(THREADS, 1, 1),
    )
    buffers = (
        BufferSpec("argument", given.shape, float32, name="given"),
        BufferSpec("result", (given.size, RESULTS), uint32, name="found"),
    )
    dispatch = Dispatch(0, (0, 1), (given.size // THREADS, 1, 1))
    program = device.load(Plan(device.target, buffers, (kernel,), (dispatch,), (0,), (1,)))
    (result,) = program.run([device.upload(given, float32)])
    return equal_bits(device.download(result, (given.size, RESULTS), uint32), expected(given), given)
