"""The Game of Life, learned by logic gates; see `shadergrad.logic.experiments`."""

from __future__ import annotations

from .logic.automaton import automaton_recipe

RECIPE = automaton_recipe("life", "Game of Life, learned by gates from its 512 neighbourhoods.")
