"""The commands and their errors. Every error that a user can cause arrives in `run`, which prints one line on stderr."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ..errors import ShadergradError
from ..version import __version__
from .bench import bench
from .calibrate_coevolution import calibrate
from .launching import is_launched_here, record
from .page_commands import export, gallery, lite, playground, serve
from .pair_proteins import pair
from .predict_coevolution import predict_app
from .predict_gpt import gpt
from .predict_recipes import PredictGroup, add_predictions
from .recipe_commands import LogicGroup, RecipeGroup
from .run_script import PASSED_ON, run_script
from .suggestions import explained, hide_types_of_flags
from .tune import tune

BAD_INPUT = 2

app = typer.Typer(
    help="Deep learning that trains on any GPU a shader can reach, through WebGPU.",
    epilog="Begin with: shadergrad info, then shadergrad train digits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(
    typer.Typer(cls=RecipeGroup, no_args_is_help=True, subcommand_metavar="RECIPE|FILE.py [OPTIONS]..."),
    name="train",
    help="Train a network from data to checkpoint: a recipe by name, or your own by its path.",
)
app.add_typer(
    typer.Typer(cls=LogicGroup, no_args_is_help=True),
    name="logic",
    help="Networks and automata of logic gates.",
)
app.add_typer(
    predict_app,
    name="predict",
    cls=PredictGroup,
    help="Predict with a trained model. RECIPE is a name, or the path of your own.",
)
predict_app.command("gpt")(gpt)
add_predictions(predict_app)
app.add_typer(bench, name="bench", help="Measure the speed of this machine.")


def _print_version(wanted: bool) -> None:
    if wanted:
        Console().out(f"shadergrad {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options before a command."""


@app.command()
def info(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also print limits and features.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, for programs.")] = False,
) -> None:
    """Show the device that trainings use here, versions, and every adapter: its backend, profile, limits and features."""
    from .info import print_info, print_json  # wgpu takes longer to load than most commands to run

    console = Console(highlight=False)
    if as_json:
        print_json(console)
    else:
        print_info(console, verbose=verbose)


app.command("run", context_settings=PASSED_ON)(run_script)
app.command()(export)
app.command()(gallery)
app.command()(lite)
app.command()(playground)
app.command()(serve)
app.command()(calibrate)
app.command()(pair)
app.command()(tune)


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command in `arguments`. Returns the exit code."""
    hide_types_of_flags()
    try:
        # without standalone mode typer raises usage errors instead of printing them, and returns exit codes
        return app(arguments, prog_name="shadergrad", standalone_mode=False) or 0
    except typer.TyperException as error:
        message = explained(error)  # empty where help was printed for want of a command
        return _fail(message) if message else BAD_INPUT
    except ShadergradError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(message: str) -> int:
    if is_launched_here():
        record(message)  # which the launcher shows
        return BAD_INPUT
    Console(stderr=True, highlight=False).print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    return BAD_INPUT
