"""Programs written by hand: what a step leaves behind, in gradients, buffers, flags, hooks, attributes and the state of optimizers."""

from __future__ import annotations

import copy
import types
from collections import defaultdict, deque
from typing import Any

from .case import case, may_refuse, raises


def leaf_and_others(lib):
    return (
        lib.tensor([5.0, 4.0], requires_grad=True),
        lib.tensor([1.0, 2.0], requires_grad=True),
        lib.tensor([1.0, 1.0]),
    )


def arguments(lib):
    return [lib.tensor([2.0 + k, 3.0]) for k in range(4)]


@case
def a_gradient_that_the_caller_keeps_is_added_to_and_then_dropped(lib, compiled):
    p, _, _ = leaf_and_others(lib)

    @compiled
    def step(x):
        (p * p).sum().backward()
        p.grad = None
        (p * p * x).sum().backward()

    kept = []
    for x in arguments(lib):
        step(x)
        kept.append(p.grad)
        yield [*kept]


@case
def a_step_returns_the_gradient_and_parts_of_it(lib, compiled):
    p, _, _ = leaf_and_others(lib)

    @compiled
    def step(x):
        p.grad = None
        (p * p * x).sum().backward()
        gradient: Any = p.grad
        return gradient, gradient[0], gradient.detach()

    for x in arguments(lib):
        given: Any = step(x)
        whole, part, alias = given
        part.mul_(10)
        alias.add_(1)
        yield [p.grad, whole, part, alias, whole is p.grad]


@case
def a_step_returns_the_gradient_that_was_there_before(lib, compiled):
    p, _, _ = leaf_and_others(lib)

    @compiled
    def step(x):
        before = p.grad
        p.grad = x * 2
        return before

    for x in arguments(lib):
        before = step(x)
        if before is not None:
            before.mul_(7)
        yield [p.grad, before, x]


@case
def gradients_are_handed_over_and_exchanged(lib, compiled):
    p, q, _ = leaf_and_others(lib)

    @compiled
    def hand_over(x):
        q.grad = p.grad
        p.grad = None
        (p * p * x).sum().backward()

    @compiled
    def exchange(x):
        p.grad, q.grad = q.grad, p.grad
        (p * q * x).sum().backward()

    for x in arguments(lib):
        hand_over(x)
        p.grad.mul_(3)
        yield [p.grad, q.grad]
        if q.grad is not None:
            exchange(x)
            yield [p.grad, q.grad, p.grad is q.grad]


@case
def a_gradient_is_an_argument_or_shares_its_memory(lib, compiled):
    p, q, _ = leaf_and_others(lib)

    @compiled
    def step(x):
        p.grad = x
        q.grad = x.detach()

    for x in arguments(lib):
        step(x)
        x.mul_(10)
        q.grad.add_(1)
        yield [p.grad, q.grad, x, p.grad is x]


@case
def a_gradient_is_a_tensor_of_the_outside_or_shares_its_memory(lib, compiled):
    p, q, a = leaf_and_others(lib)

    @compiled
    def step(x):
        p.grad = a
        q.grad = a[:]
        a.add_(x)

    for x in arguments(lib):
        step(x)
        a.mul_(2)
        q.grad.sub_(1)
        yield [p.grad, q.grad, a, p.grad is a]
        p.grad = None


@case
def two_gradients_are_one_and_a_result_shares_their_memory(lib, compiled):
    p, q, _ = leaf_and_others(lib)

    @compiled
    def step(x):
        y = x * 2
        p.grad = y[:]
        q.grad = p.grad
        return y

    for x in arguments(lib):
        y = step(x)
        y.mul_(10)
        yield [p.grad, q.grad, y, p.grad is q.grad]


@case
def a_gradient_is_a_constant_of_the_step(lib, compiled):
    p, _, _ = leaf_and_others(lib)

    @compiled
    def step(x):
        p.grad = lib.tensor([3.0, 4.0])
        with lib.no_grad():
            p.sub_(p.grad * x)

    for x in arguments(lib):
        step(x)
        p.grad.neg_()
        yield [p, p.grad]


@case
def what_was_captured_becomes_a_gradient_between_calls(lib, compiled):
    p, _, a = leaf_and_others(lib)

    @compiled
    def step(x):
        (p * a * x).sum().backward()
        return a * 2

    for k, x in enumerate(arguments(lib)):
        yield [step(x), p.grad, a]
        p.grad = (lib.tensor([7.0, 7.0]), a, a[:])[k] if k < 3 else None


@case
def a_copy_of_a_leaf_has_its_gradient(lib, compiled):
    p, _, _ = leaf_and_others(lib)

    @compiled
    def step(x):
        own = copy.deepcopy(p)
        (own * own * x).sum().backward()
        return own.grad

    for x in arguments(lib):
        yield [step(x), p.grad]
        (p * x).sum().backward()


def with_buffers(lib):
    class Two(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", lib.tensor([1.0, 2.0]))
            self.register_buffer("last", lib.tensor([5.0, 6.0]))

    return Two()


@case
def a_buffer_is_replaced_and_the_old_one_kept(lib, compiled):
    m = with_buffers(lib)

    @compiled
    def step(x):
        before = m.mean
        m.mean = m.mean * 0.5 + x
        return before, m.mean

    kept = []
    for x in arguments(lib):
        before, after = step(x)
        kept += [before, m.mean]
        after.mul_(2)
        yield [m.mean, *kept, after is m.mean, m.state_dict()["mean"]]


@case
def buffers_are_exchanged_views_and_arguments(lib, compiled):
    m = with_buffers(lib)

    @compiled
    def exchange(x):
        m.mean, m.last = m.last, m.mean
        return m.mean + x

    @compiled
    def view(x):
        m.mean = m.last[:]
        m.last.add_(x)

    @compiled
    def argument(x):
        m.mean = x

    for x in arguments(lib):
        y = exchange(x)
        m.mean.mul_(3)
        yield [m.mean, m.last, y]
        view(x)
        m.last.mul_(2)
        yield [m.mean, m.last]
        argument(x)
        x.mul_(3)
        yield [m.mean, m.last]


@case
def a_buffer_that_one_step_replaces_is_read_by_another(lib, compiled):
    m = with_buffers(lib)

    @compiled
    def read(x):
        return m.mean * x

    @compiled
    def replace(x):
        m.mean = m.mean * 0.5 + x

    for x in arguments(lib):
        yield [read(x)]
        replace(x)
        yield [read(x), m.mean]
    m.mean = lib.tensor([0.5, 0.5])
    yield [read(lib.tensor([2.0, 3.0]))]


@case
def flags_that_a_step_sets_stay_set(lib, compiled):
    _, _, a = leaf_and_others(lib)

    @compiled
    def step(x):
        x.requires_grad_()
        a.requires_grad_()
        (x * x * a).sum().backward()
        return x.grad

    @compiled
    def freeze(x):
        a.requires_grad_(False)
        return a * x

    for x in arguments(lib):
        g = step(x)
        yield [g, x.grad, x.requires_grad, a.grad, a.requires_grad]
        freeze(lib.tensor([1.0, 1.0]))
        yield [a.requires_grad]


@case
def the_argument_gets_a_gradient_that_is_assigned(lib, compiled):
    @compiled
    def step(x, y):
        x.grad = y * 2.0

    for x in arguments(lib):
        step(x, x.clone())
        yield [x, x.grad]


@may_refuse
def a_hook_is_registered_at_every_call(lib, compiled):
    p, _, _ = leaf_and_others(lib)

    @compiled
    def step(x):
        p.register_hook(lambda g: g * 2)
        (p * x).sum().backward()

    for x in arguments(lib):
        step(x)
        yield [p.grad]


@case
def a_hook_is_registered_and_removed(lib, compiled):
    p, _, _ = leaf_and_others(lib)
    own = p.register_hook(lambda g: g + 1)

    @compiled
    def fails(x):
        p.register_hook(lambda g: g * 2)
        raise ValueError

    yield raises(lambda: fails(lib.ones(2)), ValueError)
    own.remove()
    (p * 3).sum().backward()
    yield [p.grad]

    @compiled
    def step(x):
        with p.register_hook(lambda g: g * 2):
            (p * x).sum().backward()

    for x in arguments(lib):
        step(x)
        yield [p.grad]


@case
def gradients_set_to_zero_lose_their_history(lib, compiled):
    p, q, _ = leaf_and_others(lib)
    o = lib.optim.SGD([p, q], lr=0.5)
    flat = lib.zeros(4)
    q.grad = flat[1:3]

    @compiled
    def step(x):
        p.grad = p * x
        o.zero_grad(set_to_none=False)
        (q * x).sum().backward()
        return x * 2

    for x in arguments(lib):
        yield [step(x), p.grad, p.grad.requires_grad, flat, q.grad]
    yield raises(lambda: setattr(p, "grad", p), RuntimeError)


@case
def a_view_made_before_requires_grad_has_no_history(lib, compiled):
    a = lib.tensor([1.0, 2.0])
    v = a[0:1]
    a.requires_grad_()
    (v * a[0:1] + a).sum().backward()
    yield [a.grad, v.detach()]
    with lib.no_grad():
        a.mul_(3.0)
    yield [a, v.detach()]


@case
def a_leaf_that_became_a_result_gets_no_gradient(lib, compiled):
    p, _, a = leaf_and_others(lib)
    y = p + p
    p.detach_()
    p.copy_(y)
    yield raises((y * 2.0).sum().backward, RuntimeError)
    yield raises(lambda: a.sum().index_add_(0, lib.tensor([0]), lib.tensor([1.0])), RuntimeError)


@case
def a_step_that_asks_for_no_gradient_of_what_requires_none_any_more(lib, compiled):
    p, q, _ = leaf_and_others(lib)

    @compiled
    def step(x):
        lib.autograd.grad((p * 2.0).sum(), [q], allow_unused=True)
        return x * 2

    yield [step(lib.tensor([1.0, 2.0]))]
    p.requires_grad_(False)
    yield raises(lambda: step(lib.tensor([1.0, 2.0])), RuntimeError)


def training_step(o, p, q):
    def step(x):
        o.zero_grad()
        ((p + q) * x).sum().backward()
        o.step()
        return x * 2

    return step


@case
def state_of_an_optimizer_is_replaced_taken_out_and_set(lib, compiled):
    p, q, _ = leaf_and_others(lib)
    o = lib.optim.SGD([p, q], lr=0.5, momentum=0.5)

    step = compiled(training_step(o, p, q))

    for k, x in enumerate([*arguments(lib), *arguments(lib)]):
        (step if k % 2 else training_step(o, p, q))(x)
        yield [p, q, o.state[p]["momentum_buffer"]]
        if k in (0, 1):
            o.state[p]["momentum_buffer"] = o.state[p]["momentum_buffer"] * 2
        elif k in (2, 3):
            o.state.clear()
        elif k in (4, 5):
            o.state[q] = {"momentum_buffer": lib.tensor([4.0, 2.0])}


@case
def the_last_of_a_list_and_of_a_deque_is_read(lib, compiled):
    seen, latest = [lib.zeros(2)], deque([lib.zeros(2)], maxlen=2)

    @compiled
    def step(x):
        seen.append(seen[-1] + x)
        latest.append(latest[-1] + x)
        return latest[0] * 1

    for x in arguments(lib):
        yield [step(x), *seen, *latest]


@case
def attributes_that_a_module_may_lack(lib, compiled):
    m = with_buffers(lib)

    @compiled
    def takes_turns(x):
        if hasattr(m, "hidden"):
            y = m.hidden + x
            del m.hidden
        else:
            m.hidden = x * 2
            y = x * 1
        return y

    @compiled
    def first_or_last(x):
        before = getattr(m, "before", None)
        m.before = x * 2
        return x * 1 if before is None else before + x

    for x in arguments(lib):
        yield [takes_turns(x), hasattr(m, "hidden"), first_or_last(x)]


@may_refuse
def gradients_are_switched_off_within(lib, compiled):
    @compiled
    def step(x):
        lib.set_grad_enabled(False)
        return x * 2

    for x in arguments(lib):
        y = step(x)
        is_on = lib.is_grad_enabled()
        lib.set_grad_enabled(True)
        yield [y, is_on]


@may_refuse
def a_hook_of_a_module_is_registered_at_every_call(lib, compiled):
    m = lib.nn.Linear(2, 2)

    @compiled
    def step(x):
        m.register_forward_hook(lambda module, given, made: made * 2)
        return m(x).detach() * 0 + len(m._forward_hooks if hasattr(m, "_forward_hooks") else m._hooks.tables["forward"])

    for x in arguments(lib):
        yield [step(x)]


@case
def state_of_an_optimizer_in_a_dict_of_ones_own(lib, compiled):
    p, q, _ = leaf_and_others(lib)
    o = lib.optim.SGD([p, q], lr=0.5, momentum=0.5)

    step = compiled(training_step(o, p, q))

    x = lib.tensor([2.0, 3.0])
    own: dict[str, Any] = {"momentum_buffer": lib.tensor([4.0, 2.0])}
    step(x)
    o.state[q] = own
    step(x)
    step(x)
    own["momentum_buffer"] = lib.tensor([8.0, 2.0])
    step(x)
    yield [p, q, own]


@case
def state_of_an_optimizer_is_a_dict_of_ones_own(lib, compiled):
    p, q, _ = leaf_and_others(lib)
    o = lib.optim.SGD([p, q], lr=0.5, momentum=0.5)
    x = lib.tensor([2.0, 3.0])
    for step in (compiled(training_step(o, p, q)), training_step(o, p, q)):
        step(x)
        step(x)
        whole, of_p = o.state, o.state[p]
        own: Any = defaultdict(dict)
        o.state = own
        yield [o.state is own]
        step(x)
        yield [p, q]
        step(x)
        own[p] = {"momentum_buffer": lib.tensor([8.0, 2.0])}
        step(x)
        yield [p, q, own[p], own[q]]
        o.state = whole
        del whole[q]
        of_p["momentum_buffer"] = lib.tensor([1.0, 1.0])
        step(x)
        yield [p, q, whole[p] is of_p, whole[p]]


@case
def a_parameter_of_a_returned_gradient_takes_other_memory(lib, compiled):
    p, _, _ = leaf_and_others(lib)

    @compiled
    def step(x):
        (p * p * x).sum().backward()
        return p.grad

    first, *others = arguments(lib)
    parameter = lib.nn.Parameter(step(first))
    yield [step(first), parameter]
    parameter.data = lib.tensor([7.0, 7.0])
    for x in (first, *others):
        yield [step(x), p.grad, parameter]


@case
def an_alias_of_a_captured_leaf_gets_a_history_between_calls(lib, compiled):
    p, q, _ = leaf_and_others(lib)
    alias = p.detach()

    @compiled
    def step(x):
        (q * alias * x).sum().backward()

    for turn, x in enumerate(arguments(lib)):
        step(x)
        yield [p.grad, q.grad, alias.requires_grad]
        if turn == 2:
            alias.sub_(p)


@case
def the_gradient_of_an_argument_given_twice_or_captured_is_set(lib, compiled):
    p, q, c = leaf_and_others(lib)

    @compiled
    def step(x, y):
        x.grad = c
        y.grad = x.grad
        y.grad.mul_(2.0)

    for x, y in ((p, q), (q, q), (lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0]))):
        step(x, y)
        yield [x.grad, y.grad, c, x.grad is y.grad]
    same = lib.tensor([5.0, 6.0])
    step(same, same)
    yield [same.grad, c]
    try:
        step(c, p)
    except RuntimeError:
        yield [c.grad, p.grad]

    @compiled
    def looks(x, y):
        x.grad = x * 2.0
        return y + 1.0 if y.grad is None else y.grad + 0.0

    for x, y in ((1.0, 2.0), (3.0, 4.0)):
        yield [looks(lib.tensor([x]), lib.tensor([y]))]
    one = lib.tensor([5.0])
    yield [looks(one, one), one.grad]


@case
def the_layout_of_an_argument_decides_what_reshapes_copy(lib, compiled):
    @compiled
    def step(x):
        flat = x.reshape(-1)
        x.mul_(2.0)
        flat.add_(1.0)
        return flat, x.is_contiguous()

    whole = lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    for view in (whole, whole.t(), whole[:2], whole[:, :2], whole.t().contiguous(), whole[0:3:2]):
        flat, lies = step(view)
        yield [flat.clone(), lies, whole]


@may_refuse
def a_leaf_is_written_and_then_takes_other_memory(lib, compiled):
    p, _, _ = leaf_and_others(lib)

    @compiled
    def step(x):
        with lib.no_grad():
            p.neg_()
        p.data = p.detach() * x
        return p.detach()

    kept = []
    for x in arguments(lib):
        kept.append(step(x))
        yield [*kept, p]


@case
def all_of_a_parameter_is_set_and_read_by_its_alias(lib, compiled):
    shared = lib.tensor([[1.0, 2.0], [3.0, 4.0]]) @ lib.tensor([[2.0, 0.0], [0.0, 2.0]])
    parameter = lib.nn.Parameter(shared)

    @compiled
    def step(x):
        shared.add_(x)

    with lib.no_grad():
        parameter[...] = 4.0
    for x in arguments(lib):
        step(x)
        yield [shared, parameter.detach()]


@case
def a_gradient_that_was_there_is_set_again(lib, compiled):
    """Captured while the slot held what the step puts there."""
    p, kept = lib.nn.Parameter(lib.tensor([3.0, 1.0])), lib.tensor([5.0, 6.0])
    p.grad = kept

    @compiled
    def step(x):
        p.grad = kept
        return x * 2

    yield step(lib.ones(2))
    p.grad = kept * 2
    yield step(lib.ones(2))
    yield p.grad is kept
    yield p


@case
def parts_of_memory_whose_first_tensor_is_gone(lib, compiled):
    """A clone that only a detached alias of it shows: its parts still share it."""
    p = lib.nn.Parameter(lib.tensor([3.0, 1.0, 2.0]))

    @compiled
    def step():
        copy = p.clone().detach()
        p.grad = copy
        return copy[:2], copy[1:]

    for _ in range(2):
        first, second = step()
        p.grad[1] = 7.0
        first[0] = 8.0
        yield [first, second, p.grad]


@case
def a_result_that_shows_an_element_twice(lib, compiled):
    x = lib.tensor([3.0, 1.0])

    @compiled
    def step():
        return (x * 2).expand(2, 2), (x * 3).unfold(0, 1, 1).expand(2, 2)

    for _ in range(2):
        first, second = step()
        first[0, 0].add_(1.0)
        second[1, 1].sub_(1.0)
        yield [first, second]


@case
def a_leaf_that_a_step_makes(lib, compiled):
    p = lib.nn.Parameter(lib.tensor([3.0, 1.0]))

    @compiled
    def step(x):
        p.grad = x.clone().detach().requires_grad_()
        plain = (x * 3).detach()
        return (
            copy.deepcopy(p),
            (x * 2).detach().requires_grad_(),
            lib.nn.Parameter(x * 4),
            plain,
            plain.detach().requires_grad_(),
            (x * 5).detach()[1:].requires_grad_(),
        )

    for k in range(2):
        results = step(lib.tensor([1.0, float(k)]))
        yield [(t.requires_grad, type(t).__name__) for t in (*results, p.grad)]
        results[1].square().sum().backward()
        results[3].mul_(2.0)
        yield [*results, results[1].grad]


@case
def rows_and_columns_taken_of_a_parameter_before(lib, compiled):
    """They show what is written to it between the calls."""
    p = lib.nn.Parameter(lib.tensor([[3.0, 1.0], [2.0, 5.0]]))
    row, column = list(p)[1], p.unbind(1)[0]

    @compiled
    def step(x):
        return (row * x).detach(), (column + x).detach()

    for k in range(3):
        yield [*step(lib.ones(2)), row.detach(), column.detach()]
        p.data.mul_(2.0) if k else p.data[1].zero_()


@case
def a_tensor_is_refused_as_its_own_gradient(lib, compiled):
    """Also where it is an argument in one call, and captured."""
    a, p = lib.tensor([4.0, -3.0]), lib.tensor([1.0, 2.0])

    @compiled
    def of_an_argument(x):
        x.grad = a
        y = x * 2
        x.grad = None
        return y

    @compiled
    def of_what_is_captured(x):
        p.grad = x

    yield of_an_argument(lib.ones(2))
    yield raises(lambda: of_an_argument(a))
    yield of_an_argument(lib.ones(2))
    of_what_is_captured(lib.ones(2))
    yield raises(lambda: of_what_is_captured(p))
    yield p.grad


@case
def copies_share_what_was_shared(lib, compiled):
    """One after the other, together, without what they are views of, and within a step."""
    w = lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    row, turned = w[1], w.t()
    p = lib.tensor([1.0, 2.0], requires_grad=True)

    a, b, c = copy.deepcopy([w, row, turned])
    b.add_(10)
    c[0] = 7.0
    yield [a, b, c, w, row]
    b, c = copy.deepcopy((row, turned))
    b.mul_(2)
    c.add_(1)
    yield [b, c, w]
    own, seen = copy.deepcopy([p, p.detach()])
    seen.mul_(3)
    (own * own).sum().backward()
    yield [own.detach(), own.grad, seen, p.detach()]
    alone, other = copy.deepcopy(row), copy.deepcopy(w)
    other.zero_()
    yield [alone, other]

    @compiled
    def step(x):
        whole, part, flat, mine = copy.deepcopy([w, row, w.view(6), x])
        part.mul_(x.sum())
        flat[:2] = mine[:2]
        return whole, part, whole.sum(0)

    for k in range(3):
        whole, part, sums = step(lib.ones(3) + k)
        part.sub_(1)
        yield [whole, part, sums, w, row]
        row.add_(1)


@case
def a_tensor_given_twice_is_one_tensor(lib, compiled):
    """Also in containers and by name, and where it is changed, and told from one that only shares its memory."""

    @compiled
    def compare(x, y, *, more=()):
        found = [x is y, *(x is each for each in more)]
        x.mul_(2.0)
        return y + 1, found

    for k in range(3):
        a, b = lib.tensor([1.0 + k, 2.0]), lib.tensor([3.0, k])
        yield [compare(a, b), compare(a, a), compare(b, b, more=[a, b]), compare(a, b, more=(b, a)), a, b]

    @compiled
    def by_name(x, y):
        return x is y, x + y

    for k in range(3):
        a, b = lib.tensor([1.0 + k, 2.0]), lib.tensor([3.0, k])
        yield [by_name(x=a, y=b), by_name(x=b, y=b), by_name(a, a[:]), by_name(a[:], a)]

    @compiled
    def adds(x, y):
        (x * x * y).sum().backward()
        return x.grad is y.grad

    for k in range(2):
        p, q = (lib.tensor([1.0 + k, 2.0], requires_grad=True) for _ in range(2))
        yield [adds(p, q), adds(q, q), adds(p, p), p.grad, q.grad]


def is_the_same(x, y):
    return x is y


@case
def an_argument_that_a_step_finds_elsewhere_is_that_tensor(lib, compiled):
    """In a variable, a list, a module's buffer, an attribute that steps replace; asked here or in another function."""
    w, row = lib.tensor([1.0, 2.0]), [lib.tensor([3.0, 4.0]), lib.tensor([5.0, 6.0])]
    norm = lib.nn.BatchNorm1d(2)

    @compiled
    def compare(x):
        found = [x is w, is_the_same(x, w), id(x) == id(w), any(x is t for t in row), norm.running_mean is x]
        found += [any(x is t for t in norm.buffers())]
        return x * 2, found

    for x in (w, lib.tensor([1.0, 2.0]), row[1], w[:], norm.running_mean, w, row[0], lib.tensor([5.0, 6.0])):
        yield [compare(x)]

    class Cache:
        def __init__(self):
            self.key: Any = None
            self.value: Any = None

        def __call__(self, x):
            if x is self.key:
                return self.value + 100
            self.key, self.value = x, x * 2
            return self.value

    cache = Cache()
    step = compiled(cache.__call__)
    a, b = lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0])
    for x in (a, a, b, a, a, b, b, lib.ones(2), lib.ones(2), a, a):
        yield [step(x), cache.key, cache.value]

    @compiled
    def changes(x):
        is_first = x is row[0]
        row[0].mul_(2.0)
        return x + 1, is_first

    for x in (row[1], row[0], a, row[0], row[1]):
        yield [changes(x), *row]

    state = types.SimpleNamespace(now=lib.zeros(2))

    @compiled
    def replaces(x):
        is_now = x is state.now
        state.now = state.now + x
        return is_now, state.now * 1

    zeros = state.now
    for x in (zeros, zeros, a, b, None, None, a, None, zeros):
        yield [replaces(state.now if x is None else x), state.now]


@case
def an_argument_that_is_a_key_of_a_dict_is_found_there(lib, compiled):
    w = lib.tensor([1.0, 2.0])
    table = {w: 2.0, "n": 3.0}

    @compiled
    def looks_up(x):
        return x * table.get(x, 7.0)

    @compiled
    def looks_in(x):
        return x * table[x] if x in table else x * 5.0

    for x in (a := lib.tensor([1.0, 2.0]), w, lib.tensor([3.0, 4.0]), w, a):
        yield [looks_up(x), looks_in(x)]


@case
def a_copy_of_what_has_got_a_history_raises_wherever_it_comes_from(lib, compiled):
    p, _, w = leaf_and_others(lib)

    @compiled
    def step(x):
        x.mul_(p)
        copy.deepcopy(w)
        return x.sum().detach()

    yield [step(lib.ones(2)), step(lib.ones(2) + 1), w]
    yield raises(lambda: step(w), RuntimeError)
    yield raises(lambda: step(lib.ones(2)), RuntimeError)  # w has a history
    yield w.detach()


@case
def views_that_a_step_returns_get_the_history_of_what_they_show(lib, compiled):
    """Also where another tensor with a history of its own shares the memory: a Parameter of it, a detached one."""

    def shares(kind, part):
        base = lib.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=part)
        t = base[1:].detach() if part else base
        other = lib.nn.Parameter(t) if kind else t.detach()

        @compiled
        def step(x):
            return t[:2], t.detach()[1:], x + 1

        step(lib.ones(1))
        return (*step(lib.ones(1)), t, other)

    for kind in (False, True):
        for part in (False, True):
            view, apart, _, t, other = shares(kind, part)
            q = lib.ones(t.numel(), requires_grad=True)
            t[...] = q * 3
            yield [view.requires_grad, apart.requires_grad, other.requires_grad]
            view.sum().backward()
            yield [q.grad, view.detach(), apart, other.detach()]


@case
def parameters_that_a_step_makes_share_the_memory_of_what_they_are_made_of(lib, compiled):
    w = lib.tensor([1.0, 2.0, 3.0])
    results = {
        "alone": lambda t, p: p,
        "with a view": lambda t, p: (t[:2], p),
        "with a detached one": lambda t, p: (p, t.detach()),
        "detached": lambda t, p: p.detach(),
    }
    for of in ("argument", "capture"):
        for what, show in results.items():

            @compiled
            def step(x, of=of, show=show):
                t = x if of == "argument" else w
                return show(t, lib.nn.Parameter(t))

            for k in range(3):
                x = lib.tensor([k + 1.0, 2.0, 3.0])
                found = step(x)
                (x if of == "argument" else w).mul_(2)
                each = found if isinstance(found, tuple) else (found,)
                yield [what, [(t.requires_grad, t.is_leaf, t.detach()) for t in each], x, w]
