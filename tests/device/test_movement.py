"""Movement, indexing, assignment and products against PyTorch: values and gradients on every device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg

ROWS = np.array([0, 2, 1, 2], np.int32)
COLUMNS = np.array([1, 0, 3, 3], np.int32)
MASK = np.random.default_rng(1).random((3, 4)) > 0.5


@dataclass(frozen=True)
class Api:
    """What differs between the two libraries in a case."""

    module: Any
    tensor: Callable[[np.ndarray], Any]


def block(key: Any) -> Callable[..., Any]:
    """Assignment of the second operand to a part of the first."""

    def assign(api: Api, x: Any, value: Any) -> Any:
        y = x * 1
        y[key(api) if callable(key) else key] = value
        return y * 2

    return assign


def einsum(equation: str) -> Callable[..., Any]:
    return lambda api, *operands: api.module.einsum(equation, *operands)


Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]
CASES: dict[str, Case] = {
    "repeat": (lambda a, x: x.repeat(2, 1, 3), ((2, 3),)),
    "tile": (lambda a, x: x.tile(2), ((2, 3),)),
    "repeat_interleave": (lambda a, x: x.repeat_interleave(3, 1), ((2, 3),)),
    "roll of two axes": (lambda a, x: x.roll((1, -2), (0, 1)), ((3, 5),)),
    "roll of all": (lambda a, x: x.roll(4), ((3, 5),)),
    "movedim": (lambda a, x: x.movedim(0, 2), ((2, 3, 4),)),
    "unbind": (lambda a, x: x.unbind(1)[2], ((2, 3, 4),)),
    "unfold": (lambda a, x: x.unfold(1, 3, 2), ((2, 9),)),
    "tril": (lambda a, x: x.tril(1), ((2, 4, 5),)),
    "triu": (lambda a, x: x.triu(-1), ((4, 5),)),
    "diagonal": (lambda a, x: x.diagonal(), ((4, 5),)),
    "diagonal above": (lambda a, x: x.diagonal(1), ((4, 5),)),
    "diagonal below": (lambda a, x: x.diagonal(-2), ((4, 5),)),
    "diagonal in the corner": (lambda a, x: x.diagonal(4), ((4, 5),)),
    "diagonal of outer axes": (lambda a, x: x.diagonal(0, 0, 2), ((4, 2, 5),)),
    "diag of a vector": (lambda a, x: x.diag(1), ((4,),)),
    "diag of a vector, below": (lambda a, x: x.diag(-2), ((4,),)),
    "meshgrid ij": (lambda a, x, y: sum(a.module.meshgrid(x, y, indexing="ij")), ((3,), (4,))),
    "meshgrid xy": (lambda a, x, y: a.module.meshgrid(x, y, indexing="xy")[0] * y.reshape(4, 1), ((3,), (4,))),
    "two lists of positions": (lambda a, x: x[a.tensor(ROWS), a.tensor(COLUMNS)], ((3, 4, 5),)),
    "positions apart": (lambda a, x: x[a.tensor(ROWS), :, a.tensor(COLUMNS)], ((3, 2, 5),)),
    "positions in the middle": (lambda a, x: x[:, a.tensor(ROWS), a.tensor(COLUMNS)], ((2, 3, 4),)),
    "positions broadcast": (lambda a, x: x[a.tensor(ROWS)[:, None], a.tensor(COLUMNS)], ((3, 4),)),
    "a mask": (lambda a, x: x[a.tensor(MASK)], ((3, 4, 2),)),
    "negative positions": (lambda a, x: x[[-1, 0]], ((3, 4),)),
    "all kinds of index": (lambda a, x: x[1:, None, ..., [0, 2]], ((3, 4, 5),)),
    "assigning rows": (block(slice(1, 3)), ((4, 5), (2, 5))),
    "assigning every second column": (block((slice(None), slice(0, None, 2))), ((4, 5), (4, 3))),
    "assigning a row": (block(1), ((4, 5), (5,))),
    "assigning the last row but one": (block(-2), ((4, 5), (5,))),
    "assigning columns from the end": (block((Ellipsis, slice(-4, None, 3))), ((4, 5), (4, 2))),
    "assigning within a row from the end": (block((-1, slice(1, -1))), ((4, 5), (3,))),
    "assigning a column": (block((Ellipsis, 2)), ((4, 5), (4,))),
    "assigning to positions": (block(lambda a: a.tensor(np.array([3, 0], np.int32))), ((4, 5), (2, 5))),
    "assigning one value under a mask": (block(lambda a: a.tensor(MASK)), ((3, 4), (1,))),
    "index_add": (lambda a, x, s: x.index_add(0, a.tensor(ROWS), s), ((3, 4), (4, 4))),
    "outer": (lambda a, x, y: x.outer(y), ((3,), (4,))),
    "addmm": (lambda a, x, y, z: x.addmm(y, z, beta=0.5, alpha=2), ((3, 5), (3, 4), (4, 5))),
    "tensordot of the last two": (lambda a, x, y: a.module.tensordot(x, y, 2), ((2, 3, 4), (3, 4, 5))),
    "tensordot of named axes": (lambda a, x, y: a.module.tensordot(x, y, ([0], [1])), ((2, 3, 4), (3, 2, 5))),
    "einsum ij,jk->ik": (einsum("ij,jk->ik"), ((3, 4), (4, 5))),
    "einsum ij,jk": (einsum("ij,jk"), ((3, 4), (4, 5))),
    "einsum of batches": (einsum("bhqd,bhkd->bhqk"), ((2, 2, 3, 4), (2, 2, 5, 4))),
    "einsum with an ellipsis": (einsum("...ij,...jk->...ik"), ((2, 3, 4), (4, 5))),
    "einsum of a diagonal": (einsum("ii->i"), ((4, 4),)),
    "einsum of a trace": (einsum("ii"), ((4, 4),)),
    "einsum of three": (einsum("ab,bc,cd->ad"), ((2, 3), (3, 4), (4, 5))),
    "einsum of three with batches": (einsum("aij,ajk,b->abik"), ((2, 3, 4), (2, 4, 3), (5,))),
    "einsum of a repeated label and a sum": (einsum("iij->j"), ((3, 3, 4),)),
    "einsum of a sum": (einsum("ij->"), ((3, 4),)),
    "einsum of an elementwise product": (einsum("ij,ij->i"), ((3, 4), (3, 4))),
}


def assert_equals_torch(name: str, device: str, dtype: Any, rtol: float, atol: float) -> None:
    function, shapes = CASES[name]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(dtype) for s in shapes]
    ours = [sg.tensor(a, device=device, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    y = function(Api(sg, lambda a: sg.tensor(a, device=device)), *ours)
    t = function(Api(torch, lambda a: torch.tensor(a).long() if a.dtype != bool else torch.tensor(a)), *theirs)
    assert tuple(y.shape) == tuple(t.shape)
    np.testing.assert_allclose(y.detach().numpy(), t.detach().numpy(), rtol, atol)
    cotangent = rng.normal(size=tuple(t.shape)).astype(dtype)
    y.backward(sg.tensor(cotangent, device=device))
    t.backward(torch.tensor(cotangent))
    for a, b in zip(ours, theirs, strict=True):
        if b.grad is not None:
            assert a.grad is not None
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol, atol)


@pytest.mark.parametrize("name", CASES)
def test_cpu_equals_torch_in_float64(name: str) -> None:
    assert_equals_torch(name, "cpu", np.float64, 1e-9, 1e-9)


@pytest.mark.webgpu
@pytest.mark.parametrize("name", CASES)
def test_webgpu_equals_torch_in_float32(name: str, webgpu: str) -> None:
    assert_equals_torch(name, webgpu, np.float32, 1e-4, 1e-5)


def test_in_place_forms_replace_the_value_and_give_the_tensor(device: str) -> None:
    x = sg.tensor([1.0, 4.0], device=device)
    assert x.sqrt_() is x
    assert x.mul_(3).clamp_(max=5).sub_(1).tolist() == [2.0, 4.0]
    assert x.zero_().fill_(7).tolist() == [7.0, 7.0]
    with pytest.raises(sg.AutogradError, match=r"in-place operation \(exp_\)"):
        sg.ones(2, device=device, requires_grad=True).exp_()


def test_one_hot(device: str) -> None:
    classes = sg.tensor([[0, 2], [1, 0]], device=device)
    expected = torch.nn.functional.one_hot(torch.tensor([[0, 2], [1, 0]]))
    np.testing.assert_array_equal(sg.nn.functional.one_hot(classes).numpy(), expected.numpy())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.repeat(2), sg.ShapeError, "can not be smaller"),
        (lambda x: x[0, 0, 0], sg.IndexRangeError, "too many indices"),
        (lambda x: x[sg.tensor([0.5])], sg.DTypeError, "must be of integers or bools"),
        (lambda x: x[[0, 1], [0, 1, 2]], sg.IndexRangeError, "could not be broadcast together"),
        (lambda x: x.diagonal(0, 1, 1), sg.ShapeError, "cannot be identical"),
        (lambda x: sg.einsum("ij,jk->ik", x), sg.ShapeError, "names 2 operands, got 1"),
        (lambda x: sg.einsum("ijk->i", x), sg.ShapeError, "does not fit"),
        (lambda x: sg.einsum("ij,ij->z", x, x), sg.ShapeError, "no operand has"),
        (lambda x: x.unfold(0, 9, 1), sg.ShapeError, "maximum size"),
    ],
)
def test_bad_input_is_named(call: Callable[[sg.Tensor], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(sg.ones(3, 4))


def test_assignment_to_a_leaf_that_requires_grad_is_refused() -> None:
    x = sg.ones(3, requires_grad=True)
    with pytest.raises(sg.AutogradError, match="leaf Variable"):
        x[0] = 1.0


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_of_several_values_for_one_place_the_last_stays(dtype: str, device: str) -> None:
    x = sg.zeros(4, dtype=dtype, device=device)
    x[sg.tensor([1, 3, 1, 0], device=device)] = sg.tensor(np.array([0, 1, 1, 0], dtype), device=device)
    assert x.dtype.name == dtype
    assert x.tolist() == [0, 1, 0, 1]


def test_a_number_written_many_times_to_one_place_is_that_number(device: str) -> None:
    third = float(np.float32(1 / 3))
    places = sg.tensor([2, 2, 2, 0, 2, 2], device=device)
    x, base = sg.zeros(4, device=device), sg.zeros(1, device=device)
    x[places] = third
    base.expand(7).fill_(third)
    assert x.tolist() == sg.zeros(4, device=device).scatter(0, places, third).tolist() == [third, 0, third, 0]
    assert base.tolist() == [third]


@pytest.mark.parametrize(("size", "count"), [(5, 9), (3000, 5000)])
def test_the_last_value_stays_wherever_it_goes(size: int, count: int, device: str) -> None:
    rng = np.random.default_rng(0)
    index, values = rng.integers(0, size, (count, 2)), rng.standard_normal((count, 2)).astype(np.float32)
    values[::7] = -0.0
    wanted = np.full((size, 3), 9, np.float32)
    for j in range(count):
        wanted[index[j], [0, 1]] = values[j]
    found = sg.full((size, 3), 9.0, device=device).scatter(
        0, sg.tensor(index, device=device), sg.tensor(values, device=device)
    )
    np.testing.assert_array_equal(found.numpy().view(np.uint32), wanted.view(np.uint32))


def test_the_gradient_of_an_assignment_goes_to_what_stayed(device: str) -> None:
    values = sg.ones(3, device=device, requires_grad=True)
    x = sg.zeros(2, device=device)
    x[sg.tensor([1, 1, 0], device=device)] = values
    (x * sg.tensor([2.0, 3.0], device=device)).sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [0, 3, 2]


def test_a_mask_of_no_axes_takes_all_or_nothing(device: str) -> None:
    for k in (True, False):
        for shape in ((), (2, 3)):
            ours = sg.ones(shape, device=device)[sg.tensor(k, device=device)]
            theirs = torch.ones(shape)[torch.tensor(k)]
            assert tuple(ours.shape) == tuple(theirs.shape)
            assert ours.tolist() == theirs.tolist()


def test_where_of_a_condition_alone_gives_positions(device: str) -> None:
    values = [[0.0, 2.0], [3.0, 0.0]]
    ours, theirs = sg.where(sg.tensor(values, device=device)), torch.where(torch.tensor(values))
    assert [p.tolist() for p in ours] == [p.tolist() for p in theirs]
    with pytest.raises(sg.ShadergradError, match="other"):
        sg.where(sg.tensor([True], device=device), 1.0)
