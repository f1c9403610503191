"""What TensorBoard shows, as encoded summary values. In: tags with numbers, arrays, texts. Out: bytes for an event.

The numbers of fields are those of TensorFlow's summary.proto and tensor.proto and of the plugins' own messages.
"""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import ArgumentError, ShapeError
from ...system.optional_packages import require
from ...tensor import Tensor
from .event_file import Float32, Packed, fields

FLOAT, STRING = 1, 7  # types of elements


def array_of(value: Any) -> np.ndarray:
    """A number, a tensor or an array as an array."""
    return value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)


def scalar(tag: str, value: Any) -> bytes:
    """One number."""
    array = array_of(value)
    if array.size != 1:
        raise ShapeError(f"[SummaryWriter] the scalar {tag!r} has {array.size} values; it must have one.")
    return fields((1, tag), (2, Float32(array.reshape(()).item())))


def _edges() -> np.ndarray:
    """Edges of buckets, each a tenth wider than the one before, as TensorFlow's histograms have them."""
    positive = 1e-12 * 1.1 ** np.arange(774)
    return np.concatenate([-positive[::-1], [0.0], positive])


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None) -> bytes:
    """How often values lie in each bucket. bins: 'tensorflow', or what numpy.histogram takes."""
    array = array_of(values).astype(np.float64).ravel()
    if not array.size:
        raise ShapeError(f"[SummaryWriter] the histogram {tag!r} has no values.")
    finite = array[np.isfinite(array)]
    counts, edges = np.histogram(finite, bins=_edges() if isinstance(bins, str) and bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        together = len(counts) // max_bins
        starts = np.arange(0, len(counts), together)
        counts, edges = np.add.reduceat(counts, starts), np.append(edges[starts], edges[-1])
    used = np.flatnonzero(counts)
    first, last = (used[0], used[-1]) if len(used) else (0, 0)
    # an empty bucket before the first: its limit is where the first begins
    limits = [float(edges[first]), *edges[first + 1 : last + 2].tolist()]
    kept = [0.0, *counts[first : last + 1].astype(float).tolist()]
    sums = finite if len(finite) else np.zeros(1)
    return histogram_raw(tag, sums.min(), sums.max(), len(finite), finite.sum(), np.square(finite).sum(), limits, kept)


def histogram_raw(
    tag: str, low: float, high: float, num: float, total: float, squares: float, limits: Any, counts: Any
) -> bytes:
    """A histogram that was counted elsewhere."""
    if len(limits) != len(counts):
        raise ArgumentError(f"[SummaryWriter] {tag!r} has {len(counts)} counts for {len(limits)} bucket limits.")
    numbers = [(k + 1, float(value)) for k, value in enumerate((low, high, num, total, squares))]
    return fields((1, tag), (5, fields(*numbers, (6, Packed(map(float, limits))), (7, Packed(map(float, counts))))))


def _pixels(tag: str, values: Any, layout: str) -> np.ndarray:
    """Images as uint8 [n, height, width, channels]: floats from 0 to 1, integers from 0 to 255."""
    array, letters = array_of(values), layout.upper()
    if array.ndim != len(letters) or not set("HW") <= set(letters) <= set("NCHW") or len(set(letters)) != len(letters):
        raise ShapeError(f"[SummaryWriter] the image {tag!r} has the shape {array.shape}; dataformats is {layout!r}.")
    for letter in "NC":
        if letter not in letters:
            array, letters = array[None], letter + letters
    array = array.transpose([letters.index(letter) for letter in "NHWC"])
    if array.shape[-1] not in (1, 2, 3, 4):
        raise ShapeError(f"[SummaryWriter] the image {tag!r} has {array.shape[-1]} channels: 1, 3 or 4 can be shown.")
    scaled = array if array.dtype.kind in "iu" else np.nan_to_num(array.astype(np.float64)) * 255.0
    return np.clip(scaled, 0, 255).astype(np.uint8)


def _grid(images: np.ndarray) -> np.ndarray:
    """One image of several, in about as many rows as columns."""
    across = int(np.ceil(np.sqrt(len(images))))
    down = -(-len(images) // across)
    empty = np.zeros((across * down - len(images), *images.shape[1:]), np.uint8)
    rows = np.concatenate([images, empty]).reshape(down, across, *images.shape[1:])
    _, _, height, width, channels = rows.shape
    return rows.transpose(0, 2, 1, 3, 4).reshape(down * height, across * width, channels)


def _picture(pixels: np.ndarray) -> Any:
    return require("PIL.Image", "plots", "a summary of an image").fromarray(
        pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    )


def _image_value(tag: str, picture: Any, channels: int, data: bytes | None = None) -> bytes:
    if data is None:
        buffer = io.BytesIO()
        picture.save(buffer, "PNG")
        data = buffer.getvalue()
    width, height = picture.size
    return fields((1, tag), (4, fields((1, height), (2, width), (3, channels), (4, data))))


def image(tag: str, values: Any, layout: str, boxes: Any = None, labels: Sequence[str] | None = None) -> bytes:
    """An image, or several as one. boxes [n, 4]: left, top, right and bottom of rectangles, drawn with their labels."""
    pixels = _grid(_pixels(tag, values, layout))
    picture = _picture(pixels)
    if boxes is not None:
        picture = picture.convert("RGB")
        pen = require("PIL.ImageDraw", "plots", "a summary of an image").Draw(picture)
        for k, box in enumerate(array_of(boxes).reshape(-1, 4).tolist()):
            pen.rectangle(box, outline=(255, 0, 0), width=2)
            if labels is not None:
                pen.text((box[0] + 3, box[1] + 2), labels[k], fill=(255, 0, 0))
    return _image_value(tag, picture, len(picture.getbands()))


def figure(tag: str, figures: Any, close: bool) -> bytes:
    """A matplotlib figure, or several of one size as one image."""
    agg = require("matplotlib.backends.backend_agg", "plots", "a summary of a figure")
    several = figures if isinstance(figures, list | tuple) else [figures]
    pixels = []
    for one in several:
        canvas = agg.FigureCanvasAgg(one)
        canvas.draw()
        pixels.append(np.asarray(canvas.buffer_rgba())[..., :3])
        if close:
            require("matplotlib.pyplot", "plots", "a summary of a figure").close(one)
    return image(tag, np.stack(pixels), "NHWC")


def video(tag: str, values: Any, fps: float) -> bytes:
    """Frames [n, time, channels, height, width] as one moving picture."""
    array = array_of(values)
    if array.ndim != 5:
        raise ShapeError(f"[SummaryWriter] the video {tag!r} has the shape {array.shape}: (N, T, C, H, W) is wanted.")
    frames = [_picture(_grid(_pixels(tag, array[:, k], "NCHW"))) for k in range(array.shape[1])]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=round(1000 / fps), loop=0)
    return _image_value(tag, frames[0], array.shape[2], buffer.getvalue())


def audio(tag: str, values: Any, rate: int) -> bytes:
    """Samples from -1 to 1, one channel."""
    sound = (np.clip(array_of(values).astype(np.float64).ravel(), -1, 1) * 32767).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(int(rate))
        file.writeframes(sound.tobytes())
    content = fields((1, Float32(rate)), (2, 1), (3, len(sound)), (4, buffer.getvalue()), (5, "audio/wav"))
    return fields((1, tag), (6, content))


def _plugin(name: str, content: bytes) -> bytes:
    return fields((1, fields((1, name), (2, content))))


def _shape(*sizes: int) -> bytes:
    return fields(*((2, fields((1, size))) for size in sizes))


def text(tag: str, words: str) -> bytes:
    """A text in Markdown."""
    content = fields((1, STRING), (2, _shape(1)), (8, str(words)))
    return fields((1, f"{tag}/text_summary"), (8, content), (9, _plugin("text", b"")))


def pr_curve(tag: str, labels: Any, predictions: Any, thresholds: int, weights: Any) -> bytes:
    """Precision and recall of a classifier at so many thresholds between 0 and 1."""
    truth, odds = array_of(labels).ravel().astype(bool), array_of(predictions).ravel().astype(np.float64)
    weight = (
        np.ones(len(odds)) if weights is None else np.broadcast_to(array_of(weights).astype(float).ravel(), odds.shape)
    )
    place = np.clip((odds * (thresholds - 1)).astype(np.int64), 0, thresholds - 1)
    yes, no = (np.bincount(place[w], weight[w], thresholds)[::-1].cumsum()[::-1] for w in (truth, ~truth))
    least = np.finfo(np.float64).tiny
    counts = [yes, no, no[0] - no, yes[0] - yes, yes / np.maximum(least, yes + no), yes / np.maximum(least, yes[0])]
    data = np.stack(counts).astype("<f4").tobytes()
    content = fields((1, FLOAT), (2, _shape(6, thresholds)), (4, data))
    return fields((1, tag), (8, content), (9, _plugin("pr_curves", fields((2, thresholds)))))


def hyperparameters(values: Mapping[str, Any], measures: Mapping[str, Any]) -> list[bytes]:
    """What the plugin for hyperparameters asks for: the experiment, the begin of a session and its end."""
    infos, entries = [], []
    for name, given in values.items():
        value = array_of(given).item() if isinstance(given, Tensor | np.generic | np.ndarray) else given
        if isinstance(value, bool):
            kind, held = 2, fields((4, value))
        elif isinstance(value, int | float):
            kind, held = 3, fields((2, float(value)))
        else:
            kind, held = 1, fields((3, value if isinstance(value, str) else json.dumps(value, default=str)))
        infos.append(fields((1, name), (4, kind)))
        entries.append(fields((1, name), (2, held)))
    metrics = [fields((1, fields((2, tag)))) for tag in measures]
    parts = {
        "experiment": (2, fields(*((4, info) for info in infos), *((5, metric) for metric in metrics))),
        "session_start_info": (3, fields(*((1, entry) for entry in entries))),
        "session_end_info": (4, fields((1, 1))),
    }
    return [fields((1, f"_hparams_/{k}"), (9, _plugin("hparams", fields(part)))) for k, part in parts.items()]
