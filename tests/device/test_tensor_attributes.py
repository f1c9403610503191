"""The lines people type: each does what it does in PyTorch, or is refused with what to write instead."""

from __future__ import annotations

import copy
import importlib.util
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
from shadergrad import nn
from shadergrad.errors import PrecisionWarning
from shadergrad.serialization import MOVED_CLASSES, RENAMED_MODULES, _Unpickler

LINES = [
    "f'{x[0]:.4f}'", "f'{x[0]:>10.2e}'",  "float(x[1])", "int(x[1])", "complex(x[0])",
    "x.sum(axis=0)", "x.sum(dim=0, keepdims=True)", "t.sum(x, axis=0)", "t.cat([x, x], axis=0)", "x.mean(axis=-1, keepdims=True)",
    "x.softmax(axis=0)",   "np.float32(2) * x",
    "2 | i", "i | 2", "1 & i", "3 ^ i", "1 << i", "7 // i", "2 ** x", "x[range(2)]", "x.reshape(2, 1)[range(2), 0]",
    "x.type()", "x.type(t.float64)", "x.type('torch.LongTensor')", "x.type(t.LongTensor)", "i.type()", "x.is_cuda", "x.double().type()",
    "t.FloatTensor([1, 2])", "t.LongTensor([1, 2])", "t.BoolTensor([True])", "t.DoubleTensor(2, 3).shape == (2, 3)",
    "tuple(t.Tensor(2, 3).shape)", "tuple(t.Tensor().shape)", "x.new([1, 2])", "tuple(x.new(2, 3).shape)", "x.get_device()",
    "x.half().float()", "x.byte()", "x.nbytes", "x.itemsize", "x.is_sparse", "x.is_sparse_csr", "t.is_nonzero(x[0])",
    "x.to_dense()", "x.to_dense() is x", "x.to_dense(dtype=t.float64).dtype == t.float64", "x.to_dense(masked_grad=True)",
    "t.result_type(i, 1.5) == t.float32", "t.promote_types(t.int32, t.float64) == t.float64", "t.can_cast(t.float32, t.int32)",
    "t.is_same_size(x, i)", "t.device('cpu', 0).type", "t.device(type='cpu').type", "t.get_default_dtype() == t.float32",
    "t.cuda.is_available()", "t.cuda.device_count()", "t.backends.mps.is_available()", "t.is_complex(x)", "t.numel(x)",
    "t.zeros(2, layout=t.strided)", "t.zeros_like(x, memory_format=t.preserve_format)", "x.contiguous(memory_format=t.contiguous_format)",
    "t.empty(2, pin_memory=False).shape == (2,)", "t.repeat_interleave(i)", "t.repeat_interleave(i, i)", "x.clone(memory_format=t.preserve_format)", "t.autograd.Variable(x, requires_grad=True).requires_grad",
    "t.utils.data.TensorDataset(x, x)[1]", "t.from_dlpack(np.ones(2, np.float32))", "np.from_dlpack(x)", "x[None, t.newaxis].shape == (1, 1, 2)",
    "t.utils.checkpoint.checkpoint(lambda v: v * 2, x, use_reentrant=False)", "len(x)", "x.tolist()", "x.apply_(lambda v: v + 1)",
    "t.backends.cudnn.is_available()", "(t.half, t.double, t.long) == (t.float16, t.float64, t.int64)",
]  # fmt: skip


def value(line: str, lib: Any) -> Any:
    return eval(line, {"t": lib, "np": np, "x": lib.tensor([1.5, -2.25]), "i": lib.tensor([4, 3])})


def plain(v: Any) -> Any:
    if isinstance(v, list | tuple):
        return [plain(e) for e in v]
    return v.tolist() if hasattr(v, "tolist") else v


@pytest.mark.parametrize("line", LINES)
def test_a_line_gives_what_it_gives_in_pytorch(line: str) -> None:
    ours, theirs = plain(value(line, sg)), plain(value(line, torch))
    if line == "i.type()":  # Python's ints are int32 here
        theirs = theirs.replace("Long", "Int")
    if isinstance(theirs, list) and theirs and isinstance(theirs[0], float):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    else:
        assert ours == theirs


REFUSED = ["x.cuda()", "t.tensor([1.0], dtype=t.float8_e5m2)", "t.nn.Linear(1, 1).cuda()",
           "t.cuda.current_device()", "t.cuda.set_device(0)", "t.cuda.synchronize()", "t.distributed.init_process_group('gloo')", "t.distributed.barrier()",
           "t.set_default_dtype(t.int32)", "x.type('torch.cuda.FloatTensor')"]  # fmt: skip


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_not_there_says_what_to_do(line: str) -> None:
    with pytest.raises(sg.ShadergradError) as caught:
        value(line, sg)
    assert "Hint" in str(caught.value) or "default dtype" in str(caught.value)


def test_what_is_made_into_a_tensor_is_made_where_it_is(device: str) -> None:
    out = sg.empty(3, device=device)
    assert sg.ones(size=(3,), out=out) is out
    assert out.tolist() == [1, 1, 1]
    assert sg.arange(3, out=out).device == device
    assert out.tolist() == [0, 1, 2]


def test_indices_of_the_cpu_serve_tensors_elsewhere(webgpu: str) -> None:
    ours: Any = sg.arange(12.0, device=webgpu).reshape(4, 3)
    theirs: Any = torch.arange(12.0).reshape(4, 3)
    for lib, x in ((sg, ours), (torch, theirs)):
        rows, mask = lib.tensor([3, 0]), lib.tensor([True, False, False, True])
        x[rows, lib.tensor([1, 2])] = -1.0
        x[mask] += 100.0
        x[lib.tensor([1])] = 5.0
    rows, mask = [3, 0, -1], [False, True, True, False]
    for ours_key, theirs_key in (
        (sg.tensor(rows), torch.tensor(rows)),
        (sg.tensor(mask), torch.tensor(mask)),
        ((slice(None), sg.tensor([2])), (slice(None), torch.tensor([2]))),
        ((sg.tensor(rows), range(3)), (torch.tensor(rows), range(3))),
        (sg.tensor(2), torch.tensor(2)),
    ):
        assert ours[ours_key].tolist() == theirs[theirs_key].tolist()
    captured = sg.tensor(rows)
    with pytest.raises(sg.CompileError, match="move arguments, and what the step reads, before it"):
        sg.compile(lambda x: x[captured])(ours)
    with pytest.raises(sg.DeviceError):
        sg.ones(4, 3)[sg.tensor(rows, device=webgpu)].tolist()


def test_arrays_stand_beside_tensors(device: str) -> None:
    x: Any = sg.tensor([1.5, -2.25], device=device)
    a = np.array([2.0, 4.0], np.float32)
    for found, expected in (
        (x + a, [3.5, 1.75]),
        (x - a, [-0.5, -6.25]),
        (x / a, [0.75, -0.5625]),
        (x * a, [3, -9]),
    ):
        assert found.device == device
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    assert (x > a).tolist() == [False, False]
    assert round(x[0], 0) == 2.0


def test_the_default_dtype_is_kept_to() -> None:
    before = [sg.zeros(1).dtype, sg.tensor([1.5]).dtype, nn.Linear(1, 1).weight.dtype]
    try:
        sg.set_default_dtype(sg.float64)
        torch.set_default_dtype(torch.float64)
        for line in ("t.zeros(1)", "t.tensor([1.5])", "t.rand(1)", "t.tensor([1]) / 2", "t.tensor([1]) * 1.5", "t.linspace(0, 1, 3)",
                     "t.nn.Linear(1, 1).weight", "t.eye(2)", "t.tensor([1]).exp()", "t.tensor(1j)", "t.ones(2, dtype=t.float32) * 1.5", "t.logspace(0, 1, 2)", "t.scalar_tensor(1)",
                     "t.tensor([1, 2]).cov()", "t.tensor([1]).ldexp(t.tensor([2]))", "t.block_diag()", "t.fft.fftfreq(3)",
                     "t.fft.rfftfreq(3)", "t.special.i1(t.tensor([1]))", "t.signal.windows.hann(3)"):  # fmt: skip
            ours, theirs = value(line, sg), value(line, torch)
            assert ours.dtype.name == str(theirs.dtype).removeprefix("torch."), line
    finally:
        sg.set_default_dtype(sg.float32)
        torch.set_default_dtype(torch.float32)
    assert before == [sg.float32] * 3


def test_a_device_is_a_context(webgpu: str) -> None:
    with sg.device(webgpu) as inner:
        assert sg.zeros(2).device == inner == webgpu
        with sg.device("cpu"):
            assert sg.zeros(2).device == "cpu"
        assert sg.ones(1).device == webgpu
    assert sg.zeros(2).device == "cpu"


def test_no_grad_needs_no_brackets() -> None:
    @sg.no_grad
    def doubled(x: sg.Tensor) -> sg.Tensor:
        """Twice x."""
        return x * 2

    @sg.inference_mode
    def tripled(x: sg.Tensor) -> sg.Tensor:
        return x * 3

    w = sg.ones(2, requires_grad=True)
    assert not doubled(w).requires_grad
    assert not tripled(w).requires_grad
    assert doubled.__doc__ == "Twice x."
    assert (w * 2).requires_grad


def test_a_computed_tensor_prints_its_function() -> None:
    w = sg.ones(2, requires_grad=True)
    assert repr(w) == "tensor([1., 1.], requires_grad=True)"
    assert repr(w * 2) == "tensor([2., 2.], grad_fn=<MulBackward>)"


def test_print_options() -> None:
    try:
        sg.set_printoptions(precision=2, sci_mode=True)
        assert repr(sg.tensor([123.456])) == "tensor([1.23e+02])"
        sg.set_printoptions(profile="full")
        assert "..." not in repr(sg.zeros(3000))
        with pytest.raises(sg.ShadergradError):
            sg.set_printoptions(profile="other")
    finally:
        sg.set_printoptions(profile="default")
    assert repr(sg.tensor([1.23456])) == "tensor([1.2346])"


@pytest.mark.parametrize("copied", [lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_whole_training_is_copied(copied: Any, device: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).to(device)
    optimizer = sg.optim.Adam(model.parameters(), lr=0.1)
    x = sg.ones(4, 3, device=device) * sg.arange(4, device=device).reshape(4, 1)

    def train(model: nn.Module, optimizer: Any) -> float:
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    train(model, optimizer)
    twin, other = copied((model, optimizer))
    assert [id(p) for g in other.param_groups for p in g["params"]] == [id(p) for p in twin.parameters()]
    assert next(twin.parameters()).device == device
    assert [train(model, optimizer) for _ in range(3)] == [train(twin, other) for _ in range(3)]


def test_a_tensor_is_pickled_with_what_it_is(device: str) -> None:
    for x in (
        sg.ones(2, device=device, requires_grad=True),
        sg.tensor([1, 2], device=device),
        sg.tensor(True, device=device),
    ):
        y = pickle.loads(pickle.dumps(x))
        assert (y.tolist(), y.dtype, y.device, y.requires_grad) == (x.tolist(), x.dtype, x.device, x.requires_grad)


def test_autocast_by_its_first_name_is_of_cuda() -> None:
    with pytest.warns(PrecisionWarning, match="no device 'cuda'"), sg.cuda.amp.autocast(True):
        assert (sg.ones(2) @ sg.ones(2)).dtype is sg.float32
    with sg.cuda.amp.autocast(False):
        pass


def test_a_scaler_passes_losses_and_steps_on() -> None:
    w = sg.ones(1, requires_grad=True)
    optimizer, scaler = sg.optim.SGD([w], lr=0.5), sg.cuda.amp.GradScaler()
    scaler.scale((w * w).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [0.0]
    scaler.load_state_dict(scaler.state_dict())


CLOSE: list[tuple[Any, Any, dict[str, Any]]] = [
    ([1.0, 2.0], [1.0, 2.0000001], {}),
    ([1.0, 2.0], [1.0, 2.1], {}),
    ([1.0, 2.0], [1.0, 2.1], {"rtol": 0.1, "atol": 0.0}),
    ([1.0, float("nan")], [1.0, float("nan")], {}),
    ([1.0, float("nan")], [1.0, float("nan")], {"equal_nan": True}),
    ([1, 2], [1, 3], {}),
    ([1, 2], [1.0, 2.0], {}),
    ([1, 2], [1.0, 2.0], {"check_dtype": False}),
    ([1.0], [[1.0]], {}),
]


@pytest.mark.parametrize(("a", "b", "options"), CLOSE)
def test_assert_close_is_pytorchs(a: Any, b: Any, options: dict[str, Any]) -> None:
    def verdict(lib: Any) -> bool:
        try:
            lib.testing.assert_close(lib.tensor(a), lib.tensor(b), **options)
            lib.testing.assert_close({"k": [lib.tensor(a)]}, {"k": [lib.tensor(b)]}, **options)
        except AssertionError:
            return False
        return True

    assert verdict(sg) == verdict(torch)


def is_close(lib: Any, name: str, dtype: str, apart: float) -> bool:
    kind = getattr(lib, dtype)
    x = lib.tensor([128.0, 200.0], dtype=kind)
    try:
        getattr(lib.testing, name)(x, (x.double() * (1 + apart)).to(kind))
    except AssertionError:
        return False
    return True


@pytest.mark.filterwarnings("ignore:.*assert_allclose")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["assert_close", "assert_allclose"])
def test_values_are_close_within_pytorchs_tolerances_of_the_dtype(name: str, dtype: str) -> None:
    distances = [0.0, *np.geomspace(1e-9, 0.1, 60).tolist()]
    ours, theirs = ([is_close(lib, name, dtype, apart) for apart in distances] for lib in (sg, torch))
    assert ours == theirs
    assert len(set(ours)) == 2


def test_the_older_comparison_takes_lists_and_warns() -> None:
    for lib in (sg, torch):
        with pytest.warns(FutureWarning, match="deprecated"):
            lib.testing.assert_allclose(lib.tensor([1.0, float("nan")]), [1.00001, float("nan")])
        with pytest.warns(FutureWarning), pytest.raises(AssertionError):
            lib.testing.assert_allclose([1.0], [2.0])


def test_assert_close_says_where() -> None:
    with pytest.raises(AssertionError, match=r"Mismatched elements: 1 / 2 .*\n.*index \(1,\)"):
        sg.testing.assert_close(sg.tensor([1.0, 2.0]), sg.tensor([1.0, 3.0]))
    with pytest.raises(AssertionError, match="mine"):
        sg.testing.assert_close(1, 2, msg="mine")
    with pytest.raises(sg.ShadergradError):
        sg.testing.assert_close(1, 2, rtol=1.0)


def test_random_state_is_taken_and_given_back() -> None:
    sg.manual_seed(5)
    assert sg.initial_seed() == 5
    state = sg.get_rng_state()
    first = sg.rand(3)
    sg.set_rng_state(state)
    assert sg.rand(3).equal(first)


def test_a_buffer_holds_what_pickle_holds() -> None:
    file = io.BytesIO()
    pickle.dump({"model": nn.Linear(2, 2), "x": sg.ones(2)}, file)
    file.seek(0)
    assert pickle.load(file)["x"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("to_file", [True, False])
def test_whole_models_and_nested_checkpoints_are_saved(to_file: bool, device: str, tmp_path: Any) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh()).to(device)
    optimizer = sg.optim.Adam(model.parameters())
    for thing in (
        model,
        {"model": model, "optimizer": optimizer, "epoch": 3},
        {"state": [model.state_dict(), {"a": 1.5}]},
    ):
        place: Any = tmp_path / "thing.pt" if to_file else io.BytesIO()
        sg.save(thing, place)
        whole = not isinstance(thing, dict) or "state" not in thing
        if not to_file:
            place.seek(0)
        if whole:
            with pytest.raises(sg.CheckpointError, match="weights_only=False"):
                sg.load(place)
            if not to_file:
                place.seek(0)
        found: Any = sg.load(place, map_location=device, weights_only=not whole)
        twin: Any = found.get("model", model) if isinstance(found, dict) else found
        x = sg.ones(4, 2, device=device)
        assert twin(x).tolist() == model(x).tolist()
        if not whole:
            assert found["state"][1] == {"a": 1.5}
            assert found["state"][0]["0.weight"].device == device


PICKLED_BEFORE = Path(__file__).parents[1] / "data" / "pickled_before_the_moves.pickle"  # by sg.save at commit e98939c


def test_whole_modules_of_earlier_versions_are_loaded() -> None:
    assert b"shadergrad.tensor.handle" in PICKLED_BEFORE.read_bytes()
    found: Any = sg.load(PICKLED_BEFORE, device="cpu", weights_only=False)
    x = sg.ones(3, 2, device="cpu")
    for name in ("model", "compiled", "norm"):
        assert found[name](x).shape == (3, 1), name
    assert type(found["bag"]) is nn.EmbeddingBag
    assert type(found["compiled"]) is sg.CompiledModule
    assert type(found["packed"]) is nn.utils.rnn.PackedSequence
    model = found["model"]
    assert type(model.sizes) is sg.Size
    assert type(model.mode) is sg.no_grad
    assert type(model.prior) is sg.distributions.LogNormal
    assert type(model.rate) is sg.distributions.Beta
    assert model.window is sg.hann_window
    found["opt"].step()  # of the model that it was saved with
    assert found["opt"].param_groups[0]["params"][0] is next(model.parameters())


def test_renamed_modules_are_there() -> None:
    for old, new in RENAMED_MODULES.items():
        assert importlib.util.find_spec(new)
        assert not importlib.util.find_spec(old)


@pytest.mark.parametrize(("old", "name"), MOVED_CLASSES)
def test_moved_classes_are_there(old: str, name: str) -> None:
    new = MOVED_CLASSES[old, name]
    kind = _Unpickler(io.BytesIO()).find_class(old, name)
    assert kind is getattr(importlib.import_module(new), name)
    assert kind.__module__ == new != old


def test_map_locations(tmp_path: Any) -> None:
    sg.save({"x": sg.ones(2)}, tmp_path / "x")
    for where in ("cpu", sg.device("cpu"), lambda storage, place: storage, {"cuda:0": "cpu"}):
        assert sg.load(tmp_path / "x", map_location=where)["x"].device == "cpu"
    with pytest.raises(sg.CheckpointError):
        sg.load(tmp_path / "x", map_location={"a": "cpu", "b": "webgpu"})


def test_a_tensor_keeps_attributes_that_a_program_sets() -> None:
    """Also in deep copies and pickles; deep copies of parameters are without them, as PyTorch's."""
    for library in (torch, sg):
        parameter: Any = library.nn.Parameter(library.ones(2))
        parameter.no_weight_decay = [1]
        assert not hasattr(copy.deepcopy(parameter), "no_weight_decay")
        assert pickle.loads(pickle.dumps(parameter)).no_weight_decay == [1]
    x: Any = sg.ones(2)
    x.no_weight_decay = [1]
    copied = copy.deepcopy(x)
    assert copied.no_weight_decay == [1]
    assert copied.no_weight_decay is not x.no_weight_decay
    assert pickle.loads(pickle.dumps(x)).no_weight_decay == [1]
    assert not hasattr(x + 1, "no_weight_decay")
    assert not hasattr(x.detach(), "no_weight_decay")


def test_a_number_of_the_object_tells_tensors_apart() -> None:
    x = sg.ones(2)
    assert x._cdata == x._cdata != sg.ones(2)._cdata
