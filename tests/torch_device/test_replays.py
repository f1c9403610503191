"""The functions that recognise an operator (torch/replays.py): each comparison that they make refuses what differs in it alone."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
STEPS, OTHER = 9, (5, 7)  # the steps that differ from the rest, once the rest is recognised
Values = dict[str, Any]


@pytest.fixture
def missed(torch_device: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The operators that were not recognised, as they come."""
    from shadergrad.torch import sequences

    found: list[Any] = []
    other = sequences._other
    monkeypatch.setattr(sequences, "_other", lambda op, *rest: found.append(op) or other(op, *rest))
    sequences.tree.forget()
    yield found
    sequences.begin()


def values(place: str) -> Values:
    """Tensors that come from outside of each sequence."""
    x = torch.arange(12.0).reshape(3, 4).sin()
    made = {
        "x": x,
        "w": x.cos(),
        "large": torch.arange(24.0).reshape(6, 4),
        "i": torch.arange(4),
        "b": torch.arange(4) > 1,
    }
    made |= {f"p{k}": x[0] + k for k in range(9)} | {
        "part": torch.arange(8.0),
        "square": torch.arange(9.0).reshape(3, 3),
    }
    made |= {"real": torch.ones(3, 4, 2)}
    return {name: value.to(place) for name, value in made.items()}


def row(v: Values, n: int = 8) -> list[Any]:
    return [v[f"p{k}"] for k in range(n)]


def made(v: Values) -> list[Any]:
    return torch._foreach_mul(row(v), 0.5)


def swapped(items: list[Any], is_other: bool) -> list[Any]:
    return [items[1], items[0], *items[2:]] if is_other else items


def with_earlier(v: Values, new: list[Any], is_other: bool) -> list[Any]:
    """Values that this step computes, and again them, or those of the step before, which had the same places."""
    earlier, v["earlier"] = v.get("earlier"), new
    v["x"].mul_(0.5)
    row(v)[0].mul_(0.5)
    return [*new, *(earlier if is_other and earlier else new)]


PROGRAMS: dict[str, Callable[[Values, bool], Any]] = {  # of values and of whether this step differs
    "a missing argument": lambda v, other: v["x"].sum(0, keepdim=True) if other else v["x"].sum(0),
    "a missing word": lambda v, other: torch.add(v["x"], v["w"]) if other else torch.add(v["x"], v["w"], alpha=2),
    "a word more": lambda v, other: torch.add(v["x"], v["w"], alpha=2) if other else torch.add(v["x"], v["w"]),
    "a second word": lambda v, other: torch.ops.aten.arange.start_step(
        0, 4, 1, **({"dtype": torch.float32} if other else {}), device=v["x"].device
    ),
    "another word": lambda v, other: (
        torch.zeros_like(v["x"], memory_format=torch.contiguous_format)
        if other
        else torch.zeros_like(v["x"], dtype=torch.int32)
    ),
    "another number": lambda v, other: v["x"].sum(1 if other else 0),
    "a negative zero": lambda v, other: 1 / torch.full_like(v["x"], -0.0 if other else 0.0),
    "a number of another kind": lambda v, other: v["i"] * (2.0 if other else 2),
    "a truth for a one": lambda v, other: v["b"] * True if other else (v["b"] * 1).long(),
    "a tensor for a number": lambda v, other: v["x"] * (v["x"].sum() if other else 2.0),
    "a number for a tensor": lambda v, other: torch.where(v["x"] > 0, v["x"], 2.0 if other else v["w"]),
    "another value of the sequence": lambda v, other: [
        (h := v["x"] * 2),
        (g := v["x"] * 3),
        (g if other else h).tanh(),
    ],
    "a value from outside for one of the sequence": lambda v, other: [
        (h := v["x"] * 2),
        (v["w"] if other else h).tanh(),
    ],
    "a value of the sequence for one from outside": lambda v, other: [
        (h := v["x"] * 2),
        (h if other else v["w"]).tanh(),
    ],
    "the same place in another sequence": lambda v, other: with_earlier(v, [v["x"] * 2], other)[1].tanh(),
    "the same places in another sequence": lambda v, other: torch.cat(with_earlier(v, made(v), other)[8:]),
    "another value that came before": lambda v, other: [v["x"] * 2, v["w"] * 3, v["w" if other else "x"].tanh()],
    "one value twice": lambda v, other: v["x"] + v["x" if not other else "w"],
    "a part of a larger value": lambda v, other: (v["large"][:3] if other else v["x"]).tanh(),
    "a part of a value of another dtype": lambda v, other: (
        torch.view_as_real(torch.full((3, 4, 2), 2 + 3j).to(v["real"].device)).view(-1)[:24].view(3, 4, 2)
        if other
        else v["real"]
    ).tanh(),
    "a part at another offset": lambda v, other: v["large"][3 if other else 0 :][:3].tanh(),
    "another layout": lambda v, other: (v["square"].t() if other else v["square"]).tanh(),
    "a value that came before, for a new one": lambda v, other: [v["x"] * 2, v["x" if other else "w"] * 3],
    "a shorter list": lambda v, other: torch.cat([v["x"], v["w"]][: 1 if other else 2]),
    "a longer list": lambda v, other: torch.cat(row(v, 9 if other else 8)),
    "a long list of the sequence in another order": lambda v, other: torch.cat(swapped(made(v), other)),
    "a long list from outside in place of the sequence's": lambda v, other: [
        (h := made(v)),
        torch.cat(row(v) if other else h),
    ],
    "a long list that came before, in another order": lambda v, other: [made(v), torch.cat(swapped(row(v), other))],
    "a long list of parts": lambda v, other: torch.cat([*row(v, 7), v["part"][:4] if other else v["p7"]]),
    "a long list with a part at another offset": lambda v, other: torch.cat(
        [*row(v, 7), v["part"][4 if other else 0 :][:4]]
    ),
    "a long list with a value that came before": lambda v, other: [
        v["p8"] * 2,
        torch.cat([*row(v, 7), v["p8" if other else "p7"]]),
    ],
    "a long list of many kinds": lambda v, other: [
        (h := v["p1"] * 2),
        v["p0"] * 3,
        torch.cat([*row(v, 7), *([h, v["p0"]] if other else [v["p0"], h])]),
    ],
    "a long list with one tensor twice": lambda v, other: torch.cat([*row(v, 7), v["p7" if other else "p6"]]),
    "another number in a list": lambda v, other: torch._foreach_mul(row(v, 3), [2.0, 2.0, 3.0 if other else 2.0]),
    "another place in a list": lambda v, other: torch._foreach_add(row(v), swapped(made(v), other)),
    "results in a tuple": lambda v, other: v["x"].max(1 if other else 0),
    "results in a list": lambda v, other: torch.split(v["x"], 1 if other else 2, 0)[0] * 2,
}


def leaves(result: Any) -> list[Any]:
    return [result] if isinstance(result, torch.Tensor) else [x for part in result for x in leaves(part)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_differs_is_not_recognised(name: str, torch_device: Any, missed: list[Any], device: str) -> None:
    if "dtype" in name and device != "cpu":
        pytest.skip("a GPU has no complex numbers")
    found: dict[str, list[Any]] = {}
    for place in ("cpu", "webgpu"):
        results = found[place] = []
        given = values(place)
        for k in range(STEPS):
            missed.clear()
            results += leaves(PROGRAMS[name](given, k in OTHER))
            assert place == "cpu" or k != OTHER[0] - 1 or not missed, (
                "the step before the one that differs is recognised"
            )
            if place == "webgpu":
                torch.webgpu.synchronize()
    for ours, expected in zip(found["webgpu"], found["cpu"], strict=True):
        torch.testing.assert_close(ours.cpu(), expected)


def test_a_long_list_is_written(torch_device: Any, missed: list[Any]) -> None:
    """In place, and once with a tensor that is there twice."""
    found = []
    for place in ("cpu", "webgpu"):
        given = row(values(place))
        for k in range(STEPS):
            torch._foreach_mul_([*given[:7], given[6 if k in OTHER else 7]], 0.5)
            torch._foreach_add_(given, swapped(given, k in OTHER), alpha=0.25 * (k + 1))
            if place == "webgpu":
                torch.webgpu.synchronize()
        found.append(torch.cat(given).cpu())
    torch.testing.assert_close(*found)


def test_a_program_that_fails_is_not_changed(torch_device: Any, missed: list[Any]) -> None:
    """A refusal leaves nothing behind: what it looked at may still be taken from outside, and written."""
    found = []
    for place in ("cpu", "webgpu"):
        v = values(place)
        for k in range(STEPS):
            y = torch.add(v["x"], v["large"][3:] if k in OTHER else v["w"])
            v["x"].mul_(0.5)
            z = v["x"] + y
            if place == "webgpu":
                torch.webgpu.synchronize()
            found.append(z.cpu())
    for ours, expected in zip(found[STEPS:], found[:STEPS], strict=True):
        torch.testing.assert_close(ours, expected)


def test_other_devices_and_what_is_no_list_are_refused(torch_device: Any, missed: list[Any]) -> None:
    from shadergrad.torch import sequences
    from shadergrad.torch.replays import MISS

    v = values("webgpu")
    for _ in range(3):
        torch.cat(row(v, 2))
        torch.cat(row(v))
        torch.webgpu.synchronize()
    run: Any = sequences.state.run
    (entry,) = next(iter(run.at.behind.values()))
    for wrong in (None, 2, v["p0"], row(v, 3)):
        assert entry.replay(run, (wrong,), {}) is MISS
    assert not run.inputs
    place, run.device = run.device, "another"
    assert entry.replay(run, (row(v, 2),), {}) is MISS
    run.device = place
    assert entry.replay(run, (row(v, 2),), {}) is not MISS
    (entry,) = next(iter(run.at.behind.values()))
    run.device = "another"
    assert entry.replay(run, (row(v),), {}) is MISS
    run.device = place


def test_the_source_in_the_docstring_is_what_is_written(
    torch_device: Any, missed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from shadergrad.torch import replays

    written: list[str] = []
    compiled = replays._compiled
    monkeypatch.setattr(replays, "_compiled", lambda source, *rest: written.append(source) or compiled(source, *rest))
    x, w = torch.ones(3, device="webgpu"), torch.ones(3, device="webgpu")
    for _ in range(3):
        torch.add(x.relu(), w, alpha=2)
        torch.webgpu.synchronize()
    shown = (replays._Writer.source.__doc__ or "").split("\n\n")[1]
    assert written[-1] == textwrap.dedent(shown).rstrip()
