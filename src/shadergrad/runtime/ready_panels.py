"""Right operands of several matrix multiplications of a program, packed once. In: steps, and their products. Out: the same, with kernels that pack.

A product packs each panel of its right operand (compile/native/panel_product.py), which takes a fifth of the time of a product of 64 rows. A recurrent network
multiplies by the same weight at each time, so its panels are packed before the first of these products. The bits of a product are the same either way.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from ..compile.native import panel_product
from ..compile.native.panel_product import READY, WORDS, Panel
from ..compile.native.program import Row, Step, Steps
from ..dtypes import float32
from . import llvm
from .products import Product

MOST_ROWS = 512  # of a product that packing delays
FEWEST_PRODUCTS = 2
Products = dict[
    int, tuple[Product, tuple[int, int]]
]  # by step: the product, and the byte offsets of its operands in their rows
_OF_RIGHT = [WORDS.index(name) for name in ("n", "k", "right.along", "packing")]
_Key = tuple[int, int, int, tuple[int, ...]]  # a row, an offset, the width of a panel, and the operand's layout


def packed_once(steps: Steps, products: Products) -> tuple[Steps, Products]:
    """The program in which right operands of at least FEWEST_PRODUCTS products are packed before the first of them."""
    users: dict[_Key, list[int]] = {}
    for k, (product, offsets) in products.items():
        key = _key(steps.steps[k], product, offsets)
        if key is not None:
            users.setdefault(key, []).append(k)
    shared = {key: used for key, used in users.items() if len(used) >= FEWEST_PRODUCTS}
    if not shared:
        return steps, products
    rows = list(steps.rows)
    packed: dict[int, int] = {}  # the packed row that a step reads
    before: dict[
        int, list[tuple[Step, Product, int]]
    ] = {}  # kernels to run before a step, with the offset of their operand
    behind: dict[int, list[int]] = {}  # packed rows that a step is the last to read
    for (row, offset, width, _), used in shared.items():
        product = products[used[0]][0]
        assert product.panel is not None
        words = dict(zip(WORDS, product.words.tolist(), strict=True))
        size = words["panels"] * words["k"] * width
        shape = f"pack {words['k']} x {words['n']}"
        before.setdefault(used[0], []).append(
            (
                Step("pack", (row, row), (len(rows),), shape=shape, places=steps.steps[used[0]].places),
                Product(_packing(product.panel), _with(product, result_batch=size), words["panels"], 1),
                offset,
            )
        )
        packed |= dict.fromkeys(used, len(rows))
        behind.setdefault(used[-1], []).append(len(rows))
        rows.append(Row((size,), float32))
    new: list[Step] = []
    dies: list[tuple[int, ...]] = []
    found: Products = {}
    for k, step in enumerate(steps.steps):
        for packing, product, offset in before.get(k, ()):
            found[len(new)] = product, (offset, offset)
            new.append(packing)
            dies.append(())
        if k in products:
            product, (left, right) = products[k]
            if k in packed:
                step = replace(step, reads=(step.reads[0], packed[k]))
                product, right = product._replace(words=_with(product, packing=READY, right_batch=0)), 0
            found[len(new)] = product, (left, right)
        new.append(step)
        dies.append((*steps.dies[k], *behind.get(k, ())))
    return replace(steps, rows=tuple(rows), steps=tuple(new), dies=tuple(dies)), found


def _key(step: Step, product: Product, offsets: tuple[int, int]) -> _Key | None:
    """Equal for products that read the same panels; None if a product packs none, or has so many rows that packing is a small part of it."""
    if product.panel is None:
        return None
    words = dict(zip(WORDS, product.words.tolist(), strict=True))
    if words["m"] > MOST_ROWS or product.units != words["panels"] * words["ranges"]:  # several matrices
        return None
    return step.reads[1], offsets[1], product.panel.width, tuple(int(product.words[word]) for word in _OF_RIGHT)


def _with(product: Product, **changed: int) -> np.ndarray:
    """The description of a product, with other words."""
    words = product.words.copy()
    for name, value in changed.items():
        words[WORDS.index(name.replace("_", "."))] = value
    return words


@cache
def _packing(panel: Panel) -> llvm.Function:
    return llvm.function(panel_product.packing_text_for(panel))
