"""Finds and loads recipes. In: a package and a name, or a path. Out: the recipe, or a one-line error with the reason."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from .errors import RecipeError
from .recipe import Recipe

NAME = "RECIPE"
HINT = f"Hint: end it with {NAME} = Recipe(...), as examples/my_recipe.py does."


def recipe_names(folders: Iterable[str]) -> list[str]:
    """The names of the recipes of a package, given its __path__: those of its files, with - for _."""
    return sorted(module.name.replace("_", "-") for module in iter_modules(folders) if not module.ispkg)


def packaged_recipe(package: str, name: str) -> Recipe:
    """The recipe `name` of a package. Raises RecipeError if its file cannot be used."""
    module = f"{package}.{name.replace('-', '_')}"
    spec = find_spec(module)
    path = Path(spec.origin) if spec is not None and spec.origin else Path(module)
    return _recipe_in(_importing(path, lambda: import_module(module)), path)


def recipe_file(path: Path) -> Recipe:
    """The recipe in a user's file, which may import its neighbours, as a script may.

    Raises RecipeError if there is no such file, it cannot be run, or has no recipe.
    """
    if not path.is_file():
        raise RecipeError(f"there is no recipe file {path}{_neighbours(path)}")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise RecipeError(f"cannot read the recipe {path}: {error.strerror or error}.") from None
    module = ModuleType(f"shadergrad_recipe_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where dataclasses look for the names of their annotations
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)

    def execute() -> ModuleType:
        exec(compile(source, str(path), "exec"), module.__dict__)
        return module

    return _recipe_in(_importing(path, execute), path)


def is_path(word: str) -> bool:
    """Whether a word on the command line means a file, and not the name of a recipe."""
    return word.endswith(".py") or Path(word).name != word or Path(word).exists()


def unknown_recipe(word: str, names: list[str]) -> RecipeError:
    """The error for a word that is neither a recipe's name nor a file."""
    near = get_close_matches(word.replace("_", "-"), names)
    files = get_close_matches(f"{word}.py", [path.name for path in _python_files(Path())])
    meant = ", ".join(near + files)
    hint = f"Did you mean {meant}?" if meant else f"There are {', '.join(names)}; your own is the path of its file."
    return RecipeError(f"No such command {word!r}: it is neither a recipe nor a file. {hint}")


def _importing(path: Path, load: Callable[[], ModuleType]) -> ModuleType:
    """The result of `load`; its errors become one line that names the line of the file."""
    try:
        return load()
    except RecipeError as error:
        raise RecipeError(f"{path}{_line_in(path, error)}: {error}") from None
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        text = f": {error.text.strip()}" if error.text else ""
        raise RecipeError(f"{error.filename or path}{line}: {error.msg}{text}") from None
    except (Exception, SystemExit) as error:
        kind = type(error).__name__
        message = " ".join(str(error).split())
        raise RecipeError(f"{path}{_line_in(path, error)}: {kind}{': ' if message else ''}{message}") from error


def _line_in(path: Path, error: BaseException) -> str:
    """The line of the file that raised an error, or that called the code that did."""
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f", line {line}"


def _recipe_in(module: ModuleType, path: Path) -> Recipe:
    found: Any = getattr(module, NAME, None)
    if isinstance(found, Recipe):
        return found
    if found is not None:
        raise RecipeError(f"{path}: its {NAME} is a {type(found).__name__}, and not a Recipe. {HINT}")
    names = {name.upper(): name for name in vars(module) if not name.startswith("_") and name != Recipe.__name__}
    near = get_close_matches(NAME, names, cutoff=0.75)
    has = f", but {names[near[0]]}" if near else ""
    raise RecipeError(f"{path} has no {NAME}{has}. {HINT}")


def _neighbours(path: Path) -> str:
    """The end of a missing-file error: the files that exist there."""
    if path.is_dir():
        names = [file.name for file in _python_files(path)]
        return f": that is a folder, with {', '.join(names[:5])}." if names else ": that is a folder."
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}."
    near = get_close_matches(path.name, [file.name for file in _python_files(path.parent)])
    return f". Did you mean {', '.join(str(path.parent / name) for name in near)}?" if near else "."


def _python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.py") if path.is_file())
