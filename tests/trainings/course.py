"""One course of a training: what it computes in a library, on a device, compiled or not."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from .draw import Training

Step = tuple[str, np.ndarray]


def module_of(lib: Any, layers: Any) -> Any:  # noqa: C901  # a class a kind of layer, in the library's own words
    """The network, of the library's own modules."""
    nn = lib.nn

    class Residual(nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return x + self.inner(x)

    class Tied(nn.Module):
        """There and back by one weight."""

        def __init__(self, n: int) -> None:
            super().__init__()
            self.there, self.back = nn.Linear(n, n), nn.Linear(n, n, bias=False)
            self.back.weight = self.there.weight

        def forward(self, x: Any) -> Any:
            return self.back(self.there(x).tanh())

    class Conv(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(1, 2, 3, padding=1)

        def forward(self, x: Any) -> Any:
            return self.conv(x.unsqueeze(1)).mean(1)

    class Gate(nn.Module):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.scale, self.gate = nn.Parameter(lib.ones(n)), nn.Linear(n, n)

        def forward(self, x: Any) -> Any:
            return x * self.scale * self.gate(x).sigmoid()

    def made(kind: str, *given: Any) -> Any:
        if kind == "linear":
            return nn.Linear(given[0], given[1], bias=given[2])
        if kind == "batch norm":
            return nn.BatchNorm1d(given[0], momentum=given[1])
        if kind == "activation":
            return getattr(nn, given[0])()
        if kind == "conv":
            return Conv()
        n = given[0]
        return {"norm": nn.LayerNorm, "residual": lambda n: Residual(nn.Linear(n, n)), "tied": Tied, "gate": Gate}[
            kind
        ](n)

    return nn.Sequential(*(made(*layer) for layer in layers))


class Course:
    """A training under way. `steps()` runs it, and gives what it came to, by name."""

    def __init__(self, training: Training, lib: Any, device: str, dtype: Any, compile: Any) -> None:
        self.t, self.lib, self.kind, self.compile = training, lib, {"device": device, "dtype": dtype}, compile
        self._build()
        rng = np.random.default_rng(training.seed)
        with lib.no_grad():
            for p in self.model.parameters():
                p.copy_(self._tensor(rng.standard_normal(tuple(p.shape)) * 0.7))
        self.averaged = lib.optim.swa_utils.AveragedModel(self.model) if training.averages else None
        self._make_steps()

    def _tensor(self, array: np.ndarray) -> Any:
        return self.lib.tensor(array, **self.kind)

    # -- what a training is made of

    def _build(self) -> None:
        self.model = module_of(self.lib, self.t.layers).to(**self.kind)
        self.extra = self.lib.nn.Parameter(self._tensor(np.full(self.t.outputs, 0.1)))
        self.is_added = False
        self.optimizer = self._optimizer()
        self.scheduler = self._scheduler()

    def _optimizer(self) -> Any:
        parameters = list(self.model.parameters())
        groups = []
        for how, options in self.t.groups:
            chosen = {
                "all": parameters,
                "vectors": [p for p in parameters if p.ndim < 2],
                "rest": [p for p in parameters if p.ndim >= 2],
                "even": parameters[::2],
                "odd": parameters[1::2],
            }[how]
            if chosen:
                groups.append({"params": chosen, **options})
        options = dict(self.t.options)
        if self.t.rate_is_tensor:
            options["lr"] = self._tensor(np.array(options.get("lr", 1.0)))
        return getattr(self.lib.optim, self.t.optimizer)(groups, **options)

    def _scheduler(self) -> Any:
        if self.t.schedule is None:
            return None
        name, options = self.t.schedule
        if name == "OneCycleLR":
            cycled = self.optimizer.defaults.get("momentum") or self.optimizer.defaults.get("betas")
            options = {**options, "cycle_momentum": bool(cycled)}
        return getattr(self.lib.optim.lr_scheduler, name)(self.optimizer, **options)

    # -- a step

    def _loss(self, x: Any, y: Any, labels: Any) -> Any:
        F = self.lib.nn.functional
        out = self.model(x) + self.extra
        if self.t.loss == "cross_entropy":
            return F.cross_entropy(out, labels, label_smoothing=0.1)
        if self.t.loss == "nll":
            return F.nll_loss(F.log_softmax(out, -1), labels)
        if self.t.loss == "bce":
            return F.binary_cross_entropy_with_logits(out, y.sigmoid())
        return F.mse_loss(out, y) if self.t.loss == "mse" else F.smooth_l1_loss(out, y)

    def _clip(self) -> None:
        if self.t.clip is None:
            return
        how, most = self.t.clip
        utils, parameters = self.lib.nn.utils, list(self.model.parameters())
        if how == "norm":
            utils.clip_grad_norm_(parameters, most)
        elif how == "value":
            utils.clip_grad_value_(parameters, most)
        else:
            gradients = [p.grad for p in parameters if p.grad is not None]
            if gradients:
                utils.clip_grads_with_norm_(parameters, most, utils.get_total_norm(gradients))

    def _make_steps(self) -> None:
        def backward(x: Any, y: Any, labels: Any, share: float) -> Any:
            loss = self._loss(x, y, labels) * share
            loss.backward()
            return loss.detach()

        def update() -> None:
            self._clip()
            self.optimizer.step()
            if self.averaged is not None:
                self.averaged.update_parameters(self.model)

        def whole(batches: Any) -> Any:
            self.optimizer.zero_grad()
            losses = [backward(x, y, labels, 1 / len(batches)) for x, y, labels in batches]
            update()
            return losses

        if self.t.way == "whole":
            self.step = self.compile(whole)
            return
        compiled_backward, compiled_update = self.compile(backward), self.compile(update)

        def parts(batches: Any) -> Any:
            self.optimizer.zero_grad(set_to_none=self.t.seed % 2 == 0)
            losses = [compiled_backward(x, y, labels, 1 / len(batches)) for x, y, labels in batches]
            if any(p.grad is not None for group in self.optimizer.param_groups for p in group["params"]):
                compiled_update()
            return losses

        self.step = parts

    def _batch(self, size: int, rng: np.random.Generator) -> Any:
        x, y = rng.standard_normal((size, self.t.width)), rng.standard_normal((size, self.t.outputs))
        labels = self.lib.tensor(rng.integers(0, self.t.outputs, size), device=self.kind["device"])
        return self._tensor(x), self._tensor(y), labels

    # -- what happens between steps

    def _happen(self, event: tuple[Any, ...]) -> Iterator[Step]:  # noqa: C901  # a branch an event
        what, *given = event
        parameters = list(self.model.parameters())
        if what == "freeze":
            p = parameters[given[0] % len(parameters)]
            if sum(q.requires_grad for q in parameters) > 1:
                p.requires_grad_(False)
                if given[1]:
                    p.grad = None
        elif what == "thaw all":
            for p in parameters:
                p.requires_grad_()
        elif what == "resume":
            self._resume()
        elif what == "rate":
            for group in self.optimizer.param_groups:
                group["lr"] *= given[0]  # in place, where it is a tensor
        elif what == "clear state":
            self.optimizer.state.clear()
        elif what == "forget one":
            self.optimizer.state.pop(parameters[given[0] % len(parameters)], None)
        elif what == "add group" and not self.is_added and self.scheduler is None:
            self.is_added = True
            self.optimizer.add_param_group({"params": [self.extra], "lr": given[0]})
        elif what == "look":
            for k, p in enumerate(parameters):
                for name, value in sorted(self.optimizer.state.get(p, {}).items()):
                    if value is not None and not (name == "step" and self.t.optimizer == "SGD"):  # counted here alone
                        yield f"state {k} {name}", _array(value)
        elif what == "judge":
            self.model.eval()
            with self.lib.no_grad():
                yield "judged", _array(self.model(self._tensor(np.ones((3, self.t.width)))))
            self.model.train()
        elif what == "zero":
            self.optimizer.zero_grad(set_to_none=given[0])
        elif what == "decay":
            for group in self.optimizer.param_groups:
                group["weight_decay"] = given[0]
        elif what == "perturb":
            with self.lib.no_grad():
                parameters[given[0] % len(parameters)].mul_(0.9)

    def _resume(self) -> None:
        """Save, make all anew, load."""
        flags = [p.requires_grad for p in self.model.parameters()]
        saved = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "extra": self.extra.detach(),
        }
        if self.scheduler is not None:
            saved["scheduler"] = self.scheduler.state_dict()
        file = io.BytesIO()
        self.lib.save(saved, file)
        file.seek(0)
        saved = self.lib.load(file, weights_only=False)
        averaged, was_added = self.averaged, self.is_added
        self._build()
        if was_added:
            self.is_added = True
            self.optimizer.add_param_group({"params": [self.extra]})
        self.averaged = copy.deepcopy(averaged)
        self.model.load_state_dict(saved["model"])
        with self.lib.no_grad():
            self.extra.copy_(saved["extra"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(saved["scheduler"])
        self.optimizer.load_state_dict(saved["optimizer"])
        for p, flag in zip(self.model.parameters(), flags, strict=True):
            p.requires_grad_(flag)
        self._make_steps()

    def steps(self) -> Iterator[Step]:
        """What the training comes to, step by step."""
        rng = np.random.default_rng(self.t.seed + 1)
        for k, sizes in enumerate(self.t.batches):
            for event in self.t.events.get(k, ()):
                yield from self._happen(event)
            losses = self.step([self._batch(size, rng) for size in sizes])
            yield from ((f"loss of batch {n}", _array(loss)) for n, loss in enumerate(losses))
            if self.scheduler is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self.scheduler.step()
            yield from ((name, _array(t)) for name, t in self.model.state_dict().items())
            yield from ((f"lr {n}", np.array(float(g["lr"]))) for n, g in enumerate(self.optimizer.param_groups))
            if self.averaged is not None:
                yield from ((f"averaged {n}", _array(t)) for n, t in enumerate(self.averaged.parameters()))


def _array(value: Any) -> np.ndarray:
    return np.array(value.detach().cpu().numpy() if hasattr(value, "detach") else value, np.float64)
