"""Models as ONNX files, for runtimes without this library.

    export      a model and a sample of its arguments → a program, and a file
    captured    the graph of primitives of one call; with axes whose size varies, of a few calls of other sizes
    axes        which axes these are; sizes: what sizes and numbers of the calls have in common
    writer      nodes, constants and names of the ONNX graph
    elementwise, reductions, views, calls   a rule a primitive: the ONNX operators that give its value

In: a model that is called with tensors. Out: an `onnx.ModelProto`. Only this room imports onnx and onnxruntime. Start with docs/onnx.md.
"""

from .axes import Dim
from .errors import OnnxError
from .export import export
from .program import OnnxProgram
from .state import is_in_onnx_export

__all__ = ["Dim", "OnnxError", "OnnxProgram", "export", "is_in_onnx_export"]
