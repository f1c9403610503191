"""torch.onnx.export, with PyTorch's arguments: `shadergrad.onnx.export` does the work."""

from __future__ import annotations

import enum
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ... import onnx
from ...nn.module import Module
from ...onnx.export import OPSETS

REFUSED = (  # options that change the contents of the file, or write further files
    "custom_translation_table",
    "custom_opsets",
    "export_modules_as_functions",
    "report",
    "profile",
    "dump_exported_program",
)


class TrainingMode(enum.Enum):
    """The mode of the model in the file. Files are for inference."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """The operators of a file: always those of ONNX."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    optimize: bool = True,
    verify: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Any] | None = None,
    training: TrainingMode = TrainingMode.EVAL,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    autograd_inlining: bool = True,
    **options: Any,
) -> onnx.OnnxProgram | None:
    """`shadergrad.onnx.export` with PyTorch's arguments; f: a path, or a file that is open for writing bytes.

    dynamo=True and dynamo=False write the same file; the latter returns None. verbose, optimize, do_constant_folding,
    autograd_inlining and artifacts_dir do not change what a file computes. An opset below 18 becomes 18, with a warning, as in
    PyTorch if it cannot convert.

    Raises OnnxError for files for training, files without weights, and custom operators.
    """
    _refuse_options(options)
    is_training = isinstance(model, Module) and model.training
    if training is TrainingMode.TRAINING or (training is TrainingMode.PRESERVE and is_training):
        raise onnx.OnnxError("[onnx] a file is for inference. Hint: leave `training` out; the model stays in its mode.")
    if not export_params or operator_export_type is not OperatorExportTypes.ONNX:
        raise onnx.OnnxError(
            "[onnx] a file holds its weights, and operators of ONNX alone. Hint: leave these options out."
        )
    if opset_version is not None and opset_version < OPSETS[0]:
        warnings.warn(
            f"opset_version={opset_version}: the file is written for {OPSETS[0]}, the earliest there is.", stacklevel=2
        )
        opset_version = OPSETS[0]
    is_path = isinstance(f, str | os.PathLike)
    program = onnx.export(
        model,
        args,
        f if is_path else None,
        kwargs=kwargs,
        input_names=input_names,
        output_names=output_names,
        opset_version=opset_version,
        dynamic_axes=dynamic_axes,
        dynamic_shapes=dynamic_shapes,
        keep_initializers_as_inputs=keep_initializers_as_inputs,
        external_data=None if external_data else False,
        verify=verify,
    )
    if f is not None and not is_path:
        f.write(program.model_proto.SerializeToString())
    return program if dynamo else None


def _refuse_options(options: Mapping[str, Any]) -> None:
    """Raise for unknown options, and for PyTorch's options that this library lacks unless they are off."""
    for name, value in options.items():
        if name not in REFUSED:
            raise TypeError(f"export() got an unexpected keyword argument {name!r}")
        if value:
            raise onnx.OnnxError(f"[onnx] {name}={value!r} is not supported. Hint: leave it out.")


def names() -> dict[str, Any]:
    """The names in torch.onnx."""
    return {
        "export": export,
        "is_in_onnx_export": onnx.is_in_onnx_export,
        "ONNXProgram": onnx.OnnxProgram,
        "OnnxExporterError": onnx.OnnxError,
        "TrainingMode": TrainingMode,
        "OperatorExportTypes": OperatorExportTypes,
    }
