"""The coevolution transformer against its twin in PyTorch: values, gradients, padding, parts of batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as T

import shadergrad as sg
from helpers import as_array, assert_close, grad_of
from shadergrad.interop.torch import mirror
from shadergrad.models import coevolution as co

SIZES = {"d_model": 16, "n_layers": 2, "n_heads": 2, "d_ff": 24, "max_len": 40, "dropout": 0.0}
LENGTH_A, LENGTH_B = 5, 7
PHASES = ("mlm", "contacts")


def model_of(phase: str, device: str, dtype: Any = None) -> Any:
    sg.manual_seed(3)
    transformer = co.CoevolutionTransformer(**SIZES)
    model = co.MaskedLanguageModel(transformer) if phase == "mlm" else co.ContactPredictor(transformer, 8)
    return model.to(device) if dtype is None else model.to(device, dtype)


class TwinLayer(torch.nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(d_model), torch.nn.LayerNorm(d_model)
        self.attention = torch.nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.ff = torch.nn.Sequential(
            torch.nn.Linear(d_model, d_ff),
            torch.nn.GELU(),
            torch.nn.Dropout(0.0),
            torch.nn.Linear(d_ff, d_model),
        )


class Twin(torch.nn.Module):
    """The transformer in PyTorch, positions and segments counted by loops."""

    def __init__(self, d_model: int, n_layers: int, n_heads: int, d_ff: int, max_len: int, dropout: float) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(co.vocabulary.VOCABULARY, d_model)
        self.segments = torch.nn.Embedding(2, d_model)
        self.positions = torch.nn.Embedding(max_len, d_model)
        self.norm, self.final_norm = torch.nn.LayerNorm(d_model), torch.nn.LayerNorm(d_model)
        self.layers = torch.nn.ModuleList(TwinLayer(d_model, n_heads, d_ff) for _ in range(n_layers))

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        positions, segments = torch.zeros_like(tokens), torch.zeros_like(tokens)
        for row, line in enumerate(tokens.tolist()):
            position = segment = 0
            for column, token in enumerate(line):
                positions[row, column], segments[row, column] = max(position - (token == co.PAD), 0), segment
                position += token != co.PAD
                segment = 1 if token == co.SEP else segment
        x = self.norm(self.tokens(tokens) + self.segments(segments) + self.positions(positions))
        maps = []
        layers: Any = self.layers
        for layer in layers:
            y = layer.norm1(x)
            y, weights = layer.attention(y, y, y, tokens == co.PAD, average_attn_weights=False)
            maps.append(weights)
            x = x + y
            x = x + layer.ff(layer.norm2(x))
        return self.final_norm(x), torch.cat(maps, 1)


class MaskedTwin(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        d = SIZES["d_model"]
        self.transformer = Twin(**SIZES)
        self.head = torch.nn.Sequential(
            torch.nn.Linear(d, d), torch.nn.GELU(), torch.nn.LayerNorm(d), torch.nn.Linear(d, co.vocabulary.VOCABULARY)
        )

    def loss(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return T.cross_entropy(self.head(self.transformer(tokens)[0]).transpose(1, 2), labels.long())


class ContactTwin(torch.nn.Module):
    """Contacts pair by pair, as the formula says."""

    def __init__(self) -> None:
        super().__init__()
        d = SIZES["d_model"]
        self.transformer = Twin(**SIZES)
        self.pair, self.single = torch.nn.Linear(d, 8), torch.nn.Linear(d, 8)
        self.maps = torch.nn.Linear(SIZES["n_layers"] * SIZES["n_heads"], 8, bias=False)
        self.out = torch.nn.Linear(8, 1)

    def loss(self, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x, maps = self.transformer(tokens)
        total, weights = torch.zeros((), dtype=x.dtype), 0.0
        for row, line in enumerate(tokens.tolist()):
            a = [k for k in range(1, 1 + LENGTH_A) if line[k] != co.PAD]
            b = [k for k in range(2 + LENGTH_A, len(line) - 1) if line[k] != co.PAD]
            count = sum(token != co.PAD for token in line)
            seen = (maps[row][:, a][:, :, b] + maps[row][:, b][:, :, a].transpose(1, 2)) * count
            rows, columns = seen.sum(2, keepdim=True), seen.sum(1, keepdim=True)
            seen = seen - rows * columns / (rows.sum(1, keepdim=True) + 1e-6)
            for p, i in enumerate(a):
                for q, j in enumerate(b):
                    y = self.pair(x[row, i]) * self.pair(x[row, j]) + self.single(x[row, i]) + self.single(x[row, j])
                    logit = self.out(T.gelu(y + self.maps(seen[:, p, q])))[0]
                    label = labels[row, i - 1, j - LENGTH_A - 2]
                    if label >= 0:
                        weight = 3.0 if label > 0 else 1.0
                        weights += weight
                        total = total + weight * T.binary_cross_entropy_with_logits(logit, label.to(logit.dtype))
        return total / weights


def batch_of(phase: str, rows: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Rows with gaps and of different lengths; the first is whole, so that every residue occurs."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 21, (rows, LENGTH_A)), rng.integers(0, 21, (rows, LENGTH_B))
    a[1, 3:], b[2, 4:], a[3, 1], b[3, 2] = co.PAD, co.PAD, co.PAD, co.PAD
    tokens = co.pair_tokens(a, b)
    if phase == "mlm":
        return co.mask_tokens(tokens, rng, 0.5)
    labels = rng.integers(0, 2, (rows, LENGTH_A, LENGTH_B)).astype(np.float32)
    labels[(a == co.PAD)[:, :, None] | (b == co.PAD)[:, None, :]] = -1
    return tokens, labels


def ours(phase: str, model: Any, tokens: np.ndarray, labels: np.ndarray, device: str) -> sg.Tensor:
    loss = co.MaskedTokens() if phase == "mlm" else co.Contacts(3.0)
    x, y = sg.tensor(tokens, device=device), sg.tensor(labels, device=device)
    outputs = model(x) if phase == "mlm" else model(x, LENGTH_A)
    return loss.total(outputs, y) / loss.weight(y)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("device", "tolerance"), [("cpu", 1e-9), ("webgpu", 1e-4)], indirect=["device"])
def test_loss_and_gradients_are_those_of_the_twin_in_pytorch(phase: str, device: str, tolerance: float) -> None:
    model = model_of(phase, device, sg.float64 if device == "cpu" else None)
    twin = (MaskedTwin() if phase == "mlm" else ContactTwin()).double()
    twin.load_state_dict({name: torch.tensor(as_array(p)).double() for name, p in model.state_dict().items()})
    tokens, labels = batch_of(phase)
    loss = ours(phase, model, tokens, labels if device == "webgpu" or phase == "mlm" else labels.astype(float), device)
    expected = twin.loss(torch.tensor(tokens), torch.tensor(labels).double())
    loss.backward()
    expected.backward()
    assert_close(loss.detach(), expected.detach(), tolerance, tolerance, "the loss")
    for name, p in twin.named_parameters():
        assert_close(grad_of(dict(model.named_parameters())[name]), grad_of(p), tolerance, tolerance, name)


@pytest.mark.parametrize("phase", PHASES)
def test_a_mirror_has_the_names_and_gradients_of_the_twin(phase: str, device: str) -> None:
    """Names go both ways: the twin reads the mirror's, and the mirror the twin's."""
    model, twin = model_of(phase, device), MaskedTwin() if phase == "mlm" else ContactTwin()
    mirrored = mirror(model)
    twin.load_state_dict(mirrored.state_dict())
    tokens, labels = batch_of(phase)
    loss = mirrored.run(lambda: ours(phase, model, tokens, labels, "torch"))
    expected = twin.loss(torch.tensor(tokens), torch.tensor(labels))
    loss.backward()
    expected.backward()
    mirrored.write_gradients()
    assert_close(loss.detach(), expected.detach(), 1e-5, 1e-5, "the loss")
    for name, p in model.named_parameters():
        assert_close(grad_of(p), grad_of(dict(twin.named_parameters())[mirrored.names[name]]), 1e-5, 1e-5, name)
    with torch.no_grad():
        for p in twin.parameters():
            p.mul_(1.5)
    mirrored.load_state_dict(twin.state_dict())
    mirrored.write_back()
    for name, p in model.named_parameters():
        assert_close(p.detach(), twin.state_dict()[mirrored.names[name]], 0, 1e-6, name)


@pytest.mark.parametrize("phase", PHASES)
def test_every_parameter_gets_a_gradient(phase: str, device: str) -> None:
    model = model_of(phase, device)
    ours(phase, model, *batch_of(phase), device).backward()
    for name, p in model.named_parameters():
        gradient = as_array(grad_of(p))
        assert np.isfinite(gradient).all(), name
        assert gradient.any(), f"{name} gets a gradient of zeros"


@pytest.mark.parametrize("phase", PHASES)
def test_padding_changes_nothing(phase: str) -> None:
    """A row with PAD within, at the end and between the chains gives what the residues alone give."""
    model = model_of(phase, "cpu", sg.float64).eval()
    a, b = np.array([[3, 7, 11]]), np.array([[2, 20, 9, 4]])
    gapped_a, gapped_b = np.array([[3, co.PAD, 7, 11]]), np.array([[co.PAD, 2, 20, 9, 4]])
    plain, padded = co.pair_tokens(a, b), co.pair_tokens(gapped_a, gapped_b, 6, 8)
    if phase == "mlm":
        kept = padded[0] != co.PAD
        assert_close(model(sg.tensor(padded))[0, sg.tensor(np.flatnonzero(kept))], model(sg.tensor(plain))[0], 0, 1e-12)
        return
    found = as_array(model(sg.tensor(padded), 6))[0]
    assert_close(found[np.ix_([0, 2, 3], [1, 2, 3, 4])], model(sg.tensor(plain), 3)[0], 0, 1e-12)
    assert not found[[1, 4, 5]].any(), "what is not there says nothing"
    assert not found[:, [0, 5, 6, 7]].any()


@pytest.mark.parametrize("phase", PHASES)
def test_the_other_rows_of_a_batch_change_nothing(phase: str) -> None:
    model = model_of(phase, "cpu", sg.float64).eval()
    tokens, _ = batch_of(phase)
    rest = () if phase == "mlm" else (LENGTH_A,)
    assert_close(model(sg.tensor(tokens[2:3]), *rest)[0], model(sg.tensor(tokens), *rest)[2], 0, 1e-12)


def test_the_parameters_are_about_as_many_as_said() -> None:
    count = sum(p.numel() for p in co.CoevolutionTransformer().parameters())
    assert count == 1_259_136


def test_pairs_that_are_too_long_are_refused() -> None:
    model = model_of("mlm", "cpu")
    with pytest.raises(
        co.FamilyError, match=r"a pair has 45 tokens, the model positions for 40.*--max-len.*mean-field"
    ):
        model(sg.zeros(1, 45, dtype=sg.int32))


def test_dropout_is_drawn_in_training_and_not_in_evaluation() -> None:
    sg.manual_seed(0)
    model = co.MaskedLanguageModel(co.CoevolutionTransformer(**{**SIZES, "dropout": 0.5}))
    tokens = sg.tensor(batch_of("mlm")[0])
    assert not np.array_equal(as_array(model(tokens)), as_array(model(tokens)))
    model.eval()
    assert np.array_equal(as_array(model(tokens)), as_array(model(tokens)))
