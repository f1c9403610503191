"""The preview picture for links to a page. In: the page's data. Out: a PNG of 1200 x 630 pixels, as Open Graph recommends.

It shows the data if they are pictures, else falling curves.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

PREVIEW = "preview.png"
WIDTH, HEIGHT = 1200, 630
BACK, INK = np.array((16, 22, 29)), np.array((231, 237, 244))
CURVES = np.array(((92, 176, 255), (255, 154, 92)))
ACROSS, DOWN = 12, 6  # tiles
MOST_SIDE = 64  # of a picture in a row of numbers


def preview(data: Mapping[str, np.ndarray], settings: Mapping[str, Any]) -> bytes:
    """The PNG of a page with these data and settings."""
    if "picture" in data:
        shown = data["picture"][..., : settings.get("shown", 1)]
        return png(_whole(np.broadcast_to(shown, (*shown.shape[:2], 3))))
    for name in sorted(data, reverse=True):  # test_images before images
        tiles = _squares(data[name])
        if tiles is not None:
            return png(_tiled(tiles))
    return png(_curves())


def png(picture: np.ndarray) -> bytes:
    """A PNG of a picture (height, width, 3), uint8."""
    height, width, _ = picture.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, -1)], 1)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _squares(array: np.ndarray) -> np.ndarray | None:
    """(n, side, side) between 0 and 1, from rows that are grey pictures."""
    if array.dtype.kind != "f" or array.ndim < 2 or len(array) < ACROSS * DOWN:
        return None
    flat = array.reshape(len(array), -1)
    side = round(flat.shape[-1] ** 0.5)
    if not 8 <= side <= MOST_SIDE or side * side != flat.shape[-1] or flat.min() < 0:  # no brightness
        return None
    return (flat / max(float(flat.max()), 1e-9)).reshape(-1, side, side)


def _canvas() -> np.ndarray:
    return np.broadcast_to(BACK, (HEIGHT, WIDTH, 3)).astype(np.uint8)


def _mixed(parts: np.ndarray) -> np.ndarray:
    """A colour between the background (0) and ink (1)."""
    return (BACK + parts * (INK - BACK)).astype(np.uint8)


def _tiled(pictures: np.ndarray) -> np.ndarray:
    canvas, side = _canvas(), pictures.shape[-1]
    scale = max(1, 88 // side)
    step = scale * side + 10
    top, left = (HEIGHT - DOWN * step + 10) // 2, (WIDTH - ACROSS * step + 10) // 2
    for k, one in enumerate(pictures[: ACROSS * DOWN]):
        y, x = top + step * (k // ACROSS), left + step * (k % ACROSS)
        canvas[y : y + scale * side, x : x + scale * side] = _mixed(one.repeat(scale, 0).repeat(scale, 1)[..., None])
    return canvas


def _whole(picture: np.ndarray) -> np.ndarray:
    """One picture (height, width, 3) of numbers from 0 to 1, scaled to the available space."""
    canvas = _canvas()
    scale = max(1, min((HEIGHT - 60) // picture.shape[0], (WIDTH - 60) // picture.shape[1]))
    shown = _mixed(np.clip(picture, 0, 1)).repeat(scale, 0).repeat(scale, 1)[: HEIGHT - 20, : WIDTH - 20]
    top, left = (HEIGHT - shown.shape[0]) // 2, (WIDTH - shown.shape[1]) // 2
    canvas[top : top + shown.shape[0], left : left + shown.shape[1]] = shown
    return canvas


def _curves() -> np.ndarray:
    canvas = _canvas()
    x = np.arange(80, WIDTH - 80)
    for k, colour in enumerate(CURVES):
        part = (x - 80) / (WIDTH - 160)
        wave = 0.05 * np.exp(-3 * part) * np.sin((40 + 9 * k) * part)
        y = (HEIGHT - 110 - (HEIGHT - 220) * (np.exp(-(4 + 3 * k) * part) + wave)).round().astype(int)
        for at, low, high in zip(x, np.minimum(y, np.roll(y, 1)), np.maximum(y, np.roll(y, 1)), strict=True):
            if at > x[0]:
                canvas[max(0, low - 4) : high + 5, at : at + 3] = colour
    canvas[HEIGHT - 90 : HEIGHT - 86, 80 : WIDTH - 80] = (BACK + INK) // 3
    return canvas
