"""Training the coevolution transformer: parts of a batch, both phases, families, and the commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
from helpers import as_array, assert_close, assert_compiles_nothing, grad_of
from shadergrad import cli
from shadergrad.checkpoint import load_checkpoint
from shadergrad.models import coevolution as co
from shadergrad.recipes import coevolution as recipe
from shadergrad.recipes.contacts.loading import load_predictor
from shadergrad.recipes.contacts.options import OPTIONS
from shadergrad.train import Settings, Stream, TrainingStep, WarmUpCosine

SIZES = {"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 16, "max_len": 40, "dropout": 0.0}
ENGINES = ("shaders", "torch", "numpy")
PHYSICS = co.Physics(lengths=(8, 10), coupling=1.5)


def tiny(phase: str, device: str, dtype: Any = None) -> Any:
    sg.manual_seed(1)
    model = co.model_for(phase, co.CoevolutionTransformer(**SIZES))
    return model.to(device) if dtype is None else model.to(device, dtype)


def loss_of(phase: str) -> Any:
    return co.MaskedTokens() if phase == "mlm" else co.Contacts(4.0)


def training(phase: str, model: Any, optimizer: sg.optim.Optimizer, **options: Any) -> TrainingStep:
    objective = co.Objective(model, loss_of(phase))
    return TrainingStep(model, optimizer, objective.total, weight=objective.weight, **options)


def batches(phase: str, count: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of one shape; another number of residues is masked in each row."""
    found = co.Batches(co.sample_families(6, 4, physics=PHYSICS), phase, 8, most=1)
    return [found.at(k) for k in range(count)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("phase", co.batches.PHASES)
def test_four_parts_of_a_batch_are_the_batch(phase: str, engine: str) -> None:
    """Losses and gradients, though the parts have different numbers of masked residues and known contacts."""
    ((tokens, labels),) = batches(phase)
    given = labels if phase == "mlm" else labels.astype(np.float64)
    found = []
    for parts in (1, 4):
        model = tiny(phase, "cpu", sg.float64)
        optimizer = sg.optim.SGD(model.parameters(), lr=0.0)
        step = training(phase, model, optimizer, accumulate=parts, backward=engine)
        found.append((step(tokens, given), [grad_of(p) for p in model.parameters()]))
    assert_close(found[1][0], found[0][0], 1e-12, 0, "the loss")
    for one, whole in zip(found[1][1], found[0][1], strict=True):
        assert_close(one, whole, 1e-9, 1e-15, "a gradient")


def adam(phase: str, device: str, engine: str) -> TrainingStep:
    """A training of a model with all of its parts, and gradients that are bounded."""

    def clip() -> None:
        sg.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    model = tiny(phase, device)
    optimizer = sg.optim.AdamW(co.decay_groups(model, 0.01), lr=0.01)
    return training(phase, model, optimizer, backward=engine, finish=clip)


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("phase", co.batches.PHASES)
@pytest.mark.slow
def test_an_engine_has_the_gradients_and_ten_losses_of_the_shaders(phase: str, engine: str, device: str) -> None:
    losses, gradients = {}, {}
    for name in ("shaders", engine):
        step = adam(phase, device, name)
        losses[name] = []
        for batch in batches(phase, 10):
            losses[name].append(step(*batch).item())
            gradients.setdefault(name, {n: as_array(grad_of(p)) for n, p in step.model.named_parameters()})
    for name, value in gradients["shaders"].items():
        assert value.any(), name
        assert_close(gradients[engine][name], value, 0, 1e-4, name)
    assert_close(losses[engine], losses["shaders"], 0, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("phase", co.batches.PHASES)
def test_a_step_learns_and_compiles_once(phase: str, device: str) -> None:
    """Of one batch, again and again, with the rates of a schedule."""
    step, schedule = adam(phase, device, "shaders"), WarmUpCosine(5, 30)
    (batch,) = batches(phase)
    losses = [step(*batch).item()]
    for k in range(30):
        for group in step.optimizer.param_groups:
            group["lr"] = 0.01 * schedule(k)
        losses.append(assert_compiles_nothing(lambda: step(*batch)).item() if k else step(*batch).item())
    assert losses[-1] < 0.85 * losses[0]


def test_matrices_decay_and_vectors_do_not() -> None:
    model = tiny("mlm", "cpu")
    decaying, rest = co.decay_groups(model, 0.1)
    assert len(decaying["params"]) + len(rest["params"]) == len(list(model.parameters()))
    names = {id(p): name for name, p in model.named_parameters()}
    assert all(names[id(p)].endswith("weight") for p in decaying["params"])
    assert {"transformer.norm.weight", "head.0.bias"} <= {names[id(p)] for p in rest["params"]}
    assert rest["weight_decay"] == 0.0


# --- families


class Table(co.ContactPredictor):
    """A predictor that knows the potential, and a bias of single residues that says nothing of contacts."""

    def __init__(self) -> None:
        super().__init__(co.CoevolutionTransformer(**SIZES))
        table = np.zeros((25, 25), np.float32)
        table[:20, :20] = PHYSICS.potential() + np.linspace(-3, 3, 20)
        self.table = sg.tensor(table)

    def forward(self, tokens: sg.Tensor, length_a: int) -> sg.Tensor:
        a, b = tokens[:, 1 : 1 + length_a], tokens[:, 2 + length_a : -1]
        hot = [(x.unsqueeze(2) == sg.arange(25)).to(sg.float32) for x in (a, b)]
        return hot[0] @ self.table @ hot[1].transpose(1, 2)


def test_logits_of_members_add_up_and_the_background_takes_away_what_is_not_coevolution() -> None:
    family = co.sample_family("one", np.random.default_rng(2), replace(PHYSICS, coupling=1.5), 120)
    assert family.contacts is not None
    predictor = co.FamilyPredictor(Table(), batch_size=50)
    plain, corrected = (predictor(family, (12, 12), background=b) for b in (False, True))
    table = as_array(predictor.model.table)
    weights = co.sequence_weights(family.joined())
    expected = (weights[:, None, None] * table[family.a[:, :, None], family.b[:, None, :]]).sum(0)
    assert_close(plain, expected, 1e-4, 1e-3)
    assert co.average_precision(corrected, family.contacts) > co.average_precision(plain, family.contacts) + 0.2
    assert co.average_precision(corrected, family.contacts) > 0.9


def test_columns_without_residues_get_no_score_and_what_is_not_aligned_is_not_combined() -> None:
    rows = np.array([[0, co.PAD, 2], [1, co.PAD, 3]], np.uint8)
    predictor = co.FamilyPredictor(tiny("contacts", "cpu"))
    found = predictor(co.Family("gaps", rows, rows))
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[::2, ::2]).all()
    with pytest.raises(co.FamilyError, match="is not aligned, so its 2 pairs cannot be combined"):
        predictor(co.Family("loose", rows, rows, aligned=False))
    assert predictor(co.Family("single", rows[:1], rows[:1], aligned=False)).shape == (3, 3)


# --- commands

WORDS = ["--device", "cpu", "--d-model", "8", "--n-layers", "1", "--n-heads", "2", "--d-ff", "8", "--max-len", "64"]
WORDS += ["--epoch-steps", "2", "--warm-up", "1", "--buckets", "2", "--batch-size", "4", "--epochs", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Families in files, and their contacts in one."""
    root = tmp_path_factory.mktemp("families")
    (root / "pairs").mkdir()
    lines = ["family\ti\tj"]
    for family in co.sample_families(6, 5, seed=3, physics=PHYSICS):
        co.write_family(root / "pairs", family)
        assert family.contacts is not None
        lines += [f"{family.name}\t{i + 1}\t{j + 1}" for i, j in np.argwhere(family.contacts)]
    (root / "contacts.tsv").write_text("\n".join(lines) + "\n")
    return root


@pytest.mark.slow
def test_both_phases_train_on_files_and_a_family_is_predicted(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, contacts = ["--pairs", str(folder / "pairs")], ["--contacts", str(folder / "contacts.tsv")]
    first, second, out = (str(tmp_path / name) for name in ("first", "second", "out"))
    assert cli.run(["train", "coevolution", *WORDS, *pairs, "--out", first]) == 0
    more = ["--phase", "contacts", "--pretrained", first, "--accumulate", "2"]
    assert cli.run(["train", "coevolution", *WORDS, *pairs, *contacts, *more, "--out", second]) == 0
    row = json.loads((tmp_path / "second" / "metrics.jsonl").read_text().splitlines()[-1])
    assert {"loss", "test_loss", "P@L", "AP", "samples_per_second"} <= row.keys()
    name = "synthetic-3-0"
    (tmp_path / "own.tsv").write_text(
        "".join(
            line + "\n" for line in (folder / "contacts.tsv").read_text().splitlines() if name in line or "i\t" in line
        )
    )
    capsys.readouterr()
    words = ["--device", "cpu", "--out", out, "--contacts", str(tmp_path / "own.tsv"), "--top", "7"]
    assert cli.run(["predict", "coevolution", second, str(folder / "pairs" / f"{name}.fasta"), *words]) == 0
    text = capsys.readouterr().out
    assert f"{name}: 5 pairs, Neff 5.0" in text
    assert (
        f"probabilities are not calibrated, and the precision at this depth is not measured. Hint: shadergrad calibrate {second}"
        in text
    )
    assert (tmp_path / "out" / "within.png").read_bytes().startswith(b"\x89PNG")
    chains = [line.split("\t")[0] for line in (tmp_path / "out" / "within.tsv").read_text().splitlines()[1:]]
    assert set(chains) == {"a", "b"}
    assert (tmp_path / "out" / "contacts.pml").read_text().count("distance contact_") >= 1
    assert (tmp_path / "out" / "contacts.cxc").read_text().count("distance /A:") >= 1
    assert "P@L 0." in text
    table = [line.split("\t") for line in (tmp_path / "out" / "contacts.tsv").read_text().splitlines()]
    assert table[0] == ["i", "j", "residue_i", "residue_j", "score", "probability", "number_i", "number_j"]
    assert len(table) == 8
    scores = [float(line[4]) for line in table[1:]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < float(line[5]) < 1 for line in table[1:])
    assert (tmp_path / "out" / "contacts.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_run_is_calibrated_on_families_it_has_not_seen_and_predicts_by_that(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, own = str(tmp_path / "run"), str(folder / "pairs" / "synthetic-3-0.fasta")
    given = ["--pairs", str(folder / "pairs"), "--contacts", str(folder / "contacts.tsv")]
    more = ["--phase", "contacts", "--held-out", "0.4"]
    assert cli.run(["train", "coevolution", *WORDS, *given, *more, "--out", run]) == 0
    assert f"next: shadergrad calibrate {run}" in capsys.readouterr().out
    words = ["calibrate", run, "--device", "cpu", "--depths", "3,5,900"]
    assert cli.run(words) == 0
    text = capsys.readouterr().out
    assert f"2 families: held out of {folder / 'pairs'}" in text
    assert "900 pairs: only 0 of 2 families are as deep, left out" in text
    found = co.Calibration.read(tmp_path / "run" / "calibration.json")
    assert (found.neff, found.families) == ([3.0, 5.0], 2)
    assert (tmp_path / "run" / "calibration.png").read_bytes().startswith(b"\x89PNG")
    assert (
        cli.run(["predict", "coevolution", run, own, "--device", "cpu", "--out", str(tmp_path / "out"), "--no-within"])
        == 0
    )
    told = capsys.readouterr().out
    assert (
        f"warning: Neff 5.0 is low: of the best L pairs about {100 * found.precision[1]:.0f} % touched in families of that depth"
        in told
    )
    assert not (tmp_path / "out" / "within.tsv").exists()
    rows = [line.split("\t") for line in (tmp_path / "out" / "contacts.tsv").read_text().splitlines()[1:]]
    predictor, _ = load_predictor(tmp_path / "run", "cpu")
    scores = co.FamilyPredictor(predictor)(co.read_pairs(own))
    i, j, probability = int(rows[0][0]), int(rows[0][1]), float(rows[0][5])
    assert found.probabilities(scores, 5.0)[i - 1, j - 1] == pytest.approx(probability, abs=2e-4)
    for wrong, message in (
        (["--depths", "x"], "--depths x: numbers of pairs from 2"),
        (["--pairs", str(folder / "pairs")], "--pairs and --contacts belong together"),
    ):
        assert cli.run([*words, *wrong]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("method", ["mean-field", "pseudo-likelihood"])
@pytest.mark.slow
def test_couplings_predict_without_a_run(tmp_path: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    family = co.sample_family("deep", np.random.default_rng(1), co.Physics(lengths=(8, 9), coupling=0.8), 400)
    assert family.contacts is not None
    lines = ["i\tj", *(f"{i + 1}\t{j + 1}" for i, j in np.argwhere(family.contacts))]
    (tmp_path / "c.tsv").write_text("\n".join(lines) + "\n")
    words = [
        str(co.write_family(tmp_path, family)),
        "--contacts",
        str(tmp_path / "c.tsv"),
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "out"),
    ]
    assert cli.run(["predict", "coevolution", method, *words]) == 0
    told = capsys.readouterr().out
    assert "scores are couplings, not probabilities" in told
    assert "warning" not in told
    assert float(told.split("P@L ")[1].split(",")[0]) > 0.8
    rows = [line.split("\t") for line in (tmp_path / "out" / "contacts.tsv").read_text().splitlines()[1:]]
    assert {row[5] for row in rows} == {"-"}
    best, _, *_ = ((tmp_path / "out" / "contacts.pml").read_text()).split("set dash_color, ")[1:]
    assert best.startswith("0xff0000")
    co.write_family(tmp_path, family.first(3))
    assert cli.run(["predict", "coevolution", method, *words]) == 0
    assert "warning: Neff 3.0 is below the" in capsys.readouterr().out
    co.write_family(tmp_path, family.first(1))
    assert cli.run(["predict", "coevolution", method, *words]) == 2
    assert "deep is one pair; couplings are seen in many" in capsys.readouterr().err


@pytest.mark.slow
def test_chains_longer_than_a_synthetic_run_has_seen_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    assert (
        cli.run(
            [
                "train",
                "coevolution",
                *WORDS,
                "--max-len",
                "90",
                "--families",
                "4",
                "--phase",
                "contacts",
                "--held-out",
                "0.5",
                "--out",
                run,
            ]
        )
        == 0
    )
    rows = np.random.default_rng(0).integers(0, 20, (2, 40)).astype(np.uint8)
    path = str(co.write_family(tmp_path, co.Family("long", rows, rows)))
    assert cli.run(["predict", "coevolution", run, path, "--device", "cpu", "--out", str(tmp_path / "out")]) == 0
    assert "have 40 and 40 columns, and the run has learned synthetic chains of at most 30" in capsys.readouterr().out


@pytest.mark.parametrize("phase", co.batches.PHASES)
@pytest.mark.slow
def test_a_run_that_changes_its_engine_goes_on_as_if_it_had_not(
    tmp_path: Path, device: str, phase: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "coevolution", *WORDS, "--families", "8", "--phase", phase, "--dropout", "0", "--clip", "0.5"]
    words += ["--device", device, "--schedule-steps", "8", "--buckets", "1"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    in_two = ["--out", str(parts), "--accumulate", "2"]
    assert cli.run([*words, "--out", str(whole), "--epochs", "4"]) == 0
    for epochs, engine in enumerate(("torch", "numpy", "shaders", "auto"), 1):
        more = [] if epochs == 1 else ["--resume"]
        assert cli.run([*words, *in_two, "--epochs", str(epochs), "--backward", engine, *more]) == 0
    found, expected = (
        [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()] for out in (parts, whole)
    )
    for name in ("loss", "test_loss"):
        assert_close([row[name] for row in found], [row[name] for row in expected], 0, 1e-4, name)
    capsys.readouterr()
    assert cli.run([*words, *in_two, "--threads", "1", "--overwrite"]) == 2
    assert "--threads is 1, for PyTorch; with --backward shaders none runs" in capsys.readouterr().err


def test_a_run_bounds_its_gradients(tmp_path: Path) -> None:
    values: dict[str, Any] = {option.name: option.default for option in OPTIONS}
    values |= {"families": 4, "buckets": 1, "batch_size": 4}
    values |= {"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 8, "epochs": 1, "lr": 0.1}
    norms = []
    for clip in (0.0, 0.01):
        sg.manual_seed(0)
        values["clip"] = clip
        built = recipe.build(Settings(out=tmp_path, **values), "cpu")
        assert isinstance(built.data, Stream)
        built.step(*next(iter(built.data.batches(0))))
        norms.append(np.sqrt(sum(float((as_array(grad_of(p)) ** 2).sum()) for p in built.model.parameters())))
    assert norms[0] > 0.1
    assert norms[1] == pytest.approx(0.01, rel=1e-3)


def test_phase_2_begins_with_the_transformer_of_phase_1(tmp_path: Path, folder: Path) -> None:
    pairs = ["--pairs", str(folder / "pairs")]
    assert cli.run(["train", "coevolution", *WORDS, *pairs, "--out", str(tmp_path)]) == 0
    shape = {"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 8, "max_len": 64}
    transformer = co.CoevolutionTransformer(**shape)
    recipe.load_transformer(transformer, tmp_path)
    arrays, _ = load_checkpoint(tmp_path)
    for name, p in transformer.state_dict().items():
        assert np.array_equal(as_array(p), arrays[f"model/transformer.{name}"]), name
    with pytest.raises(sg.ShadergradError, match=r"has another transformer: tokens\.weight"):
        recipe.load_transformer(co.CoevolutionTransformer(**{**shape, "d_model": 16}), tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--phase", "other"], "there is no phase 'other'"),
        (["--contacts", "c.tsv"], "say something of --pairs"),
        (["--pairs", "FOLDER/pairs", "--phase", "contacts"], "the contacts of too few families are known"),
        (["--pairs", "FOLDER/pairs/synthetic-3-0.fasta"], "is one family; families are held out whole"),
        (["--pairs", "FOLDER/contacts.tsv"], "the ending '.tsv' says no format"),
        (["--max-len", "20"], "the model positions for 20"),
        (["--accumulate", "3"], "a batch of 4 cannot be taken in 3 equal parts"),
        (["--backward", "cuda"], "choose one of shaders, torch, numpy, auto"),
        (["--warm-up", "-1"], "--warm-up is -1"),
        (["--schedule-steps", "0"], "--schedule-steps 0; they must be at least 0, and 1"),
    ],
)
def test_what_cannot_be_trained_is_said_in_a_line(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    given = [word.replace("FOLDER", str(folder)) for word in words]
    assert cli.run(["train", "coevolution", *WORDS, "--families", "4", *given, "--out", str(tmp_path / "out")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_a_run_of_phase_1_predicts_no_contacts(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["train", "coevolution", *WORDS, "--families", "4", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert cli.run(["predict", "coevolution", str(tmp_path), str(folder / "pairs" / "synthetic-3-0.fasta")]) == 2
    assert "is no run that learned contacts" in capsys.readouterr().err
