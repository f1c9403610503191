"""Tables of measured tiles: kept whole, refused with a warning where they do not fit, and before the estimate where they do."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from shadergrad.cli.tune import USUAL, parse
from shadergrad.compile import tuning
from shadergrad.compile.choices import Beside, Cut, Shape, Tile
from shadergrad.compile.tiles import TUNED, candidates, choose_tile, chunk_of, fits, register
from shadergrad.compile.tuning import SHIPPED, TuningError, load
from shadergrad.target import PORTABLE, ROWS, Target

LARGE = Target("wgsl", max_workgroup_invocations=1024, max_workgroup_storage=49152, traits=ROWS["native"])
TABLE = {
    Shape(1, 256, 512, 768): Cut(Tile(16, 16, 32, 4, 4, 2, 2), 3),
    Shape(2, 64, 64, 64): Cut(Tile(32, 32, 16, 4, 4)),
    Beside(Shape(1, 512, 96, 48), Shape(1, 48, 96, 512)): Cut(Tile(64, 32, 16, 8, 4)),
    Beside(Shape(1, 48, 96, 512), Shape(1, 512, 96, 48)): Cut(Tile(64, 32, 16, 4, 8, 2), 7),
}
GPU, DRIVER = "A GPU (X/1)", "driver 1.2"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the table of GPU is kept, in an empty folder."""
    monkeypatch.setattr(tuning, "config", replace(tuning.config, cache=str(tmp_path)))
    found = tuning.path_for(GPU, DRIVER)
    assert found is not None
    return found


def test_without_a_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "config", replace(tuning.config, cache="off"))
    assert tuning.load(tuning.path_for(GPU, DRIVER), GPU, DRIVER) == {}
    with pytest.raises(tuning.TuningError, match="SHADERGRAD_CACHE is off"):
        tuning.save(TABLE, GPU, DRIVER)


def test_a_table_is_kept_for_its_adapter_and_driver(path: Path) -> None:
    assert tuning.save(TABLE, GPU, DRIVER) == path
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(path, GPU, DRIVER) == TABLE
        assert load(tuning.path_for(GPU, "driver 1.3"), GPU, "driver 1.3") == {}


def damaged(text: str, wrong: str) -> str:
    data = json.loads(text)
    if wrong == "cut short":
        return text[:40]
    if wrong == "no object":
        return "[]"
    if wrong == "another format":
        data["format"] = 99
    if wrong == "another driver":
        data["driver"] = "driver 1.3"
    if wrong == "no products":
        del data["products"]
    if wrong == "no tile":
        data["products"][0]["tile"][0] = 17
    if wrong == "three slices":
        data["products"][0]["tile"][2:] = [24, 4, 4, 1, 3]
    if wrong == "a word for a number":
        data["products"][0]["shape"][1] = "64"
    if wrong == "beside nothing":
        data["products"][0]["beside"] = []
    return json.dumps(data)


@pytest.mark.parametrize(
    "wrong",
    [
        "cut short",
        "no object",
        "another format",
        "another driver",
        "no products",
        "no tile",
        "three slices",
        "a word for a number",
        "beside nothing",
    ],
)
def test_a_table_that_does_not_fit_is_left_out_with_a_warning(path: Path, wrong: str) -> None:
    tuning.save(TABLE, GPU, DRIVER)
    path.write_text(damaged(path.read_text(), wrong))
    with pytest.warns(UserWarning, match=r"(?s)is left out: .*shadergrad tune"):
        assert load(path, GPU, DRIVER) == {}


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.json")), ids=lambda f: f.stem)
def test_the_tables_that_ship_are_whole_and_fit(file: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = load(file)
    for key, found in table.items():
        shape = key.shape if isinstance(key, Beside) else key
        assert fits(found.tile, LARGE)
        assert found.divides(shape.k)
        if isinstance(key, Beside):
            assert table[Beside(key.other, key.shape)].tile.threads == found.tile.threads


def test_what_was_measured_goes_before_the_estimate() -> None:
    target = replace(LARGE, measured=register(TABLE))
    chunk = chunk_of(1, 256, 512, 768, 1, target)
    assert chunk == 256
    assert choose_tile(1, 256, 512, 768, 1, target, chunk) == TABLE[Shape(1, 256, 512, 768)].tile
    assert (
        choose_tile(1, 256, 512, 800, 1, target, chunk_of(1, 256, 512, 800, 1, target)).slices == 2
    )  # nearly the same
    far = (1, 256, 512, 1600, 1)
    assert (chunk_of(*far, target), choose_tile(*far, target)) == (chunk_of(*far, LARGE), choose_tile(*far, LARGE))
    windows = (1, 256, 512, 768, 3)
    assert choose_tile(*windows, target) == choose_tile(*windows, LARGE)


def test_a_contraction_is_cut_as_it_was_beside_another() -> None:
    cut = Shape(1, 48, 96, 512)
    table = register({**TABLE, cut: Cut(Tile(16, 16, 16, 4, 4), 2)})
    assert chunk_of(*cut, 1, replace(LARGE, measured=table)) == 80
    whole = (1, 512, 96, 48, 1)
    assert choose_tile(*whole, replace(LARGE, measured=table)) == choose_tile(*whole, LARGE)


def test_a_tile_that_the_target_does_not_allow_is_not_taken() -> None:
    table = register(TABLE)
    assert choose_tile(1, 256, 512, 768, 1, replace(PORTABLE, measured=table)) == choose_tile(
        1, 256, 512, 768, 1, PORTABLE
    )


@pytest.mark.parametrize("text", [*USUAL, "1x1x1", "3x17x5x9:ab"])
def test_every_choice_that_tuning_tries_fits(text: str) -> None:
    shape, _ = parse(text)
    tried = candidates(shape, LARGE)
    assert len(set(tried)) == len(tried) >= 1
    for choice in tried:
        assert fits(choice.tile, LARGE)
        assert choice.divides(shape.k)
        assert choice.parts == 1 or choice.chunk(shape.k) % choice.tile.bk == 0
    chunk = chunk_of(*shape, 1, LARGE)
    own = choose_tile(*shape, 1, LARGE, chunk if chunk < shape.k else 0)
    assert (tried[0].tile, tried[0].chunk(shape.k)) == (own, chunk)


def test_tiles_of_slices_have_room_for_their_sums() -> None:
    for tile in TUNED:
        if tile.slices > 1:
            assert fits(tile, LARGE)
            rounds = 1 if tile.tm * tile.tn <= 64 else 6  # of 8 x 12 results a thread a few find room at a time
            assert rounds * tile.room >= tile.slices // 2 * tile.slice * tile.tm * tile.tn // 4
    assert fits(Tile(64, 64, 16, 8, 4, 1, 2), LARGE)  # in four rounds
    assert not fits(Tile(32, 32, 4, 4, 4, 1, 4), LARGE)  # in none: 64 threads and 32 vec4s


@pytest.mark.parametrize("text", ["", "5x5", "0x5x5", "5x5x5x5x5", "5x5x5:c", "a x b x c"])
def test_what_is_no_product_is_told(text: str) -> None:
    with pytest.raises(TuningError, match="is no product: write m x n x k"):
        parse(text)
