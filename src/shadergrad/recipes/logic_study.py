"""A study over seeds: how often and when an experiment with automata converges; see `logic.study`."""

from __future__ import annotations

from pathlib import Path

from shadergrad.logic.experiments import EXPERIMENTS, SEED
from shadergrad.train import Option, Recipe
from shadergrad.train.recipe import DEVICE

from .logic.automaton import REMEDIES
from .logic.study import study_experiment

RECIPE = Recipe(
    "How often and when training converges, seed by seed. Run again, it goes on where it was stopped.",
    train=study_experiment,
    options=(
        Option("experiment", str, f"One of {', '.join(EXPERIMENTS)}.", positional=True),
        Option("seeds", int, "Number of seeds.", 20),
        Option("first_seed", int, "The first seed; the others count up from it.", SEED),
        DEVICE,
        Option("steps", int, "Optimizer steps per seed.", shown="the experiment's"),
        Option("batch_size", int, "Start states per step.", shown="the experiment's"),
        *REMEDIES,
        Option("out", Path, "The folder to write.", shown="runs/study-EXPERIMENT"),
    ),
)
