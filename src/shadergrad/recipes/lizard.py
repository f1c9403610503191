"""A lizard grown from one cell by an automaton of logic gates; see `shadergrad.logic.experiments`."""

from __future__ import annotations

from .logic.automaton import automaton_recipe

RECIPE = automaton_recipe("lizard", "An automaton of gates that grows a lizard from one cell.")
