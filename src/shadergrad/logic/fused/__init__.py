"""Logic automata and networks whose layers are one kernel: a dispatch forward, and one backward.

cell.py: sizes and wires. layers.py: what the kernels share. shader.py: the kernels of an automaton's step. rollout.py: many
steps, as primitives of a graph. network.py: a network, as a primitive. reference.py: the same in NumPy.
"""
