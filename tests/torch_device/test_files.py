"""Files, bridges to this library, and what the device refuses in words."""

from __future__ import annotations

import io
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import shadergrad as sg

D = "webgpu"


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("where", [None, "webgpu", "cpu", "webgpu:0", {"cpu": "webgpu"}, lambda s, _: s])
def test_files_of_the_host_load_where_they_are_asked_to(where: Any, torch_device: Any) -> None:
    x = torch.arange(6.0)
    given = {
        "a": x,
        "part": x[2:5],
        "t": x.view(2, 3).t(),
        "i": torch.tensor([3, -4]),
        "b": torch.tensor([True, False]),
    }
    loaded = torch.load(saved(given), map_location=where)
    kind = D if where not in (None, "cpu") and not callable(where) else "cpu"
    for name, value in loaded.items():
        assert (value.device.type, value.dtype) == (kind, given[name].dtype)
        assert torch.equal(value.cpu(), given[name])
    loaded["a"].zero_()
    assert loaded["part"].abs().sum().item() == 0  # memory that was shared is shared
    assert loaded["t"].abs().sum().item() == 0


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("where", [None, "cpu", "webgpu", {"webgpu:0": "cpu"}, lambda s, _: s.cpu()])
def test_files_of_the_device_load_where_they_are_asked_to(where: Any, old: bool, torch_device: Any) -> None:
    x = torch.arange(6.0)
    given = {
        "a": x,
        "part": x[2:5],
        "t": x.view(2, 3).t(),
        "i": torch.tensor([3, -4]),
        "b": torch.tensor([True, False]),
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "none": torch.zeros(0, 3),
    }
    there = {name: value.to(D) for name, value in given.items()}
    there["part"] = there["a"][2:5]
    there["t"] = there["a"].view(2, 3).t()
    file = io.BytesIO()
    torch.save(there, file, _use_new_zipfile_serialization=not old)
    file.seek(0)
    loaded = torch.load(file, map_location=where)
    kind = D if where in (None, "webgpu") else "cpu"
    for name, value in loaded.items():
        assert (value.device.type, value.dtype, value.stride()) == (kind, given[name].dtype, given[name].stride()), name
        assert torch.equal(value.cpu(), given[name]), name
    loaded["a"].zero_()
    assert loaded["part"].abs().sum().item() == 0  # memory that was shared is shared
    assert loaded["t"].abs().sum().item() == 0


def test_files_of_the_old_format_load_onto_the_device(torch_device: Any) -> None:
    file = io.BytesIO()
    x = torch.arange(6.0)
    torch.save({"a": x, "t": x.view(2, 3).t()}, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    loaded = torch.load(file, map_location=D)
    assert torch.equal(loaded["a"].cpu(), x)
    assert torch.equal(loaded["t"].cpu(), x.view(2, 3).t())


@pytest.mark.filterwarnings("ignore:torch.float64 is computed as float32", "ignore:TypedStorage is deprecated")
def test_pickles_keep_kinds_attributes_and_storages(torch_device: Any, device: str) -> None:
    parameter: Any = nn.Parameter(torch.ones(2, device=D), requires_grad=False)
    parameter.note = "decays"
    again = pickle.loads(pickle.dumps(parameter))
    assert (type(again), again.note, again.requires_grad, again.device.type) == (nn.Parameter, "decays", False, D)
    buffer = nn.Buffer(torch.ones(2, device=D))
    assert isinstance(pickle.loads(pickle.dumps(buffer)), nn.Buffer)
    x = torch.arange(3.0, device=D)
    for storage in (x.untyped_storage(), x._typed_storage()):
        again = pickle.loads(pickle.dumps(storage))
        bytes_of = getattr(again, "_untyped_storage", again)
        assert bytes_of.device.type == D
        assert list(bytes_of.cpu()) == list(x.cpu().untyped_storage())
    if device == "webgpu":
        bits = x.double().untyped_storage()
        with pytest.raises(TypeError, match="does not say which dtype it has"):
            bits.cpu()


def test_modules_and_optimizers_are_loaded_onto_the_device(torch_device: Any) -> None:
    model = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    loaded = torch.load(
        saved({"m": model.state_dict(), "o": optimizer.state_dict()}), map_location=D, weights_only=True
    )
    twin = nn.Linear(3, 2).to(D)
    twin.load_state_dict(loaded["m"])
    assert torch.equal(twin.weight.detach().cpu(), model.weight)
    other = torch.optim.AdamW(twin.parameters())
    other.load_state_dict(loaded["o"])
    assert other.state[twin.weight]["exp_avg"].device.type == D


def test_safetensors_are_written_and_read(torch_device: Any, tmp_path: Path) -> None:
    from safetensors import torch as files

    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(D)
    path = tmp_path / "model.safetensors"
    files.save_file(model.state_dict(), path)
    for where in ("cpu", D):
        for name, value in files.load_file(path, device=where).items():
            assert value.device.type == where
            assert torch.equal(value.cpu(), model.state_dict()[name].cpu())
    files.save_model(model, str(path))
    twin = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(D)
    for where in ("cpu", D):
        assert files.load_model(twin, path, device=where) == (set(), [])
    assert torch.equal(twin[0].weight.detach().cpu(), model[0].weight.detach().cpu())  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="share memory"):
        save({"a": model[0].weight, "b": model[0].weight})  # type: ignore[dict-item]
    x = torch.arange(6.0, device=D)
    assert save({"a": x[:3], "b": x[3:]})  # parts that do not overlap


def test_tensors_go_over_to_this_library_and_back(torch_device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import shadergrad.torch as device
    from shadergrad.torch import storage

    x = torch.arange(6.0, device=D).view(2, 3).t().requires_grad_()
    monkeypatch.setattr(storage, "to_host", None)  # not over the host
    for ours in (device.to_shadergrad(x), sg.interop.from_torch(x)):
        assert isinstance(ours, sg.Tensor)
        assert ours.tolist() == [[0, 3], [1, 4], [2, 5]]
        assert str(ours.device).startswith(storage.Place.device)
        ours.zero_()
    back: Tensor = device.from_shadergrad(sg.tensor([1.0, 2.0]))
    assert back.device.type == D
    monkeypatch.undo()
    assert back.tolist() == [1, 2]
    assert x.sum().item() == 15


@pytest.mark.filterwarnings("ignore:pin_memory")
def test_a_loader_that_pins_memory_gives_batches(torch_device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from shadergrad.torch import absent

    absent._said.clear()
    x = torch.ones(2)
    with pytest.warns(UserWarning, match="no page-locked memory"):
        assert x.pin_memory() is x
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.pin_memory()
    assert [b.tolist() for (b,) in DataLoader(TensorDataset(torch.arange(4.0)), 2, pin_memory=True)] == [[0, 1], [2, 3]]


def test_a_second_device_and_copies_on_several_are_refused(torch_device: Any) -> None:
    with pytest.raises(RuntimeError, match=r"there is one device, webgpu:0, not .*webgpu:1"):
        torch.ones(2).to("webgpu:1")
    with pytest.raises(RuntimeError, match=r"there is one device, webgpu:0, not .*webgpu:1"):
        torch.ones(2, device="webgpu:1")
    with pytest.raises(RuntimeError, match=r"nn\.DataParallel copies a model to several devices"):
        nn.DataParallel(nn.Linear(2, 2).to(D))
    assert torch.ones(2, device="webgpu:0").sum().item() == 2


def test_the_package_may_be_imported_again(torch_device: Any) -> None:
    import importlib

    import shadergrad.torch as device

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.reload(device)
    assert torch.ones(2, device=D).sum().item() == 2
