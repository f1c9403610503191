"""Shared parts of the recipes of logic networks: automata as recipes, batches, reports, pictures, files and studies."""
