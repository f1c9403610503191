"""An automaton of logic gates that turns noise into a checkerboard; see `shadergrad.logic.experiments`."""

from __future__ import annotations

from .logic.automaton import automaton_recipe

RECIPE = automaton_recipe("checkerboard", "An automaton of gates that makes a checkerboard of noise.")
