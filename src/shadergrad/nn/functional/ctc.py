"""The loss of a sequence without an alignment: connectionist temporal classification."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dtypes import int32
from ...errors import DTypeError, ShapeError
from ...tensor import Tensor, cat, full, host_tensor, where
from .loss_reduction import check_reduction

__all__ = ["ctc_loss"]

NEVER = -math.inf


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log-probability of the targets, summed over all their alignments with the input, with blanks between labels
    (Graves et al., 2006).

    log_probs: (T, N, C) or (T, C), from log_softmax. targets: (N, S), or all concatenated; integers, none of them
    `blank`. The lengths, (N,), are read. reduction: 'none' (N), 'sum', or 'mean', of the losses divided by the lengths of the
    targets. zero_infinity: targets that do not fit their input have a loss and a gradient of 0.
    As in PyTorch, the gradient includes that of the softmax, so it is correct only if log_probs come from log_softmax. The tape has T steps,
    one after the other. ShapeError if shapes and lengths do not fit, DTypeError for targets that are not integers.

    >>> F.ctc_loss(sg.zeros(2, 1, 2).log_softmax(2), sg.tensor([[1]]), [2], [1], reduction="none")
    tensor([0.2877])
    """
    check_reduction(reduction)
    batched = log_probs.ndim == 3
    x: Any = log_probs if batched else log_probs.unsqueeze(1)
    if x.ndim != 3:
        raise ShapeError(f"[ctc_loss] log_probs must be (T, N, C) or (T, C), not {tuple(log_probs.shape)}.")
    if not targets.dtype.is_position:
        raise DTypeError(f"ctc_loss: expected targets of integers, but got {targets.dtype.name}.")
    steps, batch, classes = x.shape
    if not 0 <= blank < classes:
        raise ShapeError(f"blank must be in label range, 0 to {classes - 1}, but it is {blank}")
    of_input, of_target = (_lengths(v, batch, n) for v, n in ((input_lengths, "input"), (target_lengths, "target")))
    if max(of_input, default=0) > steps:
        raise ShapeError(f"Expected input_lengths to have value at most {steps}, but got value {max(of_input)}")
    labels = _labels(targets, of_target, batch, batched)
    loss = _losses(x, labels, of_input, of_target, blank)
    if zero_infinity:
        loss = where(loss == math.inf, 0.0, loss)
    if reduction == "mean":
        divisor = Tensor(np.maximum(of_target, 1), dtype=loss.dtype, device=loss.device)
        return (loss / divisor).mean()
    if reduction == "sum":
        return loss.sum()
    return loss if batched else loss.reshape(())


def _lengths(given: Any, batch: int, what: str) -> list[int]:
    """Lengths on the host."""
    found = np.atleast_1d(given.detach().numpy() if isinstance(given, Tensor) else np.asarray(given))
    if found.dtype.kind not in "iu":
        raise DTypeError(f"{what}_lengths must be integral, not {found.dtype}")
    if found.shape != (batch,):
        raise ShapeError(f"{what}_lengths must be of size batch_size, {batch}, but it is {list(found.shape)}")
    if (found < 0).any():
        raise ShapeError(f"{what}_lengths must not be negative, but they are {found.tolist()}")
    return found.tolist()


def _labels(targets: Tensor, lengths: list[int], batch: int, batched: bool) -> Tensor:
    """Targets as (N, S), S the longest of them."""
    longest = max(lengths, default=0)
    if targets.ndim == 2:
        if targets.shape[0] != batch or targets.shape[1] < longest:
            raise ShapeError(f"Expected targets of ({batch}, at least {longest}), but got {list(targets.shape)}")
        return targets[:, :longest]
    if targets.numel() < sum(lengths):
        raise ShapeError(f"Expected targets of {sum(lengths)} labels in all, but got {targets.numel()}")
    starts = np.cumsum([0, *lengths[:-1]])
    places = starts[:, None] + np.minimum(np.arange(longest), np.maximum(np.array(lengths)[:, None] - 1, 0))
    places = np.minimum(places, max(targets.numel() - 1, 0)).astype(np.int32)
    if not longest:
        return full((batch, 0), 0, dtype=int32, device=targets.device)
    return targets.reshape(-1)[host_tensor(places, device=targets.device)]


def _log_sum(*terms: Any) -> Any:
    """The log of the sum of exponentials; -inf without a gradient if all terms are -inf."""
    top = terms[0].detach()
    for t in terms[1:]:
        top = top.maximum(t.detach())
    base = where(top == NEVER, 0.0, top)
    total: Any = None
    for t in terms:
        part = (t - base).exp()
        total = part if total is None else total + part
    empty = total == 0
    return where(empty, NEVER, where(empty, 1.0, total).log() + base)


def _losses(x: Any, labels: Any, of_input: list[int], of_target: list[int], blank: int) -> Any:
    """(N,) losses: the forward variable over labels with blanks between, step by step."""
    steps, batch, _ = x.shape
    longest = labels.shape[1]
    width = 2 * longest + 1
    between = full((batch, longest, 1), blank, dtype=labels.dtype, device=x.device)
    spread = cat([between, labels.unsqueeze(2)], 2).reshape(batch, 2 * longest)
    states = cat([spread, full((batch, 1), blank, dtype=labels.dtype, device=x.device)], 1)
    differs = states[:, 2:] != states[:, :-2] if width > 2 else None
    emitted = x.gather(2, states.unsqueeze(0).expand(steps, batch, width))
    reached = np.full((batch, width), NEVER)
    reached[:, :2] = 0.0
    alpha = where(host_tensor(reached == 0.0, device=x.device), emitted[0] if steps else x.sum() * 0.0, NEVER)
    running = np.array(of_input)
    for t in range(1, steps):
        terms = [alpha, _moved(alpha, 1)]
        if differs is not None:
            skipped = where(differs, alpha[:, :-2], NEVER)
            terms.append(_moved_by(skipped, 2))
        step = _log_sum(*terms) + emitted[t]
        alpha = where(host_tensor(running > t, device=x.device).unsqueeze(1), step, alpha)
    ends = np.array([[2 * n, max(2 * n - 1, 0)] for n in of_target], np.int32).reshape(batch, 2)
    last = alpha.gather(1, host_tensor(ends, device=x.device))
    some = host_tensor(np.array(of_target) > 0, device=x.device)
    loss = -_log_sum(last[:, 0], where(some, last[:, 1], NEVER))
    if not steps:
        return loss
    inside = host_tensor((np.arange(steps)[:, None] < running)[:, :, None], device=x.device)
    mass = where(inside, x.exp(), 0.0).sum((0, 2))  # its gradient goes through a softmax without a trace
    return where(loss == math.inf, loss, loss + (mass - mass.detach()))


def _moved(alpha: Any, k: int) -> Any:
    return _moved_by(alpha[:, :-k], k)


def _moved_by(part: Any, k: int) -> Any:
    """Shifted by k states, with none before."""
    return part.pad((k, 0), NEVER)
