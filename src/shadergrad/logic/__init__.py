"""Networks and cellular automata of learned logic gates.

Gates are relaxed to functions on [0, 1]^2, mixed by softmax, trained by gradients, and hardened to circuits of bits.
gates.py: the sixteen gates. wiring.py: the wires that a gate reads. layers.py, lookup_tables.py, convolution.py, encoding.py: networks and their inputs.
hardening.py: a trained classifier as a circuit. automata.py: cellular automata. experiments.py: five published ones. circuit/: circuits, minimized and exported.
"""

from . import circuit, experiments, gates, learned_wires, lookup_tables, wiring
from .automata import LogicCA, Perception, Update, squared_error
from .convolution import LogicConv2d, OrPool2d
from .encoding import Thermometer
from .hardening import harden
from .layers import GateLayer, GroupSum, LogicLayer, LogicNetwork
from .lookup_tables import LookupLayer
from .regularisers import gate_entropy, wire_entropy
from .remedies import Remedies, focal_error

__all__ = [
    "GateLayer",
    "GroupSum",
    "LogicCA",
    "LogicConv2d",
    "LogicLayer",
    "LogicNetwork",
    "LookupLayer",
    "OrPool2d",
    "Perception",
    "Remedies",
    "Thermometer",
    "Update",
    "circuit",
    "experiments",
    "focal_error",
    "gate_entropy",
    "gates",
    "harden",
    "learned_wires",
    "lookup_tables",
    "squared_error",
    "wire_entropy",
    "wiring",
]
