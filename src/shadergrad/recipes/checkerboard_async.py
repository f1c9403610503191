"""A checkerboard made of noise by an automaton of logic gates whose cells do not change all at once; see `shadergrad.logic.experiments`."""

from __future__ import annotations

from .logic.automaton import automaton_recipe

RECIPE = automaton_recipe(
    "checkerboard-async", "A checkerboard of noise, where each cell changes with probability 0.6 a step."
)
