"""Sampling with a key-value cache. In: the beginning of a text, as tokens. Out: tokens that follow.

The cache has the shape of the longest text, and the write position is a number on the device. So two programs serve every
length: one takes CHUNK tokens of the prompt, the other takes a single token and samples the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import shadergrad as sg
import shadergrad.nn.functional as F
from shadergrad import Tensor

from .model import GPT

CHUNK = 32  # tokens of the beginning that are taken at once


class Sampler:
    """Draws the next tokens, with the model in evaluation mode.

    temperature: below 1, likely tokens come more often; 0 takes the most likely.
    top_k: sample from the k most likely tokens; None: from all.
    batch: the number of texts.
    length: the number of tokens of the longest text, at most the model's n_positions, the default. The draws follow
    sg.manual_seed.
    Raises ShapeError for invalid numbers.

    >>> from shadergrad.models.gpt import GPT, Config, Sampler
    >>> model = GPT(Config(vocab_size=11, n_positions=8, n_embd=16, n_layer=2, n_head=2))
    >>> Sampler(model, temperature=0.0).generate([[1, 2, 3]], 4).shape
    (1, 7)
    """

    def __init__(
        self,
        model: GPT,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        batch: int = 1,
        length: int | None = None,
    ) -> None:
        config = model.config
        self.length = config.n_positions if length is None else length
        self.batch, self.temperature, self.top_k = batch, temperature, top_k
        if not 1 <= self.length <= config.n_positions or batch < 1:
            raise sg.ShapeError(
                f"[Sampler] length is {length}, batch {batch}; the model has {config.n_positions} positions."
            )
        if not 0 <= temperature < float("inf"):
            raise sg.ShapeError(f"[Sampler] temperature is {temperature}; it must be a number, not negative.")
        if top_k is not None and not 1 <= top_k <= config.vocab_size:
            raise sg.ShapeError(f"[Sampler] top_k is {top_k}; there are {config.vocab_size} tokens.")
        self.model = model
        self.device = str(model.wte.weight.device)
        shape = (2, batch, config.n_head, self.length, config.head_dim)
        self._caches = [sg.zeros(*shape, device=self.device) for _ in model.h]
        self._drawn = sg.zeros(batch, self.length, dtype=sg.int32, device=self.device)
        self._advance = sg.compile(self._write)
        self._next = sg.compile(self._draw)

    def generate(self, tokens: Any, count: int) -> np.ndarray:
        """The tokens (batch, n), n at least 1, and `count` more: int32 (batch, n + count).

        Raises ShapeError if these are more than `length`, or for another batch. Overwrites the cache.
        """
        given = np.asarray(tokens, np.int32)
        if given.ndim != 2 or given.shape[0] != self.batch or not given.shape[1]:
            raise sg.ShapeError(f"[Sampler] tokens are {given.shape}; they must be ({self.batch}, at least 1).")
        if count < 0 or given.shape[1] + count > self.length:
            raise sg.ShapeError(
                f"[Sampler] {given.shape[1]} tokens and {count} more are not within the {self.length} of the cache."
            )
        training = self.model.training
        self.model.eval()
        try:
            with sg.no_grad():
                return self._generate(given, count)
        finally:
            self.model.train(training)

    def _generate(self, given: np.ndarray, count: int) -> np.ndarray:
        """The host reads nothing before the end: a drawn token stays on the device for the next step."""
        before = given.shape[1] - 1  # the last one is taken by the step that draws
        for start in range(0, before, CHUNK):
            piece = given[:, start : min(start + CHUNK, before)]
            padded = np.pad(piece, ((0, 0), (0, CHUNK - piece.shape[1])))  # later writes replace the padding
            self._advance(self._on_device(padded), self._at(start))
        token = self._on_device(given[:, -1:])
        for k in range(count):
            token = self._next(token, self._at(before + k))
        drawn = self._drawn.numpy()  # whole: a slice of each length would be a program of its own
        return np.concatenate([given, drawn[:, given.shape[1] : given.shape[1] + count]], axis=1)

    def _on_device(self, tokens: np.ndarray) -> Tensor:
        return sg.tensor(np.ascontiguousarray(tokens), device=self.device)

    def _at(self, position: int) -> Tensor:
        return sg.tensor(np.array([position], np.int32), device=self.device)

    # -- what is compiled

    def _write(self, tokens: Tensor, start: Tensor) -> Tensor:
        """Write keys and values of tokens (batch, n) from `start` on to the caches; returns the last block's output."""
        model, n = self.model, tokens.shape[1]
        places = sg.arange(self.length, device=self.device)
        own = start + sg.arange(n, device=self.device)
        seen = places <= own.unsqueeze(1)  # (n, length): neither later tokens nor unwritten entries
        offset = places - start
        inside = ((offset >= 0) & (offset < n)).reshape(-1, 1)
        source = offset.clamp(0, n - 1)
        x = model.embedded(tokens, own.clamp(0, self.length - 1))
        for block, cache in zip(model.h, self._caches, strict=True):
            query, key, value = block.attn.heads(block.ln_1(x))
            new = sg.stack([key, value])
            cache.copy_(sg.where(inside, new.index_select(3, source), cache))
            found = F.scaled_dot_product_attention(query, cache[0], cache[1], seen)
            x = x + block.attn.joined(found)
            x = x + block.mlp(block.ln_2(x))
        return x

    def _draw(self, token: Tensor, at: Tensor) -> Tensor:
        """The token after (batch, 1): (batch, 1)."""
        logits = self.model.logits(self._write(token, at)[:, -1])
        if self.top_k is not None:
            least = logits.topk(self.top_k, -1)[0][:, -1:]
            logits = sg.where(logits >= least, logits, -float("inf"))
        if self.temperature == 0:
            drawn = logits.argmax(-1, keepdim=True)
        else:
            drawn = (logits / self.temperature).softmax(-1).multinomial(1)
        drawn = drawn.to(dtype=sg.int32)
        places = sg.arange(self.length, device=self.device)
        self._drawn.copy_(sg.where(places == at + 1, drawn, self._drawn))
        return drawn
