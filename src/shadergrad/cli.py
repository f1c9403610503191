"""The command `shadergrad`. In: words on a command line. Out: exit code 0, 2 for bad input, 130 for Ctrl-C.

All errors that a user can cause arrive in `main`, which prints one line on stderr.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from .errors import ShadergradError

BAD_INPUT = 2
INTERRUPTED = 130  # what shells use for a process that SIGINT ended

app = typer.Typer(
    help="Deep learning that trains on any GPU a shader can reach, through WebGPU.",
    epilog="Begin with: shadergrad info, then shadergrad train digits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
train_app = typer.Typer(help="Train a network from data to checkpoint.", no_args_is_help=True)
app.add_typer(train_app, name="train")
logic_app = typer.Typer(help="Networks and automata of logic gates.", no_args_is_help=True)
app.add_typer(logic_app, name="logic")

Device = Annotated[
    str, typer.Option(help="webgpu, cpu, webgpu:N for the N-th adapter, or auto: a GPU if there is one.")
]
Epochs = Annotated[int, typer.Option(help="How often to go through the training data.")]
BatchSize = Annotated[int, typer.Option(help="Samples a step.")]
LearningRate = Annotated[float, typer.Option(help="The optimizer's learning rate.")]
Seed = Annotated[int, typer.Option(help="Decides the first weights and the order of samples.")]
Out = Annotated[Path, typer.Option(help="The folder for checkpoint, metrics.jsonl and pictures.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")]
Steps = Annotated[int, typer.Option(help="Optimizer steps.")]
Starts = Annotated[int, typer.Option(help="Start states a step.")]
LogicSeed = Annotated[int, typer.Option(help="Decides wires, start states and which cells change.")]

Data = Annotated[
    Path | None, typer.Option(help="The folder with the data set's folder.", show_default="SHADERGRAD_DATA_DIR")
]
Mirror = Annotated[
    str | None, typer.Option(help="Where to fetch missing files from.", show_default="SHADERGRAD_DATA_MIRROR")
]
Text = Annotated[Path | None, typer.Option(help="A text file in UTF-8.", show_default="a small tale")]


@train_app.command()
def xor(
    device: Device = "auto",
    epochs: Epochs = 20,
    batch_size: BatchSize = 4,
    lr: LearningRate = 1e-2,
    seed: Seed = 0,
    out: Out = Path("runs/xor"),
    resume: Resume = False,
) -> None:
    """Exclusive or: four points, an MLP 2-8-1, AdamW."""
    _train("xor", (epochs, batch_size, lr, out, seed, device, resume))


@train_app.command()
def regression(
    device: Device = "auto",
    epochs: Epochs = 100,
    batch_size: BatchSize = 32,
    lr: LearningRate = 0.1,
    seed: Seed = 0,
    out: Out = Path("runs/regression"),
    resume: Resume = False,
) -> None:
    """A straight line: y = 2x + 3 from noisy points, SGD."""
    _train("regression", (epochs, batch_size, lr, out, seed, device, resume))


@train_app.command()
def digits(
    device: Device = "auto",
    epochs: Epochs = 40,
    batch_size: BatchSize = 64,
    lr: LearningRate = 3e-3,
    seed: Seed = 0,
    out: Out = Path("runs/digits"),
    resume: Resume = False,
) -> None:
    """Handwritten digits: 1,797 images of 8x8 pixels, an MLP 64-128-64-10, AdamW."""
    _train("digits", (epochs, batch_size, lr, out, seed, device, resume))


@train_app.command()
def mnist(
    device: Device = "auto",
    epochs: Epochs = 5,
    batch_size: BatchSize = 128,
    lr: LearningRate = 1e-3,
    seed: Seed = 0,
    out: Out = Path("runs/mnist"),
    resume: Resume = False,
    data: Data = None,
    mirror: Mirror = None,
) -> None:
    """MNIST: 70,000 images of 28x28 pixels, an MLP 784-128-10, AdamW."""
    _train("mnist", (epochs, batch_size, lr, out, seed, device, resume), data=data, mirror=mirror)


@train_app.command("digits-cnn")
def digits_cnn(
    device: Device = "auto",
    epochs: Epochs = 30,
    batch_size: BatchSize = 64,
    lr: LearningRate = 1e-3,
    seed: Seed = 0,
    out: Out = Path("runs/digits-cnn"),
    resume: Resume = False,
) -> None:
    """The digits with two convolutions, a pooling and 128 features, AdamW."""
    _train("digits-cnn", (epochs, batch_size, lr, out, seed, device, resume))


@train_app.command()
def autoencoder(
    device: Device = "auto",
    epochs: Epochs = 60,
    batch_size: BatchSize = 32,
    lr: LearningRate = 3e-3,
    seed: Seed = 0,
    out: Out = Path("runs/autoencoder"),
    resume: Resume = False,
) -> None:
    """Digits through 8 numbers and back: an MLP 64-32-8-32-64, with a picture of what comes back."""
    _train("autoencoder", (epochs, batch_size, lr, out, seed, device, resume))


@train_app.command("char-lm")
def char_lm(
    device: Device = "auto",
    epochs: Epochs = 10,
    batch_size: BatchSize = 64,
    lr: LearningRate = 3e-3,
    seed: Seed = 0,
    out: Out = Path("runs/char-lm"),
    resume: Resume = False,
    text: Text = None,
) -> None:
    """The next character of a text: embeddings and an MLP over 16 characters. Writes a few lines of its own."""
    _train("char-lm", (epochs, batch_size, lr, out, seed, device, resume), text=text)


@train_app.command("digits-logic")
def digits_logic(
    device: Device = "auto",
    epochs: Epochs = 40,
    batch_size: BatchSize = 96,
    lr: LearningRate = 2e-2,
    seed: Seed = 0,
    out: Out = Path("runs/digits-logic"),
    resume: Resume = False,
) -> None:
    """The digits by logic gates alone: thresholds, three layers of 2,000 gates, counting. Adam."""
    _train("digits-logic", (epochs, batch_size, lr, out, seed, device, resume))


# name: (what is trained, steps, batch), the article's settings; its seed is 23
AUTOMATA = {
    "life": ("Game of Life, learned by gates from its 512 neighbourhoods.", 3000, 20),
    "checkerboard": ("An automaton of gates that makes a checkerboard of noise.", 500, 2),
    "checkerboard-async": ("The same where each cell changes with probability 0.6 a step.", 800, 1),
    "lizard": ("An automaton of gates that grows a lizard from one cell.", 3500, 1),
    "letter-g": ("An automaton of gates that draws a letter in four colours.", 3000, 1),
}
AUTOMATA_SEED = 23


def _add_automaton(name: str, help_text: str, default_steps: int, default_batch: int) -> None:
    @train_app.command(name, help=f"{help_text} Then hardened to a circuit, and evaluated.")
    def _(
        device: Device = "auto",
        steps: Steps = default_steps,
        batch_size: Starts = default_batch,
        seed: LogicSeed = AUTOMATA_SEED,
        out: Out = Path(f"runs/{name}"),
        resume: Resume = False,
    ) -> None:
        from .recipes.logic_experiment import run as run_experiment
        from .recipes.logic_loop import StepSettings

        if not run_experiment(StepSettings(name, steps, batch_size, seed, out, device, resume), Console()):
            raise typer.Exit(INTERRUPTED)


for _name, _settings in AUTOMATA.items():
    _add_automaton(_name, *_settings)


@logic_app.command()
def study(
    experiment: Annotated[str, typer.Argument(help=f"One of {', '.join(AUTOMATA)}.")],
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 20,
    first_seed: Annotated[int, typer.Option(help="The first of them; the others follow.")] = AUTOMATA_SEED,
    device: Device = "auto",
    steps: Annotated[int | None, typer.Option(help="Optimizer steps of each.", show_default="the experiment's")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Start states a step.", show_default="the experiment's")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write.", show_default="runs/study-EXPERIMENT")] = None,
) -> None:
    """How often and when training converges, seed by seed. Run again, it goes on where it was stopped."""
    from .recipes.logic_study import StudySettings
    from .recipes.logic_study import study as run_study

    if experiment not in AUTOMATA:
        raise typer.BadParameter(f"there is no experiment {experiment!r}; choose of {', '.join(AUTOMATA)}.")
    _, default_steps, default_batch = AUTOMATA[experiment]
    settings = StudySettings(
        experiment,
        seeds,
        first_seed,
        default_steps if steps is None else steps,
        default_batch if batch_size is None else batch_size,
        Path(f"runs/study-{experiment}") if out is None else out,
        device,
    )
    if not run_study(settings, Console()):
        raise typer.Exit(INTERRUPTED)


def _train(name: str, choices: tuple[int, int, float, Path, int, str, bool], **own: Any) -> None:
    """Run the recipe in the module of that name; `own` are the options that only it has."""
    from .recipes.loop import train
    from .recipes.task import Settings

    recipe = import_module(f".recipes.{name.replace('-', '_')}", __package__)
    if not train(name, recipe.build, Settings(*choices, own=own), Console()):
        raise typer.Exit(INTERRUPTED)


@app.command()
def info() -> None:
    """Show versions and every adapter: its backend, limits, features and the profile that it would get."""
    from .info import print_info

    print_info(Console(highlight=False))


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command that `arguments` ask for; returns the exit code."""
    try:
        # without standalone mode typer raises usage errors instead of printing them, and returns exit codes
        return app(arguments, prog_name="shadergrad", standalone_mode=False) or 0
    except typer.TyperException as error:
        message = error.format_message()  # empty where help was printed for want of a command
        return _fail(f"{message} (shadergrad --help lists what there is)") if message else BAD_INPUT
    except ShadergradError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def _fail(message: str) -> int:
    Console(stderr=True, highlight=False).print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    return BAD_INPUT
