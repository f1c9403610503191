"""The helpers that PyTorch's unit tests import from torch.testing._internal, for scripts/pytorch_tests.py.

In: the module `torch`, this library's stand-in or PyTorch itself. Out: modules under those names, in sys.modules. Tests of a
device are made for cpu alone, one for each dtype and parameter. Differences that docs/from-pytorch.md states are no failures: int32 where PyTorch has int64, and the words of
errors, which are counted (`other_words`). What compares values raises WrongValue where they differ.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import re
import sys
import unittest
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch

ABSENT = ("complex32", "float8")  # dtypes that no tensor has
TOLERANCES = {
    "bfloat16": (1.6e-2, 1e-5),
    "float16": (1e-3, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
}
other_words: list[str] = []  # ids of tests that met an error of the right type in other words


class WrongValue(AssertionError):
    """Two values that should be equal, and differ."""


def _numbers(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach()
        return (value.float() if value.dtype is torch.bfloat16 else value).numpy()
    return np.asarray(value)


def _is_plain(value: Any) -> bool:
    return isinstance(value, torch.Tensor | np.ndarray | np.generic | bool | int | float | complex)


def _tolerances(x: Any, y: Any, least: tuple[float, float]) -> tuple[float, float]:
    kinds = [
        TOLERANCES.get(_name(v.dtype), (1e-7, 1e-7) if _numbers(v).dtype.kind in "fc" else (0.0, 0.0))
        for v in (x if hasattr(x, "dtype") else np.asarray(x), y if hasattr(y, "dtype") else np.asarray(y))
    ]
    return max(least[0], *(k[0] for k in kinds)), max(least[1], *(k[1] for k in kinds))


class TestCase(unittest.TestCase):
    """A test case that compares tensors, arrays, numbers and containers of them."""

    __test__ = False
    maxDiff = None
    precision: float = 0
    rel_tol: float = 0
    exact_dtype = True

    def setUp(self) -> None:
        random.seed(1234)
        np.random.seed(1234)
        torch.manual_seed(1234)

    def assertEqual(  # pyright: ignore[reportIncompatibleMethodOverride]  # noqa: C901  # as many kinds as unittest's and PyTorch's together
        self,
        x: Any,
        y: Any,
        msg: Any = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool | None = None,
        **_: Any,
    ) -> None:
        options = {
            "atol": atol,
            "rtol": rtol,
            "equal_nan": equal_nan,
            "exact_dtype": self.exact_dtype if exact_dtype is None else exact_dtype,
        }
        if _is_plain(x) and _is_plain(y):
            self._compare(x, y, msg, **options)
        elif (isinstance(x, torch.Tensor) and isinstance(y, Sequence)) or (
            isinstance(y, torch.Tensor) and isinstance(x, Sequence)
        ):
            if isinstance(x, str) or isinstance(y, str):
                raise AssertionError(f"{x!r} != {y!r}")
            listed, other = (list(v) if isinstance(v, torch.Tensor) and v.ndim else v for v in (x, y))
            self.assertEqual(
                [v.item() if isinstance(v, torch.Tensor) and not v.ndim else v for v in listed],  # type: ignore[union-attr]
                [v.item() if isinstance(v, torch.Tensor) and not v.ndim else v for v in other],  # type: ignore[union-attr]
                msg,
                **options,
            )
        elif isinstance(x, Mapping) and isinstance(y, Mapping):
            super().assertEqual(sorted(map(str, x)), sorted(map(str, y)), msg)
            for key in x:
                self.assertEqual(x[key], y[key], msg, **options)
        elif isinstance(x, Sequence) and isinstance(y, Sequence) and not isinstance(x, str | bytes):
            if len(x) != len(y):
                raise WrongValue(f"lengths {len(x)} and {len(y)}: {x!r} and {y!r}")
            if isinstance(x, tuple) and all(type(n) is int for n in (*x, *y)) and tuple(x) != tuple(y):
                raise AssertionError(f"{x!r} and {y!r}: sizes or strides")
            for a, b in zip(x, y, strict=True):
                self.assertEqual(a, b, msg, **options)
        elif isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
            raise AssertionError(f"a {type(x).__name__} and a {type(y).__name__}")
        elif isinstance(x, range | map | zip) or isinstance(y, range | map | zip):
            self.assertEqual(list(x), list(y), msg, **options)
        else:
            if isinstance(x, torch.dtype) and {_name(x), _name(y)} == {"int32", "int64"}:
                return
            if isinstance(x, str) and isinstance(y, str):
                y = y.replace("dtype=torch.int64", "dtype=torch.int32")
            super().assertEqual(x, y, msg)

    def _compare(
        self, x: Any, y: Any, msg: Any, atol: float | None, rtol: float | None, equal_nan: bool, exact_dtype: bool
    ) -> None:
        a, b = _numbers(x), _numbers(y)
        if a.shape != b.shape:
            if not (isinstance(x, int | float) or isinstance(y, int | float)) or max(a.size, b.size) != 1:
                raise WrongValue(f"shapes {a.shape} and {b.shape}")
            a, b = a.reshape(()), b.reshape(())
        given: list[Any] = [v for v in (x, y) if isinstance(v, torch.Tensor)]
        kinds = {_name(v.dtype) for v in given}
        if exact_dtype and len(kinds) > 1 and kinds != {"int32", "int64"}:
            raise WrongValue(f"dtypes {sorted(kinds)}")
        relative, absolute = _tolerances(x, y, (self.rel_tol, self.precision))
        if atol is not None or rtol is not None:
            relative, absolute = max(rtol or 0.0, self.rel_tol), max(atol or 0.0, self.precision)
        if a.dtype.kind in "fc" or b.dtype.kind in "fc":
            near = np.isclose(a, b, relative, absolute, equal_nan)
        elif relative or absolute:
            near = np.abs(a.astype(float) - b.astype(float)) <= absolute + relative * np.abs(b.astype(float))
        else:
            near = np.asarray(a == b)
        if not near.all():
            raise WrongValue(f"{x} and {y}"[:600] + (f" ({msg})" if msg and not callable(msg) else ""))

    def assertNotEqual(self, x: Any, y: Any, msg: Any = None, **options: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, **options)

    def assertEqualIgnoreType(self, *args: Any, **options: Any) -> None:
        self.assertEqual(*args, exact_dtype=False, **options)

    def assertEqualBroadcasting(self, x: Any, y: Any, *args: Any, **options: Any) -> None:
        if not isinstance(y, torch.Tensor):
            y = torch.ones_like(x) * y if isinstance(y, int | float | complex) else torch.ones_like(x) * torch.tensor(y)
        self.assertEqual(x, y, *args, exact_dtype=False, **options)

    def assertObjectIn(self, obj: Any, iterable: Any) -> None:
        if not any(obj is element for element in iterable):
            raise AssertionError("object not found in iterable")

    def assertAlmostEqual(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, x: Any, y: Any, places: int | None = None, msg: Any = None, delta: float | None = None
    ) -> None:
        self.assertEqual(x, y, msg, atol=delta if delta is not None else 10.0 ** -(places or 7), rtol=0)

    def assertRaisesRegex(self, expected: Any, pattern: Any, *args: Any, **options: Any) -> Any:
        if args:
            with self._raises_in_words(expected, pattern):
                args[0](*args[1:], **options)
            return None
        return self._raises_in_words(expected, pattern)

    @contextlib.contextmanager
    def _raises_in_words(self, expected: Any, pattern: Any) -> Iterator[Any]:
        with self.assertRaises(expected) as found:
            yield found
        if not re.search(pattern, str(found.exception)):
            other_words.append(f"{self.id()}: {str(found.exception)[:120]!r} for {pattern!r}")

    @contextlib.contextmanager
    def maybeWarnsRegex(self, category: Any, regex: str = "") -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield

    assertWarnsOnceRegex = maybeWarnsRegex

    def assertNotWarn(self, function: Callable[[], Any], msg: str = "") -> None:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            function()
            if found:
                raise AssertionError(f"{msg}: {found[0].message}")

    def compare_with_numpy(
        self, theirs: Any, reference: Any, value: Any, device: Any = None, dtype: Any = None, **options: Any
    ) -> None:
        t = value if isinstance(value, torch.Tensor) else torch.tensor(value, device=device, dtype=dtype)
        a = value if not isinstance(value, torch.Tensor) else value.numpy()
        found, expected = theirs(t), reference(np.asarray(a if dtype is None else torch.tensor(a, dtype=dtype).numpy()))
        options.setdefault("exact_dtype", False)
        self.assertEqual(
            found,
            torch.from_numpy(np.ascontiguousarray(expected)) if isinstance(expected, np.ndarray) else expected,
            **options,
        )

    def check_nondeterministic_alert(self, *_: Any, **__: Any) -> None:
        raise unittest.SkipTest("nondeterminism")


class NNTestCase(TestCase):
    """The case that tests of modules extend."""


# -- tests by device, dtype and parameter


Parameters = list[tuple[str, dict[str, Any]]]  # suffixes of names, and keyword arguments


def _with(function: Any, found: Parameters) -> Any:
    function.parameters = [found, *getattr(function, "parameters", [])]
    return function


class subtest:
    """One value of `parametrize`, with a name."""

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Any = ()) -> None:
        self.arg_values, self.name, self.decorators = arg_values, name, decorators


def _shown(value: Any) -> str:
    return re.sub(r"\W+", "_", getattr(value, "__name__", None) or str(value)).strip("_")


def parametrize(arg_str: str, arg_values: Any, name_fn: Any = None) -> Any:
    """A test for each of the values."""
    names = [n.strip() for n in arg_str.split(",") if n.strip()]
    found: Parameters = []
    for given in arg_values:
        values = given.arg_values if isinstance(given, subtest) else given
        values = tuple(values) if len(names) > 1 else (values,)
        default = "_".join(f"{n}_{_shown(v)}" for n, v in zip(names, values, strict=True))
        name = given.name if isinstance(given, subtest) and given.name else name_fn(*values) if name_fn else default
        found.append((f"_{name}" if name else "", dict(zip(names, values, strict=True))))
    return lambda function: _with(function, found)


def _name(dtype: Any) -> str:
    return getattr(dtype, "name", str(dtype).rpartition(".")[2])


def _dtypes(*given: Any) -> Any:
    found: Parameters = []
    for value in given:
        each = list(value) if isinstance(value, list | tuple) else [value]
        if any(_name(d).startswith(ABSENT) for d in each):
            continue
        suffix = "".join(f"_{_name(d)}" for d in each)
        found.append((suffix, {"dtype": each[0]} if len(each) == 1 else {"dtypes": tuple(each)}))

    def decorate(function: Any) -> Any:
        function.kinds = getattr(function, "kinds", None) or found
        return function

    return decorate


def _dtypes_on_cpu(*given: Any) -> Any:
    def decorate(function: Any) -> Any:
        function.kinds = None
        return _dtypes(*given)(function)

    return decorate


def _copies(name: str, function: Any, more: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    kinds = getattr(function, "kinds", None)
    lists = [*getattr(function, "parameters", []), *([kinds] if kinds is not None else [])]
    for combination in itertools.product(*lists):
        options = dict(more)
        for _, values in combination:
            options |= values

        def run(self: Any, function: Any = function, options: Any = options) -> Any:
            return function(self, **options)

        run.__dict__.update({k: v for k, v in vars(function).items() if k.startswith("__unittest")})
        run.__name__ = name + "".join(s for s, _ in combination)
        yield run.__name__, run


def instantiate_parametrized_tests(cls: Any) -> Any:
    """Put a test for each parameter in place of those that take some."""
    for name, function in list(vars(cls).items()):
        if name.startswith("test") and (hasattr(function, "parameters") or getattr(function, "kinds", None)):
            delattr(cls, name)
            for made, test in _copies(name, function, {}):
                setattr(cls, made, test)
    return cls


def instantiate_device_type_tests(cls: Any, scope: dict[str, Any], **_: Any) -> None:
    """A class of the tests on cpu, in place of the class of tests on any device."""
    made: dict[str, Any] = {"device_type": "cpu", "__test__": True, "__module__": cls.__module__}
    for name, function in list(vars(cls).items()):
        if not name.startswith("test"):
            continue
        if getattr(function, "wants_other_device", False):
            continue
        first = {"devices" if getattr(function, "wants_devices", False) else "device": "cpu"}
        for test_name, test in _copies(f"{name}_cpu", function, first):
            made[test_name] = test
        setattr(cls, name, None)
    hidden = type(
        cls.__name__,
        cls.__bases__,
        {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__") and not k.startswith("test")},
    )
    scope[f"{cls.__name__}CPU"] = type(f"{cls.__name__}CPU", (hidden,), made)
    scope.pop(cls.__name__, None)


def _same(function: Any) -> Any:
    return function


def _or_decorate(*args: Any, **_: Any) -> Any:
    """A decorator that changes nothing, with arguments or without."""
    if len(args) == 1 and callable(args[0]) and not isinstance(args[0], type):
        return args[0]
    return _same


def _elsewhere(*args: Any, **_: Any) -> Any:
    def mark(function: Any) -> Any:
        function.wants_other_device = True
        return function

    return mark(args[0]) if args and callable(args[0]) else mark


def _skipped(reason: str) -> Any:
    return lambda *args, **_: unittest.skip(reason)(args[0]) if args and callable(args[0]) else unittest.skip(reason)


def _suppress(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **options)

    return call


def _tolerance(table: Any) -> Any:
    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def call(self: Any, *args: Any, **options: Any) -> Any:
            found = next((v for k, v in table.items() if _name(k) == _name(options.get("dtype", ""))), None)
            if found is not None:
                self.precision, self.rel_tol = found if isinstance(found, tuple) else (found, 0)
            return function(self, *args, **options)

        return call

    return decorate


@contextlib.contextmanager
def _default_dtype(dtype: Any) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _kept_seed() -> Iterator[None]:
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def draw_as_here() -> None:
    """Let PyTorch draw this library's random numbers: each call has the numbers of the same call here, for a draw here is the next one
    of a stream, of whatever size."""
    import shadergrad as sg

    seed = torch.manual_seed

    def manual_seed(number: int) -> Any:
        sg.manual_seed(number)
        return seed(number)

    def theirs(found: Any, dtype: Any) -> Any:
        return torch.from_numpy(found.double().numpy()).to(dtype)

    def drawn(name: str) -> Any:
        def draw(
            *sizes: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any
        ) -> Any:
            kind = torch.get_default_dtype() if dtype is None else dtype
            found = getattr(sg, name)(*sizes, dtype=getattr(sg, _name(kind)), **options)
            return theirs(found, kind).requires_grad_(requires_grad)

        return draw

    def drawn_like(name: str) -> Any:
        def draw(x: Any, *, dtype: Any = None, **options: Any) -> Any:
            return getattr(torch, name)(*x.shape, dtype=x.dtype if dtype is None else dtype, **options)

        return draw

    def filled(name: str) -> Any:
        def fill(self: Any, *limits: Any, **named: Any) -> Any:
            with torch.no_grad():
                blank = sg.zeros(tuple(self.shape), dtype=getattr(sg, _name(self.dtype)))
                self.copy_(theirs(getattr(blank, name)(*limits, **named), self.dtype))
            return self

        return fill

    torch.manual_seed = manual_seed
    for name in ("rand", "randn"):
        setattr(torch, name, drawn(name))
        setattr(torch, f"{name}_like", drawn_like(name))
    for name in ("normal_", "uniform_"):
        setattr(torch.Tensor, name, filled(name))


def _skip_now(*_: Any, **__: Any) -> Any:
    raise unittest.SkipTest("a helper of PyTorch's own that is not at hand")


MODES = frozenset(("check_batched_grad", "check_batched_forward_grad", "check_sparse_nnz"))


def _without_modes(check: Any, *args: Any, **options: Any) -> Any:
    """gradcheck without the modes that check batched and sparse gradients, which there are not."""
    return check(*args, **{name: value for name, value in options.items() if name not in MODES})


def _check_gradients(case: Any, function: Any, inputs: Any, **options: Any) -> None:
    checks = sys.modules["torch.autograd.gradcheck"]
    case.assertTrue(_without_modes(checks.gradcheck, function, inputs))
    case.assertTrue(_without_modes(checks.gradgradcheck, function, inputs))


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: Any = None,
    high: Any = None,
    noncontiguous: bool = False,
    requires_grad: bool = False,
    **_: Any,
) -> Any:
    """Random numbers; noncontiguous: with a stride of 2 along the last axis."""
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
    found = torch.testing.make_tensor(sizes, dtype=dtype, device=device, low=low, high=high)
    if noncontiguous and found.numel() > 1:
        found = torch.repeat_interleave(found, 2, dim=-1)[..., ::2]
    return found.requires_grad_() if requires_grad else found


def _kinds() -> dict[str, Any]:
    """The sets of dtypes by their names; those that are absent fall away where tests are made."""
    named = lambda *names: tuple(getattr(torch, n) for n in names)  # noqa: E731
    integers = named("uint8", "int8", "int16", "int32", "int64")
    floats, complexes = named("float32", "float64"), named("complex64", "complex128")
    sets = {
        "integral_types": integers,
        "floating_types": floats,
        "complex_types": complexes,
        "all_types": integers + floats,
        "floating_and_complex_types": floats + complexes,
        "all_types_and_complex": integers + floats + complexes,
    }
    made: dict[str, Any] = {}
    for name, kinds in sets.items():
        made[name] = lambda kinds=kinds: kinds
        made[f"{name}_and"] = lambda *more, kinds=kinds: (
            kinds + tuple(m for m in more if m not in kinds and not _name(m).startswith(ABSENT))
        )
    made["floating_types_and_half"] = lambda: floats + named("float16")
    everything = sets["all_types_and_complex"] + named("bool", "float16", "bfloat16")
    made["get_all_dtypes"] = lambda **_: list(everything)
    made["get_all_math_dtypes"] = lambda device: list(sets["all_types_and_complex"])
    made["get_all_fp_dtypes"] = lambda **_: list(named("float16", "bfloat16") + floats)
    made["get_all_int_dtypes"] = lambda **_: list(integers)
    made["get_all_complex_dtypes"] = lambda **_: list(complexes)
    return made


class _Module(ModuleType):
    """A helper module. What it lacks, a test file may import: decorators that skip for lack of something do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.startswith(("TEST_", "IS_", "NO_", "PYTORCH_")):
            return False
        if name.startswith(("onlyCUDA", "onlyMPS", "deviceCountAtLeast", "onlyOn")):
            return _elsewhere
        if name.startswith(("skip", "only", "expectedFailure", "slow", "tf32", "disable")):
            return _or_decorate
        if name.startswith("largeTensor"):
            return lambda *_, **__: _skipped("memory")
        return _skipped(f"{name} of {self.__name__} is not at hand")


def install() -> None:
    """Put the helpers under the names that PyTorch's tests import."""
    names = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128"
    numpy_kinds = {np.dtype(n).type: getattr(torch, n) for n in names.split()}
    shared = {
        "TestCase": TestCase,
        "NNTestCase": NNTestCase,
        "run_tests": lambda *_: None,
        "load_tests": None,
        "parametrize": parametrize,
        "subtest": subtest,
        "instantiate_parametrized_tests": instantiate_parametrized_tests,
        "instantiate_device_type_tests": instantiate_device_type_tests,
        "dtypes": _dtypes,
        "dtypesIfCPU": _dtypes_on_cpu,
        "dtypesIfCUDA": lambda *_: _same,
        "dtypesIfMPS": lambda *_: _same,
        "ops": lambda *_, **__: _elsewhere,
        "modules": lambda *_, **__: _elsewhere,
        "suppress_warnings": _suppress,
        "precisionOverride": _tolerance,
        "toleranceOverride": _tolerance,
        "tol": lambda atol, rtol: (atol, rtol),
        "set_default_dtype": _default_dtype,
        "freeze_rng_state": _kept_seed,
        "set_rng_seed": _seed,
        "make_tensor": make_tensor,
        "gradcheck": functools.partial(_without_modes, sys.modules["torch.autograd.gradcheck"].gradcheck),
        "gradgradcheck": functools.partial(_without_modes, sys.modules["torch.autograd.gradcheck"].gradgradcheck),
        "_assertGradAndGradgradChecks": _check_gradients,
        "LoggingTensor": _skip_now,
        "dtype2prec_DONTUSE": {torch.float32: 1e-5, torch.float64: 1e-5, torch.float16: 1e-2, torch.bfloat16: 1e-1},
        "do_test_empty_full": _skip_now,
        "numpy_to_torch_dtype_dict": numpy_kinds,
        "torch_to_numpy_dtype_dict": {v: k for k, v in numpy_kinds.items()},
        "float_to_corresponding_complex_type_map": {torch.float32: torch.complex64, torch.float64: torch.complex128},
        "get_all_device_types": lambda: ["cpu"],
        "slowTest": _skipped("slow"),
        "TEST_NUMPY": True,
        "TEST_SCIPY": True,
        "TEST_WITH_CROSSREF": False,
        "IS_LINUX": True,
        "MACOS_VERSION": 0.0,
        "OpDTypes": type("OpDTypes", (), {"__getattr__": lambda s, n: n})(),
    }  # fmt: skip
    folder = "torch.testing._internal"
    names = "common_utils common_device_type common_dtype common_cuda common_nn common_methods_invocations common_optimizers logging_tensor"
    for name in (
        folder,
        *(f"{folder}.{n}" for n in names.split()),
        "torch.testing._creation",
        "torch.testing._comparison",
    ):
        module = _Module(name)
        module.__dict__.update(shared, __path__=[], **_kinds())
        sys.modules[name] = module
        holder, _, last = name.rpartition(".")
        setattr(sys.modules[holder], last, module)
    if "torch._six" not in sys.modules:
        six = ModuleType("torch._six")
        six.__dict__.update(inf=float("inf"), nan=float("nan"), string_classes=(str, bytes), container_abcs=None)
        sys.modules["torch._six"] = six
