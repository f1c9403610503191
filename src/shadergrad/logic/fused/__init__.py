"""Logic automata whose whole cell is one kernel: a dispatch a step forward, and one backward.

cell.py: sizes and wires. shader.py: the kernels of a step. rollout.py: many steps, as primitives of a graph.
reference.py: the same in NumPy.
"""
