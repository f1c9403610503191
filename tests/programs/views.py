"""Text of values and of views, drawn at random. In: a random stream, an expression and the tensor that it is under PyTorch."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

# -- values as text


def number(rng: random.Random) -> str:
    return str(float(rng.choice([-3, -2, -1, 1, 2, 3, 4, 5])))


def factor(rng: random.Random) -> str:
    return rng.choice(["0.5", "2.0", "-1.0"])


def literal(rng: random.Random, shape: tuple[int, ...]) -> str:
    if not shape:
        return number(rng)
    return "[" + ", ".join(literal(rng, shape[1:]) for _ in range(shape[0])) + "]"


def fresh(rng: random.Random, shape: tuple[int, ...], extra: str = "") -> str:
    return f"lib.tensor({literal(rng, shape)}{extra})"


# -- views: (kind, expression of a tensor `x` named there)


def view(rng: random.Random, x: str, tensor: torch.Tensor) -> tuple[str, str] | None:
    """A view of a tensor, by kind, drawn at random."""
    kind, make = rng.choice(VIEW_MAKERS)
    text = make(rng, x, tensor)
    return None if text is None else (kind, text)


def a_row(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    return f"{x}[{rng.randrange(-t.shape[0], t.shape[0])}]" if t.ndim >= 1 and t.shape[0] else None


def a_select(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    if not t.ndim or not t.numel():
        return None
    axis = rng.randrange(t.ndim)
    return f"{x}.select({axis}, {rng.randrange(t.shape[axis])})"


def a_slice(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    if not t.ndim or not t.numel():
        return None
    axis = rng.randrange(min(t.ndim, 2))
    start = rng.randrange(t.shape[axis])
    stop = rng.randrange(start + 1, t.shape[axis] + 1)
    return f"{x}[{':, ' * axis}{start}:{stop}]"


def a_step_slice(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    if not t.ndim or not t.numel():
        return None
    axis = rng.randrange(min(t.ndim, 2))
    return f"{x}[{':, ' * axis}{rng.randrange(min(2, t.shape[axis]))}::2]"


def a_narrow(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    if not t.ndim or not t.numel():
        return None
    axis = rng.randrange(t.ndim)
    start = rng.randrange(t.shape[axis])
    return f"{x}.narrow({axis}, {start}, {rng.randrange(1, t.shape[axis] - start + 1)})"


def part(method: str) -> Callable[[random.Random, str, torch.Tensor], str | None]:
    def make(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
        if not t.ndim or not t.numel():
            return None
        axis = rng.randrange(t.ndim)
        if method == "unbind":
            return f"{x}.unbind({axis})[{rng.randrange(t.shape[axis])}]"
        if method == "iteration":
            return f"list({x})[{rng.randrange(t.shape[0])}]"
        size = rng.choice([1, 2])
        count = -(-t.shape[axis] // size) if method == "split" else len(t.chunk(size, axis))
        return f"{x}.{method}({size}, {axis})[{rng.randrange(count)}]"

    return make


def a_transpose(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    return x + rng.choice([".T", ".t()", ".mT", ".transpose(0, 1)", ".swapaxes(0, 1)"]) if t.ndim == 2 else None


def a_permute(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    order = list(range(t.ndim))
    rng.shuffle(order)
    return f"{x}.permute({', '.join(map(str, order))})" if t.ndim >= 2 else None


def an_expand(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    if t.ndim == 2 and t.shape[0] == 1:
        return f"{x}.expand(2, {t.shape[1]})"
    return f"{x}.expand(2, {', '.join(map(str, t.shape))})" if t.ndim == 1 and t.numel() else None


def a_diagonal(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    return f"{x}.diagonal()" if t.ndim == 2 else None


def an_unfold(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    return f"{x}.unfold(0, 2, {rng.choice([1, 2])})" if t.ndim >= 1 and t.shape[0] >= 2 else None


def an_unsqueeze(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    return f"{x}.unsqueeze({rng.randrange(-1, t.ndim + 1)})" if t.ndim <= 2 else None


def a_squeeze(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    return f"{x}.squeeze()" if t.ndim else None


def a_flatten(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    return rng.choice([f"{x}.flatten()", f"{x}.ravel()"]) if t.ndim else None


def shapes_of(rng: random.Random, t: torch.Tensor) -> str:
    return rng.choice(
        [f"{t.numel()}", "-1", f"1, {t.numel()}", f"{t.numel()}, 1", ", ".join(map(str, t.shape[::-1])) or "1"]
    )


def a_view(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    return f"{x}.view({shapes_of(rng, t)})" if t.is_contiguous() and t.numel() else None


def a_reshape(rng: random.Random, x: str, t: torch.Tensor) -> str | None:
    return f"{x}.reshape({shapes_of(rng, t)})" if t.numel() else None


VIEW_MAKERS: list[tuple[str, Callable[[random.Random, str, torch.Tensor], str | None]]] = [
    ("row", a_row),
    ("select", a_select),
    ("slice", a_slice),
    ("step slice", a_step_slice),
    ("narrow", a_narrow),
    ("split", part("split")),
    ("chunk", part("chunk")),
    ("unbind", part("unbind")),
    ("iteration", part("iteration")),
    ("transpose", a_transpose),
    ("permute", a_permute),
    ("expand", an_expand),
    ("diagonal", a_diagonal),
    ("unfold", an_unfold),
    ("unsqueeze", an_unsqueeze),
    ("squeeze", a_squeeze),
    ("flatten", a_flatten),
    ("view", a_view),
    ("reshape", a_reshape),
    (
        "all of it",
        lambda rng, x, t: rng.choice([f"{x}.view_as({x})", f"{x}[:]" if t.ndim else f"{x}[...]", f"{x}[...]"]),
    ),
    ("newaxis", lambda rng, x, t: f"{x}[None]" if t.ndim <= 2 else None),
    ("detach", lambda rng, x, t: f"{x}.detach()"),
    ("data", lambda rng, x, t: f"{x}.data"),
    ("no-op", lambda rng, x, t: x + rng.choice([".contiguous()", ".float()", ".to(lib.float32)"])),
]


def index_text(rng: random.Random, t: torch.Tensor) -> tuple[str, str]:
    """What stands in brackets of an assignment, and its feature."""
    size = t.shape[0]
    choice = rng.randrange(6)
    if choice == 0:
        return str(rng.randrange(-size, size)), "set row"
    if choice == 1:
        start = rng.randrange(size)
        return f"{start}:{rng.randrange(start + 1, size + 1)}", "set slice"
    if choice == 2:
        return "::2", "set step slice"
    if choice == 3:
        positions = sorted(rng.sample(range(size), rng.randrange(1, size + 1)))
        if rng.random() < 0.5:
            return f"lib.tensor({positions})", "set int64 index"
        return f"lib.tensor({positions}, dtype=lib.int32)", "set index"
    if choice == 4:
        return "...", "set all"
    if t.ndim == 2:
        return f":, {rng.randrange(t.shape[1])}", "set column"
    return str(rng.randrange(size)), "set row"
