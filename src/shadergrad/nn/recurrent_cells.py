"""Recurrent cells, one time step each; see recurrent.py."""

from __future__ import annotations

from typing import Any

from ..errors import ShapeError
from ..tensor import Tensor, empty, zeros
from ..tensor.composed import composed
from ..tensor.precision import here, states_under_autocast
from . import functional as F
from .arguments import check_tensor, takes_tensors, whole
from .errors import ArgumentError
from .module import Module
from .parameter import Parameter
from .recurrent import STEPS, State, initialise

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]


@composed
def cell_step(
    mode: str,
    input: Tensor,
    weight_ih: Tensor,
    bias_ih: Tensor | None,
    weight_hh: Tensor,
    bias_hh: Tensor | None,
    *state: Tensor,
) -> State:
    """The next state. input (N, input_size), state (N, hidden_size) each."""
    x = F.linear(input, weight_ih, bias_ih)
    return STEPS[mode][1](x, F.linear(state[0], weight_hh, bias_hh), state)


class RNNCellBase(Module):
    """The base of the cells: weight_ih (gates, input_size), weight_hh (gates, hidden_size), bias_ih and bias_hh."""

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = whole(type(self).__name__, "input_size", input_size, 0)
        self.hidden_size = whole(type(self).__name__, "hidden_size", hidden_size, 0)
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(gates, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(gates, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(gates, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters again, uniform on +-1/sqrt(hidden_size)."""
        initialise(self, self.hidden_size)

    def _step(self, mode: str, input: Tensor, state: State | None, n_states: int) -> State:
        name = type(self).__name__
        for s in state or ():
            check_tensor(name, "hx", s)
        if input.ndim not in (1, 2):
            raise ArgumentError(f"{name}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        for s in state or ():
            if s.ndim not in (1, 2):
                raise ArgumentError(f"{name}: Expected hidden to be 1D or 2D, got {s.ndim}D instead")
        if input.shape[-1] != self.input_size:
            raise ShapeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}")
        batched = input.ndim == 2
        if not batched:
            input, state = input.unsqueeze(0), None if state is None else tuple(s.unsqueeze(0) for s in state)
        if state is None:
            state = (zeros(input.shape[0], self.hidden_size, dtype=input.dtype, device=input.device),) * n_states
        for s in state:
            if tuple(s.shape) != (input.shape[0], self.hidden_size):
                raise ShapeError(f"[{name}] hidden is {tuple(s.shape)}, expected {(input.shape[0], self.hidden_size)}.")
        state = states_under_autocast(f"{mode.lower()}_cell", state) if here.kinds else state
        result = cell_step(mode, input, self.weight_ih, self.bias_ih, self.weight_hh, self.bias_hh, *state)
        return result if batched else tuple(s.squeeze(0) for s in result)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of an RNN: tanh(W_ih x + b_ih + W_hh h + b_hh), or relu.

    input (N, input_size) and h (N, hidden_size), by default zeros, give the next h; N may be left out. weight_ih
    (hidden_size, input_size), weight_hh (hidden_size, hidden_size), bias_ih and bias_hh (hidden_size,) start uniform on
    +-1/sqrt(hidden_size).
    Raises ArgumentError for another nonlinearity or number of axes, ShapeError if input or h do not fit.

    >>> cell = nn.RNNCell(3, 4)
    >>> h = cell(sg.ones(2, 3))
    >>> cell(sg.ones(2, 3), h).shape
    shadergrad.Size([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"Unknown nonlinearity: {nonlinearity}. Known: tanh, relu.")
        self.nonlinearity = nonlinearity

    @takes_tensors
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(f"RNN_{self.nonlinearity.upper()}", input, None if hx is None else (hx,), 1)[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM: input (N, input_size) and states (h, c), each (N, hidden_size), give the next (h, c).

    The states are zeros by default; N may be left out. Parameters as of RNNCell with 4 hidden_size rows, in the order
    input, forget, cell, output. Errors as of RNNCell.

    >>> cell = nn.LSTMCell(3, 4)
    >>> h, c = cell(sg.ones(2, 3))
    >>> h.shape, c.shape
    (shadergrad.Size([2, 4]), shadergrad.Size([2, 4]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    @takes_tensors
    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        h, c = self._step("LSTM", input, None if hx is None else tuple(hx), 2)
        return h, c


class GRUCell(RNNCellBase):
    """One step of a GRU: input (N, input_size) and h (N, hidden_size), by default zeros, give the next h.

    N may be left out. Parameters as of RNNCell with 3 hidden_size rows, in the order reset, update, new. Errors as of
    RNNCell.

    >>> nn.GRUCell(3, 4)(sg.ones(2, 3)).shape
    shadergrad.Size([2, 4])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    @takes_tensors
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("GRU", input, None if hx is None else (hx,), 1)[0]
