"""A small language model by character: from a window of characters to the next one. Prints lines of its own at the end.

Bengio, Ducharme, Vincent, Jauvin: "A neural probabilistic language model", 2003: embeddings of the window's characters,
side by side, through an MLP. The text is --text, or a small tale that comes with the library.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn
from shadergrad.data.text import CharDataset, Vocabulary, read_text
from shadergrad.train import BACKWARD, Option, Position, Prediction, Recipe, Settings, Trainable, TrainingStep

TALE = Path(__file__).with_name("tale.txt")
CONTEXT = 16
HELD_OUT = 0.1  # of the text, its end, for the test loss
MOST_TESTED = 4096  # windows
SAMPLE, TEMPERATURE = 320, 0.6  # characters at the end; below 1: likely ones more often


class NextCharacter(nn.Module):
    """Logits [batch, characters] of the character after a window, int32 [batch, context]."""

    def __init__(self, characters: int, context: int, width: int = 16, hidden: int = 192) -> None:
        super().__init__()
        self.embedding = nn.Parameter(sg.randn(characters, width))
        self.mlp = nn.Sequential(nn.Linear(context * width, hidden), nn.ReLU(), nn.Linear(hidden, characters))

    def forward(self, window: Tensor) -> Tensor:
        vectors = self.embedding.index_select(0, window.reshape(-1))
        return self.mlp(vectors.reshape(window.shape[0], -1))


def network(shared: Any) -> nn.Module:
    """The untrained network of a run, for the characters that its checkpoint names."""
    return NextCharacter(len(shared["characters"]), CONTEXT)


def answer(model: nn.Module, shared: Any, prompt: str, characters: int, temperature: float, seed: int) -> list[str]:
    """The text and the model's continuation. Raises DataError if the text has characters that the model does not know."""
    vocabulary = Vocabulary(shared["characters"])
    space = " " if " " in vocabulary.characters else vocabulary.characters[0]
    window = vocabulary.encode((space * CONTEXT + prompt)[-CONTEXT:])[None]
    device = str(next(model.parameters()).device)
    written = sample(model, vocabulary, window, np.random.default_rng(seed), device, characters, temperature)
    return (prompt + written).splitlines()


def build(settings: Settings, device: str) -> Trainable:
    """The network on `device`, its weights random from the current seed. Raises DataError if the text is unusable."""
    text = read_text(settings["text"] or TALE)
    vocabulary = Vocabulary(text)
    split = len(text) - int(len(text) * HELD_OUT)
    train, test = (CharDataset(part, CONTEXT, vocabulary) for part in (text[:split], text[split:]))
    windows, shifted = train.windows()
    test_windows, test_shifted = test.windows(slice(MOST_TESTED))

    model = NextCharacter(len(vocabulary), CONTEXT).to(device)
    optimizer = sg.optim.AdamW(model.parameters(), lr=settings.lr)

    def loss(window: Tensor, following: Tensor) -> Tensor:
        """The loss of windows [batch, context] and the next characters [batch]; a scalar."""
        return F.cross_entropy(model(window), following)

    step = TrainingStep.of(settings, model, optimizer, loss)

    held_out = sg.tensor(test_windows, device=device), sg.tensor(test_shifted[:, -1], device=device)

    def evaluate() -> dict[str, float]:
        """The loss on the held-out end of the text, in nats a character."""
        with sg.no_grad():
            return {"test_loss": F.cross_entropy(model(held_out[0]), held_out[1]).item()}

    def show(_: Position) -> list[str]:
        rng = np.random.default_rng(settings.seed)
        return [
            "it writes:",
            *sample(model, vocabulary, test_windows[:1], rng, device, SAMPLE, TEMPERATURE).splitlines(),
        ]

    identity = {"text": hashlib.sha256(text.encode()).hexdigest()[:16], "characters": vocabulary.characters}
    return Trainable(model, optimizer, (windows, shifted[:, -1]), step, evaluate, show, identity)


def sample(
    model: nn.Module,
    vocabulary: Vocabulary,
    window: np.ndarray,
    rng: np.random.Generator,
    device: str,
    count: int,
    temperature: float,
) -> str:
    """`count` characters, each sampled from the model's distribution after the window [1, context] before it."""
    numbers: list[int] = []
    with sg.no_grad():
        for _ in range(count):
            odds = (model(sg.tensor(window, device=device)) / temperature).softmax(1).numpy()[0].astype(np.float64)
            numbers.append(int(rng.choice(len(vocabulary), p=odds / odds.sum())))
            window = np.append(window[:, 1:], [[numbers[-1]]], axis=1).astype(np.int32)
    return vocabulary.decode(numbers)


RECIPE = Recipe(
    "The next character of a text: embeddings and an MLP over 16 characters. Writes a few lines of its own.",
    build,
    defaults={"epochs": 10, "batch_size": 64, "lr": 3e-3},
    # the text is identified by its contents, not by its path
    options=(
        *BACKWARD,
        Option("text", Path, "A text file in UTF-8.", shown="a small tale", may_change=True),
    ),
    predict=Prediction(network, answer, "text"),
)
