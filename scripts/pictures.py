"""The pictures of docs/images, from trainings: python scripts/pictures.py [--runs FOLDER] [--device auto] [NAME ...].

A run that lies in the folder, trained to its end, is only drawn anew; any other is trained first. Automata take minutes on a
CPU, seconds on a GPU. The others: coevolution-*.png are what `benchmarks/coevolution.py` writes, page-*.png screenshots of the
exported pages, by hand.
"""

from __future__ import annotations

import argparse
import shutil
from itertools import accumulate
from pathlib import Path

from PIL import Image, ImageSequence

from shadergrad import cli
from shadergrad.checkpoint import TENSORS_FILE
from shadergrad.logic.circuit import load, to_svg

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
# by recipe: what its run draws, and what that is called here
RUNS = {
    "xor": {"surface.png": "xor-surface.png"},
    "regression": {"line.png": "regression-line.png"},
    "digits": {"curve.png": "digits-curve.png"},
    "autoencoder": {"reconstructions.png": "autoencoder.png"},
    "char-lm": {"curve.png": "char-lm-curve.png"},
    "life": {"loss.png": "life-loss.png", "gates.png": "life-gates.png"},
    "checkerboard": {"loss.png": "checkerboard-loss.png"},
    "checkerboard-async": {
        "loss.png": "checkerboard-async-loss.png",
        "robustness.png": "checkerboard-async-robustness.png",
        "rollout.gif": "checkerboard-async.gif",
    },
    "lizard": {"loss.png": "lizard-loss.png", "rollout.gif": "lizard.gif"},
    "letter-g": {"loss.png": "letter-g-loss.png", "rollout.gif": "letter-g.gif"},
}
AUTOMATA = "automata"  # rollouts side by side, as the README shows them
SIDE, GAP, TICK, FIRST = 280, 14, 150, 3000  # pixels, pixels, ms, ms: of the frame that stands where nothing moves
STUDY = "checkerboard-study"
CIRCUIT = "checkerboard-circuit"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join([*RUNS, STUDY, AUTOMATA])}; by default all"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--device", default="auto")
    chosen = parser.parse_args()
    for name in chosen.names or [*RUNS, STUDY, AUTOMATA]:
        if name == AUTOMATA:
            side_by_side("lizard.gif", "checkerboard-async.gif", "letter-g.gif")
        elif name == STUDY:
            study(chosen.runs, chosen.device)
        else:
            draw(name, chosen.runs / name, chosen.device)


def draw(recipe: str, run: Path, device: str) -> None:
    """Train what is left of a run, which draws its pictures, and take them over."""
    resume = ["--resume"] if (run / TENSORS_FILE).exists() else []
    command("train", recipe, "--out", str(run), "--device", device, *resume)
    for drawn, name in RUNS[recipe].items():
        shutil.copyfile(run / drawn, IMAGES / name)
    if recipe == "checkerboard":
        (IMAGES / f"{CIRCUIT}.svg").write_text(to_svg(load(run / "circuit.json").named))  # type: ignore[union-attr]


def study(runs: Path, device: str) -> None:
    """When the seeds of the checkerboard converge."""
    out = runs / STUDY
    command("logic", "study", "checkerboard", "--seeds", "20", "--out", str(out), "--device", device)
    shutil.copyfile(out / "study.png", IMAGES / f"{STUDY}.png")


def side_by_side(*names: str) -> None:
    """One animation of equal squares, from animations that are drawn: each begins anew when it has ended."""
    rolls = []
    for name in names:
        with Image.open(IMAGES / name) as file:
            frames = [
                (f.convert("RGB").resize((SIDE, SIDE), Image.Resampling.NEAREST), f.info["duration"])
                for f in ImageSequence.Iterator(file)
            ]
        rolls.append(([frame for frame, _ in frames], list(accumulate(duration for _, duration in frames))))
    pictures = []
    for now in range(FIRST, FIRST + max(ends[-1] for _, ends in rolls), TICK):
        picture = Image.new("RGB", (len(rolls) * (SIDE + GAP) - GAP, SIDE), "white")
        for place, (frames, ends) in enumerate(rolls):
            shown = next(i for i, end in enumerate(ends) if now % ends[-1] < end)
            picture.paste(frames[shown], (place * (SIDE + GAP), 0))
        pictures.append(picture)
    palette = max(pictures, key=lambda picture: len(picture.getcolors(SIDE * SIDE) or ())).quantize(32)
    drawn = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    drawn[0].save(
        IMAGES / f"{AUTOMATA}.gif", save_all=True, append_images=drawn[1:], duration=TICK, loop=0, optimize=True
    )


def command(*words: str) -> None:
    if cli.run(list(words)):
        raise SystemExit(f"shadergrad {' '.join(words)} failed")


if __name__ == "__main__":
    main()
