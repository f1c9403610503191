"""How often and when an experiment with automata converges, over seeds; see `logic.study`."""

from __future__ import annotations

from pathlib import Path

from shadergrad.logic.experiments import EXPERIMENTS, SEED
from shadergrad.train import Option, Recipe
from shadergrad.train.recipe import DEVICE

from .logic.study import study_experiment

RECIPE = Recipe(
    "How often and when training converges, seed by seed. Run again, it goes on where it was stopped.",
    train=study_experiment,
    options=(
        Option("experiment", str, f"One of {', '.join(EXPERIMENTS)}.", positional=True),
        Option("seeds", int, "How many seeds.", 20),
        Option("first_seed", int, "The first of them; the others follow.", SEED),
        DEVICE,
        Option("steps", int, "Optimizer steps of each.", shown="the experiment's"),
        Option("batch_size", int, "Start states a step.", shown="the experiment's"),
        Option("out", Path, "The folder to write.", shown="runs/study-EXPERIMENT"),
    ),
)
