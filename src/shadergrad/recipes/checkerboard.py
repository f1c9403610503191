"""A checkerboard made of noise by an automaton of logic gates; see `shadergrad.logic.experiments`."""

from __future__ import annotations

from .logic.automaton import automaton_recipe

RECIPE = automaton_recipe("checkerboard", "An automaton of gates that makes a checkerboard of noise.")
