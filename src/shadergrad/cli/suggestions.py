"""Suggestions for a mistyped command line. In: a command line that typer refuses. Out: an error message with the nearest valid word."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperOption

# words of other programs, and ours
MEANT = {
    "--learning-rate": "--lr",
    "--rate": "--lr",
    "--batch": "--batch-size",
    "--bs": "--batch-size",
    "--epoch": "--epochs",
    "--num-epochs": "--epochs",
    "--iterations": "--steps",
    "--max-steps": "--steps",
    "--output": "--out",
    "--output-dir": "--out",
    "--continue": "--resume",
    "--restart": "--overwrite",
    "--force": "--overwrite",
    "--gpu": "--device",
    "--cuda": "--device",
    "--cpu": "--device",
}


def explained(error: typer.TyperException) -> str:
    """The message of a command-line error, with the nearest valid word and a pointer to the help; empty if help was shown."""
    context: Any = getattr(error, "ctx", None)
    where = f"({context.command_path if context is not None else 'shadergrad'} --help lists what there is)"
    wrong = getattr(error, "option_name", None)
    if wrong is None or context is None:
        message = error.format_message()
        return f"{message}{_arguments(error, context)} {where}" if message else ""
    there = [name for parameter in context.command.params for name in parameter.opts if name.startswith("--")]
    written = wrong.replace("_", "-")
    near = [MEANT[written]] if MEANT.get(written) in there else get_close_matches(written, there, 1)
    return f"No such option: {wrong}.{f' Did you mean {near[0]}?' if near else ''} {where}"


def _arguments(error: typer.TyperException, context: Any) -> str:
    """Which arguments a command takes in which order, where one of several is missing."""
    missing = getattr(error, "param", None)
    if context is None or missing is None or missing.param_type_name != "argument":
        return ""
    names = [(p.metavar or p.name).upper() for p in context.command.params if p.param_type_name == "argument"]
    return f" Hint: it takes {', then '.join(names)}." if len(names) > 1 else ""


def hide_types_of_flags() -> None:
    """Let help show no <bool> beside options that take no value. typer has no switch for it; where it changes, they show again."""
    kind: Any = TyperOption
    shown = getattr(kind, "display_type_rich", None)
    if shown is None or getattr(shown, "hides_flags", False):
        return

    def display(self: Any, *args: Any, **kwargs: Any) -> str | None:
        return None if self.is_flag else shown(self, *args, **kwargs)

    display.hides_flags = True  # type: ignore[attr-defined]
    kind.display_type_rich = display
