"""Circuits of two-input gates, the result of a trained logic network. Minimize, compare, run, export.

Circuits are NumPy arrays, boards are packed 64 cells a word; only a board on a device (device_board.py) is a tensor.
circuit.py: gates and wires. cell.py: a circuit as the rule of a cellular automaton. minimize.py, equivalence.py.
classifier.py, native_classifier.py, device_classifier.py: circuits that classify, run by NumPy, by compiled C, and on a device;
counting.py: their counts as gates.
packed_board.py, native_board.py, device_board.py: boards, stepped by NumPy, by compiled C, and on a device. circuit_files.py: JSON.
export_*.py: C, Verilog, WGSL, WebAssembly, BLIF, AIGER, DOT, SVG.
"""

from .cell import CellCircuit
from .circuit import Circuit
from .circuit_files import from_json, load, save, to_json
from .classifier import CircuitClassifier
from .device_board import DeviceBoard
from .device_classifier import DeviceClassifier
from .equivalence import Counterexample, Equivalence, equivalent
from .errors import CircuitError
from .export_blif import to_aiger, to_blif
from .export_c import cell_to_c, to_c
from .export_dot import to_dot
from .export_svg import to_svg
from .export_verilog import cell_to_verilog, classifier_to_verilog, to_verilog
from .export_wasm import classifier_to_javascript, to_wasm
from .export_wgsl import cell_to_wgsl, to_wgsl
from .gate_counts import GateCounts, count_gates, histogram
from .minimize import minimize
from .native_board import NativeBoard
from .native_classifier import NativeClassifier
from .packed_board import Board, BoardRunner

__all__ = [
    "Board",
    "BoardRunner",
    "CellCircuit",
    "Circuit",
    "CircuitClassifier",
    "CircuitError",
    "Counterexample",
    "DeviceBoard",
    "DeviceClassifier",
    "Equivalence",
    "GateCounts",
    "NativeBoard",
    "NativeClassifier",
    "cell_to_c",
    "cell_to_verilog",
    "cell_to_wgsl",
    "classifier_to_javascript",
    "classifier_to_verilog",
    "count_gates",
    "equivalent",
    "from_json",
    "histogram",
    "load",
    "minimize",
    "save",
    "to_aiger",
    "to_blif",
    "to_c",
    "to_dot",
    "to_json",
    "to_svg",
    "to_verilog",
    "to_wasm",
    "to_wgsl",
]
