"""Three engines of the backward pass: the same gradients, the same curve, also when they take turns."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shadergrad as sg
import shadergrad.nn.functional as F
from helpers import assert_close, assert_same_bits, grad_of
from shadergrad import cli, config, nn
from shadergrad.cli import bench, bench_torch
from shadergrad.models import coevolution as co
from shadergrad.system.optional_packages import MissingPackageError
from shadergrad.train import TrainingError, TrainingStep

ENGINES = ("shaders", "torch", "numpy")
TOKENS, BATCH, LENGTH = 11, 4, 6


class Model(nn.Module):
    """A small language model, for tokens (batch, length)."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(8, TOKENS)

    def forward(self, tokens: sg.Tensor) -> sg.Tensor:
        return self.head(self.encoder(self.embedding(tokens)))


def batches(count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(0).integers(0, TOKENS, (count, BATCH, LENGTH)).astype(np.int32))


def training(device: str, backward: str, dropout: float = 0.0, **options: Any) -> TrainingStep:
    sg.manual_seed(0)
    model = Model(dropout).to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=1e-2)

    def loss(tokens: sg.Tensor) -> sg.Tensor:
        return F.cross_entropy(model(tokens).reshape(-1, TOKENS), tokens.reshape(-1))

    return TrainingStep(model, optimizer, loss, backward=backward, **options)


def losses(step: TrainingStep, count: int = 10) -> list[float]:
    return [step(tokens).item() for tokens in batches(count)]


def gradients(step: TrainingStep) -> dict[str, np.ndarray]:
    step(*batches(1))
    return {name: grad_of(p).numpy() for name, p in step.model.named_parameters()}


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.slow
def test_an_engine_has_the_gradients_and_the_losses_of_the_shaders(device: str, engine: str) -> None:
    expected, found = (gradients(training(device, name)) for name in ("shaders", engine))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert np.abs(value).max() > 0, name
        assert_close(found[name], value, 0, 1e-4, name)
    assert_close(losses(training(device, engine)), losses(training(device, "shaders")), 0, 1e-4)


def test_engines_that_take_turns_continue_the_curve(device: str) -> None:
    step, found = training(device, "shaders"), []
    for k, tokens in enumerate(batches(10)):
        step.backward = ENGINES[k % 3]
        found.append(step(tokens).item())
    assert_close(found, losses(training(device, "shaders")), 0, 1e-4)


def test_numpys_gradients_are_those_of_the_masks_that_the_shaders_drew(webgpu: str) -> None:
    assert_close(losses(training(webgpu, "numpy", 0.3)), losses(training(webgpu, "shaders", 0.3)), 0, 1e-4)


@pytest.mark.slow
def test_pytorchs_masks_are_drawn_with_the_same_probability_and_follow_the_seed(device: str) -> None:
    found = losses(training(device, "torch", 0.1), 30)
    assert_same_bits(found, losses(training(device, "torch", 0.1), 30))
    assert found != losses(training(device, "shaders", 0.1), 30)
    assert np.mean(found[-5:]) == pytest.approx(np.mean(losses(training(device, "shaders", 0.1), 30)[-5:]), abs=0.3)


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_of_parts_are_those_of_the_batch(engine: str, device: str) -> None:
    whole, parts = gradients(training(device, engine)), gradients(training(device, engine, accumulate=4))
    for name, value in whole.items():
        assert_close(parts[name], value, 0, 1e-5, name)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_to_be_done_between_gradients_and_optimizer_is_done(engine: str, device: str) -> None:
    def clip() -> None:
        nn.utils.clip_grad_norm_(step.model.parameters(), 0.01)

    step = training(device, engine, finish=clip)
    found = gradients(step)
    assert np.sqrt(sum(np.square(g).sum() for g in found.values())) == pytest.approx(0.01, rel=1e-3)


class Frozen(Model):
    """Of which a part is not trained, and a part not used."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder.requires_grad_(False)
        self.unused = nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, tokens: sg.Tensor) -> sg.Tensor:
        found = self.encoder(self.embedding(tokens))
        return self.head(self.norm(found.reshape(-1, 8)))


@pytest.mark.parametrize("engine", ENGINES)
def test_parameters_without_a_gradient_stay_and_what_a_norm_tracks_moves_once(engine: str, device: str) -> None:
    def trained(name: str) -> nn.Module:
        sg.manual_seed(0)
        model = Frozen().to(device)
        optimizer = sg.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1, weight_decay=0.1)
        step = TrainingStep(model, optimizer, lambda x: F.cross_entropy(model(x), x.reshape(-1)), backward=name)
        for tokens in batches(3):
            step(tokens)
        return model

    expected, found = trained("shaders").state_dict(), trained(engine).state_dict()
    for name, value in expected.items():
        assert_close(found[name], value, 1e-4, 1e-5, name)
    assert found["norm.num_batches_tracked"].item() == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_frozen_and_thawed_between_steps_is_left_alone_and_trained(engine: str, device: str) -> None:
    step = training(device, engine)
    head = dict(step.model.named_parameters())["head.bias"]
    seen = []
    for tokens, trains in zip(batches(4), (False, True, False, True), strict=True):
        head.requires_grad_(trains)
        before = head.detach().numpy()
        step(tokens)
        seen.append(bool((head.detach().numpy() != before).any()))
    assert seen == [False, True, False, True]


class Carefree(nn.Module):
    """Makes tensors without a word of where, and keeps one as a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(sg.ones(TOKENS))
        self.scale = sg.linspace(0.5, 1.5, TOKENS)

    def forward(self, tokens: sg.Tensor) -> sg.Tensor:
        return (tokens.unsqueeze(-1) == sg.arange(TOKENS)) * self.weight * self.scale


def test_tensors_that_a_forward_makes_or_keeps_are_on_the_device_of_the_engine(webgpu: str) -> None:
    found = {}
    for engine in ENGINES:
        sg.set_default_device(webgpu)
        try:
            model = Carefree()
            step = TrainingStep(
                model,
                sg.optim.SGD(model.parameters(), lr=1.0),
                lambda x, model=model: F.cross_entropy(model(x).reshape(-1, TOKENS), x.reshape(-1)),
                backward=engine,
            )
            found[engine] = losses(step, 3)
            assert sg.get_default_device() == webgpu
        finally:
            sg.set_default_device("cpu")
    assert_close(found["torch"], found["shaders"], 0, 1e-5)
    assert_close(found["numpy"], found["shaders"], 0, 1e-5)


def test_what_only_the_shaders_can_do_is_refused() -> None:
    step = training("cpu", "torch")
    step.optimizer.add_param_group({"params": [nn.Parameter(sg.ones(1))]})
    with pytest.raises(TrainingError, match="the optimizer has parameters that the model has not"):
        losses(step, 1)
    step = training("cpu", "torch")
    next(step.model.parameters()).register_hook(lambda g: g * 2)
    with pytest.raises(TrainingError, match=r"embedding.weight has hooks on its gradient"):
        losses(step, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_of_several_numbers_the_first_is_minimised_and_all_are_given(engine: str, device: str) -> None:
    plain = training(device, engine)
    several = training(device, engine)
    one = several.loss
    several.loss = lambda x: sg.stack([one(x), x.to(dtype=sg.float32).mean()])
    for tokens in batches(3):
        first, second = several(tokens).numpy()
        assert first == pytest.approx(plain(tokens).item(), abs=1e-5)
        assert second == pytest.approx(tokens.mean(), abs=1e-5)


@pytest.mark.slow
def test_auto_takes_two_steps_of_each_and_says_what_it_chose(device: str) -> None:
    said: list[str] = []
    step = training(device, "auto", say=said.append)
    names, tried = ["shaders", "torch", *(["numpy"] if device == "webgpu" else [])], []
    for tokens in batches(2 * len(names)):
        tried.append(step.engine)
        assert not said
        step(tokens)
    assert tried == [name for name in names for _ in range(2)]
    assert said == [line for line in said if line.startswith(f"backward auto: {step.engine} (shaders ")]
    assert len(said) == 1
    assert_close(losses(training(device, "auto", say=said.append)), losses(training(device, "shaders")), 0, 1e-4)


@pytest.mark.slow
def test_auto_compares_batches_of_one_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shorter one would take less time, and be compiled: no step of an engine may count for that."""
    seconds = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(seconds)))
    said: list[str] = []
    step, tried = training("cpu", "auto", say=said.append), []
    for tokens in batches(4):
        for given in (tokens, tokens[:, :3], tokens[:2]):
            tried.append(step.engine)
            step(given)
    assert tried[:10] == ["shaders"] * 4 + ["torch"] * 6
    assert len(said) == 1


@pytest.mark.slow
def test_with_a_weight_sums_of_uneven_parts_are_the_loss_of_the_batch(device: str) -> None:
    """Tokens above 5 count: 0 to 6 a row. The loss of several numbers is divided too."""

    def weight(tokens: sg.Tensor) -> sg.Tensor:
        return (tokens > 5).to(sg.float32).sum()

    expected = None
    for engine in ENGINES:
        for parts in (1, 4):
            step = training(device, engine, accumulate=parts, weight=weight)
            model = step.model
            step.loss = lambda x, model=model: sg.stack(
                [(F.cross_entropy(model(x).flatten(0, 1), x.flatten(), reduction="none") * (x > 5).flatten()).sum()] * 2
            )
            found = step(*batches(1)).numpy(), grad_of(dict(model.named_parameters())["head.weight"]).numpy()
            expected = expected or found
            for one, other in zip(found, expected, strict=True):
                assert_close(one, other, 0, 1e-5, f"{engine}, {parts} parts")
    assert expected is not None
    counted = batches(1)[0] > 5
    assert len(set(counted.sum(1))) > 1
    assert 2.0 < expected[0][0] < 3.0, "about log(11) a token"


def test_auto_does_without_pytorch_where_there_is_none_and_torch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    said: list[str] = []
    losses(training("cpu", "auto", say=said.append), 3)
    assert "torch is not installed" in said[0]
    with pytest.raises(MissingPackageError, match="pip install"):
        training("cpu", "torch")


def test_the_environment_names_the_engine_where_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHADERGRAD_BACKWARD", "torch")
    assert config.read_environment().backward == "torch"
    monkeypatch.setenv("SHADERGRAD_BACKWARD", "cuda")
    with pytest.raises(config.ConfigError, match="choose one of shaders, torch, numpy, auto"):
        config.read_environment()


def test_a_step_that_cannot_be_is_refused() -> None:
    with pytest.raises(TrainingError, match="--backward is 'cuda'; choose one of shaders, torch, numpy, auto"):
        training("cpu", "cuda")
    with pytest.raises(TrainingError, match="accumulate is 0"):
        training("cpu", "shaders", accumulate=0)
    with pytest.raises(TrainingError, match="a batch of 4 cannot be taken in 3 equal parts"):
        losses(training("cpu", "shaders", accumulate=3))
    model = nn.Linear(2, 2)
    step = TrainingStep(model, sg.optim.SGD(model.parameters(), lr=0.1), model, backward="torch")
    with pytest.raises(TrainingError, match=r"the loss must be a scalar; it is \(1, 2\)"):
        step(np.ones((1, 2), np.float32))


def test_pytorchs_own_settings_are_as_before_a_step() -> None:
    before = torch.get_num_threads(), torch.get_rng_state()
    losses(training("cpu", "torch", 0.1, threads=1), 1)
    assert torch.get_num_threads() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_threads_without_pytorch_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["train", "digits", "--device", "cpu", "--out", str(tmp_path), "--threads", "2"]
    assert cli.run(options) == 2
    assert "--threads is 2, for PyTorch; with --backward shaders none runs" in capsys.readouterr().err


@pytest.mark.slow
def test_the_benchmark_shows_each_engine_and_pytorch(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    sizes = ["--layers", "1", "--width", "8", "--heads", "2", "--length", "15", "--batch-size", "4", "--steps", "1"]
    assert cli.run(["bench", "backward", "--device", device, *sizes]) == 0
    lines = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    names = [line[0].strip() for line in lines]
    assert names == (
        ["shaders", "torch", "numpy", "PyTorch alone, cpu"]
        if device == "webgpu"
        else ["shaders (here NumPy)", "torch", "PyTorch alone, cpu"]
    )
    ours = {line[4].strip() for line in lines[:-1]}
    assert len(ours) == 1, "the engines' losses agree"
    assert float(ours.pop()) > 1
    assert all(float(line[2].strip().replace(",", "")) > 0 for line in lines)
    assert cli.run(["bench", "backward", "--device", device, "--steps", "0"]) == 2
    assert "--steps is 0; it must be at least 1" in capsys.readouterr().err
    assert cli.run(["bench", "backward", "--device", device, "--length", "4"]) == 2
    assert "--length is 4; a pair, CLS a SEP b SEP, has at least 5 tokens" in capsys.readouterr().err


def test_the_benchmark_measures_the_same_model_in_pytorch() -> None:
    shape = {"d_model": 8, "n_layers": 2, "n_heads": 2, "d_ff": 16, "max_len": 15, "dropout": 0.0}
    model, theirs = co.MaskedLanguageModel(co.CoevolutionTransformer(**shape)), bench_torch.MaskedLanguageModel(**shape)
    moved = {"transformer.": "", "layers.": "encoder.layers.", "final_norm": "encoder.norm", "attention": "self_attn"}
    moved |= {"ff.0": "linear1", "ff.3": "linear2"}
    values = {}
    for name, value in model.state_dict().items():
        for ours, other in moved.items():
            name = name.replace(ours, other)
        values[name] = torch.tensor(value.numpy())
    theirs.load_state_dict(values)
    tokens, labels = bench.masked_pairs(3, 15)
    assert (labels >= 0).any()
    assert_close(model(sg.tensor(tokens)).detach(), theirs(torch.from_numpy(tokens)).detach(), 1e-5, 1e-5)
