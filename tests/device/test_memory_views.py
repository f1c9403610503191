"""The same memory as another dtype, in another size and exchanged for another's, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shadergrad as sg

torch = pytest.importorskip("torch")
BITS = {"float32": 4, "int32": 4, "uint32": 4, "int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2}
PAIRS = [(a, b) for a in BITS for b in BITS if a != b and BITS[a] == BITS[b]]
ON_CPU = [
    *PAIRS,
    ("float64", "int64"),
    ("float16", "int16"),
    ("float32", "uint8"),
    ("int16", "float64"),
    ("int64", "complex64"),
]


def numbers(lib: Any, name: str, **options: Any) -> Any:
    values = np.array([[0, 1, -2, 3, 100, 7, -90, 5], [1, 1, 0, -1, 2, 9, -6, 0]])
    return lib.tensor(
        values % 2 == 1 if name == "bool" else values % 128 if name[0] == "u" else values,
        dtype=getattr(lib, name),
        **options,
    )


@pytest.mark.parametrize(("source", "dtype"), ON_CPU)
def test_a_view_as_another_dtype_reads_and_writes_the_same_memory(source: str, dtype: str, device: str) -> None:
    if device != "cpu" and (source, dtype) not in PAIRS:
        with pytest.raises(sg.DTypeError):
            numbers(sg, source).to(device).view(getattr(sg, dtype))
        return

    def run(lib: Any, **options: Any) -> list[Any]:
        x = numbers(lib, source, **options)
        y = x.view(getattr(lib, dtype))
        part = y[1:, ::2] if dtype == "bool" else y[:, 1::2]
        part.fill_(1)
        z = x[:1].view(getattr(lib, dtype))
        x[0, 1] = 1
        return [
            x.tolist(),
            y.tolist(),
            z.tolist(),
            y.stride(),
            z.storage_offset(),
            tuple(y.shape),
            y.data_ptr() == x.data_ptr(),
        ]

    assert repr(run(sg, device=device)) == repr(run(torch))  # where not a number is itself


def test_values_that_a_bool_shows_as_true_keep_their_bits(device: str) -> None:
    x = sg.tensor([0, 2, 3], dtype=sg.uint8, device=device)
    x.view(sg.bool)[0] = True
    assert x.tolist() == [1, 2, 3]


def test_not_a_number_and_infinity_keep_their_bits(device: str) -> None:
    bits = [0x7FC00000, 0x7F800000, 0x00000007]
    x = sg.zeros(3, device=device)
    x.view(sg.int32).copy_(sg.tensor(bits, device=device))
    assert np.isnan(x.numpy()[0])
    assert x[1].item() == float("inf")
    assert x.view(sg.int32).tolist() == bits
    assert sg.full((2,), bits[1], dtype=sg.int32, device=device).view(sg.float32).tolist() == [float("inf")] * 2


def test_a_compiled_step_reads_and_writes_through_another_dtype(device: str) -> None:
    def step(x: sg.Tensor) -> sg.Tensor:
        bits = x.view(sg.int32)
        bits.bitwise_and_(0x7FFFFFFF)
        return (bits >> 23) - 127

    found = []
    for function in (step, sg.compile(step)):
        for _ in range(3):
            x = sg.tensor([-4.0, 0.5, 3.0], device=device)
            found.append((function(x).tolist(), x.tolist()))
    assert found == [([2, -1, 1], [4.0, 0.5, 3.0])] * 6


@pytest.mark.parametrize(
    ("shape", "view"),
    [((), lambda x: x), ((4, 4), lambda x: x.t()), ((4, 3), lambda x: x), ((4, 4), lambda x: x[:, 1:3]), ((4, 2), lambda x: x.as_strided((2, 2), (3, 1)))],
)  # fmt: skip
def test_larger_elements_are_refused_where_pytorch_refuses_them(
    shape: tuple[int, ...], view: Callable[[Any], Any]
) -> None:
    for lib in (torch, sg):
        with pytest.raises(RuntimeError):
            view(lib.zeros(shape, dtype=lib.float32)).view(lib.float64)


COMPLEX: dict[str, Callable[[Any, Any], Any]] = {
    "real": lambda t, z: z.real.mul_(2),
    "imag of a transpose": lambda t, z: z.t().imag.add_(1),
    "view_as_real": lambda t, z: t.view_as_real(z)[..., 1].fill_(7),
    "conj": lambda t, z: z.conj().mul_(2j),
    "imag of conj": lambda t, z: z.conj().imag.add_(1),
    "conj of conj": lambda t, z: z.conj().conj()[0].zero_(),
    "view_as_complex of view_as_real": lambda t, z: t.view_as_complex(t.view_as_real(z)).mul_(1j),
    "set real": lambda t, z: setattr(z, "real", t.ones(2, 3)),
    "set imag": lambda t, z: setattr(z, "imag", 3.0),
    "an expanded column": lambda t, z: z[:, :1].real.expand(2, 3).fill_(1),
}


@pytest.mark.parametrize("case", COMPLEX)
def test_parts_and_conjugates_of_complex_numbers_are_views(case: str) -> None:
    def run(lib: Any) -> list[Any]:
        z = lib.complex(lib.arange(6.0).reshape(2, 3), lib.arange(6.0).flip(0).reshape(2, 3))
        early = [z.real, z.imag, z.conj()]
        COMPLEX[case](lib, z)
        return [z.tolist(), *(v.tolist() for v in early), *(v._base is z for v in early)]

    assert run(sg) == run(torch)


def test_views_of_complex_numbers_say_how_they_lie() -> None:
    def run(lib: Any) -> list[Any]:
        z = lib.zeros((2, 3), dtype=lib.complex64)
        views = [z.real, z.imag, z.t().imag, lib.view_as_real(z), z.conj(), z.conj().imag, z[:, 1:].real]
        return [(v.stride(), v.storage_offset(), v.is_conj(), v.is_neg()) for v in views]

    assert run(sg) == run(torch)


def test_gradients_go_through_views_of_parts() -> None:
    def run(lib: Any) -> list[Any]:
        p = lib.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=lib.float64, requires_grad=True)
        z = lib.view_as_complex(p) * (1 + 2j)
        w = z.clone()
        w.imag.mul_(3)
        (w.conj() * z).real.sum().backward()
        return [p.grad.tolist(), w.tolist()]

    assert run(sg) == run(torch)


RESIZED: dict[str, Callable[[Any, Any], Any]] = {
    "smaller, and as large again": lambda t, x: [x.resize_(2).tolist(), x.resize_(2, 3).tolist()],
    "smaller, and a view of the rest": lambda t, x: [x[1].add_(10).tolist(), x.resize_(4).tolist()],
    "larger": lambda t, x: [x.resize_(4, 4).fill_(2).tolist(), list(x.shape), x.resize_(1).tolist(), x.resize_(20).zero_().tolist()],
    "a view in its memory": lambda t, x: [x.view(-1)[1:3].resize_(5).fill_(3).tolist()],
    "a transpose": lambda t, x: [x.t().resize_(2, 2).tolist()],
    "as another": lambda t, x: [x.resize_as_(t.zeros(6)).tolist()],
    "set to another": lambda t, x: [t.empty(0, device=x.device).set_(x).mul_(2).tolist()],
    "set to a part": lambda t, x: [t.empty(0, device=x.device).set_(x.untyped_storage(), 1, (2, 2), (2, 1)).mul_(2).tolist()],
    "set to nothing": lambda t, x: [list(x.set_().shape)],
    "strides in place": lambda t, x: [x.as_strided_((3,), (2,)).add_(1).tolist(), x.stride()],
    "axes exchanged in place": lambda t, x: [x.swapaxes_(0, 1).tolist(), x.swapdims_(0, 1).tolist()],
    "a view that loses no axis": lambda t, x: [(v := x.view_as(x)).squeeze_().mul_(2).tolist(), v._base is x],
}  # fmt: skip


@pytest.mark.parametrize("case", RESIZED)
def test_memory_is_resized_and_exchanged_as_in_pytorch(case: str, device: str) -> None:
    def run(lib: Any, **options: Any) -> list[Any]:
        x = lib.arange(6.0, **options).reshape(2, 3).clone()
        return [RESIZED[case](lib, x), x.tolist(), x._base is None, x.untyped_storage().nbytes()]

    assert run(sg, device=device) == run(torch)


def test_what_cannot_be_resized_says_why(device: str) -> None:
    x = sg.zeros(4, device=device)
    row = x[1:]
    with pytest.raises(RuntimeError, match="other tensors share it"):
        x.resize_(9)
    assert row.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="require grad"):
        sg.zeros(2, requires_grad=True, device=device).resize_(3)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        sg.zeros(2, requires_grad=True, device=device).set_(x)
    with pytest.raises(RuntimeError, match="float32"):
        sg.zeros(2, dtype=sg.int32, device=device).set_(x)
    with pytest.raises(RuntimeError, match="outside"):
        sg.compile(lambda y: y.resize_(2) * 1)(sg.zeros(4, device=device))


def test_a_compiled_step_sees_that_memory_was_resized_or_exchanged(device: str) -> None:
    x, y = sg.ones(4, device=device), sg.full((4,), 5.0, device=device)
    step = sg.compile(lambda: x.mul_(2).sum())
    found = [step().item(), step().item()]
    x.resize_(2)
    found += [step().item(), step().item()]
    x.set_(y)
    found += [step().item(), y.sum().item()]
    assert found == [8, 16, 16, 32, 40, 40]


EXCHANGED: dict[str, Callable[[sg.Tensor], Any]] = {
    "another shape": lambda x: setattr(x, "data", x.reshape(2, 3).clone()),
    "fewer elements": lambda x: setattr(x, "data", x[:2].clone()),
    "another dtype": lambda x: setattr(x, "data", x.int()),
    "a transpose in place": lambda x: x.t_(),
    "an axis in place": lambda x: x.unsqueeze_(0),
    "other strides in place": lambda x: x.as_strided_((2, 2), (3, 1)),
    "resized": lambda x: x.resize_(1, 2),
    "grown": lambda x: x.resize_(5, 2),
}


@pytest.mark.parametrize("case", EXCHANGED)
def test_a_compiled_step_sees_that_a_tensor_it_reads_has_another_kind_of_memory(case: str, device: str) -> None:
    found = []
    for compiled in (True, False):
        x = sg.arange(6.0, device=device).reshape(3, 2).clone()

        def step(x: sg.Tensor = x) -> sg.Tensor:
            return x.mul_(2).sum(0)

        run = sg.compile(lambda step=step: step()) if compiled else step
        values = [run().tolist(), run().tolist()]
        EXCHANGED[case](x)
        found.append([*values, run().tolist(), run().tolist(), x.tolist()])
    assert found[0] == found[1]


def test_the_base_of_views_is_one_tensor_also_where_nobody_holds_it(device: str) -> None:
    view = sg.ones(6, device=device)[1:]
    assert view._base is view[1:]._base
    assert view._base.shape == (6,)
