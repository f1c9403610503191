"""PyTorch's own table of operators (op_db): every tenth entry, on a few samples of each dtype, in each run of the tests.

The whole table, with every sample, is `python scripts/conformance_ops.py`; docs/conformance.md holds what that found.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import shadergrad as sg

with warnings.catch_warnings():  # PyTorch's tables warn while they are made
    warnings.simplefilter("ignore")
    import ops_known
    import ops_names
    import ops_run
    from ops_samples import Call

SAMPLES = 3


def is_there(op: Any) -> bool:
    try:
        ops_names.ours(op)
    except ops_names.MissingError:
        return False
    return True


TENTH = [op for op in ops_names.counted()[::10] if op.formatted_name not in ops_known.SLOW and is_there(op)]


@pytest.mark.filterwarnings("ignore")  # PyTorch's, of its own samples
@pytest.mark.parametrize("op", TENTH, ids=lambda op: op.formatted_name)
def test_a_tenth_of_pytorchs_table_passes(op: Any) -> None:
    report = ops_run.run(op, "cpu", SAMPLES)
    assert not report.missing
    unexpected = [f for f in report.failures if f.partition(":")[0] not in ops_known.allowed(report.name)]
    assert not unexpected, "\n".join(unexpected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["add", "cumsum", "scatter_reduce_amax", "nn_functional_pdist", "fmod", "kron"])
def test_webgpu_passes_on_a_few_entries(name: str, webgpu: str) -> None:
    op = next(o for o in ops_names.counted() if o.formatted_name == name)
    report = ops_run.run(op, webgpu, 2)
    assert not report.failures, "\n".join(report.failures)


def test_what_is_missing_is_known() -> None:
    missing = {op.formatted_name for op in ops_names.counted() if not is_there(op)}
    assert missing == ops_known.MISSING.keys()


# -- the harness itself can fail


def entry(name: str) -> Any:
    return next(o for o in ops_names.counted() if o.formatted_name == name)


def broken(monkeypatch: pytest.MonkeyPatch, function: Any) -> ops_run.Report:
    monkeypatch.setattr(ops_run, "ours", lambda op: function)
    return ops_run.run(entry("cumsum"), "cpu", 2)


@pytest.mark.filterwarnings("ignore")
def test_a_wrong_value_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    report = broken(monkeypatch, lambda x, dim, **options: x.cumsum(dim, **options) * 2)
    assert report.state == "wrong"
    assert report.failed["value"]


@pytest.mark.filterwarnings("ignore")
def test_a_wrong_dtype_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    report = broken(monkeypatch, lambda x, dim, **options: x.cumsum(dim, **options).double())
    assert any("dtype float64" in failure for failure in report.failures)


@pytest.mark.filterwarnings("ignore")
def test_a_wrong_gradient_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(x: Any, dim: int, **options: Any) -> Any:
        y = x.cumsum(dim, **options)
        return y.detach() + (y - y.detach()) * 0.5 if y.requires_grad else y

    report = broken(monkeypatch, half)
    assert report.failed["gradient"]
    assert not report.failed["value"]


@pytest.mark.filterwarnings("ignore")
def test_an_accident_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(x: Any, index: Any, **options: Any) -> Any:
        raise KeyError(index)

    monkeypatch.setattr(ops_run, "ours", lambda op: careless)
    report = ops_run.run(entry("take"), "cpu", 1)
    assert report.failed["value"]


def test_a_missing_name_is_missing() -> None:
    with pytest.raises(ops_names.MissingError):
        ops_names.lookup("nn.functional.no_such_function")
    assert ops_names.lookup("nn.functional.relu") is sg.nn.functional.relu


def test_samples_are_translated() -> None:
    op = entry("add")
    sample = next(iter(op.sample_inputs("cpu", ops_run.torch.float32, requires_grad=True)))
    args, _, leaves = Call(sample).ours("cpu")
    assert isinstance(args[0], sg.Tensor)
    assert [leaf.requires_grad for leaf in leaves] == [True] * len(leaves)
