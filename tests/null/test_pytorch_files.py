"""Files of PyTorch's, read without it, and files that it reads: values, dtypes, shared memory, modules, checkpoints; what is refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.package.package_importer import PackageImporter

import shadergrad as sg
from shadergrad.errors import CheckpointError
from shadergrad.pytorch_files import safe_classes, write_pytorch_file

FORMATS = {"zip": True, "before 1.6": False}
DTYPES = (
    "float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "uint16", "uint32",
)  # fmt: skip


def saved(obj: Any, is_zip: bool = True) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(obj, file, _use_new_zipfile_serialization=is_zip)
    file.seek(0)
    return file


@pytest.mark.parametrize("kind", FORMATS)
def test_tensors_keep_their_values_and_dtypes(kind: str) -> None:
    draw = torch.Generator().manual_seed(0)
    given: dict[str, Any] = {name: (torch.rand(2, 3, generator=draw) * 100).to(getattr(torch, name)) for name in DTYPES}
    base = torch.arange(24.0)
    given |= {
        "a view": base.reshape(4, 6)[1:, ::2].t(),
        "expanded": torch.ones(1, 3).expand(4, 3),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "nested": [(torch.ones(2),), {"a": torch.Size([1, 2])}],
        "plain": (1, 2.5, None, True, "text", b"bytes", {1, 2}),
    }
    found = sg.load(saved(given, FORMATS[kind]), map_location="cpu")
    for name in (*DTYPES, "a view", "expanded", "scalar", "empty"):
        np.testing.assert_array_equal(found[name].numpy(), given[name].numpy(), strict=True)
        assert not found[name].requires_grad
    assert found["nested"][0][0].tolist() == [1, 1]
    assert found["nested"][1]["a"] == sg.Size([1, 2])
    assert found["plain"] == given["plain"]


@pytest.mark.parametrize("kind", FORMATS)
def test_bfloat16_stays_so(kind: str) -> None:
    x = torch.randn(5).bfloat16()
    found = sg.load(saved([x], FORMATS[kind]))[0]
    assert found.dtype is sg.bfloat16
    np.testing.assert_array_equal(found.numpy(), x.float().numpy(), strict=True)


def test_parameters_are_parameters() -> None:
    found = sg.load(saved([torch.nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)]))
    assert isinstance(found[0], sg.nn.Parameter)
    assert [x.requires_grad for x in found] == [True, True]


def test_tensors_of_the_same_memory_share_it() -> None:
    tied = torch.nn.Linear(2, 2)
    other = torch.nn.Linear(2, 2)
    other.weight = tied.weight
    found = sg.load(saved(torch.nn.Sequential(tied, other).state_dict()))
    found["0.weight"].fill_(3)
    assert found["1.weight"].tolist() == [[3, 3], [3, 3]]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_checkpoint_of_pytorchs_goes_on(kind: str, tmp_path: Path) -> None:
    def model_and_optimizer(lib: Any) -> Any:
        model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.GELU(), lib.nn.Linear(4, 2))
        optimizer = lib.optim.AdamW(model.parameters(), lr=0.01)
        return model, optimizer, lib.optim.lr_scheduler.StepLR(optimizer, 2)

    def step(lib: Any, model: Any, optimizer: Any, scheduler: Any) -> float:
        x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
        loss = model(lib.tensor(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.item()

    theirs = model_and_optimizer(torch)
    for _ in range(3):
        step(torch, *theirs)
    saving = {"model": theirs[0], "optimizer": theirs[1], "scheduler": theirs[2]}
    path = tmp_path / "checkpoint.pth"
    torch.save(
        {"epoch": 3, **{name: made.state_dict() for name, made in saving.items()}}, path,
        _use_new_zipfile_serialization=FORMATS[kind],
    )  # fmt: skip
    mine = model_and_optimizer(sg)
    found = sg.load(path, weights_only=True)
    for name, made in zip(saving, mine, strict=True):
        made.load_state_dict(found[name])
    assert found["epoch"] == 3
    for _ in range(3):
        assert step(sg, *mine) == pytest.approx(step(torch, *theirs), rel=1e-5)


MODULES: dict[str, tuple[str, tuple[int, ...]]] = {
    "linear": ("Sequential(nn.Linear(4, 3), nn.LeakyReLU(0.2), nn.Linear(3, 2, bias=False), nn.Softmax(-1))", (5, 4)),
    "images": ("Sequential(nn.Conv2d(2, 4, 3, padding=1, stride=2, groups=2), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Flatten())", (3, 2, 8, 8)),
    "upwards": ("Sequential(nn.ConvTranspose2d(2, 3, 3), nn.GroupNorm(3, 3), nn.Upsample(scale_factor=2))", (1, 2, 4, 4)),
    "attention": ("TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)", (2, 3, 4)),
    "recurrent": ("Sequential(nn.LayerNorm(4), nn.PReLU(), nn.Dropout(0.5))", (2, 4)),
    "gru": ("GRU(4, 3, 2, bidirectional=True)", (5, 2, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("kind", FORMATS)
def test_whole_modules_compute_what_pytorchs_do(name: str, kind: str) -> None:
    made, shape = MODULES[name]
    theirs = eval(f"nn.{made}", {"nn": torch.nn}).eval()
    mine = sg.load(saved(theirs, FORMATS[kind]), weights_only=False)
    assert isinstance(mine, sg.nn.Module)
    assert not mine.training
    assert list(mine.state_dict()) == list(theirs.state_dict())
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    a, b = mine(sg.tensor(x)), theirs(torch.tensor(x))
    a, b = (y[0] if isinstance(y, tuple) else y for y in (a, b))
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-5, 1e-5)
    mine.train().zero_grad()
    mine.register_forward_hook(lambda *_: None)


class Settings:
    """A class of a program's own."""

    def __init__(self) -> None:
        self.width = 3


def test_objects_are_made_where_they_are_allowed() -> None:
    with pytest.raises(
        CheckpointError, match=r"holds .*Settings, and reading that runs its code. Hint: weights_only=False"
    ):
        sg.load(saved({"settings": Settings()}))
    assert sg.load(saved({"settings": Settings()}), weights_only=False)["settings"].width == 3
    safe_classes.append(Settings)
    try:
        assert sg.load(saved({"settings": Settings()}))["settings"].width == 3
    finally:
        safe_classes.remove(Settings)


class Malice:
    def __reduce__(self) -> Any:
        return (print, ("executed",))


@pytest.mark.parametrize("kind", FORMATS)
def test_weights_run_no_code(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CheckpointError, match="runs its code"):
        sg.load(saved([torch.ones(2), Malice()], FORMATS[kind]))
    assert capsys.readouterr().out == ""


def hooked() -> Any:
    module: Any = torch.nn.Linear(1, 1)
    module.register_forward_hook(saved)
    return module


REFUSED: dict[str, tuple[Any, str]] = {
    "a sparse tensor": (lambda: torch.eye(2).to_sparse(), "tensors that are not there in shadergrad: sparse_tensor"),
    "a conjugate to come": (lambda: torch.ones(2, dtype=torch.complex64).conj(), "a pending conj of another"),
    "a name that is not there": (lambda: PackageImporter, "PackageImporter, which is not in shadergrad"),
    "a module with hooks": (hooked, r"Linear was pickled with hooks \(forward_hooks\)"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_there_is_refused_in_words(what: str) -> None:
    made, words = REFUSED[what]
    with pytest.raises(CheckpointError, match=words):
        sg.load(saved([made()]), weights_only=False)


def test_damaged_files_are_refused() -> None:
    whole = saved({"w": torch.arange(100.0)}).getvalue()
    old = saved({"w": torch.arange(100.0)}, False).getvalue()
    at = whole.index(np.float32(50).tobytes() + np.float32(51).tobytes())
    for damaged in (whole[:-30], whole[: len(whole) // 2], whole[:at] + b"x" + whole[at + 1 :], old[:-30], old[:60]):
        with pytest.raises(CheckpointError, match="cannot load"):
            sg.load(io.BytesIO(damaged))


def test_a_tensor_beyond_its_memory_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(saved(torch.zeros(4))) as given, zipfile.ZipFile(file, "w") as made:
        for name in given.namelist():
            made.writestr(name, given.read(name)[:8] if name.endswith("data/0") else given.read(name))
    with pytest.raises(CheckpointError, match="reaches beyond its memory"):
        sg.load(io.BytesIO(file.getvalue()))


def test_other_archives_are_refused() -> None:
    file = io.BytesIO()
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), file)
    with pytest.raises(CheckpointError, match="TorchScript"):
        sg.load(io.BytesIO(file.getvalue()))
    np.savez(file := io.BytesIO(), a=np.ones(2))
    with pytest.raises(CheckpointError, match=r"not what torch\.save wrote"):
        sg.load(io.BytesIO(file.getvalue()))


def test_an_archive_of_another_byte_order_is_read() -> None:
    file = io.BytesIO()
    x = np.arange(3, dtype=">f4")
    with zipfile.ZipFile(saved(torch.tensor(x.astype("<f4")))) as given, zipfile.ZipFile(file, "w") as made:
        for name in given.namelist():
            kept = {"byteorder": b"big", "0": x.tobytes()}.get(name.rpartition("/")[2])
            made.writestr(name, given.read(name) if kept is None else kept)
    assert sg.load(io.BytesIO(file.getvalue())).tolist() == [0, 1, 2]


def test_texts_of_python_2_are_read_by_their_encoding() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(saved({"a": 1})) as given, zipfile.ZipFile(file, "w") as made:
        for name in given.namelist():
            made.writestr(name, b"U\x01\xe9." if name.endswith("data.pkl") else given.read(name))  # a str of one byte
    assert sg.load(io.BytesIO(file.getvalue()), encoding="latin1") == "\xe9"
    with pytest.raises(CheckpointError, match="can't decode"):
        sg.load(io.BytesIO(file.getvalue()))


# -- writing


def written(obj: Any) -> io.BytesIO:
    file = io.BytesIO()
    write_pytorch_file(obj, file)
    return io.BytesIO(file.getvalue())


def test_pytorch_reads_tensors_and_plain_data() -> None:
    given: dict[str, Any] = {name: sg.tensor([[0, 1, 2], [3, 4, 5]], dtype=getattr(sg, name)) for name in DTYPES}
    given |= {
        "view": sg.arange(6.0).reshape(2, 3).t(),
        "scalar": sg.tensor(2.5),
        "empty": sg.zeros(0, 3),
        "requires": sg.ones(2, requires_grad=True),
    }
    plain = {"inf": float("inf"), "set": {1}, "bytes": b"a", 3: [None, (1, "x")], "complex": 1j}
    kinds = {
        "size": sg.Size([2]),
        "dtype": sg.int64,
        "device": sg.device("cpu"),
        "parameter": sg.nn.Parameter(sg.ones(2)),
    }
    found = torch.load(written({"tensors": given, "plain": plain, "kinds": kinds}), weights_only=True)
    for name, x in given.items():
        np.testing.assert_array_equal(found["tensors"][name].detach().numpy(), x.detach().numpy(), strict=True)
    assert found["tensors"]["requires"].requires_grad
    assert found["plain"] == plain
    size, dtype, device, parameter = found["kinds"].values()
    assert (size, dtype, device, type(parameter)) == (
        torch.Size([2]),
        torch.int64,
        torch.device("cpu"),
        torch.nn.Parameter,
    )


def test_pytorch_goes_on_with_a_checkpoint_of_ours(tmp_path: Path) -> None:
    mine = sg.nn.Sequential(sg.nn.Linear(3, 4), sg.nn.Tanh(), sg.nn.Linear(4, 2))
    optimizer = sg.optim.Adam(mine.parameters(), 0.1)
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    their_optimizer = torch.optim.Adam(theirs.parameters(), 0.1)

    def step(lib: Any, model: Any, optimizer: Any) -> float:
        loss = model(lib.arange(6.0).reshape(2, 3)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    step(sg, mine, optimizer)
    path = tmp_path / "model.pt"
    with open(path, "wb") as file:
        write_pytorch_file([mine.state_dict(), optimizer.state_dict()], file)
    model_state, optimizer_state = torch.load(path, mmap=True)
    theirs.load_state_dict(model_state)
    their_optimizer.load_state_dict(optimizer_state)
    for _ in range(3):
        assert step(torch, theirs, their_optimizer) == pytest.approx(step(sg, mine, optimizer), rel=1e-5)


def test_shared_memory_is_written_once() -> None:
    tied = sg.nn.Linear(100, 100)
    other = sg.nn.Linear(100, 100)
    other.weight = tied.weight
    file = written(sg.nn.Sequential(tied, other).state_dict())
    assert len(file.getvalue()) < 60_000
    for lib in (sg, torch):
        file.seek(0)
        found = lib.load(file)
        found["0.weight"].fill_(3)
        assert found["1.weight"].sum().item() == 30_000


def test_what_is_written_is_read_here() -> None:
    model = sg.nn.Sequential(sg.nn.Conv1d(2, 3, 3), sg.nn.BatchNorm1d(3)).eval()
    obj = {
        "model": model,
        "settings": Settings(),
        "array": np.arange(3),
        "best": float("nan"),
        "distribution": sg.distributions.Normal(0.0, 1.0),
    }
    found = sg.load(written(obj), weights_only=False)
    x = sg.ones(2, 2, 5)
    np.testing.assert_array_equal(found["model"](x).detach().numpy(), model(x).detach().numpy())
    assert found["settings"].width == 3
    assert found["array"].tolist() == [0, 1, 2]
    assert np.isnan(found["best"])
    assert found["distribution"].log_prob(sg.tensor(1.0)).item() == pytest.approx(-1.4189385)
    assert sg.load(written(np.arange(3))).tolist() == [0, 1, 2]  # such as get_rng_state()


def test_attributes_of_tensors_are_kept() -> None:
    x, p = sg.ones(2), sg.nn.Parameter(sg.ones(2))
    x.tag, p.shard = "x", 3  # type: ignore[attr-defined]
    for lib in (sg, torch):
        a, b = lib.load(written([x, p]), weights_only=False)
        assert (a.tag, b.shard, type(b), b.tolist()) == ("x", 3, lib.nn.Parameter, [1, 1])
    given = torch.ones(2)
    given.tag = "y"  # type: ignore[attr-defined]
    assert sg.load(saved(given), weights_only=False).tag == "y"


def test_equal_objects_give_equal_files() -> None:
    assert written({"w": sg.ones(3)}).getvalue() == written({"w": sg.ones(3)}).getvalue()


def test_what_cannot_be_pickled_is_refused() -> None:
    with pytest.raises(CheckpointError, match=r"cannot save this: .*lambda.* Hint: save its state_dict\(\)"):
        write_pytorch_file({"f": lambda x: x}, io.BytesIO())
