"""An automaton of logic gates that turns noise into a checkerboard, with asynchronous cells; see `shadergrad.logic.experiments`."""

from __future__ import annotations

from .logic.automaton import automaton_recipe

RECIPE = automaton_recipe(
    "checkerboard-async", "A checkerboard of noise, where each cell changes with probability 0.6 a step."
)
