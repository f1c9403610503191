"""Scaling of losses, so that small gradients in float16 do not vanish.

In: a loss, and an optimizer. Out: the scaled loss; the optimizer's step with the gradients unscaled, or none where one is not finite. Whether
one is, and the scale, stay on the device: nothing is read, within a compiled step or outside of one.
Source: https://pytorch.org/docs/stable/amp.html#gradient-scaling
"""

from __future__ import annotations

import weakref
from typing import Any

from .dtypes import float16, float32, int32
from .errors import ArgumentError
from .graph.node import grad_mode
from .optim.optimizer import Optimizer
from .optim.state import Filling, filled
from .tensor import Tensor, where


class GradScaler:
    """Multiplies losses by a scale, divides gradients by it, and skips steps whose gradients are then infinite or NaN. Such a step lowers the scale.

    After growth_interval steps in a row that were not skipped the scale grows. The scale is on the device of the first loss.

    >>> w = sg.ones(1, requires_grad=True)
    >>> optimizer, scaler = sg.optim.SGD([w], lr=0.5), sg.amp.GradScaler()
    >>> scaler.scale(w.sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0.5], requires_grad=True)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if growth_factor <= 1.0:
            raise ArgumentError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise ArgumentError("The backoff factor must be < 1.0.")
        self._enabled = enabled
        self._init_scale, self._init_growth_tracker = float(init_scale), 0
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._found: weakref.WeakKeyDictionary[Any, Tensor] = (
            weakref.WeakKeyDictionary()
        )  # of optimizers since the last update
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()

    def _on(self, device: str) -> Tensor:
        """The scale, which begins on a device."""
        if self._scale is None:
            self._scale, self._growth_tracker = filled(
                [
                    Filling((), self._init_scale, float32, device),
                    Filling((), float(self._init_growth_tracker), int32, device),
                ]
            )
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """A tensor, or a list or tuple of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            scale = self._on(outputs._node.device)
            return outputs * (scale if scale.device == outputs.device else scale.to(outputs.device))
        if isinstance(outputs, list | tuple):
            return type(outputs)(self.scale(o) for o in outputs)
        raise ArgumentError(f"outputs must be a Tensor or an iterable of Tensors, not a {type(outputs).__name__}.")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, as clipping them needs; `step` does so else.

        Raises ArgumentError after it, or `step`, was called for the optimizer since the last update, and for float16 parameters.
        """
        if not self._enabled:
            return
        if optimizer in self._stepped:
            raise ArgumentError("unscale_() is being called after step().")
        if optimizer in self._found:
            raise ArgumentError("unscale_() has already been called on this optimizer since the last update().")
        if self._scale is None:
            raise ArgumentError(
                "Attempted unscale_ but _scale is None. This may indicate your script did not use scaler.scale(loss or outputs)."
            )
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if any(g.dtype is float16 for g in gradients):
            raise ArgumentError(
                "Attempting to unscale FP16 gradients. Hint: keep parameters in float32, and compute under autocast."
            )
        with grad_mode(False):
            flags: list[Tensor] = []
            for g in gradients:
                scale = self._scale if self._scale.device == g.device else self._scale.to(g.device)
                g.mul_(scale.reciprocal())
                # infinite and NaN values stay so, and only this value has to be stored
                flags.append((~g.isfinite()).any().float().to(self._scale.device))
            for flag in flags[1:]:
                flags[0] = flags[0].maximum(flag)
        if flags:  # where no parameter has a gradient there is nothing to step by, nor to decide on
            self._found[optimizer] = flags[0]

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step, unless a gradient is infinite or NaN: parameters and state stay then as they are.

        Raises ArgumentError for a second step before update(), for a closure, for DiLoCo, and where no parameter has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs or args:
            raise ArgumentError("Closure use is not currently supported if GradScaler is enabled.")
        if getattr(optimizer, "counts_steps", False):
            raise ArgumentError(
                f"[GradScaler.step] a step of {type(optimizer).__name__} that one process skips would be missing in its count, by which all exchange. "
                "Hint: scaler.step(optimizer.inner), then optimizer.advance()."
            )
        if optimizer in self._stepped:
            raise ArgumentError("step() has already been called since the last update().")
        if optimizer not in self._found:
            self.unscale_(optimizer)
        if optimizer not in self._found:
            raise ArgumentError(
                "No inf checks were recorded for this optimizer: none of its parameters has a gradient."
            )
        self._stepped.add(optimizer)
        found = self._found[optimizer]
        if isinstance(optimizer, Optimizer) and type(optimizer).step is Optimizer.step:
            optimizer.found_inf = found
            try:
                return optimizer.step(**kwargs)
            finally:
                optimizer.found_inf = None
        return None if found.item() else optimizer.step(**kwargs)  # a program's own, which knows no conditions

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Lower the scale after a skipped step, raise it after growth_interval others; or set it.

        Raises ArgumentError where no step was taken since the last update.
        """
        if not self._enabled:
            return
        if self._scale is None or self._growth_tracker is None:
            raise ArgumentError(
                "Attempted update but _scale is None. This may indicate your script did not use scaler.scale(loss or outputs)."
            )
        with grad_mode(False):
            if new_scale is not None:
                self._scale.copy_(new_scale) if isinstance(new_scale, Tensor) else self._scale.fill_(new_scale)
            else:
                self._grow(self._scale, self._growth_tracker)
        self._found.clear()
        self._stepped.clear()

    def _grow(self, scale: Tensor, tracker: Tensor) -> None:
        if not self._found:
            raise ArgumentError("No inf checks were recorded prior to update.")
        found: Any = None
        for flag in self._found.values():
            found = flag if found is None else found.maximum(flag)
        skipped = found > 0
        count = tracker + 1
        grows = (count == self._growth_interval) & ~skipped
        larger = scale * self._growth_factor
        larger = where(larger.isfinite(), larger, scale)
        next_scale = where(skipped, scale * self._backoff_factor, where(grows, larger, scale))
        next_count = where(skipped | grows, count * 0, count)
        scale.copy_(next_scale)
        tracker.copy_(next_count)

    def get_scale(self) -> float:
        """The scale, which waits for the device; 1.0 where it is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """What the scale grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What a skipped step multiplies the scale by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what a skipped step multiplies the scale by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps in a row the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many steps in a row the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether losses are scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and what changes it, as PyTorch's; {} where it is disabled."""
        if not self._enabled:
            return {}
        tracker = self._growth_tracker
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._init_growth_tracker if tracker is None else int(tracker.item()),
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state, of PyTorch's too. Raises ArgumentError for an empty one, of a scaler that was disabled."""
        if not self._enabled:
            return
        if not state_dict:
            raise ArgumentError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        if len(self._found):
            raise ArgumentError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after scaler.update()."
            )
        scale, tracker = self.get_scale(), self.state_dict().get("_growth_tracker", 0)
        without = {"_found", "_stepped", "_scale", "_growth_tracker"}
        kept = {name: value for name, value in vars(self).items() if name not in without}
        return {**kept, "_init_scale": scale, "_init_growth_tracker": tracker}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._scale = self._growth_tracker = None
        self._found, self._stepped = weakref.WeakKeyDictionary(), weakref.WeakSet()
