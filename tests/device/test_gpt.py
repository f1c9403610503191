"""GPT-2: PyTorch's numbers, Hugging Face's files, and sampling that compiles nothing as the text grows."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy, gelu

import shadergrad as sg
import shadergrad.nn.functional as F
from helpers import assert_close, assert_same_bits, grad_of
from shadergrad import cli
from shadergrad.drive.execute import programs
from shadergrad.interop import InteropError
from shadergrad.models.gpt import GPT, SHAPES, Config, Sampler, load_weights, read_model
from shadergrad.models.gpt.sampler import CHUNK
from shadergrad.recipes import gpt
from shadergrad.train import Settings, WarmUpCosine

CONFIG = Config(vocab_size=13, n_positions=80, n_embd=16, n_layer=2, n_head=4, dropout=0.0)


class Conv1D(torch.nn.Module):
    """x @ weight + bias: a Linear whose weight lies the other way round."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(n_in, n_out) * 0.3)
        self.bias = torch.nn.Parameter(torch.randn(n_out) * 0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


class TheirBlock(torch.nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        n = c.n_embd
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(n), torch.nn.LayerNorm(n)
        self.attn = torch.nn.ModuleDict({"c_attn": Conv1D(n, 3 * n), "c_proj": Conv1D(n, n)})
        self.mlp = torch.nn.ModuleDict({"c_fc": Conv1D(n, 4 * n), "c_proj": Conv1D(4 * n, n)})
        self.heads = c.n_head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, n = x.shape
        parts = self.attn["c_attn"](self.ln_1(x)).split(n, 2)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        scores = q @ k.transpose(2, 3) / math.sqrt(n // self.heads)
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
        found = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, n)
        x = x + self.attn["c_proj"](found)
        return x + self.mlp["c_proj"](gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class TheirGPT(torch.nn.Module):
    """GPT-2 as its paper and its published weights have it, without dropout."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wte, self.wpe = torch.nn.Embedding(c.vocab_size, c.n_embd), torch.nn.Embedding(c.n_positions, c.n_embd)
        self.h = torch.nn.ModuleList(TheirBlock(c) for _ in range(c.n_layer))
        self.ln_f = torch.nn.LayerNorm(c.n_embd)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.t()


def huggingface(path: Path, theirs: torch.nn.Module, prefix: str = "", **more: torch.Tensor) -> Path:
    """A file as Hugging Face's library writes it."""
    tensors = {prefix + name: value.clone() for name, value in theirs.state_dict().items()}
    save_file({**tensors, **more}, path)
    return path


def tokens(batch: int, length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, CONFIG.vocab_size, (batch, length)).astype(np.int32)


@pytest.fixture
def theirs() -> TheirGPT:
    return TheirGPT(CONFIG)


@pytest.fixture
def model(theirs: TheirGPT, tmp_path: Path) -> GPT:
    return read_model(huggingface(tmp_path / "model.safetensors", theirs), n_head=4)


def test_a_file_of_huggingfaces_gives_pytorchs_logits_and_gradients(model: GPT, theirs: TheirGPT, device: str) -> None:
    model.to(device)
    x, y = tokens(2, 9), tokens(2, 9, 1)
    logits = model(sg.tensor(x, device=device))
    expected = theirs(torch.from_numpy(x))
    assert_close(logits, expected, 1e-4, 1e-4)
    F.cross_entropy(logits.flatten(0, 1), sg.tensor(y, device=device).flatten()).backward()
    cross_entropy(expected.flatten(0, 1), torch.from_numpy(y).long().flatten()).backward()
    wanted = dict(theirs.named_parameters())
    for name, p in model.named_parameters():
        grad = grad_of(wanted[name])
        transposed = name.split(".")[-2].startswith("c_") and name.endswith("weight")
        assert_close(grad_of(p), grad.t() if transposed else grad, 1e-4, 1e-4, name)


def test_names_with_a_prefix_masks_and_a_tied_head_are_read_too(theirs: TheirGPT, tmp_path: Path) -> None:
    more = {
        "transformer.h.0.attn.bias": torch.ones(1, 1, 80, 80).tril(),
        "transformer.h.1.attn.masked_bias": torch.tensor(-1e4),
        "lm_head.weight": theirs.wte.weight.detach().clone(),
    }
    path = huggingface(tmp_path / "model.safetensors", theirs, "transformer.", **more)
    (tmp_path / "config.json").write_text(json.dumps({"n_head": 4, "layer_norm_epsilon": 1e-5}))
    found = read_model(path)
    assert (found.config.n_head, found.config.n_layer, found.config.n_positions) == (4, 2, 80)
    assert not found.training
    assert_close(found(sg.tensor(tokens(1, 5))), theirs(torch.from_numpy(tokens(1, 5))), 1e-4, 1e-4)
    other = GPT(CONFIG)
    load_weights(other, path)
    assert_same_bits(other.wpe.weight, found.wpe.weight)


def test_files_that_are_no_gpt2s_are_refused(theirs: TheirGPT, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"wte.weight": torch.zeros(3, 4)}, path)
    with pytest.raises(InteropError, match=r"is no GPT-2's: it lacks wpe.weight"):
        read_model(path)
    huggingface(path, theirs, "", **{"lm_head.weight": torch.zeros(13, 16)})
    with pytest.raises(InteropError, match=r"lm_head.weight that is not wte.weight"):
        read_model(path)
    huggingface(path, theirs)
    with pytest.raises(InteropError, match="does not fit GPT"):
        load_weights(GPT(Config(13, 80, 16, 3, 4)), path)
    (tmp_path / "config.json").write_text("[")
    with pytest.raises(InteropError, match=r"config.json cannot be read"):
        read_model(path)


def test_the_published_shapes_have_the_published_numbers_of_parameters() -> None:
    def count(c: Config) -> int:
        n = c.n_embd
        return (c.vocab_size + c.n_positions) * n + c.n_layer * (12 * n * n + 13 * n) + 2 * n

    assert [count(c) for c in SHAPES.values()] == [124_439_808, 354_823_168, 774_030_080, 1_557_611_200]
    small = GPT(CONFIG)
    assert sum(p.numel() for p in small.parameters()) == count(CONFIG)
    assert GPT.named("gpt2", n_layer=1, n_embd=12, n_positions=4, vocab_size=5).config.n_head == 12


def greedy(model: GPT, begin: np.ndarray, count: int) -> np.ndarray:
    """What the whole text, run anew for every token, makes the likeliest."""
    found = begin
    for _ in range(count):
        with sg.no_grad():
            logits = model(sg.tensor(found)).numpy()
        found = np.concatenate([found, logits[:, -1].argmax(-1)[:, None].astype(np.int32)], axis=1)
    return found


def test_the_cache_gives_what_the_whole_text_gives(model: GPT, device: str) -> None:
    asked = ((1, 5), (CHUNK + 1, 4), (CHUNK + 2, 4), (2 * CHUNK + 3, 6), (3, 0))
    expected = [greedy(model, tokens(2, length), count) for length, count in asked]
    sampler = Sampler(model.to(device), temperature=0.0, batch=2)
    for (length, count), whole in zip(asked, expected, strict=True):
        assert_same_bits(sampler.generate(tokens(2, length), count), whole)


def test_the_number_of_programs_does_not_grow_with_the_text(model: GPT, device: str) -> None:
    sampler = Sampler(model.to(device), temperature=0.8, top_k=5)
    sampler.generate(tokens(1, CHUNK + 2), 2)
    before = programs.compiled
    for length, count in ((1, 50), (CHUNK, 7), (2 * CHUNK, 13)):
        assert sampler.generate(tokens(1, length), count).shape == (1, length + count)
    assert programs.compiled == before


def test_draws_follow_the_probabilities_and_the_seed(model: GPT) -> None:
    begin = np.repeat(tokens(1, 3), 400, axis=0)
    sampler = Sampler(model, temperature=0.7, top_k=4, batch=400, length=8)
    sg.manual_seed(1)
    first = sampler.generate(begin, 2)
    assert not np.array_equal(first, sampler.generate(begin, 2))
    sg.manual_seed(1)
    assert_same_bits(sampler.generate(begin, 2), first)
    with sg.no_grad():
        logits = model(sg.tensor(begin[:1])).numpy()[0, -1] / 0.7
    logits[logits < np.sort(logits)[-4]] = -np.inf
    expected = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    assert_close(np.bincount(first[:, 3], minlength=13) / 400, expected, 0, 0.1)
    assert not model.training


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 81}, "length is 81"),
        ({"batch": 0}, "batch 0"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"top_k": 14}, "top_k is 14; there are 13 tokens"),
    ],
)
def test_a_sampler_that_cannot_be_is_refused(model: GPT, options: dict[str, Any], message: str) -> None:
    with pytest.raises(sg.ShapeError, match=message):
        Sampler(model, **options)


def test_tokens_that_do_not_fit_are_refused(model: GPT) -> None:
    with pytest.raises(sg.ShapeError, match="70 tokens and 20 more are not within the 80"):
        Sampler(model).generate(tokens(1, 70), 20)
    with pytest.raises(sg.ShapeError, match=r"must be \(1, at least 1\)"):
        Sampler(model).generate([[]], 20)
    with pytest.raises(sg.ShapeError, match=r"tokens are \(1, 81\)"):
        model(sg.tensor(tokens(1, 81)))
    with pytest.raises(sg.ShapeError, match="n_embd is 10, which 4 heads do not divide"):
        Config(n_embd=10, n_head=4)
    with pytest.raises(sg.ShapeError, match="there is no 'gpt3'"):
        GPT.named("gpt3")


SMALL = ["--context", "16", "--width", "16", "--layers", "1", "--heads", "2", "--batch-size", "8"]


@pytest.mark.slow
def test_a_text_is_learned_and_written_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("abcdefgh " * 60)
    out = str(tmp_path / "run")
    options = ["--text", str(tmp_path / "text.txt"), "--device", "cpu", "--out", out, "--dropout", "0.0"]
    assert cli.run(["train", "gpt", *options, *SMALL, "--steps", "120", "--lr", "1e-2"]) == 0
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["test_loss"] < 0.2
    capsys.readouterr()
    more = ["--prompt", "abcd", "--tokens", "9", "--temperature", "0", "--device", "cpu"]
    assert cli.run(["predict", "gpt", out, *more]) == 0
    assert capsys.readouterr().out.strip() == "abcdefgh abcd"


def test_predicting_needs_what_the_model_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], theirs: TheirGPT
) -> None:
    path = str(huggingface(tmp_path / "model.safetensors", theirs))
    (tmp_path / "config.json").write_text(json.dumps({"n_head": 4}))
    assert cli.run(["predict", "gpt", path, "--ids", "1,2,3", "--tokens", "4", "--device", "cpu"]) == 0
    found = [int(n) for n in capsys.readouterr().out.strip().split(",")]
    assert found[:3] == [1, 2, 3]
    assert len(found) == 7
    wrong = {
        ("--prompt", "abc"): "holds no characters",
        ("--ids", "1,x"): "--ids is '1,x'",
        ("--ids", "99"): "there are 13 tokens",
        (): "give --prompt or --ids",
        ("--ids", "1", "--tokens", "99"): "1 tokens and 99 more are not within the 80",
    }
    for options, message in wrong.items():
        assert cli.run(["predict", "gpt", path, "--device", "cpu", *options]) == 2
        assert message in capsys.readouterr().err
    assert cli.run(["predict", "gpt", str(tmp_path / "nothing"), "--prompt", "a"]) == 2
    assert "nothing" in capsys.readouterr().err


def test_the_rate_rises_and_falls_as_its_options_say(tmp_path: Path) -> None:
    """The warm-up is a tenth of the steps where nothing is said, and not above 100."""
    (tmp_path / "text.txt").write_text("abcdefgh " * 60)
    values = {"text": tmp_path / "text.txt", "context": 16, "width": 16, "layers": 1, "heads": 2, "dropout": 0.0}
    values |= {"batch_size": 8, "lr": 1e-2, "backward": None, "threads": None}

    def schedule(steps: int, warm_up: int | None = None, schedule_steps: int | None = None) -> Any:
        more = {"steps": steps, "warm_up": warm_up, "schedule_steps": schedule_steps}
        return gpt.build(Settings(out=tmp_path, device="cpu", **values, **more), "cpu").schedule

    assert schedule(500) == WarmUpCosine(50, 500)
    assert schedule(9000) == WarmUpCosine(100, 9000)
    assert schedule(500, 7, 80) == WarmUpCosine(7, 80)
    assert schedule(500, 0, 80)(0) == 1.0
    assert schedule(500)(499) < 1e-4
