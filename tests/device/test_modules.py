"""Modules: each as PyTorch's of the same name, with the same weights; and what the tree of modules can do."""

from __future__ import annotations

import copy
import inspect
import math
import re
import warnings
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch

import shadergrad as sg
import shadergrad.nn.functional as F
from helpers import assert_close, assert_compiles_nothing, assert_same_bits, grad_of
from module_cases import CASES, ModuleCase, floats
from shadergrad import nn, optim

pytestmark = pytest.mark.filterwarnings("ignore:Support for mismatched")  # PyTorch, of two kinds of masks at once


def flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [t for v in value for t in flat(v)]
    return [] if value is None else [value]


def torch_module(c: ModuleCase) -> Any:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = c.make(torch.nn).double()
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(0.2, 0.6)
    return module.train(c.train)


def our_module(c: ModuleCase, device: str = "cpu", dtype: Any = sg.float64) -> Any:
    """With the weights of PyTorch's."""
    module = c.make(nn).to(device, dtype).train(c.train)
    found = module.load_state_dict(torch_module(c).state_dict())
    assert str(found) == "<All keys matched successfully>"
    return module


def results(
    c: ModuleCase, module: Any, leaves: list[Any], as_tensor: Callable[[np.ndarray, Any], Any]
) -> dict[str, Any]:
    """Outputs, gradients of inputs and parameters for a random cotangent, and buffers, by name."""
    outputs = [o for o in flat(c.call(module, *leaves)) if o.is_floating_point()]
    total: Any = 0
    for k, o in enumerate(outputs):
        total = total + (o * as_tensor(floats(*o.shape, seed=100 + k), o)).sum()
    found = {f"output {k}": o.detach() for k, o in enumerate(outputs)}
    if total.requires_grad:
        total.backward()
    found |= {f"gradient of input {k}": x.grad for k, x in enumerate(leaves) if x.requires_grad}
    found |= {f"gradient of {name}": p.grad for name, p in module.named_parameters()}
    return found | {name: b.detach() for name, b in module.named_buffers()}


def torch_results(c: ModuleCase) -> dict[str, np.ndarray]:
    leaves = [torch.tensor(a, requires_grad=a.dtype.kind == "f" and k not in c.fixed) for k, a in enumerate(c.inputs)]
    found = results(c, torch_module(c), leaves, lambda a, like: torch.tensor(a))
    return {name: np.zeros(0) if t is None else t.numpy(force=True) for name, t in found.items()}


def our_leaves(c: ModuleCase, device: str, dtype: Any) -> list[sg.Tensor]:
    leaves = []
    for k, a in enumerate(c.inputs):
        is_float = a.dtype.kind == "f"
        leaf = sg.tensor(a, dtype=dtype if is_float else None, device=device)
        leaves.append(leaf.requires_grad_() if is_float and k not in c.fixed else leaf)
    return leaves


def our_results(c: ModuleCase, device: str, dtype: Any) -> dict[str, np.ndarray]:
    leaves = our_leaves(c, device, dtype)
    module = our_module(c, device, dtype)
    found = results(c, module, leaves, lambda a, like: sg.tensor(a, dtype=dtype, device=device))
    sg.sync()  # everything in one plan
    return {name: np.zeros(0) if t is None else t.numpy() for name, t in found.items()}


@pytest.mark.parametrize("c", CASES, ids=str)
def test_a_module_equals_pytorchs_in_float64(c: ModuleCase) -> None:
    expected, found = torch_results(c), our_results(c, "cpu", sg.float64)
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert_close(found[name], value, c.tolerance, c.tolerance, f"{c.name}: {name}")


@pytest.mark.parametrize("c", [c for c in CASES if c.on_webgpu], ids=str)
def test_a_module_on_webgpu_equals_pytorchs(c: ModuleCase, webgpu: str) -> None:
    expected, found = torch_results(c), our_results(c, webgpu, sg.float32)
    for name, value in expected.items():
        assert_close(found[name], value, 1e-4, 1e-5 * c.length, f"{c.name}: {name}")


@pytest.mark.parametrize("c", CASES, ids=str)
def test_a_state_dict_has_pytorchs_names_and_loads_there(c: ModuleCase) -> None:
    theirs, ours = torch_module(c), our_module(c)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in theirs.named_modules()]
    theirs.load_state_dict({k: torch.from_numpy(v.numpy()) for k, v in ours.state_dict().items()})


@pytest.mark.parametrize("c", CASES, ids=str)
def test_a_module_prints_as_pytorchs_and_has_its_attributes(c: ModuleCase) -> None:
    ours, theirs = c.make(nn), torch_module(c).train()
    if c.prints:
        assert repr(ours) == repr(theirs)
    for attribute, value in vars(theirs).items():
        plain = attribute[0] != "_" and not callable(value) and not isinstance(value, torch.Tensor)
        if plain and (type(ours).__name__, attribute) not in PYTORCHS_OWN:
            assert getattr(ours, attribute) == value, attribute


PYTORCHS_OWN = {  # attributes that follow from how PyTorch is built, or name what is not here
    *(("ReLU6", name) for name in ("min_val", "max_val", "inplace")),
    *((f"AdaptiveMaxPool{k}d", "return_indices") for k in (1, 2, 3)),
    ("TransformerEncoderLayer", "activation_relu_or_gelu"),
    *(("TransformerEncoder", name) for name in ("enable_nested_tensor", "use_nested_tensor", "mask_check")),
    ("LinearCrossEntropyLoss", "options"),  # which print alike
    *(("Upsample", name) for name in ("name", "recompute_scale_factor")),
}


@pytest.mark.parametrize("c", CASES, ids=str)
def test_initial_values_have_pytorchs_spread(c: ModuleCase) -> None:
    """Constants are equal; random ones stay within the same bound, by mean square over all values."""
    torch.manual_seed(0)
    sg.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = c.make(torch.nn).state_dict(), c.make(nn).state_dict()
    for name, value in theirs.items():
        a, b = ours[name].numpy(), value.numpy()
        if b.size == 0 or np.unique(b).size == 1 < b.size:
            assert_close(a, b, 0, 0, name)
        elif b.size >= 12:
            assert 0.4 < np.sqrt((a**2).mean()) / np.sqrt((b**2).mean()) < 2.5, name


@pytest.mark.parametrize("c", CASES, ids=str)
def test_a_deep_copy_of_a_module_computes_the_same_and_shares_nothing(c: ModuleCase) -> None:
    module = our_module(c)
    twin = copy.deepcopy(module)
    assert repr(twin) == repr(module)
    assert twin.training == module.training
    own, others = ([*m.parameters(), *m.buffers()] for m in (module, twin))
    assert len(own) == len(others)
    assert not {id(t) for t in own} & {id(t) for t in others}
    assert [type(t) for t in own] == [type(t) for t in others]
    expected, found = (
        results(c, m, our_leaves(c, "cpu", sg.float64), lambda a, like: sg.tensor(a, dtype=sg.float64))
        for m in (module, twin)
    )
    assert list(found) == list(expected)
    for name, value in expected.items():
        if value is not None:
            assert_same_bits(found[name], value, name)
    before = [t.detach().numpy() for t in own]
    with sg.no_grad():
        for t in others:
            t.fill_(7)
    for t, value in zip(own, before, strict=True):
        assert_same_bits(t.detach(), value)


BASES = {"Module", "RNNBase"}  # nothing to build: what others derive from


def test_every_public_module_has_a_case() -> None:
    public = {n for n, k in vars(nn).items() if inspect.isclass(k) and issubclass(k, nn.Module) and n[0] != "_"}
    built = {type(m).__name__ for c in CASES for m in c.make(nn).modules()}
    others = {"DataParallel", "SyncBatchNorm"}  # test_lines.py, processes/test_data_parallel.py
    public = {n for n in public - others if not n.startswith("Lazy")}  # test_lazy.py
    assert public - BASES <= built, f"no case in module_cases.py: {sorted(public - BASES - built)}"


def test_every_module_of_the_files_is_public() -> None:
    """A class without an underscore in nn/ is exported, or it is a detail of its file."""
    details = {"ModuleTree", "NonDynamicallyQuantizableLinear", "RNNCellBase", "DistributedDataParallel"}
    for room in vars(nn).values():
        if inspect.ismodule(room) and room.__name__.startswith("shadergrad.nn."):
            for name, kind in vars(room).items():
                if inspect.isclass(kind) and issubclass(kind, nn.Module) and name[0] != "_" and name not in details:
                    assert getattr(nn, name, None) is kind, f"{room.__name__}.{name} is not in the __all__ of its file"


# ---------------------------------------------------------------------------------------------- the tree


class Net(nn.Module):
    """With one of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.ModuleList([nn.Linear(4, 4), nn.BatchNorm1d(4)])
        self.scale = nn.Parameter(sg.ones(4))
        self.register_buffer("mean", sg.zeros(4))
        self.register_buffer("scratch", sg.zeros(2), persistent=False)
        self.register_buffer("nothing", None)
        self.tied = self.first

    def forward(self, x: sg.Tensor) -> sg.Tensor:
        x = self.tied(x) * self.scale
        for layer in self.rest:
            x = layer(x)
        return x - self.mean


def test_the_tree_by_names() -> None:
    net = Net()
    assert [n for n, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert [n for n, _ in net.named_modules(remove_duplicate=False)][-1] == "tied"
    assert [n for n, _ in net.named_children()] == ["first", "rest"]
    assert [n for n, _ in net.named_parameters()] == [
        "scale",
        *("first.weight", "first.bias", "rest.0.weight", "rest.0.bias", "rest.1.weight", "rest.1.bias"),
    ]
    assert [n for n, _ in net.named_parameters(prefix="net", recurse=False)] == ["net.scale"]
    assert [n for n, _ in net.named_buffers()] == [
        *("mean", "scratch", "rest.1.running_mean", "rest.1.running_var", "rest.1.num_batches_tracked")
    ]
    assert "scratch" not in net.state_dict()
    assert {"tied.weight", "first.weight"} <= set(net.state_dict())
    assert net.state_dict(prefix="a.").keys() == {f"a.{k}" for k in net.state_dict()}
    assert net.get_submodule("rest.1") is net.rest[1]
    assert net.get_parameter("rest.0.weight") is net.rest[0].weight
    assert net.get_buffer("rest.1.running_mean") is net.rest[1].running_mean
    assert net.nothing is None
    assert len(list(net.children())) == 2
    assert {"first", "scale", "mean", "training"} <= set(dir(net))


def test_wrong_names_are_refused_with_pytorchs_words() -> None:
    net: Any = Net()
    with pytest.raises(AttributeError, match="BatchNorm1d has no attribute `x`"):
        net.get_submodule("rest.1.x")
    with pytest.raises(AttributeError, match=r"`mean` is not an nn\.Parameter"):
        net.get_parameter("mean")
    with pytest.raises(AttributeError, match="object has no attribute 'other'"):
        net.other
    with pytest.raises(TypeError, match="cannot assign 'Tensor' as parameter 'scale'"):
        net.scale = sg.ones(4)
    with pytest.raises(TypeError, match="cannot assign 'int' as child module 'first'"):
        net.first = 3
    with pytest.raises(TypeError, match="cannot assign 'int' as buffer 'mean'"):
        net.mean = 3
    with pytest.raises(KeyError, match="attribute 'scale' already exists"):
        net.register_buffer("scale", sg.ones(2))
    with pytest.raises(KeyError, match=r"can't contain \"\.\""):
        net.add_module("a.b", nn.Tanh())
    with pytest.raises(KeyError, match="can't be empty string"):
        net.register_parameter("", None)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        nn.ModuleList(cast(Any, [1]))
    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        nn.Module()(1)

    class Late(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Late()


def test_attributes_change_their_kind() -> None:
    net = Net()
    net.thing = 3
    net.thing = nn.Linear(1, 1)
    assert "thing" in dict(net.named_children())
    net.thing = nn.Parameter(sg.ones(1))
    assert "thing" not in dict(net.named_children())
    assert "thing" in dict(net.named_parameters())
    net.thing = None
    assert net.thing is None
    del net.thing
    assert not hasattr(net, "thing")
    net.mean = sg.ones(4)
    assert net.state_dict()["mean"].tolist() == [1] * 4
    del net.scratch
    assert "scratch" not in dict(net.named_buffers())


def test_modes_flags_and_gradients() -> None:
    net = Net()
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    net.train()
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    net.requires_grad_()
    net(sg.ones(5, 3)).sum().backward()
    gradient = net.scale.grad = sg.tensor([1.0, math.nan, math.inf, 2.0])
    net.zero_grad(set_to_none=False)
    assert gradient is net.scale.grad
    assert gradient.tolist() == [0] * 4
    net.zero_grad()
    assert net.scale.grad is None
    seen: list[str] = []
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Linear", "Linear", "BatchNorm1d", "ModuleList", "Net"]


def test_train_is_called_on_children() -> None:
    class Frozen(nn.BatchNorm1d):
        def train(self, mode: bool = True) -> Any:
            return super().train(False)

    model = nn.Sequential(Frozen(3), nn.Dropout()).train()
    assert [m.training for m in model] == [False, True]


def test_a_model_moves_with_its_buffers(webgpu: str) -> None:
    net = Net().to(webgpu)
    assert {str(t.device) for t in [*net.parameters(), *net.buffers()]} == {webgpu}
    assert net.rest[1].num_batches_tracked.dtype is sg.int32
    expected = net.eval()(sg.ones(2, 3, device=webgpu)).detach().numpy()
    net.to("cpu", sg.float64)
    assert {p.dtype for p in net.parameters()} == {sg.float64}
    assert net.mean.dtype is sg.float64
    assert net.rest[1].num_batches_tracked.dtype is sg.int32
    assert_close(net(sg.ones(2, 3, dtype=sg.float64)), expected, 1e-5, 1e-5)
    assert net.to(sg.ones(1)).scale.dtype is sg.float32
    with pytest.raises(TypeError, match="only accepts floating point"):
        net.to(sg.int32)


def test_load_state_dict_names_all_that_is_wrong() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    good = {k: v.clone() for k, v in net.state_dict().items()}
    before = {k: v.numpy() for k, v in net.state_dict().items()}
    bad = {
        "0.weight": np.zeros((3, 2), np.float32),
        "1.bias": np.zeros(2, np.float32),
        "1.weight": sg.ones(1, 3),
        "x": 1,
    }
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(bad)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Sequential:\n"
        '\tMissing key(s) in state_dict: "0.bias". \n'
        '\tUnexpected key(s) in state_dict: "x". \n'
        "\tsize mismatch for 1.bias: copying a param with shape shadergrad.Size([2]) from checkpoint, "
        "the shape in current model is shadergrad.Size([1])."
    )
    for name, value in net.state_dict().items():
        assert_same_bits(value, before[name], "a failed load changes nothing")
    found = net.load_state_dict({"0.weight": good["0.weight"], "y": 0}, strict=False)
    assert found.missing_keys == ["0.bias", "1.weight", "1.bias"]
    assert found.unexpected_keys == ["y"]
    with pytest.raises(RuntimeError, match="size mismatch"):
        net.load_state_dict({"0.bias": np.zeros(7)}, strict=False)
    with pytest.raises(TypeError, match="dict-like"):
        net.load_state_dict(cast(Any, [1]))
    net.load_state_dict({k: v * 2 for k, v in good.items()}, assign=True)
    assert_close(net[0].weight, good["0.weight"] * 2, 0, 0)
    assert isinstance(net[0].weight, nn.Parameter)


def test_a_deep_copy_shares_nothing(device: str) -> None:
    net = Net().to(device)
    net(sg.ones(4, 3, device=device)).sum().backward()
    twin = copy.deepcopy(net)
    assert twin.tied is twin.first
    assert twin.first.weight.requires_grad
    assert twin.first.weight.grad is None, "as in PyTorch"
    with sg.no_grad():
        net.first.weight.zero_()
        net.mean.fill_(3)
    assert twin.first.weight.detach().numpy().any()
    assert not twin.mean.numpy().any()
    computed = net.first.weight * 2
    with pytest.raises(sg.AutogradError, match="deepcopy"):
        copy.deepcopy(computed)


# ---------------------------------------------------------------------------------------------- containers


def test_lists_of_modules() -> None:
    layers = nn.ModuleList([nn.Linear(1, k) for k in (1, 2, 3)])
    assert [m.out_features for m in layers[1:]] == [2, 3]
    assert layers[-1].out_features == 3
    layers.append(nn.Linear(1, 4)).extend([nn.Linear(1, 5)])
    layers.insert(0, nn.Linear(1, 9))
    assert [m.out_features for m in layers] == [9, 1, 2, 3, 4, 5]
    assert layers.pop(1).out_features == 1
    del layers[0:2]
    assert list(layers._modules) == ["0", "1", "2"]
    layers[0] = nn.Linear(1, 7)
    layers += [nn.Tanh()]
    assert len(layers + [nn.Tanh()]) == 5
    assert layers[0].out_features == 7
    with pytest.raises(IndexError, match="index 4 is out of range"):
        layers[4]
    row = nn.Sequential({"a": nn.Linear(1, 2), "b": nn.Tanh()})
    assert list(row.state_dict()) == ["a.weight", "a.bias"]
    assert row.b is row[1]
    assert len(row[:1]) == 1
    assert len(row.append(nn.Tanh()).extend([nn.Tanh()])) == 4
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_dicts_of_modules() -> None:
    named = nn.ModuleDict({"a": nn.Linear(1, 2)})
    named["b"] = nn.Tanh()
    named.update([("c", nn.ReLU())])
    assert list(named) == list(named.keys()) == ["a", "b", "c"]
    assert "b" in named
    assert len(named) == len(named.values()) == 3
    assert isinstance(named.pop("c"), nn.ReLU)
    del named["b"]
    assert [k for k, _ in named.items()] == ["a"]
    named.clear()
    assert not len(named)


def test_lists_and_dicts_of_parameters() -> None:
    listed = nn.ParameterList([sg.ones(2), nn.Parameter(sg.zeros(3))])
    listed.append(sg.ones(1)).extend([sg.zeros(1)])
    assert all(isinstance(p, nn.Parameter) for p in listed)
    assert [n for n, _ in listed.named_parameters()] == ["0", "1", "2", "3"]
    assert listed[-1].tolist() == [0]
    assert len(listed[1:3]) == 2
    assert "(0): Parameter containing: [shadergrad.float32 of size 2]" in repr(listed)
    with pytest.raises(RuntimeError, match="should not be called"):
        listed(1)
    named = nn.ParameterDict({"a": sg.ones(2)})
    named["b"] = sg.zeros(1)
    named.update({"c": sg.zeros(1)})
    assert [n for n, _ in named.named_parameters()] == list(named.keys()) == ["a", "b", "c"]
    assert named.get("d") is None
    assert "a" in named
    assert named.pop("a").tolist() == [1, 1]
    with pytest.raises(KeyError):
        named["a"]
    assert len(named) == 2
    named.clear()
    assert not list(named.parameters())


# ---------------------------------------------------------------------------------------------- hooks


def hooked(namespace: Any, tensor: Callable[..., Any]) -> list[Any]:
    """What hooks see and change, in either library."""
    module = namespace.Linear(2, 2)
    module.load_state_dict({"weight": tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": tensor([0.5, -0.5])})
    log: list[Any] = []

    def note(kind: str, *tensors: Any) -> None:
        log.append((kind, *(None if t is None else t.detach().numpy().tolist() for t in tensors)))

    handles = [
        module.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        module.register_forward_pre_hook(lambda m, args: note("pre", *args), prepend=True),
        module.register_forward_hook(lambda m, args, out: note("post", *args, out)),
        module.register_forward_hook(lambda m, args, kwargs, out: out * 3, with_kwargs=True),
        module.register_full_backward_pre_hook(lambda m, go: note("backward pre", *go)),
        module.register_full_backward_hook(lambda m, gi, go: note("backward", *gi, *go)),
        module.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10,)),
    ]
    x = tensor([[1.0, -1.0]]).requires_grad_()
    out = module(x)
    note("out", out)
    (out * tensor([[1.0, 5.0]])).sum().backward()
    note("grads", x.grad, module.weight.grad)
    for handle in handles:
        handle.remove()
    note("plain", module(x))
    return log


def test_hooks_run_as_in_pytorch() -> None:
    assert hooked(nn, sg.tensor) == hooked(torch.nn, torch.tensor)


def several(namespace: Any, tensor: Callable[..., Any], unused: bool) -> list[Any]:
    class Two(namespace.Module):
        def forward(self, a: Any, n: int, b: Any) -> Any:
            return a * b, a * n

    module = Two()
    log: list[Any] = []
    module.register_full_backward_hook(
        lambda m, gi, go: log.append([None if t is None else t.numpy().tolist() for t in (*gi, *go)])
    )
    a, b = tensor([1.0, 2.0]).requires_grad_(), tensor([3.0, 4.0]).requires_grad_()
    first, second = module(a, 2, b)
    (first if unused else first + second).sum().backward()
    module(a.detach(), 2, b.detach())  # no gradient, no hook
    return [log, a.grad.tolist(), b.grad.tolist()]


@pytest.mark.parametrize("unused", [False, True], ids=["all outputs used", "an output unused"])
def test_backward_hooks_see_all_inputs_and_outputs_at_once(unused: bool) -> None:
    ours, theirs = several(nn, sg.tensor, unused), several(torch.nn, torch.tensor, unused)
    if unused:  # PyTorch gives zeros for an output that nobody used, or None, by version
        ours[0][0][-1] = theirs[0][0][-1]
    assert ours == theirs


def test_a_backward_hook_of_a_module_whose_inputs_need_no_gradient() -> None:
    module = nn.Linear(2, 1)
    seen: list[Any] = []
    module.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    module(sg.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0]])]


def test_hooks_and_second_derivatives() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double()
    module.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))
    x = sg.tensor(floats(2, 3), dtype=sg.float64, requires_grad=True)
    (slope,) = sg.autograd.grad(module(x).sum(), x, create_graph=True)
    (curve,) = sg.autograd.grad((slope * slope).sum(), x)
    y = x.detach().requires_grad_()
    (plain,) = sg.autograd.grad(module[1](module[0](y)).sum(), y, create_graph=True)
    (expected,) = sg.autograd.grad((plain * plain).sum(), y)
    assert_close(slope, plain.detach() * 2, 1e-12, 1e-12)
    # as in PyTorch: the second pass enters the module from within, so the hook does not run again
    assert_close(curve, expected * 4, 1e-12, 1e-12)


def test_hooks_that_return_nonsense_are_refused() -> None:
    module = nn.Linear(2, 1)
    module.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    x = sg.ones(1, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        module(x).sum().backward()
    module = nn.Linear(2, 1)
    module.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        module(x)


def test_always_called_hooks_and_handles_as_contexts() -> None:
    module = nn.Linear(2, 1)
    seen: list[Any] = []
    with module.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True):
        with pytest.raises(sg.ShapeError):
            module(sg.ones(1, 3))
        assert seen == [None]
    module(sg.ones(1, 2))
    assert len(seen) == 1


def test_a_hook_is_part_of_a_compiled_step(device: str) -> None:
    module = nn.Linear(2, 2, device=device)
    step = sg.compile(lambda x: module(x))
    x = sg.ones(1, 2, device=device)
    plain = step(x).numpy()
    handle = module.register_forward_hook(lambda m, args, out: out * 2)
    assert_close(step(x), plain * 2, 0, 0)
    handle.remove()
    assert_close(step(x), plain, 0, 0)
    assert step.captures == 2


def test_unbind_gives_slices_whose_gradients_are_stacked() -> None:
    x = sg.tensor(floats(4, 3, 2), dtype=sg.float64, requires_grad=True)
    w = floats(3, 4, 2)
    parts = x.unbind(1)
    total: Any = sum((p * sg.tensor(w[k], dtype=sg.float64)).sum() for k, p in enumerate(parts) if k != 1)
    total.backward()
    expected = w.transpose(1, 0, 2).copy()
    expected[:, 1] = 0
    assert_close(x.grad, expected, 0, 0)
    assert_close(parts[2], x.detach()[:, 2], 0, 0)


# ---------------------------------------------------------------------------------------------- compiled


def noisy(device: str) -> nn.Sequential:
    sg.manual_seed(1)
    return nn.Sequential(
        nn.Linear(6, 8, bias=False),  # before a BatchNorm its gradient is nothing but rounding
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(8, 8, bias=False),
        nn.BatchNorm1d(8, momentum=None),
        nn.Linear(8, 3),
    ).to(device)


def train(device: str, compiled: bool, steps: int = 5) -> tuple[list[float], dict[str, np.ndarray], Any]:
    model = noisy(device)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    data = [(rng.standard_normal((12, 6)).astype(np.float32), rng.integers(0, 3, 12)) for _ in range(steps)]

    def step(x: sg.Tensor, y: sg.Tensor) -> sg.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return loss

    run = sg.compile(step) if compiled else step
    sg.manual_seed(2)
    losses = [run(sg.tensor(x, device=device), sg.tensor(y, dtype=sg.int32, device=device)).item() for x, y in data]
    return losses, {k: v.numpy() for k, v in model.state_dict().items()}, run


@pytest.mark.slow
def test_training_with_batchnorm_and_dropout_compiled_as_uncompiled(device: str) -> None:
    losses, state, _ = train(device, compiled=False)
    compiled, found, step = train(device, compiled=True)
    assert_close(compiled, losses, 1e-4, 1e-5)
    for name, value in state.items():
        assert_close(found[name], value, 1e-3, 1e-4, name)
    assert found["1.num_batches_tracked"] == 5
    assert step.captures == 1


def test_training_with_batchnorm_and_dropout_is_the_same_on_both_devices(webgpu: str) -> None:
    reference, state, _ = train("cpu", compiled=True)
    losses, found, _ = train(webgpu, compiled=True)
    assert_close(losses, reference, 1e-4, 1e-4)
    for name, value in state.items():
        assert_close(found[name], value, 5e-3, 1e-3, name)


def test_running_statistics_are_updated_in_place(webgpu: str) -> None:
    model = noisy(webgpu)
    step = sg.compile(lambda x: model(x).sum())
    x = sg.tensor(floats(12, 6), dtype=sg.float32, device=webgpu)
    step(x)
    before = id(model[1].running_mean._node.storage)
    first = model[1].running_mean.numpy()
    assert_compiles_nothing(lambda: step(x))
    assert id(model[1].running_mean._node.storage) == before
    assert not np.array_equal(model[1].running_mean.numpy(), first)


def test_eval_and_changed_settings_are_seen_by_a_compiled_step(device: str) -> None:
    model = noisy(device)
    step = sg.compile(lambda x: model(x))
    x = sg.ones(4, 6, device=device)
    step(x)
    model.eval()
    quiet = step(x).numpy()
    assert_same_bits(step(x), quiet)
    assert step.captures == 2
    model.train()
    step(x)
    assert step.captures == 2
    model.eval()
    model.append(nn.Hardtanh(-1e-3, 1e-3))
    assert abs(step(x).numpy()).max() <= 1.01e-3
    model[-1].max_val = 0.0
    model[-1].min_val = -1e-4
    assert step(x).numpy().max() <= 0
    model[6].weight = nn.Parameter(sg.zeros(3, 8, device=device))
    model[6].bias.data = sg.zeros(3, device=device)
    assert not step(x).numpy().any()


def test_a_buffer_assigned_in_a_compiled_step_keeps_its_value(device: str) -> None:
    class Count(nn.Module):
        n: sg.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", sg.zeros(()))

        def forward(self, x: sg.Tensor) -> sg.Tensor:
            self.n = self.n + 1
            return x * self.n

    module = Count().to(device)
    step = sg.compile(lambda x: module(x))
    x = sg.ones(2, device=device)
    assert [step(x).tolist()[0] for _ in range(3)] == [1, 2, 3]
    assert module.n.item() == 3
    assert step.captures == 1


def test_an_attribute_that_forward_counts_up_is_counted_at_each_call() -> None:
    class Counting(nn.Module):
        calls = 0

        def forward(self, x: sg.Tensor) -> sg.Tensor:
            self.calls = self.calls + 1
            return x * 2

    module = Counting()
    step = sg.compile(lambda x: module(x))
    for calls in range(1, 5):
        step(sg.ones(2))
        assert module.calls == calls
    module.calls = 0
    step(sg.ones(2))
    assert module.calls == 1


def test_a_moved_model_is_captured_anew(webgpu: str) -> None:
    model = nn.Linear(2, 2)
    step = sg.compile(lambda: model(model.weight.detach()))
    expected = step().numpy()
    model.to(webgpu)
    assert_close(step(), expected, 1e-5, 1e-6)


# ---------------------------------------------------------------------------------------------- dropout


def test_dropout_drops_and_scales_with_its_gradient(device: str) -> None:
    sg.manual_seed(3)
    x = sg.ones(40, 50, device=device, requires_grad=True)
    out = nn.Dropout(0.2)(x)
    out.sum().backward()
    values = out.detach().numpy()
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / 0.8)}
    assert abs((values == 0).mean() - 0.2) < 0.03
    assert_same_bits(x.grad, values)


def test_dropout_is_deterministic_and_the_same_everywhere(webgpu: str) -> None:
    found = []
    for device in ("cpu", webgpu):
        sg.manual_seed(3)
        step = sg.compile(lambda x: F.dropout(x, 0.5))
        x = sg.ones(50, device=device)
        found.append([step(x).numpy() for _ in range(2)])
        assert not np.array_equal(*found[-1]), "a compiled step draws anew"
        sg.manual_seed(3)
        assert_same_bits(F.dropout(x, 0.5), found[-1][0])
    assert_same_bits(np.array(found[0]), np.array(found[1]))


def test_dropout_at_the_ends_and_in_eval() -> None:
    x = sg.tensor(floats(3, 4), dtype=sg.float32)
    assert_same_bits(nn.Dropout(0.7).eval()(x), x)
    assert_same_bits(F.dropout(x, 0.0), x)
    assert not F.dropout(x, 1.0).numpy().any()
    assert not F.alpha_dropout(x, 1.0, training=True).numpy().any()
    for p in (-0.1, 1.1):
        with pytest.raises(
            ValueError, match=re.escape(f"dropout probability has to be between 0 and 1, but got p={p}")
        ):
            nn.Dropout(p)
        with pytest.raises(ValueError, match="dropout probability"):
            F.dropout(x, p)
    y = sg.ones(20)
    assert nn.Dropout(0.5, inplace=True)(y) is y
    assert 0 in y.tolist()


def test_whole_channels_are_dropped() -> None:
    for module, shape in (
        (nn.Dropout1d(), (8, 6, 4)),
        (nn.Dropout2d(), (8, 6, 2, 2)),
        (nn.Dropout3d(), (6, 5, 2, 2, 2)),
    ):
        values = module(sg.ones(*shape)).numpy()
        kept = values.reshape(*shape[:2], -1)
        assert (kept == kept[..., :1]).all()
        assert set(np.unique(values)) == {0, 2}
    with pytest.warns(UserWarning, match="taken as"):
        assert set(nn.Dropout2d()(sg.ones(8, 8)).reshape(-1).tolist()) == {0.0, 2.0}
    with pytest.raises(sg.ShapeError):
        nn.Dropout2d()(sg.ones(2))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("relu_", ()),
        ("leaky_relu_", (0.3,)),
        ("elu_", (0.7,)),
        ("celu_", (0.7,)),
        ("selu_", ()),
        ("hardtanh_", (-0.5, 0.6)),
        ("threshold_", (0.1, 9.0)),
        ("rrelu_", (0.2, 0.6)),
    ],
)
def test_an_activation_in_place_writes_what_pytorchs_does(name: str, settings: tuple[float, ...]) -> None:
    values = [-2.0, -0.3, 0.0, 0.4, 1.5]
    ours, theirs = sg.tensor(values), torch.tensor(values)
    assert getattr(F, name)(ours, *settings) is ours
    getattr(torch.nn.functional, name)(theirs, *settings)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)
    with pytest.raises(sg.AutogradError, match="leaf"):
        getattr(F, name)(sg.tensor(values, requires_grad=True), *settings)


def test_feature_alpha_dropout_keeps_or_drops_channels() -> None:
    found = nn.FeatureAlphaDropout(0.5)(sg.ones(64, 8, 3)).numpy()
    assert (found == found[:, :, :1]).all()
    assert len(np.unique(found)) == 2


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    sg.manual_seed(0)
    values = nn.AlphaDropout(0.3)(sg.randn(20000)).numpy()
    assert abs(values.mean()) < 0.03
    assert abs(values.std() - 1) < 0.03


def test_rrelu_draws_slopes() -> None:
    values = nn.RReLU(0.1, 0.3)(sg.full((1000,), -1.0)).numpy()
    assert -0.3 <= values.min() < -0.28
    assert -0.12 < values.max() <= -0.1


# ---------------------------------------------------------------------------------------------- words and corners


def test_embedding_keeps_its_padding_and_renormalises_in_place() -> None:
    embedding = nn.Embedding(4, 3, padding_idx=1)
    assert embedding.weight.tolist()[1] == [0, 0, 0]
    table = sg.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    fixed = nn.Embedding.from_pretrained(table, max_norm=1.0)
    assert not fixed.weight.requires_grad
    assert_close(fixed(sg.tensor([0, 1])), np.array([[0.6, 0.8], [0.3, 0.4]]), 1e-5, 1e-6)
    assert fixed.weight.tolist()[2] == [6, 8], "not looked up, not changed"
    with pytest.raises(IndexError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(3, 2, padding_idx=3)
    with pytest.raises(TypeError, match="indices"):
        embedding(sg.ones(2))


def test_embedding_trains_only_what_is_looked_up(device: str) -> None:
    embedding = nn.Embedding(6, 2, padding_idx=0, device=device)
    embedding(sg.tensor([[0, 2, 2], [5, 0, 2]], device=device)).sum().backward()
    assert grad_of(embedding.weight).numpy()[:, 0].tolist() == [0, 0, 3, 0, 0, 1]


def test_one_hot() -> None:
    labels = sg.tensor([[0, 2], [1, 2]])
    assert_close(F.one_hot(labels), torch.nn.functional.one_hot(torch.tensor(labels.numpy()).long()).numpy(), 0, 0)
    assert F.one_hot(labels, 5).shape == (2, 2, 5)
    with pytest.raises(TypeError, match="one_hot is only applicable"):
        F.one_hot(sg.ones(2))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pad_equals_pytorchs(mode: str) -> None:
    x = floats(2, 3, 4, 5)
    for amounts in ((1, 2, 0, 0), (2, 0, 1, 1), (-1, 2, 0, -1)):
        expected = torch.nn.functional.pad(torch.tensor(x), amounts, mode)
        assert_close(F.pad(sg.tensor(x), amounts, mode), expected, 0, 0, str(amounts))
    assert_close(
        F.pad(sg.tensor(x), (1, 1), value=2.5), torch.nn.functional.pad(torch.tensor(x), (1, 1), value=2.5), 0, 0
    )
    with pytest.raises(ValueError, match="doesn't take in value argument"):
        F.pad(sg.tensor(x), (1, 1, 1, 1), "reflect", 1.0)


def attend(f: Any, tensor: Callable[..., Any], **options: Any) -> Any:
    q, k, v = tensor(floats(2, 2, 4, 3)), tensor(floats(2, 2, 5, 3)), tensor(floats(2, 2, 5, 6))
    return f.scaled_dot_product_attention(q, k, v, **options)


MASK = np.random.default_rng(1).random((4, 5)) < 0.5
MASK[1] = False  # a row that may see nothing
MASK[0, 0] = True


@pytest.mark.parametrize("name", ["plain", "bools", "numbers", "causal", "scaled"])
def test_scaled_dot_product_attention_equals_pytorchs(name: str, device: str) -> None:
    dtype = sg.float64 if device == "cpu" else sg.float32
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    if name in ("bools", "numbers"):
        mask = MASK if name == "bools" else np.where(MASK, floats(4, 5), -np.inf)
        mask[1, 2] = mask[1, 2] if name == "bools" else 0.0
        theirs["attn_mask"] = torch.tensor(mask)
        ours["attn_mask"] = sg.tensor(mask, dtype=None if name == "bools" else dtype, device=device)
    if name == "causal":
        ours["is_causal"] = theirs["is_causal"] = True
    if name == "scaled":
        ours["scale"] = theirs["scale"] = 0.3
    expected = attend(torch.nn.functional, torch.tensor, **theirs)
    found = attend(F, lambda a: sg.tensor(a, dtype=dtype, device=device), **ours)
    assert_close(found, expected, *((1e-9, 1e-9) if device == "cpu" else (1e-4, 1e-5)))


def test_attention_of_grouped_heads_dropout_and_errors() -> None:
    q, kv = floats(2, 4, 3, 2), floats(2, 2, 3, 2)
    expected = torch.nn.functional.scaled_dot_product_attention(
        torch.tensor(q), torch.tensor(kv), torch.tensor(kv), enable_gqa=True
    )
    a, b = sg.tensor(q), sg.tensor(kv)
    assert_close(F.scaled_dot_product_attention(a, b, b, enable_gqa=True), expected, 1e-9, 1e-9)
    assert not F.scaled_dot_product_attention(a, a, a, dropout_p=1.0).numpy().any()
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set when is_causal=True"):
        F.scaled_dot_product_attention(a, a, a, sg.ones(3, 3), is_causal=True)
    with pytest.raises(TypeError, match="bool or float"):
        F.scaled_dot_product_attention(a, a, a, sg.ones(3, 3).int())
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist()[0] == [0, -math.inf, -math.inf]


def test_dropout_between_recurrent_layers() -> None:
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        nn.LSTM(2, 3, dropout=0.5)
    sg.manual_seed(0)
    network = nn.GRU(2, 3, num_layers=2, dropout=0.9)
    x = sg.ones(4, 1, 2)
    assert not np.array_equal(network(x)[0].detach().numpy(), network(x)[0].detach().numpy())
    network.eval()
    assert_same_bits(network(x)[0].detach(), network(x)[0].detach())


@pytest.mark.slow
def test_a_recurrent_network_trains_compiled(device: str) -> None:
    """To tell at the end of a sequence what came first."""
    sg.manual_seed(0)
    network, head = nn.GRU(1, 6, device=device), nn.Linear(6, 1, device=device)
    optimizer = optim.Adam([*network.parameters(), *head.parameters()], lr=3e-2)
    x = np.random.default_rng(0).choice([-1.0, 1.0], (3, 16, 1)).astype(np.float32)
    inputs, targets = sg.tensor(x, device=device), sg.tensor(x[0], device=device)

    @sg.compile
    def step() -> sg.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(head(network(inputs)[1][0]), targets)
        loss.backward()
        optimizer.step()
        return loss

    losses = [step() for _ in range(60)]
    assert losses[0].item() > 0.5
    assert losses[-1].item() < 0.1
