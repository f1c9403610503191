"""Random trainings, run in PyTorch and here: modules, optimizers with groups, schedules, clipping, accumulation, freezing, batch
sizes, saving and resuming. `draw.py` makes one of a number, `course.py` runs it, `compare.py` says what differs.
"""
