"""Transforms of images, the file of an odd size, what objects say of themselves, and what a Trainer draws and predicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.data import DataLoader, ImageFolder, Subset, TensorDataset
from shadergrad.data import transforms as T
from shadergrad.train.metrics import read_rows

IMAGE = np.random.default_rng(0).random((3, 8, 12), dtype=np.float32)


def test_resizing_is_pillows_of_each_channel() -> None:
    found = T.Resize((4, 6))(IMAGE)
    wanted = [np.asarray(Image.fromarray(c).resize((6, 4), Image.Resampling.BILINEAR)) for c in IMAGE]
    np.testing.assert_array_equal(found, np.stack(wanted))
    assert T.Resize(4)(IMAGE).shape == (3, 4, 6)
    assert T.Resize([4])(IMAGE.transpose(0, 2, 1)).shape == (3, 6, 4)
    assert T.Resize((4, 6))((IMAGE * 255).astype(np.uint8)).dtype == np.uint8


def test_crops_flips_and_normalisation() -> None:
    np.testing.assert_array_equal(T.CenterCrop(4)(IMAGE), IMAGE[:, 2:6, 4:8])
    assert T.CenterCrop((10, 2))(IMAGE).shape == (3, 10, 2)
    np.testing.assert_array_equal(T.RandomHorizontalFlip(1.0)(IMAGE), IMAGE[:, :, ::-1])
    np.testing.assert_array_equal(T.RandomVerticalFlip(1.0)(IMAGE), IMAGE[:, ::-1])
    np.testing.assert_array_equal(T.RandomHorizontalFlip(0.0)(IMAGE), IMAGE)
    found = T.Normalize([0.1, 0.2, 0.3], [0.5, 0.25, 2])(IMAGE)
    np.testing.assert_allclose(found[1], (IMAGE[1] - 0.2) / 0.25, rtol=1e-6)
    sg.manual_seed(0)
    places = {tuple(np.argwhere(IMAGE[0] == T.RandomCrop(3)(IMAGE)[0, 0, 0])[0]) for _ in range(200)}
    assert places == {(a, b) for a in range(6) for b in range(10)} or len(places) > 50
    assert max(a for a, _ in places) == 5
    assert max(b for _, b in places) == 9
    assert T.RandomCrop(8, padding=2)(IMAGE).shape == (3, 8, 8)
    flips = [bool((T.RandomHorizontalFlip()(IMAGE) != IMAGE).any()) for _ in range(200)]
    assert 60 < sum(flips) < 140


def test_pictures_arrays_and_tensors_go_in(device: str) -> None:
    picture = Image.fromarray((IMAGE.transpose(1, 2, 0) * 255).astype(np.uint8))
    both = T.Compose([T.Resize((4, 6)), T.ToTensor(), T.Normalize(0.5, 0.5)])
    found = both(picture)
    assert (type(found), found.shape, found.dtype) == (sg.Tensor, (3, 4, 6), sg.float32)
    moved = T.Resize(4)(sg.tensor(IMAGE, device=device))
    assert moved.device == device
    np.testing.assert_array_equal(moved.numpy(), T.Resize(4)(IMAGE))
    assert T.ToTensor()(picture).max().item() <= 1
    assert repr(both) == "Compose([Resize((4, 6)), ToTensor(), Normalize(mean=0.5, std=0.5)])"


def test_black_and_white_is_zero_and_one() -> None:
    picture = Image.new("1", (3, 2), 1)
    picture.putpixel((0, 0), 0)
    np.testing.assert_array_equal(T.ToTensor()(picture).numpy(), [[[0, 1, 1], [1, 1, 1]]])


def test_random_transforms_in_workers_are_decided_by_the_seed() -> None:
    class Images(sg.data.Dataset):
        def __len__(self) -> int:
            return 16

        def __getitem__(self, index: int) -> np.ndarray:
            return T.RandomCrop(2)(IMAGE)

    found = [
        [b.tolist() for b in DataLoader(Images(), 4, num_workers=workers, seed=3)]
        for workers in (1, 2, 4)
        for _ in "ab"
    ]
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: T.Resize(0), "size is 0"),
        (lambda: T.Resize((1, 2, 3)), "a positive number, or two"),
        (lambda: ImageFolder(".", size=(4, 0)), r"\[ImageFolder\] size is \(4, 0\)"),
        (lambda: T.RandomCrop(9)(IMAGE), r"\(9, 9\) does not fit into \(8, 12\)"),
        (lambda: T.ToTensor()(np.zeros((8, 12, 3), np.uint8)), "channels last. Hint: image.transpose"),
        (lambda: T.ToTensor()(Image.new("I;16", (8, 6))), "a picture of mode I;16"),
        (lambda: T.RandomHorizontalFlip(2), "p is 2"),
        (lambda: T.Normalize(0, 0), "std has a zero"),
        (lambda: T.Resize(2)(np.zeros((4, 4))), r"\(channels, height, width\).*\(4, 4\)"),
        (lambda: T.Normalize([1, 2], [1, 2])(IMAGE), "2 means and 2 deviations for 3 channels"),
        (lambda: T.ToTensor()("x.png"), "cannot take a str"),
    ],
)
def test_what_cannot_be_transformed_is_refused(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for kind in ("cat", "dog"):
        (tmp_path / kind).mkdir()
        for k in range(4):
            size = (9, 5) if (kind, k) == ("dog", 2) else (8, 6)
            Image.new("RGB", size, (k, 0, 0)).save(tmp_path / kind / f"{k}.png")
    return tmp_path


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_names_the_file_of_an_odd_size(pictures: Path, workers: int) -> None:
    folder = ImageFolder(pictures)
    for dataset in (folder, Subset(folder, range(3, 8)), sg.data.ConcatDataset([folder, folder])):
        with pytest.raises(sg.ShapeError, match=r"dog/2\.png is \(3, 5, 9\)\. Hint: size="):
            list(DataLoader(dataset, 5, num_workers=workers))
    assert ImageFolder(pictures, size=6)[0][0].shape == (3, 6, 6)
    for good in (ImageFolder(pictures, size=(6, 8)), ImageFolder(pictures, transform=T.Resize((6, 8)))):
        assert [b[0].shape for b in DataLoader(good, 8, num_workers=workers)] == [(8, 3, 6, 8)]


def test_objects_say_what_they_are(pictures: Path) -> None:
    dataset = TensorDataset(np.zeros((5, 2), np.float32), sg.zeros(5))
    assert repr(dataset) == "TensorDataset(float32[5, 2], float32[5])"
    assert repr(Subset(dataset, [0, 1])) == "Subset(2 of TensorDataset(float32[5, 2], float32[5]))"
    assert repr(ImageFolder(pictures, size=(2, 2))).startswith("ImageFolder(8 pictures of 2 classes in ")
    assert repr(DataLoader(dataset, 2, shuffle=True)) == (
        "DataLoader(TensorDataset(float32[5, 2], float32[5]), batch_size=2, shuffle=True)"
    )


def trainer(**options: object) -> sg.train.Trainer:
    sg.manual_seed(0)
    x = np.random.default_rng(0).standard_normal((64, 2)).astype(np.float32)
    y = (x[:, 0] > x[:, 1]).astype(np.int32)
    model = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = sg.optim.AdamW(model.parameters(), lr=0.05)
    return sg.train.Trainer(
        model,
        optimizer,
        F.cross_entropy,
        (x, y),
        validation=(x, y),
        measures="accuracy",
        batch_size=16,
        progress=False,
        **options,  # type: ignore[arg-type]
    )


def test_a_trainer_predicts_in_evaluation_mode_and_says_what_it_is() -> None:
    made = trainer()
    assert repr(made) == "Trainer(Sequential, AdamW, batch_size=16, 0 epochs trained on cpu)"
    made.fit(2)
    assert "2 epochs" in repr(made)
    x = np.random.default_rng(1).standard_normal((37, 2)).astype(np.float32)
    made.model.eval()
    with sg.no_grad():
        wanted = made.model(sg.tensor(x)).numpy()
    made.model.train()
    for given in (x, sg.tensor(x), (x,), DataLoader(TensorDataset(x), 5)):
        found = made.predict(given)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)
        assert not found.requires_grad
    assert made.model.training
    with pytest.raises(sg.train.TrainingError, match="not a str"):
        made.predict("x")
    with pytest.raises(sg.train.TrainingError, match="nothing to predict"):
        made.predict(x[:0])


def width_of(path: Path) -> int:
    with Image.open(path) as picture:
        return picture.size[0]


def test_a_history_is_drawn_and_a_run_of_ones_own_has_its_curve(tmp_path: Path) -> None:
    made = trainer(callbacks=[sg.train.Checkpoint(tmp_path / "mine")])
    with pytest.raises(sg.train.TrainingError, match="no losses"):
        made.history.plot()
    history = made.fit(2)
    figure = history.plot(tmp_path / "drawn.png", title="mine")
    assert len(figure.axes) == 2
    assert width_of(tmp_path / "drawn.png") > 500
    assert width_of(tmp_path / "mine" / "curve.png") > 500
    made.fit(1)
    rows = read_rows(tmp_path / "mine" / "metrics.jsonl")
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert [row["loss"] for row in rows] == history["loss"]
