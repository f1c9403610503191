"""L-BFGS, with a line search that satisfies the strong Wolfe conditions.

Its control flow depends on losses, so every iteration waits for the device a few times, and it cannot be part of a compiled step
(the closure's computation can be one). Directions and history stay on the device; the cpu device's short directions are computed in
NumPy. Reference: torch.optim.LBFGS, minFunc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..drive.tracing import current
from ..dtypes import float32, float64
from ..errors import CompileError
from ..graph.node import grad_mode
from ..tensor import Tensor, cat, flush, stack, zeros
from .optimizer import Optimizer, OptimizerError, ParamGroup, as_array
from .state import pairs_of

LISTS = ("old_dirs", "old_stps", "ro")  # the state's names, as PyTorch's
TENSORS = ("d", "H_diag", "prev_flat_grad")
# For these dtypes, NumPy computes the directions of the cpu device, because calling a program takes longer than one iteration.
IN_NUMPY = (float32, float64)
MOST_IN_NUMPY = 1 << 16  # elements of them, beyond which threads pay
NUMBERS = ("func_evals", "n_iter", "t", "prev_loss")


class LineSearchError(OptimizerError, RuntimeError):
    """An unknown line search. PyTorch raises RuntimeError when a step is taken."""


class LBFGS(Optimizer):
    """Directions from the last `history_size` changes of parameters and gradients (Nocedal, 1980).

    As torch.optim.LBFGS. line_search_fn: None takes steps of length lr (the first: lr * min(1, 1 / sum of |gradient|));
    'strong_wolfe' searches along each direction. A step() ends after max_iter iterations or max_eval losses (max_iter *
    5 / 4 by default), at a gradient up to tolerance_grad, or at a change below tolerance_change.
    OptimizerError for several groups, or a step() without closure; LineSearchError for another line_search_fn;
    CompileError inside a compiled step, because it reads losses.

    >>> w = sg.tensor([4.0], requires_grad=True)
    >>> optimizer = sg.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 1.0) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure), w
    (tensor(9.), tensor([1.], requires_grad=True))
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if self.param_groups:
            raise OptimizerError("LBFGS doesn't support per-parameter options (parameter groups), but got 2 groups")
        super().add_param_group(param_group)

    def check(self, group: ParamGroup) -> None:
        super().check(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise LineSearchError(
                f"only 'strong_wolfe' is supported, but got line_search_fn={group['line_search_fn']!r}"
            )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to max_iter iterations; returns the loss before the first.

        closure: clears the gradients, computes the loss, calls backward() and returns the loss. It runs many times.
        """
        if current.trace is not None:
            raise CompileError(
                "LBFGS.step() reads losses to decide how to go on, which a compiled step cannot do. "
                "Hint: call it outside; its closure may call a compiled function."
            )
        if closure is None:
            raise OptimizerError("LBFGS.step() needs a closure that computes the loss again and returns it.")
        with grad_mode(False):
            return self._minimise(closure)

    # -- the iteration; all vectors are flat: the concatenated parameters

    def _minimise(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = self._loss(closure)
        gradient = self._gradient()
        loss, steepest = numbers(first, gradient.abs().max())
        evaluations = 1
        state["func_evals"] += 1
        if steepest <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            self._turn(state, gradient, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = gradient, loss
            direction = state["d"]
            slope, longest, total = numbers(gradient.dot(direction), direction.abs().max(), gradient.abs().sum())
            state["t"] = length = (min(1.0, 1.0 / total if total else 1.0) if state["n_iter"] == 1 else 1.0) * group[
                "lr"
            ]
            if slope > -group["tolerance_change"]:
                break
            origin = [p.detach().clone() for p in self._parts()]
            if group["line_search_fn"] is not None:
                along = partial(self._trial, closure, origin, direction)
                start = Trial(0.0, loss, slope, steepest, gradient)
                found, count = strong_wolfe(along, start, length, longest, group["max_eval"] - evaluations)
                state["t"] = length = found.length
                loss, steepest, gradient = found.loss, found.steepest, found.gradient
                self._move(origin, length, direction)
            else:
                self._move(origin, length, direction)
                count = 0
                if iteration != group["max_iter"]:  # the last loss would not be used
                    value = self._loss(closure)
                    gradient = self._gradient()
                    loss, steepest = numbers(value, gradient.abs().max())
                    count = 1
            evaluations += count
            state["func_evals"] += count
            if (
                evaluations >= group["max_eval"]
                or steepest <= group["tolerance_grad"]
                or longest * abs(length) <= group["tolerance_change"]
                or abs(loss - state["prev_loss"]) < group["tolerance_change"]
            ):
                break
        flush()
        return first

    def _turn(self, state: dict[str, Any], gradient: Tensor, history: int) -> None:
        """The next direction: the gradient times the inverse Hessian that the history implies (two-loop recursion)."""
        if state["n_iter"] == 1:
            state.update(d=-gradient, old_dirs=[], old_stps=[], ro=[], H_diag=scalar(1.0, gradient))
            return
        changes, steps, weights = (state[name] for name in LISTS)
        y = gradient - state["prev_flat_grad"]
        s = state["d"] * scalar(state["t"], gradient)
        curvature, length = y.dot(s), y.dot(y)
        if numbers(curvature)[0] > 1e-10:
            if len(changes) == history:
                for values in (changes, steps, weights):
                    values.pop(0)
            changes.append(y)
            steps.append(s)
            weights.append(1.0 / curvature)
            state["H_diag"] = curvature / length
        vectors = list(zip(changes, steps, weights, strict=True))
        if gradient.device.type == "cpu" and gradient.dtype in IN_NUMPY and gradient.numel() <= MOST_IN_NUMPY:
            arrays = [(y.numpy(), s.numpy(), weight.numpy()) for y, s, weight in vectors]
            found = two_loops((-gradient).numpy(), arrays, state["H_diag"].numpy(), array_dot, lambda: None)
            state["d"] = Tensor(found, dtype=gradient.dtype, device=gradient.device)
        else:  # each iteration is the same small program, for any length of the history
            state["d"] = two_loops(-gradient, vectors, state["H_diag"], Tensor.dot, flush)

    def _trial(self, closure: Callable[[], Any], origin: list[Tensor], direction: Tensor, length: float) -> Trial:
        self._move(origin, length, direction)
        value = self._loss(closure)
        gradient = self._gradient()
        loss, slope, steepest = numbers(value, gradient.dot(direction), gradient.abs().max())
        return Trial(length, loss, slope, steepest, gradient)

    def _loss(self, closure: Callable[[], Any]) -> Tensor:
        with grad_mode(True):
            loss = closure()
        return loss.detach() if isinstance(loss, Tensor) else scalar(float(loss), self._parts()[0])

    def _parts(self) -> list[Tensor]:
        """The parameters, complex ones as pairs of real numbers."""
        return [pairs_of(p) for p in self.param_groups[0]["params"]]

    def _gradient(self) -> Tensor:
        pieces = []
        for p, part in zip(self.param_groups[0]["params"], self._parts(), strict=True):
            grad = p.grad
            pieces.append(
                zeros(part.numel(), dtype=part.dtype, device=p.device) if grad is None else pairs_of(grad).reshape(-1)
            )
        return cat(pieces)

    def _move(self, origin: list[Tensor], length: float, direction: Tensor) -> None:
        """Put the parameters at origin + length * direction."""
        step = direction * scalar(length, direction)
        offset = 0
        for p, before in zip(self._parts(), origin, strict=True):
            p.copy_(before + step[offset : offset + p.numel()].reshape(p.shape))
            offset += p.numel()
        flush()  # every loss is then computed by the same program, from parameters with values

    # -- saving

    def load_state(self, p: Tensor, saved: dict[str, Any], group: ParamGroup) -> None:
        def tensor(value: Any) -> Tensor:
            return Tensor(as_array(value), dtype=pairs_of(p).dtype, device=p.device)

        state: dict[str, Any] = {}
        for name, value in saved.items():
            if name in LISTS:
                state[name] = [tensor(v) for v in value]
            elif name in TENSORS:
                state[name] = tensor(value)
            elif name in NUMBERS:
                state[name] = float(value) if name in ("t", "prev_loss") else int(value)
        self.state[p] = state


V = TypeVar("V", Tensor, np.ndarray)


def two_loops(
    q: V, history: Sequence[tuple[V, V, V]], scale: V, dot: Callable[[V, V], V], end_round: Callable[[], None]
) -> V:
    """The inverse Hessian that the history implies times q (n,), by the recursion.

    history: changes of the gradient (n,), steps (n,), and 1 over their products (). scale: of the Hessian's diagonal, ().
    """
    along: list[V] = []
    for change, step, weight in reversed(history):
        along.append(dot(step, q) * weight)
        q = q - change * along[-1]
        end_round()
    q = q * scale
    for (change, step, weight), a in zip(history, reversed(along), strict=True):
        q = q + step * (a - dot(change, q) * weight)
        end_round()
    return q


def array_dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of vectors (n,). A BLAS's bits would depend on the number of its threads."""
    return (a * b).sum()


def numbers(*values: Tensor) -> list[float]:
    """The values of one-element tensors, in one read."""
    wanted = stack([v.reshape(()).to(dtype=values[-1].dtype) for v in values])
    flush(views=True)  # computed with all live values, so that the program of the previous iteration is used again
    return wanted.tolist()


def scalar(value: float, like: Tensor) -> Tensor:
    """A number as an input of the program that uses it, so that another number needs no other program."""
    return Tensor(np.array(value), dtype=like.dtype, device=like.device)


# ---------------------------------------------------------------------------------- the line search


class Trial(NamedTuple):
    """A point on the line: its distance, the loss there, its slope along the line, the gradient and its largest entry."""

    length: float
    loss: float
    slope: float
    steepest: float
    gradient: Tensor


def strong_wolfe(
    trial: Callable[[float], Trial],
    start: Trial,
    length: float,
    longest: float,
    max_ls: int = 25,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
) -> tuple[Trial, int]:
    """A point with a sufficient decrease (c1) and a sufficiently flat slope (c2), and the number of points tried.

    length: the first step length to try. longest: the largest entry of the direction. Nocedal and Wright, 2006, algorithms
    3.5 and 3.6; ported from https://github.com/torch/optim/blob/master/lswolfe.lua by way of PyTorch.
    """
    search = _LineSearch(trial, start, max_ls, c1, c2)
    point, bracket = search.widen(length)
    if point is None:
        point = search.narrow(bracket, longest, tolerance_change)
    return point, search.count


class _LineSearch:
    """A search from `start` along a direction, of at most so many rounds. count: the points tried."""

    def __init__(self, trial: Callable[[float], Trial], start: Trial, rounds: int, c1: float, c2: float) -> None:
        self._trial = trial
        self._start = start
        self._rounds = rounds
        self._c1 = c1
        self._c2 = c2
        self.count = 0

    def widen(self, length: float) -> tuple[Trial | None, list[Trial]]:
        """Increasing step lengths, until a good point is found, or bracketed by two (algorithm 3.5)."""
        new, before = self._try(length), self._start
        while self._rounds:
            too_far = self._is_too_high(new) or (self.count > 2 and new.loss >= before.loss)
            if not too_far and self._is_flat(new):
                return new, []
            if too_far or new.slope >= 0:
                return None, [before, new]
            reach = (new.length + 0.01 * (new.length - before.length), new.length * 10)
            length = cubic_minimum(before, new, reach)
            before, new = new, self._try(length)
            self._rounds -= 1
        return None, [self._start, new]

    def narrow(self, bracket: list[Trial], longest: float, tolerance_change: float) -> Trial:
        """The good point in a bracket, or the bracket's lower end (algorithm 3.6). Of equal losses, the first of
        the bracket counts as the lower.
        """
        stuck = False
        low = _lower(bracket)
        for _ in range(self._rounds):
            left, right = sorted(point.length for point in bracket)
            if (right - left) * longest < tolerance_change:
                break
            length, stuck = _between(left, right, cubic_minimum(bracket[0], bracket[1]), stuck)
            new = self._try(length)
            if self._is_too_high(new) or new.loss >= bracket[low].loss:
                bracket[1 - low] = new
                low = _lower(bracket)
                continue
            if self._is_flat(new):
                return new
            if new.slope * (bracket[1 - low].length - bracket[low].length) >= 0:
                bracket[1 - low] = bracket[low]
            bracket[low] = new
        return bracket[low]

    def _try(self, length: float) -> Trial:
        self.count += 1
        return self._trial(length)

    def _is_flat(self, point: Trial) -> bool:
        return abs(point.slope) <= -self._c2 * self._start.slope

    def _is_too_high(self, point: Trial) -> bool:
        return point.loss > self._start.loss + self._c1 * point.length * self._start.slope


def _lower(bracket: list[Trial]) -> int:
    return 0 if bracket[0].loss <= bracket[1].loss else 1


def _between(left: float, right: float, length: float, stuck: bool) -> tuple[float, bool]:
    """A length between two, and whether it is near one of them; if that happens twice in a row, it is moved away from there."""
    margin = 0.1 * (right - left)
    near = min(right - length, length - left) < margin
    if near and (stuck or length >= right or length <= left):
        return (right - margin if abs(length - right) < abs(length - left) else left + margin), False
    return length, near


def cubic_minimum(a: Trial, b: Trial, bounds: tuple[float, float] | None = None) -> float:
    """The minimum of the cubic through two points with these slopes, within bounds (by default between them)."""
    if a.length > b.length:
        a, b = b, a
    low, high = bounds or (a.length, b.length)
    try:
        d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.length - b.length)
        d2 = math.sqrt(d1 * d1 - a.slope * b.slope)
        least = b.length - (b.length - a.length) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    except (ValueError, ZeroDivisionError, OverflowError):  # no minimum
        return (low + high) / 2.0
    return min(max(least, low), high) if math.isfinite(least) else (low + high) / 2.0
