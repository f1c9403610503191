"""An automaton of logic gates that draws a letter in four colours; see `shadergrad.logic.experiments`."""

from __future__ import annotations

from .logic.automaton import automaton_recipe

RECIPE = automaton_recipe("letter-g", "An automaton of gates that draws a letter in four colours.")
