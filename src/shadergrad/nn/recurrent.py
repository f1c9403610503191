"""Recurrent networks, composed over time steps: RNN, LSTM (Hochreiter and Schmidhuber, 1997), GRU (Cho et al., 2014).

One matrix multiplication projects the inputs of all steps; each step is then one multiplication with the state and elementwise operations.
Parameters have PyTorch's names and order of gates.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from ..errors import ShapeError
from ..tensor import Tensor, cat, empty, host_tensor, stack, where, zeros
from ..tensor.composed import composed
from ..tensor.precision import here, policy, states_under_autocast
from ..tensor.shared_weights import shared_linear
from . import functional as F
from . import init
from .arguments import check_tensor, number, takes_tensors
from .errors import ArgumentError, ModuleTypeError
from .module import Module
from .packed_sequence import PackedSequence, is_real, packed_from, padded
from .parameter import Parameter

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]

State = tuple[Tensor, ...]  # (h,), or (h, c) of an LSTM
Step = Callable[[Tensor, Tensor, State], State]  # of the projected input, the projected h, and the state


def rnn_step(function: Callable[[Tensor], Tensor]) -> Step:
    return lambda x, h, state: (function(x + h),)


@policy("recurrent_step")
def lstm_step(x: Tensor, h: Tensor, state: State) -> State:
    """Gates in the order input, forget, cell, output."""
    i, f, g, o = (x + h).chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@policy("recurrent_step")
def gru_step(x: Tensor, h: Tensor, state: State) -> State:
    """Gates in the order reset, update, new."""
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), h.chunk(3, -1)
    z = (xz + hz).sigmoid()
    new = (xn + (xr + hr).sigmoid() * hn).tanh()
    return (new + z * (state[0] - new),)


STEPS: dict[str, tuple[int, Step]] = {  # by PyTorch's mode: the number of gates, and a step
    "RNN_TANH": (1, rnn_step(Tensor.tanh)),
    "RNN_RELU": (1, rnn_step(Tensor.relu)),
    "LSTM": (4, lstm_step),
    "GRU": (3, gru_step),
}


WEIGHTS = ("weight_ih", "bias_ih", "weight_hh", "bias_hh", "weight_hr")  # of a layer in a direction


@composed
def scan(
    mode: str,
    backwards: bool,
    input: Tensor,
    weight_ih: Tensor,
    bias_ih: Tensor | None,
    weight_hh: Tensor,
    bias_hh: Tensor | None,
    weight_hr: Tensor | None,
    *state: Tensor,
    real: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """The outputs of one layer in one direction at all times, and the last state.

    real: (T, N, 1) of bool. Where it is false, a sequence has no element: it keeps its state.
    """
    _, step = STEPS[mode]
    times = [*enumerate(F.linear(input, weight_ih, bias_ih).unbind())]
    hidden = shared_linear(F.linear, weight_hh, bias_hh)
    reduced = None if weight_hr is None else shared_linear(F.linear, weight_hr, None)
    outputs = []
    goes_on = None if real is None else real.unbind()
    for k, x in reversed(times) if backwards else times:
        before, state = state, step(x, hidden(k, state[0]), state)
        if reduced is not None:
            state = (reduced(k, state[0]), *state[1:])
        if goes_on is not None:
            state = tuple([where(goes_on[k], new, old) for new, old in zip(state, before, strict=True)])
        outputs.append(state[0])
    return stack(outputs[::-1] if backwards else outputs), *state


def initialise(module: Module, hidden_size: int) -> None:
    bound = 1.0 / math.sqrt(hidden_size) if hidden_size else 0.0
    for p in module.parameters():
        init.uniform_(p, -bound, bound)


class RNNBase(Module):
    """The base of RNN, LSTM and GRU: the parameters of all layers and directions; see RNN for the shapes.

    It has no forward. mode: 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'. Raises ArgumentError for another mode, for sizes
    that are not positive and for a dropout outside [0, 1].

    >>> [name for name, _ in nn.RNNBase("GRU", 2, 3).named_parameters()]
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(number(type(self).__name__, "dropout", dropout))
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_arguments()
        gates = STEPS[mode][0] * hidden_size
        state = proj_size or hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else state * self._directions
            for suffix in self._suffixes(layer):
                shapes = {"weight_ih": (gates, width), "weight_hh": (gates, state)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    self.register_parameter(name + suffix, Parameter(empty(*shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def _check_arguments(self) -> None:
        if self.mode not in STEPS:
            raise ArgumentError(f"Unrecognized RNN mode: {self.mode}. Known: {', '.join(STEPS)}.")
        if not isinstance(self.input_size, int):
            raise ModuleTypeError(f"input_size should be of type int, got: {type(self.input_size).__name__}")
        if not isinstance(self.hidden_size, int):
            raise ModuleTypeError(f"hidden_size should be of type int, got: {type(self.hidden_size).__name__}")
        if not 0 <= self.dropout <= 1:
            raise ArgumentError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed, but got "
                f"dropout={self.dropout}"
            )
        if self.dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
                f"greater than 1, but got dropout={self.dropout} and num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ArgumentError(f"{name} must be greater than zero, but got {name}={getattr(self, name)}")
        if self.proj_size < 0:
            raise ArgumentError(
                f"proj_size should be a positive integer or zero to disable projections, but got proj_size={self.proj_size}"
            )
        if self.proj_size >= self.hidden_size:
            raise ArgumentError(
                f"proj_size has to be smaller than hidden_size, {self.hidden_size}, but got proj_size={self.proj_size}"
            )

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self._directions]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction: input, state, their biases, the projection."""
        names = ["weight_ih", "weight_hh"] + ["bias_ih", "bias_hh"] * self.bias + ["weight_hr"] * bool(self.proj_size)
        suffixes = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return [[getattr(self, name + suffix) for name in names] for suffix in suffixes]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [weight for weights in self.all_weights for weight in weights]

    def reset_parameters(self) -> None:
        """Draw all parameters again, uniform on +-1/sqrt(hidden_size)."""
        initialise(self, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Does nothing; for compatibility."""

    # -- forward

    def _run(self, input: Tensor, states: State, real: Tensor | None) -> tuple[Tensor, State]:
        """input (T, N, width) and states (layers * directions, N, size) to the output and the last states. real: see scan."""
        finals: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction, suffix in enumerate(self._suffixes(layer)):
                first = tuple(s[layer * self._directions + direction] for s in states)
                output, last = self._scan(input, first, suffix, direction == 1, real)
                outputs.append(output)
                finals.append(last)
            input = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
            if self.dropout and layer < self.num_layers - 1:
                input = F.dropout(input, self.dropout, self.training)
        return input, tuple(stack(list(parts)) for parts in zip(*finals, strict=True))

    def _scan(
        self, input: Tensor, state: State, suffix: str, backwards: bool, real: Tensor | None
    ) -> tuple[Tensor, State]:
        """One layer in one direction over all times."""
        weights: list[Any] = [getattr(self, name + suffix, None) for name in WEIGHTS]
        given = {} if real is None else {"real": real}
        output, *last = scan(self.mode, backwards, input, *weights, *state, **given)
        return output, tuple(last)

    def _forward(self, input: Any, states: State | None, n_states: int) -> tuple[Any, State]:
        name = type(self).__name__
        for s in states or ():
            check_tensor(name, "hx", s)
        if isinstance(input, PackedSequence):
            return self._on_packed(input, states, n_states)
        check_tensor(name, "input", input)
        if input.ndim not in (2, 3):
            raise ArgumentError(f"{name}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        batched = input.ndim == 3
        for s in states or ():
            if s.ndim != input.ndim:
                kind = "batched 3-D" if batched else "unbatched 2-D"
                raise ShapeError(f"For {kind} input, hx should also be {input.ndim}-D but got {s.ndim}-D tensor")
        if not batched:
            input, states = input.unsqueeze(1), None if states is None else tuple(s.unsqueeze(1) for s in states)
        elif self.batch_first:
            input = input.transpose(0, 1)
        output, finals = self._on_batch(input, states, n_states)
        if not batched:
            return output.squeeze(1), tuple(s.squeeze(1) for s in finals)
        return (output.transpose(0, 1) if self.batch_first else output), finals

    def _on_packed(self, packed: PackedSequence, states: State | None, n_states: int) -> tuple[PackedSequence, State]:
        """The outputs and last states of a PackedSequence. All sequences run over all times; one without an element keeps its state."""
        x, sizes = padded(packed), packed.batch_sizes.numpy()
        real = host_tensor(is_real(sizes)[:, :, None], device=x.device)
        if states is not None and packed.sorted_indices is not None:
            states = tuple([s.index_select(1, packed.sorted_indices) for s in states])
        output, finals = self._on_batch(x, states, n_states, real)
        if packed.unsorted_indices is not None:
            finals = tuple([s.index_select(1, packed.unsorted_indices) for s in finals])
        return packed_from(output, sizes, packed.sorted_indices, packed.unsorted_indices), finals

    def _on_batch(
        self, input: Tensor, states: State | None, n_states: int, real: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """As _run, after checks of the input's width and of the states. Missing states are zeros."""
        if input.shape[-1] != self.input_size:
            raise ShapeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[:n_states]
        shapes = [(self.num_layers * self._directions, input.shape[1], size) for size in sizes]
        if states is None:
            states = tuple(zeros(*shape, dtype=input.dtype, device=input.device) for shape in shapes)
        for k, (s, shape) in enumerate(zip(states, shapes, strict=True)):
            if tuple(s.shape) != shape:
                raise ShapeError(f"Expected hidden{f'[{k}]' if n_states > 1 else ''} size {shape}, got {list(s.shape)}")
        return self._run(input, states_under_autocast(self.mode.lower(), states) if here.kinds else states, real)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.proj_size:
            parts.append(f"proj_size={self.proj_size}")
        if self.num_layers != 1:
            parts.append(f"num_layers={self.num_layers}")
        defaults = {"bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        parts += [f"{name}={getattr(self, name)}" for name, d in defaults.items() if getattr(self, name) != d]
        return ", ".join(parts)


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu, over a sequence (Elman, 1990).

    input (T, N, input_size), (N, T, input_size) with batch_first, or (T, input_size); the initial h
    (num_layers * directions, N, hidden_size), zeros by default. Gives the outputs of the last layer at all times
    (T, N, directions * hidden_size), directions side by side, and the last h of all layers, with the shape of the first
    one.

    Of layer k: weight_ih_lk (hidden_size, width of its input), weight_hh_lk (hidden_size, hidden_size), bias_ih_lk and
    bias_hh_lk (hidden_size,), with _reverse for the second direction; all start uniform on +-1/sqrt(hidden_size).
    dropout: between layers, while training. A PackedSequence as input gives a PackedSequence of outputs.
    Raises ArgumentError for another nonlinearity or number of axes, ShapeError if input or h do not fit.

    >>> rnn = nn.RNN(3, 4, num_layers=2)
    >>> output, h = rnn(sg.ones(5, 1, 3))
    >>> output.shape, h.shape
    (shadergrad.Size([5, 1, 4]), shadergrad.Size([2, 1, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(
            mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
        self.nonlinearity = nonlinearity

    @takes_tensors
    def forward(self, input: Tensor | PackedSequence, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """input and h of the start to (outputs at all times, h at the end); see the class for the shapes."""
        output, finals = self._forward(input, None if hx is None else (hx,), 1)
        return output, finals[0]


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), with forget gates; shapes as RNN, with states (h, c).

    i, f, o = sigmoid, g = tanh of W_i x + b_i + W_h h + b_h, a part of each; c' = f c + i g, h' = o tanh(c').
    Parameters as of RNN with 4 hidden_size rows, in the order i, f, g, o. proj_size: h is multiplied by weight_hr_lk
    (proj_size, hidden_size) and of that size from then on (Sak et al., 2014). Arguments: input_size, hidden_size,
    num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, proj_size=0, device=None, dtype=None.
    Raises ArgumentError for a proj_size that is not below hidden_size; else as RNN.

    >>> output, (h, c) = nn.LSTM(3, 4, bidirectional=True)(sg.ones(5, 1, 3))
    >>> output.shape, h.shape, c.shape
    (shadergrad.Size([5, 1, 8]), shadergrad.Size([2, 1, 4]), shadergrad.Size([2, 1, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    @takes_tensors
    def forward(
        self, input: Tensor | PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """input and (h, c) of the start to (outputs at all times, (h, c) at the end); see RNN for the shapes."""
        output, (h, c) = self._forward(input, None if hx is None else tuple(hx), 2)
        return output, (h, c)


class GRU(RNNBase):
    """Gated recurrent units (Cho et al., 2014); shapes as RNN.

    r, z = sigmoid of W_i x + b_i + W_h h + b_h, n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h' = (1 - z) n + z h.
    Parameters as of RNN with 3 hidden_size rows, in the order r, z, n.
    Arguments: input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
    device=None, dtype=None. Raises ArgumentError for a proj_size, which only LSTM has; else as RNN.

    >>> output, h = nn.GRU(3, 4, batch_first=True)(sg.ones(1, 5, 3))
    >>> output.shape, h.shape
    (shadergrad.Size([1, 5, 4]), shadergrad.Size([1, 1, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ArgumentError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    @takes_tensors
    def forward(self, input: Tensor | PackedSequence, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """input and h of the start to (outputs at all times, h at the end); see RNN for the shapes."""
        output, finals = self._forward(input, None if hx is None else (hx,), 1)
        return output, finals[0]
