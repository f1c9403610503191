"""Programs written by hand, each a thing that people write."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from .case import case, may_refuse, raises
from .language import in_turns, together

# -- memory that names share


@case
def data_written_in_every_way(lib, compiled):
    p = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    p.data.add_(1)
    yield p
    p.data.fill_(4)
    yield p
    p.data.copy_(lib.tensor([1.0, 2.0, 9.0]))
    yield p
    p.data.clamp_(2, 5)
    yield p
    p.data[0] = 9
    yield p
    p.data[1:] *= 2
    yield p


@case
def initialisation_of_weight_data(lib, compiled):
    m = lib.nn.Linear(2, 2)
    lib.nn.init.constant_(m.weight.data, 0.5)
    lib.nn.init.ones_(m.bias.data)
    yield m.weight
    yield m.bias
    lib.nn.init.normal_(m.weight.data, 0.0, 0.0)  # a spread of nothing: the mean everywhere
    yield m.weight


@case
def weights_initialised_by_apply(lib, compiled):
    def initialise(module):
        if type(module).__name__ == "Linear":
            module.weight.data.fill_(0.25)
            module.bias.data.zero_()

    net = lib.nn.Sequential(lib.nn.Linear(3, 2), lib.nn.ReLU(), lib.nn.Linear(2, 2))
    net.apply(initialise)
    yield list(net.parameters())
    yield net(lib.ones(1, 3))


@case
def gradient_zeroed_through_data(lib, compiled):
    p = lib.tensor([1.0, 2.0], requires_grad=True)
    (p * p).sum().backward()
    p.grad.data.zero_()
    yield p.grad
    (p * 3).sum().backward()
    yield p.grad
    g = p.grad
    p.grad.zero_()
    yield g


@case
def state_dict_entry_filled(lib, compiled):
    m = lib.nn.Linear(2, 2)
    with lib.no_grad():
        m.weight.fill_(1.0)
        m.bias.fill_(2.0)
    state = m.state_dict()
    state["weight"].fill_(7.0)
    yield m.weight
    with lib.no_grad():
        m.bias.add_(1)
    yield state["bias"]


@case
def detached_written(lib, compiled):
    x = lib.tensor([1.0, 2.0, 3.0])
    d = x.detach()
    d.add_(1)
    yield x
    x.mul_(2)
    yield d
    x.detach().add_(5)
    yield x
    yield d


@case
def row_incremented(lib, compiled):
    x = lib.zeros(3, 2)
    row = x[0]
    row += 1
    yield x
    x[0, 1] = 5
    yield row
    for line in x:
        line.add_(1)
    yield x


@case
def views_written(lib, compiled):
    x = lib.arange(12.0).reshape(3, 4)
    x.view(-1)[5] = 50
    x.t()[0] = -1
    x.diagonal().fill_(7)
    a, b = x.split(2, 1)
    a.mul_(2)
    b[2].zero_()
    x.unfold(1, 2, 2)[:, 1].sub_(1)
    x.expand(1, 3, 4)[0, 1].add_(3)
    x.unsqueeze(0).squeeze(0).narrow(0, 2, 1).neg_()
    yield x
    yield a
    yield b


@case
def views_follow_their_base(lib, compiled):
    x = lib.arange(6.0).reshape(2, 3)
    views = [
        x[1],
        x[:, 1],
        x[:, ::2],
        x.t(),
        x.view(3, 2),
        x.flatten(),
        x.diagonal(),
        x.unfold(1, 2, 1),
        *x.unbind(1),
        *x,
    ]
    yield views
    x.add_(10)
    yield views
    x[0] = lib.tensor([3.0, 2.0, 1.0])
    yield views


@case
def reshape_of_a_transposed_tensor_copies(lib, compiled):
    x = lib.arange(6.0).reshape(2, 3)
    r = x.t().reshape(-1)
    x.zero_()
    yield r
    r.fill_(1)
    yield x


@case
def copies_stay_what_they_were(lib, compiled):
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    copies = [w.clone().detach(), w.detach().clone(), copy.deepcopy(w), (w + 0).detach(), lib.tensor(w.detach())]
    with lib.no_grad():
        w.fill_(9)
    yield copies


@case
def data_assigned_shares(lib, compiled):
    p = lib.nn.Parameter(lib.zeros(2))
    t = lib.tensor([1.0, 2.0])
    p.data = t
    t.add_(1)
    yield p
    p.data.mul_(2)
    yield t


@case
def a_parameter_shares_with_its_tensor(lib, compiled):
    t = lib.tensor([1.0, 2.0])
    p = lib.nn.Parameter(t)
    t.add_(1)
    yield p
    with lib.no_grad():
        p.mul_(2)
    yield t


# -- gradients


@case
def an_average_of_weights_leaves_their_gradient(lib, compiled):
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    ema = lib.zeros(2)
    for _ in range(3):
        (w * w).sum().backward()
        with lib.no_grad():
            ema.copy_(w)
            w -= 0.25 * w.grad
        yield w
        yield w.grad
        yield ema
    with lib.no_grad():
        ema.mul_(0.5).add_(w, alpha=0.5)
    yield ema
    yield w.requires_grad


@case
def history_follows_a_written_view(lib, compiled):
    p = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = p * 2
    row = y[1:]
    row.mul_(3)
    y[0] = 5
    yield y
    (y * y).sum().backward()
    yield p.grad


@case
def assignment_of_tracked_values(lib, compiled):
    p = lib.tensor([1.0, 2.0], requires_grad=True)
    x = lib.zeros(3)
    x[1:] = p * 4
    x[x > 7] = 1.0
    yield x
    x.sum().backward()
    yield p.grad


@case
def leaves_refuse_to_be_written(lib, compiled):
    p = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)

    def item():
        p[0] = 1

    yield [
        raises(lambda: p.add_(1)),
        raises(item),
        raises(lambda: p[0].add_(1)),
        raises(lambda: p.t().mul_(2)),
        raises(p.zero_),
    ]
    yield p
    with lib.no_grad():
        p[0].add_(1)
    yield p


@case
def wrong_shapes_change_nothing(lib, compiled):
    x = lib.arange(4.0)
    v = x[1:3]
    bad = lib.ones(3)

    def item():
        v[:] = bad

    yield [raises(lambda: v.add_(bad)), raises(item), raises(lambda: v.copy_(bad)), raises(lambda: x.view(3))]
    yield x
    yield v


@case
def several_addresses_of_one_element_refuse(lib, compiled):
    x = lib.tensor([1.0, 2.0])
    wide = x.expand(3, 2)
    yield raises(lambda: wide.add_(1))
    yield x
    yield wide


@case
def flags_turned_on_and_off(lib, compiled):
    x = lib.tensor([1.0, 2.0])
    x.requires_grad_()
    (x * 3).sum().backward()
    yield x.grad
    x.requires_grad_(False)
    x.add_(1)
    yield x
    yield (x * 2).requires_grad
    y = x.requires_grad_() * 2
    y.detach_()
    yield [y.requires_grad, y.is_leaf]


@case
def a_gradient_that_nothing_reads_of_what_requires_none_any_more(lib, compiled):
    p = lib.tensor([1.0, 2.0], requires_grad=True)

    @compiled
    def step(x):
        lib.autograd.grad((p * p).sum(), p)
        return x * 2

    yield step(lib.ones(2))
    p.requires_grad_(False)
    yield raises(lambda: step(lib.ones(2)))
    p.requires_grad_()
    yield step(lib.ones(2))


# -- steps


@case
def copies_outlive_a_step_that_overwrites(lib, compiled):
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    optimizer = lib.optim.SGD([w], lr=0.5)

    @compiled
    def step(x):
        optimizer.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    kept = [lib.tensor(w.detach()), w.detach().clone(), w.clone().detach(), lib.tensor(w)]
    x = lib.tensor([2.0, 4.0])
    losses = [step(x) for _ in range(3)]
    yield losses
    yield kept
    yield w


@case
def tensors_of_tensors_outlive_a_step(lib, compiled):
    w = lib.tensor([1.0, 2.0], requires_grad=True)

    @compiled
    def step(x):
        with lib.no_grad():
            w.add_(x)

    kept = lib.zeros(2)
    with lib.no_grad():
        kept.copy_(w)
    other = lib.stack([w.detach(), w.detach()])
    for _ in range(3):
        step(lib.ones(2))
    yield kept
    yield other
    yield w


@case
def views_of_weights_see_the_steps(lib, compiled):
    w = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    alias, row = w.detach(), w.data[0]

    @compiled
    def step(x):
        with lib.no_grad():
            w.add_(x)

    for _ in range(2):
        step(lib.ones(2, 2))
    yield alias
    yield row


@case
def one_tensor_as_two_arguments(lib, compiled):
    @compiled
    def step(x, y):
        return x * 2 + y

    a, b = lib.tensor([1.0, 2.0]), lib.tensor([10.0, 20.0])
    yield step(a, a)
    yield step(a, b)
    yield step(b, a)
    yield step(b, b)
    yield step(b, b[:])


@case
def two_arguments_that_are_written(lib, compiled):
    @compiled
    def step(x, y):
        x.add_(1)
        return x + y

    a, b = lib.tensor([1.0, 2.0]), lib.tensor([10.0, 20.0])
    yield step(a, b)
    yield step(a, a)
    yield step(a, a.view(2))
    yield [a, b]


@case
def an_argument_that_is_captured(lib, compiled):
    w = lib.tensor([1.0, 2.0])

    @compiled
    def step(x):
        w.mul_(2)
        return x + w

    other = lib.tensor([5.0, 5.0])
    yield step(w)
    yield step(other)
    yield step(w)
    yield step(w.detach())
    yield step(w[:])
    yield w


@case
def an_argument_changed_in_place(lib, compiled):
    @compiled
    def step(x):
        x.mul_(2)
        x[0] = 9
        return x.sum()

    a, b = lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0])
    yield [step(a), step(b), step(a)]
    yield [a, b]


@case
def a_row_changed_by_a_step(lib, compiled):
    table = lib.zeros(3, 2)

    @compiled
    def step(row):
        row += 1

    step(table[0])
    step(table[2])
    step(table[2])
    yield table


@case
def positions_assigned_by_an_index(lib, compiled):
    x = lib.zeros(5)

    @compiled
    def step(index, values):
        x[index] = values
        return x * 1

    yield step(lib.tensor([0, 3]), lib.tensor([1.0, 2.0]))
    yield step(lib.tensor([4, 1]), lib.tensor([3.0, 4.0]))
    yield x


@case
def slices_at_changing_offsets(lib, compiled):
    data = lib.arange(24.0).reshape(12, 2)

    @compiled
    def step(i):
        return data[i : i + 3].sum(0)

    yield [step(i) for i in range(0, 9, 2)]
    data.add_(1)
    yield [step(i) for i in range(0, 9, 2)]


@case
def a_changing_learning_rate(lib, compiled):
    w = lib.tensor([8.0, 16.0], requires_grad=True)

    @compiled
    def step(x, lr):
        w.grad = None
        (w * x).sum().backward()
        with lib.no_grad():
            w.sub_(lr * w.grad)

    for lr in (1.0, 0.5, 0.25, 0.125):
        step(lib.tensor([1.0, 2.0]), lr)
    yield w


@case
def updates_by_hand(lib, compiled):
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(5):
        (w * lib.tensor([2.0, -2.0])).sum().backward()
        with lib.no_grad():
            for p in [w]:
                p -= 0.5 * p.grad
        w.grad = None
    yield w


@case
def results_kept_across_calls(lib, compiled):
    total = lib.zeros(2)

    @compiled
    def step(x):
        total.add_(x)
        return total * 1, x + 1

    results = [step(lib.full((2,), float(i))) for i in range(4)]
    yield results
    yield total


@case
def a_result_that_is_the_state_itself(lib, compiled):
    total = lib.zeros(2)

    @compiled
    def step(x):
        total.add_(x)
        return total

    first = step(lib.ones(2))
    step(lib.ones(2))
    yield first
    first.fill_(7)
    yield total


@case
def weights_changed_between_calls(lib, compiled):
    m = lib.nn.Linear(2, 1)
    with lib.no_grad():
        m.weight.fill_(1.0)
        m.bias.fill_(0.0)

    @compiled
    def step(x):
        return m(x).detach()

    x = lib.tensor([[1.0, 2.0]])
    yield step(x)
    m.weight.data.fill_(2.0)
    yield step(x)
    m.load_state_dict({"weight": lib.full((1, 2), 3.0), "bias": lib.tensor([1.0])})
    yield step(x)
    m.weight.data = lib.full((1, 2), 5.0)
    yield step(x)
    m.weight = lib.nn.Parameter(lib.full((1, 2), 6.0))
    yield step(x)


@case
def a_gradient_made_outside(lib, compiled):
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    optimizer = lib.optim.SGD([w], lr=0.5)

    @compiled
    def update():
        optimizer.step()

    for factor in (1.0, 2.0, -4.0):
        optimizer.zero_grad()
        (w * factor).sum().backward()
        update()
        yield w


@case
def gradients_accumulate_over_calls(lib, compiled):
    w = lib.tensor([1.0, 2.0], requires_grad=True)

    @compiled
    def step(x):
        (w * x).sum().backward()

    step(lib.tensor([1.0, 2.0]))
    step(lib.tensor([1.0, 2.0]))
    yield w.grad
    w.grad.zero_()
    step(lib.tensor([4.0, 4.0]))
    yield w.grad
    w.grad = None
    step(lib.tensor([1.0, 1.0]))
    yield w.grad


@case
def other_shapes_between(lib, compiled):
    w = lib.tensor([2.0, 3.0])

    @compiled
    def step(x):
        w.add_(1)
        return (x * w).sum(0)

    yield [step(lib.ones(n, 2)) for n in (3, 2, 3, 1, 2)]
    yield w


@may_refuse
def a_number_of_the_closure(lib, compiled):
    scale = 2.0

    @compiled
    def step(x):
        return x * scale

    x = lib.tensor([1.0, 2.0])
    yield step(x)
    scale = 5.0
    yield step(x)
    scale = 2.0
    yield step(x)


@may_refuse
def flags_of_an_object(lib, compiled):
    state = SimpleNamespace(on=True, name="a", extra=None)

    @compiled
    def step(x):
        y = x + 1 if state.on else x * 2
        y = y if state.extra is None else y + state.extra
        return -y if state.name == "b" else y

    x = lib.tensor([3.0, 5.0])
    yield step(x)
    state.on = False
    yield step(x)
    state.name = "b"
    yield step(x)
    state.extra = lib.tensor(10.0)
    yield step(x)
    state.extra = lib.tensor(20.0)
    yield step(x)


@may_refuse
def a_counter_of_the_step(lib, compiled):
    state = SimpleNamespace(count=0)

    @compiled
    def step(x):
        state.count += 1
        return x + state.count

    yield [step(lib.zeros(2)) for _ in range(3)]
    yield state.count


@may_refuse
def a_list_that_grows(lib, compiled):
    log = []

    @compiled
    def step(x):
        log.append(x * 2)
        return x + 1

    for i in range(3):
        step(lib.full((2,), float(i)))
    yield log


@may_refuse
def a_hidden_state_in_an_attribute(lib, compiled):
    state = SimpleNamespace(hidden=lib.zeros(2))

    @compiled
    def step(x):
        state.hidden = state.hidden * 2 + x
        return state.hidden.sum()

    yield [step(lib.ones(2)) for _ in range(4)]
    yield state.hidden
    state.hidden = lib.zeros(2)
    yield step(lib.ones(2))


@may_refuse
def an_exception_within_a_step(lib, compiled):
    w = lib.tensor([1.0, 2.0])
    state = SimpleNamespace(bad=True)

    @compiled
    def step(x):
        y = x * 2
        if state.bad:
            raise ValueError("bad")
        w.add_(y)
        return w * 1

    yield raises(lambda: step(lib.ones(2)), ValueError)
    yield w
    state.bad = False
    yield step(lib.ones(2))
    state.bad = True
    yield raises(lambda: step(lib.ones(2)), ValueError)
    yield w


@case
def training_and_evaluation_of_a_module(lib, compiled):
    m = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Dropout(0.0), lib.nn.BatchNorm1d(2))
    with lib.no_grad():
        m[0].weight.copy_(lib.tensor([[1.0, 2.0], [3.0, 4.0]]))
        m[0].bias.zero_()

    @compiled
    def step(x):
        return m(x).detach()

    x = lib.tensor([[1.0, 0.0], [0.0, 1.0]])
    yield step(x)
    m.eval()
    yield step(x)
    m.train()
    yield step(x)
    yield m[2].running_mean


@case
def the_gradient_of_an_output(lib, compiled):
    w = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    optimizer = lib.optim.RMSprop([w], lr=0.125)

    @compiled
    def step(x):
        x = x.clone().requires_grad_()
        optimizer.zero_grad()
        y = (x * x * w).sum(1)
        (slope,) = lib.autograd.grad(y.sum(), [x], create_graph=True)
        loss = (y * y).mean() + (slope * slope).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = lib.tensor([[1.0, 0.5, -1.0], [2.0, 1.0, 0.0]])
    yield [step(x) for _ in range(3)]
    yield w


@case
def a_tensor_copied_to_itself_and_then_written_through_a_view(lib, compiled):
    a = lib.tensor([[2.0, 3.0, 5.0]])

    @compiled
    def step(x):
        x.copy_(a)
        x[None].select(1, 0).mul_(2.0).add_(x)

    for _ in range(3):
        step(a)
        yield a


@case
def a_leaf_copied_to_itself_and_then_written_through_a_view(lib, compiled):
    w = lib.tensor([[2.0, 3.0, 5.0]], requires_grad=True)

    @compiled
    def step(x):
        with lib.no_grad():
            x.copy_(w)
            x[None].mul_(2.0)
        (x * x).sum().backward()

    for _ in range(3):
        w.grad = None
        step(w)
        yield [w, w.grad]


@case
def a_leaf_that_takes_a_value_and_is_written_through_a_view(lib, compiled):
    a, w = lib.tensor([2.0, 3.0]), lib.tensor([0.0, 0.0], requires_grad=True)

    @compiled
    def step():
        with lib.no_grad():
            w.copy_(a)
            w.copy_(w)
            w[None].mul_(2.0)
        return (w * a).sum().detach()

    for _ in range(3):
        yield step()
        yield w
        a.add_(1.0)


@case
def a_leaf_that_is_detached_between_calls(lib, compiled):
    w = lib.tensor([2.0, 3.0], requires_grad=True)
    alias = w.detach()

    @compiled
    def step(x):
        (w * x).sum().backward()

    step(alias)
    step(lib.tensor([1.0, 4.0]))
    yield w.grad
    w.detach_()
    try:
        step(lib.tensor([1.0, 4.0]))
        yield "goes on"
    except RuntimeError:
        yield "refused"


@case
def a_tensor_that_takes_a_history_between_calls(lib, compiled):
    w, x = lib.tensor([2.0, 3.0], requires_grad=True), lib.tensor([1.0, 2.0])

    @compiled
    def step():
        (w * x).sum().backward(retain_graph=True)

    step()
    yield w.grad
    x.mul_(w)
    step()
    yield w.grad


# -- what people train


def numbered(lib, module):
    """The module with other weights than chance gave it: multiples of 1/8 in a row."""
    with lib.no_grad():
        for p in module.parameters():
            p.copy_((lib.arange(float(p.numel())).reshape(p.shape) - 2.0) / 8.0)
    return module


@case
def a_soft_update_of_a_target_network(lib, compiled):
    net, target = numbered(lib, lib.nn.Linear(2, 2)), lib.nn.Linear(2, 2)
    target.load_state_dict(net.state_dict())
    optimizer = lib.optim.SGD(net.parameters(), lr=0.5)

    @compiled
    def step(x):
        optimizer.zero_grad()
        loss = (net(x) - target(x).detach() - 1).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(3):
        yield step(lib.tensor([[1.0, 0.5]]))
        yield list(target.parameters())
        for p, t in zip(net.parameters(), target.parameters(), strict=True):
            t.data.copy_(0.5 * p.data + 0.5 * t.data)
    target.load_state_dict(net.state_dict())
    step(lib.tensor([[1.0, 0.5]]))
    yield list(target.parameters())


@case
def weights_clipped_within_a_step(lib, compiled):
    net = numbered(lib, lib.nn.Linear(3, 2))
    optimizer = lib.optim.SGD(net.parameters(), lr=0.5)

    @compiled
    def step(x):
        net.zero_grad()
        net(x).sum().backward()
        for p in net.parameters():
            p.grad.data.clamp_(-1, 1)
        optimizer.step()
        for p in net.parameters():
            p.data.clamp_(-0.25, 0.25)

    for _ in range(2):
        step(lib.tensor([[1.0, -2.0, 0.5]]))
        yield list(net.parameters())
        yield net.weight.grad


@case
def an_average_of_a_module_within_a_step(lib, compiled):
    net = numbered(lib, lib.nn.Linear(2, 2))
    ema = copy.deepcopy(net)
    optimizer = lib.optim.SGD(net.parameters(), lr=0.5)

    @compiled
    def step(x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
        with lib.no_grad():
            for e, p in zip(ema.parameters(), net.parameters(), strict=True):
                e.mul_(0.5).add_(p, alpha=0.5)

    for _ in range(3):
        step(lib.tensor([[1.0, 2.0]]))
    yield list(net.parameters())
    yield list(ema.parameters())
    yield [p.requires_grad for p in ema.parameters()]


@case
def two_parameters_that_change_places(lib, compiled):
    a, b = lib.nn.Parameter(lib.zeros(2)), lib.nn.Parameter(lib.ones(2))
    a.data, b.data = b.data, a.data
    yield [a, b]
    a.data.add_(5)
    yield [a, b]


@case
def a_buffer_that_is_filled(lib, compiled):
    buffer = lib.zeros(6, 2)

    @compiled
    def push(at, x):
        buffer[at] = x
        buffer[at + 1 : at + 3] += 1

    for at in range(4):
        push(at, lib.full((2,), float(at)))
    yield buffer
    yield buffer[lib.tensor([0, 3])]


@case
def truncated_backpropagation(lib, compiled):
    w = lib.tensor(2.0, requires_grad=True)
    h = lib.tensor(1.0)
    for _ in range(3):
        h = h * w
        h.backward()
        h = h.detach() / 2
        yield [h, w.grad]
    h = h * w
    h.detach_()
    yield h


@case
def a_hidden_state_given_back(lib, compiled):
    w = lib.tensor([[0.5, 1.0], [-1.0, 0.5]], requires_grad=True)

    @compiled
    def step(x, h):
        h = x @ w + h
        h.sum().backward()
        return h.detach()

    h = lib.zeros(1, 2)
    for _ in range(3):
        h = step(lib.ones(1, 2), h)
    yield h
    yield w.grad


@case
def labels_of_numpy(lib, compiled):
    net = numbered(lib, lib.nn.Linear(2, 3))

    @compiled
    def step(x, y):
        loss = lib.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        return loss.detach()

    labels = lib.tensor(np.array([0, 2, 1]))
    x = lib.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    yield [step(x, labels), step(x, labels)]
    yield net.weight.grad
    yield str(labels.dtype).rpartition(".")[2]


@case
def the_slope_of_a_network_in_its_loss(lib, compiled):
    net = lib.nn.Sequential(lib.nn.Linear(2, 4), lib.nn.Tanh(), lib.nn.Linear(4, 1))
    numbered(lib, net)
    optimizer = lib.optim.Adam(net.parameters(), lr=0.125)

    @compiled
    def step(x):
        x = x.clone().requires_grad_()
        optimizer.zero_grad()
        y = net(x)
        (slope,) = lib.autograd.grad(y.sum(), [x], create_graph=True)
        loss = (y - 1).pow(2).mean() + (slope.pow(2).sum(1) - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = lib.tensor([[1.0, 0.5], [-0.5, 1.0], [0.25, -1.0]])
    yield [step(x) for _ in range(2)]


@case
def a_module_compiled_whole(lib, compiled):
    net = numbered(lib, lib.nn.Linear(2, 2))
    model = compiled(net)
    yield model(lib.tensor([[1.0, 2.0]])).detach()
    model.eval()
    yield [net.training, len(list(model.parameters())), len(model.state_dict())]
    model.train()
    model(lib.tensor([[1.0, 2.0]])).sum().backward()
    yield net.weight.grad


@may_refuse
def a_counter_in_a_cell(lib, compiled):
    count = 0

    @compiled
    def step(x):
        nonlocal count
        count += 1
        return x * count

    yield [step(lib.ones(2)) for _ in range(3)]
    yield count


# -- threads


def in_threads(lib: Any, work: Callable[[int], Any], count: int = 4) -> list[Any]:
    """What work(0), work(1), ... give, run at once; under PyTorch one after another."""
    run = in_turns if lib is torch else together
    return [given if isinstance(given, str) else given[0] for given in run(work, [(n,) for n in range(count)], times=1)]


@case
def a_step_shared_by_threads(lib, compiled):
    w = lib.tensor([1.0, 2.0])

    @compiled
    def step(x):
        return (x * w).sum(), x + w

    def work(number):
        x = lib.full((2,), float(number))
        return [step(x) for _ in range(50)]

    yield in_threads(lib, work)


@case
def a_step_shared_by_threads_with_arguments_of_their_own_shape(lib, compiled):
    @compiled
    def step(x, factor):
        return (x * factor).sum()

    def work(number):
        return [step(lib.full((number + 1,), float(i)), float(number)) for i in range(20)]

    yield in_threads(lib, work)


@case
def views_of_one_parameter_written_by_threads(lib, compiled):
    """The same by each of them, so that it is the same whoever comes first."""
    p = lib.nn.Parameter(lib.tensor([[-2.0, -3.0, 1.0], [4.0, 1.0, -3.0]]))

    def work(number):
        for _ in range(50):
            with lib.no_grad():
                p[:, 1:].t().diagonal().reshape(1, 2).clamp_(-2, 2)
        return p.t().detach()

    yield in_threads(lib, work)
    yield p


@case
def a_parameter_that_is_replaced_after_it_was_walked_to(lib, compiled):
    ways = {
        "state_dict": lambda m: m.state_dict()["0.weight"],
        "parameters": lambda m: next(m.parameters()),
        "named_parameters": lambda m: dict(m.named_parameters())["0.weight"],
        "modules": lambda m: list(m.modules())[1].weight,
        "children": lambda m: next(m.children()).weight,
        "buffers": lambda m: next(m.buffers()),
    }
    for way, of in ways.items():
        model = lib.nn.Sequential(lib.nn.Linear(1, 1, bias=False), lib.nn.BatchNorm1d(1))

        @compiled
        def step(x, model=model, of=of):
            with lib.no_grad():
                of(model).fill_(7.0)
            return x + 1

        for _ in range(2):
            step(lib.ones(1))
            yield way, model[0].weight.tolist() if way != "buffers" else model[1].running_mean.tolist()
            model[0] = lib.nn.Linear(1, 1, bias=False)
            model[1].register_buffer("running_mean", lib.zeros(1))


@case
def a_history_from_outside_that_a_step_uses_up(lib, compiled):
    p = lib.tensor([1.0, 2.0], requires_grad=True)
    y = p * p

    @compiled
    def step(x, z):
        (y * z).sum().backward()
        x.add_(1)  # both arguments are one tensor: a step is captured once more

    x = lib.ones(2)
    step(x, x)
    yield p.grad, x, raises(lambda: step(x, x), RuntimeError)
    y = p * p

    @compiled
    def failing(x):
        (y * x).sum().backward()
        raise KeyError("of the function itself")

    yield raises(lambda: failing(lib.ones(2)), KeyError), p.grad


@case
def a_view_whose_history_a_step_uses_up(lib, compiled):
    p = lib.tensor([[1.0, 2.0]], requires_grad=True)
    v = p[None]
    yield v

    @compiled
    def step(x):
        loss = (v.select(0, 0) * v.select(0, 0) * x).sum()
        loss.backward()
        p.grad = None
        return loss.detach()

    for value in (1.0, -2.0, 3.0):
        yield step(lib.ones(1))
        with lib.no_grad():
            p.fill_(value)


@case
def the_gradient_of_an_argument_that_requires_none_any_more(lib, compiled):
    p = lib.tensor([1.0, 2.0], requires_grad=True)

    @compiled
    def step(x):
        return x * (0.0 if x.grad is None else x.grad)

    (p * p).sum().backward()
    yield step(lib.ones(2)), step(p.detach_())
    p.grad.add_(1)
    yield step(p)
    p.grad = None
    yield step(p)


@case
def gradients_of_views(lib, compiled):
    def grad(y, *inputs):
        return lib.autograd.grad(y.sum(), list(inputs))

    p = lib.tensor([[2.0, 4.0], [1.0, 3.0]], requires_grad=True)
    for view in (p[:], p[0], p.t(), p.view(-1)[1:3]):
        yield grad(view * view, view), grad(view * view, view), grad(view * view, view, p)
    row = p[1]
    (row * row).sum().backward(inputs=[row])
    yield row.grad, p.grad


@case
def what_lies_behind_what_a_gradient_is_asked_of(lib, compiled):
    """Its history is not used up."""
    p = lib.tensor([2.0, 4.0], requires_grad=True)
    q = lib.tensor([1.0, 3.0], requires_grad=True)
    v, u = p * p, q * q
    w = v * u
    yield lib.autograd.grad((v * v).sum(), [v]), lib.autograd.grad((v * v).sum(), [v])
    yield lib.autograd.grad(w.sum(), [p]), lib.autograd.grad(u.sum(), [q])
    yield raises(lambda: lib.autograd.grad(w.sum(), [q]), RuntimeError)
    yield raises(lambda: lib.autograd.grad(v.sum(), [p]), RuntimeError)


@case
def a_parameter_whose_memory_is_that_of_a_copy(lib, compiled):
    a = lib.tensor([[-1.0, -2.0, 1.0]])
    p = lib.nn.Parameter(lib.tensor([[3.0, 3.0, -2.0]]))
    optimizer = lib.optim.SGD([p], lr=0.5, momentum=0.5)

    @compiled
    def step(x):
        (p * x).sum().backward()
        optimizer.step()

    for _ in range(3):
        step(a)
        yield p
        p.data = a.clone()
        step(a)
        yield p, p.grad


@case
def rows_written_before_each_step(lib, compiled):
    """And nobody reads the parameter in between."""
    p = lib.tensor([[2.0, 4.0], [1.0, 3.0]], requires_grad=True)
    optimizer = lib.optim.SGD([p], lr=0.5, momentum=0.5)

    @compiled
    def step():
        p.grad = None
        (p * p).sum().backward()
        optimizer.step()

    for k in range(3):
        with lib.no_grad():
            p[0].clamp_(max=1.0)
            p.t()[1] += 1
        step()
        p.data[1] = k
        step()
        p.detach().view(-1)[0] = 5
        step()
    yield p


@case
def the_last_view_of_memory_that_was_exchanged(lib, compiled):
    p = lib.nn.Parameter(lib.tensor([[2.0, 1.0], [5.0, -1.0]]))
    turned = p.t()

    @compiled
    def step():
        return turned * 2.0

    p.data = lib.tensor([[-2.0, 3.0], [-1.0, 1.0]])
    yield turned
    for _ in range(2):
        yield step()
        with lib.no_grad():
            p[0, 1] = 7.0


@case
def a_step_a_thread(lib, compiled):
    def work(number):
        @compiled
        def step(x):
            return x * number + 1

        x = lib.arange(3.0)
        for _ in range(10):
            x = step(x).clamp(-64, 64)
        return x

    yield in_threads(lib, work)


@case
def training_in_threads(lib, compiled):
    def work(number):
        p = lib.full((3,), float(number), requires_grad=True)
        for _ in range(10):
            p.grad = None
            (p * p).sum().backward()
            with lib.no_grad():
                p.sub_(p.grad, alpha=0.25)
        return p.detach()

    yield in_threads(lib, work)


@case
def memory_exchanged_in_a_step_and_written_there(lib, compiled):
    """Through what the tensor was set to, and through the tensor."""
    p = lib.nn.Parameter(lib.tensor([[3.0, 1.0, -1.0]]))

    @compiled
    def through_what_it_was_set_to(x):
        c = p.detach().clone()
        p.data = c
        c[p < 2.0] = 5.0
        c.view(-1)[0] = 4.0
        loss = (p * x).sum()
        loss.backward()
        c.sub_(p.grad)
        return loss

    @compiled
    def through_the_tensor(x):
        first = x * 2
        p.data = first
        second = x * 3
        p.data = second
        first.fill_(7.0)
        with lib.no_grad():
            p.add_(1.0)
        return first + second

    for k in range(3):
        p.grad = None
        yield [through_what_it_was_set_to(lib.full((1, 3), float(k))), p]
        yield [through_the_tensor(lib.full((1, 3), float(k))), p]
        p.data.add_(1.0)


@may_refuse
def memory_exchanged_for_part_of_other_memory_that_is_written_then(lib, compiled):
    p = lib.nn.Parameter(lib.tensor([3.0, 1.0]))

    @compiled
    def step(x):
        y = x * 2
        p.data = y[:2]
        y.fill_(5.0)

    yield [step(lib.ones(3)), p]


@may_refuse
def memory_exchanged_for_part_of_other_memory_and_written(lib, compiled):
    p = lib.nn.Parameter(lib.tensor([3.0, 1.0]))

    @compiled
    def step(x):
        y = x * 2
        p.data = y[:2]
        p.data.fill_(5.0)
        return y * 1

    yield [step(lib.ones(3)), p]
