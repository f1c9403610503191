"""Fused logic automata and networks: all layers are one dispatch forward, and one backward.

cell.py: sizes and wires. layers.py: the shared parts of the kernels. shader.py: the kernels of an automaton's step. rollout.py: many
steps, as primitives of a graph. network.py: a network, as a primitive. reference.py: the same in NumPy.
"""
