"""Whole trainings, from data to checkpoint: `shadergrad train NAME`.

A recipe is a short file with a function `build(settings, device) -> Task`: its data, model, optimizer and step.
`loop.train` does what all of them share. A recipe becomes a command, with its own defaults, in `shadergrad.cli`.
"""
