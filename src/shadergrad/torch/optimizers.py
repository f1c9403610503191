"""PyTorch's optimizers over lists (`foreach`, their default on a device), with one operator for a list of parameters in place of a dozen.

In: the lists that an optimizer gives to its function over lists. Out: the same new values, in the same tensors; the state keeps
PyTorch's form, with steps counted on the host, so the factors that depend on them are numbers. Lists that one operator cannot update as PyTorch
would (halves, other devices, counts on the device, tensors as rates, memory that two parameters share) go to PyTorch's own function.
https://docs.pytorch.org/docs/stable/optim.html#algorithms
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

import shadergrad as sg

from ..tensor.composed import composed
from . import private
from .sequences import followed
from .storage import cell_of, constant, is_ours, read, write

Formula = Callable[..., tuple[Any, ...]]
Columns = Sequence[list[torch.Tensor]]
Numbers = tuple[float | bool | None, ...]
_TYPES = (torch.Tensor, torch.nn.Parameter)  # a subclass may do more in its operators than to compute
_ONE = torch.tensor(1.0)


def _gradient(p: Any, g: Any, decay: Any, is_negated: bool) -> Any:
    """The gradient of the function to minimise, with weight decay as a part of it."""
    g = -g if is_negated else g
    return g if decay is None else g + p * decay


def _adam(
    values: Any, is_negated: Any, decay: Any, kept: Any, new: Any, beta: Any, of: Any, eps: Any, rate: Any, root: Any
) -> Any:
    p, g, m, v, *largest = values
    g = _gradient(p, g, decay, is_negated)
    p = p if kept is None else p * kept
    m, v = m + (g - m) * new, v * beta + g * g * of
    largest = [sg.maximum(x, v) for x in largest]
    denominator = (largest[0] if largest else v).sqrt() / root + eps
    return p + m / denominator * rate, m, v, *largest


def _sgd(values: Any, is_negated: Any, decay: Any, rate: Any, momentum: Any, of: Any, is_nesterov: Any) -> Any:
    p, g, *buffers = values
    g = _gradient(p, g, decay, is_negated)
    if not buffers:
        return (p + g * rate,)
    buffer = buffers[0] * momentum + g * of
    return p + (g + buffer * momentum if is_nesterov else buffer) * rate, buffer


def _adagrad(values: Any, is_negated: Any, decay: Any, rate: Any, eps: Any) -> Any:
    p, g, total = values
    g = _gradient(p, g, decay, is_negated)
    total = total + g * g
    return p + g * rate / (total.sqrt() + eps), total


def _rmsprop(
    values: Any, is_negated: Any, decay: Any, rate: Any, alpha: Any, of: Any, eps: Any, momentum: Any, is_centered: Any
) -> Any:
    p, g, square, *rest = values
    g = _gradient(p, g, decay, is_negated)
    square, mean = square * alpha + g * g * of, []
    if is_centered:
        mean = [rest[0] + (g - rest[0]) * of]
    root = (square - mean[0] * mean[0] if is_centered else square).sqrt() + eps
    if momentum is None:
        return p + g / root * rate, square, *mean
    buffer = rest[-1] * momentum + g / root
    return p + buffer * rate, square, *mean, buffer


def _adamax(values: Any, is_negated: Any, decay: Any, new: Any, beta: Any, eps: Any, rate: Any) -> Any:
    p, g, m, most = values
    g = _gradient(p, g, decay, is_negated)
    m, most = m + (g - m) * new, sg.maximum(most * beta, g.abs() + eps)
    return p + m / most * rate, m, most


def _adadelta(values: Any, is_negated: Any, decay: Any, rate: Any, rho: Any, of: Any, eps: Any) -> Any:
    p, g, square, moved = values
    g = _gradient(p, g, decay, is_negated)
    square = square * rho + g * g * of
    delta = (moved + eps).sqrt() / (square + eps).sqrt() * g
    return p + delta * rate, square, moved * rho + delta * delta * of


class Update:
    """An optimizer's step of a list of parameters, as an operator that sequences.py records and replays.

    formula: from the values of a parameter, its gradient and its state, and the optimizer's numbers, to the new values of the parameter and its state.
    """

    tags = (torch.Tag.pointwise,)  # of the operator: a tensor may replace a number that changes

    def __init__(self, formula: Formula) -> None:
        def over_lists(count: int, length: int, *given: Any) -> tuple[Any, ...]:
            """New values, column by column, from the numbers and then the columns."""
            numbers, values = given[: -count * length], given[-count * length :]
            made = [formula(values[k::length], *numbers) for k in range(length)]
            return tuple([value for column in zip(*made, strict=True) for value in column])

        self._whole = composed(over_lists, is_patient=True)
        self._call = followed(self, self._run)

    def _run(self, *given: Any) -> Any:
        columns = [a for a in given if type(a) is list]
        if not _is_plain(columns):
            return NotImplemented
        numbers = [_number(a) for a in given if type(a) is not list]
        found = self._whole(len(columns), len(columns[0]), *numbers, *[read(x) for column in columns for x in column])
        for x, value in zip(_written(columns), found, strict=True):
            write(x, value)
        return None

    def __call__(self, columns: Columns, numbers: Numbers) -> bool:
        """Write the new values of columns: parameters, gradients and states. False, and nothing is written, if the lists are not plain."""
        if self._call(*columns, *numbers) is NotImplemented:
            return False
        torch.autograd.graph.increment_version(_written(columns))
        return True


def _written(columns: Columns) -> list[torch.Tensor]:
    """All tensors but the gradients."""
    return [x for column in (columns[0], *columns[2:]) for x in column]


def _number(a: Any) -> Any:
    if type(a) is float:
        return constant(a)
    return read(a) if isinstance(a, torch.Tensor) else a


def _is_plain(columns: Columns) -> bool:
    """Whether lists are of equal lengths, of tensors of the device in float32, whose memory no two of them share; those that are written, in rows."""
    cells: set[int] = set()
    for k, column in enumerate(columns):
        if len(column) != len(columns[0]):
            return False
        for x, p in zip(column, columns[0], strict=True):
            if type(x) not in _TYPES or not is_ours(x) or x.dtype is not torch.float32 or x.shape != p.shape:
                return False
            if k != 1 and not x.is_contiguous():
                return False
            cells.add(id(cell_of(x)))
    return len(cells) == len(columns) * len(columns[0])


def _is_usual(params: Any, numbers: Any) -> bool:
    """Whether an optimizer's step runs as most do: on the device, without gradients or modes, and with numbers as rates."""
    return (
        is_ours(params[0])
        and all(isinstance(n, (int, float)) for n in numbers)
        and not (torch.is_grad_enabled() or torch.is_inference_mode_enabled() or private.has_modes())
    )


def _float(n: Any) -> float | None:
    """A factor; None if it is zero, where a formula leaves its term out."""
    return float(n) if n else None


def _step(update: Update, columns: Columns, steps: list[torch.Tensor], numbers_at: Callable[[float], Numbers]) -> bool:
    """Update lists, and count their steps. numbers_at: the formula's numbers in the step of a number. False, and nothing is done, if PyTorch's own function must."""
    if not all(type(s) is torch.Tensor and s.is_cpu for s in steps):
        return False
    counts = [s.item() + 1 for s in steps]
    if counts.count(counts[0]) == len(counts):
        if not update(columns, numbers_at(counts[0])):
            return False
    else:
        if not _is_plain(columns):
            return False
        for count in dict.fromkeys(counts):
            part = [[x for x, c in zip(column, counts, strict=True) if c == count] for column in columns]
            update(part, numbers_at(count))
    private.add_to_each(steps, _ONE, alpha=1.0)
    return True


ADAM, SGD, ADAGRAD, RMSPROP, ADAMAX, ADADELTA = map(Update, (_adam, _sgd, _adagrad, _rmsprop, _adamax, _adadelta))


def adam(
    params: Any, grads: Any, exp_avgs: Any, exp_avg_sqs: Any, max_exp_avg_sqs: Any, state_steps: Any, grad_scale: Any, found_inf: Any, *,
    amsgrad: bool, has_complex: bool, beta1: Any, beta2: Any, lr: Any, weight_decay: Any, eps: Any, maximize: bool, capturable: bool,
    differentiable: bool, decoupled_weight_decay: bool,
) -> bool:  # fmt: skip
    columns = [params, grads, exp_avgs, exp_avg_sqs, *([max_exp_avg_sqs] if amsgrad else [])]
    if capturable or differentiable or grad_scale is not None or found_inf is not None:
        return False
    if not _is_usual(params, (lr, beta1, beta2, weight_decay, eps)):
        return False
    decay, kept = _float(weight_decay), None
    if decay is not None and decoupled_weight_decay:
        decay, kept = None, float(1 - lr * weight_decay)

    def at(count: float) -> Numbers:
        rate, root = -lr / (1 - beta1**count), (1 - beta2**count) ** 0.5
        return maximize, decay, kept, float(1 - beta1), float(beta2), float(1 - beta2), float(eps), rate, root

    return _step(ADAM, columns, state_steps, at)


def sgd(
    params: Any, grads: Any, momentum_buffer_list: Any, grad_scale: Any, found_inf: Any, *, weight_decay: Any, momentum: Any, lr: Any,
    dampening: Any, nesterov: bool, maximize: bool, has_sparse_grad: bool,
) -> bool:  # fmt: skip
    columns = [params, grads, *([momentum_buffer_list] if momentum else [])]
    if has_sparse_grad or grad_scale is not None or found_inf is not None:
        return False
    if not _is_usual(params, (lr, momentum, dampening, weight_decay)):
        return False
    return SGD(columns, (maximize, _float(weight_decay), float(-lr), float(momentum), float(1 - dampening), nesterov))


def adagrad(
    params: Any, grads: Any, state_sums: Any, state_steps: Any, grad_scale: Any, found_inf: Any, *, lr: Any, weight_decay: Any,
    lr_decay: Any, eps: Any, has_sparse_grad: bool, maximize: bool, differentiable: bool, has_complex: bool,
) -> bool:  # fmt: skip
    columns = [params, grads, state_sums]
    if differentiable or has_sparse_grad or grad_scale is not None or found_inf is not None:
        return False
    if not _is_usual(params, (lr, weight_decay, lr_decay, eps)):
        return False
    return _step(
        ADAGRAD, columns, state_steps,
        lambda count: (maximize, _float(weight_decay), float(-lr / (1 + (count - 1) * lr_decay)), float(eps)),
    )  # fmt: skip


def rmsprop(
    params: Any, grads: Any, square_avgs: Any, grad_avgs: Any, momentum_buffer_list: Any, state_steps: Any, *, lr: Any, alpha: Any, eps: Any,
    weight_decay: Any, momentum: Any, centered: bool, maximize: bool, differentiable: bool, capturable: bool, has_complex: bool,
) -> bool:  # fmt: skip
    columns = [
        params, grads, square_avgs, *([grad_avgs] if centered else []), *([momentum_buffer_list] if momentum > 0 else []),
    ]  # fmt: skip
    if capturable or differentiable or not _is_usual(params, (lr, alpha, eps, weight_decay, momentum)):
        return False
    numbers = float(-lr), float(alpha), float(1 - alpha), float(eps), _float(momentum)
    return _step(RMSPROP, columns, state_steps, lambda count: (maximize, _float(weight_decay), *numbers, centered))


def adamax(
    params: Any, grads: Any, exp_avgs: Any, exp_infs: Any, state_steps: Any, *, eps: Any, beta1: Any, beta2: Any, lr: Any, weight_decay: Any,
    maximize: bool, differentiable: bool, capturable: bool, has_complex: bool,
) -> bool:  # fmt: skip
    columns = [params, grads, exp_avgs, exp_infs]
    if capturable or differentiable or not _is_usual(params, (lr, beta1, beta2, weight_decay, eps)):
        return False
    numbers = float(1 - beta1), float(beta2), float(eps)
    return _step(
        ADAMAX, columns, state_steps,
        lambda count: (maximize, _float(weight_decay), *numbers, float(-lr / (1 - beta1**count))),
    )  # fmt: skip


def adadelta(
    params: Any, grads: Any, square_avgs: Any, acc_deltas: Any, state_steps: Any, *, lr: Any, rho: Any, eps: Any, weight_decay: Any,
    maximize: bool, differentiable: bool, capturable: bool, has_complex: bool,
) -> bool:  # fmt: skip
    columns = [params, grads, square_avgs, acc_deltas]
    if capturable or differentiable or not _is_usual(params, (lr, rho, eps, weight_decay)):
        return False
    numbers = maximize, _float(weight_decay), float(-lr), float(rho), float(1 - rho), float(eps)
    return _step(ADADELTA, columns, state_steps, lambda count: numbers)


FUNCTIONS = (adam, sgd, adagrad, rmsprop, adamax, adadelta)


def _either(ours: Callable[..., bool], of_torch: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(of_torch)
    def over_lists(params: Any, *args: Any, **options: Any) -> None:
        if torch.compiler.is_compiling() or not params or not ours(params, *args, **options):
            of_torch(params, *args, **options)

    return over_lists


def register() -> None:
    """Replace PyTorch's functions over lists, once."""
    for ours in FUNCTIONS:
        private.replace_function_over_lists(ours.__name__, functools.partial(_either, ours))
