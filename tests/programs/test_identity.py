"""Which object a place holds, in steps that ask and that put another one there: compiled as uncompiled.

A program is a setup and the body of a step over `x`. What it gives is read after each call: the first element of its result,
or what the setup's `check` says of it.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

import shadergrad as sg

CHOICE = """
if {place} is a:
    {place} = b
    return x * 2
{place} = a
return x * 3
"""
PAIRS = {
    "lists": "a, b = [1.0], [1.0]",
    "empty lists": "a, b = [], []",
    "dicts": "a, b = {1: 1}, {1: 1}",
    "sets": "a, b = {1}, {1}",
    "tuples": "a, b = tuple([1.0, 2.0]), tuple([1.0, 2.0])",
    "tuples with lists": "a, b = (1, []), (1, [])",
    "tensors": "a, b = sg.ones(2), sg.ones(2)",
    "tuples of tensors": "a, b = (sg.ones(2),), (sg.ones(2),)",
    "lists of tensors": "a, b = [sg.ones(2)], [sg.ones(2)]",
    "None and a list": "a, b = None, []",
    "strings": "a, b = ''.join(['ab', 'c']), ''.join(['a', 'bc'])",
    "numbers": "a, b = float('1.5'), float('1.50')",
    "functions": "a, b = lambda: 1, lambda: 1",
    "objects": "a, b = Box(), Box()",
    "classes": "a, b = type('A', (), {}), type('A', (), {})",
    "modules": "a, b = sg.nn.Linear(2, 2), sg.nn.Linear(2, 2)",
    "optimizers": "w = sg.ones(2, requires_grad=True); a, b = sg.optim.SGD([w], lr=0.1), sg.optim.SGD([w], lr=0.1)",
}
PLACES = {
    "an attribute": ("box.cur = a", "box.cur"),
    "an element": ("held = [a]", "held[0]"),
    "the last element": ("held = [0, a]", "held[-1]"),
    "an item": ("held = {'k': a}", "held['k']"),
    "a slot": ("class S:\n    __slots__ = ('cur',)\ns = S(); s.cur = a", "s.cur"),
    "an attribute of a class": ("class S:\n    cur = a", "S.cur"),
    "an attribute of a module": ("m = sg.nn.Linear(2, 2); m.tag = Box(); m.tag.cur = a", "m.tag.cur"),
}
PROGRAMS = {  # by name: the setup, and the body
    "a global": ("a, b = [1], [1]; cur = a", "global cur" + CHOICE.format(place="cur")),
    "a buffer": ("a, b = sg.ones(2), sg.ones(2); m = sg.nn.Linear(2, 2); m.register_buffer('cur', a)", CHOICE.format(place="m.cur")),
    "one of a module": ("a, b = [1], [1]; m = sg.nn.Linear(2, 2); m.cur = a", CHOICE.format(place="m.cur")),
    "a gradient": ("w = sg.ones(2, requires_grad=True); g = sg.ones(2); w.grad = g", "r = x * 2 if w.grad is g else x * 3\nw.grad = sg.ones(2) if w.grad is g else g\nreturn r"),
    "two names": ("box.a = [1]; box.b = box.a", "if box.a is box.b:\n    box.b = [1]\n    return x * 2\nbox.b = box.a\nreturn x * 3"),
    "two names of a tensor": ("box.a = sg.ones(2); box.b = box.a", "if box.a is box.b:\n    box.b = box.b + 1\n    return x * 2\nbox.b = box.a\nreturn x * 3"),
    "not the same": ("a, b = sg.ones(2), sg.ones(2); box.cur = a", "if box.cur is not a:\n    box.cur = a\n    return x * 2\nbox.cur = b\nreturn x * 3"),
    "a local name": ("a, b = [1], [1]; box.cur = a", "cur = box.cur\nif cur is a:\n    box.cur = b\n    return x * 2\nbox.cur = a\nreturn x * 3"),
    "a helper": ("a = (1, []); b = (1, a[1]); box.cur = a\ndef same(p, q): return p is q", "if same(box.cur, a):\n    box.cur = b\n    return x * 2\nbox.cur = a\nreturn x * 3"),
    "an operator": ("import operator; a, b = [1], [1]; box.cur = a", "if operator.is_(box.cur, a):\n    box.cur = b\n    return x * 2\nbox.cur = a\nreturn x * 3"),
    "an id": ("a, b = sg.ones(2), sg.ones(2); box.cur = a", "if id(box.cur) == id(a):\n    box.cur = b\n    return x * 2\nbox.cur = a\nreturn x * 3"),
    "a list of tensors that is asked": ("a = sg.ones(2); box.seen = []", "if any(a is s for s in box.seen):\n    box.seen = []\n    return x * 2\nbox.seen = [a]\nreturn x * 3"),
    "a swap": ("box.a, box.b = [1.0], [2.0]", "box.a, box.b = box.b, box.a\nreturn x * box.a[0]"),
    "a swap of tensors": ("box.a, box.b = sg.ones(2), sg.ones(2) * 2; first = box.a", "box.a, box.b = box.b, box.a\nif box.a is first:\n    return x\nreturn x * box.a"),
    "a list made anew": ("box.l = [1]; keep = box.l", "r = x * 2 if box.l is keep else x * 3\nbox.l = list(box.l)\nreturn r"),
    "a tuple made anew": ("box.l = (1, []); keep = box.l", "r = x * 2 if box.l is keep else x * 3\nbox.l = (1, box.l[1])\nreturn r"),
    "a list within a list": ("a = [1]; box.l = [a]", "r = x * 2 if box.l[0] is a else x * 3\nbox.l = [a, 2]\nreturn r"),
    "a list within a tuple": ("a = [1]; box.l = (a,)", "r = x * 2 if box.l[0] is a else x * 3\nbox.l = (a, 2)\nreturn r"),
    "a list within a dict": ("a = [1]; box.l = {'a': a}", "r = x * 2 if box.l['a'] is a else x * 3\nbox.l = {'a': a, 'c': x * 2}\nreturn r"),
    "a new list in two places": ("box.a = box.b = None", "r = x * 2 if (box.a is box.b and box.a is not None) else x * 3\nbox.a = box.b = [x * 2]\nreturn r"),
    "a rotated list": ("box.l = [[1.0], [2.0], [3.0]]; first = box.l[0]", "box.l.append(box.l.pop(0))\nreturn x * 2 if box.l[0] is first else x * 3"),
    "a rotated deque": ("from collections import deque; box.l = deque([[1.0], [2.0]]); first = box.l[0]", "box.l.rotate(1)\nreturn x * 2 if box.l[0] is first else x * 3"),
    "a list that is returned": ("box.l = [1.0, sg.ones(2)]\ndef check(r): return r is box.l", "box.l[0] = 2.0\ny = x * 2\nreturn box.l"),
    "a list that is returned and grows": ("box.l = []\ndef check(r): return (r is box.l, len(r), r[-1].tolist())", "box.l.append(x * 2)\nreturn box.l"),
    "a dict that is returned and filled": ("box.l = {}\ndef check(r): return (r is box.l, len(r), r['a'].tolist())", "box.l['a'] = x * 2\nreturn box.l"),
    "a new dict that is stored and returned": ("def check(r): return (r is box.l, r['a'].tolist())", "box.l = {'a': x * 2}\nreturn box.l"),
    "a list returned in a tuple": ("box.l = [1.0, sg.ones(2)]\ndef check(r): return r[1] is box.l", "return x * 2, box.l"),
    "a counter of a class": ("class S:\n    n = 0\n    def go(self, x):\n        type(self).n += 1\n        return x\ns = S()\ndef check(r): return S.n", "return s.go(x) * 2"),
    "a counter of the own class": ("class S:\n    n = 0\n    def go(self, x):\n        self.__class__.n += 1\n        return x\ns = S()\ndef check(r): return S.n", "return s.go(x) * 2"),
    "a class method": ("class S:\n    n = 0\n    @classmethod\n    def go(cls, x):\n        cls.n += 1\n        return x\ndef check(r): return S.n", "return S.go(x) * 2"),
    "a tensor that a class gets": ("class S:\n    last = None\ndef check(r): return S.last.tolist()", "S.last = x * 2\nreturn x"),
    "a tensor of a class": ("class S:\n    h = sg.ones(2)\ndef check(r): return S.h.tolist()", "S.h = S.h + x\nreturn x * 2"),
    "an inherited attribute": ("class A:\n    n = 0\nclass S(A):\n    pass\ndef check(r): return (A.n, S.n, 'n' in vars(S))", "S.n = S.n + 1\nreturn x * 2"),
    "a new attribute of a class": ("class S:\n    pass\ndef check(r): return S.n", "S.n = 3\nreturn x * 2"),
    "an attribute taken from a class": ("class S:\n    n = 3\ndef check(r): return hasattr(S, 'n')", "if hasattr(S, 'n'):\n    del S.n\nreturn x * 2"),
    "a counter of a module's class": ("class M(sg.nn.Module):\n    calls = 0\n    def forward(self, x):\n        M.calls += 1\n        return x * 2\nm = M()\ndef check(r): return M.calls", "return m(x)"),
}  # fmt: skip
ALL = {
    **{f"{pair} in {place}": (f"{PAIRS[pair]}\n{setup}", CHOICE.format(place=where)) for pair in PAIRS for place, (setup, where) in PLACES.items()},
    **PROGRAMS,
}  # fmt: skip


class Box:
    """An object of attributes."""


def outcomes(setup: str, body: str, is_compiled: bool, tmp_path: Any) -> list[Any]:
    """What five calls give."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    space: dict[str, Any] = {"sg": sg, "box": Box(), "Box": Box, "__name__": "program"}
    exec(compile(f"{setup}\ndef step(x):\n{lines}\n", str(tmp_path / "program.py"), "exec"), space)
    step = sg.compile(space["step"]) if is_compiled else space["step"]
    check = space.get("check", lambda result: result[0].item())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [check(step(sg.ones(2))) for _ in range(5)]


@pytest.mark.parametrize("name", ALL)
def test_a_step_asks_which_object_is_in_a_place(name: str, tmp_path: Any) -> None:
    setup, body = ALL[name]
    assert outcomes(setup, body, True, tmp_path) == outcomes(setup, body, False, tmp_path)


def into_a_list(x: sg.Tensor, out: list[sg.Tensor]) -> sg.Tensor:
    out.append(x * 2)
    return x + 1


def into_a_dict(x: sg.Tensor, out: dict[str, sg.Tensor]) -> sg.Tensor:
    out["last"] = x * 2
    return out.pop("first", x) + 1


def into_an_inner_list(x: sg.Tensor, out: tuple[int, list[sg.Tensor]]) -> Any:
    out[1][:] = [x * 2]
    return out[1]


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (into_a_list, list),
        (into_a_dict, lambda: {"first": sg.ones(2)}),
        (into_an_inner_list, lambda: (1, [sg.zeros(2)])),
    ],
)
def test_a_step_changes_the_containers_that_it_is_given(function: Any, make: Any) -> None:
    step = sg.compile(function)
    shared, other = make(), make()
    for value, given in ((1.0, shared), (2.0, shared), (3.0, other)):
        wanted = copy.deepcopy(given)
        x = sg.ones(2) * value
        found, expected = step(x, given), function(x, wanted)
        assert repr((given, found)) == repr((wanted, expected))
        if isinstance(expected, list):
            assert found is given[1]


def test_a_step_asks_whether_two_arguments_are_one_list() -> None:
    step = sg.compile(lambda x, a, b: x * 2 if a is b else x * 3)
    first, second = [sg.ones(2)], [sg.ones(2)]
    assert [step(sg.ones(()), *given).item() for given in ((first, first), (first, second), (second, second))] == [
        2,
        3,
        2,
    ]
