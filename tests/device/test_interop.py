"""To and from others: what PyTorch and safetensors write is read, what we write they read, and misfits are named."""

from __future__ import annotations

import os
import pickle
import sys
import zipfile
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import shadergrad as sg
from helpers import assert_close, assert_same_bits
from shadergrad import interop, nn
from shadergrad.interop import InteropError, load_state_dict
from shadergrad.system.optional_packages import MissingPackageError


def ours(device: str = "cpu") -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to(device)


def theirs() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


X = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)


def assert_same_function(model: nn.Module, reference: torch.nn.Module, device: str = "cpu") -> None:
    found = model(sg.tensor(X, device=device)).detach()
    assert found.device == device
    assert_close(found, reference(torch.from_numpy(X)).detach(), 1e-5, 1e-6)


def write(path: Path, state: dict[str, torch.Tensor]) -> Path:
    if path.suffix == ".safetensors":
        safetensors.torch.save_file(state, path)
    elif path.suffix == ".npz":
        arrays: dict[str, Any] = {name: value.numpy() for name, value in state.items()}
        np.savez(path, **arrays)
    else:
        torch.save(state, path)
    return path


# --- state dicts


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".pt", ".pth"])
def test_a_pytorch_state_dict_loads_from_every_kind_of_file(tmp_path: Path, suffix: str, device: str) -> None:
    reference, model = theirs(), ours(device)
    result = load_state_dict(model, write(tmp_path / f"weights{suffix}", reference.state_dict()))
    assert result == ([], [])
    assert_same_function(model, reference, device)


def test_what_we_save_pytorch_loads_and_back(tmp_path: Path, device: str) -> None:
    model, reference = ours(device), theirs()
    sg.save(model.state_dict(), tmp_path / "ours.safetensors")
    reference.load_state_dict(safetensors.torch.load_file(tmp_path / "ours.safetensors"))
    assert_same_function(model, reference, device)
    again = ours(device)
    load_state_dict(again, tmp_path / "ours.safetensors")
    assert_same_function(again, reference, device)


def test_a_dict_of_any_tensors_loads() -> None:
    reference, model = theirs(), ours()
    values = list(reference.state_dict().items())
    mixed: dict[str, Any] = dict(values)
    mixed[values[0][0]] = values[0][1].numpy().astype(np.float64)
    mixed[values[1][0]] = interop.from_torch(values[1][1])
    load_state_dict(model, mixed)
    assert_same_function(model, reference)


@pytest.mark.parametrize(
    "rename",
    [
        {"body.fc1": "0", "body.fc2": "2"},
        {"body.fc1.weight": "0.weight", "body.fc1.bias": "0.bias", "body.fc2": "2"},
        {"body": "", "body.fc1": "0", "body.fc2": "2", "head": None},
        lambda name: None if name.startswith("head") else name.replace("body.fc1", "0").replace("body.fc2", "2"),
    ],
    ids=["leading parts", "whole names", "the longest wins", "a function"],
)
def test_names_are_mapped(rename: Any) -> None:
    reference, model = theirs(), ours()
    names = {"0": "body.fc1", "2": "body.fc2"}
    state: dict[str, Any] = {f"{names[k[0]]}{k[1:]}": v for k, v in reference.state_dict().items()}
    by_function = isinstance(rename, FunctionType)
    if by_function or "head" in rename:
        state["head.weight"] = torch.zeros(2)
    if not by_function and "body" in rename:
        state["body.2.bias"] = state.pop("body.fc2.bias")  # "body" itself is renamed to nothing
    load_state_dict(model, state, rename=rename)
    assert_same_function(model, reference)


def test_a_name_is_renamed_by_whole_parts_only() -> None:
    with pytest.raises(InteropError, match=r"unexpected: layer10\.weight"):
        load_state_dict(
            nn.Linear(1, 1), {"layer1.weight": np.zeros((1, 1)), "layer10.weight": 0}, rename={"layer1": ""}
        )


@pytest.mark.parametrize("transpose", [["*.weight"], ["0.weight", "2.weight"], {"?.weight": (1, 0)}])
def test_matrices_stored_the_other_way_round_are_turned(transpose: Any) -> None:
    reference, model = theirs(), ours()
    state = {k: v.T.contiguous() if k.endswith("weight") else v for k, v in reference.state_dict().items()}
    load_state_dict(model, state, transpose=transpose)
    assert_same_function(model, reference)


def test_what_does_not_fit_is_named_and_nothing_is_changed() -> None:
    model = ours()
    before = {name: value.numpy() for name, value in model.state_dict().items()}
    state = {"0.weight": np.zeros((4, 8)), "0.bias": np.zeros(8), "2.kernel": np.zeros((3, 8)), "2.bias": np.zeros(4)}
    with pytest.raises(InteropError) as caught:
        load_state_dict(model, state)
    message = str(caught.value)
    for words in (
        "the state dict does not fit Sequential",
        "mismatched: 0.weight is (4, 8), the model's is (8, 4) (Hint: transpose=['0.weight'])",
        "mismatched: 2.bias is (4,), the model's is (3,)\n",
        "missing: 2.weight (3, 8)",
        "unexpected: 2.kernel (3, 8)",
        "Hint: rename={'2.kernel': '2.weight', ...}",
    ):
        assert words in message
    for name, value in model.state_dict().items():
        assert_same_bits(value, before[name], name)


def test_names_may_differ_where_it_is_not_strict_and_shapes_may_not() -> None:
    model = ours()
    result = load_state_dict(model, {"0.bias": np.arange(8), "extra": np.zeros(1)}, strict=False)
    assert result.missing_keys == ["0.weight", "2.weight", "2.bias"]
    assert result.unexpected_keys == ["extra"]
    assert model.state_dict()["0.bias"].tolist() == list(range(8))
    with pytest.raises(InteropError, match=r"mismatched: 0\.bias"):
        load_state_dict(model, {"0.bias": np.arange(7)}, strict=False)


def test_counters_of_batch_norms_are_no_surplus() -> None:
    state = {"weight": np.ones((1, 1)), "bias": np.ones(1), "bn.num_batches_tracked": np.array(3)}
    assert load_state_dict(nn.Linear(1, 1), state) == ([], [])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rename": {"nosuch": "0"}}, r"rename has \['nosuch'\], which are not there. The names are 0.weight, 0.bias"),
        ({"rename": lambda name: "same"}, "'0.weight' and '0.bias' the same name, 'same'"),
        ({"transpose": ["fc*"]}, "'fc\\*', which no name matches. The names are"),
        ({"transpose": ["*"]}, r"order the axes of 0.bias, \(8,\), as \(1, 0\)"),
        ({"transpose": "*.weight"}, "takes a list"),
    ],
)
def test_mappings_that_cannot_be_meant_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InteropError, match=words):
        load_state_dict(ours(), theirs().state_dict(), **options)


# --- files


def test_bfloat16_and_half_files_are_read_as_they_are_meant(tmp_path: Path) -> None:
    values = torch.tensor([[1.5, -2.0], [3.0e38, 1e-30]])
    state = {
        "b": values.bfloat16(),
        "f": torch.arange(3.0),
        "h": torch.tensor([0.1]).half(),
        "e": torch.zeros(0, 2).bfloat16(),
    }
    for path in (write(tmp_path / "a.safetensors", state), write(tmp_path / "a.pt", state)):
        arrays = interop.read_arrays(path)
        assert_same_bits(arrays["b"], values.bfloat16().float())
        assert arrays["h"].dtype == np.float16
        assert arrays["f"].tolist() == [0, 1, 2]
        assert arrays["e"].shape == (0, 2)


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_numbers_that_numpy_has_not_are_refused(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a{suffix}", {"w": torch.zeros(2).to(torch.float8_e4m3fn)})
    with pytest.raises(InteropError, match="NumPy has no"):
        interop.read_arrays(path)


def test_a_pytorch_checkpoint_needs_the_key_of_its_state_dict(tmp_path: Path) -> None:
    reference, model, path = theirs(), ours(), tmp_path / "a.pt"
    torch.save({"epoch": 3, "nets": {"g": reference.state_dict()}}, path)
    with pytest.raises(InteropError, match=r"more than a state dict. Its entries are 'epoch', 'nets'. .*key="):
        load_state_dict(model, path)
    with pytest.raises(InteropError, match=r"no entry 'nets.f'. Its entries are 'g'"):
        load_state_dict(model, path, key="nets.f")
    load_state_dict(model, path, key="nets.g")
    assert_same_function(model, reference)


class Harmful:
    def __reduce__(self) -> Any:
        return os.mkdir, (str(HARM),)


HARM = Path("harm")


def test_files_with_code_in_them_run_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Harmful()}, "a.pt")
    np.savez("a.npz", a=np.array(Harmful(), dtype=object))
    Path("b.npz").write_bytes(pickle.dumps(Harmful()))
    for name in ("a.pt", "a.npz", "b.npz"):
        with pytest.raises(InteropError, match=name):
            interop.read_arrays(name)
    assert not HARM.exists()


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".pt"])
def test_missing_and_damaged_files_are_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    with pytest.raises(InteropError, match=f"no file .*a{suffix}"):
        interop.read_arrays(path)
    write(path, {"w": torch.ones(100)})
    path.write_bytes(path.read_bytes()[:150])
    with pytest.raises(InteropError, match=f"a{suffix} (is no|cannot be loaded)"):
        interop.read_arrays(path)
    path.rename(tmp_path / "a.weights")
    with pytest.raises(InteropError, match=r"cannot tell what .*a\.weights is"):
        interop.read_arrays(tmp_path / "a.weights")


def test_npz_goes_both_ways_under_any_name(tmp_path: Path, device: str) -> None:
    named = {"file": sg.tensor([1.5], device=device), "a/b.c": sg.zeros(0, 2), "flag": np.array([True]), "n": 3}
    interop.save_npz(tmp_path / "a.npz", named)
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]
    with np.load(tmp_path / "a.npz") as archive:
        assert sorted(archive.files) == ["a/b.c", "file", "flag", "n"]
    found = interop.load_npz(tmp_path / "a.npz", device=device)
    assert {t.device for t in found.values()} == {device}
    assert [found[name].tolist() for name in named] == [[1.5], [], [True], 3]
    assert found["n"].dtype is sg.int64


def test_a_module_is_saved_as_its_state_dict(tmp_path: Path) -> None:
    model, other = ours(), ours()
    interop.save_npz(tmp_path / "a.npz", model)
    load_state_dict(other, tmp_path / "a.npz")
    for name, value in model.state_dict().items():
        assert_same_bits(other.state_dict()[name], value, name)


@pytest.mark.parametrize("bad", [{"a": "text"}, {1: np.zeros(1)}, {"a": np.array([None])}])
def test_what_is_no_named_tensor_is_not_saved_and_leaves_the_old_file(tmp_path: Path, bad: Any) -> None:
    interop.save_npz(tmp_path / "a.npz", {"w": 1})
    with pytest.raises(InteropError, match=r"\[save_npz\]"):
        interop.save_npz(tmp_path / "a.npz", bad)
    assert interop.load_npz(tmp_path / "a.npz")["w"].item() == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_equal_values_give_equal_npz_files_at_any_time_of_day(tmp_path: Path) -> None:
    interop.save_npz(tmp_path / "a.npz", {"a": np.ones(3), "b": np.zeros(2)})
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_disk_that_does_not_take_a_npz_file_is_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InteropError, match=r"cannot write .*a\.npz: .*What was there before is unchanged"):
        interop.save_npz(tmp_path / "file" / "a.npz", {"a": np.ones(3)})


def test_a_single_array_is_no_npz_file(tmp_path: Path) -> None:
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InteropError, match="a single array"):
        interop.load_npz(tmp_path / "a.npz")


# --- tensors


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_tensors_go_to_pytorch_and_back(dtype: str, device: str) -> None:
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    there = interop.to_torch(sg.tensor(array, device=device))
    assert str(there.dtype) == f"torch.{dtype}"
    assert_same_bits(there, array)
    back = interop.from_torch(there, device=device)
    assert back.device == device
    assert_same_bits(back, array)


def test_history_stays_behind_and_memory_is_not_shared() -> None:
    ours_, theirs_ = sg.tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0, 2.0], requires_grad=True)
    there, back = interop.to_torch(ours_ * 2), interop.from_torch(theirs_ * 2)
    assert not there.requires_grad
    assert not back.requires_grad
    there.add_(1)
    assert (ours_ * 2).detach().tolist() == back.tolist() == [2, 4]
    shared = torch.zeros(2)
    copy = interop.from_torch(shared)
    shared.add_(1)
    assert copy.tolist() == [0, 0]


def test_other_dtypes_of_pytorch_become_ours_or_are_refused() -> None:
    assert interop.from_torch(torch.tensor([1, 2])).dtype is sg.int64
    assert interop.from_torch(torch.tensor([1.5]).bfloat16()).dtype is sg.bfloat16
    assert interop.from_torch(torch.tensor([1.5]).double()).dtype is sg.float64
    assert interop.from_torch(torch.tensor([1.5]), dtype=sg.float64).dtype is sg.float64
    with pytest.raises(InteropError, match=r"expected a torch.Tensor, not a ndarray"):
        interop.from_torch(np.zeros(1))
    with pytest.raises(InteropError, match="NumPy has no torch"):
        interop.from_torch(torch.zeros(2).to(torch.float8_e4m3fn))


def test_without_pytorch_the_pip_command_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.pt", {"w": torch.ones(1)})
    monkeypatch.setitem(sys.modules, "torch", None)
    for call in (lambda: interop.to_torch(sg.ones(1)), lambda: interop.read_arrays(path)):
        with pytest.raises(MissingPackageError, match=r"shadergrad\[torch\]"):
            call()
