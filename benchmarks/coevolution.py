"""The contacts of held-out families by the coevolution transformer, beside MI+APC, mfDCA and plmDCA, over depth.

    python benchmarks/coevolution.py --device webgpu --out runs/coevolution-curve
    python benchmarks/coevolution.py --small --device cpu

Synthetic families (shadergrad.models.coevolution.synthetic) share one residue-pair potential. Phase 1 reads pairs of
families without their contacts, phase 2 those of a few other families with them; what is measured are families that
neither has seen. Phase 2 is trained twice, from phase 1 and from random weights, with equal steps and batches. Everything
follows from --seed. Writes curve.json, curve-*.png and map.png.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import shadergrad as sg
from record import Folder, Measured, keep
from shadergrad.models import coevolution as co
from shadergrad.runtime.device import get_device
from shadergrad.train import TrainingStep, WarmUpCosine
from shadergrad.train.plots import figure_module, or_the_reason, plain_axes

ON_THE_HOST = ("MI+APC", "mfDCA")  # NumPy alone, so by several processes
DEPTHS = (8, 32, 100, 300, 1000)
TRAINED_DEPTH = 16  # pairs of a training family
SMALL = {"phase1": 3, "phase2": 3, "families": 4, "labelled": 3, "held_out": 2}


def one_family(task: tuple[int, int, co.Physics, int, float | None]) -> co.Family:
    seed, number, physics, depth, mutations = task
    rng = np.random.default_rng((seed, number))
    return co.sample_family(f"synthetic-{seed}-{number}", rng, physics, depth, mutations)


def families_of(
    count: int, depth: int, seed: int, physics: co.Physics, mutations: float | None = None
) -> list[co.Family]:
    """As co.sample_families, by several processes."""
    tasks = [(seed, k, physics, depth, mutations) for k in range(count)]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return list(pool.map(one_family, tasks, chunksize=16))


def train(
    phase: str, transformer: co.CoevolutionTransformer, families: list[co.Family], steps: int, options: dict[str, Any]
) -> Any:
    """The transformer with the head of a phase, trained."""
    device, name = options["device"], options["name"]
    model = co.model_for(phase, transformer).to(device).train()
    loss = co.MaskedTokens() if phase == "mlm" else co.Contacts(co.contact_balance(families))
    optimizer = sg.optim.AdamW(co.decay_groups(model, options["weight_decay"]), lr=options["lr"])
    objective = co.Objective(model, loss)

    def clip() -> None:
        sg.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    step = TrainingStep(model, optimizer, objective.total, backward="shaders", weight=objective.weight, finish=clip)
    rate = WarmUpCosine(steps // 10, steps)
    batches = co.Batches(families, phase, options["batch_size"], seed=options["seed"], most=1)
    started, losses, latest = time.perf_counter(), [], None
    for k in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = options["lr"] * rate(k)
        latest = step(*(sg.tensor(array, device=device) for array in batches.at(k)))
        if k % max(steps // 10, 1) == 0 or k == steps - 1:
            losses.append(round(latest.item(), 4))
    speed = steps * options["batch_size"] / (time.perf_counter() - started)
    print(f"{name} {phase}: {steps} steps, losses {losses}, {speed:.0f} pairs/s", flush=True)
    return model


def measured(task: tuple[Callable[[co.Family], np.ndarray], co.Family, int]) -> dict[str, float]:
    """The measures of a family by a method, on its first pairs."""
    predict, family, depth = task
    assert family.contacts is not None
    return co.measure(predict(family.first(depth)), family.contacts)


def summary(found: list[dict[str, float]]) -> dict[str, list[float]]:
    """Means over families with their intervals: name to (mean, low, high)."""
    values = {name: [row[name] for row in found] for name in found[0]}
    return {n: [round(x, 4) for x in (float(np.mean(v)), *co.bootstrap_interval(v))] for n, v in values.items()}


def methods(
    models: dict[str, Any], device: str, regularization: float, longest: int
) -> dict[str, Callable[[co.Family], np.ndarray]]:
    """Everything that is compared, by name. longest: of the chains; the model's input is padded to it."""
    shape = longest, longest

    def by_model(model: Any) -> Callable[[co.Family], np.ndarray]:
        predictor = co.FamilyPredictor(model, device, batch_size=256)
        return lambda family: predictor(family, shape)

    return {
        "MI+APC": co.dca.mutual_information,
        "mfDCA": co.dca.mean_field,
        "plmDCA": lambda family: co.dca.pseudo_likelihood(family, device, regularization),
        **{name: by_model(model) for name, model in models.items()},
    }


def compare(
    name: str, unseen: list[co.Family], counts: list[int], by: dict[str, Callable[[co.Family], np.ndarray]]
) -> dict[str, dict[int, Any]]:
    """The curves of all methods over depth, printed as they come."""
    curves: dict[str, dict[int, Any]] = {}
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:  # a forked process would share the GPU's handles
        for method, predict in by.items():
            began = time.perf_counter()
            run = pool.map if method in ON_THE_HOST else map
            curves[method] = {
                depth: summary(list(run(measured, [(predict, family, depth) for family in unseen]))) for depth in counts
            }
            shown = "  ".join(f"{d}: {c['P@L'][0]:.3f} {c['AP'][0]:.3f}" for d, c in curves[method].items())
            print(f"{name} {method:22} P@L AP  {shown}   ({time.perf_counter() - began:.1f} s)", flush=True)
    return curves


def precisions(test: str, curves: dict[str, dict[int, Any]], small: bool) -> list[Measured]:
    """Of the model's curve, the others as its peers."""
    name = "model" if "model" in curves else "model without phase 1"
    own = curves[name]
    size = f"{name.removeprefix('model')}{', small' if small else ''}"
    return [
        Measured(
            f"{test} families of {depth} pairs{size}",
            quantity,
            values[key][0],
            "share",
            {method: curve[depth][key][0] for method, curve in curves.items() if curve is not own},
            "95 % of {:.2f} to {:.2f}".format(*values[key][1:]),
        )
        for depth, values in own.items()
        for key, quantity in (("P@L", "precision at L"), ("AP", "average precision"))
    ]


@or_the_reason
def draw_curves(curves: dict[str, dict[int, Any]], path: Path) -> str | None:
    """Precision at L and average precision over depth, a line a method, with intervals. None, or why nothing was drawn."""
    figures = figure_module("the curve over depth")
    figure = figures.Figure(figsize=(9, 3.6), dpi=90, layout="constrained")
    for k, (measure, title) in enumerate((("P@L", "precision at L"), ("AP", "average precision"))):
        axes = figure.add_subplot(1, 2, k + 1)
        depths = [int(depth) for depth in next(iter(curves.values()))]
        for number, (name, curve) in enumerate(curves.items()):
            means, lows, highs = zip(*(values[measure] for values in curve.values()), strict=True)
            axes.plot(depths, means, "o-", markersize=4, color=f"C{number}", label=name)
            axes.fill_between(depths, lows, highs, color=f"C{number}", alpha=0.15, linewidth=0)
        axes.set_xscale("log")
        axes.set_ylim(0, 1.02)
        axes.set_xticks(depths, [str(depth) for depth in depths])
        axes.minorticks_off()
        axes.set_xlabel("pairs of sequences in the family")
        axes.set_title(title, fontsize=10)
        plain_axes(axes)
        if k == 0:
            axes.legend(fontsize=8, loc="upper left")
    figure.savefig(path)
    return None


@or_the_reason
def draw_maps(maps: dict[str, np.ndarray], contacts: np.ndarray, path: Path) -> str | None:
    """Scores of one family by each method, planted contacts as rings. Returns None, or why nothing was drawn."""
    figures = figure_module("the contact maps")
    figure = figures.Figure(figsize=(3.2 * len(maps), 3.4), dpi=90, layout="constrained")
    rows, columns = np.nonzero(contacts)
    for k, (name, scores) in enumerate(maps.items()):
        axes = figure.add_subplot(1, len(maps), k + 1)
        low, high = np.quantile(scores, [0.5, 0.998])
        axes.imshow(scores, cmap="Blues", vmin=low, vmax=high)
        axes.scatter(columns, rows, s=26, facecolors="none", edgecolors="tab:red", linewidths=0.9)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("residue of b", fontsize=8)
        axes.set_ylabel("residue of a", fontsize=8)
    figure.savefig(path)
    return None


def main(
    device: str = "webgpu",
    out: Path = Path("runs/coevolution-curve"),
    phase1: Annotated[int, typer.Option(help="Steps of masked language modelling; 0 for none.")] = 6000,
    phase2: Annotated[int, typer.Option(help="Steps of contact prediction.")] = 1500,
    families: Annotated[int, typer.Option(help="Families of phase 1.")] = 4096,
    labelled: Annotated[int, typer.Option(help="Families of phase 2, whose contacts are known.")] = 4096,
    held_out: Annotated[int, typer.Option(help="Families that are measured.")] = 24,
    batch_size: int = 64,
    lr1: Annotated[float, typer.Option(help="Learning rate of phase 1.")] = 1e-3,
    lr2: Annotated[float, typer.Option(help="Learning rate of phase 2.")] = 5e-4,
    weight_decay: float = 0.01,
    dropout: float = 0.1,
    regularization: Annotated[float, typer.Option(help="Of plmDCA.")] = 0.1,
    mutations: Annotated[float, typer.Option(help="Of a second test, along trees; 0 for none. See Physics.")] = 0.15,
    small: Annotated[bool, typer.Option(help="A few steps of a small model, to see that it runs.")] = False,
    seed: int = 0,
    results: Folder = None,
) -> None:
    """Train, measure over depth, and write the curve."""
    if small:
        phase1, phase2, families, labelled, held_out = SMALL.values()
    sizes = {"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 16} if small else {}
    counts: list[int] = [8, 12] if small else list(DEPTHS)
    physics = co.Physics(lengths=(8, 9)) if small else co.Physics()
    started = time.perf_counter()
    unlabelled = families_of(families, TRAINED_DEPTH, seed + 1, physics)
    known = families_of(labelled, TRAINED_DEPTH, seed + 2, physics)
    tests = {"independent": families_of(held_out, max(counts), seed + 3, physics)}
    if mutations:
        tests["tree"] = families_of(held_out, max(counts), seed + 4, physics, mutations)
    print(f"families: {time.perf_counter() - started:.1f} s", flush=True)
    options = {"device": device, "weight_decay": weight_decay, "batch_size": batch_size, "seed": seed}
    models = {}
    for name in (["model"] if phase1 else []) + ["model without phase 1"]:
        sg.manual_seed(seed)
        transformer = co.CoevolutionTransformer(**sizes, dropout=dropout)
        if name == "model":
            train("mlm", transformer, unlabelled + known, phase1, options | {"name": name, "lr": lr1})
        models[name] = train("contacts", transformer, known, phase2, options | {"name": name, "lr": lr2})
    out.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        sg.save(model.state_dict(), out / f"{name.replace(' ', '-')}.safetensors")
    by = methods(models, device, regularization, physics.lengths[1])
    neff = {
        name: round(float(np.mean([co.effective_depth(f)[0] for f in unseen])), 1) for name, unseen in tests.items()
    }
    settings = {"phase1": phase1, "phase2": phase2, "families": families, "labelled": labelled, "held_out": held_out}
    settings |= options | {"lr1": lr1, "lr2": lr2, "dropout": dropout, "mutations": mutations, "plm": regularization}
    settings |= {"device": get_device(device).describe(), "Neff": neff}
    example, depth = tests["independent"][0], counts[min(2, len(counts) - 1)]
    maps = {name: np.round(predict(example.first(depth)), 4) for name, predict in by.items()}
    assert example.contacts is not None
    document: dict[str, Any] = {"settings": settings, "curves": {}, "truth": example.contacts.astype(int).tolist()}
    document |= {"maps": {name: scores.tolist() for name, scores in maps.items()}, "depth of the maps": depth}
    shown = {name: scores for name, scores in maps.items() if name in ("model", "plmDCA", "MI+APC")}
    complaints = [draw_maps(shown, example.contacts, out / "map.png")]
    for name, unseen in tests.items():
        curve = compare(name, unseen, counts, by)
        document["curves"][name] = curve
        keep(results, "coevolution", device, precisions(name, curve, small))
        (out / "curve.json").write_text(json.dumps(document) + "\n", encoding="utf-8")
        complaints.append(draw_curves(curve, out / f"curve-{name}.png"))
        by.pop("model without phase 1", None)  # a question for the first test
    print("\n".join(filter(None, complaints)), end="")
    print(f"in {out}: curve.json, curve-*.png, map.png; {time.perf_counter() - started:.0f} s in all", flush=True)


if __name__ == "__main__":
    typer.run(main)
