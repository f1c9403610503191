"""Hooks of modules and of all modules: which run, in which order, with what, and what they may replace. As PyTorch's."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import shadergrad as sg
from helpers import assert_close
from shadergrad import nn

LIBRARIES = pytest.mark.parametrize("lib", [sg, torch], ids=["shadergrad", "torch"])


@pytest.fixture(autouse=True)
def _removed_whole() -> Iterator[None]:
    """PyTorch's handles leave the mark of a hook with keyword arguments behind, and torch.compile warns of it."""
    yield
    torch.nn.modules.module._global_forward_hooks_with_kwargs.clear()


def everywhere(lib: Any) -> Any:
    return lib.nn.modules.module


def numbers(values: Any) -> Any:
    if isinstance(values, tuple | list):
        return [numbers(v) for v in values]
    return values.detach().tolist() if hasattr(values, "detach") else values


class Log(list[Any]):
    def note(self, name: str, result: Any = None) -> Callable[..., Any]:
        def hook(module: Any, *given: Any) -> Any:
            self.append((name, type(module).__name__, [numbers(g) for g in given]))
            return result(given) if callable(result) else result

        return hook


def order(lib: Any) -> Any:
    """Those of all modules come first; `prepend` is among the module's own."""
    log = Log()
    module = lib.nn.Tanh()
    module.register_forward_pre_hook(log.note("own pre"))
    module.register_forward_pre_hook(log.note("own pre, first"), prepend=True)
    module.register_forward_hook(log.note("own"))
    module.register_forward_hook(log.note("own, first"), prepend=True)
    module.register_full_backward_pre_hook(log.note("own backward pre"))
    module.register_full_backward_pre_hook(log.note("own backward pre, first"), prepend=True)
    module.register_full_backward_hook(log.note("own backward"))
    module.register_full_backward_hook(log.note("own backward, first"), prepend=True)
    shared = everywhere(lib)
    handles = [
        shared.register_module_forward_pre_hook(log.note("all pre")),
        shared.register_module_forward_hook(log.note("all")),
        shared.register_module_full_backward_pre_hook(log.note("all backward pre")),
        shared.register_module_full_backward_hook(log.note("all backward")),
    ]
    x = lib.zeros(2, requires_grad=True)
    module(x).sum().backward()
    for handle in handles:
        handle.remove()
    log.append("removed")
    module(x).sum().backward()
    return list(log)


def replacing(lib: Any) -> Any:
    shared = everywhere(lib)
    x = lib.ones(2, requires_grad=True)
    net = lib.nn.Sequential(lib.nn.Identity(), lib.nn.Identity())
    found: list[Any] = []
    for register, hook in (
        (shared.register_module_forward_pre_hook, lambda m, args: (args[0] * 2,)),
        (shared.register_module_forward_pre_hook, lambda m, args: args[0] + 1),
        (shared.register_module_forward_hook, lambda m, args, out: out * 10),
        (shared.register_module_full_backward_pre_hook, lambda m, grads: (grads[0] * 3,)),
        (shared.register_module_full_backward_hook, lambda m, inputs, outputs: (inputs[0] * 5,)),
    ):
        handle = register(hook)
        x.grad = None
        out = net(x)
        out.sum().backward()
        handle.remove()
        found.append((numbers(out), numbers(x.grad)))
    return found


def with_keywords(lib: Any) -> Any:
    class Scale(lib.nn.Module):
        def forward(self, x: Any, by: Any = 1.0) -> Any:
            return x * by

    log = Log()
    module = Scale()
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True)
    module.register_forward_hook(log.note("own", lambda given: given[2] + 1), with_kwargs=True)
    with everywhere(lib).register_module_forward_hook(log.note("all"), with_kwargs=True):
        out = module(lib.ones(2), by=2.0)
    return [numbers(out), list(log)]


def when_forward_fails(lib: Any) -> Any:
    class Fails(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    log = Log()
    module = Fails()
    module.register_forward_hook(log.note("never"))
    module.register_forward_hook(log.note("always"), always_call=True)

    def broken(*_: Any) -> None:
        raise KeyError("the hook's own")

    module.register_forward_hook(broken, always_call=True)
    with (
        everywhere(lib).register_module_forward_hook(log.note("all, always"), always_call=True),
        pytest.warns(UserWarning, match="silenced"),
        pytest.raises(ValueError, match="no"),
    ):
        module(lib.ones(1))
    return list(log)


def registration(lib: Any) -> Any:
    shared = everywhere(lib)
    log: list[Any] = []

    def note(kind: str) -> Callable[..., Any]:
        return lambda module, name, value: log.append((kind, type(module).__name__, name))

    handles = [
        shared.register_module_parameter_registration_hook(note("parameter")),
        shared.register_module_buffer_registration_hook(note("buffer")),
        shared.register_module_module_registration_hook(note("module")),
    ]
    made = lib.nn.Sequential(lib.nn.BatchNorm1d(1), lib.nn.Linear(1, 1, bias=False))
    made.add_module("more", lib.nn.ReLU())
    made.other = lib.nn.ReLU()
    made[0].running_mean = lib.zeros(1)
    for handle in handles:
        handle.remove()
    return [entry for entry in log if entry[0] != "buffer" or entry[2] != "running_mean"]


def by_private_names(lib: Any) -> Any:
    module = lib.nn.Identity()
    module.register_forward_hook(lambda m, args, out: out * 2)
    module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    sizes = [len(module._forward_hooks), len(module._forward_pre_hooks), len(module._backward_hooks)]
    first = numbers(module(lib.ones(1)))
    module._forward_hooks.clear()
    second = numbers(module(lib.ones(1)))
    module._forward_pre_hooks.popitem()
    return [sizes, first, second, numbers(module(lib.ones(1)))]


def copied(lib: Any) -> Any:
    module = lib.nn.Identity()
    module.register_forward_hook(lambda m, args, kwargs, out: out * 2, with_kwargs=True)
    again = copy.deepcopy(module)
    module._forward_hooks.clear()
    return [numbers(module(lib.ones(1))), numbers(again(lib.ones(1)))]


def removed_between(lib: Any) -> Any:
    """The hooks that were there in the forward pass run in the backward pass."""
    log = Log()
    module = lib.nn.Tanh()
    handle = module.register_full_backward_hook(log.note("there"))
    x = lib.zeros(1, requires_grad=True)
    out = module(x)
    handle.remove()
    module.register_full_backward_hook(log.note("too late"))
    out.sum().backward()
    return list(log)


CASES = [
    order,
    replacing,
    with_keywords,
    when_forward_fails,
    registration,
    by_private_names,
    copied,
    removed_between,
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_hooks_run_as_pytorchs(case: Callable[[Any], Any]) -> None:
    assert case(sg) == case(torch)


@LIBRARIES
def test_a_module_without_gradients_of_inputs_may_not_be_given_any(lib: Any) -> None:
    module = lib.nn.Linear(1, 1)
    module.register_full_backward_hook(lambda m, inputs, outputs: (lib.ones(1),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = module(lib.ones(1))
        with pytest.raises(RuntimeError, match="where no input requires gradient should always return None"):
            out.sum().backward()


@LIBRARIES
def test_a_result_that_backward_hooks_do_not_see_warns(lib: Any) -> None:
    class Named(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return {"x": x * 2}

    module = Named()
    module.register_full_backward_hook(lambda *_: None)
    with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors"):
        module(lib.ones(1, requires_grad=True))


def test_the_older_backward_hook_warns_and_sees_the_modules_inputs() -> None:
    module = nn.Tanh()
    seen: list[Any] = []
    with pytest.warns(FutureWarning, match="register_full_backward_hook"):
        module.register_backward_hook(lambda m, inputs, outputs: seen.append(numbers([*inputs, *outputs])))
    module(sg.zeros(1, requires_grad=True)).sum().backward()
    assert seen == [[[1.0], [1.0]]]


def double(module: Any, args: Any, out: Any) -> Any:
    return out * 2


def test_hooks_are_pickled_with_their_module() -> None:
    module = nn.Identity()
    module.register_forward_hook(double)
    assert pickle.loads(pickle.dumps(module))(sg.ones(1)).tolist() == [2.0]


def test_hooks_of_all_modules_are_part_of_compiled_steps(device: str) -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Tanh()).to(device)
    step = sg.compile(lambda x: module(x))
    x = sg.ones(1, 2, device=device)
    plain = step(x).numpy()
    with nn.modules.module.register_module_forward_hook(lambda m, args, out: out + 1):
        assert_close(step(x), module(x).detach().numpy(), 1e-6, 1e-6)
        assert abs(step(x).numpy() - plain).max() > 0.1
    assert_close(step(x), plain, 0, 0)
    assert step.captures == 2


def test_a_table_that_a_program_clears_is_seen_by_compiled_steps(device: str) -> None:
    module = nn.Linear(2, 2, device=device)
    step = sg.compile(lambda x: module(x))
    x = sg.ones(1, 2, device=device)
    plain = step(x).numpy()
    module.register_forward_hook(double)
    assert_close(step(x), plain * 2, 0, 0)
    module._forward_hooks.clear()
    assert_close(step(x), plain, 0, 0)


def test_a_compiled_module_runs_backward_hooks(device: str) -> None:
    module = nn.Tanh()
    module.register_full_backward_hook(lambda m, inputs, outputs: (inputs[0] * 3,))
    compiled = sg.compile(module)
    x = sg.zeros(2, requires_grad=True, device=device)
    for _ in range(2):
        x.grad = None
        compiled(x).sum().backward()
        assert_close(x.grad, [3.0, 3.0], 0, 0)
