"""Attention as composed operations, with the whole matrix of weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..dtypes import bool_, uint32
from ..graph.build import Builder
from ..graph.node import Node
from .attention_call import AttentionCall
from .attention_tiles import (
    keep_threshold,
)
from .random import Threefry
from .reduce import ReduceMax
from .views import Slice


class Composed:
    """Attention with the whole matrix of weights, composed of operations with their own gradients and kernels."""

    def __init__(self, b: Builder, call: AttentionCall, inputs: Sequence[Node]) -> None:
        """inputs: q, k, v, the mask and the key."""
        self.b, self.call, self.of = b, call, tuple(inputs[:3])
        self.n, self.heads, self.rows, self.d = inputs[0].shape
        self.columns = inputs[1].shape[2]
        self.batch = self.n * self.heads
        self.shape = (self.batch, self.rows, self.columns)
        self.q, self.k, self.v = map(self._flat, inputs[:3])
        self.scores = self._scores(inputs[3] if call.masked else None)
        self.keep_factors = self._drawn_factors(inputs[-1]) if call.dropped else None

    def tops(self) -> Node:
        """The largest score of each row, (batch, rows, 1)."""
        return self.b.make(ReduceMax((2,)), self.scores)

    def powers(self, tops: Node) -> tuple[Node, Node]:
        """exp(scores - tops), and the sums of rows, 0 if a row attends to nothing. The weights are their quotients, for any `tops` near
        the largest scores. exp(scores - logs) alone would contain the rounding error of the logarithms.
        """
        b = self.b
        tops = b.where(b.equal(tops, -math.inf), 0.0, tops)
        powers = b.elementwise("Exp", b.sub(self.scores, self._across(tops)))
        return powers, b.sum(powers, (2,))

    def logs(self, tops: Node, total: Node) -> Node:
        """The log-sum-exp of each row, (batch, rows, 1); -inf if a row attends to nothing."""
        b = self.b
        return b.where(b.equal(total, 0.0), -math.inf, b.add(tops, b.elementwise("Log", self._nonzero(total))))

    def result(self, powers: Node, total: Node) -> Node:
        used = self.b.div(powers, self._across(self._nonzero(total)))
        if self.keep_factors is not None:
            used = self.b.mul(used, self.keep_factors)
        return self.b.reshape(self.b.dot(used, self.v), (self.n, self.heads, self.rows, self.d))

    def gradients(self, g: Node, powers: Node, total: Node) -> tuple[Node, Node, Node]:
        """The gradients of q, k and v."""
        b = self.b
        g, total = self._flat(g), self._nonzero(total)
        to_weights = b.dot(g, b.transpose(self.v))
        used = weights = b.div(powers, self._across(total))
        if self.keep_factors is not None:
            to_weights, used = b.mul(to_weights, self.keep_factors), b.mul(weights, self.keep_factors)
        delta = b.div(b.sum(b.mul(to_weights, powers), (2,)), total)
        to_scores = b.mul(b.mul(weights, b.sub(to_weights, self._across(delta))), self.call.scale)
        found = (b.dot(to_scores, self.k), b.dot(b.transpose(to_scores), self.q), b.dot(b.transpose(used), g))
        return tuple(b.reshape(x, of.shape) for x, of in zip(found, self.of, strict=True))  # type: ignore[return-value]

    def _nonzero(self, total: Node) -> Node:
        """The sums of rows, safe as divisors."""
        return self.b.where(self.b.equal(total, 0.0), 1.0, total)

    def _flat(self, x: Node) -> Node:
        return self.b.reshape(x, (self.batch, *x.shape[2:]))

    def _across(self, x: Node) -> Node:
        return self.b.broadcast(x, self.shape)

    def _scores(self, mask: Node | None) -> Node:
        b = self.b
        scores = b.mul(b.dot(self.q, b.transpose(self.k)), self.call.scale)
        if mask is not None:
            whole = (self.n, self.heads, self.rows, self.columns)
            mask = b.reshape(b.broadcast(mask, whole), self.shape)
            scores = b.where(mask, scores, -math.inf) if mask.dtype is bool_ else b.add(scores, mask)
        if self.call.causal:
            row, column = (b.iota_along(scores, a) for a in (1, 2))
            scores = b.where(b.less(row, column), -math.inf, scores)
        return scores

    def _drawn_factors(self, key: Node) -> Node:
        """The factor of each weight: 0, or 1 / (1 - dropped)."""
        b, dropped = self.b, self.call.dropped
        half = -(-self.columns // 2)
        pairs = (self.batch, self.rows * half)
        place = b.broadcast(b.reshape(b.iota(pairs[1], key.device, uint32), (1, pairs[1])), pairs)
        row = b.broadcast(b.reshape(b.iota(self.batch, key.device, uint32), (self.batch, 1)), pairs)
        words = b.permute(b.make(Threefry(), key, place, row), (1, 2, 0))
        words = b.make(Slice((0, 0, 0), self.shape, (1, 1, 1)), b.reshape(words, (self.batch, self.rows, 2 * half)))
        zero = b.constant(0.0, self.q.dtype, self.q.device, self.shape)
        return b.where(b.less(words, keep_threshold(dropped)), zero, 1.0 / (1.0 - dropped))
