"""Calls that PyTorch refuses are refused here, and calls that it takes are taken: pools, positions, written values, old forms.

Each row is the source of a statement, run with both libraries on the cpu device. Whether it raises is compared, and that our error is
a ShadergradError in one line; of a few calls that are taken also what they give, which other tests do of the rest. Differences that docs/from-pytorch.md
states are rules of this file: int32 stands where PyTorch has int64, and PyTorch lacks some kernels of halves on the CPU alone.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterable
from typing import Any

import pytest
import torch

import shadergrad as sg

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32")
DTYPES = (*FLOATS, *INTEGERS, "bool", "complex64")
Row = tuple[str, str]  # a statement as we are given it, and as PyTorch is


def outcome(lib: Any, source: str) -> Exception | None:
    """The error that a statement raises. `l` is the library, `F` its nn.functional."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(source, {"l": lib, "F": lib.nn.functional})
        except Exception as error:
            return error
    return None


def complaint(row: Row) -> str | None:
    """What is wrong with a row."""
    ours, theirs = outcome(sg, row[0]), outcome(torch, row[1])
    if (ours is None) is not (theirs is None):
        return f"{row[0]}\n    here {ours!r}\n    in PyTorch {theirs!r}"
    if ours is not None and (not isinstance(ours, sg.ShadergradError) or "\n" in str(ours)):
        return f"{row[0]}\n    no error of this library in one line: {ours!r}"
    return None


def assert_alike(rows: Iterable[Row | str], least: int) -> None:
    found = [(row, row) if isinstance(row, str) else row for row in rows]
    assert len(set(found)) >= least
    complaints = list(filter(None, map(complaint, dict.fromkeys(found))))
    assert not complaints, "\n".join(complaints)


# -- pools

SIZES = {1: (3,), 2: (3, 4), 3: (4, 3, 4)}
POOLS = {
    name: rank
    for rank in SIZES
    for name in (
        f"F.max_pool{rank}d(x, 2)", f"F.max_pool{rank}d(x, 2, return_indices=True)", f"F.avg_pool{rank}d(x, 2)",
        f"F.lp_pool{rank}d(x, 3.0, 2)", f"F.adaptive_avg_pool{rank}d(x, 2)", f"F.adaptive_max_pool{rank}d(x, 2)",
        f"F.max_unpool{rank}d(x, l.zeros(x.shape, dtype=l.int64), 2)",
        *((f"F.fractional_max_pool{rank}d(x, 2, output_size=2)",) if rank > 1 else ()),
    )
}  # fmt: skip


def test_pools_of_dtypes() -> None:
    def rows() -> Iterable[Row]:
        for (pool, rank), kind in itertools.product(POOLS.items(), DTYPES):
            if kind in ("float16", "bfloat16") and pool.startswith(("F.avg_pool3d", "F.lp_pool3d")):
                continue  # PyTorch has these kernels on GPUs alone
            mine = f"x = l.ones({(1, 2, *SIZES[rank])}, dtype=l.{kind}); {pool}"
            yield mine, mine.replace("int32)", "int64)") if kind == "int32" else mine

    assert_alike(rows(), 280)


def test_pools_of_shapes() -> None:
    """An empty batch gives an empty result; no other axis may be empty, none may be missing, and none too many."""

    def rows() -> Iterable[str]:
        for pool, rank in POOLS.items():
            size = SIZES[rank]
            shapes = [(0, 2, *size), (1, 0, *size), (0, 0, *size), (2, *size), (0, *size), size, (1, 1, 2, *size)]
            for axis, n in itertools.product(range(rank), (0, 1)):
                other = [n if a == axis else m for a, m in enumerate(size)]
                shapes += [(1, 2, *other), (0, 2, *other), (2, *other)]
            yield from (f"x = l.ones({shape}); {pool}" for shape in shapes)

    assert_alike(rows(), 400)


def test_pools_of_sizes() -> None:
    def rows() -> Iterable[Row | str]:
        for rank, size in SIZES.items():
            d, x = f"{rank}d", f"x = l.ones(1, 2, {str(size).strip('(,)')})"
            for value in map(repr, ((1,), (2,) * rank, (2,) * (rank + 1), -1, 2.0, True, (True, 1), "a", (1, "a"))):
                for name in ("kernel_size", "stride", "padding"):
                    given = ", ".join(f"{k}={v}" for k, v in {"kernel_size": 2, name: value}.items())
                    yield f"{x}; F.max_pool{d}(x, {given})"
                    yield f"{x}; F.avg_pool{d}(x, {given})"
                yield f"{x}; F.adaptive_avg_pool{d}(x, {value})"
                yield f"{x}; F.adaptive_max_pool{d}(x, {value})"
                if rank > 1:
                    yield f"{x}; F.lp_pool{d}(x, 2.0, {value})"
                    yield f"{x}; F.fractional_max_pool{d}(x, 2, output_size={value})"
                    if value != "-1":  # PyTorch reads what lies beside the memory
                        yield f"{x}; F.fractional_max_pool{d}(x, {value}, output_size=2)"
            for value in map(repr, (None, (None,) * rank, (0,) * rank, (0,) + (1,) * (rank - 1))):
                yield f"{x}; F.adaptive_avg_pool{d}(x, {value})"
                yield f"{x}; F.adaptive_max_pool{d}(x, {value})"
            for value in (0, (0,) * rank, (0,) + (1,) * (rank - 1), 3, 9, (9,) + (2,) * (rank - 1)) if rank > 1 else ():
                yield f"{x}; F.fractional_max_pool{d}(x, 2, output_size={value})"
                yield f"{x}; l.nn.FractionalMaxPool{d}(2, output_size={value})(x)"
            shapes = ((1, 2, rank), (2, 2, rank), (1, 2, rank + 1), (1, 2), (1, 1, rank), (1, 3, rank), (1, 2, rank, 1))
            for shape, kind in itertools.product(shapes if rank > 1 else (), ("float32", "float64", "int64")):
                samples = f"l.zeros({shape}, dtype=l.{kind})"
                yield f"{x}; F.fractional_max_pool{d}(x, 2, output_size=2, _random_samples={samples})"
            small = (1, 1) + (2,) * rank
            for kind in DTYPES:
                mine = f"F.max_unpool{d}(l.zeros({small}), l.zeros({small}, dtype=l.{kind}), 2)"
                yield mine, mine.replace("int32)", "int64)")
            for value in (
                (4,),
                (4,) * rank,
                (1, 1) + (4,) * rank,
                (1,) + (4,) * rank,
                (9,) * rank,
                4,
                "ab",
                (4.0,) * rank,
            ):
                yield f"F.max_unpool{d}(l.zeros({small}), l.zeros({small}, dtype=l.int64), 2, output_size={value!r})"

    assert_alike(rows(), 300)


# -- positions

AT_POSITIONS = (  # x (3, 3), and positions i (3,)
    "x[i]", "x[0, i]", "x[i, i]", "x[i[0]]", "x[i[0], i[0]]", "x[i[0]] = 1", "x[i] = l.ones(3)", "x.gather(0, i.reshape(3, 1))",
    "x.take(i)", "l.take_along_dim(x, i.reshape(3, 1), 0)", "l.take_along_dim(x, i)", "x.index_select(0, i)",
    "x.index_add(0, i, l.ones(3, 3))", "x.index_copy(0, i, l.ones(3, 3))", "x.index_fill(0, i, 1.0)",
    "x.index_reduce(0, i, l.ones(3, 3), 'amax')", "x.index_put((i,), l.ones(3))", "x.index_put_((i,), l.ones(3), accumulate=True)",
    "l.put(x, i, l.ones(3))", "x.put_(i, l.ones(3))", "x.scatter(0, i.reshape(3, 1), l.ones(3, 1))",
    "x.scatter(0, i.reshape(3, 1), 1.0)", "x.scatter_add(0, i.reshape(3, 1), l.ones(3, 1))",
    "x.scatter_reduce(0, i.reshape(3, 1), l.ones(3, 1), 'sum')", "x.masked_fill(i, 1.0)", "x.masked_select(i)",
    "x.masked_scatter(i, l.ones(9))", "l.where(i, x, x)", "l.bincount(i)", "x.repeat_interleave(i, 0)", "l.tensor_split(x, i)",
    "l.unravel_index(i, (3, 3))", "l.searchsorted(x[0], x, sorter=i)", "F.embedding(i, x)", "F.one_hot(i, 3)", "F.nll_loss(x, i)",
    "F.cross_entropy(x, i)", "F.multi_margin_loss(x, i)", "F.embedding_bag(l.tensor([0, 1]), x, i)",
)  # fmt: skip


@pytest.mark.parametrize("values", [[0, 1, 0], [[0], [1], [0]], 0, [], [0]], ids=str)
def test_positions(values: Any) -> None:
    def rows() -> Iterable[Row]:
        kinds = DTYPES if values == [0, 1, 0] else ("int64", "float32", "bool") if values else ("int64", "bool")
        for call, kind in itertools.product(AT_POSITIONS, kinds):
            if kind == "bool" and (call.startswith("F.embedding_bag") or (values == 0 and "index_put" in call)):
                continue  # bags that bools begin; an assertion within PyTorch
            if kind == "bool" and values == [] and "take_along_dim(x, i)" in call:
                continue  # PyTorch looks at no dtype where there is no position
            # offsets that fall are refused by PyTorch's kernels of some processors alone
            given = [0, 0, 1] if call.startswith("F.embedding_bag") and values == [0, 1, 0] else values
            mine = f"x = l.ones(3, 3); i = l.tensor({given}, dtype=l.{kind}); {call}"
            yield mine, mine.replace("int32)", "int64)")

    assert_alike(rows(), 70)


# -- written values

WRITES = (  # into x (3, 3), of v (3, 3)
    "x[[1]] = v[0]", "x[:, [1]] = v[:, :1]", "x[[1]] = v[0, 0]", "x[l.tensor([0, 1, 2]), l.tensor([0, 1, 2])] = v[0]",
    "x[l.ones(3, 3) > 0] = v.reshape(-1)", "x[l.ones(3, 3) > 0] = v[0, 0]", "x[l.ones(3, 3) > 0] = v[0, :1].clone()",
    "x[l.ones(3) > 0] = v", "x[:, l.ones(3) > 0] = v[0, 0]", "x[l.ones(3) > 0, 0] = v[0, 0]", "x[l.ones(3) > 0, [0]] = v[0, 0]",
    "x[1] = v[0]", "x[l.tensor(1)] = v[0]", "x[True] = v", "x[:] = v", "x.index_put_((l.tensor([1]),), v[0])",
    "x.index_put_((l.ones(3, 3) > 0,), v[0, 0])", "x.scatter(0, l.zeros((1, 3), dtype=l.int64), v)",
    "x.scatter_reduce(0, l.zeros((1, 3), dtype=l.int64), v, 'sum')", "x.index_copy_(0, l.zeros(3, dtype=l.int64), v)",
    "x.masked_scatter(l.ones(3, 3) > 0, v)", "x.masked_fill_(l.ones(3, 3) > 0, v[0, 0])", "x.copy_(v)", "x.add_(v)", "x.mul_(v)",
)  # fmt: skip


def test_values_of_other_dtypes() -> None:
    """What is written where positions are data has the dtype of the tensor; int32 and int64 stand for each other."""

    def rows() -> Iterable[Row]:
        kinds = ("float32", "float64", "int64", "int32", "uint8", "bool")
        for write, own, other in itertools.product(WRITES, kinds, kinds):
            source = "x = l.zeros(3, 3, dtype=l.{}); v = l.ones(3, 3, dtype=l.{}); {}"
            same = {own, other} == {"int32", "int64"}
            yield source.format(own, other, write), source.format(own, own if same else other, write)

    assert_alike(rows(), 800)


# -- forms of calls

FORMS = """x.add(2, y); x.add_(2, y); l.add(x, 2, y); x.add(2, 3); l.add(x, l.tensor(2.0), 3); x.sub(2, y); l.sub(x, 2, y)
x.sub_(2, y); x.addcmul(2, y, y); x.addcmul_(2, y, y); l.addcdiv(x, 2, y, y); x.addcdiv_(2, y, y); x.add(y, 2)
x.add(2, 2, y); x.add(2, y, alpha=2); x.addcmul(2, y); x.addcmul(y, 2); x.mul(2, y); l.add(i, 0.5, i); l.add(b, b, True)
l.add(1, 1, alpha=True); l.add(b, b, alpha=True); l.add(x, 2, l.ones(3)); l.nonzero(x, as_tuple=True, out=i)
l.nonzero(x, out=i[:0]); l.nonzero(x, as_tuple=False, out=i[:0]); x.fill_(1j); x.scatter(0, i[:, None], 1j)
l.conv2d(z, z, stride=True); F.unfold(z, True); F.pad(z, (True, False)); l.set_default_dtype(int); l.iinfo(bool); l.finfo(int)
l.zeros(2, dtype=float); l.zeros(2, dtype=int); l.zeros(2, dtype=complex); x.to(float); x.to(int); l.zeros(2, dtype=str)
x.addmm(2, y, y); x.addmm(2, 3, y, y); x.addmm_(2, 3, y, y); l.addmm(2, x, 3, y, y); l.addmm(2, x, y, y); x.addmm(y, 2, y)
x.addmm(2, 3, 4, y, y); l.addmm(2, 3, x, y, y); x.addmm(2, y, y, beta=3); x.addmm(2, y); x[0].addmv(2, y, y[0]); x.addr(2, 3, y[0], y[0])
z[0].baddbmm(2, z[0], z[0]); l.baddbmm(2, z[0], 3, z[0], z[0]); z[0, 0].addbmm(2, z[0], z[0]); x.addmm(b, y, 3)"""


def test_forms() -> None:
    given = (
        "x = l.ones(2, 2); y = l.full((2, 2), 3.0); i = l.tensor([0, 1]); b = l.tensor(True); z = l.ones(1, 1, 2, 2)"
    )
    assert_alike((f"{given}; {call}" for line in FORMS.splitlines() for call in line.split("; ")), 40)


GIVE = """x.add(2, y); x.clone().add_(0.5, y); l.sub(x, 2, y); x.addcmul(2, y, y); x.clone().addcdiv_(-0.5, x, y); l.add(b, b, True)
l.add(x, l.tensor(2.0), 3); l.zeros(2, dtype=float); l.zeros(2, dtype=int); l.zeros(2, dtype=complex); l.zeros(2, dtype=bool)
l.arange(3, dtype=float); x.to(float); x.to(int); (x / 3).sum(dtype=float); l.tensor([1.5, 0.0]).to(dtype=bool)
y[l.tensor(1, dtype=l.int16)]; y[l.tensor(-1, dtype=l.int8), 0]; y[0, l.tensor(1, dtype=l.uint16)]; y[l.tensor(1, dtype=l.int16):]
F.fractional_max_pool2d(l.ones(1, 2, 4, 4), 2, output_size=(0, 1)); F.fractional_max_pool3d(l.ones(2, 5, 5, 5), 2, output_size=0)
F.embedding_bag(l.tensor([0, 1, 1], dtype=l.int16), y, l.tensor([0, 1])); l.tensor([5, 7]).scatter(0, i, i + 1)
F.embedding_bag(i, y, l.zeros(0, dtype=l.int64)); l.tensor([5, 7]).index_put((i,), i.to(l.int32).to(l.int64), accumulate=True)
x.addmm(2, 3, y, y); l.addmm(2, x, 3, y, y); l.addmm(0.5, x, y, y); x[0].addmv(2, 3, y, y[0]); x.addr(0, y[0], y[1])
x.put(l.tensor([-1, 0]), l.tensor([4.0, 5.0])); x.masked_scatter(x > 0, y); x.index_put((x > 0,), l.tensor(7)); x.mul(True)"""


def test_what_calls_give_that_are_taken() -> None:
    made = "y = l.arange(4.0).reshape(2, 2) + 1; x = l.ones(2, 2); i = l.tensor([0, 1]); b = l.tensor(True)"
    for call in (call for line in GIVE.splitlines() for call in line.split("; ")):
        found: list[Any] = []
        for lib in (sg, torch):
            names: dict[str, Any] = {"l": lib, "F": lib.nn.functional}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(f"{made}\nresult = {call}", names)
            result = names["result"]
            found.append(
                (str(result.dtype).split(".")[1].replace("int32", "int64"), tuple(result.shape), result.tolist())
            )
        assert found[0] == found[1], call


def test_the_old_form_of_a_call_warns() -> None:
    lib: Any = sg
    x = lib.ones(2)
    for call, said in (
        (lambda: x.add_(-0.5, lib.ones(2)), "alpha before the tensors is deprecated. Hint: alpha=-0.5 behind them."),
        (lambda: lib.addcmul(x, 2, x, x), "value before the tensors is deprecated. Hint: value=2 behind them."),
        (lambda: lib.ones(2, 2).addmm(2, 3, lib.eye(2), lib.eye(2)), "Hint: beta=2, alpha=3 behind them."),
    ):
        with pytest.warns(UserWarning, match=re.escape(said)) as found:
            call()
        assert found[0].filename == __file__
    assert x.tolist() == [0.5, 0.5]
