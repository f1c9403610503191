"""A GPT-2 in small on the characters of a text: --text, or a small tale that comes with the library.

Radford et al., "Language models are unsupervised multitask learners", 2019. AdamW with decaying matrices, gradients
clipped to a norm of 1. `shadergrad predict gpt` writes on from what it has learned.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor, nn
from shadergrad.data.text import CharDataset, Vocabulary, read_text
from shadergrad.models.gpt import GPT, Config, Sampler
from shadergrad.train import (
    BACKWARD,
    SCHEDULE,
    Option,
    Position,
    Recipe,
    Settings,
    Stream,
    Trainable,
    TrainingStep,
    WarmUpCosine,
)
from shadergrad.train.prediction import Prediction

TALE = Path(__file__).with_name("tale.txt")
HELD_OUT = 0.1  # of the text, its end, for the test loss
MOST_TESTED = 16  # windows
WEIGHT_DECAY, LARGEST_NORM = 0.1, 1.0
TEMPERATURE = 0.7


def build(settings: Settings, device: str) -> Trainable:
    """The network on `device`, its weights random from the current seed. Raises DataError if the text is unusable."""
    text = read_text(settings["text"] or TALE)
    vocabulary = Vocabulary(text)
    context, split = settings["context"], len(text) - int(len(text) * HELD_OUT)
    train, test = (CharDataset(part, context, vocabulary) for part in (text[:split], text[split:]))
    config = Config(
        len(vocabulary), context, settings["width"], settings["layers"], settings["heads"], settings["dropout"]
    )
    model = GPT(config).to(device)
    optimizer = sg.optim.AdamW(model.parameter_groups(WEIGHT_DECAY), lr=settings.lr, betas=(0.9, 0.95))

    def loss(tokens: Tensor, following: Tensor) -> Tensor:
        """The loss of tokens and their successors, both [batch, context]; a scalar."""
        return F.cross_entropy(model(tokens).flatten(0, 1), following.flatten())

    def clip() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST_NORM)

    def batches(epoch: int) -> Iterator[tuple[np.ndarray, ...]]:
        rng = np.random.default_rng((settings.seed, epoch))
        while True:
            yield train.windows(rng.integers(0, len(train), settings.batch_size))

    spread = np.linspace(0, len(test) - 1, min(MOST_TESTED, len(test))).astype(int)
    held_out = [sg.tensor(np.ascontiguousarray(part), device=device) for part in test.windows(spread)]

    def evaluate() -> dict[str, float]:
        """The loss on the held-out end of the text, in nats a character."""
        model.eval()
        try:
            with sg.no_grad():
                return {"test_loss": loss(*held_out).item()}
        finally:
            model.train()

    def show(_: Position) -> list[str]:
        begin = test.ids[: max(1, context // 4)]
        found = Sampler(model, temperature=TEMPERATURE).generate(begin[None], context - len(begin))
        return ["it writes:", *vocabulary.decode(found[0]).splitlines()]

    identity = {
        "text": hashlib.sha256(text.encode()).hexdigest()[:16],
        "characters": vocabulary.characters,
        "model": asdict(config),
    }
    step = TrainingStep.of(settings, model, optimizer, loss, finish=clip)
    schedule = WarmUpCosine.of(settings, settings["steps"])
    return Trainable(model, optimizer, Stream(batches), step, evaluate, show, identity, schedule=schedule)


RECIPE = Recipe(
    "GPT-2 in small: the next character of a text, by causal attention. Writes a few lines of its own.",
    build,
    defaults={"steps": 1000, "batch_size": 32, "lr": 1e-3},
    # the text is identified by its contents, not by its path
    options=(
        Option("text", Path, "A text file in UTF-8.", shown="a small tale", may_change=True),
        Option("context", int, "Characters of context.", 128),
        Option("width", int, "Features per character.", 128),
        Option("layers", int, "Transformer blocks.", 4),
        Option("heads", int, "Attention heads.", 4),
        Option("dropout", float, "Dropout probability.", 0.1),
        *SCHEDULE,
        *BACKWARD,
    ),
    predict=Prediction(lambda shared: GPT(Config(**shared["model"]))),
    then=lambda settings: [f"shadergrad predict gpt {shlex.quote(str(settings.out))} --prompt TEXT"],
)
