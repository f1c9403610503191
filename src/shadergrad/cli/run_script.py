"""The command `shadergrad run`: a PyTorch program, unmodified, on this library."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ShadergradError

# all behind the script's name is the script's
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


class ScriptError(ShadergradError, OSError):
    """A script that does not exist or cannot be read."""


def run_script(
    context: typer.Context,
    script: Annotated[
        str, typer.Argument(help="The program, followed by its own arguments.", metavar="SCRIPT.py [ARGUMENTS]...")
    ],
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is the name of a module, as in python -m.")] = False,
    device: Annotated[
        str,
        typer.Option(help="The device behind 'cuda': webgpu, webgpu:N, cpu (no cuda), or auto: a GPU if there is one."),
    ] = "auto",
) -> None:
    """Run an unmodified PyTorch program. In its process torch, torch.nn, torch.utils.data, ... are this library.

    With a GPU torch.cuda.is_available() is true and 'cuda' is that GPU. A program that never mentions cuda or mps creates its
    tensors there by default. At the end the command lists the names that the program used and the library lacks, with file and line.
    """
    from .. import as_torch  # the library, which help needs nothing of
    from ..as_torch.device_names import give_device  # for the same reason

    path = Path(script)
    if not module and not path.is_file():
        raise ScriptError(f"{script}: there is no such file. To run a module: shadergrad run -m {script}")
    give_device(device, None if module else path)
    code = as_torch.run_module(script, context.args) if module else as_torch.run_script(path, context.args)
    sys.stdout.flush()
    raise typer.Exit(code)
