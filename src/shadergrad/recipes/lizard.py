"""An automaton of logic gates that grows a lizard from one cell; see `shadergrad.logic.experiments`."""

from __future__ import annotations

from .logic.automaton import automaton_recipe

RECIPE = automaton_recipe("lizard", "An automaton of gates that grows a lizard from one cell.")
