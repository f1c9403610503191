"""Runs an operator of PyTorch's table on its samples and error inputs, here and there, and says where the two differ.

What is looked at, for every sample of a dtype: the values, dtypes and shapes of all results; for floats the gradients for
random cotangents and the derivatives of these; for some of the samples the method, the form in place and `out=`; and
whether every error input is refused by an error of ours.
"""

from __future__ import annotations

import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import shadergrad as sg
from ops_names import DRAWN, MissingError, lookup, ours, translated_or_named
from ops_samples import Call, UnsupportedError, each_tensor
from ops_ties import without_positions

DTYPES = (torch.float32, torch.float64, torch.int64, torch.int32, torch.bool)
CHECKS = ("value", "gradient", "second", "method", "in place", "out", "errors")
FORMS = 3  # samples of each dtype on which the other forms of an operator are tried
KEPT = 4  # failures that are told
TOLERANCE = {"float64": 1e-7, "float32": 2e-5, "float16": 1e-3, "complex64": 2e-5, "complex128": 1e-7}
# (dtype of PyTorch's result, ours) that docs/from-pytorch.md says: the default integer has 32 bits
SAME_DTYPE = {("int64", "int32")}
UNKNOWN: Any = object()  # in place of a result that did not come
NO_FLOAT64 = "float64 is not available on"  # a GPU has none


@dataclass
class Report:
    """What became of an operator: how often each check was made and failed, and the first failures in words."""

    name: str
    made: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    missing: str = ""
    unsupported: int = 0

    @property
    def state(self) -> str:
        """pass, wrong or missing."""
        if self.missing:
            return "missing"
        return "wrong" if self.failed else "pass"

    @property
    def right(self) -> bool:
        """Whether values, dtypes, shapes and gradients are right everywhere, whatever the other forms do."""
        return not self.missing and not any(self.failed[c] for c in ("value", "gradient", "second"))

    def fail(self, check: str, text: str) -> None:
        self.failed[check] += 1
        if self.failed[check] <= KEPT:
            self.failures.append(f"{check}: {text}")


class DifferError(Exception):
    """What is said of two results that differ."""


class _LateError(Exception):
    """An operator that takes too long."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise _LateError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(op: Any, device: str = "cpu", most: int | None = None, seconds: float = 600.0) -> Report:
    """The report of an entry. most: how many samples of a dtype are taken at most, evenly spread."""
    report = Report(op.formatted_name)
    try:
        function = ours(op)
    except MissingError as error:
        report.missing = str(error)
        return report
    try:
        with limited(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for dtype in dtypes_of(op, device):
                for k, call in enumerate(calls_of(op, dtype, most, report)):
                    _guarded(report, _Trial(op, function, call, device, dtype, k, report))
            _errors(op, function, device, report)
    except _LateError as late:
        report.fail("value", str(late))
    except MissingError as error:
        report.missing = str(error)
    return report


def dtypes_of(op: Any, device: str) -> list[torch.dtype]:
    supported = op.supported_dtypes("cpu")
    return [d for d in DTYPES if d in supported and not (device != "cpu" and d == torch.float64)]


def calls_of(op: Any, dtype: torch.dtype, most: int | None, report: Report) -> Iterator[Call]:
    torch.manual_seed(0)
    gradients = op.supports_autograd and dtype.is_floating_point
    try:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=gradients))
    except Exception:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    if most is not None and len(samples) > most:
        samples = [samples[k * len(samples) // most] for k in range(most)]
    for sample in samples:
        try:
            yield Call(sample)
        except UnsupportedError:
            report.unsupported += 1


@dataclass
class _Trial:
    """One sample."""

    op: Any
    function: Callable[..., Any]
    call: Call
    device: str
    dtype: torch.dtype
    number: int
    report: Report

    def plain(self, actual: Any, expected: Any) -> tuple[Any, Any]:
        """The two results, without positions that may differ."""
        return without_positions(self.op.formatted_name, self.call.args, self.call.options, actual, expected)


def _guarded(report: Report, trial: _Trial) -> None:
    """All checks of a sample; whatever goes wrong is a failure of the check."""
    try:
        args, options, leaves = trial.call.torchs()
        expected = trial.op.op(*args, **options)
    except Exception:
        return  # PyTorch refuses its own sample
    drawn = DRAWN.fullmatch(trial.op.formatted_name) is not None
    actual, my_leaves = UNKNOWN, []
    with _noted(trial, "value"):
        drawn = drawn or float(trial.call.options.get("dropout_p", 0)) > 0
        mine, own, my_leaves = trial.call.ours(trial.device)
        actual = trial.function(*mine, **own)
        compare(*trial.plain(actual, expected), drawn)
    if report.missing or drawn or actual is UNKNOWN:
        return
    is_last = trial.dtype == (torch.float64 if trial.device == "cpu" else torch.float32)
    if is_last and leaves and trial.op.supports_autograd and report.failed["value"] == 0:
        _gradients(trial, expected, leaves, actual, my_leaves)
    if trial.number < FORMS:
        _forms(trial, expected)


@contextmanager
def _noted(trial: _Trial, check: str) -> Iterator[None]:
    report = trial.report
    report.made[check] += 1
    try:
        yield
    except (_LateError, MissingError):
        raise
    except (UnsupportedError, sg.DTypeError) as error:
        if not isinstance(error, UnsupportedError) and NO_FLOAT64 not in str(error):
            report.fail(check, f"{said(trial)}: {error}"[:400])
            return
        report.made[check] -= 1
        report.unsupported += 1
    except Exception as error:
        text = f"{type(error).__name__}: {error}" if not isinstance(error, DifferError) else str(error)
        if isinstance(error, AttributeError) and "object has no attribute" in text and "'Tensor'" in text:
            report.missing = text
        report.fail(check, f"{said(trial)}: {text.splitlines()[0][:300] if text else ''}")


def said(trial: _Trial) -> str:
    """A sample in a few words."""

    def word(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if isinstance(value, list | tuple):
            return f"({', '.join(map(word, value))})"
        return repr(value)[:60]

    call = trial.call
    parts = [word(v) for v in call.args] + [f"{k}={word(v)}" for k, v in call.options.items()]
    return f"({', '.join(parts)[:200]})"


# -- comparing


def _all_tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, sg.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for v in value:
            yield from _all_tensors(v)
    elif isinstance(value, dict):
        yield from _all_tensors(list(value.values()))


def compare(actual: Any, expected: Any, drawn: bool = False, tolerance: float | None = None) -> None:
    """Raises DifferError where the results are not the same: structure, shapes, dtypes, values."""
    if isinstance(expected, torch.Tensor):
        if not isinstance(actual, sg.Tensor):
            raise DifferError(f"gives {type(actual).__name__}, not a tensor")
        if tuple(actual.shape) != tuple(expected.shape):
            raise DifferError(f"shape {tuple(actual.shape)}, expected {tuple(expected.shape)}")
        wanted, found = str(expected.dtype).removeprefix("torch."), actual.dtype.name
        same = SAME_DTYPE if actual.device == "cpu" else {*SAME_DTYPE, ("float64", "float32")}
        if found != wanted and (wanted, found) not in same:
            raise DifferError(f"dtype {found}, expected {wanted}")
        if not drawn:
            theirs = expected.float() if expected.dtype is torch.bfloat16 else expected  # which NumPy has not
            _compare_values(actual.detach().numpy(), theirs.numpy(force=True), tolerance)
        elif actual.numel():
            actual.detach().numpy()
    else:
        _compare_others(actual, expected, drawn, tolerance)


def _compare_others(actual: Any, expected: Any, drawn: bool, tolerance: float | None) -> None:
    """Sequences, numbers and None."""
    if isinstance(expected, list | tuple):
        number = len(actual) if isinstance(actual, list | tuple) else type(actual).__name__
        if number != len(expected):
            raise DifferError(f"gives {number} results, expected {len(expected)}")
        for a, b in zip(actual, expected, strict=True):
            compare(a, b, drawn, tolerance)
    elif isinstance(expected, bool | int | float):
        if type(actual) is not type(expected) or not (drawn or np.allclose(actual, expected, equal_nan=True)):
            raise DifferError(f"gives {actual!r}, expected {expected!r}")
    elif expected is None and actual is not None:
        raise DifferError(f"gives {actual!r}, expected None")


def _compare_values(a: np.ndarray, b: np.ndarray, tolerance: float | None) -> None:
    if b.dtype.kind not in "fc":
        if not np.array_equal(a, b):
            at = np.argwhere(np.atleast_1d(a != b))[0]
            raise DifferError(f"{np.atleast_1d(a)[tuple(at)]} at {at.tolist()}, expected {np.atleast_1d(b)[tuple(at)]}")
        return
    close = tolerance or max(TOLERANCE[str(a.dtype)], TOLERANCE[str(b.dtype)])
    same = np.isclose(a, b, rtol=close, atol=close, equal_nan=True)
    if not same.all():
        at = tuple(np.argwhere(np.atleast_1d(~same))[0])
        raise DifferError(
            f"{np.atleast_1d(a)[at]} at {[int(k) for k in at]}, expected {np.atleast_1d(b)[at]} "
            f"({int((~same).sum())} of {same.size} differ)"
        )


# -- gradients


def _floating(lib: Any, value: Any) -> list[Any]:
    """The results that a gradient may come from."""
    found: list[Any] = []
    if isinstance(value, lib.Tensor):
        found = [value] if value.requires_grad else []
    elif isinstance(value, list | tuple):
        for v in value:
            found += _floating(lib, v)
    return found


def _drawn(shapes: list[Any], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(tuple(s)) for s in shapes]


def _grads(lib: Any, outputs: list[Any], leaves: list[Any], seed: int, create_graph: bool) -> list[Any]:
    """The gradients for random cotangents; outputs that require no gradient have none."""
    drawn = zip(outputs, _drawn([o.shape for o in outputs], seed), strict=True)
    live = [(o, lib.tensor(u, dtype=o.dtype, device=o.device)) for o, u in drawn if o.requires_grad]
    if not live:
        return [lib.zeros_like(x) for x in leaves]
    found = lib.autograd.grad(
        [o for o, _ in live],
        leaves,
        [u for _, u in live],
        allow_unused=True,
        create_graph=create_graph,
        retain_graph=create_graph,
    )
    return [lib.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def _gradients(trial: _Trial, expected: Any, leaves: list[Any], actual: Any, mine: list[Any]) -> None:
    process, op = trial.call.process, trial.op
    outputs = _floating(torch, process(expected))
    if not outputs:
        return
    second = bool(op.supports_gradgrad)
    try:
        wanted = _grads(torch, outputs, leaves, 1, second)
    except Exception:
        return  # PyTorch has none
    with _noted(trial, "gradient"):
        here = _floating(sg, process(actual))
        if len(here) != len(outputs):
            raise DifferError(f"{len(here)} results require grad, expected {len(outputs)}")
        found = _grads(sg, here, mine, 1, second)
        compare(found, wanted, tolerance=None if trial.device == "cpu" else 1e-3)
        if second:
            _second(trial, wanted, leaves, found, mine)


def _second(trial: _Trial, wanted: list[Any], leaves: list[Any], found: list[Any], mine: list[Any]) -> None:
    again = [k for k, g in enumerate(wanted) if g.requires_grad]
    if not again:
        return
    try:
        expected = _grads(torch, [wanted[k] for k in again], leaves, 2, False)
    except Exception:
        return
    with _noted(trial, "second"):
        actual = _grads(sg, [found[k] for k in again], mine, 2, False)
        compare(actual, expected, tolerance=1e-6 if trial.device == "cpu" else 1e-2)


# -- other forms: the method, in place, out=


def _forms(trial: _Trial, expected: Any) -> None:
    op = trial.op
    plain = isinstance(trial.call.args[0], torch.Tensor)
    if op.method_variant is not None and plain and not op.name.startswith(("__", "nn.", "linalg.", "special.", "fft.")):
        with _noted(trial, "method"):
            args, options, _ = trial.call.ours(trial.device)
            try:
                method = lookup(f"Tensor.{op.method_variant.__name__}")
            except MissingError:
                raise DifferError(f"no method {op.method_variant.__name__}") from None
            compare(*trial.plain(method(*args, **options), expected))
    if op.inplace_variant is not None and plain and not trial.call.broadcasts:
        _in_place(trial)
    if op.supports_out and isinstance(expected, torch.Tensor | tuple) and not op.name.startswith("__"):
        _out(trial, expected)


def _in_place(trial: _Trial) -> None:
    form = trial.op.inplace_variant
    name = getattr(form, "__name__", "")
    if name.startswith("__"):
        return
    args, options, _ = trial.call.torchs()
    try:
        with torch.no_grad():
            form(*args, **options)
    except Exception:
        return
    with _noted(trial, "in place"), sg.no_grad():
        mine, own, _ = trial.call.ours(trial.device)
        try:
            method = translated_or_named(form)
        except MissingError:
            raise DifferError(f"no method {name}") from None
        given = method(*mine, **own)
        if given is not mine[0]:
            raise DifferError("does not give the tensor")
        compare(mine[0], args[0])


def _out(trial: _Trial, expected: Any) -> None:
    args, options, _ = trial.call.torchs()
    tensors = (expected,) if isinstance(expected, torch.Tensor) else tuple(expected)
    if not all(isinstance(t, torch.Tensor) for t in tensors):
        return
    empty = [torch.empty_like(t.detach()) for t in tensors]
    try:
        with torch.no_grad():
            trial.op.op(*args, **options, out=empty[0] if isinstance(expected, torch.Tensor) else tuple(empty))
    except Exception:
        return
    with _noted(trial, "out"), sg.no_grad():
        mine, own, _ = trial.call.ours(trial.device)
        found = trial.function(*mine, **own)
        many = isinstance(found, list | tuple)
        outs = [sg.zeros_like(t) for t in (found if many else (found,))]
        mine, own, _ = trial.call.ours(trial.device)
        given = trial.function(*mine, **own, out=tuple(outs) if many else outs[0])
        for a, b in zip(given if many else (given,), outs, strict=True):
            if a is not b:
                raise DifferError("out= is not what is given")
        compare(*trial.plain(tuple(outs) if many else outs[0], expected))


# -- what must be refused


def _overlaps(call: Call) -> bool:
    """Whether `out` shares memory with an argument, or is written to in two places: that is about strides."""
    outs = [t.untyped_storage().data_ptr() for t in each_tensor([call.options.get("out")])]
    others = [t.untyped_storage().data_ptr() for t in each_tensor(list(call.args))]
    expanded = any(0 in t.stride() and t.numel() > 1 for t in each_tensor([call.options.get("out")]))
    return expanded or any(p in others for p in outs) or len(set(outs)) < len(outs)


def _is_taken(op: Any, call: Call) -> bool:
    """Whether PyTorch takes what its table says that it refuses."""
    args, options, _ = call.torchs()
    try:
        op.op(*args, **options)
    except Exception:
        return False
    return True


def _errors(op: Any, function: Callable[..., Any], device: str, report: Report) -> None:
    if op.error_inputs_func is None:
        return
    torch.manual_seed(0)
    for number, error in enumerate(op.error_inputs("cpu")):
        if device != "cpu" and "out of bounds" in str(error.error_regex):
            continue  # positions out of range are told in checked mode
        try:
            call = Call(error.sample_input)
            if op.name.startswith("__") and not isinstance(call.args[0], torch.Tensor):
                continue
            if _overlaps(call) or _is_taken(op, call):
                continue
            args, options, _ = call.ours(device)
        except Exception:  # what is left out, and what cannot even be translated
            report.unsupported += 1
            continue
        trial = _Trial(op, function, call, device, torch.float32, number, report)
        report.made["errors"] += 1
        try:
            for t in _all_tensors([function(*args, **options)]):
                t.detach().numpy()
        except sg.ShadergradError:
            continue
        except _LateError:
            raise
        except Exception as other:
            text = f"{type(other).__name__}: {other}"
            report.fail("errors", f"{said(trial)}: not an error of ours: {text[:200]}")
            continue
        report.fail("errors", f"{said(trial)}: taken; PyTorch: {str(error.error_regex)[:150]}")
