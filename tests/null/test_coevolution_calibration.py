"""Probabilities of contacts are what they say, in families that the calibration has not seen, and contacts within a chain are listed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shadergrad.cli import app as cli
from shadergrad.cli.calibrate_coevolution import calibration_of
from shadergrad.cli.predict_coevolution import depth_warning, gap_columns, not_aligned
from shadergrad.data import DataError
from shadergrad.models import coevolution as co
from shadergrad.models.coevolution import calibration
from shadergrad.models.coevolution.calibration import expected_error
from shadergrad.train.plots import save_png

PHYSICS = co.Physics(lengths=(16, 20), coupling=0.5)


def by_the_table(family: co.Family) -> np.ndarray:
    """The evidence of the true table, less that of each chain alone: what a perfect model would say."""
    a, b = (np.eye(20)[np.minimum(rows, 19)] for rows in (family.a, family.b))
    joint = np.einsum("nia,njb->iajb", a, b) / family.depth
    product = np.einsum("ia,jb->iajb", a.mean(0), b.mean(0))
    return family.depth * np.einsum("iajb,ab->ij", joint - product, PHYSICS.potential())


@pytest.fixture(scope="module")
def families() -> list[co.Family]:
    return co.sample_families(40, 128, seed=5, physics=PHYSICS)


@pytest.fixture(scope="module")
def found(families: list[co.Family]) -> tuple[co.Calibration, list[list[tuple[float, float, int]]]]:
    return co.calibrate(by_the_table, families[:20], (8, 32, 128), "synthetic")


def test_of_pairs_with_a_probability_so_many_touch_in_families_and_at_depths_outside_the_fit(families, found) -> None:
    measured, _ = found
    for depth in (16, 32, 64):  # two of them between those that were measured
        unseen = [family.first(depth) for family in families[20:]]
        truth = np.concatenate([family.contacts.ravel() for family in unseen])
        p = np.concatenate([measured.probabilities(by_the_table(f), co.effective_depth(f)[0]).ravel() for f in unseen])
        bins = co.reliability(p, truth)
        assert expected_error(bins) < 0.01
        assert len(bins) > 5
        for mean, share, count in bins:  # within four deviations of a count, and what families differ by
            assert abs(mean - share) < 4 * np.sqrt(mean * (1 - mean) / count) + 0.05
        raw = 1 / (1 + 16 * np.exp(-np.concatenate([by_the_table(f).ravel() for f in unseen])))
        assert expected_error(co.reliability(raw, truth)) > 5 * expected_error(bins)


def test_the_curve_of_depth_is_the_precision_of_the_best_pairs(families, found) -> None:
    measured, bins = found
    assert measured.neff == pytest.approx([8, 32, 128])
    assert len(bins) == 3
    last = [co.precision_at(by_the_table(f), f.contacts, min(f.shape)) for f in families[:20]]
    assert measured.precision[-1] == pytest.approx(np.mean(last), abs=1e-6)
    assert measured.precision == sorted(measured.precision)
    assert all(
        low <= mean <= high for low, mean, high in zip(measured.low, measured.precision, measured.high, strict=True)
    )
    assert measured.precision_of(1) == measured.precision[0]
    assert measured.precision_of(10**6) == measured.precision[-1]


@pytest.mark.parametrize(
    "truth", [(0.0, 2.0, -3.0), (1.5, 0.0, -1.0), (0.5, 1.0, -2.0)], ids=["bent", "straight", "both"]
)
def test_the_fit_finds_the_curve_that_drew_the_contacts(truth: tuple[float, float, float]) -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(200_000)
    odds = truth[0] * scores + truth[1] * np.logaddexp(0, scores) + truth[2]
    drawn = (rng.random(len(scores)) < 1 / (1 + np.exp(-odds - 0.5))).astype(float)
    slope, bend, shift = calibration._curve(scores, drawn, np.full(len(scores), 0.5))
    found = slope * scores + bend * np.logaddexp(0, scores) + shift
    assert np.abs(found - odds)[np.abs(scores) < 2].max() < 0.15


def test_longer_chains_have_a_lower_probability_for_the_same_score(found) -> None:
    measured, _ = found
    short, long = (measured.probabilities(np.zeros((n, n)), 8.0)[0, 0] for n in (16, 160))
    odds = short / (1 - short) * (1 - long) / long
    assert 9 < odds < 12


def test_a_predictor_that_knows_nothing_gives_every_pair_the_same_probability(families) -> None:
    noise = np.random.default_rng(0)
    for predict in (lambda f: -by_the_table(f), lambda f: np.zeros(f.shape), lambda f: noise.standard_normal(f.shape)):
        measured, _ = co.calibrate(predict, families[:20], (32,))
        p = measured.probabilities(predict(families[20].first(32)), 32.0)
        assert p.max() < 0.2
        assert p.mean() == pytest.approx(1.25 / 18, rel=0.5)


def test_columns_without_a_score_have_no_probability(found) -> None:
    assert np.isnan(found[0].probabilities(np.array([[np.nan, 0.0]]), 32.0)).tolist() == [[True, False]]


def test_families_that_cannot_calibrate_are_refused(families) -> None:
    with pytest.raises(co.FamilyError, match="contacts of synthetic-5-0 are not known"):
        co.calibrate(by_the_table, [replace(families[0], contacts=None)], (8,))
    lines: list[str] = []
    found, _ = co.calibrate(by_the_table, families[:3], (128,), told=lines.append)
    assert (
        lines.pop() == f"128 pairs, Neff 128.0: 3 families, {100 * found.precision[0]:.0f} % of the best L pairs touch"
    )
    with pytest.raises(co.FamilyError, match=r"no depth of \[500\] has 2 families"):
        co.calibrate(by_the_table, families[:3], (500,), told=lines.append)
    assert lines == ["500 pairs: only 0 of 3 families are as deep, left out"]


def test_a_file_comes_back_and_others_are_refused(tmp_path: Path, found) -> None:
    path = tmp_path / "calibration.json"
    found[0].save(path)
    assert co.Calibration.read(path) == found[0]
    wrong = [b"{}", b"no json", json.dumps(json.loads(path.read_text()) | {"slope": [1.0]}).encode()]
    for data in wrong:
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"is no calibration: .* Hint: shadergrad calibrate"):
            co.Calibration.read(path)


def test_a_calibration_of_another_state_of_the_run_is_not_used(tmp_path: Path, found) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes(b"weights")
    assert "not calibrated" in calibration_of(tmp_path)[1]
    replace(found[0], checkpoint="of other weights").save(tmp_path / "calibration.json")
    assert "of an earlier state of the run and is not used" in calibration_of(tmp_path)[1]


def test_a_shallow_family_is_warned_of_with_the_precision_measured_there() -> None:
    measured = co.Calibration(
        [8.0, 32.0, 100.0],
        [1.0] * 3,
        [0.0] * 3,
        [0.0] * 3,
        [0.2, 0.5, 0.9],
        [0.0] * 3,
        [1.0] * 3,
        1.0,
        9,
        "of PF1",
        0.0,
    )
    assert "about 20 % touched in families of that depth (of PF1); from Neff 100 on" in depth_warning(3.0, measured)
    assert "about 50 % touched" in depth_warning(32.0, measured)
    assert depth_warning(100.0, measured) == ""
    assert "deeper families are better" in depth_warning(8.0, replace(measured, precision=[0.1, 0.2, 0.3]))
    shallow = replace(measured, precision=[0.1, 0.2, 0.3])
    told = depth_warning(2 * shallow.neff[-1], shallow)
    assert (
        f"no families of Neff {2 * shallow.neff[-1]:.0f} were measured: at most {shallow.neff[-1]:.0f}, where about 30 %"
        in told
    )
    assert "is low" not in told
    assert depth_warning(2 * measured.neff[-1], measured) == ""


def test_a_row_that_is_not_aligned_is_named_with_both_lengths(tmp_path: Path) -> None:
    path = tmp_path / "pairs.fasta"
    path.write_text(">query\nMKV:GHL\n>good\nMRV:GHL\n>short\nMK:GH\n")
    text = not_aligned(co.read_pairs(path), path)
    assert text.startswith(f"{path}, line 5: short has 2 and 2 residues, query 3 and 3: the rows are not aligned")
    assert "mafft --auto" in text


def test_columns_of_gaps_are_left_out() -> None:
    a, b = (np.array(rows, np.uint8) for rows in ([[0, co.PAD, 2], [0, 1, 2]], [[1, 2, 3], [1, 2, co.PAD]]))
    family = co.Family("x", a, b)
    wide, told = gap_columns(family, np.ones(2), 0.4)
    assert [own.tolist() for own in wide] == [[False, True, False], [False, False, True]]
    assert told == "1 and 1 columns with more than 40 % gaps are left out (--most-gaps)"
    assert gap_columns(family, np.ones(2), 0.5)[1] == ""
    with pytest.raises(DataError, match=r"every column of a has more than 0 % gaps. Hint: --most-gaps 0.5"):
        gap_columns(co.Family("g", np.array([[co.PAD, 0], [0, co.PAD]], np.uint8), b[:, :1]), np.ones(2), 0.0)


def test_contacts_within_a_chain_are_those_apart_in_the_sequence_with_both_numbers(tmp_path: Path) -> None:
    rows = np.arange(9, dtype=np.uint8)[None]
    family = co.Family("x", rows, rows[:, :7], names=("P1/24-32+P2",))
    scores = np.add.outer(np.arange(9.0), np.arange(9.0))
    np.fill_diagonal(scores, np.nan)
    co.write_within(tmp_path / "w.tsv", family, [scores, scores[:7, :7]], 2, co.residue_numbers(family))
    lines = [line.split("\t") for line in (tmp_path / "w.tsv").read_text().splitlines()]
    assert lines[1:] == [
        ["a", "3", "9", "D", "K", "10.0000", "26", "32"],
        ["a", "2", "9", "C", "K", "9.0000", "25", "32"],
        ["b", "1", "7", "A", "H", "6.0000", "1", "7"],
    ]
    touching = np.zeros((9, 9), bool)
    touching[2, 8] = True
    assert co.within_precision(scores, touching, np.ones((9, 9), bool)) == pytest.approx(1 / 6)


def test_a_prediction_starts_without_the_packages_that_it_may_not_need() -> None:
    """Imports are what the start of a prediction takes; pictures and structures import theirs when they are drawn and read."""
    late = {"scipy", "matplotlib", "gemmi", "torch", "wgpu", "llvmlite", "http", "shadergrad.logic", "shadergrad.web"}
    code = f"import sys, shadergrad.cli.app; print({late} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_auto_looks_for_no_gpu_where_a_family_is_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def listed(wish: str, console: object) -> str:
        raise AssertionError("adapters are listed")

    monkeypatch.setattr("shadergrad.cli.predict_coevolution.choose_device", listed)
    small = co.sample_family("small", np.random.default_rng(1), co.Physics(lengths=(8, 9)), 40)
    words = [str(co.write_family(tmp_path, small)), "--out", str(tmp_path / "out")]
    assert cli.run(["predict", "coevolution", "mean-field", *words]) == 0
    assert capsys.readouterr().out.startswith("device auto: cpu, as the family is small\nsmall: 40 pairs")
    for method, more in (("mean-field", ["--device", "cpu"]), ("pseudo-likelihood", [])):
        with pytest.raises(AssertionError, match="adapters are listed"):
            cli.run(["predict", "coevolution", method, *words, *more])
    many = co.Family("many", np.zeros((2, 60), np.uint8), np.zeros((2, 60), np.uint8))
    with pytest.raises(AssertionError, match="adapters are listed"):
        cli.run(["predict", "coevolution", "mean-field", str(co.write_family(tmp_path, many)), *words[1:]])


@pytest.mark.parametrize(
    ("method", "option", "message"),
    [
        ("meanfield", (), "there is no run meanfield. Hint: mean-field and pseudo-likelihood need none"),
        ("mean-field", ("--top", "0"), "greater than or equal to 1"),
    ],
)
def test_a_prediction_of_nothing_is_refused(
    method: str, option: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = co.sample_family("small", np.random.default_rng(1), co.Physics(lengths=(8, 9)), 4)
    words = [method, str(co.write_family(tmp_path, small)), "--out", str(tmp_path / "out"), "--device", "cpu", *option]
    assert cli.run(["predict", "coevolution", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_a_prediction_overwrites_no_known_contacts_and_tells_how_many_pairs_a_structure_resolves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = co.sample_family("small", np.random.default_rng(1), co.Physics(lengths=(8, 9)), 9)
    (tmp_path / "contacts.tsv").write_text("i\tj\n1\t1\n")
    words = [
        "predict",
        "coevolution",
        "mean-field",
        str(co.write_family(tmp_path, small)),
        "--no-within",
        "--device",
        "cpu",
    ]
    assert cli.run([*words, "--contacts", str(tmp_path / "contacts.tsv"), "--out", str(tmp_path)]) == 2
    assert "would be overwritten" in capsys.readouterr().err
    assert (tmp_path / "contacts.tsv").read_text() == "i\tj\n1\t1\n"
    resolved = np.arange(72).reshape(8, 9) > 3
    monkeypatch.setattr(co, "structure_contacts", lambda path, family, *_: (small, resolved.reshape(family.shape)))
    assert cli.run([*words, "--structure", "x.pdb", "--out", str(tmp_path / "out")]) == 0
    assert f"resolves {resolved.sum()} of 72 pairs of columns" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_found_before_the_model_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(*_: object) -> None:
        raise AssertionError("the model runs")

    monkeypatch.setattr("shadergrad.cli.predict_coevolution.by_couplings", ran)
    small = co.sample_family("small", np.random.default_rng(1), co.Physics(lengths=(8, 9)), 9)
    path = str(co.write_family(tmp_path, small))
    assert cli.run(["predict", "coevolution", "mean-field", path, "--out", path, "--device", "cpu"]) == 2


def test_a_picture_is_drawn_once_and_is_what_savefig_writes(tmp_path: Path) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure(figsize=(3, 2), dpi=50, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title("two lines\nof title")
    drawn = []
    axes.draw = lambda renderer, draw=axes.draw: drawn.append(draw(renderer))
    save_png(figure, tmp_path / "ours.png")
    assert len(drawn) == 1
    figure.savefig(tmp_path / "theirs.png")
    assert (tmp_path / "ours.png").read_bytes() == (tmp_path / "theirs.png").read_bytes()
