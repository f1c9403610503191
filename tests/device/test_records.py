"""Each primitive's record is complete and has a case in the table; each WGSL function compiles and is accurate."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import shadergrad as sg
from cases import CASES, Case, threefry_reference
from helpers import cotangents_of, evaluate, is_floating, leaves_of
from shadergrad.compile import attention, convolution, lower, order
from shadergrad.compile.elements import element_rule
from shadergrad.compile.pipeline import compile_graph
from shadergrad.compile.wgsl.functions import functions_text, literal, math_functions
from shadergrad.dtypes import DType, bool_, float32, int32, uint32
from shadergrad.graph.capture import Capture
from shadergrad.graph.leaves import Stored
from shadergrad.graph.node import topological
from shadergrad.graph.primitive import REGISTRY, Primitive, from_data, to_data
from shadergrad.plan import BufferSpec, Dispatch, Kernel, Plan
from shadergrad.primitives.call import Call
from shadergrad.primitives.elementwise import Elementwise
from shadergrad.primitives.reduce import Reduce
from shadergrad.runtime.device import get_device
from shadergrad.target import PORTABLE

# Those of the library's core: logic and others bring calls of their own, and tests of their own.
RECORDS = {
    name: p
    for name, p in REGISTRY.items()
    if p.__module__.startswith(("shadergrad.primitives.", "shadergrad.graph.")) and p.kind != "host"  # test_complex.py
}
# Values that exist, and other names for a node: nothing is computed or differentiated.
LEAVES = {name for name, p in RECORDS.items() if p.kind in ("source", "alias")}
VALUELESS = {"Stored", "Detached", "Placeholder", "Numbers"}  # a value from outside
LOWERED = {
    "ScatterAdd": order.scatter_to_sum,
    "Fold": lower.fold_to_sum,
    "Conv": convolution.conv_to_dot,
    "ArgSort": order.argsort_to_ranks,
    "Attention": attention.attention_to_calls,
    "AttentionGradient": attention.attention_to_calls,
}  # no WGSL of their own: a rule rewrites them
MADE_BY_RULES = {  # in no user's graph; test_calls.py has them, and this file the slopes
    "GammaDraw",
    "GammaSlope",
    "SortBlocks",
    "MergeRuns",
    "SegmentStarts",
    "SegmentSum",
    "DigitCounts",
    "DigitStarts",
    "MoveByDigit",
    "AttentionGradient",
    "LaidAttention",
    "LaidGradient",
    "LaidSums",
    "LaidShares",
    "JoinShares",
    "ToPoints",
    "FromPoints",
    "NonFinite",  # test_finite_tests.py
    # on matrix units: test_matrix_units.py
    "ChannelsLast",
    "UnitsAttention",
    "UnitsGradient",
}
OPENED = {"SliceAt", "PadAt"}  # in no user's graph; test_numbers.py has them
every_record = pytest.mark.parametrize("name", sorted(RECORDS))


def own(cls: type, name: str, base: type = Primitive) -> bool:
    """Whether a class says anything of its own for an attribute of its base."""
    return getattr(cls, name, None) is not getattr(base, name, None)


# ---------------------------------------------------------------------------------------------- records


@every_record
def test_a_record_has_a_docstring(name: str) -> None:
    text = RECORDS[name].__doc__ or ""
    assert text.strip().endswith((".", ")", ")."))
    assert not text.startswith(f"{name}("), "the docstring is the one that dataclass wrote"


@every_record
def test_a_record_has_a_numpy_value(name: str) -> None:
    assert own(RECORDS[name], "numpy") or name in VALUELESS


@every_record
def test_a_record_has_a_shape_rule(name: str) -> None:
    assert own(RECORDS[name], "infer") or issubclass(RECORDS[name], Stored)


@every_record
def test_a_record_has_a_gradient(name: str) -> None:
    cls = RECORDS[name]
    if name in LEAVES | MADE_BY_RULES | OPENED:
        return
    assert own(cls, "vjp"), "no vjp"
    if issubclass(cls, Elementwise) and cls.differentiable and not own(cls, "vjp", Elementwise):
        assert cls.gradient is not None, "neither derivative nor gradient"


@every_record
def test_a_record_reads_in_a_shader(name: str) -> None:
    cls = RECORDS[name]
    if name in LOWERED or cls.kind in ("dot", "alias") or name in VALUELESS:
        return
    if cls.kind == "call":
        assert own(cls, "kernel", Call) or own(cls, "expand", Call), "neither a kernel nor nodes that it is made of"
        return
    if issubclass(cls, Reduce):
        assert cls.wgsl
        return
    element_rule(cls)  # raises where there is none: write one, or name the rule that rewrites the primitive in LOWERED
    if issubclass(cls, Elementwise):
        assert cls.wgsl, "no WGSL expression"


@every_record
def test_a_record_calls_only_functions_that_exist(name: str) -> None:
    cls = RECORDS[name]
    if issubclass(cls, Elementwise):
        record: Any = from_data(
            {"primitive": name, "dtype": {"dtype": "float32"}} if fields(cls) else {"primitive": name}
        )
        texts = [record.expression(d) for d in (bool_, int32, uint32, float32) if d.category in cls.categories]
        functions_text({called for text in texts for called in re.findall(r"sg_\w+", text)})


def test_a_function_that_does_not_exist_is_named() -> None:
    with pytest.raises(sg.CompileError, match="sg_entr"):
        functions_text({"sg_entr"})


def test_an_operation_whose_wgsl_calls_no_function_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTRY["Exp"], "wgsl", "sg_entr({a})")
    y = sg.arange(1.0, 4.0).exp()
    with pytest.raises(sg.CompileError, match=r"\[exp\] there is no WGSL function sg_entr"):
        compile_graph(Capture([y._node]).graph(), PORTABLE)


def test_a_primitive_without_a_rule_is_named() -> None:
    with pytest.raises(sg.CompileError, match="ArgSort"):
        element_rule(RECORDS["ArgSort"])


@every_record
def test_a_record_has_a_domain_to_draw_tests_from(name: str) -> None:
    cls = RECORDS[name]
    if issubclass(cls, Elementwise):
        low, high = cls.domain
        assert low < high


def primitives_in(case: Case) -> set[str]:
    """The primitives of a case, forward and backward."""
    leaves = leaves_of(case, case.arrays(), "cpu", sg.float32)
    outputs = evaluate(case, case.ours, leaves)
    results = list(outputs)
    if case.differentiable:
        smooth = [o for o in outputs if is_floating(o)]
        us = [sg.tensor(u, dtype=o.dtype) for u, o in zip(cotangents_of(smooth), smooth, strict=True)]
        found = sg.autograd.grad(smooth, [x for x in leaves if is_floating(x)], us, allow_unused=True)
        results += [g for g in found if g is not None]
    return {type(n.primitive).__name__ for r in results for n in topological([r._node], lambda n: n.inputs)}


def test_every_primitive_has_a_case_in_the_table() -> None:
    met = set().union(*(primitives_in(c) for c in CASES))
    apart = MADE_BY_RULES | OPENED | VALUELESS | {"Detach", "Alias", "Variable", "Unwindow"}
    apart |= {"Dequantize"}  # whose words PyTorch has not: tests/device/test_quantization.py
    missing = set(RECORDS) - met - apart
    assert not missing, f"no case in tests/cases.py reaches {sorted(missing)}"


@every_record
def test_a_record_is_plain_data_and_back(name: str) -> None:
    samples: dict[str, Any] = {
        "DType": int32,
        "int": 1,
        "Shape": (2, 3),
        "tuple[int, ...]": (1, 0),
        "Places": (1, None),
        "tuple[int, int]": (1, 0),
    }
    cls = RECORDS[name]
    made = cls(*(samples.get(str(f.type), 1) for f in fields(cls)))
    assert from_data(to_data(made)) is made, "equal parameters give the same object"


@pytest.mark.parametrize("case", [c for c in CASES if not c.of.startswith("an empty")], ids=lambda c: c.id)
def test_a_case_becomes_kernels_of_the_portable_profile(case: Case) -> None:
    """Without any device: no more than eight buffers a kernel, and every access and binding declared."""
    outputs = evaluate(case, case.ours, leaves_of(case, case.arrays(), "cpu", sg.float32))
    pending = [o._node for o in outputs if o._node.storage is None]
    if not pending or any(
        n.dtype.wgsl is None for n in topological(pending, lambda n: () if n.storage is not None else n.inputs)
    ):
        return
    plan, _ = compile_graph(Capture(pending).graph(), PORTABLE)
    for dispatch in plan.dispatches:
        kernel = plan.kernels[dispatch.kernel]
        assert len(kernel.access) == len(dispatch.buffers) <= PORTABLE.max_storage_buffers
        assert kernel.source.count("@binding(") == len(kernel.access)
        assert "@" not in kernel.source.split("fn main")[1].split("{", 1)[1], "an access mark was left over"
        assert max(dispatch.grid) <= PORTABLE.max_workgroups


# ---------------------------------------------------------------------------------------------- WGSL functions

KINDS: dict[str, DType] = {"f32": float32, "i32": int32, "u32": uint32}


def signature(name: str) -> tuple[list[str], str]:
    head = math_functions()[name].split("{", 1)[0]
    parameters, result = head.split("(", 1)[1].rsplit(") -> ", 1)
    return [p.split(":")[1].strip() for p in parameters.split(",")], result.strip()


def call(webgpu: str, name: str, *arrays: np.ndarray, vector: bool = False) -> np.ndarray:
    """A function of math.wgsl on arrays, in a kernel of its own; `vector`: through its vec4 form."""
    takes, gives = signature(name)
    n = len(arrays[0])
    assert n % 4 == 0 or not vector
    stored = "u32" if gives == "bool" else gives
    wide = (lambda t: f"vec4<{t}>") if vector else (lambda t: t)
    called = name + ("_v4" if vector else "")
    bindings = [f"@group(0) @binding({k}) var<storage, read> x{k}: array<{wide(t)}>;" for k, t in enumerate(takes)]
    bindings.append(f"@group(0) @binding({len(takes)}) var<storage, read_write> out: array<{wide(stored)}>;")
    arguments = ", ".join(f"x{k}[id.x]" for k in range(len(takes)))
    source = (
        "\n".join(bindings)
        + "\n"
        + functions_text({called})
        + "@compute @workgroup_size(64)\nfn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
        + f"  if (id.x < {n // 4 if vector else n}u) {{ out[id.x] = {wide(stored)}({called}({arguments})); }}\n}}\n"
    )
    kernel = Kernel(name, "map", ("read",) * len(takes) + ("read_write",), source)
    specs = [BufferSpec("argument", (n,), KINDS[t]) for t in takes] + [BufferSpec("result", (n,), KINDS[stored])]
    rows = tuple(range(len(takes)))
    plan = Plan(
        PORTABLE, tuple(specs), (kernel,), (Dispatch(0, (*rows, len(rows)), (-(-n // 64), 1, 1)),), rows, (len(rows),)
    )
    device = get_device(webgpu)
    inputs = [device.upload(np.asarray(a, KINDS[t].numpy), KINDS[t]) for a, t in zip(arrays, takes, strict=True)]
    (storage,) = device.load(plan).run(inputs)
    result = device.download(storage, (n,), KINDS[stored])
    return result.astype(np.bool_) if gives == "bool" else result


CHECKED: set[str] = set()


def checked(*cases: Any, names: str = "function") -> pytest.MarkDecorator:
    """Gives a test each function in turn, with what else a case holds, and notes that it is compared with a reference."""
    CHECKED.update(case if isinstance(case, str) else case[0] for case in cases)
    return pytest.mark.parametrize(names.split(), [(case,) if isinstance(case, str) else case for case in cases])


def line(low: float, high: float, n: int = 20_000) -> np.ndarray:
    return np.linspace(low, high, n).astype(np.float32)


TINY = np.concatenate([10.0 ** np.linspace(-37, 0, 2000), -(10.0 ** np.linspace(-37, 0, 2000))]).astype(np.float32)
EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, math.inf, -math.inf, math.nan, 1e30, -1e30, 1e-30],
    np.float32,
)
erf = np.vectorize(math.erf)

# name: (inputs, NumPy in float64, relative error, absolute error)
ACCURACY: dict[str, tuple[str, np.ndarray, Any, float, float]] = {
    "tanh to ± 100": ("sg_tanh", line(-100, 100), np.tanh, 1e-6, 0),
    "tanh to ± 1": ("sg_tanh", line(-1, 1), np.tanh, 1e-6, 0),
    "tanh near 0": ("sg_tanh", TINY, np.tanh, 1e-6, 0),
    "expm1 to the edge of float32": ("sg_expm1", line(-110, 88.7), np.expm1, 1e-5, 0),
    "expm1 to ± 1": ("sg_expm1", line(-1, 1), np.expm1, 2e-6, 0),
    "expm1 near 0": ("sg_expm1", TINY, np.expm1, 1e-6, 0),
    "sin to ± 10": ("sg_sin", line(-10, 10), np.sin, 0, 3e-7),
    "sin to ± 10,000": ("sg_sin", line(-1e4, 1e4), np.sin, 0, 5e-7),
    "sin near 0": ("sg_sin", TINY, np.sin, 1e-6, 0),
    "cos to ± 10": ("sg_cos", line(-10, 10), np.cos, 0, 3e-7),
    "cos to ± 10,000": ("sg_cos", line(-1e4, 1e4), np.cos, 0, 5e-7),
    "erf to ± 6": ("sg_erf", line(-6, 6), erf, 2e-6, 0),
    "erf near 0": ("sg_erf", TINY, erf, 2e-6, 0),
    "log1p from -0.99": ("sg_log1p", line(-0.99, 100), np.log1p, 2e-6, 1e-7),
    "log1p near 0": ("sg_log1p", TINY, np.log1p, 1e-6, 0),
    "lgamma of positive numbers": ("sg_lgamma", line(1e-3, 60), special.gammaln, 2e-6, 5e-6),
    "lgamma of large numbers": ("sg_lgamma_positive", line(60, 1e6), special.gammaln, 1e-6, 0),
    "lgamma of negative numbers": ("sg_lgamma", line(-9.97, -0.013), special.gammaln, 5e-6, 1e-5),
    "digamma of positive numbers": ("sg_digamma", line(1e-3, 60), special.psi, 2e-6, 2e-6),
    "digamma from 8": ("sg_digamma_positive", line(8, 1e5), special.psi, 1e-6, 0),
    "erfcx": ("sg_erfcx", line(-4, 100), special.erfcx, 3e-6, 0),
    "erfc": ("sg_erfc", line(-5, 9), special.erfc, 1e-5, 0),
    "i0e": ("sg_i0e", line(-50, 50), special.i0e, 2e-6, 0),
    "i1e": ("sg_i1e", line(-50, 50), special.i1e, 2e-6, 0),
    "asin": ("sg_asin", line(-1, 1), np.arcsin, 1e-6, 2e-7),
    "acos": ("sg_acos", line(-1, 1), np.arccos, 1e-6, 5e-7),
    "exp to the edges of float32": ("sg_exp", line(-87, 88.7), np.exp, 4e-7, 0),
    "exp2 to the edges of float32": ("sg_exp2", line(-125, 127.9), np.exp2, 4e-7, 0),
    "log near 1": ("sg_log", 1 + line(-6e-5, 6e-5), np.log, 4e-7, 0),
    "log to the edge of float32": ("sg_log", line(1e-30, 3e38), np.log, 4e-7, 0),
    "log2 near 1": ("sg_log2", 1 + line(-6e-5, 6e-5), np.log2, 4e-7, 0),
    "log10 near 1": ("sg_log10", 1 + line(-6e-5, 6e-5), np.log10, 4e-7, 0),
    "sin of large numbers": ("sg_sin", line(-3e38, 3e38), np.sin, 4e-7, 0),
    "cos of large numbers": ("sg_cos", line(-3e38, 3e38), np.cos, 4e-7, 0),
}

CHECKED |= {function for function, *_ in ACCURACY.values()}


@pytest.mark.parametrize("name", ACCURACY)
def test_a_function_is_accurate(name: str, webgpu: str) -> None:
    function, x, reference, rtol, atol = ACCURACY[name]
    with np.errstate(divide="ignore"):  # log1p of -1
        expected = reference(x.astype(np.float64))
    np.testing.assert_allclose(call(webgpu, function, x), expected, rtol, atol)


@checked("sg_erfinv")
@pytest.mark.parametrize(
    "x",
    [line(-0.999, 0.999), TINY[:1990], 1 - 10.0 ** np.linspace(-6, -1, 400)],
    ids=["to ± 0.999", "near 0", "near 1"],
)
def test_erfinv_is_the_inverse_of_erf(function: str, x: np.ndarray, webgpu: str) -> None:
    y = call(webgpu, function, x).astype(np.float64)
    slope = 2 / math.sqrt(math.pi) * np.exp(-y * y)
    x = x.astype(np.float32).astype(np.float64)
    assert np.all(np.abs(erf(y) - x) <= 2e-6 * np.abs(y) * slope + 1e-30), "in terms of y, 2e-6 relative"


@checked("sg_zeta")
def test_zeta_is_accurate(function: str, webgpu: str) -> None:
    s, q = (g.ravel().astype(np.float32) for g in np.meshgrid(np.linspace(1.1, 9, 80), np.linspace(0.05, 40, 200)))
    expected = special.zeta(s.astype(np.float64), q.astype(np.float64))
    np.testing.assert_allclose(call(webgpu, function, s, q), expected, 1e-5, 1e-30)


def gamma_grid() -> tuple[np.ndarray, np.ndarray]:
    """Shapes, and quantiles of each from far below to far above."""
    shapes = np.array([1e-3, 0.02, 0.3, 0.99, 1.0, 1.7, 5.0, 7.99, 8.0, 40.0, 300.0, 999.0, 1000.0, 3e4])
    quantiles = special.gammaincinv(shapes[:, None], np.array([1e-5, 1e-3, 0.1, 0.4, 0.5, 0.6, 0.9, 0.999, 1 - 1e-6]))
    a, x = np.broadcast_arrays(shapes[:, None], quantiles)
    kept = x > 1e-30
    return a[kept].astype(np.float32), x[kept].astype(np.float32)


@checked(("sg_gammainc", special.gammainc), ("sg_gammaincc", special.gammaincc), names="function reference")
def test_incomplete_gamma_functions_are_accurate(function: str, reference: Any, webgpu: str) -> None:
    a, x = gamma_grid()
    found = call(webgpu, function, a, x)
    np.testing.assert_allclose(found, reference(a.astype(np.float64), x.astype(np.float64)), 3e-5, 2e-6)
    edges_a, edges_x = (g.ravel() for g in np.meshgrid(EDGES, EDGES))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(call(webgpu, function, edges_a, edges_x), reference(edges_a, edges_x), 3e-5, 2e-6)


@checked("sg_gamma_slope")
def test_the_slope_of_gamma_quantiles_is_accurate(function: str, webgpu: str) -> None:
    a, x = gamma_grid()
    expected = RECORDS["GammaSlope"]().numpy(a.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(call(webgpu, function, a, x), expected, 1e-3, 1e-6)


@checked("sg_digamma")
def test_digamma_is_accurate_below_0(function: str, webgpu: str) -> None:
    x = line(-9.9, -0.05)
    x = x[np.abs(x - np.round(x)) > 0.05].astype(np.float32)
    np.testing.assert_allclose(call(webgpu, function, x), special.psi(x.astype(np.float64)), 1e-4, 1e-4)


@checked("sg_atan2")
def test_atan2_is_accurate_in_all_quadrants(function: str, webgpu: str) -> None:
    y, x = (g.ravel().astype(np.float32) for g in np.meshgrid(np.linspace(-5, 5, 101), np.linspace(-7, 7, 101)))
    expected = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(call(webgpu, function, y, x), expected, 1e-6, 2e-7)


@checked("sg_pow")
def test_pow_is_accurate(function: str, webgpu: str) -> None:
    a, b = (g.ravel().astype(np.float32) for g in np.meshgrid(np.linspace(0.01, 10, 200), np.linspace(-20, 20, 101)))
    expected = np.power(a.astype(np.float64), b.astype(np.float64))
    inside = (expected < 3e38) & (expected > 1.2e-38)
    np.testing.assert_allclose(call(webgpu, function, a, b)[inside], expected[inside], 1e-5, 0)


@checked("sg_pow")
def test_pow_has_the_edges_of_c(function: str, webgpu: str) -> None:
    """Negative bases, zeros of either sign, infinities, NaN."""
    a, b = (g.ravel() for g in np.meshgrid(EDGES[:13], EDGES[:13]))
    with np.errstate(all="ignore"):
        expected = np.power(a, b)
    found = call(webgpu, function, a, b)
    np.testing.assert_allclose(found, expected, 1e-6, 0)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@checked(
    ("sg_tanh", np.tanh),
    ("sg_expm1", np.expm1),
    ("sg_relu", lambda x: np.maximum(x, 0)),
    ("sg_sign", lambda x: np.where(np.isnan(x), 0, np.sign(x))),
    ("sg_erf", erf),
    ("sg_is_nan", np.isnan),
    ("sg_is_finite", np.isfinite),
    ("sg_truth", lambda x: x.astype(np.bool_)),
    names="function reference",
)
def test_a_function_has_numpys_edges(function: str, reference: Any, webgpu: str) -> None:
    with np.errstate(all="ignore"):
        expected = reference(EDGES)
    np.testing.assert_allclose(call(webgpu, function, EDGES).astype(np.float64), expected.astype(np.float64), 1e-6, 0)


@checked("sg_sin", "sg_cos")
def test_the_sine_of_no_number_is_nan(function: str, webgpu: str) -> None:
    assert np.isnan(call(webgpu, function, EDGES[10:13])).all()


@checked(
    ("sg_max", np.maximum),
    ("sg_min", np.minimum),
    ("sg_not_equal", np.not_equal),
    names="function reference",
)
def test_a_function_of_two_has_numpys_edges(function: str, reference: Any, webgpu: str) -> None:
    a, b = (g.ravel() for g in np.meshgrid(EDGES, EDGES))
    np.testing.assert_array_equal(call(webgpu, function, a, b), reference(a, b))


@checked(("sg_floor_div_i32", "i32"), ("sg_floor_div_u32", "u32"), names="function kind")
def test_whole_numbers_divide_downwards(function: str, kind: str, webgpu: str) -> None:
    values = np.arange(-9, 10) if kind == "i32" else np.arange(0, 20)
    a, b = (g.ravel().astype(KINDS[kind].numpy) for g in np.meshgrid(values, values))
    expected = np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b)))
    np.testing.assert_array_equal(call(webgpu, function, a, b), expected)


@checked(("sg_pow_i32", "i32"), ("sg_pow_u32", "u32"), names="function kind")
def test_whole_powers_are_exact_and_wrap(function: str, kind: str, webgpu: str) -> None:
    a = np.arange(-9, 10) if kind == "i32" else np.arange(0, 19)
    b = np.arange(-3, 14) if kind == "i32" else np.arange(0, 17)
    a, b = (g.ravel().astype(KINDS[kind].numpy) for g in np.meshgrid(a, b))
    values = [
        (x**n if n >= 0 else (x if n % 2 else 1) if abs(x) == 1 else 0)
        for x, n in zip(a.tolist(), b.tolist(), strict=True)
    ]
    expected = np.array([v & 0xFFFFFFFF for v in values], np.uint32).view(KINDS[kind].numpy)
    np.testing.assert_array_equal(call(webgpu, function, a, b), expected)
    np.testing.assert_array_equal(RECORDS["Pow"]().numpy(a, b), expected)


@checked("sg_bits")
def test_bits_are_those_of_the_number(function: str, webgpu: str) -> None:
    words = np.array([0x3F800000, 0x7F800000, 0, 0x80000000], np.uint32)
    np.testing.assert_array_equal(call(webgpu, function, words).view(np.uint32), words)


@checked("sg_rotate")
def test_words_rotate(function: str, webgpu: str) -> None:
    x, by = np.full(4, 0x80000001, np.uint32), np.array([1, 13, 17, 31], np.uint32)
    expected = [((0x80000001 << int(n)) | (0x80000001 >> (32 - int(n)))) & 0xFFFFFFFF for n in by]
    np.testing.assert_array_equal(call(webgpu, function, x, by), np.array(expected, np.uint32))


@pytest.mark.parametrize(
    "name", [n for n in math_functions() if signature(n)[1] in ("f32", "i32", "u32") and n != "sg_bits"]
)
def test_the_vec4_form_is_four_times_the_scalar(name: str, webgpu: str) -> None:
    takes, _ = signature(name)
    arrays = [
        np.roll(np.array([0.25, 0.75, -0.5, 3, 2, 0, 1, -7], np.float64) if t != "u32" else np.arange(8), k).astype(
            KINDS[t].numpy
        )
        for k, t in enumerate(takes)
    ]
    scalar, vector = call(webgpu, name, *arrays), call(webgpu, name, *arrays, vector=True)
    np.testing.assert_array_equal(scalar, vector)


@checked("sg_fmod")
def test_fmod_is_exact_for_any_quotient(function: str, webgpu: str) -> None:
    sizes = np.array([0.0, 1e-30, 0.1, 0.3, 1.0, 5.5, 7.0, 360.0, 1e9, 1e20, 3e38, np.inf, np.nan], np.float32)
    a, b = (g.ravel() for g in np.meshgrid(np.concatenate([sizes, -sizes]), np.concatenate([sizes, -sizes])))
    with np.errstate(invalid="ignore"):
        expected = np.fmod(a, b)
    np.testing.assert_array_equal(call(webgpu, function, a, b), expected)


@checked("sg_next_after")
def test_the_next_number_is_the_next(function: str, webgpu: str) -> None:
    a = np.array([1.0, 1.0, -1.0, -1.0, 2.0, 1.5, 3e38], np.float32)
    b = np.array([2.0, 0.0, 0.0, -2.0, 2.0, np.nan, np.inf], np.float32)
    np.testing.assert_array_equal(call(webgpu, function, a, b), np.nextafter(a, b))


@checked("sg_exponent")
def test_the_exponent_is_that_of_frexp(function: str, webgpu: str) -> None:
    x = np.array([0.0, 1.0, -0.75, 8.0, 1e-30, 3e38, 2.0**-126], np.float32)
    np.testing.assert_array_equal(call(webgpu, function, x), np.frexp(x)[1])


@checked("sg_gcd_i32", "sg_gcd_u32")
def test_gcd_is_euclids(function: str, webgpu: str) -> None:
    a, b = (g.ravel() for g in np.meshgrid(np.arange(-12, 13), np.arange(-12, 13)))
    if function == "sg_gcd_u32":
        a, b = np.abs(a), np.abs(b)
    x, y = (sg.tensor(n.astype("uint32" if function == "sg_gcd_u32" else "int32"), device=webgpu) for n in (a, b))
    np.testing.assert_array_equal(x.gcd(y).numpy(), np.gcd(a, b))


@checked("sg_sign_bit")
def test_the_sign_bit_is_that_of_zeros_too(function: str, webgpu: str) -> None:
    x = np.array([1.0, -1.0, 0.0, -0.0, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(sg.tensor(x, device=webgpu).signbit().numpy(), np.signbit(x))


def test_every_function_is_checked_here() -> None:
    within_others = {
        *(
            "sg_reduce_angle",
            "sg_reduce_large_angle",
            "sg_wide_product",
            "sg_sin_core",
            "sg_cos_core",
            "sg_quarter",
            "sg_rounds",
        ),
        *(
            "sg_high",
            "sg_scaled",
            "sg_exp2_near",
            "sg_split_power",
            "sg_log_near",
            "sg_log_decided",
            "sg_atan_quotient",
        ),
    }
    within_others |= {"sg_excess", "sg_gamma_weight", "sg_gamma_series", "sg_gamma_fraction", "sg_gamma_part"}
    elsewhere = {"sg_threefry"}  # whose bits test_random compares
    elsewhere |= {
        name for name in math_functions() if name.endswith("float16")
    }  # whose every pattern test_halves compares
    unchecked = set(math_functions()) - CHECKED - within_others - elsewhere
    assert not unchecked, f"no test here compares {sorted(unchecked)} with a reference"


def test_the_reference_of_threefry_is_the_published_one() -> None:
    assert threefry_reference(0, 0, 0, 0) == (0x6B200159, 0x99BA4EFE)


# ---------------------------------------------------------------------------------------------- numbers as text


@pytest.mark.parametrize(
    "value",
    [
        0.0,
        -0.0,
        1.0,
        -1.5,
        1e-38,
        1.1754944e-38,
        3.4028234663852886e38,
        -3.4028234663852886e38,
        1e-20,
        123456789.0,
        1 / 3,
        math.inf,
        -math.inf,
        math.nan,
    ],
)
def test_a_float_literal_comes_back(value: float, webgpu: str) -> None:
    x = sg.full((1,), value, device=webgpu) + sg.zeros(1, device=webgpu) * 1
    wanted = np.array([value], np.float32)
    if 0 < abs(value) < np.finfo(np.float32).tiny and not x.numpy()[0]:
        wanted = np.zeros(1, np.float32)  # WGSL lets a device take subnormal numbers for 0
    np.testing.assert_array_equal(x.numpy(), wanted)


@pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_an_int_literal_comes_back(value: int, webgpu: str) -> None:
    assert sg.full((2,), value, device=webgpu).tolist() == [value, value]


@settings(max_examples=200)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_literal_is_exact(value: float) -> None:
    text = literal(value, float32, set())
    if value == 0 and math.copysign(1, value) < 0:
        assert text == "sg_bits(0x80000000u)", "in Dawn, a constant has no negative zero"
        return
    text = text.strip("()")
    assert np.float32(text) == np.float32(value)
    assert abs(float(text)) <= float(np.finfo(np.float32).max), (
        "Dawn refuses what is larger, also where it rounds to it"
    )
    assert "." in text or "e" in text, "an integer literal would be of another type"


SPECIAL = [
    0x7F7FFFFF,
    0x7F7FFFFE,
    0x7F000000,
    0x00800000,
    0x00800001,
    0,
    0x7F800000,
    0x7FC00000,
    0x3EAAAAAB,
    0x4B7FFFFF,
    0x5F000000,
]
SPECIAL += [0x007FFFFF, 0x00400000, 1, 2]  # subnormal, which a device may take for 0


def test_the_bits_of_every_special_float_come_back(webgpu: str) -> None:
    bits = np.array([b | sign for b in SPECIAL for sign in (0, 1 << 31)], np.uint32)
    found = [sg.full((1,), float(x), device=webgpu).numpy().view(np.uint32)[0] for x in bits.view(np.float32)]
    for wanted, got in zip(bits.tolist(), map(int, found), strict=True):
        size = wanted & 0x7FFFFFFF
        if size > 0x7F800000:
            assert got & 0x7FFFFFFF > 0x7F800000, f"{got:#x} is no NaN"  # whose sign says nothing
        else:
            allowed = {wanted, wanted & 1 << 31} if 0 < size < 0x00800000 else {wanted}
            assert got in allowed, f"{wanted:#x} comes back as {got:#x}"


@pytest.mark.parametrize("scale", [math.inf, -math.inf, math.nan, 3.4028234663852886e38, -0.0, 1e-45])
@pytest.mark.parametrize("length", [5, 300])
def test_attention_takes_any_scale(scale: float, length: int, webgpu: str) -> None:
    """Of both devices the same numbers, infinities and NaN among them."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, 2, length, 8)).astype(np.float32) for _ in range(3)]

    def of(device: str) -> list[np.ndarray]:
        q, k, v = (sg.tensor(a, device=device, requires_grad=True) for a in arrays)
        out = sg.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)
        return [t.numpy() for t in (out.detach(), *sg.autograd.grad(out.sum(), (q, k, v)))]

    for here, there in zip(of(webgpu), of("cpu"), strict=True):
        if math.isfinite(scale) and abs(scale) < 1:
            np.testing.assert_allclose(here, there, 1e-4, 1e-4)
        else:
            assert np.isnan(here).any() == np.isnan(there).any()


def test_literals_of_other_types() -> None:
    assert (literal(True, bool_, set()), literal(-3, int32, set()), literal(3, uint32, set())) == (
        "true",
        "i32(-3)",
        "3u",
    )
