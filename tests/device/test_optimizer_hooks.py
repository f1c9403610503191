"""Hooks of optimizers, wrappers of them, and optimizers made before their model moves: as in PyTorch."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.optim.optimizer as theirs

import shadergrad as sg
from shadergrad.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook


def made(lib: Any, **options: Any) -> tuple[Any, Any]:
    p = lib.ones(2).requires_grad_()
    p.grad = lib.ones(2)
    return p, lib.optim.SGD([p], lr=0.5, momentum=0.5, **options)


def sequence(lib: Any) -> list[Any]:
    """What hooks of all kinds see, in order."""
    seen: list[Any] = []
    before_all, after_all = (
        (register_optimizer_step_pre_hook, register_optimizer_step_post_hook)
        if lib is sg
        else (theirs.register_optimizer_step_pre_hook, theirs.register_optimizer_step_post_hook)
    )

    def note(word: str) -> Callable[..., None]:
        return lambda *given: seen.append((word, len(given), type(given[0]).__name__))

    _, optimizer = made(lib)
    handles = [
        before_all(note("before all")),
        after_all(note("after all")),
        optimizer.register_step_post_hook(note("after")),
        optimizer.register_step_pre_hook(note("before")),
        optimizer.register_state_dict_pre_hook(note("to save")),
        optimizer.register_state_dict_post_hook(note("saved")),
        optimizer.register_state_dict_post_hook(note("saved first"), prepend=True),
        optimizer.register_load_state_dict_pre_hook(note("to load")),
        optimizer.register_load_state_dict_post_hook(note("loaded")),
    ]
    optimizer.step(lambda: seen.append("closure"))
    optimizer.load_state_dict(optimizer.state_dict())
    for handle in handles:
        handle.remove()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    return seen


def test_hooks_run_in_pytorchs_order_and_end_when_they_are_removed() -> None:
    assert sequence(sg) == sequence(torch)


@pytest.mark.parametrize("lib", [sg, torch], ids=["sg", "torch"])
def test_what_hooks_return_takes_the_place_of_what_they_got(lib: Any) -> None:
    _, optimizer = made(lib)
    called: list[str] = []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: called.append("another") or 3), {}))
    optimizer.register_state_dict_post_hook(lambda o, saved: {**saved, "more": 1})
    optimizer.register_load_state_dict_pre_hook(
        lambda o, saved: {**saved, "param_groups": [{**saved["param_groups"][0], "lr": 0.25}]}
    )
    assert optimizer.step() == 3
    saved = optimizer.state_dict()
    assert saved["more"] == 1
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.25
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(Exception, match=r"must return None or a tuple of \(new_args, new_kwargs\)"):
        optimizer.step()


def test_a_hook_registered_between_calls_of_a_compiled_step_counts(device: str) -> None:
    p = sg.ones(2, device=device).requires_grad_()
    optimizer = sg.optim.SGD([p], lr=0.5)

    @sg.compile
    def step() -> sg.Tensor:
        optimizer.zero_grad()
        loss = p.sum()
        loss.backward()
        optimizer.step()
        return loss

    step()
    with optimizer.register_step_post_hook(lambda o, args, kwargs: p.data.clamp_(min=0.25)):
        step()
        assert p.tolist() == [0.25, 0.25]
    step()
    assert p.tolist() == [-0.25, -0.25]


def test_a_step_of_ones_own_runs_hooks_once() -> None:
    seen: list[str] = []

    class Mine(sg.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            seen.append("mine")
            return super().step(closure)

    p = sg.ones(2).requires_grad_()
    optimizer = Mine([p], lr=0.5)
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    schedule = sg.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()
    assert seen == ["before", "mine"]


def test_an_optimizer_with_hooks_can_be_copied() -> None:
    _, optimizer = made(sg)
    seen: list[Any] = []
    optimizer.register_step_pre_hook(lambda o, *_: seen.append(o))
    twin = copy.deepcopy(optimizer)
    twin.step()
    assert seen == [twin]


class Wrapper:
    """As accelerate wraps an optimizer: an Optimizer by class, without its constructor."""

    @staticmethod
    def of(lib: Any, optimizer: Any) -> Any:
        class Wrapped(lib.optim.Optimizer):
            def __init__(self, inner: Any) -> None:
                self.inner = inner

            @property
            def state(self) -> Any:
                return self.inner.state

            @property
            def param_groups(self) -> Any:
                return self.inner.param_groups

            @property
            def defaults(self) -> Any:
                return self.inner.defaults

            def step(self, closure: Any = None) -> Any:
                return self.inner.step(closure)

        return Wrapped(optimizer)


def test_a_scheduler_takes_a_wrapper() -> None:
    def course(lib: Any) -> list[float]:
        p, optimizer = made(lib)
        wrapped = Wrapper.of(lib, optimizer)
        schedules = lib.optim.lr_scheduler
        parts = [schedules.LinearLR(wrapped, 0.1, total_iters=3), schedules.OneCycleLR(wrapped, 0.5, 12)]
        found = []
        for scheduler in parts:
            for _ in range(4):
                wrapped.step()
                scheduler.step()
                found += [*p.tolist(), *map(float, scheduler.get_last_lr())]
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert course(sg) == pytest.approx(course(torch), 1e-5)


@pytest.mark.parametrize("kind", ["SGD", "AdamW", "Adagrad", "Rprop", "ASGD"])
@pytest.mark.parametrize("compiled", [False, True], ids=["uncompiled", "compiled"])
def test_an_optimizer_made_before_its_model_moves_trains_it(kind: str, compiled: bool, webgpu: str) -> None:
    def course(moves: bool) -> list[np.ndarray]:
        sg.manual_seed(0)
        model = sg.nn.Linear(3, 2)
        if not moves:
            model.to(webgpu)
        optimizer = getattr(sg.optim, kind)(model.parameters(), lr=0.05)
        schedule = sg.optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2)
        model.to(webgpu)

        def step(x: sg.Tensor) -> sg.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = sg.compile(step) if compiled else step
        for _ in range(3):
            run(sg.ones(4, 3, device=webgpu))
            schedule.step()
        return [p.detach().numpy() for p in model.parameters()]

    for a, b in zip(course(True), course(False), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_gradient_may_be_deleted() -> None:
    p, optimizer = made(sg)
    del p.grad
    assert p.grad is None
    optimizer.step()
    assert p.tolist() == [1.0, 1.0]
