"""State dicts: what modules put into them and take out, extra state, formats of their own, hooks around both. As PyTorch's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from shadergrad import nn
from shadergrad.nn.errors import StateDictError

LIBRARIES = pytest.mark.parametrize("lib", [sg, torch], ids=["shadergrad", "torch"])


def plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def with_extra(lib: Any) -> Any:
    class Counted(lib.nn.Module):
        _version = 3

        def __init__(self) -> None:
            super().__init__()
            self.w = lib.nn.Parameter(lib.ones(2))
            self.calls = 0

        def get_extra_state(self) -> Any:
            return {"calls": self.calls}

        def set_extra_state(self, state: Any) -> None:
            self.calls = state["calls"]

    return Counted()


def of_own_format(lib: Any) -> Any:
    class Halves(lib.nn.Module):
        """Saves a vector as two, under other names, and its sum."""

        _version = 2

        def __init__(self) -> None:
            super().__init__()
            self.w = lib.nn.Parameter(lib.arange(4.0))
            self.seen: list[Any] = []

        def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
            destination[prefix + "low"] = self.w.detach()[:2]
            destination[prefix + "high"] = self.w.detach()[2:]

        def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *others: Any) -> None:
            self.seen.append(local_metadata.get("version"))
            low, high = state_dict.pop(prefix + "low"), state_dict.pop(prefix + "high")
            state_dict[prefix + "w"] = lib.cat([low, high])
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)
            self.seen.append(self.w.detach().sum().item())  # the class may look at what it has just loaded

    return Halves()


def extra(lib: Any) -> Any:
    model = lib.nn.Sequential(with_extra(lib), lib.nn.Linear(2, 1, bias=False))
    model[0].calls = 7
    state = copy.deepcopy(model.state_dict())
    other = lib.nn.Sequential(with_extra(lib), lib.nn.Linear(2, 1, bias=False))
    found = str(other.load_state_dict(state))
    del state["0._extra_state"]
    partial = other.load_state_dict({"0.w": state["0.w"], "1._extra_state": 1}, strict=False)
    return [list(model.state_dict()), found, other[0].calls, partial.missing_keys, partial.unexpected_keys]


def own_format(lib: Any) -> Any:
    model = lib.nn.Sequential(of_own_format(lib))
    state = model.state_dict()
    with lib.no_grad():
        model[0].w.mul_(2)
    doubled = copy.deepcopy(model.state_dict())
    model.load_state_dict(doubled)
    model.load_state_dict(dict(doubled))
    return [list(state), plain(model[0].w), model[0].seen[-2:], dict(state._metadata)]


def renaming(lib: Any) -> Any:
    model = lib.nn.Sequential(lib.nn.Linear(2, 1))
    log: list[Any] = []

    def rename(
        state: Any, prefix: str, metadata: Any, strict: bool, missing: Any, unexpected: Any, errors: Any
    ) -> None:
        log.append((prefix, strict, metadata.get("version"), list(missing)))
        if prefix + "gamma" in state:
            state[prefix + "weight"] = state.pop(prefix + "gamma")

    def look(module: Any, state: Any, prefix: str, *others: Any) -> None:
        log.append((type(module).__name__, sorted(state), prefix))

    first = model[0]._register_load_state_dict_pre_hook(rename)
    model[0].register_load_state_dict_pre_hook(look)
    model.register_load_state_dict_pre_hook(look)
    old = {"0.gamma": lib.ones(1, 2), "0.bias": lib.zeros(1)}
    found = str(model.load_state_dict(old))
    first.remove()
    refused = model.load_state_dict(old, strict=False)
    return [found, plain(model[0].weight), log, refused.missing_keys, refused.unexpected_keys, sorted(old)]


def forgiving(lib: Any) -> Any:
    model = lib.nn.Sequential(lib.nn.Linear(2, 1), lib.nn.Linear(1, 1))
    order: list[Any] = []

    def clear(module: Any, keys: Any) -> None:
        order.append((type(module).__name__, list(keys.missing_keys), list(keys.unexpected_keys)))
        keys.missing_keys.clear()
        keys.unexpected_keys.clear()

    inner = model[1].register_load_state_dict_post_hook(clear)
    handle = model.register_load_state_dict_post_hook(clear)
    state = {"0.weight": lib.ones(1, 2), "more": lib.ones(1)}
    found = str(model.load_state_dict(state))
    handle.remove()
    inner.remove()
    with pytest.raises(RuntimeError) as refused:
        model.load_state_dict({**state, "1.other": lib.ones(1)})
    model.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.append("mine"))
    with pytest.raises(RuntimeError, match="mine"):
        model.load_state_dict(model.state_dict())
    return [found, order[:2], str(refused.value)]


def saving(lib: Any) -> Any:
    model = lib.nn.Sequential(lib.nn.Linear(2, 1, bias=False))
    log: list[Any] = []
    model[0].register_state_dict_pre_hook(lambda m, prefix, keep: log.append((type(m).__name__, prefix, keep)))

    def add(module: Any, state: Any, prefix: str, metadata: Any) -> None:
        state[prefix + "note"] = metadata["version"]

    model[0].register_state_dict_post_hook(add)
    replaced = model._register_state_dict_hook(lambda m, state, prefix, metadata: {"all": sorted(state)})
    first = model.state_dict(prefix="net.", keep_vars=True)
    replaced.remove()
    second = model.state_dict()
    target = {"before": 1}
    third = model.state_dict(destination=target, prefix="a.")
    model[0].register_state_dict_post_hook(lambda *_: 1)
    with pytest.raises(RuntimeError, match="post-hook must return None"):
        model.state_dict()
    return [first, sorted(second), third is target, sorted(target), log]


def children(lib: Any) -> Any:
    class Outer(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = lib.nn.Linear(1, 1)

        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return {k: v for k, v in super().state_dict(*args, **kwargs).items() if not k.endswith("bias")}

    class Top(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = Outer()

        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            found = super().state_dict(*args, **kwargs)
            found["a.note"] = 1
            return found

    return [sorted(Outer().state_dict()), sorted(Top().state_dict())]


def batch_norms(lib: Any) -> Any:
    layer = lib.nn.BatchNorm1d(2)
    layer(lib.ones(3, 2))
    old = {k: v for k, v in lib.nn.BatchNorm1d(2).state_dict().items() if k != "num_batches_tracked"}
    found = str(layer.load_state_dict(old))
    new = layer.state_dict()
    del new["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        layer.load_state_dict(new)
    with pytest.raises(RuntimeError, match="Unexpected running stats"):
        lib.nn.InstanceNorm1d(2).load_state_dict({"running_mean": lib.ones(2), "running_var": lib.ones(2)})
    return [found, layer.num_batches_tracked.item()]


def older_weight_norm(lib: Any) -> Any:
    layer = lib.nn.utils.parametrizations.weight_norm(lib.nn.Linear(2, 1, bias=False))
    old = {"0.weight_g": lib.tensor([[2.0]]), "0.weight_v": lib.tensor([[3.0, 4.0]])}
    found = str(lib.nn.Sequential(layer).load_state_dict(old))
    return [found, np.round(np.asarray(plain(layer.weight)), 5).tolist()]


def assigned(lib: Any) -> Any:
    model = lib.nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    w, b = lib.ones(1, 2), lib.nn.Parameter(lib.ones(1))
    model.load_state_dict({"weight": w, "bias": b}, assign=True)
    return [model.bias is b, model.bias.requires_grad, model.weight.requires_grad, plain(model.weight)]


def prefixes(lib: Any) -> Any:
    utils = lib.nn.modules.utils
    state = lib.nn.DataParallel(lib.nn.Linear(1, 1)).state_dict()
    utils.consume_prefix_in_state_dict_if_present(state, "module.")
    return [sorted(state), sorted(state._metadata)]


CASES = [extra, own_format, renaming, forgiving, saving, children, batch_norms, older_weight_norm, assigned, prefixes]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_states_go_out_and_in_as_pytorchs(case: Callable[[Any], Any]) -> None:
    assert case(sg) == case(torch)


@LIBRARIES
def test_set_submodule(lib: Any) -> None:
    model = lib.nn.Sequential(lib.nn.Sequential(lib.nn.Linear(1, 1)))
    model.set_submodule("0.0", lib.nn.Identity())
    assert type(model[0][0]).__name__ == "Identity"
    model.set_submodule("0.more", lib.nn.ReLU())
    assert len(model[0]) == 2
    for arguments, error in (
        (("", lib.nn.ReLU()), ValueError),
        (("0.0", 3), ValueError),
        (("0.9", lib.nn.ReLU(), True), AttributeError),
        (("7.0", lib.nn.ReLU()), AttributeError),
        (("0.training", lib.nn.ReLU()), AttributeError),
    ):
        with pytest.raises(error):
            model.set_submodule(*arguments)


@LIBRARIES
def test_buffers_register_themselves(lib: Any) -> None:
    class Holder(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = lib.nn.Buffer(lib.ones(2))
            self.passing = lib.nn.Buffer(lib.zeros(1), persistent=False)
            self.w = lib.nn.Parameter(lib.ones(1))

        def forward(self, x: Any) -> Any:
            return x * self.kept

    holder = Holder()
    assert [n for n, _ in holder.named_buffers()] == ["kept", "passing"]
    assert sorted(holder.state_dict()) == ["kept", "w"]
    assert isinstance(lib.nn.Buffer(lib.ones(1)), lib.nn.Buffer)
    assert not isinstance(lib.ones(1), lib.nn.Buffer)
    holder.kept = lib.nn.Buffer(lib.full((2,), 3.0), persistent=False)
    assert sorted(holder.state_dict()) == ["w"]
    holder.passing = lib.ones(1)  # a tensor takes its place, and stays as persistent as it was
    assert sorted(holder.state_dict()) == ["w"]
    assert plain(copy.deepcopy(holder)(lib.ones(2))) == [3.0, 3.0]
    with pytest.raises(TypeError):
        holder.w = lib.nn.Buffer(lib.ones(1))
    assert lib.nn.Buffer().shape == (0,)


def test_a_buffer_is_pickled() -> None:
    made = nn.Buffer(sg.ones(2), persistent=False)
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is nn.Buffer
    assert not again.persistent
    assert again.tolist() == [1.0, 1.0]


def test_parameters_take_attributes() -> None:
    p = nn.Parameter(sg.ones(1))
    p.no_decay = True  # type: ignore[attr-defined]
    assert p.no_decay  # type: ignore[attr-defined]


@pytest.mark.parametrize("assign", [False, True])
def test_a_load_that_fails_changes_no_tensor(assign: bool) -> None:
    """Though an overridden method, and a hook, had to see what was loaded before."""
    model = nn.Sequential(of_own_format(sg), with_extra(sg), nn.Linear(2, 1))
    seen: list[Any] = []
    model[1].register_load_state_dict_post_hook(lambda m, keys: seen.append((m.w.tolist(), model[0].w.tolist())))
    before = copy.deepcopy(model.state_dict())
    tensors = list(model.parameters())
    wrong = {k: v + 1 if isinstance(v, sg.Tensor) else v for k, v in before.items()} | {"2.bias": sg.ones(3)}
    with pytest.raises(StateDictError, match=r"size mismatch for 2\.bias"):
        model.load_state_dict(wrong, assign=assign)
    assert seen == [([2.0, 2.0], [1.0, 2.0, 3.0, 4.0])]
    assert plain(model.state_dict()) == plain(before)
    assert all(a is b for a, b in zip(tensors, model.parameters(), strict=True))


def test_a_hook_that_raises_leaves_the_model_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1))

    def fail(*_: Any) -> None:
        raise KeyError("broken")

    model[1].register_load_state_dict_pre_hook(fail)
    before = plain(model.state_dict())
    with pytest.raises(KeyError, match="broken"):
        model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})
    assert plain(model.state_dict()) == before


def test_extra_state_goes_through_a_file(tmp_path: Any) -> None:
    model = with_extra(sg)
    model.calls = 5
    sg.save(model.state_dict(), tmp_path / "state.safetensors")
    other = with_extra(sg)
    other.load_state_dict(sg.load(tmp_path / "state.safetensors"))
    assert other.calls == 5


def test_a_file_of_pytorchs_bfloat16_loads() -> None:
    layer = nn.Linear(2, 1)
    layer.load_state_dict(torch.nn.Linear(2, 1).bfloat16().state_dict())
    assert layer.weight.dtype is sg.float32
