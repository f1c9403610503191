"""What DiLoCo costs a model in quality: the character model of the recipe char_lm after the same steps by DDP and by DiLoCo.

    python benchmarks/diloco_loss.py --results benchmarks/results
    python benchmarks/diloco_loss.py --device cpu --texts tale

All ways begin with the same weights, and each process draws the same batches in each. The figure is the loss, in nats a character, of windows of
the text that was trained on, and of its end, which was not; DDP's loss is the peer. The recipe's own tale is short: after 1,000 steps the model
knows it by heart, and its end tells nothing. Of the documentation each window is seen less than once. Starts torchrun once for each way.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from record import ROOT, Measured, keep
from scaling import DELAY, EVERY, WAYS, launched

STEPS = 1000
BATCH, RATE = 64, 3e-3  # the recipe's, in each process
EACH = 16  # of so many windows of a long text one is asked for at the end
COMPARED = ("ddp", "diloco", "diloco-late")
# Learning rate and momentum of the outer optimizer: by default for long trainings, and for one of few exchanges.
OUTER = {"default": {}, "short": {"lr": 1.0, "momentum": 0.5}}
PARTS = {"train": "loss of the text", "test": "loss of its end, held out"}
TEXTS = {"tale": ("train",), "docs": ("train", "test")}  # and the parts that tell something


def windows(name: str) -> tuple[int, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """How many characters there are; and of each part of the text all windows, with the characters behind them."""
    recipe = importlib.import_module("shadergrad.recipes.char_lm")
    text = importlib.import_module("shadergrad.data.text")
    files = [recipe.TALE] if name == "tale" else sorted((ROOT / "docs").glob("*.md"))
    whole = "".join(text.read_text(file) for file in files)
    split = len(whole) - int(len(whole) * recipe.HELD_OUT)
    vocabulary = text.Vocabulary(whole)
    found = {}
    for part, characters in (("train", whole[:split]), ("test", whole[split:])):
        given, following = text.CharDataset(characters, recipe.CONTEXT, vocabulary).windows()
        found[part] = np.ascontiguousarray(given), np.ascontiguousarray(following[:, -1])
    return len(vocabulary), found


def train(text: str, way: str, outer_rates: str, device: str, steps: int) -> dict[str, float]:
    """The losses after so many steps, in one of the processes."""
    sg: Any = importlib.import_module("shadergrad")
    recipe = importlib.import_module("shadergrad.recipes.char_lm")
    sg.distributed.init_process_group("gloo")
    rank, size = sg.distributed.get_rank(), sg.distributed.get_world_size()
    characters, parts = windows(text)
    sg.manual_seed(0)
    model = recipe.NextCharacter(characters, recipe.CONTEXT).to(device)
    run = sg.nn.parallel.DistributedDataParallel(model) if way == "ddp" else model
    inner = sg.optim.AdamW(model.parameters(), lr=RATE)
    delay = DELAY if way == "diloco-late" else 0
    outer = None if way == "ddp" else sg.optim.DiLoCo(inner, every=EVERY, delay=delay, **OUTER[outer_rates])

    @sg.compile
    def step(x: Any, y: Any) -> None:
        inner.zero_grad()
        sg.nn.functional.cross_entropy(run(x), y).backward()
        inner.step()

    def on_device(arrays: tuple[np.ndarray, np.ndarray], which: Any) -> tuple[Any, Any]:
        x, y = (sg.tensor(a[which], device=device) for a in arrays)
        return x, y

    for which in np.random.default_rng(0).integers(0, len(parts["train"][0]), (steps, size, BATCH))[:, rank]:
        step(*on_device(parts["train"], which))
        if outer is not None:
            outer.advance()
    if outer is not None:
        outer.finish()
    each = slice(None, None, 1 if text == "tale" else EACH)
    losses = {}
    with sg.no_grad():
        for part, arrays in parts.items():
            x, y = on_device(arrays, each)
            losses[part] = sg.nn.functional.cross_entropy(model(x), y).item()
    sg.distributed.destroy_process_group()
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", nargs="+", default=list(TEXTS), choices=list(TEXTS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--device", help="by default webgpu:LOCAL_RANK")
    parser.add_argument("--results", type=Path, help="a folder to keep what is measured in, as JSON")
    parser.add_argument("--text", help=argparse.SUPPRESS)  # of one of the processes
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--outer", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        device = arguments.device or f"webgpu:{os.environ['LOCAL_RANK']}"
        losses = train(arguments.text, arguments.way, arguments.outer, device, arguments.steps)
        if int(os.environ["RANK"]) == 0:
            arguments.out.write_text(json.dumps(losses))
        return
    found = {}
    for text in arguments.texts:
        for way, outer in [(way, outer) for way in COMPARED for outer in OUTER if (way, outer) != ("ddp", "short")]:
            command = ["--text", text, "--way", way, "--outer", outer, "--steps", str(arguments.steps)]
            command += ["--device", arguments.device] if arguments.device else []
            told = launched(__file__, command, arguments.processes, 240)
            if told:
                found[text, way, outer] = told
                print(f"{text}, {name_of(way, outer)}: {told}", flush=True)
    keep(arguments.results, "diloco_loss", arguments.device or "webgpu", report(found, arguments))


def name_of(way: str, outer: str) -> str:
    """Of a way with its outer rates, where these are not the defaults."""
    return ", ".join(
        [WAYS[way], *(f"outer {key.replace('lr', 'rate')} {value:g}" for key, value in OUTER[outer].items())]
    )


def report(found: dict[tuple[str, str, str], dict[str, float]], arguments: argparse.Namespace) -> list[Measured]:
    """The losses of DiLoCo, beside DDP's."""
    measured = []
    for (text, way, outer), told in found.items():
        ddp = found.get((text, "ddp", "default"))
        if way == "ddp" or ddp is None:
            continue
        for part in TEXTS[text]:
            print(f"{text}, {name_of(way, outer)}, {PARTS[part]}: {told[part] / ddp[part]:.4f} of DDP's", flush=True)
            case = f"char_lm of {text}, {name_of(way, outer)}, {arguments.processes} processes"
            how = f"after {arguments.steps} steps of {BATCH} windows in each process"
            measured.append(Measured(case, PARTS[part], told[part], "nats", {WAYS["ddp"]: ddp[part]}, how))
    return measured


if __name__ == "__main__":
    main()
