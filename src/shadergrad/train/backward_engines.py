"""Training steps whose backward pass runs in one of three engines, which can be changed at any time.

    shaders  forward, backward and optimizer on the model's device, compiled: one submission
    torch    the loss on the model's device; the gradients by PyTorch's autograd on the cpu, in a mirror of the model
             (interop/torch); the optimizer on the device. Of a model on the cpu device the loss is PyTorch's too
    numpy    the same, with the cpu device's gradients
    auto     two steps of each, then the fastest

All engines compute the same gradients, so a run may switch between them. The forward pass and the optimizer are a third of a
step's dispatches, which matters if the driver makes small dispatches expensive.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import shadergrad as sg
from shadergrad import Tensor, nn, tensor
from shadergrad.optim import Optimizer

from ..config import ENGINES, config
from ..nn.device_twins import DeviceTwins
from ..system.optional_packages import MissingPackageError
from .engine_trial import Trial
from .errors import TrainingError
from .settings import Settings

Loss = Callable[..., Tensor]


def _nothing() -> None:
    return


class TrainingStep:
    """One update of a model by one batch. Call it with the batch, tensors or arrays; it returns the loss before the update.

    model: its parameters are those of the optimizer, on one device.
    loss: takes the parts of a batch, calls the model, and returns a scalar, or several numbers (k,): the step minimises the
    first and reports the others.
    backward: shaders, torch, numpy or auto; None: SHADERGRAD_BACKWARD, else shaders. The attribute `backward` may change
    between steps.
    finish: called between the gradients and the optimizer, for example to clip, or for a schedule on the device.
    accumulate: the number of parts of a batch; the gradient is the mean over the parts, which is that of the batch if the parts
    have equal weights.
    weight: for parts of unequal weights, such as masked tokens: a function of the whole batch that returns a scalar; `loss`
    then returns sums, which the step divides by it.
    threads: PyTorch's; None: the cores less 2, at least 1.
    say: called with a line when `auto` has chosen.

    `auto` compares batches of the first shapes. Batches of other shapes are trained, but not counted.

    engine: the present engine, never auto.
    dispatches: those of the latest step, on the model's device. `loss` may use its arguments, tensors of the model, and tensors
    that it creates on the device of its arguments, because torch and numpy run it on another device.
    Raises TrainingError for an unknown engine, accumulate below 1, or a batch that it does not divide; MissingPackageError for
    torch without PyTorch.

    >>> from shadergrad.train import TrainingStep
    >>> model = nn.Linear(4, 3)
    >>> optimizer = sg.optim.AdamW(model.parameters(), lr=0.1)
    >>> step = TrainingStep(model, optimizer, lambda x, y: F.cross_entropy(model(x), y), backward="torch")
    >>> x, y = sg.ones(8, 4), sg.arange(8) % 3
    >>> losses = [step(x, y).item() for _ in range(5)]
    >>> step.backward = "shaders"
    >>> step(x, y).item() < losses[-1] < losses[0]
    True
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        loss: Loss,
        *,
        backward: str | None = None,
        finish: Callable[[], Any] = _nothing,
        accumulate: int = 1,
        weight: Callable[..., Tensor] | None = None,
        threads: int | None = None,
        say: Callable[[str], Any] = print,
    ) -> None:
        if accumulate < 1:
            raise TrainingError(f"[TrainingStep] accumulate is {accumulate}; it must be at least 1.")
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.finish, self.accumulate, self.weight = finish, accumulate, weight
        self.threads, self.say = threads, say
        self._engines: dict[str, _Shaders | _Apart] = {}
        self._trial: Trial | None = None
        self.backward = config.backward if backward is None else backward

    @classmethod
    def of(cls, settings: Settings, model: nn.Module, optimizer: Optimizer, loss: Loss, **options: Any) -> TrainingStep:
        """The step of a recipe with the options train.BACKWARD, by the user's settings.

        Raises TrainingError for --threads without PyTorch, and the errors of the class.
        """
        threads = settings["threads"]
        step = cls(model, optimizer, loss, backward=settings["backward"], threads=threads, **options)
        if threads is not None and step.backward not in ("torch", "auto"):
            raise TrainingError(f"--threads is {threads}, for PyTorch; with --backward {step.backward} none runs.")
        return step

    @property
    def backward(self) -> str:
        """The requested engine; assign to change it."""
        return self._backward

    @backward.setter
    def backward(self, name: str) -> None:
        if name not in ENGINES:
            raise TrainingError(f"--backward is {name!r}; choose one of {', '.join(ENGINES)}.")
        trial = self._begun_trial() if name == "auto" else None
        self.engine = name if trial is None else trial.engine
        self._now = self._engine(self.engine)
        self._backward, self._trial = name, trial

    @property
    def device(self) -> str:
        """The device of the model."""
        return str(next(self.model.parameters()).device)

    @property
    def dispatches(self) -> int:
        """The number of kernels that the latest step ran on the model's device."""
        return self._now.dispatches

    def __call__(self, *batch: Any) -> Tensor:
        if self._trial is not None:
            return self._try(batch)
        return self._now(*batch)

    def _engine(self, name: str) -> _Shaders | _Apart:
        """The engine of that name, created once. On the cpu device shaders and numpy are the same."""
        if name == "numpy" and self.device == "cpu":
            name = "shaders"
        if name not in self._engines:
            makers = {"shaders": _Shaders, "torch": _Torch, "numpy": _Numpy}
            self._engines[name] = makers[name](self)
        return self._engines[name]

    def _begun_trial(self) -> Trial:
        """The trial of all available engines. On the cpu device shaders and numpy are the same."""
        names = ["shaders", "torch"] if self.device == "cpu" else ["shaders", "torch", "numpy"]
        try:
            self._engine("torch")
        except MissingPackageError:
            names.remove("torch")
            return Trial(names, "; torch is not installed")
        return Trial(names)

    def _try(self, batch: tuple[Any, ...]) -> Tensor:
        trial = self._trial
        assert trial is not None
        started = time.perf_counter()
        loss = self._now(*batch)
        loss.item()
        trial.add(time.perf_counter() - started, _shapes(batch))
        self.engine = trial.engine
        self._now = self._engine(self.engine)
        if trial.is_over:
            self._trial = None
            self.say(trial.verdict(len(batch[0]) if batch else 1))
        return loss

    # -- what the engines share

    def total(self, batch: tuple[Any, ...], part: Callable[[Tensor], Any] = lambda _: None) -> Tensor:
        """The loss of a batch: the sum of its parts' losses, divided. `part` is called with each of them."""
        losses, divisor = [], self.divisor(batch)
        for piece in self.parts(batch):
            loss = self.checked(self.loss(*piece)) / divisor
            part(loss[0] if loss.ndim else loss)
            losses.append(loss.detach())
        return sum(losses[1:], losses[0])

    def divisor(self, batch: tuple[Any, ...]) -> Any:
        """The divisor of each part's loss, so that the parts add up to the loss of the batch."""
        return self.accumulate if self.weight is None else self.weight(*batch)

    def checked(self, loss: Any) -> Any:
        """The result of `loss`, a tensor of either library. Raises TrainingError if it is not a loss."""
        if loss.ndim > 1:
            raise TrainingError(f"[TrainingStep] the loss must be a scalar; it is {tuple(loss.shape)}.")
        return loss

    def parts(self, batch: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """The parts of a batch, split along the first axes."""
        if self.accumulate == 1:
            yield batch
            return
        sized = [x for x in batch if isinstance(x, Tensor | np.ndarray) and x.ndim]
        if any(len(x) % self.accumulate for x in sized):
            raise TrainingError(
                f"[TrainingStep] a batch of {len(sized[0])} cannot be taken in {self.accumulate} equal parts."
            )
        for k in range(self.accumulate):
            yield tuple(_piece(x, k, self.accumulate) if any(x is y for y in sized) else x for x in batch)


def _piece(x: Any, k: int, of: int) -> Any:
    n = len(x) // of
    return x[k * n : (k + 1) * n]


def _shapes(batch: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(tuple(getattr(x, "shape", ())) for x in batch)


class _Shaders:
    """The whole step on the model's device, in one submission."""

    def __init__(self, step: TrainingStep) -> None:
        @sg.compile
        def whole(*batch: Any) -> Tensor:
            step.model.zero_grad()
            loss = step.total(batch, Tensor.backward)
            step.finish()
            step.optimizer.step()
            return loss

        self._step, self._whole = step, whole

    def __call__(self, *batch: Any) -> Tensor:
        return self._whole(*(_on(x, self._step.device) for x in batch))

    @property
    def dispatches(self) -> int:
        return len(self._whole.plan.dispatches)


class _Apart:
    """The base of engines that compute gradients elsewhere; the loss and the optimizer run on the model's device."""

    def __init__(self, step: TrainingStep) -> None:
        @sg.compile
        def forward(*batch: Any) -> Tensor:
            with sg.no_grad():
                return step.total(batch)

        @sg.compile
        def update() -> None:
            step.finish()
            step.optimizer.step()

        self._step, self._forward, self._update = step, forward, update
        self._parameters = dict(step.model.named_parameters())

    def _check(self) -> None:
        """Raises TrainingError if gradients from elsewhere would differ from the user's request."""
        known = {id(p) for p in self._parameters.values()}
        if any(id(p) not in known for group in self._step.optimizer.param_groups for p in group["params"]):
            raise TrainingError(
                "[TrainingStep] the optimizer has parameters that the model has not. Hint: --backward shaders"
            )
        for name, p in self._parameters.items():
            if p._node.hooks is not None:
                raise TrainingError(
                    f"[TrainingStep] {name} has hooks on its gradient, which only the shaders call. "
                    "Hint: --backward shaders"
                )

    def __call__(self, *batch: Any) -> Tensor:
        self._check()
        device = self._step.device
        host = tuple(x.detach().numpy() if isinstance(x, Tensor) else x for x in batch)
        self.sync()
        loss = self.forward(batch)  # runs while the cpu computes
        found, own = self.gradients(host)
        for name, p in self._parameters.items():
            p.grad = Tensor(found[name], dtype=p.dtype, device=device) if name in found else None
        self._update()
        return own if loss is None else loss

    def forward(self, batch: tuple[Any, ...]) -> Tensor | None:
        """The loss of a batch, on the model's device; None if the loss of the gradients is used."""
        return self._forward(*(_on(x, self._step.device) for x in batch))

    def sync(self) -> None:
        """Copy the changed tensors of the model, before the forward pass, so that copying does not wait for it."""
        raise NotImplementedError

    def gradients(self, batch: tuple[Any, ...]) -> tuple[dict[str, np.ndarray], Tensor]:
        """The gradients of the loss of a batch of arrays, by parameter name; and that loss."""
        raise NotImplementedError

    @property
    def dispatches(self) -> int:
        return sum(len(step.plan.dispatches) for step in (self._forward, self._update) if step.captures)


class _Torch(_Apart):
    def __init__(self, step: TrainingStep) -> None:
        super().__init__(step)
        self._mirror = sg.interop.torch.mirror(step.model, step.threads)

    def sync(self) -> None:
        self._mirror.sync()

    def forward(self, batch: tuple[Any, ...]) -> Tensor | None:
        """On the cpu device nothing would overlap, so PyTorch's forward pass also gives the loss."""
        return None if self._step.device == "cpu" else super().forward(batch)

    def gradients(self, batch: tuple[Any, ...]) -> tuple[dict[str, np.ndarray], Tensor]:
        mirror, step = self._mirror, self._step
        total: Any = 0
        divisor = float(step.divisor(tuple(_on(x, "cpu") for x in batch)))
        for part in step.parts(batch):
            loss = step.checked(mirror.run_unsynced(step.loss, *part)) / divisor
            mirror.backward(loss[0] if loss.ndim else loss)
            total = total + loss.detach()
        if step.device == "cpu":
            mirror.write_back_buffers()
        return mirror.gradients(), tensor(total.numpy())


class _Numpy(_Apart):
    def __init__(self, step: TrainingStep) -> None:
        super().__init__(step)
        self._device_twins = DeviceTwins(step.model, "cpu")

    def sync(self) -> None:
        self._device_twins.sync()

    def gradients(self, batch: tuple[Any, ...]) -> tuple[dict[str, np.ndarray], Tensor]:
        with self._device_twins.in_place():
            loss = self._step.total(tuple(_on(x, "cpu") for x in batch), Tensor.backward)
        return self._device_twins.gradients(), loss


def _on(x: Any, device: str) -> Any:
    """A tensor from a part of a batch."""
    if isinstance(x, np.ndarray):
        return tensor(x, device=device)
    return x.to(device) if isinstance(x, Tensor) else x
