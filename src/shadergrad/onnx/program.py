"""A model as ONNX: in memory, as a file, and, with onnxruntime, run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..dtypes import bfloat16
from ..system.atomic_files import replacing
from ..system.optional_packages import require
from ..tensor import Tensor
from ..tensor.creation import tensor
from .errors import OnnxError

LARGEST = (1 << 31) - (1 << 20)  # bytes of a file in protobuf's format, minus room for everything but weights


class OnnxProgram:
    """An exported model.

    model_proto: the `onnx.ModelProto`. input_names, output_names: of its graph, in order.
    """

    def __init__(self, model_proto: Any, inputs: Sequence[tuple[str, Any]], outputs: Sequence[tuple[str, Any]]) -> None:
        """inputs, outputs: names and dtypes."""
        self.model_proto = model_proto
        self.input_names = [name for name, _ in inputs]
        self.output_names = [name for name, _ in outputs]
        self._dtypes = [dtype for _, dtype in inputs]
        self._session: Any = None

    def save(self, path: str | os.PathLike[str], external_data: bool | None = None) -> None:
        """Write the file. external_data: the weights go to a second file, `path` and `.data`; by default where one file cannot hold
        them. Raises OnnxError for False if they are too large for one file."""
        onnx = require("onnx", "onnx", "export to ONNX")
        size = self.model_proto.ByteSize()
        apart = size > LARGEST if external_data is None else external_data
        if size > LARGEST and not apart:
            raise OnnxError(
                f"[onnx] {size} bytes do not fit one file in ONNX's format. Hint: external_data=True puts the weights beside it."
            )
        if apart:
            weights = f"{Path(path).name}.data"
            Path(path).with_name(weights).unlink(missing_ok=True)  # onnx appends
            copied = (
                type(self.model_proto).FromString(self.model_proto.SerializeToString())
                if size <= LARGEST
                else self.model_proto
            )
            onnx.save_model(copied, os.fspath(path), save_as_external_data=True, location=weights, size_threshold=0)
            return
        with replacing(Path(path), OnnxError) as file:
            file.write(self.model_proto.SerializeToString())

    def __call__(self, *args: Tensor) -> list[Tensor]:
        """The outputs of onnxruntime for these inputs, in the order of `input_names`, on the cpu device.

        Raises OnnxError for another number of them, other dtypes, and other sizes where these are fixed.
        """
        if len(args) != len(self.input_names):
            raise OnnxError(
                f"[onnx] the program takes {len(self.input_names)} tensors ({', '.join(self.input_names)}), and got {len(args)}."
            )
        if any(d is bfloat16 for d in self._dtypes):
            raise OnnxError(
                "[onnx] inputs of bfloat16 have no NumPy arrays to be run with. Hint: export the model with float32 inputs."
            )
        if self._session is None:
            runtime = require("onnxruntime", "onnx", "running an ONNX program")
            self._session = runtime.InferenceSession(
                self.model_proto.SerializeToString(), providers=["CPUExecutionProvider"]
            )
        for name, a, d in zip(self.input_names, args, self._dtypes, strict=True):
            if isinstance(a, Tensor) and a.dtype is not d:
                raise OnnxError(
                    f"[onnx] {name} is {a.dtype.name}, and the program takes {d.name}. Hint: .to(sg.{d.name})."
                )
        arrays = [
            np.asarray(a.detach().numpy() if isinstance(a, Tensor) else a, d.numpy)
            for a, d in zip(args, self._dtypes, strict=True)
        ]
        for k, (name, array) in enumerate(zip(self.input_names, arrays, strict=True)):
            axes = [d.dim_param or d.dim_value for d in self.model_proto.graph.input[k].type.tensor_type.shape.dim]
            if len(axes) != array.ndim or any(
                type(n) is int and n != m for n, m in zip(axes, array.shape, strict=True)
            ):
                raise OnnxError(
                    f"[onnx] {name} is {array.shape}, and the program takes ({', '.join(map(str, axes))}). Hint: export with dynamic_axes for axes "
                    "that vary."
                )
        found = self._session.run(None, dict(zip(self.input_names, arrays, strict=True)))
        return [tensor(value, device="cpu") for value in found]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}  # another copy begins its own

    def __repr__(self) -> str:
        nodes = len(self.model_proto.graph.node)
        return f"OnnxProgram({nodes} nodes, {', '.join(self.input_names)} -> {', '.join(self.output_names)})"
