"""Random graphs of views, maps, reductions, products and reads by index: the devices agree, and fusing changes nothing.

Hypothesis writes a graph: leaves, then instructions on values made before. It is run as one graph on each device, and on
webgpu once more with everything computed after each instruction. Functions with kinks are moved off the values that
graphs meet exactly (zeros of padding, equal elements), where rounding would decide the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import shadergrad as sg
from helpers import assert_close

PARTS, EXAMPLES = 4, 15
MOST_ELEMENTS = 400
SIZES = (1, 2, 3, 4, 5, 7, 8)
Shape = tuple[int, ...]

MAPS: dict[str, Callable[[Any], Any]] = {
    "tanh": lambda x: x.tanh(),
    "sin": lambda x: x.sin(),
    "exp": lambda x: (x.tanh() * 1.5).exp(),
    "sigmoid": lambda x: x.sigmoid(),
    "relu": lambda x: (x - 0.12345).relu(),
    "abs": lambda x: (x + 0.54321).abs(),
    "gelu": lambda x: x.gelu(),
    "square": lambda x: x.tanh().square(),
    "rsqrt": lambda x: (x * x + 0.7).rsqrt(),
    "affine": lambda x: 0.5 - x * 0.25,
    "centre": lambda x: x - x.mean(),
}
PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x.tanh() * y,
    "div": lambda x, y: x / (y * y + 1.0),
    "maximum": lambda x, y: x.maximum(y + 0.98765),
    "where": lambda x, y: sg.where(x > 0.34567, x, y),
}
REDUCTIONS: dict[str, Callable[[Any, int, bool], Any]] = {
    "sum": lambda x, dim, keepdim: x.sum(dim, keepdim=keepdim),
    "mean": lambda x, dim, keepdim: x.mean(dim, keepdim=keepdim),
    "logsumexp": lambda x, dim, keepdim: x.logsumexp(dim, keepdim=keepdim),
    "amax": lambda x, dim, keepdim: x.detach().amax(dim, keepdim=keepdim),
}
ROWS: dict[str, Callable[[Any, int], Any]] = {
    "softmax": lambda x, dim: x.softmax(dim),
    "log_softmax": lambda x, dim: x.log_softmax(dim),
    "layer_norm": lambda x, dim: (
        (x - x.mean(dim, keepdim=True)) * (x.var(dim, correction=0, keepdim=True) + 0.3).rsqrt()
    ),
}


@dataclass(frozen=True)
class Step:
    """An instruction: what it does to values, by number, and how it reads."""

    text: str
    operands: tuple[int, ...]
    apply: Callable[..., Any]


@dataclass(frozen=True)
class RandomGraph:
    leaves: tuple[Shape, ...]
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        lines = [f"v{k} = leaf{s}" for k, s in enumerate(self.leaves)]
        lines += [f"v{len(self.leaves) + k} = {s.text}" for k, s in enumerate(self.steps)]
        return "\n".join(["RandomGraph:", *lines])

    def run(self, device: str, *, unfused: bool = False) -> list[np.ndarray]:
        """The values nobody else reads, and the gradients of a weighted sum of them by the leaves."""
        rng = np.random.default_rng(1)
        values = [
            sg.tensor(rng.standard_normal(s).astype(np.float32), device=device, requires_grad=True) for s in self.leaves
        ]
        leaves = list(values)
        for step in self.steps:
            values.append(step.apply(*(values[k] for k in step.operands)))
            if unfused:
                sg.sync(device)
        used = {k for s in self.steps for k in s.operands}
        ends = [v for k, v in enumerate(values) if k not in used]
        weights = [sg.tensor(rng.standard_normal(tuple(e.shape)).astype(np.float32), device=device) for e in ends]
        total: Any = sum((e * w).sum() for e, w in zip(ends, weights, strict=True))
        if unfused:
            sg.sync(device)
        found = sg.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else ()
        return [t.detach().numpy() for t in (*ends, *(g for g in found if g is not None))]


@st.composite
def random_graphs(draw: Any) -> RandomGraph:  # noqa: C901  # a branch for each kind of step
    leaves = tuple(draw(st.lists(st.lists(st.sampled_from(SIZES), max_size=3).map(tuple), min_size=1, max_size=3)))
    shapes: list[Shape] = list(leaves)
    steps: list[Step] = []

    def add(text: str, operands: tuple[int, ...], shape: Shape, apply: Callable[..., Any]) -> None:
        if int(np.prod(shape)) <= MOST_ELEMENTS and len(shape) <= 4:
            shapes.append(tuple(int(n) for n in shape))
            steps.append(Step(text, operands, apply))

    for _ in range(draw(st.integers(3, 9))):
        k = draw(st.integers(0, len(shapes) - 1))
        shape, v = shapes[k], f"v{k}"
        kinds = ["map", "pair", "expand", "reshape"]
        if shape:
            kinds += ["reduce", "row", "flip", "slice", "pad", "permute", "cat", "gather", "dot", "gram", "step"]
        kind = draw(st.sampled_from(kinds))
        axis = draw(st.integers(0, len(shape) - 1)) if shape else 0
        if kind == "map":
            name = draw(st.sampled_from(sorted(MAPS)))
            add(f"{name}({v})", (k,), shape, MAPS[name])
        elif kind == "pair":
            fitting = [j for j, s in enumerate(shapes) if _broadcast(shape, s) is not None]
            j = draw(st.sampled_from(fitting))
            name = draw(st.sampled_from(sorted(PAIRS)))
            add(f"{name}({v}, v{j})", (k, j), _broadcast(shape, shapes[j]) or (), PAIRS[name])
        elif kind == "reduce":
            name, keep = draw(st.sampled_from(sorted(REDUCTIONS))), draw(st.booleans())
            left = tuple(1 if a == axis else n for a, n in enumerate(shape) if keep or a != axis)
            add(
                f"{name}({v}, {axis}, {keep})",
                (k,),
                left,
                lambda x, f=REDUCTIONS[name], a=axis, keep=keep: f(x, a, keep),
            )
        elif kind == "row":
            name = draw(st.sampled_from(sorted(ROWS)))
            add(f"{name}({v}, {axis})", (k,), shape, lambda x, f=ROWS[name], a=axis: f(x, a))
        elif kind == "flip":
            add(f"flip({v}, {axis})", (k,), shape, lambda x, a=axis: x.flip(a))
        elif kind == "slice":
            start = draw(st.integers(0, shape[axis] - 1))
            step = draw(st.integers(1, 3))
            key = (slice(None),) * axis + (slice(start, None, step),)
            size = len(range(start, shape[axis], step))
            add(
                f"{v}[axis {axis}: {start}::{step}]",
                (k,),
                (*shape[:axis], size, *shape[axis + 1 :]),
                lambda x, key=key: x[key],
            )
        elif kind == "step":
            add(f"{v}[{shape[0] - 1}]", (k,), shape[1:], lambda x, at=shape[0] - 1: x[at])
        elif kind == "pad":
            low, high = draw(st.integers(0, 2)), draw(st.integers(0, 3))
            padding = [0, 0] * (len(shape) - 1 - axis) + [low, high]
            add(
                f"pad({v}, axis {axis}, {low}, {high})",
                (k,),
                (*shape[:axis], shape[axis] + low + high, *shape[axis + 1 :]),
                lambda x, padding=padding: x.pad(padding, 0.25),
            )
        elif kind == "permute":
            axes = draw(st.permutations(range(len(shape))))
            add(
                f"permute({v}, {axes})",
                (k,),
                tuple(shape[a] for a in axes),
                lambda x, axes=tuple(axes): x.permute(axes),
            )
        elif kind == "expand":
            n = draw(st.sampled_from(SIZES))
            add(f"expand({v}, {n})", (k,), (n, *shape), lambda x, s=(n, *shape): x.expand(s))
        elif kind == "reshape":
            new = draw(st.sampled_from(_factorings(int(np.prod(shape)))))
            add(f"reshape({v}, {new})", (k,), new, lambda x, new=new: x.reshape(new))
        elif kind == "cat":
            fitting = [
                j
                for j, s in enumerate(shapes)
                if len(s) == len(shape)
                and all(a == axis or m == n for a, (m, n) in enumerate(zip(s, shape, strict=True)))
            ]
            j = draw(st.sampled_from(fitting))
            joined = (*shape[:axis], shape[axis] + shapes[j][axis], *shape[axis + 1 :])
            add(f"cat({v}, v{j}, {axis})", (k, j), joined, lambda x, y, a=axis: sg.cat([x, y], a))
        elif kind == "gather":
            positions = draw(st.lists(st.integers(0, shape[axis] - 1), min_size=1, max_size=6))
            picked = (*shape[:axis], len(positions), *shape[axis + 1 :])
            add(
                f"{v}[axis {axis}: {positions}]",
                (k,),
                picked,
                lambda x, a=axis, p=positions: x.index_select(a, sg.tensor(p, device=x.device)),
            )
        elif kind == "dot":
            n = draw(st.sampled_from(SIZES))
            weight = np.random.default_rng(n).standard_normal((shape[-1], n)).astype(np.float32) * 0.4
            add(
                f"{v} @ constant {weight.shape}",
                (k,),
                (*shape[:-1], n),
                lambda x, w=weight: x @ sg.tensor(w, device=x.device),
            )
        elif len(shape) >= 2:
            add(f"{v} @ {v}.mT", (k,), (*shape[:-1], shape[-2]), lambda x: x.tanh() @ (x * 0.3).mT)
    return RandomGraph(leaves, tuple(steps))


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    try:
        return tuple(np.broadcast_shapes(a, b))
    except ValueError:
        return None


def _factorings(size: int) -> list[Shape]:
    found: list[Shape] = [(size,), (1, size), (size, 1)]
    found += [(m, size // m) for m in range(2, size) if size % m == 0]
    found += [(2, m // 2, size // m) for m in range(4, size, 2) if size % m == 0]
    return found


def assert_agree(actual: list[np.ndarray], expected: list[np.ndarray], what: str) -> None:
    """Relative to the largest element, for sums may cancel."""
    assert len(actual) == len(expected)
    for k, (a, b) in enumerate(zip(actual, expected, strict=True)):
        scale = max(1.0, float(np.abs(b).max(initial=0.0)))
        assert_close(a, b, 1e-4, 1e-5 * scale, f"{what}, result {k}")


def for_random_graphs(part: int, check: Callable[[RandomGraph], None]) -> None:
    """The same graphs in every run; each part has its own."""
    given_graphs = given(random_graphs())(check)
    options = settings(
        max_examples=EXAMPLES,
        derandomize=False,  # by its own seed instead
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=cast(Any, list(HealthCheck)),  # typed as a list of its metaclass
    )
    seed(part)(options(given_graphs))()


@pytest.mark.parametrize("part", range(PARTS))
def test_random_graphs_agree_between_devices(part: int, webgpu: str) -> None:
    """Forward and backward, from float32 leaves."""

    def check(graph: RandomGraph) -> None:
        assert_agree(graph.run(webgpu), graph.run("cpu"), "webgpu against cpu")

    for_random_graphs(part, check)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_graphs_are_the_same_fused_and_unfused(part: int, webgpu: str) -> None:
    def check(graph: RandomGraph) -> None:
        assert_agree(graph.run(webgpu), graph.run(webgpu, unfused=True), "one graph against one operation at a time")

    for_random_graphs(part, check)
