"""Trainer and its callbacks: the loop written by hand, and the same numbers."""

from __future__ import annotations

import csv
import itertools
import signal
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shadergrad as sg
import shadergrad.nn.functional as F
from event_files import events_in
from shadergrad import cli, nn
from shadergrad.checkpoint import load_checkpoint
from shadergrad.errors import CheckpointError
from shadergrad.system.optional_packages import MissingPackageError
from shadergrad.train import (
    Callback,
    Checkpoint,
    CSVLog,
    EarlyStopping,
    History,
    Schedule,
    TensorBoard,
    Trainer,
    TrainingError,
    WandB,
)
from shadergrad.train.metrics import read_rows

RNG = np.random.default_rng(3)
X = RNG.standard_normal((40, 3)).astype(np.float32)
Y = (X.sum(1) > 0).astype(np.int32)


def parts(device: str = "cpu", lr: float = 0.05) -> tuple[Any, Any]:
    sg.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)).to(device)
    return model, sg.optim.SGD(model.parameters(), lr=lr, momentum=0.9)


def trainer(device: str = "cpu", data: Any = (X, Y), lr: float = 0.05, **options: Any) -> Trainer:
    model, optimizer = parts(device, lr)
    options = {"batch_size": 8, "progress": False, "validation": (X[:10], Y[:10]), "measures": "accuracy"} | options
    return Trainer(model, optimizer, F.cross_entropy, data, **options)


def test_it_gives_the_numbers_of_a_loop_written_by_hand(device: str) -> None:
    history = trainer(device).fit(3)
    model, optimizer = parts(device)
    for epoch in range(3):
        losses = []
        order = np.random.default_rng((0, epoch)).permutation(40)
        for rows in order.reshape(5, 8):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(sg.tensor(X[rows], device=device)), sg.tensor(Y[rows], device=device))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert history[epoch]["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    with sg.no_grad():
        logits = model(sg.tensor(X[:10], device=device))
    assert history[-1]["validation_accuracy"] == pytest.approx((logits.numpy().argmax(1) == Y[:10]).mean())
    expected = F.cross_entropy(logits, sg.tensor(Y[:10], device=device)).item()
    assert history[-1]["validation_loss"] == pytest.approx(expected, rel=1e-4)
    assert history["epoch"] == [1, 2, 3]


def test_fit_goes_on_where_the_last_fit_ended(device: str) -> None:
    once, twice = trainer(device), trainer(device)
    once.fit(4)
    twice.fit(1)
    twice.fit(3)
    assert once.history["loss"] == twice.history["loss"]


@pytest.mark.parametrize("own_device", [False, True])
def test_a_loader_gives_its_own_batches_and_the_last_small_one_too(device: str, own_device: bool) -> None:
    loader = sg.data.DataLoader(sg.data.TensorDataset(X, Y), 16, device=device if own_device else None)
    seen: list[int] = []

    class Count(Callback):
        def on_step_end(self, run: Any) -> None:
            seen.append(run.done)

    history = trainer(device, loader, callbacks=[Count()]).fit(2)
    assert len(seen) == 6
    model, optimizer = parts(device)
    for start in (0, 16, 32):
        batch = slice(start, start + 16)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(sg.tensor(X[batch], device=device)), sg.tensor(Y[batch], device=device))
        loss.backward()
        optimizer.step()
        history[0]["loss"] -= loss.item() / 3
    assert history[0]["loss"] == pytest.approx(0, abs=1e-5)


def test_validation_in_unequal_batches_is_the_mean_over_samples() -> None:
    whole = trainer(validation=(X, Y), batch_size=40).validate()
    pieces = trainer(validation=(X, Y), batch_size=16).validate()
    assert pieces == pytest.approx(whole, rel=1e-5)


def test_validation_is_in_evaluation_mode_and_training_goes_on_in_training_mode() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    modes: list[bool] = []

    def loss(prediction: Any, target: Any) -> Any:
        modes.append(model.training)
        return F.cross_entropy(prediction, target)

    optimizer = sg.optim.SGD(model.parameters(), lr=0.1)
    Trainer(model, optimizer, loss, (X, Y), validation=(X, Y), batch_size=40, progress=False).fit(1)
    assert modes == [True, False]
    assert model.training


def test_early_stopping_ends_the_fit_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    stop = EarlyStopping("validation_loss", patience=2, min_delta=10.0)
    history = trainer(callbacks=[stop], progress=True).fit(20)
    assert len(history) == 3
    assert "validation_loss has not become better" in capsys.readouterr().out


def test_an_accuracy_is_better_when_it_rises() -> None:
    stop = EarlyStopping("validation_accuracy", patience=1)
    for value, stopped in ((0.5, False), (0.6, False), (0.6, True)):
        run = types.SimpleNamespace(stop_wish=None)
        stop.on_epoch_end(run, {"validation_accuracy": value})
        assert (run.stop_wish is not None) == stopped


def test_checkpoints_are_kept_last_best_and_every_so_many(tmp_path: Path) -> None:
    made = trainer(lr=0.5, callbacks=[Checkpoint(tmp_path, every=2)])
    made.fit(5)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "best",
        "curve.png",
        "epoch-0002",
        "epoch-0004",
        "last",
        "metrics.jsonl",
    ]
    best = int(made.history.best("validation_loss")["epoch"])
    assert load_checkpoint(tmp_path / "best")[1]["position"]["epoch"] == best
    other = trainer(lr=0.5).restore(tmp_path / "epoch-0002")
    assert [row["loss"] for row in other.fit(3)] == made.history["loss"][2:]
    with pytest.raises(CheckpointError, match="no checkpoint"):
        trainer().restore(tmp_path / "nowhere")


@pytest.mark.parametrize(("every", "steps"), [("epoch", 3), ("step", 15)])
def test_schedules_step_after_epochs_or_steps(every: str, steps: int) -> None:
    made = trainer()
    made.callbacks.append(Schedule(sg.optim.lr_scheduler.ExponentialLR(made.optimizer, 0.9), every))
    made.fit(3)
    assert made.optimizer.param_groups[0]["lr"] == pytest.approx(0.05 * 0.9**steps)


def test_a_plateau_is_given_its_measure() -> None:
    made = trainer()
    plateau = sg.optim.lr_scheduler.ReduceLROnPlateau(made.optimizer, patience=0, threshold=1e9, factor=0.5)
    made.callbacks.append(Schedule(plateau, monitor="validation_loss"))
    made.fit(3)
    assert made.optimizer.param_groups[0]["lr"] < 0.05


def test_the_table_holds_the_history(tmp_path: Path) -> None:
    history = trainer(callbacks=[CSVLog(tmp_path / "a" / "history.csv")]).fit(2)
    with (tmp_path / "a" / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == history["loss"]
    assert list(rows[0]) == list(history[0])


def test_tensorboard_and_wandb_get_each_epoch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    logged: list[tuple[dict[str, float], int]] = []
    ends: list[str] = []
    session = types.SimpleNamespace(
        log=lambda row, step: logged.append((row, step)), finish=lambda: ends.append("finished")
    )
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=lambda **options: session))
    history = trainer(callbacks=[TensorBoard(tmp_path), WandB(project="p")]).fit(2)
    scalars = {(v["tag"], event["step"]) for event in events_in(tmp_path) for v in event["values"]}
    assert {("loss", 1), ("validation_accuracy", 2)} <= scalars
    assert [(row["loss"], step) for row, step in logged] == list(zip(history["loss"], (1, 2), strict=True))
    assert ends == ["finished"]


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingPackageError, match=r"shadergrad\[tracking\]"):
        WandB()


def test_ctrl_c_ends_at_a_whole_step_and_is_raised() -> None:
    ended: list[str] = []

    class Interrupt(Callback):
        def on_step_end(self, run: Any) -> None:
            signal.raise_signal(signal.SIGINT)

        def on_fit_end(self, run: Any) -> None:
            ended.append("yes")

    made = trainer(callbacks=[Interrupt()])
    with pytest.raises(KeyboardInterrupt):
        made.fit(2)
    assert ended == ["yes"]
    assert len(made.history) == 0


def test_a_loss_that_is_not_finite_ends_the_fit() -> None:
    with pytest.raises(TrainingError, match="the loss became"):
        trainer(data=(X * np.float32(np.inf), Y)).fit(1)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: trainer(data=(X,)), "inputs and targets"),
        (lambda: trainer(data=7), "data is a int"),
        (lambda: trainer(measures="f1"), "measures is 'f1'"),
        (lambda: trainer().fit(0), "epochs is 0"),
        (lambda: trainer(batch_size=41).fit(1), "only 40 training samples"),
        (lambda: trainer(callbacks=[EarlyStopping("nothing")]).fit(1), "there is no measure 'nothing'"),
        (lambda: EarlyStopping(patience=0), "patience is 0"),
        (lambda: Checkpoint("x", every=0), "every is 0"),
        (lambda: Checkpoint("x", mode="up"), "mode is 'up'"),
        (lambda: Schedule(None, "batch"), "every is 'batch'"),  # type: ignore[arg-type]
        (lambda: History([{"loss": 1.0}])["nothing"], "no column 'nothing'"),
        (lambda: History().best("loss"), "no epoch has measured"),
    ],
)
def test_what_cannot_be_is_refused(wrong: Any, words: str) -> None:
    with pytest.raises(TrainingError, match=words):
        wrong()


def test_a_later_fit_compiles_nothing(device: str) -> None:
    made = trainer(device)
    made.fit(1)
    assert made._run is not None
    plan = made._run.step.plan  # type: ignore[union-attr]
    made.fit(1)
    assert made._run.step.plan is plan  # type: ignore[union-attr]


def test_losses_fall_in_any_order_of_callbacks() -> None:
    for order in itertools.permutations([Callback(), EarlyStopping(patience=50)]):
        history = trainer(callbacks=list(order)).fit(8)
        assert history[-1]["loss"] < history[0]["loss"]


RECIPE_FILE = """
import numpy as np
import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import nn
from shadergrad.train import Checkpoint, EarlyStopping, Recipe, Trainer

def build(settings, device):
    x = np.random.default_rng(0).standard_normal((64, 2)).astype(np.float32)
    y = (x[:, 0] > x[:, 1]).astype(np.int32)
    model = nn.Linear(2, 2).to(device)
    optimizer = sg.optim.SGD(model.parameters(), lr=settings.lr)
    stop = EarlyStopping(patience=2, min_delta=100.0)
    return Trainer(model, optimizer, F.cross_entropy, (x, y), validation=(x, y), measures="accuracy", callbacks=[stop, Checkpoint(settings.out / "kept")])

RECIPE = Recipe("A Trainer as a recipe.", build, defaults={"epochs": 9, "batch_size": 16, "lr": 0.1})
"""


def test_a_trainer_is_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(RECIPE_FILE)
    out = tmp_path / "out"
    assert cli.run(["train", str(tmp_path / "mine.py"), "--device", "cpu", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "validation_loss has not become better" in printed
    rows = read_rows(out / "metrics.jsonl")
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert (
        load_checkpoint(out / "best")[1]["position"]["epoch"] == min(rows, key=lambda r: r["validation_loss"])["epoch"]
    )
    assert f"validation loss {rows[-1]['validation_loss']:.4g} after epoch 3, the lowest" in printed
    assert load_checkpoint(out / "kept" / "last")[1]["position"]["epoch"] == 3
    assert (out / "curve.png").exists()
