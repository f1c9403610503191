"""The command `shadergrad`. In: words on a command line. Out: exit code 0, 2 for bad input, 130 for Ctrl-C."""

from .app import BAD_INPUT, main, run
from .recipe_commands import INTERRUPTED

__all__ = ["BAD_INPUT", "INTERRUPTED", "main", "run"]
