"""Pictures of networks and automata of gates. In: losses, counts, boards. Out: PNGs and GIFs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from shadergrad.system.optional_packages import require
from shadergrad.train.plots import figure_module, or_the_reason, plain_axes

BLUE, ORANGE, GREY = "tab:blue", "tab:orange", "0.45"
Curve = Sequence[Sequence[float]]


@or_the_reason
def loss_plot(
    losses: np.ndarray, png_path: str | Path, published: Mapping[str, Curve] | None = None, title: str = ""
) -> str | None:
    """Draw soft and hard loss over optimizer steps, above 1 on logarithmic axes: pale as they are, bold their running mean.

    losses: (steps, 2). published: [step, loss] pairs under "soft" and "hard"; their running mean is a thin black line.
    Returns None, or one line that says why nothing was drawn.
    """
    figures = figure_module("the loss plot")
    figure = figures.Figure(figsize=(7, 5), dpi=150, layout="constrained")
    window = max(1, len(losses) // 100)
    panels = figure.subplots(2, sharex=True)
    for axes, column, name, color in ((panels[0], 0, "soft", BLUE), (panels[1], 1, "hard", ORANGE)):
        axes.plot(losses[:, column], color=color, linewidth=0.6, alpha=0.35)
        mean = f", mean of {window} steps" if window > 1 else ""
        axes.plot(_running_mean(losses[:, column], window), color=color, linewidth=1.6, label=f"{name} loss{mean}")
        if published:
            x, y = np.array(published[name], float).T
            curve = _running_mean(np.interp(np.arange(x[-1] + 1), x, y), window)
            axes.plot(curve, color="black", linewidth=0.7, label="published", zorder=5)
        axes.set_yscale("symlog", linthresh=1)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, max(len(losses), 2))
        axes.legend(frameon=False)
        plain_axes(axes)
    panels[0].set_ylabel("squared error")
    panels[1].set_ylabel("wrong bits")
    panels[1].set_xlabel("optimizer step")
    panels[1].xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    figure.suptitle(title, fontsize=11)
    figure.savefig(png_path)
    return None


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """The running mean over `window` neighbours, fewer at the ends."""
    ones = np.ones(window)
    return (
        np.convolve(values, ones, "same")[: len(values)]
        / np.convolve(np.ones(len(values)), ones, "same")[: len(values)]
    )


@or_the_reason
def gate_plot(
    hardened: Mapping[str, int], simplified: Mapping[str, int], png_path: str | Path, title: str = ""
) -> str | None:
    """Draw the number of gates of each kind, in the hardened and in the simplified circuit.

    Returns None, or one line that says why nothing was drawn.
    """
    figures = figure_module("the gate histogram")
    names = [name for name in hardened if hardened[name] or simplified[name]]
    figure = figures.Figure(figsize=(7, 1.6 + 0.36 * len(names)), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for shift, color, label, counts in ((-0.21, "0.75", "hardened", hardened), (0.21, BLUE, "simplified", simplified)):
        values = [counts[name] for name in names]
        bars = axes.barh(
            np.arange(len(names)) + shift, values, 0.42, color=color, label=f"{label}: {sum(values):,} gates"
        )
        axes.bar_label(bars, [f"{v:,}" if v else "" for v in values], padding=2, fontsize=7, color="0.25")
    axes.set_yticks(np.arange(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("symlog", linthresh=1)
    most = 3 * max(1, *hardened.values())
    axes.set_xticks([0, *(10**k for k in range(6) if 10**k < most)])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlim(0, most)
    axes.set_xlabel("gates, kinds that there are none of left out")
    axes.set_title(title, fontsize=11)
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    plain_axes(axes)
    axes.grid(visible=False, axis="y")
    figure.savefig(png_path)
    return None


@or_the_reason
def robustness_plot(
    wrong: Sequence[int], png_path: str | Path, cells: int, published: float | None, title: str = ""
) -> str | None:
    """Draw the wrong cells of a damaged board over its steps, with the article's mean as a dashed line.

    Returns None, or one line that says why nothing was drawn.
    """
    figures = figure_module("the robustness plot")
    figure = figures.Figure(figsize=(7, 3), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.plot(wrong, color=BLUE, linewidth=0.6)
    if published is not None:
        axes.axhline(published, color=ORANGE, linewidth=1, linestyle="--", label=f"published mean {published:g}")
    axes.axhline(cells / 2, color=GREY, linewidth=0.8, linestyle=":", label="half of them: noise")
    axes.set_ylim(0, 0.6 * cells)
    axes.set_xlim(0, len(wrong))
    axes.set_xlabel("step of the automaton")
    axes.set_ylabel("wrong cells")
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.set_title(title, fontsize=11)
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    plain_axes(axes)
    figure.savefig(png_path)
    return None


@or_the_reason
def convergence_plot(
    zero_from: Sequence[int], seeds: int, steps: int, png_path: str | Path, title: str = ""
) -> str | None:
    """Draw the share of `seeds` trainings that had converged by each step; zero_from: the steps of those that did.

    Returns None, or one line that says why nothing was drawn.
    """
    figures = figure_module("the plot of convergence")
    figure = figures.Figure(figsize=(7, 3.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    when = sorted(zero_from)
    axes.step([0, *when, steps], [*range(len(when) + 1), len(when)], where="post", color=BLUE)
    axes.plot(when, range(1, len(when) + 1), "o", color=BLUE, markersize=5)
    axes.set_xlim(0, steps)
    axes.set_ylim(0, 1.05 * seeds)
    axes.yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.set_xlabel("optimizer step from which the hard loss stays 0")
    axes.set_ylabel(f"of {seeds} seeds")
    axes.set_title(title, fontsize=11)
    if when:
        axes.text(steps, len(when), f"{len(when)} of {seeds} ", ha="right", va="bottom", color=BLUE)
    if not when:
        told = f"none of {seeds} seeds converged in {steps:,} steps"
        axes.text(0.5, 0.5, told, transform=axes.transAxes, ha="center", color=GREY)
    plain_axes(axes)
    figure.savefig(png_path)
    return None


COLOURS = np.array(
    [
        (246, 244, 238),
        (219, 68, 55),
        (15, 157, 88),
        (244, 180, 0),
        (66, 133, 244),
        (170, 60, 160),
        (40, 170, 190),
        (90,) * 3,
    ],
    np.uint8,
)
"""(8, 3): the colour of a cell by its red (1), green (2) and blue (4) bits."""
INK = np.array([(246, 244, 238), (32, 48, 82)], np.uint8)


@or_the_reason
def animation(states: np.ndarray, gif_path: str | Path, pixels: int = 320, seconds: float = 8) -> str | None:
    """Draw a rollout as a GIF: states (frames, H, W, 1 or 3) of bits, with one channel in ink, with three in colours.

    pixels: about how wide. seconds: how long at most; the last frame stays for 1.5 s more.
    Returns None, or one line that says why nothing was drawn.
    """
    images = require("PIL.Image", "plots", "the animation")
    width, channels = states.shape[2:]
    scale = max(1, pixels // width)
    palette = INK if channels == 1 else COLOURS
    codes = (states.astype(np.uint8) << np.arange(channels, dtype=np.uint8)).sum(-1, dtype=np.uint8)
    frames = []
    for code in codes:
        frame = images.fromarray(np.kron(code, np.ones((scale, scale), np.uint8)))
        frame.putpalette(palette.tobytes())
        frames.append(frame)
    each = int(min(150, max(20, 1000 * seconds / len(frames))))
    durations = [each] * (len(frames) - 1) + [each + 1500]
    frames[0].save(gif_path, save_all=True, append_images=frames[1:], duration=durations, loop=0, disposal=1)
    return None
