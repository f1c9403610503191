"""The statements of programs: each maker looks at what there is and gives a candidate, or None where nothing fits.

A maker names the features of its candidate that can be told from the text; what shows only when the statement runs (shared
memory, refusals) the builder adds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .language import parts
from .views import factor, fresh, index_text, literal, number

if TYPE_CHECKING:
    from .generate import Builder, Call

SHAPES = [(4,), (2, 3), (3, 3), (2, 2), (1, 3)]
Maker = Callable[["Builder"], "Candidate | None"]


@dataclass(frozen=True)
class Candidate:
    """A statement that may be taken."""

    text: str
    features: frozenset[str] = frozenset()
    defines: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()  # the views that led to what it defines
    may_fail: bool = False


def marked(*names: str) -> frozenset[str]:
    return frozenset(names)


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def no_grad(text: str) -> str:
    return f"with lib.no_grad():\n{indented(text)}"


# -- creation and values


def new_tensor(b: Builder) -> Candidate:
    name = b.name("a")
    return Candidate(f"{name} = {fresh(b.rng, b.rng.choice(SHAPES))}", defines=(name,))


def new_leaf(b: Builder) -> Candidate:
    name = b.name("p")
    text = fresh(b.rng, b.rng.choice(SHAPES))
    if b.rng.random() < 0.3:
        return Candidate(f"{name} = lib.nn.Parameter({text})", marked("Parameter"), (name,))
    return Candidate(f"{name} = {text[:-1]}, requires_grad=True)", defines=(name,))


def new_integers(b: Builder) -> Candidate:
    name = b.name("n")
    dtype = b.rng.choice(["int32", "int64"])
    text = f"{name} = lib.tensor({[b.rng.randrange(4) for _ in range(4)]}, dtype=lib.{dtype})"
    return Candidate(text, marked(dtype), (name,))


def integers_written(b: Builder) -> Candidate | None:
    names = [n for n, t in b.scope().items() if isinstance(t, torch.Tensor) and t.dtype in {torch.int32, torch.int64}]
    if not names:
        return None
    n = b.rng.choice(names)
    dtype = str(b.read(n).dtype).removeprefix("torch.")
    kind, target = b.rng.choice([("", n), ("row", f"{n}[1:2]"), ("detach", f"{n}.detach()"), ("", n)])
    text = b.rng.choice(
        [f"{target}.add_(1)", f"{target}.fill_(2)", f"{target}[0] = 3", f"{target}.clamp_(0, 3)", f"{target}.mul_(2)"]
    )
    more = {f"through {kind}"} if kind else set[str]()
    if b.local is not None:
        more.add("capture written in step")
    return Candidate(text, frozenset({dtype, *more}))


def named_mask(b: Builder) -> Candidate | None:
    x = b.pick()
    name = b.name("k")
    return None if x is None else Candidate(f"{name} = {x} > 1.0", marked("mask"), (name,))


def shared_parameter(b: Builder) -> Candidate | None:
    x = b.pick(lambda t: t.is_leaf and not t.requires_grad)
    name = b.name("p")
    return (
        None
        if x is None
        else Candidate(
            f"{name} = lib.nn.Parameter({x})",
            marked("Parameter of a tensor"),
            (name,),
            (*b.kinds.get(x, ()), "Parameter"),
        )
    )


def new_module(b: Builder) -> Candidate | None:
    if "m" in b.space:
        return None
    weight, bias = literal(b.rng, (2, 3)), literal(b.rng, (2,))
    text = no_grad(f"m.weight.copy_(lib.tensor({weight}))\nm.bias.copy_(lib.tensor({bias}))")
    return Candidate(f"m = lib.nn.Linear(3, 2)\n{text}", marked("module"), ("m",))


def new_optimizer(b: Builder) -> Candidate | None:
    names = b.floats(lambda t: t.is_leaf and t.requires_grad)
    leaves = list({id(b.space[n]): n for n in names}.values())  # two names may be of one tensor
    what = (
        "m.parameters()"
        if "m" in b.space and b.rng.random() < 0.6
        else f"[{', '.join(leaves[:2])}]"
        if leaves
        else None
    )
    if what is None or "o" in b.space:
        return None
    momentum = ", momentum=0.5" if b.rng.random() < 0.5 else ""
    return Candidate(f"o = lib.optim.SGD({what}, lr=0.5{momentum})", marked("optimizer"), ("o",))


def arithmetic(b: Builder) -> Candidate | None:
    rng = b.rng
    x = b.pick(lambda t: t.ndim <= 2)
    if x is None:
        return None
    t = b.read(x)
    y = b.pick(lambda s: s.shape == t.shape) or x
    options = [
        f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"{x} * {factor(rng)}", f"{x} + {number(rng)}", f"{number(rng)} - {x}", f"-{x}",
        f"{x}.abs()", f"{x}.relu()", f"{x}.clamp(-2, 2)", f"lib.where({x} > 1.0, {x}, {y} * 2.0)", f"{x}.sum()",
    ]  # fmt: skip
    if t.ndim:
        options += [f"{x}.sum(0)", f"{x}.flip(0)", f"lib.cat([{x}, {y}])", f"lib.stack([{x}, {y}])"]
    if t.ndim == 2:
        options += [f"{x} @ {y}.T", f"{x}.sum(1, keepdim=True)"]
    if t.shape[-1:] == (3,) and t.ndim == 2 and "m" in b.space:
        options += [f"m({x})"] * 8
    name = b.name("y")
    text = f"{name} = {rng.choice(options)}"
    if rng.random() < 0.1:
        return Candidate(no_grad(text), marked("no_grad result"), (name,))
    return Candidate(text, defines=(name,))


def named_view(b: Builder) -> Candidate | None:
    x = b.pick(lambda t: t.ndim >= 1)
    found = None if x is None else b.view(x)
    if x is None or found is None:
        return None
    kind, text = found
    name = b.name("v")
    kinds = (*b.kinds.get(x, ()), kind)
    if b.read(x).requires_grad and b.rng.random() < 0.15:
        return Candidate(no_grad(f"{name} = {text}"), marked(kind, "view made in no_grad"), (name,), kinds)
    return Candidate(f"{name} = {text}", marked(kind), (name,), kinds)


def named_gradient(b: Builder) -> Candidate | None:
    x = b.pick(lambda t: t.is_leaf and t.grad is not None)
    name = b.name("g")
    return None if x is None else Candidate(f"{name} = {x}.grad", marked("grad alias"), (name,), ("grad",))


def copied(b: Builder) -> Candidate | None:
    x = b.pick()
    if x is None:
        return None
    kind, text = b.rng.choice(
        [
            ("clone", f"{x}.clone()"),
            ("tensor()", f"lib.tensor({x}.detach())"),
            ("tensor()", f"lib.tensor({x})"),
            ("clone", f"{x}.clone().detach()"),
            ("clone", f"{x}.detach().clone()"),
            ("deepcopy", f"copy.deepcopy({x})"),
        ]
    )
    name = b.name("c")
    features = {f"copy by {kind}"}
    if kind == "deepcopy" and b.read(x).is_leaf and b.read(x).grad is not None:
        features.add("deepcopy of a gradient")
    return Candidate(f"{name} = {text}", frozenset(features), (name,))


def copied_together(b: Builder) -> Candidate | None:
    """Copies of two tensors, which share memory where these do."""
    x = b.pick(lambda t: t.is_leaf)
    y = b.pick(lambda t: t.is_leaf)
    if x is None or y is None or x == y:
        return None
    names = b.name("c"), b.name("c")
    features = {"copy by deepcopy", "copies together"}
    if any(b.read(t).grad is not None for t in (x, y)):
        features.add("deepcopy of a gradient")
    return Candidate(f"{', '.join(names)} = copy.deepcopy([{x}, {y}])", frozenset(features), names)


def copied_module(b: Builder) -> Candidate | None:
    if "m" not in b.space:
        return None
    features = {"copy by deepcopy"}
    if any(p.grad is not None for p in b.space["m"].parameters()):
        features.add("deepcopy of a gradient")
    return Candidate("k = copy.deepcopy(m)", frozenset(features), ("k",))


# -- writing in place


def place(b: Builder) -> tuple[str, tuple[str, ...]] | None:
    """An expression that something may be written to, and the views that it goes through beyond the name's own."""
    rng = b.rng
    if "m" in b.space and rng.random() < 0.3:
        weight = rng.choice(["m.weight", "m.bias"])
        text, kind = rng.choice(
            [
                (weight, ""),
                (f"{weight}.data", "data"),
                (f"{weight}.detach()", "detach"),
                (f"m.state_dict()['{weight[2:]}']", "state_dict"),
            ]
        )
        if rng.random() < 0.2 and b.read(weight).grad is not None:
            text, kind = rng.choice([(f"{weight}.grad", "grad"), (f"{weight}.grad.data", "grad.data")])
        found = text, (kind,) if kind else ()
    else:
        x = (b.pick_shared() if rng.random() < 0.5 else None) or b.pick()
        if x is None:
            return None
        found = x, ()
        t = b.read(x)
        if t.is_leaf and t.grad is not None and rng.random() < 0.5:
            found = rng.choice([(f"{x}.grad", ("grad",)), (f"{x}.grad.data", ("grad.data",))])
        elif t.requires_grad and rng.random() < 0.4:
            found = rng.choice([(f"{x}.data", ("data",)), (f"{x}.detach()", ("detach",))])
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        text, kinds = found
        more = b.view(text)
        if more:
            found = more[1], (*kinds, more[0])
    return found


def write(b: Builder) -> Candidate | None:
    """An in-place change of something."""
    found = place(b)
    if found is None:
        return None
    rng = b.rng
    target, kinds = found
    root = next(name for name in re.findall(r"[A-Za-z_]\w*", target) if name != "list")
    kinds = (*b.kinds.get(root, ()), *kinds)
    t = b.read(target)
    if t.dtype != torch.float32 or not t.numel() or t.ndim > 2:
        return None
    same = b.pick(lambda s: s.shape == t.shape and s is not t)
    operand = same if same and rng.random() < 0.6 else fresh(rng, tuple(t.shape)) if rng.random() < 0.5 else number(rng)
    features = {f"through {kind}" for kind in kinds}
    text, more = change(b, target, t, operand, same)
    features |= more | ({"copy_"} if ".copy_(" in text else set[str]())
    arguments = [a for a in (b.local or {}).values() if isinstance(a, torch.Tensor)][: len(b.calls)]
    if any(a.untyped_storage().data_ptr() == t.untyped_storage().data_ptr() for a in arguments):
        features.add("argument written")
    elif b.local is not None and root not in b.local:
        features.add("capture written in step")
        if ".grad" in target:
            features.add("gradient written in step")
    source = b.read(same) if same and same in text.removeprefix(target) else None
    tracked = t.requires_grad
    is_leaf_path = tracked and (t.is_leaf or b.read(root).is_leaf if root != "m" else True)
    if tracked and rng.random() < (0.1 if (b.wanted or "").startswith("refused") else 0.85 if is_leaf_path else 0.4):
        text = no_grad(text)
        features.add("write in no_grad" if t.is_leaf or is_leaf_path else "history written in no_grad")
        if source is not None and source.requires_grad:
            features.add("tracked value written in no_grad")
        if any(c.kind == "None argument" for c in b.calls):  # which decides whether it is a leaf
            features.add("history written in no_grad")
    elif tracked:
        features.add("write in graph")
    elif source is not None and source.requires_grad:
        if rng.random() < 0.5:
            text = no_grad(text)
            features.add("tracked value written in no_grad")
        else:
            features.add("tracked value written")
    return Candidate(text, frozenset(features), may_fail=True)


def change(b: Builder, target: str, t: torch.Tensor, operand: str, same: str | None) -> tuple[str, set[str]]:
    """The text of a change of `target`, and its features."""
    rng = b.rng
    can_assign = t.ndim >= 1 and t.shape[0]
    choice = rng.random()
    if choice < 0.3 and can_assign:
        where, feature = index_text(rng, t)
        value = number(rng)
        if same and rng.random() < 0.4:
            value = f"{same}[{where}]"
        return f"{target}[{where}] = {value}", {feature}
    if choice < 0.38 and can_assign:
        named = [
            n
            for n, k in b.scope().items()
            if isinstance(k, torch.Tensor) and k.dtype == torch.bool and k.shape == t.shape
        ]
        mask = rng.choice([f"{target} > 1.0", f"{same or target} < 2.0", *named[:1]])
        return rng.choice(
            [
                (f"{target}[{mask}] = {number(rng)}", {"set mask"}),
                (f"{target}.masked_fill_({mask}, {number(rng)})", {"masked_fill_"}),
            ]
        )
    if choice < 0.5 and (can_augment(b, target)):
        return rng.choice(
            [
                (f"{target} += {operand}", {"augmented"}),
                (f"{target} *= {factor(rng)}", {"augmented"}),
                (f"{target} -= {operand}", {"augmented"}),
            ]
        )
    if choice < 0.58 and can_assign:
        row = "[" + ", ".join([literal(rng, tuple(t.shape[1:]))]) + "]"
        at = rng.randrange(t.shape[0])
        return rng.choice(
            [
                (f"{target}.index_add_(0, lib.tensor([{at}], dtype=lib.int32), lib.tensor({row}))", {"index_add_"}),
                (f"{target}.index_fill_(0, lib.tensor([{at}]), {number(rng)})", {"index_fill_"}),
                (f"lib.nn.init.constant_({target}, {number(rng)})", {"init"}),
            ]
        )
    whole = operand if operand.startswith("lib") or operand == same else fresh(rng, tuple(t.shape))
    return rng.choice(
        [
            (f"{target}.add_({operand})", set[str]()),
            (f"{target}.sub_({operand})", set()),
            (f"{target}.mul_({factor(rng)})", set()),
            (f"{target}.fill_({number(rng)})", set()),
            (f"{target}.zero_()", set()),
            (f"{target}.neg_()", set()),
            (f"{target}.clamp_(-2, 2)", set()),
            (f"{target}.copy_({whole})", set()),
            (f"{target}.copy_({whole})", set()),
            (f"{target}.add_({whole}, alpha=2)", set()),
            (f"{target}.mul_(2.0).add_({operand})", set()),
        ]
    )


def can_augment(b: Builder, target: str) -> bool:
    """Whether `target += y` is Python: in a step no captured name, which it would make a local one."""
    if target.endswith(")"):
        return False
    return b.local is None or not target.isidentifier() or target in b.local


def data_assigned(b: Builder) -> Candidate | None:
    p = b.pick(lambda t: t.is_leaf and t.requires_grad)
    if p is None:
        return None
    shape = b.read(p).shape
    x = b.pick(lambda t: t.shape == shape and not t.requires_grad)
    text = b.rng.choice([x, f"{x}.clone()"]) if x else fresh(b.rng, tuple(shape))
    return Candidate(f"{p}.data = {text}", marked("data assign"), (p,), ("data assign",))


# -- gradients


def loss_of(b: Builder) -> str | None:
    y = b.pick(lambda t: t.requires_grad)
    return y and b.rng.choice([f"({y} * {y}).sum()", f"{y}.sum()", f"({y} * 2.0).sum()"])


def backward(b: Builder) -> Candidate | None:
    loss = loss_of(b)
    keep = "retain_graph=True" if b.rng.random() < 0.3 else ""
    return None if loss is None else Candidate(f"{loss}.backward({keep})", marked("backward"), may_fail=True)


def grad_of(b: Builder) -> Candidate | None:
    leaf = b.pick(lambda t: t.requires_grad and t.is_leaf)
    y = b.pick(lambda t: t.requires_grad)
    name = b.name("d")
    if not leaf or not y:
        return None
    loss = b.rng.choice([f"({y} * {y}).sum()", f"({y} * 2.0).sum()"])  # of y.sum() PyTorch gives one number, expanded
    text = f"{name} = lib.autograd.grad({loss}, [{leaf}], allow_unused=True)[0]"
    return Candidate(text, marked("autograd.grad"), (name,), may_fail=True)


def gradient_cleared(b: Builder) -> Candidate | None:
    p = b.pick(lambda t: t.is_leaf and t.grad is not None)
    options = (
        [
            (f"{p}.grad = None", "grad None"),
            (f"{p}.grad.zero_()", "through grad"),
            (f"{p}.grad.data.zero_()", "through grad.data"),
        ]
        if p
        else []
    )
    if "o" in b.space:
        options += [("o.zero_grad()", "zero_grad"), ("o.zero_grad(set_to_none=False)", "zero_grad to zero")]
    if "m" in b.space:
        options += [("m.zero_grad()", "zero_grad")]
    if not options:
        return None
    text, feature = b.rng.choice(options)
    return Candidate(
        text, marked(feature, *(["gradient written in step"] if b.local is not None and "zero_()" in text else []))
    )


def gradient_assigned(b: Builder) -> Candidate | None:
    p = b.pick(lambda t: t.is_leaf and t.requires_grad)
    if p is None:
        return None
    shape = b.read(p).shape
    other = b.pick(lambda t: t.shape == shape and not t.requires_grad)
    known = b.pick(lambda t: t.shape == shape and t.is_leaf and t.grad is not None)
    if b.rng.random() < 0.6 and (other or known):
        text = b.rng.choice(
            [*([other, f"{other}.detach()", f"{other} * 2.0"] if other else []), *([f"{known}.grad"] if known else [])]
        )
        return Candidate(f"{p}.grad = {text}", marked("grad assign", "grad assign of a tensor"))
    return Candidate(f"{p}.grad = {fresh(b.rng, tuple(shape))}", marked("grad assign"))


def stepped(b: Builder) -> Candidate | None:
    return Candidate("o.step()", marked("optimizer")) if "o" in b.space else None


def updated_by_hand(b: Builder) -> Candidate | None:
    p = b.pick(lambda t: t.is_leaf and t.grad is not None)
    if p is None:
        return None
    text, kinds = b.rng.choice(
        [
            (no_grad(f"for q in [{p}]:\n    q -= 0.5 * q.grad"), "update by hand"),
            (no_grad(f"{p}.sub_({p}.grad)"), "update by hand"),
            (f"{p}.data.sub_(0.5 * {p}.grad)", "through data"),
            (f"{p}.data.sub_(0.5 * {p}.grad.data)", "through data"),
        ]
    )
    return Candidate(text, marked("update by hand", kinds))


def averaged(b: Builder) -> Candidate | None:
    p = b.pick(lambda t: t.is_leaf and t.requires_grad)
    e = p and b.pick(lambda t: t.shape == b.read(p).shape and not t.requires_grad)
    if not e:
        return None
    text = b.rng.choice([f"{e}.copy_({p})", f"{e}.mul_(0.5).add_({p}, alpha=0.5)", f"{e}.copy_({p}.data)"])
    return Candidate(no_grad(text), marked("average of a leaf", *(f"through {k}" for k in b.kinds.get(e, ()))))


def flag_changed(b: Builder) -> Candidate | None:
    x = b.pick()
    if x is None:
        return None
    text = b.rng.choice([f"{x}.requires_grad_()", f"{x}.requires_grad_(False)", f"{x}.requires_grad = True"])
    features = {"requires_grad_"}
    at = b.read(x).untyped_storage().data_ptr()
    if sum(t.untyped_storage().data_ptr() == at for t in {id(t): t for t in b.tensors().values()}.values()) > 1:
        features.add("flag of a shared tensor")
    if b.step and x in b.step.captured():
        features.add("flag changed between calls")
    return Candidate(text, frozenset(features), may_fail=True)


def detached_in_place(b: Builder) -> Candidate | None:
    views = {id(t._base) for t in b.tensors().values()}  # whose history PyTorch would be of two minds about
    x = b.pick(lambda t: t.requires_grad and id(t) not in views)
    if x is None:
        return None
    features = {"detach_", "flag changed between calls"} if b.step and x in b.step.captured() else {"detach_"}
    return Candidate(f"{x}.detach_()", frozenset(features), may_fail=True)


def layout(b: Builder) -> Candidate | None:
    x, y = b.pick(), b.pick()
    if not x or not y:
        return None
    name = b.name("s")
    text = b.rng.choice(
        [
            f"{x}.is_contiguous()",
            *([f"{x}.stride()"] if 1 not in b.read(x).shape else []),  # of one element no stride matters
            f"{x}.data_ptr() == {y}.data_ptr()",
            f"{x}.untyped_storage().data_ptr() == {y}.untyped_storage().data_ptr()",
        ]
    )
    return Candidate(f"{name} = {text}", marked("layout"), (name,))


def wrong_shape(b: Builder) -> Candidate | None:
    x = b.pick(lambda t: t.ndim >= 1)
    if x is None:
        return None
    bad = fresh(b.rng, (7,))
    n = b.read(x).numel()
    if not b.read(x).is_contiguous() and b.rng.random() < 0.5:
        return Candidate(f"{b.name('v')} = {x}.view({n})", marked("refused view"), may_fail=True)
    text = b.rng.choice(
        [f"{x}.add_({bad})", f"{x}.copy_({bad})", f"{x}[0:1] = {bad}", f"{x} + {bad}", f"{x}.view(13)", f"{x}[50]"]
    )
    return Candidate(no_grad(text), marked("refused shapes"), may_fail=True)


SETUP: list[tuple[int, Maker]] = [
    (4, new_tensor), (3, new_leaf), (2, new_module), (2, new_optimizer), (1, shared_parameter), (5, named_view), (2, arithmetic),
    (1, copied), (1, copied_together), (1, new_integers), (1, backward), (1, flag_changed),
]  # fmt: skip
SCHEDULE: list[tuple[int, Maker]] = [
    (14, write), (8, named_view), (5, arithmetic), (5, backward), (2, grad_of), (2, copied), (1, copied_together), (1, copied_module), (2, data_assigned),
    (2, gradient_cleared), (1, gradient_assigned), (1, named_gradient), (2, stepped), (2, updated_by_hand), (2, averaged),
    (1, flag_changed), (1, detached_in_place), (1, layout), (1, wrong_shape), (1, new_leaf), (1, shared_parameter), (1, new_optimizer),
    (1, new_integers), (1, integers_written), (1, named_mask),
]  # fmt: skip
BODY: list[tuple[int, Maker]] = [
    (10, arithmetic), (8, write), (5, named_view), (2, copied), (1, copied_together), (1, averaged), (1, grad_of), (1, gradient_cleared), (1, stepped),
    (1, updated_by_hand), (1, data_assigned), (2, backward), (1, named_mask), (1, integers_written), (1, named_gradient),
    (1, gradient_assigned),
]  # fmt: skip


FOCUS: dict[str, Maker] = {  # the statement that shows a wanted feature, where it is rare otherwise
    "refused detach_": detached_in_place,
    "refused flag": flag_changed,
    "flag of a shared tensor": flag_changed,
    "flag changed between calls": flag_changed,
    "grad assign of a tensor": gradient_assigned,
    "refused view": wrong_shape,
    "refused leaf view write": write,
    "refused write to one of several views": write,
    "saved value changed": backward,
    "refused second backward": backward,
    "shared result": write,
    "through result": write,
    "shared argument written": write,
}


# -- Python state that a step reads or writes


@dataclass(frozen=True)
class PythonState:
    """Something in Python that a step depends on: how it begins, how the step uses it, how it changes between calls."""

    feature: str
    setup: str | None  # None: the variable `cell` of the function around the step
    body: str  # over {x}, a tensor, and {y}, a new name
    changes: tuple[str, ...] = ()
    first: str = "2.0"


PYTHON_STATES = [
    PythonState("global number", "scale = 2.0", "{y} = {x} * scale", ("scale = 0.5", "scale = -1.0", "scale = 2.0")),
    PythonState("attribute number", "state.scale = 2.0", "{y} = {x} * state.scale", ("state.scale = 0.5", "state.scale = -1.0")),
    PythonState("dict number", "options = {'k': 2.0}", "{y} = {x} + options['k']", ("options['k'] = 3.0", "options = {'k': -1.0}")),
    PythonState("cell number", None, "{y} = {x} + cell", ("change(3.0)", "change(-1.0)", "change(2.0)")),
    PythonState("cell tensor", None, "{y} = {x} + cell.sum()", ("change(lib.tensor([3.0]))", "change(lib.tensor([1.0]))"), "lib.tensor([2.0])"),
    PythonState("flag", "flag = True", "if flag:\n    {y} = {x} + 1.0\nelse:\n    {y} = {x} * 2.0", ("flag = False", "flag = True")),
    PythonState("None", "extra = None", "{y} = {x} if extra is None else {x} + extra", ("extra = 2.0", "extra = None", "extra = lib.tensor(3.0)")),
    PythonState("string", "mode = 'a'", "{y} = {x} + 1.0 if mode == 'a' else -{x}", ("mode = 'b'", "mode = 'a'")),
    PythonState("counter", "state.count = 0", "state.count += 1\n{y} = {x} + float(state.count)", ("state.count = 0",)),
    PythonState("counter unread", "state.calls = 0", "state.calls += 1\n{y} = {x} + 1.0"),
    PythonState("list append", "state.log = []", "state.log.append({x}.detach().clone())\n{y} = {x} * 2.0", ("state.log.clear()", "state.log = []")),
    PythonState("list read", "state.seen = [1.0]", "{y} = {x} + float(len(state.seen))", ("state.seen.append(2.0)", "state.seen = []")),
    PythonState("attribute store", "state.last = None", "state.last = {x}.detach().clone()\n{y} = {x} + 1.0", ("state.last = None",)),
    PythonState("attribute state", "state.hidden = lib.tensor(1.0)", "state.hidden = state.hidden + 1.0\n{y} = {x} * state.hidden", ("state.hidden = lib.tensor(-2.0)", "state.hidden.zero_()")),
    PythonState("dict store", "cache = {}", "cache['last'] = {x}.detach().clone()\n{y} = {x} - 1.0", ("cache.clear()",)),
    PythonState("list number", "betas = [2.0, 1.0]", "{y} = {x} * betas[0]", ("betas[0] = 0.5", "betas = [-1.0]", "betas.reverse()")),
    PythonState("list of tensors", "state.bank = [lib.tensor(1.0), lib.tensor(2.0)]", "{y} = {x} + state.bank[0]", ("state.bank[0] = lib.tensor(5.0)", "state.bank.reverse()", "state.bank[0].add_(1.0)")),
    PythonState("function", "twist = lambda t: t * 2.0", "{y} = twist({x})", ("twist = lambda t: t + 1.0", "twist = lambda t: -t")),
    PythonState("which list", "state.cur = [1.0]\nstate.first = state.cur\nstate.other = [1.0]", "if state.cur is state.first:\n    state.cur = state.other\n    {y} = {x} * 2.0\nelse:\n    state.cur = state.first\n    {y} = {x} + 1.0", ("state.cur = [1.0]", "state.cur = state.first", "state.first = state.other")),
    PythonState("which tensor", "state.cur = lib.tensor(1.0)\nstate.first = state.cur", "if state.cur is state.first:\n    state.cur = state.cur + 1.0\n    {y} = {x} * 2.0\nelse:\n    state.cur = state.first\n    {y} = {x} + state.cur", ("state.cur = lib.tensor(1.0)", "state.first = state.cur", "state.cur.add_(1.0)")),
    PythonState("swap", "state.cur = [lib.tensor(1.0)]\nstate.other = [lib.tensor(2.0)]", "state.cur, state.other = state.other, state.cur\n{y} = {x} * state.cur[0]", ("state.cur = [lib.tensor(3.0)]", "state.other[0].add_(1.0)", "state.other = state.cur")),
    PythonState("shared list", "state.cur = []\nstate.other = []", "{y} = {x} * 2.0 if state.cur is state.other else {x} + 1.0\nstate.cur = state.other = [{x}.detach().clone()]", ("state.cur = []", "state.other = state.cur")),
    PythonState("exception in step", "bad = False", "if bad:\n    raise ValueError('bad')\n{y} = {x} + 1.0", ("bad = True", "bad = False")),
]  # fmt: skip


def python_states(b: Builder) -> list[PythonState]:
    """Those that a step uses: mostly none or one; the wanted one always."""
    allowed = [s for s in PYTHON_STATES if s.feature in b.allowed]
    if any(s.feature == b.wanted for s in allowed):
        return [s for s in allowed if s.feature == b.wanted]
    return b.rng.sample(allowed, 1) if allowed and b.rng.random() < 0.5 else []


def state_in_body(b: Builder, state: PythonState) -> Candidate | None:
    x = b.pick()
    if x is None:
        return None
    y = b.name("y")
    b.state_results.append(y)
    return Candidate(state.body.format(x=x, y=y), marked(state.feature), (y,))


def between(b: Builder) -> list[tuple[int, Maker]]:
    """What changes Python state, or what a captured name stands for, between calls."""
    texts = [(s.feature, c) for s in b.states for c in s.changes]
    makers: list[tuple[int, Maker]] = []
    if texts:
        makers.append((60, lambda b: state_changed(b, texts)))
    makers.append((3, rebound))
    makers.append((3, module_parameter_replaced))
    makers.append((30 if b.wanted == "threads" else 2, shared_by_threads))
    return makers


def state_changed(b: Builder, texts: list[tuple[str, str]]) -> Candidate:
    feature, text = b.rng.choice(texts)
    return Candidate(text, marked(feature))


def rebound(b: Builder) -> Candidate | None:
    """A captured name that stands for another tensor from now on."""
    captured = b.step.captured() if b.step else set()
    x = b.pick()
    if x is None or x not in captured:
        return None
    t = b.read(x)
    grad = ", requires_grad=True" if t.requires_grad and t.is_leaf else ""
    keep = f"state.{b.name('before')} = {x}\n" if grad else ""  # a leaf that nobody holds has no gradient any more
    return Candidate(f"{keep}{x} = {fresh(b.rng, tuple(t.shape))[:-1]}{grad})", marked("captured name rebound"), (x,))


def module_parameter_replaced(b: Builder) -> Candidate | None:
    if "m" not in b.space:
        return None
    value = fresh(b.rng, (2, 3))
    text = b.rng.choice(
        [
            f"m.weight = lib.nn.Parameter({value})",
            f"m.weight.data = {value}",
            f"m.load_state_dict({{'weight': {value}, 'bias': m.bias * 1.0}})",
        ]
    )
    features = (
        {"module parameter replaced"}
        if "Parameter" in text
        else {"data assign"}
        if "data" in text.partition("=")[0]
        else {"load_state_dict"}
    )
    return Candidate(text, frozenset(features))


IMPURE = {
    "argument written", "capture written in step", "gradient written in step", "backward", "optimizer", "zero_grad",
    "zero_grad to zero", "grad None", "grad assign", "autograd.grad", "update by hand", "average of a leaf", "data assign",
    *(state.feature for state in PYTHON_STATES),
}  # fmt: skip


def shared_by_threads(b: Builder) -> Candidate | None:
    """Several threads that call the step, which must change nothing."""
    step = b.step
    if step is None or any(s.features & IMPURE for s in step.body):
        return None
    calls = []
    for _ in range(4):
        texts = [
            argument(b, c.shape).text if c.kind == "tensor" else b.rng.choice(PYTHON_ARGUMENTS[c.kind]) for c in b.calls
        ]
        calls.append(f"({', '.join(texts)},)")
    name = b.name("r")
    text = f"together(step, [{', '.join(calls)}])"
    given, error = trial(b, text)
    if error is not None or "raised" in str(given):
        return None
    b.attached.add(name)  # never an operand: what the threads gave is a list
    kinds = {c.kind for c in b.calls} - {"tensor"}
    is_tracked = any(t.requires_grad for t in tensors_in(given))
    return Candidate(
        f"{name} = {text}", marked("threads", *kinds, *(["attached result"] if is_tracked else [])), (name,)
    )


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors that a value leads to."""
    return (
        [value] if isinstance(value, torch.Tensor) else [t for _, element in parts(value) for t in tensors_in(element)]
    )


# -- calls of a step


def parameters(b: Builder) -> list[Call]:
    """The parameters of a step, with the arguments of its first call."""
    from .generate import Call  # the builder's own record: it imports this module

    calls = [argument(b, b.rng.choice(SHAPES))]
    if b.rng.random() < 0.4:
        calls.append(argument(b, b.rng.choice([calls[0].shape, b.rng.choice(SHAPES)])))
    kinds = [k for k in ("number argument", "flag argument", "offset argument", "None argument") if k in b.allowed]
    if kinds and (b.rng.random() < 0.3 or b.wanted in kinds):
        kind = b.wanted if b.wanted in kinds else b.rng.choice(kinds)
        assert kind is not None
        calls.append(Call(kind, PYTHON_ARGUMENTS[kind][0]))
    return calls


PYTHON_ARGUMENTS = {
    "number argument": ("2.0", "0.5", "-1.0", "3.0"),
    "flag argument": ("True", "False"),
    "offset argument": ("0", "1", "2"),
    "None argument": ("None", "lib.tensor(2.0)", "1.0"),
}
READS = {
    "number argument": "{y} = {x} * {v}",
    "flag argument": "{y} = {x} * 2.0 if {v} else {x} + 1.0",
    "offset argument": "{y} = {x}[{v}:{v} + 1] * 2.0",
    "None argument": "{y} = {x} if {v} is None else {x} + {v}",
}


def reads(b: Builder) -> list[tuple[int, Maker]]:
    """Statements that use the Python arguments of a step."""

    def maker(index: int, kind: str) -> Maker:
        def make(b: Builder) -> Candidate | None:
            x = b.pick(lambda t: t.ndim >= 1 and t.shape[0] >= 3)
            y = b.name("y")
            return None if x is None else Candidate(READS[kind].format(x=x, y=y, v=f"x{index}"), marked(kind), (y,))

        return make

    return [(20, maker(i, c.kind)) for i, c in enumerate(b.calls) if c.kind != "tensor"]


def argument(b: Builder, shape: tuple[int, ...]) -> Call:
    """An argument of a shape: a new tensor, one with a name, a view or a copy of one."""
    from .generate import Call  # as above

    rng = b.rng
    named = b.floats(lambda t: tuple(t.shape) == shape)
    larger = b.floats(lambda t: t.ndim >= 1)
    choice = rng.random()
    if named and choice < 0.5:
        return Call("tensor", rng.choice(named), shape)
    if larger and choice < 0.65:
        x = rng.choice(larger)
        found = b.view(x)
        if found and tuple(b.read(found[1]).shape) == shape:
            return Call("tensor", found[1], shape, found[0])
    if named and choice < 0.75:
        return Call("tensor", f"{rng.choice(named)}.clone().detach()", shape)
    return Call("tensor", fresh(rng, shape), shape)


def training(b: Builder) -> list[Maker]:
    """The lines of a training step."""
    x = b.pick(lambda t: t.shape[-1:] == (3,) and t.ndim == 2)
    leaf = b.pick(lambda t: t.requires_grad)
    if "m" in b.space and x and b.rng.random() < 0.7:
        loss = f"{b.rng.choice(['loss', 'l'])} = (m({x}) * 2.0).sum()"
    elif leaf:
        other = b.pick(lambda t: t.shape == b.read(leaf).shape)
        loss = f"loss = ({leaf} * {other}).sum()"
    else:
        return []
    name = loss.partition(" ")[0]
    first = Candidate(loss, defines=(name,))
    then = Candidate(f"{name}.backward()", marked("backward"))
    after = b.rng.choice([[stepped], [updated_by_hand], [], [stepped, gradient_cleared]])
    before = [gradient_cleared] if b.rng.random() < 0.6 else []
    return [*before, lambda b: first, lambda b: then, *after]


def returned(b: Builder) -> str:
    """What the step gives."""
    rng = b.rng
    own = [n for n in b.floats() if n in (b.local or {})]
    parts = [f"{n}.detach()" if b.read(n).requires_grad else n for n in b.state_results if n in own][:1]
    slots = b.floats(lambda t: t.is_leaf and t.grad is not None)
    if (
        slots
        and "result is a gradient" in b.allowed
        and rng.random() < (0.9 if b.wanted == "result is a gradient" else 0.2)
    ):
        slot = f"{rng.choice(slots)}.grad"
        parts.append(rng.choice([slot, slot, f"{slot}[0:1]", f"{slot}.detach()"] if b.read(slot).ndim else [slot]))
    for _ in range(rng.choice([1, 1, 1, 2]) if not parts else rng.choice([0, 0, 1])):
        x = (
            b.pick()
            if "result shares memory" in b.allowed and rng.random() < (0.8 if "result" in (b.wanted or "") else 0.1)
            else rng.choice(own)
            if own
            else None
        )
        if x is None:
            return "None"
        is_tracked = b.read(x).requires_grad
        parts.append(
            f"{x}.detach()" if is_tracked and ("attached result" not in b.allowed or rng.random() < 0.7) else x
        )
    if len(parts) == 1:
        return parts[0]
    return rng.choice([f"({', '.join(parts)})", f"{{'u': {parts[0]}, 'v': {parts[1]}}}"])


def other_sizes(b: Builder, shape: tuple[int, ...], leading: int | None, features: set[str]) -> tuple[int, ...]:
    """The shape of an argument in a later call: with another batch, where the program has such, or now and then any."""
    if leading is not None and shape:
        shape = (leading, *shape[1:])
        features.add("sizes")
    if "other shape" in b.allowed and b.rng.random() < (0.7 if b.wanted == "error in step" else 0.05):
        shape = b.rng.choice(SHAPES)
        features.add("other shape")
    return shape


def call(b: Builder, *, is_first: bool = False) -> Candidate | None:
    """A call of the step, with a name for what it gives."""
    step = b.step
    assert step is not None
    captured = step.captured()
    texts, features = [], set[str]()
    tensors: list[tuple[str, torch.Tensor]] = []
    leading = b.sizes.randrange(1, 8) if b.sizes is not None and not is_first else None
    if any("data assign" in s.features for s in step.body):
        leading = None  # what is no leaf keeps its shape here: docs/from-pytorch.md
    for c in b.calls:
        if c.kind != "tensor":
            texts.append(c.text if is_first else b.rng.choice(PYTHON_ARGUMENTS[c.kind]))
            features.add(c.kind)
            continue
        shape = c.shape if is_first else other_sizes(b, c.shape, leading, features)
        again = [t for t, s in tensors if tuple(s.shape) == shape]
        if again and b.rng.random() < 0.3:
            text = again[0]
        else:
            given_as = c if is_first else argument(b, shape)
            text = given_as.text
            features |= {given_as.view} - {""}
        texts.append(text)
        tensors.append((text, b.read(text)))
    name = b.name("r")
    related = relations(b, tensors, captured)
    features |= related
    owners = {t.untyped_storage().data_ptr(): t for t in b.tensors().values()}
    related |= {text for text, t in tensors if owners.get(t.untyped_storage().data_ptr(), t) is not t}
    written = {"argument written", "capture written in step"}
    if related and any(s.features & written for s in step.body):
        features.add("shared argument written")
    if any(t.requires_grad for _, t in tensors):
        features.add("leaf argument" if all(t.is_leaf for _, t in tensors) else "history enters step")
        if any("argument written" in s.features for s in step.body):
            features.add("write in graph")
    given, error = trial(b, f"step({', '.join(texts)})")
    if error is not None:
        if "sizes" in features:
            return None
        may_fail = b.rng.random() < 0.5
        features.add("error in step")
        return Candidate(f"{name} = step({', '.join(texts)})", frozenset(features), (), may_fail=may_fail)
    flat = tensors_in(given)
    if any(t.requires_grad for t in flat):
        b.attached.add(name)
    features |= result_features(b, step.returns, flat, [t for _, t in tensors])
    return Candidate(f"{name} = step({', '.join(texts)})", frozenset(features), (name,), ("result",))


def result_features(b: Builder, text: str, given: list[torch.Tensor], arguments: list[torch.Tensor]) -> set[str]:
    """What can be told of a step's results: text, and the tensors in it."""
    features = {"attached result"} if any(t.requires_grad for t in given) else set[str]()
    at = {t.untyped_storage().data_ptr() for t in (*b.tensors().values(), *arguments)}
    if any(t.untyped_storage().data_ptr() in at for t in given):
        features.add("result shares memory")
    if ".grad" in text:
        features.add("result is a gradient")
    return features


def trial(b: Builder, text: str) -> tuple[Any, Exception | None]:
    """What a call would give; everything is as before afterwards."""
    given, error = None, None
    try:
        given = b.read(text)
    except Exception as raised:
        error = raised
    kept = given
    b.rebuild()
    return kept, error


def relations(b: Builder, tensors: list[tuple[str, torch.Tensor]], captured: set[str]) -> set[str]:
    """How the arguments share memory, with each other and with what the step captures."""
    found = set[str]()
    names = {n: t for n, t in b.tensors().items() if n.partition(".")[0] in captured}
    for i, (text, tensor) in enumerate(tensors):
        at = tensor.untyped_storage().data_ptr()
        for other, t in tensors[:i]:
            if t.untyped_storage().data_ptr() == at:
                found.add("same argument twice" if other == text else "arguments that share memory")
        for name, t in names.items():
            if t.untyped_storage().data_ptr() == at:
                found.add("captured argument" if name == text else "argument that shares memory with a capture")
    return found
