"""What a compiled step reads of Python and leaves in it is, call for call, what the function itself reads and leaves."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import shadergrad as sg
from shadergrad import nn
from shadergrad.run import step as steps

Program = Callable[[Callable[[Any], Any]], Iterator[Any]]  # takes sg.compile, or what gives the function itself
PROGRAMS: dict[str, tuple[Program, int]] = {}


def captured(times: int) -> Callable[[Program], Program]:
    """A program, and how often its steps are captured in all."""

    def note(program: Program) -> Program:
        PROGRAMS[program.__name__] = (program, times)
        return program

    return note


def vector(*values: float) -> sg.Tensor:
    return sg.tensor([float(v) for v in values])


def seen(value: Any) -> Any:
    """What can be seen of a value, as plain Python."""
    if isinstance(value, sg.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {k: seen(v) for k, v in value.items()}
    return [seen(v) for v in value] if isinstance(value, list | tuple | deque) else value


# -- what is read


@captured(6)
def plain_values_differ_in_type_and_sign(compiled):
    state = SimpleNamespace(v=1)

    @compiled
    def step(x):
        if state.v is True:
            return x + 1
        return x * 9 if str(state.v) == "-0.0" else x * float(state.v == state.v) + len(str(state.v))

    for v in (1, True, 1.0, 0.0, -0.0, float("nan"), 1, float("nan")):
        state.v = v
        yield step(vector(1))


@captured(3)
def an_object_has_a_name_in_the_function(compiled):
    config = SimpleNamespace(inner=SimpleNamespace(rate=2.0))

    @compiled
    def step(x):
        inner = config.inner
        again = inner
        return x * again.rate

    yield step(vector(1))
    config.inner.rate = 5.0
    yield step(vector(1))
    config.inner = SimpleNamespace(rate=7.0)
    yield step(vector(1))


@captured(4)
def objects_in_a_list(compiled):
    layers = [SimpleNamespace(k=float(i)) for i in range(3)]

    @compiled
    def step(x):
        for i, layer in enumerate(layers):
            x = x + layer.k * i
        return sum((layer.k for layer in layers), x)

    yield step(vector(1))
    layers[1].k = 10.0
    yield step(vector(1))
    layers.append(SimpleNamespace(k=100.0))
    yield step(vector(1))
    layers[0] = SimpleNamespace(k=5.0)
    yield step(vector(1))


@captured(3)
def what_a_function_or_a_property_gives(compiled):
    class Owner:
        def __init__(self):
            self.hidden = SimpleNamespace(v=1.0)

        @property
        def config(self):
            return self.hidden

    owner = Owner()

    def get():
        return owner.hidden

    @compiled
    def step(x):
        return x * get().v + owner.config.v

    yield step(vector(1))
    owner.hidden.v = 2.0
    yield step(vector(1))
    owner.hidden = SimpleNamespace(v=4.0)
    yield step(vector(1))


@captured(4)
def attributes_of_classes(compiled):
    class Config:
        rate = 2.0

    class Special(Config):
        pass

    special = Special()

    @compiled
    def step(x):
        return x * special.rate

    yield step(vector(1))
    Config.rate = 3.0
    yield step(vector(1))
    special.rate = 7.0
    yield step(vector(1))
    Special.rate = 5.0
    yield step(vector(1))
    del special.rate
    yield step(vector(1))


@captured(3)
def attributes_read_by_name(compiled):
    state, name = SimpleNamespace(a=1.0), "a"

    @compiled
    def step(x):
        key = name
        return x * getattr(state, "a") + getattr(state, key) * vars(state)["a"] + float(hasattr(state, "b"))  # noqa: B009

    yield step(vector(1))
    state.a = 3.0
    yield step(vector(1))
    state.b = 1
    yield step(vector(1))


@captured(3)
def arguments_that_a_function_keeps(compiled):
    options, more = {"k": 2.0}, [1.0]

    def function(o, x, m=more):
        return x * o["k"] + m[0]

    step = compiled(partial(function, options))
    yield step(vector(1))
    options["k"] = 5.0
    yield step(vector(1))
    more[0] = 2.0
    yield step(vector(1))


@captured(4)
def members_of_an_enumeration_and_sets(compiled):
    class Mode(Enum):
        A = 1
        B = 2

    state, names = SimpleNamespace(mode=Mode.A), {"a"}

    @compiled
    def step(x):
        return (x * 2 if state.mode is Mode.A else x * 3) + float("b" in names)

    yield step(vector(1))
    state.mode = Mode.B
    yield step(vector(1))
    names.add("b")
    yield step(vector(1))
    state.mode = Mode.A
    yield step(vector(1))


@captured(5)
def attributes_of_modules(compiled):
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.options = [1.0]

        def forward(self, x):
            return x * self.options[0]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.options = {"k": 2.0}
            self.config = SimpleNamespace(z=1.0)
            self.body = nn.Sequential(Inner(), nn.Identity())
            self.body[1].w = 1.5
            self.last = None

        def forward(self, x):
            self.last = self.body(x) * self.options["k"]
            for part in self.body:
                x = x * getattr(part, "w", 1.0)
            return self.last + self.config.z + x

    net = Net()
    step = compiled(lambda x: net(x))
    yield step(vector(1)), net.last
    net.options["k"] = 5.0
    yield step(vector(1)), net.last
    net.config.z = 4.0
    yield step(vector(1)), net.last
    net.body[0].options[0] = 3.0
    yield step(vector(1)), net.last
    net.body[1].w = 2.0
    yield step(vector(2)), net.last
    yield step(vector(3)), net.last


@captured(3)
def a_module_whose_forward_is_replaced(compiled):
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    net = nn.Sequential(Double())
    step = compiled(lambda x: net(x))
    yield step(vector(1))
    net[0].forward = lambda x: x * 5
    yield step(vector(1))
    del net[0].forward
    yield step(vector(1))
    Double.forward = lambda self, x: x * 3
    yield step(vector(1))


@captured(3)
def names_of_what_is_written_alone(compiled):
    table, items, log = vector(1, 2), {}, []

    @compiled
    def step(x):
        table[0] = x
        items["x"] = x * 1
        log.append(x * 2)
        return x + 1

    yield step(vector(3).sum()), table, items, log
    table, before = vector(5, 6), table
    yield step(vector(4).sum()), table, before
    items, log = {}, []
    yield step(vector(5).sum()), table, before, items, log


# -- what is left


@captured(2)
def a_state_of_two_tensors(compiled):
    state = SimpleNamespace(pair=(vector(1), vector(2)))

    @compiled
    def step(x):
        h, c = state.pair
        state.pair = (h + x, c * 2 + h)
        return h * 1

    for i in range(4):
        yield step(vector(i)), state.pair
    state.pair = (vector(5, 6), vector(7, 8))
    yield step(vector(1, 1)), state.pair


@captured(4)
def a_state_that_is_replaced_and_shared(compiled):
    state = SimpleNamespace(h=vector(0))

    @compiled
    def step(x):
        state.h = state.h + x
        return state.h.sum()

    yield step(vector(1))
    kept = state.h
    yield step(vector(1)), kept
    state.h = vector(1, 2)
    yield step(vector(1, 1))
    state.h.add_(5)
    yield step(vector(1, 1)), state.h
    row = state.h[:1]
    yield step(vector(1, 1)), row, state.h
    state.h = row
    yield step(vector(1)), row, state.h


@captured(1)
def a_state_seen_through_views(compiled):
    state = SimpleNamespace(h=vector(1, 2))

    @compiled
    def step(x):
        rows = state.h.view(2, 1) + x
        state.h = (rows * state.h[:1]).view(-1)
        return rows.sum()

    for i in range(4):
        yield step(vector(i)), state.h


@captured(3)
def a_state_of_which_a_view_is_returned(compiled):
    state = SimpleNamespace(h=vector(1, 2))

    @compiled
    def step(x):
        row = state.h[:1]
        state.h = state.h + x
        return row

    for i in range(3):
        yield step(vector(i)), state.h


@captured(4)
def a_state_that_moves_on(compiled):
    state = SimpleNamespace(now=vector(1), before=vector(0))

    @compiled
    def step(x):
        new = state.now + state.before + x
        state.before, state.now = state.now, new
        return new * 1

    for _ in range(4):
        yield step(vector(1)), state.now, state.before


@captured(2)
def two_names_that_are_exchanged(compiled):
    state = SimpleNamespace(a=vector(1), b=vector(2))

    @compiled
    def step(x):
        state.a, state.b = state.b, state.a
        return state.a + x

    for i in range(4):
        yield step(vector(i)), state.a, state.b


@captured(1)
def a_log_that_forgets(compiled):
    log = deque(maxlen=3)

    @compiled
    def step(x):
        log.append(x * 2)
        return x + 1

    for i in range(5):
        yield step(vector(i)), log


@captured(2)
def slots(compiled):
    class Slotted:
        __slots__ = ("h", "k")

    state = Slotted()
    state.h, state.k = vector(1), 2.0

    @compiled
    def step(x):
        state.h = state.h * state.k + x
        return state.h * 1

    for i in range(4):
        state.k = 2.0 if i < 2 else 3.0
        yield step(vector(i)), state.h


@captured(4)
def variables_around(compiled):
    count, total = 0, vector(0)

    @compiled
    def step(x):
        nonlocal count, total
        count += 1
        total = total + x
        return total * count

    for i in range(4):
        yield step(vector(i)), count, total


@captured(4)
def an_object_with_all_of_it(compiled):
    @dataclass
    class State:
        h: Any = None
        n: int = 0
        items: list = field(default_factory=list)

        def step(self, x):
            self.h = x * 2 if self.h is None else self.h + x
            self.n += 1
            self.items.append((self.n, x * self.n))
            setattr(self, f"h{self.n}", x * 1)
            return self.h * 1

    state = State()
    step = compiled(state.step)
    for i in range(4):
        yield step(vector(i)), vars(state)


@captured(3)
def items_that_are_taken_out(compiled):
    items = {"a": vector(1), "b": vector(2)}

    @compiled
    def step(x):
        y = items.pop("a") if "a" in items else x * 0
        items["b"] = y + x
        return y * 1

    yield step(vector(1)), items
    yield step(vector(2)), items
    items["a"] = vector(9)
    yield step(vector(1)), items


@captured(1)
def elements_that_are_replaced(compiled):
    state = [vector(1), vector(2)]

    @compiled
    def step(x):
        state[0] = state[0] * 2 + x
        state[1] = state[1] * 3 + x
        return state[0] + state[1]

    for i in range(4):
        yield step(vector(i)), state


@captured(3)
def elements_in_a_loop(compiled):
    states, named = [vector(1), vector(2)], {"a": vector(1), "b": vector(2)}

    @compiled
    def step(x):
        for i in range(len(states)):
            states[i] = states[i] * 2 + x
        for name, value in named.items():
            named[name] = value * 2 + x
        return states[-1] + named["a"]

    for i in range(3):
        yield step(vector(i)), states, named
    states.append(vector(3))
    yield step(vector(1)), states, named
    named["c"] = vector(3)
    yield step(vector(1)), states, named


@captured(2)
def an_argument_is_kept(compiled):
    state = SimpleNamespace(last=None)

    @compiled
    def step(x):
        old, state.last = state.last, x
        return x * 1 if old is None else x + old

    arguments = [vector(i) for i in range(3)]
    for x in arguments:
        yield step(x), state.last is x


@captured(1)
def a_result_that_is_also_kept(compiled):
    state = SimpleNamespace(y=None)

    @compiled
    def step(x):
        state.y = x * 2
        return state.y

    for _ in range(2):
        r = step(vector(1))
        r.add_(5)
        yield r, state.y, r is state.y


@captured(1)
def an_exception_after_changes(compiled):
    state = SimpleNamespace(n=0, bad=False, h=None)
    w = vector(1)

    @compiled
    def step(x):
        w.add_(x)
        state.h = x * 2
        if state.bad:
            state.n += 1
            raise ValueError("bad")
        return w * 1

    yield step(vector(1)), state.h
    for bad in (True, True, False):
        state.bad = bad
        with pytest.raises(ValueError, match="bad") if bad else warnings.catch_warnings():
            step(vector(5))
        yield state.n, state.h
        state.h = None


@captured(1)
def a_tensor_stored_before_an_exception(compiled):
    state = SimpleNamespace(bad=False, h=None)
    w = vector(1)

    @compiled
    def step(x):
        if state.bad:
            state.h = w * 10
            raise ValueError("bad")
        w.add_(x)
        return w * 1

    step(vector(1))
    state.bad = True
    with pytest.raises(ValueError, match="bad"):
        step(vector(5))
    state.bad = False
    yield step(vector(1)), state.h


@captured(1)
def a_value_that_is_put_back(compiled):
    state = SimpleNamespace(depth=0)

    @compiled
    def step(x):
        state.depth += 1
        try:
            return x * state.depth
        finally:
            state.depth -= 1

    for _ in range(3):
        yield step(vector(1)), state.depth


@captured(2)
def an_argument_that_makes_it_run_twice(compiled):
    """The function runs twice, once to find that the argument is what it changes."""
    w, calls, state = vector(1), [], SimpleNamespace(n=0)

    @compiled
    def step(x):
        calls.append(1)
        state.n += 1
        w.mul_(2)
        return x + w

    yield step(w), calls, state.n
    state.n = 0
    yield step(vector(1)), calls, state.n


def run(program: Program, compiled: Callable[[Any], Any]) -> list[Any]:
    return [seen(value) for value in program(compiled)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_reads_and_leaves_what_its_function_does(name: str, device: str) -> None:
    program, times = PROGRAMS[name]
    made: list[Any] = []

    def compiled(function: Any) -> Any:
        made.append(sg.compile(function))
        return made[-1]

    before = sg.get_default_device()
    sg.set_default_device(device)
    try:
        expected = run(program, lambda function: function)
        assert run(program, compiled) == expected
    finally:
        sg.set_default_device(before)
    assert sum(step.captures for step in made) == times


# -- what is refused


@pytest.mark.parametrize("kind", ["set", "object", "iterator"])
def test_a_tensor_kept_where_no_step_can_put_it_is_refused(kind: str) -> None:
    class Holder:
        def __init__(self, tensor: sg.Tensor) -> None:
            self.tensor = tensor

    state = SimpleNamespace(kept=None, found=set())

    def function(x: sg.Tensor) -> sg.Tensor:
        if kind == "set":
            state.found.add(x * 2)
        elif kind == "object":
            state.kept = Holder(x * 2)
        else:
            state.kept = iter([x * 2])
        return x + 1

    with pytest.raises(sg.CompileError, match="Hint"):
        sg.compile(function)(sg.ones(2))
    assert state.kept is None
    assert state.found == set()


def test_what_a_refused_capture_did_is_undone() -> None:
    state = SimpleNamespace(n=0, log=[])

    @sg.compile
    def step(x: sg.Tensor) -> float:
        state.n += 1
        state.log.append(x * 2)
        state.more = 1
        return x.sum().item()

    with pytest.raises(sg.CompileError, match="item"):
        step(sg.ones(2))
    assert vars(state) == {"n": 0, "log": []}


# -- captures


def test_the_eighth_capture_says_what_changed() -> None:
    state = SimpleNamespace(count=0)

    @sg.compile
    def counted(x: sg.Tensor) -> sg.Tensor:
        state.count += 1
        return x + state.count

    words = r"counted is captured for the 8th time: state.count went from 6 to 7 \(the step changes it itself"
    for _ in range(7):
        counted(sg.ones(2))
    with pytest.warns(UserWarning, match=words) as told:
        counted(sg.ones(2))
    for _ in range(4):
        counted(sg.ones(2))
    assert len(told) == 1
    assert told[0].filename == __file__
    assert counted.captures == 12

    @sg.compile
    def sized(x: sg.Tensor, scale: float = 1.0) -> sg.Tensor:
        return x * scale

    for n in range(1, 8):
        sized(sg.ones(n))
    with pytest.warns(UserWarning, match=r"argument 'x' went from \(7,\) to \(8,\)"):
        sized(sg.ones(8))


@pytest.mark.filterwarnings("ignore:.* is captured for the 8th time")  # that it is, is the point
def test_a_step_keeps_a_bounded_number_of_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOST_CAPTURES", 5)
    state = SimpleNamespace(k=0)
    step = sg.compile(lambda x: x + state.k)
    for k in range(20):
        state.k = k
        assert step(sg.zeros(1)).tolist() == [k]
    for k in (19, 18, 17, 16, 15):
        state.k = k
        assert step(sg.zeros(1)).tolist() == [k]
    assert step.captures == 20
    state.k = 14  # of as many as one argument may have, but more than five
    step(sg.zeros(1))
    assert step.captures == 21


def test_a_tracer_goes_on_while_a_function_is_captured() -> None:
    names: list[str] = []

    def tracer(frame: Any, event: str, argument: Any) -> Any:
        if event in ("call", "line") and frame.f_code.co_filename == __file__:
            names.append(f"{event} {frame.f_code.co_name}")
        return tracer

    def traced(x: sg.Tensor) -> sg.Tensor:
        y = x + 1
        return y * 2

    step = sg.compile(traced)
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        step(sg.ones(1))
        assert sys.gettrace() == tracer
    finally:
        sys.settrace(before)
    assert [n for n in names if "traced" in n] == ["call traced", "line traced", "line traced"]


# -- threads


@pytest.mark.slow
def test_threads_share_a_step(device: str) -> None:
    """Weights that the step reads, a state that it keeps, shapes of each thread's own, and tensors made meanwhile."""
    w = sg.tensor([1.0, 2.0], device=device)
    total = sg.zeros(1, device=device)
    state = SimpleNamespace(count=sg.zeros(1, device=device))

    @sg.compile
    def step(x: sg.Tensor) -> sg.Tensor:
        total.add_(1)
        state.count = state.count + 1
        return (x * w).sum(1)

    count, times = 8, 200
    wrong: list[Any] = []
    gate = threading.Barrier(count)

    def work(number: int) -> None:
        gate.wait()
        for k in range(times if device == "cpu" else times // 10):
            try:
                found = step(sg.full((number % 4 + 1, 2), float(k), device=device) + 1).tolist()
                if found != [3.0 * (k + 1)] * (number % 4 + 1):
                    wrong.append((number, k, found))
            except Exception as error:
                wrong.append((number, k, repr(error)))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong, f"{len(wrong)}, the first {wrong[0]}"
    calls = count * (times if device == "cpu" else times // 10)
    assert (total.item(), state.count.item()) == (calls, calls)
    assert step.captures == 4


def test_what_the_garbage_collector_calls_is_no_part_of_the_step() -> None:
    """Else a tool that counts collections would have steps captured again."""
    counted = {"collections": 0}

    def count(phase: str, info: dict[str, int]) -> None:
        counted["collections"] += 1

    w = sg.zeros(2)
    step = sg.compile(lambda: w.add_(1))
    threshold = gc.get_threshold()
    gc.callbacks.append(count)
    gc.set_threshold(1)
    try:
        for _ in range(3):
            step()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(count)
    assert counted["collections"] > 0
    assert step.captures == 1
    assert gc.isenabled()
